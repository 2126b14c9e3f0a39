use coexec_sim::published::{BarSeries, Bars, Curves, HeatMap, Line};

use super::*;
use crate::test_figures::words;

fn bars(kind: bars::Kind) -> Picture {
    let series = |name: &str, is_published, values: [Option<f64>; 2]| BarSeries {
        name: name.to_owned(),
        is_published,
        values: values.to_vec(),
    };
    let shown = Bars {
        y: "speedup".to_owned(),
        categories: vec!["Pixel 4".to_owned(), "Pixel 5".to_owned()],
        series: vec![
            series("published", true, [Some(1.9), Some(2.0)]),
            series("coexec", false, [Some(1.8), None]),
        ],
    };
    let drawing = match kind {
        bars::Kind::Grouped => Drawing::GroupedBars(shown),
        bars::Kind::Stacked => Drawing::StackedBars(shown),
    };
    Picture { name: "bars".into(), title: "Speedups".into(), subtitle: "of ours".into(), drawing }
}

fn curves(points: Vec<(f64, f64)>) -> Picture {
    let line = |is_published, points| Line { name: "GPU".to_owned(), is_published, points };
    let lines = vec![line(false, points), line(true, vec![(2.0, 3.0)])];
    let drawing = Drawing::Curves(Curves { x: "channels".into(), y: "time (us)".into(), lines });
    Picture { name: "curves".into(), title: "Times".into(), subtitle: String::new(), drawing }
}

fn areas(kind: bars::Kind) -> Vec<crate::area::Area> {
    let picture = bars(kind);
    let (Drawing::GroupedBars(shown) | Drawing::StackedBars(shown)) = &picture.drawing else {
        unreachable!()
    };
    let layout = bars::lay_out(&picture, shown, kind).unwrap();
    layout.bars.iter().map(|bar| bar.area(&layout.panel)).collect()
}

#[test]
fn grouped_bars_stand_side_by_side_on_the_axis_as_high_as_their_values() {
    let areas = areas(bars::Kind::Grouped);
    assert_eq!(areas.len(), 3);
    assert!(areas.iter().all(|area| (area.bottom - areas[0].bottom).abs() < 1e-9));
    assert!((areas[0].right - areas[1].left).abs() < 1e-9);
    assert!((areas[1].height() / areas[0].height() - 1.8 / 1.9).abs() < 1e-9);
    assert!(areas[2].left > areas[1].right);
}

#[test]
fn stacked_bars_stand_on_each_other() {
    let areas = areas(bars::Kind::Stacked);
    assert!((areas[1].bottom - areas[0].top).abs() < 1e-9);
    assert!((areas[1].left - areas[0].left).abs() < 1e-9);
}

#[test]
fn what_is_published_has_a_paler_colour_of_the_same_kind() {
    let looks = looks([true, false, true, false].into_iter());
    assert_eq!((looks[0], looks[2]), (looks[1], looks[3]));
    assert_ne!(looks[0], looks[2]);
    assert_ne!(colour(looks[0], true), colour(looks[0], false));
}

#[test]
fn a_figure_names_its_categories_series_and_axes() {
    for (picture_of, expected) in [
        (bars(bars::Kind::Grouped), ["Pixel 4", "published", "coexec", "speedup"]),
        (curves(vec![(1.0, 2.0), (3.0, 4.0)]), ["Times", "GPU", "channels", "time (us)"]),
    ] {
        let words = words(&picture(&picture_of, Format::Svg).unwrap());
        for word in expected {
            assert!(words.iter().any(|found| found == word), "{word} in {words:?}");
        }
        assert!(!picture(&picture_of, Format::Png).unwrap().is_empty());
    }
}

#[test]
fn a_value_that_is_no_number_is_refused_by_the_name_of_its_series() {
    let message = picture(&curves(vec![(1.0, f64::NAN)]), Format::Svg).unwrap_err().to_string();
    assert!(message.contains("GPU"), "{message}");
}

#[test]
fn a_figure_without_a_bar_is_refused() {
    let mut empty = bars(bars::Kind::Grouped);
    let Drawing::GroupedBars(shown) = &mut empty.drawing else { unreachable!() };
    shown.series.clear();
    assert!(matches!(picture(&empty, Format::Svg), Err(PlotError::NoPoints { .. })));
}

fn heat_map(values: Vec<Vec<Option<f64>>>) -> Picture {
    Picture {
        name: "share".to_owned(),
        title: "Share".to_owned(),
        subtitle: "test".to_owned(),
        drawing: Drawing::HeatMap(HeatMap {
            x: "tokens".to_owned(),
            y: "product".to_owned(),
            value: "GPU share (%)".to_owned(),
            columns: vec!["1".to_owned(), "256".to_owned()],
            rows: vec!["q".to_owned(), "down".to_owned()],
            values,
        }),
    }
}

#[test]
fn a_cell_is_darker_the_higher_its_value_and_says_it() {
    let shown = heat_map(vec![vec![Some(75.0), Some(15.0)], vec![Some(90.0), None]]);
    let Drawing::HeatMap(map) = &shown.drawing else { panic!("a heat map") };
    let layout = super::heat_map::lay_out(&shown, map).unwrap();
    assert_eq!(layout.cells.len(), 3, "no cell without a value");
    let brightness = |index: usize| {
        let RGBColor(red, green, blue) = layout.cells[index].shade;
        u32::from(red) + u32::from(green) + u32::from(blue)
    };
    assert!(brightness(2) < brightness(0) && brightness(0) < brightness(1));
    assert_eq!(layout.cells[1].label, "15");
    let svg = String::from_utf8(picture(&shown, Format::Svg).unwrap()).unwrap();
    for words in ["Share", "down", "256", "90"] {
        assert!(svg.contains(words), "{words}");
    }
}

#[test]
fn a_heat_map_without_cells_or_with_a_value_below_0_is_refused() {
    assert!(matches!(picture(&heat_map(vec![vec![None]]), Format::Svg), Err(PlotError::NoPoints { .. })));
    let below = heat_map(vec![vec![Some(-1.0)]]);
    assert!(matches!(picture(&below, Format::Svg), Err(PlotError::BadPoint { .. })));
}
