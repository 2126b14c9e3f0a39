use crate::figure::BarSeries;

use super::*;
use crate::test_figures::{Element, ROUNDING, elements, words};

fn drawn(drawing: Drawing) -> Result<Vec<u8>, PlotError> {
    let (name, title, subtitle) = ("name".to_owned(), "Speedups".to_owned(), "of ours".to_owned());
    picture(&Picture { name, title, subtitle, drawing }, Format::Svg)
}

fn bars() -> Bars {
    let series = |name: &str, is_published, values: [Option<f64>; 2]| BarSeries {
        name: name.to_owned(),
        is_published,
        values: values.to_vec(),
    };
    Bars {
        y: "speedup".to_owned(),
        categories: vec!["Pixel 4".to_owned(), "Pixel 5".to_owned()],
        series: vec![
            series("published", true, [Some(1.9), Some(2.0)]),
            series("coexec", false, [Some(1.8), None]),
        ],
    }
}

/// Bars as left edge, upper edge and width, without those of the legend.
fn drawn_bars(svg: &[u8]) -> Vec<(f64, f64, f64)> {
    let is_bar =
        |one: &&Element| one.is("rect") && one.length("height") > 10.5 && one.length("height") < 11.5;
    let elements = elements(svg);
    let bars = elements.iter().filter(is_bar);
    bars.map(|one| (one.length("x"), one.length("y"), one.length("width"))).collect()
}

#[test]
fn grouped_bars_are_adjacent_and_as_long_as_their_values() {
    let bars = drawn_bars(&drawn(Drawing::GroupedBars(bars())).unwrap());
    assert_eq!(bars.len(), 3);
    assert!(bars.iter().all(|bar| (bar.0 - bars[0].0).abs() < ROUNDING));
    assert!((bars[1].1 - bars[0].1 - 11.0).abs() < ROUNDING && bars[2].1 > bars[1].1 + 11.0);
    assert!((bars[1].2 / bars[0].2 - 1.8 / 1.9).abs() < 0.01);
}

#[test]
fn published_values_have_a_paler_colour_of_the_same_hue() {
    let colours = colours([true, false, true, false].into_iter());
    assert_eq!([colours[1], colours[3]], [look(0).0, look(1).0]);
    assert_eq!(colours[0], tint(colours[1], PUBLISHED_TINT));
    assert_eq!(colours[2], tint(colours[3], PUBLISHED_TINT));
}

#[test]
fn a_figure_names_its_categories_series_and_axes() {
    let words = words(&drawn(Drawing::GroupedBars(bars())).unwrap());
    for word in ["Speedups", "Pixel 4", "published", "coexec", "speedup"] {
        assert!(words.iter().any(|found| found == word), "{word} in {words:?}");
    }
}

#[test]
fn a_value_that_is_no_number_is_refused_by_the_name_of_its_series() {
    let mut wrong = bars();
    wrong.series[0].values[0] = Some(f64::NAN);
    let message = drawn(Drawing::GroupedBars(wrong)).unwrap_err().to_string();
    assert!(message.contains("published"), "{message}");
    let none = Drawing::GroupedBars(Bars { series: Vec::new(), ..bars() });
    assert!(matches!(drawn(none), Err(PlotError::NoPoints { .. })));
    let many = Drawing::GroupedBars(Bars { series: vec![bars().series[0].clone(); 15], ..bars() });
    assert!(matches!(drawn(many), Err(PlotError::TooMany { limit: MAX_SERIES, .. })));
}

fn heat_map(values: Vec<Vec<Option<f64>>>) -> Drawing {
    Drawing::HeatMap(HeatMap {
        x: "tokens".to_owned(),
        y: "product".to_owned(),
        value: "GPU share (%)".to_owned(),
        columns: vec!["1".to_owned(), "256".to_owned()],
        rows: vec!["q".to_owned(), "down".to_owned()],
        values,
    })
}

#[test]
fn a_cell_is_darker_the_higher_its_value_and_says_it() {
    let svg = drawn(heat_map(vec![vec![Some(75.0), Some(15.0)], vec![Some(90.0), None]])).unwrap();
    let elements = elements(&svg);
    let cells =
        elements.iter().filter(|one| one.is("rect") && (one.length("height") - 30.0).abs() < ROUNDING);
    let red = |cell: &Element| u8::from_str_radix(&cell.attribute("fill")[1..3], 16).unwrap();
    let reds: Vec<u8> = cells.map(red).collect();
    assert_eq!(reds.len(), 3, "no cell without a value");
    assert!(reds[2] < reds[0] && reds[0] < reds[1]);
    let words = words(&svg);
    for word in ["Speedups", "down", "256", "15", "90", "GPU share (%)", "tokens", "product"] {
        assert!(words.iter().any(|found| found == word), "{word} in {words:?}");
    }
}

#[test]
fn a_heat_map_without_cells_or_with_a_value_below_0_is_refused() {
    assert!(matches!(drawn(heat_map(vec![vec![None]])), Err(PlotError::NoPoints { .. })));
    assert!(matches!(drawn(heat_map(vec![vec![Some(-1.0)]])), Err(PlotError::BadPoint { .. })));
}
