//! Layers on one processor, timed.
//!
//! Responsible for: operands, warm-up, repetitions and the check that what was timed
//! computed the right thing. Not for: which layers, or what their times say.
//! Invariant: a time counts only once the layer's result agreed with the reference.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::device::gpu::Gpu;
use coexec_sim::kernel::gpu::{Kernel, Launch, WINOGRAD_POINTS, WINOGRAD_TILE, execute};
use coexec_sim::plan::Region;
use coexec_sim::workload::{Layer, Shape};

use crate::cpu::packing::Aligned;
use crate::cpu::{self, Available as _, InstructionSet, ThreadPool};
use crate::numbers;
use crate::opencl::{self, Dispatch, Runtime, Tensor};
use crate::operands::{Output, Weights, weight_counts};
use crate::verify::Reference;

/// Elements of a result that are compared with the reference.
const COMPARED: usize = 64;
/// Runs before the first that counts: caches, lazily made kernels, clocks.
const WARM_UP: usize = 2;
/// What one run may take: kernels are also compiled in the first.
const RUN_LIMIT: Duration = Duration::from_secs(30);

/// How often a layer runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Fewest repetitions.
    pub(super) least: usize,
    /// Most repetitions.
    pub(super) most: usize,
    /// Time after which there are no more than the fewest.
    pub(super) time: Duration,
}

/// A layer on the GPU whose result has been found right, with its memory.
pub(super) struct OnGpu {
    pub(super) launch: Launch,
    prepared: opencl::Prepared<f32>,
    /// What a run took when the layer was checked.
    once: Duration,
}

impl Effort {
    /// The effort of one of `rounds`, which come to the whole together.
    pub(super) fn part(&self, rounds: usize) -> Self {
        let rounds = rounds.max(1);
        Self {
            least: self.least.div_ceil(rounds),
            most: self.most.div_ceil(rounds),
            time: self.time / rounds as u32,
        }
    }

    /// Calls `run` often enough.
    pub(super) fn repeat<E>(&self, mut run: impl FnMut() -> Result<f64, E>) -> Result<Vec<f64>, E> {
        let started = Instant::now();
        let mut times = Vec::with_capacity(self.most);
        while times.len() < self.least || (times.len() < self.most && started.elapsed() < self.time) {
            times.push(run()?);
        }
        Ok(times)
    }
}

/// A layer's weights and inputs.
struct Operands {
    kernel: Vec<f32>,
    bias: Vec<f32>,
    inputs: Vec<Vec<f32>>,
}

impl Operands {
    fn of(layer: &Layer) -> Self {
        let operator = &layer.operator;
        let [kernel, bias] = numbers::weights(operator, 0);
        let inputs = (1..).zip(operator.inputs());
        let inputs = inputs.map(|(seed, shape)| numbers::input(operator, shape.elements() as usize, seed));
        Self { kernel, bias, inputs: inputs.collect() }
    }

    fn weights(&self) -> Weights<'_> {
        Weights { kernel: &self.kernel, bias: &self.bias }
    }

    fn inputs(&self) -> Vec<&[f32]> {
        self.inputs.iter().map(Vec::as_slice).collect()
    }

    /// What is wrong with `result`, if anything.
    fn check(&self, layer: &Layer, result: &[f32]) -> Result<(), String> {
        let inputs = self.inputs();
        let reference = Reference::new(layer, self.weights(), &inputs).map_err(|error| error.to_string())?;
        let every = (result.len() / COMPARED).max(1);
        let part = Region::of(layer.operator.output());
        reference.compare(result, part, every).map(drop).map_err(|mismatch| mismatch.to_string())
    }
}

/// About what `layer` takes of the device's memory when `launch` runs it: tensors and
/// weights, and where it is transformed also 36 points for each 16 pixels and 9 weights.
pub(super) fn memory_bytes(layer: &Layer, launch: &Launch) -> u64 {
    let operator = &layer.operator;
    let tensors: u64 = operator.inputs().iter().chain([&operator.output()]).map(Shape::elements).sum();
    let weights: u64 = weight_counts(operator).iter().map(|&count| count as u64).sum();
    let elements = match launch.kernel {
        Kernel::Winograd => {
            let points = u64::from(WINOGRAD_POINTS);
            let tile = u64::from(WINOGRAD_TILE * WINOGRAD_TILE);
            tensors + tensors * points / tile + weights * points / 9
        }
        _ => tensors + weights,
    };
    elements * size_of::<f32>() as u64
}

