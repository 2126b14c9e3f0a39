//! The rates of a table of TFLite's kernels as a list, and their prior.

use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::fit::{Known, Parameter, Prior, Scale};
use crate::calibrate::KEYS;
use crate::calibrate::least_squares::Stop;
use crate::csv_rows::bundled;
use coexec_sim::device::cpu::{CONTENTION_FACTORS, Cluster, Core, Cpu, RuyRates};
use coexec_sim::{Basis, DataType, Quantity, statistics};

/// Number of rates in a table.
pub(super) const COUNT: usize = 22;
/// Keys of the table's other parameters, which follow the rates in a fit.
const OTHERS: [&str; 3] = ["fork_us", "contention_factor", "whole_cluster_slowdown_factor"];

/// Groups of rates with a shared offset: a core that is slower than its class at one rate of a
/// kind is expected to be slow at all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
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
const KINDS: usize = 4;

/// One rate of a table.
#[derive(Deserialize)]
pub(super) struct Rate {
    /// Its key in the profile.
    pub(super) key: String,
    kind: Kind,
    /// Its value in a table that lacks it: 0, or that of the general rate with this key. Empty where every
    /// table has it.
    if_absent: String,
    /// Cycles per unit on a core that executes out of order, and on a small one as [`is_small`] counts (CPU
    /// model: generic priors, 32-bit floating point; a special rate starts near the general one).
    out_of_order_cycles: f64,
    in_order_cycles: f64,
    /// Exponent with which it falls with a core's vector width.
    pub(super) width_exponent: f64,
    /// Whether that is the width in the number format rather than in 32-bit floating point.
    pub(super) is_width_of_format: bool,
}

/// The rates. Their order is that of the fit's parameters.
pub(super) static RATES: LazyLock<Vec<Rate>> = LazyLock::new(|| bundled(include_str!("ruy_rates.csv")));

/// A table with these values and zeros for all others.
pub(super) fn with(values: &[(&str, f64)]) -> RuyRates {
    let free = RATES.iter().map(|rate| rate.key.as_str()).chain(OTHERS).map(|key| (key, 0.0));
    let values = free.chain(values.iter().copied());
    made_of(values.map(|(key, value)| (key, Quantity::plain(value))), "")
}

/// The table of these values, with that source.
pub(super) fn made_of<'a, T: DeserializeOwned>(
    values: impl Iterator<Item = (&'a str, Quantity)>,
    source: &str,
) -> T {
    let entry = |(key, quantity): (&str, Quantity)| {
        (key.to_owned(), toml::Value::try_from(quantity).expect("a quantity is a number or a table"))
    };
    let source = ("source".to_owned(), toml::Value::String(source.to_owned()));
    let table: toml::Table = values.map(entry).chain([source]).collect();
    table.try_into().expect(KEYS)
}

/// The quantity of that key, if the table has one.
pub(super) fn quantity_of(table: &toml::Table, key: &str) -> Option<Quantity> {
    table.get(key).map(|value| value.clone().try_into().expect(KEYS))
}

/// The rates of a table, in the order of [`RATES`].
pub(super) fn values(table: &RuyRates) -> [f64; COUNT] {
    let table = toml::Table::try_from(table).expect(KEYS);
    let at = |key: &str| quantity_of(&table, key).map(|quantity| quantity.value);
    std::array::from_fn(|rate| match (at(&RATES[rate].key), RATES[rate].if_absent.as_str()) {
        (Some(value), _) => value,
        (None, "" | "0") => 0.0,
        (None, general) => at(general).expect(KEYS),
    })
}

/// The cluster's table for a number format.
pub(super) fn table_mut(cluster: &mut Cluster, data_type: DataType) -> &mut Option<RuyRates> {
    if data_type == DataType::I8 { &mut cluster.ruy_i8 } else { &mut cluster.ruy_f32 }
}

/// The cluster's table for a number format.
pub(super) fn table_of(cluster: &Cluster, data_type: DataType) -> Option<&RuyRates> {
    if data_type == DataType::I8 { cluster.ruy_i8.as_ref() } else { cluster.ruy_f32.as_ref() }
}

// Prior standard deviations of the log rates: of the offset of all rates, of the offset of each
// kind in addition, and of each rate in addition to both (chosen by cross-validation on fits to 5,
// 10, 30 and all networks, with and without other devices).

/// Around generic figures of the class of core, where similar cores are unmeasured.
const CLASS_DEVIATIONS: [f64; 3] = [1.0, 0.5, 0.5];
/// Around the fitted rates of similar cores of other devices.
const PROFILES_DEVIATIONS: [f64; 3] = [0.5, 0.5, 0.3];
/// Around the base's own rates, where these were transferred from measured cores (six-phone study).
const TRANSFERRED_DEVIATIONS: [f64; 3] = [0.3, 0.25, 0.3];

/// Relative error expected of a prediction; cross-validated errors are flat from 1 to 2.5 %.
const EXPECTED_ERROR: f64 = 0.02;
/// Prior centre of the fork cost, in microseconds, and the deviation of its logarithm (CPU
/// model).
const FORK_US: f64 = 8.0;
const FORK_DEVIATION: f64 = 1.0;
/// Prior centre of the contention factor and of the whole-cluster slowdown, and their deviation (CPU
/// model).
const FACTOR: f64 = 0.03;
const FACTOR_DEVIATION: f64 = 0.1;
/// Stopping criteria: far below the difference of two runs of one network.
const STOP: Stop = Stop { iterations: 60, relative_decrease: 1e-6 };

/// A similar cluster and its table.
type Similar<'a> = (&'a Cluster, &'a RuyRates);

