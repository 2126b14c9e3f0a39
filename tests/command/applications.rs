//! Several applications in one scenario.

use std::fs;
use std::path::Path;

use crate::{coexec, coexec_in, words};

const SEVERAL: &str = "
title = \"a classifier beside a game\"
device = \"snapdragon-8gen3\"
duration_s = 0.5
seed = 3

[[application]]
name = \"labels\"
scenario = \"mobilenet-v2\"
strategy = \"gpu-only\"
arrivals = { rate_per_second = 30 }
deadline_ms = 5

[[application]]
name = \"game\"
arrivals = { period_ms = 16.7 }
deadline_ms = 16.7
frames = { source = \"test\", gpu_us = 3000, batches = 8, gpu_bytes = 2e7, cpu_gbps = 5.0 }
";

fn scenario(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("several.toml"), text).unwrap();
    folder
}

fn refused(text: &str, line: &str, named: &[&str]) {
    coexec_in(scenario(text).path(), words(line)).assert_refused(named);
}

#[test]
fn a_scenario_shows_interference_between_applications() {
    let folder = scenario(SEVERAL);
    let outcome = coexec_in(folder.path(), words("simulate several.toml --plot several.svg"));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for expected in ["labels", "game", "over alone", "p99", "missed", "busy: GPU"] {
        assert!(outcome.stdout.contains(expected), "{expected}: {}", outcome.stdout);
    }
    assert!(fs::read_to_string(folder.path().join("several.svg")).unwrap().contains("labels"));
    let document = coexec_in(folder.path(), words("simulate several.toml --json")).json();
    let [labels, game] = [0, 1].map(|index| &document["served"]["applications"][index]);
    assert_eq!(game["requests"], 30, "half a second at 60 a second: {game}");
    assert!(labels["slowdown"].as_f64().unwrap() > 1.0, "{labels}");
    assert!(labels["latency"]["p99_ps"].as_u64() >= labels["latency"]["p50_ps"].as_u64(), "{labels}");
    let busy = document["served"]["processors"][0]["busy_percent"].as_f64().unwrap();
    assert!((15.0..100.0).contains(&busy), "{busy}");
    let again = coexec_in(folder.path(), words("simulate several.toml --json")).json();
    assert_eq!(document, again, "a seed gives one answer");
}

#[test]
fn plans_found_together_are_written_and_simulated_again() {
    let folder = scenario(SEVERAL);
    let line = "explore several.toml --effort quick --json --out plan.toml --timeline t.png";
    let document = coexec_in(folder.path(), words(line)).json();
    assert!(document["considered"].as_u64().unwrap() > 3, "{document}");
    let miss = |choice: &serde_json::Value| choice["cost"]["deadline_miss_percent"].as_f64().unwrap();
    assert!(miss(&document) <= miss(&document["as_if_alone"]));
    assert!(Path::exists(&folder.path().join("plan-labels.toml")));
    assert!(!Path::exists(&folder.path().join("plan-game.toml")), "frames have no plan");
    let given = SEVERAL.replace("strategy = \"gpu-only\"", "plan = \"plan-labels.toml\"");
    fs::write(folder.path().join("several.toml"), given).unwrap();
    let again = coexec_in(folder.path(), words("simulate several.toml --json")).json();
    assert_eq!(again["plans"][0]["origin"], "plan given");
    assert_eq!(again["served"], document["served"]);
    // The path of the plan starts at the folder of the scenario, wherever the command runs.
    let path = folder.path().join("several.toml");
    let elsewhere = coexec(["simulate", path.to_str().unwrap(), "--json"]).json();
    assert_eq!(elsewhere["served"], document["served"]);
}

#[test]
fn impossible_applications_are_refused_by_their_key() {
    for (from, to, key) in [
        ("batches = 8", "batches = 0", "application[1].frames.batches"),
        ("period_ms = 16.7 }", "period_ms = 0 }", "application[1].arrivals.period_ms"),
        ("period_ms = 16.7 }", "period_ms = 16.7, offset_ms = 500 }", "application[1].arrivals.offset_ms"),
        ("strategy = \"gpu-only\"", "strategy = \"gpu-only\"\nplan = \"x.plan.toml\"", "application[0].plan"),
        ("rate_per_second = 30", "rate_per_second = 30, period_ms = 5", "application[0].arrivals.period_ms"),
        ("deadline_ms = 5\n", "deadline_ms = 5\nqueue_depth = 65\n", "application[0].queue_depth"),
        ("name = \"game\"", "name = \"labels\"", "application[1].name"),
        ("name = \"game\"", "name = \" \"", "application[1].name"),
        ("scenario = \"mobilenet-v2\"", "scenario = \"mobilenet\"", "there is no scenario named"),
        ("scenario = \"mobilenet-v2\"", "scenario = \"epew-conv\"", "is not one model"),
        ("scenario = \"mobilenet-v2\"", "scenario = \"several.toml\"", "is not one model"),
        ("scenario = \"mobilenet-v2\"\n", "", "does not say what its requests run"),
        (
            "scenario = \"mobilenet-v2\"\n",
            "scenario = \"mobilenet-v2\"\nlanguage_model = { model = \"llama3-8b\" }\n",
            "runs several things",
        ),
        ("device = \"snapdragon-8gen3\"", "device = \"apple-m1\"", "application[1].frames"),
        (
            "duration_s = 0.5",
            "duration_s = 0.5\nbatch = 2",
            "a key of a single model, next to [[application]]",
        ),
        ("duration_s = 0.5", "network = \"vgg16\"", "a key of a single model, next to [[application]]"),
        ("strategy = \"gpu-only\"", "strategy = \"npu-graphs\"", "application[0].strategy"),
        (
            "scenario = \"mobilenet-v2\"",
            "language_model = { model = \"llama3-8b\", prompt_tokens = 0 }",
            "several.toml:9:57: application[0].language_model.prompt_tokens",
        ),
    ] {
        let text = SEVERAL.replace(from, to);
        assert_ne!(text, SEVERAL, "{from}");
        refused(&text, "simulate several.toml", &[key]);
    }
}

#[test]
fn requests_may_come_more_often_than_every_millisecond() {
    let text = SEVERAL.replace("rate_per_second = 30", "period_ms = 0.3");
    let document = coexec_in(scenario(&text).path(), words("simulate several.toml --json")).json();
    assert_eq!(document["served"]["applications"][0]["requests"], 1667, "{document}");
    let text = SEVERAL.replace("rate_per_second = 30", "period_ms = 0.0001");
    refused(&text, "simulate several.toml", &["are simulated", "fewer requests a second"]);
}

#[test]
fn options_for_one_model_are_refused_for_several_applications() {
    let of_one = ["simulate several.toml --samples 3", "explore several.toml --strategy all"];
    for line in of_one.into_iter().chain(["explore several.toml --objective energy"]) {
        refused(SEVERAL, line, &["of one model, not of several applications"]);
    }
    refused(SEVERAL, "run several.toml --out runs.csv", &["simulates but does not run together"]);
}

#[test]
fn too_many_requests_are_refused() {
    let long = SEVERAL
        .replace("duration_s = 0.5", "duration_s = 3600")
        .replace("rate_per_second = 30", "rate_per_second = 1000");
    refused(&long, "simulate several.toml", &["all applications", "duration_s"]);
}

#[test]
fn plans_that_would_be_one_file_are_refused_before_they_are_searched() {
    let alike = SEVERAL.replace("name = \"game\"", "name = \"labels!\"").replace("\"labels\"", "\"labels?\"");
    refused(&alike, "explore several.toml --out plan.toml", &["plan-labels-.toml", "letters or digits"]);
}
