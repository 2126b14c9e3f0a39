//! Transfer of rates from measured cores to an unmeasured one.
//!
//! A CPU's time is a sum of rates times counts, so rates can be averaged one by one, unlike a GPU's
//! parameters.
//!
//! Responsible for: the choice of donor cores, and the scaling of their rates with clock and vector
//! width. Not for: fitting. Invariant: a core that is its own only donor keeps its rates.

use std::cmp::Ordering;
use std::sync::LazyLock;

use super::rates::{COUNT, RATES, Rate, clusters, is_small, made_of, table_of, values};
use super::xnnpack::table_of as table_of_xnnpack;
use crate::calibrate::with_quantities;
use crate::csv_rows::bundled;
use coexec_sim::device::cpu::{Cluster, Core, MixedClusters, RuyRates, XnnpackRates};
use coexec_sim::statistics::{self, VALUE_DIGITS, rounded};
use coexec_sim::{Basis, Cpu, DataType, InstructionSet, Library, Quantity};
use serde::Deserialize;

/// Weight of a donor core of the same micro-architecture; others have 1 (six-phone study).
const SAME_CORE_WEIGHT: f64 = 8.0;

/// Multiply-accumulates per cycle of cores in 32-bit floating point (from vendors' and LLVM's pipeline
/// descriptions, which `data/socs` lists).
static WIDTHS: LazyLock<Vec<(Core, f64)>> = LazyLock::new(|| bundled(include_str!("core_widths.csv")));
/// The same of Apple's large cores and of its small ones; the small cores of a generation have a half or a
/// third of its large ones' width.
const APPLE_WIDTHS: [f64; 2] = [12.0, 4.0];
/// The same of other cores.
const OTHER_WIDTH: f64 = 8.0;

/// Multiply-accumulates per cycle of a core of `cpu.clusters[index]` in 32-bit floating point.
pub fn width(cpu: &Cpu, index: usize) -> f64 {
    let core = cpu.clusters[index].core;
    if core == Core::Apple {
        return APPLE_WIDTHS[index.min(1)];
    }
    WIDTHS.iter().find(|(known, _)| *known == core).map_or(OTHER_WIDTH, |(_, width)| *width)
}

/// Multiply-accumulates per cycle of a core of `cpu.clusters[index]` with a library's kernels. With
/// 8-bit integers they are twice those in 32-bit floating point, four times with dot product
/// instructions, and eight times with 8-bit matrix product instructions, for which only XNNPACK has
/// kernels.
fn products(cpu: &Cpu, index: usize, library: Library, data_type: DataType) -> f64 {
    let cluster = &cpu.clusters[index];
    let values = if data_type != DataType::I8 {
        1.0
    } else if cluster.int8_matrix_product && library == Library::Xnnpack {
        8.0
    } else if cluster.dot_product {
        4.0
    } else {
        2.0
    };
    values * width(cpu, index)
}

/// Scale of each rate by clock and vector width, in the order of [`RATES`]: its ratio between two cores
/// is expected to be the ratio of their scales.
fn expected(cpu: &Cpu, index: usize, data_type: DataType) -> [f64; COUNT] {
    let (cluster, width) = (&cpu.clusters[index], width(cpu, index));
    let products = products(cpu, index, Library::Ruy, data_type);
    std::array::from_fn(|rate| {
        let Rate { width_exponent, is_width_of_format, .. } = RATES[rate];
        let width = if is_width_of_format { products } else { width };
        width.powf(-width_exponent) / cluster.clock_mhz.value
    })
}

/// The donors' clusters in the pool of `cpu.clusters[index]`, with their weights: the small cores, or the rest.
/// Apple's small cores are of the rest, as they execute out of order.
fn pool_of<'a>(cpu: &Cpu, index: usize, donors: &'a [Cpu]) -> Vec<(f64, &'a Cpu, usize)> {
    let core = cpu.clusters[index].core;
    let class = |cpu: &Cpu, index: usize| cpu.clusters[index].core != Core::Apple && is_small(cpu, index);
    let of_class = clusters(donors).filter(|&(donor, other)| class(donor, other) == class(cpu, index));
    let weight = |other: Core| if other == core && core != Core::Other { SAME_CORE_WEIGHT } else { 1.0 };
    of_class.map(|(donor, other)| (weight(donor.clusters[other].core), donor, other)).collect()
}

