//! The machine at hand: its `OpenCL` device, the remaining cores, and the threads on them.

use std::path::Path;
use std::sync::Arc;

use coexec_sim::workload::Layout;
use coexec_sim::{CoreSet, Cpu, Mechanism as Modelled, Profile};
use core_affinity::CoreId;

use super::{Control, ExecuteError, Home, Result, sharing};
use crate::cpu::{PoolError, ThreadPool};
use crate::opencl::{Description, Device, DeviceKind, OpenClError, Runtime, devices};
use crate::sync;
use crate::sync::Mechanism;
use crate::system::highest_clock;

/// The part of a machine to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// Whether an `OpenCL` device is used.
    pub gpu: bool,
    /// The device, `PLATFORM:DEVICE`, as [`Device::select`] takes it.
    pub opencl: String,
    /// Compute units of the device that act as the GPU. By default, half of a device made of the
    /// host's cores, whose other cores act as the CPU, and all of any other device.
    pub compute_units: Option<u32>,
}

impl DeviceChoice {
    /// The same choice, but where a GPU is needed and none is named, the one on which `profile` was probed if
    /// it is here.
    #[must_use]
    pub fn of_profile(self, profile: &Profile) -> Self {
        let is_probed = |device: &Device| device.description().full_name() == profile.soc;
        // Where devices cannot be listed, opening one states why.
        let is_open = self.gpu && self.opencl.is_empty();
        let all = if is_open { devices().unwrap_or_default() } else { Vec::new() };
        match all.iter().find(|device| is_probed(device)).map(Device::description) {
            Some(Description { platform_index, device_index, .. }) => {
                Self { opencl: format!("{platform_index}:{device_index}"), ..self }
            }
            None => self,
        }
    }

    /// The part of the chosen device that acts as the GPU.
    pub(crate) fn device(&self, warnings: &mut Vec<String>) -> Result<Device, OpenClError> {
        part_of(Device::select(&self.opencl)?, self.compute_units, warnings)
    }
}

/// The machine that plans run on.
pub struct Machine {
    runtime: Option<Arc<Runtime>>,
    /// Cores that the device does not use, fastest first.
    pub(super) free: Vec<usize>,
    pools: Vec<Pool>,
    /// Threads that fill the device's queue while the host computes.
    pub(super) dispatchers: Vec<Dispatcher>,
    /// Whether threads can be pinned to cores.
    pub(super) pins: bool,
    /// The core that the calling thread was last pinned to.
    caller: Option<usize>,
    /// For each probed mechanism of a plan, the mechanism and the memory used for it.
    pub(super) tried: Vec<(Modelled, Mechanism, Home)>,
    warnings: Vec<String>,
    /// Learns that the measurement goes on.
    pub(super) control: Control,
}

struct Pool {
    cores: Vec<usize>,
    threads: ThreadPool,
}

/// The calling thread and another one, on a core of its own if one is stated.
pub(super) struct Dispatcher {
    pub(super) core: Option<usize>,
    pub(super) threads: ThreadPool,
}

/// Threads of a core set: a pool and the number of its threads that take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Team {
    pool: usize,
    threads: usize,
}

impl Machine {
    /// Opens the part of the machine that `choice` describes.
    ///
    /// # Errors
    /// Where there is no `OpenCL` library, platform or such device, or it cannot be partitioned.
    pub fn open(choice: &DeviceChoice) -> Result<Self> {
        let mut warnings = Vec::new();
        let mut runtime = None;
        if choice.gpu {
            runtime = Some(Runtime::new(choice.device(&mut warnings)?)?);
        }
        let free = free_cores(runtime.as_ref().map(|runtime| runtime.device()));
        Ok(Self { warnings, ..Self::of(runtime, free) })
    }

    /// A machine of an open device, if one is used, and of the cores `free`, fastest first.
    pub(crate) fn of(runtime: Option<Arc<Runtime>>, free: Vec<usize>) -> Self {
        Self {
            runtime,
            free,
            pools: Vec::new(),
            dispatchers: Vec::new(),
            pins: true,
            caller: None,
            tried: Vec::new(),
            warnings: Vec::new(),
            control: Control::unwatched(),
        }
    }

    /// The `OpenCL` device, if one is used.
    pub fn runtime(&self) -> Option<&Arc<Runtime>> {
        self.runtime.as_ref()
    }

    /// Removes and returns the warnings to the user since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Adds a warning if the device's compute units are not as many as those of the profile's GPU.
    pub(super) fn compare(&mut self, profile: &Profile) {
        let Some((runtime, gpu)) = self.runtime.as_ref().zip(profile.gpu.as_ref()) else { return };
        let (found, expected) = (runtime.device().compute_units, gpu.compute_units);
        if found != expected {
            self.warnings.push(format!(
                "the GPU of the profile {} has {}, the device here {found}: the predictions are for another device",
                profile.name,
                if expected == 1 { "1 compute unit".to_owned() } else { format!("{expected} compute units") },
            ));
        }
    }

