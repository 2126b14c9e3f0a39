//! Lowers the commands of a schedule to priced tasks of an engine program.

use super::compiled_graphs::{Compiled, InCompiledGraph};
use super::memory::cluster_client;
use super::price::{own_memory, resubmission};
use super::{Detail, Result, SimulateError, Simulator, copying, hand_over_delay, has_own_memory, join_delay};
use crate::device::{LinkTransfer, ProcessorKind, Profile};
use crate::engine::{ClientId, Program, TaskId, Work};
use crate::kernel::{CoreSet, Phase, PhaseKind, Phases};
use crate::plan::synchronisation::notification;
use crate::plan::{Axis, GraphCover, Plan, Processor, Region, Regions, Span};
use crate::schedule::{Command, Missing, Schedule, Setting, What, read_bytes, result_bytes, schedule};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Operator, Stage};

/// One task of the engine program: a command with its phases. A part that the NPU computes in several
/// static graphs has one task per graph.
#[derive(Clone, Debug)]
pub(crate) struct PricedCommand {
    pub(crate) stage: usize,
    pub(crate) by: Processor,
    pub(crate) what: What,
    /// Its part of the stage, where the stage is cut.
    pub(crate) share: Share,
    pub(crate) phases: Phases,
    /// The memory client charged with its traffic, if other than that of its processor.
    pub(crate) client: Option<ClientId>,
    pub(crate) detail: Option<Detail>,
    pub(crate) predecessors: Vec<TaskId>,
    /// Whether the processor goes on with the next command of a compiled graph, without interruption.
    pub(crate) goes_on: bool,
}

/// How much of a cut operator a task computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    /// Output channels, where the operator is cut along them.
    pub(crate) channels: Option<u32>,
    /// Output rows, where the operator is cut along its height.
    pub(crate) rows: Option<u32>,
}

/// A plan as tasks.
#[derive(Debug, Default)]
pub(crate) struct Lowered {
    pub(crate) tasks: Vec<PricedCommand>,
    /// The output regions that the parts of each stage compute.
    pub(super) computed: Vec<Regions>,
    /// Bytes of each stage's result that each processor lacks.
    pub(super) missing: Vec<Missing>,
    /// Whether the GPU's traffic bypasses the shared memory.
    pub(super) gpu_has_own_memory: bool,
}

impl Share {
    /// The share that `region` is of the output `whole` of a cut operator.
    fn of(region: Region, whole: Region) -> Self {
        let along = |axis: Axis, is_known: bool| {
            let span: Span = region.span(axis);
            (is_known || span != whole.span(axis)).then(|| span.length())
        };
        let channels = along(Axis::Channels, false);
        // A part with all channels is cut along the height, even where its halo covers all rows.
        Self { channels, rows: along(Axis::Height, channels.is_none()) }
    }
}

impl PricedCommand {
    pub(crate) fn processor(&self) -> ProcessorKind {
        self.by.kind()
    }

    /// Whether it computes, rather than synchronises or copies.
    pub(crate) fn computes(&self) -> bool {
        matches!(self.what, What::Compute { .. })
    }

    /// Adds the task to a program, its phases stretched by the factor if given; without its traffic unless
    /// `moves`.
    fn add(&self, stretch: Option<f64>, moves: bool, program: &mut Program) -> TaskId {
        let work = self.phases.as_slice().iter().map(|phase| Work {
            duration: stretch.map_or(phase.duration, |factor| phase.duration.scale(factor)),
            bytes: if moves { phase.bytes } else { Bytes::ZERO },
        });
        let streams = self.detail.as_ref().map_or(1, Detail::streams);
        let id = program.task(self.processor().id(), streams, work);
        if let Some(client) = self.client {
            program.set_client(id, client);
        }
        if !self.computes() {
            program.on_host(id);
        }
        if self.goes_on {
            program.keep_processor(id);
        }
        id
    }
}

