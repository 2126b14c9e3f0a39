//! Answers of `explore`: the best plan, the baselines, and the reasons.

use crate::{DEVICES, coexec, latency_ps, words};

#[test]
fn an_operator_a_chain_a_network_and_a_set_are_answered() {
    for (scenario, expected) in [
        ("vit-b32-fc1", "best cut alone"),
        ("vit-b32-mlp", "mlp.linear2"),
        ("resnet18", "critical path"),
        ("codl-conv --threads 1", "mean speedup over GPU only"),
    ] {
        let outcome = coexec(words(&format!("explore {scenario}")));
        assert_eq!(outcome.status, 0, "{scenario}: {}", outcome.stderr);
        assert!(outcome.stdout.contains(expected), "{scenario}: {}", outcome.stdout);
    }
}

#[test]
fn every_bundled_device_answers_every_objective() {
    for device in DEVICES {
        for objective in ["latency", "energy", "edp"] {
            let line = format!("explore vit-b32-mlp --device {device} --objective {objective} --json");
            let document = coexec(words(&line)).json();
            assert_eq!(document["device"], device);
            assert_eq!(document["objective"], objective);
            assert!(latency_ps(&document) > 0);
        }
    }
}

#[test]
fn every_bundled_scenario_and_network_is_answered() {
    let listing = coexec(["devices", "--json"]).json();
    let names = listing["scenarios"].as_array().unwrap();
    assert!(names.len() > 15);
    for name in names.iter().filter_map(|entry| entry["name"].as_str()) {
        // Sets of thousands of operators are tested elsewhere.
        if name.starts_with("epew-") {
            continue;
        }
        let refused = coexec(words(&format!("explore {name} --step 64 --threads 1 --effort quick --json")));
        // Language models have no search over operators, and sets none of a whole graph.
        let is_refused = ["--threads is of", "--effort is of"].iter().any(|of| refused.stderr.contains(of));
        let outcome = if is_refused { coexec(words(&format!("explore {name} --json"))) } else { refused };
        assert_eq!(outcome.json()["scenario"], name);
    }
}

#[test]
fn what_checks_an_answer_asks_as_it_was_asked_and_for_what_can_be_run() {
    let verify = |line: &str| {
        let text = coexec(words(line)).stdout;
        text.lines().find(|line| line.starts_with("Verify on the device")).unwrap().to_owned()
    };
    let line = verify("explore resnet18 --device pixel4 --threads 2 --batch 2 --strategy codl");
    assert!(
        line.contains("coexec run resnet18 --device pixel4 --batch 2 --threads 2 --strategy codl"),
        "{line}"
    );
    let line = verify("explore mobilenet-v2 --device snapdragon-8gen3");
    assert!(line.ends_with("--strategy cpu-only --out runs.csv") && line.contains("NPU"), "{line}");

    let folder = tempfile::tempdir().unwrap();
    let integers = folder.path().join("integers.toml");
    let operator =
        "{ name = 'c', conv2d = { input = [56, 56, 24], output_channels = 144, kernel = [1, 1] } }";
    std::fs::write(&integers, format!("title = 'integers'\ndata_type = 'i8'\noperator = [{operator}]\n"))
        .unwrap();
    let line = verify(&format!("explore {} --device pixel4", integers.display()));
    assert!(line.contains("no kernels for it: found a workload in i8"), "{line}");

    let recurrent = folder.path().join("recurrent.toml");
    let operator = "{ name = 'gru', recurrent = { steps = 60, gates = 3, features = 40 } }";
    std::fs::write(&recurrent, format!("title = 'a recurrence'\noperator = [{operator}]\n")).unwrap();
    let recurrent = recurrent.to_str().unwrap();
    let line = verify(&format!("explore {recurrent} --device pixel4"));
    assert!(line.contains("framework's own benchmark") && line.contains("no kernel"), "{line}");
    let refused = coexec(["run", recurrent, "--device", "pixel4", "--out", "runs.csv"]);
    assert!(
        refused.status == 1 && refused.stderr.contains("framework's own benchmark"),
        "{}",
        refused.stderr
    );

    let plan = folder.path().join("it's mine.toml");
    let plan = plan.to_str().unwrap();
    coexec(["explore", "resnet18", "--device", "pixel4", "--strategy", "codl", "--out", plan]);
    let text = coexec(["simulate", "resnet18", "--device", "pixel4", "--plan", plan]).stdout;
    let quoted = format!("resnet18 --device pixel4 --plan '{}' --out", plan.replace('\'', r"'\''"));
    assert!(text.contains(&quoted), "{quoted}: {text}");
    // The device is the plan's, unless one is named.
    assert_eq!(coexec(["simulate", "resnet18", "--plan", plan]).stdout, text);
    let elsewhere = coexec(["simulate", "resnet18", "--device", "oneplus11", "--plan", plan]).stdout;
    assert!(elsewhere.contains("on OnePlus 11") && elsewhere.contains("made for pixel4"), "{elsewhere}");
}

#[test]
fn an_npu_without_products_on_their_own_is_not_called_absent() {
    let outcome = coexec(words("simulate llama3-8b-ffn-down --device apple-m4 --strategy npu-only"));
    outcome.assert_refused(&["apple-m4 has no [npu.systolic] table"]);
    let outcome = coexec(words("simulate llama3-8b-ffn-down --device pixel4 --strategy npu-only"));
    outcome.assert_refused(&["pixel4 has no NPU in its profile"]);
}

