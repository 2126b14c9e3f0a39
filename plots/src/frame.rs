//! The frame of every figure: titles, one plot with axes, and a legend to its right.
//!
//! Responsible for: layout, the size of the figure, its bytes in either format, and refusing
//! what cannot be shown. Not for: the content of the plot.
//! Invariants: the figure is large enough for all its parts, and the legend never overlaps
//! the plot; both formats are drawn by the same calls on the same grid of [`SCALE`] steps
//! per figure pixel.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::{
    Axis, Colour, Format, GRID, INK, Legend, MAX_VALUE, MUTED, Mark, PlotError, Row, Scale, at_most, font,
    ink_on,
};

/// PNG pixels per figure pixel, so that prints and dense screens stay sharp.
pub(crate) const PNG_SCALE: u32 = 2;
/// Grid steps per figure pixel: two per PNG pixel. plotters puts glyphs and
/// corners on whole steps and hardly smooths edges; averaging over steps does.
pub(crate) const SCALE: u32 = 2 * PNG_SCALE;
/// Bytes per PNG pixel: red, green, blue.
const CHANNELS: usize = 3;
/// Tallest figure, in figure pixels: its grid, with 16 cells per figure pixel, takes well under 300 MB.
pub(crate) const MAX_HEIGHT: u32 = 6_000;
/// Most rows of a legend.
const MAX_ROWS: usize = 60;

// Lengths are in figure pixels, text sizes in pixels per em.

pub(crate) const TEXT_SIZE: f64 = 12.0;
const TITLE_SIZE: f64 = 16.0;
const MARGIN: f64 = 16.0;
const TITLE_HEIGHT: f64 = 24.0;
const SUBTITLE_HEIGHT: f64 = 20.0;
/// Distance between the titles and the plot.
const PLOT_GAP: f64 = 10.0;
/// Distance between the plot and the legend; half a tick label extends into it.
const LEGEND_GAP: f64 = 32.0;
const TICK_LENGTH: f64 = 5.0;
const OUTLINE_WIDTH: f64 = 1.5;
/// Height of the tick labels and the axis title below the plot.
const LOWER_LABELS: f64 = 46.0;
/// Width of a rotated axis title, with its distance to the tick labels.
const SIDE_TITLE: f64 = 26.0;

/// Result of drawing on a backend.
pub(crate) type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;
/// The plot of a figure, with its axes.
pub(crate) type Plot<DB> = DrawingArea<DB, Cartesian2d<Axis, Axis>>;

/// An item of a plot; places are in axis values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    /// The points of a series.
    Series(Series),
    /// A box of one colour between two corners.
    Filled([(f64, f64); 2], Colour),
    /// The outline of a box between two corners.
    Outline([(f64, f64); 2]),
    /// Text of a size, centred on a place, on a background of that colour.
    Label(String, f64, (f64, f64), Colour),
}

