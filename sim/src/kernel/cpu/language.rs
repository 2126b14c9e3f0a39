//! A layer on a language-model engine's CPU kernels, on all cores: the times of `kernel::language`,
//! plus a barrier of all threads after each operator.

use super::tally::Shares;
use super::{CoreSet, Kernel, Makespan, NANOS_PER_MICRO, Tally, unsupported};
use crate::device::{Cpu, LanguageRates};
use crate::kernel::Result;
use crate::kernel::language::{LanguageKernel, Work};
use crate::workload::Layer;

/// Cost of `layer` on `cores`, which must be all of the CPU's.
pub(super) fn execute(layer: &Layer, cpu: &Cpu, rates: &LanguageRates, cores: &CoreSet) -> Result<Tally> {
    if CoreSet::all(cpu).as_ref() != Some(cores) {
        let reason = "the rates of integer weights are for all cores together, not for a subset".to_owned();
        return Err(unsupported(layer, reason));
    }
    let Work { kernel, nanos, is_traffic } = Work::of(layer, rates);
    let (memory, compute) = if is_traffic { (nanos, 0.0) } else { (0.0, nanos) };
    let shares = Shares { compute, memory, ..Shares::default() };
    let mut tally = Tally::new(match kernel {
        LanguageKernel::MatrixVector => Kernel::Gemv,
        LanguageKernel::MatrixMatrix | LanguageKernel::Attention => Kernel::Gemm,
        LanguageKernel::Elementwise => Kernel::Elementwise,
    });
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
    fn a_subset_of_the_cores_has_no_rates() {
        assert!(nanos(1, 3).unwrap_err().to_string().contains("all cores together"));
    }
}
