//! The error figure: the share of predictions whose error is at most so large.

use coexec_sim::validate::point::Point;
use coexec_sim::validate::{Group, figures};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::area::Place;
use crate::comparison::{CLOSE, Comparison, error_percent, percent};
use crate::legend::{Legend, Row, Sample};
use crate::page::Page;
use crate::palette::{BLUE, GREEN, MUTED, PURPLE, VERMILION};
use crate::panel::{Panel, left_room};
use crate::scale::{Axis, Quantity};
use crate::sheet::{Drawn, Figure, render, sheet};
use crate::{Format, PlotError, line};

/// Width and height of the plot, in figure pixels.
const PLOT: (f64, f64) = (520.0, 360.0);
/// Lower end of the error axis, in percent.
const SMALLEST_ERROR: f64 = 0.1;
/// Upper ends of the error axis, in percent, of which the first is taken that
/// holds all errors; beyond the last, all predictions are useless.
const LARGEST_ERRORS: [f64; 3] = [100.0, 300.0, 1000.0];
const MOST_SHARE_TICKS: usize = 6;
/// The line of the model, and of what it is compared with.
const STRONG_WIDTH: f64 = 2.5;
const LINE_WIDTH: f64 = 1.5;
/// Steps of a curve nearer than this become one, in figure pixels.
const FINEST_STEP: f64 = 0.5;

/// The errors of one model.
struct Curve {
    name: &'static str,
    colour: RGBColor,
    width: f64,
    /// Absolute errors in percent, ascending.
    errors: Vec<f64>,
    figures: Group,
}

impl Curve {
    /// The curve of predicted and measured times.
    fn new(name: &'static str, (colour, width): (RGBColor, f64), pairs: &[(f64, f64)]) -> Self {
        let errors = pairs.iter().map(|&(predicted, measured)| error_percent(predicted, measured).abs());
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(f64::total_cmp);
        Self { name, colour, width, errors, figures: figures("", pairs) }
    }
}

struct Layout {
    page: Page,
    panel: Panel,
    curves: Vec<Curve>,
}

/// Draws the share of predictions against their absolute error, as the bytes of
/// a file in `format`: of the model, of the model without its residual where
/// that differs, and of the model linear in FLOPs for the points that have its
/// prediction.
///
/// # Errors
///
/// [`PlotError::NoPoints`] without a point; [`PlotError::BadPoint`] for one whose
/// times are not finite and above 0; [`PlotError::Draw`] and
/// [`PlotError::Encode`] where a library refuses.
pub fn error_cdf(comparison: &Comparison<'_>, format: Format) -> Result<Vec<u8>, PlotError> {
    render(&lay_out(comparison)?, format)
}

fn lay_out(comparison: &Comparison<'_>) -> Result<Layout, PlotError> {
    comparison.check()?;
    let curves = curves(comparison);
    let holds = |end: &f64| curves.iter().all(|curve| curve.errors.iter().all(|error| error <= end));
    let largest = LARGEST_ERRORS.into_iter().find(holds).unwrap_or(LARGEST_ERRORS[LARGEST_ERRORS.len() - 1]);
    let cells = |figures: &Group| {
        let (close, median) = (figures.within_10_percent, figures.median_ape_percent);
        vec![figures.n.to_string(), percent(close), percent(median)]
    };
    let rows = curves.iter().map(|curve| Row {
        sample: Sample::Line(curve.colour, curve.width),
        name: curve.name.to_owned(),
        cells: cells(&curve.figures),
    });
    let legend = Legend {
        head: "model".to_owned(),
        columns: vec!["n", "within 10 %", "median"],
        rows: rows.collect(),
        keys: vec![Row::key(Sample::Dashes(MUTED, LINE_WIDTH), "error of 10 %")],
    };
    let (title, subtitle) = (comparison.title.to_owned(), comparison.subtitle.to_owned());
    let ends = (SMALLEST_ERROR, largest);
    let x = Axis::logarithmic_between("absolute error (% of the measured time)", ends, Quantity::Number);
    let y = Axis::linear("share of predictions", (0.0, 100.0), MOST_SHARE_TICKS, " %");
    let page = Page { title, subtitle, legend, left_room: left_room(&y), plot_size: PLOT };
    Ok(Layout { panel: Panel { area: page.plot(), x, y }, page, curves })
}

fn curves(comparison: &Comparison<'_>) -> Vec<Curve> {
    let points = comparison.points;
    let pairs = |predicted: fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        points.iter().filter_map(|point| Some((predicted(point)?, point.measured_us))).collect()
    };
    let mut curves =
        vec![Curve::new("this model", (BLUE, STRONG_WIDTH), &pairs(|point| Some(point.predicted_us)))];
    if points.iter().any(|point| point.physics_us.to_bits() != point.predicted_us.to_bits()) {
        let physics = pairs(|point| Some(point.physics_us));
        curves.push(Curve::new("without residual", (GREEN, LINE_WIDTH), &physics));
    }
    let linear = pairs(|point| point.flops_linear_us);
    if !linear.is_empty() {
        curves.push(Curve::new("linear in FLOPs", (VERMILION, LINE_WIDTH), &linear));
    }
    let codl = pairs(|point| point.codl_us);
    if !codl.is_empty() {
        curves.push(Curve::new("CoDL", (PURPLE, LINE_WIDTH), &codl));
    }
    curves
}

/// Part of the ascending errors that are at most `limit`.
fn share(errors: &[f64], limit: f64) -> f64 {
    errors.partition_point(|&error| error <= limit) as f64 / errors.len() as f64
}

impl Figure for Layout {
    fn size(&self) -> (u32, u32) {
        self.page.size()
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn<DB> {
        let sheet = sheet(root);
        self.page.draw(&sheet)?;
        self.panel.draw_grid(&sheet)?;
        let close = [0.0, 100.0].map(|percent| self.panel.place(100.0 * CLOSE, percent));
        line::dashes(&sheet, (close[0], close[1]), MUTED, LINE_WIDTH)?;
        // The model's own line lies over the others.
        for curve in self.curves.iter().rev() {
            line::draw(&sheet, self.stair(&curve.errors), curve.colour, curve.width)?;
        }
        self.panel.draw_axes(&sheet)
    }
}

impl Layout {
    /// The corners of a curve, which rises at each error of `errors`, from the
    /// left end of the axis to the right.
    fn stair(&self, errors: &[f64]) -> Vec<Place> {
        let (low, high) = self.panel.x.ends();
        let mut corners = vec![self.panel.place(low, 100.0 * share(errors, low))];
        let shown = errors.iter().copied().filter(|error| (low..high).contains(error));
        for error in shown.chain([high]) {
            let (column, level) = self.panel.place(error, 100.0 * share(errors, error));
            let before = corners[corners.len() - 1];
            if column - before.0 > FINEST_STEP {
                corners.push((column, before.1));
                corners.push((column, level));
            } else if let Some(last) = corners.last_mut() {
                last.1 = level;
            }
        }
        corners
    }
}

#[cfg(test)]
mod tests;
