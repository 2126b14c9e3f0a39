//! The rates of coexec's own kernels: their prior, and the fitted table.
//!
//! Unlike with TFLite's kernels, the time is not linear in the rates, as they decide which
//! thread is slowest; a fit evaluates the kernel model itself.

use std::sync::LazyLock;

use super::fit::{Known, Parameter, Prior, Scale};
use super::rates::made_of;
use crate::calibrate::least_squares::Stop;
use crate::csv_rows::bundled;
use coexec_sim::Basis;
use coexec_sim::device::cpu::{CONTENTION_FACTORS, CoexecRates, CoexecUnit, Cpu, InstructionSet};
use coexec_sim::kernel::cpu::coexec::Costs;

/// Relative error expected of a prediction: the same layer differs by 5 % between two
/// machines of one kind.
const EXPECTED_ERROR: f64 = 0.05;
/// Prior deviation of the logarithm that all rates share, and of each rate in addition.
const COMMON_DEVIATION: f64 = 0.7;
const SINGLE_DEVIATION: f64 = 0.7;
/// Expected cost of waking the first worker, and of each further one, in nanoseconds (fork-join on
/// a server's cores).
const FORK_NS: f64 = 1_500.0;
const FURTHER_THREAD_NS: f64 = 500.0;
/// Prior deviation of their logarithms.
const FORK_DEVIATION: f64 = 1.0;
/// Expected capacity for near weights, in bytes (a last-level cache), and the prior deviation
/// of its logarithm.
const NEAR_WEIGHT_BYTES: f64 = 32e6;
const NEAR_WEIGHT_DEVIATION: f64 = 1.0;
/// Expected contention and straggler factor, and their prior deviation.
const CONTENTION: f64 = 0.03;
const STRAGGLER: f64 = 0.1;
const FACTOR_DEVIATION: f64 = 0.2;
/// Range of the straggler factor in a fit: the slowest thread is no faster than the others.
const STRAGGLER_RANGE: [f64; 2] = [0.0, 10.0];
/// Stopping criteria: far below the difference of two runs of one layer.
const STOP: Stop = Stop { iterations: 100, relative_decrease: 1e-6 };
/// Keys of the rates, in the order of [`CoexecUnit::ALL`], with the cycles per unit that are expected on a
/// core that executes out of order, with two vector pipes (from the loops' instructions, and fits on
/// servers with AVX-512). Some are divided by the number of values in a vector.
static CYCLES: LazyLock<Vec<(String, f64, bool)>> =
    LazyLock::new(|| bundled(include_str!("coexec_cycles.csv")));
/// Factor on the cycles of a core that executes in order: over TFLite's rates, a Cortex-A55 takes 2.8 times a Cortex-A76's
/// and 4.1 times an Exynos M4's in the geometric mean (the tables `ruy_f32` of `pixel4` and `galaxy-s10`).
const IN_ORDER: f64 = 3.0;

/// The prior of the rates of `cpu.clusters[index]`.
pub(super) fn prior(cpu: &Cpu, index: usize) -> Prior {
    let cluster = &cpu.clusters[index];
    let ghz = cluster.clock_mhz.value / 1e3;
    let lanes = cluster.instruction_set.unwrap_or(InstructionSet::Neon).lanes() as f64;
    let slower = if cluster.core.is_in_order() { IN_ORDER } else { 1.0 };
    let logarithm = Scale::Logarithm;
    let rate = |(key, cycles, is_per_lane): &'static (String, f64, bool)| {
        let cycles = if *is_per_lane { cycles / lanes } else { *cycles };
        let alone = Parameter::unshared(key, logarithm, (cycles * slower / ghz).ln(), SINGLE_DEVIATION);
        Parameter { shares: vec![0], ..alone }
    };
    let (nanos, near) = (Scale::Nanoseconds, NEAR_WEIGHT_BYTES.ln());
    let (contention, straggler) = (Scale::Factor(CONTENTION_FACTORS), Scale::Factor(STRAGGLER_RANGE));
    let others = [
        Parameter::unshared("near_weight_bytes", logarithm, near, NEAR_WEIGHT_DEVIATION),
        Parameter::unshared("fork_us", nanos, FORK_NS.ln(), FORK_DEVIATION),
        Parameter::unshared("further_thread_us", nanos, FURTHER_THREAD_NS.ln(), FORK_DEVIATION),
        Parameter::unshared("contention_factor", contention, CONTENTION, FACTOR_DEVIATION),
        Parameter::unshared("straggler_factor", straggler, STRAGGLER, FACTOR_DEVIATION),
    ];
    Prior {
        parameters: CYCLES.iter().map(rate).chain(others).collect(),
        shared: vec![COMMON_DEVIATION],
        expected_error: EXPECTED_ERROR,
        errs_by_network: false,
        stop: STOP,
    }
}

/// The kernel model's costs from values in the order of the prior.
pub(super) fn costs(values: &[f64]) -> Costs {
    let (nanos, others) = values.split_at(CoexecUnit::ALL.len());
    Costs {
        nanos: std::array::from_fn(|unit| nanos[unit]),
        near_weight_bytes: others[0],
        first_fork_ns: others[1],
        further_thread_ns: others[2],
        contention: others[3],
        straggler: others[4],
    }
}

/// The table of the fitted values, with that source.
pub(super) fn table(known: &[Known], source: &str) -> CoexecRates {
    let values = known.iter().map(|known| (known.key, known.quantity()));
    CoexecRates { basis: Basis::Measured, ..made_of(values, source) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_expected_cycles() {
        let keys: Vec<&str> = CYCLES.iter().map(|(key, ..)| key.as_str()).collect();
        assert_eq!(keys, CoexecUnit::ALL.map(CoexecUnit::key));
    }
}
