//! Fit of the learned correction of a GPU: kernel ridge regression of the residuals of the
//! fitted equations, table by table.
//!
//! Invariant: a table is corrected only where that lowers the error of layers whose networks
//! the correction has not seen.

use std::collections::{HashMap, HashSet};

use nalgebra::{DMatrix, DVector};

use super::deal;
use super::fit::{Sample, samples};
use super::kernel_ridge::{Examples, Normal, Smoothness, representatives, smoothness};
use crate::measure::GpuRun;
use crate::measure::draw::shuffled;
use coexec_sim::Operator;
use coexec_sim::device::gpu::{Feature, Features, Gpu, KernelTable, LOG_FACTOR_RANGE, Points, ResidualTable};
use coexec_sim::kernel::gpu::{execute, features};
use coexec_sim::statistics::rounded;

/// Fewest distinct layers to learn from, and fewest held-out layers over all folds.
const MIN_LAYERS: usize = 20;
const MIN_HELD_OUT: usize = 8;

/// Largest number of examples in one search for length scales.
const SEARCH_EXAMPLES: usize = 250;

/// Inducing points of a table: one per this many layers, within bounds. Twice as many
/// lower the MAPE by about 0.1 percentage points.
const LAYERS_PER_POINT: usize = 3;
const MIN_POINTS: usize = 40;
const MAX_POINTS: usize = 240;

/// Inducing points per additional point, which has no weight but an own deviation.
const POINTS_PER_REPEATED: usize = 4;

/// Smallest range of a feature that counts, in its length scales.
const MIN_VARIATION: f64 = 0.15;

/// Folds, by network, of the decision whether a correction helps.
const FOLDS: usize = 4;

/// Runs of a launch from which its own deviation is distinguished from the noise of a run.
const MIN_REPEATS: f64 = 2.0;

/// Weights are logarithms, rounded to multiples of the reciprocal of this: 0.01 %.
const WEIGHT_UNIT: f64 = 1e4;
/// Significant digits of a length scale.
const SCALE_DIGITS: i32 = 3;

/// The correction of the residuals of `gpu`'s equations on the runs that they were fitted to, and its
/// mean absolute log error on held-out layers; none where it does not lower that error.
pub(super) fn fit_table(
    gpu: &Gpu,
    table: KernelTable,
    runs: &[&GpuRun],
    seed: u64,
) -> Option<(ResidualTable, f64)> {
    let samples = samples(runs);
    if samples.len() < MIN_LAYERS {
        return None;
    }
    let examples = examples(gpu, &samples)?;
    let order = shuffled(0..samples.len(), seed, 0);
    let part = order.len().div_ceil(order.len().div_ceil(SEARCH_EXAMPLES));
    let parts: Vec<Vec<usize>> = order.chunks(part).map(<[usize]>::to_vec).collect();
    let mut smoothness = smoothness(&examples, &parts);
    let features = varying(&mut smoothness, &examples);
    let most = (samples.len() / LAYERS_PER_POINT).clamp(MIN_POINTS, MAX_POINTS);
    let chosen = representatives(&examples, &smoothness, most);
    let points = examples.subset(&chosen);
    let among = smoothness.similarities(&points.features, &points.features);
    let alike = smoothness.similarities(&points.features, &examples.features);
    let normal = Normal::new(&alike, &examples, &smoothness);
    let folds = held_out(&samples, runs, seed);
    let error = lowered_error(&normal, &alike, &among, &examples, &smoothness, &folds)?;
    let weights = normal.weights(&among, smoothness.variance)?;
    let mut corrected = ResidualTable {
        table,
        length_scales: features
            .iter()
            .map(|&feature| rounded(smoothness.rates[feature as usize].recip(), SCALE_DIGITS))
            .collect(),
        features,
        weights: weights.iter().map(|weight| (weight * WEIGHT_UNIT).round() / WEIGHT_UNIT).collect(),
        points: Points::default(),
        own: Vec::new(),
    };
    let smooth = alike.tr_mul(&weights);
    let places: Vec<Vec<i16>> = examples.features.iter().map(|features| corrected.point(features)).collect();
    let most = most / POINTS_PER_REPEATED;
    let repeated = examples.subset(&repeated(&examples, (&chosen, &places), &smooth, most));
    corrected.weights.extend(repeated.features.iter().map(|_| 0.0));
    let points = points.features.iter().chain(&repeated.features);
    corrected.points = points.map(|features| corrected.point(features)).collect::<Vec<_>>().into();
    corrected.own = own(&corrected, &examples, &smooth, &smoothness);
    Some((corrected, error))
}

/// The repeated launches beside the `chosen` points whose runs deviate most, in total, from the `smooth`
/// correction: points without a weight, with an own deviation. No two points have the same place, as
/// the own deviations of a place add up.
fn repeated(
    examples: &Examples,
    (chosen, places): (&[usize], &[Vec<i16>]),
    smooth: &DVector<f64>,
    most: usize,
) -> Vec<usize> {
    let is_repeated = |index: &usize| examples.runs[*index] >= MIN_REPEATS;
    let deviation = |index: usize| examples.runs[index] * (examples.residuals[index] - smooth[index]).abs();
    let mut repeated: Vec<usize> = (0..examples.runs.len()).filter(is_repeated).collect();
    repeated.sort_by(|&a, &b| deviation(b).total_cmp(&deviation(a)));
    let mut taken: HashSet<&Vec<i16>> = chosen.iter().map(|&index| &places[index]).collect();
    repeated.retain(|&index| taken.insert(&places[index]));
    repeated.truncate(most);
    repeated
}

