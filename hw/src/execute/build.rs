//! From a workload and a plan to operators on the processors that compute them: kernels, weights and memory.

use coexec_sim::kernel::gpu::{Launch, execute};
use coexec_sim::schedule::Schedule;
use coexec_sim::workload::{CHANNELS_PER_SLICE, Layer, Layout, Shape, Stage};
use coexec_sim::{Gpu, Processor, ProcessorKind, Region};

use super::{ExecuteError, Home, HostHome, Machine, Place, Result, Task, Team, Touched, joined_stages};
use crate::cpu::{Element, widest_set};
use crate::opencl::{Dispatch, Signals};
use crate::operands::{Weights, linked_operands};
use crate::{cpu, opencl, random_operands};

/// Seeds of different tensors lie this far apart.
const SEED_STEP: u64 = 1_000_003;

/// What the CPU needs to compute parts of an operator.
pub(super) struct CpuKernel<T: Element> {
    pub(super) prepared: cpu::Prepared<T>,
    pub(super) team: Team,
}

/// What the GPU needs to compute a part of an operator.
pub(super) struct GpuKernel<T: Element> {
    pub(super) prepared: opencl::Prepared<T>,
    pub(super) launch: Launch,
}

/// A part of an operator.
pub(super) struct OperationPart<T: Element> {
    /// What is computed, the halo of its chain included.
    pub(super) computed: Region,
    /// What others have of it.
    pub(super) owned: Region,
    /// The kernel, where the GPU computes it; the CPU otherwise.
    pub(super) gpu: Option<GpuKernel<T>>,
}

/// One operator.
pub(super) struct Operation<T: Element> {
    pub(super) layer: Layer,
    /// Numbers of the tensors it reads.
    pub(super) reads: Vec<usize>,
    /// The chain it belongs to.
    pub(super) chain: Option<u32>,
    /// Where the CPU computes some of it.
    pub(super) cpu: Option<CpuKernel<T>>,
    /// Layout in which the GPU is given what it reads.
    pub(super) layout: Layout,
    /// As the plan places them.
    pub(super) parts: Vec<OperationPart<T>>,
}

impl<T: Element> Operation<T> {
    /// The GPU's kernels.
    pub(super) fn gpu(&self) -> impl Iterator<Item = &GpuKernel<T>> {
        self.parts.iter().filter_map(|part| part.gpu.as_ref())
    }

    /// Whether processors compute some of the result each for itself.
    pub(super) fn overlaps(&self) -> bool {
        self.parts.iter().any(|part| part.computed != part.owned)
    }
}

/// Weights as kernels take them.
pub(super) fn borrowed(weights: &[Vec<f32>; 2]) -> Weights<'_> {
    Weights { kernel: &weights[0], bias: &weights[1] }
}

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
    schedule: &Schedule,
    (sharing, flags): (Option<Home>, Option<&Signals>),
) -> Result<Vec<Operation<T>>> {
    let mut next_input = task.stages.len();
    let mut operations = Vec::with_capacity(task.stages.len());
    for (index, stage) in task.stages.iter().enumerate() {
        let operator = &stage.layer.operator;
        let reads = reads(stage, task.stages, &mut next_input);
        let weights = random_operands::weights(operator, weight_seed(task.seed, index));
        let weights = borrowed(&weights);
        let inputs_only = reads.iter().all(|&read| read >= task.stages.len());
        let placement = &task.plan.placements[index];
        let is_on_gpu = placement.uses(ProcessorKind::Gpu);
        let given = if is_on_gpu { layout(machine, task, sharing, inputs_only) } else { Layout::Buffer };
        let read = match (sharing, &task.profile.gpu) {
            // Images have limits that a copy in the host's layout does not have.
            (Some(Home::Device), Some(gpu)) if gpu.layout() == Layout::SlicedBuffer => Layout::SlicedBuffer,
            _ => given,
        };
        let mut cpu = None;
        if let Some(cores) = placement.cores() {
            let prepared = cpu::Prepared::new(&stage.layer, &weights, widest_set())?;
            cpu = Some(CpuKernel { prepared, team: machine.team(&cores, &task.profile.cpu)? });
        }
        let mut parts = Vec::new();
        for (part, &computed) in placement.parts().zip(&schedule.computed[index]) {
            let owned = part.region.common(Region::of(operator.output()));
            let gpu = match part.by {
                Processor::Cpu(_) | Processor::Npu(_) => None,
                Processor::Gpu => {
                    let shared = (sharing.is_some(), flags);
                    Some(on_gpu(machine, task, (&stage.layer, &weights, computed), [given, read], shared)?)
                }
            };
            parts.push(OperationPart { computed, owned, gpu });
        }
        let (layer, chain) = (stage.layer.clone(), task.plan.chain(index));
        operations.push(Operation { layer, reads, chain, cpu, layout: given, parts });
    }
    Ok(operations)
}

