//! Calibration of six phones' GPUs on the mobile-ml-benchmark data set, against
//! networks kept out of the fit.
//!
//! Each phone starts from the geometric mean of the other five phones' parameters,
//! so that nothing of its own times is in the prior. Its residency (waves per
//! compute unit) is taken as the profile has it.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

use coexec_sim::calibrate::gpu::{Options, calibrate};
use coexec_sim::device::gpu::{Gpu, KernelTable, Residency, ResidentKernel};
use coexec_sim::device::profile::Calibration;
use coexec_sim::device::quantity::Quantity;
use coexec_sim::measure::GpuRun;
use coexec_sim::measure::benchmark_gpu::read;
use coexec_sim::validate::gpu::{Validation, validate};
use coexec_sim::validate::score::{Scored, coverage_percent};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// A phone of the data set, and the largest MAPE of convolutions of unseen shapes,
/// in percent.
struct Phone {
    name: &'static str,
    gpu: &'static str,
    physics_limit: f64,
    residual_limit: f64,
}

const fn phone(name: &'static str, gpu: &'static str, limits: [f64; 2]) -> Phone {
    Phone { name, gpu, physics_limit: limits[0], residual_limit: limits[1] }
}

/// The limits are what these splits reached when they were set, and a tenth more.
const PHONES: [Phone; 6] = [
    phone("pixel4", include_str!("../golden/gpu_pixel4.toml"), [10.0, 6.7]),
    phone("s10", include_str!("../golden/gpu_s10.toml"), [10.0, 7.6]),
    phone("mi8se", include_str!("../golden/gpu_mi8se.toml"), [5.7, 4.0]),
    phone("a03s", include_str!("../golden/gpu_a03s.toml"), [6.1, 5.8]),
    phone("iphone7", include_str!("../golden/gpu_iphone7.toml"), [6.5, 4.5]),
    phone("iphonexs", include_str!("../golden/gpu_iphonexs.toml"), [6.4, 5.0]),
];

/// Part of the unseen runs that 90 % intervals hold, in percent.
const COVERAGE: [f64; 2] = [85.0, 95.0];
/// Largest residual of a phone as TOML.
const MOST_RESIDUAL_BYTES: usize = 50_000;
/// Folds of the cross-validation inside a fit, which scales the intervals.
const FOLDS: usize = 5;

/// Networks kept out of the fit, of 82.
const HELD_OUT: usize = 20;
/// Seeds of the splits. One split's figures move by a third with the networks it
/// holds out, so the errors of several are pooled.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Waves of depthwise kernels that a compute unit keeps resident, chosen on the
/// cross-validated errors of these networks; the iPhones show no limit.
const DEPTHWISE_WAVES: [(&str, f64); 4] = [("pixel4", 16.0), ("s10", 48.0), ("mi8se", 16.0), ("a03s", 16.0)];

