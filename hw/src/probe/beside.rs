//! Work that a plan shares between both processors, beside each of them alone.
//!
//! Responsible for: running so many of what may be shared, as far as time allows. Not for: what is shared and how
//! (`cuts`, `sequences`), nor what the times say. Invariant: every way of one is timed by the host's clock, in turn
//! with the others.

use coexec_sim::{CoreSet, Placement, Plan, Profile, Stage};

use super::{Bench, ProbeError, RUN_LIMIT, Result};
use crate::execute::{Machine, Measured, Settings, side_by_side};

/// What may be shared, and how.
pub(super) struct Shared {
    pub(super) name: String,
    pub(super) stages: Vec<Stage>,
    pub(super) plan: Plan,
    /// Those of the plan.
    pub(super) cores: CoreSet,
}

impl Shared {
    /// All of it where `placement` says.
    pub(super) fn alone(&self, placement: Placement) -> Plan {
        Plan::new(self.plan.synchronisation, vec![placement; self.plan.placements.len()])
    }

    /// Under its plan, on the GPU alone and on the cores alone; none where hardware cannot run one of these.
    fn run(
        &self,
        machine: &mut Machine,
        profile: &Profile,
        settings: Settings,
    ) -> Result<Option<[Measured; 3]>> {
        let alone = [Placement::GPU, Placement::cpu(self.cores)].map(|placement| self.alone(placement));
        let plans = [&[self.plan.clone()][..], &alone].concat();
        let measured = side_by_side(machine, (&self.stages, profile), &plans, (settings, RUN_LIMIT));
        match measured.and_then(|measured| measured.into_iter().collect::<Result<Vec<Measured>, _>>()) {
            Ok(measured) => Ok(measured.try_into().ok()),
            Err(error) if error.is_of_variant() => Ok(None),
            Err(error) => Err(ProbeError::Layer(format!("{}: {error}", self.name))),
        }
    }
}

/// Runs the first `wanted` of `candidates`, of which some are not worth sharing, in the part of the probe's time that
/// is kept for them: plan, GPU and CPU of each, with so many `repetitions` of each way.
pub(super) fn measure(
    (bench, machine, profile): (&Bench<'_>, &mut Machine, &Profile),
    (what, time_part): (&str, f64),
    (wanted, repetitions): (usize, u32),
    mut candidates: impl Iterator<Item = Result<Option<Shared>>>,
) -> Result<Vec<(Shared, [Measured; 3])>> {
    let budget = bench.kept(time_part);
    let settings = Settings { repetitions, seed: bench.options.seed, deadline: None };
    let mut timed = Vec::new();
    while timed.len() < wanted && !budget.is_over() {
        let Some(candidate) = candidates.next() else { break };
        let Some(shared) = candidate? else { continue };
        budget.report(&format!("{what}: {} of {wanted}", timed.len()));
        if let Some(measured) = shared.run(machine, profile, settings)? {
            timed.push((shared, measured));
        }
    }
    Ok(timed)
}
