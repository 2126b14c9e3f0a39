//! The NPU of an unmeasured device, scaled from a measured one.
//!
//! Responsible for: the speeds of its multiply-accumulates, vector unit and memory relative to the
//! measured NPU's, from published figures. Not for: the rates, and how each scales with the speeds
//! ([`at_speeds`]). Invariant: every value that is not published is assumed, and the profile's source
//! states that.

use std::sync::LazyLock;

use coexec_sim::device::{CompiledGraphs, Npu};
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::{Basis, InputError, Profile, Quantity};

use super::Specification;
use super::known::{NpuFacts, number};
use super::memory::Interface;
use crate::calibrate::npu::at_speeds;

/// Exponent of the memory's speed that gives all other speeds where no peaks are published: fitted to
/// whole models on the Hexagons of the Snapdragon 8 Gen 1, 8 Gen 2 and 8 Elite, relative to the 8 Gen
/// 3's (compiled-graph study, section 4). It is a trend of one maker.
const POWER_OF_MEMORY: f64 = 2.22;
const BYTES_PER_MIB: f64 = 1_048_576.0;
/// Part of the on-chip memory into which weights are fetched ahead, as assumed for the fitted NPUs.
const FETCHED_AHEAD: f64 = 0.5;

/// The measured NPU and its device's memory.
static MEASURED: LazyLock<(CompiledGraphs, Interface)> = LazyLock::new(|| {
    let profile = Profile::load("snapdragon-8gen3").expect("a bundled profile parses");
    let compiled = profile.npu.and_then(|npu| npu.compiled);
    let memory = Specification::of(&profile.soc).and_then(|known| Interface::parse(&known.memory.text));
    (compiled.expect("the bundled profile has compiled graphs"), memory.expect("the tables have its system"))
});

/// The NPU of that name in a device with this memory.
///
/// # Errors
/// The tables lack that name.
pub(super) fn npu(name: &str, memory: Interface) -> Result<Npu, InputError> {
    let facts = NpuFacts::find(name)?;
    let (measured, its_memory) = &*MEASURED;
    let bandwidth = number(&facts.bandwidth_gbps);
    let memory_speed = bandwidth.map_or_else(
        || memory.faster_than(*its_memory),
        |bandwidth| bandwidth / measured.bandwidth_gbps.value,
    );
    let products = products(facts, measured);
    let by_memory = [memory.faster_than(*its_memory).powf(POWER_OF_MEMORY); 2];
    let [float, integer] = products.unwrap_or(by_memory);
    let rest = (float * integer).sqrt();
    let products_source = match products {
        Some(_) => format!(
            "products at the peak ({}), the vector unit and fixed costs x {rest:.2}, as both together",
            facts.rate_source
        ),
        None => format!(
            "no peak is published: all but the memory x {rest:.2}, the memory's speed to the power of {POWER_OF_MEMORY}, as Snapdragons differ"
        ),
    };
    let memory_source = if bandwidth.is_some() { &facts.bandwidth_source } else { "by its interface" };
    let source = format!(
        "assumed, no run seen: the snapdragon-8gen3 profile's rates; {products_source}; memory x {memory_speed:.2}, {memory_source}"
    );
    let speeds = [float, integer, rest, memory_speed, rest];
    let mut compiled = bare(&at_speeds(measured, speeds), &source);
    let scale = |quantity: &Quantity, by: f64| Quantity::plain(rounded(quantity.value * by, VALUE_DIGITS));
    if let (Some(integers), Some(measured)) = (&mut compiled.integer, &measured.integer) {
        integers.vector_rate_factor = scale(&measured.vector_rate_factor, integer / float);
        let reductions = measured.channel_reduction_rate_factor.as_ref();
        integers.channel_reduction_rate_factor = reductions.map(|factor| scale(factor, integer / float));
    }
    if let Some(weights) = &mut compiled.integer_weights {
        // Expanding integer weights to 16 bits on the way adds no time to products.
        weights.product_rate_factor.value = weights.product_rate_factor.value.max(1.0);
    }
    if let Some(micros) = number(&facts.graph_us) {
        compiled.graph_us = Quantity::of(micros, facts.graph_source.clone());
    }
    compiled.on_chip_bytes = match number(&facts.on_chip_mib) {
        Some(mib) => Quantity::of(mib * BYTES_PER_MIB, facts.on_chip_source.clone()),
        None => {
            Quantity::of(measured.on_chip_bytes.value, "assumed: as much as the snapdragon-8gen3 profile has")
        }
    };
    let ahead = compiled.on_chip_bytes.value * FETCHED_AHEAD;
    compiled.fetched_ahead_bytes = Quantity::of(ahead, "assumed: half of the on-chip memory");
    let name = format!("{} {}", facts.vendor, facts.npu);
    Ok(Npu { name, systolic: None, compiled: Some(compiled), language: None })
}

