//! Today's practice: a delegate of TensorFlow Lite computes the partitions of the graph that it takes,
//! the CPU computes the rest.
//!
//! Responsible for: how partitions grow, how many of them a delegate takes, and the tensors that cross
//! their borders. Not for: which operators a delegate takes (`rules`). Invariant: the interpreter runs
//! partitions one after another, and waits for the delegate's queue to be empty before it goes on.
//!
//! Source: LiteRT f67457790c9c, `tflite/graph_info.cc` (partitions), `tflite/delegates/utils.cc` (the largest
//! first), `tflite/delegates/gpu/cl/api.cc` (copies and waits), `litert/compiler/plugin/algo.cc` (NPU).

mod rules;

#[cfg(test)]
mod tests;

use serde::Serialize;

use super::{Explorer, Found, Strategy};
use crate::device::{Core, Direction, ProcessorKind, Profile};
use crate::plan::synchronisation::notification;
use crate::plan::{GraphCover, Mechanism, Placement, Plan, Processor};
use crate::schedule::result_bytes;
use crate::simulate::{
    Result, SimulateError, Simulator, between_cpu_and_gpu, hand_over_delay, has_own_memory,
};
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// The interpreter waits for the delegate's queue to be empty.
const MECHANISM: Mechanism = Mechanism::BlockingFinish;

/// A delegate, or an NPU compiler used as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Delegate {
    /// TFLite's GPU delegate.
    #[strum(serialize = "GPU delegate")]
    Gpu,
    /// TFLite's XNNPACK delegate, on CPU cores.
    #[strum(serialize = "XNNPACK delegate")]
    Xnnpack,
    /// The vendor's compiler, as a plugin of `LiteRT`.
    #[strum(serialize = "NPU compiler")]
    Compiler,
    /// TFLite's Core ML delegate.
    #[strum(serialize = "Core ML delegate")]
    CoreMl,
}

/// Operators that run together, all on the delegate or all on the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Partition {
    /// Whether the delegate computes it.
    pub delegated: bool,
    /// Its stages, in their order.
    pub stages: Vec<usize>,
    /// Number of the graph's operators in these stages.
    pub nodes: usize,
    /// Tensors that cross into it from partitions on the other side.
    pub tensors: usize,
    /// Bytes of these tensors.
    #[serde(rename = "crossing_bytes")]
    pub bytes: Bytes,
    /// Time of their crossing, synchronisation included.
    #[serde(rename = "crossing_ps")]
    pub crossing: Picos,
}

/// An operator that a delegate leaves to the CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its stage.
    pub stage: usize,
    /// Why the delegate does not take it.
    pub reason: String,
}

/// How a delegate partitions a graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Partitioning {
    /// The delegate.
    pub delegate: Delegate,
    /// The partitions in the order of their execution.
    pub partitions: Vec<Partition>,
    /// Operators that the delegate leaves to the CPU, in the order of the stages.
    pub left_out: Vec<LeftOut>,
}

impl Delegate {
    /// The delegate of a strategy on a device; `None` if the strategy is no delegate's.
    fn of(strategy: Strategy, device: &Profile) -> Option<Self> {
        let is_apples = device.cpu.clusters.iter().any(|cluster| cluster.core == Core::Apple);
        let of_npu = if is_apples { Self::CoreMl } else { Self::Compiler };
        let mut of_strategies = Strategy::DELEGATES.into_iter().zip([Self::Gpu, Self::Xnnpack, of_npu]);
        of_strategies.find_map(|(one, delegate)| (one == strategy).then_some(delegate))
    }

    /// The processor of its partitions; `None` for CPU cores.
    fn processor(self) -> Option<Processor> {
        match self {
            Self::Gpu => Some(Processor::Gpu),
            Self::Xnnpack => None,
            Self::Compiler | Self::CoreMl => Some(Processor::Npu(GraphCover::Padded)),
        }
    }

    /// Most partitions that it takes by default.
    fn max_partitions(self) -> usize {
        match self {
            Self::Gpu => 1,
            Self::Xnnpack | Self::Compiler | Self::CoreMl => usize::MAX,
        }
    }

    /// Fewest operators of a partition that it takes.
    fn min_nodes(self) -> usize {
        if matches!(self, Self::CoreMl) { 2 } else { 1 }
    }

    /// Whether a partition continues past an operator of the other side, with the operators that do not
    /// depend on it.
    fn skips(self) -> bool {
        !matches!(self, Self::Compiler)
    }

    /// Why it leaves a stage to the CPU; `None` if it takes the stage. A vendor's compiler takes every
    /// operator that it has a kernel for.
    fn refusal(self, simulator: &Simulator<'_>, stage: &Stage) -> Option<String> {
        let known = match self {
            Self::Gpu => rules::gpu(&stage.layer),
            Self::Xnnpack => rules::xnnpack(&stage.layer),
            Self::CoreMl => rules::core_ml(&stage.layer),
            Self::Compiler => None,
        };
        let asked = |by| simulator.layer(&stage.layer, by).err().map(|error| error.to_string());
        let by = self.processor().filter(|by| by.kind() == ProcessorKind::Npu);
        known.map(str::to_owned).or_else(|| by.and_then(asked))
    }
}