/// Numbers of the tensors that `stage` reads, in order: results by the stage's number, inputs
/// of the workload by the next free one. A stage lists the stages it reads in order and
/// leaves the workload's inputs out; each is matched with the first tensor it fits.
fn reads(stage: &Stage, stages: &[Stage], next_input: &mut usize) -> Vec<usize> {
    let own = stage.layer.operator.inputs().len();
    let mut waiting = stage.inputs.iter().copied().peekable();
    let mut tensor_of = |(position, shape): (usize, Shape)| {
        let fits = |producer: &usize| {
            let result = stages[*producer].layer.operator.output();
            let is_broadcast = position >= own && result.elements() == u64::from(shape.channels);
            result.elements() == shape.elements() || is_broadcast
        };
        waiting.next_if(fits).unwrap_or_else(|| {
            *next_input += 1;
            *next_input - 1
        })
    };
    read_shapes(&stage.layer).into_iter().enumerate().map(&mut tensor_of).collect()
}

/// Extents of the tensors that `layer` reads: its operator's, then one of the output's
/// extent for each linked function of two tensors.
fn read_shapes(layer: &Layer) -> Vec<Shape> {
    let linked = std::iter::repeat_n(layer.operator.output(), linked_operands(layer));
    layer.operator.input_shapes().chain(linked).collect()
}

/// Layout of what an operator reads on the device: its own where it shares nothing of it
/// with the host, or reads the workload's inputs only, of which each side may have its
/// own. What is copied back and forth has the host's; kernels that read it again and again
/// arrange it first.
fn layout(machine: &mut Machine, task: &Task<'_>, sharing: Option<Home>, inputs_only: bool) -> Layout {
    let may_differ = match sharing {
        // A product of activations sees the results it reads under another extent.
        None => !task.stages.iter().any(|stage| stage.layer.operator.multiplies_activations()),
        Some(Home::Device) => false,
        Some(Home::Shared | Home::Mapped) => inputs_only,
    };
    match &task.profile.gpu {
        Some(gpu) if may_differ => machine.layout(gpu.layout()),
        _ => Layout::Buffer,
    }
}

fn on_gpu<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    (layer, weights, region): (&Layer, &Weights<'_>, Region),
    layouts: [Layout; 2],
    (is_shared, flags): (bool, Option<&Signals>),
) -> Result<GpuKernel<T>> {
    let runtime = machine.runtime().ok_or(ExecuteError::NoGpu)?;
    let gpu: &Gpu = task.profile.gpu.as_ref().ok_or(ExecuteError::NoGpu)?;
    let (channels, all) = (region.channels, layer.operator.output().channels);
    let is_sliced = |&end: &u32| end.is_multiple_of(CHANNELS_PER_SLICE) || end == all;
    if let Some(&channels) = [channels.start, channels.end].iter().find(|end| !is_sliced(end)) {
        return Err(ExecuteError::CutSlice { operator: layer.operator.to_string(), channels });
    }
    // The rules see a part as the layer that computes only the part.
    let alone = region.part_of(layer);
    let launch = execute(&alone, gpu)?.detail;
    let (layouts, result) = if is_shared { (layouts, Layout::Buffer) } else { ([layouts[0]; 2], layouts[0]) };
    let how = (Dispatch::from(&launch), flags);
    let prepared = opencl::Prepared::announcing(runtime, layer, weights, region, (layouts, result), how)?;
    Ok(GpuKernel { prepared, launch })
}

