//! A workload under a plan, ready to run on this machine again and again.
//!
//! Responsible for: parts of operators, their memory, and doing the commands of the
//! simulator's schedule. Not for: statistics, or whether results are right (`super::check`).
//! Invariant: nothing is done but the schedule's commands, each after those that it comes
//! after; both sides write disjoint parts of a tensor, or each its own copy.

mod queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::kernel::gpu::Launch;
use coexec_sim::schedule::{Command, CommandId, Schedule, Setting, What, schedule};
use coexec_sim::{CoreSet, Picos, Plan, ProcessorKind, Profile, Stage};

use super::{Action, ExecuteError, Home, Machine, Meetings, Operation, Place, Result, Side, Team, build};
use crate::cpu::Element;
use crate::opencl::prepared::Queued;
use crate::opencl::{self, OpenClError, duration_to_picos};
use crate::operands::pieces;
use crate::sync::{Link, Mechanism};
use crate::{random_operands, sync};
pub(super) use queue::{Going, Progress};

/// What the first launch of an operator may take.
const FIRST_LAUNCH_LIMIT: Duration = Duration::from_mins(1);

/// What is executed, and with what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    /// The operators.
    pub(crate) stages: &'a [Stage],
    /// Who computes them.
    pub(crate) plan: &'a Plan,
    /// Its GPU's dispatch rules and its core sets are used.
    pub(crate) profile: &'a Profile,
    /// What a time covers.
    pub(crate) clock: Clock,
    /// Seed of weights and inputs.
    pub(crate) seed: u64,
    /// What a run may take.
    pub(crate) limit: Duration,
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
pub(crate) struct Taken {
    /// By the program's clock.
    pub(crate) counted: Picos,
    /// By the host's, whatever the program's is.
    pub(super) wall: Picos,
    /// From the first kernel's start to the last one's end, where events tell.
    pub(super) kernels: Option<Picos>,
}

/// Workload and plan on this machine, computing with `T`.
pub(crate) struct Program<T: Element> {
    pub(super) operations: Vec<Operation<T>>,
    /// The operators' results, then inputs of the workload.
    pub(super) places: Vec<Place<T>>,
    /// Of each operator whose parts overlap: all of the result, once they were joined.
    pub(super) joined: Vec<Option<Place<T>>>,
    pub(super) schedule: Schedule,
    pub(super) meetings: Meetings,
    link: Option<Link>,
    /// How the processors learn of each other and share memory, where both take part.
    pub(super) sharing: Option<(Mechanism, Home)>,
    clock: Clock,
    pub(super) seed: u64,
}

/// The stages of the commands before one: whose parts a join brings together, whose results are read back.
pub(super) fn stages_before(schedule: &Schedule, command: &Command) -> Vec<usize> {
    let mut stages: Vec<usize> =
        command.after.iter().map(|before| schedule.commands[before.index()].stage).collect();
    stages.dedup();
    stages
}

