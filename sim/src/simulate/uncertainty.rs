//! Latencies of plans under random errors of a profile's times.
//!
//! Responsible for: drawing errors, and running plans under them. Not for: how repeated runs on one device
//! differ (`sample`), or what follows for a choice (`explore::advice`). Invariant: in one draw all plans see the
//! same errors: one per processor, one per operator on it, one for hand-overs and joins, and one for cuts.

mod drawn;

use std::ops::Range;

use serde::Serialize;

use super::sample::{MEAN_ABSOLUTE_DEVIATION, factor, stretched};
use super::{Known, Pipeline, PricedCommand, Result, Share, Simulator, sample};
use crate::device::calibration::Group;
use crate::device::{AnswerPart, Basis, ErrorGroup, ProcessorKind, Profile};
use crate::plan::Plan;
use crate::schedule::What;
use crate::units::Picos;
use crate::workload::Stage;

pub use drawn::Drawn;

/// Number of draws by which plans are compared. The fraction in which one plan is faster then has a standard
/// deviation of about 3 %.
pub const DRAWS: u64 = 200;

/// Seed of the draws.
const SEED: u64 = 1;
/// Bits of a stream's key below the draw: with more stages, streams would collide.
const STAGE_BITS: u32 = 32;

/// Streams of a draw: one per processor, then these, then those of its operators.
const SYNCHRONISATION_STREAM: u64 = ProcessorKind::ALL.len() as u64;
const CUT_STREAM: u64 = SYNCHRONISATION_STREAM + 1;
const FIRST_OPERATOR_STREAM: u64 = CUT_STREAM + 1;

/// Mean absolute error of hand-overs and joins, in percent. Assumed: they are measured on few phones.
const SYNCHRONISATION_PERCENT: f64 = 20.0;

/// Mean absolute errors of times whose profile states none, in percent. Measured: about what other profiles state;
/// scaled: as of NPUs known by specifications alone (10 to 24 %, in the book); assumed otherwise.
const MEASURED_PERCENT: f64 = 10.0;
const SCALED_PERCENT: f64 = 20.0;
const ASSUMED_PERCENT: f64 = 35.0;

/// One-sided 95 % quantile of the standard normal distribution.
const NORMAL_95_ONE_SIDED: f64 = 1.644_853_626_951_472;

/// Errors of a profile's times: mean absolute errors, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    /// Error that all operators on a processor share, by [`ProcessorKind`].
    pub common_percent: [f64; 3],
    /// Additional error of each operator, by [`ProcessorKind`].
    pub operator_percent: [f64; 3],
    /// Error that all hand-overs and joins share.
    pub meeting_percent: f64,
    /// Bias of parts of cut operators: how much longer than predicted they take.
    pub cut_bias_percent: f64,
    /// Mean absolute error around that bias.
    pub cut_percent: f64,
    /// Bias of networks that several processors share, and the mean absolute error around it. Replaces the
    /// error of cuts for such networks; `None` where none was measured.
    pub plan_percent: Option<[f64; 2]>,
}

/// One draw of errors: factors on the times of a profile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Deviation {
    /// Computing, by [`ProcessorKind`].
    pub(crate) computing: [f64; 3],
    /// Hand-overs and joins.
    pub(crate) synchronisation: f64,
    /// Additional factor on parts of cut operators.
    cut: f64,
    /// Factor on everything in a network that several processors share.
    plan: f64,
}

impl Errors {
    /// One error for each processor, and for hand-overs and joins; no additional error of single operators.
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

