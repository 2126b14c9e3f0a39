//! A drawing as the bytes of a file.
//!
//! Both formats are painted through plotters' back ends on a grid of
//! [`GRID`] steps a figure pixel, since those take whole coordinates. A PNG is
//! averaged down from that grid, which smooths its slanted edges.

use plotters_backend::{BackendColor, BackendCoord, BackendStyle, DrawingBackend, DrawingErrorKind};
use plotters_bitmap::BitMapBackend;
use plotters_svg::SVGBackend;

use super::{Drawing, Point, Shape, Text};
use crate::font::Lettering;
use crate::palette::Colour;
use crate::{Format, PlotError};

/// Pixels of a PNG a figure pixel, so that print and dense screens stay sharp.
pub(crate) const PNG_SCALE: u32 = 2;
/// Grid steps a pixel of a PNG, in each direction.
const OVERSAMPLING: u32 = 2;
/// Grid steps a figure pixel.
const GRID: u32 = PNG_SCALE * OVERSAMPLING;
/// Bytes a pixel: red, green, blue.
const CHANNELS: usize = 3;

/// Tallest figure: its grid, 16 times its pixels, still takes well under 300 MB.
pub(crate) const MAX_HEIGHT: u32 = 6_000;

/// A stroke, in grid steps.
struct Stroke {
    colour: BackendColor,
    width: u32,
}

impl BackendStyle for Stroke {
    fn color(&self) -> BackendColor {
        self.colour
    }

    fn stroke_width(&self) -> u32 {
        self.width
    }
}

/// The drawing in `format`.
///
/// # Errors
///
/// [`PlotError::Draw`] and [`PlotError::Encode`] where a library refuses, which
/// for a buffer in memory neither has cause to do.
pub(crate) fn render(drawing: &Drawing, format: Format) -> Result<Vec<u8>, PlotError> {
    match format {
        Format::Svg => svg(drawing),
        Format::Png => png(drawing),
    }
}

fn svg(drawing: &Drawing) -> Result<Vec<u8>, PlotError> {
    let (width, height) = (drawing.width * GRID, drawing.height * GRID);
    let mut document = String::new();
    let mut backend = SVGBackend::with_string(&mut document, (width, height));
    paint(drawing, &mut backend, false)?;
    backend.present().map_err(|error| refused(&error))?;
    drop(backend);
    // The coordinates count grid steps; the size shown is in figure pixels.
    let grid_size = format!("width=\"{width}\" height=\"{height}\"");
    let shown_size = format!("width=\"{}\" height=\"{}\"", drawing.width, drawing.height);
    Ok(document.replacen(&grid_size, &shown_size, 1).into_bytes())
}

fn png(drawing: &Drawing) -> Result<Vec<u8>, PlotError> {
    let grid = (drawing.width * GRID, drawing.height * GRID);
    let mut pixels = vec![u8::MAX; grid.0 as usize * grid.1 as usize * CHANNELS];
    let mut backend = BitMapBackend::with_buffer(&mut pixels, grid);
    paint(drawing, &mut backend, true)?;
    backend.present().map_err(|error| refused(&error))?;
    drop(backend);

    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, drawing.width * PNG_SCALE, drawing.height * PNG_SCALE);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&averaged(&pixels, grid.0 as usize))?;
    writer.finish()?;
    Ok(file)
}

/// The grid's pixels with each square of [`OVERSAMPLING`] steps averaged.
fn averaged(grid: &[u8], grid_width: usize) -> Vec<u8> {
    let steps = OVERSAMPLING as usize;
    let samples = (steps * steps) as u32;
    let row = grid_width * CHANNELS;
    let mut pixels = Vec::with_capacity(grid.len() / (steps * steps));
    for rows in grid.chunks_exact(row * steps) {
        for left in (0..row).step_by(steps * CHANNELS) {
            for channel in 0..CHANNELS {
                let square = (0..steps).flat_map(|y| (0..steps).map(move |x| (x, y)));
                let sum: u32 =
                    square.map(|(x, y)| u32::from(rows[y * row + left + x * CHANNELS + channel])).sum();
                pixels.push(((sum + samples / 2) / samples) as u8);
            }
        }
    }
    pixels
}

