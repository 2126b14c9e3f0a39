//! From a plan to an engine program: which tasks there are, on which processor,
//! and what each waits for.
//!
//! A stage becomes one compute task a processor, preceded by a hand-over where
//! an input lies with another processor, and followed by a join where two
//! processors computed parts of it. The join runs on the CPU, which handles the
//! flags; what the GPU is given later waits for it, as an in-order queue with a
//! polling kernel does (EPEW'25, section 4).

mod visible;

use serde::{Serialize, Serializer};

use super::host::Host;
use super::memory::cluster_client;
use super::{LONGEST_RUN, SimulateError, Simulator};
use crate::device::gpu::Direction;
use crate::device::profile::Profile;
use crate::engine::{ClientId, ProcessorId, Program, TaskId};
use crate::kernel::cpu::{self, CoreSet, Library};
use crate::kernel::{Phase, Phases, gpu, npu};
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Placement, Plan, ShareOf};
use crate::units::{Bytes, BytesPerSecond, Picos};
use crate::workload::{Layer, Layout, Stage, Tensor};
use visible::{Residence, check_room, synchronising};

pub(crate) use visible::{
    copying, hand_over_delay, has_own_memory, join_delay, part_of_result, pieces, read_bytes,
};

/// The processors coexec plans for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Processor {
    /// A set of CPU cores.
    Cpu,
    /// The GPU.
    Gpu,
    /// The NPU.
    Npu,
}

impl Processor {
    /// All of them, in the order they are reported.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Gpu, Self::Npu];

    pub(crate) fn id(self) -> ProcessorId {
        ProcessorId(self as u8)
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a task does for its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Computes the stage, or this processor's channels of it.
    Compute,
    /// Makes another processor's result visible to this one.
    HandOver,
    /// Copies between the GPU's own memory and the host's.
    Transfer(Direction),
    /// Brings the parts of a cut stage together.
    Join,
    /// Gets the GPU's queue to its first launch; once an inference.
    Submit,
    /// Gets the GPU's result to the caller; once an inference.
    ReadBack,
}

/// Why a compute task takes as long as it does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// A CPU schedule on a core set.
    Cpu {
        /// The cores.
        #[serde(serialize_with = "as_text")]
        cores: CoreSet,
        /// How they share the work.
        schedule: cpu::Schedule,
    },
    /// A GPU launch.
    Gpu(gpu::Launch),
    /// An NPU schedule.
    Npu(npu::Schedule),
}

fn as_text<S: Serializer>(cores: &CoreSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cores)
}

/// One task of the engine program and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) stage: usize,
    pub(crate) processor: Processor,
    pub(crate) role: Role,
    /// Its part of the stage, where that is cut.
    pub(crate) share: Option<ShareOf>,
    pub(crate) phases: Phases,
    /// The core set, for a task of the CPU.
    pub(crate) cores: Option<CoreSet>,
    /// Whom others disturb when they disturb it, where not its processor.
    pub(crate) client: Option<ClientId>,
    pub(crate) detail: Option<Detail>,
    pub(crate) predecessors: Vec<TaskId>,
}

impl Task {
    /// Identical flows its traffic consists of: the threads that take part.
    fn streams(&self) -> u32 {
        match &self.detail {
            Some(Detail::Cpu { schedule, .. }) => schedule.threads.max(1),
            _ => 1,
        }
    }
}

/// How one processor runs a layer alone.
///
/// # Errors
/// The device has no such processor, or it has no kernel for the layer.
pub fn execute(
    layer: &Layer,
    device: &Profile,
    library: Library,
    processor: Processor,
    cores: Option<CoreSet>,
) -> Result<(Phases, Detail), SimulateError> {
    let (mut phases, detail) = match (processor, cores) {
        (Processor::Cpu, Some(cores)) => {
            let execution = cpu::execute(layer, &device.cpu, &cores, library)?;
            (execution.phases, Detail::Cpu { cores, schedule: execution.detail })
        }
        (Processor::Gpu, _) => {
            let gpu = device.gpu.as_ref().ok_or_else(|| SimulateError::absent("GPU", device))?;
            let execution = gpu::execute(layer, gpu)?;
            (execution.phases, Detail::Gpu(execution.detail))
        }
        (Processor::Npu, _) => {
            let npu = device.npu.as_ref().ok_or_else(|| SimulateError::absent("NPU", device))?;
            let execution = npu::execute(layer, npu)?;
            (execution.phases, Detail::Npu(execution.detail))
        }
        (Processor::Cpu, None) => return Err(SimulateError::absent("CPU core set", device)),
    };
    phases.limit_rate(peak_bandwidth(device, processor));
    if phases.duration() > LONGEST_RUN {
        return Err(SimulateError::TooLong { what: layer.operator.to_string() });
    }
    Ok((phases, detail))
}

