//! Workload, plan and device in; prediction out.
//!
//! Responsible for: lowering a plan to tasks, running the engine on them and
//! saying what came out: latency, use of each processor, traffic, energy, the
//! critical path, a timeline, and the spread under jitter. Not for: choosing a
//! plan (`explore`). Invariant: a prediction is a pure function of profile,
//! workload, plan and seed.

mod alone;
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
mod timeline;
mod uncertainty;

use std::fmt::Display;

pub use applications::{
    ApplicationSimulator, Arrivals, Frames, Load, MAX_APPLICATIONS, PricedRequest, Served, USUAL_QUEUE_DEPTH,
};
pub use generation::{
    Conversation, Generation, GenerationPlan, Graphs, PhaseReport, StepPlan, generate, generation_timeline,
    planned_stages, price_answer,
};
use host::Host;
use lower::{Lowered, PricedCommand, Share};
use thiserror::Error;

pub use crate::schedule::StepKind;
pub use alone::{Detail, execute};
pub(crate) use compiled_graphs::{InGraph, InGraphs};
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

/// Longest run that is simulated: a day. No inference takes that long, and
/// integer picoseconds would end after 213 days.
pub const LONGEST_RUN: Picos = Picos(SECONDS_PER_DAY * 1_000_000_000_000);

/// What simulating and exploring give: an answer or why there is none.
pub type Result<T, E = SimulateError> = std::result::Result<T, E>;

/// Why a plan cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum SimulateError {
    /// The device lacks a processor, or a table of one, that the plan uses.
    #[error("{device} has no {processor} in its profile")]
    Absent { processor: &'static str, device: String },
    /// No processor was offered.
    #[error("no processor was offered: allow a CPU core set or use a device with a GPU")]
    NothingToUse,
    /// The strategy plans other workloads.
    #[error("{strategy} plans {plans} alone")]
    OtherWorkload { strategy: &'static str, plans: &'static str },
    /// The grid of cuts is finer than any search needs.
    #[error("{operator} has {points} cuts at this step, more than the {most} a search prices")]
    GridTooFine { operator: String, points: u32, most: u32 },
    /// The plan has no schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// A processor has no kernel for a layer.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A GPU's own memory cannot hold what the plan gives it.
    #[error("the plan leaves {needed} with the GPU, whose own memory holds {capacity}")]
    GpuMemoryFull { needed: Bytes, capacity: Bytes },
    /// The NPU has no graphs for that many rows.
    #[error("no static graphs of the NPU cover the {rows} rows of {operator}")]
    NoGraph { rows: u32, operator: String },
    /// The profile has no bandwidth of graphs of whole steps of a language model.
    #[error(
        "{device} has no npu.compiled.token_bandwidth_gbps in its profile, so nothing is known of language models in graphs"
    )]
    NoTokenGraphs { device: String },
    /// A session of the NPU cannot map a language model.
    #[error(
        "the weights are {weights}, and a session of the NPU maps {most}: nothing is known of larger models"
    )]
    SessionFull { weights: Bytes, most: Bytes },
    /// Requests of several applications are more than a run is worth.
    #[error("the requests of all applications are {commands} commands, and may be {most}")]
    TooManyCommands { commands: u64, most: u64 },
    /// The run is longer than [`LONGEST_RUN`].
    #[error("{what} takes more than a day")]
    TooLong { what: String },
}

impl SimulateError {
    /// That a device has none of a processor, or of an NPU that it has no products on their own.
    pub(crate) fn absent(processor: &'static str, device: &Profile) -> Self {
        let is_table = processor == "NPU" && device.npu.is_some();
        let absent = if is_table { "[npu.systolic] table (products on their own)" } else { processor };
        Self::Absent { processor: absent, device: device.name.clone() }
    }
}

/// Which graphs the NPU's compiler makes of operators in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GraphMaking {
    /// None: products are handed over one by one.
    None,
    /// Of operators of networks.
    Networks,
    /// Of all operators of a step of a language model.
    TokenSteps,
    /// None: each operator has a kernel of an engine of language models.
    Kernels,
}

/// Runs plans on one device. Reused between runs, it allocates only while
/// plans grow.
#[derive(Debug)]
pub struct Simulator<'a> {
    device: &'a Profile,
    library: Library,
    host: Host<'a>,
    /// Whether inputs and results of what is run lie with the host, rather than with
    /// the processor that reads or computes them.
    ends_on_host: bool,
    graphs: GraphMaking,
    /// How many times longer than its profile says each processor computes, in their order; nothing where it
    /// does as it says.
    computing: Option<[f64; 3]>,
    capacity: Capacity,
    engine: Engine,
    program: Program,
}

impl<'a> Simulator<'a> {
    /// A simulator of `device` with the CPU kernels of `library`, which times
    /// operators: [`Measure::Operators`].
    pub fn new(device: &'a Profile, library: Library) -> Self {
        let host = Host::new(device, Measure::Operators);
        let (capacity, engine, program) = (memory::capacity(device), Engine::default(), Program::default());
        Self {
            device,
            library,
            host,
            ends_on_host: true,
            graphs: GraphMaking::Networks,
            computing: None,
            capacity,
            engine,
            program,
        }
    }

    /// The simulator, with times that cover what `measure` says.
    #[must_use]
    pub fn measuring(self, measure: Measure) -> Self {
        Self { host: Host::new(self.device, measure), ..self }
    }

    /// The simulator, whose NPU is given each product on its own, in static graphs: how engines
    /// of language models use it that share products between processors.
    #[must_use]
    pub fn product_by_product(self) -> Self {
        Self { graphs: GraphMaking::None, ..self }
    }

