//! The way between the host and a device with memory of its own: what copies add to a run.
//!
//! Rounds through the device's queue are timed as a run makes them (`opencl::crossing`),
//! with and without copies. The host's memory is pinned; what the driver makes of memory
//! that is not is noted beside it.

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::device::gpu::Link;
use coexec_sim::device::quantity::Quantity;
use coexec_sim::device::sync::Transfer;

use super::figures::Notes;
use super::statistics::{Line, Measured, micros};
use super::{ProbeError, Stage};
use crate::opencl::crossing::{Crossing, Way};
use crate::opencl::traffic::Exchange;
use crate::opencl::{OpenClError, Runtime};

/// Channels of the tensors that cross whole.
const CHANNELS: u32 = 256;
/// Their pixels: 1 KiB to 32 MiB.
const QUICK: [u32; 5] = [1, 16, 256, 2_048, 8_192];
const FULL: [u32; 9] = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 32_768];
/// Pixels and channels of the parts whose rows lie apart: half the channels of a tensor.
const QUICK_PARTS: [[u32; 2]; 3] = [[64, 256], [512, 64], [2_048, 512]];
const FULL_PARTS: [[u32; 2]; 9] = [
    [64, 32],
    [64, 1_024],
    [256, 256],
    [512, 32],
    [512, 512],
    [1_024, 64],
    [2_048, 32],
    [2_048, 256],
    [2_048, 1_024],
];
/// Repetitions of each.
const REPETITIONS: [usize; 2] = [10, 40];
/// Bytes of the copies from and to memory that is not pinned.
const PAGEABLE_BYTES: usize = 4 << 20;
/// What a round may take.
const LIMIT: Duration = Duration::from_secs(10);
const NANOS_PER_MICRO: f64 = 1e3;
const BYTES_PER_NUMBER: f64 = 4.0;

/// Times over bytes or rows.
type Times = Vec<(f64, Vec<f64>)>;

/// What a way costs.
struct Costs {
    /// Over bytes in one piece, the rest of a round included.
    whole: Line,
    /// Over rows that lie apart, beside their bytes.
    rows: Option<Line>,
}

/// What copies cost in each direction.
pub(super) struct Crossings {
    /// A round without copies, in microseconds, and what the host takes to queue it.
    alone: [Measured; 2],
    /// What the host takes to queue a round with a copy each way.
    queued: Measured,
    there: Costs,
    back: Costs,
}

/// Measures them.
pub(super) fn measure(
    runtime: &Arc<Runtime>,
    quick: bool,
    seed: u64,
    stage: &Stage<'_>,
    notes: &mut Notes,
) -> Result<Crossings, ProbeError> {
    let repetitions = REPETITIONS[usize::from(!quick)];
    let mut whole: [Times; 2] = Default::default();
    let [mut alone, mut around] = <[[Vec<f64>; 2]; 2]>::default();
    for &pixels in if quick { &QUICK[..] } else { &FULL } {
        if stage.is_over() && whole[0].len() > 2 {
            break;
        }
        let mut crossing = Crossing::new(runtime, pixels, CHANNELS)?;
        let bytes = f64::from(pixels * CHANNELS) * BYTES_PER_NUMBER;
        for (times, way) in whole.iter_mut().zip(WAYS) {
            let [known, _] = rounds(&mut crossing, way, CHANNELS, repetitions)?;
            times.push((bytes, known));
        }
        if pixels == 1 {
            alone = rounds(&mut crossing, Way::default(), CHANNELS, repetitions)?;
            around = rounds(&mut crossing, Way { there: true, back: true }, CHANNELS, repetitions)?;
        }
        stage.tell(&format!("copies of {:.0} KiB", bytes / 1024.0));
    }
    let line = |times: &Times| Line::of(times, seed).ok_or(ProbeError::TooLittleTime { what: "copies" });
    let [there, back] = [line(&whole[0])?, line(&whole[1])?];
    let slopes = [there.slope.value, back.slope.value];
    let [rows_there, rows_back] =
        of_rows(runtime, if quick { &QUICK_PARTS } else { &FULL_PARTS }, slopes, repetitions, notes)?
            .map(|times| Line::of(&times, seed));
    pageable(runtime, repetitions, notes)?;
    let measured = |times: &[f64]| Measured::of(times).ok_or(ProbeError::TooLittleTime { what: "copies" });
    Ok(Crossings {
        alone: [measured(&alone[0])?, measured(&alone[1])?],
        queued: measured(&around[1])?,
        there: Costs { whole: there, rows: rows_there },
        back: Costs { whole: back, rows: rows_back },
    })
}

