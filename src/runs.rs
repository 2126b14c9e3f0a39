//! Measured runs, read from the files that a user names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use coexec_fit::measure::tools::{self, Tool};
use coexec_fit::measure::{
    ByProcessor, Runs as Table, SkippedRow, ai_hub, ai_hub_llm, benchmark_cpu, benchmark_gpu,
    benchmark_gpu_network, digest, draw, llama_bench, runs,
};
use coexec_sim::{InputError, Library, Profile};

use crate::output::listed;
use crate::{Common, Failure, Result, RunFormat, Runs};

/// Most unused rows that are listed one by one on standard error.
const MAX_LISTED_ROWS: usize = 5;

/// Measured runs of at least one of a profile's processors.
#[derive(Debug, Default)]
pub(crate) struct DeviceRuns {
    /// The usable runs, and the rows that cannot be used.
    pub(crate) runs: ByProcessor,
    /// All measurements, if they are coexec's own.
    pub(crate) measurements: Vec<runs::Measurement>,
    /// Name of the data set or tool; none for coexec's own runs.
    data: Option<&'static str>,
    /// Where runs of other devices may be too.
    pub(crate) path: Option<PathBuf>,
    /// Name or description of the device.
    pub(crate) device: String,
    /// How the runs were drawn from all of them, if they were.
    pub(crate) drawn: Option<String>,
    /// Conditions of the runs of `run` and `probe`.
    pub(crate) fingerprints: Vec<runs::Fingerprint>,
    /// Digest of the runs; a profile with the same digest was fitted to them.
    pub(crate) digest: String,
}

/// The CPU kernels that the runs were made with; of coexec's own runs, those that `explore` plans with.
pub(crate) fn library(profile: &Profile, options: &Runs) -> Library {
    let usual = match options.path.as_deref().map(|path| format(path, options)) {
        Some(RunFormat::MobileMlBenchmark | RunFormat::AiHub | RunFormat::AiHubLlm) => {
            Library::of_runs(&profile.cpu)
        }
        Some(RunFormat::Coexec) | None => Library::default_for(&profile.cpu),
        Some(
            RunFormat::Ncnn
            | RunFormat::LlamaBench
            | RunFormat::BenchmarkModel
            | RunFormat::LitertBenchmark
            | RunFormat::OnnxRuntime,
        ) => Library::Xnnpack,
    };
    options.library.unwrap_or(usual)
}

impl DeviceRuns {
    /// The runs of a device in a named data set.
    fn of(data: &'static str, device: &str, runs: ByProcessor) -> Self {
        let digest = digest::of_runs(&runs);
        Self { runs, data: Some(data), device: device.to_owned(), digest, ..Self::default() }
    }

    /// Description of the runs, such as `mobile-ml-benchmark, 82 runs of pixel4`.
    pub(crate) fn source(&self) -> String {
        let data = self.data.map_or(String::new(), |data| format!("{data}, "));
        let drawn = self.drawn.as_ref().map_or(String::new(), |drawn| format!(", {drawn}"));
        format!("{data}{} runs of {}{drawn}", self.runs.count(), self.device)
    }

    /// Whether the profile was fitted to these runs, or to a draw of them.
    pub(crate) fn set(&self, profile: &Profile) -> bool {
        let digest = profile.calibration.as_ref().and_then(|calibration| calibration.runs_digest.as_ref());
        digest == Some(&self.digest)
    }

    /// The first device of these runs whose description does not resemble the profile's names.
    pub(crate) fn other_devices(&self, profile: &Profile) -> Option<String> {
        let devices: Vec<&str> = match self.fingerprints.as_slice() {
            [] if self.data.is_some() => vec![self.device.as_str()],
            fingerprints => fingerprints.iter().map(|fingerprint| fingerprint.device.as_str()).collect(),
        };
        devices.into_iter().find(|device| !is_like(device, profile)).map(str::to_owned)
    }

    /// Device, driver, affinity, clocks, date and version of coexec's own runs, one line per
    /// fingerprint.
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

    /// Keeps `count` layer runs on the GPU, drawn at random, and removes the GPU's runs of whole
    /// networks. Returns the number kept.
    pub(crate) fn draw_rows(&mut self, count: usize, seed: u64) -> usize {
        let ByProcessor { gpu, gpu_networks, .. } = &mut self.runs;
        if !gpu.is_empty() {
            *gpu = draw::rows(gpu, count, seed);
            gpu_networks.clear();
            self.drawn = Some(format!("{} of the GPU drawn with seed {seed}", gpu.len()));
        }
        gpu.len()
    }

