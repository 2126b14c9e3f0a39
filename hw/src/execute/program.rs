//! A workload under a plan, ready to run on this machine again and again.
//!
//! Responsible for: parts of operators, their memory, and running them in the order of
//! the schedule. Not for: statistics, or whether results are right (`super::check`).
//! Invariant: what one side reads the other has finished writing, by the schedule; both
//! sides write disjoint parts of a tensor, or each its own copy.

mod batch;
mod queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::device::profile::Profile;
use coexec_sim::kernel::gpu::Launch;
use coexec_sim::plan::{Placement, Plan};
use coexec_sim::units::Picos;
use coexec_sim::workload::{Layer, Layout, Stage};

use super::build;
use super::link::Link;
use super::machine::{Machine, Team};
use super::parts::Portion;
use super::place::{Place, Sharing};
use super::schedule::{Hosted, Schedule, Sides};
use super::{ExecuteError, numbers};
use crate::cpu::{self, Element};
use crate::opencl::timing::of_duration;
use crate::opencl::{self, Dispatch, OpenClError};
use crate::operands::{Output, Weights};
use crate::sync::Mechanism;
pub(super) use batch::{Batch, Going};
use queue::Progress;

/// What the first launch of an operator may take.
const FIRST_LAUNCH_LIMIT: Duration = Duration::from_mins(1);

/// What is executed, and with what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<'a> {
    /// The operators.
    pub(super) stages: &'a [Stage],
    /// Who computes them.
    pub(super) plan: &'a Plan,
    /// Its GPU's dispatch rules and its core sets are used.
    pub(super) profile: &'a Profile,
    /// What a time covers.
    pub(super) clock: Clock,
    /// Seed of weights and inputs.
    pub(super) seed: u64,
    /// What a run may take.
    pub(super) limit: Duration,
}

/// What a time covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From the first call until the host has, or knows of, all results.
    Host,
    /// From the first kernel's start to the last one's end, by events: how operators on a
    /// GPU are timed. For plans that leave all to the GPU.
    Device,
}

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// By the program's clock.
    pub(super) counted: Picos,
    /// By the host's, whatever the program's is.
    pub(super) wall: Picos,
    /// From the first kernel's start to the last one's end, where events tell.
    pub(super) kernels: Option<Picos>,
}

/// The CPU's part of an operator.
pub(super) struct CpuPart<T: Element> {
    pub(super) prepared: cpu::Prepared<T>,
    pub(super) portion: Portion,
    pub(super) team: Team,
}

/// The GPU's part of an operator.
pub(super) struct GpuPart<T: Element> {
    pub(super) prepared: opencl::Prepared<T>,
    pub(super) portion: Portion,
    pub(super) launch: Launch,
    /// Layout of what it reads.
    pub(super) layout: Layout,
}

/// One operator.
pub(super) struct Operation<T: Element> {
    pub(super) layer: Layer,
    /// Numbers of the tensors it reads.
    pub(super) reads: Vec<usize>,
    /// The chain it belongs to.
    pub(super) chain: Option<u32>,
    /// Whether both sides compute some of its result, each for itself.
    pub(super) overlaps: bool,
    pub(super) cpu: Option<CpuPart<T>>,
    pub(super) gpu: Option<GpuPart<T>>,
}

/// Workload and plan on this machine, computing with `T`.
pub(super) struct Program<T: Element> {
    pub(super) operations: Vec<Operation<T>>,
    /// The operators' results, then inputs of the workload.
    pub(super) places: Vec<Place<T>>,
    pub(super) schedule: Schedule,
    link: Option<Link>,
    sharing: Option<(Mechanism, Sharing)>,
    clock: Clock,
    pub(super) seed: u64,
}

