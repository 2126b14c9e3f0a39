//! What plans take where a profile's times are off.
//!
//! Responsible for: drawing how far they are off, and running plans so. Not for: how a single device's runs
//! differ (`sample`), or what follows for a choice (`explore::advice`). Invariant: in one draw all plans see the
//! same errors: one for each processor, one for each operator on it, one for meetings and one for cuts.

use std::ops::Range;

use serde::{Serialize, Serializer};

use super::sample::{MEAN_ABSOLUTE_DEVIATION, factor, stretched};
use super::{Known, Pipeline, PricedCommand, Result, Share, Simulator, sample};
use crate::device::calibration::Group;
use crate::device::{AnswerPart, Basis, ErrorGroup, ProcessorKind, Profile};
use crate::plan::Plan;
use crate::schedule::What;
use crate::units::Picos;
use crate::workload::Stage;

/// Draws that answers are judged by: with so many, how often one is faster is known to 3 % (one standard deviation).
pub const DRAWS: u64 = 200;

/// Seed of the draws.
const SEED: u64 = 1;

/// Stages that one draw may have before streams would collide.
const STAGE_BITS: u32 = 32;

/// Streams of a draw before those of its operators: one for each processor, then these.
const MEETINGS: u64 = ProcessorKind::ALL.len() as u64;
const CUTS: u64 = MEETINGS + 1;
const FIRST_OPERATOR: u64 = CUTS + 1;

/// How far hand-overs and joins may be off, in percent. Assumed: they are measured on few phones.
const MEETING_PERCENT: f64 = 20.0;

/// Standard deviations of a normal distribution below which 95 % of it lie.
const NORMAL_95_ONE_SIDED: f64 = 1.644_853_626_951_472;

/// How far a profile's times may be off: mean absolute errors in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Of all operators on each processor together, in their order.
    pub common_percent: [f64; 3],
    /// Of each operator beside that.
    pub operator_percent: [f64; 3],
    /// Of hand-overs and joins together.
    pub meeting_percent: f64,
    /// By how much parts of cut operators take longer than predicted.
    pub cut_bias_percent: f64,
    /// How far that itself may be off.
    pub cut_percent: f64,
    /// By how much networks shared by several processors take longer than predicted, and how far that may be
    /// off, in place of what cuts do; none where no such network was measured.
    pub plan_percent: Option<[f64; 2]>,
}

/// One draw of errors: how many times longer than a profile says something takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Deviation {
    /// Computing on each processor, in their order.
    pub(crate) computing: [f64; 3],
    /// Handing over and joining.
    pub(crate) meeting: f64,
    /// Parts of cut operators, beside that.
    cut: f64,
    /// All of a network that several processors share, in place of that.
    plan: f64,
}

impl Errors {
    /// The same error for all operators of each processor, and for meetings; none for each operator.
    pub fn common(percent: f64) -> Self {
        Self {
            common_percent: [percent; 3],
            operator_percent: [0.0; 3],
            meeting_percent: percent,
            cut_bias_percent: 0.0,
            cut_percent: 0.0,
            plan_percent: None,
        }
    }