impl Lowered {
    /// Prices the commands of `plan` for `stages` on the device and under the measure of
    /// `simulator`.
    pub(crate) fn new(stages: &[Stage], plan: &Plan, simulator: &Simulator<'_>) -> Result<Self> {
        let device = simulator.device;
        let setting = Setting {
            gpu_has_own_memory: has_own_memory(device),
            ends_on_host: simulator.ends_on_host,
            is_inference: simulator.host.submission().is_some(),
            cpu_fills_the_queue: simulator.host.delays_the_cpu(),
            control: CoreSet::slowest(&device.cpu),
        };
        let Schedule { commands, computed, missing } = schedule(stages, plan, &setting)?;
        check_room(stages, plan, device)?;
        let compiled = simulator.compiled(stages, plan)?;
        let pricing = Pricing { simulator, stages, plan, compiled };
        let mut tasks = Vec::with_capacity(commands.len());
        // The last task of each command, and of the stages of compiled graphs.
        let mut last: Vec<TaskId> = Vec::with_capacity(commands.len());
        let mut ends = vec![TaskId(0); stages.len()];
        for command in commands {
            let stage = command.stage;
            pricing.price(command, (&last, &ends), &mut tasks)?;
            last.push(TaskId(tasks.len() as u32 - 1));
            ends[stage] = TaskId(tasks.len() as u32 - 1);
        }
        Ok(Self { tasks, computed, missing, gpu_has_own_memory: setting.gpu_has_own_memory })
    }

    /// Writes the tasks into an engine program, each stretched by its entry of `stretch` (1 beyond its end).
    pub(crate) fn write(&self, program: &mut Program, stretch: &[f64]) {
        program.clear();
        for (index, task) in self.tasks.iter().enumerate() {
            let id = self.add(index, stretch.get(index).copied(), program);
            for &predecessor in &task.predecessors {
                program.after(id, predecessor);
            }
        }
    }

    /// Appends a task to its processor's queue, stretched by the factor if given. The caller adds its
    /// dependencies.
    pub(super) fn add(&self, index: usize, stretch: Option<f64>, program: &mut Program) -> TaskId {
        let task = &self.tasks[index];
        task.add(stretch, !self.bypasses_shared_memory(task), program)
    }

    fn bypasses_shared_memory(&self, task: &PricedCommand) -> bool {
        self.gpu_has_own_memory && task.by == Processor::Gpu && task.computes()
    }
}

/// Prices the commands of one plan.
struct Pricing<'p, 'a> {
    simulator: &'p Simulator<'a>,
    stages: &'p [Stage],
    plan: &'p Plan,
    /// Phases of the stages that are operators of compiled graphs.
    compiled: Compiled,
}

impl Pricing<'_, '_> {
    /// Adds the tasks of a command; `last` has the last task of each earlier command, `ends` of each stage.
    fn price(
        &self,
        command: Command,
        (last, ends): (&[TaskId], &[TaskId]),
        tasks: &mut Vec<PricedCommand>,
    ) -> Result<()> {
        let Command { stage, by, what, after } = command;
        // Other processors have the results of a compiled graph when it ends.
        let end = |id: TaskId| {
            let task = &tasks[id.0 as usize];
            match self.compiled.get(task.stage) {
                Some(Some(graph)) if by.kind() != ProcessorKind::Npu && task.computes() => ends[graph.last],
                Some(_) | None => id,
            }
        };
        let predecessors = after.into_iter().map(|before| end(last[before.index()])).collect();
        if let What::Compute { region, .. } = what {
            return self.compute(stage, (by, what, region), predecessors, tasks);
        }
        let phases = self.overhead(stage, by, what);
        let (share, client, detail, goes_on) = (Share::default(), None, None, false);
        tasks.push(PricedCommand { stage, by, what, share, phases, client, detail, predecessors, goes_on });
        Ok(())
    }

    /// The phases of a command that does not compute: synchronisation, a copy, or the host's work.
    fn overhead(&self, stage: usize, by: Processor, what: What) -> Phases {
        let (device, mechanism) = (self.simulator.device, self.plan.synchronisation);
        let again = || resubmission(device, mechanism, &self.stages[stage].layer);
        let duration = match what {
            What::Submit => self.simulator.host.submission().unwrap_or_default(),
            What::ReadBack => self.simulator.host.read_back().unwrap_or_default(),
            What::HandOver { missing, from, waits, .. } => {
                let with_gpu = by == Processor::Gpu || from.is_only(ProcessorKind::Gpu);
                let delay = hand_over_delay(device, mechanism, missing, with_gpu);
                let continues_on_gpu = by == Processor::Gpu && from.is_only(ProcessorKind::Npu);
                match (waits, continues_on_gpu) {
                    (true, true) => delay + again(),
                    (true, false) => delay,
                    (false, _) => delay - notification(&device.sync, mechanism),
                }
            }
            What::Join { missing, with_npu } => {
                let delay = join_delay(device, mechanism, missing);
                if with_npu { delay + again() } else { delay }
            }
            What::Move { bytes, pieces, to, .. } => {
                let duration = copying(device, LinkTransfer { bytes, pieces }, to.into());
                // The engine would give a phase of zero duration the time that the memory needs for its bytes.
                let bytes = if duration == Picos::ZERO { Bytes::ZERO } else { bytes };
                return Phases::from_iter([Phase::new(PhaseKind::Transfer, duration, bytes)]);
            }
            // Priced by a kernel model in `compute`.
            What::Compute { .. } => Picos::ZERO,
        };
        Phases::from_iter([Phase::new(PhaseKind::Synchronise, duration, Bytes::ZERO)])
    }

