use coexec_sim::timeline::{Activity, Stretch, TrackKind};

use super::*;
use crate::sheet::PNG_SCALE;
use crate::test_figures::{Element, elements, pixels, words};

fn stretch(name: &str, activity: Activity, start_us: f64, end_us: f64) -> Stretch {
    Stretch {
        name: name.to_owned(),
        activity,
        start: Picos::from_micros(start_us),
        end: Picos::from_micros(end_us),
    }
}

fn track(name: &str, kind: TrackKind, slices: Vec<Stretch>) -> Track {
    Track { name: name.to_owned(), kind, slices }
}

/// A CPU core that computes and polls, a GPU that launches and computes.
fn co_execution() -> Timeline {
    let core = vec![
        stretch("fully connected", Activity::Compute, 0.0, 290.0),
        stretch("fork", Activity::Launch, 0.0, 8.0),
        stretch("gemm <50x768x904>", Activity::Compute, 8.0, 290.0),
        stretch("poll", Activity::Wait, 290.0, 379.0),
    ];
    let queue = vec![
        stretch("launch", Activity::Launch, 0.0, 42.0),
        stretch("conv_generic", Activity::Compute, 42.0, 379.0),
    ];
    let samples =
        vec![(Picos::ZERO, 8.0), (Picos::from_micros(42.0), 21.0), (Picos::from_micros(290.0), 12.5)];
    Timeline {
        tracks: vec![track("core 4", TrackKind::Core, core), track("GPU queue", TrackKind::GpuQueue, queue)],
        counters: vec![Counter { name: "memory traffic".to_owned(), unit: "GB/s", samples }],
        end: Picos::from_micros(379.0),
    }
}

fn svg(run: &Timeline) -> Vec<u8> {
    timeline(run, "A title", Format::Svg).unwrap()
}

#[test]
fn an_svg_names_tracks_slices_counters_legend_and_axis() {
    let svg = svg(&co_execution());
    let words = words(&svg);
    for expected in [
        "A title",
        "core 4",
        "GPU queue",
        "fully connected",
        "gemm &lt;50x768x904&gt;",
        "poll",
        "launch",
        "conv_generic",
        "memory traffic",
        "GB/s",
        "CPU compute",
        "GPU compute",
        "waiting",
        "time (µs)",
        "350",
        "end 379.0 µs",
    ] {
        assert!(words.iter().any(|word| word == expected), "{expected}");
    }
    assert!(svg.starts_with(b"<svg width=\"1000\" "), "its size is in figure pixels");
    assert!(!words.contains(&"NPU compute".to_owned()), "the legend holds what occurs");
}

#[test]
fn every_tag_of_an_svg_is_closed_and_nothing_stands_outside_of_it() {
    let mut timeline_with_odd_names = co_execution();
    timeline_with_odd_names.tracks[0].slices[2].name = "\u{0}\u{1b}]]><&\"' \u{fffe}".to_owned();
    let svg = timeline(&timeline_with_odd_names, "a < b & \"c\"", Format::Svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("every tag is closed");
        assert!(!text.contains(['<', '>']) && text.chars().all(|c| c == '\n' || !c.is_control()));
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
    }
    assert!(open.is_empty() && svg.trim_end().ends_with("</svg>"));
}

#[test]
fn a_png_has_the_size_of_the_figure_and_the_colours_of_its_slices() {
    let (width, height) = lay_out(&co_execution(), "A title").unwrap().size();
    let png = timeline(&co_execution(), "A title", Format::Png).unwrap();
    let (png_width, png_height, pixels) = pixels(&png);
    assert_eq!((png_width, png_height), (width * PNG_SCALE, height * PNG_SCALE));
    for meaning in [Meaning::CpuCompute, Meaning::GpuCompute, Meaning::Launch] {
        let area = pixels.iter().filter(|&&pixel| pixel == meaning.colour()).count();
        assert!(area > 1_000, "{meaning:?} covers {area} pixels");
    }
    let dark = pixels.iter().filter(|pixel| pixel.0.max(pixel.1).max(pixel.2) < 0x60).count();
    assert!(dark > 1_000, "text and axes are drawn");
}

