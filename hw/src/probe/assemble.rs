//! From measurements to the profile they make.

use coexec_sim::calibrate::interference::{self, HeldOut};
use coexec_sim::device::cpu::Cpu;
use coexec_sim::device::gpu::{Gpu, OwnMemory};
use coexec_sim::device::memory::{Interference, Memory};
use coexec_sim::device::profile::{Calibration, Jitter, Profile};
use coexec_sim::device::quantity::Quantity;
use coexec_sim::device::sync::Sync;
use coexec_sim::input::Text;
use coexec_sim::kernel::gpu::execute;
use coexec_sim::measure::digest;
use coexec_sim::measure::runs::{Fingerprint, Measurement, Ran};
use coexec_sim::statistics::{VALUE_DIGITS, median, rounded};
use coexec_sim::validate::point::Point;
use coexec_sim::validate::score::score;
use coexec_sim::workload::Layout;

use super::co_run::Crowded;
use super::figures::{Bandwidth, Figures, Notes, figures};
use super::statistics::Measured;
use super::synchronisation::Mechanisms;
use super::timed_layers::FINGERPRINT;
use super::transfers::Transfers;
use super::{Bench, ProbeError, Probed, cores, fit, graphics, transfers};
use crate::fingerprint::{clocks, governor, processor_name, temperature};
use crate::opencl::Runtime;
use crate::sync::Mechanism;

/// More than rounding takes of a value with five digits.
const ABOVE_ROUNDING: f64 = 1.0001;
const BYTES_PER_GIGABYTE: f64 = 1e9;
const BYTES_PER_MICRO_OF_GBPS: f64 = 1e3;

/// Measures everything and writes the profile.
pub(super) fn measured(bench: &Bench<'_>, warnings: Vec<String>) -> Result<Probed, ProbeError> {
    let mut notes = Notes { findings: Vec::new(), warnings };
    let runtime = Runtime::new(bench.device.clone())?;
    let base = graphics::unfitted(runtime.device());
    let figures = figures(bench, &runtime, &base, &mut notes)?;
    let source = format!("probe, {}", bench.options.date);
    let mut memory = memory(&figures, &base, &source);
    let mut co_run = Vec::new();
    if let Some(crowded) = &figures.crowded {
        co_run = interference::held_out(&memory, &crowded.runs);
        memory.interference = curves(crowded, &co_run, &source, &mut notes);
    }
    let gave_up = figures.mechanisms.gave_up;
    let Made { profile, runs, held_out } = profile(bench, &runtime, figures, (base, memory), &mut notes)?;
    let profile = checked(profile)?;
    let Notes { findings, warnings } = notes;
    let fingerprint = fingerprint(bench, &runtime);
    Ok(Probed { profile, runs, fingerprint, held_out, co_run, findings, warnings, gave_up })
}

/// The curves that predict levels of traffic they had not seen better than sharing alone.
fn curves(crowded: &Crowded, held_out: &[HeldOut], source: &str, notes: &mut Notes) -> Vec<Interference> {
    let what = format!("{source}: fit to {} co-runs of streams", crowded.runs.len());
    let mut curves: Vec<Interference> =
        interference::fit(&crowded.runs, &what).into_iter().map(|fit| fit.interference).collect();
    for held in held_out.iter().filter(|held| held.error_percent > held.plain_error_percent) {
        curves.retain(|curve| curve.client != held.client);
        notes.warnings.push(format!(
            "no interference curve for {}: at held-out levels it errs by {:.0} %, max-min sharing by {:.0} %",
            held.client, held.error_percent, held.plain_error_percent
        ));
    }
    curves
}

/// Clusters whose rates are not known yet.
pub(super) fn unfitted_cpu(bench: &Bench<'_>) -> Cpu {
    let assumed = "assumed: cores of several clusters do not slow each other down";
    Cpu {
        source: "probe: cores as the operating system tells them".to_owned(),
        mixed_cluster_factor: Quantity { value: 1.0, source: Some(assumed.to_owned()), ci95: None },
        mixed_ruy_f32: None,
        mixed_ruy_i8: None,
        clusters: cores::clusters(&bench.groups),
    }
}

/// Bytes that the models count for a measured layer, and its time in microseconds.
fn bytes_and_time(measurement: &Measurement, gpu: &Gpu) -> Option<(f64, f64)> {
    let (_, layer) = measurement.operator.as_ref()?;
    if measurement.processor != Ran::Gpu {
        return None;
    }
    let bytes = execute(layer, gpu).ok()?.phases.bytes().0 as f64;
    Some((bytes, middle(measurement)?))
}

fn times(measurement: &Measurement) -> Vec<f64> {
    let sound = measurement.repetitions.iter().filter(|repetition| !repetition.outlier);
    sound.map(|repetition| repetition.measured_us).collect()
}

