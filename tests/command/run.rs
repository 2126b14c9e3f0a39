//! `run`: measuring on this machine. For plans see `run_plans`, for failures `run_hazards`.
//!
//! Without an `OpenCL` device, the tests that need one are skipped with a message; with
//! `COEXEC_REQUIRE_OPENCL=1` they fail instead.

use std::fs;
use std::path::Path;
use std::process::Command;

use coexec_fit::measure::runs::read;

use crate::{DATA_HOME, Outcome, coexec_in, words};

/// A small operator.
const SMALL: &str = "\
title = \"a small linear layer\"
device = \"pixel4\"
[[operator]]
name = \"fc\"
linear = { rows = 12, input_features = 40, output_features = 48 }
";
/// Two of them, one after the other.
const CHAIN: &str = "\
title = \"two small convolutions\"
device = \"pixel4\"
[[operator]]
name = \"first\"
conv2d = { input = [8, 8, 16], output_channels = 32, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = \"second\"
conv2d = { input = [8, 8, 32], output_channels = 16, kernel = [1, 1] }
";
/// An operator that takes more than a third of a second on any device of a few cores.
const LONG: &str = "\
title = \"a large linear layer\"
device = \"pixel4\"
[[operator]]
name = \"fc\"
linear = { rows = 4096, input_features = 4096, output_features = 4096 }
";
/// An operator that reads half a gigabyte.
const LARGE: &str = "\
title = \"a large image\"
device = \"pixel4\"
[[operator]]
name = \"depthwise\"
depthwise_conv2d = { input = [4096, 4096, 8], kernel = [1, 1] }
";
/// Accepts any spread: times vary widely while other tests use the machine.
pub(super) const ANY_SPREAD: &str = "--max-spread 1000";

/// Scenarios by name.
const SCENARIOS: [(&str, &str); 4] =
    [("small.toml", SMALL), ("chain.toml", CHAIN), ("long.toml", LONG), ("large.toml", LARGE)];

pub(super) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in SCENARIOS {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// Runs the command with environment variables.
pub(super) fn coexec_with(folder: &Path, settings: &[(&str, &str)], line: &str) -> Outcome {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("coexec"));
    command
        .args(words(line))
        .current_dir(folder)
        .env("XDG_DATA_HOME", folder.join(DATA_HOME))
        .envs(settings.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Outcome {
        status: output.status.code().expect("no signal ended the command"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Whether there is a device that can be divided in two; prints why not otherwise.
pub(super) fn has_device() -> bool {
    let folder = folder();
    let outcome = coexec_in(
        folder.path(),
        words("run small.toml --device pixel4 --threads 1 --repetitions 5 --out probe.csv --max-spread 1000"),
    );
    if outcome.status == 4 {
        let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
        assert!(!required, "{}", outcome.stderr);
        eprintln!("skipped: {}", outcome.stderr);
        return false;
    }
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    true
}

/// Asserts that the command exited with `status`, an error with a remedy that contains each of
/// `expected`, and no file.
pub(super) fn assert_failed(folder: &Path, outcome: &Outcome, status: i32, expected: &[&str]) {
    assert_eq!(outcome.status, status, "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.contains("help: "), "{}", outcome.stderr);
    for words in expected {
        assert!(outcome.stderr.contains(words), "{words:?} is not in: {}", outcome.stderr);
    }
    assert_nothing_written(folder);
}

pub(super) fn assert_nothing_written(folder: &Path) {
    let names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|name| !SCENARIOS.iter().any(|(scenario, _)| scenario == name))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

/// The scenario names `device = "pixel4"`, but this machine is not a Pixel 4.
#[test]
fn an_unmeasured_machine_has_no_predictions() {
    let folder = folder();
    let run = |options: &str| {
        let line = format!("run small.toml {options} --repetitions 5 --out runs.csv --json {ANY_SPREAD}");
        coexec_in(folder.path(), words(&line))
    };
    let outcome = run("--strategy cpu-only --threads 1");
    assert!(outcome.stderr.contains("coexec probe"), "{}", outcome.stderr);
    let document = outcome.json();
    assert_eq!(document["device"], "this-machine");
    assert_eq!(document["variants"].as_array().unwrap().len(), 1);
    assert!(document["variants"][0]["median_us"].as_f64().unwrap() > 0.0);
    assert!(document["variants"][0]["predicted_us"].is_null() && document["choices"].is_null());
    run("--strategy optimal").assert_refused(&["no plan can be found", "probe"]);

    let kept = folder.path().join(DATA_HOME).join("coexec");
    fs::create_dir_all(&kept).unwrap();
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/device-profiles/moto-edge-plus-2022.toml");
    fs::copy(profile, kept.join("last-probe.toml")).unwrap();
    let outcome = run("--strategy cpu-only --threads 1");
    assert!(outcome.stderr.contains("last-probe.toml"), "{}", outcome.stderr);
    let document = outcome.json();
    assert_eq!(document["device"], "moto-edge-plus-2022");
    assert!(document["variants"][0]["predicted_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn cores_alone_are_measured_without_any_device() {
    let folder = folder();
    let line = format!(
        "run small.toml --device pixel4 --strategy cpu-only --threads 1 --repetitions 7 --out runs.csv --json {ANY_SPREAD}"
    );
    let nowhere = [("OPENCL_DYLIB_PATH", "/nonexistent/libOpenCL.so")];
    let outcome = coexec_with(folder.path(), &nowhere, &line);
    let document = outcome.json();
    let variants = document["variants"].as_array().unwrap();
    assert_eq!(variants.len(), 1, "{document}");
    assert_eq!(variants[0]["processor"], "1large");
    assert!(variants[0]["predicted_us"].as_f64().unwrap() > 0.0);
    assert!(variants[0]["verified_elements"].as_u64().unwrap() >= 2 * 12 * 48);
    let table = read(&folder.path().join("runs.csv")).unwrap();
    assert_eq!((table.measurements.len(), table.left_out.len()), (1, 0));
    assert_eq!(table.measurements[0].repetitions.len(), 7, "every repetition is kept");
    let fingerprint = &table.fingerprints[0];
    assert_eq!(table.measurements[0].fingerprint.as_ref(), Some(&fingerprint.id));
    assert!(fingerprint.driver.is_none() && fingerprint.affinity.is_some(), "{fingerprint:?}");
}

#[test]
fn both_processors_and_the_plan_are_measured_and_read_back() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let line = format!(
        "run chain.toml --device pixel4 --threads 1 --repetitions 6 --seed 3 --out runs.csv --json {ANY_SPREAD}"
    );
    let document = coexec_in(folder.path(), words(&line)).json();
    let variants = document["variants"].as_array().unwrap();
    let ran = |what: &str, processor: &str| {
        variants.iter().any(|variant| {
            variant["what"] == what && variant["processor"].as_str().unwrap().starts_with(processor)
        })
    };
    for (what, processor) in [
        ("chain", "gpu"),
        ("chain", "1large"),
        ("first", "gpu"),
        ("first", "1large"),
        ("second", "gpu"),
        ("second", "1large"),
    ] {
        assert!(ran(what, processor), "{what} on {processor}: {document}");
    }
    let validated =
        coexec_in(folder.path(), words("validate --profile pixel4 --format coexec --json --runs runs.csv"));
    assert_eq!(validated.json()["unusable"].as_array().unwrap().len(), 0, "{}", validated.stdout);
    // The plan is written next to the runs and can be used as input again.
    let line = format!(
        "run chain.toml --device pixel4 --threads 1 --repetitions 5 --plan runs.plan.toml --out again.csv --json {ANY_SPREAD}"
    );
    assert_eq!(coexec_in(folder.path(), words(&line)).status, 0);
}

#[test]
fn the_chosen_cut_is_compared_with_all_measured_cuts() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let line = format!(
        "run small.toml --device pixel4 --threads 1 --strategy any-split --splits 1 --repetitions 5 --out runs.csv --json {ANY_SPREAD}"
    );
    let document = coexec_in(folder.path(), words(&line)).json();
    let variants = document["variants"].as_array().unwrap();
    for cut in ["1large:24+gpu:24", "1large:6rows+gpu:6rows"] {
        assert!(variants.iter().any(|variant| variant["processor"] == cut), "{cut}: {document}");
    }
    let choices = &document["choices"];
    assert_eq!(choices["operators"], 1, "{choices}");
    let reached = choices["reached_percent"].as_f64().unwrap();
    assert!(reached <= 100.0 + 1e-9, "the chosen is among those measured: {choices}");
}

/// Whether two measurements of a variant agree: their intervals, each widened by the noise
/// floor that the command printed, overlap.
fn agree(one: &serde_json::Value, other: &serde_json::Value, variant: usize) -> bool {
    let known = |document: &serde_json::Value| {
        let row = &document["variants"][variant];
        let [median, low, high] =
            [&row["median_us"], &row["ci95_us"][0], &row["ci95_us"][1]].map(|value| value.as_f64().unwrap());
        let noise = document["noise_floor"]["spread_percent"].as_f64().unwrap() / 100.0 * median;
        (median, (median - low).max(high - median) + noise)
    };
    let ((one, one_known), (other, other_known)) = (known(one), known(other));
    (one - other).abs() <= one_known + other_known
}

#[test]
fn measuring_the_same_again_agrees_within_the_intervals_and_the_noise_floor() {
    // Other tests use the cores at times: each variant has to agree with itself in one of
    // several pairs.
    const MEASUREMENTS: usize = 5;
    if !has_device() {
        return;
    }
    let folder = folder();
    let mut documents: Vec<serde_json::Value> = Vec::new();
    for number in 0..MEASUREMENTS {
        let line = format!(
            "run small.toml --device pixel4 --threads 1 --splits 1 --repetitions 25 --seed 7 --out runs{number}.csv --json {ANY_SPREAD}"
        );
        documents.push(coexec_in(folder.path(), words(&line)).json());
        let names = |document: &serde_json::Value| -> Vec<String> {
            let variants = document["variants"].as_array().unwrap();
            variants.iter().map(|variant| variant["processor"].to_string()).collect()
        };
        let variants = names(&documents[0]);
        assert_eq!(names(&documents[number]), variants, "the same is measured");
        let repeats = |variant: usize| {
            let pairs = (0..number).flat_map(|one| (one + 1..=number).map(move |other| (one, other)));
            pairs.into_iter().any(|(one, other)| agree(&documents[one], &documents[other], variant))
        };
        if number > 0 && (0..variants.len()).all(repeats) {
            return;
        }
    }
    panic!("no two of {MEASUREMENTS} measurements agree: {documents:?}");
}

#[test]
fn an_operator_is_also_cut_where_no_search_would() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let line = format!(
        "run small.toml --device pixel4 --threads 1 --splits 3 --repetitions 5 --out runs.csv --json {ANY_SPREAD}"
    );
    let document = coexec_in(folder.path(), words(&line)).json();
    let variants = document["variants"].as_array().unwrap();
    let processors: Vec<&str> =
        variants.iter().map(|variant| variant["processor"].as_str().unwrap()).collect();
    for cut in ["1large:12+gpu:36", "1large:24+gpu:24", "1large:36+gpu:12"] {
        assert_eq!(processors.iter().filter(|processor| **processor == cut).count(), 1, "{processors:?}");
    }
}

#[test]
fn a_set_of_operators_is_measured_one_by_one_until_the_time_is_over() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let line = format!(
        "run epew-conv --device pixel4 --strategy gpu-only --repetitions 5 --time-limit 3 --out runs.csv --json {ANY_SPREAD}"
    );
    let outcome = coexec_in(folder.path(), words(&line));
    let document = outcome.json();
    let variants = document["variants"].as_array().unwrap();
    assert!(!variants.is_empty() && variants.len() < 100, "{}", variants.len());
    assert!(variants.iter().all(|variant| variant["processor"] == "gpu"));
    for is_by_host in [true, false] {
        let timed = variants.iter().filter(|variant| variant["is_by_host"] == is_by_host);
        assert_eq!(timed.count(), variants.len() / 2, "each by events and by the host");
    }
    assert!(outcome.stderr.contains("groups unmeasured"), "{}", outcome.stderr);
}

#[test]
fn few_repetitions_have_no_interval_and_are_told_from_others_by_processor_in_every_part_of_a_wide_table() {
    let folder = folder();
    let name = "a_linear_layer_whose_name_leaves_little_room_in_a_table";
    fs::write(folder.path().join("wide.toml"), SMALL.replace("\"fc\"", &format!("\"{name}\""))).unwrap();
    let line = "run wide.toml --device pixel4 --strategy cpu-only --threads 1 --repetitions 5 --out runs.csv --max-spread 0";
    let outcome = coexec_in(folder.path(), words(line));
    assert_eq!(outcome.status, 0, "no spread of five is too wide: {}", outcome.stderr);
    let rows: Vec<&str> = outcome.stdout.lines().filter(|line| line.contains(name)).collect();
    assert!(rows.len() > 1 && rows.iter().all(|row| row.contains(" 1large ")), "{}", outcome.stdout);
    assert!(outcome.stdout.contains(" of 5\n"), "{}", outcome.stdout);
    let variant = &coexec_in(folder.path(), words(line).chain(["--json"])).json()["variants"][0];
    assert!(variant["ci95_us"].is_null() && variant["spread_percent"].is_null(), "{variant}");
    assert!(variant["meaningless"].is_null() && variant["repetitions"] == 5, "{variant}");
}

#[test]
fn times_that_spread_too_far_are_kept_but_refused() {
    let folder = folder();
    let line = "run small.toml --device pixel4 --strategy cpu-only --threads 1 --repetitions 20 --out runs.csv --max-spread 0";
    let outcome = coexec_in(folder.path(), words(line));
    // With a coarse clock, the interval of a median may have no width.
    if outcome.status != 0 {
        assert_eq!(outcome.status, 3, "{}", outcome.stderr);
        assert!(outcome.stderr.contains("its median is only known to"), "{}", outcome.stderr);
        let table = read(&folder.path().join("runs.csv")).unwrap();
        assert_eq!(table.measurements[0].repetitions.len(), 20);
        assert!(
            outcome.stdout.contains(" 20 of 20 "),
            "the table says what the file does: {}",
            outcome.stdout
        );
        assert!(
            table.measurements[0].repetitions.iter().all(|repetition| repetition.outlier),
            "in no median"
        );
    }
}
