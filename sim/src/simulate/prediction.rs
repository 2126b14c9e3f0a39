//! What a simulation says of a run: plain data, as it is printed and serialised.

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
    /// Once, before the first run: making the NPU's static graphs for the longest
    /// input, where the plan uses an NPU.
    #[serde(rename = "preparation_ps")]
    pub preparation: Option<Picos>,
    /// What the latency consists of.
    pub composition: Composition,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// Their mean rate.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy of the run, where the profile knows power.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
    /// What of it no row of [`Self::processors`] tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_energy: Option<OtherEnergy>,
    /// Memory of weights and results, and what the plan adds to it.
    pub memory: Footprint,
    /// All of that at once.
    #[serde(rename = "peak_memory_bytes")]
    pub peak_memory: Bytes,
    /// Whether the device's memory holds it, where its size is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fits_memory: Option<bool>,
    /// Each processor that did something.
    pub processors: Vec<ProcessorUse>,
    /// The operators, in order.
    pub stages: Vec<StageReport>,
    /// What the latency consists of: tasks each of which started when the one
    /// before it ended.
    pub critical_path: Vec<CriticalStep>,
    /// Engine events.
    pub events: u64,
}

/// What a latency consists of, along the critical path: its parts add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Composition {
    /// Computing: what the operators' [`StageReport::critical`] add up to.
    #[serde(rename = "computing_ps")]
    pub computing: Picos,
    /// Until the inputs are where they are read: the way to the GPU's first launch, and copies into a
    /// memory of its own.
    #[serde(rename = "copies_in_ps")]
    pub copies_in: Picos,
    /// Until the results are with the caller: the way back, and copies out of a GPU's own memory.
    #[serde(rename = "copies_out_ps")]
    pub copies_out: Picos,
    /// Handing results to other processors.
    #[serde(rename = "hand_overs_ps")]
    pub hand_overs: Picos,
    /// Bringing the parts of operators together.
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

    /// The parts that one of the latencies has, and computing.
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

/// Energy of a run that is not of a processor which did something: with theirs it adds up
/// to that of the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OtherEnergy {
    /// Moving bytes to and from memory.
    #[serde(rename = "memory_joules")]
    pub memory: Joules,
    /// Processors that do nothing all the while.
    #[serde(rename = "idle_processors_joules")]
    pub idle_processors: Joules,
    /// What the device draws whatever runs.
    #[serde(rename = "base_joules")]
    pub base: Joules,
}

/// What one processor did during a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessorUse {
    /// The processor.
    pub processor: ProcessorKind,
    /// Time spent computing (launches included).
    #[serde(rename = "busy_ps")]
    pub busy: Picos,
    /// Time spent waiting for another processor before and between its own tasks
    /// and, for the GPU, for the last join.
    #[serde(rename = "wait_ps")]
    pub wait: Picos,
    /// Time spent on hand-overs, joins and transfers and, once an inference, between
    /// the caller and the GPU.
    #[serde(rename = "overhead_ps")]
    pub overhead: Picos,
    /// Part of the wait the CPU spends polling, at the power of a core that polls.
    #[serde(rename = "polling_ps")]
    pub polling: Picos,
    /// What crossed the link of a GPU with memory of its own; part of the overhead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfers: Option<Transfers>,
    /// Bytes it moved.
    pub bytes: Bytes,
    /// Mean rate of those bytes while it was busy.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy it used.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
}

/// Copies between a GPU's own memory and the host's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transfers {
    /// Time they took.
    #[serde(rename = "time_ps")]
    pub time: Picos,
    /// Bytes that crossed.
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
    /// How much of the latency is its computing: nothing while another operator decides it.
    #[serde(rename = "critical_ps")]
    pub critical: Picos,
    /// What each processor computed of it.
    pub parts: Vec<PartReport>,
}

/// One processor's part of an operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartReport {
    /// The processor.
    pub processor: ProcessorKind,
    /// Output channels it computed, where the operator was cut.
    pub channels: Option<u32>,
    /// Rows of the output it computed, where the operator was cut along its height.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// When it started.
    #[serde(rename = "start_ps")]
    pub start: Picos,
    /// When it finished.
    #[serde(rename = "finish_ps")]
    pub finish: Picos,
    /// How long it then waited for the other part.
    #[serde(rename = "wait_ps")]
    pub wait: Picos,
    /// Why it took that long.
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
