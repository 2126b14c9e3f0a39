//! The results of LiteRT's tools: the text of TFLite's `benchmark_model`, with its table of operators
//! in the text or in a CSV file, and the JSON of `litert-benchmark --result_json`.

use serde::Deserialize;

use super::{OfNode, ToolResult};
use coexec_sim::units::MICROS_PER_MILLI;

/// Threads of `benchmark_model` where it prints none, or -1: the default of TFLite's
/// `CpuBackendContext`.
const DEFAULT_THREADS: u32 = 1;

/// A file of `litert-benchmark --result_json`.
#[derive(Deserialize)]
struct ResultJson {
    model: String,
    accelerators: Vec<String>,
    fully_accelerated: Option<bool>,
    /// Whether the time lasts until the results of the GPU can be read. `litert-benchmark` 2.3 does not
    /// write it and stops its clock as soon as the work is submitted; `data/litert-h100/time_gpu.py` waits.
    results_awaited: Option<bool>,
    num_threads: u32,
    latency: Latency,
}

#[derive(Deserialize)]
struct Latency {
    median_ms: f64,
    std_ms: Option<f64>,
}

/// Reads a result of `litert-benchmark`.
pub(super) fn of_json(content: &str) -> Result<ToolResult, String> {
    let ResultJson { model, accelerators, fully_accelerated, results_awaited, num_threads, latency } =
        serde_json::from_str(content)
            .map_err(|error| format!("is not a result of litert-benchmark: {error}"))?;
    let is = |name: &String, unit: &str| name.eq_ignore_ascii_case(unit);
    if let Some(other) = accelerators.iter().find(|name| !is(name, "cpu") && !is(name, "gpu")) {
        return Err(on_another_unit(other));
    }
    let on_gpu = accelerators.iter().any(|name| is(name, "gpu"));
    if on_gpu && fully_accelerated == Some(false) {
        return Err("ran partly on the CPU: LiteRT's GPU accelerator does not support every operator of it"
            .to_owned());
    }
    if on_gpu && results_awaited != Some(true) {
        return Err(
            "does not include the GPU's work: litert-benchmark stops its clock at submission. Time it with \
             benchmark_model, or as data/litert-h100/time_gpu.py does"
                .to_owned(),
        );
    }
    Ok(ToolResult {
        model: Some(model),
        on_gpu,
        threads: num_threads,
        micros: latency.median_ms * MICROS_PER_MILLI,
        deviation_us: latency.std_ms.map(|millis| millis * MICROS_PER_MILLI),
        ..ToolResult::default()
    })
}

/// Reason that a run on another processor than CPU or GPU is unusable.
fn on_another_unit(unit: &str) -> String {
    format!("ran on {unit}: only results of CPU and GPU are read from LiteRT's tools")
}

/// Options of `benchmark_model` for delegates to other processors, with the delegate's name.
const OTHER_DELEGATES: [(&str, &str); 3] =
    [("Use NNAPI", "NNAPI"), ("Use Hexagon", "Hexagon"), ("Use CoreML", "CoreML")];

/// Reads the output of `benchmark_model`: the mean time of the inferences, and of their operators.
/// `table` is the table of operators, if it was written to a file (`--op_profiling_output_file`).
pub(super) fn of_text(content: &str, table: Option<&str>) -> Result<ToolResult, String> {
    if content.matches("Graph: [").count() > 1 {
        return Err(
            "has the outputs of several runs of benchmark_model: put each into a file of its own".to_owned()
        );
    }
    let option = |name: &str| {
        let value = |line: &str| {
            let rest = line.trim().strip_prefix("INFO: ").unwrap_or(line.trim()).strip_prefix(name)?;
            let (value, _) = rest.trim_start().strip_prefix(": [")?.split_once(']')?;
            Some(value.trim().to_owned())
        };
        content.lines().rev().find_map(value)
    };
    let is_set = |name| option(name).map(|value| matches!(value.as_str(), "1" | "true"));
    if let Some((_, delegate)) = OTHER_DELEGATES.iter().find(|(option, _)| is_set(option) == Some(true)) {
        return Err(on_another_unit(delegate));
    }
    if let Some(path) = option("External delegate path").filter(|path| !path.is_empty()) {
        return Err(on_another_unit(&path));
    }
    let on_gpu = is_set("Use gpu").unwrap_or(false);
    if on_gpu {
        check_gpu(content, is_set("Allow lower precision in gpu"))?;
    }
    let after = |key: &str| {
        let of_key =
            |(count, line): (u64, &str)| Some((count, number(line.rsplit_once(key)?.1.trim_start())?));
        (1..).zip(content.lines()).filter_map(of_key).last()
    };
    let model =
        option("Graph").ok_or("no line has `Graph: [..]`: is this the whole output of benchmark_model?")?;
    let mean = after("Inference (avg):").or_else(|| after("no stats:"));
    let (line, micros) = mean.ok_or("no line has `Inference (avg): ..`")?;
    let operators = match table {
        Some(table) => operators(table, b',', ["avg_ms", "name"]),
        None => operators(content, b'\t', ["[avg ms]", "[Name]"]),
    };
    // XNNPACK's delegate names kernels, not the model's tensors.
    let are_named = operators.is_empty() || is_set("Use xnnpack") == Some(false);
    Ok(ToolResult {
        line,
        model: Some(model),
        on_gpu,
        threads: option("Num threads")
            .and_then(|threads| threads.parse().ok())
            .filter(|&n| n > 0)
            .unwrap_or(DEFAULT_THREADS),
        micros,
        deviation_us: after("std=").map(|(_, deviation)| deviation),
        unnamed: (!are_named).then(|| {
            "times of operators under XNNPACK do not name the operator: measure with --use_xnnpack=false, read with \
             --library ruy"
                .to_owned()
        }),
        operators: if are_named { operators } else { Vec::new() },
        ..ToolResult::default()
    })
}

