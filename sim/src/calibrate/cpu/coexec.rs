//! The fit of one table of coexec's own kernels: the rates of one core type, over all its
//! core counts at once.
//!
//! Every parameter but two is fitted as its logarithm, with what is expected of it
//! before any run as one more residual. Unlike the rates of TFLite's kernels the time is
//! not a sum of terms, as the slowest thread depends on rates, so the equation itself is
//! evaluated.

use nalgebra::DVector;

use super::fit::{Known, QUANTILE_95};
use crate::calibrate::least_squares::{Solution, Stop, minimise, pseudo_huber};
use crate::device::cpu::{Cluster, CoexecRates, CoexecUnit, Core, Cpu, InstructionSet};
use crate::device::quantity::Quantity;
use crate::kernel::cpu::CoreSet;
use crate::kernel::cpu::coexec::{Caches, Costs, Work};
use crate::statistics::{VALUE_DIGITS, rounded};
use crate::workload::Layer;

/// Relative error expected of a prediction, and where the loss turns from squares to
/// absolute values: the same layer on two machines of one kind differs by 5 %.
const EXPECTED_ERROR: f64 = 0.05;
/// Deviation of the logarithm that all rates have in common, and of each on top.
const COMMON_DEVIATION: f64 = 0.7;
const SINGLE_DEVIATION: f64 = 0.7;
/// Expected cost of waking a worker, and what each further one adds, in nanoseconds (a
/// fork and join of a server's cores).
const FORK_NS: f64 = 1_500.0;
const FURTHER_THREAD_NS: f64 = 500.0;
/// Deviation of their logarithms.
const FORK_DEVIATION: f64 = 1.0;
/// Weights that are expected to be near, in bytes (a last-level cache), and the deviation
/// of the logarithm.
const NEAR_WEIGHT_BYTES: f64 = 32e6;
const NEAR_WEIGHT_DEVIATION: f64 = 1.0;
/// Expected contention and spread between threads, and their deviations.
const CONTENTION: f64 = 0.03;
const STRAGGLER: f64 = 0.1;
const FACTOR_DEVIATION: f64 = 0.2;
/// What a fit may find for the two: within the profile's ranges, and the slowest thread not
/// faster than the others.
const CONTENTION_RANGE: [f64; 2] = [-0.1, 10.0];
const STRAGGLER_RANGE: [f64; 2] = [0.0, 10.0];
/// A posterior deviation above this part of the prior one says that the runs tell little.
const UNINFORMED: f64 = 0.5;
/// When a fit has converged: far below what two runs of one layer differ by.
const STOP: Stop = Stop { iterations: 100, relative_decrease: 1e-6 };

/// Indices in the parameter vector, after the rates.
const RATES: usize = CoexecUnit::ALL.len();
const NEAR: usize = RATES;
const FORK: usize = RATES + 1;
const FURTHER: usize = RATES + 2;
const CONTENTION_AT: usize = RATES + 3;
const STRAGGLER_AT: usize = RATES + 4;
const PARAMETERS: usize = RATES + 5;
/// What the logarithms of all rates have in common; not part of a table.
const COMMON: usize = PARAMETERS;
const UNKNOWNS: usize = PARAMETERS + 1;

/// One run on cores of the type.
#[derive(Clone, Debug)]
pub(super) struct Observation {
    /// Index of the network.
    pub(super) network: usize,
    works: Vec<Work>,
    /// Its measured time, in nanoseconds.
    measured_ns: f64,
}

impl Observation {
    /// A run of `layers` on `cores`, which are all of `cluster`.
    pub(super) fn new(
        network: usize,
        layers: &[Layer],
        cluster: &Cluster,
        cores: &CoreSet,
        measured_ns: f64,
    ) -> Self {
        let (caches, threads) = (Caches::of(cluster), cores.threads() as usize);
        let works = layers.iter().flat_map(|layer| Work::of_layer(layer, &caches, threads)).collect();
        Self { network, works, measured_ns }
    }

    fn nanos(&self, costs: &Costs) -> f64 {
        self.works.iter().map(|work| costs.time(work)).sum()
    }
}

