//! Colours of the figures.
//!
//! The eight colours of Okabe and Ito ("Color Universal Design", 2008), which
//! people with the common forms of colour blindness tell apart; lighter tints
//! of a colour show variants of the same thing.

use coexec_sim::timeline::{Activity, TrackKind};
use plotters_backend::BackendColor;

/// An opaque sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

pub(crate) const BLUE: Colour = Colour(0x00, 0x72, 0xB2);
pub(crate) const GREEN: Colour = Colour(0x00, 0x9E, 0x73);
pub(crate) const VERMILION: Colour = Colour(0xD5, 0x5E, 0x00);
const ORANGE: Colour = Colour(0xE6, 0x9F, 0x00);
const PURPLE: Colour = Colour(0xCC, 0x79, 0xA7);
/// Rather than sky blue, which a tint of [`BLUE`] comes close to.
const YELLOW: Colour = Colour(0xF0, 0xE4, 0x42);

pub(crate) const WHITE: Colour = Colour(0xFF, 0xFF, 0xFF);
/// Text, axes and markers.
pub(crate) const INK: Colour = Colour(0x22, 0x22, 0x22);
/// Text of less weight: subtitles, units.
pub(crate) const MUTED: Colour = Colour(0x5C, 0x5C, 0x5C);
/// Lines that guide the eye.
pub(crate) const GRID: Colour = Colour(0xDD, 0xDD, 0xDD);
/// Ground of a lane in which nothing happens.
pub(crate) const LANE: Colour = Colour(0xF5, 0xF5, 0xF5);
/// Ground of waiting.
pub(crate) const WAIT: Colour = Colour(0xEA, 0xEA, 0xEA);
/// Hatching over waiting.
pub(crate) const HATCH: Colour = Colour(0xB4, 0xB4, 0xB4);

/// Luminance of a ground up to which white text has a contrast of 3:1
/// (1.05 / (0.30 + 0.05)), the least that WCAG 2.1 accepts for large text.
const WHITE_TEXT_LIMIT: f64 = 0.30;

impl Colour {
    /// For the drawing library.
    pub(crate) fn opaque(self) -> BackendColor {
        BackendColor { alpha: 1.0, rgb: (self.0, self.1, self.2) }
    }

    /// This colour mixed with `white` parts of 1 of white.
    pub(crate) fn tint(self, white: f64) -> Self {
        let mix = |channel: u8| (f64::from(channel) + (255.0 - f64::from(channel)) * white).round() as u8;
        Self(mix(self.0), mix(self.1), mix(self.2))
    }

    /// Relative luminance of sRGB (WCAG 2.1), 0 for black and 1 for white.
    fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }

    /// The colour of text that reads on this one.
    pub(crate) fn ink(self) -> Self {
        if self.luminance() > WHITE_TEXT_LIMIT { INK } else { WHITE }
    }
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
            (Activity::Transform, _) => Self::Transform,
            (Activity::Synchronise, _) => Self::Synchronise,
            (Activity::Wait, _) => Self::Wait,
        }
    }

    /// Its fill; [`Self::Wait`] is hatched besides.
    pub(crate) fn colour(self) -> Colour {
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
                let ground = meaning.colour().tint(white);
                let (one, two) = (ground.luminance() + 0.05, ground.ink().luminance() + 0.05);
                assert!(one.max(two) / one.min(two) >= 3.0, "{meaning:?} {white}");
            }
        }
    }

    #[test]
    fn a_full_tint_is_white() {
        assert_eq!(BLUE.tint(1.0), WHITE);
        assert_eq!(BLUE.tint(0.0), BLUE);
    }
}
