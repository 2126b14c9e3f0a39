//! Figures of accuracy: predictions against their measurements.
//!
//! Responsible for: the XY figures of times and errors, and refusing points that cannot be
//! drawn. Not for: the error figures, which [`coexec_fit::validate`] computes.
//! Invariant: every given point is drawn, or refused by name.

mod groups;

use coexec_fit::validate::point::Point;
use coexec_fit::validate::{CLOSE_ERROR, figures};
use coexec_sim::Picos;

use crate::{Axis, BLUE, Figure, GREEN, INK, MUTED, Mark, PURPLE, PlotError, Row, Unit, VERMILION, tint};
use groups::{add_markers, grouped, rows};

/// Shortest time that is drawn, in microseconds: one picosecond, the step of simulated time.
const MIN_TIME_US: f64 = 1e-6;
/// Opacity of the band of close predictions.
const CLOSE_OPACITY: f64 = 0.13;
/// Largest error a legend shows, in percent.
const MAX_SHOWN_PERCENT: f64 = 9999.0;
/// Most points in a figure that shows their intervals.
const MAX_INTERVALS: usize = 60;
/// Fraction of white in the colour of an interval.
const INTERVAL_TINT: f64 = 0.35;

// Sizes and widths are in figure pixels.

const SQUARE: (f64, f64) = (460.0, 460.0);
const PLOT: (f64, f64) = (560.0, 360.0);
const THIN: f64 = 1.0;
const MIDDLE: f64 = 1.5;
const STRONG: f64 = 2.5;

/// Lower end of the axis of absolute errors, in percent.
const SMALLEST_ERROR: f64 = 0.1;
/// Upper ends of that axis: the first that covers all errors is used. Beyond the last, all predictions
/// are useless.
const ERROR_AXIS_ENDS: [f64; 3] = [100.0, 300.0, 1000.0];
/// Number of steps along the axis at which the share of predictions is computed.
const SHARES: u32 = 512;

/// A percentage for a legend, with one decimal below 100 %.
pub(crate) fn percent(value: f64) -> String {
    if value > MAX_SHOWN_PERCENT {
        return format!("> {MAX_SHOWN_PERCENT} %");
    }
    let decimals = usize::from(value.abs() < 99.95);
    // Avoids a negative zero.
    let value = if value.abs() < 0.05 { 0.0 } else { value };
    format!("{value:.decimals$} %")
}

/// Predicted against measured time: each group has a colour and a marker, and its error
/// figures in the legend. Markers are hollow for points the fit has seen; if it has seen all
/// or none of them, all are filled. With few points, their 90 % intervals are drawn.
///
/// # Errors
///
/// [`PlotError::BadPoint`] for a point whose times are not finite and above 0.
pub fn scatter(points: &[Point]) -> Result<Figure, PlotError> {
    points.iter().try_for_each(check)?;
    let groups = grouped(points.iter());
    let few = points.len() <= MAX_INTERVALS;
    let shown = |point: &Point| interval(point).filter(|_| few);
    let times = || {
        let times = points.iter().flat_map(|point| [point.measured_us, point.predicted_us]);
        times.chain(points.iter().filter_map(shown).flatten())
    };
    let axis = |title: &str| Axis::logarithmic(title, times(), Unit::Micros);
    let mut figure = Figure::new(SQUARE, axis("measured time"), axis("predicted time"));
    if points.is_empty() {
        return Ok(figure);
    }
    let (low, high) = figure.x.ends();
    let (below, above) = (1.0 - CLOSE_ERROR, 1.0 + CLOSE_ERROR);
    // The corners of the band of close predictions within the axes.
    let band = vec![
        (low, low),
        (low, low * above),
        (high / above, high),
        (high, high),
        (high, high * below),
        (low / below, low),
    ];
    let close = Mark::Area(CLOSE_OPACITY);
    let (line, segments) = (Mark::Line(THIN), Mark::Segments(THIN));
    figure.add("", close, BLUE, band);
    figure.add("", line, INK, vec![(low, low), (high, high)]);
    for group in &groups {
        let mine = group.points.iter().filter_map(|point| Some((point.measured_us, shown(point)?)));
        let ends = mine.flat_map(|(measured_us, ends)| ends.map(|end| (measured_us, end)));
        let colour = tint(group.look.0, INTERVAL_TINT);
        figure.add("", segments, colour, ends.collect());
    }
    add_markers(&mut figure, &groups);
    figure.legend.heads = ["group", "n", "MAPE", "within 10 %"].map(str::to_owned).to_vec();
    figure.legend.rows = rows(&groups);
    if points.iter().any(|point| shown(point).is_some()) {
        figure.add("90 % interval", segments, tint(INK, INTERVAL_TINT), Vec::new());
    }
    figure.add("equal times", line, INK, Vec::new());
    figure.add("within 10 %", close, BLUE, Vec::new());
    Ok(figure)
}

