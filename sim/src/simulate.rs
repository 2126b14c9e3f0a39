//! Workload, plan and device in; prediction out.
//!
//! Responsible for: lowering a plan to tasks, running the engine on them and
//! reporting the result: latency, utilisation of each processor, traffic, energy,
//! the critical path, a timeline, and the spread under jitter. Not for: choosing a
//! plan (`explore`). Invariant: a prediction is a pure function of profile,
//! workload, plan and seed.

pub mod applications;
mod compiled_graphs;
mod energy;
mod footprint;
pub mod generation;
mod host;
mod known;
mod lower;
pub mod memory;
mod pipeline;
mod prediction;
mod price;
mod report;
mod sample;
mod standalone;
mod timeline;
mod uncertainty;

use std::fmt::Display;

pub use applications::{
    ApplicationSimulator, Arrivals, DEFAULT_QUEUE_DEPTH, Frames, Load, MAX_APPLICATIONS, PricedRequest,
    Served,
};
pub use generation::{
    Conversation, Generation, GenerationPlan, Graphs, PhaseReport, StepPlan, generate, generation_timeline,
    planned_stages, price_answer,
};
use host::Host;
use lower::{Lowered, PricedCommand, Share};
use thiserror::Error;

pub use crate::schedule::StepKind;
pub(crate) use compiled_graphs::{InGraph, InGraphs, LeastInGraph};
pub(crate) use energy::{above_idle, idle_power};
pub use footprint::Footprint;
pub use host::Measure;
pub use known::{Known, Missing, known, known_in};
pub(crate) use memory::streams_of;
pub use pipeline::{Pipeline, Stream};
pub use prediction::{
    Composition, CriticalStep, OtherEnergy, PartReport, Prediction, ProcessorUse, StageReport, Transfers,
};
pub use price::hand_over_delay;
pub(crate) use price::{accelerator_costs, between_cpu_and_gpu, copying, has_own_memory, join_delay};
pub use sample::{Samples, sample};
pub use standalone::{Detail, execute};
pub use timeline::timeline;
pub use uncertainty::{DRAWS, Drawn, Errors};
pub(crate) use uncertainty::{Deviation, latencies, latency};

use crate::device::{ProcessorKind, Profile};
use crate::engine::{Capacity, Engine, NoTrace, Program, TraceSink};
use crate::kernel::{Library, Phases, Unsupported};
use crate::plan::{Plan, Processor};
use crate::schedule::ScheduleError;
use crate::units::{Bytes, Picos, SECONDS_PER_DAY};
use crate::workload::{DataType, Layer, Stage};

/// Longest run that is simulated: one day. No inference takes that long, and integer
/// picoseconds saturate after 213 days.
pub const MAX_RUN_TIME: Picos = Picos(SECONDS_PER_DAY * 1_000_000_000_000);

/// Result of simulating and exploring.
pub type Result<T, E = SimulateError> = std::result::Result<T, E>;

/// Why a plan cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum SimulateError {
    /// The device lacks a processor that the plan uses, or the profile lacks a table of it.
    #[error("{device} has no {processor} in its profile")]
    Absent { processor: &'static str, device: String },
    /// The search may use no processor.
    #[error("there is no processor to plan for: allow a CPU core set or use a device with a GPU")]
    NothingToUse,
    /// The strategy is for other workloads.
    #[error("{strategy} only plans {plans}")]
    OtherWorkload { strategy: &'static str, plans: &'static str },
    /// The grid of cuts is finer than a search supports.
    #[error("{operator} has {points} cuts at this step, more than the {most} that a search evaluates")]
    GridTooFine { operator: String, points: u32, most: u32 },
    /// The plan has no schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A processor has no kernel for a layer.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The weights and tensors that the plan places on a GPU exceed its own memory.
    #[error("the plan needs {needed} of the GPU's own memory, which holds {capacity}")]
    GpuMemoryFull { needed: Bytes, capacity: Bytes },
    /// The NPU has no static graphs for that many rows.
    #[error("no static graphs of the NPU cover the {rows} rows of {operator}")]
    NoGraph { rows: u32, operator: String },
    /// The profile has no bandwidth for graphs of whole steps of a language model.
    #[error(
        "{device} has no npu.compiled.token_bandwidth_gbps in its profile, so language models in compiled graphs cannot be predicted"
    )]
    NoTokenGraphs { device: String },
    /// The weights of a language model exceed what a session of the NPU can map.
    #[error("the weights take {weights}, but a session of the NPU maps at most {most}")]
    SessionFull { weights: Bytes, most: Bytes },
    /// The requests of all applications have more commands than one run simulates.
    #[error("the requests of all applications have {commands} commands; at most {most} are simulated")]
    TooManyCommands { commands: u64, most: u64 },
    /// The run is longer than [`MAX_RUN_TIME`].
    #[error("{what} takes more than a day")]
    TooLong { what: String },
}

