//! The benefit of choosing by prediction, where several ways to run an operator were measured.
//!
//! Responsible for: the measured time of the way that is predicted to be fastest, compared with
//! the fastest measured. Not for: unmeasured ways (`explore`). Invariant: all ways of an operator
//! are of one session, and are compared from the host's call until it sees the end. Where only an
//! event timed the GPU alone, the host overhead that the profile predicts is added to the measured
//! time. For a GPU with memory of its own such a time is left out, as no event times its copies.

use serde::Serialize;

use super::host_timed::{plan, predict};
use crate::measure::runs::{ExecutedOn, Measurement};
use crate::measure::{ByHost, grouped};
use crate::validate::gpu;
use coexec_sim::explore::advice::CONFIDENCE;
use coexec_sim::simulate::{DRAWS, Drawn, Errors, Simulator, known};
use coexec_sim::{CoreSet, Library, Plan, Profile, Stage};

/// Figures over operators that were measured both cut and on a processor alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choices {
    /// Number of operators, each counted once per session.
    pub operators: usize,
    /// Geometric mean of the fastest measured time over the measured time of the choice (the way
    /// predicted to be fastest), in percent: the share of the best speedup that the choice reaches.
    pub reached_percent: f64,
    /// Geometric mean speedup of the choice over the faster processor alone.
    pub speedup: f64,
    /// The same of the fastest measured way.
    pub best_speedup: f64,
    /// Baseline for `reached_percent`: the share that always using the faster processor alone
    /// reaches, without any prediction of cuts.
    pub uncut_percent: f64,
    /// Operators whose choice reaches less than 90 % of the best speedup.
    pub poor: usize,
    /// Operators with the advice to cut: the choice is a cut that is faster than the best processor
    /// alone in enough draws of the profile's errors.
    pub advised: usize,
    /// Those of them whose cut took over 2 % longer than the faster processor alone.
    pub harmed: usize,
    /// Geometric mean speedup of following the advice over the faster processor alone.
    pub advised_speedup: f64,
}

/// Share of the best speedup below which a choice is poor.
const GOOD_SHARE: f64 = 0.9;

/// Time relative to the faster processor's from which advice does harm: the difference between
/// repetitions of one way on a quiet machine.
pub(super) const HARMLESS_RATIO: f64 = 1.02;

/// A way to run an operator, with its times in microseconds.
#[derive(Clone)]
pub(super) struct Way<'m> {
    pub(super) run: &'m Measurement,
    pub(super) measured: f64,
    predicted: f64,
    pub(super) plan: Plan,
    is_alone: bool,
}

/// The benefit of choosing among `measurements`; none where no operator was measured both cut and
/// on a processor alone. `library` ran on the CPU cores.
pub fn choices(profile: &Profile, measurements: &[Measurement], library: Library) -> Option<Choices> {
    let mut simulator = Simulator::new(profile, library).timed_by_host();
    // Ratios of times: best/choice, faster processor/choice, faster processor/best, faster
    // processor/advice.
    let mut ratios: Vec<[f64; 4]> = Vec::new();
    let (mut advised, mut harmed) = (0, 0);
    for group in by_operator(measurements) {
        let Some(ways) = ways(&group, &mut simulator) else { continue };
        let fastest =
            |ways: &mut dyn Iterator<Item = &Way<'_>>| ways.map(|way| way.measured).min_by(f64::total_cmp);
        let Some(alone) = fastest(&mut ways.iter().filter(|way| way.is_alone)) else { continue };
        let Some(best) = fastest(&mut ways.iter()).filter(|_| ways.iter().any(|way| !way.is_alone)) else {
            continue;
        };
        let chosen = predicted_fastest(&ways, |_| true)?;
        let advice = advice(&ways, &simulator)?;
        advised += usize::from(!advice.is_alone);
        harmed += usize::from(!advice.is_alone && advice.measured > HARMLESS_RATIO * alone);
        ratios.push([best / chosen.measured, alone / chosen.measured, alone / best, alone / advice.measured]);
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
        poor: ratios.iter().filter(|[reached, ..]| *reached < GOOD_SHARE).count(),
        advised,
        harmed,
        advised_speedup: mean(3),
    })
}

fn predicted_fastest<'w, 'm>(ways: &'w [Way<'m>], of: fn(&Way<'_>) -> bool) -> Option<&'w Way<'m>> {
    ways.iter().filter(|way| of(way)).min_by(|one, other| one.predicted.total_cmp(&other.predicted))
}

