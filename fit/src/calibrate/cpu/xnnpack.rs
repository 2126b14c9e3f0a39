//! The rates of XNNPACK: their prior around the base's, and the fitted table.
//!
//! No times of single layers under XNNPACK are published, and times of whole networks cannot identify
//! all rates. The fit moves the base's rates: all together, in groups of similar work, and each by
//! itself only a little.
//!
//! Responsible for: the prior, and the units of each rate in a run. Not for: the fit (`fit`).
//! Invariant: a rate that no run uses moves only with its group.

use std::sync::LazyLock;

use super::fit::{Known, Parameter, Prior, Scale};
use super::rates::quantity_of;
use crate::calibrate::least_squares::Stop;
use crate::calibrate::{KEYS, with_quantities};
use crate::csv_rows::bundled;
use crate::measure::CpuRun;
use crate::validate::cpu::predict;
use coexec_sim::device::cpu::{CONTENTION_FACTORS, Cluster, Cpu, XnnpackRates};
use coexec_sim::kernel::cpu::{Group, Library};
use coexec_sim::units::NANOS_PER_MICRO;
use coexec_sim::{Basis, DataType, Quantity};

/// The rates with the index of their group, whose rates are slow together; a table may lack some.
static RATES: LazyLock<Vec<(String, usize)>> = LazyLock::new(|| bundled(include_str!("xnnpack_rates.csv")));
const GROUPS: usize = 5;
/// Keys of the parameters after the rates.
const FORK: &str = "fork_us";
const CONTENTION: &str = "contention_factor";
const MEMORY_CONTENTION: &str = "memory_contention_factor";

/// Prior standard deviations of logarithms: of all rates together (the base may be another class of
/// core), of a group and of each rate (six-phone study: 0.3, 0.25 and 0.3 for rates
/// transferred from measured cores; the first two are wider here, as XNNPACK's were never measured),
/// and of a fork; and of the contention factor itself.
const COMMON_DEVIATION: f64 = 0.7;
const GROUP_DEVIATION: f64 = 0.4;
const SINGLE_DEVIATION: f64 = 0.3;
const FORK_DEVIATION: f64 = 1.0;
const CONTENTION_DEVIATION: f64 = 0.06;
/// Relative error expected of a prediction.
const EXPECTED_ERROR: f64 = 0.05;
/// Stopping criteria: far below the difference of two runs of one network.
const STOP: Stop = Stop { iterations: 60, relative_decrease: 1e-6 };

/// Relative step of a rate in the numerical derivative of a time: far above the rounding to picoseconds
/// in any network to which the rate matters, and small enough that the rate that bounds an operator
/// stays the same.
const STEP: f64 = 1e-3;

/// A run's time as a linear function of the rates, without contention.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Units of each rate, then forks.
    units: Vec<f64>,
    /// Time that depends on none of them, in nanoseconds.
    fixed: f64,
    further_threads: f64,
}

impl Counts {
    /// The counts of `run` on the cores of `group`: the derivative of the time by each rate at the
    /// base's rates. Where an operator's time is the maximum over several rates, only the one that
    /// bounds it counts, so that runs with the base's own times lead back to the base.
    pub(super) fn of(run: &CpuRun, cpu: &Cpu, group: Group) -> Result<Self, String> {
        let base = table_of(&cpu.clusters[group.cluster], run.what.data_type)?;
        let mut cpu = cpu.clone();
        let table = as_toml(base);
        let of_base = |key: &str| quantity_of(&table, key).expect(KEYS).value;
        let mut nanos = |larger: Option<&str>| {
            let value = |key: &str| match key {
                CONTENTION | MEMORY_CONTENTION => Some(0.0),
                _ if larger == Some(key) => Some((1.0 + STEP) * of_base(key)),
                // Values that are not fitted stay the base's, as in the written table.
                _ => None,
            };
            let table = with_quantities(base, |key, own| value(key).map_or(own, Quantity::plain));
            *table_mut(&mut cpu.clusters[group.cluster], run.what.data_type) = Some(table);
            Ok::<_, String>(predict(run, &cpu, Library::Xnnpack)? * NANOS_PER_MICRO)
        };
        let all = nanos(None)?;
        let mut fixed = all;
        let mut units = Vec::new();
        for key in rates_of(&table).map(|(key, _)| key).chain([FORK]) {
            let added = (nanos(Some(key))? - all) / STEP;
            fixed -= added;
            let value = if key == FORK { of_base(key) * NANOS_PER_MICRO } else { of_base(key) };
            units.push(if value > 0.0 { added / value } else { 0.0 });
        }
        let further_threads = f64::from(group.threads.saturating_sub(1));
        Ok(Self { units, fixed, further_threads })
    }

