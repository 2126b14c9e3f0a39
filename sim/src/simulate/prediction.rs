//! The prediction of a run: plain data, as it is printed and serialised.

use crate::schedule::StepKind;
use serde::Serialize;

use super::{Detail, Footprint};
use crate::device::ProcessorKind;
use crate::units::{Bytes, BytesPerSecond, Joules, Picos};

/// A simulated run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// From the start of the first task to the end of the last.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// One-time cost before the first run: building the NPU's static graphs for the longest
    /// input; `None` where the plan uses none.
    #[serde(rename = "preparation_ps")]
    pub preparation: Option<Picos>,
    /// Breakdown of the latency along the critical path.
    pub composition: Composition,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// Their mean rate.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy of the run; `None` where the profile has no power table.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
    /// The part of the energy that no row of [`Self::processors`] includes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_energy: Option<OtherEnergy>,
    /// Memory of weights and results, and the overhead of the plan.
    pub memory: Footprint,
    /// The sum of that memory.
    #[serde(rename = "peak_memory_bytes")]
    pub peak_memory: Bytes,
    /// Whether it fits into the device's memory; `None` where the size of that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits_memory: Option<bool>,
    /// Every processor that has tasks.
    pub processors: Vec<ProcessorUse>,
    /// The operators, in order.
    pub stages: Vec<StageReport>,
    /// Tasks that determine the latency, each of which started when the one before it
    /// ended.
    pub critical_path: Vec<CriticalStep>,
    /// Number of engine events.
    pub events: u64,
}

/// Breakdown of a latency along the critical path; the parts add up to the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Composition {
    /// Computing: the sum of the operators' [`StageReport::critical`].
    #[serde(rename = "computing_ps")]
    pub computing: Picos,
    /// Bringing inputs to where they are read: from the call to the GPU's first launch, and copies into a
    /// GPU's own memory.
    #[serde(rename = "copies_in_ps")]
    pub copies_in: Picos,
    /// Bringing results to the caller: the read-back, and copies out of a GPU's own memory.
    #[serde(rename = "copies_out_ps")]
    pub copies_out: Picos,
    /// Handing results to other processors.
    #[serde(rename = "hand_overs_ps")]
    pub hand_overs: Picos,
    /// Joining the parts of cut operators.
    #[serde(rename = "joins_ps")]
    pub joins: Picos,
}

impl Composition {
    /// Names and lengths of the parts.
    pub fn parts(&self) -> [(&'static str, Picos); 5] {
        [
            ("computing", self.computing),
            ("copies in", self.copies_in),
            ("copies out", self.copies_out),
            ("hand-overs", self.hand_overs),
            ("joins", self.joins),
        ]
    }

    /// Names of the parts that are nonzero in at least one of `all`, and always of computing.
    pub fn named_parts<'a>(all: impl IntoIterator<Item = &'a Self>) -> Vec<&'static str> {
        let mut most = Self { computing: Picos(1), ..Self::default() }.parts();
        for composition in all {
            for (most, (_, part)) in most.iter_mut().zip(composition.parts()) {
                most.1 = most.1.max(part);
            }
        }
        most.into_iter().filter(|(_, most)| *most > Picos::ZERO).map(|(name, _)| name).collect()
    }
}

/// Energy of a run that is not attributed to a processor with tasks. With the energy of
/// those processors it adds up to that of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OtherEnergy {
    /// Moving bytes to and from memory.
    #[serde(rename = "memory_joules")]
    pub memory: Joules,
    /// Processors without tasks, idle during the run.
    #[serde(rename = "idle_processors_joules")]
    pub idle_processors: Joules,
    /// Base power of the device, which does not depend on what runs.
    #[serde(rename = "base_joules")]
    pub base: Joules,
}

/// What one processor did during a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessorUse {
    /// The processor.
    pub processor: ProcessorKind,
    /// Time spent computing, including launches.
    #[serde(rename = "busy_ps")]
    pub busy: Picos,
    /// Time spent waiting for other processors before and between its own tasks and, on
    /// the GPU, for the last join.
    #[serde(rename = "wait_ps")]
    pub wait: Picos,
    /// Time spent on hand-overs, joins and transfers and, once per inference, between
    /// the caller and the GPU.
    #[serde(rename = "overhead_ps")]
    pub overhead: Picos,
    /// Part of the wait that the CPU spends polling, at the polling power of a core.
    #[serde(rename = "polling_ps")]
    pub polling: Picos,
    /// Copies over the link of a GPU with its own memory, included in the overhead; `None` without such copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
    /// Bytes it moved to and from memory.
    pub bytes: Bytes,
    /// Those bytes divided by its busy time.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy it used; `None` where the profile does not state its power.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
}

/// Copies between a GPU's own memory and the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Total time.
    #[serde(rename = "time_ps")]
    pub time: Picos,
    /// Bytes copied.
    pub bytes: Bytes,
}

/// How one operator ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// The operator's name.
    pub name: String,
    /// The operator with its dimensions.
    pub operator: String,
    /// When the first of its tasks started.
    #[serde(rename = "start_ps")]
    pub start: Picos,
    /// When its result was complete.
    #[serde(rename = "finish_ps")]
    pub finish: Picos,
    /// Its computing on the critical path; zero where other operators determine the latency.
    #[serde(rename = "critical_ps")]
    pub critical: Picos,
    /// The part that each processor computed.
    pub parts: Vec<PartReport>,
}

/// One processor's part of an operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartReport {
    /// The processor.
    pub processor: ProcessorKind,
    /// Output channels it computed, where the operator was cut along them.
    pub channels: Option<u32>,
    /// Output rows it computed, where the operator was cut along its height.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// When it started.
    #[serde(rename = "start_ps")]
    pub start: Picos,
    /// When it finished.
    #[serde(rename = "finish_ps")]
    pub finish: Picos,
    /// How long it then waited for the other parts.
    #[serde(rename = "wait_ps")]
    pub wait: Picos,
    /// How the kernel model arrives at its time.
    pub detail: Detail,
}

/// One task of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalStep {
    /// The operator.
    pub stage: String,
    /// The processor.
    pub processor: ProcessorKind,
    /// What it did.
    pub kind: StepKind,
    /// When it started.
    #[serde(rename = "start_ps")]
    pub start: Picos,
    /// When it ended.
    #[serde(rename = "finish_ps")]
    pub finish: Picos,
}