/// TFLite's rates of `cpu.clusters[index]`: the weighted geometric mean of the donors' scaled rates.
/// None where no donor has a table.
fn ruy(cpu: &Cpu, index: usize, data_type: DataType, donors: &[Cpu], source: &str) -> Option<RuyRates> {
    let own = expected(cpu, index, data_type);
    let (mut sums, mut weights) = ([0.0; COUNT], [0.0; COUNT]);
    for (weight, donor, other) in pool_of(cpu, index, donors) {
        let Some(table) = table_of(&donor.clusters[other], data_type) else { continue };
        let theirs = expected(donor, other, data_type);
        for (rate, value) in values(table).into_iter().enumerate().filter(|(_, value)| *value > 0.0) {
            sums[rate] += weight * (value * own[rate] / theirs[rate]).ln();
            weights[rate] += weight;
        }
    }
    let known = (0..COUNT).filter(|&rate| weights[rate] > 0.0);
    let rates: Vec<(&str, f64)> =
        known.map(|rate| (RATES[rate].key.as_str(), (sums[rate] / weights[rate]).exp())).collect();
    let all = donors.iter().flat_map(|donor| &donor.clusters);
    let tables: Vec<(&Cluster, &RuyRates)> =
        all.filter_map(|cluster| Some((cluster, table_of(cluster, data_type)?))).collect();
    let median = |value: &dyn Fn(&Cluster, &RuyRates) -> f64| {
        statistics::median(&tables.iter().map(|(cluster, table)| value(cluster, table)).collect::<Vec<_>>())
    };
    let fork_cycles = median(&|cluster, table| table.fork_us.value * cluster.clock_mhz.value)?;
    let others = [
        ("fork_us", fork_cycles / cpu.clusters[index].clock_mhz.value),
        ("contention_factor", median(&|_, table| table.contention_factor.value)?),
        ("whole_cluster_slowdown_factor", median(&|_, table| table.whole_cluster_slowdown_factor.value)?),
    ];
    let is_known = !rates.is_empty();
    let quantities = rates.into_iter().chain(others);
    let quantities = quantities.map(|(key, value)| (key, Quantity::plain(rounded(value, VALUE_DIGITS))));
    is_known.then(|| RuyRates { basis: Basis::Transferred, ..made_of(quantities, source) })
}

/// XNNPACK's rates on a measured x86-64 core, and its clock.
#[derive(Deserialize)]
struct MeasuredX86 {
    clock_mhz: f64,
    xnnpack_f32: XnnpackRates,
}

impl MeasuredX86 {
    fn bundled() -> Self {
        toml::from_str(include_str!("x86.toml")).expect("a test holds that the bundled file parses")
    }
}

/// XNNPACK's rates of the most similar donor core, scaled by clock, and those of products also by
/// multiply-accumulates per cycle. In 32-bit floating point, x86-64 cores have a donor of their own.
fn xnnpack(cpu: &Cpu, index: usize, data_type: DataType, donors: &[Cpu]) -> Option<XnnpackRates> {
    if data_type == DataType::F32 && cpu.clusters[index].instruction_set.is_some_and(InstructionSet::is_x86) {
        let MeasuredX86 { clock_mhz, xnnpack_f32 } = MeasuredX86::bundled();
        return Some(scaled_rates(&xnnpack_f32, clock_mhz, cpu.clusters[index].clock_mhz.value, 1.0));
    }
    let known = pool_of(cpu, index, donors).into_iter().filter_map(|(weight, donor, other)| {
        let cluster = &donor.clusters[other];
        let [own, theirs] = [(cpu, index), (donor, other)]
            .map(|(cpu, index)| products(cpu, index, Library::Xnnpack, data_type));
        Some((weight, table_of_xnnpack(cluster, data_type).ok()?, cluster, theirs / own))
    });
    // The same core, else one that completes about as many products in a cycle; the first among equals.
    let unlike = |&(weight, _, _, products): &(f64, _, _, f64)| [-weight, products.ln().abs()];
    let by_likeness = |one: &_, other: &_| unlike(one).partial_cmp(&unlike(other)).unwrap_or(Ordering::Equal);
    let (_, table, cluster, products) = known.min_by(by_likeness)?;
    Some(scaled_rates(table, cluster.clock_mhz.value, cpu.clusters[index].clock_mhz.value, products))
}

/// `table` of a core at `from_mhz`, scaled to one at `to_mhz` whose products take `products` times as
/// many cycles.
fn scaled_rates(table: &XnnpackRates, from_mhz: f64, to_mhz: f64, products: f64) -> XnnpackRates {
    let slower = from_mhz / to_mhz;
    let scaled = with_quantities(table, |key, own| {
        let factor = if key.ends_with("multiply_accumulate_ns") { products * slower } else { slower };
        let is_time = key.ends_with("_ns");
        if is_time { Quantity::plain(rounded(own.value * factor, VALUE_DIGITS)) } else { own }
    });
    let products = rounded(products, VALUE_DIGITS);
    let note = format!("carried over to {to_mhz} MHz, products x {products} for what a cycle completes");
    XnnpackRates { source: format!("{}; {note}", table.source), ..scaled }
}

