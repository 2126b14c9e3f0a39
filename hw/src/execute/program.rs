//! A workload under a plan, ready to run on this machine repeatedly.
//!
//! Responsible for: parts of operators, their memory, and running the commands of the simulator's
//! schedule. Not for: statistics, or verification (`super::check`).
//! Invariant: exactly the schedule's commands are run, each after its dependencies; the two sides
//! write disjoint parts of a tensor, or each its own copy.

mod queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::kernel::gpu::Launch;
use coexec_sim::schedule::{Command, CommandId, Schedule, Setting, What, schedule};
use coexec_sim::{CoreSet, Picos, Plan, ProcessorKind, Profile, Stage};

use super::arrangements::Arrangements;
use super::build::Tensors;
use super::{Action, Actions, ExecuteError, Home, Machine, Operation, Places, Result, Side, Team, build};
use crate::cpu::Element;
use crate::lock::lock;
use crate::opencl::{self, Queued, duration_to_picos, finish, stamping};
use crate::operands::pieces;
use crate::sync::{Link, Mechanism};
use crate::{random_operands, sync};
pub(super) use queue::{Advance, Progress};
use queue::{DeviceProgress, HostProgress};

/// A workload to execute, with its plan and settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    /// The operators.
    pub(crate) stages: &'a [Stage],
    /// The placement of the operators.
    pub(crate) plan: &'a Plan,
    /// Provides the GPU's dispatch rules and the core sets.
    pub(crate) profile: &'a Profile,
    /// What a time covers.
    pub(crate) clock: Clock,
    /// Seed of weights and inputs.
    pub(crate) seed: u64,
    /// Time limit of a run.
    pub(crate) limit: Duration,
}

/// What a time covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// From the first call until the host has, or is notified of, all results.
    Host,
    /// From the first kernel's start to the last one's end, by events: the usual time of operators
    /// on a GPU. For plans that run on the GPU alone.
    Device,
}

/// Times of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunTimes {
    /// On the program's clock.
    pub(crate) counted: Picos,
    /// On the host's clock.
    pub(super) wall: Picos,
    /// The operators that cores computed, by the index of their stages, on the host's clock.
    pub(super) on_cores: Vec<(usize, Picos)>,
}

/// A workload under a plan on this machine, computing in `T`.
pub(crate) struct Program<T: Element> {
    pub(super) operations: Vec<Operation<T>>,
    pub(super) tensors: Tensors,
    pub(super) places: Places<T>,
    pub(super) schedule: Schedule,
    pub(super) actions: Actions,
    arrangements: Arrangements<T>,
    link: Option<Link>,
    /// The thread of the machine that fills the device's queue, if not the host's.
    dispatcher: Option<usize>,
    /// Mechanism and shared memory, if host and device both take part.
    pub(super) sharing: Option<(Mechanism, Home)>,
    clock: Clock,
    pub(super) seed: u64,
}

/// The stages of the commands that `command` directly depends on: those whose parts a join merges,
/// or whose results are read back.
pub(super) fn stages_before(schedule: &Schedule, command: &Command) -> Vec<usize> {
    let mut stages: Vec<usize> =
        command.after.iter().map(|before| schedule.commands[before.index()].stage).collect();
    stages.dedup();
    stages
}

/// The stages whose parts are merged by a join.
pub(super) fn joined_stages(schedule: &Schedule) -> impl Iterator<Item = usize> {
    let joins = schedule.commands.iter().filter(|command| matches!(command.what, What::Join { .. }));
    joins.flat_map(|join| stages_before(schedule, join))
}

impl<T: Element> Program<T> {
    /// Prepares kernels, weights and memory.
    pub(crate) fn new(machine: &mut Machine, task: &Task<'_>) -> Result<Self> {
        let uses = |kind| task.plan.placements.iter().any(|placement| placement.uses(kind));
        if let Some((stage, _)) =
            task.stages.iter().zip(&task.plan.placements).find(|(_, by)| by.uses(ProcessorKind::Npu))
        {
            return Err(ExecuteError::NoNpu { operator: stage.layer.operator.to_string() });
        }
        let uses_gpu = uses(ProcessorKind::Gpu);
        // Tensors that the host reads at the end, or computes a part of, must be visible to both.
        let meets = uses_gpu && (task.clock == Clock::Host || uses(ProcessorKind::Cpu));
        let sharing = if meets { Some(machine.sharing(task.plan.synchronisation)?) } else { None };
        let memory = sharing.map(|(_, memory)| memory);
        let schedule = schedule(task.stages, task.plan, &setting(memory, task.profile))?;
        // The device's clock stops before the host is notified.
        let mechanism = sharing.map_or(Mechanism::EventPolling, |(mechanism, _)| mechanism);
        let flags = match machine.runtime().filter(|_| uses_gpu) {
            Some(runtime) => sync::flags(runtime, mechanism)?,
            None => None,
        };
        let tensors = build::tensors(machine, task, &schedule, memory);
        let places = build::places(machine, task, &schedule, (&tensors, memory))?;
        let (operations, arrangements) =
            build::operations(machine, task, &schedule, (&tensors, &places), flags.as_ref())?;
        let mut program = Self {
            operations,
            tensors,
            places,
            actions: Actions::default(),
            arrangements,
            schedule,
            link: None,
            dispatcher: None,
            sharing,
            clock: task.clock,
            seed: task.seed,
        };
        program.actions = Actions::new(&program.schedule.commands, |command| program.is_work(command));
        if let Some(runtime) = machine.runtime().filter(|_| uses_gpu) {
            program.link =
                Some(Link::new(runtime, (mechanism, flags), program.actions.notifications(), task.limit));
        }
        // A cut operator is measured as it is published: the host enqueues, then computes its part.
        // Mapping must not wait for commands that are enqueued meanwhile.
        if program.link.is_some() && program.operations.len() > 1 && !program.maps() {
            let teams = program.operations.iter().filter_map(|operation| operation.cpu.as_ref());
            let teams: Vec<Team> = teams.map(|cpu| cpu.team).collect();
            program.dispatcher = machine.dispatcher_beside(&teams).filter(|_| !teams.is_empty());
        }
        Ok(program)
    }

