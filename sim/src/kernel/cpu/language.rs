//! How a language-model engine's CPU kernels run a layer, on all cores at once.
//!
//! Products with weights take the longer of their arithmetic and of reading the weights once; with
//! one row that is reading. Products of activations, those over the context, are bound by
//! arithmetic that finds few values in registers, with the rows of a single token fewer still.
//! Everything else is bound by the tensors it reads and writes. Behind each operator the threads
//! wait for each other.

use super::tally::Shares;
use super::{CoreSet, Kernel, Makespan, NANOS_PER_MICRO, Tally, unsupported};
use crate::device::{Cpu, LanguageRates};
use crate::kernel::Result;
use crate::workload::{Class, Layer};

/// Rows of a product over the context, at most, that stand for one token: the query heads that
/// share keys and values, 8 in the largest groups of the bundled models.
const ROWS_OF_A_TOKEN: u32 = 8;

/// What `layer` costs on `cores`, which are all of them.
pub(super) fn execute(layer: &Layer, cpu: &Cpu, rates: &LanguageRates, cores: &CoreSet) -> Result<Tally> {
    if CoreSet::all(cpu).as_ref() != Some(cores) {
        let reason = "the rates of integer weights are known on all cores together, not on some".to_owned();
        return Err(unsupported(layer, reason));
    }
    // A gigabyte a second is a byte a nanosecond.
    let nanos = |bytes: u64| bytes as f64 / rates.bandwidth_gbps.value;
    let macs = layer.operator.macs() as f64;
    let weights = layer.data_type.weight_bytes(layer.operator.parameters());
    let arithmetic = |compute: f64| Shares { compute, ..Shares::default() };
    let traffic = |memory: f64| Shares { memory, ..Shares::default() };
    let (kernel, shares) = if let Some(product) = layer.operator.product_with_weights() {
        let reading = nanos(weights.0);
        let computing = macs / rates.multiply_accumulates_per_ns.value;
        let kernel = if product.rows == 1 { Kernel::Gemv } else { Kernel::Gemm };
        (kernel, if reading > computing { traffic(reading) } else { arithmetic(computing) })
    } else if let Class::Product(product) = layer.operator.class() {
        let is_token = product.rows <= ROWS_OF_A_TOKEN;
        let rate = if is_token {
            &rates.token_context_multiply_accumulates_per_ns
        } else {
            &rates.context_multiply_accumulates_per_ns
        };
        (Kernel::Gemm, arithmetic(macs / rate.value))
    } else {
        (Kernel::Elementwise, traffic(nanos(super::traffic::bytes(layer, None))))
    };
    let mut tally = Tally::new(kernel);
    tally.threads = cores.threads();
    tally.fork = rates.operator_us.value * NANOS_PER_MICRO;
    tally.add_parallel(&Makespan::even(shares.nanos(), tally.threads), &shares);
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::workload::{DataType, Linear, Operator};

    fn nanos(rows: u32, threads: u32) -> Result<f64> {
        let cpu = Profile::load("snapdragon-8elite").unwrap().cpu;
        let linear = Linear { rows, input_features: 4096, output_features: 4096, bias: false };
        let layer = Layer::new(Operator::Linear(linear), DataType::W4A16);
        let cores = CoreSet::fastest(&cpu, threads).unwrap();
        let tally = execute(&layer, &cpu, cpu.language.as_ref().unwrap(), &cores)?;
        Ok(tally.parallel.nanos())
    }

    #[test]
    fn one_row_reads_the_weights_and_many_multiply() {
        let cpu = Profile::load("snapdragon-8elite").unwrap().cpu;
        let rates = cpu.language.unwrap();
        let weights = 4096.0 * 4096.0;
        assert!((nanos(1, 8).unwrap() * rates.bandwidth_gbps.value / weights - 0.5).abs() < 1e-9);
        let many = nanos(256, 8).unwrap() * rates.multiply_accumulates_per_ns.value;
        assert!((many / (256.0 * weights) - 1.0).abs() < 1e-9);
        let times: Vec<f64> = (1..64).map(|rows| nanos(rows, 8).unwrap()).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn some_of_the_cores_have_no_rates() {
        assert!(nanos(1, 3).unwrap_err().to_string().contains("all cores together"));
    }
}
