//! IN WHICH ORDER: from a plan and a graph to the commands of each processor's queue, and
//! where queues meet.
//!
//! Responsible for: which commands there are, in which queue, and what each comes after.
//! Not for: what a command takes (`simulate`), or how one queue learns of another (the
//! hardware). Invariants: a command comes after earlier commands only, so that no queue
//! waits for what waits for it; inside a chain no command of one queue comes after one of
//! another; what the CPU or the GPU reads lies in its memory.
//!
//! A stage becomes one compute command a part, preceded by a hand-over where an input lies
//! with another processor, and followed by a join where several processors computed parts
//! of it. The join is the CPU's, which handles the flags; what the GPU is given later comes
//! after it, as an in-order queue with a polling kernel does (EPEW'25, section 4). Where
//! processors take turns, every command comes after the one before it.
//!
//! Processors that share the memory hand a result over: a signal, and a mapping where the
//! mechanism needs one. A GPU with memory of its own has it moved instead, through its
//! in-order queue. What it works on lies there already, but for the inputs of the workload,
//! which come from the host; results go to the host in the end.

mod builder;
mod missing;

use serde::Serialize;
use strum::EnumDiscriminants;
use thiserror::Error;

pub use missing::{Missing, missing, pieces, read_bytes, result_bytes};

use crate::device::ProcessorKind;
use crate::kernel::CoreSet;
use crate::plan::{ChainError, PlacementError, Plan, Processor, Region, Regions, computed};
use crate::units::Bytes;
use crate::workload::Stage;

/// The commands of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// In the order in which they are given to the queues, each processor's in order.
    pub commands: Vec<Command>,
    /// What each part of every stage computes, halos of chains included.
    pub computed: Vec<Regions>,
    /// What each processor reads of every stage's result and did not compute.
    pub missing: Vec<Missing>,
}

/// Number of a command: its position in the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u32);

/// What one queue does, and what must have ended before.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The stage it belongs to: the one that computes or reads.
    pub stage: usize,
    /// Whose queue it is in.
    pub by: Processor,
    /// What is done.
    pub what: What,
    /// Commands that end before it starts, besides those before it in its queue.
    pub after: Vec<CommandId>,
}

/// What a command does; its kind is a [`StepKind`].
#[derive(Clone, Copy, Debug, PartialEq, EnumDiscriminants)]
#[strum_discriminants(name(StepKind), derive(Serialize), serde(rename_all = "kebab-case"))]
#[strum_discriminants(doc = "What a command does, by its kind.")]
pub enum What {
    /// The GPU's queue gets to its first launch; once an inference.
    Submit,
    /// Computes a part of the stage.
    Compute {
        /// Which of the placement's parts.
        part: usize,
        /// What of the output, the halo of its chain included.
        region: Region,
    },
    /// Copies between the GPU's own memory and the host's, through the GPU's queue.
    #[strum_discriminants(serde(rename = "transfer"))]
    Move {
        /// Of what.
        tensor: Tensor,
        /// What crosses.
        region: Region,
        /// Its bytes.
        bytes: Bytes,
        /// Pieces of memory apart from each other that hold it.
        pieces: u64,
        /// Where to.
        to: Memory,
    },
    /// Makes another processor's result visible to this one.
    HandOver {
        /// The stage whose result it is.
        result: usize,
        /// What this processor reads of it and did not compute.
        missing: Bytes,
        /// Who has it so far.
        from: Holders,
    },
    /// Brings the parts of one stage, or those that leave a chain, together. The stages are
    /// those of the commands before it.
    Join {
        /// What the processors lack of it.
        missing: Bytes,
        /// Whether the NPU computed some of it.
        with_npu: bool,
    },
    /// Gets the results that the GPU alone has to the caller; once an inference. The stages are those of
    /// the commands before it.
    ReadBack,
}

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// The result of a stage.
    Result(usize),
    /// The workload's inputs that a stage reads.
    Inputs(usize),
}

/// A memory that results lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The host's, which the CPU and, unless it has its own, the GPU use.
    Host,
    /// The GPU's own.
    Gpu,
}

/// Processors that have all they need of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holders(u8);