    /// Where times were measured (`known`), what `device` states of itself: cross-validated errors of whole
    /// networks, and of GPU kernels; 10 % where it states none. 20 % where they are scaled from another
    /// device, or from another library's; 35 % where they are assumed. Those three are assumed themselves.
    pub fn of(device: &Profile, known: &[Known]) -> Self {
        let groups = groups(device);
        let is_on = |group: &&Group, kind| matches!(group.name, ErrorGroup::On { processor, .. } if processor == kind);
        let stated = |kind: ProcessorKind, whole: bool| {
            let of_kind = || groups.iter().filter(|group| is_on(group, kind) && group.n > 0);
            // Groups of the CPU are of whole networks, unless those that a probe timed stand beside its layers.
            let all_are_whole = kind == ProcessorKind::Npu
                || (kind == ProcessorKind::Cpu && !of_kind().any(|group| group.name.is_of_networks()));
            let is_whole = |group: &Group| all_are_whole || group.name.is_of_networks();
            mean(of_kind().filter(|group| is_whole(group) == whole && !group.name.is_of_all()))
        };
        let of_kind = |kind: ProcessorKind| match known
            .iter()
            .find(|known| known.processor == kind)
            .map(|known| known.basis)
        {
            Some(Basis::Measured | Basis::Transferred) => {
                let common = stated(kind, true).unwrap_or(10.0);
                [common, stated(kind, false).unwrap_or(common)]
            }
            Some(Basis::Scaled) => [20.0; 2],
            Some(Basis::Assumed | Basis::NotKnown) | None => [35.0; 2],
        };
        let [cpu, gpu, npu] = ProcessorKind::ALL.map(of_kind);
        let beyond_parts = |of| groups.iter().find(|group| group.name == of).map(beyond_parts);
        let [cut_bias_percent, cut_percent] = beyond_parts(ErrorGroup::Cuts).unwrap_or([0.0; 2]);
        Self {
            common_percent: [cpu[0], gpu[0], npu[0]],
            operator_percent: [cpu[1], gpu[1], npu[1]],
            meeting_percent: MEETING_PERCENT,
            cut_bias_percent,
            cut_percent,
            plan_percent: beyond_parts(ErrorGroup::Plans),
        }
    }

    /// Of that time of a language model that is stored in `format`: what `device` states of times of such on the
    /// processor that computes it alone, by runtimes that compile whole steps; else [`Self::of`] what is known.
    pub fn of_language(device: &Profile, known: &[Known], (format, part): (&str, AnswerPart)) -> Self {
        let mut errors = Self::of(device, known);
        if let [Known { processor: kind, basis: Basis::Measured | Basis::Transferred, .. }] = known
            && let Some(percent) = stated_of_language(device, *kind, (format, part))
        {
            errors.common_percent[*kind as usize] = percent;
            errors.operator_percent[*kind as usize] = 0.0;
        }
        errors
    }

    /// What is off of one plan: of a network on several processors as a whole, where that was measured, else of
    /// its cuts.
    fn of_plan(&self, (stages, plan): (&[Stage], &Plan)) -> Self {
        let is_shared = stages.len() > 1 && {
            let uses = |kind: &ProcessorKind| plan.placements.iter().any(|placement| placement.uses(*kind));
            ProcessorKind::ALL.iter().filter(|kind| uses(kind)).count() > 1
        };
        match self.plan_percent {
            Some(_) if is_shared => Self { cut_bias_percent: 0.0, cut_percent: 0.0, ..*self },
            Some(_) | None => Self { plan_percent: None, ..*self },
        }
    }

    /// How far everything but single operators is off in one draw.
    pub(crate) fn deviation(&self, draw: u64) -> Deviation {
        let factor = |stream, percent| factor(normal(draw, stream) * percent);
        let computing =
            ProcessorKind::ALL.map(|kind| factor(kind as u64, self.common_percent[kind as usize]));
        let beyond = |[bias, percent]: [f64; 2]| (1.0 + bias / 100.0) * factor(CUTS, percent);
        let cut = beyond([self.cut_bias_percent, self.cut_percent]);
        let plan = self.plan_percent.map_or(1.0, beyond);
        Deviation { computing, meeting: factor(MEETINGS, self.meeting_percent), cut, plan }
    }

    /// How far a task is off in one draw, beside what everything is.
    fn of_operator(&self, task: &PricedCommand, draw: u64) -> f64 {
        let kind = task.processor();
        let stream = FIRST_OPERATOR + (task.stage * ProcessorKind::ALL.len() + kind as usize) as u64;
        factor(normal(draw, stream) * self.operator_percent[kind as usize])
    }
}

impl Deviation {
    /// A profile that says what is so.
    pub(crate) const NONE: Self = Self { computing: [1.0; 3], meeting: 1.0, cut: 1.0, plan: 1.0 };

