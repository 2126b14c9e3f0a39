//! `compare`: strategies on many models and devices.

use serde_json::Value;

use crate::{coexec, coexec_in, words};

/// The cost of each strategy in each row, by name.
fn costs(row: &Value) -> Vec<(&str, f64)> {
    let outcomes = row["outcomes"].as_array().unwrap();
    outcomes
        .iter()
        .map(|outcome| (outcome["strategy"].as_str().unwrap(), outcome["cost"].as_f64().unwrap()))
        .collect()
}

#[test]
fn every_model_meets_every_device_and_optimal_is_the_best_that_any_strategy_finds() {
    let line = "compare vit-b32-mlp,resnet18 --devices pixel4,oneplus11,iphone-xs --step 32 --json";
    let document = coexec(words(line)).json();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        let costs = costs(row);
        let (_, optimal) = *costs.iter().find(|(strategy, _)| *strategy == "optimal").unwrap();
        assert!(costs.len() > 8 && costs.iter().all(|(_, cost)| optimal <= *cost), "{row}");
    }
    let gains = document["gains"].as_array().unwrap();
    let codl = gains.iter().find(|gain| gain["over"] == "codl").unwrap();
    assert_eq!(codl["rows"], 6);
    assert!(codl["mean_percent"].as_f64() >= codl["geometric_mean_percent"].as_f64());
    assert_eq!(document["devices"].as_array().unwrap().len(), 3);
    assert_eq!(document["scenarios"].as_array().unwrap().len(), 2);
}

#[test]
fn only_the_requested_strategies_are_shown_with_optimal_and_the_baseline() {
    let line = "compare vit-b32-mlp --devices pixel4 --strategies gpu-only --baseline epew --json";
    let document = coexec(words(line)).json();
    let names: Vec<&str> = costs(&document["rows"][0]).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["gpu-only", "epew", "optimal"]);
}

#[test]
fn a_bound_that_does_not_cover_the_order_of_the_plan_is_marked() {
    let line = "compare codl-posenet resnet18 --devices pixel4 --strategies channel-split";
    let document = coexec(words(&format!("{line} --json"))).json();
    let is_reordered = |row: &Value| row["is_reordered"].as_bool().unwrap();
    let rows: Vec<bool> = document["rows"].as_array().unwrap().iter().map(is_reordered).collect();
    assert_eq!(rows, [true, false], "{document}");
    let stdout = coexec(words(line)).stdout;
    assert!(
        stdout.contains(" % *\n") && stdout.contains("* the plan runs branches in another order"),
        "{stdout}"
    );
}

#[test]
fn gains_are_printed_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let line = "compare vit-b32-mlp --devices pixel4,galaxy-s10 --plot gains.svg";
    let outcome = coexec_in(folder.path(), words(line));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for expected in ["optimal over", "Gains over codl by device", "Gains over codl by model"] {
        assert!(outcome.stdout.contains(expected), "{expected}: {}", outcome.stdout);
    }
    let drawn = std::fs::read_to_string(folder.path().join("gains.svg")).unwrap();
    assert!(drawn.contains("galaxy-s10"), "{drawn}");
}

#[test]
fn a_gain_below_the_limit_is_status_2() {
    let line = "compare vit-b32-mlp --devices pixel4 --check --limit";
    assert_eq!(coexec(words(&format!("{line} 0"))).status, 0);
    let outcome = coexec(words(&format!("{line} 500")));
    assert_eq!(outcome.status, 2, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("below 500 %"), "{}", outcome.stderr);
}

#[test]
fn a_dimension_is_set_in_the_model_files_that_have_it() {
    let folder = tempfile::tempdir().unwrap();
    for (name, file) in [
        ("open.tflite", &include_bytes!("../../import/tests/inputs/open.tflite")[..]),
        ("tiny.tflite", include_bytes!("../../import/tests/inputs/tiny.tflite")),
    ] {
        std::fs::write(folder.path().join(name), file).unwrap();
    }
    let compare = |dimension: &str| {
        let given =
            "compare open.tflite,tiny.tflite,codl-yolov2 --devices pixel4 --strategies cpu-only --json --dim";
        let baseline = "--baseline cpu-only --effort quick";
        coexec_in(folder.path(), words(&format!("{given} {dimension} {baseline}")))
    };
    let outcome = compare("signal.2=64");
    assert_eq!(
        (outcome.status, outcome.json()["rows"].as_array().map(Vec::len)),
        (0, Some(3)),
        "{}",
        outcome.stderr
    );
    compare("signal.3=64").assert_refused(&["no dimension named \"signal.3\""]);
}

