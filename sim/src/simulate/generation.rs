//! Language models: prefill of prompts and token-by-token decode.
//!
//! Responsible for: time to first token, time per token, rates, traffic and energy of both
//! phases, and their timeline. Not for: which processor computes what (`explore`).
//! Invariant: the result equals an engine run of all operators of all steps one after another.
//! Layers are identical and end with every processor waiting, so one layer is run and multiplied
//! by their number. Between decode steps only the operators over the context change, so only
//! their kernel models are evaluated again.

mod drawn;
mod graphs;
mod report;
mod request;
mod timeline;
mod written;

use std::collections::BTreeSet;

use super::{Prediction, Result, Simulator, within_a_day};
use crate::device::{Order, ProcessorKind, Profile};
use crate::kernel::Library;
use crate::kernel::npu::graph_preparation;
use crate::plan::{Mechanism, Placement, Plan, Processor};
use crate::schedule::ScheduleError;
use crate::units::Picos;
use crate::workload::{LanguageTask, Layer, Stage, StepParts, StepStages, TokenStep, Turn};

pub use drawn::GenerationDrawn;
pub use graphs::Graphs;
pub use report::{Generation, PhaseReport, TurnReport};
pub use request::{price_answer, price_turns};
pub use timeline::generation_timeline;
pub use written::planned_stages;

/// Placements of the operators of one step.
pub type StepPlan = StepParts<Placement>;

/// Plan of a whole task of a language model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationPlan {
    /// Synchronisation between processors.
    pub synchronisation: Mechanism,
    /// Prefill of each turn's prompt.
    pub prefill: Vec<StepPlan>,
    /// Every decode step.
    pub decode: StepPlan,
    /// The NPU's graphs.
    pub graphs: Graphs,
    /// Which operand is stationary in the NPU's arrays; `None` for the profile's order.
    pub order: Option<Order>,
}

impl GenerationPlan {
    /// `device` with its NPU configured as the plan uses it.
    pub fn device(&self, device: &Profile) -> Profile {
        let mut device = device.clone();
        if let Some(npu) = device.npu.as_mut().and_then(|npu| npu.systolic.as_mut()) {
            if self.graphs == Graphs::MadeOnline {
                npu.graph_sizes.clear();
            }
            npu.order = self.order.unwrap_or(npu.order);
        }
        device
    }

    /// The plan of a turn's prefill.
    ///
    /// # Errors
    /// The plan has fewer turns than the task.
    fn prefill_plan(&self, task: &LanguageTask, turn: usize) -> Result<&StepPlan> {
        let (placements, stages) = (self.prefill.len(), task.turns.len());
        self.prefill.get(turn).ok_or_else(|| ScheduleError::PlanLength { placements, stages }.into())
    }

    /// The graphs of a step. A step that other processors share is not compiled as a whole.
    pub(super) fn graphs_of(&self, step: &StepPlan) -> Graphs {
        match self.graphs {
            Graphs::Compiled { .. } if !step.is_npu_alone() => Graphs::Standard,
            graphs => graphs,
        }
    }

    /// Whether only one of prefill and decode runs in graphs of whole steps, so that each phase needs the
    /// weights in a layout of its own.
    pub fn keeps_weights_twice(&self) -> bool {
        let is_compiled = |step| self.graphs_of(step).hold_whole_steps();
        self.prefill.iter().any(|step| is_compiled(step) != is_compiled(&self.decode))
    }

    /// Whether one processor computes all steps.
    pub fn is_on_one_processor(&self) -> bool {
        ProcessorKind::ALL.into_iter().filter(|&processor| self.uses(processor)).count() == 1
    }

    fn uses(&self, processor: ProcessorKind) -> bool {
        let steps = self.prefill.iter().chain([&self.decode]);
        steps.flat_map(StepPlan::parts).flatten().any(|placement| placement.uses(processor))
    }
}

impl StepPlan {
    /// Whether the NPU computes all operators, including those between products.
    fn is_npu_alone(&self) -> bool {
        self.parts().into_iter().flatten().all(|placement| *placement == Placement::NPU)
    }
}

/// Cost of a section of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    latency: Picos,
    bytes: f64,
    /// NaN where the profile has no power table.
    joules: f64,
    /// Busy picoseconds of each processor.
    busy: [f64; ProcessorKind::ALL.len()],
}

impl Cost {
    fn of(prediction: &Prediction) -> Self {
        let mut busy = [0.0; ProcessorKind::ALL.len()];
        for usage in &prediction.processors {
            busy[usage.processor as usize] = usage.busy.0 as f64;
        }
        Self {
            latency: prediction.latency,
            bytes: prediction.bytes.0 as f64,
            joules: prediction.energy.map_or(f64::NAN, |energy| energy.0),
            busy,
        }
    }

