//! What choosing by prediction is worth, where several ways to run an operator were
//! measured.
//!
//! Responsible for: the way that is predicted to be the fastest, beside the fastest. Not
//! for: ways that nobody measured (`explore`). Invariant: all ways of an operator are of one
//! session, and compared as from the host's call until it knows of the end. Where only an
//! event timed a GPU alone, the profile's way there and back is added to it, in the measured
//! as in the predicted time; of a GPU with memory of its own, whose copies no event times,
//! such a time is left out.

use std::collections::HashMap;

use serde::Serialize;

use super::host_timed::predict;
use crate::measure::ByHost;
use crate::measure::runs::{ExecutedOn, Measurement};
use crate::validate::gpu;
use coexec_sim::device::profile::Profile;
use coexec_sim::kernel::cpu::Library;
use coexec_sim::simulate::Simulator;
use coexec_sim::workload::Layer;

/// Means over operators that were measured both cut and on each processor alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choices {
    /// How many, each once a session.
    pub operators: usize,
    /// Geometric mean of the fastest measured time over that of the way predicted to be the
    /// fastest, in percent: how much of the best speedup the choice reaches.
    pub reached_percent: f64,
    /// Geometric mean speedup of the choice over the faster processor alone.
    pub speedup: f64,
    /// The same of the fastest measured way.
    pub best_speedup: f64,
    /// What never cutting reaches, always on the faster processor: what the choice is
    /// worth without any prediction of cuts.
    pub uncut_percent: f64,
    /// Operators of which the choice reaches less than nine tenths of it.
    pub poor: usize,
}

/// Part of the best speedup below which a choice is a poor one.
const GOOD: f64 = 0.9;

/// A way to run an operator, in microseconds.
#[derive(Clone, Copy)]
struct Way {
    measured: f64,
    predicted: f64,
    is_alone: bool,
}

/// The worth of choosing among `measurements`; none where no operator was measured both
/// ways.
pub fn choices(profile: &Profile, measurements: &[Measurement], library: Library) -> Option<Choices> {
    let mut simulator = Simulator::new(profile, library).from_the_call();
    // Of [best over choice, faster processor over choice, faster processor over best].
    let mut ratios: Vec<[f64; 3]> = Vec::new();
    for group in by_operator(measurements) {
        let gpu: Vec<bool> = group.iter().filter_map(|run| by_host_on_gpu(run)).collect();
        let is_by_host = gpu.contains(&true);
        if !gpu.is_empty() && !is_by_host && profile.gpu.as_ref()?.memory.is_some() {
            continue;
        }
        let counted = group.into_iter().filter(|run| by_host_on_gpu(run).is_none_or(|by| by == is_by_host));
        let ways: Vec<Way> = counted.filter_map(|run| way(run, profile, &mut simulator)).collect();
        let fastest =
            |ways: &mut dyn Iterator<Item = &Way>| ways.map(|way| way.measured).min_by(f64::total_cmp);
        let Some(alone) = fastest(&mut ways.iter().filter(|way| way.is_alone)) else { continue };
        let Some(best) = fastest(&mut ways.iter()).filter(|_| ways.iter().any(|way| !way.is_alone)) else {
            continue;
        };
        let chosen = ways.iter().min_by(|one, other| one.predicted.total_cmp(&other.predicted))?.measured;
        ratios.push([best / chosen, alone / chosen, alone / best]);
    }
    let mean = |index: usize| {
        let logarithms = ratios.iter().map(|ratios| ratios[index].ln());
        (logarithms.sum::<f64>() / ratios.len() as f64).exp()
    };
    (!ratios.is_empty()).then(|| Choices {
        operators: ratios.len(),
        reached_percent: 100.0 * mean(0),
        speedup: mean(1),
        best_speedup: mean(2),
        uncut_percent: 100.0 / mean(2),
        poor: ratios.iter().filter(|[reached, ..]| *reached < GOOD).count(),
    })
}

/// Of an operator on the GPU alone: whether the host timed it, rather than an event.
fn by_host_on_gpu(measurement: &Measurement) -> Option<bool> {
    (measurement.processor == ExecutedOn::Gpu).then_some(measurement.synchronisation.is_some())
}