    /// By how much a task's time is multiplied.
    fn of(&self, task: &PricedCommand) -> f64 {
        let own = match task.what {
            What::Compute { .. } if task.share == Share::default() => {
                self.computing[task.processor() as usize]
            }
            What::Compute { .. } => self.computing[task.processor() as usize] * self.cut,
            What::HandOver { .. } | What::Join { .. } => self.meeting,
            What::Submit | What::ReadBack => self.computing[ProcessorKind::Gpu as usize],
            What::Move { .. } => 1.0,
        };
        own * self.plan
    }
}

/// By how much shared work takes longer than predicted, and how far that spreads, of errors of predictions.
fn beyond_parts(group: &Group) -> [f64; 2] {
    let bias_percent = 100.0 * ((1.0 + group.bias_percent / 100.0).recip() - 1.0);
    let beyond = (group.p95_ape_percent - group.bias_percent.abs()).max(0.0);
    [bias_percent, beyond / NORMAL_95_ONE_SIDED * MEAN_ABSOLUTE_DEVIATION]
}

/// What a profile states of its errors.
fn groups(device: &Profile) -> &[Group] {
    device.calibration.as_ref().map_or(&[], |calibration| &calibration.error)
}

/// A normal number of that index in a draw.
fn normal(draw: u64, index: u64) -> f64 {
    sample::normal(SEED, (draw << STAGE_BITS) | index)
}

/// The mean error of groups, each by its runs.
fn mean<'a>(groups: impl Iterator<Item = &'a Group>) -> Option<f64> {
    let (sum, runs) = groups.fold((0.0, 0.0), |(sum, runs), group| {
        (sum + group.mape_percent * group.n as f64, runs + group.n as f64)
    });
    (runs > 0.0).then(|| sum / runs)
}

/// What something takes in each of [`DRAWS`] draws of errors; written as what 90 % of them lie between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn(pub(super) Vec<Picos>);

impl Drawn {
    /// A plan, once or, where `pipeline` streams it, from batch to batch.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub fn of(
        simulator: &Simulator<'_>,
        (stages, plan): (&[Stage], &Plan),
        pipeline: Option<&Pipeline>,
        errors: &Errors,
    ) -> Result<Self> {
        latencies(simulator, (stages, plan, pipeline), errors, 0..DRAWS).map(Self)
    }

    /// What 90 % of the draws lie between.
    pub fn interval(&self) -> [Picos; 2] {
        let mut drawn = self.0.clone();
        drawn.sort_unstable();
        let outside = drawn.len() / 20;
        let at = |index: usize| drawn.get(index).copied().unwrap_or_default();
        [at(outside), at(drawn.len().saturating_sub(1 + outside))]
    }

    /// In how many of the draws it takes less time than another.
    pub fn times_faster(&self, other: &Self) -> u64 {
        self.0.iter().zip(&other.0).filter(|(own, other)| own < other).count() as u64
    }

    /// Whether which of both takes less time is the same in such a part of the draws; of equals it is.
    pub fn is_surely_ordered(&self, other: &Self, confidence: f64) -> bool {
        let most = self.times_faster(other).max(other.times_faster(self));
        self == other || most as f64 >= confidence * DRAWS as f64
    }
}

impl Serialize for Drawn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.interval().serialize(serializer)
    }
}

/// The mean error that a profile states of a time of language models on a processor.
pub(crate) fn stated_of_language(
    device: &Profile,
    kind: ProcessorKind,
    (format, part): (&str, AnswerPart),
) -> Option<f64> {
    let is_it = |group: &&Group| {
        matches!(&group.name, ErrorGroup::LanguageModel { processor, format: stored, answer, .. }
            if *processor == kind && stored == format && *answer == part)
    };
    mean(groups(device).iter().filter(is_it))
}

