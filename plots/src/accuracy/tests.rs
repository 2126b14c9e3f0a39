use proptest::prelude::*;

use super::*;
use crate::Format;
use crate::frame::{Item, Series};

/// A point of a group.
fn point(group: &str, measured_us: f64, predicted_us: f64) -> Point {
    Point {
        group: group.into(),
        network: "net".to_owned(),
        what: "layer".to_owned(),
        measured_us,
        predicted_us,
        physics_us: predicted_us,
        ..Point::default()
    }
}

/// The series of a figure.
fn series(figure: &Figure) -> impl Iterator<Item = &Series> {
    figure.items.iter().map(|item| match item {
        Item::Series(series) => series,
        other => panic!("{other:?} is no series"),
    })
}

/// Places of a figure's filled and hollow markers.
fn marked(figure: &Figure) -> [Vec<(f64, f64)>; 2] {
    [true, false].map(|wanted| {
        let is_wanted =
            |one: &&Series| matches!(one.mark, Mark::Markers { is_filled, .. } if is_filled == wanted);
        series(figure).filter(is_wanted).flat_map(|one| one.points.clone()).collect()
    })
}

fn rows(figure: &Figure) -> Vec<String> {
    figure.legend.rows.iter().map(|row| row.cells.join(" | ")).collect()
}

/// Points of the line of a colour.
fn line(figure: &Figure, colour: crate::palette::Colour) -> Vec<(f64, f64)> {
    let is_line = |one: &&Series| matches!(one.mark, Mark::Line(_)) && one.colour == colour;
    series(figure).filter(is_line).map(|one| one.points.clone()).max_by_key(Vec::len).unwrap()
}

#[test]
fn a_point_that_cannot_be_drawn_is_refused_by_name() {
    for (measured, predicted, key) in [
        (0.0, 1.0, "measured_us"),
        (f64::NAN, 1.0, "measured_us"),
        (1.0, f64::INFINITY, "predicted_us"),
        (1.0, -1.0, "predicted_us"),
        (1e300, 1.0, "measured_us"),
    ] {
        let message = scatter(&[point("gpu/conv2d", measured, predicted)]).unwrap_err().to_string();
        assert!(message.contains("layer of net") && message.contains(key), "{message}");
    }
    let odd = Point { low_us: Some(f64::NAN), ..point("gpu/conv2d", 1.0, 1.0) };
    assert!(scatter(&[odd]).unwrap_err().to_string().contains("low_us"));
    assert!(
        error_cdf(&[])
            .unwrap()
            .titled("here", "")
            .draw(Format::Svg)
            .unwrap_err()
            .to_string()
            .contains("here")
    );
}

#[test]
fn a_scatter_has_a_marker_a_point_filled_where_the_fit_had_not_seen_it() {
    let unseen = Point { unseen: true, ..point("gpu/conv2d", 20.0, 21.0) };
    let points = [unseen, point("gpu/conv2d", 10.0, 11.0), point("gpu/conv2d", 30.0, 31.0)];
    let both = scatter(&points).unwrap();
    assert_eq!(marked(&both), [vec![(20.0, 21.0)], vec![(10.0, 11.0), (30.0, 31.0)]]);
    assert!(rows(&both).contains(&"not seen by the fit".to_owned()));
    let only = scatter(&points[1..]).unwrap();
    assert!(marked(&only)[1].is_empty() && !rows(&only).contains(&"seen by the fit".to_owned()));
}

#[test]
fn small_groups_are_drawn_over_large_ones_and_unseen_points_over_seen() {
    let unseen = Point { unseen: true, ..point("large", 2.0, 2.0) };
    let points = [unseen, point("small", 1.0, 1.0), point("large", 3.0, 3.0), point("large", 4.0, 4.0)];
    let mut figure = scatter(&[]).unwrap();
    add_markers(&mut figure, &grouped(points.iter()));
    let order: Vec<f64> = series(&figure).flat_map(|one| one.points.iter().map(|place| place.0)).collect();
    assert_eq!(order, [3.0, 4.0, 1.0, 2.0]);
}