    /// Whether a command does anything besides ordering those around it. Results in shared memory
    /// need only a notification.
    fn is_work(&self, command: &Command) -> bool {
        match command.what {
            What::Compute { .. } | What::Move { .. } => true,
            What::HandOver { .. } => self.maps() && Side::of(command) == Side::Host,
            What::Join { .. } => {
                self.maps()
                    || stages_before(&self.schedule, command)
                        .iter()
                        .any(|&stage| self.places.joined[stage].is_some())
            }
            What::ReadBack => self.maps(),
            // The queue is filled as far as possible at any time.
            What::Submit => false,
        }
    }

    /// The GPU's launch, if the program is a single operator with a part on the GPU.
    pub(crate) fn launch(&self) -> Option<Launch> {
        let [operation] = self.operations.as_slice() else { return None };
        operation.gpu().next().map(|gpu| gpu.launch)
    }

    /// The CPU threads of the first operator that has any.
    pub(crate) fn team(&self) -> Option<Team> {
        self.operations.iter().find_map(|operation| operation.cpu.as_ref().map(|cpu| cpu.team))
    }

    /// Runs the program once and returns its times.
    pub(crate) fn run(&mut self, machine: &mut Machine) -> Result<RunTimes> {
        let runtime = self.link.as_ref().map(|link| Arc::clone(&link.runtime));
        let (progress, wall) = stamping(runtime.as_deref(), self.clock == Clock::Device, || {
            let started = Instant::now();
            let progress = self.run_commands(machine)?;
            Ok::<_, ExecuteError>((progress, duration_to_picos(started.elapsed())))
        })?;
        let on_cores = progress.on_cores(&self.schedule);
        let counted = match self.clock {
            Clock::Device => progress.kernels(&self.schedule).unwrap_or(Ok(wall))?,
            Clock::Host => wall,
        };
        Ok(RunTimes { counted, wall, on_cores })
    }

    /// Runs single-operator programs back to back, each once, and returns the time of each on its
    /// processor's own clock. As in an inference, all GPU operators are enqueued before the first
    /// is waited for; each is limited to `limit`.
    pub(crate) fn run_back_to_back(
        programs: Vec<&mut Self>,
        machine: &mut Machine,
        limit: Duration,
    ) -> Vec<Result<Picos>> {
        let mut run = |program: &mut Self, queued: Option<opencl::Result<Queued>>| match queued {
            Some(queued) => Ok(queued?.wait(limit)?.device),
            None => Ok(program.run(machine)?.counted),
        };
        let queued: Vec<_> = programs.iter().map(|program| program.enqueue_single()).collect();
        programs.into_iter().zip(queued).map(|(program, queued)| run(program, queued)).collect()
    }

    /// Enqueues a program that is one operator on the GPU alone; `None` for other programs.
    fn enqueue_single(&self) -> Option<opencl::Result<Queued>> {
        let [operation] = self.operations.as_slice() else { return None };
        let gpu = operation.gpu().next().filter(|_| operation.cpu.is_none())?;
        Some(gpu.prepared.queued())
    }

    /// Runs all commands and returns when each was run.
    pub(super) fn run_commands(&mut self, machine: &mut Machine) -> Result<Progress> {
        let mut progress = Progress::default();
        let mut dispatchers = std::mem::take(&mut machine.dispatchers);
        let dispatcher = self.dispatcher.and_then(|index| dispatchers.get_mut(index));
        let threads = dispatcher.map(|dispatcher| &mut dispatcher.threads);
        let done = self.perform(machine, threads, &mut progress).and_then(|()| self.end());
        machine.dispatchers = dispatchers;
        if done.is_err() {
            self.abandon();
        }
        done.map(|()| progress)
    }

