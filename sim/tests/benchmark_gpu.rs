//! Calibration of six phones' GPUs on the mobile-ml-benchmark data set, against
//! networks kept out of the fit. Skipped, and it says so, where the data are not.
//!
//! Each phone starts from the geometric mean of the other five phones' parameters,
//! so that nothing of its own times is in the prior. Its residency (waves per
//! compute unit) is taken as the profile has it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use coexec_sim::calibrate::gpu::{Options, calibrate};
use coexec_sim::device::gpu::{Gpu, KernelTable};
use coexec_sim::measure::GpuRun;
use coexec_sim::measure::benchmark_gpu::read;
use coexec_sim::validate::gpu::{Scored, validate};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

/// Phone, its GPU, and the largest MAPE of convolutions of unseen shapes, in
/// percent: what the reference implementation of the model reached on the mean of
/// three other splits (of 102 networks, 82 of which these are), and a tenth more.
const PHONES: [(&str, &str, f64); 6] = [
    ("pixel4", include_str!("golden/gpu_pixel4.toml"), 10.0),
    ("s10", include_str!("golden/gpu_s10.toml"), 10.0),
    ("mi8se", include_str!("golden/gpu_mi8se.toml"), 5.7),
    ("a03s", include_str!("golden/gpu_a03s.toml"), 6.1),
    ("iphone7", include_str!("golden/gpu_iphone7.toml"), 6.5),
    ("iphonexs", include_str!("golden/gpu_iphonexs.toml"), 6.4),
];

/// Networks kept out of the fit, of 82.
const HELD_OUT: usize = 20;
/// Seeds of the splits. One split's figures move by a third with the networks it
/// holds out, so the errors of several are pooled.
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

/// The phone with the geometric mean of the other phones' parameters.
fn uncalibrated(phone: &str) -> Gpu {
    let gpu = |text: &str| toml::from_str::<Gpu>(text).unwrap();
    let mut own = PHONES.iter().find(|(name, ..)| *name == phone).map(|(_, text, _)| gpu(text)).unwrap();
    let mut others: Vec<Gpu> =
        PHONES.iter().filter(|(name, ..)| *name != phone).map(|(_, text, _)| gpu(text)).collect();
    for table in KernelTable::ALL {
        let Some(parameters) = own.parameters_mut(table) else { continue };
        for (key, quantity) in parameters.quantities {
            let logs: Vec<f64> = others
                .iter_mut()
                .filter_map(|other| other.parameters_mut(table))
                .flat_map(|other| other.quantities)
                .filter(|(other, _)| *other == key)
                .map(|(_, quantity)| quantity.value.ln())
                .collect();
            // A parameter no other phone has keeps its value; so does one of a table of its own.
            if !logs.is_empty() {
                quantity.value = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
            }
        }
    }
    own
}

/// Splits the runs by network: those to fit, those held out.
fn split(runs: &[GpuRun], seed: u64) -> (Vec<GpuRun>, Vec<GpuRun>) {
    let mut networks: Vec<&str> = runs.iter().map(|run| run.network.as_str()).collect();
    networks.sort_unstable();
    networks.dedup();
    networks.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let held_out = &networks[..HELD_OUT];
    runs.iter().cloned().partition(|run| !held_out.contains(&run.network.as_str()))
}

/// The figures of a phone's held-out runs under a fit of the others.
fn scores(folder: &Path, phone: &str, seed: u64) -> Vec<Scored> {
    let table = read(folder, phone).unwrap();
    // On the iPhones, Metal runs ten pairs of operations in one kernel each.
    assert!(table.left_out.len() <= 20, "{:?}", table.left_out);
    assert_eq!(table.runs.len() + table.left_out.len(), 4603);
    let (fit, held_out) = split(&table.runs, seed);
    let options = Options { source: "test".to_owned(), folds: 0, seed, residual: true };
    let calibrated = calibrate(&uncalibrated(phone), &fit, &options, &|_| ());
    assert_eq!(calibrated.left_out, []);
    validate(&calibrated.gpu, &held_out, Some(&fit)).groups
}

/// The pooled MAPE of a group over splits, and its runs.
fn pooled(splits: &[Vec<Scored>], name: &str, figure: fn(&Scored) -> f64) -> (usize, f64) {
    let found = || splits.iter().flatten().filter(|scored| scored.group.name == name);
    let runs: usize = found().map(|scored| scored.group.n).sum();
    (runs, found().map(|scored| scored.group.n as f64 * figure(scored)).sum::<f64>() / runs as f64)
}

#[test]
fn convolutions_of_unseen_shapes_are_predicted_on_six_phones() {
    let Some(folder) = data() else { return };
    let mut failed = Vec::new();
    for (phone, _, limit) in PHONES {
        let splits: Vec<Vec<Scored>> = SEEDS.par_iter().map(|&seed| scores(&folder, phone, seed)).collect();
        let names: BTreeSet<&str> =
            splits.iter().flatten().map(|scored| scored.group.name.as_str()).collect();
        for name in names {
            let (runs, mape) = pooled(&splits, name, |scored| scored.group.mape_percent);
            let (_, linear) = pooled(&splits, name, |scored| scored.flops_linear_mape_percent.unwrap());
            println!("{phone:9} {name:28} {runs:4} runs, MAPE {mape:5.2} %, FLOPs-linear {linear:6.1} %");
        }
        let (_, conv) = pooled(&splits, "gpu/conv2d/unseen", |scored| scored.group.mape_percent);
        if conv.is_nan() || conv > limit {
            failed.push(format!("{phone}: {conv:.2} % > {limit} %"));
        }
    }
    assert_eq!(failed, [""; 0]);
}