/// Memory for all results and inputs.
pub(super) fn places<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    operations: &[Operation<T>],
    sharing: Option<Home>,
) -> Result<Vec<Place<T>>> {
    let tensors = tensors(operations, sharing.is_some());
    let mut places = Vec::with_capacity(tensors.len());
    for (index, tensor) in tensors.into_iter().enumerate() {
        let count = tensor.shape.elements() as usize;
        let numbers = tensor.read_by.map(|stage| {
            let operator = &operations[stage].layer.operator;
            random_operands::input::<T>(operator, count, input_seed(task.seed, index))
        });
        let Touched { host, device } = tensor.touched;
        // Of an input each side may have what its kernels like best, with nothing copied.
        let is_apart = numbers.is_some() && sharing.is_some() && tensor.layout != Layout::Buffer;
        let (layout, home) = if host && !is_apart {
            (Layout::Buffer, sharing.unwrap_or(Home::Device))
        } else {
            (tensor.layout, Home::Device)
        };
        // What both sides compute some of, each has for itself.
        let has_own = host && (!device || home == Home::Device || tensor.overlaps);
        let host_home = if device && !is_apart { HostHome::Pinned } else { HostHome::Pageable };
        places.push(Place::new(
            machine.runtime(),
            tensor.shape,
            device.then_some((layout, home)),
            has_own.then_some(host_home),
            numbers.as_deref(),
        )?);
    }
    Ok(places)
}

/// Of each operator whose parts overlap and are joined: memory for all of its result, which
/// the device has too where others read it there and memory is shared.
pub(super) fn joined<T: Element>(
    machine: &Machine,
    operations: &[Operation<T>],
    schedule: &Schedule,
    sharing: Option<Home>,
) -> Result<Vec<Option<Place<T>>>> {
    let mut joined: Vec<_> = operations.iter().map(|_| None).collect();
    let (Some(runtime), Some(sharing)) = (machine.runtime(), sharing) else { return Ok(joined) };
    for stage in joined_stages(schedule).filter(|&stage| operations[stage].overlaps()) {
        let shape = operations[stage].layer.operator.output();
        let reads_it =
            |reader: &Operation<T>| reader.reads.contains(&stage) && reader.chain != operations[stage].chain;
        let device = operations.iter().any(|reader| reads_it(reader) && reader.gpu().next().is_some());
        let is_shared = device && sharing != Home::Device;
        let host = if sharing == Home::Device { HostHome::Pinned } else { HostHome::Pageable };
        joined[stage] = Some(Place::new(
            Some(runtime),
            shape,
            is_shared.then_some((Layout::Buffer, sharing)),
            (!is_shared).then_some(host),
            None,
        )?);
    }
    Ok(joined)
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
        let (touched, overlaps) = (touched_by(operation), operation.overlaps());
        let own = operation.layer.operator.output();
        let shape = operation.gpu().next().map_or(own, |gpu| gpu.prepared.output_shape());
        let layout = if meets { Layout::Buffer } else { operation.layout };
        tensors.push(Tensor { shape, touched, overlaps, layout, read_by: None });
    }
    for (stage, operation) in operations.iter().enumerate() {
        let shapes = shapes_read(operation);
        let touched = touched_by(operation);
        for (&read, shape) in operation.reads.iter().zip(shapes) {
            if read == tensors.len() {
                let touched = Touched { host: touched.host || meets, ..touched };
                let layout = operation.layout;
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
    Touched { host: operation.cpu.is_some(), device: operation.gpu().next().is_some() }
}

/// Extents of what an operator reads, as the device has them where it takes part.
fn shapes_read<T: Element>(operation: &Operation<T>) -> Vec<Shape> {
    let shapes = read_shapes(&operation.layer);
    let Some(gpu) = operation.gpu().next() else { return shapes };
    let stored = gpu.prepared.input_shapes();
    let output = gpu.prepared.output_shape();
    (0..shapes.len()).map(|position| stored.get(position).copied().unwrap_or(output)).collect()
}
