//! `calibrate` and `validate` on synthetic runs, which the model predicts for a
//! phone slightly different from the base.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use coexec_fit::measure::benchmark_gpu;
use coexec_fit::validate::gpu::predict;
use coexec_sim::device::basis::Basis;
use coexec_sim::device::profile::Profile;

use crate::{Outcome, coexec_in, words};

const HEADER: &str = "model,operation,feature,phone|gpu|float,phone|gpu|kernel\n";

/// Rows of three networks, without times: convolutions, depthwise convolutions, a mean and
/// a fully connected layer.
fn rows() -> Vec<(String, &'static str, String, &'static str)> {
    let mut rows = Vec::new();
    for (number, side) in [28, 14, 56].into_iter().enumerate() {
        for channels in [16, 24, 40, 64, 96, 112, 160, 192, 256, 320] {
            let mut add = |operation, window: u32, filter: u32, kernel| {
                let feature = format!(
                    "\"{{'Input_shape': '{side}', 'Input_channel': {channels}, 'Output_shape': '{side}', \
                     'Stride': '1', 'Kernel': '{window}', 'Filter': '{filter}', 'Group': '1'}}\""
                );
                rows.push((format!("network{number}"), operation, feature, kernel));
            };
            add("CONV_2D", 1, 2 * channels, "convolution_2d_1_linked_:_relu_2");
            add("CONV_2D", 3, channels + 32, "convolution_2d_3");
            add("DEPTHWISE_CONV_2D", 5, 1, "depthwise_convolution_4_linked_:_relu_5");
            add("MEAN", 1, 1, "mean_6");
            add("FULLY_CONNECTED", 1, 1000 + channels, "fully_connected_7");
        }
    }
    rows
}

/// A table of [`rows`], with `time` called with the index of each.
pub(crate) fn table(time: impl Fn(usize) -> f64) -> String {
    let mut table = HEADER.to_owned();
    for (index, (network, operation, feature, kernel)) in rows().into_iter().enumerate() {
        let _ = writeln!(table, "{network},{operation},{feature},{},{kernel}", time(index));
    }
    table
}

/// Writes the runs of a phone whose launches and loops are slower than the
/// Pixel 4's, in the folder's `runs`.
pub(crate) fn write_runs(folder: &Path) {
    let runs = folder.join("runs");
    fs::create_dir(&runs).unwrap();
    let path = runs.join("tflite_cnn_ops_gpu.csv");
    fs::write(&path, table(|_| 1.0)).unwrap();
    let layers = benchmark_gpu::read(&runs, "phone").unwrap();
    assert_eq!(layers.left_out, []);
    let mut gpu = Profile::load("pixel4").unwrap().gpu.unwrap().without_residual();
    gpu.conv_generic.launch_us.value *= 1.8;
    gpu.conv_generic.latency_us.value *= 1.5;
    gpu.depthwise.throughput_tap_us.value *= 1.7;
    gpu.mean.throughput_us.value *= 0.6;
    gpu.fully_connected.latency_us.value *= 1.4;
    fs::write(&path, table(|index| predict(&layers.runs[index].what, &gpu).unwrap())).unwrap();
}

pub(crate) const CALIBRATE: &str =
    "calibrate --base pixel4 --runs runs --device-column phone --out phone.toml";

fn calibrate(folder: &Path) -> Outcome {
    coexec_in(folder, words(CALIBRATE).chain(["--json", "--date", "2024-05-01"]))
}

fn worst_mape(document: &serde_json::Value) -> f64 {
    let groups = document["groups"].as_array().unwrap();
    assert!(groups.len() >= 4, "{groups:?}");
    groups.iter().map(|group| group["mape_percent"].as_f64().unwrap()).fold(0.0, f64::max)
}