impl SimulateError {
    /// The error for a device without `processor`, or for an NPU whose profile lacks `[npu.systolic]`.
    pub(crate) fn absent(processor: &'static str, device: &Profile) -> Self {
        let is_table = processor == "NPU" && device.npu.is_some();
        let absent = if is_table { "[npu.systolic] table (single products)" } else { processor };
        Self::Absent { processor: absent, device: device.name.clone() }
    }
}

/// How operators are given to the NPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NpuExecution {
    /// Each matrix product by itself, in static graphs.
    Products,
    /// Consecutive operators of a network as compiled graphs.
    Networks,
    /// Operators of a step of a language model as compiled graphs with bandwidths of their own.
    TokenSteps,
    /// Each operator by a kernel of a language-model engine, without graphs.
    Kernels,
}

/// Runs plans on one device. Reused between runs, it allocates only when plans grow.
#[derive(Debug)]
pub struct Simulator<'a> {
    device: &'a Profile,
    library: Library,
    host: Host<'a>,
    /// Whether the workload's inputs and results are on the host, rather than on the
    /// processor that reads or computes them.
    ends_on_host: bool,
    npu_execution: NpuExecution,
    /// Factor on the computing time of each [`ProcessorKind`], in order; `None` for the profile's times.
    computing: Option<[f64; 3]>,
    capacity: Capacity,
    engine: Engine,
    program: Program,
}

impl<'a> Simulator<'a> {
    /// A simulator of `device` with the CPU kernels of `library`. It measures
    /// [`Measure::Operators`].
    pub fn new(device: &'a Profile, library: Library) -> Self {
        let host = Host::new(device, Measure::Operators);
        let (capacity, engine, program) = (memory::capacity(device), Engine::default(), Program::default());
        Self {
            device,
            library,
            host,
            ends_on_host: true,
            npu_execution: NpuExecution::Networks,
            computing: None,
            capacity,
            engine,
            program,
        }
    }

    /// Whether times cover the host's part of an inference on the GPU, but the profile does not know it.
    pub fn lacks_host_path(&self) -> bool {
        self.host.is_unknown
    }

    /// The same simulator with times that cover `measure`.
    #[must_use]
    pub fn measuring(self, measure: Measure) -> Self {
        Self { host: Host::new(self.device, measure), ..self }
    }

    /// The same simulator with an NPU that runs each product by itself, in static graphs, as
    /// language-model engines do that split products between processors.
    #[must_use]
    pub fn product_by_product(self) -> Self {
        Self { npu_execution: NpuExecution::Products, ..self }
    }

    /// The same simulator with operators timed by the host's clock: from the call, which
    /// first fills the GPU's queue, until the host learns of the end. Kernels keep their
    /// standalone times.
    #[must_use]
    pub fn timed_by_host(self) -> Self {
        Self { host: Host::timed_by_host(self.device), ..self }
    }

    /// Time from the call to the GPU's first launch, and from the GPU's end back to the host; zero where
    /// the measure does not cover them.
    pub(crate) fn around_launches(&self) -> [Picos; 2] {
        [self.host.submission(), self.host.read_back()].map(Option::unwrap_or_default)
    }

    /// A simulator for single operators of a workload that this one runs whole: launches
    /// cost the same, without the costs paid once per inference.
    pub(crate) fn of_parts(&self) -> Self {
        let Self { npu_execution, computing, .. } = *self;
        Self { host: self.host.of_part(), npu_execution, computing, ..Self::new(self.device, self.library) }
    }

    /// A simulator for operators in the middle of a workload: their inputs and results
    /// stay on the processors that read or compute them.
    pub(crate) fn inside(&self) -> Self {
        let Self { host, npu_execution, computing, .. } = *self;
        Self { ends_on_host: false, host, npu_execution, computing, ..Self::new(self.device, self.library) }
    }

