//! The font of every figure.
//!
//! Responsible for: text styles, the width of a text, and shortening it to a
//! width. Not for: the position of a text.
//! Invariant: a text is as wide in an SVG as in a PNG, because both show
//! [`drawable`] text at the same size of the same font.

use std::sync::Once;

use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontFamily, FontStyle, IntoFont, RGBColor, TextStyle, register_font};

use crate::SCALE;

/// `DejaVu Sans` 2.37 (licence next to it), subset with fonttools 4.68
/// (`pyftsubset DejaVuSans.ttf --layout-features='' --legacy-kern --no-hinting`
/// `--notdef-outline --unicodes=` the characters of [`drawable`]) and adapted to
/// plotters, whose rules for text differ between a bitmap and an SVG. A size is
/// the height of a line, which is [`LINE_HEIGHT`] in an SVG; hence `hhea.descent`
/// is -639, which makes that height with the ascent of 1901. A bitmap's text is
/// placed higher; hence all outlines are moved down by 314 of 2048 units, the
/// difference for centred text in this font (0.5 ex - 0.12 em).
const DEJAVU_SANS: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// Families an SVG viewer tries in turn; the usual fallbacks (Arial, Helvetica)
/// are narrower than `DejaVu Sans`, so that labels still fit.
const FAMILIES: &str = "DejaVu Sans, sans-serif";

/// Height of a line in em: plotters divides the size of a style by this for an SVG's `font-size`.
pub(crate) const LINE_HEIGHT: f64 = 1.24;

/// Replaces a character that the embedded font lacks.
const REPLACEMENT: char = '?';

/// Ends a shortened text.
const ELLIPSIS: char = '…';

/// Fewest characters that a shortened text keeps before the ellipsis.
const MIN_STEM: usize = 4;

/// Text style of `size` figure pixels per em, vertically centred on its place.
pub(crate) fn style(size: f64, colour: RGBColor, align: HPos) -> TextStyle<'static> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // A test of this file ensures that the font opens; otherwise drawing would fail.
        let _ = register_font(FAMILIES, FontStyle::Normal, DEJAVU_SANS);
    });
    let font = (FontFamily::Name(FAMILIES), size * LINE_HEIGHT * f64::from(SCALE)).into_font();
    font.color(&colour).pos(Pos::new(align, VPos::Center))
}

/// `text` with each character that the embedded font lacks replaced.
pub(crate) fn drawable(text: &str) -> String {
    let has = |c| matches!(c, ' '..='~' | '°'..='³' | 'µ' | '·' | '×' | 'μ' | '–' | '—' | '…' | '←' | '→' | '≈' | '≤' | '≥');
    text.chars().map(|c| if has(c) { c } else { REPLACEMENT }).collect()
}

/// Width of `text` at `size` pixels per em, in figure pixels.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    let (width, _) = style(size, RGBColor::default(), HPos::Left)
        .font
        .box_size(text)
        .expect("the embedded font is registered, as a test of this file holds");
    f64::from(width) / f64::from(SCALE)
}

/// `text`, whole or shortened with an ellipsis to at most `room` figure pixels;
/// none if even [`MIN_STEM`] characters do not fit.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> Option<String> {
    let text = drawable(text);
    if text.trim().is_empty() {
        return None;
    }
    if width(&text, size) <= room {
        return Some(text);
    }
    let mut stem = text;
    while stem.pop().is_some() && stem.chars().count() >= MIN_STEM {
        let short = format!("{}{ELLIPSIS}", stem.trim_end());
        if width(&short, size) <= room {
            return Some(short);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_grows_with_the_size_and_matches_the_advance_of_the_font() {
        // DejaVu Sans 2.37: a digit advances 1303 of 2048 units.
        assert!((width("0000", 100.0) - 4.0 * 100.0 * 1303.0 / 2048.0).abs() < 1.0);
        assert!((width("0000", 200.0) / width("0000", 100.0) - 2.0).abs() < 0.01);
    }

    #[test]
    fn the_embedded_font_has_every_character_that_is_drawn() {
        let missing = width("\u{1}", 100.0);
        for character in "°±²³µ·×μ–—…←→≈≤≥".chars() {
            assert_eq!(drawable(&character.to_string()), character.to_string());
            assert!((width(&character.to_string(), 100.0) - missing).abs() > 0.1, "{character}");
        }
    }

    #[test]
    fn a_long_text_is_shortened_to_the_room_or_dropped() {
        let name = "conv2d 56x56x64 -> 128 (generic)";
        let short = fit(name, 11.0, 60.0).unwrap();
        assert!(short.ends_with('…') && name.starts_with(short.trim_end_matches('…')));
        assert!(width(&short, 11.0) <= 60.0);
        assert_eq!(fit(name, 11.0, 1e4).as_deref(), Some(name));
        assert_eq!(fit(name, 11.0, 30.0), None);
        assert_eq!(fit("  ", 11.0, 100.0), None);
    }

    #[test]
    fn characters_that_cannot_be_drawn_are_replaced() {
        assert_eq!(drawable("a\u{0}b\n→漢"), "a?b?→?");
    }
}
