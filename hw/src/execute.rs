//! Execution of a scenario and a plan on real hardware.
//!
//! Responsible for: operators placed on CPU cores, on the `OpenCL` device, or cut between both;
//! graphs with hand-overs where the placement changes, and chains of cut operators without any;
//! measuring variants of a workload in turn, and batches in flight. Not for: finding a plan
//! (`coexec_sim::explore`), files, or interpreting the times.
//! Invariants: no time counts before the result was verified, and every later result equals the
//! verified one bit by bit; every wait has a limit; raw times are kept.

mod actions;
mod arrangements;
mod build;
mod check;
mod machine;
mod measure;
mod noise;
mod place;
mod program;
mod sharing;
mod stream;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use coexec_fit::measure::draw::shuffled;
use coexec_fit::measure::runs::Fingerprint;
use coexec_sim::schedule::ScheduleError;
use coexec_sim::{CoreSet, DataType, Placement, Plan, Profile, Stage, Unsupported};
use half::f16;
use thiserror::Error;

pub use crate::opencl::Home;
pub use crate::statistics::Summary;
pub use machine::{DeviceChoice, Machine};
pub use measure::{MeasuredVariant, Settings};
pub use noise::NoiseFloor;
pub use program::Clock;
pub use stream::{Streamed, Streaming};
pub use watch::ProgressEvent;

use crate::cpu::{Element, PoolError, has_kernel};
use crate::fingerprint::fingerprint;
use crate::opencl::OpenClError;
use crate::operands::OperandError;
use crate::verify::Mismatch;

// Re-exports for the files of this module.
use actions::{Action, Actions, Side};
use build::{Operation, borrowed};
use machine::Team;
pub(crate) use machine::free_cores;
use place::{HostHome, Place, Places};
pub(crate) use program::{Program, Task};
use program::{RunTimes, joined_stages};
pub(crate) use watch::Control;
use watch::{STEP_LIMIT, watched};

/// Variants of a group that are prepared at once, and measured in turn: each holds all its weights.
const MOST_IN_TURN: usize = 16;

/// The outcome of an execution.
pub type Result<T, E = ExecuteError> = std::result::Result<T, E>;

/// A workload cannot be executed, or its results are not to be trusted.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ExecuteError {
    /// An error of the `OpenCL` device.
    #[error(transparent)]
    OpenCl(#[from] OpenClError),
    /// An error of a CPU kernel, or operands that do not fit an operator.
    #[error(transparent)]
    Operand(#[from] OperandError),
    /// The threads could not be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The profile has no dispatch rules for an operator.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A result differs from the reference.
    #[error("{0}: no times are reported")]
    Wrong(#[from] Box<Mismatch>),
    /// An element of a result is NaN: it was not computed.
    #[error("element {element} of {operator} was not computed: no times are reported")]
    NotComputed { operator: String, element: usize },
    /// A result differs from the verified one.
    #[error("element {element} of {operator} changed from one run to the next: no times are reported")]
    Changed { operator: String, element: usize },
    /// The plan uses more cores than the device leaves free.
    #[error(
        "the core set {cores} needs {needed} cores, found {free} in addition to the OpenCL device's {taken} compute units"
    )]
    TooFewCores { cores: String, needed: u32, free: usize, taken: u32 },
    /// The plan uses a GPU, but no device was opened, or the profile has no GPU.
    #[error("the plan uses a GPU, but no OpenCL device was opened or the profile has no [gpu] table")]
    NoGpu,
    /// The plan uses an NPU.
    #[error("the plan places {operator} on an NPU, which coexec does not run")]
    NoNpu { operator: String },
    /// A cut within a slice of four channels.
    #[error(
        "the plan cuts {operator} after {channels} channels, expected a multiple of 4: GPU kernels compute \
             four at a time"
    )]
    CutSlice { operator: String, channels: u32 },
    /// The plan has no schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// No synchronisation mechanism works.
    #[error("host and device cannot synchronise: {tried}")]
    NoMechanism { tried: String },
    /// A number format without kernels, or several formats.
    #[error("found a workload in {found}, expected all of it in f32 or in f16")]
    Format { found: String },
    /// The measuring thread cannot be started.
    #[error("cannot start a thread to measure on")]
    NoThread(#[source] std::io::Error),
    /// The measuring thread ended without a result.
    #[error("the measuring thread failed")]
    ThreadFailed,
    /// No progress within the time limit.
    #[error("the device or its driver did not answer for {seconds:.0} s; it was abandoned")]
    Stalled { seconds: f64 },
    /// The user cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// One way to run a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The operators.
    pub stages: Vec<Stage>,
    /// The placement of the operators.
    pub plan: Plan,
    /// What a time covers.
    pub clock: Clock,
}