/// The stages whose parts a join brings together.
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
        // What the host must see at the end, or computes a part of, both must address.
        let meets = uses_gpu && (task.clock == Clock::Host || uses(ProcessorKind::Cpu));
        let sharing = if meets { Some(machine.sharing(task.plan.synchronisation)?) } else { None };
        let memory = sharing.map(|(_, memory)| memory);
        let schedule = schedule(task.stages, task.plan, &setting(memory, task.profile))?;
        // What the device's clock covers ends before the host learns of it.
        let mechanism = sharing.map_or(Mechanism::EventPolling, |(mechanism, _)| mechanism);
        let flags = match machine.runtime().filter(|_| uses_gpu) {
            Some(runtime) => sync::flags(runtime, mechanism)?,
            None => None,
        };
        let operations = build::operations(machine, task, &schedule, (memory, flags.as_ref()))?;
        let mut program = Self {
            places: build::places(machine, task, &operations, memory)?,
            joined: build::joined(machine, &operations, &schedule, memory)?,
            operations,
            meetings: Meetings::default(),
            schedule,
            link: None,
            sharing,
            clock: task.clock,
            seed: task.seed,
        };
        program.bind()?;
        program.meetings = Meetings::new(&program.schedule.commands, |command| program.is_work(command));
        if let Some(runtime) = machine.runtime().filter(|_| uses_gpu) {
            program.link = Some(Link::new(runtime, (mechanism, flags), program.meetings.tells(), task.limit));
        }
        Ok(program)
    }

    fn bind(&mut self) -> Result<()> {
        for stage in 0..self.operations.len() {
            let operation = &self.operations[stage];
            if operation.gpu().next().is_none() {
                continue;
            }
            let tensor = |place: &Place<T>| {
                place.device().map(Arc::clone).ok_or_else(|| OpenClError::Unsupported {
                    operator: operation.layer.operator.to_string(),
                    reason: "one of its tensors is not on the device".to_owned(),
                })
            };
            let read = |&read: &usize| tensor(self.place(Some(stage), read, Side::Device));
            let inputs = operation.reads.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            let output = tensor(&self.places[stage])?;
            for gpu in self.operations[stage].parts.iter_mut().filter_map(|part| part.gpu.as_mut()) {
                gpu.prepared.bind(inputs.clone(), Arc::clone(&output))?;
                // Drivers finish compiling when a kernel is launched first, which may take
                // longer than the other side would wait.
                gpu.prepared.run(FIRST_LAUNCH_LIMIT)?;
            }
        }
        Ok(())
    }

    /// Where a reader finds a tensor: inside a chain its processor's own copy, elsewhere the
    /// joined one, where the two differ and that side has it. Without a reader, where the
    /// caller finds it.
    pub(super) fn place(&self, reader: Option<usize>, tensor: usize, side: Side) -> &Place<T> {
        let own = &self.places[tensor];
        let Some(joined) = self.joined.get(tensor).and_then(Option::as_ref) else { return own };
        let is_of_chain =
            reader.is_some_and(|reader| self.operations[reader].chain == self.operations[tensor].chain);
        if is_of_chain || (side == Side::Device && joined.device().is_none()) { own } else { joined }
    }

    /// Whether a command is more than an order of those around it: what is shared is there
    /// for all as soon as they know.
    fn is_work(&self, command: &Command) -> bool {
        match command.what {
            What::Compute { .. } | What::Move { .. } => true,
            What::HandOver { .. } => self.maps() && Side::of(command) == Side::Host,
            What::Join { .. } => {
                self.maps()
                    || stages_before(&self.schedule, command)
                        .iter()
                        .any(|&stage| self.joined[stage].is_some())
            }
            What::ReadBack => self.maps(),
            // The queue is filled before the host does anything.
            What::Submit => false,
        }
    }

    /// How the GPU launches the operator, where there is but one and it takes part.
    pub(crate) fn launch(&self) -> Option<Launch> {
        let [operation] = self.operations.as_slice() else { return None };
        operation.gpu().next().map(|gpu| gpu.launch)
    }

    /// The CPU threads of the first operator that has any.
    pub(crate) fn team(&self) -> Option<Team> {
        self.operations.iter().find_map(|operation| operation.cpu.as_ref().map(|cpu| cpu.team))
    }

    /// Runs everything once; what it took.
    pub(crate) fn run(&mut self, machine: &mut Machine) -> Result<Taken> {
        let started = Instant::now();
        let progress = self.carry_out(machine)?;
        let wall = duration_to_picos(started.elapsed());
        let kernels = progress.kernels(&self.schedule);
        let (counted, kernels) = match (self.clock, kernels) {
            (Clock::Device, Some(kernels)) => kernels.map(|kernels| (kernels, Some(kernels)))?,
            (_, kernels) => (wall, kernels.and_then(Result::ok)),
        };
        Ok(Taken { counted, wall, kernels })
    }

    /// Runs single operators one behind the other, each once: what each took by its processor's own clock. Those
    /// of a GPU are all in its queue before the first is waited for, as those of an inference are; each has
    /// `limit` to end.
    pub(crate) fn run_in_a_row(
        programs: Vec<&mut Self>,
        machine: &mut Machine,
        limit: Duration,
    ) -> Vec<Result<Picos>> {
        let mut run = |program: &mut Self, queued: Option<opencl::Result<Queued>>| match queued {
            Some(queued) => Ok(queued?.wait(limit)?.device),
            None => Ok(program.run(machine)?.counted),
        };
        let queued: Vec<_> = programs.iter().map(|program| program.queued_alone()).collect();
        programs.into_iter().zip(queued).map(|(program, queued)| run(program, queued)).collect()
    }

    /// Puts a single operator of the GPU in its queue; none where there are others, or the CPU takes part.
    fn queued_alone(&self) -> Option<opencl::Result<Queued>> {
        let [operation] = self.operations.as_slice() else { return None };
        let gpu = operation.gpu().next().filter(|_| operation.cpu.is_none())?;
        Some(gpu.prepared.queued())
    }

    /// Does all commands; what was done when.
    pub(super) fn carry_out(&mut self, machine: &mut Machine) -> Result<Progress> {
        let mut progress = Progress::default();
        let mut all = || {
            self.queue(&mut progress)?;
            while self.go_on(machine, &mut progress)? != Going::Ended {}
            Ok(())
        };
        let done = all();
        if done.is_err() {
            self.abandon();
        }
        done.map(|()| progress)
    }

    /// Does what the host does next; whether there was anything left to do.
    fn step(&mut self, machine: &mut Machine, progress: &mut Progress) -> Result<bool> {
        let Some(&step) = self.meetings.host.get(progress.hosted) else { return Ok(false) };
        match step {
            Action::Do(id) => {
                let started = Instant::now();
                self.on_host(machine, id)?;
                progress.on_host.push((id, [started, Instant::now()]));
            }
            Action::Tell(signal) => {
                if let Some(link) = &mut self.link {
                    link.signal(signal)?;
                }
                progress.signalled = signal;
                self.queue(progress)?;
            }
            Action::Await(announcement) => {
                if let Some(link) = self.link.as_mut().filter(|_| !progress.is_one_of_several) {
                    link.wait_or_give_up(announcement)?;
                }
            }
        }
        progress.hosted += 1;
        Ok(true)
    }

    /// Does a command of the host's.
    fn on_host(&mut self, machine: &mut Machine, id: CommandId) -> Result<()> {
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

    /// Maps and unmaps results, where the mechanism does.
    fn map(&self, stages: &[usize]) -> Result<()> {
        let Some(link) = self.link.as_ref().filter(|_| self.maps()) else { return Ok(()) };
        for &stage in stages {
            if let Some(tensor) = self.places[stage].device() {
                tensor.map_and_unmap()?;
            }
        }
        // The device has the memory again when unmapping has ended.
        Ok(link.finish()?)
    }

    /// Whether results are mapped at every meeting.
    fn maps(&self) -> bool {
        self.sharing.is_some_and(|(mechanism, memory)| memory == Home::Mapped && mechanism.modelled().maps())
    }

    /// Brings the parts of a result together that processors computed each for itself;
    /// where the device shares no memory, its part was moved there.
    fn join(&self, stage: usize) {
        let (own, Some(joined)) = (&self.places[stage], &self.joined[stage]) else { return };
        for part in &self.operations[stage].parts {
            let from = if part.gpu.is_some() { own.device_ptr() } else { own.host_ptr() };
            if let (Some(from), Some(to)) = (from, joined.host_ptr()) {
                let [from, to] = [from, to].map(<*mut [T]>::cast::<T>);
                for range in pieces(self.operations[stage].layer.operator.output(), part.owned) {
                    // SAFETY: the range lies in both tensors, which are apart; whoever
                    // computed it has ended, and nobody reads the joined one before.
                    unsafe {
                        let (from, to) = (from.add(range.start), to.add(range.start));
                        std::ptr::copy_nonoverlapping(from, to, range.len());
                    }
                }
            }
        }
    }

    /// The CPU's part of a stage.
    fn compute(&mut self, machine: &mut Machine, stage: usize, part: usize) -> Result<()> {
        let tensor = |&read: &usize| -> &[T] {
            // SAFETY: whoever computed the tensor has ended: the host itself, or the device
            // whose announcement was waited for.
            self.place(Some(stage), read, Side::Host).host_ptr().map_or(&[], |all| unsafe { &*all })
        };
        let inputs: Vec<&[T]> = self.operations[stage].reads.iter().map(tensor).collect();
        let output = self.places[stage].host_ptr();
        let operation = &mut self.operations[stage];
        let (Some(cpu), Some(output)) = (&mut operation.cpu, output) else { return Ok(()) };
        let (pool, part) = (machine.pool(cpu.team), operation.parts[part].computed);
        // SAFETY: the device, if it takes part, writes another part, and nobody reads before
        // both are done.
        Ok(unsafe { cpu.prepared.run_shared(pool, &inputs, output, part) }?)
    }

    /// The weights of an operator.
    pub(super) fn weights(&self, stage: usize) -> [Vec<f32>; 2] {
        random_operands::weights(&self.operations[stage].layer.operator, build::weight_seed(self.seed, stage))
    }
}

/// What of this machine decides which commands there are, where processors share `memory`;
/// none where the GPU keeps all to itself.
pub(super) fn setting(memory: Option<Home>, profile: &Profile) -> Setting {
    Setting {
        gpu_has_own_memory: memory == Some(Home::Device),
        ends_on_host: memory.is_some(),
        is_inference: memory.is_some(),
        cpu_fills_the_queue: memory.is_some(),
        control: CoreSet::slowest(&profile.cpu),
    }
}