impl OnGpu {
    /// Prepares `layer` on the device as the rules of `gpu` launch it, and checks what it
    /// computes. The error says why it cannot be timed.
    pub(super) fn new(runtime: &Arc<Runtime>, gpu: &Gpu, layer: &Layer) -> Result<Self, String> {
        let launch = execute(layer, gpu).map_err(|error| error.to_string())?.detail;
        let dispatch = Dispatch::from(&launch);
        let operands = Operands::of(layer);
        let layout = runtime.layout(gpu.layout());
        let failed = |error: opencl::OpenClError| error.to_string();
        let whole = Region::of(layer.operator.output());
        let weights = operands.weights();
        let mut prepared =
            opencl::Prepared::<f32>::new(runtime, layer, &weights, whole, [layout; 2], dispatch)
                .map_err(failed)?;
        let mut inputs = Vec::new();
        for (shape, numbers) in prepared.input_shapes().into_iter().zip(&operands.inputs) {
            inputs.push(Arc::new(Tensor::of(runtime, shape, layout, numbers).map_err(failed)?));
        }
        let output = Tensor::new(runtime, prepared.output_shape(), layout, opencl::Home::Device);
        let output = Arc::new(output.map_err(failed)?);
        prepared.bind(inputs, Arc::clone(&output)).map_err(failed)?;
        prepared.run(RUN_LIMIT).map_err(failed)?;
        let once = prepared.run(RUN_LIMIT).map_err(failed)?.device;
        operands.check(layer, &output.read().map_err(failed)?)?;
        Ok(Self { launch, prepared, once: Duration::from_secs_f64(once.as_micros() / 1e6) })
    }

    /// Launches it several times, one behind the other as the layers of an inference are:
    /// microseconds of each launch but the first, which wakes sleeping cores and clocks
    /// and brings data into the caches.
    pub(super) fn visit(&self, effort: Effort) -> Result<Vec<f64>, String> {
        let fit = effort.time.as_secs_f64() / self.once.as_secs_f64().max(f64::MIN_POSITIVE);
        let count = (fit as usize).clamp(effort.least, effort.most);
        let timings = self.prepared.run_times(1 + count, RUN_LIMIT).map_err(|error| error.to_string())?;
        Ok(timings.iter().skip(1).map(|timing| timing.device.as_micros()).collect())
    }
}

/// Runs `layer` on the threads of a pool: its times in microseconds. Operands start on
/// cache lines, as those do that a GPU shares: vectors across two lines would take a time
/// that depends on luck. The error says why it cannot be timed.
pub(super) fn on_cpu(pool: &mut ThreadPool, layer: &Layer, effort: Effort) -> Result<Vec<f64>, String> {
    let operands = Operands::of(layer);
    let weights = operands.weights();
    let set = InstructionSet::detect();
    let mut prepared = cpu::Prepared::<f32>::new(layer, &weights, set).map_err(|error| error.to_string())?;
    let inputs: Vec<Aligned<f32>> = operands.inputs.iter().map(|input| Aligned::of(input)).collect();
    let inputs: Vec<&[f32]> = inputs.iter().map(Aligned::as_slice).collect();
    let part = Region::of(layer.operator.output());
    let mut result = Aligned::<f32>::zeros(layer.operator.output().elements() as usize);
    let mut run = || {
        let started = Instant::now();
        let outcome = prepared.run(pool, &inputs, &mut Output::from(result.as_mut_slice()), part);
        outcome.map_err(|error| error.to_string())?;
        Ok::<f64, String>(started.elapsed().as_secs_f64() * 1e6)
    };
    for _ in 0..WARM_UP {
        run()?;
    }
    let times = effort.repeat(run)?;
    operands.check(layer, result.as_slice())?;
    Ok(times)
}

#[cfg(test)]
mod tests {
    use coexec_sim::workload::{DataType, Linear, Operator};

    use super::*;

    const EFFORT: Effort = Effort { least: 3, most: 5, time: Duration::ZERO };

    #[test]
    fn a_layer_is_timed_at_least_as_often_as_is_needed() {
        let linear = Linear { rows: 5, input_features: 16, output_features: 8, bias: true };
        let layer = Layer::new(Operator::Linear(linear), DataType::F32);
        for threads in [1, 2] {
            let times = on_cpu(&mut ThreadPool::new(threads).unwrap(), &layer, EFFORT).unwrap();
            assert_eq!(times.len(), 3);
            assert!(times.iter().all(|&time| time > 0.0));
        }
    }

    #[test]
    fn a_wrong_result_is_noticed() {
        let linear = Linear { rows: 2, input_features: 4, output_features: 4, bias: false };
        let layer = Layer::new(Operator::Linear(linear), DataType::F32);
        assert!(Operands::of(&layer).check(&layer, &[100.0; 8]).is_err());
    }
}