/// The number at the start of a text.
fn number(text: &str) -> Option<f64> {
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || matches!(letter, '.' | 'e' | '+' | '-')));
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// Fails if a run on the GPU was not as predicted: of the whole model there, in 16 bits.
fn check_gpu(content: &str, may_be_in_16_bits: Option<bool>) -> Result<(), String> {
    if let Some(line) = content.lines().find(|line| is_of_partial_delegation(line)) {
        return Err(format!("ran partly or wholly on the CPU: {}", line.trim()));
    }
    if may_be_in_16_bits == Some(false) {
        return Err("computed in 32 bits on the GPU, which is predicted in 16 bits: measure without \
             --gpu_precision_loss_allowed=false"
            .to_owned());
    }
    Ok(())
}

/// Whether a line of `benchmark_model` or of TFLite's runtime says that the GPU does not execute the whole model.
fn is_of_partial_delegation(line: &str) -> bool {
    let replaced = line.split_once("Replacing ").and_then(|(_, nodes)| nodes.split_once(" node(s)"));
    let (nodes, delegate) = replaced.unwrap_or_default();
    let (some, all) = nodes.split_once(" out of ").unwrap_or_default();
    let says = |text: &str| line.contains("GPU delegate") && line.contains(text);
    (some != all && delegate.contains("TfLiteGpuDelegate"))
        || says("partially executed")
        || says("will not be executed")
        || line.contains("GPU acceleration is unsupported")
}