/// What to measure, and on which hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Provides the GPU's dispatch rules and the core sets.
    pub profile: Profile,
    /// The part of the machine to use.
    pub choice: DeviceChoice,
    /// Groups of variants; those of a group are measured in turn, up to 16 at once.
    pub groups: Vec<Vec<Variant>>,
    /// Repetitions of each variant.
    pub repetitions: u32,
    /// Seed of the operands and of the order of repetitions.
    pub seed: u64,
    /// After this time no further group is started, and a started one is cut short.
    pub time_limit: Option<Duration>,
    /// Time limit of one run.
    pub run_limit: Duration,
    /// How to stream batches of the first variant; `None` to measure no stream.
    pub streaming: Option<Streaming>,
}

/// The measurements of a request.
#[derive(Debug)]
pub struct Report {
    /// The conditions of the runs.
    pub fingerprint: Fingerprint,
    /// The noise floor of the machine.
    pub noise: NoiseFloor,
    /// For each group of the request, in its order: each variant's measurement, or why it cannot
    /// run here, up to where the time limit ended a large group; `None` for a group that was not
    /// measured.
    pub groups: Vec<Option<Vec<Result<MeasuredVariant>>>>,
    /// The stream of batches of the first variant.
    pub streamed: Option<Streamed>,
}

impl ExecuteError {
    /// Whether the error concerns one variant only, so that the others can still be measured.
    pub fn is_of_variant(&self) -> bool {
        matches!(
            self,
            Self::OpenCl(
                OpenClError::Unsupported { .. }
                    | OpenClError::NoHalf { .. }
                    | OpenClError::Image { .. }
                    | OpenClError::WorkGroup { .. }
                    | OpenClError::OutOfMemory { .. }
                    | OpenClError::Build { .. }
                    | OpenClError::Operand(_)
            ) | Self::Operand(_)
                | Self::Unsupported(_)
                | Self::TooFewCores { .. }
                | Self::NoGpu
                | Self::NoNpu { .. }
                | Self::CutSlice { .. }
                | Self::Schedule(_)
        )
    }
}

/// Carries out `request` and reports progress to `on_event`. Setting `stop` ends it within seconds.
///
/// # Errors
/// Where the hardware is missing, the device does not answer or computes wrongly, or the request
/// was cancelled.
pub fn execute(
    request: Request,
    stop: &Arc<AtomicBool>,
    on_event: &mut dyn FnMut(ProgressEvent),
) -> Result<Report> {
    // A run waits at most twice: for an announcement, and for the end.
    let patience = STEP_LIMIT + 2 * request.run_limit;
    watched(patience, stop, on_event, move |control| run_request(&request, control))
}

/// Measures plans of a workload in turn on the host's clock, on the calling thread, without a
/// watchdog. Each run is limited to `limit`.
///
/// # Errors
/// Where a result is wrong or the device does not answer.
pub(crate) fn side_by_side(
    machine: &mut Machine,
    (stages, profile): (&[Stage], &Profile),
    plans: &[Plan],
    (settings, limit): (Settings, Duration),
) -> Result<Vec<Result<MeasuredVariant>>> {
    let task = |plan| Task { stages, plan, profile, clock: Clock::Host, seed: settings.seed, limit };
    let tasks: Vec<Task<'_>> = plans.iter().map(task).collect();
    measure::measure::<f32>(machine, &tasks, settings)
}

/// Checks that a model can be executed as a whole.
///
/// # Errors
/// It has several number formats, or one without kernels, or an operator without a kernel.
pub fn check_kernels(stages: &[Stage]) -> Result<()> {
    format(stages.iter())?;
    match stages.iter().map(|stage| &stage.layer.operator).find(|operator| !has_kernel(operator)) {
        Some(operator) => Err(OperandError::NoKernel { operator: operator.to_string() }.into()),
        None => Ok(()),
    }
}

/// The number format in which operators are executed.
///
/// # Errors
/// There are several, or one without kernels.
fn format<'s>(stages: impl Iterator<Item = &'s Stage>) -> Result<DataType> {
    let mut formats: Vec<DataType> = Vec::new();
    for stage in stages {
        if !formats.contains(&stage.layer.data_type) {
            formats.push(stage.layer.data_type);
        }
    }
    match formats[..] {
        [DataType::F16] => Ok(DataType::F16),
        [] | [DataType::F32] => Ok(DataType::F32),
        _ => {
            let found: Vec<String> = formats.iter().map(DataType::to_string).collect();
            Err(ExecuteError::Format { found: found.join(", ") })
        }
    }
}

