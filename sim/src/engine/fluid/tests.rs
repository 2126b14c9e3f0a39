use proptest::prelude::*;

use super::*;
use crate::engine::Interference;

/// Duration of every phase here. Ceilings and capacities are whole bytes per
/// picosecond, which `f64` represents exactly.
const DURATION: Picos = Picos(1_000);

/// A class of flows: equal streams, each with a ceiling in bytes per picosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    streams: u32,
    ceiling: u32,
}

fn capacity_of(bytes_per_pico: u32) -> Capacity {
    Capacity::new(&[BytesPerSecond(f64::from(bytes_per_pico) * PICOS_PER_SECOND)])
}

fn traffic(task: u32, class: Class) -> Traffic {
    let bytes = u64::from(class.streams * class.ceiling) * DURATION.0;
    Traffic {
        task: TaskId(task),
        client: ClientId(0),
        streams: class.streams,
        duration: DURATION,
        bytes: Bytes(bytes),
    }
}

/// The capacity with an interference curve for every flow of these tests: onset at a
/// tenth of the capacity, saturation at all of it, where half the rate is left. Each
/// byte demanded by others takes less than a byte from the client.
fn disturbed(bytes_per_pico: u32) -> Capacity {
    let rate = |share: f64| BytesPerSecond(share * f64::from(bytes_per_pico) * PICOS_PER_SECOND);
    let interference = Interference::new([rate(0.1), rate(1.0)], [rate(1.0), rate(0.5)], 1.25);
    capacity_of(bytes_per_pico).with_interference(ClientId(0), interference)
}

/// A memory with one flow per class, started in the given order, not yet settled.
fn memory_of(classes: &[(u32, Class)], capacity: &Capacity) -> SharedMemory {
    let mut memory = SharedMemory::default();
    for &(task, class) in classes {
        memory.start(Picos::ZERO, &traffic(task, class), capacity);
    }
    memory
}

/// The rate of one stream of each class, in bytes per picosecond, by task.
fn stream_rates(classes: &[(u32, Class)], capacity: &Capacity) -> Vec<f64> {
    let mut memory = memory_of(classes, capacity);
    memory.settle(Picos::ZERO, capacity);
    let mut rates = vec![0.0; classes.len()];
    for (task, rate) in memory.rates() {
        let streams = classes.iter().find(|(number, _)| *number == task.0).map_or(0, |(_, c)| c.streams);
        rates[task.index()] = rate.0 / PICOS_PER_SECOND / f64::from(streams);
    }
    rates
}

/// Max-min fair shares as exact fractions `(numerator, denominator)`, by progressive
/// filling: all streams rise together, and each stops at its ceiling.
fn exact_rates(classes: &[Class], capacity: u32) -> Vec<(i128, i128)> {
    let mut rates: Vec<Option<(i128, i128)>> = vec![None; classes.len()];
    let mut left = i128::from(capacity);
    loop {
        let rising = || (0..classes.len()).filter(|&index| rates[index].is_none());
        let streams: i128 = rising().map(|index| i128::from(classes[index].streams)).sum();
        let Some(lowest) = rising().map(|index| i128::from(classes[index].ceiling)).min() else { break };
        if lowest * streams > left {
            return rates.iter().map(|rate| rate.unwrap_or((left, streams))).collect();
        }
        for index in rising().collect::<Vec<_>>() {
            if i128::from(classes[index].ceiling) == lowest {
                rates[index] = Some((lowest, 1));
                left -= lowest * i128::from(classes[index].streams);
            }
        }
    }
    rates.into_iter().flatten().collect()
}

fn numbered(classes: &[Class]) -> Vec<(u32, Class)> {
    (0..).zip(classes.iter().copied()).collect()
}

/// Classes, each of which alone claims at most the capacity.
fn classes_and_capacity() -> impl Strategy<Value = (Vec<Class>, u32)> {
    (1_u32..60).prop_flat_map(|capacity| {
        let class = (1_u32..5, 1_u32..20).prop_map(move |(streams, ceiling)| {
            let streams = streams.min(capacity);
            Class { streams, ceiling: ceiling.min(capacity / streams) }
        });
        (prop::collection::vec(class, 2..8), Just(capacity))
    })
}