#[test]
fn the_legend_has_the_error_figures_of_each_group_and_of_all() {
    let points =
        [point("gpu/conv2d", 100.0, 104.0), point("gpu/conv2d", 100.0, 80.0), point("gpu/mean", 10.0, 10.5)];
    let rows = rows(&scatter(&points).unwrap());
    let expected =
        ["gpu/conv2d | 2 | 12.0 % | 50.0 %", "gpu/mean | 1 | 5.0 % | 100 %", "all | 3 | 9.7 % | 66.7 %"];
    assert_eq!(rows[..3], expected);
    let many: Vec<Point> = (0..40).map(|index| point(&format!("g{index:02}"), 1.0, 1.0)).collect();
    assert_eq!(groups::rows(&grouped(many.iter()))[30].cells, ["and 10 more groups"]);
}

#[test]
fn few_points_show_their_intervals_on_axes_that_hold_them_and_many_do_not() {
    let with_interval = |us: f64| Point {
        low_us: Some(us * 0.5),
        high_us: Some(us * 1.5),
        ..point("gpu/depthwise_conv2d", us, us)
    };
    let ends = |points: &[Point]| {
        let figure = scatter(points).unwrap();
        let segments = series(&figure).filter(|one| matches!(one.mark, Mark::Segments(_)));
        (segments.map(|one| one.points.len()).sum::<usize>(), figure.y.ends())
    };
    let points: Vec<Point> = (1..=MAX_INTERVALS + 1).map(|index| with_interval(index as f64)).collect();
    assert_eq!(ends(&points[1..]).0, 2 * MAX_INTERVALS);
    assert_eq!(ends(&points).0, 0);
    let (low, high) = ends(&points[1..2]).1;
    assert!(low <= 1.0 && high >= 3.0);
}

#[test]
fn a_curve_of_errors_has_the_share_of_points_within_each() {
    let points: Vec<Point> = (1..=20)
        .map(|percent| Point {
            physics_us: 100.0 + 10.0 * f64::from(percent),
            flops_linear_us: Some(100.0 - 10.0 * f64::from(percent)),
            codl_us: Some(100.0 + 5.0 * f64::from(percent)),
            ..point("gpu/conv2d", 100.0, 100.0 + f64::from(percent))
        })
        .collect();
    let figure = error_cdf(&points).unwrap();
    let curve = line(&figure, BLUE);
    for (error, share) in [(5.5, 25.0), (12.5, 60.0), (50.0, 100.0)] {
        let before = curve.iter().rev().find(|place| place.0 <= error).unwrap();
        assert!((before.1 - share).abs() < 1e-9, "{error} %");
    }
    assert!(curve.windows(2).all(|pair| pair[1].0 > pair[0].0 && pair[1].1 >= pair[0].1), "it only rises");
    let rows = rows(&figure);
    // The tenth is off by 10 % plus a rounding error.
    assert_eq!(rows[0], "this model | 20 | 45.0 % | 10.5 %");
    for (row, name) in rows[1..].iter().zip(["without residual", "linear in FLOPs", "CoDL", "error of 10 %"])
    {
        assert!(row.starts_with(name), "{row}");
    }
    let exact = error_cdf(&[point("gpu/conv2d", 10.0, 10.0)]).unwrap();
    assert_eq!(exact.legend.rows.len(), 2, "one model, and the limit");
    assert!(line(&exact, BLUE).iter().all(|place| (place.1 - 100.0).abs() < 1e-9));
}

#[test]
fn the_error_axis_grows_with_the_largest_error_up_to_a_limit() {
    for (predicted, expected) in [(1.5, 100.0), (2.5, 300.0), (5.0, 1000.0), (1e6, 1000.0)] {
        let end = error_cdf(&[point("gpu/conv2d", 1.0, predicted)]).unwrap().x.ends().1;
        assert!((end / expected - 1.0_f64).abs() < 1e-9);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_times_that_are_simulated_make_figures_whose_axes_hold_them(
        times in prop::collection::vec((-6.0..13.2f64, -6.0..13.2f64), 1..40),
    ) {
        let points: Vec<Point> = times
            .iter()
            .map(|&(measured, predicted)| point("gpu/conv2d", 10f64.powf(measured), 10f64.powf(predicted)))
            .collect();
        for figure in [scatter(&points), error_cdf(&points)] {
            let figure = figure.unwrap();
            for (x, y) in series(&figure).flat_map(|one| &one.points) {
                for part in [figure.x.part(*x), figure.y.part(*y)] {
                    prop_assert!((-1e-9..=1.0 + 1e-9).contains(&part), "{x} {y}");
                }
            }
            prop_assert!(!figure.draw(Format::Svg).unwrap().is_empty());
        }
    }
}
