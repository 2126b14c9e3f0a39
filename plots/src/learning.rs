//! The learning curve: error against the number of measured runs in the fit.

use std::collections::BTreeMap;

use coexec_fit::calibrate::learning::LearningPoint;

use crate::accuracy::percent;
use crate::picture::check;
use crate::{Axis, Figure, Mark, PlotError, Row, Unit, at_most, look};

/// Width and height of the plot, in figure pixels.
const PLOT: (f64, f64) = (520.0, 360.0);
/// Most series that can be distinguished.
const MAX_SERIES: usize = 30;
/// Smallest error drawn, in percent, and used for all below: a logarithmic axis has no 0.
const MIN_ERROR: f64 = 0.01;
/// Place of a fit without rows on the axis, as a fraction of the fewest rows.
const NO_ROWS: f64 = 0.3;
const LINE_WIDTH: f64 = 2.0;
/// Opacity of the band between the draws.
const BAND_OPACITY: f64 = 0.15;

/// The errors of one series by the number of rows.
type Errors = BTreeMap<usize, Vec<f64>>;

/// Errors against measured runs: for each series a line through the means of the
/// draws, over a band from the smallest to the largest error.
///
/// # Errors
///
/// [`PlotError::BadPoint`] for an error that is not finite or below 0;
/// [`PlotError::TooMany`] for more series than can be distinguished.
pub fn learning_curve(points: &[LearningPoint]) -> Result<Figure, PlotError> {
    // In the order of their first occurrence.
    let mut curves: Vec<(&str, Errors)> = Vec::new();
    for point in points {
        check(&format!("{} with {} rows", point.series, point.rows), point.mape_percent)?;
        let index = curves.iter().position(|(name, _)| *name == point.series).unwrap_or(curves.len());
        if index == curves.len() {
            curves.push((&point.series, Errors::new()));
        }
        curves[index].1.entry(point.rows).or_default().push(point.mape_percent.max(MIN_ERROR));
    }
    at_most(MAX_SERIES, "series", curves.len())?;
    let fewest = points.iter().map(|point| point.rows).filter(|&rows| rows > 0).min().unwrap_or(1) as f64;
    // A fit without rows is placed left of the fewest rows, as a logarithmic axis has no 0.
    let place = |rows: usize| if rows == 0 { fewest * NO_ROWS } else { rows as f64 };
    let places = points.iter().map(|point| place(point.rows));
    let mut x = Axis::logarithmic("measured runs in the fit", places, Unit::Number);
    if points.iter().any(|point| point.rows == 0) {
        x = x.with_zero_at(place(0), fewest);
    }
    let errors = points.iter().map(|point| point.mape_percent.max(MIN_ERROR));
    let y = Axis::logarithmic("MAPE (%)", errors, Unit::Number);
    let mut figure = Figure::new(PLOT, x, y);
    figure.legend.heads = ["mean and range of draws", "most runs", "MAPE"].map(str::to_owned).to_vec();
    for (index, (_, errors)) in curves.iter().enumerate() {
        let edge = |of: fn(f64, f64) -> f64| {
            errors
                .iter()
                .map(move |(&rows, errors)| (place(rows), errors.iter().copied().fold(errors[0], of)))
        };
        let corners = edge(f64::min).chain(edge(f64::max).rev()).collect();
        figure.add("", Mark::Area(BAND_OPACITY), look(index).0, corners);
    }
    for (index, (name, errors)) in curves.iter().enumerate() {
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let means: Vec<(f64, f64)> =
            errors.iter().map(|(&rows, errors)| (place(rows), mean(errors))).collect();
        let (colour, shape) = look(index);
        figure.add("", Mark::Line(LINE_WIDTH), colour, means.clone());
        let most = errors.keys().last().copied().unwrap_or_default().to_string();
        let last = means.last().map_or(String::new(), |&(_, mean)| percent(mean));
        let mark = Mark::Markers { shape, is_filled: true };
        figure.add("", mark, colour, means);
        figure.legend.rows.push(Row::of(mark, colour, &[name, &most, &last]));
    }
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;
    use crate::frame::Item;

    fn point(series: &str, rows: usize, draw: usize, mape_percent: f64) -> LearningPoint {
        LearningPoint { series: series.to_owned(), rows, draw, mape_percent }
    }

    /// Two series, of which the second starts without a fit.
    fn figure() -> Figure {
        let points = [
            point("from nothing", 10, 0, 40.0),
            point("from nothing", 10, 1, 20.0),
            point("from nothing", 1000, 0, 4.0),
            point("from a profile", 0, 0, 30.0),
            point("from a profile", 10, 0, 10.0),
        ];
        learning_curve(&points).unwrap()
    }

    /// The points of a series of [`figure`].
    fn points(index: usize) -> Vec<(f64, f64)> {
        match &figure().items[index] {
            Item::Series(series) => series.points.clone(),
            other => panic!("{other:?} is no series"),
        }
    }

    #[test]
    fn a_line_joins_the_means_of_draws_over_a_band_of_their_range() {
        assert_eq!(points(0), [(10.0, 20.0), (1000.0, 4.0), (1000.0, 4.0), (10.0, 40.0)]);
        assert_eq!(points(2), [(10.0, 30.0), (1000.0, 4.0)]);
        let rows = figure().legend.rows;
        assert_eq!(rows[0].cells, ["from nothing", "1000", "4.0 %"]);
        assert_eq!(rows[1].cells, ["from a profile", "10", "10.0 %"]);
        assert!(!figure().draw(Format::Svg).unwrap().is_empty());
    }

    #[test]
    fn a_fit_without_rows_has_its_own_tick_left_of_the_others() {
        let figure = figure();
        let (place, _) = points(4)[0];
        let (none, others): (Vec<_>, Vec<_>) = figure.x.ticks.iter().partition(|tick| tick.1 == "0");
        assert_eq!(none[0].0.to_bits(), place.to_bits());
        assert!(place < 10.0 && others.iter().all(|tick| tick.0 >= 10.0 - 1e-6));
    }

    #[test]
    fn an_error_that_is_no_number_is_refused_by_name_and_so_is_a_curve_without_points() {
        for mape_percent in [f64::NAN, f64::INFINITY, -1.0] {
            let points = [point("from nothing", 10, 0, mape_percent)];
            let message = learning_curve(&points).unwrap_err().to_string();
            assert!(message.contains("from nothing with 10 rows"), "{message}");
        }
        let empty = learning_curve(&[]).unwrap().draw(Format::Svg);
        assert!(matches!(empty, Err(PlotError::NoPoints { .. })));
    }

    #[test]
    fn more_series_than_can_be_distinguished_are_refused() {
        let many: Vec<LearningPoint> =
            (0..=MAX_SERIES).map(|index| point(&index.to_string(), 1, 0, 1.0)).collect();
        assert!(learning_curve(&many[1..]).is_ok());
        let message = learning_curve(&many).unwrap_err().to_string();
        assert!(message.contains("31 series"), "{message}");
    }
}
