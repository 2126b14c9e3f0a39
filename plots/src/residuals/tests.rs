use proptest::prelude::*;

use super::*;
use crate::comparison::tests::point;
use crate::palette::BLUE;
use crate::test_figures::{Element, ROUNDING, elements, pixels, words};

/// A point with an error, waves and bytes.
fn launch(percent: f64, waves: f64) -> Point {
    Point {
        waves_per_unit: Some(waves),
        bytes: Some((waves * 1000.0) as u64),
        ..point("gpu/conv2d", 100.0, 100.0 + percent)
    }
}

fn comparison(points: &[Point]) -> Comparison<'_> {
    Comparison { title: "Errors", subtitle: "", points }
}

fn svg(points: &[Point]) -> Vec<u8> {
    residual_waves(&comparison(points), Format::Svg).unwrap()
}

/// Markers in the plot, by column.
fn markers(svg: &[u8]) -> Vec<(f64, f64)> {
    let circles = elements(svg).into_iter().filter(|one| one.is("circle") && one.has_colour("fill", BLUE));
    let mut places: Vec<(f64, f64)> = circles.map(|one| (one.length("cx"), one.length("cy"))).collect();
    // The rightmost is in the legend.
    places.sort_by(|one, other| one.0.total_cmp(&other.0));
    places.pop();
    places
}

fn bars(svg: &[u8]) -> Vec<Element> {
    elements(svg).into_iter().filter(|one| one.is("rect") && one.has_colour("fill", HATCH)).collect()
}

#[test]
fn an_error_stands_at_its_height_and_the_band_ends_at_10_percent() {
    let svg = svg(&[launch(0.0, 1.0), launch(10.0, 10.0), launch(-10.0, 100.0)]);
    let at = markers(&svg);
    let band = elements(&svg).into_iter().filter(|one| one.is("rect") && one.has_colour("fill", CLOSE_BAND));
    let band = band.max_by(|one, other| one.length("width").total_cmp(&other.length("width"))).unwrap();
    let (top, height) = (band.length("y"), band.length("height"));
    assert!((at[1].1 - top).abs() < ROUNDING && (at[2].1 - top - height).abs() < ROUNDING);
    assert!((at[0].1 - top - height / 2.0).abs() < ROUNDING);
    assert!((at[1].0 - at[0].0 - (at[2].0 - at[1].0)).abs() < 2.0 * ROUNDING, "decades are equally wide");
}

#[test]
fn errors_beyond_the_axis_stand_at_its_edge_and_are_counted() {
    let mut points: Vec<Point> = (0..99).map(|index| launch(1.0, 1.0 + f64::from(index))).collect();
    points.push(launch(500.0, 200.0));
    let svg = svg(&points);
    let at = markers(&svg);
    let top = at.iter().map(|place| place.1).fold(f64::INFINITY, f64::min);
    assert!((at[99].1 - top).abs() < ROUNDING);
    assert!(words(&svg).contains(&"1 beyond the axis, at its edge".to_owned()));
}

#[test]
fn the_histogram_has_the_longest_bar_where_most_errors_are() {
    let mut points: Vec<Point> = (0..30).map(|_| launch(5.0, 4.0)).collect();
    points.extend((0..10).map(|_| launch(-5.0, 4.0)));
    let bars = bars(&svg(&points));
    assert_eq!(bars.len(), 2);
    let (long, short) = (bars.iter().map(|bar| bar.length("width")).fold(0.0, f64::max), HISTOGRAM.0 / 3.0);
    assert!((long - HISTOGRAM.0).abs() < ROUNDING);
    assert!(bars.iter().any(|bar| (bar.length("width") - short).abs() < ROUNDING));
}

#[test]
fn the_running_median_follows_a_trend_and_ignores_an_outlier() {
    let trend = |x: f64| if x < 50.0 { 0.0 } else { 8.0 };
    let mut points: Vec<(f64, f64)> = (0..100).map(|x| (f64::from(x), trend(f64::from(x)))).collect();
    points[20].1 = 900.0;
    let medians = running_median(points);
    assert!(medians.iter().all(|&(x, y)| (x - 50.0).abs() < 8.0 || (y - trend(x)).abs() < 1e-9));
    assert!(running_median(vec![(1.0, 1.0); FEWEST_FOR_MEDIAN - 1]).is_empty());
    assert_eq!(running_median(vec![(1.0, 2.0); 100]), [(1.0, 2.0)]);
}

#[test]
fn points_without_the_quantity_are_left_out_and_refused_alone() {
    let without = point("cpu/1large/float", 1.0, 1.0);
    let svg = svg(&[launch(1.0, 2.0), without.clone()]);
    assert!(!words(&svg).contains(&"cpu/1large/float".to_owned()));
    for figure in [residual_waves, residual_bytes] {
        let error = figure(&comparison(std::slice::from_ref(&without)), Format::Svg).unwrap_err();
        assert!(matches!(error, PlotError::NoPoints { .. }));
    }
}

#[test]
fn bytes_are_labelled_with_their_units() {
    let points = [launch(1.0, 1.0), launch(2.0, 1e4)];
    let words = words(&residual_bytes(&comparison(&points), Format::Svg).unwrap());
    for expected in ["1 kB", "1 MB", "inputs, outputs and weights", "within 10 %", "-10 %"] {
        assert!(words.iter().any(|word| word == expected), "{expected} in {words:?}");
    }
}

#[test]
fn a_png_shows_band_and_points() {
    let points: Vec<Point> = (1..50).map(|index| launch(f64::from(index % 7), f64::from(index))).collect();
    let (.., pixels) = pixels(&residual_bytes(&comparison(&points), Format::Png).unwrap());
    for colour in [BLUE, CLOSE_BAND, HATCH] {
        assert!(pixels.contains(&colour), "{colour:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_errors_are_all_drawn(
        launches in prop::collection::vec((-6.0..13.0f64, -6.0..13.0f64, 1e-9..1e12f64), 1..60),
    ) {
        let points: Vec<Point> = launches
            .iter()
            .map(|&(measured, predicted, waves)| Point {
                waves_per_unit: Some(waves),
                ..point("gpu/conv2d", 10f64.powf(measured), 10f64.powf(predicted))
            })
            .collect();
        prop_assert_eq!(markers(&svg(&points)).len(), points.len());
    }
}
