use coexec_sim::timeline::{Activity, Counter, Stretch, Track};
use proptest::prelude::*;

use super::*;

fn stretch(name: &str, start: u64, end: u64) -> Stretch {
    Stretch { name: name.to_owned(), activity: Activity::Compute, start: Picos(start), end: Picos(end) }
}

fn track(name: &str, kind: TrackKind, slices: Vec<Stretch>) -> Track {
    Track { name: name.to_owned(), kind, slices }
}

fn events(timeline: &Timeline) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&trace(timeline)).unwrap();
    document["traceEvents"].as_array().unwrap().clone()
}

/// A time of the trace in nanoseconds.
fn nanos_of(micros: &Value) -> u64 {
    (micros.as_f64().unwrap() * NANOS_PER_MICRO).round() as u64
}

/// Names and times in nanoseconds of the slices of a thread.
fn slices(events: &[Value], thread: usize) -> Vec<(String, u64, u64)> {
    let of_thread = events.iter().filter(|event| event["ph"] == "X" && event["tid"] == thread);
    let slice = |event: &Value| {
        let start = nanos_of(&event["ts"]);
        (event["name"].as_str().unwrap().to_owned(), start, start + nanos_of(&event["dur"]))
    };
    of_thread.map(slice).collect()
}

#[test]
fn a_time_rounds_to_the_nearest_nanosecond_halves_up() {
    assert_eq!([0, 499, 500, 1_499, 1_500].map(|picos| nanos(Picos(picos))), [0, 0, 1, 1, 2]);
    assert_eq!(nanos(Picos::MAX), u64::MAX / 1_000 + 1);
}

#[test]
fn enclosing_slices_come_first_and_no_slice_is_lost() {
    let inside = vec![
        stretch("outer", 600, 2_400),
        stretch("blink", 700, 800),
        stretch("point", 800, 800),
        stretch("rest", 800, 2_400),
        stretch("late", 2_400, 9_000),
        stretch("beyond", 4_000, 5_000),
    ];
    let run = Timeline {
        tracks: vec![track("core 0", TrackKind::Core, inside)],
        counters: Vec::new(),
        end: Picos(3_000),
    };
    let expected = [("outer", 1, 2), ("blink", 1, 1), ("point", 1, 1), ("rest", 1, 2), ("late", 2, 3)];
    assert_eq!(slices(&events(&run), 2), expected.map(|(name, start, end)| (name.to_owned(), start, end)));
    assert_eq!(slices(&events(&run), 1), [("run".to_owned(), 0, 3)]);
}

#[test]
fn tracks_are_grouped_by_processor_in_order_and_counters_under_memory() {
    let one = || vec![stretch("x", 0, 1_000)];
    let samples = vec![(Picos(0), 1.5), (Picos(1_000), 3.0), (Picos(9_000), 4.0)];
    let run = Timeline {
        tracks: vec![
            track("core 0", TrackKind::Core, one()),
            track("core 0", TrackKind::Core, one()),
            track("queue", TrackKind::GpuQueue, one()),
            track("units", TrackKind::ComputeUnits, one()),
        ],
        counters: vec![Counter { name: "memory traffic".to_owned(), unit: "GB/s", samples }],
        end: Picos(2_000),
    };
    let events = events(&run);
    let named = |what: &str| -> Vec<(u64, String)> {
        let of = events.iter().filter(|event| event["name"] == what);
        of.map(|event| (event["pid"].as_u64().unwrap(), event["args"]["name"].as_str().unwrap().to_owned()))
            .collect()
    };
    let owned = |names: &[(u64, &str)]| -> Vec<(u64, String)> {
        names.iter().map(|&(process, name)| (process, name.to_owned())).collect()
    };
    assert_eq!(named("process_name"), owned(&[(1, "run"), (3, "CPU"), (4, "GPU"), (6, "memory")]));
    let threads = owned(&[(1, "run"), (3, "core 0"), (3, "core 0"), (4, "queue"), (4, "units")]);
    assert_eq!(named("thread_name"), threads);
    let ranks = events.iter().filter(|event| event["name"] == "thread_sort_index");
    assert_eq!(
        ranks.map(|event| event["args"]["sort_index"].as_u64().unwrap()).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(events.iter().find(|event| event["name"] == "x").unwrap()["cat"], "compute");
    let counted: Vec<(&Value, f64)> = events
        .iter()
        .filter(|event| event["ph"] == "C" && event["name"] == "memory traffic")
        .map(|event| (&event["pid"], event["args"]["GB/s"].as_f64().unwrap()))
        .collect();
    assert_eq!(counted, [(&json!(6), 1.5), (&json!(6), 3.0)], "none after the end");
}

proptest! {
    #[test]
    fn every_slice_of_any_timeline_nests_in_the_run(
        spans in prop::collection::vec((0u64..200_000, 0u64..200_000), 0..40),
        end in 1u64..200_000,
    ) {
        let mut slices_of: Vec<Stretch> = spans.iter().map(|&(start, length)| stretch("s", start, start + length)).collect();
        slices_of.sort_by_key(|slice| (slice.start, std::cmp::Reverse(slice.end)));
        let within = slices_of.iter().filter(|slice| slice.start <= Picos(end)).count();
        let run = Timeline {
            tracks: vec![track("core 0", TrackKind::Core, slices_of)],
            counters: Vec::new(),
            end: Picos(end),
        };
        let found = slices(&events(&run), 2);
        prop_assert_eq!(found.len(), within);
        let mut open: Vec<u64> = vec![nanos(Picos(end))];
        for (_, start, end) in found {
            while open.len() > 1 && open[open.len() - 1] <= start {
                open.pop();
            }
            prop_assert!(start <= end && end <= open[open.len() - 1]);
            open.push(end);
        }
    }
}