/// The plan of a delegate: its partitions on its processor, the rest on the core set that is best for
/// the whole workload.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found> {
    let (stages, device) = (explorer.stages, explorer.simulator.device());
    let Some(partitioning) = partitioning(explorer.simulator, stages, strategy) else {
        return Err(SimulateError::NothingToUse);
    };
    let by = partitioning.delegate.processor();
    if by.is_some_and(|by| by.kind() == ProcessorKind::Npu) && device.npu.is_none() {
        return Err(SimulateError::absent("NPU", device));
    }
    let mut order: Vec<usize> = partitioning.partitions.iter().flat_map(|one| &one.stages).copied().collect();
    if order.is_sorted() {
        order.clear();
    }
    let on = |cores| {
        let cpu = Placement::cpu(cores);
        let mut placements = vec![cpu; stages.len()];
        for partition in partitioning.partitions.iter().filter(|partition| partition.delegated) {
            partition.stages.iter().for_each(|&stage| placements[stage] = by.map_or(cpu, Placement::whole));
        }
        Plan { in_turn: true, order: order.clone(), ..Plan::new(MECHANISM, placements) }
    };
    let plans = explorer.options.core_sets.iter().map(|&cores| on(cores));
    let found = plans.map(|plan| explorer.found(strategy, plan, 1)).collect::<Result<Vec<_>, _>>()?;
    explorer.best(found)
}

/// How the delegate of a strategy partitions `stages`; `None` if the strategy is no delegate's.
pub fn partitioning(simulator: &Simulator<'_>, stages: &[Stage], strategy: Strategy) -> Option<Partitioning> {
    let delegate = Delegate::of(strategy, simulator.device())?;
    let refusals: Vec<Option<String>> =
        stages.iter().map(|stage| delegate.refusal(simulator, stage)).collect();
    let takes: Vec<bool> = refusals.iter().map(Option::is_none).collect();
    let mut partitions = grown(stages, &takes, delegate.skips());
    // The sort is stable: among partitions of equal size, the first ranks first.
    let mut by_size: Vec<usize> = (0..partitions.len()).filter(|&one| partitions[one].delegated).collect();
    by_size.sort_by_key(|&one| std::cmp::Reverse(partitions[one].nodes));
    for (rank, &one) in by_size.iter().enumerate() {
        partitions[one].delegated =
            rank < delegate.max_partitions() && partitions[one].nodes >= delegate.min_nodes();
    }
    let delegated = delegated(stages.len(), &partitions);
    let supported = || match delegate.max_partitions() {
        usize::MAX => format!("in a partition of fewer than {} operators", delegate.min_nodes()),
        most => format!("not in the largest {}", if most == 1 { "partition" } else { "partitions" }),
    };
    let left = refusals.into_iter().enumerate().filter(|&(stage, _)| !delegated[stage]);
    let left_out = left.map(|(stage, reason)| LeftOut { stage, reason: reason.unwrap_or_else(supported) });
    let left_out = left_out.collect();
    if let Some(by) = delegate.processor() {
        cross(simulator.device(), stages, (by.kind(), &delegated), &mut partitions);
    }
    Some(Partitioning { delegate, partitions, left_out })
}

/// For each stage, whether the delegate computes it.
fn delegated(stages: usize, partitions: &[Partition]) -> Vec<bool> {
    let mut delegated = vec![false; stages];
    for partition in partitions {
        partition.stages.iter().for_each(|&stage| delegated[stage] = partition.delegated);
    }
    delegated
}

/// Partitions in the order of their execution: the first stage that can run determines the side, and
/// every later stage of that side whose inputs are computed by then joins. Without `skips`, a partition
/// ends before the first stage of the other side.
fn grown(stages: &[Stage], takes: &[bool], skips: bool) -> Vec<Partition> {
    let mut partitions: Vec<Partition> = Vec::new();
    let mut is_done = vec![false; stages.len()];
    while let Some(first) = is_done.iter().position(|done| !done) {
        let mut partition = Partition { delegated: takes[first], ..Partition::default() };
        // Stages read only earlier ones, so one pass finds all.
        for stage in first..stages.len() {
            let is_ready = !is_done[stage] && stages[stage].inputs().all(|input| is_done[input]);
            if is_ready && takes[stage] == partition.delegated {
                is_done[stage] = true;
                partition.nodes += stages[stage].nodes.len().max(1);
                partition.stages.push(stage);
            } else if !skips && !is_done[stage] {
                break;
            }
        }
        partitions.push(partition);
    }
    partitions
}

/// Counts the tensors that cross into each partition: each result of the other side once. One wait for that side
/// serves every result that it has computed until then, except where each is copied over a GPU's link.
fn cross(
    device: &Profile,
    stages: &[Stage],
    (kind, delegated): (ProcessorKind, &[bool]),
    partitions: &mut [Partition],
) {
    let mut has_crossed = vec![false; stages.len()];
    let [mut is_computed, mut is_known] = [(); 2].map(|()| vec![false; stages.len()]);
    for partition in partitions {
        for &stage in &partition.stages {
            for input in stages[stage].inputs() {
                if delegated[input] == delegated[stage] || std::mem::replace(&mut has_crossed[input], true) {
                    continue;
                }
                let bytes = result_bytes(&stages[input].layer);
                let direction = if delegated[stage] { Direction::ToGpu } else { Direction::ToHost };
                partition.tensors += 1;
                partition.bytes += bytes;
                partition.crossing += match kind {
                    ProcessorKind::Gpu => between_cpu_and_gpu(device, MECHANISM, bytes, direction),
                    ProcessorKind::Npu | ProcessorKind::Cpu => {
                        hand_over_delay(device, MECHANISM, bytes, false)
                    }
                };
                if is_known[input] {
                    partition.crossing = partition.crossing - notification(&device.sync, MECHANISM);
                } else if !has_own_memory(device) {
                    let is_ready = |other: usize| is_computed[other] && delegated[other] == delegated[input];
                    (0..stages.len())
                        .filter(|&other| is_ready(other))
                        .for_each(|other| is_known[other] = true);
                }
            }
        }
        partition.stages.iter().for_each(|&stage| is_computed[stage] = true);
    }
}
