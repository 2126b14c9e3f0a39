//! A workload under a plan, ready to run on this machine again and again.
//!
//! Responsible for: parts of operators, their memory, and running them in the order of
//! the schedule. Not for: statistics, or whether results are right (`super::check`).
//! Invariant: what one side reads the other has finished writing, by the schedule; both
//! sides write disjoint parts of a tensor.

use std::rc::Rc;
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
use super::place::{Place, Sharing};
use super::schedule::{Hosted, Queued, Schedule, Sides};
use super::{ExecuteError, numbers};
use crate::cpu::{self, Element};
use crate::opencl::events::{Event, stamps};
use crate::opencl::timing::of_duration;
use crate::opencl::{self, Dispatch, OpenClError};
use crate::operands::{Output, Part, Weights};
use crate::sync::Mechanism;

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
    pub(super) part: Part,
    pub(super) team: Team,
}

/// The GPU's part of an operator.
pub(super) struct GpuPart<T: Element> {
    pub(super) prepared: opencl::Prepared<T>,
    pub(super) part: Part,
    pub(super) launch: Launch,
    /// Layout of what it reads.
    pub(super) layout: Layout,
}

/// One operator.
pub(super) struct Operation<T: Element> {
    pub(super) layer: Layer,
    /// Numbers of the tensors it reads.
    pub(super) reads: Vec<usize>,
    pub(super) cpu: Option<CpuPart<T>>,
    pub(super) gpu: Option<GpuPart<T>>,
}

/// Workload and plan on this machine, computing with `T`.
pub(super) struct Program<T: Element> {
    pub(super) operations: Vec<Operation<T>>,
    /// The operators' results, then inputs of the workload.
    pub(super) places: Vec<Place<T>>,
    schedule: Schedule,
    link: Option<Link>,
    sharing: Option<(Mechanism, Sharing)>,
    clock: Clock,
    pub(super) seed: u64,
}

/// How far a run has come.
#[derive(Default)]
struct Progress {
    queued: usize,
    signalled: u32,
    /// Whether the latest kernel announces itself.
    is_announced: bool,
    /// First and latest kernel.
    first: Option<Rc<Event>>,
    latest: Option<Rc<Event>>,
    /// Latest command that an announcement may follow.
    last: Option<Rc<Event>>,
}

impl Progress {
    /// From the first kernel's start to the latest one's end, where there are any. An event
    /// behind a flag that was seen may not tell yet.
    fn kernels(&self) -> Option<Result<Picos, OpenClError>> {
        let (first, latest) = (self.first.as_ref()?, self.latest.as_ref()?);
        let span = || {
            let ([_, started, _], [.., ended]) = (stamps(first)?, stamps(latest)?);
            Ok(Picos::from_nanos(ended.saturating_sub(started) as f64))
        };
        Some(span())
    }
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
        for index in 0..self.schedule.host.len() {
            match self.schedule.host[index] {
                Hosted::Compute(stage) => self.compute(machine, stage)?,
                Hosted::Signal(signal) => {
                    if let Some(link) = &mut self.link {
                        link.signal(signal)?;
                    }
                    progress.signalled = signal;
                    self.queue(&mut progress)?;
                }
                Hosted::WaitFor(announcement) => {
                    if let Some(link) = &mut self.link {
                        link.wait_for(announcement)?;
                    }
                    self.map(announcement)?;
                }
            }
        }
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

    /// Fills the device's queue as far as the host may be ahead.
    fn queue(&mut self, progress: &mut Progress) -> Result<(), ExecuteError> {
        let Some(link) = &self.link else { return Ok(()) };
        // What the host has yet to copy cannot be queued before it is computed, and mapping
        // waits for all that is queued.
        let copies = self.sharing.is_some_and(|(_, memory)| memory == Sharing::Copies);
        let ahead = progress.signalled + if copies || self.maps() { 0 } else { link.ahead() };
        let before = progress.queued;
        while let Some(&item) = self.schedule.queue.get(progress.queued) {
            if matches!(item, Queued::Await(signal) if signal > ahead) {
                break;
            }
            progress.queued += 1;
            match item {
                Queued::Await(signal) => self.hold(signal, progress)?,
                Queued::Launch(stage) => self.launch_part(stage, progress)?,
                Queued::Upload(tensor) => self.upload(tensor)?,
                Queued::Fetch(stage) => progress.last = self.fetch(stage)?,
                Queued::Announce(announcement) => self.announce(announcement, ahead, progress)?,
            }
        }
        match &self.link {
            Some(link) if progress.queued > before => link.flush(),
            _ => Ok(()),
        }
    }