    /// Adds the task of a part, or one task per static graph in which the NPU computes it.
    fn compute(
        &self,
        stage: usize,
        (by, what, region): (Processor, What, Region),
        mut predecessors: Vec<TaskId>,
        tasks: &mut Vec<PricedCommand>,
    ) -> Result<()> {
        let layer = &self.stages[stage].layer;
        let whole = Region::of(layer.operator.output());
        let placement = &self.plan.placements[stage];
        let hides_dispatch = self.plan.synchronisation.hides_dispatch(placement);
        let client = by.cores().and_then(|cores| cluster_client(self.simulator.device, &cores));
        let mut push = |share, (phases, detail): (Phases, Detail), goes_on| {
            let (detail, predecessors) = (Some(detail), std::mem::take(&mut predecessors));
            tasks.push(PricedCommand {
                stage,
                by,
                what,
                share,
                phases,
                client,
                detail,
                predecessors,
                goes_on,
            });
        };
        if let Some(Some(compiled)) = self.compiled.get(stage) {
            let InCompiledGraph { phases, detail, goes_on, .. } = compiled.clone();
            push(Share::default(), (phases, detail), goes_on);
            return Ok(());
        }
        let mut graphs = Vec::new();
        if let (Processor::Npu(cover), Operator::Linear(_)) = (by, &layer.operator)
            && self.simulator.runs_products_singly(layer.data_type)
        {
            graphs = self.graphs(stage, region, cover)?;
        }
        let mut task = |layer: &Layer, share| -> Result<()> {
            let (mut phases, detail) = self.simulator.layer(layer, by)?;
            if hides_dispatch && detail.is_dispatched_early() {
                phases = phases.without_launch();
            }
            push(share, (phases, detail), false);
            Ok(())
        };
        if graphs.is_empty() {
            if !placement.is_cut() {
                return task(layer, Share::default());
            }
            return task(&region.part_of(layer), Share::of(region, whole));
        }
        let part = layer.with_output_channels(region.channels.length());
        graphs.into_iter().try_for_each(|rows| {
            // Padded rows of a graph count towards the share only where the product is cut along its rows.
            let counted = if region.rows == whole.rows { whole.rows } else { Span::new(0, rows) };
            let region = Region { rows: counted, ..region };
            let share = if placement.is_cut() { Share::of(region, whole) } else { Share::default() };
            task(&part.with_output_rows(0..rows), share)
        })
    }

    /// Rows of each static graph that computes a part of a product of activations and trained
    /// weights, where the NPU runs products one by one.
    fn graphs(&self, stage: usize, region: Region, cover: GraphCover) -> Result<Vec<u32>> {
        let device = self.simulator.device;
        let npu = device.systolic().ok_or_else(|| SimulateError::absent("NPU", device))?;
        let rows = region.rows.length();
        let graphs = cover.graphs(rows, npu).filter(|graphs| !graphs.is_empty());
        let operator = || self.stages[stage].name.clone();
        Ok(graphs.ok_or_else(|| SimulateError::NoGraph { rows, operator: operator() })?.to_vec())
    }
}

/// Checks that the weights and constants that a plan places on a GPU fit into its own memory, together with the
/// tensors of its largest operator.
fn check_room(stages: &[Stage], plan: &Plan, device: &Profile) -> Result<()> {
    let Some(memory) = own_memory(device) else { return Ok(()) };
    let (mut weights, mut tensors) = (Bytes::ZERO, Bytes::ZERO);
    for (stage, placement) in stages.iter().zip(&plan.placements) {
        for part in placement.parts().filter(|part| part.by == Processor::Gpu) {
            let part = placement.is_cut().then(|| part.region.part_of(&stage.layer));
            let layer = part.as_ref().unwrap_or(&stage.layer);
            if !stage.shares_weights {
                weights += layer.data_type.weight_bytes(layer.operator.parameters());
            }
            weights += stage.constant_bytes();
            tensors = tensors.max(read_bytes(layer) + result_bytes(layer));
        }
    }
    let needed = weights + tensors;
    if needed > memory.capacity() {
        return Err(SimulateError::GpuMemoryFull { needed, capacity: memory.capacity() });
    }
    Ok(())
}
