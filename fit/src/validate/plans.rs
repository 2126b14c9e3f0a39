//! Whole networks under plans: predicted against measured time, and relative to each processor alone.
//!
//! Responsible for: the simulated time of a plan next to its measured one, and the speedup of following
//! a plan over the faster processor. Not for: single operators (`host_timed`, `choice`). Invariants:
//! nothing is fitted to these runs, so all of them are held out; only times of one session are compared
//! with each other.

use std::collections::HashSet;

use serde::Serialize;

use super::Validation;
use super::choice::HARMLESS_RATIO;
use super::point::Point;
use crate::measure::runs::{ExecutedOn, Measurement};
use crate::measure::{PlannedRun, UnderPlan, grouped};
use coexec_sim::simulate::{Drawn, Errors, known};
use coexec_sim::{CoreSet, Library, Measure, Picos, Placement, Profile, SimulateError, Simulator};

/// Group of errors of networks under plans.
const GROUP: &str = "plan/end_to_end";

/// Compares predictions of `profile` with `runs`; `library` ran on the CPU cores.
pub fn validate(profile: &Profile, runs: &[PlannedRun], library: Library) -> Validation {
    let mut simulator = Simulator::new(profile, library).measuring(Measure::Inference);
    Validation::of(runs, |run| point(run, &mut simulator, library))
}

/// The predicted time of a network under a plan, with the interval that `simulate` prints for it.
fn point(run: &PlannedRun, simulator: &mut Simulator<'_>, library: Library) -> Result<Point, String> {
    let (predicted, drawn) = predict(&run.what, simulator, library)?;
    let point = Point::of(run, GROUP.into(), run.network.clone(), predicted.as_micros());
    Ok(Point { unseen: true, ..point }.within(|_| Some(drawn.interval().map(Picos::as_micros))))
}

/// The latency without errors, and in draws of the profile's errors.
fn predict(
    run: &UnderPlan,
    simulator: &mut Simulator<'_>,
    library: Library,
) -> Result<(Picos, Drawn), String> {
    let (stages, plan) = (&run.stages, run.resolve(simulator.device())?);
    let failed = |error: SimulateError| error.to_string();
    let predicted = simulator.latency(stages, &plan).map_err(failed)?;
    let core_sets: HashSet<CoreSet> = plan.placements.iter().filter_map(Placement::cores).collect();
    let core_sets = Vec::from_iter(core_sets);
    let errors = Errors::of(simulator.device(), &known(simulator.device(), library, &core_sets, stages));
    let drawn = Drawn::of(simulator, (stages, &plan), None, &errors).map_err(failed)?;
    Ok((predicted, drawn))
}

/// A network that ran under a plan and on each processor alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedNetwork {
    /// The network.
    pub network: String,
    /// The plan's median time relative to that of the faster processor alone.
    pub relative: f64,
}

impl PlannedNetwork {
    /// Whether the plan did harm: it took over 2 % longer than the faster processor alone.
    pub fn is_harmed(&self) -> bool {
        self.relative > HARMLESS_RATIO
    }
}

