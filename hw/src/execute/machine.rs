//! The machine at hand: its `OpenCL` device, the cores left beside it, and the threads
//! on them.

use std::path::Path;
use std::sync::Arc;

use coexec_sim::workload::Layout;
use coexec_sim::{CoreSet, Cpu, Mechanism as Modelled, Profile};
use core_affinity::CoreId;

use super::{ExecuteError, Home, Result, sharing};
use crate::cpu::{PoolError, ThreadPool};
use crate::opencl::{Description, Device, DeviceKind, OpenClError, Runtime};
use crate::sync;
use crate::sync::Mechanism;
use crate::system::highest_clock;

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
    pub(super) free: Vec<usize>,
    pools: Vec<Pool>,
    /// Whether threads can be kept on cores here.
    pub(super) pins: bool,
    /// The core that the calling thread was last kept on.
    caller: Option<usize>,
    /// How mechanisms and memory were found to work.
    pub(super) tried: Vec<(Modelled, Mechanism, Home)>,
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
        let mut runtime = None;
        if choice.gpu {
            let whole = Device::select(&choice.opencl)?;
            runtime = Some(Runtime::new(gpu_of(whole, choice.compute_units, &mut warnings)?)?);
        }
        let free = cores_beside(runtime.as_ref().map(|runtime| runtime.device()));
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
        let Some(cores) = cores_of_set(set, cpu, &self.free) else {
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
    pub(super) fn sharing(&mut self, wanted: Modelled) -> Result<(Mechanism, Home)> {
        if let Some(&(_, mechanism, memory)) = self.tried.iter().find(|(tried, ..)| *tried == wanted) {
            return Ok((mechanism, memory));
        }
        let runtime = self.runtime.as_ref().ok_or(ExecuteError::NoGpu)?;
        let probed = |mechanism| sync::probe(runtime, mechanism);
        let (mechanism, passed_over) =
            sync::choose(wanted.into(), probed).map_err(|tried| ExecuteError::NoMechanism {
                tried: tried.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            })?;
        let memory = sharing::choose(runtime, mechanism);
        for unsound in &passed_over {
            self.warnings.push(format!("{unsound}; {mechanism} is used instead"));
        }
        if memory == Home::Device {
            let device = &runtime.device().name;
            self.warnings.push(format!("{device} shares no memory with the host: results are copied"));
        }
        self.tried.push((wanted, mechanism, memory));
        Ok((mechanism, memory))
    }
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
    let cores = cores_beside(None).len();
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

/// The cores that threads may be kept on, fastest first; in the order of their numbers
/// where they are alike or nothing is known. A `device` of cores takes the first: `PoCL` keeps its
/// worker `i` on core `i`, and a sub-device takes the first workers.
pub(crate) fn cores_beside(device: Option<&Description>) -> Vec<usize> {
    let made_of_cores = device.filter(|device| device.kind == DeviceKind::Cpu);
    let taken = made_of_cores.map_or(0, |device| device.compute_units as usize);
    let all = core_affinity::get_core_ids().unwrap_or_default();
    let free = all.into_iter().map(|core| core.id).filter(|&core| core >= taken);
    fastest_first(free.map(|core| (core, highest_clock(Path::new("/"), core).unwrap_or(0))).collect())
}

fn fastest_first(mut cores: Vec<(usize, u64)>) -> Vec<usize> {
    cores.sort_by_key(|&(core, clock)| (std::cmp::Reverse(clock), core));
    cores.into_iter().map(|(core, _)| core).collect()
}

/// The cores of `free` that stand for `set`: as far as there are as many cores as in the
/// profile, each cluster's are those behind the faster clusters'; otherwise the first.
/// None where there are too few.
fn cores_of_set(set: &CoreSet, cpu: &Cpu, free: &[usize]) -> Option<Vec<usize>> {
    let threads = set.threads() as usize;
    if free.len() < cpu.cores() as usize {
        return free.get(..threads).map(<[usize]>::to_vec);
    }
    let first_of = |cluster: usize| -> usize {
        cpu.clusters[..cluster].iter().map(|cluster| cluster.cores as usize).sum()
    };
    let groups = set.groups().map(|group| {
        let first = first_of(group.cluster);
        free.get(first..first + group.threads as usize)
    });
    groups.collect::<Option<Vec<_>>>().map(|groups| groups.concat())
}

#[cfg(test)]
mod tests {
    use coexec_sim::device::profile::Profile;

    use super::*;

    fn cores(set: &str, free: &[usize]) -> Option<Vec<usize>> {
        let cpu = Profile::load("pixel4").unwrap().cpu;
        cores_of_set(&CoreSet::parse(set, &cpu).unwrap(), &cpu, free)
    }

    #[test]
    fn on_the_profile_s_own_device_a_cluster_is_found_by_its_clock() {
        // Small cores come first in the numbering of phones.
        let clocks = [(0, 1_785), (1, 1_785), (2, 1_785), (3, 1_785), (4, 2_419), (5, 2_419), (6, 2_419)];
        let mut clocks: Vec<(usize, u64)> = clocks.to_vec();
        clocks.push((7, 2_842));
        let free = fastest_first(clocks);
        assert_eq!(free, [7, 4, 5, 6, 0, 1, 2, 3]);
        assert_eq!(cores("1large2small", &free), Some(vec![7, 0, 1]));
    }

    #[test]
    fn on_another_machine_the_first_free_cores_do() {
        assert_eq!(cores("2med", &[8, 9, 10]), Some(vec![8, 9]));
        assert_eq!(cores("4small", &[8, 9, 10]), None);
    }
}
