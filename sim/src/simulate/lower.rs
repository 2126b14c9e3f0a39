//! From a plan to an engine program: which tasks there are, on which processor,
//! and what each waits for.
//!
//! A stage becomes one compute task a processor, preceded by a hand-over where
//! an input lies with another processor, and followed by a join where two
//! processors computed parts of it. The join runs on the CPU, which handles the
//! flags; what the GPU is given later waits for it, as an in-order queue with a
//! polling kernel does (EPEW'25, section 4).

mod accelerators;
mod alone;
mod crossing;
mod task;
mod visible;

use super::host::Host;
use super::memory::cluster_client;
use super::{SimulateError, Simulator};
use crate::device::gpu::Cargo;
use crate::device::profile::Profile;
use crate::engine::{Program, TaskId};
use crate::kernel::cpu::{CoreSet, Library};
use crate::kernel::{Phase, Phases};
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Axis, Cut, Placement, Plan, ShareOf, check_chains, cuts};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Layout, Stage, Tensor};
pub(super) use crossing::Crossing;
use crossing::crossings;
use visible::{Apart, Residence, check_room, joined, synchronising};

pub(crate) use accelerators::accelerator_costs;
pub(super) use alone::execute_measured;
pub use alone::{Detail, Processor, execute};
pub(crate) use task::{Role, Task};
pub(crate) use visible::{copying, hand_over_delay, has_own_memory, join_delay, pieces, read_bytes};

/// A plan as tasks.
#[derive(Debug, Default)]
pub(crate) struct Lowered {
    pub(crate) tasks: Vec<Task>,
    /// Whether what the GPU computes spares the shared memory.
    gpu_has_own_memory: bool,
    crossings: Vec<Crossing>,
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
        check_chains(stages, plan)?;
        let cuts = cuts(stages, plan);
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
            resubmission: Picos::ZERO,
            crossings: crossings(stages, &plan.placements, &cuts),
            leaves_its_chain: leaves_its_chain(stages, plan),
            chain: None,
        };
        for (index, (stage, placement)) in stages.iter().zip(&plan.placements).enumerate() {
            lowering.chain = plan.chain(index);
            lowering.stage(index, stage, *placement, cuts[index].as_ref())?;
        }
        lowering.close_all();
        lowering.results_onto_host(stages);
        lowering.read_back();
        Ok(Self {
            tasks: lowering.tasks,
            gpu_has_own_memory: has_own_memory(simulator.device),
            crossings: lowering.crossings,
        })
    }

    /// Bytes of a stage's result that each processor has to be given.
    pub(super) fn crossing(&self, stage: usize) -> Option<&Crossing> {
        self.crossings.get(stage)
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
            if self.spares_the_memory(task) {
                elsewhere = phases.without_traffic();
                phases = &elsewhere;
            }
            let id = task.add(phases, program);
            for &predecessor in &task.predecessors {
                program.after(id, predecessor);
            }
        }
    }

    /// Adds the task of that index at the end of its processor's queue, without what it
    /// waits for.
    pub(super) fn add(&self, index: usize, program: &mut Program) -> TaskId {
        let task = &self.tasks[index];
        if self.spares_the_memory(task) {
            return task.add(&task.phases.without_traffic(), program);
        }
        task.add(&task.phases, program)
    }

    fn spares_the_memory(&self, task: &Task) -> bool {
        self.gpu_has_own_memory && task.processor == Processor::Gpu && task.role == Role::Compute
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
    /// What each processor has to be given of each stage's result.
    crossings: Vec<Crossing>,
    /// Whether each stage's result is read outside its chain, or by nobody.
    leaves_its_chain: Vec<bool>,
    /// The chain of the stage being lowered.
    chain: Option<u32>,
    /// What it takes that the GPU's queue goes on with that stage after a result of the NPU.
    resubmission: Picos,
}

