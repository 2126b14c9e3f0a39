//! What plans of whole networks took, where they ran beside each processor alone.
//!
//! Responsible for: how far following a plan was faster than the faster processor. Not for: single operators
//! (`choice`). Invariant: times that are compared are of one session.

use std::collections::HashMap;

use serde::Serialize;

use super::choice::HARMLESS;
use crate::measure::runs::{ExecutedOn, Measurement};

/// A network that ran under a plan and on each processor alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedNetwork {
    /// The network.
    pub network: String,
    /// The plan's median time over that of the faster processor alone.
    pub relative: f64,
}

impl PlannedNetwork {
    /// Whether the plan did harm: it took more than 2 % longer.
    pub fn is_harmed(&self) -> bool {
        self.relative > HARMLESS
    }
}

/// The networks of some runs that ran under a plan and on processors alone, each once a session, the worst first.
pub fn planned_networks(measurements: &[Measurement]) -> Vec<PlannedNetwork> {
    let mut fastest: HashMap<_, [f64; 2]> = HashMap::new();
    for run in measurements.iter().filter(|run| run.operator.is_none()) {
        let is_plan = match run.processor {
            ExecutedOn::Plan(_) => true,
            ExecutedOn::Cpu(_) | ExecutedOn::Gpu => false,
            ExecutedOn::Npu | ExecutedOn::Split { .. } => continue,
        };
        let Some(median) = run.median_us() else { continue };
        let known = fastest.entry((&run.fingerprint, &run.network)).or_insert([f64::INFINITY; 2]);
        let time = &mut known[usize::from(is_plan)];
        *time = time.min(median);
    }
    let mut planned: Vec<PlannedNetwork> = fastest
        .into_iter()
        .filter(|(_, times)| times.iter().all(|time| time.is_finite()))
        .map(|((_, network), [alone, plan])| PlannedNetwork {
            network: network.clone(),
            relative: plan / alone,
        })
        .collect();
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
    fn plans_are_held_against_the_faster_processor_of_their_session() {
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
