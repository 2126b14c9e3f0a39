//! What it costs that the other processor sees bytes: mapping memory of both, changing the layout, and what copies
//! add to a run over the link between the host and a discrete device.
//!
//! Rounds through the device's queue are timed as a run makes them (`opencl::traffic`),
//! with and without copies. The host's memory is pinned.

use std::sync::Arc;

use coexec_sim::Quantity;
use coexec_sim::device::gpu::Link;
use coexec_sim::device::sync::Transfer;
use coexec_sim::schedule::Memory;

use super::{
    Bench, Line, Measured, NANOS_PER_MICRO, Notes, ProbeOptions, Result, TimeBudget, Times, over_sizes,
    repeated,
};
use crate::opencl::{BoundKernel, DeviceCopies, MappedBuffer, Runtime};

/// Bytes of the transfers.
const QUICK: [usize; 5] = [4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20];
const FULL: [usize; 9] =
    [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20];
/// Repetitions of each.
const REPETITIONS: [usize; 2] = [10, 40];
/// Slices of the tensor whose layout changes: 64 channels.
const SLICES: u32 = 16;
/// What is measured.
const WHAT: &str = "transfers";
/// Bytes of a slice's texel.
const TEXEL_BYTES: usize = 16;

/// Channels of the tensors that cross whole.
const CHANNELS: u32 = 256;
/// Their pixels: 1 KiB to 32 MiB.
const QUICK_PIXELS: [u32; 5] = [1, 16, 256, 2_048, 8_192];
const FULL_PIXELS: [u32; 9] = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 32_768];
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
const BYTES_PER_NUMBER: f64 = 4.0;

/// Costs of mapping.
pub(super) struct Transfers {
    pub(super) map: Line,
    pub(super) unmap: Line,
}

/// Measures mapping.
pub(super) fn measure(
    bench: &Bench<'_>,
    runtime: &Arc<Runtime>,
    budget: &TimeBudget<'_>,
) -> Result<Transfers> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let sizes: &[usize] = if quick { &QUICK } else { &FULL };
    let repetitions = REPETITIONS[usize::from(!quick)];
    let [map, unmap] = over_sizes(sizes, 2, budget, |size| {
        let exchange = MappedBuffer::new(runtime, size)?;
        budget.report(&format!("transfers of {} KiB", size >> 10));
        let times = repeated(repetitions, || Ok(exchange.map_and_unmap()?))?;
        Ok(times.map(|times| (exchange.bytes().0 as f64, times)))
    })?;
    Ok(Transfers { map: Line::of(&map, seed, WHAT)?, unmap: Line::of(&unmap, seed, WHAT)? })
}

/// Measures a kernel that changes the layout of a tensor in buffers.
fn transform(bench: &Bench<'_>, runtime: &Arc<Runtime>, budget: &TimeBudget<'_>) -> Result<Line> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let sizes: &[usize] = if quick { &QUICK } else { &FULL };
    let [times] = over_sizes(sizes, 2, budget, |size| {
        let pixels = (size / TEXEL_BYTES / SLICES as usize).max(1);
        let kernel = BoundKernel::transform(runtime, pixels as u32, SLICES)?;
        let run = || Ok([kernel.run()?.device]);
        let [times] = repeated(REPETITIONS[usize::from(!quick)], run)?;
        Ok([(kernel.bytes().0 as f64, times)])
    })?;
    Line::of(&times, seed, WHAT)
}

/// The costs of a kind as a profile has them.
pub(super) fn table(line: &Line, what: &str) -> Transfer {
    Transfer {
        source: what.to_owned(),
        fixed_us: line.fixed.quantity(what),
        per_byte_ns: line.slope.scaled(NANOS_PER_MICRO).quantity(what),
    }
}

/// What a change of layout adds to the queue of a device: a kernel, and the gap before it.
pub(super) fn arranging(line: &Line, gap: &Measured, what: &str) -> Transfer {
    let source = format!("{what}: a kernel that changes the layout, over sizes, and the gap before it");
    let ci95 = [0, 1].map(|end| line.fixed.ci95[end] + gap.ci95[end]);
    let fixed = Measured { value: line.fixed.value + gap.value, ci95, ..line.fixed };
    Transfer { fixed_us: fixed.quantity(&source), ..table(line, &source) }
}

/// What changes of layout cost where processors meet: nothing, as `crate::execute` has
/// kernels write what both see the way the host reads it.
pub(super) fn no_transform(what: &str) -> Transfer {
    let source = format!("{what}: none, as kernels write the host's layout");
    Transfer { fixed_us: Quantity::plain(0.0), per_byte_ns: Quantity::plain(0.0), source }
}

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
    /// What it takes to change the layout of what arrived.
    pub(super) arrange: Line,
}

/// Measures copies.
pub(super) fn measure_copies(
    bench: &Bench<'_>,
    runtime: &Arc<Runtime>,
    budget: &TimeBudget<'_>,
    notes: &mut Notes,
) -> Result<Crossings> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let repetitions = REPETITIONS[usize::from(!quick)];
    let sizes: &[u32] = if quick { &QUICK_PIXELS } else { &FULL_PIXELS };
    let whole = over_sizes(sizes, 3, budget, |pixels| {
        let mut crossing = DeviceCopies::new(runtime, pixels, CHANNELS)?;
        let bytes = f64::from(pixels * CHANNELS) * BYTES_PER_NUMBER;
        budget.report(&format!("copies of {:.0} KiB", bytes / 1024.0));
        each_way(&mut crossing, CHANNELS, repetitions).map(|times| times.map(|times| (bytes, times)))
    })?;
    let mut smallest = DeviceCopies::new(runtime, sizes[0], CHANNELS)?;
    let mut rounds = |to: &[Memory]| repeated(repetitions, || Ok(smallest.round(to, CHANNELS)?));
    let [alone, alone_queued] = rounds(&[])?;
    let [_, queued] = rounds(&[Memory::Gpu, Memory::Host])?;
    let line = |times: &Times| Line::of(times, seed, "copies");
    let [there, back] = [line(&whole[0])?, line(&whole[1])?];
    let slopes = [there.slope.value, back.slope.value];
    let [rows_there, rows_back] =
        of_rows(runtime, if quick { &QUICK_PARTS } else { &FULL_PARTS }, slopes, repetitions, notes)?
            .map(|times| line(&times).ok());
    let measured = |times: &[f64]| Measured::of(times, "copies");
    Ok(Crossings {
        alone: [measured(&alone)?, measured(&alone_queued)?],
        queued: measured(&queued)?,
        there: Costs { whole: there, rows: rows_there },
        back: Costs { whole: back, rows: rows_back },
        arrange: transform(bench, runtime, budget)?,
    })
}