/// `cpu` with rates of TFLite's own kernels and of XNNPACK's transferred from the CPUs `donors`;
/// `source` is that of the former.
pub fn transfer(cpu: &Cpu, donors: &[Cpu], source: &str) -> Cpu {
    let mut transferred = cpu.clone();
    for (index, cluster) in transferred.clusters.iter_mut().enumerate() {
        cluster.ruy_f32 = ruy(cpu, index, DataType::F32, donors, source);
        cluster.ruy_i8 = ruy(cpu, index, DataType::I8, donors, source);
        cluster.xnnpack_f32 = xnnpack(cpu, index, DataType::F32, donors);
        cluster.xnnpack_i8 = xnnpack(cpu, index, DataType::I8, donors);
        cluster.xnnpack_f16 = xnnpack(cpu, index, DataType::F16, donors).filter(|_| cluster.f16_arithmetic);
    }
    let mixed = |of: fn(&Cpu) -> Option<&MixedClusters>| {
        let known: Vec<&MixedClusters> = donors.iter().filter_map(of).collect();
        let median = |value: fn(&MixedClusters) -> f64| {
            let values: Vec<f64> = known.iter().map(|mixed| value(mixed)).collect();
            statistics::median(&values).map(|value| Quantity::plain(rounded(value, VALUE_DIGITS)))
        };
        let (slowdown, fork) =
            (median(|mixed| mixed.slowdown_factor.value), median(|mixed| mixed.fork_us.value));
        Some(MixedClusters { source: source.to_owned(), slowdown_factor: slowdown?, fork_us: fork? })
    };
    transferred.mixed_ruy_f32 = mixed(|cpu| cpu.mixed_ruy_f32.as_ref());
    transferred.mixed_ruy_i8 = mixed(|cpu| cpu.mixed_ruy_i8.as_ref());
    transferred
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::Profile;

    #[test]
    fn a_core_that_is_its_own_only_donor_keeps_its_rates() {
        let cpu = Profile::load("mi8se").unwrap().cpu;
        let transferred = transfer(&cpu, std::slice::from_ref(&cpu), "test");
        for (own, transferred) in cpu.clusters.iter().zip(&transferred.clusters) {
            let [own, transferred] =
                [own, transferred].map(|cluster| values(cluster.ruy_f32.as_ref().unwrap()));
            for ((own, transferred), rate) in own.iter().zip(transferred).zip(&*RATES) {
                assert!((own - transferred).abs() <= 1e-3 * own, "{}: {own} {transferred}", rate.key);
            }
        }
    }

    #[test]
    fn a_core_of_twice_the_clock_takes_half() {
        let slow = Profile::load("mi8se").unwrap().cpu;
        let mut fast = slow.clone();
        fast.clusters[0].clock_mhz.value *= 2.0;
        let transferred = transfer(&fast, std::slice::from_ref(&slow), "test");
        let rate = |cpu: &Cpu| cpu.clusters[0].xnnpack_f32.as_ref().unwrap().tile_ns.value;
        assert!((rate(&slow) / rate(&transferred) - 2.0).abs() < 1e-3);
        let rate = |cpu: &Cpu| cpu.clusters[0].ruy_i8.as_ref().unwrap().tile_ns.value;
        assert!((rate(&slow) / rate(&transferred) - 2.0).abs() < 1e-3);
    }

    #[test]
    fn products_in_8_bits_take_what_a_core_completes_in_a_cycle() {
        let phone = Profile::load("iphone-xs").unwrap().cpu;
        let mut later = phone.clone();
        later.clusters[0].dot_product = true;
        later.clusters[0].int8_matrix_product = true;
        let transferred = transfer(&later, std::slice::from_ref(&phone), "test");
        let rate = |cpu: &Cpu| cpu.clusters[0].xnnpack_i8.as_ref().unwrap().multiply_accumulate_ns.value;
        assert!((rate(&phone) / rate(&transferred) - 4.0).abs() < 1e-3);
        let rate = |cpu: &Cpu| cpu.clusters[0].xnnpack_f32.as_ref().unwrap().multiply_accumulate_ns.value;
        assert!((rate(&phone) / rate(&transferred) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn products_are_carried_over_from_a_core_that_completes_as_many_in_a_cycle() {
        let donors = ["galaxy-s10", "pixel4"].map(|name| Profile::load(name).unwrap().cpu);
        let cycles = |core: Core| {
            let mut cpu = donors[1].clone();
            cpu.clusters[0].core = core;
            let rates = xnnpack(&cpu, 0, DataType::F32, &donors).unwrap();
            rates.multiply_accumulate_ns.value * cpu.clusters[0].clock_mhz.value
        };
        // From a Cortex-A76, which completes as many, not from an Exynos M4, which comes first and completes more.
        assert!((cycles(Core::CortexA78) / cycles(Core::CortexA76) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn small_cores_are_not_predicted_by_large_ones() {
        let [phone, other] = ["mi8se", "pixel4"].map(|name| Profile::load(name).unwrap().cpu);
        let large_only = Cpu { clusters: other.clusters[..2].to_vec(), ..other };
        let transferred = transfer(&phone, &[large_only], "test");
        let has = transferred.clusters.iter().map(|cluster| cluster.ruy_f32.is_some());
        assert_eq!(has.collect::<Vec<_>>(), [true, false]);
    }
}