fn refused<E: std::error::Error + Send + Sync>(error: &DrawingErrorKind<E>) -> PlotError {
    PlotError::Draw(error.to_string())
}

fn steps(length: f64) -> i32 {
    (length * f64::from(GRID)).round() as i32
}

fn on_grid(point: Point) -> BackendCoord {
    (steps(point.x), steps(point.y))
}

/// `round_joins`: whether the back end leaves gaps between the segments of a
/// line, which plotters' rasteriser does.
fn paint<B: DrawingBackend>(drawing: &Drawing, backend: &mut B, round_joins: bool) -> Result<(), PlotError> {
    let sheet = (steps(f64::from(drawing.width)), steps(f64::from(drawing.height)));
    backend
        .draw_rect((0, 0), sheet, &crate::palette::WHITE.opaque(), true)
        .map_err(|error| refused(&error))?;
    for shape in &drawing.shapes {
        match shape {
            Shape::Rectangle { area, fill } => {
                let corners =
                    (on_grid(super::at(area.left, area.top)), on_grid(super::at(area.right, area.bottom)));
                backend.draw_rect(corners.0, corners.1, &fill.opaque(), true)
            }
            Shape::Polygon { corners, fill } => {
                backend.fill_polygon(corners.iter().copied().map(on_grid), &fill.opaque())
            }
            Shape::Line { points, colour, width } => {
                let points: Vec<BackendCoord> = points.iter().copied().map(on_grid).collect();
                let stroke = Stroke { colour: colour.opaque(), width: steps(*width).max(1) as u32 };
                if round_joins {
                    rounded_line(backend, &points, &stroke)
                } else {
                    backend.draw_path(points, &stroke)
                }
            }
            Shape::Disc { centre, radius, fill } => disc(backend, *centre, *radius, *fill),
            Shape::Text(text) => letters(backend, text),
        }
        .map_err(|error| refused(&error))?;
    }
    Ok(())
}

fn rounded_line<B: DrawingBackend>(
    backend: &mut B,
    points: &[BackendCoord],
    stroke: &Stroke,
) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    let before = (stroke.width / 2).cast_signed();
    let after = stroke.width.cast_signed() - before;
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        if from.0 == to.0 || from.1 == to.1 {
            // Level and plumb segments are rectangles: sharp, and quickly filled.
            let low = (from.0.min(to.0), from.1.min(to.1));
            let high = (from.0.max(to.0), from.1.max(to.1));
            let (across, down) =
                if from.0 == to.0 { ((before, after), (0, 0)) } else { ((0, 0), (before, after)) };
            backend.draw_rect(
                (low.0 - across.0, low.1 - down.0),
                (high.0 + across.1, high.1 + down.1),
                &stroke.colour,
                true,
            )?;
        } else {
            backend.draw_line(from, to, stroke)?;
        }
    }
    // A circle of plotters covers its radius and the middle step besides.
    let radius = (stroke.width - 1) / 2;
    for corner in points.windows(3) {
        let (before, here, after) = (corner[0], corner[1], corner[2]);
        let plumb = before.0 == here.0 && here.0 == after.0;
        let level = before.1 == here.1 && here.1 == after.1;
        if radius > 0 && !plumb && !level {
            backend.draw_circle(here, radius, &stroke.colour, true)?;
        }
    }
    Ok(())
}

fn disc<B: DrawingBackend>(
    backend: &mut B,
    centre: Point,
    radius: f64,
    fill: Colour,
) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    backend.draw_circle(on_grid(centre), steps(radius).max(1) as u32, &fill.opaque(), true)
}

fn letters<B: DrawingBackend>(backend: &mut B, text: &Text) -> Result<(), DrawingErrorKind<B::ErrorType>> {
    let lettering = Lettering {
        size: text.size * f64::from(GRID),
        colour: text.colour,
        align: text.align,
        turned: text.turned,
    };
    backend.draw_text(&text.words, &lettering, on_grid(text.at))
}
