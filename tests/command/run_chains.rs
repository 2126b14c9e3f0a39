//! `run` of plans with chains: each side computes what its later operators read, and the
//! plan is measured, verified and written again.

use std::fs;

use coexec_fit::measure::runs::read;

use crate::command::run::{folder, has_device};
use crate::{coexec_in, words};

const BLOCK: &str = "\
title = \"an inverted residual block\"
device = \"pixel4\"
[[operator]]
name = \"expand\"
conv2d = { input = [14, 14, 16], output_channels = 48, kernel = [1, 1] }
[[operator]]
name = \"depthwise\"
depthwise_conv2d = { input = [14, 14, 48], kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = \"project\"
conv2d = { input = [14, 14, 48], output_channels = 16, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
";

/// The plan of [`BLOCK`] that cuts all its operators after that many rows, as one chain.
fn plan(cpu_rows: u32) -> String {
    let operator = |name: &str| {
        format!(
            "[[operator]]\nname = \"{name}\"\npartition = \"height\"\nchain = 1\n\
             [[operator.shares]]\nprocessor = \"cpu\"\ncores = \"1large\"\nrows = {cpu_rows}\n\
             [[operator.shares]]\nprocessor = \"gpu\"\nrows = {}\n",
            14 - cpu_rows
        )
    };
    let operators = ["expand", "depthwise", "project"].map(operator).concat();
    format!("scenario = \"block.toml\"\ndevice = \"pixel4\"\nsynchronisation = \"svm-polling\"\n{operators}")
}

#[test]
fn a_chained_plan_is_measured_with_its_prediction_and_recorded() {
    if !has_device() {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("block.toml"), BLOCK).unwrap();
    fs::write(folder.path().join("chained.toml"), plan(5)).unwrap();
    let line = "run block.toml --device pixel4 --plan chained.toml --threads 1 --repetitions 6 --seed 3 --out runs.csv \
                --json --max-spread 1000";
    let document = coexec_in(folder.path(), words(line)).json();
    let variants = document["variants"].as_array().unwrap();
    let chained = &variants[0];
    assert_eq!(chained["processor"], "plan:runs.plan.toml", "{document}");
    assert!(chained["predicted_us"].as_f64().unwrap() > 0.0);
    let all = 14 * 14 * (48 + 48 + 16);
    assert!(chained["verified_elements"].as_u64().unwrap() > all, "all operators, and rows of halo twice");
    let written = fs::read_to_string(folder.path().join("runs.plan.toml")).unwrap();
    assert_eq!(written.matches("chain = 1").count(), 3, "{written}");
    let table = read(&folder.path().join("runs.csv")).unwrap();
    assert!(table.left_out.is_empty());
}

#[test]
fn a_chain_found_by_a_strategy_runs_as_it_was_explored() {
    if !has_device() {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("block.toml"), BLOCK).unwrap();
    for strategy in ["codl", "optimal"] {
        let explore = format!("explore block.toml --strategy {strategy} --threads 1 --out found.toml --json");
        coexec_in(folder.path(), words(&explore)).json();
        let run = "run block.toml --device pixel4 --plan found.toml --threads 1 --repetitions 5 --time-limit 1 --out runs.csv \
                   --json --max-spread 1000";
        let document = coexec_in(folder.path(), words(run)).json();
        assert!(document["variants"][0]["verified_elements"].as_u64().unwrap() > 0, "{strategy}: {document}");
    }
}
