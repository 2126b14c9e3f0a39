//! From a plan to an engine program: which tasks there are, on which processor,
//! and what each waits for.
//!
//! A stage becomes one compute task a processor, preceded by a hand-over where
//! an input lies with another processor, and followed by a join where two
//! processors computed parts of it. The join runs on the CPU, which handles the
//! flags; what the GPU is given later waits for it, as an in-order queue with a
//! polling kernel does (EPEW'25, section 4).

use serde::{Serialize, Serializer};

use super::host::Host;
use super::{LONGEST_RUN, SimulateError, Simulator};
use crate::device::profile::Profile;
use crate::engine::{ProcessorId, Program, TaskId};
use crate::kernel::cpu::{self, CoreSet, Library};
use crate::kernel::{Phase, PhaseKind, Phases, gpu, npu};
use crate::plan::synchronisation::{self, Mechanism};
use crate::plan::{Placement, Plan};
use crate::units::{Bytes, BytesPerSecond, Picos};
use crate::workload::{Layer, Layout, Stage, Tensor};

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
    pub(crate) channels: Option<u32>,
    pub(crate) phases: Phases,
    /// The core set, for a task of the CPU.
    pub(crate) cores: Option<CoreSet>,
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

/// Where the result of a stage is visible, and the task that finishes it there.
#[derive(Clone, Copy, Debug)]
struct Residence {
    processors: u8,
    ready: TaskId,
    bytes: Bytes,
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
    phases.limit_rate(BytesPerSecond::from_gigabytes(device.memory.peak_bandwidth_gbps.value));
    if phases.duration() > LONGEST_RUN {
        return Err(SimulateError::TooLong { what: layer.operator.to_string() });
    }
    Ok((phases, detail))
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
        let mut lowering = Lowering {
            device: simulator.device,
            library: simulator.library,
            host: simulator.host,
            mechanism: plan.synchronisation,
            tasks: Vec::new(),
            residences: Vec::with_capacity(stages.len()),
            last_join: None,
            submitted: false,
        };
        for (index, (stage, placement)) in stages.iter().zip(&plan.placements).enumerate() {
            lowering.stage(index, stage, *placement)?;
        }
        lowering.read_back();
        Ok(Self { tasks: lowering.tasks })
    }

    /// Writes the tasks into an engine program, each compute task stretched by
    /// its factor of `stretch` (1 where that is shorter).
    pub(crate) fn write(&self, program: &mut Program, stretch: &[f64]) {
        program.clear();
        let mut stretched;
        for (index, task) in self.tasks.iter().enumerate() {
            let phases = match stretch.get(index) {
                Some(&factor) if task.role == Role::Compute => {
                    stretched = Phases::default();
                    for phase in task.phases.as_slice() {
                        stretched.push(Phase { duration: phase.duration.scale(factor), ..*phase });
                    }
                    &stretched
                }
                _ => &task.phases,
            };
            let id = program.task(task.processor.id(), task.streams(), phases.as_slice());
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
    /// Whether the GPU has been given something.
    submitted: bool,
}

impl Lowering<'_> {
    fn stage(&mut self, index: usize, stage: &Stage, placement: Placement) -> Result<(), SimulateError> {
        let bytes = result_bytes(&stage.layer);
        let residence = match placement {
            Placement::Cpu(cores) => {
                let ready = self.compute(index, stage, &stage.layer, Processor::Cpu, Some(cores), None)?;
                Residence { processors: Processor::Cpu.bit(), ready, bytes }
            }
            Placement::Gpu => {
                let ready = self.compute(index, stage, &stage.layer, Processor::Gpu, None, None)?;
                Residence { processors: Processor::Gpu.bit(), ready, bytes }
            }
            Placement::Npu => {
                let ready = self.compute(index, stage, &stage.layer, Processor::Npu, None, None)?;
                Residence { processors: Processor::Npu.bit(), ready, bytes }
            }
            Placement::Split { cores, cpu_channels, gpu_channels } => {
                let cpu_layer = stage.layer.with_output_channels(cpu_channels);
                let gpu_layer = stage.layer.with_output_channels(gpu_channels);
                let cpu =
                    self.compute(index, stage, &cpu_layer, Processor::Cpu, Some(cores), Some(cpu_channels))?;
                let gpu = self.compute(index, stage, &gpu_layer, Processor::Gpu, None, Some(gpu_channels))?;
                let ready = self.join(index, bytes, cores, [cpu, gpu]);
                Residence { processors: Processor::Cpu.bit() | Processor::Gpu.bit(), ready, bytes }
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
        channels: Option<u32>,
    ) -> Result<TaskId, SimulateError> {
        if processor == Processor::Gpu {
            self.submit(index);
        }
        let mut predecessors = Vec::with_capacity(stage.inputs.len() + 1);
        for &input in &stage.inputs {
            let residence = self.residences[input];
            if residence.processors & processor.bit() != 0 {
                predecessors.push(residence.ready);
                continue;
            }
            let ready = self.hand_over(index, processor, cores, residence);
            self.residences[input].processors |= processor.bit();
            predecessors.push(ready);
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
            channels,
            phases,
            cores,
            detail: Some(detail),
            predecessors,
        }))
    }

    fn hand_over(
        &mut self,
        stage: usize,
        processor: Processor,
        cores: Option<CoreSet>,
        residence: Residence,
    ) -> TaskId {
        let with_gpu = processor == Processor::Gpu || residence.processors == Processor::Gpu.bit();
        let delay = hand_over_delay(self.device, self.mechanism, residence.bytes, with_gpu);
        self.push(Task {
            stage,
            processor,
            role: Role::HandOver,
            channels: None,
            phases: synchronising(delay),
            cores,
            detail: None,
            predecessors: vec![residence.ready],
        })
    }

    fn join(&mut self, stage: usize, bytes: Bytes, cores: CoreSet, parts: [TaskId; 2]) -> TaskId {
        let delay = join_delay(self.device, self.mechanism, bytes);
        let join = self.push(Task {
            stage,
            processor: Processor::Cpu,
            role: Role::Join,
            channels: None,
            phases: synchronising(delay),
            cores: Some(cores),
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
            self.once(stage, Role::Submit, duration, Vec::new());
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
    fn once(&mut self, stage: usize, role: Role, duration: Picos, predecessors: Vec<TaskId>) {
        self.push(Task {
            stage,
            processor: Processor::Gpu,
            role,
            channels: None,
            phases: synchronising(duration),
            cores: None,
            detail: None,
            predecessors,
        });
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

/// Whether the GPU's tensors have to be transformed before a CPU reads them.
fn needs_transform(device: &Profile) -> bool {
    device.gpu.as_ref().is_some_and(|gpu| gpu.layout() != Layout::Buffer)
}

/// From the end of the later part to the moment both processors may go on.
pub(crate) fn join_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes) -> Picos {
    let join = synchronisation::join(&device.sync, mechanism, Picos::ZERO, bytes, needs_transform(device));
    join.delay + join.mapping
}

/// From the end of one processor's work to the moment another may read it;
/// `with_gpu` where the GPU, which alone keeps images, is one of the two.
pub(crate) fn hand_over_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes, with_gpu: bool) -> Picos {
    synchronisation::hand_over(&device.sync, mechanism, bytes, with_gpu && needs_transform(device))
}

fn synchronising(delay: Picos) -> Phases {
    let mut phases = Phases::default();
    phases.push(Phase { kind: PhaseKind::Synchronise, duration: delay, bytes: Bytes::ZERO, steps: 1 });
    phases
}
