//! Several applications at once on one phone: arriving requests, deadlines, latencies.
//!
//! Responsible for: a request as an engine program, running the requests of all applications together, and
//! reporting on them. Not for: placements (`explore`), or which application gets a processor (`engine`).
//! Invariant: an application alone, whose requests arrive more slowly than it computes them, has the latency
//! of a single run for each, to the picosecond.

mod arrivals;
mod frames;
mod report;
mod timeline;

use std::sync::Arc;

pub use arrivals::Arrivals;
pub use frames::Frames;
pub use report::{ApplicationReport, Served, Utilisation};

use super::pipeline::sinks;
use super::{Lowered, Result, SimulateError, Simulator, memory, within_a_day};
use crate::device::{ProcessorKind, Profile};
use crate::engine::{
    Backpressure, Capacity, ClientId, Engine, MAX_PROCESSORS, NoTrace, ProcessorId, Program, RequestStream,
    TaskId, TraceSink, Work,
};
use crate::plan::Plan;
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// Default queue depth: the number of commands that the Adreno driver keeps in the ring buffer
/// (`_dispatcher_inflight` of the KGSL kernel driver).
pub const DEFAULT_QUEUE_DEPTH: u32 = 15;

/// Maximum number of commands of all requests in a run: about half a minute of simulation.
const MAX_COMMANDS: u64 = 100_000_000;

/// Maximum number of applications: each may need a processor of its own for its background traffic.
pub const MAX_APPLICATIONS: usize = MAX_PROCESSORS - ProcessorKind::ALL.len();

/// The priced commands of one request of an application.
#[derive(Clone, Debug, Default)]
pub struct PricedRequest {
    /// Runs in sequence: each starts when the previous one has ended.
    runs: Vec<Arc<PricedRun>>,
    /// Background traffic of the application's CPU threads in the time between two requests.
    pub(super) traffic: Option<Work>,
}

/// The priced commands of one plan.
#[derive(Debug)]
pub(super) struct PricedRun {
    pub(super) lowered: Lowered,
    /// Names of its stages.
    pub(super) names: Vec<String>,
}

impl PricedRequest {
    /// `stages` under `plan` as `simulator` runs them.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub fn new(simulator: &Simulator<'_>, stages: &[Stage], plan: &Plan) -> Result<Self> {
        let names = stages.iter().map(|stage| stage.name.clone()).collect();
        Ok(Self::of_run(Lowered::new(stages, plan, simulator)?, names))
    }

    fn of_run(lowered: Lowered, names: Vec<String>) -> Self {
        Self { runs: vec![Arc::new(PricedRun { lowered, names })], traffic: None }
    }

    /// Appends `next`, `times` times.
    pub(super) fn append(&mut self, next: &Self, times: u32) {
        (0..times).for_each(|_| self.runs.extend_from_slice(&next.runs));
    }

    /// Whether `processor` computes part of it.
    pub(crate) fn uses(&self, processor: ProcessorKind) -> bool {
        let mut computed = self.runs.iter().flat_map(|run| &run.lowered.tasks).filter(|task| task.computes());
        computed.any(|task| task.processor() == processor)
    }

    /// Number of commands of one request.
    fn commands(&self) -> usize {
        self.runs.iter().map(|run| run.lowered.tasks.len()).sum()
    }

    /// Writes the tasks as those of the program's next application.
    fn write(&self, program: &mut Program) {
        program.next_application();
        let mut ends: Vec<TaskId> = Vec::new();
        for run in &self.runs {
            let mut tasks = Vec::with_capacity(run.lowered.tasks.len());
            for (index, task) in run.lowered.tasks.iter().enumerate() {
                let id = run.lowered.add(index, None, program);
                for before in &task.predecessors {
                    program.after(id, tasks[before.0 as usize]);
                }
                if task.predecessors.is_empty() {
                    for &end in &ends {
                        program.after(id, end);
                    }
                }
                tasks.push(id);
            }
            if !tasks.is_empty() {
                ends = sinks(&run.lowered).into_iter().map(|index| tasks[index]).collect();
            }
        }
        if ends.is_empty() {
            // The engine requires at least one task per request.
            program.delay(Picos::ZERO);
        }
    }
}