#[test]
fn a_plan_as_long_as_one_processor_alone_is_not_called_slower() {
    let outcome = coexec(words("explore resnet18 --device pixel4 --strategy delegate-gpu"));
    assert!(!outcome.stdout.contains("Slower than"), "{}", outcome.stdout);
}

#[test]
fn comparing_all_strategies_lists_each_that_can_run() {
    let outcome = coexec(words("explore vit-b32-fc1 --device snapdragon-8gen3 --strategy all"));
    for strategy in ["optimal", "codl", "epew", "gpu-only", "cpu-only", "npu-only", "energy", "Pareto"] {
        assert!(outcome.stdout.contains(strategy), "{strategy}: {}", outcome.stdout);
    }
}

#[test]
fn all_strategies_are_compared_in_json_and_the_plan_is_the_best_of_them() {
    let document = coexec(words("explore resnet18 --device pixel4 --strategy all --step 32 --json")).json();
    let strategies = document["strategies"].as_array().unwrap();
    let latencies: Vec<u64> = strategies.iter().map(|entry| entry["latency_ps"].as_u64().unwrap()).collect();
    assert!(latencies.len() > 8);
    assert_eq!(latencies.iter().min(), Some(&latency_ps(&document)));
    let on_front = strategies.iter().filter(|entry| entry["is_on_pareto_front"] == true).count();
    assert!((1..strategies.len()).contains(&on_front), "{on_front}");
    assert!(strategies.iter().any(|entry| entry["extra_memory_bytes"].as_u64() > Some(0)));
    assert!(document["prediction"]["memory"]["weights_bytes"].as_u64() > Some(4 * 11_000_000));
}

#[test]
fn a_plan_with_chains_is_simulated_as_it_was_found() {
    let folder = tempfile::tempdir().unwrap();
    let line = "explore codl-yolov2 --device pixel4 --synchronisation event-wait --strategy codl --step 32 \
                --out plan.toml --json";
    let found = crate::coexec_in(folder.path(), words(line)).json();
    let plan = std::fs::read_to_string(folder.path().join("plan.toml")).unwrap();
    assert!(plan.contains("chain = "), "{plan}");
    let line = "simulate codl-yolov2 --device pixel4 --plan plan.toml --json";
    let again = crate::coexec_in(folder.path(), words(line)).json();
    assert_eq!(latency_ps(&again), latency_ps(&found));
}

#[test]
fn each_strategy_uses_the_processor_it_names() {
    for (strategy, processor) in [("cpu-only", "cpu"), ("gpu-only", "gpu"), ("npu-only", "npu")] {
        let line = format!("explore vit-b32-mlp --device snapdragon-8gen3 --strategy {strategy} --json");
        let document = coexec(words(&line)).json();
        for operator in document["plan"]["operator"].as_array().unwrap() {
            assert_eq!(operator["shares"][0]["processor"], processor);
            assert_eq!(operator["shares"].as_array().unwrap().len(), 1);
        }
    }
}

#[test]
fn all_counts_of_threads_are_tried_where_all_are_asked_for() {
    let latency = |threads: &str| {
        let line = format!("explore vit-b32-mlp --device mi8se --strategy optimal{threads} --json");
        latency_ps(&coexec(words(&line)).json())
    };
    let [usual, three, all, eight] = ["", " --threads 3", " --threads all", " --threads 8"].map(latency);
    assert_eq!((usual, all), (three, eight), "three of its eight cores by default");
    assert!(all < usual, "{all} {usual}");
}

#[test]
fn json_is_all_there_is_on_standard_output() {
    for line in [
        "explore vit-b32-fc1 --json",
        "explore codl-conv --threads 1 --json",
        "simulate vit-b32-fc1 --json --samples 5",
        "devices --json",
        "devices pixel4 --json",
        "schema plan --json",
    ] {
        coexec(words(line)).json();
    }
}

#[test]
fn a_quiet_command_says_nothing_on_standard_error() {
    for line in ["explore codl-conv --threads 1 --quiet", "explore vit-b32-fc1 -q", "simulate vit-b32-fc1 -q"]
    {
        let outcome = coexec(words(line));
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""), "{line}");
        assert_ne!(outcome.stdout, "");
    }
}

#[test]
fn a_shown_profile_is_a_profile_again() {
    let folder = tempfile::tempdir().unwrap();
    for device in DEVICES {
        let shown = coexec(["devices", device]);
        std::fs::write(folder.path().join("shown.toml"), &shown.stdout).unwrap();
        let again = crate::coexec_in(folder.path(), ["devices", "shown.toml"]);
        assert_eq!((again.status, &again.stdout), (0, &shown.stdout), "{}", again.stderr);
    }
}

#[test]
fn an_alias_finds_its_device() {
    let document = coexec(words("explore vit-b32-fc1 --device snapdragon-855 --json")).json();
    assert_eq!(document["device"], "pixel4");
}

#[test]
fn the_help_names_the_devices_that_are_used_unless_one_is_named_and_the_time_of_each_effort() {
    let help = coexec(words("explore --help")).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for (model, device) in [("resnet18 --effort quick", "oneplus11"), ("llama3.2-1b", "snapdragon-8gen3")] {
        assert_eq!(coexec(words(&format!("explore {model} --json"))).json()["device"], device);
        assert!(help.contains(device), "{help}");
    }
    assert!(help.contains("ten times as long for the least energy"), "{help}");
}
