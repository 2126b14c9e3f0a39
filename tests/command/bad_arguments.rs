//! Invalid arguments are refused with status 1, without touching a file.

use std::fs;
use std::path::Path;

use crate::{coexec, coexec_in, words};

fn refused(line: &str, expected: &[&str]) {
    coexec(words(line)).assert_refused(expected);
}

/// Asserts that `line` is refused in a folder whose only file is `old`, and leaves
/// the folder unchanged.
fn leaves_the_folder_alone(line: &str, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old"), "old").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    coexec_in(folder.path(), words(line)).assert_refused(expected);
    assert_eq!(fs::read_to_string(folder.path().join("old")).unwrap(), "old");
    assert_eq!(entries(folder.path()), ["folder", "old"], "{line}");
    assert_eq!(entries(&folder.path().join("folder")), [""; 0], "{line}");
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_misspelt_name_is_answered_with_the_nearest() {
    refused("explore vit-b32-fc", &["no scenario named \"vit-b32-fc\"", "did you mean \"vit-b32-fc1\"?"]);
    refused("explore vit-b32-fc1 --device pixle4", &["no device profile", "did you mean \"pixel4\"?"]);
    refused("devices pixle4", &["did you mean \"pixel4\"?"]);
    refused("explore retinaface", &["did you mean \"codl-retinaface\"?"]);
}

#[test]
fn an_npu_that_a_phone_lacks_is_not_used() {
    refused("explore vit-b32-fc1 --device pixel4 --strategy npu-only", &["pixel4 has no NPU"]);
    refused("simulate vit-b32-fc1 --device xiaomi9 --strategy npu-only", &["xiaomi9 has no NPU"]);
}

#[test]
fn an_option_that_cannot_be_is_named() {
    refused("explore vit-b32-fc1 --threads 99", &["--threads is 99", "at most 8", "oneplus11"]);
    refused("explore vit-b32-fc1 --threads 4294967295", &["--threads is 4294967295"]);
    refused("explore vit-b32-fc1 --step 0", &["--step is 0", "at least 1"]);
}

#[test]
fn energy_is_not_minimised_where_power_is_unknown() {
    let profile = include_str!("../../device-profiles/pixel4.toml");
    let (before, rest) = profile.split_once("[power]").unwrap();
    let (_, after) = rest.split_once("[jitter]").unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("phone.toml"), format!("{before}[jitter]{after}")).unwrap();
    let line = "explore vit-b32-fc1 --device phone.toml --objective energy";
    let expected = ["--objective is \"energy\"", "expected \"latency\"", "pixel4 has no [power] table"];
    coexec_in(folder.path(), words(line)).assert_refused(&expected);
}

#[test]
fn options_without_effect_are_refused() {
    for option in [
        "--threads 1",
        "--step 8",
        "--effort quick",
        "--confidence 0.5",
        "--profile-error 1",
        "--library ruy",
    ] {
        let name = option.split(' ').next().unwrap();
        refused(&format!("explore llama3.2-1b --device snapdragon-8gen3 {option}"), &[name, "leave"]);
    }
    refused("simulate llama3.2-1b --device snapdragon-8gen3 --threads 1", &["--threads"]);
    refused("reproduce EPEW25 --data data", &["--data", "EdgeSys24"]);
    let column = "validate --profile pixel4 --runs tiny.txt --format benchmark-model --device-column pixel4";
    refused(column, &["--device-column", "leave it out"]);
    refused("explore camera-and-assistant --confidence 0.5", &["--confidence is for models"]);
    for line in ["simulate vit-b32-fc1", "run vit-b32-fc1 --out runs.csv"] {
        refused(&format!("{line} --strategy all"), &["--strategy all compares plans", "coexec explore"]);
    }
}

#[test]
fn parser_errors_have_the_same_status() {
    for line in [
        "",
        "explain",
        "explore",
        "explore vit-b32-fc1 --threads many",
        "explore vit-b32-fc1 --threads 0",
        "explore vit-b32-fc1 --batch 0",
        "explore vit-b32-fc1 --objective speed",
        "explore vit-b32-fc1 --operator fc1",
        "simulate vit-b32-fc1 --samples 1000001",
        "simulate vit-b32-fc1 --samples 0",
        "simulate vit-b32-fc1 --seed 7",
        "simulate vit-b32-fc1 --seed -1",
        "calibrate --base pixel4 --runs runs.csv --out a.toml --date yesterday",
        "calibrate --base pixel4 --runs runs.csv --out a.toml --date 2026-02-29",
        "probe --out a.toml --date 2026-1-1",
        // A plan sets all of these; accepting the option would hide that it has no effect.
        "simulate vit-b32-fc1 --plan plan.toml --objective energy",
        "schema profiles",
    ] {
        let outcome = coexec(words(line));
        assert_eq!((outcome.status, outcome.stdout.as_str()), (1, ""), "{line}: {}", outcome.stderr);
        assert_ne!(outcome.stderr, "", "{line}");
    }
    for line in ["--help", "--version", "explore --help"] {
        assert_eq!(coexec(words(line)).status, 0, "{line}");
    }
}

