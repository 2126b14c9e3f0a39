//! The clusters at work on a layer, each with its rate table.

use arrayvec::ArrayVec;

use super::{CoreSet, MAX_THREADS, unsupported};
use crate::device::{Cluster, Cpu, MAX_CLUSTERS, MixedClusters};
use crate::kernel::Result;
use crate::workload::Layer;

/// The threads of one cluster.
pub(super) struct Member<'a, Rates> {
    /// Threads at work on this cluster.
    pub(super) threads: u32,
    /// The cluster.
    pub(super) cluster: &'a Cluster,
    /// Its rates, for the layer's library and data type.
    pub(super) rates: &'a Rates,
}

/// All threads, fastest cluster first; never empty.
pub(super) struct Team<'a, Rates> {
    /// The clusters, fastest first.
    pub(super) members: ArrayVec<Member<'a, Rates>, MAX_CLUSTERS>,
    cpu: &'a Cpu,
    /// What was fitted for mixed clusters.
    mixed: Option<&'a MixedClusters>,
}

impl<'a, Rates> Team<'a, Rates> {
    /// The clusters of `cores`, each with the table that `pick` takes from it; `table` is
    /// the table's key, `mixed` what was fitted for mixed clusters.
    pub(super) fn new(
        layer: &Layer,
        (cpu, mixed): (&'a Cpu, Option<&'a MixedClusters>),
        cores: &CoreSet,
        table: &'static str,
        pick: impl Fn(&'a Cluster) -> Option<&'a Rates>,
    ) -> Result<Self> {
        let mut members = ArrayVec::new();
        for group in cores.groups() {
            let cluster = cpu.clusters.get(group.cluster).filter(|found| found.cores >= group.threads);
            let Some(cluster) = cluster else {
                return Err(unsupported(layer, format!("core set {cores} belongs to another CPU")));
            };
            let Some(rates) = pick(cluster) else {
                let name = cluster.name.as_str();
                return Err(unsupported(layer, format!("cluster {name} has no table `{table}`")));
            };
            members.push(Member { threads: group.threads, cluster, rates });
        }
        Ok(Self { members, cpu, mixed })
    }

    /// Cost of a parallel region in microseconds: of mixed clusters, where that is
    /// known; else the largest of what `fork_us` gives for the clusters.
    pub(super) fn fork_us(&self, fork_us: impl Fn(&Member<'a, Rates>) -> f64) -> f64 {
        let mixed = self.mixed.filter(|_| self.members.len() > 1).map(|mixed| mixed.fork_us.value);
        mixed.unwrap_or_else(|| self.members.iter().map(fork_us).fold(0.0, f64::max))
    }

    /// The main thread's cluster.
    pub(super) fn main(&self) -> &Member<'a, Rates> {
        &self.members[0]
    }

    /// Number of threads.
    pub(super) fn threads(&self) -> u32 {
        self.members.iter().map(|member| member.threads).sum()
    }

    /// What `value` gives for the cluster of each thread.
    pub(super) fn per_thread(&self, value: impl Fn(&Member<'a, Rates>) -> f64) -> [f64; MAX_THREADS] {
        let mut values = [0.0; MAX_THREADS];
        let mut slots = values.iter_mut();
        for member in &self.members {
            let each = value(member);
            for slot in slots.by_ref().take(member.threads as usize) {
                *slot = each;
            }
        }
        values
    }

    /// What every time is multiplied by: gamma where clusters mix, 1 + kappa
    /// (`whole_cluster_slowdown`) where several threads are all cores of the
    /// only cluster at work.
    pub(super) fn slowdown(&self, whole_cluster_slowdown: f64) -> f64 {
        let main = self.main();
        if self.members.len() > 1 {
            self.mixed.map_or(&self.cpu.mixed_cluster_factor, |mixed| &mixed.slowdown_factor).value
        } else if main.threads > 1 && main.threads == main.cluster.cores {
            1.0 + whole_cluster_slowdown
        } else {
            1.0
        }
    }
}

/// How many times as long parallel work takes because `threads` of one cluster
/// work at once: `1 + beta * (threads - 1)`.
pub(super) fn contention(beta: f64, threads: u32) -> f64 {
    1.0 + beta * f64::from(threads - 1)
}
