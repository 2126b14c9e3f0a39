//! The rates of a table as a list, and what is expected of them before any run.

use crate::device::cpu::{Cluster, Core, Cpu, RuyRates};
use crate::device::quantity::Quantity;
use crate::workload::DataType;

/// Number of rates in a table, fork cost and contention apart.
pub(super) const COUNT: usize = 16;

/// One rate of a table.
pub(super) struct Rate {
    /// Its key in the profile.
    pub(super) key: &'static str,
    /// Its place in a table.
    pub(super) of: fn(&mut RuyRates) -> &mut Quantity,
    /// Cycles per unit on a core that executes out of order and on one that
    /// executes in order (CPU model: generic priors, 32-bit floating point).
    cycles: [f64; 2],
}

/// The rates. Their order is that of the fit's parameters.
#[rustfmt::skip]
pub(super) const RATES: [Rate; COUNT] = [
    Rate { key: "multiply_accumulate_ns", of: |rates| &mut rates.multiply_accumulate_ns, cycles: [0.14, 0.4] },
    Rate { key: "tile_ns", of: |rates| &mut rates.tile_ns, cycles: [40.0, 350.0] },
    Rate { key: "pack_weight_ns", of: |rates| &mut rates.pack_weight_ns, cycles: [1.5, 8.0] },
    Rate { key: "pack_pixel_ns", of: |rates| &mut rates.pack_pixel_ns, cycles: [0.7, 3.0] },
    Rate { key: "gemv_weight_ns", of: |rates| &mut rates.gemv_weight_ns, cycles: [1.0, 6.0] },
    Rate { key: "depthwise_tap_ns", of: |rates| &mut rates.depthwise_tap_ns, cycles: [0.6, 3.0] },
    Rate { key: "depthwise_output_ns", of: |rates| &mut rates.depthwise_output_ns, cycles: [0.2, 1.0] },
    Rate { key: "im2col_row_ns", of: |rates| &mut rates.im2col_row_ns, cycles: [25.0, 60.0] },
    Rate { key: "im2col_element_ns", of: |rates| &mut rates.im2col_element_ns, cycles: [0.3, 0.5] },
    Rate { key: "reference_multiply_accumulate_ns", of: |rates| &mut rates.reference_multiply_accumulate_ns, cycles: [2.0, 8.0] },
    Rate { key: "reference_tap_ns", of: |rates| &mut rates.reference_tap_ns, cycles: [5.0, 35.0] },
    Rate { key: "element_wise_ns", of: |rates| &mut rates.element_wise_ns, cycles: [1.2, 3.0] },
    Rate { key: "pool_tap_ns", of: |rates| &mut rates.pool_tap_ns, cycles: [1.2, 2.5] },
    Rate { key: "copy_element_ns", of: |rates| &mut rates.copy_element_ns, cycles: [1.0, 4.0] },
    Rate { key: "beyond_cache_element_ns", of: |rates| &mut rates.beyond_cache_element_ns, cycles: [0.5, 0.3] },
    Rate { key: "operator_ns", of: |rates| &mut rates.operator_ns, cycles: [1500.0, 4000.0] },
];

/// A table in which everything is free.
pub(super) fn free() -> RuyRates {
    let zero = || Quantity::plain(0.0);
    RuyRates {
        source: String::new(),
        multiply_accumulate_ns: zero(),
        tile_ns: zero(),
        pack_weight_ns: zero(),
        pack_pixel_ns: zero(),
        gemv_weight_ns: zero(),
        depthwise_tap_ns: zero(),
        depthwise_output_ns: zero(),
        im2col_row_ns: zero(),
        im2col_element_ns: zero(),
        reference_multiply_accumulate_ns: zero(),
        reference_tap_ns: zero(),
        element_wise_ns: zero(),
        pool_tap_ns: zero(),
        copy_element_ns: zero(),
        beyond_cache_element_ns: zero(),
        operator_ns: zero(),
        fork_us: zero(),
        contention_factor: zero(),
        whole_cluster_slowdown_factor: zero(),
    }
}