    /// The simulator, with times of operators by the host's clock: from its call, which
    /// fills the GPU's queue before anything else, until it knows of the end. Kernels take
    /// what they take alone.
    #[must_use]
    pub fn from_the_call(self) -> Self {
        Self { host: Host::from_the_call(self.device), ..self }
    }

    /// From the call to the GPU's first launch, and from its end to the host, where what is
    /// measured covers both.
    pub(crate) fn around_launches(&self) -> [Picos; 2] {
        [self.host.submission(), self.host.read_back()].map(Option::unwrap_or_default)
    }

    /// A simulator of single operators of what this one runs whole: their launches
    /// as they are there, without what an inference pays once.
    pub(crate) fn of_parts(&self) -> Self {
        let Self { graphs, computing, .. } = *self;
        Self { host: self.host.of_part(), graphs, computing, ..Self::new(self.device, self.library) }
    }

    /// The same for operators in the middle of a workload, whose data lie where they
    /// are computed.
    pub(crate) fn inside(&self) -> Self {
        let Self { host, graphs, computing, .. } = *self;
        Self { ends_on_host: false, host, graphs, computing, ..Self::new(self.device, self.library) }
    }

    /// The same simulator of `device`, another state of this one's, whose processors compute so many times
    /// longer.
    #[must_use]
    pub fn deviating<'d>(&self, device: &'d Profile, computing: [f64; 3]) -> Simulator<'d>
    where
        'a: 'd,
    {
        let Self { host, ends_on_host, graphs, .. } = *self;
        let computing = Some(computing);
        Simulator { host, ends_on_host, graphs, computing, ..Simulator::new(device, self.library) }
    }

    /// How one processor runs a layer of what is measured.
    pub(crate) fn layer(&self, layer: &Layer, by: Processor) -> Result<(Phases, Detail)> {
        let (phases, detail) = match by {
            Processor::Npu(_) if self.graphs == GraphMaking::None => alone::product(layer, self.device)?,
            Processor::Npu(_) if self.graphs == GraphMaking::Kernels => {
                alone::language_kernel(layer, self.device)?
            }
            Processor::Npu(_) | Processor::Cpu(_) | Processor::Gpu => {
                execute(layer, self.device, self.library, by)?
            }
        };
        let mut phases = if by == Processor::Gpu { self.host.launch(phases) } else { phases };
        self.deviate(&mut phases, by.kind());
        Ok((phases, detail))
    }

    /// Whether the NPU is given products of that format one by one, in static graphs, rather than as operators
    /// of what its compiler takes.
    fn hands_products_over(&self, format: DataType) -> bool {
        let has_compiler = || self.device.npu.as_ref().is_some_and(|npu| npu.compiler(format).is_some());
        match self.graphs {
            GraphMaking::None => true,
            GraphMaking::Networks | GraphMaking::TokenSteps => !has_compiler(),
            GraphMaking::Kernels => false,
        }
    }

    fn deviate(&self, phases: &mut Phases, kind: ProcessorKind) {
        if let Some(factors) = self.computing {
            phases.stretch(factors[kind as usize]);
        }
    }

    /// How the NPU runs the stages that `plan` gives it whole, where its compiler takes graphs.
    fn compiled(&self, stages: &[Stage], plan: &Plan) -> Result<compiled_graphs::Compiled> {
        let mut compiled = match self.graphs {
            GraphMaking::None | GraphMaking::Kernels => return Ok(Vec::new()),
            GraphMaking::Networks => compiled_graphs::compiled(stages, plan, self.device)?,
            GraphMaking::TokenSteps => compiled_graphs::of_token_steps(stages, plan, self.device)?,
        };
        let phases = compiled.iter_mut().flatten().map(|(phases, _)| phases);
        phases.for_each(|phases| self.deviate(phases, ProcessorKind::Npu));
        Ok(compiled)
    }

    /// What each of `stages` takes as an operator of a compiled graph, and what handing one over takes;
    /// nothing where the NPU is given operators one by one.
    pub(crate) fn in_graphs(&self, stages: &[Stage], takes: &[bool]) -> Result<Option<InGraphs>> {
        if self.graphs != GraphMaking::Networks {
            return Ok(None);
        }
        let mut graphs = compiled_graphs::in_graphs(stages, self.device, takes)?;
        if let (Some(InGraphs { entry, stages }), Some([.., factor])) = (&mut graphs, self.computing) {
            *entry = entry.scale(factor);
            for InGraph { phases, least, .. } in stages.iter_mut().flatten() {
                phases.stretch(factor);
                *least = least.scale(factor);
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
    /// The device lacks a processor the plan uses, or a kernel for a layer.
    pub fn run(&mut self, stages: &[Stage], plan: &Plan) -> Result<Prediction> {
        let lowered = Lowered::new(stages, plan, self)?;
        let latency = self.execute(&lowered, &[], &mut NoTrace)?;
        Ok(report::report(self, stages, plan, &lowered, latency))
    }

    /// Only the latency of `stages` under `plan`.
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

    /// Runs the program that was written.
    fn run_program<S: TraceSink>(&mut self, what: &str, sink: &mut S) -> Result<Picos> {
        within_a_day(what, self.engine.run(&self.program, &self.capacity, sink))
    }
}

fn within_a_day(what: impl Display, latency: Picos) -> Result<Picos> {
    if latency > LONGEST_RUN {
        return Err(SimulateError::TooLong { what: what.to_string() });
    }
    Ok(latency)
}
