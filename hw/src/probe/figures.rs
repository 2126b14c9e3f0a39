//! The measurements of a probe, in order.
//!
//! Responsible for: the order, the time budget of each part, and the findings noted on the way. Not
//! for: the resulting profile (`assemble`).

use std::path::Path;

use coexec_fit::calibrate::interference;
use coexec_sim::device::power::Power;
use coexec_sim::kernel::cpu::MAX_THREADS;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::{Gpu, Profile};

use super::assemble::{jitter_percent, unfitted_cpu};
use super::launches::Launches;
use super::synchronisation::Mechanisms;
use super::transfers::CopyCosts;
use super::{
    Bench, Client, CoRuns, Estimate, Finding, Line, MAX_NOISE, ProbeError, Result, Stream, Sweep, Sweeper,
    graphics, launches, memory_bytes, power, streams, synchronisation, transfers,
};
use crate::cpu::ThreadPool;

/// Fractions of the remaining time for each part of the probe, in order.
const SYNCHRONISATION_PART: f64 = 0.25;
const TRANSFERS_PART: f64 = 0.1;
const CO_RUN_PART: f64 = 0.5;
const GPU_LAYERS_PART: f64 = 0.65;
const CPU_LAYERS_PART: f64 = 0.9;

/// Deviation of a layer's times, in percent of its median, above which a warning is given.
const NOISY_PERCENT: f64 = 10.0;
/// Passes of each stream, quick and full.
const PASSES: [usize; 2] = [5, 20];

/// All measurements of a probe.
pub(super) struct Figures {
    pub(super) launches: Launches,
    pub(super) mechanisms: Mechanisms,
    /// Bandwidth of the CPU's stream and of the GPU's, in GB/s.
    pub(super) bandwidth: [Estimate; 2],
    /// Costs of mapping and of unmapping.
    pub(super) transfers: [Line; 2],
    /// For a discrete device.
    pub(super) copy_costs: Option<CopyCosts>,
    /// If the machine has a power meter.
    pub(super) power: Option<Power>,
    pub(super) co_runs: Option<CoRuns>,
    pub(super) gpu: Sweep,
    pub(super) cpu: Sweep,
}

/// Findings and warnings noted on the way.
pub(super) struct Notes {
    pub(super) findings: Vec<Finding>,
    pub(super) warnings: Vec<String>,
}

impl Notes {
    pub(super) fn find(&mut self, what: impl Into<String>, measured: &Estimate, unit: &'static str) {
        self.note(what, measured.value, unit);
        if let Some(finding) = self.findings.last_mut() {
            finding.ci95 = Some(measured.ci95.map(|end| rounded(end, VALUE_DIGITS)));
        }
    }

    pub(super) fn note(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.findings.push(Finding {
            what: what.into(),
            value: rounded(value, VALUE_DIGITS),
            unit,
            ci95: None,
        });
    }
}

