//! Whole answers of a language model: prompts read, tokens generated one by one.
//!
//! Responsible for: time to the first token, time per token, rates, traffic and energy of
//! both phases, and their timeline. Not for: who computes what (`explore`).
//! Invariant: the answer is what the engine says of all operators of all steps one after
//! another. Layers are equal and end with every processor waiting, so one is run and
//! counted as often as there are layers; between the steps of an answer only the operators over the
//! context change, whose kernel models are asked again.

mod drawn;
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
use crate::units::{Bytes, Joules, Picos};
use crate::workload::{DataType, LanguageTask, Layer, Stage, StepStages, TokenStep, Turn};

pub use drawn::GenerationDrawn;
pub use report::{Generation, PhaseReport, TurnReport};
pub use request::{price_answer, price_prompt, price_tokens};
pub use timeline::generation_timeline;
pub use written::planned_stages;

/// Who computes the operators of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// Before the first layer.
    pub first: Vec<Placement>,
    /// One layer.
    pub layer: Vec<Placement>,
    /// Behind the last layer.
    pub last: Vec<Placement>,
}

/// Which static graphs the NPU has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Graphs {
    /// Those of the standard sizes, made before the first request.
    #[default]
    Standard,
    /// Those of each prompt's length, made when it arrives.
    MadeOnline,
    /// One of all operators of a step, over a context of so many tokens however many there are.
    Compiled {
        /// Tokens of the context.
        context: u32,
    },
}

/// Tokens of a prompt that a compiled graph reads at once: those of the exports of Qualcomm AI Hub, whose times to
/// the first token are of so many.
const COMPILED_PROMPT: u32 = 128;

/// Least context of compiled graphs, of those that Qualcomm AI Hub publishes times for: 512 to 4096, doubled from
/// one to the next.
const LEAST_CONTEXT: u32 = 512;

impl Graphs {
    /// Compiled for the least context that holds all turns of `task`.
    pub(crate) fn compiled(task: &LanguageTask) -> Self {
        let tokens = task.context_before(task.turns.len()).max(LEAST_CONTEXT);
        Self::Compiled { context: tokens.checked_next_power_of_two().unwrap_or(u32::MAX) }
    }

    fn are_of_steps(self) -> bool {
        matches!(self, Self::Compiled { .. })
    }

    /// The step that reads the prompt of a turn, and how often it is run.
    pub(crate) fn prefill_steps(self, task: &LanguageTask, turn: usize) -> (TokenStep, u32) {
        let step = task.prefill(turn);
        match self {
            Self::Standard | Self::MadeOnline => (step, 1),
            Self::Compiled { context } => {
                (TokenStep { tokens: COMPILED_PROMPT, context }, step.tokens.div_ceil(COMPILED_PROMPT))
            }
        }
    }

    /// The step that generates a token of a turn, `token` after the first of them.
    pub(crate) fn decode_step(self, task: &LanguageTask, turn: usize, token: u32) -> TokenStep {
        let first = task.first_decode(turn);
        match self {
            Self::Standard | Self::MadeOnline => {
                TokenStep { context: first.context.saturating_add(token), ..first }
            }
            Self::Compiled { context } => TokenStep { context, ..first },
        }
    }

    /// The stages of one step. In compiled graphs the last product has weights of 8 bits where the others have
    /// 4, as Qualcomm's exports do.
    pub(crate) fn stages(self, task: &LanguageTask, step: TokenStep) -> StepStages {
        let stages = task.stages(step);
        match self {
            Self::Compiled { .. } if task.data_type() == DataType::W4A16 => {
                StepStages { last: task.model.last_stages(DataType::W8A16), ..stages }
            }
            Self::Compiled { .. } | Self::Standard | Self::MadeOnline => stages,
        }
    }
}

/// Who computes what of a whole task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationPlan {
    /// Synchronisation between processors.
    pub synchronisation: Mechanism,
    /// One for each turn's prompt.
    pub prefill: Vec<StepPlan>,
    /// Every step that generates a token.
    pub decode: StepPlan,
    /// The NPU's graphs.
    pub graphs: Graphs,
    /// Which operand stays in the NPU's arrays, where not the profile's order.
    pub order: Option<Order>,
}

impl GenerationPlan {
    /// `device` with the NPU as the plan uses it.
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