/// The operators in the first table with these column titles, in the order of the run.
fn operators(content: &str, delimiter: u8, titles: [&str; 2]) -> Vec<OfNode> {
    let lines = content.lines().skip_while(|line| !titles.iter().all(|title| line.contains(title)));
    let table: Vec<&str> = lines.take_while(|line| !line.trim().is_empty()).collect();
    let table = table.join("\n");
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(table.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let column = |title: &str| header.iter().position(|known| known == title);
    let [Some(time), Some(name)] = titles.map(column) else { return Vec::new() };
    let operator = |row: csv::StringRecord| {
        // `[tensor]:3` is the first result of the model's operator 3.
        let (tensors, _) = row.get(name)?.rsplit_once(':')?;
        let tensor = tensors.trim_start_matches('[').trim_end_matches(']').split(", ").next()?;
        let millis: f64 = row.get(time)?.parse().ok()?;
        Some(OfNode {
            node: tensor.to_owned(),
            elements: None,
            multiplies: false,
            micros: millis * MICROS_PER_MILLI,
        })
    };
    reader.into_records().filter_map(|row| operator(row.ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as TensorFlow's `StatsCalculator` formats them.
    const TABLE: &str = "Use xnnpack: [0]\nGraph: [a/tiny.tflite]\n============================== Run Order ==============================\n\
        \t             [node type]\t  [first]\t [avg ms]\t     [%]\t  [cdf%]\t  [mem KB]\t[times called]\t[Name]\n\
        \t                 CONV_2D\t    0.031\t    0.025\t 62.500%\t 62.500%\t     0.000\t        1\t[conv/Relu, second]:0\n\
        \t         AVERAGE_POOL_2D\t    0.017\t    0.015\t 37.500%\t100.000%\t     0.000\t        1\t[pool]:1\n\n\
        ============================== Top by Computation Time ==============================\n\
        \t             [node type]\t  [first]\t [avg ms]\t     [%]\t  [cdf%]\t  [mem KB]\t[times called]\t[Name]\n\
        \t                 CONV_2D\t    0.031\t    0.025\t 62.500%\t 62.500%\t     0.000\t        1\t[conv/Relu]:0\n\n\
        Inference timings in us: Init: 855, First inference: 900, Warmup (avg): 48.1, Inference (avg): 42.5\n";

    #[test]
    fn operators_are_read_once_with_their_tensor_and_mean_from_text_and_from_csv() {
        let measured = of_text(TABLE, None).unwrap();
        let of = |node: &str, micros: f64| OfNode {
            node: node.to_owned(),
            elements: None,
            multiplies: false,
            micros,
        };
        assert_eq!(measured.operators, [of("conv/Relu", 25.0), of("pool", 15.0)]);
        let table = "node type, first, avg_ms, %, cdf%, mem KB, times called, name\nCONV_2D, 0.03, 0.02, 100%, 100%, 0, 1, [conv]:0\n";
        assert_eq!(of_text(TABLE, Some(table)).unwrap().operators, [of("conv", 20.0)]);
    }

    #[test]
    fn runs_on_other_processors_are_not_treated_as_cpu_runs() {
        for line in
            ["Use NNAPI: [1]", "Use Hexagon: [true]", "External delegate path: [libQnnTFLiteDelegate.so]"]
        {
            let error = of_text(&format!("INFO: {line}\n{TABLE}"), None).err().unwrap();
            assert!(error.contains("ran on"), "{error}");
        }
        assert!(of_text(&format!("Use NNAPI: [0]\nExternal delegate path: []\n{TABLE}"), None).is_ok());
        let result = |unit: &str| {
            let content = r#"{ "model": "a.tflite", "accelerators": ["UNIT"], "num_threads": 1, "latency": { "median_ms": 1 } }"#;
            of_json(&content.replace("UNIT", unit))
        };
        assert!(result("cpu").is_ok_and(|measured| !measured.on_gpu));
        assert!(result("npu").err().unwrap().contains("ran on npu"));
    }

    #[test]
    fn gpu_times_that_end_at_submission_or_are_partly_of_the_cpu_are_refused() {
        let content = include_str!("../../../../data/litert-h100/hand_recrop-gpu.json");
        assert!(of_json(content).unwrap().on_gpu);
        let submitted = content.replace("  \"results_awaited\": true,\n", "");
        assert!(of_json(&submitted).unwrap_err().contains("at submission"));
        let partly = include_str!("../../../../data/litert-h100/pose_detection-gpu.json");
        assert!(of_json(partly).unwrap_err().contains("partly on the CPU"));
    }

    #[test]
    fn runs_of_benchmark_model_partly_on_the_gpu_or_in_32_bits_are_refused() {
        let on_gpu = |line: &str| of_text(&format!("INFO: Use gpu: [1]\n{line}\n{TABLE}"), None);
        for line in [
            "INFO: Explicitly applied GPU delegate, and the model graph will be partially executed by the delegate w/ 2 \
             delegate kernels.",
            "Applied GPU delegate, and the model graph will be partially executed w/ the delegate.",
            "INFO: Though GPU delegate is explicitly applied, the model graph will not be executed by the delegate.",
            "VERBOSE: Replacing 25 out of 30 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 3 partitions for \
             the whole graph.",
            "GPU acceleration is unsupported on this platform.",
        ] {
            let error = on_gpu(line).unwrap_err();
            assert!(error.contains("on the CPU") && error.contains(line), "{error}");
            assert!(of_text(&format!("Use gpu: [0]\n{line}\n{TABLE}"), None).is_ok(), "{line}");
        }
        for line in [
            "INFO: Explicitly applied GPU delegate, and the model graph will be completely executed by the delegate.",
            "INFO: Though NNAPI delegate is explicitly applied, the model graph will not be executed by the delegate.",
            "VERBOSE: Replacing 49 out of 49 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 1 partitions.",
            "INFO: Replacing 119 node(s) with delegate (TfLiteGpuDelegateV2) node, yielding 1 partitions.",
            "INFO: Allow lower precision in gpu: [1]",
        ] {
            assert!(on_gpu(line).unwrap().on_gpu, "{line}");
        }
        for line in ["INFO: Allow lower precision in gpu: [0]", "Allow lower precision in gpu : [0]"] {
            assert!(on_gpu(line).unwrap_err().contains("32 bits"), "{line}");
        }
    }

    #[test]
    fn two_outputs_in_one_file_are_refused_and_threads_left_to_tflite_are_one() {
        assert!(of_text(&TABLE.repeat(2), None).unwrap_err().contains("a file of its own"));
        let threads =
            |count: &str| of_text(&format!("Num threads: [{count}]\n{TABLE}"), None).unwrap().threads;
        assert_eq!([threads("-1"), threads("4")], [1, 4]);
    }

    #[test]
    fn delegate_operators_are_not_matched_with_the_models() {
        let measured = of_text(&TABLE.replace("Use xnnpack: [0]\n", ""), None).unwrap();
        assert!(measured.operators.is_empty());
        assert!(measured.unnamed.unwrap().contains("--use_xnnpack=false"));
    }
}
