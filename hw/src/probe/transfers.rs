//! The cost of making bytes visible to the other processor: mapping shared memory, changing the
//! layout, and copies over the link between the host and a discrete device.
//!
//! Rounds through the device's queue are timed as in a run (`opencl::traffic`), with and without
//! copies. The host's memory is pinned.

use std::sync::Arc;

use coexec_sim::Quantity;
use coexec_sim::device::gpu::Link;
use coexec_sim::device::sync::Transfer;
use coexec_sim::schedule::Memory;
use coexec_sim::units::NANOS_PER_MICRO;
use coexec_sim::workload::{Layout, Shape};

use super::timed_layers::RUN_LIMIT;
use super::{Bench, Estimate, Line, Notes, ProbeOptions, Result, TimeBudget, Times, over_sizes, repeated};
use crate::opencl::prepared::arrangement::Arrangement;
use crate::opencl::{DeviceCopies, Home, MappedBuffer, Runtime, Tensor};

/// Sizes of the transfers, in bytes.
const QUICK: [usize; 5] = [4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20];
const FULL: [usize; 9] =
    [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20];
/// Repetitions of each, quick and full.
const REPETITIONS: [usize; 2] = [10, 40];
/// Channels of the tensor whose layout is converted.
const CONVERTED_CHANNELS: u32 = 64;
/// Name of the measurement in errors.
const MEASUREMENT: &str = "transfers";

/// Channels of the tensors that are copied whole.
const CHANNELS: u32 = 256;
/// Their pixels: 1 KiB to 32 MiB.
const QUICK_PIXELS: [u32; 5] = [1, 16, 256, 2_048, 8_192];
const FULL_PIXELS: [u32; 9] = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 32_768];
/// Pixels and channels of the copied parts with strided rows: half the channels of a tensor.
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

/// Measures mapping and unmapping.
pub(super) fn measure(bench: &Bench<'_>, budget: &TimeBudget<'_>) -> Result<[Line; 2]> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let sizes: &[usize] = if quick { &QUICK } else { &FULL };
    let repetitions = REPETITIONS[usize::from(!quick)];
    let [map, unmap] = over_sizes(sizes, 2, budget, |size| {
        let buffer = MappedBuffer::new(&bench.runtime, size)?;
        budget.report(&format!("transfers of {} KiB", size >> 10));
        let times = repeated(repetitions, || Ok(buffer.map_and_unmap()?))?;
        Ok(times.map(|times| (buffer.bytes().0 as f64, times)))
    })?;
    Ok([Line::of(&map, seed, MEASUREMENT)?, Line::of(&unmap, seed, MEASUREMENT)?])
}

/// Measures the kernel that converts a tensor from the host's layout.
fn conversion(bench: &Bench<'_>, budget: &TimeBudget<'_>) -> Result<Line> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let sizes: &[usize] = if quick { &QUICK } else { &FULL };
    let [times] = over_sizes(sizes, 2, budget, |size| {
        let pixels = (size / size_of::<f32>()) as u32 / CONVERTED_CHANNELS;
        let width = 1 << pixels.ilog2().div_ceil(2);
        let shape = Shape::image(pixels / width, width, CONVERTED_CHANNELS);
        let mut sent = Tensor::<f32>::new(&bench.runtime, shape, Layout::Buffer, Home::Device)?;
        sent.write(&vec![0.0; shape.elements() as usize])?;
        let arrangement = Arrangement::new(Arc::new(sent), (shape, Layout::SlicedBuffer), RUN_LIMIT)?;
        let run = || Ok([arrangement.run(RUN_LIMIT)?.device]);
        let [times] = repeated(REPETITIONS[usize::from(!quick)], run)?;
        Ok([(shape.elements() as f64 * BYTES_PER_NUMBER, times)])
    })?;
    Line::of(&times, seed, MEASUREMENT)
}

/// A cost as a table of a profile.
pub(super) fn table(line: &Line, what: &str) -> Transfer {
    Transfer {
        source: what.to_owned(),
        fixed_us: line.fixed.quantity(what),
        per_byte_ns: line.slope.scaled(NANOS_PER_MICRO).quantity(what),
    }
}

/// The cost of layout changes between processors: none, as `crate::execute` has kernels write
/// shared results in the host's layout.
pub(super) fn no_transform(what: &str) -> Transfer {
    let source = format!("{what}: none, as kernels write the host's layout");
    Transfer { fixed_us: Quantity::plain(0.0), per_byte_ns: Quantity::plain(0.0), source }
}

