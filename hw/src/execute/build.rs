//! From a workload and a plan to operators on their processors: kernels, weights and memory.

use std::sync::Mutex;

use coexec_sim::kernel::gpu::{Launch, execute};
use coexec_sim::schedule::Schedule;
use coexec_sim::workload::{CHANNELS_PER_SLICE, Layer, Layout, Shape, Stage};
use coexec_sim::{Gpu, Processor, ProcessorKind, Region};

use super::{Accesses, ExecuteError, Home, HostHome, Machine, Place, Result, Task, Team, joined_stages};
use crate::cpu::{Element, widest_set};
use crate::opencl::{Dispatch, Signals};
use crate::operands::Weights;
use crate::{cpu, opencl, random_operands};

/// Distance between the seeds of different tensors.
const SEED_STEP: u64 = 1_000_003;

/// The CPU's kernel of an operator, and its threads.
pub(super) struct CpuKernel<T: Element> {
    /// Locked while it computes, in buffers of its own.
    pub(super) prepared: Mutex<cpu::Prepared<T>>,
    pub(super) team: Team,
}

/// The GPU's kernel of a part of an operator.
pub(super) struct GpuKernel<T: Element> {
    pub(super) prepared: opencl::Prepared<T>,
    pub(super) launch: Launch,
}

/// A part of an operator.
pub(super) struct OperationPart<T: Element> {
    /// The computed region, including the halo of its chain.
    pub(super) computed: Region,
    /// The region that other operators read from this part.
    pub(super) owned: Region,
    /// The GPU's kernel; `None` if the CPU computes the part.
    pub(super) gpu: Option<GpuKernel<T>>,
}

/// One operator.
pub(super) struct Operation<T: Element> {
    pub(super) layer: Layer,
    /// Indices of the tensors that it reads.
    pub(super) reads: Vec<usize>,
    /// Those that are inputs of the workload, without constants: they are sent in every run.
    pub(super) given: Vec<usize>,
    /// The chain it belongs to; `None` outside of chains.
    pub(super) chain: Option<u32>,
    /// The CPU's kernel; `None` if the CPU computes no part.
    pub(super) cpu: Option<CpuKernel<T>>,
    /// Layout in which the GPU reads its inputs.
    pub(super) read_in: Layout,
    /// The parts of its placement, in order.
    pub(super) parts: Vec<OperationPart<T>>,
}

impl<T: Element> Operation<T> {
    /// The GPU's kernels.
    pub(super) fn gpu(&self) -> impl Iterator<Item = &GpuKernel<T>> {
        self.parts.iter().filter_map(|part| part.gpu.as_ref())
    }

    /// Whether several processors compute the same elements (halos).
    pub(super) fn overlaps(&self) -> bool {
        self.parts.iter().any(|part| part.computed != part.owned)
    }
}

/// Borrows a kernel and a bias as operands.
pub(super) fn borrowed(weights: &[Vec<f32>; 2]) -> Weights<'_> {
    Weights { kernel: &weights[0], bias: &weights[1] }
}

/// Seed of the weights of stage `stage`.
pub(super) fn weight_seed(seed: u64, stage: usize) -> u64 {
    seed.wrapping_add(SEED_STEP.wrapping_mul(2 * stage as u64 + 1))
}

fn input_seed(seed: u64, tensor: usize) -> u64 {
    seed.wrapping_add(SEED_STEP.wrapping_mul(2 * tensor as u64 + 2))
}

/// The tensors of a workload: the operators' results, then its inputs.
pub(super) struct Tensors {
    /// By operator: the tensors that it reads.
    reads: Vec<Vec<usize>>,
    /// By operator: those that are inputs of the workload, without constants.
    given: Vec<Vec<usize>>,
    /// By operator: the layout in which the GPU reads them.
    read_in: Vec<Layout>,
    /// By tensor: its layout on the GPU. If another one is read, it is converted first.
    layouts: Vec<Layout>,
}

/// Prepares the parts of each operator. `sharing` is the memory of tensors that both sides access,
/// if there are any; `flags` are those through which kernels announce their ends.
pub(super) fn operations<T: Element>(
    machine: &mut Machine,
    task: &Task<'_>,
    schedule: &Schedule,
    tensors: &Tensors,
    flags: Option<&Signals>,
) -> Result<Vec<Operation<T>>> {
    let mut operations = Vec::with_capacity(task.stages.len());
    for (index, stage) in task.stages.iter().enumerate() {
        machine.control.check()?;
        let operator = &stage.layer.operator;
        let weights = random_operands::weights(operator, weight_seed(task.seed, index));
        let weights = borrowed(&weights);
        let placement = &task.plan.placements[index];
        let layouts = [tensors.read_in[index], tensors.layouts[index]];
        let mut cpu = None;
        if let Some(cores) = placement.cores() {
            let prepared = cpu::Prepared::new(&stage.layer, &weights, widest_set())?;
            let prepared = Mutex::new(prepared);
            cpu = Some(CpuKernel { prepared, team: machine.team(&cores, &task.profile.cpu)? });
        }
        let mut parts = Vec::new();
        for (part, &computed) in placement.parts().zip(&schedule.computed[index]) {
            let owned = part.region.common(Region::of(operator.output()));
            let gpu = match part.by {
                Processor::Cpu(_) | Processor::Npu(_) => None,
                Processor::Gpu => {
                    Some(on_gpu(machine, task, (&stage.layer, &weights, computed), layouts, flags)?)
                }
            };
            parts.push(OperationPart { computed, owned, gpu });
        }
        let (layer, chain) = (stage.layer.clone(), task.plan.chain(index));
        let (reads, given) = (tensors.reads[index].clone(), tensors.given[index].clone());
        operations.push(Operation { layer, reads, given, chain, cpu, read_in: layouts[0], parts });
    }
    Ok(operations)
}