/// What is expected of a table before any run: parameters and deviations.
#[derive(Clone, Debug)]
pub(super) struct Prior {
    expected: DVector<f64>,
}

impl Prior {
    /// Of cores like those of `cpu.clusters[index]`.
    pub(super) fn of(cpu: &Cpu, index: usize) -> Self {
        let cluster = &cpu.clusters[index];
        let ghz = cluster.clock_mhz.value / 1e3;
        let lanes = cluster.instruction_set.unwrap_or(InstructionSet::Neon).lanes() as f64;
        let in_order =
            matches!(cluster.core, Core::CortexA53 | Core::CortexA55 | Core::CortexA510 | Core::CortexA520);
        let mut expected = DVector::zeros(UNKNOWNS);
        for (slot, unit) in expected.iter_mut().zip(CoexecUnit::ALL) {
            let slower = if in_order { IN_ORDER } else { 1.0 };
            *slot = (cycles(unit, lanes) * slower / ghz).ln();
        }
        expected[NEAR] = NEAR_WEIGHT_BYTES.ln();
        expected[FORK] = FORK_NS.ln();
        expected[FURTHER] = FURTHER_THREAD_NS.ln();
        expected[CONTENTION_AT] = CONTENTION;
        expected[STRAGGLER_AT] = STRAGGLER;
        Self { expected }
    }
}

/// How many times the cycles a core needs that executes in order.
const IN_ORDER: f64 = 3.0;

/// Cycles expected of a unit on a core that executes out of order, with two pipes of
/// `lanes` numbers (what the loops are made of, and fits on servers with AVX-512).
fn cycles(unit: CoexecUnit, lanes: f64) -> f64 {
    match unit {
        CoexecUnit::MultiplyAccumulate => 0.5 / lanes,
        CoexecUnit::TileCall | CoexecUnit::Pixel => 20.0,
        CoexecUnit::ContinuedCall => 100.0,
        CoexecUnit::WindowPointer => 6.0,
        CoexecUnit::EdgePixel => 12.0,
        CoexecUnit::CopiedInput => 0.3,
        CoexecUnit::ProductOutput => 0.03,
        CoexecUnit::Block | CoexecUnit::Operator => 150.0,
        CoexecUnit::VectorWeight | CoexecUnit::Element => 1.0 / lanes,
        CoexecUnit::FarWeightByte => 0.15,
        CoexecUnit::WindowPixel => 45.0,
        CoexecUnit::DepthwiseChunk => 5.0,
        CoexecUnit::DepthwiseVector => 2.5,
        CoexecUnit::DepthwiseLane => 2.3,
        CoexecUnit::PoolChunk | CoexecUnit::MeanChunk => 4.0,
        CoexecUnit::PoolVector | CoexecUnit::MeanVector => 1.3,
        CoexecUnit::PoolLane | CoexecUnit::MeanLane => 1.6,
        CoexecUnit::ActivationElement => 2.0 / lanes,
        CoexecUnit::ExponentialElement => 20.0 / lanes,
        CoexecUnit::CopiedElement => 0.6 / lanes,
        CoexecUnit::StreamedByte | CoexecUnit::DepthwiseBeyondL1Byte => 0.015,
        CoexecUnit::BeyondL2Byte => 0.06,
    }
}

/// Standard deviation of an unknown before any run: of a rate, given what all have in
/// common.
fn deviation(index: usize) -> f64 {
    match index {
        NEAR => NEAR_WEIGHT_DEVIATION,
        FORK | FURTHER => FORK_DEVIATION,
        CONTENTION_AT | STRAGGLER_AT => FACTOR_DEVIATION,
        COMMON => COMMON_DEVIATION,
        _ => SINGLE_DEVIATION,
    }
}