/// The cost of copies in one direction.
struct Costs {
    /// Time over contiguous bytes, including the rest of a round.
    whole: Line,
    /// Time over strided rows, without that of their bytes; `None` if unknown.
    rows: Option<Line>,
}

/// The cost of copies in both directions.
pub(super) struct CopyCosts {
    /// Without copies: the time of a round, and the host's time to enqueue it, in microseconds.
    no_copies: [Estimate; 2],
    /// The host's time to enqueue a round with a copy each way, in microseconds.
    queued: Estimate,
    to_device: Costs,
    to_host: Costs,
    /// The cost of converting the layout of what was copied.
    pub(super) arrange: Line,
}

/// Measures copies.
pub(super) fn measure_copies(
    bench: &Bench<'_>,
    budget: &TimeBudget<'_>,
    notes: &mut Notes,
) -> Result<CopyCosts> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let repetitions = REPETITIONS[usize::from(!quick)];
    let runtime = &bench.runtime;
    let sizes: &[u32] = if quick { &QUICK_PIXELS } else { &FULL_PIXELS };
    let whole = over_sizes(sizes, 3, budget, |pixels| {
        let mut copies = DeviceCopies::new(runtime, pixels, CHANNELS)?;
        let bytes = f64::from(pixels * CHANNELS) * BYTES_PER_NUMBER;
        budget.report(&format!("copies of {:.0} KiB", bytes / 1024.0));
        each_way(&mut copies, CHANNELS, repetitions).map(|times| times.map(|times| (bytes, times)))
    })?;
    let mut smallest = DeviceCopies::new(runtime, sizes[0], CHANNELS)?;
    let mut rounds = |to: &[Memory]| repeated(repetitions, || Ok(smallest.round(to, CHANNELS)?));
    let [alone, alone_queued] = rounds(&[])?;
    let [_, queued] = rounds(&[Memory::Gpu, Memory::Host])?;
    let line = |times: &Times| Line::of(times, seed, "copies");
    let [to_device, to_host] = [line(&whole[0])?, line(&whole[1])?];
    let slopes = [to_device.slope.value, to_host.slope.value];
    let [rows_to_device, rows_to_host] =
        row_times(runtime, if quick { &QUICK_PARTS } else { &FULL_PARTS }, slopes, repetitions, notes)?
            .map(|times| line(&times).ok());
    let measured = |times: &[f64]| Estimate::of(times, "copies");
    Ok(CopyCosts {
        no_copies: [measured(&alone)?, measured(&alone_queued)?],
        queued: measured(&queued)?,
        to_device: Costs { whole: to_device, rows: rows_to_device },
        to_host: Costs { whole: to_host, rows: rows_to_host },
        arrange: conversion(bench, budget)?,
    })
}

/// Times in microseconds until the host learned of the end, of copies to the device and to the
/// host.
fn each_way(copies: &mut DeviceCopies, channels: u32, repetitions: usize) -> Result<[Vec<f64>; 2]> {
    let mut round = |to| repeated(repetitions, || Ok(copies.round(&[to], channels)?));
    let [[to_device, _], [to_host, _]] = [round(Memory::Gpu)?, round(Memory::Host)?];
    Ok([to_device, to_host])
}

/// Times over rows, in each direction, minus those of as many contiguous bytes.
fn row_times(
    runtime: &Arc<Runtime>,
    parts: &[[u32; 2]],
    slopes: [f64; 2],
    repetitions: usize,
    notes: &mut Notes,
) -> Result<[Times; 2]> {
    let mut times: [Times; 2] = Default::default();
    for &[pixels, channels] in parts {
        let mut copies = DeviceCopies::new(runtime, pixels, 2 * channels)?;
        let bytes = f64::from(pixels * channels) * BYTES_PER_NUMBER;
        for (index, known) in each_way(&mut copies, channels, repetitions)?.into_iter().enumerate() {
            let remainder: Vec<f64> = known.iter().map(|time| time - bytes * slopes[index]).collect();
            let direction = ["to the device", "to the host"][index];
            let what = format!("copy of {pixels} rows of {} bytes {direction}", 4 * channels);
            notes.find(what, &Estimate::of(&known, "copies")?, "us");
            // Without a remainder, the time is explained by the bytes alone.
            if remainder.iter().all(|&time| time > 0.0) {
                times[index].push((f64::from(pixels), remainder));
            }
        }
    }
    Ok(times)
}

