//! Figures of accuracy: predictions beside their measurements.
//!
//! Responsible for: refusing points that cannot be drawn, and what of them each XY figure
//! shows: times and errors. Not for: the error figures, which
//! [`coexec_fit::validate`] computes.
//! Invariant: every point that is given is drawn, or refused with its name.

mod groups;

use coexec_fit::validate::figures;
use coexec_fit::validate::point::Point;
use coexec_sim::Picos;

use crate::{Axis, BLUE, Figure, GREEN, INK, MUTED, Mark, PURPLE, PlotError, Row, Unit, VERMILION, tint};
use groups::{add_markers, grouped, rows};

/// Shortest time that is drawn: a step of simulated time, in microseconds.
const SHORTEST_US: f64 = 1e-6;
/// Part of the measured time within which a prediction counts as close, as in
/// the error figures.
const CLOSE: f64 = 0.10;
/// Opacity of the ground of close predictions.
const CLOSE_OPACITY: f64 = 0.13;
/// Largest error a legend shows, in percent.
const LARGEST_SHOWN: f64 = 9999.0;
/// Most points that show their intervals.
const MOST_INTERVALS: usize = 60;
/// White in the colour of an interval.
const INTERVAL_TINT: f64 = 0.35;

// Sizes and widths are in figure pixels.

const SQUARE: (f64, f64) = (460.0, 460.0);
const PLOT: (f64, f64) = (560.0, 360.0);
const THIN: f64 = 1.0;
const MIDDLE: f64 = 1.5;
const STRONG: f64 = 2.5;

/// Lower end of the axis of absolute errors, in percent.
const SMALLEST_ERROR: f64 = 0.1;
/// Its upper ends, of which the first is taken that holds all errors; beyond the last,
/// all predictions are useless.
const LARGEST_ERRORS: [f64; 3] = [100.0, 300.0, 1000.0];
/// Places along the axis at which the share of predictions is shown.
const SHARES: u32 = 512;

/// Percent for a legend: one decimal where that tells more.
pub(crate) fn percent(value: f64) -> String {
    if value > LARGEST_SHOWN {
        return format!("> {LARGEST_SHOWN} %");
    }
    let decimals = usize::from(value.abs() < 99.95);
    // Without a negative zero.
    let value = if value.abs() < 0.05 { 0.0 } else { value };
    format!("{value:.decimals$} %")
}

/// Predicted against measured time: each group has a colour and a marker, and its error
/// figures in the legend. Markers are hollow for what the fit had seen; where it had
/// seen everything or nothing, all are filled. Few points show their 90 % intervals.
///
/// # Errors
///
/// [`PlotError::BadPoint`] for a point whose times are not finite and above 0.
pub fn scatter(points: &[Point]) -> Result<Figure, PlotError> {
    points.iter().try_for_each(check)?;
    let groups = grouped(points.iter());
    let few = points.len() <= MOST_INTERVALS;
    let intervals: Vec<(&Point, f64, f64)> =
        points.iter().filter(|_| few).filter_map(|point| interval(point)).collect();
    let times = || {
        let times = points.iter().flat_map(|point| [point.measured_us, point.predicted_us]);
        times.chain(intervals.iter().flat_map(|&(_, low, high)| [low, high]))
    };
    let axis = |title: &str| Axis::logarithmic(title, times(), Unit::Micros);
    let mut figure = Figure::new(SQUARE, axis("measured time"), axis("predicted time"));
    if points.is_empty() {
        return Ok(figure);
    }
    let (low, high) = figure.x.ends();
    let (below, above) = (1.0 - CLOSE, 1.0 + CLOSE);
    // The corners of the band of close predictions within the axes.
    let band = vec![
        (low, low),
        (low, low * above),
        (high / above, high),
        (high, high),
        (high, high * below),
        (low / below, low),
    ];
    let close = Mark::Area { opacity: CLOSE_OPACITY };
    let (line, segments) = (Mark::Line { width: THIN }, Mark::Segments { width: THIN });
    figure.add("", close, BLUE, band);
    figure.add("", line, INK, vec![(low, low), (high, high)]);
    for group in &groups {
        let mine = intervals.iter().filter(|(point, ..)| point.group == group.name);
        let ends = mine.flat_map(|&(point, low, high)| [(point.measured_us, low), (point.measured_us, high)]);
        let colour = tint(group.look.0, INTERVAL_TINT);
        figure.add("", segments, colour, ends.collect());
    }
    add_markers(&mut figure, &groups);
    figure.legend.heads = ["group", "n", "MAPE", "within 10 %"].map(str::to_owned).to_vec();
    figure.legend.rows = rows(&groups);
    if !intervals.is_empty() {
        figure.add("90 % interval", segments, tint(INK, INTERVAL_TINT), Vec::new());
    }
    figure.add("equal times", line, INK, Vec::new());
    figure.add("within 10 %", close, BLUE, Vec::new());
    Ok(figure)
}

/// The share of predictions against their absolute error: of the model, of the model
/// without its residual where that differs, and of those it is compared with, for the
/// points that have their prediction.
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
    let largest = LARGEST_ERRORS.into_iter().find(holds).unwrap_or(LARGEST_ERRORS[2]);
    let title = "absolute error (% of the measured time)";
    let x = Axis::between(title, (SMALLEST_ERROR, largest), Unit::Number);
    let y = Axis::linear("share of predictions (%)", (0.0, 100.0), Unit::Number);
    let mut figure = Figure::new(PLOT, x, y);
    if points.is_empty() {
        return Ok(figure);
    }
    figure.legend.heads = ["model", "n", "within 10 %", "median"].map(str::to_owned).to_vec();
    let limit = Mark::Dashes { width: THIN };
    figure.add("", limit, MUTED, vec![(100.0 * CLOSE, 0.0), (100.0 * CLOSE, 100.0)]);
    curves.retain(|(.., pairs)| !pairs.is_empty());
    // The model's own line lies over the others.
    for (_, colour, width, pairs) in curves.iter().rev() {
        figure.add("", Mark::Line { width: *width }, *colour, shares(errors(pairs), largest));
    }
    for (name, colour, width, pairs) in curves {
        let figures = figures("", &pairs);
        let [within, median] = [figures.within_10_percent, figures.median_ape_percent].map(percent);
        let cells = [name, &figures.n.to_string(), &within, &median];
        figure.legend.rows.push(Row::of(Mark::Line { width }, colour, &cells));
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
    let times = times.map(|(key, value)| (key, value, SHORTEST_US));
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

/// A point with the ends of its interval, where it has one above 0.
fn interval(point: &Point) -> Option<(&Point, f64, f64)> {
    let (low, high) = (point.low_us?, point.high_us?);
    (0.0 < low && low <= high).then_some((point, low, high))
}

/// The share of errors, in percent, that are at most as large, at places along the axis.
fn shares(mut errors: Vec<f64>, largest: f64) -> Vec<(f64, f64)> {
    errors.sort_by(f64::total_cmp);
    let place =
        |step: u32| SMALLEST_ERROR * (largest / SMALLEST_ERROR).powf(f64::from(step) / f64::from(SHARES));
    let share = |limit: f64| errors.partition_point(|&error| error <= limit) as f64 / errors.len() as f64;
    (0..=SHARES).map(place).map(|error| (error, 100.0 * share(error))).collect()
}

#[cfg(test)]
mod tests;