/// Indices of the tensors that `stage` reads, in order: a result has the index of its stage, an
/// input of the workload the next free index.
fn reads(stage: &Stage, next_input: &mut usize) -> Vec<usize> {
    let tensor_at = |position| {
        if let Some(read) = stage.reads.iter().find(|read| read.position == position) {
            return read.input;
        }
        *next_input += 1;
        *next_input - 1
    };
    (0..stage.layer.read_shapes().count()).map(tensor_at).collect()
}

/// Those of the tensors `reads` of `stage` that are inputs of a workload of `stages` stages, without constants.
fn given(stage: &Stage, reads: &[usize], stages: usize) -> Vec<usize> {
    let is_given =
        |&(position, &read): &(usize, &usize)| read >= stages && !stage.constants.contains(&position);
    reads.iter().enumerate().filter(is_given).map(|(_, &read)| read).collect()
}

/// The tensors and their layouts on the device: the GPU's own, unless the host accesses a tensor too, or it is
/// read under another shape. What a GPU with its own memory receives is converted once; in shared memory it is
/// read as it is, and so are all inputs of the same operator. Of an input of the workload each side may have
/// its own copy, unless it is sent in every run.
pub(super) fn tensors(machine: &mut Machine, task: &Task<'_>, sharing: Option<Home>) -> Tensors {
    let stages = task.stages;
    let mut count = stages.len();
    let reads: Vec<Vec<usize>> = stages.iter().map(|stage| reads(stage, &mut count)).collect();
    let uses = |stage: usize, kind| task.plan.placements[stage].uses(kind);
    let own = match &task.profile.gpu {
        Some(gpu) if (0..stages.len()).any(|stage| uses(stage, ProcessorKind::Gpu)) => {
            machine.layout(gpu.layout())
        }
        _ => Layout::Buffer,
    };
    let runtime = machine.runtime();
    let fits = |shape| {
        own != Layout::Image
            || runtime.is_none_or(|runtime| opencl::Tensor::<f32>::fits_image(runtime, shape))
    };
    // Products of activations store their tensors as other operators do not.
    let reshapes = |stage: &Stage| stage.layer.operator.multiplies_activations();
    let is_sent = sharing == Some(Home::Device);
    let mut is_plain = vec![false; stages.len()];
    is_plain.resize(count, false);
    let given_of = |(stage, reads): (&Stage, &Vec<usize>)| given(stage, reads, stages.len());
    let given: Vec<Vec<usize>> = stages.iter().zip(&reads).map(given_of).collect();
    for &input in given.iter().flatten() {
        is_plain[input] = is_sent;
    }
    let mut reads_plain: Vec<bool> = stages.iter().map(reshapes).collect();
    for (index, stage) in stages.iter().enumerate() {
        let is_read = reads.iter().any(|reads| reads.contains(&index));
        is_plain[index] |=
            uses(index, ProcessorKind::Cpu) || reshapes(stage) || sharing.is_some() && !is_read;
        for (&read, shape) in reads[index].iter().zip(stage.layer.read_shapes()) {
            let found = stages.get(read).map_or(shape, |producer| producer.layer.operator.output());
            reads_plain[index] |= stages.get(read).is_some_and(reshapes);
            is_plain[read] |= read < stages.len() && uses(index, ProcessorKind::Cpu);
            reads_plain[index] |= found != shape || !fits(found);
        }
    }
    let mut has_changed = true;
    while std::mem::take(&mut has_changed) {
        for (reads, reads_plain) in reads.iter().zip(&mut reads_plain) {
            *reads_plain |= !is_sent && reads.iter().any(|&read| is_plain[read]);
            for &read in reads.iter().filter(|_| *reads_plain) {
                has_changed |= !std::mem::replace(&mut is_plain[read], true);
            }
        }
    }
    let layout = |is_plain| if is_plain { Layout::Buffer } else { own };
    let [read_in, layouts] = [reads_plain, is_plain].map(|all| all.into_iter().map(layout).collect());
    Tensors { reads, given, read_in, layouts }
}

