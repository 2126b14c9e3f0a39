//! Language models: what a prompt and its answer take under a plan, and which strategy
//! is best.

use std::path::Path;

use coexec_sim::explore::advice::CONFIDENCE;
use coexec_sim::explore::language::{LanguageAnswer, explore_language};
use coexec_sim::simulate::generation::{
    Conversation, Generation, GenerationDrawn, GenerationPlan, Graphs, PhaseReport, StepPlan, generate,
    generation_timeline, planned_stages,
};
use coexec_sim::simulate::{self, Footprint, SimulateError};
use coexec_sim::workload::{LanguageTask, Turn};
use coexec_sim::{Picos, PlanFile, ProcessorKind, Scenario, Stage, Strategy};
use serde::Serialize;

use crate::explore::describe;
use crate::output::{listed, record, row};
use crate::simulate::{found_by, memory, read_plan, timeline_files};
use crate::trust::UNSURE;
use crate::{
    Column, Common, Explore, Failure, OneOrAll, OutputFile, PicturePath, Result, ScenarioOptions, Simulate,
    Trust, or_dash, output,
};

/// A language model on a device, and what is asked of it.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) task: &'a LanguageTask,
}

/// What one plan comes to.
struct Found<'a> {
    case: Case<'a>,
    /// Where the plan came from.
    plan_origin: String,
    plan: &'a GenerationPlan,
    /// Weights, and the keys and values of all turns.
    memory: Footprint,
    generation: &'a Generation,
    trust: Trust,
}

/// A strategy beside others.
#[derive(Serialize)]
struct Entry<'a> {
    strategy: &'static str,
    latency_ps: Picos,
    /// Latency over the plan's.
    relative_to_plan: f64,
    #[serde(flatten)]
    drawn: GenerationDrawn,
    /// Whether it is sure which of it and the plan is faster.
    is_sure: bool,
    generation: &'a Generation,
}

/// That there are no kernels of this machine for a language model.
pub(crate) fn no_kernels(scenario: &str) -> Failure {
    Failure::usage(
        format!("{scenario} is a language model, which coexec predicts but does not run itself"),
        "use `coexec simulate` or `coexec explore`, or run a scenario of operators",
    )
}

/// Refuses what a search of operators asks for: an engine of language models takes the cores that it takes.
fn refuse_search(place: &ScenarioOptions) -> Result {
    let what = "of a search over operators, not of a language model";
    Failure::where_given(&place.of_search(), what, "leave it out, and name an engine with --strategy")
}

pub(crate) fn simulate(case: Case<'_>, options: &Simulate, common: &Common) -> Result {
    refuse_search(&options.place)?;
    if options.samples.is_some() {
        return Err(Failure::usage(
            "--samples repeats a run of operators, not a language model",
            "leave it out",
        ));
    }
    let Case { scenario, task } = case;
    let (plan, origin) = if let Some(path) = options.plan.as_deref() {
        let written = read_plan(path, scenario, &planned_stages(task))?;
        (GenerationPlan::of_flat(task, &written.plan), written.origin)
    } else {
        let best = case.answers(None).map_err(|error| case.refused(error))?.swap_remove(0);
        (best.plan, found_by(best.strategy))
    };
    let generation = generate(case.conversation(), &plan)?;
    output::write(&case.timeline(&plan, options.plot.as_ref(), options.trace.as_deref())?)?;
    let found = case.found(origin, &plan, &generation)?;
    if common.json {
        found.json(None, &[]);
    } else {
        found.heading();
        found.show();
    }
    Ok(())
}

