//! The rows of an answer add up to its total, and its tables fit.

use serde_json::Value;

use crate::{coexec, latency_ps, words};

/// Networks, devices and strategies that cover whole inferences and operators, one processor and
/// several, and a GPU with its own memory.
const ANSWERS: [(&str, &str, &str); 9] = [
    ("vit-b32-mlp", "oneplus11", "channel-split"),
    ("mobilenet-v2", "pixel4", "gpu-only"),
    ("mobilenet-v2", "pixel4", "codl"),
    ("inception-v3", "pixel4", "optimal"),
    ("resnet18", "galaxy-s10", "layer-wise"),
    ("resnet18", "h200", "gpu-only"),
    ("vit-b32-mlp", "h200", "height-split"),
    ("vit-b32-mlp", "snapdragon-8gen3", "npu-only"),
    ("mobilenet-v2", "iphone-xs", "cpu-only"),
];

fn sum(parts: &Value) -> u64 {
    parts.as_object().unwrap().values().map(|part| part.as_u64().unwrap()).sum()
}

/// The time in a cell in microseconds, and its rounding error.
fn micros(cell: &str) -> Option<(f64, f64)> {
    let (number, unit) = cell.trim().split_once(' ')?;
    let (scale, digit) = match unit {
        "us" => (1.0, 0.1),
        "ms" => (1e3, 0.01),
        "s" => (1e6, 0.01),
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * scale, digit * scale / 2.0))
}

/// The rows of the table whose header starts with `first`, split at the columns' positions.
fn table<'a>(text: &'a str, first: &str) -> Vec<Vec<&'a str>> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with(first));
    let header = lines.next().unwrap();
    // Columns start at the same position as their names.
    let mut starts: Vec<usize> = Vec::new();
    for (place, letter) in header.char_indices() {
        if letter != ' ' && (starts.is_empty() || header[..place].ends_with("   ")) {
            starts.push(place);
        }
    }
    let cut = |line: &'a str| -> Vec<&'a str> {
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let cells = starts.iter().zip(ends).map(|(&start, end)| {
            line.get(start.min(line.len())..end.min(line.len())).unwrap_or_default().trim()
        });
        cells.collect()
    };
    [header].into_iter().chain(lines.skip(1).take_while(|line| !line.is_empty())).map(cut).collect()
}

#[test]
fn the_parts_of_a_latency_add_up_in_json() {
    for (scenario, device, strategy) in ANSWERS {
        let line = format!("explore {scenario} --device {device} --strategy {strategy} --step 32 --json");
        let document = coexec(words(&line)).json();
        let prediction = &document["prediction"];
        assert_eq!(sum(&prediction["composition"]), latency_ps(&document), "{line}");
        let stages = prediction["stages"].as_array().unwrap();
        let computing: u64 = stages.iter().map(|stage| stage["critical_ps"].as_u64().unwrap()).sum();
        assert_eq!(prediction["composition"]["computing_ps"], computing, "{line}");
        for entry in document["baselines"].as_array().unwrap() {
            assert_eq!(sum(&entry["composition"]), entry["latency_ps"].as_u64().unwrap(), "{line}");
        }
        for usage in prediction["processors"].as_array().unwrap() {
            let used = ["busy_ps", "wait_ps", "overhead_ps"].map(|key| usage[key].as_u64().unwrap());
            assert!(used.iter().sum::<u64>() <= latency_ps(&document), "{line}");
        }
    }
}

#[test]
fn the_rows_of_printed_tables_add_up() {
    for (scenario, device, strategy) in ANSWERS {
        let line = format!("{scenario} --device {device} --strategy {strategy} --step 32 -q");
        let text = coexec(words(&format!("simulate {line}"))).stdout;
        let rows = table(&text, "part ");
        check(rows[1..].iter().map(|row| row[1]), &line);
        let text = coexec(words(&format!("explore {line}"))).stdout;
        let rows = table(&text, "strategy ");
        // Strategy, latency, relative, then the parts of the latency.
        for row in &rows[1..] {
            check(row[3..].iter().copied().chain([row[1]]), &line);
        }
        if text.contains("\n operator ") {
            let rows = table(&text, "operator ");
            let takes = rows[0].iter().position(|name| *name == "takes").unwrap();
            check(rows[1..].iter().map(|row| row[takes]), &line);
        }
    }
}

