//! How sure it is that one plan is faster than another, where a profile's times are off.
//!
//! Responsible for: drawing how far they are off, and running plans so. Not for: how a single device's runs
//! differ (`sample`). Invariant: in one draw all plans see the same errors: one for each processor, and one
//! for each operator on it.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use serde::Serialize;

use super::lower::{Lowered, PricedCommand};
use super::sample::MEAN_ABSOLUTE_DEVIATION;
use super::{Known, SimulateError, Simulator};
use crate::device::basis::Basis;
use crate::device::calibration::Group;
use crate::device::profile::Profile;
use crate::engine::NoTrace;
use crate::plan::{Plan, ProcessorKind};
use crate::units::Picos;
use crate::workload::Stage;

/// Seed of the draws.
const SEED: u64 = 1;

/// Stages that one draw may have before streams would collide.
const STAGE_BITS: u32 = 32;

/// How far a profile's times may be off on each processor, in their order: mean absolute errors in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Of all its operators together.
    pub common_percent: [f64; 3],
    /// Of each operator beside that.
    pub operator_percent: [f64; 3],
}

impl Errors {
    /// Where times were measured (`known`), what `device` states of itself: cross-validated errors of whole
    /// networks, and of GPU kernels; 10 % where it states none. 20 % where they are scaled from another
    /// device, or from another library's; 35 % where they are assumed. Those three are assumed themselves.
    pub fn of(device: &Profile, known: &[Known]) -> Self {
        let groups = device.calibration.as_ref().map_or(&[][..], |calibration| &calibration.error);
        let is_whole =
            |group: &&Group| !group.name.starts_with("gpu/") || group.name.contains("/end_to_end/");
        let stated = |kind: ProcessorKind, whole: bool| {
            let prefix = format!("{}/", kind.name());
            let of_kind = groups.iter().filter(|group| group.name.starts_with(&prefix) && group.n > 0);
            mean(of_kind.filter(|group| is_whole(group) == whole && !group.name.ends_with("/all")))
        };
        let of_kind = |kind: ProcessorKind| match known
            .iter()
            .find(|known| known.processor == kind)
            .map(|known| known.basis)
        {
            Some(Basis::Measured) => {
                let common = stated(kind, true).unwrap_or(10.0);
                [common, stated(kind, false).unwrap_or(common)]
            }
            Some(Basis::Scaled) => [20.0; 2],
            Some(Basis::Assumed | Basis::NotKnown) | None => [35.0; 2],
        };
        let [cpu, gpu, npu] = ProcessorKind::ALL.map(of_kind);
        Self { common_percent: [cpu[0], gpu[0], npu[0]], operator_percent: [cpu[1], gpu[1], npu[1]] }
    }

    /// By how much a task's time is multiplied in one draw.
    fn factor(&self, task: &PricedCommand, draw: u64) -> f64 {
        if !task.computes() {
            return 1.0;
        }
        let kind = task.processor() as u64;
        let common = normal(draw, kind) * self.common_percent[kind as usize];
        let own = normal(draw, (task.stage as u64 + 1) * ProcessorKind::ALL.len() as u64 + kind);
        let percent = common + own * self.operator_percent[kind as usize];
        (percent / 100.0 / MEAN_ABSOLUTE_DEVIATION).exp()
    }
}

/// The mean error of groups, each by its runs.
fn mean<'a>(groups: impl Iterator<Item = &'a Group>) -> Option<f64> {
    let (sum, runs) = groups.fold((0.0, 0.0), |(sum, runs), group| {
        (sum + group.mape_percent * group.n as f64, runs + group.n as f64)
    });
    (runs > 0.0).then(|| sum / runs)
}

/// A normal number of that index in a draw.
fn normal(draw: u64, index: u64) -> f64 {
    let mut stream = ChaCha8Rng::seed_from_u64(SEED);
    stream.set_stream((draw << STAGE_BITS) | index);
    StandardNormal.sample(&mut stream)
}

/// In how many of `draws` of `errors` a plan is faster than another.
///
/// # Errors
/// As [`Simulator::run`].
pub fn times_faster(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    [plan, other]: [&Plan; 2],
    (errors, draws): (&Errors, u32),
) -> Result<u32, SimulateError> {
    let lowered = [Lowered::new(stages, plan, simulator)?, Lowered::new(stages, other, simulator)?];
    // The tasks are lowered, with the host path; the engine alone is run.
    let work = simulator.background_work();
    let mut engine = Simulator::new(simulator.device, simulator.library).beside(work);
    let mut faster = 0;
    for draw in 0..u64::from(draws) {
        let mut latency = |lowered: &Lowered| -> Result<Picos, SimulateError> {
            let stretch: Vec<f64> = lowered.tasks.iter().map(|task| errors.factor(task, draw)).collect();
            engine.execute(lowered, &stretch, &mut NoTrace)
        };
        faster += u32::from(latency(&lowered[0])? < latency(&lowered[1])?);
    }
    Ok(faster)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{SearchOptions, Strategy, explore};
    use crate::kernel::cpu::{CoreSet, Library};
    use crate::plan::Placement;
    use crate::plan::synchronisation::Mechanism;
    use crate::workload::{fuse, network};

    #[test]
    fn a_plan_that_is_much_faster_wins_nearly_always_and_never_against_itself() {
        let device = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("vgg16").unwrap());
        let simulator = Simulator::new(&device, Library::Xnnpack);
        let plan = |placement| Plan::new(Mechanism::SvmPolling, vec![placement; stages.len()]);
        let [gpu, cpu] =
            [Placement::GPU, Placement::cpu(CoreSet::fastest(&device.cpu, 1).unwrap())].map(plan);
        let errors = Errors::of(&device, &[]);
        let times = |plans| times_faster(&simulator, &stages, plans, (&errors, 50)).unwrap();
        let (faster, slower) = (times([&gpu, &cpu]), times([&cpu, &gpu]));
        assert!(faster >= 45 && faster + slower == 50, "{faster} and {slower} of 50");
        assert_eq!(times([&gpu, &gpu]), 0);
    }

    #[test]
    fn larger_errors_leave_a_small_gain_less_sure() {
        let device = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("mobilenet-v2").unwrap());
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        let options = SearchOptions { strategy: Strategy::AnySplit, ..SearchOptions::on(&device) };
        let cut = explore(&mut simulator, &stages, &options).unwrap().plan;
        let alone = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU; stages.len()]);
        let times = |percent| {
            let errors = Errors { common_percent: [percent; 3], operator_percent: [percent; 3] };
            times_faster(&simulator, &stages, [&cut, &alone], (&errors, 100)).unwrap()
        };
        let [none, some, large] = [0.0, 10.0, 120.0].map(times);
        assert_eq!(none, 100);
        assert!(none >= some && some > large, "{none} {some} {large}");
    }
}