    /// Keeps the runs of `count` networks, drawn at random. Returns the number of networks kept.
    pub(crate) fn draw_networks(&mut self, count: usize, seed: u64) -> usize {
        let ByProcessor { gpu, gpu_networks, cpu, inferences, .. } = &mut self.runs;
        let names = gpu.iter().map(|run| run.network.as_str());
        let names = names.chain(gpu_networks.iter().map(|run| run.network.as_str()));
        let names = names.chain(cpu.iter().map(|run| run.network.as_str()));
        let names = names.chain(inferences.iter().map(|run| run.network.as_str()));
        let kept: BTreeSet<String> =
            draw::networks(names, count, seed).into_iter().map(str::to_owned).collect();
        self.drawn = Some(format!("of {} networks drawn with seed {seed}", kept.len()));
        gpu.retain(|run| kept.contains(&run.network));
        gpu_networks.retain(|run| kept.contains(&run.network));
        cpu.retain(|run| kept.contains(&run.network));
        inferences.retain(|run| kept.contains(&run.network));
        kept.len()
    }
}

/// Words of a device's description that do not identify it.
const COMMON_WORDS: &str = "compute core cores device language opencl phone portable processor units with";

/// Whether a device's description contains a name of the profile, or a word of its title, SoC or GPU.
fn is_like(device: &str, profile: &Profile) -> bool {
    let plain = |text: &str| -> String {
        text.to_lowercase().chars().filter(|character| character.is_alphanumeric()).collect()
    };
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|character: char| !character.is_alphanumeric()).map(str::to_lowercase);
        let is_common = |word: &String| COMMON_WORDS.split(' ').any(|common| common == word);
        words.filter(|word| word.len() > 3 && !is_common(word)).collect()
    };
    let mut names = profile.aliases.iter().chain([&profile.name, &profile.soc]).map(|name| plain(name));
    let plain_device = plain(device);
    let has_name = |name: String| plain_device.contains(&name) || name.contains(&plain_device);
    let gpu = profile.gpu.as_ref().map_or("", |gpu| gpu.name.as_str());
    let known = words(&format!("{} {} {gpu}", profile.title, profile.soc));
    names.any(has_name) || words(device).iter().any(|word| known.contains(word))
}

/// The format of the runs at `path`: as given, or detected from the path.
fn format(path: &Path, runs: &Runs) -> RunFormat {
    let is_data_set = match runs.device_column {
        Some(_) => !path.is_file(),
        None => path.is_dir() && !runs::file_of(path).is_file(),
    };
    runs.format.unwrap_or(match is_data_set {
        true if ai_hub::is_in(path) => RunFormat::AiHub,
        true => RunFormat::MobileMlBenchmark,
        false => RunFormat::Coexec,
    })
}

/// Fails for a folder without any file by which a format is recognised.
fn check_recognised(path: &Path) -> Result {
    if !path.is_dir() || benchmark_cpu::is_in(path) || benchmark_gpu::is_in(path) {
        return Ok(());
    }
    Err(Failure::usage(
        format!(
            "{} has none of the files by which a format is recognised: runs.csv (coexec), measurements.csv (ai-hub), \
             tflite_cnn_ops_gpu.csv (mobile-ml-benchmark)",
            path.display()
        ),
        "name the format with --format, such as benchmark-model for files .tflite with what benchmark_model printed",
    ))
}

/// The path of the runs, or a failure if none is given.
pub(crate) fn path(runs: &Runs) -> Result<&Path> {
    let none = || Failure::usage("no runs are given", "name a file or a folder with --runs PATH");
    runs.path.as_deref().ok_or_else(none)
}