fn middle(measurement: &Measurement) -> Option<f64> {
    median(&times(measurement))
}

/// The shared memory, without interference yet.
fn memory(figures: &Figures, gpu: &Gpu, source: &str) -> Memory {
    let Bandwidth { cpu, gpu: of_gpu } = &figures.bandwidth;
    let shares = figures.crowded.is_some();
    let alone = if shares && of_gpu.value > cpu.value { of_gpu } else { cpu };
    let together = figures.crowded.as_ref().map_or(alone.value, |crowded| crowded.together_gbps);
    // Layers find some of their bytes in caches; no prediction may be held to less.
    let cached = figures.gpu.measurements.iter().filter_map(|run| bytes_and_time(run, gpu));
    let cached = cached.map(|(bytes, time)| bytes / time / BYTES_PER_MICRO_OF_GBPS).filter(|_| shares);
    let peak = cached.fold(alone.value.max(together), f64::max);
    let plain = |value: f64, what: String| Quantity {
        value: rounded(value, VALUE_DIGITS),
        source: Some(what),
        ci95: None,
    };
    let mut first = alone.quantity(&format!("{source}: a stream of the faster processor"));
    // Rounding must not lift what is achieved above the peak.
    let peak = rounded(peak * ABOVE_ROUNDING, VALUE_DIGITS);
    first.value = first.value.min(peak);
    let second = plain(together.min(peak), format!("{source}: streams of both, the most of all demands"));
    Memory {
        streams: None,
        source: format!("{source}: streams through more memory than the caches hold"),
        peak_bandwidth_gbps: plain(
            peak,
            format!("{source}: the greatest rate of any stream or layer, caches included"),
        ),
        concurrent_bandwidth_gbps: vec![first, second],
        interference: Vec::new(),
    }
}

/// Multiply-accumulates a microsecond of the fastest layer.
fn greatest_rate(measurements: &[Measurement]) -> f64 {
    let rate = |run: &Measurement| Some(run.operator.as_ref()?.1.operator.macs() as f64 / middle(run)?);
    measurements.iter().filter_map(rate).fold(0.0, f64::max)
}

/// Mean absolute deviation from the median, in percent, over all layers.
pub(super) fn jitter_percent(measurements: &[Measurement]) -> Option<Measured> {
    let of = |run: &Measurement| {
        let times = times(run);
        let middle = median(&times)?;
        let away: f64 = times.iter().map(|time| (time - middle).abs()).sum();
        Some(100.0 * away / times.len() as f64 / middle)
    };
    Measured::of(&measurements.iter().filter_map(of).collect::<Vec<f64>>())
}

/// A profile with what it was fitted on.
struct Made {
    profile: Profile,
    runs: Vec<Measurement>,
    held_out: Vec<Point>,
}

/// Fits the kernels and puts the profile together.
fn profile(
    bench: &Bench<'_>,
    runtime: &Runtime,
    figures: Figures,
    (base, memory): (Gpu, Memory),
    notes: &mut Notes,
) -> Result<Made, ProbeError> {
    let options = bench.options;
    let stage = bench.stage(1.0);
    let Figures {
        launches,
        mechanisms,
        transfers,
        crossings,
        power,
        bandwidth,
        gpu: on_gpu,
        cpu: on_cpu,
        ..
    } = figures;
    rates_by_tile(&on_gpu.measurements, &base, notes);
    let repetitions: usize = [&on_gpu, &on_cpu]
        .iter()
        .flat_map(|sweep| &sweep.measurements)
        .map(|run| run.repetitions.len())
        .sum();
    let source = format!("probe, {repetitions} repetitions of layers, {}", options.date);
    let how = fit::Options { source: &source, seed: options.seed, residual: !options.quick };
    let expected = fit::expected(base, &memory, greatest_rate(&on_gpu.measurements), options.seed)?;
    let fitted_gpu = fit::gpu(&expected, &on_gpu.measurements, &how, &stage)?;
    let fitted_cpu = fit::cpu(&unfitted_cpu(bench), &on_cpu.measurements, &how, &stage)?;
    let what = format!("probe, {}", options.date);
    let mut gpu = fitted_gpu.gpu;
    gpu.host = Some(launches.host_path(&format!("{what}: kernels that do nothing")));
    let device = runtime.device();
    if let Some(crossings) = crossings {
        let arranges = gpu.layout() == Layout::SlicedBuffer;
        let arrange = arranges.then(|| transfers::arranging(&transfers.transform, &launches.gap, &what));
        gpu.memory = Some(OwnMemory {
            source: what.clone(),
            bandwidth_gbps: bandwidth.gpu.quantity(&format!("{what}: a stream")),
            capacity_gb: Quantity::plain(device.global_memory_bytes as f64 / BYTES_PER_GIGABYTE),
            link: crossings.link(&what, arrange),
        });
    }
    let mut held_out = fitted_gpu.held_out;
    held_out.extend(fitted_cpu.held_out);
    let jitter = |runs: &[Measurement]| {
        let spread = jitter_percent(runs).ok_or(ProbeError::TooLittleTime { what: "layers" });
        Ok::<Quantity, ProbeError>(spread?.quantity(&format!("{what}: the median layer's")))
    };
    let runs: Vec<Measurement> = on_gpu.measurements.iter().chain(&on_cpu.measurements).cloned().collect();
    let profile = Profile {
        name: options.name.clone(),
        title: format!("{} with {}", device.name, cpu_name(&bench.cores())),
        soc: format!("{} ({})", device.name, device.platform),
        aliases: Vec::new(),
        memory,
        cpu: fitted_cpu.cpu,
        gpu: Some(gpu),
        npu: None,
        sync: sync(&mechanisms, &transfers, &what),
        power,
        jitter: Jitter {
            source: what.clone(),
            cpu_percent: jitter(&on_cpu.measurements)?,
            gpu_percent: jitter(&on_gpu.measurements)?,
            npu_percent: None,
        },
        used_fact: Vec::new(),
        calibration: Some(Calibration {
            source,
            runs_digest: Some(digest::of_measurements(&runs)),
            date: Some(options.date.clone()),
            error: score(&held_out).iter().map(|scored| scored.group.clone()).collect(),
            gpu_table: fitted_gpu.spreads,
            gpu_inference: None,
            cpu_core_set: fitted_cpu.spreads,
        }),
    };
    Ok(Made { profile, runs, held_out })
}