    /// The same simulator for `device`, another variant of its device, with computing times multiplied by
    /// `computing`.
    #[must_use]
    pub fn deviating<'d>(&self, device: &'d Profile, computing: [f64; 3]) -> Simulator<'d>
    where
        'a: 'd,
    {
        let Self { host, ends_on_host, npu_execution, .. } = *self;
        let computing = Some(computing);
        Simulator { host, ends_on_host, npu_execution, computing, ..Simulator::new(device, self.library) }
    }

    /// How one processor runs a layer under this simulator's measure and deviations.
    pub(crate) fn layer(&self, layer: &Layer, by: Processor) -> Result<(Phases, Detail)> {
        let (phases, detail) = match by {
            Processor::Npu(_) if self.npu_execution == NpuExecution::Products => {
                standalone::product(layer, self.device)?
            }
            Processor::Npu(_) if self.npu_execution == NpuExecution::Kernels => {
                standalone::language_kernel(layer, self.device)?
            }
            Processor::Npu(_) | Processor::Cpu(_) | Processor::Gpu => {
                standalone::measured(layer, (self.device, self.library), by, self.host.measure)?
            }
        };
        let mut phases =
            if by == Processor::Gpu { self.host.launch(phases, detail.launches()) } else { phases };
        self.deviate(&mut phases, by.kind());
        Ok((phases, detail))
    }

    /// Whether the NPU runs products in `format` one by one, in static graphs, rather than as operators of
    /// compiled graphs.
    fn runs_products_singly(&self, format: DataType) -> bool {
        let has_compiler = || self.device.npu.as_ref().is_some_and(|npu| npu.compiler(format).is_some());
        match self.npu_execution {
            NpuExecution::Products => true,
            NpuExecution::Networks | NpuExecution::TokenSteps => !has_compiler(),
            NpuExecution::Kernels => false,
        }
    }

    fn deviate(&self, phases: &mut Phases, kind: ProcessorKind) {
        if let Some(factors) = self.computing {
            phases.stretch(factors[kind as usize]);
        }
    }

    /// How the NPU runs the stages that `plan` places whole on it; empty where it runs no compiled graphs.
    fn compiled(&self, stages: &[Stage], plan: &Plan) -> Result<compiled_graphs::Compiled> {
        let mut compiled = match self.npu_execution {
            NpuExecution::Products | NpuExecution::Kernels => return Ok(Vec::new()),
            NpuExecution::Networks => compiled_graphs::compiled(stages, plan, self.device)?,
            NpuExecution::TokenSteps => compiled_graphs::of_token_steps(stages, plan, self.device)?,
        };
        let phases = compiled.iter_mut().flatten().map(|stage| &mut stage.phases);
        phases.for_each(|phases| self.deviate(phases, ProcessorKind::Npu));
        Ok(compiled)
    }

    /// The time of each of `stages` as an operator of a compiled graph, and the overhead of submitting a
    /// graph. `None` where the NPU does not run networks as compiled graphs.
    pub(crate) fn in_graphs(&self, stages: &[Stage], takes: &[bool]) -> Result<Option<InGraphs>> {
        if self.npu_execution != NpuExecution::Networks {
            return Ok(None);
        }
        let mut graphs = compiled_graphs::in_graphs(stages, self.device, takes)?;
        if let (Some(InGraphs { entry, stages }), Some([.., factor])) = (&mut graphs, self.computing) {
            *entry = entry.scale(factor);
            for InGraph { phases, least, most_ahead, .. } in stages.iter_mut().flatten() {
                phases.stretch(factor);
                for time in [&mut most_ahead.in_graphs_with, &mut most_ahead.in_any] {
                    *time = time.scale(factor) + compiled_graphs::ROUNDING;
                }
                let least = least.as_flattened_mut().iter_mut();
                for time in least.flat_map(|least| [&mut least.time, &mut least.traffic]) {
                    *time = time.scale(factor).saturating_sub(compiled_graphs::ROUNDING);
                }
            }
        }
        Ok(graphs)
    }

    /// The device simulated.
    pub fn device(&self) -> &'a Profile {
        self.device
    }

    /// The CPU kernels simulated.
    pub fn library(&self) -> Library {
        self.library
    }

    /// Predicts how `stages` run under `plan`.
    ///
    /// # Errors
    /// The device lacks a processor that the plan uses or a kernel for a layer, or the run takes more than a
    /// day.
    pub fn run(&mut self, stages: &[Stage], plan: &Plan) -> Result<Prediction> {
        let lowered = Lowered::new(stages, plan, self)?;
        let latency = self.execute(&lowered, &[], &mut NoTrace)?;
        Ok(report::report(self, stages, plan, &lowered, latency))
    }

    /// The latency of `stages` under `plan`, without a report.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn latency(&mut self, stages: &[Stage], plan: &Plan) -> Result<Picos> {
        let lowered = Lowered::new(stages, plan, self)?;
        self.execute(&lowered, &[], &mut NoTrace)
    }

    fn execute<S: TraceSink>(&mut self, lowered: &Lowered, stretch: &[f64], sink: &mut S) -> Result<Picos> {
        lowered.write(&mut self.program, stretch);
        self.run_program("the run", sink)
    }

    /// Runs `self.program`; `what` names it in errors.
    fn run_program<S: TraceSink>(&mut self, what: &str, sink: &mut S) -> Result<Picos> {
        within_a_day(what, self.engine.run(&self.program, &self.capacity, sink))
    }
}

fn within_a_day(what: impl Display, latency: Picos) -> Result<Picos> {
    if latency > MAX_RUN_TIME {
        return Err(SimulateError::TooLong { what: what.to_string() });
    }
    Ok(latency)
}
