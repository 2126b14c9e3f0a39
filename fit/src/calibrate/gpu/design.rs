//! Which launches of a GPU to measure: those that tell most of the others.
//!
//! Before any run the logarithm of a launch's time is known up to what its kernel's parameters may be off and what the
//! equations leave; both are Gaussian here, with the deviations by which measured phones differ (few-runs study, sections
//! 3 and 4). The design is greedy and A-optimal: each launch is the one that lowers the weighted sum of all variances most. It
//! needs no measured time, only where the kernels' equations lean.
//!
//! Responsible for: that choice. Not for: the fit to what was measured, whose prior is wider so that a poor base does not bind
//! it. Invariant: no randomness; equal candidates give equal choices, in an order whose first ones are the best few.

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

/// What a parameter's key says it is, and the deviations of its logarithm: shared by the kernels of a device, and the kernel's own.
const KINDS: [(&str, f64, f64); 4] = [
    ("launch", deviations::LAUNCHES, 0.22),
    ("latency", deviations::LATENCIES, 0.64),
    ("throughput", deviations::THROUGHPUT, 0.74),
    ("bytes", deviations::TRAFFIC, 0.57),
];
/// The last of them is any other, which no two kernels share.
const OTHER_DEVIATION: f64 = 0.69;
/// What the equations leave: what launches that are alike share, over what distance in features, and each one's own.
const LEFT_DEVIATION: f64 = 0.17;
const LENGTH_SCALE: f64 = 7.1;
const OWN_DEVIATION: f64 = 0.09;
/// Deviation of one run.
const NOISE_DEVIATION: f64 = 0.065;
/// The same of a whole network.
const NETWORK_NOISE_DEVIATION: f64 = 0.03;

/// Something to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Which of the candidates.
    pub candidate: usize,
    /// Expected error of all candidates once it is measured, weighted by how often they occur: root of the mean square of
    /// logarithms.
    pub left: f64,
}

/// A candidate: its kernel, and how its time answers to parameters.
struct Launch {
    table: KernelTable,
    features: Features,
    /// Its time.
    micros: f64,
    /// Keys of the kernel's parameters, and the derivatives by their logarithms.
    slopes: Vec<(&'static str, f64)>,
}

/// The layers of the bundled networks, each as often as it occurs.
pub(crate) fn bundled_layers() -> impl Iterator<Item = Layer> {
    let graphs = networks().filter_map(|(name, _)| network(name));
    graphs.flat_map(|graph| fuse(&graph)).map(|stage| stage.layer)
}

/// The launches of the bundled networks that have a group of errors and read one tensor, and how often each occurs.
pub fn candidates() -> Vec<(Layer, f64)> {
    let counts = |layer: &Layer| family(&layer.operator).is_some() && layer.operator.inputs().len() == 1;
    let bare = |layer: Layer| (Layer::new(layer.operator, layer.data_type), ());
    let occurrences = grouped(bundled_layers().filter(counts).map(bare));
    occurrences.into_iter().map(|(layer, times)| (layer, times.len() as f64)).collect()
}

/// The `count` of `candidates`, each with how often it occurs, to measure on `gpu` where `measured` are known already, the
/// most telling first; fewer where there are no more that it can run.
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

/// The `count` of these networks to time on `gpu` as a whole once the launches `measured` are known, the most telling first.
/// None where it has no host path; those that it cannot run are no choice.
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
    // A network is a sum: each launch counts by its part of it, as does what the host adds.
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

/// The `count` observations, of those that occur, that lower the sum of variances most, one after another; what is left then.
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

/// What is known of all launches once one of them was measured.
fn observe(covariance: &mut DMatrix<f64>, place: usize, noise: f64) {
    let column = covariance.column(place).clone_owned();
    let variance = column[place] + noise.powi(2);
    covariance.ger(-variance.recip(), &column, &column, 1.0);
}

/// How a layer's time answers to parameters; none where the GPU has no kernel for it.
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

/// What is known of the launches before any run.
fn covariance(launches: &[Launch]) -> DMatrix<f64> {
    // By launch: what moves all times, what moves each kind of parameter in all kernels, and each parameter of its own.
    let answers = launches.iter().map(|launch| {
        let mut shared = [0.0; KINDS.len() + 1];
        let mut own = Vec::new();
        for (key, slope) in &launch.slopes {
            let kind = KINDS.iter().position(|(kind, ..)| key.contains(kind));
            // A throughput is no time: it falls where all times rise.
            shared[0] += deviations::COMMON * slope.abs();
            if let Some(kind) = kind {
                shared[1 + kind] += KINDS[kind].1 * slope;
            }
            own.push(slope * kind.map_or(OTHER_DEVIATION, |kind| KINDS[kind].2));
        }
        (shared, own)
    });
    let answers: Vec<([f64; KINDS.len() + 1], Vec<f64>)> = answers.collect();
    DMatrix::from_fn(launches.len(), launches.len(), |row, column| {
        let [one, other] = [&launches[row], &launches[column]];
        let shared = product(&answers[row].0, &answers[column].0);
        if one.table != other.table {
            return shared;
        }
        let squares = one.features.iter().zip(&other.features).map(|(a, b)| (a - b).powi(2));
        let alike = (-squares.sum::<f64>().sqrt() / LENGTH_SCALE).exp();
        let left = LEFT_DEVIATION.powi(2) * alike + if row == column { OWN_DEVIATION.powi(2) } else { 0.0 };
        shared + product(&answers[row].1, &answers[column].1) + left
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
    fn what_is_measured_already_is_not_the_best_to_measure() {
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
        // Twice the same tells less than another.
        assert_ne!(of[chosen[0].candidate], of[chosen[1].candidate]);
        gpu.host = None;
        assert!(design_networks(&gpu, &of, &[], 3).is_empty());
    }
}
