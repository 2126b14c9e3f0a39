use proptest::prelude::*;

use super::*;
use crate::comparison::tests::point;
use crate::font;
use crate::palette::{BLUE, GRID, MINOR_GRID, VERMILION};
use crate::sheet::PNG_SCALE;
use crate::test_figures::{Element, ROUNDING, elements, pixels, words};

fn comparison(points: &[Point]) -> Comparison<'_> {
    Comparison { title: "Pixel 4 & others", subtitle: "withheld networks", points }
}

fn svg(points: &[Point]) -> Vec<u8> {
    scatter(&comparison(points), Format::Svg).unwrap()
}

/// Circles of a colour in the plot, not those of the legend.
fn circles(svg: &[u8], colour: RGBColor) -> Vec<Element> {
    let in_plot = |one: &Element| one.is("circle") && one.length("cx") < 16.0 + 90.0 + SIDE;
    let of_colour = |one: &Element| one.has_colour("fill", colour) || one.has_colour("stroke", colour);
    elements(svg).into_iter().filter(in_plot).filter(of_colour).collect()
}

#[test]
fn a_point_stands_where_its_logarithms_say() {
    let points = [10.0, 100.0, 1000.0].map(|us| point("gpu/conv2d", us, us));
    let found = circles(&svg(&points), BLUE);
    let at: Vec<(f64, f64)> = found.iter().map(|one| (one.length("cx"), one.length("cy"))).collect();
    assert_eq!(at.len(), 3);
    assert!((at[1].0 - at[0].0 - (at[2].0 - at[1].0)).abs() < 2.0 * ROUNDING, "decades are equally wide");
    assert!((at[0].1 - at[1].1 - (at[1].0 - at[0].0)).abs() < 2.0 * ROUNDING, "the plot is square");
    let middle = lay_out(&comparison(&points)).unwrap().page.plot().middle();
    assert!((at[1].0 - middle.0).abs() < ROUNDING && (at[1].1 - middle.1).abs() < ROUNDING);
}

#[test]
fn a_prediction_at_the_edge_of_the_band_stands_on_its_edge() {
    let points =
        [point("gpu/conv2d", 10.0, 10.0), point("gpu/conv2d", 1000.0, 1000.0), point("x", 100.0, 110.0)];
    let layout = lay_out(&comparison(&points)).unwrap();
    let svg = svg(&points);
    let band = elements(&svg)
        .into_iter()
        .find(|one| one.is("polygon") && one.has_colour("fill", CLOSE_BAND))
        .unwrap()
        .points();
    let place = layout.panel.place(100.0, 110.0);
    // The upper edge has slope 1: right plus down is the same along it.
    let edge = layout.panel.place(1000.0, 1100.0);
    assert!((place.0 + place.1 - edge.0 - edge.1).abs() < 1e-6);
    let on_edge = band.iter().filter(|at| (at.0 + at.1 - place.0 - place.1).abs() < 2.0 * ROUNDING);
    assert_eq!(on_edge.count(), 2, "{band:?}");
    let plot = layout.page.plot().grown(ROUNDING);
    assert!(band.iter().all(|&corner| plot.holds(corner)), "the band is cut at the plot's edges");
}

#[test]
fn each_point_has_a_marker_filled_where_the_fit_had_not_seen_it() {
    let unseen = Point { unseen: true, ..point("gpu/conv2d", 20.0, 21.0) };
    let points = vec![unseen.clone(), point("gpu/conv2d", 10.0, 11.0), point("gpu/conv2d", 30.0, 31.0)];
    let svg_of_both = svg(&points);
    let found = circles(&svg_of_both, BLUE);
    assert_eq!(found.len(), 3);
    let hollow = found.iter().filter(|one| one.attribute("fill") == "none").count();
    assert_eq!(hollow, 2);
    assert!(words(&svg_of_both).contains(&"not seen by the fit".to_owned()));

    let only = svg(&points[1..]);
    assert!(circles(&only, BLUE).iter().all(|one| one.attribute("fill") != "none"));
    assert!(!words(&only).contains(&"seen by the fit".to_owned()));
}