/// To the device, and to the host.
const WAYS: [Way; 2] = [Way { there: true, back: false }, Way { there: false, back: true }];

/// Microseconds until the host knows, and until all is queued.
fn rounds(
    crossing: &mut Crossing,
    way: Way,
    channels: u32,
    repetitions: usize,
) -> Result<[Vec<f64>; 2], OpenClError> {
    // The first is a warm-up.
    crossing.round(way, channels, LIMIT)?;
    let rounds = (0..repetitions).map(|_| crossing.round(way, channels, LIMIT));
    let rounds = rounds.collect::<Result<Vec<_>, _>>()?;
    let times = |of: fn(&crate::opencl::crossing::Round) -> coexec_sim::units::Picos| {
        micros(&rounds.iter().map(of).collect::<Vec<_>>())
    };
    Ok([times(|round| round.known), times(|round| round.queued)])
}

/// Times over rows, in each direction, less what the bytes cost in one piece.
fn of_rows(
    runtime: &Arc<Runtime>,
    parts: &[[u32; 2]],
    slopes: [f64; 2],
    repetitions: usize,
    notes: &mut Notes,
) -> Result<[Times; 2], ProbeError> {
    let mut times: [Times; 2] = Default::default();
    for &[pixels, channels] in parts {
        let mut crossing = Crossing::new(runtime, pixels, 2 * channels)?;
        let bytes = f64::from(pixels * channels) * BYTES_PER_NUMBER;
        for (index, way) in WAYS.into_iter().enumerate() {
            let [known, _] = rounds(&mut crossing, way, channels, repetitions)?;
            let beside: Vec<f64> = known.iter().map(|time| time - bytes * slopes[index]).collect();
            if let Some(time) = Measured::of(&known) {
                let direction = ["to the device", "to the host"][index];
                notes.find(
                    format!("copy of {pixels} rows of {} bytes {direction}", 4 * channels),
                    &time,
                    "us",
                );
            }
            // What is left of a time that the bytes alone explain says nothing.
            if beside.iter().all(|&time| time > 0.0) {
                times[index].push((f64::from(pixels), beside));
            }
        }
    }
    Ok(times)
}

/// Notes the rates of memory that is not pinned.
fn pageable(runtime: &Arc<Runtime>, repetitions: usize, notes: &mut Notes) -> Result<(), ProbeError> {
    let mut exchange = Exchange::new(runtime, PAGEABLE_BYTES)?;
    let bytes = exchange.bytes().0 as f64;
    exchange.copy()?;
    let copies = (0..repetitions).map(|_| exchange.copy()).collect::<Result<Vec<_>, _>>()?;
    for (index, direction) in ["from", "to"].into_iter().enumerate() {
        let times = micros(&copies.iter().map(|times| times[index]).collect::<Vec<_>>());
        if let Some(time) = Measured::of(&times) {
            let what = format!("blocking copy {direction} memory of the host that is not pinned");
            notes.find(what, &time.scaled(NANOS_PER_MICRO).rate(bytes), "GB/s");
        }
    }
    Ok(())
}

