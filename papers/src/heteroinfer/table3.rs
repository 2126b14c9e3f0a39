//! Table 3: matrix products timed one by one.

use super::{Runs, id};
use crate::{Comparison, Result};
use coexec_sim::simulate::execute;
use coexec_sim::workload::{DataType, Layer, Linear, Operator};
use coexec_sim::{Picos, Processor};

/// Largest relative deviation of the end of a range that counts as agreement.
const RANGE_TOLERANCE: f64 = 0.15;

/// A weight matrix of the table: output and input features.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weight {
    pub(super) output: u32,
    pub(super) input: u32,
}

pub(super) const SQUARE: Weight = Weight { output: 4096, input: 4096 };
pub(super) const WIDE: Weight = Weight { output: 28672, input: 4096 };
pub(super) const DOWN: Weight = Weight { output: 4096, input: 14336 };

impl Weight {
    pub(super) fn fact(self, tokens: &str, quantity: &str) -> String {
        let Self { output, input } = self;
        id(&format!("weight-{output}x{input}-activation-{input}x{tokens}/{quantity}"))
    }

    fn layer(self, rows: u32) -> Layer {
        let Self { output, input } = self;
        let linear = Linear { rows, input_features: input, output_features: output, bias: false };
        Layer::new(Operator::Linear(linear), DataType::W4A16)
    }
}

/// Time of a product on the GPU, timed on its own, in microseconds.
pub(super) fn on_gpu(runs: Runs<'_>, weight: Weight, rows: u32) -> Result<f64> {
    let layer = weight.layer(rows);
    let kernels = runs.device.gpu.as_ref().and_then(|gpu| gpu.language.as_ref());
    let (phases, _) = execute(&layer, runs.device, runs.library(), Processor::Gpu)?;
    let Some((kernels, alone)) = kernels.and_then(|kernels| Some((kernels, kernels.stand_alone.as_ref()?)))
    else {
        return Ok(phases.duration().as_micros());
    };
    let inside = if rows == 1 {
        let bytes = layer.data_type.weight_bytes(layer.operator.parameters());
        bytes.0 as f64 / (alone.bandwidth_gbps.value * 1e3)
    } else {
        (phases.duration().saturating_sub(Picos::from_micros(kernels.launch_us.value))).as_micros()
    };
    Ok(alone.overhead_us.value + inside)
}

/// Time of a product on the NPU, in a graph of exactly `rows` rows, in microseconds.
pub(super) fn on_npu(runs: Runs<'_>, weight: Weight, rows: u32) -> Result<f64> {
    let mut device = runs.device.clone();
    if let Some(npu) = device.npu.as_mut().and_then(|npu| npu.systolic.as_mut()) {
        npu.graph_sizes.clear();
    }
    let (phases, _) = execute(&weight.layer(rows), &device, runs.library(), Processor::NPU)?;
    Ok(phases.duration().as_micros())
}

pub(super) fn compare(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let rows = [(SQUARE, 1), (WIDE, 1), (DOWN, 1), (SQUARE, 128), (SQUARE, 256), (DOWN, 256)];
    for (weight, tokens) in rows {
        let fact = |quantity| weight.fact(&tokens.to_string(), quantity);
        comparison.row(fact("gpu-latency"), on_gpu(runs, weight, tokens)?);
        comparison.row(fact("npu-latency"), on_npu(runs, weight, tokens)?);
    }
    ranges(comparison, runs)
}

/// The time of a product on one processor, in microseconds.
type Time = fn(Runs<'_>, Weight, u32) -> Result<f64>;

/// A row for a range of lengths: the weight, the lengths and the quantity as in ids of facts, the time,
/// and the tokens and published microseconds of both ends.
type Range = (Weight, &'static str, &'static str, Time, [(u32, f64); 2]);

/// Rows for ranges of lengths whose times the paper's solver estimated; both ends are compared.
fn ranges(comparison: &mut Comparison, runs: Runs<'_>) -> Result {
    let ranges: [Range; 5] = [
        (SQUARE, "-193-255", "gpu-latency", on_gpu, [(193, 9_000.0), (255, 11_000.0)]),
        (SQUARE, "-257-272", "gpu-latency", on_gpu, [(257, 11_000.0), (272, 11_000.0)]),
        (SQUARE, "-257-272", "npu-latency", on_npu, [(256, 1_900.0), (256, 1_900.0)]),
        (DOWN, "-257-384", "gpu-latency", on_gpu, [(257, 35_000.0), (384, 50_000.0)]),
        (DOWN, "-257-384", "npu-latency", on_npu, [(256, 23_000.0), (384, 32_000.0)]),
    ];
    for (weight, tokens, quantity, time, ends) in ranges {
        let mut parts = Vec::new();
        let mut agrees = true;
        for (rows, published) in ends {
            let ours = time(runs, weight, rows)?;
            let deviation = ours / published - 1.0;
            agrees &= deviation.abs() <= RANGE_TOLERANCE;
            parts.push(format!("{rows} tokens: {ours:.0} us ({:+.1} %)", 100.0 * deviation));
        }
        parts.dedup();
        comparison.finding(weight.fact(tokens, quantity), parts.join(", "), agrees);
    }
    Ok(())
}