    /// Errors by the basis of each processor's times (`known`). Measured or transferred: the cross-validated
    /// errors that `device` states for whole networks and for GPU kernels, if it tells number formats apart
    /// those of the workload's; where it states none of whole networks, 10 %, or that of kernels if it is larger.
    /// Scaled from another device or library: 20 %. Assumed: 35 %. These three percentages are assumptions.
    pub fn of(device: &Profile, known: &[Known]) -> Self {
        let groups = groups(device);
        let is_on = |group: &&Group, kind| matches!(group.name, ErrorGroup::On { processor, .. } if processor == kind);
        let stated = |&Known { processor: kind, ref formats, .. }: &Known, whole: bool| {
            let is_alike = |group: &&Group| formats.iter().any(|&format| group.name.is_of_format(format));
            let on_it = || groups.iter().filter(|group| is_on(group, kind) && group.n > 0);
            let any_is_alike = on_it().any(|group| is_alike(&group));
            let of_kind = || on_it().filter(|group| !any_is_alike || is_alike(group));
            // Groups of the CPU are errors of whole networks, unless a probe has added groups of networks to
            // those of single layers.
            let all_are_whole = kind == ProcessorKind::Npu
                || (kind == ProcessorKind::Cpu && !of_kind().any(|group| group.name.is_of_networks()));
            let is_whole = |group: &Group| all_are_whole || group.name.is_of_networks();
            mean(of_kind().filter(|group| is_whole(group) == whole && !group.name.is_of_all()))
        };
        let of_kind = |kind: ProcessorKind| match known.iter().find(|known| known.processor == kind) {
            Some(known @ Known { basis: Basis::Measured | Basis::Transferred, .. }) => {
                let [whole, single] = [true, false].map(|whole| stated(known, whole));
                let common = whole.unwrap_or(MEASURED_PERCENT.max(single.unwrap_or(0.0)));
                [common, single.unwrap_or(common)]
            }
            Some(Known { basis: Basis::Scaled, .. }) => [SCALED_PERCENT; 2],
            Some(Known { basis: Basis::Assumed | Basis::NotKnown, .. }) | None => [ASSUMED_PERCENT; 2],
        };
        let [cpu, gpu, npu] = ProcessorKind::ALL.map(of_kind);
        let bias_and_error = |of| groups.iter().find(|group| group.name == of).map(bias_and_error);
        let [cut_bias_percent, cut_percent] = bias_and_error(ErrorGroup::Cuts).unwrap_or([0.0; 2]);
        Self {
            common_percent: [cpu[0], gpu[0], npu[0]],
            operator_percent: [cpu[1], gpu[1], npu[1]],
            meeting_percent: SYNCHRONISATION_PERCENT,
            cut_bias_percent,
            cut_percent,
            plan_percent: bias_and_error(ErrorGroup::Plans),
        }
    }

    /// Errors of one time (`part`) of a language model stored in `format`. Where a single processor computes it
    /// and `device` states the error of such times, by runtimes that compile whole steps: that error; otherwise
    /// [`Self::of`].
    pub fn of_language(device: &Profile, known: &[Known], (format, part): (&str, AnswerPart)) -> Self {
        let mut errors = Self::of(device, known);
        if let [Known { processor: kind, basis: Basis::Measured | Basis::Transferred, .. }] = known
            && let Some(percent) = stated_language_error(device, *kind, (format, part))
        {
            errors.common_percent[*kind as usize] = percent;
            errors.operator_percent[*kind as usize] = 0.0;
        }
        errors
    }

    /// The errors that apply to one plan: of a network on several processors the error of such plans, where
    /// that was measured, otherwise the error of cuts.
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

    /// The factors of one draw, other than those of single operators.
    pub(crate) fn deviation(&self, draw: u64) -> Deviation {
        let factor = |stream, percent| factor(normal(draw, stream) * percent);
        let computing =
            ProcessorKind::ALL.map(|kind| factor(kind as u64, self.common_percent[kind as usize]));
        let beyond = |[bias, percent]: [f64; 2]| (1.0 + bias / 100.0) * factor(CUT_STREAM, percent);
        let cut = beyond([self.cut_bias_percent, self.cut_percent]);
        let plan = self.plan_percent.map_or(1.0, beyond);
        Deviation {
            computing,
            synchronisation: factor(SYNCHRONISATION_STREAM, self.meeting_percent),
            cut,
            plan,
        }
    }

    /// The additional factor of a task's operator in one draw.
    fn of_operator(&self, task: &PricedCommand, draw: u64) -> f64 {
        let kind = task.processor();
        let stream = FIRST_OPERATOR_STREAM + (task.stage * ProcessorKind::ALL.len() + kind as usize) as u64;
        factor(normal(draw, stream) * self.operator_percent[kind as usize])
    }
}