#[test]
fn calibration_recovers_the_phone_that_made_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_runs(folder);
    let validate = |profile| {
        let line = format!("validate --profile {profile} --runs runs --device-column phone --json");
        coexec_in(folder, words(&line)).json()
    };
    assert!(worst_mape(&validate("pixel4")) > 5.0);
    let report = calibrate(folder).json();
    // Means with a single trip count do not separate the time of a reduction step from that of the
    // launch.
    assert!(worst_mape(&validate("phone.toml")) < 2.0, "{}", validate("phone.toml"));

    let parameters = report["tables"][0]["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["key"] == "launch_us"), "{report}");
    let profile = Profile::load(folder.join("phone.toml").to_str().unwrap()).unwrap();
    let gpu = profile.gpu.as_ref().unwrap();
    assert_eq!([gpu.conv_generic.basis, gpu.elementwise.basis], [Basis::Measured, Basis::Assumed]);
    let launch = &gpu.conv_generic.launch_us;
    assert!(launch.ci95.is_some() && launch.source.as_ref().unwrap().contains("phone"), "{launch:?}");
    let calibration = profile.calibration.unwrap();
    assert_eq!(calibration.date.as_deref(), Some("2024-05-01"));
    assert!(calibration.source.contains("150 runs"), "{}", calibration.source);
    let errors: Vec<f64> = calibration.error.iter().map(|group| group.mape_percent).collect();
    assert!(!errors.is_empty() && errors.is_sorted_by(|a, b| a >= b), "worst first: {errors:?}");
}

#[test]
fn a_calibration_is_repeatable_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let written = |jobs: &str| {
        let outcome = coexec_in(folder.path(), words(CALIBRATE).chain(["--jobs", jobs, "--quiet"]));
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
        (outcome.stdout, fs::read(folder.path().join("phone.toml")).unwrap())
    };
    assert_eq!(written("1"), written("3"));
}

#[test]
fn shapes_that_were_not_seen_have_figures_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_runs(folder);
    let all = fs::read_to_string(folder.join("runs/tflite_cnn_ops_gpu.csv")).unwrap();
    // The layout in which the data set is published.
    let seen = folder.join("seen/dataset/cnn");
    fs::create_dir_all(&seen).unwrap();
    let kept: Vec<&str> = all.lines().filter(|line| !line.starts_with("network2")).collect();
    fs::write(seen.join("tflite_cnn_real_ops_gpu.csv"), kept.join("\n")).unwrap();
    let line = "validate --profile pixel4 --runs runs --seen seen --device-column phone";
    let document = coexec_in(folder, words(line).chain(["--json"])).json();
    assert_eq!(document["device"], "pixel4");
    let group = |name: &str| {
        let groups = document["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == name).cloned().unwrap_or_default()
    };
    assert_eq!((&group("gpu/conv2d/all")["n"], &group("gpu/conv2d/unseen")["n"]), (&60.into(), &20.into()));
    assert!(group("gpu/conv2d/unseen")["flops_linear_mape_percent"].as_f64().unwrap() > 0.0);
    // A fully connected layer has no spatial size: the third network's was seen.
    assert!(group("gpu/fully_connected/unseen").is_null());
    let text = coexec_in(folder, words(line)).stdout;
    assert!(text.contains("gpu/depthwise_conv2d/unseen") && text.contains("worst groups first"), "{text}");
}

#[test]
fn rows_that_cannot_be_used_are_counted_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_runs(folder);
    let path = folder.join("runs/tflite_cnn_ops_gpu.csv");
    let mut table = fs::read_to_string(&path).unwrap();
    table.push_str("network0,CONV_4D,{},1.0,convolution_4d\n");
    fs::write(&path, table).unwrap();
    let line = "validate --profile pixel4 --runs runs --device-column phone --json";
    let outcome = coexec_in(folder, words(line));
    assert!(
        outcome.stderr.contains("line 152: the operation \"CONV_4D\" is not known"),
        "{}",
        outcome.stderr
    );
    assert_eq!(outcome.json()["unusable"][0]["line"], 152);
}

#[test]
fn a_failed_calibration_leaves_the_old_profile() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("phone.toml"), "old").unwrap();
    coexec_in(folder, words(CALIBRATE)).assert_refused(&["runs", "tflite_cnn_ops_gpu.csv"]);
    fs::create_dir(folder.join("runs")).unwrap();
    fs::write(folder.join("runs/tflite_cnn_ops_gpu.csv"), HEADER).unwrap();
    coexec_in(folder, words(CALIBRATE)).assert_refused(&["no usable GPU run"]);
    let other = CALIBRATE.replace("--device-column phone", "--device-column pixel9");
    coexec_in(folder, words(&other)).assert_refused(&["--device-column", "pixel9", "phone"]);
    assert_eq!(fs::read_to_string(folder.join("phone.toml")).unwrap(), "old");
}