#[test]
fn incomparable_arguments_are_refused() {
    coexec(words("compare codl-conv --devices pixel4"))
        .assert_refused(&["is not a model", "applications by itself"]);
    for option in [
        "--check",
        "--baseline epew",
        "--strategies optimal",
        "--threads 2",
        "--effort quick",
        "--step 8",
        "--library ruy",
    ] {
        let name = option.split(' ').next().unwrap_or_default();
        coexec(words(&format!("compare qwen2.5-0.5b --devices pixel4 {option}")))
            .assert_refused(&[name, "the strategy of a language model is"]);
    }
    coexec(words("compare vgg16 --devices pixle4")).assert_refused(&["no device profile"]);
    coexec(words("compare vgg16 --baseline optimal")).assert_refused(&["nothing over itself"]);
    coexec(words("compare vgg16 --strategies hetero-tensor")).assert_refused(&["for language models"]);
}

#[test]
fn devices_are_ranked_by_what_a_language_model_takes() {
    let line = "compare llama3.2-1b,vit-b32-mlp --devices snapdragon-8elite,snapdragon-8gen3";
    let document = coexec(words(&format!("{line} --json"))).json();
    let rows = document["language_models"].as_array().unwrap();
    assert_eq!((document["rows"].as_array().unwrap().len(), rows.len()), (2, 2), "{document}");
    for row in rows {
        let device = row["device"].as_str().unwrap();
        let alone = coexec(words(&format!("explore llama3.2-1b --device {device} --json"))).json();
        assert_eq!(row["generation"], alone["generation"], "as explore advises");
        assert_eq!(row["interval_ps"], alone["trust"]["interval_ps"]);
        assert!(row["peak_memory_bytes"].as_u64() < row["memory_bytes"].as_u64().or(Some(u64::MAX)));
    }
    let stdout = coexec(words(line)).stdout;
    for expected in
        ["optimal over", "tokens/s (90 %)", "snapdragon-8elite ~ snapdragon-8gen3", "basis of the answer"]
    {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
    // 4 GB of weights exceed the memory of an iPhone 7, however fast it would be.
    let stdout = coexec(words("compare llama3-8b --devices iphone7,galaxy-s10,pixel4")).stdout;
    assert!(stdout.contains("cannot hold the model: llama3-8b on iphone7"), "{stdout}");
    assert!(stdout.contains("galaxy-s10 ~ pixel4\n"), "{stdout}");
}

#[test]
fn rows_have_intervals_and_say_which_order_is_not_sure() {
    let line = "compare vit-b32 --devices pixel4,galaxy-s10,oneplus11 --step 32";
    let document = coexec(words(&format!("{line} --json"))).json();
    let rows = document["rows"].as_array().unwrap();
    for outcome in rows.iter().flat_map(|row| row["outcomes"].as_array().unwrap()) {
        let [low, high] = [0, 1].map(|end| outcome["interval_ps"][end].as_u64().unwrap());
        assert!(low < high && low < outcome["latency_ps"].as_u64().unwrap(), "{outcome}");
    }
    let is_unsure =
        |row: &&Value| row["unsure"].as_array().unwrap().iter().any(|strategy| strategy == "codl");
    assert_eq!(rows.iter().filter(is_unsure).count(), 1, "on the Pixel 4 alone: {document}");
    let stdout = coexec(words(line)).stdout;
    let expected = [
        "% ~",
        "not sure which is faster",
        "oneplus11 < pixel4 ~ galaxy-s10",
        "GPU measured (off by",
        "Verify on the device",
    ];
    for expected in expected {
        assert!(stdout.contains(expected), "{expected}: {stdout}");
    }
}

#[test]
fn a_network_that_a_device_cannot_hold_is_not_ranked_and_explore_says_so_first() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = "title = \"big\"\nnetwork = \"resnet18\"\nbatch = 1500\n";
    std::fs::write(folder.path().join("big.toml"), scenario).unwrap();
    let options = "--strategies gpu-only --baseline gpu-only --effort quick";
    let line = format!("compare big.toml --devices pixel4,oneplus11,galaxy-s10 {options}");
    let stdout = coexec_in(folder.path(), words(&line)).stdout;
    assert!(stdout.contains("The memory cannot hold the model: big.toml on pixel4\n"), "{stdout}");
    let ranked = stdout.split_once("the fastest first").unwrap().1;
    let ranked = ranked.split_once("The memory").unwrap().0;
    assert!(ranked.contains(" oneplus11") && !ranked.contains("pixel4"), "{ranked}");
    let line = "explore big.toml --device pixel4 --strategy gpu-only";
    let stdout = coexec_in(folder.path(), words(line)).stdout;
    let at = stdout.lines().position(|line| line.contains("cannot hold it"));
    assert!(at.is_some_and(|line| line < 5), "{stdout}");
}