impl CopyCosts {
    /// The profile's link; `source` states when it was probed. `arrange` is the cost of changing the
    /// layout of what was copied, if the device prefers another.
    pub(super) fn link(&self, source: &str, arrange: Option<Transfer>) -> Link {
        let Self { no_copies: [alone, alone_queued], queued, to_device, to_host, .. } = self;
        let queue = difference(queued, alone_queued).scaled(0.5);
        let added = [&to_device.whole, &to_host.whole]
            .map(|line| difference(&difference(&line.fixed, alone), &queue));
        let latency = Estimate::mean([&added[0], &added[1]]);
        let row = |costs: &Costs| {
            let rows = costs.rows.as_ref()?;
            Some(rows.slope.scaled(NANOS_PER_MICRO).quantity(
                "probe: parts of the channels over their rows, without the time of as many contiguous bytes",
            ))
        };
        Link {
            source: format!("{source}: rounds through the queue from and to pinned memory"),
            latency_us: latency.quantity(
                "probe: what a copy of next to nothing adds to a round, the mean of both directions",
            ),
            queue_us: Some(queue.quantity("probe: what a copy adds to the host's time to fill the queue")),
            to_gpu_gbps: rate(&to_device.whole.slope),
            to_host_gbps: rate(&to_host.whole.slope),
            row_to_gpu_ns: row(to_device),
            row_to_host_ns: row(to_host),
            arrange,
            picojoules_per_byte: None,
        }
    }
}

/// The difference of two times, at least zero.
fn difference(time: &Estimate, other: &Estimate) -> Estimate {
    let ci95 = [time.ci95[0] - other.ci95[1], time.ci95[1] - other.ci95[0]].map(|end| end.max(0.0));
    Estimate { value: (time.value - other.value).max(0.0), ci95, ..*time }
}

/// Converts microseconds per byte to GB/s.
fn rate(slope: &Estimate) -> Quantity {
    /// Bounds the rate of a link whose bytes cost too little to measure.
    const MIN_SLOPE: f64 = 1e-9;
    let bounded = Estimate {
        value: slope.value.max(MIN_SLOPE),
        ci95: slope.ci95.map(|end| end.max(MIN_SLOPE)),
        ..*slope
    };
    bounded.gbps(1.0).quantity("probe: copies from and to pinned memory over sizes, a line")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::DeviceChoice;

    fn line(fixed_us: f64, per_unit_us: f64) -> Line {
        let times: Times = [1e3, 1e4, 1e5, 1e6, 1e7]
            .iter()
            .map(|&count| (count, vec![fixed_us + count * per_unit_us; 5]))
            .collect();
        Line::of(&times, 1, "a test").unwrap()
    }

    fn exactly(value: f64) -> Estimate {
        Estimate::of(&[value; 5], "a test").unwrap()
    }

    #[test]
    fn a_link_has_what_copies_add_to_a_round() {
        let copy_costs = CopyCosts {
            no_copies: [exactly(20.0), exactly(4.0)],
            queued: exactly(9.0),
            to_device: Costs { whole: line(30.0, 1e-3 / 50.0), rows: Some(line(30.0, 0.02)) },
            to_host: Costs { whole: line(34.0, 1e-3 / 25.0), rows: None },
            arrange: line(5.0, 1e-3 / 50.0),
        };
        let link = copy_costs.link("test", None);
        let about = |quantity: &Quantity, value: f64| (quantity.value / value - 1.0).abs() < 1e-3;
        // 10 and 14 us, of which the host's enqueueing is 2.5 us.
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
        let runtime = Runtime::new(device).unwrap();
        let mut notes = Notes { findings: Vec::new(), warnings: Vec::new() };
        let started = std::time::Instant::now();
        let options = ProbeOptions {
            name: "test".to_owned(),
            choice: DeviceChoice::default(),
            quick: true,
            seed: 1,
            limit: std::time::Duration::from_secs(10),
            date: String::new(),
        };
        let progress: &(dyn Fn(&str) + Sync) = &|_| ();
        let bench = Bench { options: &options, runtime, groups: Vec::new(), started, progress };
        let budget = TimeBudget { end: started + options.limit, progress };
        let link = measure_copies(&bench, &budget, &mut notes).unwrap().link("test", None);
        assert!(link.to_gpu_gbps.value > 0.0 && link.to_host_gbps.value > 0.0, "{link:?}");
        assert_eq!(notes.findings.len(), 2 * QUICK_PARTS.len(), "{:?}", notes.findings);
    }

    #[test]
    fn a_cost_a_byte_is_written_in_nanoseconds() {
        let table = table(&line(5.0, 1e-3 / 10.0), "test");
        assert!((table.per_byte_ns.value - 0.1).abs() < 1e-6, "{table:?}");
    }
}
