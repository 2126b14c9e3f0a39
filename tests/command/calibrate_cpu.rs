//! `calibrate` and `validate` on data that also contain CPU runs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use coexec_sim::device::profile::Profile;

use crate::{coexec_in, words};

/// Six networks of one convolution each, with times proportional to their
/// multiply-accumulates on one core, and half of that on two.
fn write_runs(folder: &Path) {
    let runs = folder.join("runs");
    fs::create_dir(&runs).unwrap();
    let mut gpu = "model,operation,feature,phone|gpu|float,phone|gpu|kernel\n".to_owned();
    let mut cpu = "model,phone|1med|float|mean,phone|1med|float|std,phone|2med|float|mean\n".to_owned();
    for channels in [32, 48, 64, 96, 128, 160] {
        let _ = writeln!(
            gpu,
            "net{channels},CONV_2D,\"{{'Input_shape': '224', 'Input_channel': 16, 'Output_shape': '224', \
             'Stride': '1', 'Kernel': '1', 'Filter': '{channels}', 'Group': '1'}}\",900,convolution_2d_0"
        );
        let micros = 1000 * channels;
        let _ = writeln!(cpu, "net{channels},{micros},20,{}", micros / 2);
    }
    cpu += "net0,soon,1,2\n";
    fs::write(runs.join("tflite_cnn_ops_gpu.csv"), gpu).unwrap();
    fs::write(runs.join("tflite_cnn_e2e.csv"), cpu).unwrap();
}

#[test]
fn cpu_runs_set_the_rates_of_their_cluster_and_are_validated() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let arguments = "calibrate --base pixel4 --runs runs --device-column phone --out phone.toml --json";
    let document = coexec_in(folder.path(), words(arguments)).json();
    let tables = document["cpu_tables"].as_array().unwrap();
    assert_eq!(tables.len(), 1, "{tables:?}");
    assert_eq!((&tables[0]["cluster"], &tables[0]["runs"]), (&"med".into(), &12.into()));
    assert!(document["unusable"].to_string().contains("soon"), "{}", document["unusable"]);

    let base = Profile::load("pixel4").unwrap().cpu;
    let fitted = Profile::load(folder.path().join("phone.toml").to_str().unwrap()).unwrap().cpu;
    assert_ne!(fitted.clusters[1].ruy_f32, base.clusters[1].ruy_f32);
    assert_eq!(fitted.clusters[2], base.clusters[2]);

    let arguments = "validate --profile phone.toml --runs runs --device-column phone --json";
    let document = coexec_in(folder.path(), words(arguments)).json();
    let groups = document["groups"].as_array().unwrap();
    for (name, n) in [("cpu/1med/float", 6), ("cpu/2med/float", 6), ("gpu/conv2d/all", 6)] {
        let group = groups.iter().find(|group| group["name"] == name).unwrap();
        assert_eq!(group["n"], n, "{group}");
    }
    let single = groups.iter().find(|group| group["name"] == "cpu/1med/float").unwrap();
    assert!(single["mape_percent"].as_f64().unwrap() < 15.0, "{single}");
    assert!(single["repeat_noise_percent"].as_f64().unwrap() > 0.0, "{single}");
}
