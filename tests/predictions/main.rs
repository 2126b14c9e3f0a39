//! The gate of predictions: predictions for everything bundled, compared with the committed
//! tables of this folder. If a change moves predictions, the test prints which ones and by how
//! much, and the change has to update the tables:
//!
//! ```sh
//! UPDATE_PREDICTIONS=1 cargo test --release --test predictions
//! ```

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod snapshot;

use assert_cmd::Command;
use coexec_sim::explore::Explorer;
use coexec_sim::{Mechanism, Overrides, Picos, Prediction, Scenario, Strategy, Workload};
use rayon::prelude::*;
use serde_json::Value;

use snapshot::Snapshot;

/// Bundled scenarios of single operators; the other bundled ones are language models.
const OPERATORS: [&str; 3] = ["vit-b32-fc1", "conv3x3-64x64x128", "llama3-8b-ffn-down"];

/// Networks, and a language model, for devices known only from their specification. Their tables are
/// transferred from measured devices, whose rows cover everything else.
const FROM_SPECIFICATION: ([&str; 3], &str) = (["resnet50", "mobilenet-v2", "vit-b32"], "llama3.2-1b");

/// Networks and devices that are also planned with every other mechanism: matrix products, small
/// and large operators, branches; two phones, and a GPU with its own memory.
const WITH_ALL_MECHANISMS: ([&str; 4], [&str; 3]) =
    (["vit-b32-mlp", "mobilenet-v2", "inception-v3", "codl-yolov2"], ["pixel4", "oneplus11", "h200"]);

/// Sets of operators, with odd shapes that no network has, and devices.
const SETS: ([&str; 3], [&str; 4]) =
    (["epew-linear-sample", "epew-conv", "codl-conv"], ["pixel4", "galaxy-s10", "oneplus11", "h200"]);

/// Networks, devices and strategies for which a stream of batches is planned.
const STREAMED: ([&str; 3], [&str; 3], [Strategy; 4]) = (
    ["resnet18", "mobilenet-v2", "vit-b32"],
    ["pixel4", "oneplus11", "h200"],
    [Strategy::GpuOnly, Strategy::LayerWise, Strategy::Codl, Strategy::Optimal],
);

/// The command's JSON output; none if it refuses.
fn answer(line: &str) -> Option<Value> {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("coexec"))
        .args(line.split_whitespace())
        .args(["--json", "--quiet"])
        .output()
        .expect("the command was built with this test");
    assert!(output.status.code().is_some_and(|code| code < 2), "{line}: {output:?}");
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