#[test]
fn a_negative_number_is_refused_for_what_it_is() {
    for (line, expected) in [
        ("explore vit-b32-fc1 --profile-error -5", "--profile-error"),
        ("explore vit-b32-fc1 --threads -1", "expected a count from 1 on, or all"),
        ("simulate vit-b32-fc1 --samples 2 --seed -1", "--seed"),
        ("explore vit-b32-fc1 --jobs -1", "--jobs"),
    ] {
        let outcome = coexec(words(line));
        assert_eq!(outcome.status, 1, "{line}");
        assert!(outcome.stderr.contains("invalid value '-"), "{line}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{line}: {}", outcome.stderr);
    }
}

#[test]
fn what_a_plan_says_is_changed_there() {
    let expected = ["--synchronisation", "edit `synchronisation` in plan.toml"];
    refused("simulate vit-b32-fc1 --plan plan.toml --synchronisation event-wait", &expected);
    refused("run vit-b32-fc1 --out runs.csv --plan plan.toml --synchronisation event-wait", &expected);
}

#[test]
fn a_missing_schema_kind_is_refused_with_the_choices() {
    let outcome = coexec(words("schema"));
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr.contains("<profile|scenario|plan|runs>"), "{}", outcome.stderr);
}

#[test]
fn a_set_of_operators_has_no_one_plan() {
    refused("simulate codl-conv", &["codl-conv is a set of 171 single operators"]);
    leaves_the_folder_alone("explore codl-conv --threads 1 --out old", &["no single plan or timeline"]);
    for strategy in ["gpu-only", "all", "random", "optimal", "delegate-gpu"] {
        let expected = [&*format!("strategy {strategy} does not apply"), "channel-split"];
        refused(&format!("explore codl-conv --strategy {strategy}"), &expected);
    }
    refused("explore codl-conv --effort quick", &["--effort is of the strategy optimal"]);
}

#[test]
fn a_picture_of_no_known_format_is_not_drawn() {
    for (line, expected) in [
        ("explore vit-b32-fc1 --plot curve.pdf", "curve.pdf: its name must end in .svg or .png"),
        ("explore vit-b32-fc1 --timeline curve", "--timeline <FILE>"),
        ("simulate vit-b32-fc1 --plot run.jpg", "run.jpg"),
    ] {
        coexec(words(line)).assert_misused(&[expected]);
    }
}

#[test]
fn a_picture_of_no_operator_is_not_drawn() {
    let line = "explore vit-b32-fc1 --out old --plot curve.svg --operator fc2";
    leaves_the_folder_alone(line, &["no such operator", "--operator is \"fc2\"", "can be cut: fc1"]);
    let line = "explore vit-b32-mlp --out old --plot curve.svg --operator mlp.linear3";
    leaves_the_folder_alone(line, &["did you mean \"mlp.linear1\"?"]);
}

#[test]
fn without_its_folder_no_file_is_written() {
    leaves_the_folder_alone(
        "explore vit-b32-fc1 --out missing/plan.toml",
        &["cannot write", "no folder missing"],
    );
    leaves_the_folder_alone("explore vit-b32-fc1 --out old --plot missing/curve.svg", &["no folder missing"]);
    leaves_the_folder_alone("explore vit-b32-fc1 --out old --trace missing/run", &["no folder missing"]);
    leaves_the_folder_alone("simulate vit-b32-fc1 --plot a.svg --trace missing/run", &["no folder missing"]);
}

#[test]
fn only_regular_files_are_replaced() {
    leaves_the_folder_alone("explore vit-b32-fc1 --out folder", &["cannot write folder", "regular file"]);
    leaves_the_folder_alone("simulate vit-b32-fc1 --trace old/run", &["cannot write old/run"]);
}

#[cfg(unix)]
#[test]
fn a_device_of_the_system_is_not_replaced() {
    coexec(words("explore vit-b32-fc1 --out /dev/null")).assert_refused(&["/dev/null", "regular file"]);
}