/// The prior of the rates of `cpu.clusters[index]`. The centres are cycles at its clock: of its own
/// table, if that was transferred from measured cores; else medians over the fitted tables of `others`
/// of similar cores (see [`similar_tables`]); else generic figures of the class.
pub(super) fn prior(cpu: &Cpu, index: usize, data_type: DataType, others: &[Cpu]) -> Prior {
    let cluster = &cpu.clusters[index];
    let class = usize::from(is_small(cpu, index));
    let own = table_of(cluster, data_type).filter(|table| table.basis == Basis::Transferred);
    let (similar, [common, kind, single]) = if let Some(table) = own {
        (vec![(cluster, table)], TRANSFERRED_DEVIATIONS)
    } else {
        let similar = similar_tables(cpu, index, data_type, others);
        let deviations = if similar.is_empty() { CLASS_DEVIATIONS } else { PROFILES_DEVIATIONS };
        (similar, deviations)
    };
    let known: Vec<(f64, [f64; COUNT])> =
        similar.iter().map(|(other, rates)| (other.clock_mhz.value, values(rates))).collect();
    let clock_mhz = cluster.clock_mhz.value;
    let rate = |(index, rate): (usize, &'static Rate)| {
        let values = known.iter().map(|(other_mhz, values)| values[index] * other_mhz / clock_mhz);
        let expected = median(
            values,
            ([rate.out_of_order_cycles, rate.in_order_cycles][class] / (clock_mhz / 1e3)).ln(),
        );
        let alone = Parameter::unshared(&rate.key, Scale::Logarithm, expected, single);
        Parameter { shares: vec![0, 1 + rate.kind as usize], ..alone }
    };
    let fork = similar.iter().map(|(_, rates)| rates.fork_us.value * 1e3);
    let fork = median(fork, (FORK_US * 1e3).ln());
    let factor = Scale::Factor(CONTENTION_FACTORS);
    let [fork_key, contention, slowdown] = OTHERS;
    let others = [
        Parameter::unshared(fork_key, Scale::Nanoseconds, fork, FORK_DEVIATION),
        Parameter::unshared(contention, factor, FACTOR, FACTOR_DEVIATION),
        Parameter::unshared(slowdown, factor, FACTOR, FACTOR_DEVIATION),
    ];
    Prior {
        parameters: RATES.iter().enumerate().map(rate).chain(others).collect(),
        shared: [common].into_iter().chain([kind; KINDS]).collect(),
        expected_error: EXPECTED_ERROR,
        errs_by_network: false,
        stop: STOP,
    }
}

/// The median of the finite logarithms of `values`; `generic` where there are none.
fn median(values: impl Iterator<Item = f64>, generic: f64) -> f64 {
    let finite: Vec<f64> = values.map(f64::ln).filter(|value| value.is_finite()).collect();
    statistics::median(&finite).unwrap_or(generic)
}

/// The table of the fitted values `known`, in the order of the prior, with that source. Special
/// rates that neither a run uses nor the base has are removed from both: a table without a special
/// rate falls back to the general one.
pub(super) fn table(
    known: &mut Vec<Known>,
    base: Option<&RuyRates>,
    is_used: impl Fn(usize) -> bool,
    source: &str,
) -> RuyRates {
    let base = base.map(|table| toml::Table::try_from(table).expect(KEYS)).unwrap_or_default();
    let is_kept = |(index, rate): (usize, &Rate)| {
        rate.if_absent.is_empty() || is_used(index) || base.contains_key(&rate.key)
    };
    for (_, rate) in RATES.iter().enumerate().filter(|rate| !is_kept(*rate)) {
        known.retain(|known| known.key != rate.key);
    }
    let table: RuyRates = made_of(known.iter().map(|known| (known.key, known.quantity())), source);
    RuyRates { basis: Basis::Measured, ..table }
}

/// The tables of `others` whose clusters are most similar to `cpu.clusters[index]`, all of the same
/// class. In order of preference: the same micro-architecture and the same instructions for 8-bit
/// products; the same instructions; the same micro-architecture; any.
fn similar_tables<'a>(cpu: &Cpu, index: usize, data_type: DataType, others: &'a [Cpu]) -> Vec<Similar<'a>> {
    let cluster = &cpu.clusters[index];
    let class = is_small(cpu, index);
    let of_class = clusters(others).filter(|&(other, index)| is_small(other, index) == class);
    let of_class = of_class.map(|(other, index)| &other.clusters[index]);
    let of_class: Vec<Similar<'a>> =
        of_class.filter_map(|cluster| Some((cluster, table_of(cluster, data_type)?))).collect();
    let same_product =
        |other: &Cluster| data_type != DataType::I8 || other.dot_product == cluster.dot_product;
    let same_core = |other: &Cluster| other.core == cluster.core && cluster.core != Core::Other;
    let of = |wanted: &dyn Fn(&Cluster) -> bool| -> Vec<Similar<'a>> {
        of_class.iter().copied().filter(|(other, _)| wanted(other)).collect()
    };
    let choices = [of(&|other| same_product(other) && same_core(other)), of(&same_product), of(&same_core)];
    choices.into_iter().find(|choice| !choice.is_empty()).unwrap_or(of_class)
}

/// All clusters of `cpus`, each as its CPU and its index there.
pub(super) fn clusters(cpus: &[Cpu]) -> impl Iterator<Item = (&Cpu, usize)> {
    cpus.iter().flat_map(|cpu| (0..cpu.clusters.len()).map(move |index| (cpu, index)))
}

/// Whether the cores of a cluster are of the small class: they execute in order, or are as slow, as all but
/// the fastest cluster of Apple's or of unknown cores.
pub(super) fn is_small(cpu: &Cpu, index: usize) -> bool {
    let core = cpu.clusters[index].core;
    core.is_in_order() || (matches!(core, Core::Apple | Core::Other) && index > 0)
}