    /// Who computes the prompt of a turn.
    ///
    /// # Errors
    /// The plan has fewer turns than the task.
    fn prefill_plan(&self, task: &LanguageTask, turn: usize) -> Result<&StepPlan> {
        let (placements, stages) = (self.prefill.len(), task.turns.len());
        self.prefill.get(turn).ok_or_else(|| ScheduleError::PlanLength { placements, stages }.into())
    }

    /// The graphs that a step has: where others than the NPU work in it, none is compiled as a whole.
    fn graphs_of(&self, step: &StepPlan) -> Graphs {
        match self.graphs {
            Graphs::Compiled { .. } if !step.is_npu_alone() => Graphs::Standard,
            graphs => graphs,
        }
    }

    /// Whether the prompt is read by graphs of whole steps and the answer generated by another processor, or the
    /// other way round, each with the weights in its own layout.
    pub fn keeps_weights_twice(&self) -> bool {
        let is_compiled = |step| self.graphs_of(step).are_of_steps();
        self.prefill.iter().any(|step| is_compiled(step) != is_compiled(&self.decode))
    }

    fn uses_npu(&self) -> bool {
        let steps = self.prefill.iter().chain([&self.decode]);
        steps.flat_map(StepPlan::parts).flatten().any(|placement| placement.uses(ProcessorKind::Npu))
    }
}

impl StepPlan {
    /// The three parts in order.
    pub fn parts(&self) -> [&Vec<Placement>; 3] {
        [&self.first, &self.layer, &self.last]
    }

    /// Whether the NPU computes all, products and what lies between them.
    fn is_npu_alone(&self) -> bool {
        self.parts().into_iter().flatten().all(|placement| *placement == Placement::NPU)
    }
}

/// What a stretch of a run cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cost {
    latency: Picos,
    bytes: f64,
    /// Not a number where the profile knows no power.
    joules: f64,
    /// Of each processor.
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

    /// This cost `times` over and then `next`.
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
    /// Whose CPU kernels it has.
    pub library: Library,
    /// What the model reads and generates.
    pub task: &'a LanguageTask,
}

impl<'a> Conversation<'a> {
    /// That task on that device.
    pub fn new(device: &'a Profile, library: Library, task: &'a LanguageTask) -> Self {
        Self { device, library, task }
    }
}

/// What a conversation takes under `plan`.
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

/// A task under a plan.
struct GenerationRun<'a> {
    simulator: Simulator<'a>,
    task: &'a LanguageTask,
    plan: &'a GenerationPlan,
    /// Rows of the graphs made so far, where none lie ready.
    made: BTreeSet<u32>,
}

impl<'a> GenerationRun<'a> {
    /// On a device as `plan` has it.
    fn new(Conversation { device, library, task }: Conversation<'a>, plan: &'a GenerationPlan) -> Self {
        let simulator = Simulator::new(device, library).inside();
        Self { simulator, task, plan, made: BTreeSet::new() }
    }

