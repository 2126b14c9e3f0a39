//! Importer of whole networks timed by LiteRT's own tools: the text that TFLite's `benchmark_model` prints, or the JSON
//! that `litert-benchmark --result_json` writes, beside the models.
//!
//! Responsible for: which model ran on what, and how long an inference took. Not for: how a model is imported
//! (`coexec-import`), or which kernels ran: both tools use XNNPACK on the CPU unless told otherwise. Invariant: a result that
//! cannot be used is handed back with its file and the reason.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::{ByProcessor, OnCores, Run, SkippedRow};
use coexec_import::{ImportOptions, ImportedScenario};
use coexec_sim::workload::fuse;
use coexec_sim::{CoreSet, Cpu, InputError, Layer, Text};

/// Microseconds of a millisecond.
const MICROS_PER_MILLI: f64 = 1e3;
/// Threads of `benchmark_model` where it prints none.
const DEFAULT_THREADS: u32 = 1;

/// Who wrote the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `benchmark_model`: text, `NAME.txt` or `NAME.log`.
    BenchmarkModel,
    /// `litert-benchmark`: `NAME.json`.
    LitertBenchmark,
}

/// What a tool measured of one model.
#[derive(Clone, Debug, PartialEq)]
struct Measured {
    /// Path of the model where it was measured.
    model: String,
    on_gpu: bool,
    threads: u32,
    micros: f64,
    deviation_us: Option<f64>,
}

/// A file of `litert-benchmark --result_json`.
#[derive(Deserialize)]
struct ResultJson {
    model: String,
    accelerators: Vec<String>,
    num_threads: u32,
    latency: Latency,
}

#[derive(Deserialize)]
struct Latency {
    median_ms: f64,
    std_ms: Option<f64>,
}

/// The results of `tool` in `folder`, whose models lie there too, on a device with `cpu`: `n` threads are taken to have
/// run on its `n` fastest cores.
///
/// # Errors
/// The folder or a file in it cannot be read, or it has no results of that tool.
pub fn read(folder: &Path, tool: Tool, cpu: &Cpu) -> Result<ByProcessor, InputError> {
    let mut runs = ByProcessor::default();
    let mut networks: BTreeMap<PathBuf, Result<Arc<[Layer]>, String>> = BTreeMap::new();
    let results = results(folder, tool)?;
    if results.is_empty() {
        return Err(InputError::Option {
            option: "--runs",
            found: folder.display().to_string(),
            expected: match tool {
                Tool::BenchmarkModel => {
                    "a folder with the text of benchmark_model in NAME.txt, beside NAME.tflite"
                }
                Tool::LitertBenchmark => {
                    "a folder with NAME.json of litert-benchmark --result_json, beside NAME.tflite"
                }
            }
            .to_owned(),
        });
    }
    for (line, path) in (1..).zip(results) {
        let content = Text::read(&path)?.content;
        let measured = match tool {
            Tool::BenchmarkModel => of_text(&content),
            Tool::LitertBenchmark => of_json(&content),
        };
        let added = measured
            .and_then(|measured| add(&mut runs, (folder, &path), &measured, &mut networks, cpu, line));
        if let Err(reason) = added {
            runs.left_out.push(SkippedRow { line, reason: format!("{}: {reason}", path.display()) });
        }
    }
    Ok(runs)
}

/// The files of a tool, by name.
fn results(folder: &Path, tool: Tool) -> Result<Vec<PathBuf>, InputError> {
    let endings: &[&str] = match tool {
        Tool::BenchmarkModel => &["txt", "log"],
        Tool::LitertBenchmark => &["json"],
    };
    let unreadable = |error: std::io::Error| InputError::Unreadable {
        file: folder.display().to_string(),
        reason: error.to_string(),
    };
    let entries = std::fs::read_dir(folder).map_err(unreadable)?;
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    found.retain(|path| path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known)));
    found.sort();
    Ok(found)
}