/// Microseconds until the host knows, to the device and to the host.
fn each_way(crossing: &mut DeviceCopies, channels: u32, repetitions: usize) -> Result<[Vec<f64>; 2]> {
    let mut round = |to| repeated(repetitions, || Ok(crossing.round(&[to], channels)?));
    let [[there, _], [back, _]] = [round(Memory::Gpu)?, round(Memory::Host)?];
    Ok([there, back])
}

/// Times over rows, in each direction, less what the bytes cost in one piece.
fn of_rows(
    runtime: &Arc<Runtime>,
    parts: &[[u32; 2]],
    slopes: [f64; 2],
    repetitions: usize,
    notes: &mut Notes,
) -> Result<[Times; 2]> {
    let mut times: [Times; 2] = Default::default();
    for &[pixels, channels] in parts {
        let mut crossing = DeviceCopies::new(runtime, pixels, 2 * channels)?;
        let bytes = f64::from(pixels * channels) * BYTES_PER_NUMBER;
        for (index, known) in each_way(&mut crossing, channels, repetitions)?.into_iter().enumerate() {
            let beside: Vec<f64> = known.iter().map(|time| time - bytes * slopes[index]).collect();
            let direction = ["to the device", "to the host"][index];
            let what = format!("copy of {pixels} rows of {} bytes {direction}", 4 * channels);
            notes.find(what, &Measured::of(&known, "copies")?, "us");
            // What is left of a time that the bytes alone explain says nothing.
            if beside.iter().all(|&time| time > 0.0) {
                times[index].push((f64::from(pixels), beside));
            }
        }
    }
    Ok(times)
}

impl Crossings {
    /// The link of a profile; `source` says when it was probed. `arrange` is what a kernel
    /// takes that changes the layout of what arrived, where the device likes another.
    pub(super) fn link(&self, source: &str, arrange: Option<Transfer>) -> Link {
        let Self { alone: [alone, alone_queued], queued, there, back, .. } = self;
        let queue = less(queued, alone_queued).scaled(0.5);
        let added = [&there.whole, &back.whole].map(|line| less(&less(&line.fixed, alone), &queue));
        let latency = Measured::mean([&added[0], &added[1]]);
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
    const MIN_SLOPE: f64 = 1e-9;
    let bounded = Measured {
        value: slope.value.max(MIN_SLOPE),
        ci95: slope.ci95.map(|end| end.max(MIN_SLOPE)),
        ..*slope
    };
    bounded.gbps(1.0).quantity("probe: copies from and to pinned memory over sizes, a line")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fixed_us: f64, per_unit_us: f64) -> Line {
        let times: Times = [1e3, 1e4, 1e5, 1e6, 1e7]
            .iter()
            .map(|&count| (count, vec![fixed_us + count * per_unit_us; 5]))
            .collect();
        Line::of(&times, 1, "a test").unwrap()
    }

    fn exactly(value: f64) -> Measured {
        Measured::of(&[value; 5], "a test").unwrap()
    }

    #[test]
    fn a_link_has_what_copies_add_to_a_round() {
        let crossings = Crossings {
            alone: [exactly(20.0), exactly(4.0)],
            queued: exactly(9.0),
            there: Costs { whole: line(30.0, 1e-3 / 50.0), rows: Some(line(30.0, 0.02)) },
            back: Costs { whole: line(34.0, 1e-3 / 25.0), rows: None },
            arrange: line(5.0, 1e-3 / 50.0),
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
        let Some((_lock, device)) = crate::tests::device() else { return };
        let runtime = Runtime::new(device.clone()).unwrap();
        let mut notes = Notes { findings: Vec::new(), warnings: Vec::new() };
        let started = std::time::Instant::now();
        let options = ProbeOptions {
            name: "test".to_owned(),
            selection: String::new(),
            gpu_cores: None,
            quick: true,
            seed: 1,
            limit: std::time::Duration::from_secs(10),
            date: String::new(),
        };
        let progress: &(dyn Fn(&str) + Sync) = &|_| ();
        let bench = Bench { options: &options, device, groups: Vec::new(), started, progress };
        let budget = TimeBudget { end: started + options.limit, progress };
        let link = measure_copies(&bench, &runtime, &budget, &mut notes).unwrap().link("test", None);
        assert!(link.to_gpu_gbps.value > 0.0 && link.to_host_gbps.value > 0.0, "{link:?}");
        assert_eq!(notes.findings.len(), 2 * QUICK_PARTS.len(), "{:?}", notes.findings);
    }

    #[test]
    fn a_cost_a_byte_is_written_in_nanoseconds() {
        let table = table(&line(5.0, 1e-3 / 10.0), "test");
        assert!((table.per_byte_ns.value - 0.1).abs() < 1e-6, "{table:?}");
    }
}
