//! The sheet a figure is drawn on, and its bytes in either format.
//!
//! Responsible for: the back ends of plotters and the resolution. Not for: what
//! a figure shows.
//! Invariant: both formats are drawn by the same calls on the same grid of
//! [`SCALE`] steps a figure pixel; only [`render`] knows the format.

use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::{Format, PlotError, font};

/// Pixels of a PNG a figure pixel, so that print and dense screens stay sharp.
pub(crate) const PNG_SCALE: u32 = 2;

/// Grid steps a figure pixel: two a pixel of a PNG. plotters puts glyphs and
/// corners on whole steps and hardly smooths edges; averaging over steps does.
pub(crate) const SCALE: u32 = 2 * PNG_SCALE;

/// Bytes a pixel of a PNG: red, green, blue.
const CHANNELS: usize = 3;

/// A part of the sheet with coordinates of its own.
pub(crate) type Plane<DB> = DrawingArea<DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Whether drawing went well.
pub(crate) type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A figure whose layout is settled.
pub(crate) trait Figure {
    /// Width and height, in figure pixels.
    fn size(&self) -> (u32, u32);

    /// Draws it over the whole of `root`, whose unit is the grid step.
    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB>;
}

/// A length in figure pixels as grid steps.
pub(crate) fn steps(length: f64) -> u32 {
    (length * f64::from(SCALE)).round() as u32
}

/// The whole of `root` in figure pixels from its upper left corner.
pub(crate) fn sheet<DB: DrawingBackend>(root: &DrawingArea<DB, Shift>) -> Plane<DB> {
    let (width, height) = root.dim_in_pixel();
    let pixels = |steps: u32| 0.0..f64::from(steps) / f64::from(SCALE);
    let grid = (0..width.cast_signed(), 0..height.cast_signed());
    root.apply_coord_spec(Cartesian2d::new(pixels(width), pixels(height), grid))
}

/// One line of text on a plane: its middle in height, and the side that `align`
/// names, are at `place`.
pub(crate) fn text(
    words: &str,
    place: (f64, f64),
    size: f64,
    colour: RGBColor,
    align: HPos,
) -> Text<'static, (f64, f64), String> {
    Text::new(font::drawable(words), place, font::style(size, colour, align))
}

/// `figure` as the bytes of a file in `format`.
///
/// # Errors
///
/// [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses, which
/// for a buffer in memory neither has cause to do.
pub(crate) fn render(figure: &impl Figure, format: Format) -> Result<Vec<u8>, PlotError> {
    let (width, height) = figure.size();
    let grid = (width * SCALE, height * SCALE);
    match format {
        Format::Svg => {
            let mut document = String::new();
            paint(figure, SVGBackend::with_string(&mut document, grid))?;
            // The coordinates count grid steps; the size shown is in figure pixels.
            let grid_size = format!("width=\"{}\" height=\"{}\"", grid.0, grid.1);
            let shown_size = format!("width=\"{width}\" height=\"{height}\"");
            Ok(document.replacen(&grid_size, &shown_size, 1).into_bytes())
        }
        Format::Png => {
            let mut pixels = vec![u8::MAX; grid.0 as usize * grid.1 as usize * CHANNELS];
            paint(figure, BitMapBackend::with_buffer(&mut pixels, grid))?;
            let mut file = Vec::new();
            let mut encoder = png::Encoder::new(&mut file, width * PNG_SCALE, height * PNG_SCALE);
            encoder.set_color(png::ColorType::Rgb);
            let mut writer = encoder.write_header()?;
            writer.write_image_data(&averaged(&pixels, grid.0 as usize))?;
            writer.finish()?;
            Ok(file)
        }
    }
}

/// The grid's pixels with each square of two by two steps averaged.
fn averaged(grid: &[u8], grid_width: usize) -> Vec<u8> {
    let row = grid_width * CHANNELS;
    let mut pixels = Vec::with_capacity(grid.len() / 4);
    for rows in grid.chunks_exact(2 * row) {
        let (upper, lower) = rows.split_at(row);
        for left in (0..row).step_by(2 * CHANNELS) {
            for here in left..left + CHANNELS {
                let right = here + CHANNELS;
                let square = [upper[here], upper[right], lower[here], lower[right]];
                pixels.push((square.map(u16::from).iter().sum::<u16>() / 4) as u8);
            }
        }
    }
    pixels
}

fn paint<DB: DrawingBackend>(figure: &impl Figure, backend: DB) -> Result<(), PlotError> {
    let root = backend.into_drawing_area();
    let drawn = root.fill(&WHITE).and_then(|()| figure.draw(&root)).and_then(|()| root.present());
    drawn.map_err(|error| PlotError::Draw(error.to_string()))
}