/// The cluster's table for a number format.
pub(super) fn table_mut(cluster: &mut Cluster, data_type: DataType) -> &mut Option<RuyRates> {
    match data_type {
        DataType::I8 => &mut cluster.ruy_i8,
        _ => &mut cluster.ruy_f32,
    }
}

/// The cluster's table for a number format.
fn table(cluster: &Cluster, data_type: DataType) -> Option<&RuyRates> {
    match data_type {
        DataType::I8 => cluster.ruy_i8.as_ref(),
        _ => cluster.ruy_f32.as_ref(),
    }
}

/// Deviation of the logarithm of a rate from what cores of its class need
/// (CPU model, first stage of the fit).
const CLASS_DEVIATION: f64 = 1.0;
/// The same where other devices' fitted rates say what they need (second stage).
const PROFILES_DEVIATION: f64 = 0.6;
/// Fork cost expected before any run, in microseconds (CPU model).
const FORK_US: f64 = 8.0;

/// What is expected of a table before any run.
#[derive(Clone, Debug)]
pub(super) struct Prior {
    /// Logarithms of the rates in nanoseconds.
    pub(super) ln_rates: [f64; COUNT],
    /// Their standard deviation.
    pub(super) deviation: f64,
    /// Logarithm of the fork cost in nanoseconds.
    pub(super) ln_fork: f64,
}

impl Prior {
    /// What cores of the class of `cpu.clusters[index]` need, in cycles, at its
    /// clock: medians over the fitted tables of `others` where they have cores of
    /// the class, generic figures otherwise.
    pub(super) fn of(cpu: &Cpu, index: usize, data_type: DataType, others: &[Cpu]) -> Self {
        let cluster = &cpu.clusters[index];
        let ghz = cluster.clock_mhz.value / 1e3;
        let in_order = is_in_order(cpu, index);
        let mut alike: Vec<(&Cluster, &RuyRates)> = Vec::new();
        for other in others {
            for (index, cluster) in other.clusters.iter().enumerate() {
                if is_in_order(other, index) == in_order {
                    alike.extend(table(cluster, data_type).map(|rates| (cluster, rates)));
                }
            }
        }
        let same_product = |other: &Cluster| other.dot_product == cluster.dot_product;
        if data_type == DataType::I8 && alike.iter().any(|(other, _)| same_product(other)) {
            alike.retain(|(other, _)| same_product(other));
        }
        let generic = RATES.map(|rate| (rate.cycles[usize::from(in_order)] / ghz).ln());
        let ln_fork = (FORK_US * 1e3).ln();
        if alike.is_empty() {
            return Self { ln_rates: generic, deviation: CLASS_DEVIATION, ln_fork };
        }
        let median = |value: &dyn Fn(&Cluster, &mut RuyRates) -> f64, none: f64| {
            let logarithms = alike.iter().map(|(cluster, rates)| value(cluster, &mut (*rates).clone()).ln());
            super::median(logarithms.filter(|value| value.is_finite()).collect()).unwrap_or(none)
        };
        let mut ln_rates = generic;
        for (ln_rate, rate) in ln_rates.iter_mut().zip(RATES) {
            let nanos = |other: &Cluster, rates: &mut RuyRates| {
                (rate.of)(rates).value * other.clock_mhz.value / cluster.clock_mhz.value
            };
            *ln_rate = median(&nanos, *ln_rate);
        }
        let ln_fork = median(&|_, rates| rates.fork_us.value * 1e3, ln_fork);
        Self { ln_rates, deviation: PROFILES_DEVIATION, ln_fork }
    }
}

/// Whether the cores of a cluster execute in order, or as slowly: Arm's little
/// cores, and all but the fastest of cores that have no name to tell by.
fn is_in_order(cpu: &Cpu, index: usize) -> bool {
    match cpu.clusters[index].core {
        Core::CortexA53 | Core::CortexA55 | Core::CortexA510 | Core::CortexA520 => true,
        Core::Apple | Core::Other => index > 0,
        _ => false,
    }
}
