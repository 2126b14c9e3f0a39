//! The machine at hand: its `OpenCL` device, the cores left beside it, and the threads
//! on them.

use std::sync::Arc;

use coexec_sim::workload::Layout;
use coexec_sim::{CoreSet, Cpu, Mechanism as Modelled, Profile};
use core_affinity::CoreId;

use super::place::Sharing;
use super::{ExecuteError, Result, cores, sharing};
use crate::cpu::{PoolError, ThreadPool};
use crate::opencl::{Device, DeviceKind, OpenClError, Runtime};
use crate::sync::{self, Mechanism};

/// What of a machine is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// Whether an `OpenCL` device is used at all.
    pub gpu: bool,
    /// The device: `PLATFORM:DEVICE`; any where empty.
    pub opencl: String,
    /// Compute units of it: a part of a device of cores stands for a GPU, and the other
    /// cores for a CPU. Half of such a device unless given, all of any other.
    pub compute_units: Option<u32>,
}

/// The machine.
pub struct Machine {
    runtime: Option<Arc<Runtime>>,
    /// Cores the device does not use, fastest first.
    free: Vec<usize>,
    pools: Vec<Pool>,
    /// Whether threads can be kept on cores here.
    pins: bool,
    /// The core that the calling thread was last kept on.
    caller: Option<usize>,
    /// How mechanisms and memory were found to work.
    tried: Vec<(Modelled, Mechanism, Sharing)>,
    warnings: Vec<String>,
}

struct Pool {
    cores: Vec<usize>,
    threads: ThreadPool,
}

/// Threads of a core set: a pool and how many of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Team {
    pool: usize,
    threads: usize,
}

impl Machine {
    /// The machine as `choice` has it.
    ///
    /// # Errors
    /// No `OpenCL` library, platform or such device; one that cannot be cut.
    pub fn open(choice: &DeviceChoice) -> Result<Self> {
        let mut warnings = Vec::new();
        let runtime = if choice.gpu { Some(runtime(choice, &mut warnings)?) } else { None };
        let free = cores::cores_beside(runtime.as_ref().map(|runtime| runtime.device()));
        Ok(Self { warnings, ..Self::of(runtime, free) })
    }