/// Adds a measurement to the runs of its processor.
fn add(
    runs: &mut ByProcessor,
    (folder, result): (&Path, &Path),
    measured: &Measured,
    networks: &mut BTreeMap<PathBuf, Result<Arc<[Layer]>, String>>,
    cpu: &Cpu,
    line: u64,
) -> Result<(), String> {
    let Measured { model, on_gpu, threads, micros, deviation_us } = measured;
    // The model by the name that the tool was given, else by that of the result.
    let name = Path::new(model.rsplit(['/', '\\']).next().unwrap_or_default());
    let named = [folder.join(name), result.with_extension("tflite")].into_iter().find(|path| path.is_file());
    let path = named.ok_or_else(|| format!("{} is not in the folder", name.display()))?;
    let layers = networks.entry(path.clone()).or_insert_with(|| import(&path)).clone()?;
    let network = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let (measured_us, deviation_us) = (*micros, *deviation_us);
    if *on_gpu {
        runs.gpu_networks.push(Run { network, what: layers.to_vec(), measured_us, deviation_us, line });
        return Ok(());
    }
    let cores =
        CoreSet::fastest(cpu, *threads).ok_or_else(|| format!("the profile has no {threads} cores"))?;
    let data_type = layers.first().map(|layer| layer.data_type).ok_or("the model has no operators")?;
    let what = OnCores { core_set: cores.to_string(), data_type, layers };
    runs.cpu.push(Run { network, what, measured_us, deviation_us, line });
    Ok(())
}

fn import(path: &Path) -> Result<Arc<[Layer]>, String> {
    let imported =
        ImportedScenario::load(path, &ImportOptions::default()).map_err(|error| error.to_string())?;
    Ok(fuse(&imported.model.graph).into_iter().map(|stage| stage.layer).collect())
}

/// Reads what `litert-benchmark` wrote.
fn of_json(content: &str) -> Result<Measured, String> {
    let ResultJson { model, accelerators, num_threads, latency } = serde_json::from_str(content)
        .map_err(|error| format!("is no result of litert-benchmark: {error}"))?;
    Ok(Measured {
        model,
        on_gpu: accelerators.iter().any(|name| name.eq_ignore_ascii_case("gpu")),
        threads: num_threads,
        micros: latency.median_ms * MICROS_PER_MILLI,
        deviation_us: latency.std_ms.map(|millis| millis * MICROS_PER_MILLI),
    })
}

/// Reads what `benchmark_model` printed: the mean of the timed inferences.
fn of_text(content: &str) -> Result<Measured, String> {
    let option = |name: &str| {
        let value = |line: &str| {
            let rest = line.trim().strip_prefix("INFO: ").unwrap_or(line.trim()).strip_prefix(name)?;
            let (value, _) = rest.trim_start().strip_prefix(": [")?.split_once(']')?;
            Some(value.trim().to_owned())
        };
        content.lines().rev().find_map(value)
    };
    let number = |text: &str| {
        let end =
            text.find(|letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | 'e' | '+' | '-')));
        text[..end.unwrap_or(text.len())].parse::<f64>().ok()
    };
    let behind =
        |key: &str| content.lines().rev().find_map(|line| number(line.rsplit_once(key)?.1.trim_start()));
    let model =
        option("Graph").ok_or("no line says `Graph: [..]`: is it the whole output of benchmark_model?")?;
    let mean = behind("Inference (avg):").or_else(|| behind("no stats:"));
    let micros = mean.ok_or("no line says `Inference (avg): ..`")?;
    Ok(Measured {
        model,
        on_gpu: option("Use gpu").is_some_and(|on| matches!(on.as_str(), "1" | "true")),
        threads: option("Num threads")
            .and_then(|threads| threads.parse().ok())
            .filter(|&n| n > 0)
            .unwrap_or(DEFAULT_THREADS),
        micros,
        deviation_us: behind("std="),
    })
}