impl Deviation {
    /// A profile without errors.
    pub(crate) const NONE: Self = Self { computing: [1.0; 3], synchronisation: 1.0, cut: 1.0, plan: 1.0 };

    /// The factor on a task's time.
    fn of(&self, task: &PricedCommand) -> f64 {
        let own = match task.what {
            What::Compute { .. } if task.share == Share::default() => {
                self.computing[task.processor() as usize]
            }
            What::Compute { .. } => self.computing[task.processor() as usize] * self.cut,
            What::HandOver { .. } | What::Join { .. } => self.synchronisation,
            What::Submit | What::ReadBack => self.computing[ProcessorKind::Gpu as usize],
            What::Move { .. } => 1.0,
        };
        own * self.plan
    }
}

/// From the stated errors of predictions of shared work: how much longer than predicted it takes (bias), and the
/// mean absolute error around that, both in percent.
fn bias_and_error(group: &Group) -> [f64; 2] {
    let bias_percent = 100.0 * ((1.0 + group.bias_percent / 100.0).recip() - 1.0);
    let beyond = (group.p95_ape_percent - group.bias_percent.abs()).max(0.0);
    [bias_percent, beyond / NORMAL_95_ONE_SIDED * MEAN_ABSOLUTE_DEVIATION]
}

/// The error groups that a profile states.
fn groups(device: &Profile) -> &[Group] {
    device.calibration.as_ref().map_or(&[], |calibration| &calibration.error)
}

/// The standard normal variate number `index` of a draw.
fn normal(draw: u64, index: u64) -> f64 {
    sample::normal(SEED, (draw << STAGE_BITS) | index)
}

/// The mean error of groups, weighted by their numbers of runs; `None` without runs.
fn mean<'a>(groups: impl Iterator<Item = &'a Group>) -> Option<f64> {
    let (sum, runs) = groups.fold((0.0, 0.0), |(sum, runs), group| {
        (sum + group.mape_percent * group.n as f64, runs + group.n as f64)
    });
    (runs > 0.0).then(|| sum / runs)
}

/// The mean error that a profile states for a time of language models in `format` on a processor; `None` where
/// it states none.
pub(crate) fn stated_language_error(
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

/// Latencies of a plan in each of `draws` of `errors`, or its periods where a pipeline streams it.
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

/// Latency of a plan under `deviation`.
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
    use crate::workload::{DataType, fuse, network};

    #[test]
    fn latency_is_nominal_without_errors_and_scales_with_them() {
        let device = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("mobilenet-v2").unwrap());
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        let options = SearchOptions { strategy: Strategy::AnySplit, ..SearchOptions::on(&device) };
        let cut = explore(&mut simulator, &stages, &options).unwrap().plan;
        let nominal = simulator.latency(&stages, &cut).unwrap();
        assert_eq!(latency(&simulator, (&stages, &cut), Deviation::NONE), Ok(nominal));
        let none = latencies(&simulator, (&stages, &cut, None), &Errors::common(0.0), 0..3).unwrap();
        assert_eq!(none, vec![nominal; 3]);
        let twice = Deviation { computing: [2.0; 3], synchronisation: 2.0, ..Deviation::NONE };
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
    fn errors_are_those_stated_for_the_number_format() {
        let device = Profile::load("snapdragon-8gen3").unwrap();
        let of = |format| {
            let basis = Basis::Measured;
            let known = Known { processor: ProcessorKind::Npu, basis, formats: vec![format], missing: None };
            Errors::of(&device, &[known]).common_percent[ProcessorKind::Npu as usize]
        };
        let stated = |format: &str| {
            let name = ErrorGroup::from(format!("npu/end_to_end/{format}"));
            groups(&device).iter().find(|group| group.name == name).unwrap().mape_percent
        };
        let formats = [(DataType::F32, "float"), (DataType::I8, "w8a8"), (DataType::W8A16, "w8a16")];
        for (format, name) in formats {
            assert!((of(format) - stated(name)).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn plan_errors_apply_only_to_networks_on_several_processors() {
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