#[test]
fn the_legend_has_the_error_figures_of_each_group_and_of_all() {
    let points = vec![
        point("gpu/conv2d", 100.0, 104.0),
        point("gpu/conv2d", 100.0, 80.0),
        point("gpu/mean", 10.0, 10.5),
    ];
    let words = words(&svg(&points));
    for expected in [
        "Pixel 4 &amp; others",
        "withheld networks",
        "measured time",
        "predicted time",
        "gpu/conv2d",
        "12.0 %",
        "50.0 %",
        "gpu/mean",
        "5.0 %",
        "100 %",
        "all",
        "9.7 %",
        "66.7 %",
    ] {
        assert!(words.iter().any(|word| word == expected), "{expected} in {words:?}");
    }
}

#[test]
fn few_points_show_their_intervals_and_many_do_not() {
    let with_interval = |us: f64| Point {
        low_us: Some(us * 0.5),
        high_us: Some(us * 1.5),
        ..point("gpu/depthwise_conv2d", us, us)
    };
    let bars = |points: &[Point]| {
        let pale = tint(VERMILION, INTERVAL_TINT);
        elements(&svg(points))
            .iter()
            .filter(|one| one.is("polyline") && one.has_colour("stroke", pale))
            .count()
    };
    let points: Vec<Point> = (1..=MOST_INTERVALS + 1).map(|index| with_interval(index as f64)).collect();
    assert_eq!(bars(&points[1..]), MOST_INTERVALS);
    assert_eq!(bars(&points), 0);
    let layout = lay_out(&comparison(&points[1..2])).unwrap();
    assert!(
        layout.panel.y.part(1.0) >= 0.0 && layout.panel.y.part(3.0) <= 1.0,
        "the axes hold the intervals"
    );
}

#[test]
fn a_png_is_as_large_as_the_figure_and_shows_the_groups() {
    let points: Vec<Point> =
        (1..40).map(|index| point("gpu/conv2d", f64::from(index), f64::from(index))).collect();
    let size = lay_out(&comparison(&points)).unwrap().size();
    let (width, height, pixels) = pixels(&scatter(&comparison(&points), Format::Png).unwrap());
    assert_eq!((width, height), (size.0 * PNG_SCALE, size.1 * PNG_SCALE));
    assert!(pixels.contains(&BLUE) && pixels.contains(&CLOSE_BAND));
    assert!(pixels.contains(&GRID) || pixels.contains(&MINOR_GRID));
}

#[test]
fn nothing_of_a_figure_with_a_tall_legend_lies_outside_of_it() {
    let points: Vec<Point> = (0..60)
        .map(|index| point(&format!("cpu/a rather long name of a core set {index}"), 1e3, 1e3))
        .collect();
    let svg = svg(&points);
    let (width, height) = lay_out(&comparison(&points)).unwrap().size();
    for one in elements(&svg).iter().filter(|one| one.is("text")) {
        let (x, y, length) = (one.length("x"), one.length("y"), font::width(&one.text, 12.0));
        let right = match one.attribute("text-anchor") {
            "start" => x + length,
            "middle" => x + length / 2.0,
            _ => x,
        };
        let title = one.text.starts_with("Pixel 4");
        assert!(y < f64::from(height) && (title || right <= f64::from(width)), "{}", one.text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_times_that_are_simulated_make_a_figure_that_holds_them(
        times in prop::collection::vec((-6.0..13.2f64, -6.0..13.2f64), 1..20),
    ) {
        let points: Vec<Point> = times
            .iter()
            .map(|&(measured, predicted)| point("gpu/conv2d", 10f64.powf(measured), 10f64.powf(predicted)))
            .collect();
        let plot = lay_out(&comparison(&points)).unwrap().page.plot();
        let found = circles(&svg(&points), BLUE);
        prop_assert_eq!(found.len(), points.len());
        for one in found {
            prop_assert!(plot.holds((one.length("cx"), one.length("cy"))));
        }
    }
}