/// For each stage, whether its result is read outside its chain, or by nobody.
fn leaves_its_chain(stages: &[Stage], plan: &Plan) -> Vec<bool> {
    let mut leaves = vec![true; stages.len()];
    if plan.chains.is_empty() {
        return leaves;
    }
    let reads = || stages.iter().enumerate().flat_map(|(stage, s)| s.inputs.iter().map(move |&i| (stage, i)));
    reads().for_each(|(_, input)| leaves[input] = false);
    for (stage, input) in reads().filter(|&(stage, input)| plan.chain(stage) != plan.chain(input)) {
        debug_assert!(input < stage, "stages are in topological order");
        leaves[input] = true;
    }
    leaves
}

impl Lowering<'_> {
    fn stage(
        &mut self,
        index: usize,
        stage: &Stage,
        placement: Placement,
        cut: Option<&Cut>,
    ) -> Result<(), SimulateError> {
        self.resubmission = accelerators::resubmission(self.device, self.mechanism, &stage.layer);
        let whole = |lowering: &mut Self, processor: Processor, cores| {
            let ready = lowering.compute(index, stage, &stage.layer, processor, cores, None)?;
            let bytes = result_bytes(&stage.layer);
            let processors = processor.bit();
            Ok(Residence { processors, ready, bytes, on_gpu: Bytes::ZERO, pieces: 1, apart: None })
        };
        let residence = match placement {
            Placement::Cpu(cores) => whole(self, Processor::Cpu, Some(cores)),
            Placement::Gpu => whole(self, Processor::Gpu, None),
            Placement::Npu => whole(self, Processor::Npu, None),
            Placement::Accelerators(split) => self.accelerated(index, stage, &split),
            Placement::Split { cores, .. } | Placement::HeightSplit { cores, .. } => {
                self.cut(index, stage, cores, cut.expect("`cuts` has a cut for every split"))
            }
        }?;
        self.residences.push(residence);
        Ok(())
    }

    /// Adds both parts of a cut stage, and their join where no chain goes on.
    fn cut(
        &mut self,
        index: usize,
        stage: &Stage,
        cores: CoreSet,
        cut: &Cut,
    ) -> Result<Residence, SimulateError> {
        let bytes = result_bytes(&stage.layer);
        let share = |part: usize| {
            let count = cut.parts[part].end - cut.parts[part].start;
            Some(match cut.axis {
                Axis::Channels => ShareOf::Channels(count),
                Axis::Height => ShareOf::Rows(count),
            })
        };
        let [cpu_layer, gpu_layer] = [cut.part(&stage.layer, 0), cut.part(&stage.layer, 1)];
        self.submit(index);
        let cpu = self.compute(index, stage, &cpu_layer, Processor::Cpu, Some(cores), share(0))?;
        let gpu = self.compute(index, stage, &gpu_layer, Processor::Gpu, None, share(1))?;
        let (on_gpu, pieces) = (result_bytes(&gpu_layer), pieces(&stage.layer, cut.axis));
        if let Some(chain) = self.chain {
            let apart = Some(Apart { chain, cores, parts: [cpu, gpu] });
            return Ok(Residence { processors: 0, ready: gpu, bytes, on_gpu, pieces, apart });
        }
        let gpu = self.part_onto_host(index, Cargo { bytes: on_gpu, pieces }, gpu);
        let ready = self.join(index, self.joined_bytes(index), cores, vec![cpu, gpu]);
        Ok(Residence { processors: joined(self.device), ready, bytes, on_gpu, pieces, apart: None })
    }

    /// Brings together what chains leave behind and nobody has read.
    fn close_all(&mut self) {
        self.chain = None;
        for stage in 0..self.residences.len() {
            if let Some(apart) = self.residences[stage].apart.filter(|_| self.leaves_its_chain[stage]) {
                self.close(apart.chain);
            }
        }
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

    fn join(&mut self, stage: usize, bytes: Bytes, cores: CoreSet, predecessors: Vec<TaskId>) -> TaskId {
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
            predecessors,
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
