//! Core sets: the cores that work on an operator together.

use std::fmt;

use thiserror::Error;

use super::MAX_THREADS;
use crate::device::{ClusterName, Cpu, MAX_CLUSTERS};

/// A core set that is malformed or that the CPU does not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("found core set {found}, expected {expected}")]
pub struct CoreSetError {
    /// The requested core set.
    pub found: String,
    /// What is accepted.
    pub expected: String,
}

/// The threads of a core set that run on one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Index of the cluster in the CPU's list.
    pub cluster: usize,
    /// Number of threads, one per core.
    pub threads: u32,
    name: ClusterName,
}

/// Up to [`MAX_THREADS`] threads, one per core, fastest cluster first; thread 0 is the
/// main thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CoreSet {
    /// Threads on each cluster of the CPU.
    threads: [u8; MAX_CLUSTERS],
    /// Names of the clusters with threads; `None` for the others.
    names: [Option<ClusterName>; MAX_CLUSTERS],
}

impl CoreSet {
    /// The `threads` fastest cores of `cpu`; `None` if it has fewer, or if `threads` is 0 or
    /// above [`MAX_THREADS`].
    pub fn fastest(cpu: &Cpu, threads: u32) -> Option<Self> {
        Self::fastest_from(cpu, 0, threads)
    }

    /// The `threads` fastest cores of the clusters from the one with index `first` on; `None` if they have
    /// fewer, or if `threads` is 0 or above [`MAX_THREADS`].
    pub fn fastest_from(cpu: &Cpu, first: usize, threads: u32) -> Option<Self> {
        let mut wanted = [0; MAX_CLUSTERS];
        let mut left = threads;
        for (threads, cluster) in wanted.iter_mut().zip(&cpu.clusters).skip(first) {
            *threads = left.min(cluster.cores);
            left -= *threads;
        }
        (left == 0).then(|| Self::of(cpu, wanted)).flatten()
    }

    /// All cores of `cpu`, or the [`MAX_THREADS`] fastest if there are more.
    pub fn all(cpu: &Cpu) -> Option<Self> {
        Self::fastest(cpu, cpu.cores().min(MAX_THREADS as u32))
    }

    /// One core of the slowest (last) cluster of `cpu`.
    pub fn slowest(cpu: &Cpu) -> Option<Self> {
        let mut wanted = [0; MAX_CLUSTERS];
        *wanted.get_mut(cpu.clusters.len().checked_sub(1)?)? = 1;
        Self::of(cpu, wanted)
    }

    /// Parses a core set such as `1large2med`: a count and a cluster's name, repeated.
    ///
    /// # Errors
    /// If the text is malformed, names a cluster that `cpu` does not have or names one
    /// twice, or asks for more cores than the cluster has.
    pub fn parse(text: &str, cpu: &Cpu) -> Result<Self, CoreSetError> {
        let fail = |expected: String| CoreSetError { found: format!("{text:?}"), expected };
        let shape = || fail("counts and cluster names, such as `1large2med`".to_owned());
        let mut wanted = [0; MAX_CLUSTERS];
        let mut rest = text;
        while !rest.is_empty() {
            let name_at = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(shape)?;
            let (count, tail) = rest.split_at(name_at);
            let name_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
            let (name, tail) = tail.split_at(name_end);
            let count: u32 = count.parse().map_err(|_| shape())?;
            let index = cpu.clusters.iter().position(|cluster| cluster.name.as_str() == name);
            let Some((index, slot)) = index.and_then(|i| wanted.get_mut(i).map(|slot| (i, slot))) else {
                let names: Vec<&str> = cpu.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
                return Err(fail(format!("clusters out of {}", names.join(", "))));
            };
            if *slot != 0 {
                return Err(fail(format!("cluster {name} once")));
            }
            let cores = cpu.clusters[index].cores;
            if count == 0 || count > cores {
                let counts = if cores == 1 { "1 core".to_owned() } else { format!("1 to {cores} cores") };
                return Err(fail(format!("{counts} of cluster {name}")));
            }
            *slot = count;
            rest = tail;
        }
        Self::of(cpu, wanted).ok_or_else(|| fail(format!("1 to {MAX_THREADS} threads")))
    }

    fn of(cpu: &Cpu, wanted: [u32; MAX_CLUSTERS]) -> Option<Self> {
        let total: u64 = wanted.iter().map(|&threads| u64::from(threads)).sum();
        if !(1..=MAX_THREADS as u64).contains(&total) {
            return None;
        }
        let mut names = [None; MAX_CLUSTERS];
        for ((name, &threads), cluster) in names.iter_mut().zip(&wanted).zip(&cpu.clusters) {
            *name = (threads > 0).then_some(cluster.name);
        }
        Some(Self { threads: wanted.map(|threads| threads as u8), names })
    }

    /// Number of threads.
    pub fn threads(&self) -> u32 {
        self.groups().map(|group| group.threads).sum()
    }

    /// The threads by cluster, fastest first.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        let clusters = self.names.into_iter().zip(self.threads).enumerate();
        clusters.filter_map(|(cluster, (name, threads))| {
            Some(Group { cluster, threads: u32::from(threads), name: name? })
        })
    }

    /// Index of the cluster on which `thread` runs; `None` beyond the last thread.
    pub fn cluster(&self, thread: u32) -> Option<usize> {
        let mut first_of_next = 0;
        self.groups().find_map(|group| {
            first_of_next += group.threads;
            (thread < first_of_next).then_some(group.cluster)
        })
    }
}

impl fmt::Display for CoreSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for group in self.groups() {
            text += &group.threads.to_string();
            text += group.name.as_str();
        }
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pixel4;
    use super::*;

    #[test]
    fn the_fastest_cores_come_cluster_by_cluster() {
        let cpu = pixel4();
        let names = |threads| CoreSet::fastest(&cpu, threads).map(|cores| cores.to_string());
        assert_eq!(names(1).as_deref(), Some("1large"));
        assert_eq!(names(3).as_deref(), Some("1large2med"));
        assert_eq!(names(8).as_deref(), Some("1large3med4small"));
        assert_eq!((names(0), names(9)), (None, None));
    }

    #[test]
    fn a_core_set_prints_as_it_parses_with_the_fastest_cluster_first() {
        let cpu = pixel4();
        let cores = CoreSet::parse("2small1large", &cpu).unwrap();
        assert_eq!(cores.to_string(), "1large2small");
        assert_eq!(cores.threads(), 3);
        assert_eq!([0, 1, 2, 3].map(|thread| cores.cluster(thread)), [Some(0), Some(2), Some(2), None]);
    }

    #[test]
    fn a_core_set_that_the_cpu_lacks_is_refused_with_the_available_ones() {
        let cpu = pixel4();
        let expected = |text| CoreSet::parse(text, &cpu).unwrap_err().expected;
        assert_eq!(expected("2large"), "1 core of cluster large");
        assert_eq!(expected("1big"), "clusters out of large, med, small");
        assert_eq!(expected("1med1med"), "cluster med once");
        assert_eq!(expected(""), "1 to 8 threads");
        for garbled in ["large", "4", "99999999999small"] {
            assert!(expected(garbled).starts_with("counts and cluster names"), "{garbled}");
        }
    }
}
