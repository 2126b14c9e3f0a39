//! IN WHICH ORDER: from a plan and a graph to the commands of each processor's queue, and
//! the dependences between queues.
//!
//! Responsible for: the commands, their queues, and the commands that each depends on.
//! Not for: the time of a command (`simulate`), or how one queue waits for another (the
//! hardware). Invariants: a command depends on earlier commands only, so that there is no
//! deadlock; inside a chain no command of one queue depends on one of another; everything
//! that the CPU or the GPU reads is in its memory.
//!
//! A stage becomes one compute command per part, preceded by a hand-over for each input on
//! another processor, and followed by a join if several processors computed parts of it. The
//! join is in the CPU's queue, which handles the flags; later GPU commands come after it, as
//! in an in-order queue with a polling kernel (EPEW'25, section 4). If processors take turns,
//! every command depends on the one before it.
//!
//! Processors that share the memory hand a result over: a signal, and a mapping if the
//! mechanism needs one. A part of a stage that reads several results of one other processor waits
//! once for all of them, as that processor's queue is in order; if processors take turns, a wait
//! also serves later stages. For a GPU with memory of its own the result is copied instead, through
//! its in-order queue. The GPU's weights are there already; the workload's inputs come from the
//! host, and results go to the host at the end.

mod builder;
mod missing;

use serde::Serialize;
use strum::EnumDiscriminants;
use thiserror::Error;

pub use missing::{Missing, input_bytes, missing, pieces, read_bytes, result_bytes};

use crate::device::{Direction, ProcessorKind};
use crate::kernel::CoreSet;
use crate::plan::{ChainError, PlacementError, Plan, Processor, Region, Regions, computed};
use crate::units::Bytes;
use crate::workload::Stage;

/// The commands of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// In the order in which they are queued; each processor runs its own in order.
    pub commands: Vec<Command>,
    /// The region of each part of every stage, halos of chains included.
    pub computed: Vec<Regions>,
    /// Bytes of every stage's result that each processor reads and did not compute.
    pub missing: Vec<Missing>,
}

/// Number of a command: its position in the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u32);

/// A command of one queue, and the commands that it waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// The stage it belongs to: the one that computes or reads.
    pub stage: usize,
    /// The processor of its queue.
    pub by: Processor,
    /// What it does.
    pub what: What,
    /// Commands that must end before it starts, in addition to those before it in its queue.
    pub after: Vec<CommandId>,
}

/// What a command does; its kind is a [`StepKind`].
#[derive(Clone, Copy, Debug, PartialEq, EnumDiscriminants)]
#[strum_discriminants(name(StepKind), derive(Serialize), serde(rename_all = "kebab-case"))]
#[strum_discriminants(doc = "What a command does, by its kind.")]
pub enum What {
    /// Fills the GPU's queue up to its first launch; once per inference.
    Submit,
    /// Computes a part of the stage.
    Compute {
        /// Which of the placement's parts.
        part: usize,
        /// Its region of the output, the halo of its chain included.
        region: Region,
    },
    /// Copies between the GPU's own memory and the host's, through the GPU's queue.
    #[strum_discriminants(serde(rename = "transfer"))]
    Move {
        /// The tensor.
        tensor: Tensor,
        /// The region that is copied.
        region: Region,
        /// Its bytes.
        bytes: Bytes,
        /// Number of separate pieces of memory that hold it.
        pieces: u64,
        /// The destination.
        to: Memory,
    },
    /// Makes another processor's result visible to this one.
    HandOver {
        /// The stage whose result it is.
        result: usize,
        /// Bytes that this processor reads and did not compute.
        missing: Bytes,
        /// The processors that have the result so far.
        from: Holders,
        /// Whether the reader is notified; otherwise the result was complete when it last waited for that processor.
        waits: bool,
    },
    /// Joins the parts of one stage, or of the results that leave a chain. The stages are
    /// those of the commands in [`Command::after`].
    Join {
        /// Bytes that the processors lack.
        missing: Bytes,
        /// Whether the NPU computed some of it.
        with_npu: bool,
    },
    /// Returns the results that only the GPU has to the caller; once per inference. The stages are
    /// those of the commands in [`Command::after`].
    ReadBack,
}

/// A tensor that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// The result of a stage.
    Result(usize),
    /// The workload's inputs that a stage reads, without constants.
    Inputs(usize),
}

/// A memory that holds results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The host's, which the CPU uses, and the GPU unless it has memory of its own.
    Host,
    /// The GPU's own.
    Gpu,
}

