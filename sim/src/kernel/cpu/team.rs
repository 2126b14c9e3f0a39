//! The clusters that work on a layer, each with its rate table.

use arrayvec::ArrayVec;

use super::{CoreSet, Library, MAX_THREADS, rate_table, unsupported};
use crate::device::{Cluster, Cpu, MAX_CLUSTERS, MixedClusters};
use crate::kernel::Result;
use crate::workload::{DataType, Layer};

/// The threads on one cluster.
pub(super) struct Member<'a, Rates> {
    /// Threads on this cluster.
    pub(super) threads: u32,
    /// The cluster.
    pub(super) cluster: &'a Cluster,
    /// The cluster's rates, for the layer's library and data type.
    pub(super) rates: &'a Rates,
}

/// All threads of a core set; never empty.
pub(super) struct Team<'a, Rates> {
    /// The clusters, fastest first.
    pub(super) members: ArrayVec<Member<'a, Rates>, MAX_CLUSTERS>,
    cpu: &'a Cpu,
    /// Fitted costs of mixing clusters, if any.
    mixed: Option<&'a MixedClusters>,
}

impl<'a, Rates> Team<'a, Rates> {
    /// The clusters of `cores`, each with the rate table of a library and number format that `pick`
    /// returns; `mixed` the fitted costs of mixing clusters.
    pub(super) fn new(
        layer: &Layer,
        (cpu, mixed): (&'a Cpu, Option<&'a MixedClusters>),
        cores: &CoreSet,
        (library, format): (Library, DataType),
        pick: impl Fn(&'a Cluster) -> Option<&'a Rates>,
    ) -> Result<Self> {
        let mut members = ArrayVec::new();
        for group in cores.groups() {
            let cluster = cpu.clusters.get(group.cluster).filter(|found| found.cores >= group.threads);
            let Some(cluster) = cluster else {
                return Err(unsupported(layer, format!("core set {cores} belongs to another CPU")));
            };
            let Some(rates) = pick(cluster) else {
                let (name, table) = (cluster.name.as_str(), rate_table(library, format).unwrap_or_default());
                return Err(unsupported(layer, format!("cluster {name} has no table `{table}`")));
            };
            members.push(Member { threads: group.threads, cluster, rates });
        }
        Ok(Self { members, cpu, mixed })
    }

    /// Fork-join cost of a parallel region in microseconds: the fitted one of mixed clusters
    /// if known, else the largest of `fork_us` over the clusters.
    pub(super) fn fork_us(&self, fork_us: impl Fn(&Member<'a, Rates>) -> f64) -> f64 {
        let mixed = self.mixed.filter(|_| self.members.len() > 1).map(|mixed| mixed.fork_us.value);
        mixed.unwrap_or_else(|| self.members.iter().map(fork_us).fold(0.0, f64::max))
    }

    /// The main thread's cluster.
    pub(super) fn main(&self) -> &Member<'a, Rates> {
        &self.members[0]
    }

    /// Rates of the main thread's core.
    pub(super) fn rates(&self) -> &'a Rates {
        self.main().rates
    }

    /// Number of threads.
    pub(super) fn threads(&self) -> u32 {
        self.members.iter().map(|member| member.threads).sum()
    }

    /// `value` of the cluster of each thread; 0 beyond the last thread.
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

    /// Factor on every time: gamma if clusters mix; 1 + kappa (`whole_cluster_slowdown`) if
    /// several threads occupy all cores of a single cluster; else 1.
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

/// Factor on parallel work due to contention between `threads` of one cluster:
/// `1 + beta * (threads - 1)`.
pub(super) fn contention(beta: f64, threads: u32) -> f64 {
    1.0 + beta * f64::from(threads - 1)
}