    /// Starts threads for those of `sets` for which there are cores, the largest first, so that
    /// smaller sets share its pool.
    ///
    /// # Errors
    /// Where threads cannot be started.
    pub fn prepare(&mut self, sets: &[CoreSet], cpu: &Cpu) -> Result<()> {
        let mut sets = sets.to_vec();
        sets.sort_by_key(|set| std::cmp::Reverse(set.threads()));
        sets.iter().try_for_each(|set| match self.team(set, cpu) {
            // Whatever uses the set says so.
            Err(ExecuteError::TooFewCores { .. }) => Ok(()),
            team => team.map(drop),
        })
    }

    /// The threads of `set`, which are started on first use.
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
                self.warnings.push("threads cannot be pinned to cores here: times will vary more".to_owned());
                ThreadPool::new(threads)
            }
            Err(PoolError::CannotPin { .. }) => ThreadPool::new(threads),
            pool => pool,
        };
        self.caller = cores.first().copied();
        self.pools.push(Pool { cores, threads: pool? });
        Ok(Team { pool: self.pools.len() - 1, threads })
    }

    /// The index of a thread that can fill the device's queue while `teams` compute: on the slowest free core that
    /// none of them uses. `None` if there is none, or threads cannot be pinned.
    pub(super) fn dispatcher_beside(&mut self, teams: &[Team]) -> Option<usize> {
        let used = teams.iter().flat_map(|team| &self.pools[team.pool].cores[..team.threads]);
        let used: Vec<usize> = used.copied().collect();
        let is_free = |core: &usize| !used.contains(core);
        if let Some(index) =
            self.dispatchers.iter().position(|dispatcher| dispatcher.core.as_ref().is_none_or(is_free))
        {
            return Some(index);
        }
        let core = self.free.iter().copied().rfind(is_free).filter(|_| self.pins)?;
        let threads = ThreadPool::beside(core).ok()?;
        self.dispatchers.push(Dispatcher { core: Some(core), threads });
        Some(self.dispatchers.len() - 1)
    }

    /// The pool of `team`, limited to the team's threads.
    pub(super) fn pool(&mut self, team: Team) -> &mut ThreadPool {
        let pool = &mut self.pools[team.pool].threads;
        pool.limit(team.threads);
        pool
    }

    /// Pins the calling thread to the first core of `team`, or to the fastest free core without one.
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

    /// The layout of tensors that only the device accesses: the profile's, or sliced buffers if the
    /// device has no images.
    pub(super) fn layout(&mut self, wanted: Layout) -> Layout {
        let Some(runtime) = &self.runtime else { return wanted };
        let layout = runtime.layout(wanted);
        if layout != wanted {
            self.warnings
                .push(format!("{} has no images: tensors are kept in buffers", runtime.device().name));
        }
        layout
    }

    /// The mechanism and the memory to use for `wanted`. They are probed once, and replaced with a
    /// warning where they do not work.
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

/// The part of the device `whole` that acts as the GPU: `asked` compute units, by default half of a
/// device made of this machine's cores, and all of any other.
///
/// # Errors
/// Where the device cannot be partitioned.
fn part_of(whole: Device, asked: Option<u32>, warnings: &mut Vec<String>) -> Result<Device, OpenClError> {
    let description = whole.description().clone();
    let all = description.compute_units;
    let is_made_of_cores = description.kind == DeviceKind::Cpu;
    let cores = free_cores(None).len();
    // A device that was limited to some of the cores leaves the others free already.
    let is_limited = (all as usize) < cores;
    let wanted = match asked {
        Some(units) => units,
        None if is_made_of_cores && !is_limited => (all / 2).max(1),
        None => all,
    };
    if is_made_of_cores && asked.is_none() {
        warnings.push(format!("{wanted} of the {cores} cores of {description} act as the GPU"));
    }
    // A device made of cores is always used through a sub-device, which has no images, so that its
    // layouts do not depend on the number of cores.
    if wanted == all && !is_made_of_cores { Ok(whole) } else { whole.sub_device(wanted) }
}

/// The cores that threads may be pinned to, fastest first, in numerical order where their clocks are
/// equal or unknown. A `device` made of cores occupies the first ones: `PoCL` pins its worker `i` to
/// core `i`, and a sub-device consists of the first workers.
pub(crate) fn free_cores(device: Option<&Description>) -> Vec<usize> {
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

/// The cores of `free` to use for `set`. If there are at least as many cores as in the profile, each
/// cluster's cores are those after the faster clusters'; otherwise the first cores. `None` where
/// there are too few.
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
        // On phones the small cores have the lowest numbers.
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
