//! From a workload and a plan to operators on their processors: kernels, weights and memory.

use std::sync::Mutex;
use std::time::Duration;

use coexec_sim::kernel::gpu::{Launch, execute};
use coexec_sim::schedule::Schedule;
use coexec_sim::workload::{CHANNELS_PER_SLICE, Layer, Layout, Shape, Stage};
use coexec_sim::{Gpu, Processor, ProcessorKind, Region};

use super::arrangements::{Arrangements, on_device};
use super::{ExecuteError, Home, HostHome, Machine, Place, Places, Result, Task, Team, joined_stages};
use crate::cpu::{Element, widest_set};
use crate::opencl::{Dispatch, Signals};
use crate::operands::Weights;
use crate::{cpu, opencl, random_operands};

/// Time limit of an operator's first launch, which may include compilation.
pub(super) const FIRST_LAUNCH_LIMIT: Duration = Duration::from_mins(1);
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
    /// The CPU's kernel; `None` if the CPU computes no part.
    pub(super) cpu: Option<CpuKernel<T>>,
    /// The parts of its placement, in order.
    pub(super) parts: Vec<OperationPart<T>>,
}

impl<T: Element> Operation<T> {
    /// The GPU's kernels.
    pub(super) fn gpu(&self) -> impl Iterator<Item = &GpuKernel<T>> {
        self.parts.iter().filter_map(|part| part.gpu.as_ref())
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

/// The parts of a stage: the processor, the computed region with the halo of its chain, and the region that
/// other operators read.
fn regions(
    task: &Task<'_>,
    schedule: &Schedule,
    stage: usize,
) -> impl Iterator<Item = (Processor, [Region; 2])> {
    let whole = Region::of(task.stages[stage].layer.operator.output());
    let parts = task.plan.placements[stage].parts().zip(&schedule.computed[stage]);
    parts.map(move |(part, &computed)| (part.by, [computed, part.region.common(whole)]))
}

/// The tensors of a workload: the operators' results, then its inputs.
pub(super) struct Tensors {
    all: Vec<Tensor>,
    /// By operator: the tensors that it reads.
    pub(super) reads: Vec<Vec<usize>>,
    /// By operator: those that are inputs of the workload, without constants: they are sent in every run.
    pub(super) given: Vec<Vec<usize>>,
    /// By operator: the layout in which the GPU reads them. A tensor in another one is converted first.
    pub(super) read_in: Vec<Layout>,
}

/// A tensor before its memory is allocated.
struct Tensor {
    /// The shape under which the device accesses it, if it does.
    shape: Shape,
    /// Which sides access it.
    on_host: bool,
    on_device: bool,
    /// Whether both sides compute the same elements of it.
    overlaps: bool,
    /// Layout on the device.
    layout: Layout,
    /// The stage that reads it, if it is an input of the workload.
    read_by: Option<usize>,
}

impl Tensors {
    /// Whether an operator reads the result of `stage`.
    pub(super) fn is_read(&self, stage: usize) -> bool {
        self.reads.iter().any(|reads| reads.contains(&stage))
    }
}

/// Prepares the parts of each operator, and what the GPU's kernels read converted. `flags` are those through
/// which kernels announce their ends.
pub(super) fn operations<T: Element>(
    machine: &mut Machine,
    task: &Task<'_>,
    schedule: &Schedule,
    (tensors, places): (&Tensors, &Places<T>),
    flags: Option<&Signals>,
) -> Result<(Vec<Operation<T>>, Arrangements<T>)> {
    let mut arrangements = Arrangements::new(task.stages.len());
    let mut operations = Vec::with_capacity(task.stages.len());
    for (index, Stage { layer, .. }) in task.stages.iter().enumerate() {
        machine.control.check()?;
        let weights = random_operands::weights(&layer.operator, weight_seed(task.seed, index));
        let weights = borrowed(&weights);
        let mut cpu = None;
        if let Some(cores) = task.plan.placements[index].cores() {
            let prepared = Mutex::new(cpu::Prepared::new(layer, &weights, widest_set())?);
            cpu = Some(CpuKernel { prepared, team: machine.team(&cores, &task.profile.cpu)? });
        }
        let mut parts = Vec::new();
        for (by, [computed, owned]) in regions(task, schedule, index) {
            let mut gpu = None;
            if by == Processor::Gpu {
                let profile = task.profile.gpu.as_ref().filter(|_| machine.runtime().is_some());
                let launch = launch(layer, computed, profile.ok_or(ExecuteError::NoGpu)?)?;
                let inputs = arrangements.inputs((index, layer), tensors, places)?;
                let output = on_device(&places.own[index], &layer.operator)?;
                let how = (Dispatch::from(&launch), flags);
                let prepared =
                    opencl::Prepared::announcing(layer, &weights, computed, (&inputs, &output), how)?;
                machine.control.check()?;
                // Drivers finish compiling at a kernel's first launch, which may take longer than the other
                // side's time limit.
                prepared.run(FIRST_LAUNCH_LIMIT)?;
                gpu = Some(GpuKernel { prepared, launch });
            }
            parts.push(OperationPart { computed, owned, gpu });
        }
        operations.push(Operation { layer: layer.clone(), cpu, parts });
    }
    arrangements.plan(schedule, tensors);
    Ok((operations, arrangements))
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

/// The layout in which the GPU reads, by operator, and the layout of each of the `count` tensors on the device: the
/// GPU's own, unless the host accesses a tensor too, or it is read under another shape. What a GPU with its own
/// memory receives is converted once; in shared memory it is read as it is, and so are all inputs of the same
/// operator. Of an input of the workload each side may have its own copy, unless it is sent in every run.
fn layouts(
    machine: &mut Machine,
    task: &Task<'_>,
    (reads, given): (&[Vec<usize>], &[Vec<usize>]),
    (count, sharing): (usize, Option<Home>),
) -> [Vec<Layout>; 2] {
    let stages = task.stages;
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
    let mut is_plain = vec![false; count];
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
    [reads_plain, is_plain].map(|all| all.into_iter().map(layout).collect())
}

/// The tensors of a workload. `sharing` is the memory of those that both sides access, if there are any: a run
/// then starts and ends on the host.
pub(super) fn tensors(
    machine: &mut Machine,
    task: &Task<'_>,
    schedule: &Schedule,
    sharing: Option<Home>,
) -> Tensors {
    let stages = task.stages;
    let mut count = stages.len();
    let reads: Vec<Vec<usize>> = stages.iter().map(|stage| reads(stage, &mut count)).collect();
    let given_of = |(stage, reads): (&Stage, &Vec<usize>)| given(stage, reads, stages.len());
    let given: Vec<Vec<usize>> = stages.iter().zip(&reads).map(given_of).collect();
    let [read_in, layouts] = layouts(machine, task, (&reads, &given), (count, sharing));
    let sides = |stage: usize| {
        let placement = &task.plan.placements[stage];
        [placement.cores().is_some(), placement.uses(ProcessorKind::Gpu)]
    };
    let stored = |stage: usize, shape: Shape| {
        if sides(stage)[1] { opencl::stored(&stages[stage].layer.operator, shape) } else { shape }
    };
    let mut all = Vec::with_capacity(count);
    for (index, stage) in stages.iter().enumerate() {
        let [on_host, on_device] = sides(index);
        let shape = stored(index, stage.layer.operator.output());
        let overlaps = regions(task, schedule, index).any(|(_, [computed, owned])| computed != owned);
        let is_result = !reads.iter().any(|reads| reads.contains(&index));
        let on_host = on_host || is_result && sharing.is_some();
        all.push(Tensor { shape, on_host, on_device, overlaps, layout: layouts[index], read_by: None });
    }
    for (index, stage) in stages.iter().enumerate() {
        let [on_host, on_device] = sides(index);
        for (&read, shape) in reads[index].iter().zip(stage.layer.read_shapes()) {
            let shape = stored(index, shape);
            if read == all.len() {
                let on_host = on_host || sharing.is_some() && given[index].contains(&read);
                let (layout, read_by) = (layouts[read], Some(index));
                all.push(Tensor { shape, on_host, on_device, overlaps: false, layout, read_by });
                continue;
            }
            let tensor = &mut all[read];
            if on_device && !tensor.on_device {
                tensor.shape = shape;
            }
            tensor.on_host |= on_host;
            tensor.on_device |= on_device;
        }
    }
    Tensors { all, reads, given, read_in }
}

/// The launch of `region` of a layer. The dispatch rules treat a part as a layer of its own.
fn launch(layer: &Layer, region: Region, gpu: &Gpu) -> Result<Launch> {
    let (channels, all) = (region.channels, layer.operator.output().channels);
    let is_sliced = |&end: &u32| end.is_multiple_of(CHANNELS_PER_SLICE) || end == all;
    if let Some(&channels) = [channels.start, channels.end].iter().find(|end| !is_sliced(end)) {
        return Err(ExecuteError::CutSlice { operator: layer.operator.to_string(), channels });
    }
    Ok(execute(&region.part_of(layer), gpu)?.detail)
}

/// Allocates all results and inputs.
pub(super) fn places<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    schedule: &Schedule,
    (tensors, sharing): (&Tensors, Option<Home>),
) -> Result<Places<T>> {
    let mut own = Vec::with_capacity(tensors.all.len());
    for (index, tensor) in tensors.all.iter().enumerate() {
        let &Tensor { on_host, on_device, .. } = tensor;
        let count = tensor.shape.elements() as usize;
        let numbers = tensor.read_by.map(|stage| {
            let operator = &task.stages[stage].layer.operator;
            random_operands::input::<T>(operator, count, input_seed(task.seed, index))
        });
        // Each side may have its own copy of an input, in the layout that its kernels prefer.
        let is_apart = numbers.is_some() && sharing.is_some() && tensor.layout != Layout::Buffer;
        let (layout, home) = if on_host && !is_apart {
            (Layout::Buffer, sharing.unwrap_or(Home::Device))
        } else {
            (tensor.layout, Home::Device)
        };
        // Each side has its own copy of a tensor in which both compute the same elements.
        let has_own = on_host && (!on_device || home == Home::Device || tensor.overlaps);
        let host_home = if on_device && !is_apart { HostHome::Pinned } else { HostHome::Pageable };
        own.push(Place::new(
            machine.runtime(),
            tensor.shape,
            on_device.then_some((layout, home)),
            has_own.then_some(host_home),
            numbers.as_deref(),
        )?);
    }
    let joined = joined(machine, task, schedule, (tensors, sharing))?;
    Ok(Places { own, joined, chains: (0..task.stages.len()).map(|stage| task.plan.chain(stage)).collect() })
}

/// For each joined operator whose parts overlap: memory for the whole result. With shared memory
/// the device has it, too, if another operator reads it there.
fn joined<T: Element>(
    machine: &Machine,
    task: &Task<'_>,
    schedule: &Schedule,
    (tensors, sharing): (&Tensors, Option<Home>),
) -> Result<Vec<Option<Place<T>>>> {
    let stages = 0..task.stages.len();
    let mut joined: Vec<_> = stages.clone().map(|_| None).collect();
    let (Some(runtime), Some(sharing)) = (machine.runtime(), sharing) else { return Ok(joined) };
    for stage in joined_stages(schedule).filter(|&stage| tensors.all[stage].overlaps) {
        let reads_it = |&reader: &usize| {
            tensors.reads[reader].contains(&stage) && task.plan.chain(reader) != task.plan.chain(stage)
        };
        let uses_gpu = |reader: usize| task.plan.placements[reader].uses(ProcessorKind::Gpu);
        let is_shared = sharing != Home::Device && stages.clone().filter(reads_it).any(uses_gpu);
        let host = if sharing == Home::Device { HostHome::Pinned } else { HostHome::Pageable };
        joined[stage] = Some(Place::new(
            Some(runtime),
            task.stages[stage].layer.operator.output(),
            is_shared.then_some((Layout::Buffer, sharing)),
            (!is_shared).then_some(host),
            None,
        )?);
    }
    Ok(joined)
}