impl From<Memory> for Direction {
    fn from(to: Memory) -> Self {
        match to {
            Memory::Host => Self::ToHost,
            Memory::Gpu => Self::ToGpu,
        }
    }
}

/// The processors that have everything they need of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holders(u8);

/// Properties of the machine, and of the measurement, that determine the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Setting {
    /// Whether the GPU has a memory of its own.
    pub gpu_has_own_memory: bool,
    /// Whether inputs and results of the workload are on the host, rather than on the
    /// processor that reads or computes them.
    pub ends_on_host: bool,
    /// Whether filling the GPU's queue, and reading its result back, are commands of their own.
    pub is_inference: bool,
    /// Whether the CPU computes only after it has filled the GPU's queue.
    pub cpu_fills_the_queue: bool,
    /// The cores that join a stage of which no CPU core computes a part.
    pub control: Option<CoreSet>,
}

/// Why a plan has no schedule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ScheduleError {
    /// The plan is for another workload.
    #[error("the plan has {placements} placements, the workload {stages} operators")]
    PlanLength { placements: usize, stages: usize },
    /// Parts that are not a placement of an operator.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// Stages in an order in which the workload cannot be computed.
    #[error(
        "the plan's order is invalid: operator {stage} is missing, repeated, or before one of its inputs"
    )]
    Order { stage: usize },
    /// Chained operators that cannot be a chain.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// A join needs a CPU core.
    #[error("the device has no CPU core to join the parts of an operator")]
    NoCores,
}

impl Holders {
    /// A single processor.
    pub fn one(kind: ProcessorKind) -> Self {
        Self(1 << kind as u8)
    }

    /// The processors that have a joined result of CPU and GPU: with a GPU that has memory of its own, the CPU.
    pub(crate) fn joined(gpu_has_own_memory: bool) -> Self {
        let cpu = Self::one(ProcessorKind::Cpu);
        if gpu_has_own_memory { cpu } else { cpu.with(ProcessorKind::Gpu) }
    }

    /// These and one more.
    #[must_use]
    pub fn with(self, kind: ProcessorKind) -> Self {
        Self(self.0 | Self::one(kind).0)
    }

    /// The union of both.
    #[must_use]
    pub fn with_all(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether a processor is one of them.
    pub fn has(self, kind: ProcessorKind) -> bool {
        self.0 & Self::one(kind).0 != 0
    }

    /// Whether all of `others` are.
    pub fn has_all(self, others: Self) -> bool {
        others.0 & !self.0 == 0
    }

    /// Whether there is none.
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The processor, if it is the only one.
    pub fn only(self) -> Option<ProcessorKind> {
        ProcessorKind::ALL.into_iter().find(|&kind| self.is_only(kind))
    }

    /// Whether a processor is the only one.
    pub fn is_only(self, kind: ProcessorKind) -> bool {
        self == Self::one(kind)
    }
}

impl CommandId {
    /// Its position in the schedule.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The commands of `plan` for `stages`.
///
/// # Errors
/// The plan is for another workload, or its parts, order or chains are invalid.
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

/// Checks that each stage of a plan's own order comes once, and after its inputs.
fn check_order(stages: &[Stage], plan: &Plan) -> Result<(), ScheduleError> {
    let mut is_computed = vec![false; stages.len()];
    for &stage in &plan.order {
        let is_next = |of: &Stage| !is_computed[stage] && of.inputs().all(|input| is_computed[input]);
        if !stages.get(stage).is_some_and(is_next) {
            return Err(ScheduleError::Order { stage });
        }
        is_computed[stage] = true;
    }
    let is_whole = !plan.is_reordered() || plan.order.len() == stages.len();
    if is_whole { Ok(()) } else { Err(ScheduleError::Order { stage: plan.order.len() }) }
}

/// For each stage, whether its result is read outside its chain, or not at all.
fn leaves_its_chain(stages: &[Stage], plan: &Plan) -> Vec<bool> {
    let mut leaves = vec![true; stages.len()];
    if plan.chains.is_empty() {
        return leaves;
    }
    let reads = || stages.iter().enumerate().flat_map(|(stage, s)| s.inputs().map(move |i| (stage, i)));
    reads().for_each(|(_, input)| leaves[input] = false);
    for (_, input) in reads().filter(|&(stage, input)| plan.chain(stage) != plan.chain(input)) {
        leaves[input] = true;
    }
    leaves
}

#[cfg(test)]
mod tests;
