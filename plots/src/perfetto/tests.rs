use coexec_sim::timeline::Stretch;
use proptest::prelude::*;

use super::*;

fn stretch(name: &str, start: u64, end: u64) -> Stretch {
    Stretch { name: name.to_owned(), activity: Activity::Compute, start: Picos(start), end: Picos(end) }
}

fn one_track(slices: Vec<Stretch>, end: u64) -> Timeline {
    let tracks = vec![Track { name: "core 0".to_owned(), kind: TrackKind::Core, slices }];
    Timeline { tracks, counters: Vec::new(), end: Picos(end) }
}

/// Names, times in nanoseconds and levels of the first track of a trace.
fn slices_of(timeline: &Timeline) -> Vec<(String, u64, u64, usize)> {
    let summary = check(&trace(timeline)).unwrap();
    let slices = summary.tracks[0].slices.iter();
    slices.map(|slice| (slice.name.clone(), slice.start_ns, slice.end_ns, slice.level)).collect()
}

#[test]
fn a_time_rounds_to_the_nearest_nanosecond_halves_up() {
    assert_eq!([0, 499, 500, 1_499, 1_500].map(|picos| nanos(Picos(picos))), [0, 0, 1, 1, 2]);
    assert_eq!(nanos(Picos::MAX), u64::MAX / 1_000 + 1);
}

#[test]
fn a_slice_that_ends_where_the_next_begins_does_not_hold_it() {
    let timeline = one_track(vec![stretch("a", 0, 5_000), stretch("b", 5_000, 9_000)], 9_000);
    assert_eq!(slices_of(&timeline), [("a".into(), 0, 5, 0), ("b".into(), 5, 9, 0)]);
}

#[test]
fn slices_that_begin_and_end_together_stay_nested() {
    let slices = vec![stretch("outer", 0, 8_000), stretch("inner", 0, 8_000), stretch("core", 2_000, 8_000)];
    let expected = [("outer".into(), 0, 8, 0), ("inner".into(), 0, 8, 1), ("core".into(), 2, 8, 2)];
    assert_eq!(slices_of(&one_track(slices, 8_000)), expected);
}

#[test]
fn a_slice_that_rounding_leaves_no_length_keeps_its_place() {
    let slices = vec![
        stretch("outer", 600, 2_400),
        stretch("blink", 700, 800),
        stretch("point", 800, 800),
        stretch("rest", 800, 2_400),
    ];
    let expected = [
        ("outer".into(), 1, 2, 0),
        ("blink".into(), 1, 1, 1),
        ("point".into(), 1, 1, 1),
        ("rest".into(), 1, 2, 1),
    ];
    assert_eq!(slices_of(&one_track(slices, 3_000)), expected);
}

#[test]
fn tracks_stand_in_the_group_of_their_processor_and_counters_under_memory() {
    let track =
        |name: &str, kind| Track { name: name.to_owned(), kind, slices: vec![stretch("x", 0, 1_000)] };
    let counter = Counter {
        name: "memory traffic".to_owned(),
        unit: "GB/s",
        samples: vec![(Picos(0), 1.5), (Picos(1_000), 3.0), (Picos(9_000), 4.0)],
    };
    let timeline = Timeline {
        tracks: vec![
            track("core 0", TrackKind::Core),
            track("core 1", TrackKind::Core),
            track("queue", TrackKind::GpuQueue),
            track("units", TrackKind::ComputeUnits),
            track("npu", TrackKind::Npu),
        ],
        counters: vec![counter],
        end: Picos(2_000),
    };
    let bytes = trace(&timeline);
    let summary = check(&bytes).unwrap();
    let groups: Vec<&str> = summary.tracks.iter().map(|track| track.group.as_str()).collect();
    assert_eq!(groups, ["CPU", "CPU", "GPU", "GPU", "NPU"]);
    let samples = vec![(0, 1.5), (1, 3.0)];
    let counter = CounterSummary { name: "memory traffic".to_owned(), unit: "GB/s".to_owned(), samples };
    assert_eq!(summary.counters, [counter], "a sample after the end is left out");
    assert_eq!(summary.span_ns, 2);
}

#[test]
fn an_empty_timeline_is_a_trace_of_no_tracks() {
    assert_eq!(check(&trace(&Timeline::default())), Ok(TraceSummary::default()));
}