    /// The parts of a step with their plans, and how often each occurs.
    fn parts<'s>(&self, stages: &'s StepStages, plan: &StepPlan) -> [(&'s [Stage], Plan, u32); 3] {
        let [first, layer, last] = stages.parts();
        let of = |placements: &Vec<Placement>| Plan::new(self.plan.synchronisation, placements.clone());
        let layers = self.task.model.layers;
        [(first, of(&plan.first), 1), (layer, of(&plan.layer), layers), (last, of(&plan.last), 1)]
    }

    fn prefill(&mut self, turn: usize) -> Result<Cost> {
        let plan = self.plan.prefill_plan(self.task, turn)?;
        let graphs = self.plan.graphs_of(plan);
        let (step, times) = graphs.prefill_steps(self.task, turn);
        let cost = self.step(step, plan)?;
        let answered = turn.checked_sub(1).map_or(0, |before| self.task.turns[before].generated_tokens);
        Ok(self.rearranging(answered).then(cost, times))
    }

    /// Bringing the keys and values of `tokens` into the layout of the other phase's processor, where each phase
    /// has its own: they are read and written once, as fast as one processor moves anything.
    fn rearranging(&self, tokens: u32) -> Cost {
        if !self.plan.keeps_weights_twice() {
            return Cost::default();
        }
        let bytes = 2.0 * self.task.model.cache_bytes(tokens) as f64;
        let seconds = bytes / self.simulator.device.memory.capacity(1).0;
        Cost { latency: Picos::from_nanos(1e9 * seconds), bytes, ..Cost::default() }
    }

    /// The operators of one step, for which the NPU takes what it is given from now on.
    fn stages(&mut self, step: TokenStep, plan: &StepPlan) -> StepStages {
        let graphs = self.plan.graphs_of(plan);
        self.simulator.take_steps(graphs.are_of_steps());
        graphs.stages(self.task, step)
    }

    /// All operators of one step.
    fn step(&mut self, step: TokenStep, plan: &StepPlan) -> Result<Cost> {
        let stages = self.stages(step, plan);
        let mut cost = Cost::default();
        for (stages, plan, count) in self.parts(&stages, plan) {
            cost = cost.then(Cost::of(&self.simulator.run(stages, &plan)?), count);
        }
        Ok(cost)
    }

    /// Every generated token of `turn`.
    fn decode(&mut self, turn: usize) -> Result<Cost> {
        let steps = self.task.turns[turn].generated_tokens;
        let graphs = self.plan.graphs_of(&self.plan.decode);
        let [first, last] = [0, steps - 1].map(|token| graphs.decode_step(self.task, turn, token));
        let begin = self.step(first, &self.plan.decode)?;
        let end = self.step(last, &self.plan.decode)?;
        let latencies = self.token_latencies(turn, steps, begin.latency)?;
        // What moves and what it costs grows by the same with each token of the context.
        let mean = |begin: f64, end: f64| f64::from(steps) * f64::midpoint(begin, end);
        let answer = Cost {
            latency: latencies.into_iter().fold(Picos::ZERO, Picos::saturating_add),
            bytes: mean(begin.bytes, end.bytes),
            joules: mean(begin.joules, end.joules),
            busy: std::array::from_fn(|processor| mean(begin.busy[processor], end.busy[processor])),
        };
        Ok(self.rearranging(self.task.turns[turn].prompt_tokens).then(answer, 1))
    }

    /// What each of the `steps` steps of a turn's answer takes, where the first takes `begin`.
    fn token_latencies(&mut self, turn: usize, steps: u32, begin: Picos) -> Result<Vec<Picos>> {
        let graphs = self.plan.graphs_of(&self.plan.decode);
        let first = graphs.decode_step(self.task, turn, 0);
        if first == graphs.decode_step(self.task, turn, steps) {
            return Ok(vec![begin; steps as usize]);
        }
        let by = self.over_context_by(first);
        let of_first = by.map_or(Ok(Picos::ZERO), |by| self.over_context(first, by))?;
        let latency = |token| {
            let step = graphs.decode_step(self.task, turn, token);
            let Some(by) = by else { return Ok(self.step(step, &self.plan.decode)?.latency) };
            let grown = self.over_context(step, by)?.saturating_sub(of_first);
            Ok(begin.saturating_add(grown.times(self.task.model.layers)))
        };
        (0..steps).map(latency).collect()
    }

    /// Who alone computes all that depends on the context.
    fn over_context_by(&self, step: TokenStep) -> Option<Processor> {
        let stages = self.task.model.layer_stages(step, self.task.data_type());
        let operators = self.task.model.over_context(step);
        let over_context = stages
            .iter()
            .zip(&self.plan.decode.layer)
            .filter(|(stage, _)| operators.contains(&stage.layer.operator));
        let mut by = over_context.map(|(_, placement)| placement.only());
        let first = by.next()??;
        (first.kind() != ProcessorKind::Npu && by.all(|other| other == Some(first))).then_some(first)
    }

    /// What one processor takes for the operators over the context of one layer.
    fn over_context(&self, step: TokenStep, by: Processor) -> Result<Picos> {
        let mut sum = Picos::ZERO;
        for operator in self.task.model.over_context(step) {
            let layer = Layer::new(operator, self.task.data_type());
            sum += self.simulator.layer(&layer, by)?.0.duration();
        }
        Ok(sum)
    }

    /// Making the graphs of a prompt's length, where none lie ready.
    fn online_preparation(&mut self, turn: Turn, device: &Profile) -> Picos {
        match device.systolic() {
            Some(npu)
                if self.plan.graphs == Graphs::MadeOnline
                    && self.plan.uses_npu()
                    && self.made.insert(turn.prompt_tokens) =>
            {
                graph_preparation(npu, turn.prompt_tokens)
            }
            _ => Picos::ZERO,
        }
    }
}

fn joules(value: f64) -> Option<Joules> {
    value.is_finite().then_some(Joules(value))
}

fn bytes(value: f64) -> Bytes {
    Bytes(value.round() as u64)
}
