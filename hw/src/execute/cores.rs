//! Which of this machine's cores stand for a core set of the profile.

use std::path::Path;

use coexec_sim::{CoreSet, Cpu};

use crate::opencl::{Description, DeviceKind};
use crate::system::highest_clock;

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
pub(super) fn of_set(set: &CoreSet, cpu: &Cpu, free: &[usize]) -> Option<Vec<usize>> {
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
        of_set(&CoreSet::parse(set, &cpu).unwrap(), &cpu, free)
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