impl Crossings {
    /// The link of a profile; `source` says when it was probed. `arrange` is what a kernel
    /// takes that changes the layout of what arrived, where the device likes another.
    pub(super) fn link(&self, source: &str, arrange: Option<Transfer>) -> Link {
        let Self { alone: [alone, alone_queued], queued, there, back } = self;
        let queue = less(queued, alone_queued).scaled(0.5);
        let added = [&there.whole, &back.whole].map(|line| less(&less(&line.fixed, alone), &queue));
        let mean = |of: fn(&Measured) -> f64| f64::midpoint(of(&added[0]), of(&added[1]));
        let latency = Measured {
            value: mean(|added| added.value),
            ci95: [mean(|added| added.ci95[0]), mean(|added| added.ci95[1])],
            repetitions: added.iter().map(|added| added.repetitions).sum(),
        };
        let row = |costs: &Costs| {
            let rows = costs.rows.as_ref()?;
            Some(rows.slope.scaled(NANOS_PER_MICRO).quantity(
                "probe: parts of the channels over their rows, beside what their bytes cost in one piece",
            ))
        };
        Link {
            source: format!("{source}: rounds through the queue from and to pinned memory"),
            latency_us: latency.quantity(
                "probe: what a copy of next to nothing adds to a round, the mean of both directions",
            ),
            queue_us: Some(queue.quantity("probe: what a copy adds to the host's time to fill the queue")),
            to_gpu_gbps: rate(&there.whole.slope),
            to_host_gbps: rate(&back.whole.slope),
            row_to_gpu_ns: row(there),
            row_to_host_ns: row(back),
            arrange,
            picojoules_per_byte: None,
        }
    }
}

/// One time less another, not below zero.
fn less(time: &Measured, other: &Measured) -> Measured {
    let ci95 = [time.ci95[0] - other.ci95[1], time.ci95[1] - other.ci95[0]].map(|end| end.max(0.0));
    Measured { value: (time.value - other.value).max(0.0), ci95, ..*time }
}

/// Microseconds a byte as gigabytes a second.
fn rate(slope: &Measured) -> Quantity {
    /// A link that costs nothing a byte is as fast as could be measured.
    const LEAST_SLOPE: f64 = 1e-9;
    let bounded = Measured {
        value: slope.value.max(LEAST_SLOPE),
        ci95: slope.ci95.map(|end| end.max(LEAST_SLOPE)),
        ..*slope
    };
    bounded
        .scaled(NANOS_PER_MICRO)
        .rate(1.0)
        .quantity("probe: copies from and to pinned memory over sizes, a line")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fixed_us: f64, per_unit_us: f64) -> Line {
        let times: Times = [1e3, 1e4, 1e5, 1e6, 1e7]
            .iter()
            .map(|&count| (count, vec![fixed_us + count * per_unit_us; 5]))
            .collect();
        Line::of(&times, 1).unwrap()
    }

    fn exactly(value: f64) -> Measured {
        Measured::of(&[value; 5]).unwrap()
    }

    #[test]
    fn a_link_has_what_copies_add_to_a_round() {
        let crossings = Crossings {
            alone: [exactly(20.0), exactly(4.0)],
            queued: exactly(9.0),
            there: Costs { whole: line(30.0, 1e-3 / 50.0), rows: Some(line(30.0, 0.02)) },
            back: Costs { whole: line(34.0, 1e-3 / 25.0), rows: None },
        };
        let link = crossings.link("test", None);
        let about = |quantity: &Quantity, value: f64| (quantity.value / value - 1.0).abs() < 1e-3;
        // 10 and 14 us, of which the host's queueing is 2.5 us.
        assert!(about(&link.latency_us, 9.5) && about(link.queue_us.as_ref().unwrap(), 2.5), "{link:?}");
        assert!(about(&link.to_gpu_gbps, 50.0) && about(&link.to_host_gbps, 25.0), "{link:?}");
        assert!(
            about(link.row_to_gpu_ns.as_ref().unwrap(), 20.0) && link.row_to_host_ns.is_none(),
            "{link:?}"
        );
    }

    #[test]
    fn copies_are_timed_on_any_device() {
        let Ok(device) = crate::opencl::Device::select("") else {
            let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
            assert!(!required, "there is no OpenCL device");
            eprintln!("skipped: there is no OpenCL device");
            return;
        };
        let runtime = Runtime::new(device).unwrap();
        let mut notes = Notes { findings: Vec::new(), warnings: Vec::new() };
        let end = std::time::Instant::now() + LIMIT;
        let stage = Stage { end, tell: &|_| () };
        let link = measure(&runtime, true, 1, &stage, &mut notes).unwrap().link("test", None);
        assert!(link.to_gpu_gbps.value > 0.0 && link.to_host_gbps.value > 0.0, "{link:?}");
        assert_eq!(notes.findings.len(), 2 * QUICK_PARTS.len() + 2, "{:?}", notes.findings);
    }
}
