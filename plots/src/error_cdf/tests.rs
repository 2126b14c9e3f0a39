use proptest::prelude::*;

use super::*;
use crate::comparison::tests::point;
use crate::test_figures::{ROUNDING, elements, pixels, words};

fn comparison(points: &[Point]) -> Comparison<'_> {
    Comparison { title: "Errors", subtitle: "", points }
}

fn svg(points: &[Point]) -> Vec<u8> {
    error_cdf(&comparison(points), Format::Svg).unwrap()
}

/// Points with errors of 1 %, 2 %, ... of the model, and ten times of the others.
fn points() -> Vec<Point> {
    (1..=20)
        .map(|percent| Point {
            physics_us: 100.0 + 10.0 * f64::from(percent),
            flops_linear_us: Some(100.0 - 10.0 * f64::from(percent)),
            codl_us: Some(100.0 + 5.0 * f64::from(percent)),
            ..point("gpu/conv2d", 100.0, 100.0 + f64::from(percent))
        })
        .collect()
}

/// The longest line of a colour: the curve, not its sample in the legend.
fn curve(svg: &[u8], colour: RGBColor) -> Vec<Place> {
    let lines =
        elements(svg).into_iter().filter(|one| one.is("polyline") && one.has_colour("stroke", colour));
    lines.map(|one| one.points()).max_by_key(Vec::len).unwrap()
}

#[test]
fn a_curve_crosses_an_error_at_the_share_of_points_within_it() {
    let (points, figure) = (points(), svg(&points()));
    let layout = lay_out(&comparison(&points)).unwrap();
    let line = curve(&figure, BLUE);
    for (error, share) in [(5.5, 25.0), (12.5, 60.0), (50.0, 100.0)] {
        let (column, row) = layout.panel.place(error, share);
        let before = line.iter().rev().find(|corner| corner.0 <= column).unwrap();
        assert!((before.1 - row).abs() < ROUNDING, "{error} %");
    }
    assert!(line.windows(2).all(|pair| pair[1].0 >= pair[0].0 && pair[1].1 <= pair[0].1), "it only rises");
}

#[test]
fn the_legend_names_the_models_and_their_share_within_10_percent() {
    let words = words(&svg(&points()));
    for expected in
        ["this model", "without residual", "linear in FLOPs", "CoDL", "error of 10 %", "10.5 %", "105 %"]
    {
        assert!(words.iter().any(|word| word == expected), "{expected} in {words:?}");
    }
}

#[test]
fn a_model_without_a_residual_has_one_curve() {
    let points = [point("cpu/1large/float", 10.0, 11.0), point("cpu/1large/float", 10.0, 12.0)];
    let words = words(&svg(&points));
    assert!(!words.iter().any(|word| word == "without residual" || word == "linear in FLOPs"));
}

#[test]
fn exact_predictions_are_a_curve_at_the_top() {
    let points = [point("gpu/conv2d", 10.0, 10.0)];
    let line = curve(&svg(&points), BLUE);
    let top = lay_out(&comparison(&points)).unwrap().panel.area.top;
    assert!(line.iter().all(|corner| (corner.1 - top).abs() < ROUNDING), "{line:?}");
}

#[test]
fn the_error_axis_grows_with_the_largest_error_up_to_a_limit() {
    let end = |predicted: f64| {
        lay_out(&comparison(&[point("gpu/conv2d", 1.0, predicted)])).unwrap().panel.x.ends().1
    };
    for (predicted, expected) in [(1.5, 100.0), (2.5, 300.0), (5.0, 1000.0), (1e6, 1000.0)] {
        assert!((end(predicted) / expected - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_png_shows_the_curves() {
    let (.., pixels) = pixels(&error_cdf(&comparison(&points()), Format::Png).unwrap());
    for colour in [BLUE, GREEN, VERMILION] {
        let area = pixels.iter().filter(|&&pixel| pixel == colour).count();
        assert!(area > 100, "{colour:?} covers {area} pixels");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn curves_of_any_errors_stay_in_the_plot(
        times in prop::collection::vec((-6.0..13.2f64, -6.0..13.2f64, 0.0..1e9f64), 1..40),
    ) {
        let points: Vec<Point> = times
            .iter()
            .map(|&(measured, predicted, physics_us)| Point {
                physics_us,
                ..point("gpu/conv2d", 10f64.powf(measured), 10f64.powf(predicted))
            })
            .collect();
        let plot = lay_out(&comparison(&points)).unwrap().panel.area.grown(ROUNDING);
        for colour in [BLUE, GREEN] {
            for corner in curve(&svg(&points), colour) {
                prop_assert!(plot.holds(corner), "{corner:?}");
            }
        }
    }
}