fn on_gpu<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    (layer, weights, region): (&Layer, &Weights<'_>, Region),
    layouts: [Layout; 2],
    flags: Option<&Signals>,
) -> Result<GpuKernel<T>> {
    let runtime = machine.runtime().ok_or(ExecuteError::NoGpu)?;
    let gpu: &Gpu = task.profile.gpu.as_ref().ok_or(ExecuteError::NoGpu)?;
    let (channels, all) = (region.channels, layer.operator.output().channels);
    let is_sliced = |&end: &u32| end.is_multiple_of(CHANNELS_PER_SLICE) || end == all;
    if let Some(&channels) = [channels.start, channels.end].iter().find(|end| !is_sliced(end)) {
        return Err(ExecuteError::CutSlice { operator: layer.operator.to_string(), channels });
    }
    // The dispatch rules treat a part as a layer of its own.
    let alone = region.part_of(layer);
    let launch = execute(&alone, gpu)?.detail;
    let how = (Dispatch::from(&launch), flags);
    let prepared = opencl::Prepared::announcing(runtime, layer, weights, region, layouts, how)?;
    Ok(GpuKernel { prepared, launch })
}

/// Allocates all results and inputs.
pub(super) fn places<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    operations: &[Operation<T>],
    (Tensors { layouts, .. }, sharing): (&Tensors, Option<Home>),
) -> Result<Vec<Place<T>>> {
    let tensors = accessed(operations, layouts, sharing.is_some());
    let mut places = Vec::with_capacity(tensors.len());
    for (index, tensor) in tensors.into_iter().enumerate() {
        let count = tensor.shape.elements() as usize;
        let numbers = tensor.read_by.map(|stage| {
            let operator = &operations[stage].layer.operator;
            random_operands::input::<T>(operator, count, input_seed(task.seed, index))
        });
        let Accesses { host, device } = tensor.accesses;
        // Each side may have its own copy of an input, in the layout that its kernels prefer.
        let is_apart = numbers.is_some() && sharing.is_some() && tensor.layout != Layout::Buffer;
        let (layout, home) = if host && !is_apart {
            (Layout::Buffer, sharing.unwrap_or(Home::Device))
        } else {
            (tensor.layout, Home::Device)
        };
        // Each side has its own copy of a tensor in which both compute the same elements.
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

/// For each joined operator whose parts overlap: memory for the whole result. With shared memory
/// the device has it, too, if another operator reads it there.
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

/// A tensor before its memory is allocated.
struct Tensor {
    shape: Shape,
    accesses: Accesses,
    /// Whether both sides compute the same elements of it.
    overlaps: bool,
    /// Layout on the device.
    layout: Layout,
    /// The stage that reads it, if it is an input of the workload.
    read_by: Option<usize>,
}

/// The results of all stages, then the workload's inputs. With `meets`, a run starts and ends on
/// the host.
fn accessed<T: Element>(operations: &[Operation<T>], layouts: &[Layout], meets: bool) -> Vec<Tensor> {
    let mut tensors: Vec<Tensor> = Vec::new();
    for (operation, &layout) in operations.iter().zip(layouts) {
        let (accesses, overlaps) = (accesses_of(operation), operation.overlaps());
        let own = operation.layer.operator.output();
        let shape = operation.gpu().next().map_or(own, |gpu| gpu.prepared.output_shape());
        tensors.push(Tensor { shape, accesses, overlaps, layout, read_by: None });
    }
    for (stage, operation) in operations.iter().enumerate() {
        let shapes = shapes_read(operation);
        let accesses = accesses_of(operation);
        for (&read, shape) in operation.reads.iter().zip(shapes) {
            if read == tensors.len() {
                let host = accesses.host || meets && operation.given.contains(&read);
                let accesses = Accesses { host, ..accesses };
                let layout = layouts[read];
                tensors.push(Tensor { shape, accesses, overlaps: false, layout, read_by: Some(stage) });
                continue;
            }
            let tensor = &mut tensors[read];
            if accesses.device && !tensor.accesses.device {
                // The device needs the shape under which it reads the tensor.
                tensor.shape = shape;
            }
            tensor.accesses.host |= accesses.host;
            tensor.accesses.device |= accesses.device;
        }
    }
    for (stage, tensor) in tensors.iter_mut().take(operations.len()).enumerate() {
        let is_result = !operations.iter().any(|operation| operation.reads.contains(&stage));
        tensor.accesses.host |= is_result && meets;
    }
    tensors
}

fn accesses_of<T: Element>(operation: &Operation<T>) -> Accesses {
    Accesses { host: operation.cpu.is_some(), device: operation.gpu().next().is_some() }
}

/// Shapes of an operator's inputs, as stored on the device if it computes a part.
pub(super) fn shapes_read<T: Element>(operation: &Operation<T>) -> Vec<Shape> {
    operation
        .gpu()
        .next()
        .map_or_else(|| operation.layer.read_shapes().collect(), |gpu| gpu.prepared.input_shapes().collect())
}
