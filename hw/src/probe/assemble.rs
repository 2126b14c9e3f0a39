//! From measurements to a profile.

use coexec_fit::calibrate::interference::{self, HeldOut};
use coexec_fit::measure::digest;
use coexec_fit::measure::runs::{ExecutedOn, Fingerprint, Measurement};
use coexec_fit::validate::cut;
use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::score;
use coexec_sim::device::gpu::{Gpu, OwnMemory};
use coexec_sim::device::memory::{Interference, Memory};
use coexec_sim::device::profile::{Jitter, Profile};
use coexec_sim::device::sync::Sync;
use coexec_sim::kernel::gpu::execute;
use coexec_sim::statistics::{VALUE_DIGITS, median, rounded};
use coexec_sim::units::BYTES_PER_GIGABYTE;
use coexec_sim::workload::Layout;
use coexec_sim::{Calibration, Cpu, Library, Quantity, Text};

use super::figures::figures;
use super::synchronisation::Mechanisms;
use super::{
    BYTES_PER_MICRO_OF_GBPS, Bench, CoRuns, CoreGroup, Estimate, FINGERPRINT, Figures, Line, Notes,
    ProbeError, Probed, Result, co_execution, fit, graphics, sequences, transfers,
};
use crate::fingerprint;
use crate::fingerprint::processor_name;
use crate::sync::Mechanism;

/// Factor that exceeds the relative rounding error of a value with five digits.
const ROUNDING_MARGIN: f64 = 1.0001;

/// Measures everything and assembles the profile.
pub(super) fn measured(bench: &Bench<'_>, warnings: Vec<String>) -> Result<Probed> {
    let mut notes = Notes { findings: Vec::new(), warnings };
    let base = graphics::unfitted(bench.runtime.device());
    let figures = figures(bench, &base, &mut notes)?;
    let source = format!("probe, {}", bench.options.date);
    let mut memory = memory(&figures, &base, &source);
    let mut co_run = Vec::new();
    if let Some(co_runs) = &figures.co_runs {
        co_run = interference::held_out(&memory, &co_runs.runs);
        memory.interference = curves(co_runs, &co_run, &source, &mut notes);
    }
    let gave_up = figures.mechanisms.gave_up;
    let (mut profile, mut runs, mut held_out) = profile(bench, figures, (base, memory))?;
    let machine = &mut bench.machine();
    let cuts = co_execution::cuts(bench, machine, &profile)?;
    let timed = sequences::measure(bench, machine, &profile)?;
    held_out.extend(sequences::fit(&mut profile, &timed, &source));
    held_out.extend(cut::points(&profile, &cuts, Library::default_for(&profile.cpu)));
    runs.extend(cuts);
    if let Some(calibration) = &mut profile.calibration {
        calibration.runs_digest = Some(digest::of_measurements(&runs));
        calibration.error = score(&held_out).into_iter().map(|scored| scored.group).collect();
    }
    let profile = checked(profile)?;
    let Notes { findings, warnings } = notes;
    let fingerprint = fingerprint(bench);
    Ok(Probed { profile, runs, fingerprint, held_out, co_run, findings, warnings, gave_up })
}

/// The interference curves that predict held-out levels of traffic at least as well as max-min
/// sharing does.
fn curves(co_runs: &CoRuns, held_out: &[HeldOut], source: &str, notes: &mut Notes) -> Vec<Interference> {
    let what = format!("{source}: fit to {} co-runs of streams", co_runs.runs.len());
    let mut curves: Vec<Interference> = interference::fit(&co_runs.runs, &what);
    for held in held_out.iter().filter(|held| held.error_percent > held.plain_error_percent) {
        curves.retain(|curve| curve.client != held.client);
        notes.warnings.push(format!(
            "no interference curve for {}: at held-out levels it errs by {:.0} %, max-min sharing by {:.0} %",
            held.client, held.error_percent, held.plain_error_percent
        ));
    }
    curves
}