pub(crate) fn explore(case: Case<'_>, options: &Explore, common: &Common) -> Result {
    refuse_search(&options.place)?;
    if options.plot.is_some() || options.shares.is_some() {
        return Err(Failure::usage(
            "--plot and --shares draw one run of operators, and a language model runs its own again and again",
            "ask for --timeline, or `coexec reproduce HeteroInfer --plots`",
        ));
    }
    let Case { scenario, task } = case;
    let answers = case.answers(options.place.strategy).map_err(|error| case.refused(error))?;
    let LanguageAnswer { strategy, plan, generation } = &answers[0];
    let file =
        plan.flat().map(|flat| PlanFile::new(&scenario.name, &scenario.device, &planned_stages(task), &flat));
    let mut files = case.timeline(plan, options.timeline.as_ref(), options.trace.as_deref())?;
    if let Some(path) = &options.out {
        let Some(file) = &file else {
            return Err(Failure::usage(
                format!("a plan file has no words for the graphs of {}", strategy.name()),
                "leave --out away, or choose another strategy",
            ));
        };
        files.push(OutputFile::encoded(path, toml::to_string_pretty(file))?);
    }
    output::write(&files)?;
    let found = case.found(found_by(*strategy), plan, generation)?;
    let strategies = answers.iter().map(|answer| found.beside(answer)).collect::<Result<Vec<_>>>()?;
    if common.json {
        found.json(file, &strategies);
        return Ok(());
    }
    found.heading();
    placements(task, plan);
    found.show();
    if strategies.len() > 1 {
        output::line("");
        compare(&strategies);
    }
    Ok(())
}

impl<'a> Case<'a> {
    pub(crate) fn conversation(self) -> Conversation<'a> {
        Conversation::new(&self.scenario.device, self.scenario.library, self.task)
    }

    /// The scenario's strategy, then the engines that there are, the best first; where none was asked for, the
    /// usual one among them. Or every one, best first.
    pub(crate) fn answers(self, asked: Option<OneOrAll<Strategy>>) -> simulate::Result<Vec<LanguageAnswer>> {
        let Case { scenario, task } = self;
        let answer =
            |strategy| explore_language(self.conversation(), strategy, scenario.options.synchronisation);
        let usual = scenario.options.strategy;
        let is_of_all = asked == Some(OneOrAll::All);
        let is_open = is_of_all || scenario.stated_strategy.is_none();
        let mut others: Vec<Strategy> =
            if is_of_all { Strategy::of_language_models().collect() } else { Strategy::engines().collect() };
        // What shares most comes last of all and first of equals.
        others.reverse();
        others.retain(|other| *other != usual);
        // Those that cannot run on the device, or cover these lengths, drop out.
        let mut answers: Vec<LanguageAnswer> =
            others.into_iter().filter_map(|other| answer(other).ok()).collect();
        match answer(usual) {
            Ok(found) => answers.insert(0, found),
            Err(_) if is_open && !answers.is_empty() => {}
            Err(error) => return Err(error),
        }
        let cost = |answer: &LanguageAnswer| {
            scenario.options.objective.cost(answer.generation.latency, answer.generation.energy)
        };
        let memory = |answer: &LanguageAnswer| Footprint::of_language(task, &answer.plan).peak();
        // Of equals, the one without a second copy of the weights.
        answers[usize::from(!is_open)..].sort_by(|one, other| {
            cost(one).total_cmp(&cost(other)).then_with(|| memory(one).cmp(&memory(other)))
        });
        Ok(answers)
    }

    /// Why there is no answer, and which strategies have one.
    fn refused(self, error: SimulateError) -> Failure {
        if matches!(error, SimulateError::TooLong { .. }) {
            return error.into();
        }
        let Case { scenario, .. } = self;
        let device = &scenario.device.name;
        let can = |strategy: &Strategy| {
            explore_language(self.conversation(), *strategy, scenario.options.synchronisation).is_ok()
        };
        let able = listed(Strategy::of_language_models().filter(can).map(Strategy::name));
        let help = if able.is_empty() {
            format!(
                "nothing is known of this model on {device} by any strategy: choose another device (`coexec devices`), or \
                 make a profile with its GPU (`coexec profile new`)"
            )
        } else {
            format!("on {device} there are {able}: choose one of them, or another device (`coexec devices`)")
        };
        Failure::usage(error.to_string(), help)
    }

    /// The picture and the trace that were asked for.
    fn timeline(
        self,
        plan: &GenerationPlan,
        picture: Option<&PicturePath>,
        trace: Option<&Path>,
    ) -> Result<Vec<OutputFile>> {
        if trace.is_none() && picture.is_none() {
            return Ok(Vec::new());
        }
        let timeline = generation_timeline(self.conversation(), plan)?;
        timeline_files(&timeline, self.scenario, picture, trace)
    }

    /// What `plan` comes to, which takes `generation`.
    fn found(
        self,
        plan_origin: String,
        plan: &'a GenerationPlan,
        generation: &'a Generation,
    ) -> Result<Found<'a>> {
        let memory = Footprint::of_language(self.task, plan);
        let trust = Trust::Language(Box::new(plan.drawn(self.conversation(), generation)?));
        Ok(Found { case: self, plan_origin, plan, memory, generation, trust })
    }
}

