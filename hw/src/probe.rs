//! Micro-benchmarks of the machine at hand, summarised as a device profile.
//!
//! Responsible for: what is measured, in which order and for how long, and that every value of the
//! profile names its source. Not for: the fits (`coexec_fit`'s calibration), or files. Invariants:
//! a value that could not be measured is marked as assumed; the order depends on the seed alone; a
//! processor that is busy with other work causes an error, not a profile.

mod assemble;
mod co_execution;
mod cores;
mod figures;
mod fit;
mod graphics;
mod launches;
mod layers;
mod meter;
mod power;
mod sequences;
mod statistics;
mod streams;
mod synchronisation;
mod timed_layers;
mod transfers;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use coexec_fit::calibrate::interference::HeldOut;
use coexec_fit::measure::runs::{Fingerprint, Measurement};
use coexec_fit::validate::point::Point;
use coexec_sim::Profile;
use core_affinity::CoreId;
use serde::Serialize;
use thiserror::Error;

use crate::cpu::PoolError;
use crate::execute::{DeviceChoice, ExecuteError, Machine, free_cores};
use crate::fingerprint::processor_name;
use crate::opencl::{Description, Device, OpenClError, Runtime};

// Re-exports for the files of this module.
use cores::CoreGroup;
use figures::{Figures, Notes};
use statistics::{
    BYTES_PER_MICRO_OF_GBPS, Estimate, Line, Times, micros, over_sizes, relative_deviation, repeated,
};
use streams::{Client, CoRuns, Stream, memory_bytes};
use timed_layers::{FINGERPRINT, RUN_LIMIT, Sweep, Sweeper};

/// Relative deviation of a fixed kernel's times above which measuring is pointless.
const MAX_NOISE: f64 = 0.5;

/// Name of the profile of a machine without measurements.
const UNMEASURED: &str = "this-machine";

/// What to probe, and how.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Name of the profile.
    pub name: String,
    /// The device.
    pub choice: DeviceChoice,
    /// Whether to save minutes at the cost of wider confidence intervals.
    pub quick: bool,
    /// Seed of all random draws.
    pub seed: u64,
    /// Time limit of all measurements; the fits between them are not limited.
    pub limit: Duration,
    /// Date of the profile.
    pub date: String,
}

/// The results of a probe.
#[derive(Debug)]
pub struct Probed {
    /// The validated profile.
    pub profile: Profile,
    /// Runs of the timed layers.
    pub runs: Vec<Measurement>,
    /// Conditions of the runs.
    pub fingerprint: Fingerprint,
    /// Each layer with its prediction by a fit that held it out.
    pub held_out: Vec<Point>,
    /// Errors of predicted co-run slowdowns at held-out levels of traffic.
    pub co_run: Vec<HeldOut>,
    /// Measured values, whether or not they are part of a profile.
    pub findings: Vec<Finding>,
    /// Warnings about the results.
    pub warnings: Vec<String>,
    /// Whether a driver call never returned, in which case the process must end by
    /// [`crate::exit_immediately`].
    pub gave_up: bool,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Description.
    pub what: String,
    /// Value.
    pub value: f64,
    /// Unit.
    pub unit: &'static str,
    /// 95 % confidence interval, if known.
    pub ci95: Option<[f64; 2]>,
}

/// The outcome of a probe.
pub type Result<T, E = ProbeError> = std::result::Result<T, E>;

/// A machine cannot be probed.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ProbeError {
    /// The device is missing or failed.
    #[error(transparent)]
    OpenCl(#[from] OpenClError),
    /// Threads cannot be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// No synchronisation mechanism works.
    #[error("no mechanism of synchronisation works on this device: {why}")]
    NoMechanism { why: String },
    /// The time limit left too few measurements.
    #[error("the time limit left too little time for {what}")]
    TooLittleTime { what: &'static str },
    /// Times of the same work vary too much.
    #[error("the time of a repeated kernel varies by {percent:.0} %, expected at most {most:.0} %")]
    Noisy { percent: f64, most: f64 },
    /// Operators cannot be run.
    #[error("a layer cannot be timed: {0}")]
    Execute(#[from] ExecuteError),
    /// A layer that every device must support failed.
    #[error("a layer cannot be timed: {0}")]
    Layer(String),
    /// The hardware prior lacks a value.
    #[error("{0}")]
    Prior(String),
    /// The measured values do not form a valid profile.
    #[error("the measured values do not form a valid profile: {0}")]
    Profile(String),
}

/// The time budget of a part of the probe, with the receiver of its progress.
pub(crate) struct TimeBudget<'a> {
    end: Instant,
    progress: &'a (dyn Fn(&str) + Sync),
}

impl TimeBudget<'_> {
    /// Whether the budget is spent.
    fn is_over(&self) -> bool {
        Instant::now() > self.end
    }

    /// The fraction `part` of the remaining time.
    fn part(&self, part: f64) -> Self {
        let now = Instant::now();
        Self { end: now + self.end.saturating_duration_since(now).mul_f64(part), ..*self }
    }

    fn report(&self, what: &str) {
        (self.progress)(what);
    }
}

