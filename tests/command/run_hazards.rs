//! Failures of `run`: each ends with a message, and none leaves a partial file.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::run::{assert_failed, assert_nothing_written, coexec_with, folder, has_device};
use crate::{coexec_in, words};

#[test]
fn hardware_that_is_not_there_ends_with_status_4() {
    let folder = folder();
    let line = "run small.toml --device pixel4 --threads 1 --out runs.csv";
    let nowhere = [("OPENCL_DYLIB_PATH", "/nonexistent/libOpenCL.so")];
    let outcome = coexec_with(folder.path(), &nowhere, line);
    assert_failed(
        folder.path(),
        &outcome,
        4,
        &["no OpenCL library", "/nonexistent/libOpenCL.so", "cpu-only"],
    );
    if !has_device() {
        return;
    }
    let vendors = tempfile::tempdir().unwrap();
    let no_driver = [("OCL_ICD_VENDORS", vendors.path().to_str().unwrap())];
    let outcome = coexec_with(folder.path(), &no_driver, line);
    assert_failed(folder.path(), &outcome, 4, &["no platform", "install an OpenCL driver"]);
    let outcome = coexec_in(folder.path(), words(&format!("{line} --opencl 99:0")));
    assert_failed(folder.path(), &outcome, 4, &["no OpenCL platform \"99\"", "--opencl PLATFORM:DEVICE"]);
    let outcome = coexec_in(folder.path(), words(&format!("{line} --gpu-cores 100000")));
    assert_failed(folder.path(), &outcome, 1, &["sub-device of 100000"]);
}

#[test]
fn a_run_that_does_not_end_is_given_up_in_time() {
    if !has_device() {
        return;
    }
    let folder = folder();
    let started = Instant::now();
    let line =
        "run long.toml --device pixel4 --strategy gpu-only --run-limit 0.05 --out runs.csv --gpu-cores 1";
    let outcome = coexec_in(folder.path(), words(line));
    assert_failed(folder.path(), &outcome, 3, &["did not finish", "within 50 ms", "--run-limit"]);
    assert!(started.elapsed() < Duration::from_mins(2), "{:?}", started.elapsed());
}

#[test]
fn what_does_not_fit_into_the_device_s_memory_ends_with_status_3() {
    if !has_device() {
        return;
    }
    let folder = folder();
    // Only PoCL has this setting; other devices have enough memory.
    let one_gigabyte = [("POCL_MEMORY_LIMIT", "1")];
    let outcome = coexec_with(
        folder.path(),
        &one_gigabyte,
        "run large.toml --device pixel4 --strategy gpu-only --repetitions 5 --out runs.csv --max-spread 1000",
    );
    if outcome.status != 0 {
        assert_failed(folder.path(), &outcome, 3, &["out of memory on the OpenCL device", "536870912 bytes"]);
    }
}

fn start(folder: &Path, line: &str) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin!("coexec"))
        .args(words(line))
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_cleanly_and_leaves_no_half_written_file() {
    ends_cleanly_at_ctrl_c("cpu-only --threads 1");
    if has_device() {
        ends_cleanly_at_ctrl_c("gpu-only");
    }
}

#[cfg(unix)]
fn ends_cleanly_at_ctrl_c(strategy: &str) {
    let folder = folder();
    fs::write(folder.path().join("runs.csv"), "the old file").unwrap();
    let line = format!(
        "run small.toml --device pixel4 --strategy {strategy} --repetitions 100000 --max-spread 1000 --out runs.csv"
    );
    let mut child = start(folder.path(), &line);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    // The command has started to measure. On a GPU, warnings may come first.
    assert!(lines.any(|line| line.contains("1 of 1")));
    let interrupted = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let status = child.wait().unwrap();
    assert!(interrupted.elapsed() < Duration::from_secs(20), "{:?}", interrupted.elapsed());
    let printed: Vec<String> = lines.collect();
    assert_eq!(status.code(), Some(3), "{status} {printed:?}");
    assert!(printed.iter().any(|line| line.contains("cancelled")), "{printed:?}");
    assert_eq!(fs::read_to_string(folder.path().join("runs.csv")).unwrap(), "the old file");
    fs::remove_file(folder.path().join("runs.csv")).unwrap();
    assert_nothing_written(folder.path());
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let folder = folder();
    let refused = |line: &str, expected: &[&str]| {
        let outcome = coexec_in(folder.path(), words(line));
        assert_eq!(outcome.status, 1, "{}", outcome.stderr);
        for words in expected {
            assert!(outcome.stderr.contains(words), "{words:?} is not in: {}", outcome.stderr);
        }
        assert_nothing_written(folder.path());
    };
    refused("run small.toml --device pixel4 --out runs.csv --repetitions 2", &["5..=100000"]);
    refused("run small.toml --device pixel4 --out runs.csv --run-limit 0", &["seconds above 0"]);
    refused("run small.toml --device pixel4 --out missing/runs.csv", &["there is no folder missing"]);
    refused("run small.toml --device pixel4 --out runs.csv --cores 9huge", &["--cores", "large, med, small"]);
    refused("run small.toml --device pixel4 --out runs.csv --plan none.toml", &["cannot read none.toml"]);
    refused("run small.toml", &["--out"]);
    refused("run small.toml --device pixel4 --out small.toml", &["ends in .csv"]);
    refused("probe --out runs.csv", &["ends in .toml"]);
    let empty = ["run", "small.toml", "--out", "runs.csv", "--opencl", ""];
    let outcome = coexec_in(folder.path(), empty);
    assert!(outcome.status == 1 && outcome.stderr.contains("--opencl"), "{}", outcome.stderr);
}
