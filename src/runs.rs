//! Measured runs from the files a user names.

use std::collections::BTreeSet;
use std::path::Path;

use coexec_fit::measure::benchmark_cpu::{self, CpuTable};
use coexec_fit::measure::benchmark_gpu::{self, GpuTable};
use coexec_fit::measure::benchmark_gpu_network::{self, GpuNetworkTable};
use coexec_fit::measure::{SkippedRow, digest, draw, runs};
use coexec_sim::device::gpu::Gpu;
use coexec_sim::device::profile::Profile;
use coexec_sim::input::InputError;
use coexec_sim::kernel::cpu::Library;

use crate::cli::{Common, RunFormat, Runs};
use crate::failure::Failure;

/// Most rows that are named one by one on standard error.
const MOST_NAMED: usize = 5;

/// What there is of a profile's processors: of at least one.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Layers on the GPU.
    pub(crate) gpu: Option<GpuTable>,
    /// Whole networks on the GPU.
    pub(crate) inferences: Option<GpuNetworkTable>,
    /// Networks on the CPU.
    pub(crate) cpu: Option<CpuTable>,
    /// Operators that the host timed.
    pub(crate) host_timed: Vec<runs::HostTimed>,
    /// All measurements of coexec's own.
    pub(crate) measurements: Vec<runs::Measurement>,
    /// Rows of none of these.
    pub(crate) left_out: Vec<SkippedRow>,
    /// The data set, where it has a name.
    data: Option<&'static str>,
    /// The device, in words.
    device: String,
    /// How the runs were drawn from more.
    drawn: Option<String>,
    /// Conditions of coexec's own runs.
    fingerprints: Vec<runs::Fingerprint>,
    /// What tells whether these runs set a profile.
    pub(crate) digest: String,
}

/// The CPU kernels that made the runs.
pub(crate) fn library(profile: &Profile, options: &Runs) -> Library {
    options.library.map_or_else(|| Library::of_runs(&profile.cpu), Into::into)
}

impl Measured {
    /// Rows of the files that are no usable runs. Both halves of a data set read its
    /// GPU table; the GPU's reasons come first.
    pub(crate) fn unusable(&self) -> Vec<SkippedRow> {
        let gpu = self.gpu.iter().flat_map(|table| &table.left_out);
        let inferences = self.inferences.iter().flat_map(|table| &table.left_out);
        let cpu = self.cpu.iter().flat_map(|table| &table.left_out);
        gpu.chain(inferences).chain(cpu).chain(&self.left_out).cloned().collect()
    }

    /// What was measured, in words: `mobile-ml-benchmark, 82 runs of pixel4`.
    pub(crate) fn source(&self) -> String {
        let data = self.data.map_or(String::new(), |data| format!("{data}, "));
        let drawn = self.drawn.as_ref().map_or(String::new(), |drawn| format!(", {drawn}"));
        format!("{data}{} runs of {}{drawn}", self.count(), self.device)
    }

    /// Whether the profile was fitted to these runs, or to some of them.
    pub(crate) fn set(&self, profile: &Profile) -> bool {
        let Some(calibration) = &profile.calibration else { return false };
        // A profile without a digest names its data set, the device and how many runs there were.
        let is_named = self.data.is_some() && calibration.source.contains(&self.source());
        is_named || calibration.runs_digest.as_deref() == Some(self.digest.as_str())
    }

    /// The devices these runs are of, where nothing in the profile's names is like them.
    pub(crate) fn other_devices(&self, profile: &Profile) -> Option<String> {
        let devices: Vec<&str> = match self.fingerprints.as_slice() {
            [] if self.data.is_some() => vec![self.device.as_str()],
            fingerprints => fingerprints.iter().map(|fingerprint| fingerprint.device.as_str()).collect(),
        };
        let other = devices.into_iter().find(|device| !is_like(device, profile))?;
        Some(other.to_owned())
    }

    /// What coexec's own runs were measured with and when, a line each.
    pub(crate) fn conditions(&self) -> Vec<String> {
        let line = |fingerprint: &runs::Fingerprint| {
            let driver = fingerprint.driver.as_ref().map(|driver| format!("driver {driver}"));
            let clocks = fingerprint.clocks.as_ref().map(|clocks| format!("clocks {clocks}"));
            let date = fingerprint.date.clone();
            let parts =
                [Some(fingerprint.device.clone()), driver, fingerprint.affinity.clone(), clocks, date];
            let version = format!("coexec {}", fingerprint.tool_version);
            parts.into_iter().flatten().chain([version]).collect::<Vec<_>>().join("; ")
        };
        self.fingerprints.iter().map(line).collect()
    }