/// What the interface of the memory that `processor` uses moves at best.
fn peak_bandwidth(device: &Profile, processor: Processor) -> BytesPerSecond {
    let own = device.gpu.as_ref().and_then(|gpu| gpu.memory.as_ref());
    match own.filter(|_| processor == Processor::Gpu) {
        Some(memory) => memory.bandwidth(),
        None => BytesPerSecond::from_gigabytes(device.memory.peak_bandwidth_gbps.value),
    }
}

/// [`execute`], of a layer inside what is measured: a launch of a whole inference
/// has its part of the host path.
pub(super) fn execute_measured(
    layer: &Layer,
    device: &Profile,
    library: Library,
    host: Host<'_>,
    processor: Processor,
    cores: Option<CoreSet>,
) -> Result<(Phases, Detail), SimulateError> {
    let (phases, detail) = execute(layer, device, library, processor, cores)?;
    let phases = if processor == Processor::Gpu { host.launch(phases) } else { phases };
    Ok((phases, detail))
}

/// A plan as tasks.
#[derive(Debug, Default)]
pub(crate) struct Lowered {
    pub(crate) tasks: Vec<Task>,
    /// Whether what the GPU computes spares the shared memory.
    gpu_has_own_memory: bool,
}

impl Lowered {
    /// Lowers `plan` for `stages` on the device of `simulator`, with its measure.
    pub(crate) fn new(
        stages: &[Stage],
        plan: &Plan,
        simulator: &Simulator<'_>,
    ) -> Result<Self, SimulateError> {
        if plan.placements.len() != stages.len() {
            return Err(SimulateError::PlanLength {
                placements: plan.placements.len(),
                stages: stages.len(),
            });
        }
        check_room(stages, plan, simulator)?;
        let mut lowering = Lowering {
            device: simulator.device,
            library: simulator.library,
            host: simulator.host,
            mechanism: plan.synchronisation,
            tasks: Vec::new(),
            residences: Vec::with_capacity(stages.len()),
            last_join: None,
            submission: None,
            submitted: false,
            ends_on_host: simulator.ends_on_host,
        };
        for (index, (stage, placement)) in stages.iter().zip(&plan.placements).enumerate() {
            lowering.stage(index, stage, *placement)?;
        }
        lowering.results_onto_host(stages);
        lowering.read_back();
        Ok(Self { tasks: lowering.tasks, gpu_has_own_memory: has_own_memory(simulator.device) })
    }

    /// Writes the tasks into an engine program, each compute task stretched by
    /// its factor of `stretch` (1 where that is shorter).
    pub(crate) fn write(&self, program: &mut Program, stretch: &[f64]) {
        program.clear();
        let mut stretched;
        for (index, task) in self.tasks.iter().enumerate() {
            let mut phases = match stretch.get(index) {
                Some(&factor) if task.role == Role::Compute => {
                    stretched = Phases::default();
                    for phase in task.phases.as_slice() {
                        stretched.push(Phase { duration: phase.duration.scale(factor), ..*phase });
                    }
                    &stretched
                }
                _ => &task.phases,
            };
            let elsewhere;
            if self.gpu_has_own_memory && task.processor == Processor::Gpu && task.role == Role::Compute {
                elsewhere = phases.without_traffic();
                phases = &elsewhere;
            }
            let id = program.task(task.processor.id(), task.streams(), phases.as_slice());
            if let Some(client) = task.client {
                program.moves_as(id, client);
            }
            for &predecessor in &task.predecessors {
                program.after(id, predecessor);
            }
        }
    }
}

struct Lowering<'a> {
    device: &'a Profile,
    library: Library,
    host: Host<'a>,
    mechanism: Mechanism,
    tasks: Vec<Task>,
    residences: Vec<Residence>,
    last_join: Option<TaskId>,
    /// What fills the GPU's queue.
    submission: Option<TaskId>,
    /// Whether the GPU has been given something.
    submitted: bool,
    /// Whether inputs and results of the workload lie with the host.
    ends_on_host: bool,
}