/// The own deviation of the launch of each point from the `smooth` correction of
/// the examples, shrunk by the noise of its runs; 0 for a launch that was not repeated.
fn own(
    table: &ResidualTable,
    examples: &Examples,
    smooth: &DVector<f64>,
    smoothness: &Smoothness,
) -> Vec<f64> {
    let mut of_point: HashMap<Vec<i16>, (f64, f64)> = HashMap::new();
    for (index, features) in examples.features.iter().enumerate() {
        let (runs, beyond) = of_point.entry(table.point(features)).or_default();
        *runs += examples.runs[index];
        *beyond += examples.runs[index] * (examples.residuals[index] - smooth[index]);
    }
    let of_repeated = |point: &Vec<i16>| match of_point.get(point) {
        Some(&(runs, beyond)) if runs >= MIN_REPEATS => smoothness.shrinkage(runs) * beyond / runs,
        _ => 0.0,
    };
    table.points.rows().iter().map(|point| (of_repeated(point) * WEIGHT_UNIT).round() / WEIGHT_UNIT).collect()
}

/// The layers with the residuals of the equations; none where a layer has no prediction.
fn examples(gpu: &Gpu, samples: &[Sample<'_>]) -> Option<Examples> {
    let mut examples = Examples::default();
    for sample in samples {
        let execution = execute(sample.layer, gpu).ok()?;
        let residual = sample.log_us - execution.phases.duration().as_micros().ln();
        examples.features.push(features(sample.layer, &execution.detail, gpu));
        examples.residuals.push(residual.clamp(-LOG_FACTOR_RANGE, LOG_FACTOR_RANGE));
        examples.runs.push(sample.runs());
    }
    Some(examples)
}

/// The features that vary by at least [`MIN_VARIATION`] length scales; the rates of the
/// others are set to 0.
fn varying(smoothness: &mut Smoothness, examples: &Examples) -> Vec<Feature> {
    let range = |feature: Feature| {
        let values = || examples.features.iter().map(|features: &Features| features[feature as usize]);
        values().fold(f64::NEG_INFINITY, f64::max) - values().fold(f64::INFINITY, f64::min)
    };
    let (varying, constant): (Vec<Feature>, Vec<Feature>) = Feature::ALL
        .iter()
        .partition(|&&feature| range(feature) * smoothness.rates[feature as usize] >= MIN_VARIATION);
    for feature in constant {
        smoothness.rates[feature as usize] = 0.0;
    }
    varying
}

/// The samples that each fold holds out: those whose operator occurs only in networks of
/// that fold.
fn held_out(samples: &[Sample<'_>], runs: &[&GpuRun], seed: u64) -> Vec<Vec<usize>> {
    let of_fold = |fold: &HashSet<&str>| -> Vec<usize> {
        let others = runs.iter().filter(|run| !fold.contains(run.network.as_str()));
        let elsewhere: HashSet<&Operator> = others.map(|run| &run.what.operator).collect();
        let is_held_out = |&index: &usize| !elsewhere.contains(&samples[index].layer.operator);
        (0..samples.len()).filter(is_held_out).collect()
    };
    let folds = deal(runs.iter().map(|run| run.network.as_str()), FOLDS, seed);
    folds.iter().map(of_fold).filter(|held_out| !held_out.is_empty()).collect()
}

/// The cross-validated mean error of the correction, where it is lower than that of the equations
/// alone; none where it is not, or too few layers are held out.
fn lowered_error(
    normal: &Normal,
    alike: &DMatrix<f64>,
    among: &DMatrix<f64>,
    examples: &Examples,
    smoothness: &Smoothness,
    folds: &[Vec<usize>],
) -> Option<f64> {
    if folds.iter().map(Vec::len).sum::<usize>() < MIN_HELD_OUT {
        return None;
    }
    let (mut corrected, mut uncorrected, mut all) = (0.0, 0.0, 0.0);
    for fold in folds {
        let held_out = examples.subset(fold);
        let to_points = alike.select_columns(fold);
        let others = normal.without(&Normal::new(&to_points, &held_out, smoothness));
        let weights = others.weights(among, smoothness.variance)?;
        let residuals = DVector::from_column_slice(&held_out.residuals);
        let runs = DVector::from_column_slice(&held_out.runs);
        uncorrected += residuals.abs().dot(&runs);
        corrected += (residuals - to_points.tr_mul(&weights)).abs().dot(&runs);
        all += runs.sum();
    }
    (corrected < uncorrected).then_some(corrected / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_launches_that_deviate_most_are_points_of_their_own() {
        let examples = Examples {
            features: vec![Features::default(); 5],
            residuals: vec![-0.5, -0.5, 0.4, 0.3, 0.9],
            runs: vec![20.0, 30.0, 2.0, 10.0, 1.0],
        };
        let smooth = DVector::from_column_slice(&[0.0, -0.5, 0.0, 0.0, 0.0]);
        let places: Vec<Vec<i16>> = [0, 1, 2, 3, 4].map(|place| vec![place]).to_vec();
        let found = |chosen: &[usize], most| repeated(&examples, (chosen, &places), &smooth, most);
        assert_eq!(found(&[], 2), [0, 3], "the second is explained, the last was not repeated");
        assert_eq!(found(&[0], 9), [3, 2, 1]);
        let alike = [0, 0, 2, 2, 4].map(|place| vec![place]);
        assert_eq!(repeated(&examples, (&[], &alike), &smooth, 9), [0, 3], "a place counts once");
    }
}
