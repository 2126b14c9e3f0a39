use coexec_sim::timeline::{Activity, Counter, Stretch};

use super::*;
use crate::canvas::render::PNG_SCALE;
use crate::canvas::{Shape, Text};

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

fn texts(drawing: &Drawing) -> Vec<&Text> {
    drawing
        .shapes
        .iter()
        .filter_map(|shape| match shape {
            Shape::Text(text) => Some(text),
            _ => None,
        })
        .collect()
}

fn words(timeline: &Timeline) -> Vec<String> {
    texts(&draw(timeline, "A title").unwrap()).iter().map(|text| text.words.clone()).collect()
}

#[test]
fn an_svg_names_tracks_slices_counters_legend_and_axis() {
    let svg = String::from_utf8(timeline(&co_execution(), "A title", Format::Svg).unwrap()).unwrap();
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
        assert!(svg.contains(&format!("\n{expected}\n</text>")), "{expected}");
    }
    assert!(svg.starts_with("<svg width=\"1000\" "), "its size is in figure pixels");
    assert!(!words(&co_execution()).contains(&"NPU compute".to_owned()), "the legend holds what occurs");
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
    let drawing = draw(&co_execution(), "A title").unwrap();
    let png = timeline(&co_execution(), "A title", Format::Png).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((frame.width, frame.height), (drawing.width * PNG_SCALE, drawing.height * PNG_SCALE));
    for meaning in [Meaning::CpuCompute, Meaning::GpuCompute, Meaning::Launch] {
        let colour = meaning.colour();
        let area = pixels.chunks(3).filter(|pixel| *pixel == [colour.0, colour.1, colour.2]).count();
        assert!(area > 1_000, "{meaning:?} covers {area} pixels");
    }
    let dark = pixels.chunks(3).filter(|pixel| pixel.iter().all(|&channel| channel < 0x60)).count();
    assert!(dark > 1_000, "text and axes are drawn");
}

#[test]
fn nothing_is_drawn_beyond_the_run_even_where_slices_leave_it() {
    let mut run = co_execution();
    run.tracks[0].slices.push(stretch("late", Activity::Compute, 370.0, 900.0));
    run.tracks[1].slices.push(stretch("later", Activity::Compute, 800.0, 900.0));
    run.counters[0].samples.push((Picos::from_micros(800.0), 1e6));
    let drawing = draw(&run, "").unwrap();
    let right = f64::from(WIDTH) - RIGHT_MARGIN;
    for shape in &drawing.shapes {
        let furthest = match shape {
            Shape::Rectangle { area, .. } => area.right,
            Shape::Polygon { corners: points, .. } | Shape::Line { points, .. } => {
                points.iter().map(|point| point.x).fold(0.0, f64::max)
            }
            Shape::Disc { centre, .. } => centre.x,
            Shape::Text(_) => continue,
        };
        assert!(furthest <= right, "{furthest}");
    }
    assert!(!words(&run).contains(&"later".to_owned()));
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
        let drawing = draw(&run, "").unwrap();
        let colour = Meaning::CpuCompute.colour();
        let slices: Vec<Area> = drawing
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Rectangle { area, fill } if *fill == colour && area.height() > 20.0 => Some(*area),
                _ => None,
            })
            .collect();
        assert_eq!(slices.len(), count as usize);
        let labels: Vec<&Text> =
            texts(&drawing).into_iter().filter(|text| text.words.starts_with("a ver")).collect();
        assert_eq!(labels.len(), if count == 5 { 5 } else { 0 }, "{count} slices");
        for label in labels {
            let half = font::width(&label.words, label.size) / 2.0;
            let holder = slices.iter().find(|slice| slice.holds(label.at)).unwrap();
            assert!(label.at.x - half >= holder.left && label.at.x + half <= holder.right);
        }
    }
}

#[test]
fn lanes_of_deeper_nesting_are_taller_and_lanes_never_overlap() {
    let run = co_execution();
    let time = TimeAxis { left: 100.0, right: 900.0, end: run.end };
    let lanes = place_lanes(&run, time, 0.0);
    assert!(lanes[0].area.height() > lanes[1].area.height());
    assert!(lanes[0].area.bottom < lanes[1].area.top);
}

#[test]
fn a_timeline_that_shows_nothing_says_so() {
    for run in [Timeline::default(), Timeline { end: Picos::ZERO, ..co_execution() }] {
        assert!(words(&run).contains(&"nothing ran".to_owned()));
        for format in [Format::Svg, Format::Png] {
            assert!(!timeline(&run, "", format).unwrap().is_empty());
        }
    }
}

#[test]
fn more_tracks_than_a_figure_holds_are_refused() {
    let tracks = vec![track("core", TrackKind::Core, Vec::new()); 400];
    let run = Timeline { tracks, counters: Vec::new(), end: Picos(1) };
    assert!(matches!(timeline(&run, "", Format::Svg), Err(PlotError::TooTall { limit: MAX_HEIGHT, .. })));
}