/// The machine while it is probed.
struct Bench<'a> {
    options: &'a ProbeOptions,
    runtime: Arc<Runtime>,
    groups: Vec<CoreGroup>,
    started: Instant,
    progress: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Bench<'a> {
    /// The fraction `part` of the time that remains before the fits.
    fn budget(&self, part: f64) -> TimeBudget<'a> {
        let before_fits = self.options.limit.mul_f64(1.0 - co_execution::CUTS_PART - sequences::TIME_PART);
        let left = before_fits.saturating_sub(self.started.elapsed());
        TimeBudget { end: Instant::now() + left.mul_f64(part), progress: self.progress }
    }

    /// The fraction `part` of the total time, which is reserved for measurements after the fits.
    fn reserved(&self, part: f64) -> TimeBudget<'a> {
        TimeBudget { end: Instant::now() + self.options.limit.mul_f64(part), progress: self.progress }
    }

    /// The device, and all cores that act as the CPU.
    fn machine(&self) -> Machine {
        Machine::of(Some(Arc::clone(&self.runtime)), self.cores())
    }

    /// The CPU's cores, fastest first.
    fn cores(&self) -> Vec<usize> {
        self.groups.iter().flat_map(|group| group.cores.iter().copied()).collect()
    }
}

/// Probes the machine and reports progress to `progress`.
///
/// # Errors
/// Where there is no such device, nothing works on it, or its times vary too much.
pub fn probe(options: &ProbeOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Probed> {
    // Must precede any pinning of threads: a driver's own threads inherit the affinity.
    let mut warnings = Vec::new();
    let device = options.choice.device(&mut warnings)?;
    let cores = cpu_cores(Some(device.description()), &mut warnings);
    if cores.is_empty() {
        return Err(PoolError::NoThreads.into());
    }
    let groups = cores::groups(Path::new("/"), &cores);
    progress(&format!("probing {} and {} cores", device.description(), cores.len()));
    // Pools pin the thread that creates them, which should not be the caller's.
    thread::scope(|scope| {
        let probing = scope.spawn(|| {
            let runtime = Runtime::new(device)?;
            // Without pinning, the system places the thread.
            let _ = core_affinity::set_for_current(CoreId { id: cores[0] });
            let bench = Bench { options, runtime, groups, started: Instant::now(), progress };
            assemble::measured(&bench, warnings)
        });
        probing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The profile of the machine as its system and driver describe it, without measurements: enough to
/// run plans, but not to predict. It has a GPU if `choice` uses one and there is a device.
///
/// # Errors
/// Where the named device does not exist or cannot be partitioned.
pub fn unmeasured(choice: &DeviceChoice) -> Result<Profile, OpenClError> {
    let device = match Device::select(&choice.opencl) {
        _ if !choice.gpu => None,
        Ok(_) => Some(choice.device(&mut Vec::new())?),
        Err(_) if choice.opencl.is_empty() => None,
        Err(error) => return Err(error),
    };
    let description = device.as_ref().map(Device::description);
    let cores = cpu_cores(description, &mut Vec::new());
    Ok(Profile {
        name: UNMEASURED.to_owned(),
        title: UNMEASURED.replace('-', " "),
        soc: processor_name(),
        aliases: Vec::new(),
        cpu: assemble::unfitted_cpu(&cores::groups(Path::new("/"), &cores)),
        gpu: description.map(graphics::unfitted),
        npu: None,
        power: None,
        calibration: None,
        ..graphics::template()
    })
}

/// The cores that act as the CPU: those that `device` does not use.
fn cpu_cores(device: Option<&Description>, warnings: &mut Vec<String>) -> Vec<usize> {
    let left = free_cores(device);
    if !left.is_empty() {
        return left;
    }
    warnings.push(
        "the OpenCL device is made of the same cores as the CPU: both slow down when they run together"
            .to_owned(),
    );
    free_cores(None)
}
