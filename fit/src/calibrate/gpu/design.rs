//! Experimental design: the launches of a GPU whose measurement informs most about all others.
//!
//! Before any run, the log time of a launch is uncertain by its kernel's parameters and by the residual
//! of the kernel's equations. Both are Gaussian here, with standard deviations as measured phones
//! differ (six-phone study). The design is greedy and A-optimal: each step takes the
//! launch that most lowers the weighted sum of all variances. It needs no measured time, only the
//! equations' derivatives.
//!
//! Responsible for: that choice. Not for: the fit to the measurements, whose prior is wider so that a
//! poor base does not bind it. Invariant: no randomness; equal candidates give equal choices, and a
//! prefix of a design is the design of that length.

use std::collections::HashMap;

use nalgebra::{DMatrix, DVector};

use super::deviations;
use crate::measure::{family, grouped};
use crate::validate::gpu::predict;
use crate::validate::interval::slope;
use coexec_sim::device::gpu::Features;
use coexec_sim::kernel::gpu::{execute, features};
use coexec_sim::workload::{fuse, network, networks};
use coexec_sim::{Gpu, KernelTable, Layer};

/// Kinds of parameters: a part of their keys, and the prior deviations of the log parameter, first that
/// shared by all kernels of a device, then each kernel's own.
const KINDS: [(&str, f64, f64); 4] = [
    ("launch", deviations::LAUNCHES, 0.22),
    ("latency", deviations::LATENCIES, 0.64),
    ("throughput", deviations::THROUGHPUT, 0.74),
    ("bytes", deviations::TRAFFIC, 0.57),
];
/// Prior deviation of a log parameter of any other kind, each kernel's own.
const OTHER_DEVIATION: f64 = 0.69;
/// Residual of the equations: deviation that similar launches share, the length scale of that
/// similarity in units of features, and each launch's own deviation (nugget).
const RESIDUAL_DEVIATION: f64 = 0.17;
const LENGTH_SCALE: f64 = 7.1;
const NUGGET_DEVIATION: f64 = 0.09;
/// Noise of one run of a launch: standard deviation of its log time.
const NOISE_DEVIATION: f64 = 0.065;
/// The same for a run of a whole network.
const NETWORK_NOISE_DEVIATION: f64 = 0.03;

/// A measurement of the design.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Index of the candidate.
    pub candidate: usize,
    /// Expected error of all candidates after this measurement and those before it: root mean square of
    /// the log error, weighted by how often each candidate occurs.
    pub left: f64,
}