/// The phone with the geometric mean of the other phones' parameters.
fn uncalibrated(phone: &str) -> Gpu {
    let gpu = |text: &str| toml::from_str::<Gpu>(text).unwrap();
    let mut own = PHONES.iter().find(|other| other.name == phone).map(|own| gpu(own.gpu)).unwrap();
    let mut others: Vec<Gpu> =
        PHONES.iter().filter(|other| other.name != phone).map(|other| gpu(other.gpu)).collect();
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
    if let Some((_, waves)) = DEPTHWISE_WAVES.iter().find(|(name, _)| *name == phone) {
        // Tiles of the generic kernel and of the 3x3 one.
        own.residency.extend([1, 4].map(|tile_size| Residency {
            tile_size,
            kernel: ResidentKernel::Depthwise,
            waves: Quantity::plain(*waves),
        }));
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

/// The fit of a split's other networks, held against the networks it leaves out.
fn validated(folder: &Path, phone: &str, seed: u64) -> Validation {
    let table = read(folder, phone).unwrap();
    // On the iPhones, Metal runs ten pairs of operations in one kernel each.
    assert!(table.left_out.len() <= 20, "{:?}", table.left_out);
    assert_eq!(table.runs.len() + table.left_out.len(), 4603);
    let (fit, held_out) = split(&table.runs, seed);
    let options = Options { source: "test".to_owned(), folds: FOLDS, seed, residual: true };
    let start = Instant::now();
    let calibrated = calibrate(&uncalibrated(phone), &fit, &options, &|_| ());
    assert_eq!(calibrated.left_out, []);
    let residual = calibrated.gpu.residual.as_ref().unwrap();
    let bytes = toml::to_string(residual).unwrap().len();
    assert!(bytes <= MOST_RESIDUAL_BYTES, "{phone}: {bytes} bytes of residual");
    let points: usize = residual.table.iter().map(|table| table.points.len()).sum();
    println!("{phone:9} seed {seed}: {:.1?}, residual of {points} points, {bytes} bytes", start.elapsed());
    let calibration =
        Calibration { source: "test".to_owned(), gpu_table: calibrated.spreads, ..Calibration::default() };
    validate(&calibrated.gpu, Some(&calibration), &held_out, Some(&fit))
}

/// The mean of a figure of a group over splits, weighted by its runs, and its runs.
fn pooled(splits: &[Validation], name: &str, figure: fn(&Scored) -> Option<f64>) -> (usize, f64) {
    let found = splits.iter().flat_map(|split| &split.groups).filter(|scored| scored.group.name == name);
    let (mut runs, mut sum) = (0, 0.0);
    for scored in found {
        let Some(figure) = figure(scored) else { continue };
        runs += scored.group.n;
        sum += scored.group.n as f64 * figure;
    }
    (runs, sum / runs as f64)
}

/// Part of the unseen runs of all families that lie in their interval, in percent.
fn coverage(splits: &[Validation]) -> f64 {
    let unseen = splits.iter().flat_map(|split| &split.points).filter(|point| point.unseen);
    coverage_percent(unseen).unwrap()
}

fn print_figures(phone: &str, splits: &[Validation]) {
    let names: BTreeSet<&str> =
        splits.iter().flat_map(|split| &split.groups).map(|scored| scored.group.name.as_str()).collect();
    for name in names {
        let figure = |figure| pooled(splits, name, figure).1;
        println!(
            "{phone:9} {name:28} {:4} runs, MAPE {:5.2} %, physics {:5.2} %, FLOPs-linear {:6.1} %, \
             noise {:4.2} %, coverage {:3.0} %",
            pooled(splits, name, |scored| Some(scored.group.n as f64)).0,
            figure(|scored| Some(scored.group.mape_percent)),
            figure(|scored| scored.physics_mape_percent),
            figure(|scored| scored.flops_linear_mape_percent),
            figure(|scored| scored.repeat_noise_percent),
            figure(|scored| scored.interval_coverage_percent),
        );
    }
    println!("{phone:9} coverage of unseen runs of all families {:.1} %", coverage(splits));
}

#[test]
fn convolutions_of_unseen_shapes_are_predicted_on_six_phones() {
    let Some(folder) = crate::data() else { return };
    if !crate::is_optimised() {
        return;
    }
    let mut failed = Vec::new();
    let mut limit = |what: String, value: f64, [low, high]: [f64; 2]| {
        if !(low..=high).contains(&value) {
            failed.push(format!("{what} is {value:.2} %, expected {low} to {high} %"));
        }
    };
    for phone in &PHONES {
        let name = phone.name;
        let splits: Vec<Validation> = SEEDS.iter().map(|&seed| validated(&folder, name, seed)).collect();
        print_figures(name, &splits);
        let conv = |figure| pooled(&splits, "gpu/conv2d/unseen", figure).1;
        let physics = conv(|scored| scored.physics_mape_percent);
        let corrected = conv(|scored| Some(scored.group.mape_percent));
        limit(format!("{name}: MAPE of the physics"), physics, [0.0, phone.physics_limit]);
        limit(format!("{name}: MAPE with residual"), corrected, [0.0, phone.residual_limit]);
        limit(format!("{name}: coverage"), coverage(&splits), COVERAGE);
    }
    assert_eq!(failed, [""; 0]);
}