proptest! {
    #[test]
    fn rates_are_the_exact_max_min_shares((classes, capacity) in classes_and_capacity()) {
        let rates = stream_rates(&numbered(&classes), &capacity_of(capacity));
        let exact = exact_rates(&classes, capacity);
        for (rate, (numerator, denominator)) in rates.iter().zip(exact) {
            let exact = numerator as f64 / denominator as f64;
            prop_assert!((rate - exact).abs() <= 1e-12 * exact, "{rate} is not {numerator}/{denominator}");
        }
    }

    #[test]
    fn a_stream_below_its_ceiling_shares_a_full_memory_and_none_gets_more(
        (classes, capacity) in classes_and_capacity()
    ) {
        let rates = stream_rates(&numbered(&classes), &capacity_of(capacity));
        let total: f64 = rates.iter().zip(&classes).map(|(rate, c)| rate * f64::from(c.streams)).sum();
        let capacity = f64::from(capacity);
        prop_assert!(total <= capacity * (1.0 + 1e-12));
        let highest = rates.iter().copied().fold(0.0, f64::max);
        for (rate, class) in rates.iter().zip(&classes) {
            let at_ceiling = *rate >= f64::from(class.ceiling) * (1.0 - 1e-12);
            let saturated = total >= capacity * (1.0 - 1e-12);
            prop_assert!(at_ceiling || (saturated && *rate >= highest * (1.0 - 1e-12)));
        }
    }

    #[test]
    fn more_demand_never_speeds_the_others_up(
        (classes, capacity) in classes_and_capacity(), more in (1_u32..5, 1_u32..20)
    ) {
        for capacity in [capacity_of(capacity), disturbed(capacity)] {
            let before = stream_rates(&numbered(&classes), &capacity);
            let newcomer = Class { streams: more.0, ceiling: more.1 };
            let with_newcomer: Vec<Class> = classes.iter().copied().chain([newcomer]).collect();
            let after = stream_rates(&numbered(&with_newcomer), &capacity);
            for (before, after) in before.iter().zip(after) {
                prop_assert!(after <= before * (1.0 + 1e-12), "{after} after {before}");
            }
        }
    }

    #[test]
    fn an_additional_flow_speeds_up_others_by_at_most_the_capacity_it_adds_and_leaves(
        (classes, capacity) in classes_and_capacity(),
        more in (1_u32..5, 1_u32..20),
        steps in prop::collection::vec(0_u32..20, 8)
    ) {
        // A curve that rises with each processor, like that of a memory that one
        // processor cannot saturate.
        let rates: Vec<u32> = std::iter::once(capacity)
            .chain(steps.iter().scan(capacity, |rate, step| { *rate += step; Some(*rate) }))
            .collect();
        let rate = |bytes_per_pico: u32| BytesPerSecond(f64::from(bytes_per_pico) * PICOS_PER_SECOND);
        let curve = Capacity::new(&rates.iter().map(|&bytes| rate(bytes)).collect::<Vec<_>>());
        let newcomer = Class { streams: more.0, ceiling: more.1 };
        let with_newcomer: Vec<Class> = classes.iter().copied().chain([newcomer]).collect();
        let before = stream_rates(&numbered(&classes), &curve);
        let after = stream_rates(&numbered(&with_newcomer), &curve);
        let of_newcomer = after[classes.len()] * f64::from(newcomer.streams);
        let brought = f64::from(rates[classes.len()] - rates[classes.len() - 1]);
        let left = (brought - of_newcomer).max(0.0);
        let gains = before.iter().zip(&after).zip(&classes);
        let gained: f64 = gains.map(|((b, a), class)| (a - b).max(0.0) * f64::from(class.streams)).sum();
        prop_assert!(gained <= left + 1e-9, "{gained} of {left}: {before:?}, {after:?}");
    }

    #[test]
    fn results_do_not_depend_on_the_order_of_starts(
        ((classes, order), capacity) in classes_and_capacity().prop_flat_map(|(classes, capacity)| {
            let order = Just(numbered(&classes)).prop_shuffle();
            ((Just(classes), order), Just(capacity))
        })
    ) {
        for capacity in [capacity_of(capacity), disturbed(capacity)] {
            let mut one = memory_of(&numbered(&classes), &capacity);
            let mut other = memory_of(&order, &capacity);
            let mut now = Picos::ZERO;
            while let Some(end) = one.settle(now, &capacity) {
                prop_assert_eq!(other.settle(now, &capacity), Some(end));
                prop_assert!(one.rates().eq(other.rates()));
                now = end;
                while let Some(task) = one.take_ended(now) {
                    prop_assert_eq!(other.take_ended(now), Some(task));
                }
            }
            prop_assert_eq!(other.settle(now, &capacity), None);
        }
    }

    #[test]
    fn more_bandwidth_ends_no_independent_flow_later(
        ((classes, capacity), more) in (classes_and_capacity(), 1_u32..40)
    ) {
        let ends = |capacity: &Capacity| {
            let mut memory = memory_of(&numbered(&classes), capacity);
            let mut ends = vec![Picos::ZERO; classes.len()];
            let mut now = Picos::ZERO;
            while let Some(end) = memory.settle(now, capacity) {
                now = end;
                while let Some(task) = memory.take_ended(now) {
                    ends[task.index()] = now;
                }
            }
            ends
        };
        for (with_less, with_more) in ends(&capacity_of(capacity)).iter().zip(ends(&capacity_of(capacity + more))) {
            // Each of up to eight ends is rounded to whole picoseconds.
            prop_assert!(with_more <= *with_less + Picos(8));
        }
    }
}

