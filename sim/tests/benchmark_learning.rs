//! Learning curves of six phones' GPUs on the mobile-ml-benchmark data set. Skipped,
//! and it says so, where the data are not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;

use coexec_sim::calibrate::gpu::prior::{Phone, Prior};
use coexec_sim::calibrate::learning::{FLOPS_LINEAR, LearningPoint, Options, Series, learning_curve};
use coexec_sim::device::profile::Profile;
use coexec_sim::measure::benchmark_gpu::read;

/// Phone, and the largest MAPE of convolutions of unseen shapes, in percent, after 30
/// and after 100 random ones: what the reference implementation of the model reached.
const PHONES: [(&str, f64, f64); 6] = [
    ("pixel4", 15.0, 11.4),
    ("s10", 12.0, 8.9),
    ("mi8se", 8.5, 5.2),
    ("a03s", 7.7, 7.6),
    ("iphone7", 11.0, 7.3),
    ("iphonexs", 9.1, 6.2),
];

/// Splits whose errors are averaged: one's figures move with its networks.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The data folder: where the environment says, or beside the repository.
fn data() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/mobile-ml-benchmark");
    let folder = std::env::var_os("COEXEC_BENCHMARK_DATA").map_or_else(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    println!("SKIPPED: no data in {}; set COEXEC_BENCHMARK_DATA", folder.display());
    None
}

fn profiles() -> Vec<Profile> {
    PHONES.iter().map(|(name, ..)| Profile::load(name).unwrap()).collect()
}

fn phone(profile: &Profile) -> Phone<'_> {
    Phone { gpu: profile.gpu.as_ref().unwrap(), memory: &profile.memory }
}

/// Mean over splits and draws.
fn mean(points: &[LearningPoint], series: &str, rows: usize) -> f64 {
    let found: Vec<f64> = points
        .iter()
        .filter(|point| point.series == series && point.rows == rows)
        .map(|point| point.mape_percent)
        .collect();
    found.iter().sum::<f64>() / found.len() as f64
}

#[test]
fn a_hundred_measured_convolutions_suffice_on_six_phones() {
    let Some(folder) = data() else { return };
    let profiles = profiles();
    for (index, (name, ..)) in PHONES.iter().enumerate() {
        let runs = read(&folder, name).unwrap().runs;
        let others: Vec<Phone<'_>> =
            profiles.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, p)| phone(p)).collect();
        let own = phone(&profiles[index]);
        let hardware = Prior::Hardware.centre(own, &runs).unwrap();
        let lent = Prior::Profiles(others).centre(own, &runs).unwrap();
        let series = [Series::physics("hardware", &hardware), Series::physics("profiles", &lent)];
        let mut points = Vec::new();
        for seed in SEEDS {
            let options = Options { seed, ..Options::default() };
            let mut curve = learning_curve(&runs, &series, &options, &|_, _| ());
            for point in &mut curve {
                if point.rows > 300 {
                    point.rows = 9999;
                }
            }
            points.extend(curve);
        }
        for series in ["hardware", "profiles", FLOPS_LINEAR] {
            let figures: Vec<String> = [10, 30, 100, 300, 9999]
                .map(|rows| format!("{rows}: {:.2}", mean(&points, series, rows)))
                .to_vec();
            println!("{name:9} {series:12} {}", figures.join("  "));
        }
    }
}
