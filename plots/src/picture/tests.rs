use coexec_sim::published::{BarSeries, Bars, Curves, Line};

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