/// What of a machine, and of what is timed, decides which commands there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Setting {
    /// Whether the GPU has a memory of its own.
    pub gpu_has_own_memory: bool,
    /// Whether inputs and results of the workload lie with the host, rather than with the
    /// processor that reads or computes them.
    pub ends_on_host: bool,
    /// Whether filling the GPU's queue, and reading its result back, are commands of their own.
    pub is_inference: bool,
    /// Whether the CPU computes only once the GPU's queue is filled.
    pub cpu_fills_the_queue: bool,
    /// The core that joins what no CPU core computes.
    pub control: Option<CoreSet>,
}

/// Why a plan has no schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ScheduleError {
    /// The plan is for another workload.
    #[error("the plan has {placements} placements, the workload {stages} operators")]
    PlanLength { placements: usize, stages: usize },
    /// Parts that are no placement of an operator.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Stages in an order in which the workload cannot be computed.
    #[error("operator {stage} of the plan's order reads what is not computed before it, or is there twice")]
    Order { stage: usize },
    /// Operators that the plan chains cannot be a chain.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// A join needs a CPU core.
    #[error("no CPU core is there to bring parts together")]
    NoCores,
}

impl Holders {
    /// One processor.
    pub fn one(kind: ProcessorKind) -> Self {
        Self(1 << kind as u8)
    }

    /// These and another.
    #[must_use]
    pub fn with(self, kind: ProcessorKind) -> Self {
        Self(self.0 | Self::one(kind).0)
    }

    /// These and others.
    #[must_use]
    pub fn with_all(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether that processor is one of them.
    pub fn has(self, kind: ProcessorKind) -> bool {
        self.0 & Self::one(kind).0 != 0
    }

    /// Whether all of `others` are.
    pub fn has_all(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// Whether nobody else is.
    pub fn is_only(self, kind: ProcessorKind) -> bool {
        self == Self::one(kind)
    }
}

impl CommandId {
    /// Its position.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The commands of `plan` for `stages`.
///
/// # Errors
/// The plan is for another workload, or its parts or chains are none.
pub fn schedule(stages: &[Stage], plan: &Plan, setting: &Setting) -> Result<Schedule, ScheduleError> {
    if plan.placements.len() != stages.len() {
        let (placements, stages) = (plan.placements.len(), stages.len());
        return Err(ScheduleError::PlanLength { placements, stages });
    }
    for (stage, placement) in stages.iter().zip(&plan.placements) {
        placement.check(&stage.layer.operator)?;
    }
    check_order(stages, plan)?;
    let computed = computed(stages, plan)?;
    let missing = missing(stages, &plan.placements, &computed);
    builder::Builder::new(stages, plan, setting, Schedule { commands: Vec::new(), computed, missing }).build()
}

/// That each stage of a plan's own order comes once, and behind what it reads.
fn check_order(stages: &[Stage], plan: &Plan) -> Result<(), ScheduleError> {
    let mut is_computed = vec![false; stages.len()];
    for &stage in &plan.order {
        let is_next = |of: &Stage| !is_computed[stage] && of.inputs.iter().all(|&input| is_computed[input]);
        if !stages.get(stage).is_some_and(is_next) {
            return Err(ScheduleError::Order { stage });
        }
        is_computed[stage] = true;
    }
    let is_whole = plan.order.is_empty() || plan.order.len() == stages.len();
    if is_whole { Ok(()) } else { Err(ScheduleError::Order { stage: plan.order.len() }) }
}

/// For each stage, whether its result is read outside its chain, or by nobody.
fn leaves_its_chain(stages: &[Stage], plan: &Plan) -> Vec<bool> {
    let mut leaves = vec![true; stages.len()];
    if plan.chains.is_empty() {
        return leaves;
    }
    let reads = || stages.iter().enumerate().flat_map(|(stage, s)| s.inputs.iter().map(move |&i| (stage, i)));
    reads().for_each(|(_, input)| leaves[input] = false);
    for (_, input) in reads().filter(|&(stage, input)| plan.chain(stage) != plan.chain(input)) {
        leaves[input] = true;
    }
    leaves
}

#[cfg(test)]
mod tests;