/// The way predicted to be fastest if it is a cut that is faster with enough confidence; else the
/// processor alone predicted to be fastest.
fn advice<'w, 'm>(ways: &'w [Way<'m>], simulator: &Simulator<'_>) -> Option<&'w Way<'m>> {
    let (chosen, single) = (predicted_fastest(ways, |_| true)?, predicted_fastest(ways, |way| way.is_alone)?);
    let (_, layer) = chosen.run.operator.as_ref()?;
    let stages = [Stage::single(String::new(), layer.clone())];
    let device = simulator.device();
    let core_sets: Vec<CoreSet> =
        ways.iter().filter_map(|way| way.plan.placements.first()?.cores()).collect();
    let errors = Errors::of(device, &known(device, simulator.library(), &core_sets, &stages));
    let is_sure = || {
        let drawn = |way: &Way<'_>| Drawn::of(simulator, (&stages, &way.plan), None, &errors).ok();
        let faster = drawn(chosen).zip(drawn(single)).map(|(own, other)| own.times_faster(&other));
        faster.is_some_and(|faster| faster as f64 >= CONFIDENCE * DRAWS as f64)
    };
    Some(if !chosen.is_alone && is_sure() { chosen } else { single })
}

/// The comparable ways of one operator in one session; none for a GPU with memory of its own whose
/// copies were not timed.
pub(super) fn ways<'m>(group: &[&'m Measurement], simulator: &mut Simulator<'_>) -> Option<Vec<Way<'m>>> {
    let gpu: Vec<bool> = group.iter().filter_map(|run| by_host_on_gpu(run)).collect();
    let is_by_host = gpu.contains(&true);
    if !gpu.is_empty() && !is_by_host && simulator.device().gpu.as_ref()?.memory.is_some() {
        return None;
    }
    let counted = group.iter().filter(|run| by_host_on_gpu(run).is_none_or(|by| by == is_by_host));
    Some(counted.filter_map(|run| way(run, simulator)).collect())
}

/// For an operator on the GPU alone, whether the host timed it rather than an event.
fn by_host_on_gpu(measurement: &Measurement) -> Option<bool> {
    (measurement.processor == ExecutedOn::Gpu).then_some(measurement.synchronisation.is_some())
}

/// The measurements grouped by operator and session.
pub(super) fn by_operator(measurements: &[Measurement]) -> Vec<Vec<&Measurement>> {
    let of_operators = measurements.iter().filter(|measurement| measurement.operator.is_some());
    let keyed = of_operators.map(|measurement| {
        ((&measurement.fingerprint, &measurement.network, &measurement.operator), measurement)
    });
    grouped(keyed).into_iter().map(|(_, group)| group).collect()
}

/// A measurement as a way; none where the profile has no kernel for it, or every repetition is an
/// outlier.
fn way<'m>(measurement: &'m Measurement, simulator: &mut Simulator<'_>) -> Option<Way<'m>> {
    let profile = simulator.device();
    let (_, layer) = measurement.operator.as_ref()?;
    let (layer, ran, synchronisation) =
        (layer.clone(), measurement.processor.clone(), measurement.synchronisation);
    let run = ByHost { layer, ran, synchronisation, plan: None };
    let plan = plan(&run, profile).ok()?;
    let predicted = predict(&run, simulator).ok()?;
    let is_by_event = by_host_on_gpu(measurement) == Some(false);
    let around =
        if is_by_event { predicted - gpu::predict(&run.layer, profile.gpu.as_ref()?).ok()? } else { 0.0 };
    let measured = measurement.median_us()? + around;
    let is_alone = matches!(run.ran, ExecutedOn::Cpu(_) | ExecutedOn::Gpu);
    Some(Way { run: measurement, measured, predicted, plan, is_alone })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::runs::Repetition;
    use coexec_sim::Layer;
    use coexec_sim::plan::Axis;
    use coexec_sim::plan::synchronisation::Mechanism;
    use coexec_sim::workload::{DataType, Linear, Operator};

    fn measurement(features: u32, processor: ExecutedOn, measured_us: f64) -> Measurement {
        let linear = Linear { rows: 50, input_features: 768, output_features: features, bias: true };
        Measurement {
            operator: Some(("fc".to_owned(), Layer::new(Operator::Linear(linear), DataType::F32))),
            synchronisation: Some(Mechanism::SvmPolling),
            repetitions: vec![Repetition { number: 0, measured_us, outlier: false }],
            ..Measurement::new(format!("{features} on {processor}"), "set", DataType::F32, processor)
        }
    }

    #[test]
    fn the_predicted_fastest_way_is_compared_with_the_fastest() {
        let profile = Profile::load("oneplus11").unwrap();
        let cut = |cpu| ExecutedOn::Split {
            axis: Axis::Channels,
            cores: "1large".to_owned(),
            cpu,
            gpu: 3072 - cpu,
        };
        // The profile predicts the cut with the small CPU part to be fastest, whatever was measured.
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