#[test]
fn the_bytes_are_those_of_the_public_schema() {
    // Written out by hand from the wire format: field number << 3 | wire type.
    let packets: [&[u8]; 3] = [
        // sequence 10 = 1, flags 13 = 1, descriptor 60 { uuid 1 = 1, name 2 = "run" }
        &[0x50, 1, 0x68, 1, 0xE2, 0x03, 7, 0x08, 1, 0x12, 3, b'r', b'u', b'n'],
        // timestamp 8 = 0, sequence, event 11 { type 9 = 1, track 11 = 1, category 22, name 23 }
        &[
            0x40, 0, 0x50, 1, 0x5A, 16, 0x48, 1, 0x58, 1, 0xB2, 0x01, 3, b'r', b'u', b'n', 0xBA, 0x01, 3,
            b'r', b'u', b'n',
        ],
        // timestamp 8 = 7, sequence, event 11 { type 9 = 2, track 11 = 1 }
        &[0x40, 7, 0x50, 1, 0x5A, 4, 0x48, 2, 0x58, 1],
    ];
    let expected: Vec<u8> =
        packets.iter().flat_map(|packet| [&[0x0A, packet.len() as u8], *packet].concat()).collect();
    assert_eq!(trace(&Timeline { end: Picos(7_000), ..Timeline::default() }), expected);
}

#[test]
fn a_trace_whose_brackets_do_not_match_is_refused() {
    let refused = |packets: Vec<TracePacket>| {
        let mut packet = descriptors(&one_track(Vec::new(), 0));
        packet.extend(packets);
        check(&Trace { packet }.encode_to_vec()).unwrap_err().to_string()
    };
    let uuid = FIRST_TRACK;
    assert!(refused(vec![end(uuid, Picos(0))]).contains("none is open"));
    assert!(refused(vec![begin(uuid, Picos(0), "gemm", "")]).contains("'gemm' of track 'core 0' never ends"));
    assert!(refused(vec![begin(uuid, Picos(9_000), "a", ""), end(uuid, Picos(0))]).contains("earlier"));
    assert!(refused(vec![end(99, Picos(0))]).contains("no described track"));
    assert!(refused(Vec::new()).contains("no run"));
}

/// Slices that fill parts of `[start, end)`: each cut in pieces, some of which
/// hold slices in turn.
fn nested_slices(cuts: &[u16], depth: usize, start: u64, end: u64, slices: &mut Vec<Stretch>) {
    let Some((&cut, rest)) = cuts.split_first() else { return };
    let middle = start + (end - start) * u64::from(cut) / u64::from(u16::MAX);
    let half = rest.len() / 2;
    slices.push(stretch(&format!("left {depth}"), start, middle));
    if middle > start {
        nested_slices(&rest[..half], depth + 1, start, middle, slices);
    }
    if cut % 3 > 0 {
        slices.push(stretch(&format!("right {depth}"), middle, end));
        if end > middle {
            nested_slices(&rest[half..], depth + 1, middle, end, slices);
        }
    }
}

prop_compose! {
    fn timelines()(
        cuts in prop::collection::vec(prop::collection::vec(any::<u16>(), 0..24), 0..4),
        end in 0u64..200_000,
        samples in prop::collection::vec(0.0f64..40.0, 0..8),
    ) -> Timeline {
        let kinds = [TrackKind::Core, TrackKind::GpuQueue, TrackKind::ComputeUnits, TrackKind::Npu];
        let tracks = cuts.iter().zip(kinds).map(|(cuts, kind)| {
            let mut slices = Vec::new();
            nested_slices(cuts, 0, 0, end, &mut slices);
            Track { name: format!("{kind:?}"), kind, slices }
        });
        let step = end / (samples.len() as u64 + 1);
        let samples = samples.iter().zip(0..).map(|(&value, index)| (Picos(index * step), value));
        let counter = Counter { name: "traffic".to_owned(), unit: "GB/s", samples: samples.collect() };
        Timeline { tracks: tracks.collect(), counters: vec![counter], end: Picos(end) }
    }
}

proptest! {
    #[test]
    fn a_timeline_comes_back_from_its_trace(timeline in timelines()) {
        let summary = check(&trace(&timeline)).unwrap();
        prop_assert_eq!(summary.span_ns, nanos(timeline.end));
        prop_assert_eq!(summary.tracks.len(), timeline.tracks.len());
        for (read, written) in summary.tracks.iter().zip(&timeline.tracks) {
            prop_assert_eq!(&read.name, &written.name);
            let expected: Vec<SliceSummary> = nest(&written.slices, timeline.end)
                .iter()
                .map(|nested| SliceSummary {
                    name: nested.slice.name.clone(),
                    category: "compute".to_owned(),
                    start_ns: nanos(nested.slice.start),
                    end_ns: nanos(nested.slice.end),
                    level: nested.level,
                })
                .collect();
            prop_assert_eq!(expected.len(), written.slices.len());
            prop_assert_eq!(&read.slices, &expected);
        }
        prop_assert_eq!(summary.counters[0].samples.len(), timeline.counters[0].samples.len());
    }

    #[test]
    fn a_cut_off_trace_is_an_error(timeline in timelines(), part in 0.0f64..1.0) {
        let bytes = trace(&timeline);
        let kept = (bytes.len() as f64 * part) as usize;
        prop_assert!(check(&bytes[..kept]).is_err());
    }

    #[test]
    fn a_spoilt_trace_never_panics(
        timeline in timelines(),
        spoils in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = trace(&timeline);
        for (place, byte) in spoils {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = check(&bytes);
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = check(&bytes);
    }
}