impl Lowering<'_> {
    fn stage(&mut self, index: usize, stage: &Stage, placement: Placement) -> Result<(), SimulateError> {
        let bytes = result_bytes(&stage.layer);
        let residence = match placement {
            Placement::Cpu(cores) => {
                let ready = self.compute(index, stage, &stage.layer, Processor::Cpu, Some(cores), None)?;
                Residence { processors: Processor::Cpu.bit(), ready, bytes, on_gpu: Bytes::ZERO, rows: 1 }
            }
            Placement::Gpu => {
                let ready = self.compute(index, stage, &stage.layer, Processor::Gpu, None, None)?;
                Residence { processors: Processor::Gpu.bit(), ready, bytes, on_gpu: Bytes::ZERO, rows: 1 }
            }
            Placement::Npu => {
                let ready = self.compute(index, stage, &stage.layer, Processor::Npu, None, None)?;
                Residence { processors: Processor::Npu.bit(), ready, bytes, on_gpu: Bytes::ZERO, rows: 1 }
            }
            Placement::Split { cores, .. } | Placement::HeightSplit { cores, .. } => {
                let Some([cpu_layer, gpu_layer]) = placement.parts(&stage.layer) else {
                    return Err(SimulateError::NothingToUse);
                };
                let shares = placement.shares();
                self.submit(index);
                let cpu = self.compute(
                    index,
                    stage,
                    &cpu_layer,
                    Processor::Cpu,
                    Some(cores),
                    shares.map(|[cpu, _]| cpu),
                )?;
                let gpu =
                    self.compute(index, stage, &gpu_layer, Processor::Gpu, None, shares.map(|[_, gpu]| gpu))?;
                let of_gpu = part_of_result(&gpu_layer, placement);
                let gpu = self.part_onto_host(index, of_gpu, gpu);
                let ready = self.join(index, bytes, cores, [cpu, gpu]);
                let shared = if has_own_memory(self.device) { 0 } else { Processor::Gpu.bit() };
                let rows = part_of_result(&cpu_layer, placement).rows;
                Residence {
                    processors: Processor::Cpu.bit() | shared,
                    ready,
                    bytes,
                    on_gpu: of_gpu.bytes,
                    rows,
                }
            }
        };
        self.residences.push(residence);
        Ok(())
    }

    /// Adds the compute task of `layer`, and the hand-overs it needs before.
    fn compute(
        &mut self,
        index: usize,
        stage: &Stage,
        layer: &Layer,
        processor: Processor,
        cores: Option<CoreSet>,
        share: Option<ShareOf>,
    ) -> Result<TaskId, SimulateError> {
        let mut predecessors = Vec::with_capacity(stage.inputs.len() + 1);
        if processor == Processor::Gpu {
            self.submit(index);
            predecessors.extend(self.inputs_onto_gpu(index, stage));
        }
        if processor == Processor::Cpu && self.host.delays_the_cpu() {
            predecessors.extend(self.submission);
        }
        for &input in &stage.inputs {
            predecessors.push(self.visible(index, processor, cores, input));
        }
        if processor == Processor::Gpu {
            predecessors.extend(self.last_join);
        }
        let (phases, detail) =
            execute_measured(layer, self.device, self.library, self.host, processor, cores)?;
        Ok(self.push(Task {
            stage: index,
            processor,
            role: Role::Compute,
            share,
            phases,
            cores,
            client: cores.and_then(|cores| cluster_client(self.device, &cores)),
            detail: Some(detail),
            predecessors,
        }))
    }

    fn join(&mut self, stage: usize, bytes: Bytes, cores: CoreSet, parts: [TaskId; 2]) -> TaskId {
        let delay = join_delay(self.device, self.mechanism, bytes);
        let join = self.push(Task {
            stage,
            processor: Processor::Cpu,
            role: Role::Join,
            share: None,
            phases: synchronising(delay),
            cores: Some(cores),
            client: None,
            detail: None,
            predecessors: parts.to_vec(),
        });
        self.last_join = Some(join);
        join
    }

    /// Before the GPU's first launch. The queue is filled from the call on, whatever
    /// the other processors do meanwhile.
    fn submit(&mut self, stage: usize) {
        if !std::mem::replace(&mut self.submitted, true)
            && let Some(duration) = self.host.submission()
        {
            self.submission = Some(self.once(stage, Role::Submit, duration, Vec::new()));
        }
    }

    /// After the last stage, where the GPU alone has its result; the CPU pays for
    /// what it reads elsewhere with a hand-over or a join.
    fn read_back(&mut self) {
        let Some(last) = self.residences.last().copied() else { return };
        if last.processors == Processor::Gpu.bit()
            && let Some(duration) = self.host.read_back()
        {
            self.once(self.residences.len() - 1, Role::ReadBack, duration, vec![last.ready]);
        }
    }

    /// Adds what the GPU's queue waits for once an inference.
    fn once(&mut self, stage: usize, role: Role, duration: Picos, predecessors: Vec<TaskId>) -> TaskId {
        self.push(Task {
            stage,
            processor: Processor::Gpu,
            role,
            share: None,
            phases: synchronising(duration),
            cores: None,
            client: None,
            detail: None,
            predecessors,
        })
    }

    fn push(&mut self, task: Task) -> TaskId {
        let id = TaskId(self.tasks.len() as u32);
        self.tasks.push(task);
        id
    }
}

/// Bytes of a layer's result.
pub(crate) fn result_bytes(layer: &Layer) -> Bytes {
    let tensor =
        Tensor { shape: layer.operator.output(), data_type: layer.data_type, layout: Layout::Buffer };
    tensor.bytes()
}