/// Speed of multiply-accumulates in 16-bit floats and in 8-bit integers relative to the measured NPU;
/// none where a peak is not published.
fn products(facts: &NpuFacts, measured: &CompiledGraphs) -> Option<[f64; 2]> {
    let [float, integer] = [&facts.f16_tflops, &facts.int8_tops].map(|tera| number(tera));
    let rate = &measured.multiply_accumulates_per_ns.value;
    let of_integers = rate * measured.integer.as_ref()?.product_rate_factor.value;
    // Two operations are one multiply-accumulate.
    let per_ns = |tera: f64| tera * 1e3 / 2.0;
    Some([per_ns(float?) / rate, per_ns(integer?) / of_integers])
}

/// The rates with one source and basis, without the sources and intervals of the measured chip.
fn bare(compiled: &CompiledGraphs, source: &str) -> CompiledGraphs {
    let written = toml::Table::try_from(compiled).map(|mut table| {
        plain(&mut table, source);
        table
    });
    let read = written.ok().and_then(|table| table.try_into().ok());
    CompiledGraphs {
        basis: Basis::Assumed,
        measured_on: None,
        ..read.expect("numbers in place of sourced numbers read the same")
    }
}

/// Replaces each quantity by its number, and sets the source of each table.
fn plain(table: &mut toml::Table, source: &str) {
    for value in table.iter_mut().map(|(_, value)| value) {
        let number = value.get("value").unwrap_or(value).as_float();
        match (number, &mut *value) {
            (Some(number), _) => *value = rounded(number, VALUE_DIGITS).into(),
            (None, toml::Value::Table(inner)) => plain(inner, source),
            (None, _) => {}
        }
    }
    table.insert("source".to_owned(), source.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(name: &str, memory: &str) -> CompiledGraphs {
        npu(name, Interface::parse(memory).unwrap()).unwrap().compiled.unwrap()
    }

    #[test]
    fn the_measured_chip_keeps_its_rates_and_a_faster_memory_makes_all_faster() {
        let own = made("hexagon-8-series", "lpddr5x-4800x64");
        let measured = &MEASURED.0;
        let ratio =
            |of: fn(&CompiledGraphs) -> &Quantity, made: &CompiledGraphs| of(made).value / of(measured).value;
        for of in [
            (|npu| &npu.multiply_accumulates_per_ns) as fn(&CompiledGraphs) -> &Quantity,
            |npu| &npu.on_chip_gbps,
            |npu| &npu.bandwidth_gbps,
            |npu| &npu.graph_us,
        ] {
            assert!((ratio(of, &own) - 1.0).abs() < 1e-4);
        }
        let faster = made("hexagon-8-series", "lpddr5x-5333x64");
        let by: f64 = 10_667.0 / 9_600.0;
        assert!((ratio(|npu| &npu.bandwidth_gbps, &faster) / by - 1.0).abs() < 1e-4);
        assert!((ratio(|npu| &npu.on_chip_gbps, &faster) / by.powf(POWER_OF_MEMORY) - 1.0).abs() < 1e-4);
        assert!((ratio(|npu| &npu.graph_us, &faster) * by.powf(POWER_OF_MEMORY) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn npu_profiles_have_the_published_values() {
        let made = made("ane-m4", "lpddr5x-3750x128");
        let per_ns = made.multiply_accumulates_per_ns.value;
        let integer = made.integer.as_ref().unwrap();
        assert!((per_ns - 9_300.0).abs() < 1.0, "18.6 TFLOP/s");
        assert!((per_ns * integer.product_rate_factor.value / 17_550.0 - 1.0).abs() < 1e-4, "35.1 TOPS");
        assert_eq!((made.bandwidth_gbps.value, made.graph_us.value), (57.0, 95.0));
        assert_eq!(made.basis, Basis::Assumed);
        let reductions = integer.channel_reduction_rate_factor.as_ref().map(|factor| factor.value);
        assert_eq!(reductions, Some(integer.vector_rate_factor.value), "the vector unit computes both");
        assert!(made.source.contains("no run seen") && integer.source == made.source);
        assert!(made.multiply_accumulates_per_ns.ci95.is_none(), "the interval was another chip's");
    }
}
