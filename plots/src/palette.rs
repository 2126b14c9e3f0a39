//! Colours of the figures.
//!
//! The eight colours of Okabe and Ito ("Color Universal Design", 2008), which
//! people with the common forms of colour blindness tell apart; lighter tints
//! of a colour show variants of the same thing.

use coexec_sim::timeline::{Activity, TrackKind};
use plotters::style::{RGBColor, WHITE};

pub(crate) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
pub(crate) const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
pub(crate) const VERMILION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
pub(crate) const ORANGE: RGBColor = RGBColor(0xE6, 0x9F, 0x00);
pub(crate) const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
/// Of markers only: a tint of [`BLUE`] comes close to it.
pub(crate) const SKY_BLUE: RGBColor = RGBColor(0x56, 0xB4, 0xE9);
/// Of slices rather than [`SKY_BLUE`].
const YELLOW: RGBColor = RGBColor(0xF0, 0xE4, 0x42);

/// Text, axes and markers.
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Text of less weight: subtitles, units.
pub(crate) const MUTED: RGBColor = RGBColor(0x5C, 0x5C, 0x5C);
/// Lines that guide the eye.
pub(crate) const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);
/// Lines that guide the eye between labelled ones.
pub(crate) const MINOR_GRID: RGBColor = RGBColor(0xF2, 0xF2, 0xF2);
/// Ground of predictions within 10 % of the measurement.
pub(crate) const CLOSE_BAND: RGBColor = RGBColor(0xE3, 0xEC, 0xF4);
/// Ground of a lane in which nothing happens.
pub(crate) const LANE: RGBColor = RGBColor(0xF5, 0xF5, 0xF5);
/// Ground of waiting.
pub(crate) const WAIT: RGBColor = RGBColor(0xEA, 0xEA, 0xEA);
/// Hatching over waiting, bars of histograms, markers of no group.
pub(crate) const HATCH: RGBColor = RGBColor(0xB4, 0xB4, 0xB4);

/// Luminance of a ground up to which white text has a contrast of 3:1
/// (1.05 / (0.30 + 0.05)), the least that WCAG 2.1 accepts for large text.
const WHITE_TEXT_LIMIT: f64 = 0.30;

/// `colour` mixed with `white` parts of 1 of white.
pub(crate) fn tint(colour: RGBColor, white: f64) -> RGBColor {
    let mix = |channel: u8| (f64::from(channel) + (255.0 - f64::from(channel)) * white).round() as u8;
    RGBColor(mix(colour.0), mix(colour.1), mix(colour.2))
}

/// The colour of text that reads on `ground`.
pub(crate) fn ink_on(ground: RGBColor) -> RGBColor {
    if luminance(ground) > WHITE_TEXT_LIMIT { INK } else { WHITE }
}

/// Relative luminance of sRGB (WCAG 2.1), 0 for black and 1 for white.
fn luminance(colour: RGBColor) -> f64 {
    let linear = |channel: u8| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
}

/// What a slice's colour means: an entry of the legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    CpuCompute,
    GpuCompute,
    NpuCompute,
    Launch,
    Transform,
    Synchronise,
    Wait,
}

impl Meaning {
    /// Every meaning, in the order of the legend.
    pub(crate) const ALL: [Self; 7] = [
        Self::CpuCompute,
        Self::GpuCompute,
        Self::NpuCompute,
        Self::Launch,
        Self::Transform,
        Self::Synchronise,
        Self::Wait,
    ];

    /// What a slice of a track means.
    pub(crate) fn of(track: TrackKind, activity: Activity) -> Self {
        match (activity, track) {
            (Activity::Compute, TrackKind::Core) => Self::CpuCompute,
            (Activity::Compute, TrackKind::GpuQueue | TrackKind::ComputeUnits) => Self::GpuCompute,
            (Activity::Compute, TrackKind::Npu) => Self::NpuCompute,
            (Activity::Launch, _) => Self::Launch,
            (Activity::Transform | Activity::Transfer, _) => Self::Transform,
            (Activity::Synchronise, _) => Self::Synchronise,
            (Activity::Wait, _) => Self::Wait,
        }
    }

    /// Its fill; [`Self::Wait`] is hatched besides.
    pub(crate) fn colour(self) -> RGBColor {
        match self {
            Self::CpuCompute => BLUE,
            Self::GpuCompute => GREEN,
            Self::NpuCompute => PURPLE,
            Self::Launch => ORANGE,
            Self::Transform => YELLOW,
            Self::Synchronise => VERMILION,
            Self::Wait => WAIT,
        }
    }

    /// Its entry in the legend.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::CpuCompute => "CPU compute",
            Self::GpuCompute => "GPU compute",
            Self::NpuCompute => "NPU compute",
            Self::Launch => "launch, fork or join",
            Self::Transform => "data transformation",
            Self::Synchronise => "synchronisation",
            Self::Wait => "waiting",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meanings_differ_in_colour() {
        for (index, one) in Meaning::ALL.iter().enumerate() {
            for other in &Meaning::ALL[index + 1..] {
                assert_ne!(one.colour(), other.colour());
            }
        }
    }

    #[test]
    fn text_on_a_fill_has_at_least_the_contrast_that_wcag_asks_of_large_text() {
        for meaning in Meaning::ALL {
            for white in [0.0, 0.3, 0.6] {
                let ground = tint(meaning.colour(), white);
                let (one, two) = (luminance(ground) + 0.05, luminance(ink_on(ground)) + 0.05);
                assert!(one.max(two) / one.min(two) >= 3.0, "{meaning:?} {white}");
            }
        }
    }

    #[test]
    fn a_full_tint_is_white() {
        assert_eq!(tint(BLUE, 1.0), WHITE);
        assert_eq!(tint(BLUE, 0.0), BLUE);
    }
}