fn cpu_name(cores: &[usize]) -> String {
    let count = cores.len();
    let name = processor_name().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{count} core{} of {name}", if count == 1 { "" } else { "s" })
}

fn sync(mechanisms: &Mechanisms, transfers: &Transfers, what: &str) -> Sync {
    let source = |kind: &str| format!("{what}: {kind} over sizes, a line");
    Sync {
        source: what.to_owned(),
        blocking_finish: mechanisms.table(Mechanism::BlockingFinish),
        event_wait: mechanisms.table(Mechanism::EventWait),
        svm_polling: mechanisms.table(Mechanism::SvmPolling),
        sleep_then_poll: mechanisms.sleep_then_poll(),
        map: transfers::table(&transfers.map, &source("blocking maps of a pinned buffer")),
        unmap: transfers::table(&transfers.unmap, &source("unmapping until the queue is empty")),
        transform: transfers::no_transform(&transfers.transform, what),
    }
}

/// Notes the greatest rate of each kernel and tile.
fn rates_by_tile(measurements: &[Measurement], gpu: &Gpu, notes: &mut Notes) {
    let mut rates: Vec<(String, f64)> = Vec::new();
    for run in measurements {
        let Some((_, layer)) = &run.operator else { continue };
        let (Ok(execution), Some(time)) = (execute(layer, gpu), middle(run)) else { continue };
        let [x, y, slices] = execution.detail.tile;
        let what = format!("{}, tile {x}x{y}x{slices}: greatest rate", execution.detail.kernel);
        let rate = layer.operator.macs() as f64 / time;
        match rates.iter_mut().find(|(known, _)| *known == what) {
            Some((_, most)) => *most = most.max(rate),
            None => rates.push((what, rate)),
        }
    }
    for (what, rate) in rates.into_iter().filter(|(_, rate)| *rate > 0.0) {
        notes.note(what, rate / BYTES_PER_MICRO_OF_GBPS, "GMAC/s");
    }
}

/// The profile, once it reads back as what it is.
fn checked(profile: Profile) -> Result<Profile, ProbeError> {
    let content = profile.to_toml().map_err(|error| ProbeError::Profile(error.to_string()))?;
    let text = Text { name: profile.name.clone(), content };
    Profile::parse(&text).map_err(|error| ProbeError::Profile(error.to_string()))?;
    Ok(profile)
}

fn fingerprint(bench: &Bench<'_>, runtime: &Runtime) -> Fingerprint {
    let device = runtime.device();
    let cores: Vec<String> = bench.cores().iter().map(ToString::to_string).collect();
    Fingerprint {
        id: FINGERPRINT.to_owned(),
        device: device.to_string(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        driver: Some(device.driver.clone()),
        opencl_version: Some(device.version.clone()),
        affinity: Some(format!("CPU threads on cores {}", cores.join(", "))),
        governor: governor(&bench.cores()),
        clocks: clocks(&bench.cores()),
        temperature_c: temperature(),
        date: Some(bench.options.date.clone()),
    }
}