    /// This cost, followed by `times` times `next`.
    fn then(self, next: Self, times: u32) -> Self {
        let factor = f64::from(times);
        let mut busy = self.busy;
        busy.iter_mut().zip(next.busy).for_each(|(sum, part)| *sum += factor * part);
        Self {
            latency: self.latency.saturating_add(next.latency.times(times)),
            bytes: self.bytes + factor * next.bytes,
            joules: self.joules + factor * next.joules,
            busy,
        }
    }
}

/// A task of a language model on a device.
#[derive(Clone, Copy, Debug)]
pub struct Conversation<'a> {
    /// The device.
    pub device: &'a Profile,
    /// Library of the CPU kernels.
    pub library: Library,
    /// The model and its prompts and answers.
    pub task: &'a LanguageTask,
}

impl<'a> Conversation<'a> {
    /// `task` on `device` with the CPU kernels of `library`.
    pub fn new(device: &'a Profile, library: Library, task: &'a LanguageTask) -> Self {
        Self { device, library, task }
    }
}

/// Predicts a conversation under `plan`.
///
/// # Errors
/// The plan is for another task, or the device lacks a processor or kernel it uses.
pub fn generate(conversation: Conversation<'_>, plan: &GenerationPlan) -> Result<Generation> {
    let Conversation { device, task, .. } = conversation;
    let variant = plan.device(device);
    let mut run = GenerationRun::new(Conversation { device: &variant, ..conversation }, plan);
    let mut turns = Vec::with_capacity(task.turns.len());
    let mut latency = Picos::ZERO;
    for (index, turn) in task.turns.iter().enumerate() {
        let prefill = run.prefill(index)?;
        let preparation = run.online_preparation(*turn, device);
        let decode = if turn.generated_tokens > 0 { Some(run.decode(index)?) } else { None };
        let report = TurnReport::new(*turn, task.context_before(index), preparation, prefill, decode);
        latency = within_a_day("the conversation", latency.saturating_add(report.latency()))?;
        turns.push(report);
    }
    Ok(Generation::new(turns))
}

/// Simulates a task under a plan.
struct GenerationRun<'a> {
    simulator: Simulator<'a>,
    task: &'a LanguageTask,
    plan: &'a GenerationPlan,
    /// Rows of the graphs built so far, where graphs are built online.
    made: BTreeSet<u32>,
}

impl<'a> GenerationRun<'a> {
    /// A run on a device that is already the variant of [`GenerationPlan::device`].
    fn new(Conversation { device, library, task }: Conversation<'a>, plan: &'a GenerationPlan) -> Self {
        let simulator = Simulator::new(device, library).inside();
        Self { simulator, task, plan, made: BTreeSet::new() }
    }