impl<'a> Found<'a> {
    /// Prints a JSON document, with the plan as a file has it and with what is compared.
    fn json(&self, plan: Option<PlanFile>, strategies: &[Entry<'_>]) {
        let Case { scenario, task } = self.case;
        output::json(&record!(Document {
            scenario: &scenario.name,
            device: &scenario.device.name,
            plan_origin: &self.plan_origin,
            model: &task.model.name,
            parameters: task.model.parameters(),
            memory: &self.memory,
            peak_memory_bytes: self.memory.peak(),
            #[serde(skip_serializing_if = "output::is_nothing")]
            plan,
            generation: self.generation,
            trust: &self.trust,
            /// Each strategy's answer, fastest first, where they were compared.
            #[serde(skip_serializing_if = "output::is_nothing")]
            strategies: (!strategies.is_empty()).then_some(strategies),
        }));
    }

    fn heading(&self) {
        let Case { scenario, task } = self.case;
        output::line(&format!(
            "{} ({:.2} billion parameters)\non {}, {}\n",
            scenario.title,
            task.model.parameters() as f64 / 1e9,
            scenario.device.title,
            self.plan_origin
        ));
    }

    /// Prints the phases, and how far to trust them.
    fn show(&self) {
        turns(self.generation);
        output::line("");
        if self.generation.turns.len() > 1 {
            output::line("Of the first turn:");
        }
        self.trust.tell(&[], &format!("Verify on the device: {}", check(self.case, self.plan)));
        output::line(&format!("\n{}", memory(&self.memory, &self.case.scenario.device)));
    }

    /// The answer of a strategy beside this one.
    fn beside(&self, LanguageAnswer { strategy, plan, generation }: &'a LanguageAnswer) -> Result<Entry<'a>> {
        let drawn = plan.drawn(self.case.conversation(), generation)?;
        Ok(Entry {
            strategy: strategy.name(),
            latency_ps: generation.latency,
            relative_to_plan: generation.latency.0 as f64 / self.generation.latency.0.max(1) as f64,
            is_sure: drawn.latency.is_surely_ordered(self.trust.drawn(), CONFIDENCE),
            drawn,
            generation,
        })
    }
}

/// What checks an answer.
fn check(Case { scenario, task }: Case<'_>, plan: &GenerationPlan) -> String {
    let Turn { prompt_tokens, generated_tokens } = task.turns[0];
    if let Graphs::Compiled { context, .. } = plan.graphs {
        return format!(
            "an engine that compiles whole steps, as Genie does, with a prompt of {prompt_tokens} and a context of {context} tokens"
        );
    }
    let device = &scenario.device.name;
    let first = plan.decode.layer.first().copied();
    // Rates of the CPU are of all its cores.
    let on_cores = first.is_some_and(|by| by.uses(ProcessorKind::Cpu));
    let cores = if on_cores { format!(" -ngl 0 -t {}", scenario.device.cpu.cores()) } else { String::new() };
    let bench = format!(
        "llama-bench -p {prompt_tokens} -n {generated_tokens}{cores} -o json > FILE, then coexec validate --profile {device} \
         --runs FILE --format llama-bench"
    );
    let is_alike = |step: &StepPlan| step.parts().into_iter().flatten().all(|by| Some(*by) == first);
    let is_of_kernels = plan.graphs == Graphs::Kernels;
    if first.is_some_and(|by| is_of_kernels || !by.uses(ProcessorKind::Npu))
        && plan.prefill.iter().chain([&plan.decode]).all(is_alike)
    {
        return bench;
    }
    format!("no engine is known that shares products so; --strategy gpu-only by {bench}")
}

/// One row a phase of each turn.
fn turns(generation: &Generation) {
    let row = |name: String, phase: &PhaseReport, per_token: Picos| {
        let PhaseReport { tokens, latency, tokens_per_second, bandwidth, energy, .. } = phase;
        let (energy, each) = (or_dash(*energy), or_dash(phase.energy_per_token()));
        let watts = or_dash(phase.watts().map(|watts| format!("{watts:.2} W")));
        let rate = format!("{tokens_per_second:.2}");
        row![name, tokens, latency, per_token, rate, bandwidth, energy, each, watts]
    };
    let mut rows = Vec::new();
    for (index, turn) in generation.turns.iter().enumerate() {
        let name = |phase: &str| {
            if generation.turns.len() == 1 { phase.to_owned() } else { format!("{phase} {}", index + 1) }
        };
        let each = Picos(turn.prefill.latency.0 / u64::from(turn.prefill.tokens.max(1)));
        rows.push(row(name("prefill"), &turn.prefill, each));
        if let (Some(phase), Some(per_token)) = (&turn.decode, turn.time_per_token) {
            rows.push(row(name("decode"), phase, per_token));
        }
    }
    let header =
        ["phase", "tokens", "time", "per token", "tokens/s", "bandwidth", "energy", "per token", "power"];
    output::keyed_table(&header, 1, rows);
    let first = &generation.turns[0];
    let rest = first.time_per_token.map_or(String::new(), |time| format!(", then {time} a token (TPOT)"));
    let which = if generation.turns.len() > 1 { "of the first turn: " } else { "" };
    output::line(&format!("\n{which}first token after {} (TTFT){rest}", first.time_to_first_token));
    if first.preparation > Picos::ZERO {
        output::line(&format!("of which {} to make the NPU's graphs", first.preparation));
    }
}

fn rate(phase: &PhaseReport) -> String {
    format!("{:.2}", phase.tokens_per_second)
}

/// The time to the first token of the first turn, with its interval.
pub(crate) fn first_token(generation: &Generation, drawn: &GenerationDrawn) -> String {
    let [low, high] = drawn.first_token.interval();
    format!("{} ({low} - {high})", generation.turns[0].time_to_first_token)
}

/// Tokens a second behind it, with their interval.
pub(crate) fn decode_rate(generation: &Generation, drawn: &GenerationDrawn) -> String {
    let within = drawn.tokens_per_second.map(|[low, high]| format!(" ({low:.2} - {high:.2})"));
    let phase = generation.turns[0].decode.as_ref();
    or_dash(phase.map(|phase| rate(phase) + &within.unwrap_or_default()))
}

/// The strategies side by side, by their first turn.
fn compare(strategies: &[Entry<'_>]) {
    let columns: [Column<Entry<'_>>; 7] = [
        ("strategy", |entry| entry.strategy.to_owned()),
        ("TTFT (90 %)", |entry| first_token(entry.generation, &entry.drawn)),
        ("prefill tokens/s", |entry| rate(&entry.generation.turns[0].prefill)),
        ("decode tokens/s (90 %)", |entry| decode_rate(entry.generation, &entry.drawn)),
        ("all", |entry| entry.generation.latency.to_string()),
        ("relative", |entry| {
            format!("{:.2}x{}", entry.relative_to_plan, if entry.is_sure { "" } else { " ~" })
        }),
        ("energy", |entry| or_dash(entry.generation.energy)),
    ];
    if strategies.iter().any(|entry| entry.generation.turns.len() > 1) {
        output::line("rates are of the first turn, all of every turn");
    }
    let (header, rows) = output::cells(&columns, strategies);
    output::keyed_table(&header, 1, rows);
    if strategies.iter().any(|strategy| !strategy.is_sure) {
        output::line(UNSURE);
    }
}

/// Who computes the products of the first prompt and of one token.
fn placements(task: &LanguageTask, plan: &GenerationPlan) {
    let stages = task.stages(task.prefill(0));
    let prefill = plan.prefill.first().unwrap_or(&plan.decode);
    let [reading, generating] = [prefill, &plan.decode].map(|step| step.parts().into_iter().flatten());
    let is_product = |stage: &Stage| stage.layer.operator.parameters() > 0 && stage.layer.operator.macs() > 0;
    let rows = stages.parts().into_iter().flatten().zip(reading.zip(generating));
    let rows = rows.filter(|(stage, _)| is_product(stage)).map(|(stage, (reading, generating))| {
        row![stage.name, stage.layer.operator, describe(*reading), describe(*generating)]
    });
    output::table(&["product", "of the prompt", "reading the prompt", "generating a token"], rows);
    output::line("");
}
