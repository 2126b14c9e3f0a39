//! Predictions for chips without any run, frozen before they were compared with measurements: the
//! bundled profiles still make them. If this fails, see `data/frozen/README.md`; the frozen files
//! never change.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use assert_cmd::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// The files of predicted times on NPUs, and the files of those that later rules changed.
const NPU_FILES: [&str; 7] = [
    "predicted.csv",
    "phones-npu.csv",
    "npu-2026-11-29.csv",
    "npu-2026-11-30.csv",
    "npu-2026-11-30-rows.csv",
    "npu-2026-11-30-refit.csv",
    "npu-2026-11-30-bytes.csv",
];
/// The file of predicted times of bundled networks on CPU and GPU, and the files of those that later
/// rules changed.
const NETWORK_FILES: [&str; 6] = [
    "phones-networks.csv",
    "phones-networks-2026-11-27.csv",
    "phones-networks-2026-11-28.csv",
    "phones-networks-2026-11-30.csv",
    "phones-networks-2026-11-30-pixels.csv",
    "phones-networks-2026-11-30-inputs.csv",
];
/// Relative tolerance, in addition to half of the last digit: mathematical functions round differently
/// on other machines.
const MARGIN: f64 = 1e-6;
const HALF_A_DIGIT_US: f64 = 0.05;

/// Predicted microseconds by device, graph and format, or device, network and strategy.
type Times = BTreeMap<[String; 3], f64>;

/// A folder of measurements that lists every graph in every format, with placeholder times. Graphs that
/// `data/aihub` has corrected since are used as they were on the day of the predictions.
fn wanted() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("graphs")).unwrap();
    let mut table = "family,graph,chip,device,runtime,precision,time_us,unit,tool_versions,date,origin,\
                     input_checked,job_id\n"
        .to_owned();
    for graph in fs::read_dir(Path::new(ROOT).join("data/aihub/graphs")).unwrap() {
        let path = graph.unwrap().path();
        let of_that_day = Path::new(ROOT).join("data/frozen/graphs").join(path.file_name().unwrap());
        let source = if of_that_day.exists() { &of_that_day } else { &path };
        fs::copy(source, folder.path().join("graphs").join(path.file_name().unwrap())).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap();
        for format in ["float", "w8a8", "w8a16"] {
            writeln!(table, ",{name},any,,qnn_dlc,{format},1,npu,,,head,head spec,{name}-{format}").unwrap();
        }
    }
    fs::write(folder.path().join("measurements.csv"), table).unwrap();
    folder
}

fn predicted(folder: &Path, device: &str) -> Times {
    let written = tempfile::tempdir().unwrap();
    let points = written.path().join("points.csv");
    Command::new(assert_cmd::cargo::cargo_bin!("coexec"))
        .args(["validate", "--profile", device, "--format", "ai-hub", "--device-column", "any", "--quiet"])
        .arg("--runs")
        .arg(folder)
        .arg("--points")
        .arg(&points)
        .assert()
        .success();
    let content = fs::read_to_string(points).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let format = cells[0].rsplit('/').next().unwrap();
        ([device, cells[1], format].map(str::to_owned), cells[6].parse().unwrap())
    };
    content.lines().skip(1).map(row).collect()
}

/// The frozen predictions of a file.
fn frozen(file: &str) -> Times {
    let content = fs::read_to_string(Path::new(ROOT).join("data/frozen").join(file)).unwrap();
    let row = |line: &str| {
        let (key, micros) = line.rsplit_once(',').unwrap();
        let key: Vec<String> = key.split(',').map(str::to_owned).collect();
        (key.try_into().unwrap(), micros.parse().unwrap())
    };
    content.lines().skip(1).map(row).collect()
}

fn assert_same(frozen: &Times, now: &Times) {
    assert!(frozen.keys().eq(now.keys()), "{} frozen, {} predicted", frozen.len(), now.len());
    for (key, frozen) in frozen {
        let off = (now[key] - frozen).abs();
        assert!(
            off <= HALF_A_DIGIT_US + MARGIN * frozen,
            "{key:?}: {frozen} us were frozen, now {}",
            now[key]
        );
    }
}

#[test]
fn the_bundled_profiles_predict_what_was_frozen_of_npus() {
    let folder = wanted();
    let frozen: Times = NPU_FILES.into_iter().flat_map(frozen).collect();
    let devices: BTreeSet<&str> = frozen.keys().map(|[device, ..]| device.as_str()).collect();
    assert_same(&frozen, &devices.iter().flat_map(|device| predicted(folder.path(), device)).collect());
}

#[test]
fn the_bundled_profiles_predict_what_was_frozen_of_networks_on_cpu_and_gpu() {
    let frozen: Times = NETWORK_FILES.into_iter().flat_map(frozen).collect();
    let predicted = |key: &[String; 3]| {
        let [device, network, strategy] = key;
        let output = Command::new(assert_cmd::cargo::cargo_bin!("coexec"))
            .args(["simulate", network, "--device", device, "--strategy", strategy, "--json", "--quiet"])
            .output()
            .unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (key.clone(), answer["prediction"]["latency_ps"].as_f64().unwrap() / 1e6)
    };
    assert_same(&frozen, &frozen.keys().map(predicted).collect());
}
