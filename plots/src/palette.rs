//! Colours and markers of the figures.
//!
//! Responsible for: the eight colours of Okabe and Ito ("Color Universal Design", 2008),
//! which people with the common forms of colour blindness can distinguish, lighter tints of
//! them, and the look of each group of points. Not for: drawing.
//! Invariant: a family of operators looks the same in every figure, and no two of up to 35
//! groups look the same in one figure.

use plotters::style::{RGBColor, WHITE};

/// A colour: red, green and blue from 0 to 255.
pub type Colour = RGBColor;

/// The CPU.
pub const BLUE: Colour = RGBColor(0x00, 0x72, 0xB2);
/// The GPU.
pub const GREEN: Colour = RGBColor(0x00, 0x9E, 0x73);
/// The main series of a figure, and synchronisation.
pub const VERMILION: Colour = RGBColor(0xD5, 0x5E, 0x00);
/// Launches.
pub const ORANGE: Colour = RGBColor(0xE6, 0x9F, 0x00);
/// The NPU.
pub const PURPLE: Colour = RGBColor(0xCC, 0x79, 0xA7);
/// Markers only: a tint of [`BLUE`] is too similar for areas.
pub const SKY_BLUE: Colour = RGBColor(0x56, 0xB4, 0xE9);
/// Data transformations.
pub const YELLOW: Colour = RGBColor(0xF0, 0xE4, 0x42);
/// Text, axes, and items without a group.
pub const INK: Colour = RGBColor(0x22, 0x22, 0x22);
/// Secondary text and lines.
pub const MUTED: Colour = RGBColor(0x5C, 0x5C, 0x5C);
/// Waiting, and markers of no group in particular.
pub const GREY: Colour = RGBColor(0xC4, 0xC4, 0xC4);

/// Grid lines at labelled ticks, and between them.
pub(crate) const GRID: [Colour; 2] = [RGBColor(0xDD, 0xDD, 0xDD), RGBColor(0xF2, 0xF2, 0xF2)];

/// Largest luminance of a background on which white text has a contrast of 3:1
/// (1.05 / (0.30 + 0.05)), the least that WCAG 2.1 accepts for large text.
const WHITE_TEXT_LIMIT: f64 = 0.30;

/// `colour` mixed with a fraction `white` of white.
pub fn tint(colour: Colour, white: f64) -> Colour {
    let mix = |channel: u8| (f64::from(channel) + (255.0 - f64::from(channel)) * white).round() as u8;
    RGBColor(mix(colour.0), mix(colour.1), mix(colour.2))
}

/// The text colour that is readable on the background `ground`.
pub(crate) fn ink_on(ground: Colour) -> Colour {
    if luminance(ground) > WHITE_TEXT_LIMIT { INK } else { WHITE }
}

/// Relative luminance of sRGB (WCAG 2.1), 0 for black and 1 for white.
fn luminance(colour: Colour) -> f64 {
    let linear = |channel: u8| {
        let value = f64::from(channel) / 255.0;
        if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(colour.0) + 0.7152 * linear(colour.1) + 0.0722 * linear(colour.2)
}

/// The shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A triangle pointing up.
    Triangle,
    /// A square standing on a corner.
    Diamond,
    /// A triangle pointing down.
    InvertedTriangle,
}

/// Colour and shape of a group's points.
pub type Look = (Colour, Shape);

/// Colours of groups, the most distinct first.
const COLOURS: [Colour; 7] = [BLUE, VERMILION, GREEN, PURPLE, ORANGE, INK, SKY_BLUE];
/// Their number is coprime to one more than that of the colours, so that the looks of one
/// colour all have different shapes.
const SHAPES: [Shape; 5] =
    [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond, Shape::InvertedTriangle];
/// Number of groups that can be distinguished.
pub(crate) const MAX_GROUPS: usize = COLOURS.len() * SHAPES.len();

/// Families of operators, and the index of their look. There are more families than colours: whole
/// networks have the colour of convolutions, with another shape.
const FAMILIES: [(&str, usize); 8] = [
    ("conv2d", 0),
    ("depthwise_conv2d", 1),
    ("fully_connected", 2),
    ("concat", 3),
    ("grouped_conv2d", 4),
    ("mean", 5),
    ("pool", 6),
    ("end_to_end", 14),
];

/// The look at `index`; low indices are the most distinct.
pub fn look(index: usize) -> Look {
    let index = index % MAX_GROUPS;
    // Each round of colours starts at another shape.
    let shape = (index + index / COLOURS.len()) % SHAPES.len();
    (COLOURS[index % COLOURS.len()], SHAPES[shape])
}

/// The looks of groups: fixed for families of operators, in order for other groups.
pub(crate) fn looks(groups: &[&str]) -> Vec<Look> {
    let family = |group: &str| {
        let family = group.strip_prefix("gpu/").unwrap_or(group).split('/').next();
        FAMILIES.iter().find(|(known, _)| family == Some(*known)).map(|&(_, index)| index)
    };
    let families: Vec<usize> = groups.iter().filter_map(|group| family(group)).collect();
    let mut free = (0..FAMILIES.len() + groups.len()).filter(|index| !families.contains(index));
    let mut used = Vec::new();
    let mut index_of = |group: &str| {
        // A second group of a family gets an unused look.
        let index = family(group).filter(|index| !used.contains(index)).or_else(|| free.next());
        used.extend(index);
        index.unwrap_or_default()
    };
    groups.iter().map(|group| look(index_of(group))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_on_a_fill_has_at_least_the_contrast_that_wcag_asks_of_large_text() {
        for colour in [BLUE, GREEN, VERMILION, ORANGE, PURPLE, YELLOW, GREY] {
            for white in [0.0, 0.3, 0.6] {
                let ground = tint(colour, white);
                let (one, two) = (luminance(ground) + 0.05, luminance(ink_on(ground)) + 0.05);
                assert!(one.max(two) / one.min(two) >= 3.0, "{colour:?} {white}");
            }
        }
    }

    #[test]
    fn a_full_tint_is_white() {
        assert_eq!(tint(BLUE, 1.0), WHITE);
        assert_eq!(tint(BLUE, 0.0), BLUE);
    }

    #[test]
    fn a_family_looks_the_same_in_every_figure() {
        let few = looks(&["gpu/mean", "gpu/pool"]);
        let more = looks(&["gpu/concat", "gpu/conv2d", "gpu/mean", "gpu/pool"]);
        assert_eq!(few, more[2..]);
    }

    #[test]
    fn groups_of_one_figure_look_different() {
        let names: Vec<String> = (0..MAX_GROUPS - 2).map(|index| format!("cpu/{index}/float")).collect();
        let mut groups: Vec<&str> = names.iter().map(String::as_str).collect();
        groups.extend(["gpu/conv2d", "gpu/conv2d/unseen"]);
        let looks = looks(&groups);
        for (index, look) in looks.iter().enumerate() {
            assert!(!looks[..index].contains(look), "{index}");
        }
    }
}