/// Names of the scenarios of one kind that `coexec devices` lists.
fn bundled(kind: &str) -> Vec<String> {
    let listing = answer("devices").unwrap();
    let entries = listing["scenarios"].as_array().unwrap();
    let of_kind = entries.iter().filter(|entry| entry["kind"] == kind);
    of_kind.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

/// Names of the measured devices, and of those known only from a specification.
fn devices() -> [Vec<String>; 2] {
    let listing = answer("devices").unwrap();
    let is_transferred = |entry: &&Value| entry["formats"].to_string().contains("\"transferred\"");
    let (made, others): (Vec<&Value>, Vec<&Value>) =
        listing["devices"].as_array().unwrap().iter().partition(is_transferred);
    [others, made]
        .map(|entries| entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect())
}

/// A scenario, bundled or from a file, on another device.
fn scenario(name: &str, device: &str, mechanism: Mechanism) -> Scenario {
    let overrides = Overrides {
        device: Some(device.to_owned()),
        synchronisation: Some(mechanism),
        ..Overrides::default()
    };
    Scenario::load(name, &overrides).unwrap()
}

/// The prediction of each strategy that has a plan for a model, as in the command but without bound and
/// intervals.
fn found(model: &str, device: &str, mechanism: Mechanism) -> Vec<(Strategy, Prediction)> {
    let scenario = scenario(model, device, mechanism);
    let Workload::Model(stages) = &scenario.workload else { panic!("{model} has no stages") };
    let mut simulator = scenario.simulator();
    let mut explorer = Explorer::new(&mut simulator, stages, &scenario.options);
    let strategies = Strategy::of_operators();
    strategies.filter_map(|strategy| Some((strategy, explorer.find(strategy).ok()?.prediction))).collect()
}

#[test]
fn of_every_network_on_every_device_by_every_strategy() {
    let mut names = bundled("network");
    names.extend(OPERATORS.map(str::to_owned));
    let [devices, made] = devices();
    let owned = |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
    let mut sets = vec![
        (names, devices, Mechanism::SvmPolling),
        (owned(&FROM_SPECIFICATION.0), made, Mechanism::SvmPolling),
    ];
    let (networks, devices) = WITH_ALL_MECHANISMS;
    sets.extend(
        [Mechanism::BlockingFinish, Mechanism::EventWait, Mechanism::SleepThenPoll]
            .map(|mechanism| (owned(&networks), owned(&devices), mechanism)),
    );
    let mut runs = Vec::new();
    for (models, devices, mechanism) in &sets {
        for model in models {
            runs.extend(devices.iter().map(|device| (model, device, *mechanism)));
        }
    }
    let outcomes: Vec<_> =
        runs.par_iter().map(|&(model, device, mechanism)| found(model, device, mechanism)).collect();
    let mut latency = Snapshot::new("latency_ps", ["model", "device", "synchronisation"]);
    let mut energy = Snapshot::new("energy_nj", ["model", "device", "synchronisation"]);
    for ((model, device, mechanism), outcomes) in runs.iter().zip(outcomes) {
        let mechanism = mechanism.to_string();
        let key = [model, device, &mechanism].map(String::as_str);
        for (strategy, Prediction { latency: picos, energy: joules, .. }) in outcomes {
            latency.set(key, strategy.name(), picos.0);
            if let Some(joules) = joules {
                energy.set(key, strategy.name(), (joules.0 * 1e9).round() as u64);
            }
        }
    }
    snapshot::hold(&[latency, energy]);
}

#[test]
fn of_every_language_model_on_every_device_by_every_strategy() {
    let mut models = bundled("language-model");
    let is_of_tokens = |name: &String| {
        matches!(Scenario::load(name, &Overrides::default()).unwrap().workload, Workload::Language(_))
    };
    models.extend(bundled("scenario").into_iter().filter(is_of_tokens));
    let [devices, made] = devices();
    let of_all = models.iter().flat_map(|model| devices.iter().map(|device| (&**model, &**device)));
    let pairs: Vec<(&str, &str)> =
        of_all.chain(made.iter().map(|device| (FROM_SPECIFICATION.1, &**device))).collect();
    let ask = |&(model, device): &(&str, &str)| {
        answer(&format!("explore {model} --device {device} --strategy all --nominal"))
    };
    let answers: Vec<Option<Value>> = pairs.par_iter().map(ask).collect();
    let mut latency = Snapshot::new("language_ps", ["model", "device"]);
    for ((model, device), answer) in pairs.iter().zip(answers) {
        for entry in answer.iter().flat_map(|answer| answer["strategies"].as_array().unwrap()) {
            let strategy = entry["strategy"].as_str().unwrap();
            latency.set([model, device], strategy, entry["latency_ps"].as_u64().unwrap());
        }
    }
    snapshot::hold(&[latency]);
}

#[test]
fn of_sets_of_operators_in_sum() {
    let (sets, devices) = SETS;
    let mut sums = Snapshot::new("sets_ps", ["set", "device"]);
    for (set, device) in sets.into_iter().flat_map(|set| devices.map(|device| (set, device))) {
        let answer = answer(&format!("explore {set} --device {device} --step 64")).unwrap();
        let operators = answer["operators"].as_array().unwrap();
        let gpu = operators.iter().filter_map(|operator| operator["gpu_only_ps"].as_u64());
        sums.set([set, device], "GPU", gpu.sum());
        for index in 0..answer["core_sets"].as_array().unwrap().len() {
            let best = operators.iter().map(|operator| operator["best_ps"][index].as_u64().unwrap());
            sums.set([set, device], &format!("{} threads", index + 1), best.sum());
        }
    }
    snapshot::hold(&[sums]);
}

#[test]
fn of_streams_of_batches() {
    let folder = tempfile::tempdir().unwrap();
    let (networks, devices, strategies) = STREAMED;
    let keys = networks.iter().flat_map(|network| ["1", "3"].map(|depth| (*network, depth)));
    let keys: Vec<_> =
        keys.flat_map(|(network, depth)| devices.map(|device| [network, device, depth])).collect();
    let periods = |&[network, device, depth]: &[&str; 3]| {
        let path = folder.path().join(format!("{network}-{device}-{depth}.toml"));
        let text = format!(
            "title = \"a stream\"\nnetwork = \"{network}\"\nbatch = 2\n\
             [pipeline]\ndepth = {depth}\nhost_gap_us = 2000.0\n"
        );
        std::fs::write(&path, text).unwrap();
        let scenario = scenario(path.to_str().unwrap(), device, Mechanism::SvmPolling);
        let Workload::Model(stages) = &scenario.workload else { panic!("{network} has no stages") };
        let mut simulator = scenario.simulator();
        let mut explorer =
            Explorer::new(&mut simulator, stages, &scenario.options).streaming(scenario.pipeline.as_ref());
        strategies.map(|strategy| explorer.find(strategy).unwrap().period.unwrap())
    };
    let found: Vec<_> = keys.par_iter().map(periods).collect();
    let mut period = Snapshot::new("period_ps", ["model", "device", "in flight"]);
    for (key, periods) in keys.into_iter().zip(found) {
        for (strategy, Picos(picos)) in strategies.iter().zip(periods) {
            period.set(key, strategy.name(), picos);
        }
    }
    snapshot::hold(&[period]);
}