/// The share of predictions against their absolute error: for the model, for the model
/// without its residual if that differs, and for each baseline, over the points that have
/// its prediction.
///
/// # Errors
///
/// As [`scatter`].
pub fn error_cdf(points: &[Point]) -> Result<Figure, PlotError> {
    points.iter().try_for_each(check)?;
    let differs = |point: &&Point| point.physics_us.to_bits() != point.predicted_us.to_bits();
    let has_residual = points.iter().any(|point| differs(&point));
    let curve = |predicted: &dyn Fn(&Point) -> Option<f64>| -> Vec<(f64, f64)> {
        points.iter().filter_map(|point| Some((predicted(point)?, point.measured_us))).collect()
    };
    let mut curves = vec![
        ("this model", BLUE, STRONG, curve(&|point| Some(point.predicted_us))),
        ("without residual", GREEN, MIDDLE, curve(&|point| Some(point.physics_us).filter(|_| has_residual))),
        ("linear in FLOPs", VERMILION, MIDDLE, curve(&|point| point.flops_linear_us)),
        ("CoDL", PURPLE, MIDDLE, curve(&|point| point.codl_us)),
    ];
    let errors = |pairs: &[(f64, f64)]| -> Vec<f64> {
        pairs.iter().map(|(predicted, measured)| (100.0 * (predicted / measured - 1.0)).abs()).collect()
    };
    let all: Vec<f64> = curves.iter().flat_map(|(.., pairs)| errors(pairs)).collect();
    let holds = |end: &f64| all.iter().all(|error| error <= end);
    let largest = ERROR_AXIS_ENDS.into_iter().find(holds).unwrap_or(ERROR_AXIS_ENDS[2]);
    let title = "absolute error (% of the measured time)";
    let x = Axis::between(title, (SMALLEST_ERROR, largest), Unit::Number);
    let y = Axis::linear("share of predictions (%)", (0.0, 100.0), Unit::Number);
    let mut figure = Figure::new(PLOT, x, y);
    if points.is_empty() {
        return Ok(figure);
    }
    figure.legend.heads = ["model", "n", "within 10 %", "median"].map(str::to_owned).to_vec();
    let limit = Mark::Dashes(THIN);
    figure.add("", limit, MUTED, vec![(100.0 * CLOSE_ERROR, 0.0), (100.0 * CLOSE_ERROR, 100.0)]);
    curves.retain(|(.., pairs)| !pairs.is_empty());
    // The model's own line is drawn over the others.
    for (_, colour, width, pairs) in curves.iter().rev() {
        figure.add("", Mark::Line(*width), *colour, shares(errors(pairs), largest));
    }
    for (name, colour, width, pairs) in curves {
        let figures = figures("", &pairs);
        let [within, median] = [figures.within_10_percent, figures.median_ape_percent].map(percent);
        let cells = [name, &figures.n.to_string(), &within, &median];
        figure.legend.rows.push(Row::of(Mark::Line(width), colour, &cells));
    }
    figure.add("error of 10 %", limit, MUTED, Vec::new());
    Ok(figure)
}

fn check(point: &Point) -> Result<(), PlotError> {
    let longest = Picos(u64::MAX).as_micros();
    let times = [("measured_us", point.measured_us), ("predicted_us", point.predicted_us)];
    let others = [
        ("physics_us", Some(point.physics_us)),
        ("low_us", point.low_us),
        ("high_us", point.high_us),
        ("flops_linear_us", point.flops_linear_us),
        ("codl_us", point.codl_us),
    ];
    let times = times.map(|(key, value)| (key, value, MIN_TIME_US));
    let others = others.map(|(key, value)| (key, value.unwrap_or_default(), -longest));
    match times.into_iter().chain(others).find(|&(_, value, least)| !(least..=longest).contains(&value)) {
        None => Ok(()),
        Some((key, value, least)) => Err(PlotError::BadPoint {
            what: format!("{} of {}", point.what, point.network),
            found: format!("{key} is {value}"),
            expected: format!("microseconds from {least:e} to the longest that is simulated"),
        }),
    }
}

/// The ends of a point's interval; none without an interval above 0.
fn interval(point: &Point) -> Option<[f64; 2]> {
    let (low, high) = (point.low_us?, point.high_us?);
    (0.0 < low && low <= high).then_some([low, high])
}

/// The percentage of errors that are at most as large as each place along the axis.
fn shares(mut errors: Vec<f64>, largest: f64) -> Vec<(f64, f64)> {
    errors.sort_by(f64::total_cmp);
    let place =
        |step: u32| SMALLEST_ERROR * (largest / SMALLEST_ERROR).powf(f64::from(step) / f64::from(SHARES));
    let share = |limit: f64| errors.partition_point(|&error| error <= limit) as f64 / errors.len() as f64;
    (0..=SHARES).map(place).map(|error| (error, 100.0 * share(error))).collect()
}

#[cfg(test)]
mod tests;
