use coexec_sim::timeline::Stretch;

use super::*;
use crate::font;
use crate::frame::MAX_HEIGHT;
use crate::test_figures::{Element, elements, words};

fn stretch(name: &str, activity: Activity, start_us: f64, end_us: f64) -> Stretch {
    let (start, end) = (Picos::from_micros(start_us), Picos::from_micros(end_us));
    Stretch { name: name.to_owned(), activity, start, end }
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
fn it_names_tracks_slices_counters_colours_and_the_end() {
    let words = words(&svg(&co_execution()));
    for expected in [
        "A title",
        "core 4",
        "GPU queue",
        "fully connected",
        "gemm &lt;50x768x904&gt;",
        "poll",
        "conv_generic",
        "memory traffic",
        "21.0 GB/s",
        "CPU compute",
        "GPU compute",
        "launch, fork or join",
        "waiting",
        "time (µs)",
        "ends after 379.0 µs",
    ] {
        assert!(words.iter().any(|word| word == expected), "{expected} in {words:?}");
    }
    assert!(!words.contains(&"NPU compute".to_owned()), "the legend holds what occurs");
}

#[test]
fn nothing_is_drawn_beyond_the_run_even_where_slices_leave_it() {
    let mut run = co_execution();
    run.tracks[0].slices.push(stretch("late", Activity::Compute, 370.0, 900.0));
    run.tracks[1].slices.push(stretch("later", Activity::Compute, 800.0, 900.0));
    run.counters[0].samples.push((Picos::from_micros(800.0), 1e6));
    let right = |run: &Timeline| {
        let of_slices =
            elements(&svg(run)).into_iter().filter(|one| one.is("rect") && one.length("height") > 10.5);
        of_slices.skip(1).map(|one| one.length("x") + one.length("width")).fold(0.0, f64::max)
    };
    assert!((right(&run) - right(&co_execution())).abs() < 1.5);
    assert!(!words(&svg(&run)).contains(&"later".to_owned()));
}

#[test]
fn no_label_leaves_its_slice() {
    let name = "a very long operator name that no slice of this figure can hold as a whole";
    for count in [5_u32, 60, 200] {
        let width = 1_000.0 / f64::from(count);
        let slice =
            |index| stretch(name, Activity::Compute, f64::from(index) * width, f64::from(index + 1) * width);
        let run = Timeline {
            tracks: vec![track("core 0", TrackKind::Core, (0..count).map(slice).collect())],
            counters: Vec::new(),
            end: Picos::from_micros(1_000.0),
        };
        let elements = elements(&svg(&run));
        let is_slice = |one: &&Element| {
            one.is("rect") && one.has_colour("fill", BLUE) && one.length("height") > SLICE_HEIGHT - 1.0
        };
        let slices: Vec<&Element> = elements.iter().filter(is_slice).collect();
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
fn a_lane_is_taller_where_slices_hold_others_and_a_counter_is_as_high_as_its_value() {
    let run = co_execution();
    let lanes: Vec<Lane> = run.tracks.iter().map(|track| track_lane(track, run.end)).collect();
    assert!(lanes[0].height > lanes[1].height);
    let counter = counter_lane(&run.counters[0], run.end);
    let height = |index: usize| counter.slabs[index].edges.1 - counter.slabs[index].edges.0;
    assert!((height(0) / height(1) - 8.0 / 21.0).abs() < 1e-9);
    assert_eq!(counter.slabs[2].span, (290.0, 379.0));
}

#[test]
fn samples_thinner_than_a_column_have_their_mean() {
    let samples = (0..100_000).map(|index| (Picos(10 * index), if index % 4 == 0 { 40.0 } else { 0.0 }));
    let counter = Counter { name: "memory".to_owned(), unit: "GB/s", samples: samples.collect() };
    let lane = counter_lane(&counter, Picos(1_000_000));
    assert!(lane.slabs.len() <= 2 * WIDTH as usize);
    assert!(lane.names.iter().any(|(_, name)| name.starts_with("10.")), "{:?}", lane.names);
}

#[test]
fn requests_have_a_colour_of_their_own() {
    let requests = vec![stretch("request 1", Activity::Compute, 0.0, 20.0)];
    let tracks = vec![track("camera", TrackKind::Application, requests)];
    let words = words(&svg(&Timeline { tracks, ..co_execution() }));
    assert!(words.contains(&"request".to_owned()) && !words.contains(&"GPU compute".to_owned()));
}

#[test]
fn a_timeline_that_shows_nothing_says_so() {
    for run in [Timeline::default(), Timeline { end: Picos::ZERO, ..co_execution() }] {
        assert!(words(&svg(&run)).contains(&"nothing ran".to_owned()));
        assert!(!timeline(&run, "", Format::Png).unwrap().is_empty());
    }
}

#[test]
fn a_counter_without_a_drawable_value_is_an_empty_lane() {
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