    /// Keeps `count` runs of layers on the GPU, drawn at random, and none of whole
    /// networks on it.
    pub(crate) fn draw_rows(&mut self, count: usize, seed: u64) {
        if let Some(table) = &mut self.gpu {
            table.runs = draw::rows(&table.runs, count, seed);
            self.inferences = None;
            self.drawn = Some(format!("{} of the GPU drawn with seed {seed}", table.runs.len()));
        }
    }

    /// Keeps the runs of `count` networks, drawn at random.
    pub(crate) fn draw_networks(&mut self, count: usize, seed: u64) {
        let gpu = self.gpu.iter().flat_map(|table| &table.runs).map(|run| run.network.as_str());
        let cpu = self.cpu.iter().flat_map(|table| &table.runs).map(|run| run.network.as_str());
        let kept: BTreeSet<String> =
            draw::networks(gpu.chain(cpu), count, seed).into_iter().map(str::to_owned).collect();
        self.drawn = Some(format!("of {} networks drawn with seed {seed}", kept.len()));
        if let Some(table) = &mut self.gpu {
            table.runs.retain(|run| kept.contains(&run.network));
        }
        if let Some(table) = &mut self.inferences {
            table.networks.retain(|network| kept.contains(&network.name));
        }
        if let Some(table) = &mut self.cpu {
            table.runs.retain(|run| kept.contains(&run.network));
        }
    }

    /// Runs that can be used.
    pub(crate) fn count(&self) -> usize {
        self.gpu.as_ref().map_or(0, |table| table.runs.len())
            + self.inferences.as_ref().map_or(0, |table| table.networks.len())
            + self.cpu.as_ref().map_or(0, |table| table.runs.len())
            + self.host_timed.len()
    }
}

/// Words of a device's description that say nothing of which device it is.
const COMMON_WORDS: [&str; 11] = [
    "compute",
    "core",
    "cores",
    "device",
    "language",
    "opencl",
    "phone",
    "portable",
    "processor",
    "units",
    "with",
];

/// Whether a device's description has a name of the profile in it, or a word of its titles.
fn is_like(device: &str, profile: &Profile) -> bool {
    let plain = |text: &str| -> String {
        text.to_lowercase().chars().filter(|character| character.is_alphanumeric()).collect()
    };
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|character: char| !character.is_alphanumeric()).map(str::to_lowercase);
        words.filter(|word| word.len() > 3 && !COMMON_WORDS.contains(&word.as_str())).collect()
    };
    let mut names = profile.aliases.iter().chain([&profile.name]).map(|name| plain(name));
    let plain_device = plain(device);
    let has_name = |name: String| plain_device.contains(&name) || name.contains(&plain_device);
    let gpu = profile.gpu.as_ref().map_or("", |gpu| gpu.name.as_str());
    let known = words(&format!("{} {} {gpu}", profile.title, profile.soc));
    names.any(has_name) || words(device).iter().any(|word| known.contains(word))
}

/// The format of the runs at `path`: as given, or as the path looks.
fn format(path: &Path, runs: &Runs) -> RunFormat {
    let is_data_set = runs.device_column.is_some() || (path.is_dir() && !runs::file_of(path).is_file());
    runs.format.unwrap_or(if is_data_set { RunFormat::MobileMlBenchmark } else { RunFormat::Coexec })
}

/// The runs on the processors of `profile`; says on standard error how many rows
/// cannot be used, and why.
pub(crate) fn measured(
    profile: &Profile,
    path: &Path,
    runs: &Runs,
    common: &Common,
) -> Result<Measured, Failure> {
    match format(path, runs) {
        RunFormat::MobileMlBenchmark => benchmark(profile, path, device_column(runs)?, common),
        RunFormat::Coexec => own(profile, path, common),
    }
}

/// The CPU runs of `device` in a folder of the mobile-ml-benchmark data set, if it
/// has a table of them.
fn benchmark_cpu(folder: &Path, device: &str) -> Result<Option<CpuTable>, Failure> {
    let there = benchmark_cpu::is_in(folder);
    Ok(there.then(|| benchmark_cpu::read(folder, device)).transpose()?)
}

/// The device whose columns are read.
fn device_column(runs: &Runs) -> Result<&str, Failure> {
    runs.device_column.as_deref().ok_or_else(|| {
        Failure::usage(
            "runs in the format mobile-ml-benchmark are of several devices, and none is named",
            "name one with --device-column, such as pixel4; or give --format coexec",
        )
    })
}

/// The devices that a folder of the mobile-ml-benchmark data set has columns of.
pub(crate) fn device_columns(folder: &Path) -> Result<Vec<String>, Failure> {
    Ok(benchmark_gpu::devices(folder)?)
}