/// Performs the measurements, one after the other.
pub(super) fn figures(bench: &Bench<'_>, base: &Gpu, notes: &mut Notes) -> Result<Figures> {
    let (options, runtime) = (bench.options, &bench.runtime);
    let quick = options.quick;
    let noise = launches::noise(runtime)?;
    if noise > MAX_NOISE {
        return Err(ProbeError::Noisy { percent: 100.0 * noise, most: 100.0 * MAX_NOISE });
    }
    notes.note("noise of one kernel repeated", 100.0 * noise, "%");
    let launches = launches::measure(runtime, quick)?;
    notes.find("launch: call to start", &launches.submit, "us");
    notes.find("launch: end until the host notices", &launches.read_back, "us");
    notes.find("launch: between kernels of a queue", &launches.gap, "us");
    let mechanisms = synchronisation::measure(runtime, quick, &bench.budget(SYNCHRONISATION_PART))?;
    for timed in &mechanisms.timed {
        notes.find(format!("{} to the host", timed.mechanism), &timed.to_host, "us");
        notes.find(format!("{} to the device", timed.mechanism), &timed.to_device, "us");
    }
    notes.warnings.extend(mechanisms.unsound.iter().map(ToString::to_string));
    let budget = bench.budget(TRANSFERS_PART);
    let transfers = transfers::measure(bench, &budget)?;
    let copy_costs = if runtime.device().unified_memory {
        None
    } else {
        Some(transfers::measure_copies(bench, &budget, notes)?)
    };
    let power = power::measure(bench, notes)?;
    let (bandwidth, co_runs) = memory_traffic(bench, notes)?;
    let profile =
        Profile { cpu: unfitted_cpu(&bench.groups), gpu: Some(base.clone()), ..graphics::template() };
    let machine = &mut bench.machine();
    let budget = bench.budget(GPU_LAYERS_PART);
    let mut sweeper = Sweeper { machine, profile: &profile, quick, seed: options.seed, budget };
    let gpu = sweeper.gpu()?;
    sweeper.budget = bench.budget(CPU_LAYERS_PART);
    let cpu = sweeper.cpu()?;
    for (sweep, processor) in [(&gpu, "GPU"), (&cpu, "CPU")] {
        let spread = jitter_percent(&sweep.measurements).map_or(0.0, |spread| spread.value);
        if spread > NOISY_PERCENT {
            notes.warnings.push(format!(
                "layers on the {processor} vary by {spread:.0} % from run to run: is something else running on this machine?"
            ));
        }
        notes.warnings.extend(sweep.left_out.iter().map(|why| format!("not timed: {why}")));
    }
    Ok(Figures { launches, mechanisms, bandwidth, transfers, copy_costs, power, co_runs, gpu, cpu })
}

/// Bandwidth of the streams alone, and of both co-running.
fn memory_traffic(bench: &Bench<'_>, notes: &mut Notes) -> Result<([Estimate; 2], Option<CoRuns>)> {
    let quick = bench.options.quick;
    let passes = PASSES[usize::from(!quick)];
    let budget = bench.budget(CO_RUN_PART);
    let bytes = memory_bytes(Path::new("/"));
    let measured = |stream: &mut Stream| -> Result<Estimate> {
        let times = stream.passes(0, passes)?;
        Ok(Estimate::of(&times, "streams")?.gbps(stream.bytes()))
    };
    let cores = bench.cores();
    let most = cores.len().min(MAX_THREADS);
    let one = ThreadPool::pinned_or_not(&cores[..1])?;
    let alone = measured(&mut Stream::of_cpu(one, bytes))?;
    notes.find("stream of one core", &alone, "GB/s");
    let all = ThreadPool::pinned_or_not(&cores[..most])?;
    let mut cpu = Client { name: "cpu", stream: Stream::of_cpu(all, bytes) };
    let of_cpu = measured(&mut cpu.stream)?;
    notes.find(format!("stream of {most} cores"), &of_cpu, "GB/s");
    let mut gpu = Client { name: "gpu", stream: Stream::of_gpu(&bench.runtime, bytes)? };
    let of_gpu = measured(&mut gpu.stream)?;
    notes.find("stream of the GPU", &of_gpu, "GB/s");
    budget.report(&format!("streams: CPU {:.1} GB/s, GPU {:.1} GB/s", of_cpu.value, of_gpu.value));
    let bandwidth = [of_cpu, of_gpu];
    if !bench.runtime.device().unified_memory {
        notes.warnings.push("no co-run: the GPU has memory of its own".to_owned());
        return Ok((bandwidth, None));
    }
    let co_runs = streams::co_run(&mut [cpu, gpu], quick, &budget)?;
    if co_runs.runs.len() < interference::MIN_RUNS {
        notes.warnings.push("no co-run: too little time was left for it".to_owned());
        return Ok((bandwidth, None));
    }
    notes.note("both processors together", co_runs.together_gbps, "GB/s");
    Ok((bandwidth, Some(co_runs)))
}
