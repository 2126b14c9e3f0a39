//! Streams of batches, and the number of batches that a plan has in flight.

use std::fs;

use crate::{coexec_in, words};

/// Two operators, and host work for each batch that takes as long as they do.
const STREAM: &str = "\
title = \"batches of two convolutions\"
device = \"pixel4\"
strategy = \"gpu-only\"
[pipeline]
depth = 3
host_gap_us = 2000.0
[[operator]]
name = \"first\"
conv2d = { input = [56, 56, 64], output_channels = 256, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = \"second\"
conv2d = { input = [56, 56, 256], output_channels = 64, kernel = [1, 1] }
";

fn period(folder: &std::path::Path, scenario: &str) -> u64 {
    let outcome = coexec_in(folder, words(&format!("simulate {scenario} --plan plan.toml --json")));
    outcome.json()["stream"]["period_ps"].as_u64().unwrap()
}

#[test]
fn the_best_plan_of_a_stream_has_the_shortest_period_of_all_strategies_and_a_bound_of_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("stream.toml"), STREAM.replace("2000.0", "10.0")).unwrap();
    let line = "explore stream.toml --strategy all --out plan.toml";
    let all = coexec_in(folder.path(), words(&format!("{line} --json"))).json();
    let shortest = all["period_ps"].as_u64().unwrap();
    let periods =
        all["strategies"].as_array().unwrap().iter().map(|entry| entry["period_ps"].as_u64().unwrap());
    assert_eq!(periods.min().unwrap(), shortest);
    assert_eq!(period(folder.path(), "stream.toml"), shortest, "streaming the plan takes as long");
    let bound = all["bound"].as_f64().unwrap() * 1e12;
    let gap = 100.0 * (shortest as f64 / bound - 1.0);
    assert!(gap >= 0.0 && (all["gap_percent"].as_f64().unwrap() - gap).abs() < 1e-6, "{all}");
    let stdout = coexec_in(folder.path(), words(line)).stdout;
    assert!(stdout.contains("from the shortest period of plans"), "{stdout}");
}

#[test]
fn a_plan_holds_the_batches_in_flight_and_wins_over_the_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("stream.toml"), STREAM).unwrap();
    fs::write(path("alone.toml"), STREAM.replace("depth = 3", "depth = 1")).unwrap();
    fs::write(path("single.toml"), STREAM.replace("[pipeline]\ndepth = 3\nhost_gap_us = 2000.0\n", ""))
        .unwrap();
    let explored = coexec_in(folder.path(), words("explore stream.toml --out plan.toml --json")).json();
    assert_eq!(explored["plan"]["pipeline_depth"], 3);
    let three = period(folder.path(), "stream.toml");
    assert_eq!(period(folder.path(), "alone.toml"), three, "the plan's depth counts");
    let hidden = period(folder.path(), "single.toml");
    assert!(hidden <= three, "without the host's work: {hidden} {three}");

    let written = fs::read_to_string(path("plan.toml")).unwrap();
    fs::write(path("plan.toml"), written.replace("pipeline_depth = 3", "pipeline_depth = 1")).unwrap();
    let one = period(folder.path(), "stream.toml");
    assert!(one >= three + 1_900_000_000, "the host's two milliseconds are seen: {one} {three}");

    fs::write(path("plan.toml"), written.replace("pipeline_depth = 3", "pipeline_depth = 65")).unwrap();
    coexec_in(folder.path(), words("simulate stream.toml --plan plan.toml"))
        .assert_refused(&["pipeline_depth is 65", "from 1 to 64"]);
}

#[test]
fn where_batches_follow_each_other_the_period_is_what_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let stream = STREAM.replace("strategy = \"gpu-only\"\n", "");
    fs::write(folder.path().join("stream.toml"), &stream).unwrap();
    fs::write(folder.path().join("host.toml"), stream.replace("2000.0", "9e4")).unwrap();
    let explored = |file: &str| coexec_in(folder.path(), words(&format!("explore {file} --json"))).json();
    let document = explored("stream.toml");
    let [low, high] = [0, 1].map(|end| document["trust"]["interval_ps"][end].as_u64().unwrap());
    let period = document["period_ps"].as_u64().unwrap();
    assert!(low <= period && period <= high && low < high, "{low} {period} {high}");
    assert_eq!(document["trust"]["is_of_period"], true);
    assert!(document["certainty"]["faster"].as_u64() > Some(0));
    for single in document["baselines"].as_array().unwrap() {
        let [own, relative] = ["period_ps", "relative_to_plan"].map(|key| single[key].as_f64().unwrap());
        assert!((relative - own / period as f64).abs() < 1e-9, "{single}");
    }
    let line = "explore stream.toml --profile-error 1 --confidence 0.5 --json";
    let sure = coexec_in(folder.path(), words(line)).json();
    assert!(sure["trust"]["interval_ps"][1].as_u64().unwrap() < high, "errors of 1 % are less: {sure}");
    let stdout = coexec_in(folder.path(), words("explore stream.toml --strategy gpu-only")).stdout;
    assert!(stdout.contains(" period "), "{stdout}");
    let busy = explored("host.toml");
    assert_eq!(busy["period_ps"], 90_000_000_000_u64);
    assert_eq!(busy["trust"]["interval_ps"][0], busy["trust"]["interval_ps"][1], "the host's gap");
    assert_eq!(busy["certainty"]["faster"], 0, "no plan is faster than a host that nobody waits for");
    let stdout = coexec_in(folder.path(), words("simulate stream.toml")).stdout;
    assert!(stdout.contains("(90 % of draws: "), "{stdout}");
}

#[test]
fn periods_are_not_compared_as_if_each_batch_came_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("stream.toml"), STREAM).unwrap();
    let compare = "compare stream.toml --devices pixel4";
    coexec_in(folder.path(), words(compare))
        .assert_refused(&["[pipeline]", "explore stream.toml --strategy all"]);
    let outcome = coexec_in(folder.path(), words(&format!("{compare} --objective energy --json")));
    assert_eq!(outcome.json()["rows"].as_array().unwrap().len(), 1);
}