    fn hold(&mut self, signal: u32, progress: &Progress) -> Result<(), ExecuteError> {
        match &mut self.link {
            // What is queued after the signal need not wait for it.
            Some(link) if signal > progress.signalled => link.hold(signal),
            _ => Ok(()),
        }
    }

    fn announce(
        &mut self,
        announcement: u32,
        ahead: u32,
        progress: &mut Progress,
    ) -> Result<(), ExecuteError> {
        let next = self.schedule.queue.get(progress.queued);
        let awaited = match next {
            Some(&Queued::Await(signal)) if signal <= ahead => {
                progress.queued += 1;
                Some(signal).filter(|&signal| signal > progress.signalled)
            }
            _ => None,
        };
        let Some(link) = &mut self.link else { return Ok(()) };
        link.announce((announcement, progress.is_announced), awaited, progress.last.clone())
    }

    fn launch_part(&mut self, stage: usize, progress: &mut Progress) -> Result<(), ExecuteError> {
        let Some(gpu) = &self.operations[stage].gpu else { return Ok(()) };
        let number = match (self.schedule.queue.get(progress.queued), &self.link) {
            (Some(&Queued::Announce(announcement)), Some(link)) if gpu.prepared.announces() => {
                link.number_of(announcement)
            }
            _ => None,
        };
        progress.is_announced = number.is_some();
        for (_, event) in gpu.prepared.enqueue_announcing(number.unwrap_or(0))? {
            let event = Rc::new(event);
            progress.first.get_or_insert_with(|| Rc::clone(&event));
            progress.latest = Some(Rc::clone(&event));
            progress.last = Some(event);
        }
        Ok(())
    }

    /// Queues a copy of what the host computed of a tensor, or of all of an input.
    fn upload(&mut self, tensor: usize) -> Result<(), ExecuteError> {
        let place = &self.places[tensor];
        let of_host = self.operations.get(tensor).and_then(|operation| operation.cpu.as_ref());
        let is_cut = self.operations.get(tensor).is_some_and(|operation| operation.gpu.is_some());
        let part = of_host.filter(|_| is_cut).map(|cpu| cpu.part.clone()).or_else(|| place.whole());
        if let (Some(device), Some(host), Some(part)) = (place.device(), place.host_ptr(), part) {
            // SAFETY: the host's tensor lives as long as the program; its part was computed
            // before the host's signal, behind which this is queued, and is not computed
            // again in this run.
            unsafe { device.enqueue_write_part(&part, host) }?;
        }
        Ok(())
    }

    /// Queues a copy of what the device computed of a tensor.
    fn fetch(&mut self, stage: usize) -> Result<Option<Rc<Event>>, ExecuteError> {
        let (place, operation) = (&self.places[stage], &self.operations[stage]);
        let of_device = operation.gpu.as_ref().filter(|_| operation.cpu.is_some());
        let part = of_device.map(|gpu| gpu.part.clone()).or_else(|| place.whole());
        let (Some(device), Some(host), Some(part)) = (place.device(), place.host_ptr(), part) else {
            return Ok(None);
        };
        // SAFETY: the host's tensor lives as long as the program, and the host reads this
        // part only after it has waited for the announcement behind the copy.
        let event = unsafe { device.enqueue_read_part(&part, host) }?;
        Ok(Some(Rc::new(event)))
    }

    /// Maps and unmaps what the device announced, where the mechanism does.
    fn map(&self, announcement: u32) -> Result<(), ExecuteError> {
        let stage = self.schedule.announcers[announcement as usize - 1];
        match (self.places[stage].device(), &self.link) {
            (Some(tensor), Some(link)) if self.maps() => {
                tensor.map_and_unmap()?;
                // The device has the memory again when unmapping has ended.
                link.finish()
            }
            _ => Ok(()),
        }
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
        Ok(cpu.prepared.run(machine.pool(cpu.team), &inputs, &mut output, &cpu.part)?)
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