    /// The parts of a step with their plans, and how often each is run.
    fn parts<'s>(&self, stages: &'s StepStages, plan: &StepPlan) -> [(&'s [Stage], Plan, u32); 3] {
        let [first, layer, last] = stages.parts();
        let of = |placements: &[Placement]| Plan::new(self.plan.synchronisation, placements.to_vec());
        let layers = self.task.model.layers;
        [(first, of(&plan.first), 1), (layer, of(&plan.layer), layers), (last, of(&plan.last), 1)]
    }

    fn prefill(&mut self, turn: usize) -> Result<Cost> {
        let plan = self.plan.prefill_plan(self.task, turn)?;
        let graphs = self.plan.graphs_of(plan);
        let answered = turn.checked_sub(1).map_or(0, |before| self.task.turns[before].generated_tokens);
        self.steps(graphs.prefill_steps(self.task, turn), plan, self.rearranging(answered))
    }

    /// Cost of converting the KV cache of `tokens` to the layout of the other phase, where prefill and decode
    /// have different layouts: it is read and written once at the bandwidth of one processor.
    fn rearranging(&self, tokens: u32) -> Cost {
        if !self.plan.keeps_weights_twice() {
            return Cost::default();
        }
        let bytes = 2.0 * self.task.model.cache_bytes(tokens) as f64;
        let seconds = bytes / self.simulator.device.memory.capacity(1).0;
        Cost { latency: Picos::from_nanos(1e9 * seconds), bytes, ..Cost::default() }
    }

    /// The operators of one step. Also sets how the simulator's NPU executes them.
    fn stages(&mut self, step: TokenStep, plan: &StepPlan) -> StepStages {
        let graphs = self.plan.graphs_of(plan);
        self.simulator.npu_execution = graphs.npu_execution();
        graphs.stages(self.task, step)
    }

    /// Cost of all `steps`, each times its count, added to `before`.
    fn steps(&mut self, steps: Vec<(TokenStep, u32)>, plan: &StepPlan, before: Cost) -> Result<Cost> {
        steps.into_iter().try_fold(before, |cost, (step, times)| Ok(cost.then(self.step(step, plan)?, times)))
    }

    /// Cost of one step.
    fn step(&mut self, step: TokenStep, plan: &StepPlan) -> Result<Cost> {
        let stages = self.stages(step, plan);
        let mut cost = Cost::default();
        for (stages, plan, count) in self.parts(&stages, plan) {
            cost = cost.then(Cost::of(&self.simulator.run(stages, &plan)?), count);
        }
        Ok(cost)
    }

    /// Cost of all generated tokens of `turn`.
    fn decode(&mut self, turn: usize) -> Result<Cost> {
        let tokens = self.task.turns[turn].generated_tokens;
        let graphs = self.plan.graphs_of(&self.plan.decode);
        let rearranging = self.rearranging(self.task.turns[turn].prompt_tokens);
        if graphs.hold_whole_steps() {
            return self.steps(graphs.decode_steps(self.task, turn, tokens), &self.plan.decode, rearranging);
        }
        let [first, last] = [0, tokens - 1].map(|token| graphs.decode_step(self.task, turn, token));
        let begin = self.step(first, &self.plan.decode)?;
        let end = self.step(last, &self.plan.decode)?;
        let latencies = self.token_latencies(turn, tokens, begin.latency)?;
        // Traffic and energy grow linearly with the context.
        let mean = |begin: f64, end: f64| f64::from(tokens) * f64::midpoint(begin, end);
        let answer = Cost {
            latency: latencies.into_iter().fold(Picos::ZERO, Picos::saturating_add),
            bytes: mean(begin.bytes, end.bytes),
            joules: mean(begin.joules, end.joules),
            busy: std::array::from_fn(|processor| mean(begin.busy[processor], end.busy[processor])),
        };
        Ok(rearranging.then(answer, 1))
    }

    /// Latency of each of the first `tokens` tokens of a turn, given that of the first, `begin`. Where one processor
    /// computes the operators over the context, a later token takes longer by their time alone, and its step is not
    /// simulated.
    fn token_latencies(&mut self, turn: usize, tokens: u32, begin: Picos) -> Result<Vec<Picos>> {
        let graphs = self.plan.graphs_of(&self.plan.decode);
        let first = graphs.decode_step(self.task, turn, 0);
        let by = self.context_processor(first);
        let of_first = by.map_or(Ok(Picos::ZERO), |by| self.over_context(first, by))?;
        let mut latencies = Vec::with_capacity(tokens as usize);
        for (step, times) in graphs.decode_steps(self.task, turn, tokens) {
            let latency = if let Some(by) = by {
                let grown = self.over_context(step, by)?.saturating_sub(of_first);
                begin.saturating_add(grown.times(self.task.model.layers))
            } else {
                self.step(step, &self.plan.decode)?.latency
            };
            latencies.extend(std::iter::repeat_n(latency, times as usize));
        }
        Ok(latencies)
    }

    /// The processor that computes all operators over the context; `None` where several do, or where an NPU
    /// pads them to static graphs.
    fn context_processor(&self, step: TokenStep) -> Option<Processor> {
        let stages = self.task.model.layer_stages(step, self.task.data_type());
        let operators = self.task.model.over_context(step);
        let over_context = stages
            .iter()
            .zip(&self.plan.decode.layer)
            .filter(|(stage, _)| operators.contains(&stage.layer.operator));
        let mut by = over_context.map(|(_, placement)| placement.only());
        let first = by.next()??;
        let is_padded = first.kind() == ProcessorKind::Npu && self.plan.graphs != Graphs::Kernels;
        (!is_padded && by.all(|other| other == Some(first))).then_some(first)
    }

    /// Time of one layer's operators over the context on one processor.
    fn over_context(&self, step: TokenStep, by: Processor) -> Result<Picos> {
        let mut sum = Picos::ZERO;
        for operator in self.task.model.over_context(step) {
            let layer = Layer::new(operator, self.task.data_type());
            sum += self.simulator.layer(&layer, by)?.0.duration();
        }
        Ok(sum)
    }

    /// Time to build the graphs for a prompt's length, where graphs are built online; zero for a length seen
    /// before.
    fn online_preparation(&mut self, turn: Turn, device: &Profile) -> Picos {
        match device.systolic() {
            Some(npu)
                if self.plan.graphs == Graphs::MadeOnline
                    && self.plan.uses(ProcessorKind::Npu)
                    && self.made.insert(turn.prompt_tokens) =>
            {
                graph_preparation(npu, turn.prompt_tokens)
            }
            _ => Picos::ZERO,
        }
    }
}
