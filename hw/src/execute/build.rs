//! From a workload and a plan to kernels, weights and memory.

use coexec_sim::device::gpu::Gpu;
use coexec_sim::kernel::gpu::execute;
use coexec_sim::workload::{Layer, Layout, Operator, Shape};

use super::machine::Machine;
use super::parts::{self, Portion};
use super::place::{Place, Sharing, Touched};
use super::program::{CpuPart, GpuPart, Operation, Task, borrowed};
use super::schedule::{Copies, Node, Schedule, Sides};
use super::wiring::{Read, read_shapes, reads};
use super::{ExecuteError, numbers};
use crate::cpu::{self, Available as _, Element, InstructionSet};
use crate::opencl::signals::Signals;
use crate::opencl::{self, Dispatch};
use crate::operands::{Part, Weights};

/// Seeds of different tensors lie this far apart.
const SEED_STEP: u64 = 1_000_003;

/// Seed of the weights of stage number `stage`.
pub(super) fn weight_seed(seed: u64, stage: usize) -> u64 {
    seed.wrapping_add(SEED_STEP.wrapping_mul(2 * stage as u64 + 1))
}

fn input_seed(seed: u64, tensor: usize) -> u64 {
    seed.wrapping_add(SEED_STEP.wrapping_mul(2 * tensor as u64 + 2))
}

/// The operators with their parts prepared; `sharing` is how tensors are kept that both
/// sides access, if there are any, and `flags` those through which kernels announce
/// themselves.
pub(super) fn operations<T: Element>(
    machine: &mut Machine,
    task: &Task<'_>,
    sharing: Option<Sharing>,
    flags: Option<&Signals>,
) -> Result<Vec<Operation<T>>, ExecuteError> {
    let mut next_input = task.stages.len();
    let mut operations = Vec::with_capacity(task.stages.len());
    let portions = parts::portions(task.stages, task.plan)?;
    for (index, (stage, portions)) in task.stages.iter().zip(portions).enumerate() {
        let tensor_of = |read| match read {
            Read::Stage(stage) => stage,
            Read::Input => {
                next_input += 1;
                next_input - 1
            }
        };
        let reads: Vec<usize> = reads(stage, task.stages).into_iter().map(tensor_of).collect();
        let weights = numbers::weights(&stage.layer.operator, weight_seed(task.seed, index));
        let weights = borrowed(&weights);
        let overlaps = portions.overlap();
        let cpu = match (portions.cpu, task.plan.placements[index].cores()) {
            (Some(portion), Some(cores)) => {
                let set = InstructionSet::detect();
                let prepared = cpu::Prepared::new(&stage.layer, &weights, set)?;
                Some(CpuPart { prepared, portion, team: machine.team(&cores, &task.profile.cpu)? })
            }
            _ => None,
        };
        let gpu = match portions.gpu {
            Some(portion) => {
                let inputs_only = reads.iter().all(|&read| read >= task.stages.len());
                let given = layout(machine, task, sharing, inputs_only);
                let read = match (sharing, &task.profile.gpu) {
                    // Images have limits that a copy in the host's layout does not have.
                    (Some(Sharing::Copies), Some(gpu)) if gpu.layout() == Layout::SlicedBuffer => {
                        Layout::SlicedBuffer
                    }
                    _ => given,
                };
                let shared = (sharing.is_some(), flags);
                Some(on_gpu(machine, task, (&stage.layer, &weights, portion), [given, read], shared)?)
            }
            None => None,
        };
        let chain = task.plan.chain(index);
        operations.push(Operation { layer: stage.layer.clone(), reads, chain, overlaps, cpu, gpu });
    }
    Ok(operations)
}

/// Layout of what an operator reads on the device: its own where it shares nothing of it
/// with the host, or reads the workload's inputs only, of which each side may have its
/// own. What is copied back and forth has the host's; kernels that read it again and again
/// arrange it first.
fn layout(machine: &mut Machine, task: &Task<'_>, sharing: Option<Sharing>, inputs_only: bool) -> Layout {
    let may_differ = match sharing {
        // A product of activations sees the results it reads under another extent.
        None => !task.stages.iter().any(|stage| matches!(stage.layer.operator, Operator::MatMul(_))),
        Some(Sharing::Copies) => false,
        Some(Sharing::SharedVirtualMemory | Sharing::MappedBuffers) => inputs_only,
    };
    match &task.profile.gpu {
        Some(gpu) if may_differ => machine.layout(gpu.layout()),
        _ => Layout::Buffer,
    }
}

fn on_gpu<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    (layer, weights, portion): (&Layer, &Weights<'_>, Portion),
    layouts: [Layout; 2],
    (is_shared, flags): (bool, Option<&Signals>),
) -> Result<GpuPart<T>, ExecuteError> {
    let runtime = machine.runtime().ok_or(ExecuteError::NoGpu)?;
    let gpu: &Gpu = task.profile.gpu.as_ref().ok_or(ExecuteError::NoGpu)?;
    // The rules see a part as the layer that computes only the part.
    let (part, whole) = (&portion.part, Part::whole(&layer.operator));
    let alone = if part.channels != whole.channels {
        layer.with_output_channels(part.channels.len() as u32)
    } else if part.lines != whole.lines {
        layer.with_output_rows(part.lines.clone())
    } else {
        layer.clone()
    };
    let launch = execute(&alone, gpu)?.detail;
    let dispatch = Dispatch::of(&alone, &launch);
    let prepared = if is_shared {
        opencl::Prepared::announcing(runtime, layer, weights, part, layouts, (dispatch, flags))
    } else {
        opencl::Prepared::new(runtime, layer, weights, part, [layouts[0]; 2], dispatch)
    }?;
    Ok(GpuPart { prepared, portion, launch, layout: layouts[0] })
}

