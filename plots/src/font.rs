//! The font of every figure, measured and drawn.
//!
//! Responsible for: the width of a text, shortening it to a width, and the
//! pixels of its glyphs. Not for: where a text stands.
//! Invariant: a text is as wide in an SVG as in a PNG, because both show
//! [`drawable`] text at the same size of the same font. (The text styles of
//! plotters draw a bitmap's text 6 % larger than an SVG's, and higher.)

use std::convert::Infallible;
use std::sync::OnceLock;

use ab_glyph::{Font, FontRef, GlyphId, PxScale, point};
use plotters_backend::text_anchor::{HPos, Pos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, FontFamily, FontTransform};

use crate::palette::Colour;

/// `DejaVu Sans` 2.37 (licence beside it), cut down with fonttools 4.68:
/// `pyftsubset DejaVuSans.ttf --unicodes=U+0020-007E,U+00B0-00B3,U+00B5,U+00B7,`
/// `U+00D7,U+03BC,U+2013,U+2014,U+2026,U+2190,U+2192,U+2248,U+2264,U+2265`
/// `--layout-features='' --legacy-kern --no-hinting --notdef-outline`.
const DEJAVU_SANS: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// Families an SVG viewer tries in turn; the usual fallbacks (Arial, Helvetica)
/// are narrower than `DejaVu Sans`, so that labels still fit.
const FAMILIES: &str = "DejaVu Sans, sans-serif";

/// plotters writes an SVG's `font-size` as the style's size over this.
const SVG_SIZE_DIVISOR: f64 = 1.24;

/// From the vertical centre of a text down to its base line, in em: what an SVG
/// viewer makes of plotters' `dy="0.5ex"`, as the x-height of `DejaVu Sans` is
/// 1120 of 2048 units.
const CENTRE_TO_BASE_LINE_EM: f32 = 0.5 * 1120.0 / 2048.0;

/// Shown for a character that the embedded font lacks.
const REPLACEMENT: char = '?';

/// Ends a shortened text.
const ELLIPSIS: char = '…';

/// Fewest characters a shortened text keeps, besides the ellipsis.
const SHORTEST_STEM: usize = 4;

fn face() -> &'static FontRef<'static> {
    static FACE: OnceLock<FontRef<'static>> = OnceLock::new();
    FACE.get_or_init(|| {
        FontRef::try_from_slice(DEJAVU_SANS)
            .expect("the embedded font is whole, as a test of this file holds")
    })
}

/// `text` with each character that cannot be drawn replaced.
pub(crate) fn drawable(text: &str) -> String {
    text.chars().map(|c| if face().glyph_id(c) == GlyphId(0) { REPLACEMENT } else { c }).collect()
}

/// The glyphs of `text` with their distance from its start, and the whole
/// width, both in units of the font.
fn lay_out(text: &str) -> (Vec<(GlyphId, f32)>, f32) {
    let mut glyphs: Vec<(GlyphId, f32)> = Vec::with_capacity(text.len());
    let mut pen = 0.0;
    for character in text.chars() {
        let glyph = face().glyph_id(character);
        if let Some(&(previous, _)) = glyphs.last() {
            pen += face().kern_unscaled(previous, glyph);
        }
        glyphs.push((glyph, pen));
        pen += face().h_advance_unscaled(glyph);
    }
    (glyphs, pen)
}

fn units_per_em() -> f32 {
    face().units_per_em().expect("the embedded font has a head table, as a test of this file holds")
}

/// Width of `text` at `size` pixels an em, in pixels.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    f64::from(lay_out(text).1 / units_per_em()) * size
}

/// `text`, whole or shortened with an ellipsis, at most `room` pixels wide;
/// nothing where even a stem does not fit.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> Option<String> {
    let text = drawable(text);
    if text.trim().is_empty() {
        return None;
    }
    if width(&text, size) <= room {
        return Some(text);
    }
    let stem_room = room - width(&ELLIPSIS.to_string(), size);
    let mut stem = String::new();
    for character in text.chars() {
        stem.push(character);
        if width(&stem, size) > stem_room {
            stem.pop();
            break;
        }
    }
    if stem.chars().count() < SHORTEST_STEM {
        return None;
    }
    let mut short = stem.trim_end().to_owned();
    short.push(ELLIPSIS);
    Some(short)
}

/// How one text is drawn, in device pixels.
pub(crate) struct Lettering {
    /// Pixels an em.
    pub(crate) size: f64,
    pub(crate) colour: Colour,
    pub(crate) align: HPos,
    /// Whether it reads upwards.
    pub(crate) turned: bool,
}

impl BackendTextStyle for Lettering {
    type FontError = Infallible;

    fn color(&self) -> BackendColor {
        self.colour.opaque()
    }

    fn size(&self) -> f64 {
        self.size * SVG_SIZE_DIVISOR
    }

    fn transform(&self) -> FontTransform {
        if self.turned { FontTransform::Rotate270 } else { FontTransform::None }
    }

    fn anchor(&self) -> Pos {
        Pos::new(self.align, VPos::Center)
    }

    fn family(&self) -> FontFamily<'_> {
        FontFamily::Name(FAMILIES)
    }

    /// No height, because [`Self::draw`] centres the text by itself.
    fn layout_box(&self, text: &str) -> Result<((i32, i32), (i32, i32)), Infallible> {
        Ok(((0, 0), (width(text, self.size).round() as i32, 0)))
    }

    fn draw<E, DrawFunc: FnMut(i32, i32, BackendColor) -> Result<(), E>>(
        &self,
        text: &str,
        anchor: BackendCoord,
        mut draw: DrawFunc,
    ) -> Result<Result<(), E>, Infallible> {
        let size = self.size as f32;
        let scale = PxScale::from(size / units_per_em() * face().height_unscaled());
        let mut pixels = Vec::new();
        for (glyph, offset) in lay_out(text).0 {
            let pen = point(offset / units_per_em() * size, CENTRE_TO_BASE_LINE_EM * size);
            let Some(outline) = face().outline_glyph(glyph.with_scale_and_position(scale, pen)) else {
                continue;
            };
            let corner = outline.px_bounds().min;
            let (left, top) = (corner.x as i32, corner.y as i32);
            outline.draw(|x, y, coverage| {
                pixels.push((left.saturating_add_unsigned(x), top.saturating_add_unsigned(y), coverage));
            });
        }
        for (x, y, coverage) in pixels {
            if coverage > 0.0 {
                let ink = self.colour.opaque().mix(f64::from(coverage.min(1.0)));
                if let Err(error) = draw(anchor.0 + x, anchor.1 + y, ink) {
                    return Ok(Err(error));
                }
            }
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_font_opens_and_has_every_character_of_the_figures() {
        let needed = (' '..='~').chain("µμ×→±–·…".chars());
        for character in needed {
            assert_ne!(face().glyph_id(character), GlyphId(0), "{character:?}");
        }
        assert!((units_per_em() - 2048.0).abs() < 1e-6);
        assert!(DEJAVU_SANS.len() < 60_000);
    }

    #[test]
    fn width_grows_with_the_size_and_matches_the_advance_of_the_font() {
        // DejaVu Sans 2.37: a digit advances 1303 of 2048 units.
        assert!((width("0000", 10.0) - 4.0 * 10.0 * 1303.0 / 2048.0).abs() < 1e-3);
        assert!((width("0000", 20.0) / width("0000", 10.0) - 2.0).abs() < 1e-6);
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