#[test]
fn nothing_is_drawn_beyond_the_run_even_where_slices_leave_it() {
    let mut run = co_execution();
    run.tracks[0].slices.push(stretch("late", Activity::Compute, 370.0, 900.0));
    run.tracks[1].slices.push(stretch("later", Activity::Compute, 800.0, 900.0));
    run.counters[0].samples.push((Picos::from_micros(800.0), 1e6));
    let svg = svg(&run);
    let right = f64::from(WIDTH) - RIGHT;
    for slice in elements(&svg).iter().filter(|one| one.is("rect")).skip(1) {
        assert!(slice.length("x") + slice.length("width") <= right);
    }
    let curves = |one: &Element| one.is("polygon") || (one.is("polyline") && one.points().len() > 2);
    for curve in elements(&svg).iter().filter(|one| curves(one)) {
        assert!(curve.points().iter().all(|&(x, _)| x <= right));
    }
    assert!(!words(&svg).contains(&"later".to_owned()));
}

#[test]
fn no_label_leaves_its_slice() {
    let name = "a very long operator name that no slice of this figure can hold as a whole";
    for count in [5u32, 60, 200] {
        let width = 1_000.0 / f64::from(count);
        let slices = (0..count)
            .map(|index| {
                stretch(name, Activity::Compute, f64::from(index) * width, f64::from(index + 1) * width)
            })
            .collect();
        let run = Timeline {
            tracks: vec![track("core 0", TrackKind::Core, slices)],
            counters: Vec::new(),
            end: Picos::from_micros(1_000.0),
        };
        let elements = elements(&svg(&run));
        let colour = Meaning::CpuCompute.colour();
        let slices: Vec<&Element> = elements
            .iter()
            .filter(|one| one.is("rect") && one.has_colour("fill", colour) && one.length("height") > 20.0)
            .collect();
        assert_eq!(slices.len(), count as usize);
        let labels: Vec<&Element> = elements.iter().filter(|one| one.text.starts_with("a ver")).collect();
        assert_eq!(labels.len(), if count == 5 { 5 } else { 0 }, "{count} slices");
        for (label, slice) in labels.iter().zip(&slices) {
            let half = font::width(&label.text, label.length("font-size")) / 2.0;
            let (left, middle) = (slice.length("x"), label.length("x"));
            assert!(middle - half >= left && middle + half <= left + slice.length("width"));
        }
    }
}

#[test]
fn lanes_of_deeper_nesting_are_taller_and_lanes_never_overlap() {
    let run = co_execution();
    let lanes = place_lanes(&run, 0.0);
    assert!(lanes[0].bottom - lanes[0].top > lanes[1].bottom - lanes[1].top);
    assert!(lanes[0].bottom < lanes[1].top);
}

#[test]
fn a_timeline_that_shows_nothing_says_so() {
    for run in [Timeline::default(), Timeline { end: Picos::ZERO, ..co_execution() }] {
        assert!(words(&svg(&run)).contains(&"nothing ran".to_owned()));
        for format in [Format::Svg, Format::Png] {
            assert!(!timeline(&run, "", format).unwrap().is_empty());
        }
    }
}

#[test]
fn a_counter_without_a_drawable_value_is_an_empty_panel() {
    for value in [f64::NAN, f64::INFINITY, f64::MAX] {
        let mut run = co_execution();
        run.counters[0].samples = vec![(Picos::ZERO, value)];
        assert!(words(&svg(&run)).contains(&"memory traffic".to_owned()));
    }
}

#[test]
fn more_tracks_than_a_figure_holds_are_refused() {
    let tracks = vec![track("core", TrackKind::Core, Vec::new()); 400];
    let run = Timeline { tracks, counters: Vec::new(), end: Picos(1) };
    assert!(matches!(timeline(&run, "", Format::Svg), Err(PlotError::TooTall { limit: MAX_HEIGHT, .. })));
}