    /// Time in nanoseconds for these values of the parameters.
    pub(super) fn nanos(&self, values: &[f64]) -> f64 {
        let Some((forks, of_work)) = self.units.split_last() else { return 0.0 };
        let (rates, others) = values.split_at(of_work.len());
        let work: f64 = of_work.iter().zip(rates).map(|(units, value)| units * value).sum();
        self.fixed + work * (1.0 + others[1] * self.further_threads) + forks * others[0]
    }
}

/// The prior of a cluster's rates, around the base's.
pub(super) fn prior(cluster: &Cluster, data_type: DataType) -> Result<Prior, String> {
    let table = as_toml(table_of(cluster, data_type)?);
    let value = |key: &str| quantity_of(&table, key).expect(KEYS).value;
    let rate = |(key, group): (&'static str, usize)| {
        let expected = value(key).max(f64::MIN_POSITIVE).ln();
        let alone = Parameter::unshared(key, Scale::Logarithm, expected, SINGLE_DEVIATION);
        Parameter { shares: vec![0, 1 + group], ..alone }
    };
    let fork = (value(FORK) * NANOS_PER_MICRO).max(f64::MIN_POSITIVE).ln();
    let contention = Scale::Factor(CONTENTION_FACTORS);
    let others = [
        Parameter::unshared(FORK, Scale::Nanoseconds, fork, FORK_DEVIATION),
        Parameter::unshared(CONTENTION, contention, value(CONTENTION), CONTENTION_DEVIATION),
    ];
    Ok(Prior {
        parameters: rates_of(&table).map(rate).chain(others).collect(),
        shared: [COMMON_DEVIATION].into_iter().chain([GROUP_DEVIATION; GROUPS]).collect(),
        expected_error: EXPECTED_ERROR,
        errs_by_network: false,
        stop: STOP,
    })
}

/// Writes the fitted values into the cluster's table.
pub(super) fn write(cluster: &mut Cluster, data_type: DataType, known: &[Known], source: &str) {
    let Some(base) = table_mut(cluster, data_type).take() else { return };
    let value = |key: &str| {
        let key = if key == MEMORY_CONTENTION { CONTENTION } else { key };
        known.iter().find(|known| known.key == key).map(|known| known.value)
    };
    let table = with_quantities(&base, |key, own| value(key).map_or(own, Quantity::plain));
    let fitted = XnnpackRates { basis: Basis::Measured, source: source.to_owned(), ..table };
    *table_mut(cluster, data_type) = Some(fitted);
}

/// The table as TOML.
fn as_toml(rates: &XnnpackRates) -> toml::Table {
    toml::Table::try_from(rates).expect(KEYS)
}

/// The rates that a table has, with their groups.
fn rates_of(table: &toml::Table) -> impl Iterator<Item = (&'static str, usize)> {
    RATES.iter().map(|(key, group)| (key.as_str(), *group)).filter(|(key, _)| table.contains_key(*key))
}

/// The rates of a cluster in `data_type`, or the reason that there are none.
pub(super) fn table_of(cluster: &Cluster, data_type: DataType) -> Result<&XnnpackRates, String> {
    let table = match data_type {
        DataType::F32 => &cluster.xnnpack_f32,
        DataType::F16 => &cluster.xnnpack_f16,
        DataType::I8 => &cluster.xnnpack_i8,
        DataType::I8Dynamic | DataType::I4Dynamic | DataType::W4A16 | DataType::W8A16 => &None,
    };
    let missing = || format!("the base has no XNNPACK rates in {data_type} for {}", cluster.name.as_str());
    table.as_ref().ok_or_else(missing)
}

fn table_mut(cluster: &mut Cluster, data_type: DataType) -> &mut Option<XnnpackRates> {
    match data_type {
        DataType::F16 => &mut cluster.xnnpack_f16,
        DataType::I8 => &mut cluster.xnnpack_i8,
        DataType::F32 | DataType::I8Dynamic | DataType::I4Dynamic | DataType::W4A16 | DataType::W8A16 => {
            &mut cluster.xnnpack_f32
        }
    }
}