/// Reads the runs on the processors of `profile`; reports on standard error how many rows cannot be
/// used, and why.
pub(crate) fn measured(
    profile: &Profile,
    path: &Path,
    options: &Runs,
    common: &Common,
) -> Result<DeviceRuns> {
    const LANGUAGE_MODEL_TIMES: &str = "times of language models";
    let answers = |Table { runs, left_out }: Table<ai_hub_llm::OfLanguageModel>| ByProcessor {
        answers: runs,
        left_out,
        ..ByProcessor::default()
    };
    let own_name = profile.name.as_str();
    let of_tool = |data, tool| -> Result<_, InputError> {
        Ok((data, "inferences and operators", own_name, tools::read(path, tool, &profile.cpu)?))
    };
    let format = format(path, options);
    if !matches!(format, RunFormat::MobileMlBenchmark | RunFormat::AiHub | RunFormat::AiHubLlm) {
        let given = [("--device-column", options.device_column.is_some())];
        let what = "for runs of several devices (mobile-ml-benchmark, ai-hub, ai-hub-llm), and these runs are of one";
        Failure::refuse_given(&given, what, "leave it out, or name another --format")?;
    }
    if options.format.is_none() && format == RunFormat::MobileMlBenchmark {
        check_recognised(path)?;
    }
    let (data, what, device, mut runs) = match format {
        RunFormat::MobileMlBenchmark => return benchmark(profile, path, device_column(options)?, common),
        RunFormat::Coexec => return own(profile, path, common),
        RunFormat::AiHub => {
            let chip = device_column(options)?;
            let Table { runs, left_out } = ai_hub::read(path, chip)?;
            let runs = ByProcessor { inferences: runs, left_out, ..ByProcessor::default() };
            ("ai-hub", "inferences", chip, runs)
        }
        RunFormat::AiHubLlm => {
            let chip = device_column(options)?;
            ("ai-hub-llm", LANGUAGE_MODEL_TIMES, chip, answers(ai_hub_llm::read(path, chip)?))
        }
        RunFormat::LlamaBench => {
            ("llama-bench", LANGUAGE_MODEL_TIMES, own_name, answers(llama_bench::read(path, profile)?))
        }
        RunFormat::BenchmarkModel => of_tool("LiteRT", Tool::BenchmarkModel)?,
        RunFormat::LitertBenchmark => of_tool("LiteRT", Tool::LitertBenchmark)?,
        RunFormat::OnnxRuntime => of_tool("ONNX Runtime", Tool::OnnxRuntime)?,
        RunFormat::Ncnn => of_tool("ncnn", Tool::Ncnn)?,
    };
    leave_out_missing_gpu(profile, &mut runs);
    if runs.count() == 0 {
        return Err(none_usable(path, &format!("{what} on {device}"), &runs.left_out));
    }
    common.note(format_args!("{}: {} {what} on {device}", path.display(), runs.count()));
    for (reason, count) in reasons(&runs.left_out) {
        let first = runs.left_out.iter().find(|row| row.reason == reason).map_or(0, |row| row.line);
        let rows = if count == 1 { "row" } else { "rows" };
        common.note(format_args!("not used: {count} {rows}: {reason} (first on line {first})"));
    }
    Ok(DeviceRuns { path: Some(path.to_owned()), ..DeviceRuns::of(data, device, runs) })
}

/// The number of unused rows for each reason.
pub(crate) fn reasons(left_out: &[SkippedRow]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for row in left_out {
        *counts.entry(row.reason.as_str()).or_default() += 1;
    }
    counts
}

/// The device to read, or a failure if none is named.
fn device_column(runs: &Runs) -> Result<&str> {
    runs.device_column.as_deref().ok_or_else(|| {
        Failure::usage(
            "runs in this format are of several devices, and none is named",
            "name one with --device-column, such as pixel4 for mobile-ml-benchmark or 8gen3 for ai-hub; or give \
             --format coexec",
        )
    })
}