/// The load of one application.
#[derive(Clone, Debug)]
pub struct Load<'a> {
    /// Name of the application.
    pub name: &'a str,
    /// What each request computes.
    pub request: &'a PricedRequest,
    /// When requests arrive, and how they are served.
    pub stream: RequestStream,
    /// Longest acceptable latency of a request; `None` without a deadline.
    pub deadline: Option<Picos>,
}

impl Load<'_> {
    /// Number of commands of all its requests.
    pub(crate) fn commands(&self) -> u64 {
        (self.stream.arrivals.len() * self.request.commands()) as u64
    }
}

/// Runs the requests of several applications on one device. Reused between runs, it allocates only when
/// programs grow.
#[derive(Debug)]
pub struct ApplicationSimulator<'a> {
    device: &'a Profile,
    capacity: Capacity,
    engine: Engine,
    program: Program,
}

impl<'a> ApplicationSimulator<'a> {
    /// A simulator of `device`.
    pub fn new(device: &'a Profile) -> Self {
        let capacity = memory::capacity(device);
        Self { device, capacity, engine: Engine::default(), program: Program::default() }
    }

    /// Serves the requests of `loads` that arrive within `duration`, together and for each application alone.
    ///
    /// # Errors
    /// There are too many requests, or they take more than a day.
    pub fn run(&mut self, loads: &[Load<'_>], duration: Picos) -> Result<Served> {
        let mut served = self.serve(loads, duration)?;
        for (load, report) in loads.iter().zip(&mut served.applications) {
            let alone = self.serve(std::slice::from_ref(load), duration)?;
            report.compare_with_alone(&alone.applications[0]);
        }
        Ok(served)
    }

    /// The same without the runs of each application alone.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn serve(&mut self, loads: &[Load<'_>], duration: Picos) -> Result<Served> {
        self.execute(loads, &mut NoTrace)?;
        Ok(report::served(&self.engine, loads, duration))
    }

    /// Latency of one request alone.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn latency(&mut self, request: &PricedRequest) -> Result<Picos> {
        let stream =
            RequestStream { arrivals: vec![Picos::ZERO], backpressure: Backpressure::Queue, queue_depth: 1 };
        self.serve(&[Load { name: "", request, stream, deadline: None }], Picos::ZERO)?;
        Ok(self.engine.requests().first().map_or(Picos::ZERO, |request| request.finish))
    }

    fn execute<S: TraceSink>(&mut self, loads: &[Load<'_>], sink: &mut S) -> Result<()> {
        let Self { capacity, engine, program, .. } = self;
        program.clear();
        let commands = loads.iter().map(Load::commands).sum();
        if commands > MAX_COMMANDS {
            return Err(SimulateError::TooManyCommands { commands, most: MAX_COMMANDS });
        }
        let mut streams = Vec::with_capacity(loads.len());
        for load in loads {
            load.request.write(program);
            streams.push(load.stream.clone());
        }
        // Background traffic comes after all applications, so that application numbers match those of the loads.
        for (place, load) in (0..).zip(loads) {
            if let Some(traffic) = load.request.traffic.filter(|traffic| traffic.bytes > Bytes::ZERO) {
                program.next_application();
                let id = program.task(ProcessorId(ProcessorKind::ALL.len() as u8 + place), 1, [traffic]);
                program.set_client(id, ClientId(ProcessorKind::Cpu as u8));
                streams
                    .push(RequestStream { backpressure: Backpressure::BlockProducer, ..load.stream.clone() });
            }
        }
        within_a_day("the run of all applications", engine.serve(program, &streams, capacity, sink)).map(drop)
    }
}

#[cfg(test)]
mod tests;