    /// An open device, where one is used, beside these cores, fastest first.
    pub(crate) fn of(runtime: Option<Arc<Runtime>>, free: Vec<usize>) -> Self {
        Self {
            runtime,
            free,
            pools: Vec::new(),
            pins: true,
            caller: None,
            tried: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// The `OpenCL` device, where one is used.
    pub fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.runtime.as_ref()
    }

    /// Cores beside the device, fastest first.
    pub fn free_cores(&self) -> &[usize] {
        &self.free
    }

    /// Whether threads are kept on cores.
    pub fn pins(&self) -> bool {
        self.pins
    }

    /// What a user should know, since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Warns where the device is not of the size that `profile` says its GPU is of.
    pub(super) fn compare(&mut self, profile: &Profile) {
        let Some((runtime, gpu)) = self.runtime.as_ref().zip(profile.gpu.as_ref()) else { return };
        let (found, expected) = (runtime.device().compute_units, gpu.compute_units);
        if found != expected {
            self.warnings.push(format!(
                "the GPU of the profile {} has {}, the device here {found}: what is predicted is another device",
                profile.name,
                if expected == 1 { "1 compute unit".to_owned() } else { format!("{expected} compute units") },
            ));
        }
    }

    /// Threads for all of `sets`, so that one of them does not need another's cores.
    ///
    /// # Errors
    /// Too few cores, or threads cannot be started.
    pub fn prepare(&mut self, sets: &[CoreSet], cpu: &Cpu) -> Result<()> {
        let mut sets = sets.to_vec();
        sets.sort_by_key(|set| std::cmp::Reverse(set.threads()));
        sets.iter().try_for_each(|set| self.team(set, cpu).map(drop))
    }

    /// The threads that stand for `set`.
    pub(super) fn team(&mut self, set: &CoreSet, cpu: &Cpu) -> Result<Team> {
        let Some(cores) = cores::of_set(set, cpu, &self.free) else {
            return Err(ExecuteError::TooFewCores {
                cores: set.to_string(),
                needed: set.threads(),
                free: self.free.len(),
                taken: self.runtime.as_ref().map_or(0, |runtime| runtime.device().compute_units),
            });
        };
        let threads = cores.len();
        let fits = |pool: &Pool| pool.cores.starts_with(&cores);
        if let Some(pool) = self.pools.iter().position(fits) {
            return Ok(Team { pool, threads });
        }
        let pool = match ThreadPool::pinned(&cores) {
            Err(PoolError::CannotPin { .. }) if self.pins => {
                self.pins = false;
                self.warnings.push("threads cannot be kept on cores here: times will spread".to_owned());
                ThreadPool::new(threads)
            }
            Err(PoolError::CannotPin { .. }) => ThreadPool::new(threads),
            pool => pool,
        };
        self.caller = cores.first().copied();
        self.pools.push(Pool { cores, threads: pool? });
        Ok(Team { pool: self.pools.len() - 1, threads })
    }

    /// The pool of `team`, with as many threads as it has.
    pub(super) fn pool(&mut self, team: Team) -> &mut ThreadPool {
        let pool = &mut self.pools[team.pool].threads;
        pool.limit(team.threads);
        pool
    }

    /// Keeps the calling thread on the first core of `team`.
    pub(crate) fn pin_caller_to(&mut self, team: Option<Team>) {
        let core = match team {
            Some(team) => self.pools[team.pool].cores.first().copied(),
            None => self.free.first().copied(),
        };
        let Some(id) = core.filter(|_| self.pins && core != self.caller) else { return };
        if core_affinity::set_for_current(CoreId { id }) {
            self.caller = core;
        }
    }

    /// Takes for granted what [`Machine::sharing`] would try.
    #[cfg(test)]
    pub(super) fn assume(&mut self, wanted: Modelled, mechanism: Mechanism, memory: Sharing) {
        self.tried.retain(|(tried, ..)| *tried != wanted);
        self.tried.push((wanted, mechanism, memory));
    }

    /// The layout of tensors that the device alone accesses: what the profile's GPU has,
    /// or buffers of slices where there are no images.
    pub(super) fn layout(&mut self, wanted: Layout) -> Layout {
        let Some(runtime) = &self.runtime else { return wanted };
        let layout = runtime.layout(wanted);
        if layout != wanted {
            self.warnings
                .push(format!("{} has no images: tensors are kept in buffers", runtime.device().name));
        }
        layout
    }

    /// The mechanism and the memory that stand for `wanted` here: tried once, replaced
    /// with a warning where they do not work.
    pub(super) fn sharing(&mut self, wanted: Modelled) -> Result<(Mechanism, Sharing)> {
        if let Some(&(_, mechanism, memory)) = self.tried.iter().find(|(tried, ..)| *tried == wanted) {
            return Ok((mechanism, memory));
        }
        let runtime = self.runtime.as_ref().ok_or(ExecuteError::NoGpu)?;
        let (mechanism, passed_over) =
            sync::choose(runtime, wanted.into()).map_err(|tried| ExecuteError::NoMechanism {
                tried: tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            })?;
        let memory = sharing::choose(runtime, mechanism);
        for unsound in &passed_over {
            self.warnings.push(format!("{unsound}; {mechanism} is used instead"));
        }
        if memory == Sharing::Copies {
            let device = &runtime.device().name;
            self.warnings.push(format!("{device} shares no memory with the host: results are copied"));
        }
        self.tried.push((wanted, mechanism, memory));
        Ok((mechanism, memory))
    }
}

/// The device of `choice`, ready to compute.
fn runtime(choice: &DeviceChoice, warnings: &mut Vec<String>) -> Result<Arc<Runtime>> {
    let whole = Device::select(&choice.opencl)?;
    Ok(Runtime::new(gpu_of(whole, choice.compute_units, warnings)?)?)
}

/// What of the device `whole` stands for the GPU: `asked` compute units; unless given, half
/// of the cores of a device made of this machine's, and all of any other.
///
/// # Errors
/// The device cannot be cut so.
pub(crate) fn gpu_of(
    whole: Device,
    asked: Option<u32>,
    warnings: &mut Vec<String>,
) -> Result<Device, OpenClError> {
    let description = whole.description().clone();
    let all = description.compute_units;
    let is_made_of_cores = description.kind == DeviceKind::Cpu;
    let cores = cores::cores_beside(None).len();
    // One that was limited to some of the cores leaves the others as it is.
    let is_limited = (all as usize) < cores;
    let wanted = match asked {
        Some(units) => units,
        None if is_made_of_cores && !is_limited => (all / 2).max(1),
        None => all,
    };
    if is_made_of_cores && asked.is_none() {
        warnings.push(format!("{wanted} of the {cores} cores of {description} stand for the GPU"));
    }
    // A device made of cores is used the same way whether all its workers take part or not:
    // a part of one has no images.
    if wanted == all && !is_made_of_cores { Ok(whole) } else { whole.sub_device(wanted) }
}