/// The runs of `device` in a folder of the mobile-ml-benchmark data set.
pub(crate) fn benchmark(
    profile: &Profile,
    folder: &Path,
    device: &str,
    common: &Common,
) -> Result<Measured, Failure> {
    let cpu = benchmark_cpu(folder, device)?;
    if let Some(table) = &cpu
        && !common.quiet
    {
        eprintln!("{}: {} CPU runs of {device}", folder.display(), table.runs.len());
        name_left_out("not used", &table.left_out);
    }
    let gpu = match &profile.gpu {
        None if cpu.is_some() => None,
        _ => gpu_of(profile).and_then(|_| benchmark_gpu(folder, device, common)).map(Some)?,
    };
    let inferences = if gpu.is_some() { inferences(folder, device)? } else { None };
    let data = Some("mobile-ml-benchmark");
    let digest = digest::of_tables(gpu.as_ref(), inferences.as_ref(), cpu.as_ref());
    Ok(Measured { gpu, inferences, cpu, data, device: device.to_owned(), digest, ..Measured::default() })
}

/// The whole networks on the GPU of `device`; none where the data set has no such
/// times of it.
pub(crate) fn inferences(folder: &Path, device: &str) -> Result<Option<GpuNetworkTable>, Failure> {
    if !benchmark_cpu::is_in(folder) {
        return Ok(None);
    }
    match benchmark_gpu_network::read(folder, device) {
        Ok(table) => Ok(Some(table)),
        Err(InputError::Option { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The GPU runs of `device` in a folder of the mobile-ml-benchmark data set.
fn benchmark_gpu(folder: &Path, device: &str, common: &Common) -> Result<GpuTable, Failure> {
    let table = benchmark_gpu::read(folder, device)?;
    if table.runs.is_empty() {
        return Err(none_usable(folder, &format!("GPU run of {device}"), &table.left_out));
    }
    if !common.quiet {
        eprintln!("{}: {} GPU runs of {device}", folder.display(), table.runs.len());
        name_left_out("not used", &table.left_out);
    }
    Ok(table)
}

/// The runs in a file of coexec's own.
pub(crate) fn own(profile: &Profile, path: &Path, common: &Common) -> Result<Measured, Failure> {
    let table = runs::read(path)?;
    let sorted = table.by_processor();
    let mut measured = Measured { left_out: table.left_out, ..Measured::default() };
    measured.left_out.extend(sorted.left_out);
    measured.host_timed = sorted.host_timed;
    if !sorted.gpu.is_empty() {
        gpu_of(profile)?;
        measured.gpu = Some(GpuTable { runs: sorted.gpu, left_out: Vec::new() });
    }
    if !sorted.gpu_networks.is_empty() {
        gpu_of(profile)?;
        let networks = sorted.gpu_networks;
        measured.inferences = Some(GpuNetworkTable { networks, left_out: Vec::new() });
    }
    if !sorted.cpu.is_empty() {
        let (runs, networks) = (sorted.cpu, sorted.networks);
        measured.cpu = Some(CpuTable { runs, networks, left_out: Vec::new() });
    }
    if measured.count() == 0 {
        return Err(none_usable(path, "run on a GPU or CPU cores", &measured.left_out));
    }
    let mut devices: Vec<&str> =
        table.fingerprints.iter().map(|fingerprint| fingerprint.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    measured.device = if devices.is_empty() { "an unnamed device".to_owned() } else { devices.join(", ") };
    measured.fingerprints = table.fingerprints;
    measured.digest = digest::of_measurements(&table.measurements);
    measured.measurements = table.measurements;
    if !common.quiet {
        eprintln!("{}: {}", path.display(), measured.source());
        if sorted.outliers > 0 {
            eprintln!("not used: {} repetitions that are marked as outliers", sorted.outliers);
        }
        name_left_out("not used", &measured.left_out);
    }
    Ok(measured)
}

/// The failure of a file without a usable row; its first row says why.
fn none_usable(path: &Path, what: &str, left_out: &[SkippedRow]) -> Failure {
    Failure::usage(
        format!("{} holds no usable {what}", path.display()),
        match left_out.first() {
            Some(row) => format!("line {}: {}", row.line, row.reason),
            None => "give runs that have rows".to_owned(),
        },
    )
}

/// Names the first rows that are left out, and counts the others.
pub(crate) fn name_left_out(what: &str, rows: &[SkippedRow]) {
    for row in rows.iter().take(MOST_NAMED) {
        eprintln!("{what}: line {}: {}", row.line, row.reason);
    }
    if rows.len() > MOST_NAMED {
        eprintln!("{what}: {} rows more (--json lists them)", rows.len() - MOST_NAMED);
    }
}

/// The GPU of a profile that is to be compared with runs.
fn gpu_of(profile: &Profile) -> Result<&Gpu, Failure> {
    profile.gpu.as_ref().ok_or_else(|| {
        Failure::usage(
            format!("the profile {} has no [gpu] table", profile.name),
            "use a profile with a GPU (`coexec devices`)",
        )
    })
}
