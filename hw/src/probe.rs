//! Micro-benchmarks of the machine at hand, written as a device profile.
//!
//! Responsible for: what is measured, in which order and for how long, and that every
//! value of the profile says how it came about. Not for: the fits (`coexec_sim`'s
//! calibration), or files. Invariants: what could not be measured says that it is
//! assumed; the order depends on the seed alone; a processor that is busy with something
//! else makes an error rather than a profile.

mod assemble;
mod beside;
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
use crate::execute::{DeviceChoice, cores_beside, gpu_of};
use crate::fingerprint::processor_name;
use crate::opencl::{Description, Device, OpenClError};

// What files of this room share.
use cores::CoreGroup;
use figures::{Bandwidth, Figures, Notes};
use statistics::{
    BYTES_PER_MICRO_OF_GBPS, Line, Measured, NANOS_PER_MICRO, Times, micros, over_sizes, relative_deviation,
    repeated,
};
use streams::{Client, CoRuns, Stream, memory_bytes};
use timed_layers::{FINGERPRINT, RUN_LIMIT, Sweep, Sweeper};

/// Spread of a fixed kernel's time, as a part of it, from which nothing else is worth
/// measuring.
const MAX_NOISE: f64 = 0.5;

/// What a machine that nobody measured is called.
const UNMEASURED: &str = "this-machine";

/// What to probe and how.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// Name of the profile.
    pub name: String,
    /// `PLATFORM:DEVICE`, as [`Device::select`] takes it.
    pub selection: String,
    /// Compute units of the device that stand for a GPU: of a CPU device half unless given,
    /// the other cores are the CPU.
    pub gpu_cores: Option<u32>,
    /// Whether minutes matter more than intervals.
    pub quick: bool,
    /// Seed of what is drawn at random.
    pub seed: u64,
    /// What its measurements may take in all. The fits between them take what they take.
    pub limit: Duration,
    /// Date to write into the profile.
    pub date: String,
}

/// A probed machine.
#[derive(Debug)]
pub struct Probed {
    /// The profile, checked.
    pub profile: Profile,
    /// The layers that were timed.
    pub runs: Vec<Measurement>,
    /// Their conditions.
    pub fingerprint: Fingerprint,
    /// Each layer beside its prediction by a fit that had not seen it.
    pub held_out: Vec<Point>,
    /// Errors of co-run slowdowns at levels of traffic that the curves had not seen.
    pub co_run: Vec<HeldOut>,
    /// What was measured and has no place of its own in a profile, and what has.
    pub findings: Vec<Finding>,
    /// What a reader should know before trusting it.
    pub warnings: Vec<String>,
    /// Whether something did not come back from the device: end the process with
    /// [`crate::leave`].
    pub gave_up: bool,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What it is.
    pub what: String,
    /// Value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// 95 % interval.
    pub ci95: Option<[f64; 2]>,
}

/// What was probed, or why not.
pub type Result<T, E = ProbeError> = std::result::Result<T, E>;

/// A machine cannot be probed.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ProbeError {
    /// There is no such device, or it failed.
    #[error(transparent)]
    OpenCl(#[from] OpenClError),
    /// Threads cannot be started.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Neither mechanism of synchronisation works.
    #[error("no mechanism of synchronisation works on this device: {why}")]
    NoMechanism { why: String },
    /// The time limit left too few measurements.
    #[error("the time limit left too little time for {what}")]
    TooLittleTime { what: &'static str },
    /// The same work takes a different time each time.
    #[error("the time of one and the same kernel varies by {percent:.0} %, expected at most {most:.0} %")]
    Noisy { percent: f64, most: f64 },
    /// The layer every device can run did not.
    #[error("a layer cannot be timed: {0}")]
    Layer(String),
    /// The prior lacks something.
    #[error("{0}")]
    Prior(String),
    /// The profile does not hold together.
    #[error("the measured values make no profile: {0}")]
    Profile(String),
}

/// The time that a part of the probe may take, and where its progress is reported.
pub(crate) struct TimeBudget<'a> {
    end: Instant,
    progress: &'a (dyn Fn(&str) + Sync),
}

impl TimeBudget<'_> {
    /// Whether its time has passed.
    fn is_over(&self) -> bool {
        Instant::now() > self.end
    }

    /// That part of the time left.
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
    device: Device,
    groups: Vec<CoreGroup>,
    started: Instant,
    progress: &'a (dyn Fn(&str) + Sync),
}

impl<'a> Bench<'a> {
    /// That part of the time left in front of the fits.
    fn budget(&self, part: f64) -> TimeBudget<'a> {
        let before_fits = self.options.limit.mul_f64(1.0 - beside::CUTS_PART - sequences::TIME_PART);
        let left = before_fits.saturating_sub(self.started.elapsed());
        TimeBudget { end: Instant::now() + left.mul_f64(part), progress: self.progress }
    }

    /// That part of all the time, kept for what waits for the fits.
    fn kept(&self, part: f64) -> TimeBudget<'a> {
        TimeBudget { end: Instant::now() + self.options.limit.mul_f64(part), progress: self.progress }
    }

    /// The cores that are no GPU, fastest first.
    fn cores(&self) -> Vec<usize> {
        self.groups.iter().flat_map(|group| group.cores.iter().copied()).collect()
    }
}

/// Probes the machine, telling `progress` how far it is.
///
/// # Errors
/// Where there is no such device, nothing works on it, or what it does takes a different
/// time each time.
pub fn probe(options: &ProbeOptions, progress: &(dyn Fn(&str) + Sync)) -> Result<Probed> {
    // Before any thread is pinned: a driver's own threads inherit where they may run.
    let whole = Device::select(&options.selection)?;
    let mut warnings = Vec::new();
    let device = gpu_of(whole, options.gpu_cores, &mut warnings)?;
    let cores = cpu_cores(Some(device.description()), &mut warnings);
    let groups = cores::groups(Path::new("/"), &cores);
    progress(&format!("probing {} beside {} cores", device.description(), cores.len()));
    let bench = Bench { options, device, groups, started: Instant::now(), progress };
    // The pools pin the thread that makes them, which should not be the caller's.
    thread::scope(|scope| {
        let probing = scope.spawn(|| {
            // Where the system pins no threads, it places them itself.
            let _ = core_affinity::set_for_current(CoreId { id: cores.first().copied().unwrap_or(0) });
            assemble::measured(&bench, warnings)
        });
        probing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The machine as its system and driver describe it, of which nothing was measured: enough to run on, and
/// nothing to predict with. It has a GPU where `choice` wants one and there is a device, or one is named.
///
/// # Errors
/// The device that is named is not there or cannot be cut so.
pub fn unmeasured(choice: &DeviceChoice) -> Result<Profile, OpenClError> {
    let device = match Device::select(&choice.opencl) {
        _ if !choice.gpu => None,
        Ok(whole) => Some(gpu_of(whole, choice.compute_units, &mut Vec::new())?),
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

/// The cores that compute as the CPU: those that `device` is not made of.
fn cpu_cores(device: Option<&Description>, warnings: &mut Vec<String>) -> Vec<usize> {
    let left = cores_beside(device);
    if !left.is_empty() {
        return left;
    }
    warnings
        .push("the OpenCL device is made of the same cores as the CPU: together they share them".to_owned());
    cores_beside(None)
}