/// Memory for all results and inputs.
pub(super) fn places<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    operations: &[Operation<T>],
    sharing: Option<Sharing>,
) -> Result<Vec<Place<T>>, ExecuteError> {
    let tensors = tensors(operations, sharing.is_some());
    let mut places = Vec::with_capacity(tensors.len());
    for (index, tensor) in tensors.into_iter().enumerate() {
        let count = tensor.shape.elements() as usize;
        let numbers = tensor.read_by.map(|stage| {
            let operator = &operations[stage].layer.operator;
            numbers::input::<T>(operator, count, input_seed(task.seed, index))
        });
        let runtime = machine.runtime();
        let layout = tensor.layout;
        // What both compute some of, each has for itself.
        let memory = sharing.filter(|_| !tensor.overlaps).unwrap_or(Sharing::Copies);
        let place = match (numbers.as_deref(), runtime) {
            (Some(numbers), Some(runtime))
                if sharing.is_some() && tensor.touched.device && layout != Layout::Buffer =>
            {
                Place::apart(runtime, tensor.shape, tensor.touched, layout, numbers)
            }
            (numbers, _) => Place::new(runtime, tensor.shape, tensor.touched, layout, memory, numbers),
        };
        places.push(place?);
    }
    Ok(places)
}

/// A tensor before it has memory.
struct Tensor {
    shape: Shape,
    touched: Touched,
    /// Both sides compute some of it.
    overlaps: bool,
    /// On the device.
    layout: Layout,
    /// For an input of the workload: the stage that reads it.
    read_by: Option<usize>,
}

/// Results of all stages, then their inputs. Where both sides meet, a run starts and
/// ends with the host.
fn tensors<T: Element>(operations: &[Operation<T>], meets: bool) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = Vec::new();
    for operation in operations {
        let touched = touched_by(operation);
        let own = operation.layer.operator.output();
        let shape = operation.gpu.as_ref().map_or(own, |gpu| gpu.prepared.output_shape());
        let layout = operation.gpu.as_ref().filter(|_| !meets).map_or(Layout::Buffer, |gpu| gpu.layout);
        tensors.push(Tensor { shape, touched, overlaps: operation.overlaps, layout, read_by: None });
    }
    for (stage, operation) in operations.iter().enumerate() {
        let shapes = shapes_read(operation);
        let touched = touched_by(operation);
        for (&read, shape) in operation.reads.iter().zip(shapes) {
            if read == tensors.len() {
                let touched = Touched { host: touched.host || meets, ..touched };
                let layout = operation.gpu.as_ref().map_or(Layout::Buffer, |gpu| gpu.layout);
                tensors.push(Tensor { shape, touched, overlaps: false, layout, read_by: Some(stage) });
                continue;
            }
            let tensor = &mut tensors[read];
            if touched.device && !tensor.touched.device {
                // The device sees the extent that it reads.
                tensor.shape = shape;
            }
            tensor.touched.host |= touched.host;
            tensor.touched.device |= touched.device;
        }
    }
    for (stage, tensor) in tensors.iter_mut().take(operations.len()).enumerate() {
        let is_result = !operations.iter().any(|operation| operation.reads.contains(&stage));
        tensor.touched.host |= is_result && meets;
    }
    tensors
}

fn touched_by<T: Element>(operation: &Operation<T>) -> Touched {
    Touched { host: operation.cpu.is_some(), device: operation.gpu.is_some() }
}

/// Extents of what an operator reads, as the device has them where it takes part.
fn shapes_read<T: Element>(operation: &Operation<T>) -> Vec<Shape> {
    let shapes = read_shapes(&operation.layer);
    let Some(gpu) = &operation.gpu else { return shapes };
    let stored = gpu.prepared.input_shapes();
    let output = gpu.prepared.output_shape();
    (0..shapes.len()).map(|position| stored.get(position).copied().unwrap_or(output)).collect()
}

/// The order in which both sides run.
pub(super) fn schedule<T: Element>(operations: &[Operation<T>], places: &[Place<T>]) -> Schedule {
    let node = |operation: &Operation<T>| Node {
        sides: Sides { cpu: operation.cpu.is_some(), gpu: operation.gpu.is_some() },
        reads: operation.reads.clone(),
        chain: operation.chain,
    };
    let nodes: Vec<Node> = operations.iter().map(node).collect();
    let overlaps = |tensor: usize| operations.get(tensor).is_some_and(|operation| operation.overlaps);
    let copies =
        |(tensor, place): (usize, &Place<T>)| Copies { twice: place.is_copied(), overlaps: overlaps(tensor) };
    let copies: Vec<Copies> = places.iter().enumerate().map(copies).collect();
    Schedule::new(&nodes, &copies)
}
