//! The rates of a table as a list, and what is expected of them before any run.

use crate::device::cpu::{Cluster, Core, Cpu, RuyRates};
use crate::device::quantity::Quantity;
use crate::statistics;
use crate::workload::DataType;

/// Number of rates in a table, fork cost and contention apart.
pub(super) const COUNT: usize = 22;

/// What a rate has in common with others: on a core that is slower than its class
/// at one of a kind, expect all of the kind to be slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Arithmetic of matrix products.
    Product,
    /// Depthwise convolutions.
    Depthwise,
    /// The reference loop nest.
    Reference,
    /// Everything else: copies, functions, dispatch.
    Other,
}

/// Number of kinds.
pub(super) const KINDS: usize = 4;

/// One rate of a table.
pub(super) struct Rate {
    /// Its key in the profile.
    pub(super) key: &'static str,
    /// Its kind.
    pub(super) kind: Kind,
    /// Its place in a table; an absent special rate starts as the general one, or as
    /// free.
    pub(super) of: fn(&mut RuyRates) -> &mut Quantity,
    /// Takes a special rate out of a table, as if nobody had told it apart; none
    /// for a rate that every table has.
    pub(super) take_out: Option<fn(&mut RuyRates)>,
    /// Cycles per unit on a core that executes out of order and on one that
    /// executes in order (CPU model: generic priors, 32-bit floating point; a
    /// special rate starts near the general one).
    cycles: [f64; 2],
}

/// A rate that every table has.
macro_rules! rate {
    ($field:ident, $kind:ident, $cycles:expr) => {
        Rate {
            key: stringify!($field),
            kind: Kind::$kind,
            of: |rates| &mut rates.$field,
            take_out: None,
            cycles: $cycles,
        }
    };
    ($field:ident or free, $kind:ident, $cycles:expr) => {
        Rate {
            key: stringify!($field),
            kind: Kind::$kind,
            of: |rates| rates.$field.get_or_insert_with(|| Quantity::plain(0.0)),
            take_out: Some(|rates| rates.$field = None),
            cycles: $cycles,
        }
    };
    ($field:ident or $general:ident, $kind:ident, $cycles:expr) => {
        Rate {
            key: stringify!($field),
            kind: Kind::$kind,
            of: |rates| {
                let general = &rates.$general;
                rates.$field.get_or_insert_with(|| general.clone())
            },
            take_out: Some(|rates| rates.$field = None),
            cycles: $cycles,
        }
    };
}

/// The rates. Their order is that of the fit's parameters.
pub(super) const RATES: [Rate; COUNT] = [
    rate!(multiply_accumulate_ns, Product, [0.14, 0.4]),
    rate!(tile_ns, Product, [40.0, 350.0]),
    rate!(pack_weight_ns, Other, [1.5, 8.0]),
    rate!(pack_pixel_ns, Other, [0.7, 3.0]),
    rate!(gemv_weight_ns, Other, [1.0, 6.0]),
    rate!(depthwise_tap_ns, Depthwise, [0.6, 3.0]),
    rate!(depthwise_3x3_tap_ns or depthwise_tap_ns, Depthwise, [0.5, 2.0]),
    rate!(depthwise_output_ns, Depthwise, [0.2, 1.0]),
    rate!(depthwise_pixel_ns or free, Depthwise, [5.0, 10.0]),
    rate!(im2col_row_ns, Other, [25.0, 60.0]),
    rate!(im2col_element_ns, Other, [0.3, 0.5]),
    rate!(reference_multiply_accumulate_ns, Reference, [2.0, 8.0]),
    rate!(reference_tap_ns, Reference, [5.0, 35.0]),
    rate!(element_wise_ns, Other, [1.2, 3.0]),
    rate!(broadcast_element_ns or element_wise_ns, Other, [1.0, 3.0]),
    rate!(activation_element_ns or element_wise_ns, Other, [2.0, 6.0]),
    rate!(mean_element_ns or element_wise_ns, Other, [1.0, 3.0]),
    rate!(pool_tap_ns, Other, [1.2, 2.5]),
    rate!(copy_element_ns, Other, [1.0, 4.0]),
    rate!(concat_element_ns or copy_element_ns, Other, [1.0, 4.0]),
    rate!(beyond_cache_element_ns, Other, [0.5, 0.3]),
    rate!(operator_ns, Other, [1500.0, 4000.0]),
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
        depthwise_3x3_tap_ns: Some(zero()),
        broadcast_element_ns: Some(zero()),
        activation_element_ns: Some(zero()),
        mean_element_ns: Some(zero()),
        concat_element_ns: Some(zero()),
        depthwise_pixel_ns: Some(zero()),
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

/// How far the logarithms of rates are expected to be from what is known of cores
/// like these: of all rates together, of those of a kind, and of each on its own
/// (standard deviations; chosen by cross-validation on fits to 5, 10, 30 and all
/// networks, with and without other devices).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Deviations {
    /// Of all rates together.
    pub(super) common: f64,
    /// Of all rates of a kind, on top.
    pub(super) kind: f64,
    /// Of one rate, on top.
    pub(super) single: f64,
}