/// A candidate with the sensitivity of its time to its kernel's parameters.
struct Launch {
    table: KernelTable,
    features: Features,
    /// Predicted time, in microseconds.
    micros: f64,
    /// Key of each parameter, and the derivative of the log time by the log parameter.
    slopes: Vec<(&'static str, f64)>,
}

/// The layers of the bundled networks, repeated as often as they occur.
pub(crate) fn bundled_layers() -> impl Iterator<Item = Layer> {
    let graphs = networks().filter_map(|(name, _)| network(name));
    graphs.flat_map(|graph| fuse(&graph)).map(|stage| stage.layer)
}

/// The distinct launches of the bundled networks that belong to an [operation family](family) and read
/// one tensor, each with how often it occurs.
pub fn candidates() -> Vec<(Layer, f64)> {
    let counts = |layer: &Layer| family(&layer.operator).is_some() && layer.operator.inputs().len() == 1;
    let bare = |layer: Layer| (Layer::new(layer.operator, layer.data_type), ());
    let occurrences = grouped(bundled_layers().filter(counts).map(bare));
    occurrences.into_iter().map(|(layer, times)| (layer, times.len() as f64)).collect()
}

/// The `count` most informative of `candidates` (each with how often it occurs) to measure on `gpu` in
/// addition to `measured`, the best first; fewer where `gpu` cannot run that many.
pub fn design(gpu: &Gpu, candidates: &[(Layer, f64)], measured: &[Layer], count: usize) -> Vec<Choice> {
    let all = candidates.iter().map(|(layer, _)| layer).chain(measured);
    let runs = |(index, layer)| Some((index, launch(gpu, layer)?));
    let (places, launches): (Vec<usize>, Vec<Launch>) = all.enumerate().filter_map(runs).unzip();
    let mut covariance = covariance(&launches);
    for place in (0..launches.len()).filter(|&place| places[place] >= candidates.len()) {
        observe(&mut covariance, place, NOISE_DEVIATION);
    }
    let occurs = |place: usize| candidates.get(places[place]).map_or(0.0, |(_, occurs)| *occurs);
    let occurs = DVector::from_fn(launches.len(), |place, _| occurs(place));
    let chosen = greedy(covariance, &occurs, NOISE_DEVIATION, count).into_iter();
    chosen.map(|(place, left)| Choice { candidate: places[place], left }).collect()
}

/// The `count` most informative of these networks to time as a whole on `gpu` in addition to the
/// launches `measured`, the best first. Empty where `gpu` has no host path; networks that it cannot run
/// are not chosen.
pub fn design_networks(gpu: &Gpu, of: &[Vec<Layer>], measured: &[Layer], count: usize) -> Vec<Choice> {
    let Some(host) = &gpu.host else { return Vec::new() };
    let (mut launches, mut place_of): (Vec<Launch>, HashMap<&Layer, Option<usize>>) = Default::default();
    for layer in measured.iter().chain(of.iter().flatten()) {
        place_of.entry(layer).or_insert_with(|| {
            launches.push(launch(gpu, layer)?);
            Some(launches.len() - 1)
        });
    }
    let mut known = covariance(&launches);
    for place in measured.iter().filter_map(|layer| place_of[layer]) {
        observe(&mut known, place, NOISE_DEVIATION);
    }
    // A network's time is a sum: the derivative of its log by the log of a summand is the summand's share.
    let (submit_us, gap_us) = (host.submit_us.value + host.read_back_us.value, host.gap_us.value);
    let rows = of.iter().enumerate().filter_map(|(index, layers)| {
        let places: Option<Vec<usize>> = layers.iter().map(|layer| place_of[layer]).collect();
        let places = places?;
        let kernels_us = places.iter().map(|&place| launches[place].micros).sum::<f64>();
        let gaps_us = gap_us * places.len() as f64;
        let whole_us = submit_us + gaps_us + host.kernel_factor.value * kernels_us;
        let mut parts = DVector::zeros(launches.len());
        for place in places {
            parts[place] += host.kernel_factor.value * launches[place].micros / whole_us;
        }
        let of_host =
            [deviations::INFERENCE * submit_us, deviations::GAPS * gaps_us, deviations::KERNELS * kernels_us];
        Some((index, parts, of_host.map(|us| us / whole_us)))
    });
    let rows: Vec<(usize, DVector<f64>, [f64; 3])> = rows.collect();
    let covariance = DMatrix::from_fn(rows.len(), rows.len(), |row, column| {
        let [(_, one, of_one), (_, other, of_other)] = [&rows[row], &rows[column]];
        one.dot(&(&known * other)) + product(of_one, of_other)
    });
    let alike = DVector::from_element(rows.len(), 1.0);
    let chosen = greedy(covariance, &alike, NETWORK_NOISE_DEVIATION, count).into_iter();
    chosen.map(|(row, left)| Choice { candidate: rows[row].0, left }).collect()
}

/// Greedy A-optimal design: the `count` observations that, one after another, most lower the weighted
/// sum of variances, each with the root of the weighted mean variance after it. Only candidates that
/// occur are chosen.
fn greedy(
    mut covariance: DMatrix<f64>,
    occurs: &DVector<f64>,
    noise: f64,
    count: usize,
) -> Vec<(usize, f64)> {
    let mut chosen: Vec<(usize, f64)> = Vec::new();
    while chosen.len() < count {
        let gain = |place: usize| {
            let column = covariance.column(place);
            column.component_mul(&column).dot(occurs) / (column[place] + noise.powi(2))
        };
        let open = (0..occurs.len()).filter(|&place| occurs[place] > 0.0);
        let open = open.filter(|&place| chosen.iter().all(|(other, _)| *other != place));
        let Some(best) = open.max_by(|&one, &other| gain(one).total_cmp(&gain(other))) else { break };
        observe(&mut covariance, best, noise);
        chosen.push((best, (covariance.diagonal().dot(occurs) / occurs.sum()).sqrt()));
    }
    chosen
}

/// Conditions the covariance on one noisy observation.
fn observe(covariance: &mut DMatrix<f64>, place: usize, noise: f64) {
    let column = covariance.column(place).clone_owned();
    let variance = column[place] + noise.powi(2);
    covariance.ger(-variance.recip(), &column, &column, 1.0);
}

/// A layer as a candidate; none where the GPU has no kernel for it.
fn launch(gpu: &Gpu, layer: &Layer) -> Option<Launch> {
    let execution = execute(layer, gpu).ok()?;
    let table = execution.detail.kernel.table();
    let micros = predict(layer, gpu).ok()?;
    let mut bare = gpu.without_residual();
    let keys: Vec<&str> = bare.parameters_mut(table)?.quantities.into_iter().map(|(key, _)| key).collect();
    let slope = |(place, key)| (key, slope(&mut bare, (table, place), layer));
    let slopes = keys.into_iter().enumerate().map(slope).collect();
    Some(Launch { table, features: features(layer, &execution.detail, gpu), micros, slopes })
}

/// Prior covariance of the log times of launches.
fn covariance(launches: &[Launch]) -> DMatrix<f64> {
    // Loadings of each launch: on the common shift, on the shift of each kind of parameter in all
    // kernels, and on each parameter of its own kernel.
    let loadings = launches.iter().map(|launch| {
        let mut shared = [0.0; KINDS.len() + 1];
        let mut own = Vec::new();
        for (key, slope) in &launch.slopes {
            let kind = KINDS.iter().position(|(kind, ..)| key.contains(kind));
            // Where all times rise, a parameter that shortens them as it rises falls.
            shared[0] += deviations::COMMON * slope.abs();
            if let Some(kind) = kind {
                shared[1 + kind] += KINDS[kind].1 * slope;
            }
            own.push(slope * kind.map_or(OTHER_DEVIATION, |kind| KINDS[kind].2));
        }
        (shared, own)
    });
    let loadings: Vec<([f64; KINDS.len() + 1], Vec<f64>)> = loadings.collect();
    DMatrix::from_fn(launches.len(), launches.len(), |row, column| {
        let [one, other] = [&launches[row], &launches[column]];
        let shared = product(&loadings[row].0, &loadings[column].0);
        if one.table != other.table {
            return shared;
        }
        let squares = one.features.iter().zip(&other.features).map(|(a, b)| (a - b).powi(2));
        let alike = (-squares.sum::<f64>().sqrt() / LENGTH_SCALE).exp();
        let nugget = if row == column { NUGGET_DEVIATION.powi(2) } else { 0.0 };
        let residual = RESIDUAL_DEVIATION.powi(2) * alike + nugget;
        shared + product(&loadings[row].1, &loadings[column].1) + residual
    })
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::Profile;
    use coexec_sim::workload::{Conv2d, DataType, Operator, Shape, Window};

    fn gpu() -> Gpu {
        coexec_sim::input::from_toml(include_str!("../../../../sim/tests/golden/gpu_pixel4.toml")).unwrap()
    }

    fn candidates() -> Vec<(Layer, f64)> {
        let conv = |channels: u32, size: u32| {
            let conv = Conv2d::new(Shape::image(size, size, channels), channels, Window::valid(1));
            Layer::new(Operator::Conv2d(conv), DataType::F32)
        };
        let sizes = [7, 14, 28, 56, 112];
        sizes.into_iter().flat_map(|size| [16, 64, 256].map(|channels| (conv(channels, size), 1.0))).collect()
    }

    #[test]
    fn each_choice_is_another_launch_and_leaves_less() {
        let chosen = design(&gpu(), &candidates(), &[], 6);
        assert_eq!(chosen.len(), 6);
        assert!(chosen.windows(2).all(|pair| pair[1].left < pair[0].left), "{chosen:?}");
        assert_eq!(design(&gpu(), &candidates(), &[], 3), chosen[..3]);
        assert_eq!(design(&gpu(), &candidates(), &[], 1_000).len(), candidates().len());
    }

    #[test]
    fn a_measured_layer_is_not_the_best_to_measure_next() {
        let candidates = candidates();
        let first = design(&gpu(), &candidates, &[], 2);
        let measured = [candidates[first[0].candidate].0.clone()];
        let next = design(&gpu(), &candidates, &measured, 1);
        assert_ne!(next[0].candidate, first[0].candidate);
        assert!(next[0].left < first[0].left);
    }

    #[test]
    fn networks_are_chosen_that_differ() {
        let mut gpu = Profile::load("pixel4").unwrap().gpu.unwrap();
        let [small, large] = [16, 256].map(|channels| {
            let conv = Conv2d::new(Shape::image(56, 56, channels), channels, Window::valid(3));
            vec![Layer::new(Operator::Conv2d(conv), DataType::F32); 20]
        });
        let of = [small.clone(), small, large];
        let chosen = design_networks(&gpu, &of, &[], 3);
        assert_eq!(chosen.len(), 3);
        assert!(chosen[1].left < chosen[0].left);
        // Measuring the same network twice informs less than measuring another.
        assert_ne!(of[chosen[0].candidate], of[chosen[1].candidate]);
        gpu.host = None;
        assert!(design_networks(&gpu, &of, &[], 3).is_empty());
    }
}