fn costs(vector: &DVector<f64>) -> Costs {
    let within = |index: usize, [low, high]: [f64; 2]| vector[index].clamp(low, high);
    Costs {
        nanos: std::array::from_fn(|index| vector[index].exp()),
        near_weight_bytes: vector[NEAR].exp(),
        first_fork_ns: vector[FORK].exp(),
        further_thread_ns: vector[FURTHER].exp(),
        contention: within(CONTENTION_AT, CONTENTION_RANGE),
        straggler: within(STRAGGLER_AT, STRAGGLER_RANGE),
    }
}

/// A fitted table.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    solution: Solution,
    /// What the variances are scaled by: the mean square of the bent residuals, in
    /// squares of what is expected, where that is above 1.
    scale: f64,
}

/// Fits a table to `observations`.
pub(super) fn fit(observations: &[&Observation], prior: &Prior) -> Fit {
    let (start, runs) = (&prior.expected, observations.len());
    let solution = minimise(start, runs + UNKNOWNS, STOP, |vector, residuals| {
        let costs = costs(vector);
        for (residual, run) in residuals.iter_mut().zip(observations) {
            let error = (run.nanos(&costs) / run.measured_ns).ln();
            *residual = pseudo_huber(error / EXPECTED_ERROR, 1.0);
        }
        for (index, residual) in residuals[runs..].iter_mut().enumerate() {
            let shared = if index < RATES { vector[COMMON] } else { 0.0 };
            *residual = pseudo_huber((vector[index] - start[index] - shared) / deviation(index), 1.0);
        }
    });
    let scale = (2.0 * solution.cost / runs.max(1) as f64).max(1.0);
    Fit { solution, scale }
}

/// Key of a parameter in the profile.
fn key(index: usize) -> &'static str {
    match index {
        NEAR => "near_weight_bytes",
        FORK => "fork_us",
        FURTHER => "further_thread_us",
        CONTENTION_AT => "contention_factor",
        STRAGGLER_AT => "straggler_factor",
        rate => CoexecUnit::ALL[rate].key(),
    }
}

impl Fit {
    /// What is known of each parameter of the table.
    pub(super) fn told(&self) -> Vec<Known> {
        let variance = self.solution.inverse_normal.as_ref();
        let vector = &self.solution.parameters;
        let known = |index: usize| {
            let now = variance.map(|v| (v[(index, index)] * self.scale).sqrt());
            let value_at = |away: f64| match index {
                CONTENTION_AT => (vector[index] + away).clamp(CONTENTION_RANGE[0], CONTENTION_RANGE[1]),
                STRAGGLER_AT => (vector[index] + away).clamp(STRAGGLER_RANGE[0], STRAGGLER_RANGE[1]),
                FORK | FURTHER => (vector[index] + away).exp() * 1e-3,
                _ => (vector[index] + away).exp(),
            };
            let value_at = |away: f64| rounded(value_at(away), VALUE_DIGITS);
            let correlation = |other: usize| {
                let v = variance?;
                Some((key(other), v[(index, other)] / (v[(index, index)] * v[(other, other)]).sqrt()))
            };
            let others = (0..PARAMETERS).filter(|&other| other != index);
            Known {
                key: key(index),
                value: value_at(0.0),
                ci95: now.map(|d| [-d, d].map(|away| value_at(away * QUANTILE_95))),
                informed: now.is_some_and(|now| now < UNINFORMED * deviation(index)),
                trades_with: others.filter_map(correlation).max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())),
            }
        };
        (0..PARAMETERS).map(known).collect()
    }

    /// The table, with that source.
    pub(super) fn table(&self, source: &str) -> CoexecRates {
        let known = self.told();
        let quantity = |index: usize| Quantity {
            value: known[index].value,
            source: Some(if known[index].informed { "fit" } else { "fit, mostly its prior" }.to_owned()),
            ci95: known[index].ci95,
        };
        let mut table = CoexecRates::free(source);
        for (index, rate) in table.rates_mut().into_iter().enumerate() {
            *rate = quantity(index);
        }
        table.near_weight_bytes = quantity(NEAR);
        table.fork_us = quantity(FORK);
        table.further_thread_us = quantity(FURTHER);
        table.contention_factor = quantity(CONTENTION_AT);
        table.straggler_factor = quantity(STRAGGLER_AT);
        table
    }
}
