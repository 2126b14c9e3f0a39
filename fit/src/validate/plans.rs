//! Measured times of plans for whole networks, relative to each processor alone.
//!
//! Responsible for: the speedup of following a plan over the faster processor. Not for: single
//! operators (`choice`). Invariant: only times of one session are compared.

use serde::Serialize;

use super::choice::HARMLESS_RATIO;
use crate::measure::grouped;
use crate::measure::runs::{ExecutedOn, Measurement};

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
    use super::*;
    use crate::measure::runs::Repetition;
    use coexec_sim::workload::DataType;

    fn run(network: &str, session: &str, processor: ExecutedOn, measured_us: f64) -> Measurement {
        Measurement {
            run: format!("{network} on {processor}"),
            network: network.to_owned(),
            operator: None,
            data_type: DataType::F32,
            processor,
            synchronisation: None,
            kernel: None,
            dispatch: None,
            fingerprint: Some(session.to_owned()),
            repetitions: vec![Repetition { number: 0, measured_us, outlier: false }],
            line: 1,
        }
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
