//! A scenario and a plan on real hardware.
//!
//! Responsible for: operators placed on CPU cores, on the `OpenCL` device, or cut between
//! both; graphs with hand-overs where the placement changes, chains of cut operators
//! without any; measuring variants of a workload side by side, and batches in flight. Not for: which plan (`coexec_sim::explore`), files, or what
//! to make of the times.
//! Invariants: no time counts before the result was verified, and every later result is,
//! bit by bit, the verified one; whatever waits has a limit; raw times are kept.

mod build;
mod check;
mod machine;
mod measure;
mod meetings;
mod noise;
mod place;
mod program;
mod sharing;
mod stream;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use coexec_fit::measure::runs::Fingerprint;
use coexec_sim::schedule::ScheduleError;
use coexec_sim::{CoreSet, DataType, Placement, Plan, Profile, Stage, Unsupported};
use half::f16;
use thiserror::Error;

pub use crate::opencl::Home;
pub use crate::statistics::Summary;
pub use machine::{DeviceChoice, Machine};
pub use measure::{Measured, Settings};
pub use noise::NoiseFloor;
pub use program::Clock;
pub use stream::{Streamed, Streaming};
pub use watch::ProgressEvent;

use crate::cpu::{Element, PoolError};
use crate::fingerprint::fingerprint;
use crate::opencl::OpenClError;
use crate::operands::OperandError;
use crate::verify::Mismatch;

// What files of this room share.
use build::{Operation, borrowed};
use machine::Team;
pub(crate) use machine::{cores_beside, gpu_of};
use meetings::{Action, Meetings, Side};
use place::{HostHome, Place, Touched};
pub(crate) use program::{Program, Task};
use program::{Taken, joined_stages};
use watch::{Control, PATIENCE, watched};

/// What was executed, or why not.
pub type Result<T, E = ExecuteError> = std::result::Result<T, E>;

/// Something cannot be executed, or not soundly.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ExecuteError {
    /// The `OpenCL` device.
    #[error(transparent)]
    OpenCl(#[from] OpenClError),
    /// A CPU kernel, or operands of an operator.
    #[error(transparent)]
    Operand(#[from] OperandError),
    /// Threads.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The profile has no dispatch rules for an operator.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A result is wrong.
    #[error("{0}: no time counts")]
    Wrong(#[from] Box<Mismatch>),
    /// Part of a result is not a number: it was not computed.
    #[error("element {element} of {operator} was not computed: no time counts")]
    NotComputed { operator: String, element: usize },
    /// A result is not what it was when it was verified.
    #[error("element {element} of {operator} changed from one run to the next: no time counts")]
    Changed { operator: String, element: usize },
    /// The plan uses more cores than there are beside the device.
    #[error(
        "the core set {cores} needs {needed} cores, found {free} beside the OpenCL device's {taken} compute units"
    )]
    TooFewCores { cores: String, needed: u32, free: usize, taken: u32 },
    /// The plan uses a GPU and none was opened, or the profile has none.
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
    /// A plan without a schedule.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// No mechanism works.
    #[error("host and device cannot synchronise: {tried}")]
    NoMechanism { tried: String },
    /// A number format that there are no kernels for, or several.
    #[error("found a workload in {found}, expected all of it in f32 or in f16")]
    Format { found: String },
    /// The measuring thread cannot be started.
    #[error("cannot start a thread to measure on")]
    NoThread(#[source] std::io::Error),
    /// The measuring thread ended without a result.
    #[error("the measuring thread failed")]
    ThreadFailed,
    /// Nothing happened for too long.
    #[error("the device or its driver did not answer for {seconds:.0} s; it was left behind")]
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
    /// Who computes them.
    pub plan: Plan,
    /// What its times cover.
    pub clock: Clock,
}

/// What is measured, and on what.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Its GPU's dispatch rules and its core sets are used.
    pub profile: Profile,
    /// What of the machine is used.
    pub choice: DeviceChoice,
    /// Groups of variants; those of a group are measured alternately.
    pub groups: Vec<Vec<Variant>>,
    /// Repetitions of each variant.
    pub repetitions: u32,
    /// Seed of operands and of the order of repetitions.
    pub seed: u64,
    /// When no further group is started and a started one is cut short.
    pub time_limit: Option<Duration>,
    /// What one run may take.
    pub run_limit: Duration,
    /// How batches of the first variant follow each other, where they are to.
    pub streaming: Option<Streaming>,
}

/// What was measured.
#[derive(Debug)]
pub struct Report {
    /// The conditions.
    pub fingerprint: Fingerprint,
    /// How well times can be told apart.
    pub noise: NoiseFloor,
    /// Of each group that was measured, in the order of the request: each variant, or why
    /// it cannot run here.
    pub groups: Vec<Option<Vec<Result<Measured>>>>,
    /// What became of batches of the first variant that followed each other.
    pub streamed: Option<Streamed>,
}