/// Measurements of one operator in one session.
fn by_operator(measurements: &[Measurement]) -> Vec<Vec<&Measurement>> {
    let (mut groups, mut places): (Vec<Vec<&Measurement>>, HashMap<_, usize>) = Default::default();
    for measurement in measurements.iter().filter(|measurement| measurement.operator.is_some()) {
        let key = (&measurement.fingerprint, &measurement.network, &measurement.operator);
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(measurement);
    }
    groups
}

/// None where the profile has no kernel for it, or every repetition was disturbed.
fn way(measurement: &Measurement, profile: &Profile, simulator: &mut Simulator<'_>) -> Option<Way> {
    let (_, layer) = measurement.operator.as_ref()?;
    let (layer, ran, synchronisation) =
        (layer.clone(), measurement.processor.clone(), measurement.synchronisation);
    let run = ByHost { layer, ran, synchronisation };
    let predicted = predict(&run, profile, simulator).ok()?;
    let is_by_event = by_host_on_gpu(measurement) == Some(false);
    let around = if is_by_event { predicted - kernel(&run.layer, profile)? } else { 0.0 };
    let measured = measurement.median_us()? + around;
    let is_alone = matches!(run.ran, ExecutedOn::Cpu(_) | ExecutedOn::Gpu);
    Some(Way { measured, predicted, is_alone })
}

/// What an event times of a layer on the GPU alone.
fn kernel(layer: &Layer, profile: &Profile) -> Option<f64> {
    gpu::predict(layer, profile.gpu.as_ref()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::runs::Repetition;
    use coexec_sim::plan::Axis;
    use coexec_sim::plan::synchronisation::Mechanism;
    use coexec_sim::workload::{DataType, Linear, Operator};

    fn measurement(features: u32, processor: ExecutedOn, measured_us: f64) -> Measurement {
        let linear = Linear { rows: 50, input_features: 768, output_features: features, bias: true };
        Measurement {
            run: format!("{features} on {processor}"),
            network: "set".to_owned(),
            operator: Some(("fc".to_owned(), Layer::new(Operator::Linear(linear), DataType::F32))),
            data_type: DataType::F32,
            processor,
            synchronisation: Some(Mechanism::SvmPolling),
            kernel: None,
            dispatch: None,
            fingerprint: None,
            repetitions: vec![Repetition { number: 0, measured_us, outlier: false }],
            line: 1,
        }
    }

    #[test]
    fn the_way_predicted_to_be_fastest_is_held_against_the_fastest() {
        let profile = Profile::load("oneplus11").unwrap();
        let cut = |cpu| ExecutedOn::Split {
            axis: Axis::Channels,
            cores: "1large".to_owned(),
            cpu,
            gpu: 3072 - cpu,
        };
        // The profile takes a small part on the CPU for the fastest way, whatever was measured.
        let runs = [
            measurement(3072, ExecutedOn::Cpu("1small".to_owned()), 4_000.0),
            measurement(3072, cut(512), 1_000.0),
            measurement(3072, cut(2560), 800.0),
            measurement(1024, ExecutedOn::Cpu("1large".to_owned()), 10.0),
        ];
        let choices = choices(&profile, &runs, Library::Xnnpack).unwrap();
        assert_eq!((choices.operators, choices.poor), (1, 1), "the last was not cut");
        assert!((choices.reached_percent - 80.0).abs() < 1e-9, "{choices:?}");
        assert!((choices.speedup - 4.0).abs() < 1e-9 && (choices.best_speedup - 5.0).abs() < 1e-9);
        assert_eq!(super::choices(&profile, &runs[3..], Library::Xnnpack), None);
    }

    #[test]
    fn a_gpu_with_memory_of_its_own_counts_with_its_copies_only() {
        let profile = Profile::load("h200").unwrap();
        let cut =
            ExecutedOn::Split { axis: Axis::Channels, cores: "8large".to_owned(), cpu: 1024, gpu: 2048 };
        let by_event = Measurement { synchronisation: None, ..measurement(3072, ExecutedOn::Gpu, 30.0) };
        let by_host = measurement(3072, ExecutedOn::Gpu, 200.0);
        let cut = measurement(3072, cut, 100.0);
        let worth = |runs: &[Measurement]| choices(&profile, runs, Library::Coexec);
        assert_eq!(worth(&[by_event.clone(), cut.clone()]), None);
        let choices = worth(&[by_event, by_host, cut]).unwrap();
        assert!((choices.best_speedup - 2.0).abs() < 1e-9, "{choices:?}");
    }
}