impl Deviations {
    /// Where only the class of the cores is known: nobody measured cores like these.
    const CLASS: Self = Self { common: 1.0, kind: 0.5, single: 0.5 };
    /// Where other devices' fitted rates say what such cores need.
    const PROFILES: Self = Self { common: 0.5, kind: 0.5, single: 0.3 };
}

/// Fork cost expected before any run, in microseconds (CPU model).
const FORK_US: f64 = 8.0;

/// What is expected of a table before any run.
#[derive(Clone, Debug)]
pub(super) struct Prior {
    /// Logarithms of the rates in nanoseconds.
    pub(super) ln_rates: [f64; COUNT],
    /// How far from them the rates may be.
    pub(super) deviations: Deviations,
    /// Logarithm of the fork cost in nanoseconds.
    pub(super) ln_fork: f64,
}

/// A fitted table of another device and the cluster it is of.
type Alike<'a> = (&'a Cluster, &'a RuyRates);

impl Prior {
    /// What cores like those of `cpu.clusters[index]` need, in cycles, at its clock:
    /// medians over the fitted tables of `others` that are of the same
    /// micro-architecture, or else of the same class; generic figures of the class
    /// where there are none.
    pub(super) fn of(cpu: &Cpu, index: usize, data_type: DataType, others: &[Cpu]) -> Self {
        let cluster = &cpu.clusters[index];
        let ghz = cluster.clock_mhz.value / 1e3;
        let class = usize::from(is_in_order(cpu, index));
        let generic = RATES.map(|rate| (rate.cycles[class] / ghz).ln());
        let ln_fork = (FORK_US * 1e3).ln();
        let alike = alike(cpu, index, data_type, others);
        if alike.is_empty() {
            return Self { ln_rates: generic, deviations: Deviations::CLASS, ln_fork };
        }
        let median = |value: &dyn Fn(&Cluster, &mut RuyRates) -> f64, none: f64| {
            let logarithms = alike.iter().map(|(cluster, rates)| value(cluster, &mut (*rates).clone()).ln());
            let finite: Vec<f64> = logarithms.filter(|value| value.is_finite()).collect();
            statistics::median(&finite).unwrap_or(none)
        };
        let mut ln_rates = generic;
        for (ln_rate, rate) in ln_rates.iter_mut().zip(RATES) {
            let nanos = |other: &Cluster, rates: &mut RuyRates| {
                (rate.of)(rates).value * other.clock_mhz.value / cluster.clock_mhz.value
            };
            *ln_rate = median(&nanos, *ln_rate);
        }
        let ln_fork = median(&|_, rates| rates.fork_us.value * 1e3, ln_fork);
        Self { ln_rates, deviations: Deviations::PROFILES, ln_fork }
    }
}

/// The tables of `others` that tell most of `cpu.clusters[index]`: where 8-bit
/// products run on the same instructions, of the same micro-architecture; then of
/// the same class; then those with other instructions.
fn alike<'a>(cpu: &Cpu, index: usize, data_type: DataType, others: &'a [Cpu]) -> Vec<Alike<'a>> {
    let cluster = &cpu.clusters[index];
    let class = is_in_order(cpu, index);
    let mut of_class: Vec<Alike<'a>> = Vec::new();
    for other in others {
        for (index, cluster) in other.clusters.iter().enumerate() {
            if is_in_order(other, index) == class {
                of_class.extend(table(cluster, data_type).map(|rates| (cluster, rates)));
            }
        }
    }
    let same_product =
        |other: &Cluster| data_type != DataType::I8 || other.dot_product == cluster.dot_product;
    let same_core = |other: &Cluster| other.core == cluster.core && cluster.core != Core::Other;
    let of = |wanted: &dyn Fn(&Cluster) -> bool| -> Vec<Alike<'a>> {
        of_class.iter().copied().filter(|(other, _)| wanted(other)).collect()
    };
    let choices = [of(&|other| same_product(other) && same_core(other)), of(&same_product), of(&same_core)];
    choices.into_iter().find(|choice| !choice.is_empty()).unwrap_or(of_class)
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