fn run_request(request: &Request, control: &Control) -> Result<Report> {
    let stages = request.groups.iter().flatten().flat_map(|variant| &variant.stages);
    if format(stages)? == DataType::F16 {
        measured_in::<f16>(request, control)
    } else {
        measured_in::<f32>(request, control)
    }
}

fn measured_in<T: Element>(request: &Request, control: &Control) -> Result<Report> {
    let started = Instant::now();
    let mut machine = Machine::open(&request.choice)?;
    machine.control = control.clone();
    machine.compare(&request.profile);
    let placements = request.groups.iter().flatten().flat_map(|variant| &variant.plan.placements);
    let mut sets: Vec<CoreSet> = placements.filter_map(Placement::cores).collect();
    sets.sort_by_key(ToString::to_string);
    sets.dedup();
    machine.prepare(&sets, &request.profile.cpu)?;
    let opencl = machine.runtime().map(|runtime| runtime.device());
    let fingerprint = fingerprint(opencl, &machine.free, machine.pins);
    machine.pin_caller_to(None);
    let noise = NoiseFloor::measure();
    let streamed = request.stream::<T>(&mut machine)?;
    let deadline = request.time_limit.map(|limit| started + limit);
    let all = request.groups.len();
    // The first group is the scenario's subject, so it stays first. In random order, the others that are left over
    // at a time limit are a random sample.
    let order = (0..all.min(1)).chain(shuffled(1..all, request.seed, 0));
    let mut groups: Vec<_> = request.groups.iter().map(|_| None).collect();
    for (done, index) in order.enumerate() {
        if done > 0 && deadline.is_some_and(|deadline| Instant::now() > deadline) {
            let left = format!("the time limit left {} of {all} groups unmeasured", all - done);
            control.notify(ProgressEvent::Warning(left));
            break;
        }
        let group = &request.groups[index];
        let name = group.first().and_then(|variant| variant.stages.first()).map_or("", |stage| &stage.name);
        control.notify(ProgressEvent::Progress(format!("{} of {all}: {name}", done + 1)));
        let settings = Settings {
            repetitions: request.repetitions,
            seed: request.seed.wrapping_add(index as u64),
            deadline,
        };
        let measured = request.measure::<T>(&mut machine, group, settings)?;
        if measured.len() < group.len() {
            let (left, ways) = (group.len() - measured.len(), group.len());
            let text = format!("the time limit left {left} of {ways} ways to run {name} unmeasured");
            control.notify(ProgressEvent::Warning(text));
        }
        groups[index] = Some(measured);
        for warning in machine.take_warnings() {
            control.notify(ProgressEvent::Warning(warning));
        }
    }
    Ok(Report { fingerprint, noise, groups, streamed })
}

impl Request {
    /// Measures the variants of `group` in turn, at most [`MOST_IN_TURN`] at once, until the deadline.
    fn measure<T: Element>(
        &self,
        machine: &mut Machine,
        group: &[Variant],
        settings: Settings,
    ) -> Result<Vec<Result<MeasuredVariant>>> {
        let mut measured = Vec::with_capacity(group.len());
        for variants in group.chunks(MOST_IN_TURN) {
            let is_over = settings.deadline.is_some_and(|deadline| Instant::now() > deadline);
            if is_over && !measured.is_empty() {
                break;
            }
            let tasks: Vec<Task<'_>> = variants.iter().map(|variant| self.task(variant)).collect();
            measured.extend(measure::measure::<T>(machine, &tasks, settings)?);
        }
        Ok(measured)
    }

    /// Streams batches of the first variant, if requested.
    fn stream<T: Element>(&self, machine: &mut Machine) -> Result<Option<Streamed>> {
        let first = self.groups.first().and_then(|group| group.first());
        let (Some(streaming), Some(variant)) = (self.streaming, first) else { return Ok(None) };
        machine.control.notify(ProgressEvent::Progress(format!("batches, {} in flight", streaming.depth)));
        stream::stream::<T>(machine, &self.task(variant), streaming).map(Some)
    }

    fn task<'a>(&'a self, variant: &'a Variant) -> Task<'a> {
        Task {
            stages: &variant.stages,
            plan: &variant.plan,
            profile: &self.profile,
            clock: variant.clock,
            seed: self.seed,
            limit: self.run_limit,
        }
    }
}

#[cfg(test)]
mod tests;
