//! `coexec probe`: its output on any available `OpenCL` device, and its exit status without
//! one.
//!
//! Times depend on the machine and its load, so no number is asserted, only their
//! consistency.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use assert_cmd::Command;
use serde_json::Value;

use crate::{DATA_HOME, Outcome, coexec_in};

/// Time budget of a quick probe that stops early, in seconds.
const SECONDS: u64 = 20;
/// Longest accepted total time: kernels are compiled, and tables fitted, without optimisation.
const MAX_PROBE_TIME: Duration = Duration::from_mins(3);
/// Attempts before the machine counts as too busy to test on.
const ATTEMPTS: usize = 5;
/// Exit statuses of a probe: done, unsound because the machine was busy, no device.
const DONE: i32 = 0;
const UNSOUND: i32 = 3;
const ABSENT: i32 = 4;

fn probe(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("coexec"))
        .args(["probe", "--quick", "--date", "2026-01-01"])
        .args(arguments)
        .env("XDG_DATA_HOME", folder.join(DATA_HOME))
        .envs(environment.iter().copied())
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Outcome {
        status: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// The outcome of a probe that measured something; repeated if other tests kept the machine
/// too busy. None without a device, unless `COEXEC_REQUIRE_OPENCL=1` demands one.
fn probed(folder: &Path, options: &[&str]) -> Option<Outcome> {
    let mut outcome = probe(folder, options, &[]);
    for _ in 1..ATTEMPTS {
        if outcome.status != UNSOUND {
            break;
        }
        eprintln!("the machine is too busy, once more: {}", outcome.stderr);
        outcome = probe(folder, options, &[]);
    }
    let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
    if outcome.status == ABSENT && !required {
        eprintln!("skipped: {}", outcome.stderr);
        return None;
    }
    assert_eq!(outcome.status, DONE, "{}", outcome.stderr);
    Some(outcome)
}

fn value(profile: &toml::Table, path: &[&str]) -> f64 {
    let found = path.iter().fold(Some(&toml::Value::Table(profile.clone())).cloned(), |at, key| {
        at.and_then(|at| at.get(key).cloned())
    });
    let found = found.unwrap_or_else(|| panic!("no {path:?}"));
    found.get("value").cloned().unwrap_or(found).as_float().unwrap()
}

/// Collects every value without a source of its own or of its table.
fn unsourced(value: &toml::Value, path: &str, is_sourced: bool, found: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            let is_sourced = is_sourced || table.contains_key("source");
            for (key, inner) in table {
                unsourced(inner, &format!("{path}.{key}"), is_sourced, found);
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| unsourced(item, path, is_sourced, found)),
        toml::Value::Float(_) if !is_sourced => found.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn a_probe_writes_a_profile_that_simulates_explores_and_validates() {
    let folder = tempfile::tempdir().unwrap();
    let seconds = SECONDS.to_string();
    let started = Instant::now();
    let options = [
        "--json",
        "--out",
        "here.toml",
        "--runs",
        "runs.csv",
        "--points",
        "points.csv",
        "--time-limit",
        &seconds,
        // Prediction errors on a loaded machine are not tested here.
        "--max-error",
        "1000000",
    ];
    let Some(outcome) = probed(folder.path(), &options) else { return };
    assert!(started.elapsed() < MAX_PROBE_TIME, "{:?}", started.elapsed());
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(document["device"], "here");
    let content = fs::read_to_string(folder.path().join("here.toml")).unwrap();
    let kept = folder.path().join(DATA_HOME).join("coexec/last-probe.toml");
    assert_eq!(fs::read_to_string(kept).unwrap(), content);
    let profile: toml::Table = content.parse().unwrap();
    let peak = value(&profile, &["memory", "peak_bandwidth_gbps"]);
    for capacity in profile["memory"]["concurrent_bandwidth_gbps"].as_array().unwrap() {
        assert!(capacity["value"].as_float().unwrap() <= peak);
    }
    for mechanism in ["blocking_finish", "event_wait", "svm_polling", "sleep_then_poll"] {
        assert!(value(&profile, &["sync", mechanism, "notification_us"]) >= 0.0);
    }
    let mut found = Vec::new();
    unsourced(&toml::Value::Table(profile), "", false, &mut found);
    assert_eq!(found, [""; 0], "values without a source");
    for line in [
        "simulate vit-b32-fc1 --device here.toml",
        "explore vit-b32-fc1 --device here.toml --library coexec",
        "simulate mobilenet-v2 --device here.toml",
        "validate --profile here.toml --runs runs.csv --format coexec",
        "calibrate --base here.toml --runs runs.csv --format coexec --no-residual --out again.toml",
    ] {
        let outcome = coexec_in(folder.path(), line.split_whitespace());
        assert_eq!(outcome.status, DONE, "{line}: {}", outcome.stderr);
    }
    assert!(fs::read_to_string(folder.path().join("points.csv")).unwrap().lines().count() > 10);
}

#[test]
fn a_profile_that_is_not_to_be_trusted_does_not_become_that_of_run() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = probe(folder.path(), &["--out", "here.toml", "--time-limit", "1", "--max-error", "0"], &[]);
    if !folder.path().join("here.toml").exists() {
        eprintln!("skipped: {}", outcome.stderr);
        return;
    }
    assert_eq!(outcome.status, UNSOUND, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("unless --device names it"), "{}", outcome.stderr);
    assert!(!folder.path().join(DATA_HOME).exists());
}

#[test]
fn without_a_library_or_a_driver_it_ends_with_status_4_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = [
        [("OPENCL_DYLIB_PATH", "/nonexistent/libOpenCL.so"), ("OCL_ICD_VENDORS", "/nonexistent")],
        [("OCL_ICD_FILENAMES", ""), ("OCL_ICD_VENDORS", "/nonexistent")],
    ];
    for environment in nowhere {
        let outcome = probe(folder.path(), &["--out", "here.toml"], &environment);
        assert_eq!(outcome.status, ABSENT, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("help: ") && outcome.stdout.is_empty(), "{}", outcome.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_unknown_device_is_named_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = probe(folder.path(), &["--out", "here.toml", "--opencl", "nobody:s"], &[]);
    assert_eq!(outcome.status, ABSENT, "{}", outcome.stderr);
}

#[test]
fn more_cores_than_there_are_and_names_with_spaces_are_wrong_input() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = probe(folder.path(), &["--out", "here.toml", "--name", "my phone"], &[]);
    outcome.assert_refused(&["my phone", "--name"]);
    let outcome = probe(folder.path(), &["--out", "here.toml", "--gpu-cores", "1000"], &[]);
    if outcome.status != ABSENT {
        outcome.assert_refused(&["1000", "--gpu-cores"]);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