impl Sides {
    /// Who takes part in a placement.
    pub(super) fn of(placement: &Placement) -> Self {
        let (cpu, gpu) = match placement {
            Placement::Cpu(_) => (true, false),
            Placement::Gpu | Placement::Npu | Placement::Accelerators(_) => (false, true),
            Placement::Split { .. } | Placement::HeightSplit { .. } => (true, true),
        };
        Self { cpu, gpu }
    }
}

impl<T: Element> Program<T> {
    /// Prepares kernels, weights and memory.
    pub(super) fn new(machine: &mut Machine, task: &Task<'_>) -> Result<Self, ExecuteError> {
        let sides: Vec<Sides> = task.plan.placements.iter().map(Sides::of).collect();
        let uses_gpu = sides.iter().any(|sides| sides.gpu);
        // What the host must see at the end, or computes a part of, both must address.
        let meets = uses_gpu && (task.clock == Clock::Host || sides.iter().any(|sides| sides.cpu));
        let sharing = if meets { Some(machine.sharing(task.plan.synchronisation)?) } else { None };
        let memory = sharing.map(|(_, memory)| memory);
        // What the device's clock covers ends before the host learns of it.
        let mechanism = sharing.map_or(Mechanism::EventPolling, |(mechanism, _)| mechanism);
        let flags = match machine.runtime().filter(|_| uses_gpu) {
            Some(runtime) => Link::flags(runtime, mechanism)?,
            None => None,
        };
        let operations = build::operations(machine, task, memory, flags.as_ref())?;
        let mut program = Self {
            places: build::places(machine, task, &operations, memory)?,
            operations,
            schedule: Schedule::default(),
            link: None,
            sharing,
            clock: task.clock,
            seed: task.seed,
        };
        program.bind()?;
        program.schedule = build::schedule(&program.operations, &program.places);
        if let Some(runtime) = machine.runtime().filter(|_| uses_gpu) {
            let meetings = [program.schedule.announcements, program.schedule.signals];
            program.link = Some(Link::new(runtime, (mechanism, flags), meetings, task.limit));
        }
        Ok(program)
    }

    fn bind(&mut self) -> Result<(), ExecuteError> {
        for (stage, operation) in self.operations.iter_mut().enumerate() {
            let Some(gpu) = &mut operation.gpu else { continue };
            let tensor = |index: usize| {
                self.places[index].device().map(Arc::clone).ok_or_else(|| OpenClError::Unsupported {
                    operator: operation.layer.operator.to_string(),
                    reason: "one of its tensors is not on the device".to_owned(),
                })
            };
            let inputs = operation.reads.iter().map(|&read| tensor(read)).collect::<Result<_, _>>()?;
            gpu.prepared.bind(inputs, tensor(stage)?)?;
            // Drivers finish compiling when a kernel is launched first, which may take longer
            // than the other side would wait.
            gpu.prepared.run(FIRST_LAUNCH_LIMIT)?;
        }
        Ok(())
    }

    /// How the processors learn of each other and share memory, where both take part.
    pub(super) fn sharing(&self) -> Option<(Mechanism, Sharing)> {
        self.sharing
    }

    /// How the GPU launches the operator, where there is but one and it takes part.
    pub(super) fn launch(&self) -> Option<(Launch, Dispatch)> {
        let [operation] = self.operations.as_slice() else { return None };
        operation.gpu.as_ref().map(|gpu| (gpu.launch, *gpu.prepared.dispatch()))
    }

    /// The CPU threads of the first operator that has any.
    pub(super) fn team(&self) -> Option<Team> {
        self.operations.iter().find_map(|operation| operation.cpu.as_ref().map(|cpu| cpu.team))
    }

    /// Runs everything once; what it took.
    pub(super) fn run(&mut self, machine: &mut Machine) -> Result<Taken, ExecuteError> {
        let taken = self.attempt(machine);
        if taken.is_err()
            && let Some(link) = &mut self.link
        {
            link.abandon();
        }
        taken
    }

