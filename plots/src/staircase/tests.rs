use proptest::prelude::*;

use super::*;
use crate::comparison::tests::point;
use crate::palette::BLUE;
use crate::test_figures::{ROUNDING, elements, pixels, words};

const SHOWN: Launches<'_> = Launches { kernel: "conv_generic", tile_size: 8, least_iterations: 16 };

/// A launch of 32 iterations of these microseconds each.
fn launch(groups: u32, measured_us: f64, predicted_us: f64) -> Point {
    Point {
        kernel: Some(SHOWN.kernel.to_owned()),
        tile_size: Some(SHOWN.tile_size),
        iterations: Some(32),
        groups: Some(groups),
        ..point("gpu/conv2d", 32.0 * measured_us, 32.0 * predicted_us)
    }
}

/// Launches in rounds of four groups: a step each.
fn rounds() -> Vec<Point> {
    (1..=12)
        .map(|groups| launch(groups, 1.02 * f64::from(groups.div_ceil(4)), f64::from(groups.div_ceil(4))))
        .collect()
}

fn comparison(points: &[Point]) -> Comparison<'_> {
    Comparison { title: "Rounds", subtitle: "", points }
}

fn svg(points: &[Point]) -> Vec<u8> {
    staircase(&comparison(points), &SHOWN, Format::Svg).unwrap()
}

#[test]
fn the_stair_rises_where_a_round_begins() {
    let points = rounds();
    let layout = lay_out(&comparison(&points), &SHOWN).unwrap();
    let corners = layout.stair();
    let rises: Vec<f64> =
        corners.windows(2).filter(|pair| pair[1].1 < pair[0].1 - 1.0).map(|pair| pair[0].0).collect();
    let expected = [5.0, 9.0].map(|groups| layout.panel.place(groups, 1.0).0);
    assert_eq!(rises.len(), 2);
    assert!(rises.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9));
}

#[test]
fn each_launch_stands_at_its_groups_and_its_time_an_iteration() {
    let points = rounds();
    let panel = lay_out(&comparison(&points), &SHOWN).unwrap().panel;
    let svg = svg(&points);
    let circles = elements(&svg);
    let circles: Vec<_> =
        circles.iter().filter(|one| one.is("circle") && one.has_colour("fill", BLUE)).collect();
    assert_eq!(circles.len(), 12 + 1, "one of them in the legend");
    let place = panel.place(7.0, 2.04);
    let is_there = |(x, y): (f64, f64)| (x - place.0).abs() < ROUNDING && (y - place.1).abs() < ROUNDING;
    assert!(circles.iter().any(|one| is_there((one.length("cx"), one.length("cy")))));
}

#[test]
fn launches_of_other_kernels_tiles_or_few_iterations_are_left_out() {
    let mut points = rounds();
    points.push(Point { kernel: Some("winograd".to_owned()), ..launch(99, 1.0, 1.0) });
    points.push(Point { tile_size: Some(4), ..launch(99, 1.0, 1.0) });
    points.push(Point { iterations: Some(15), ..launch(99, 1.0, 1.0) });
    points.push(Point { iterations: Some(0), ..launch(99, 1.0, 1.0) });
    points.push(Point { groups: Some(0), ..launch(99, 1.0, 1.0) });
    assert_eq!(lay_out(&comparison(&points), &SHOWN).unwrap().launches.len(), 12);
    let error = staircase(&comparison(&points[12..]), &SHOWN, Format::Svg).unwrap_err();
    assert!(matches!(error, PlotError::NoPoints { .. }));
}

#[test]
fn the_stair_is_the_median_where_predictions_differ() {
    let launches = [1.0, 5.0, 2.0].map(|us| Launch { groups: 3, measured_us: us, predicted_us: us });
    assert_eq!(medians(&launches), [(3, 2.0)]);
}

#[test]
fn the_legend_names_the_launches_and_their_errors() {
    let words = words(&svg(&rounds()));
    for expected in [
        "conv_generic, tile of 8",
        "n 12",
        "median prediction",
        "2.0 %",
        "100 %",
        "work-groups",
        "time over loop iterations",
    ] {
        assert!(words.iter().any(|word| word == expected), "{expected} in {words:?}");
    }
}

#[test]
fn a_png_shows_stair_and_launches() {
    let (.., pixels) = pixels(&staircase(&comparison(&rounds()), &SHOWN, Format::Png).unwrap());
    assert!(pixels.contains(&VERMILION) && pixels.iter().any(|pixel| pixel.2 > pixel.0.saturating_add(80)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_stair_of_any_launches_stays_in_the_plot(
        found in prop::collection::vec((1..u32::MAX, -6.0..11.0f64, -6.0..11.0f64), 1..30),
    ) {
        let points: Vec<Point> = found
            .iter()
            .map(|&(groups, measured, predicted)| launch(groups, 10f64.powf(measured), 10f64.powf(predicted)))
            .collect();
        let layout = lay_out(&comparison(&points), &SHOWN).unwrap();
        for corner in layout.stair() {
            prop_assert!(layout.panel.area.grown(1e-6).holds(corner));
        }
        prop_assert!(!svg(&points).is_empty());
    }
}