/// The runs of `device` in a folder of the mobile-ml-benchmark data set.
pub(crate) fn benchmark(
    profile: &Profile,
    folder: &Path,
    device: &str,
    common: &Common,
) -> Result<DeviceRuns> {
    let note_runs = |processor: &str, count: usize, left_out: &[SkippedRow]| {
        common.note(format_args!("{}: {count} {processor} runs of {device}", folder.display()));
        list_skipped("not used", left_out, common);
    };
    let (mut runs, mut left_out_on_cpu) = (ByProcessor::default(), Vec::new());
    let has_times = benchmark_cpu::is_in(folder);
    if has_times {
        let table = benchmark_cpu::read(folder, device)?;
        note_runs("CPU", table.runs.len(), &table.left_out);
        (runs.cpu, left_out_on_cpu) = (table.runs, table.left_out);
    }
    if profile.gpu.is_some() || !has_times {
        if profile.gpu.is_none() {
            let problem =
                format!("{} has only GPU runs, and {} no [gpu] table", folder.display(), profile.name);
            return Err(Failure::usage(problem, "use a profile with a GPU (`coexec devices`)"));
        }
        let table = benchmark_gpu::read(folder, device)?;
        if table.runs.is_empty() {
            return Err(none_usable(folder, &format!("GPU run of {device}"), &table.left_out));
        }
        note_runs("GPU", table.runs.len(), &table.left_out);
        (runs.gpu, runs.left_out) = (table.runs, table.left_out);
    }
    if has_times && profile.gpu.is_some() {
        match benchmark_gpu_network::read(folder, device) {
            Ok(table) => {
                runs.gpu_networks = table.runs;
                runs.left_out.extend(table.left_out);
            }
            // The data set does not have such times for every device.
            Err(InputError::Option { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Both halves of the data set read its GPU table; the GPU's reasons come first.
    runs.left_out.extend(left_out_on_cpu);
    Ok(DeviceRuns::of("mobile-ml-benchmark", device, runs))
}

/// The runs in a file of coexec's own.
pub(crate) fn own(profile: &Profile, path: &Path, common: &Common) -> Result<DeviceRuns> {
    let table = runs::read(path)?;
    let mut runs = table.by_processor();
    leave_out_missing_gpu(profile, &mut runs);
    if runs.count() == 0 {
        return Err(none_usable(path, "run on a GPU or CPU cores", &runs.left_out));
    }
    let devices: BTreeSet<&str> =
        table.fingerprints.iter().map(|fingerprint| fingerprint.device.as_str()).collect();
    let devices = listed(devices);
    let outliers = table.outliers();
    let measured = DeviceRuns {
        runs,
        device: if devices.is_empty() { "an unnamed device".to_owned() } else { devices },
        fingerprints: table.fingerprints,
        digest: digest::of_measurements(&table.measurements),
        measurements: table.measurements,
        ..DeviceRuns::default()
    };
    common.note(format_args!("{}: {}", path.display(), measured.source()));
    if outliers > 0 {
        common.note(format_args!("not used: {outliers} repetitions that are marked as outliers"));
    }
    list_skipped("not used", &measured.runs.left_out, common);
    Ok(measured)
}

/// The failure of a file without a usable row; the help states why its first row cannot be used.
pub(crate) fn none_usable(path: &Path, what: &str, left_out: &[SkippedRow]) -> Failure {
    Failure::usage(
        format!("{} holds no usable {what}", path.display()),
        match left_out.first() {
            Some(row) => format!("line {}: {}", row.line, row.reason),
            None => "give a file that has rows on a processor of the profile".to_owned(),
        },
    )
}

/// Lists the first unused rows, and counts the others; several cells of a row may say the same.
pub(crate) fn list_skipped(what: &str, rows: &[SkippedRow], common: &Common) {
    let mut rows: Vec<&SkippedRow> = rows.iter().collect();
    rows.dedup();
    for row in rows.iter().take(MAX_LISTED_ROWS) {
        common.note(format_args!("{what}: line {}: {}", row.line, row.reason));
    }
    if rows.len() > MAX_LISTED_ROWS {
        common.note(format_args!("{what}: {} more rows (--json lists them)", rows.len() - MAX_LISTED_ROWS));
    }
}

/// Moves the runs on the GPU to the unused rows if the profile has none.
fn leave_out_missing_gpu(profile: &Profile, runs: &mut ByProcessor) {
    if profile.gpu.is_none() {
        let lines = runs.gpu.drain(..).map(|run| run.line);
        let lines = lines.chain(runs.gpu_networks.drain(..).map(|run| run.line));
        let reason = format!("the profile {} has no [gpu] table", profile.name);
        runs.left_out.extend(lines.map(|line| SkippedRow { line, reason: reason.clone() }));
    }
}

#[cfg(test)]
mod tests {
    use coexec_sim::Calibration;

    use super::*;
    use crate::report::of_data_set;

    #[test]
    fn bundled_profiles_state_the_digest_of_the_runs_that_they_were_fitted_to() {
        let quiet = Common { json: false, quiet: true, jobs: None };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data/mobile-ml-benchmark");
        let phones = of_data_set(Path::new(folder), &[], &quiet).unwrap();
        assert_eq!(phones.len(), 6);
        for (phone, runs) in phones {
            let Calibration { source, runs_digest, .. } = phone.calibration.unwrap();
            assert_eq!(runs_digest, Some(runs.digest.clone()), "{}", phone.name);
            assert!(source.contains(&runs.source()), "{source}");
        }
        for name in ["h200", "xeon-pocl"] {
            let profile = Profile::load(name).unwrap();
            let path = format!("{}/device-profiles/runs/{name}.csv", env!("CARGO_MANIFEST_DIR"));
            assert!(own(&profile, Path::new(&path), &quiet).unwrap().set(&profile), "{name}");
        }
    }
}