impl ExecuteError {
    /// Whether the error is one variant's, which leaves the others measurable.
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

/// Measures what `request` asks for; `tell` hears how far it is. Setting `stop` ends it
/// within seconds.
///
/// # Errors
/// No such hardware, a device that does not answer or computes wrongly, or that it was
/// cancelled.
pub fn execute(
    request: Request,
    stop: &Arc<AtomicBool>,
    tell: &mut dyn FnMut(ProgressEvent),
) -> Result<Report> {
    // A run waits at most twice: for the device, and for it to end.
    let patience = PATIENCE + 2 * request.run_limit;
    watched(patience, stop, tell, move |control| on_this_thread(&request, control))
}

/// Measures plans of a workload side by side by the host's clock, on the calling thread, which
/// nobody watches; no run may take longer than `limit`.
///
/// # Errors
/// A result that is wrong, or a device that does not answer.
pub(crate) fn side_by_side(
    machine: &mut Machine,
    (stages, profile): (&[Stage], &Profile),
    plans: &[Plan],
    (settings, limit): (Settings, Duration),
) -> Result<Vec<Result<Measured>>> {
    let task = |plan| Task { stages, plan, profile, clock: Clock::Host, seed: settings.seed, limit };
    let tasks: Vec<Task<'_>> = plans.iter().map(task).collect();
    measure::measure::<f32>(machine, &tasks, settings, &Control::unwatched())
}

fn on_this_thread(request: &Request, control: &Control) -> Result<Report> {
    let stages = request.groups.iter().flatten().flat_map(|variant| &variant.stages);
    let mut formats: Vec<DataType> = Vec::new();
    for stage in stages {
        if !formats.contains(&stage.layer.data_type) {
            formats.push(stage.layer.data_type);
        }
    }
    match formats[..] {
        [DataType::F16] => measured_in::<f16>(request, control),
        [] | [DataType::F32] => measured_in::<f32>(request, control),
        _ => {
            let found: Vec<String> = formats.iter().map(DataType::to_string).collect();
            Err(ExecuteError::Format { found: found.join(", ") })
        }
    }
}

fn measured_in<T: Element>(request: &Request, control: &Control) -> Result<Report> {
    let started = Instant::now();
    let mut machine = Machine::open(&request.choice)?;
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
    let streamed = request.stream::<T>(&mut machine, control)?;
    let deadline = request.time_limit.map(|limit| started + limit);
    let order = order(request.groups.len(), request.seed);
    let mut groups: Vec<_> = request.groups.iter().map(|_| None).collect();
    for (done, &index) in order.iter().enumerate() {
        if done > 0 && deadline.is_some_and(|deadline| Instant::now() > deadline) {
            control.tell(ProgressEvent::Warning(format!(
                "the time limit left {} of {} groups unmeasured",
                order.len() - done,
                order.len()
            )));
            break;
        }
        let group = &request.groups[index];
        let name = group.first().and_then(|variant| variant.stages.first()).map_or("", |stage| &stage.name);
        control.tell(ProgressEvent::Progress(format!("{} of {}: {name}", done + 1, order.len())));
        let settings = Settings {
            repetitions: request.repetitions,
            seed: request.seed.wrapping_add(index as u64),
            deadline,
        };
        let tasks: Vec<Task<'_>> = group.iter().map(|variant| request.task(variant)).collect();
        groups[index] = Some(measure::measure::<T>(&mut machine, &tasks, settings, control)?);
        for warning in machine.take_warnings() {
            control.tell(ProgressEvent::Warning(warning));
        }
    }
    Ok(Report { fingerprint, noise, groups, streamed })
}

/// Numbers below `count` in an order that `seed` draws: a time limit then leaves a sample.
fn order(count: usize, seed: u64) -> Vec<usize> {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    let mut order: Vec<usize> = (0..count).collect();
    // The first is what the scenario is about.
    if let Some((_, rest)) = order.split_first_mut() {
        rest.shuffle(&mut rand_chacha::ChaCha8Rng::seed_from_u64(seed));
    }
    order
}

impl Request {
    /// Streams batches of the first variant, where the request says how.
    fn stream<T: Element>(&self, machine: &mut Machine, control: &Control) -> Result<Option<Streamed>> {
        let first = self.groups.first().and_then(|group| group.first());
        let (Some(streaming), Some(variant)) = (self.streaming, first) else { return Ok(None) };
        control.tell(ProgressEvent::Progress(format!("batches, {} in flight", streaming.depth)));
        stream::stream::<T>(machine, &self.task(variant), streaming, control).map(Some)
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
