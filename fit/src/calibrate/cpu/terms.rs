//! A network's time on the cores of one cluster, as a linear function of the rates.
//!
//! The equations stay in the kernel model alone: it is evaluated with one rate at a
//! time set to a nanosecond and all others to zero, with and without contention.
//! Invariant: for any rates, the terms give the kernel model's time, up to its rounding
//! to picoseconds.

use super::rates::{COUNT, RATES, table_mut, with};
use coexec_sim::kernel::cpu::{CoreSet, Group, Library, execute};
use coexec_sim::units::PICOS_PER_NANO;
use coexec_sim::{Cpu, DataType, Layer, Unsupported};

/// A nanosecond, in microseconds.
const NANO_IN_MICROS: f64 = 1e-3;

/// Units of work by rate, and the other terms of the time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Terms {
    /// Units of each rate that contention does not affect.
    alone: [f64; COUNT],
    /// Units of each rate whose time grows by the contention factor per further thread.
    contended: [f64; COUNT],
    /// Parallel regions with more than one thread.
    forks: f64,
    /// Threads besides the main one.
    further_threads: f64,
    /// Multiple of the whole-cluster slowdown: 1 where all cores of the cluster work, else 0.
    whole_cluster: f64,
}

impl Terms {
    /// The terms of `layers` on `cores`, which are all of one cluster.
    ///
    /// # Errors
    /// The kernel model has no kernel for a layer.
    pub(super) fn of(
        layers: &[Layer],
        cpu: &Cpu,
        cores: &CoreSet,
        group: Group,
    ) -> Result<Self, Unsupported> {
        let data_type = layers.first().map_or(DataType::F32, |layer| layer.data_type);
        let nanos = |values: &[(&str, f64)]| -> Result<f64, Unsupported> {
            let mut probe = cpu.clone();
            *table_mut(&mut probe.clusters[group.cluster], data_type) = Some(with(values));
            let mut picos = 0.0;
            for layer in layers {
                picos += execute(layer, &probe, cores, Library::Ruy)?.phases.duration().0 as f64;
            }
            Ok(picos / PICOS_PER_NANO)
        };
        let further_threads = f64::from(group.threads - 1);
        let (mut alone, mut contended) = ([0.0; COUNT], [0.0; COUNT]);
        for ((alone, contended), rate) in alone.iter_mut().zip(&mut contended).zip(&*RATES) {
            *alone = nanos(&[(rate.key.as_str(), 1.0)])?;
            if *alone > 0.0 && further_threads > 0.0 {
                let stretched = nanos(&[(rate.key.as_str(), 1.0), ("contention_factor", 1.0)])?;
                *contended = (stretched - *alone) / further_threads;
                *alone -= *contended;
            }
        }
        let dispatch = ("operator_ns", 1.0);
        let slowed = nanos(&[dispatch, ("whole_cluster_slowdown_factor", 1.0)])?;
        let plain = nanos(&[dispatch])?;
        Ok(Self {
            alone,
            contended,
            forks: nanos(&[("fork_us", NANO_IN_MICROS)])?,
            further_threads,
            whole_cluster: if plain > 0.0 { slowed / plain - 1.0 } else { 0.0 },
        })
    }

    /// Whether the time depends on a rate.
    pub(super) fn uses(&self, rate: usize) -> bool {
        self.alone[rate] > 0.0 || self.contended[rate] > 0.0
    }

    /// The time in nanoseconds; `values` are the rates, then fork cost, contention factor and
    /// whole-cluster slowdown.
    pub(super) fn nanos(&self, values: &[f64]) -> f64 {
        let (rates, others) = values.split_at(COUNT);
        let (fork_ns, contention, slowdown) = (others[0], others[1], others[2]);
        let stretch = 1.0 + contention * self.further_threads;
        let mut nanos = self.forks * fork_ns;
        for ((alone, contended), rate) in self.alone.iter().zip(&self.contended).zip(rates) {
            nanos += (alone + contended * stretch) * rate;
        }
        nanos * (1.0 + slowdown * self.whole_cluster)
    }
}