/// Points drawn with one mark and colour.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    /// Name in the legend; empty without a row there.
    pub(crate) name: String,
    pub(crate) mark: Mark,
    pub(crate) colour: Colour,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Item {
    /// Draws the item in a plot with `markers` markers in all.
    fn draw<DB: DrawingBackend>(&self, plot: &Plot<DB>, markers: usize) -> Drawn<DB> {
        match self {
            Self::Series(series) => series.mark.draw(plot, &series.points, series.colour, markers),
            Self::Filled(corners, colour) => plot.draw(&Rectangle::new(*corners, colour.filled())),
            Self::Outline([(left, top), (right, bottom)]) => {
                // Drawn as a path: in an SVG, plotters omits the line width of a rectangle.
                let [left, top, right, bottom] = [*left, *top, *right, *bottom];
                let around = [(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
                plot.draw(&PathElement::new(around, INK.stroke_width(steps(OUTLINE_WIDTH))))
            }
            Self::Label(text, size, place, ground) => {
                let style = font::style(*size, ink_on(*ground), HPos::Center);
                plot.draw(&Text::new(text.as_str(), *place, style))
            }
        }
    }

    /// Number of markers in the item.
    fn markers(&self) -> usize {
        match self {
            Self::Series(Series { mark: Mark::Markers { .. }, points, .. }) => points.len(),
            Self::Series(_) | Self::Filled(..) | Self::Outline(_) | Self::Label(..) => 0,
        }
    }
}

/// A figure: a plot with axes, titles and a legend.
#[derive(Clone, Debug)]
pub struct Figure {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) legend: Legend,
    /// Width and height of the plot.
    pub(crate) plot_size: (f64, f64),
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// Items of the plot; later ones are drawn over earlier ones.
    pub(crate) items: Vec<Item>,
}

/// Converts a length from figure pixels to grid steps.
pub(crate) fn steps(length: f64) -> u32 {
    (length * f64::from(SCALE)).round() as u32
}

/// Converts a place from figure pixels to grid steps.
pub(crate) fn at((x, y): (f64, f64)) -> (i32, i32) {
    (steps(x).cast_signed(), steps(y).cast_signed())
}

impl Figure {
    /// A figure with an empty plot of the given width and height, in figure pixels.
    pub fn new(plot_size: (f64, f64), x: Axis, y: Axis) -> Self {
        let (title, subtitle, legend) = Default::default();
        Self { title, subtitle, legend, plot_size, x, y, items: Vec::new() }
    }

    /// Sets the title and the subtitle; the latter may be empty.
    #[must_use]
    pub fn titled(self, title: &str, subtitle: &str) -> Self {
        Self { title: title.to_owned(), subtitle: subtitle.to_owned(), ..self }
    }

    /// Adds a series on top of the others, with a legend row if `name` is not empty.
    pub fn add(&mut self, name: &str, mark: Mark, colour: Colour, points: Vec<(f64, f64)>) {
        if !name.is_empty() {
            self.legend.rows.push(Row::of(mark, colour, &[name]));
        }
        if !points.is_empty() {
            self.items.push(Item::Series(Series { name: name.to_owned(), mark, colour, points }));
        }
    }

    /// Draws the figure as the bytes of a file in `format`.
    ///
    /// # Errors
    ///
    /// [`PlotError::NoPoints`] for an empty plot; [`PlotError::BadPoint`] for a point that the
    /// axes cannot show; [`PlotError::TooMany`] for more legend rows than can be distinguished;
    /// [`PlotError::TooTall`] for too many lanes or rows; [`PlotError::Draw`] and
    /// [`PlotError::Encode`] if a library fails, for which a buffer in memory gives no cause.
    pub fn draw(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        if self.items.is_empty() {
            return Err(PlotError::NoPoints { title: self.title.clone() });
        }
        self.render(format)
    }

    /// Refuses a point that the axes cannot show.
    fn check(&self, series: &Series) -> Result<(), PlotError> {
        let values = series.points.iter().flat_map(|&(x, y)| [(&self.x, x), (&self.y, y)]);
        for (axis, value) in values {
            let least = if axis.scale == Scale::Logarithmic { 1.0 / MAX_VALUE } else { -MAX_VALUE };
            if !(least..=MAX_VALUE).contains(&value) {
                return Err(PlotError::BadPoint {
                    what: series.name.clone(),
                    found: format!("{} is {value}", axis.title),
                    expected: format!("a number from {least:e} to {MAX_VALUE:e}"),
                });
            }
        }
        Ok(())
    }

    /// Width of the tick labels and the title of the left axis.
    fn left_room(&self) -> f64 {
        let labels = self.y.ticks.iter().map(|tick| font::width(&font::drawable(&tick.1), TEXT_SIZE));
        let title = if self.y.title.is_empty() { 0.0 } else { SIDE_TITLE };
        labels.fold(0.0, f64::max) + 2.0 * TICK_LENGTH + title
    }

    /// The upper left corner of the plot.
    fn corner(&self) -> (f64, f64) {
        let subtitle = if self.subtitle.is_empty() { 0.0 } else { SUBTITLE_HEIGHT };
        (MARGIN + self.left_room(), MARGIN + TITLE_HEIGHT + subtitle + PLOT_GAP)
    }

    /// Width and height of the figure.
    pub(crate) fn size(&self) -> (u32, u32) {
        let ((left, top), (width, height)) = (self.corner(), self.plot_size);
        let (legend_width, legend_height) = self.legend.size();
        let right = left + width + LEGEND_GAP + legend_width;
        let bottom = top + (height + LOWER_LABELS).max(legend_height);
        ((right + MARGIN).ceil() as u32, (bottom + MARGIN).ceil() as u32)
    }

    fn draw_on<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let ((width, height), (left, top)) = (self.size(), self.corner());
        let (right, bottom) = (left + self.plot_size.0, top + self.plot_size.1);
        let room = f64::from(width) - 2.0 * MARGIN;
        let lines = [
            (&self.title, TITLE_SIZE, INK, MARGIN + TITLE_SIZE / 2.0),
            (&self.subtitle, TEXT_SIZE, MUTED, MARGIN + TITLE_HEIGHT + TEXT_SIZE / 2.0),
        ];
        for (text, size, colour, middle) in lines {
            let text = font::fit(text, size, room).unwrap_or_default();
            root.draw(&Text::new(text, at((MARGIN, middle)), font::style(size, colour, HPos::Left)))?;
        }
        let mut chart = ChartBuilder::on(root)
            .margin_top(steps(top))
            .margin_right(steps(f64::from(width) - right))
            .margin_bottom(steps(f64::from(height) - bottom - LOWER_LABELS))
            .margin_left(steps(MARGIN))
            .x_label_area_size(steps(LOWER_LABELS))
            .y_label_area_size(steps(self.left_room()))
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let mut mesh = chart.configure_mesh();
        if self.y.scale == Scale::Named {
            mesh.disable_y_mesh();
        }
        mesh.x_desc(font::fit(&self.x.title, TEXT_SIZE, self.plot_size.0).unwrap_or_default())
            .y_desc(font::fit(&self.y.title, TEXT_SIZE, self.plot_size.1).unwrap_or_default())
            .bold_line_style(GRID[0].stroke_width(steps(1.0)))
            .light_line_style(GRID[1].stroke_width(steps(1.0)))
            .axis_style(INK.stroke_width(steps(1.0)))
            .set_all_tick_mark_size(steps(TICK_LENGTH))
            .label_style(font::style(TEXT_SIZE, INK, HPos::Center))
            .axis_desc_style(font::style(TEXT_SIZE, INK, HPos::Center))
            .draw()?;
        let markers = self.items.iter().map(Item::markers).sum();
        self.items.iter().try_for_each(|item| item.draw(chart.plotting_area(), markers))?;
        self.legend.draw(root, (right + LEGEND_GAP, top))
    }

    /// Draws the figure, even with an empty plot.
    pub(crate) fn render(&self, format: Format) -> Result<Vec<u8>, PlotError> {
        self.items.iter().try_for_each(|item| match item {
            Item::Series(series) => self.check(series),
            Item::Filled(..) | Item::Outline(_) | Item::Label(..) => Ok(()),
        })?;
        at_most(MAX_ROWS, "series", self.legend.rows.len())?;
        let (width, height) = self.size();
        if height > MAX_HEIGHT {
            return Err(PlotError::TooTall { height, limit: MAX_HEIGHT });
        }
        let grid = (width * SCALE, height * SCALE);
        match format {
            Format::Svg => {
                let mut document = String::new();
                paint(self, SVGBackend::with_string(&mut document, grid))?;
                // Coordinates are in grid steps; the displayed size is in figure pixels.
                let grid_size = format!("width=\"{}\" height=\"{}\"", grid.0, grid.1);
                let shown_size = format!("width=\"{width}\" height=\"{height}\"");
                Ok(document.replacen(&grid_size, &shown_size, 1).into_bytes())
            }
            Format::Png => {
                let mut pixels = vec![u8::MAX; grid.0 as usize * grid.1 as usize * CHANNELS];
                paint(self, BitMapBackend::with_buffer(&mut pixels, grid))?;
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
}

fn paint<DB: DrawingBackend>(figure: &Figure, backend: DB) -> Result<(), PlotError> {
    let root = backend.into_drawing_area();
    let drawn = root.fill(&WHITE).and_then(|()| figure.draw_on(&root));
    drawn.and_then(|()| root.present()).map_err(|error| PlotError::Draw(error.to_string()))
}

/// Averages each square of two by two grid steps to one pixel.
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

#[cfg(test)]
mod tests;
