//! Validation of shared work, given the measured times of each processor alone.
//!
//! Responsible for: the error that sharing adds, where an operator or a network was measured shared and
//! on both processors alone in one session. Not for: the errors of the processors alone (`host_timed`,
//! `gpu`, `cpu`). Invariant: a prediction has seen the times of both processors alone, and no cut.

use coexec_sim::device::calibration::ErrorGroup;
use coexec_sim::{CoreSet, Library, Picos, Placement, Plan, Profile, Simulator, Stage};

use super::choice::{Way, by_operator, ways};
use super::point::Point;
use crate::measure::runs::Measurement;

/// Lower bound of the factor on a processor's predicted kernel times.
const MIN_FACTOR: f64 = 0.05;

/// Each cut with its prediction from the measured times of both processors alone; `library` ran on the
/// CPU.
pub fn points(profile: &Profile, measurements: &[Measurement], library: Library) -> Vec<Point> {
    let mut simulator = Simulator::new(profile, library).timed_by_host();
    let mut points = Vec::new();
    for group in by_operator(measurements) {
        let Some(ways) = ways(&group, &mut simulator) else { continue };
        let alone = |wanted: Placement| {
            let is_wanted = |way: &&Way<'_>| way.plan.placements == [wanted];
            ways.iter().find(is_wanted).map(|way| way.measured)
        };
        for Way { run, measured, plan, .. } in ways.iter().filter(|way| way.plan.placements[0].is_cut()) {
            let (Some(cores), Some((name, layer))) = (plan.placements[0].cores(), &run.operator) else {
                continue;
            };
            let stages = [Stage::single(String::new(), layer.clone())];
            let both = alone(Placement::cpu(cores)).zip(alone(Placement::GPU));
            let predicted =
                both.and_then(|(cpu, gpu)| calibrated_us(&simulator, (&stages, plan), cores, [cpu, gpu]));
            points.extend(predicted.map(|predicted_us| Point {
                group: ErrorGroup::Cuts,
                network: run.network.clone(),
                what: format!("{name} as {}", run.processor),
                unseen: true,
                measured_us: *measured,
                predicted_us,
                physics_us: predicted_us,
                ..Point::default()
            }));
        }
    }
    points
}

/// Time of a plan in microseconds, with kernel times scaled so that `cores` and the GPU alone take
/// `cpu_us` and `gpu_us`; none where the profile has no kernel for it.
pub fn calibrated_us(
    simulator: &Simulator<'_>,
    (stages, plan): (&[Stage], &Plan),
    cores: CoreSet,
    [cpu_us, gpu_us]: [f64; 2],
) -> Option<f64> {
    let takes = |plan: &Plan, factors: [f64; 3]| {
        let mut deviating = simulator.deviating(simulator.device(), factors);
        deviating.latency(stages, plan).ok().map(Picos::as_micros)
    };
    let factor = |placement: Placement, measured_us: f64| {
        let alone = Plan::new(plan.synchronisation, vec![placement; stages.len()]);
        let (once, twice) = (takes(&alone, [1.0; 3])?, takes(&alone, [2.0; 3])?);
        // Only kernel times scale; the host's overhead of a launch does not.
        Some((1.0 + (measured_us - once) / (twice - once)).max(MIN_FACTOR))
    };
    let cpu = factor(Placement::cpu(cores), cpu_us)?;
    takes(plan, [cpu, factor(Placement::GPU, gpu_us)?, 1.0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    use crate::measure::ByHost;
    use crate::measure::runs::{ExecutedOn, Repetition, read};
    use crate::validate::choice::{Choices, choices};
    use crate::validate::host_timed::predict;
    use crate::validate::score::score;
    use coexec_sim::plan::Axis;
    use coexec_sim::plan::synchronisation::Mechanism;
    use coexec_sim::workload::{DataType, Layer, Linear, Operator};

    const SYNCHRONISATION: Mechanism = Mechanism::SvmPolling;

    /// Operators that a machine ran cut and on both processors alone, dealt alternately into two
    /// halves.
    fn halves(device: &str) -> [Vec<Measurement>; 2] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../device-profiles/runs");
        let measurements = read(&folder.join(format!("{device}-cuts.csv"))).unwrap().measurements;
        let mut halves = [Vec::new(), Vec::new()];
        for (index, group) in by_operator(&measurements).into_iter().enumerate() {
            halves[index % 2].extend(group.into_iter().cloned());
        }
        halves
    }

    /// The advice for one half of the operators by a profile with the errors of the other half's cuts.
    fn advised(device: &str) -> Choices {
        let [seen, others] = halves(device);
        let mut profile = Profile::load(device).unwrap();
        let errors = &mut profile.calibration.as_mut().unwrap().error;
        errors.retain(|group| group.name != ErrorGroup::Cuts);
        let unaware = choices(&profile, &others, Library::Coexec).unwrap();
        let scored = score(&points(&profile, &seen, Library::Coexec));
        assert_eq!(scored.len(), 1);
        profile.calibration.as_mut().unwrap().error.push(scored[0].group.clone());
        let aware = choices(&profile, &others, Library::Coexec).unwrap();
        assert!(aware.advised > 0 && aware.advised < unaware.advised, "{device}: {aware:?} {unaware:?}");
        aware
    }

    #[test]
    fn cuts_advised_by_the_errors_of_other_cuts_do_little_harm_on_machines_that_were_measured() {
        for device in ["xeon-pocl", "h200"] {
            let advice = advised(device);
            assert_eq!(advice.harmed, 0, "{device}: {advice:?}");
            assert!(advice.advised_speedup >= 0.99, "{device}: {advice:?}");
        }
    }

    #[test]
    fn a_cut_that_takes_what_its_parts_suggest_has_no_error() {
        let profile = Profile::load("xeon-pocl").unwrap();
        let linear = Linear { rows: 64, input_features: 768, output_features: 1024, bias: true };
        let layer = Layer::new(Operator::Linear(linear), DataType::F32);
        let cut = ExecutedOn::Split { axis: Axis::Channels, cores: "4large".to_owned(), cpu: 512, gpu: 512 };
        let mut simulator = Simulator::new(&profile, Library::Coexec).timed_by_host();
        let measurements = [cut, ExecutedOn::Gpu, ExecutedOn::Cpu("4large".to_owned())].map(|processor| {
            let run = ByHost {
                layer: layer.clone(),
                ran: processor.clone(),
                synchronisation: Some(SYNCHRONISATION),
                plan: None,
            };
            let measured_us = predict(&run, &mut simulator).unwrap();
            Measurement {
                operator: Some(("fc".to_owned(), layer.clone())),
                synchronisation: Some(SYNCHRONISATION),
                repetitions: vec![Repetition { number: 0, measured_us, outlier: false }],
                ..Measurement::new(processor.to_string(), "set", DataType::F32, processor)
            }
        });
        let points = points(&profile, &measurements, Library::Coexec);
        assert_eq!(points.len(), 1);
        assert!((points[0].predicted_us / points[0].measured_us - 1.0).abs() < 1e-3, "{points:?}");
    }
}