/// The CPU without fitted rates.
pub(super) fn unfitted_cpu(groups: &[CoreGroup]) -> Cpu {
    let assumed = "assumed: cores of several clusters do not slow each other down";
    Cpu {
        source: "probe: cores as the operating system reports them".to_owned(),
        mixed_cluster_factor: Quantity::of(1.0, assumed),
        mixed_ruy_f32: None,
        mixed_ruy_i8: None,
        language: None,
        cold_caches: None,
        clusters: groups.iter().map(|group| group.cluster.clone()).collect(),
    }
}

/// For a layer measured on the GPU, the bytes that the model counts and the time in microseconds.
fn bytes_and_time(measurement: &Measurement, gpu: &Gpu) -> Option<(f64, f64)> {
    let (_, layer) = measurement.operator.as_ref()?;
    if measurement.processor != ExecutedOn::Gpu {
        return None;
    }
    let bytes = execute(layer, gpu).ok()?.phases.bytes().0 as f64;
    Some((bytes, measurement.median_us()?))
}

/// The shared memory, without interference curves.
fn memory(figures: &Figures, gpu: &Gpu, source: &str) -> Memory {
    let [cpu, of_gpu] = &figures.bandwidth;
    let shares = figures.co_runs.is_some();
    let alone = if shares && of_gpu.value > cpu.value { of_gpu } else { cpu };
    let together = figures.co_runs.as_ref().map_or(alone.value, |co_runs| co_runs.together_gbps);
    // Layers read some of their bytes from caches, and the peak must not limit their predictions.
    let cached = figures.gpu.measurements.iter().filter_map(|run| bytes_and_time(run, gpu));
    let cached = cached.map(|(bytes, time)| bytes / time / BYTES_PER_MICRO_OF_GBPS).filter(|_| shares);
    let peak = cached.fold(alone.value.max(together), f64::max);
    let plain = |value: f64, what: String| Quantity::of(rounded(value, VALUE_DIGITS), what);
    let mut first = alone.quantity(&format!("{source}: a stream of the faster processor"));
    // Rounding must not lift an achieved bandwidth above the peak.
    let peak = rounded(peak * ROUNDING_MARGIN, VALUE_DIGITS);
    first.value = first.value.min(peak);
    let second = plain(together.min(peak), format!("{source}: streams of both, the most of all demands"));
    Memory {
        capacity_gb: None,
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

/// Multiply-accumulates per microsecond of the fastest layer.
fn greatest_rate(measurements: &[Measurement]) -> f64 {
    let rate = |run: &Measurement| Some(run.operator.as_ref()?.1.operator.macs() as f64 / run.median_us()?);
    measurements.iter().filter_map(rate).fold(0.0, f64::max)
}

/// For the median layer, the mean absolute deviation of its times from their median, in percent.
pub(super) fn jitter_percent(measurements: &[Measurement]) -> Result<Estimate> {
    let of = |run: &Measurement| {
        let times = run.times_us();
        let middle = median(&times)?;
        let away: f64 = times.iter().map(|time| (time - middle).abs()).sum();
        Some(100.0 * away / times.len() as f64 / middle)
    };
    Estimate::of(&measurements.iter().filter_map(of).collect::<Vec<f64>>(), "layers")
}

/// Fits the kernels and assembles the profile. Also returns the runs that it was fitted to, and
/// their held-out predictions.
fn profile(
    bench: &Bench<'_>,
    figures: Figures,
    (base, memory): (Gpu, Memory),
) -> Result<(Profile, Vec<Measurement>, Vec<Point>)> {
    let options = bench.options;
    let budget = bench.budget(1.0);
    let Figures { launches, mechanisms, transfers, copy_costs, power, bandwidth, .. } = figures;
    let (on_gpu, on_cpu) = (figures.gpu, figures.cpu);
    let runs: Vec<Measurement> = on_gpu.measurements.iter().chain(&on_cpu.measurements).cloned().collect();
    let repetitions: usize = runs.iter().map(|run| run.repetitions.len()).sum();
    let source = format!("probe, {repetitions} repetitions of layers, {}", options.date);
    let seed = options.seed;
    let expected = fit::expected(base, &memory, greatest_rate(&on_gpu.measurements), seed)?;
    let fitted_gpu = fit::gpu(&expected, &on_gpu.measurements, (&source, seed, !options.quick), &budget)?;
    let unfitted = unfitted_cpu(&bench.groups);
    let fitted_cpu = fit::cpu(&unfitted, &on_cpu.measurements, (&source, seed), &budget)?;
    let what = format!("probe, {}", options.date);
    let host = launches.host_path(&format!("{what}: kernels that do nothing"));
    let mut gpu = Gpu { host: Some(host), ..fitted_gpu.gpu };
    let device = bench.runtime.device();
    if let Some(copy_costs) = copy_costs {
        let converting = format!("{what}: the kernel that converts the layout, over sizes");
        let arrange = || transfers::table(&copy_costs.arrange, &converting);
        gpu.memory = Some(OwnMemory {
            source: what.clone(),
            bandwidth_gbps: bandwidth[1].quantity(&format!("{what}: a stream")),
            capacity_gb: Quantity::plain(device.global_memory_bytes as f64 / BYTES_PER_GIGABYTE),
            link: copy_costs.link(&what, (gpu.layout() == Layout::SlicedBuffer).then(arrange)),
        });
    }
    let held_out = [fitted_gpu.held_out, fitted_cpu.held_out].concat();
    let profile = Profile {
        name: options.name.clone(),
        title: format!("{} with {}", device.name, cpu_name(&bench.cores())),
        soc: device.full_name(),
        aliases: Vec::new(),
        memory,
        cpu: fitted_cpu.cpu,
        gpu: Some(gpu),
        npu: None,
        sync: sync(&mechanisms, &transfers, &what),
        power,
        jitter: jitter(&what, &on_cpu.measurements, &on_gpu.measurements)?,
        used_fact: Vec::new(),
        calibration: Some(Calibration {
            source,
            runs_digest: None,
            date: Some(options.date.clone()),
            error: Vec::new(),
            gpu_table: fitted_gpu.spreads,
            gpu_inference: None,
            cpu_core_set: fitted_cpu.spreads,
        }),
    };
    Ok((profile, runs, held_out))
}

/// The spread of times of the median layer on each processor.
fn jitter(what: &str, on_cpu: &[Measurement], on_gpu: &[Measurement]) -> Result<Jitter> {
    let percent = [jitter_percent(on_cpu)?, jitter_percent(on_gpu)?];
    let [cpu_percent, gpu_percent] = percent.map(|one| one.quantity(&format!("{what}: the median layer's")));
    Ok(Jitter { source: what.to_owned(), cpu_percent, gpu_percent, npu_percent: None })
}

fn cpu_name(cores: &[usize]) -> String {
    let count = cores.len();
    let name = processor_name();
    format!("{count} core{} of {name}", if count == 1 { "" } else { "s" })
}

fn sync(mechanisms: &Mechanisms, [map, unmap]: &[Line; 2], what: &str) -> Sync {
    let source = |kind: &str| format!("{what}: {kind} over sizes, a line");
    Sync {
        source: what.to_owned(),
        blocking_finish: mechanisms.table(Mechanism::BlockingFinish),
        event_wait: mechanisms.table(Mechanism::EventWait),
        svm_polling: mechanisms.table(Mechanism::SvmPolling),
        sleep_then_poll: mechanisms.sleep_then_poll(),
        map: transfers::table(map, &source("blocking maps of a pinned buffer")),
        unmap: transfers::table(unmap, &source("unmapping until the queue is empty")),
        transform: transfers::no_transform(what),
    }
}

/// Returns the profile if it can be written and parsed again.
pub(super) fn checked(profile: Profile) -> Result<Profile> {
    let content = profile.to_toml().map_err(|error| ProbeError::Profile(error.to_string()))?;
    let text = Text { name: profile.name.clone(), content };
    Profile::parse(&text).map_err(|error| ProbeError::Profile(error.to_string()))?;
    Ok(profile)
}

fn fingerprint(bench: &Bench<'_>) -> Fingerprint {
    Fingerprint {
        id: FINGERPRINT.to_owned(),
        date: Some(bench.options.date.clone()),
        ..fingerprint::fingerprint(Some(bench.runtime.device()), &bench.cores(), true)
    }
}