    /// Performs the host's next action; returns whether there was one left. Fills the queue of the `device`,
    /// unless a dispatcher does.
    fn step(
        &self,
        machine: &mut Machine,
        host: &mut HostProgress,
        device: Option<&mut DeviceProgress>,
    ) -> Result<bool> {
        let Some(&step) = self.actions.host.get(host.done) else { return Ok(false) };
        match (step, &self.link) {
            (Action::Run(id), _) => {
                let started = Instant::now();
                self.on_host(machine, id)?;
                host.commands.push((id, [started, Instant::now()]));
            }
            (Action::Notify(signal), Some(link)) => {
                link.signal(signal)?;
                device.map_or(Ok(()), |device| self.queue(device))?;
            }
            (Action::Await(announcement), Some(link)) => {
                if !device.is_some_and(|device| device.is_one_of_several) {
                    link.wait_or_give_up(announcement)?;
                }
            }
            (Action::Notify(_) | Action::Await(_), None) => {}
        }
        host.done += 1;
        Ok(true)
    }

    /// Runs a command of the host.
    fn on_host(&self, machine: &mut Machine, id: CommandId) -> Result<()> {
        let command = &self.schedule.commands[id.index()];
        let stage = command.stage;
        match command.what {
            What::Compute { part, .. } => self.compute(machine, stage, part),
            What::HandOver { result, .. } => self.map(&[result]),
            What::ReadBack => self.map(&stages_before(&self.schedule, command)),
            What::Join { .. } => {
                let stages = stages_before(&self.schedule, command);
                self.map(&stages)?;
                for stage in stages {
                    self.join(stage);
                }
                Ok(())
            }
            // The device's.
            What::Submit | What::Move { .. } => Ok(()),
        }
    }

    /// Maps and unmaps results, if the mechanism does.
    fn map(&self, stages: &[usize]) -> Result<()> {
        let Some(link) = self.link.as_ref().filter(|_| self.maps()) else { return Ok(()) };
        for &stage in stages {
            if let Some(tensor) = self.places.own[stage].device() {
                tensor.map_and_unmap()?;
            }
        }
        // The device owns the memory again once unmapping has ended.
        Ok(finish(&link.runtime)?)
    }

    /// Whether results are mapped at every synchronisation.
    fn maps(&self) -> bool {
        self.sharing.is_some_and(|(mechanism, memory)| memory == Home::Mapped && mechanism.modelled().maps())
    }

    /// Merges the parts of a result that processors computed in copies of their own. Without shared
    /// memory, the device's part was copied to the host before.
    fn join(&self, stage: usize) {
        let (own, Some(joined)) = (&self.places.own[stage], &self.places.joined[stage]) else { return };
        for part in &self.operations[stage].parts {
            let from = if part.gpu.is_some() { own.device_ptr() } else { own.host_ptr() };
            if let (Some(from), Some(to)) = (from, joined.host_ptr()) {
                let [from, to] = [from, to].map(<*mut [T]>::cast::<T>);
                for range in pieces(self.operations[stage].layer.operator.output(), part.owned) {
                    // SAFETY: the range is within both tensors, which do not overlap; its
                    // computation has ended, and nothing reads the joined tensor before.
                    unsafe {
                        let (from, to) = (from.add(range.start), to.add(range.start));
                        std::ptr::copy_nonoverlapping(from, to, range.len());
                    }
                }
            }
        }
    }

    /// Computes the CPU's part of a stage.
    fn compute(&self, machine: &mut Machine, stage: usize, part: usize) -> Result<()> {
        let tensor = |&read: &usize| -> &[T] {
            // SAFETY: the elements that are read have been computed: by the host itself, or by the
            // device, whose announcement was waited for. In a chain, the device may still write its
            // own part of the tensor, of which nothing is read.
            self.places.of(Some(stage), read, Side::Host).host_ptr().map_or(&[], |all| unsafe { &*all })
        };
        let inputs: Vec<&[T]> = self.tensors.reads[stage].iter().map(tensor).collect();
        let output = self.places.own[stage].host_ptr();
        let operation = &self.operations[stage];
        let (Some(cpu), Some(output)) = (&operation.cpu, output) else { return Ok(()) };
        let (pool, part) = (machine.pool(cpu.team), operation.parts[part].computed);
        let mut prepared = lock(&cpu.prepared);
        // SAFETY: the device, if it takes part, writes another part, and nothing reads either before
        // both have ended.
        Ok(unsafe { prepared.run_shared(pool, &inputs, output, part) }?)
    }

    /// The weights of an operator.
    pub(super) fn weights(&self, stage: usize) -> [Vec<f32>; 2] {
        random_operands::weights(&self.operations[stage].layer.operator, build::weight_seed(self.seed, stage))
    }
}

/// The settings that determine the schedule's commands on this machine. `memory` is that which the
/// processors share; `None` if the workload stays on the GPU.
pub(super) fn setting(memory: Option<Home>, profile: &Profile) -> Setting {
    Setting {
        gpu_has_own_memory: memory == Some(Home::Device),
        ends_on_host: memory.is_some(),
        is_inference: memory.is_some(),
        cpu_fills_the_queue: memory.is_some(),
        control: CoreSet::slowest(&profile.cpu),
    }
}