/// What a plan takes in each of `draws` of `errors`, from batch to batch where a pipeline streams it.
///
/// # Errors
/// As [`Simulator::run`].
pub(crate) fn latencies(
    simulator: &Simulator<'_>,
    plan: (&[Stage], &Plan, Option<&Pipeline>),
    errors: &Errors,
    draws: Range<u64>,
) -> Result<Vec<Picos>> {
    let errors = &errors.of_plan((plan.0, plan.1));
    let deviations = draws.map(|draw| (errors.deviation(draw), Some((errors, draw))));
    deviating(simulator, plan, deviations.collect())
}

/// What a plan takes where everything is off so.
///
/// # Errors
/// As [`Simulator::run`].
pub(crate) fn latency(
    simulator: &Simulator<'_>,
    (stages, plan): (&[Stage], &Plan),
    deviation: Deviation,
) -> Result<Picos> {
    Ok(deviating(simulator, (stages, plan, None), vec![(deviation, None)])?[0])
}

fn deviating(
    simulator: &Simulator<'_>,
    plan: (&[Stage], &Plan, Option<&Pipeline>),
    deviations: Vec<(Deviation, Option<(&Errors, u64)>)>,
) -> Result<Vec<Picos>> {
    stretched(simulator, plan, deviations, |(deviation, own), _, task| {
        let own = own.filter(|_| task.computes());
        deviation.of(task) * own.map_or(1.0, |(errors, draw)| errors.of_operator(task, draw))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::{SearchOptions, Strategy, explore};
    use crate::kernel::cpu::Library;
    use crate::workload::{fuse, network};

    #[test]
    fn a_plan_takes_what_it_takes_where_nothing_is_off_and_as_much_longer_as_all_is() {
        let device = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("mobilenet-v2").unwrap());
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        let options = SearchOptions { strategy: Strategy::AnySplit, ..SearchOptions::on(&device) };
        let cut = explore(&mut simulator, &stages, &options).unwrap().plan;
        let nominal = simulator.latency(&stages, &cut).unwrap();
        assert_eq!(latency(&simulator, (&stages, &cut), Deviation::NONE), Ok(nominal));
        let none = latencies(&simulator, (&stages, &cut, None), &Errors::common(0.0), 0..3).unwrap();
        assert_eq!(none, vec![nominal; 3]);
        let twice = Deviation { computing: [2.0; 3], meeting: 2.0, ..Deviation::NONE };
        let longer = latency(&simulator, (&stages, &cut), twice).unwrap();
        let ratio = longer.0 as f64 / nominal.0 as f64;
        assert!((1.9..=2.0 + 1e-6).contains(&ratio), "{ratio}: contention alone does not double");
        let drawn =
            |percent| latencies(&simulator, (&stages, &cut, None), &Errors::common(percent), 0..50).unwrap();
        assert_eq!(drawn(10.0), drawn(10.0));
        let spread =
            |latencies: &[Picos]| latencies.iter().max().unwrap().0 - latencies.iter().min().unwrap().0;
        assert!(spread(&drawn(5.0)) < spread(&drawn(20.0)));
        let biased = Errors { cut_bias_percent: 20.0, ..Errors::common(0.0) };
        assert!(latencies(&simulator, (&stages, &cut, None), &biased, 0..1).unwrap()[0] > nominal);
    }

    #[test]
    fn what_networks_take_beyond_their_parts_is_an_error_of_plans_of_several_processors_alone() {
        let device = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("mobilenet-v2").unwrap());
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        let options = SearchOptions { strategy: Strategy::AnySplit, ..SearchOptions::on(&device) };
        let answer = explore(&mut simulator, &stages, &options).unwrap();
        let errors = Errors { plan_percent: Some([50.0, 0.0]), cut_bias_percent: 5.0, ..Errors::common(0.0) };
        let mut times_longer = |plan: &Plan| {
            let nominal = simulator.latency(&stages, plan).unwrap();
            latencies(&simulator, (&stages, plan, None), &errors, 0..1).unwrap()[0].0 as f64
                / nominal.0 as f64
        };
        assert!(answer.baselines.iter().all(|single| (times_longer(&single.plan) - 1.0).abs() < 1e-9));
        assert!((times_longer(&answer.plan) - 1.5).abs() < 1e-3);
    }
}
