use proptest::prelude::*;

use super::*;
use crate::palette::{BLUE, VERMILION};
use crate::test_figures::{Element, ROUNDING, elements, pixels, words};

fn point(series: &str, rows: usize, draw: usize, mape_percent: f64) -> LearningPoint {
    LearningPoint { series: series.to_owned(), rows, draw, mape_percent }
}

/// Two series, of which the second starts without a fit.
fn points() -> Vec<LearningPoint> {
    vec![
        point("from nothing", 10, 0, 40.0),
        point("from nothing", 10, 1, 20.0),
        point("from nothing", 1000, 0, 4.0),
        point("from a profile", 0, 0, 30.0),
        point("from a profile", 10, 0, 10.0),
    ]
}

fn svg(points: &[LearningPoint]) -> Vec<u8> {
    learning_curve("Errors", "unseen networks", points, Format::Svg).unwrap()
}

#[test]
fn a_line_joins_the_means_of_draws_over_a_band_of_their_range() {
    let (points, figure) = (points(), svg(&points()));
    let panel = lay_out("", "unseen networks", &points).unwrap().panel;
    let elements = elements(&figure);
    let line = elements.iter().filter(|one| one.is("polyline") && one.has_colour("stroke", BLUE));
    let line =
        line.map(Element::points).find(|corners| corners.len() == 2 && corners[0].1 < corners[1].1 - 9.0);
    let band = elements
        .iter()
        .find(|one| one.is("polygon") && one.has_colour("fill", tint(BLUE, BAND_TINT)))
        .unwrap()
        .points();
    let near = |at: (f64, f64), x: f64, y: f64| {
        let place = panel.place(x, y);
        (at.0 - place.0).abs() < ROUNDING && (at.1 - place.1).abs() < ROUNDING
    };
    let line = line.unwrap();
    assert!(near(line[0], 10.0, 30.0) && near(line[1], 1000.0, 4.0), "{line:?}");
    assert!(band.iter().any(|&corner| near(corner, 10.0, 20.0)), "{band:?}");
    assert!(band.iter().any(|&corner| near(corner, 10.0, 40.0)), "{band:?}");
}

#[test]
fn a_fit_without_rows_stands_at_a_tick_of_its_own() {
    let (axis, no_rows) = rows_axis(&points());
    let none = axis.ticks.iter().find(|tick| tick.label == "0").unwrap();
    assert!((none.part - axis.part(no_rows)).abs() < 1e-12);
    let others = axis.ticks.iter().filter(|tick| tick.label != "0");
    assert!(
        others.into_iter().all(|tick| tick.part >= axis.part(10.0) - 1e-9),
        "no other tick is left of 10"
    );
    let (axis, _) = rows_axis(&points()[..3]);
    assert!(axis.ticks.iter().all(|tick| tick.label != "0"));
}

#[test]
fn the_legend_has_the_error_with_the_most_rows() {
    let words = words(&svg(&points()));
    for expected in [
        "Errors",
        "from nothing",
        "1000",
        "4.0 %",
        "from a profile",
        "10.0 %",
        "MAPE (%)",
        "measured runs in the fit",
    ] {
        assert!(words.iter().any(|word| word == expected), "{expected} in {words:?}");
    }
}

#[test]
fn an_error_that_is_no_number_is_refused_by_name() {
    for mape_percent in [f64::NAN, f64::INFINITY, -1.0] {
        let points = [point("from nothing", 10, 0, mape_percent)];
        let message = learning_curve("", "", &points, Format::Svg).unwrap_err().to_string();
        assert!(message.contains("from nothing with 10 rows"), "{message}");
    }
    assert!(matches!(learning_curve("", "", &[], Format::Svg), Err(PlotError::NoPoints { .. })));
}

#[test]
fn more_series_than_can_be_told_apart_are_refused() {
    let many: Vec<LearningPoint> =
        (0..=MOST_SERIES).map(|index| point(&index.to_string(), 1, 0, 1.0)).collect();
    assert!(learning_curve("", "", &many[1..], Format::Svg).is_ok());
    let message = learning_curve("", "", &many, Format::Svg).unwrap_err().to_string();
    assert!(message.contains("31 series"), "{message}");
}

#[test]
fn a_png_shows_the_lines() {
    let (.., pixels) = pixels(&learning_curve("Errors", "", &points(), Format::Png).unwrap());
    assert!(pixels.contains(&BLUE) && pixels.contains(&VERMILION));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_errors_make_a_figure_that_holds_them(
        found in prop::collection::vec((0..3usize, 0..100_000usize, 0.0..1e6f64), 1..30),
    ) {
        let points: Vec<LearningPoint> =
            found.iter().map(|&(series, rows, error)| point(&series.to_string(), rows, 0, error)).collect();
        let layout = lay_out("", "", &points).unwrap();
        for one in &layout.series {
            for step in &one.steps {
                for error in [step.least, step.mean, step.most] {
                    let place = layout.panel.place(layout.column(step), error);
                    prop_assert!(layout.panel.area.grown(1e-6).holds(place));
                }
            }
        }
        prop_assert!(!svg(&points).is_empty());
    }
}