    fn attempt(&mut self, machine: &mut Machine) -> Result<Taken, ExecuteError> {
        let mut progress = Progress::default();
        let started = Instant::now();
        self.queue(&mut progress)?;
        while self.step(machine, &mut progress)? {}
        let wall = of_duration(started.elapsed());
        if let Some(link) = &mut self.link {
            link.end()?;
        }
        let kernels = progress.kernels();
        let (counted, kernels) = match (self.clock, kernels) {
            (Clock::Device, Some(kernels)) => kernels.map(|kernels| (kernels, Some(kernels)))?,
            (_, kernels) => (wall, kernels.and_then(Result::ok)),
        };
        Ok(Taken { counted, wall, kernels })
    }

    /// Does what the host does next; whether there was anything left to do.
    fn step(&mut self, machine: &mut Machine, progress: &mut Progress) -> Result<bool, ExecuteError> {
        let Some(&item) = self.schedule.host.get(progress.hosted) else { return Ok(false) };
        match item {
            Hosted::Compute(stage) => self.compute(machine, stage)?,
            Hosted::Signal(signal) => {
                if let Some(link) = &mut self.link {
                    link.signal(signal)?;
                }
                progress.signalled = signal;
                self.queue(progress)?;
            }
            Hosted::WaitFor(announcement) => {
                if let Some(link) = self.link.as_mut().filter(|_| !progress.is_one_of_several) {
                    link.wait_for(announcement)?;
                }
                self.map(announcement)?;
            }
        }
        progress.hosted += 1;
        Ok(true)
    }

    /// Maps and unmaps what the device announced, where the mechanism does.
    fn map(&self, announcement: u32) -> Result<(), ExecuteError> {
        let Some(link) = self.link.as_ref().filter(|_| self.maps()) else { return Ok(()) };
        for &stage in &self.schedule.announcers[announcement as usize - 1] {
            if let Some(tensor) = self.places[stage].device() {
                tensor.map_and_unmap()?;
            }
        }
        // The device has the memory again when unmapping has ended.
        link.finish()
    }

    /// Whether results are mapped at every meeting.
    fn maps(&self) -> bool {
        self.sharing.is_some_and(|(mechanism, memory)| {
            memory == Sharing::MappedBuffers && mechanism.modelled().maps()
        })
    }

    /// The CPU's part of a stage.
    fn compute(&mut self, machine: &mut Machine, stage: usize) -> Result<(), ExecuteError> {
        let operation = &mut self.operations[stage];
        let Some(cpu) = &mut operation.cpu else { return Ok(()) };
        let slice = |index: usize| -> &[T] {
            let place = &self.places[index];
            match place.host_ptr() {
                // SAFETY: the tensor holds that many elements, and whoever computed it has
                // ended: the host itself, or the device whose announcement was waited for.
                Some(first) => unsafe { std::slice::from_raw_parts(first, place.length()) },
                None => &[],
            }
        };
        let inputs: Vec<&[T]> = operation.reads.iter().map(|&read| slice(read)).collect();
        let place = &self.places[stage];
        let first = place.host_ptr().unwrap_or(std::ptr::null_mut());
        let length = if first.is_null() { 0 } else { place.length() };
        // SAFETY: the tensor holds that many elements; the device, if it takes part, writes
        // another part, and nobody reads before both are done.
        let mut output = unsafe { Output::shared(first, length) };
        Ok(cpu.prepared.run(machine.pool(cpu.team), &inputs, &mut output, &cpu.portion.part)?)
    }

    /// The weights of an operator.
    pub(super) fn weights(&self, stage: usize) -> [Vec<f32>; 2] {
        numbers::weights(&self.operations[stage].layer.operator, build::weight_seed(self.seed, stage))
    }
}

/// Weights as kernels take them.
pub(super) fn borrowed(weights: &[Vec<f32>; 2]) -> Weights<'_> {
    Weights { kernel: &weights[0], bias: &weights[1] }
}