#[test]
fn a_single_flow_takes_its_duration_at_any_demand() {
    // A duration that no f64 represents, claims of up to 300 times the capacity, and
    // numbers of streams by which division is inexact.
    let duration = Picos((1 << 60) + 1);
    for (streams, gigabytes) in (1..40).flat_map(|streams| (10..80).map(move |g| (streams, g))) {
        let capacity = Capacity::new(&[BytesPerSecond::from_gigabytes(f64::from(gigabytes))]);
        let mut memory = SharedMemory::default();
        let traffic =
            Traffic { task: TaskId(0), client: ClientId(0), streams, duration, bytes: Bytes(u64::MAX) };
        memory.start(Picos(7), &traffic, &capacity);
        assert_eq!(memory.settle(Picos(7), &capacity), Some(Picos(7) + duration));
    }
}

/// Alone, both flows take 1000 ps: the first claims twice the capacity, the second
/// exactly the capacity. Half the capacity each doubles both times.
#[test]
fn a_demand_above_the_capacity_counts_as_the_capacity() {
    let capacity = capacity_of(1);
    let mut memory = SharedMemory::default();
    memory.start(Picos::ZERO, &traffic(0, Class { streams: 1, ceiling: 2 }), &capacity);
    memory.start(Picos::ZERO, &traffic(1, Class { streams: 1, ceiling: 1 }), &capacity);
    assert_eq!(memory.settle(Picos::ZERO, &capacity), Some(DURATION * 2));
    assert_eq!(memory.take_ended(DURATION * 2), Some(TaskId(0)));
    assert_eq!(memory.take_ended(DURATION * 2), Some(TaskId(1)));
}

#[test]
fn a_flow_of_zero_duration_takes_the_time_its_bytes_need() {
    let capacity = Capacity::new(&[BytesPerSecond::from_gigabytes(20.0)]);
    let mut memory = SharedMemory::default();
    let traffic = Traffic {
        task: TaskId(0),
        client: ClientId(0),
        streams: 2,
        duration: Picos::ZERO,
        bytes: Bytes(1_000_000),
    };
    memory.start(Picos::ZERO, &traffic, &capacity);
    assert_eq!(memory.settle(Picos::ZERO, &capacity), Some(Picos::from_micros(50.0)));
}

/// Two flows of one byte per picosecond each, capacity 1.5: both run at 3/4 of their
/// rate for 1000 ps, which leaves 250 of the first's 1000 ps when the second ends.
#[test]
fn a_slowed_flow_speeds_up_when_a_competing_flow_ends() {
    let capacity = Capacity::new(&[BytesPerSecond(1.5 * PICOS_PER_SECOND)]);
    let mut memory = SharedMemory::default();
    let flow = |task, duration: Picos| Traffic {
        task: TaskId(task),
        client: ClientId(0),
        streams: 1,
        duration,
        bytes: Bytes(duration.0),
    };
    memory.start(Picos::ZERO, &flow(0, Picos(1_000)), &capacity);
    memory.start(Picos::ZERO, &flow(1, Picos(750)), &capacity);
    assert_eq!(memory.settle(Picos::ZERO, &capacity), Some(Picos(1_000)));
    assert_eq!(memory.take_ended(Picos(1_000)), Some(TaskId(1)));
    assert_eq!(memory.settle(Picos(1_000), &capacity), Some(Picos(1_250)));
}

#[test]
fn the_capacity_follows_the_number_of_processors() {
    let capacity = Capacity::new(&[4.0, 3.0].map(|rate| BytesPerSecond(rate * PICOS_PER_SECOND)));
    let class = Class { streams: 1, ceiling: 2 };
    assert_eq!(stream_rates(&[(0, class)], &capacity), [2.0]);
    assert_eq!(stream_rates(&[(0, class), (1, class)], &capacity), [1.5; 2]);
    assert_eq!(stream_rates(&[(0, class), (1, class), (2, class)], &capacity), [1.0; 3]);
}

/// The end of two equal flows that each claim 20 bytes per picosecond, on a memory that moves `rates` for one
/// processor and for two.
fn end_of_two(rates: [f64; 2]) -> Picos {
    let capacity = Capacity::new(&rates.map(|rate| BytesPerSecond(rate * PICOS_PER_SECOND)));
    let class = Class { streams: 1, ceiling: 20 };
    let second = Traffic { client: ClientId(1), ..traffic(1, class) };
    let mut memory = SharedMemory::default();
    memory.start(Picos::ZERO, &traffic(0, class), &capacity);
    memory.start(Picos::ZERO, &second, &capacity);
    memory.settle(Picos::ZERO, &capacity).unwrap()
}

#[test]
fn raising_only_the_standalone_rate_slows_contended_flows_down() {
    let usual = end_of_two([10.0, 12.0]);
    // Claims are clamped to the rate of one processor: each flow has more bytes to move, at the same shared rate.
    assert!(end_of_two([11.0, 12.0]) > usual);
    assert_eq!(end_of_two([11.0, 13.2]), usual);
    assert!(end_of_two([10.0, 13.2]) < usual);
}