/// Asserts that the last of the cells with times is the sum of the others.
fn check<'a>(cells: impl Iterator<Item = &'a str>, line: &str) {
    let times: Vec<(f64, f64)> = cells.filter_map(micros).collect();
    let Some(((total, digit), parts)) = times.split_last() else { panic!("{line}: no times") };
    let (sum, rounding) = parts.iter().fold((0.0, *digit), |(sum, off), part| (sum + part.0, off + part.1));
    assert!(!parts.is_empty() && (sum - total).abs() <= rounding + 1e-6, "{line}: {sum} is not {total}");
}

#[test]
fn a_gpu_only_inference_separates_copies_from_computing() {
    let document = coexec(words("explore mobilenet-v2 --device pixel4 --strategy gpu-only --json")).json();
    let part = |name: &str| document["prediction"]["composition"][name].as_u64().unwrap();
    assert!(part("copies_in_ps") + part("copies_out_ps") > 0);
    assert_eq!(part("joins_ps"), 0);
}

#[test]
fn tables_fit_a_hundred_columns_without_breaking_a_word() {
    for line in [
        "explore inception-v3 --device pixel4 --step 64",
        "explore vit-b32-mlp --strategy all",
        "compare vit-b32-mlp,resnet18 --devices pixel4,oneplus11 --step 64",
        "simulate mobilenet-v2 --device pixel4",
        "devices",
    ] {
        let text = coexec(words(line)).stdout;
        let ruled = text.lines().filter(|line| line.starts_with("---"));
        assert!(ruled.clone().all(|rule| rule.len() <= 100), "{line}: {text}");
        assert!(ruled.count() > 0, "{line}");
    }
    let text = coexec(words("compare vit-b32-mlp --devices pixel4 --step 64")).stdout;
    for strategy in ["flops-proportional", "channel-split", "vit-b32-mlp", "layer-wise"] {
        assert!(text.contains(strategy), "{strategy}: {text}");
    }
}

#[test]
fn names_are_found_whatever_their_case() {
    for (typed, usual) in [("ResNet18", "resnet18"), ("VIT-B32-FC1", "vit-b32-fc1")] {
        let document = coexec(words(&format!("explore {typed} --device Pixel4 --step 64 --json"))).json();
        assert_eq!(
            (document["scenario"].as_str(), document["device"].as_str()),
            (Some(usual), Some("pixel4"))
        );
    }
    assert_eq!(coexec(words("devices Snapdragon-855 --json")).json()["name"], "pixel4");
}

#[test]
fn the_advice_is_the_best_plan_that_is_known() {
    let best = coexec(words("explore mobilenet-v2 --device pixel4 --json")).json();
    let all = coexec(words("explore mobilenet-v2 --device pixel4 --strategy all --json")).json();
    let strategies = all["strategies"].as_array().unwrap();
    let least = strategies.iter().map(|entry| entry["latency_ps"].as_u64().unwrap()).min();
    assert_eq!(Some(latency_ps(&best)), least);
}

#[test]
fn an_answer_names_the_memory_it_takes_and_says_where_a_phone_has_less() {
    let document = coexec(words("simulate vgg16 --device pixel4 --strategy gpu-only --json")).json();
    let prediction = &document["prediction"];
    assert_eq!(sum(&prediction["memory"]), prediction["peak_memory_bytes"].as_u64().unwrap());
    assert_eq!(prediction["fits_memory"], true);
    let text = coexec(words("simulate vgg16 --device pixel4 --strategy gpu-only")).stdout;
    assert!(text.contains("memory: 553.43 MB weights + ") && text.contains(" of 6.00 GB"), "{text}");
    let unknown =
        coexec(words("simulate vgg16 --device moto-edge-plus-2022 --strategy gpu-only --json")).json();
    assert!(unknown["prediction"].get("fits_memory").is_none());
    let folder = tempfile::tempdir().unwrap();
    let scenario = "title = \"t\"\n[[operator]]\nname = \"a\"\n\
                    linear = { rows = 1, input_features = 40000, output_features = 40000 }\n";
    std::fs::write(folder.path().join("large.toml"), scenario).unwrap();
    let line = "simulate large.toml --device iphone7 --strategy gpu-only";
    let text = crate::coexec_in(folder.path(), words(line)).stdout;
    assert!(text.contains("more than the 2.00 GB of this device"), "{text}");
    let document = coexec(words("simulate llama2-7b --json")).json();
    assert!(document["peak_memory_bytes"].as_u64() > Some(3_000_000_000));
}
