//! Time of a layer on the GPU kernels of a language-model engine.
//!
//! Products of one row (decode) are bound by reading every weight once. Products of many
//! rows (prefill) first dequantise the weights to 16 bits, in a pass whose time does not
//! depend on the rows, then multiply at a rate of their own (`HeteroInfer`, SOSP'25, Table 3
//! and figure 1: a constant plus a term linear in the rows). With few rows, one matrix-vector
//! product per row is faster. Everything else is bound by the tensors it reads and writes.

use crate::device::LanguageKernels;
use crate::kernel::language::{LanguageKernel, LanguageLaunch};
use crate::kernel::{Execution, Phase, PhaseKind, Phases};
use crate::units::{Bytes, BytesPerSecond, PICOS_PER_SECOND, Picos};
use crate::workload::{Class, Layer};

/// How `layer` runs without memory contention.
pub fn execute(layer: &Layer, kernels: &LanguageKernels) -> Execution<LanguageLaunch> {
    let activation_bytes = layer.data_type.activation_bytes();
    let output = layer.operator.output();
    let linked = layer.linked.operand_tensors(output) * output.elements() as f64;
    let tensors = layer.operator.input_elements() + output.elements() + linked as u64;
    let activations = Bytes(tensors.saturating_mul(activation_bytes));
    let weights = layer.data_type.weight_bytes(layer.operator.parameters());
    let traffic = |bytes| traffic_us(bytes, kernels);
    let (kernel, bytes, micros) = match layer.operator.class() {
        Class::Product(product) if product.trained => {
            let rows = u64::from(product.rows);
            let read = Bytes(weights.0.saturating_mul(rows)) + activations;
            let by_row = traffic(read);
            let whole = weights + activations;
            let count = layer.operator.parameters() as f64;
            let at_once =
                (count * kernels.weight_ns.value * 1e-3 + arithmetic_us(layer, kernels)).max(traffic(whole));
            if by_row <= at_once {
                (LanguageKernel::MatrixVector, read, by_row)
            } else {
                (LanguageKernel::MatrixMatrix, whole, at_once)
            }
        }
        Class::Product(_) => {
            let micros = traffic(activations).max(arithmetic_us(layer, kernels));
            (LanguageKernel::Attention, activations, micros)
        }
        Class::Gather(table) => {
            let bytes = Bytes(2 * u64::from(table.rows) * u64::from(table.features) * activation_bytes);
            (LanguageKernel::Elementwise, bytes, traffic(bytes))
        }
        Class::Recurrent(recurrent) => {
            let read = Bytes(weights.0.saturating_mul(u64::from(recurrent.steps))) + activations;
            (LanguageKernel::MatrixVector, read, traffic(read))
        }
        Class::Generic(generic) => {
            let bytes = Bytes(generic.moved().saturating_mul(activation_bytes));
            (LanguageKernel::Elementwise, bytes, traffic(bytes))
        }
        Class::Convolution(_)
        | Class::Depthwise(_)
        | Class::Pool(_)
        | Class::Reduction(_)
        | Class::Elementwise(_)
        | Class::Movement(_) => (LanguageKernel::Elementwise, activations, traffic(activations)),
    };
    let phases = Phases::from_iter([
        Phase::new(PhaseKind::Launch, Picos::from_micros(kernels.launch_us.value), Bytes::ZERO),
        Phase::new(PhaseKind::FullRounds, Picos::from_micros(micros), bytes),
    ]);
    let traffic_time = Picos::from_micros(traffic(bytes));
    Execution { phases, detail: LanguageLaunch { kernel, bytes, traffic_time } }
}

/// Time to move `bytes` at the kernels' bandwidth, in microseconds.
fn traffic_us(bytes: Bytes, kernels: &LanguageKernels) -> f64 {
    let bandwidth = BytesPerSecond::from_gigabytes(kernels.bandwidth_gbps.value);
    bytes.0 as f64 / bandwidth.0 * PICOS_PER_SECOND / 1e6
}

/// Time of the multiply-accumulates of a product, in microseconds.
fn arithmetic_us(layer: &Layer, kernels: &LanguageKernels) -> f64 {
    const OPERATIONS_PER_MULTIPLY_ACCUMULATE: f64 = 2.0;
    const OPERATIONS_PER_MICRO_AND_TERAFLOPS: f64 = 1e6;
    let operations = OPERATIONS_PER_MULTIPLY_ACCUMULATE * layer.operator.macs() as f64;
    operations / (kernels.product_teraflops.value * OPERATIONS_PER_MICRO_AND_TERAFLOPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::workload::{DataType, Linear, Operator};

    fn kernels() -> LanguageKernels {
        let profile = Profile::load("snapdragon-8gen3").unwrap();
        profile.gpu.unwrap().language.unwrap()
    }

    fn linear(rows: u32, input_features: u32, output_features: u32) -> Layer {
        let operator = Operator::Linear(Linear { rows, input_features, output_features, bias: false });
        Layer::new(operator, DataType::W4A16)
    }

    fn micros(layer: &Layer) -> f64 {
        execute(layer, &kernels()).phases.duration().as_micros()
    }

    #[test]
    fn prefill_products_agree_with_table_3_of_heteroinfer() {
        for (rows, input, output, published, tolerance) in [
            (128, 4096, 4096, 7306.0, 0.002),
            (256, 4096, 4096, 10841.0, 0.002),
            (256, 14336, 4096, 35231.0, 0.08),
        ] {
            let alone = kernels().stand_alone.unwrap().overhead_us.value - kernels().launch_us.value;
            let found = alone + micros(&linear(rows, input, output));
            assert!((found / published - 1.0).abs() < tolerance, "{rows} rows: {found} us");
        }
    }

    #[test]
    fn a_product_of_one_row_is_bound_by_its_weights() {
        let layer = linear(1, 4096, 4096);
        let execution = execute(&layer, &kernels());
        assert_eq!(execution.detail.kernel, LanguageKernel::MatrixVector);
        let weights = 4096.0 * 4096.0 / 2.0;
        assert!(execution.detail.bytes.0 as f64 / weights < 1.01);
        let rate = execution.detail.bytes.0 as f64 / execution.detail.traffic_time.as_seconds() / 1e9;
        assert!((rate - 43.3).abs() < 0.01, "{rate} GB/s");
    }

    #[test]
    fn more_rows_never_take_less() {
        let times: Vec<f64> = (1..200).map(|rows| micros(&linear(rows, 4096, 1024))).collect();
        assert!(times.is_sorted());
    }

    #[test]
    fn wider_weights_take_longer_to_read() {
        let formats = [DataType::W4A16, DataType::W8A16];
        let [four, eight] = formats.map(|data_type| {
            execute(&Layer { data_type, ..linear(1, 4096, 4096) }, &kernels()).detail.traffic_time.as_micros()
        });
        assert!((eight / four - 2.0).abs() < 0.01);
    }
}