/// The networks that ran under a plan and on processors alone, each once per session, worst first.
pub fn planned_networks(measurements: &[Measurement]) -> Vec<PlannedNetwork> {
    let whole = measurements.iter().filter(|run| run.operator.is_none());
    let of_session = |((_, network), runs): ((_, &String), Vec<&Measurement>)| {
        let fastest = |is_wanted: fn(&ExecutedOn) -> bool| {
            let wanted = runs.iter().filter(|run| is_wanted(&run.processor));
            wanted.filter_map(|run| run.median_us()).min_by(f64::total_cmp)
        };
        let plan = fastest(|ran| matches!(ran, ExecutedOn::Plan(_)))?;
        let alone = fastest(|ran| matches!(ran, ExecutedOn::Cpu(_) | ExecutedOn::Gpu))?;
        Some(PlannedNetwork { network: network.clone(), relative: plan / alone })
    };
    let sessions = grouped(whole.map(|run| ((&run.fingerprint, &run.network), run)));
    let mut planned: Vec<PlannedNetwork> = sessions.into_iter().filter_map(of_session).collect();
    planned.sort_by(|one, other| {
        other.relative.total_cmp(&one.relative).then_with(|| one.network.cmp(&other.network))
    });
    planned
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::measure::runs::{Repetition, RunTable, read};
    use crate::validate::score::score;
    use crate::validate::{figures, host};
    use coexec_sim::workload::DataType;
    use coexec_sim::{Mechanism, Plan};

    /// Largest mean error of times under plans, without the errors that profiles state: 16.8 and 4.4 % were found.
    const MAX_MAPE_PERCENT: f64 = 18.0;
    /// The same on the GPU alone: 10.7 and 5.7 % were found.
    const MAX_ALONE_PERCENT: f64 = 12.0;
    /// Least fraction of times under plans within their 90 % intervals: 8 of 9 and all 4 were found.
    const MIN_COVERAGE_PERCENT: f64 = 85.0;

    fn run(network: &str, session: &str, processor: ExecutedOn, measured_us: f64) -> Measurement {
        Measurement {
            fingerprint: Some(session.to_owned()),
            repetitions: vec![Repetition { number: 0, measured_us, outlier: false }],
            ..Measurement::new(format!("{network} on {processor}"), network, DataType::F32, processor)
        }
    }

    #[test]
    fn networks_under_plans_are_predicted_on_machines_that_were_probed_just_before() {
        // The median of the draws counts how much longer the probe's own plans took than predicted.
        let off_by = [check("xeon-pocl-plans", 9, 0), check("h200-plans", 4, 1)];
        let stated = [10.5, 4.0];
        assert!(off_by.iter().zip(stated).all(|(found, stated)| (found - stated).abs() < 0.1), "{off_by:?}");
    }

    /// Checks the errors of predicted plans in a folder of runs, and the number of plans that do harm. Returns the
    /// mean error of the draws' medians, in percent.
    fn check(folder: &str, count: usize, harmed: usize) -> f64 {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../device-profiles/runs").join(folder);
        let profile = Profile::load(folder.join("profile.toml").to_str().unwrap()).unwrap();
        let table = read(&folder).unwrap();
        let runs = table.by_processor();
        assert!(runs.left_out.is_empty(), "{:?}", runs.left_out);
        let Validation { points, left_out } = validate(&profile, &runs.planned, Library::Coexec);
        assert!(left_out.is_empty(), "{left_out:?}");
        let scored = score(&points);
        assert_eq!((scored.len(), scored[0].group.n), (1, count));
        assert!(scored[0].group.mape_percent < MAX_MAPE_PERCENT, "{scored:?}");
        assert!(scored[0].interval_coverage_percent.unwrap() > MIN_COVERAGE_PERCENT, "{scored:?}");
        // From the host's memory and back, with the copies to the GPU's own.
        let alone = host::validate(profile.gpu.as_ref().unwrap(), None, &runs.gpu_networks, None);
        for point in &alone.points {
            let (_, stages) = table.networks.iter().find(|(name, _)| *name == point.network).unwrap();
            let plan = Plan::new(Mechanism::EventWait, vec![Placement::GPU; stages.len()]);
            let mut simulator = Simulator::new(&profile, Library::Coexec).measuring(Measure::Inference);
            let simulated_us = simulator.latency(stages, &plan).unwrap().as_micros();
            assert!((point.predicted_us / simulated_us - 1.0).abs() < 0.01, "{simulated_us} {point:?}");
        }
        let alone = score(&alone.points);
        assert!(alone[0].group.mape_percent < MAX_ALONE_PERCENT, "{alone:?}");
        let planned = planned_networks(&table.measurements);
        assert_eq!(planned.iter().filter(|network| network.is_harmed()).count(), harmed);
        // A plan for another network is refused by name.
        let mut other = runs.planned[0].clone();
        other.what.plan = runs.planned[1].what.plan.clone();
        let refused = validate(&profile, &[other], Library::Coexec);
        assert!(refused.points.is_empty() && refused.left_out[0].line == runs.planned[0].line, "{refused:?}");
        let mut simulator = Simulator::new(&profile, Library::Coexec).measuring(Measure::Inference);
        let mut medians = |run: &PlannedRun| {
            let (_, drawn) = predict(&run.what, &mut simulator, Library::Coexec).unwrap();
            (drawn.median().as_micros(), run.measured_us)
        };
        figures("", &runs.planned.iter().map(&mut medians).collect::<Vec<_>>()).mape_percent
    }

    #[test]
    fn a_plan_that_is_not_next_to_the_runs_leaves_its_row_out() {
        let measured = run("resnet18", "one", ExecutedOn::Plan("lost.toml".to_owned()), 100.0);
        let table = RunTable { measurements: vec![measured], ..RunTable::default() };
        let runs = table.by_processor();
        assert!(runs.planned.is_empty() && runs.left_out[0].reason.contains("lost.toml"), "{runs:?}");
    }

    #[test]
    fn plans_are_compared_with_the_faster_processor_of_their_session() {
        let plan = || ExecutedOn::Plan("plan.toml".to_owned());
        let cpu = || ExecutedOn::Cpu("3large".to_owned());
        let runs = [
            run("slower", "one", plan(), 210.0),
            run("slower", "one", cpu(), 200.0),
            run("slower", "one", ExecutedOn::Gpu, 300.0),
            run("faster", "one", plan(), 80.0),
            run("faster", "one", ExecutedOn::Gpu, 100.0),
            // Another session, and a network that never ran alone.
            run("slower", "two", cpu(), 100.0),
            run("alone", "two", plan(), 100.0),
        ];
        let planned = planned_networks(&runs);
        let found: Vec<(&str, f64)> =
            planned.iter().map(|one| (one.network.as_str(), one.relative)).collect();
        assert_eq!(found, [("slower", 1.05), ("faster", 0.8)]);
        assert!(planned[0].is_harmed() && !planned[1].is_harmed());
    }
}
