//! Language models: the times of a prompt and its answer under a plan, and the best strategy.

pub(crate) mod show;

use std::path::Path;

use coexec_sim::explore::advice::CONFIDENCE;
use coexec_sim::explore::language::{LanguageAnswer, advise_sure, explore_language, sort_answers};
use coexec_sim::simulate::generation::{
    Conversation, Generation, GenerationDrawn, GenerationPlan, Graphs, StepPlan, generate,
    generation_timeline, planned_stages,
};
use coexec_sim::simulate::{self, Footprint, SimulateError};
use coexec_sim::workload::{GraphContexts, LanguageTask, Turn};
use coexec_sim::{Objective, Picos, PlanFile, ProcessorKind, Scenario, Strategy};
use serde::Serialize;

use crate::output::{listed, record};
use crate::simulate::{found_by, memory, note_length, print_excess, read_plan, timeline_files};
use crate::{
    Common, Explore, Failure, OneOrAll, OutputFile, PicturePath, Result, ScenarioOptions, Simulate, Trust,
    output,
};

/// A language model on a device, with the conversation to predict.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) task: &'a LanguageTask,
}

/// A plan and its prediction.
struct Found<'a> {
    case: Case<'a>,
    /// Where the plan came from.
    plan_origin: String,
    plan: &'a GenerationPlan,
    /// Memory of the weights and of the KV cache of all turns.
    memory: Footprint,
    generation: &'a Generation,
    trust: Trust,
}

/// A strategy in a comparison.
#[derive(Serialize)]
struct Entry<'a> {
    strategy: &'static str,
    latency_ps: Picos,
    /// Latency relative to the plan's.
    relative_to_plan: f64,
    #[serde(flatten)]
    drawn: GenerationDrawn,
    /// Whether it is certain which of the strategy and the plan is faster.
    is_sure: bool,
    /// Whether it fits into the device's memory; none where the size of that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    fits_memory: Option<bool>,
    generation: &'a Generation,
}

/// Refuses the options of a search over operators: a language-model engine chooses its own cores.
fn refuse_search(place: &ScenarioOptions) -> Result {
    let what = "of a search over operators, not of a language model";
    Failure::refuse_given(&place.of_search(), what, "leave it out, and name an engine with --strategy")
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
    note_length(task, common);
    let (plan, origin) = if let Some(path) = options.plan.as_deref() {
        let written = read_plan(path, scenario, &planned_stages(task))?;
        (GenerationPlan::of_flat(task, &written.plan), written.origin)
    } else {
        let best = case.answers(None, false).map_err(|error| case.refused(error))?.swap_remove(0);
        (best.plan, found_by(best.strategy))
    };
    let generation = generate(case.conversation(), &plan)?;
    output::write(&case.timeline(&plan, options.plot.as_ref(), options.trace.as_deref())?)?;
    let found = case.found(origin, &plan, &generation)?;
    if common.json {
        return found.json(None, &[]);
    }
    found.heading();
    found.show();
    Ok(())
}

pub(crate) fn explore(case: Case<'_>, options: &Explore, common: &Common) -> Result {
    refuse_search(&options.place)?;
    if options.plot.is_some() || options.shares.is_some() {
        return Err(Failure::usage(
            "--plot and --shares draw a single run of operators, and a language model repeats its own for every token",
            "use --timeline, or `coexec reproduce HeteroInfer --plots`",
        ));
    }
    let Case { scenario, task } = case;
    note_length(task, common);
    let answers =
        case.answers(options.place.strategy, options.nominal).map_err(|error| case.refused(error))?;
    let LanguageAnswer { strategy, plan, generation, .. } = &answers[0];
    let file =
        plan.flat().map(|flat| PlanFile::new(&scenario.name, &scenario.device, &planned_stages(task), &flat));
    let mut files = case.timeline(plan, options.timeline.as_ref(), options.trace.as_deref())?;
    if let Some(path) = &options.out {
        let Some(file) = &file else {
            return Err(Failure::usage(
                format!("a plan file cannot express the graphs of {}", strategy.name()),
                "leave out --out, or choose another strategy",
            ));
        };
        files.push(OutputFile::encoded(path, toml::to_string_pretty(file))?);
    }
    output::write(&files)?;
    let found = case.found(found_by(*strategy), plan, generation)?;
    let strategies = answers.iter().map(|answer| found.compared_with(answer)).collect::<Result<Vec<_>>>()?;
    if common.json {
        return found.json(file, &strategies);
    }
    found.heading();
    show::placements(task, plan);
    found.show();
    if strategies.len() > 1 {
        output::line("");
        show::compare(&strategies);
        let is_faster = |other: &Entry<'_>| {
            other.latency_ps < strategies[0].latency_ps && other.fits_memory == strategies[0].fits_memory
        };
        let is_by_latency = scenario.options.objective == Objective::Latency;
        if is_by_latency && case.is_open(options.place.strategy) && strategies.iter().any(is_faster) {
            let name = strategy.name();
            output::line(&format!(
                "{name} is advised: others are faster, but share the model for a gain that is not sure; \
                 --nominal takes the fastest"
            ));
        }
    }
    Ok(())
}

impl<'a> Case<'a> {
    pub(crate) fn conversation(self) -> Conversation<'a> {
        Conversation::new(&self.scenario.device, self.scenario.library, self.task)
    }

    /// The answers of the scenario's strategy and of all engines, ordered from best to worst, but a
    /// stated strategy comes first. With [`OneOrAll::All`], those of all strategies from best to worst. By
    /// latency, the one to advise comes first unless a strategy is stated ([`advise_sure`]) or errors of the profile
    /// are ignored (`is_nominal`).
    pub(crate) fn answers(
        self,
        asked: Option<OneOrAll<Strategy>>,
        is_nominal: bool,
    ) -> simulate::Result<Vec<LanguageAnswer>> {
        let scenario = self.scenario;
        let answer =
            |strategy| explore_language(self.conversation(), strategy, scenario.options.synchronisation);
        let usual = scenario.options.strategy;
        let is_of_all = asked == Some(OneOrAll::All);
        let is_open = self.is_open(asked);
        let mut others: Vec<Strategy> =
            if is_of_all { Strategy::of_language_models().collect() } else { Strategy::engines().collect() };
        // Strategies that share most are listed last, and of equals they should come first.
        others.reverse();
        others.retain(|other| *other != usual);
        // Strategies that cannot run on the device, or do not cover these lengths, are dropped.
        let mut answers: Vec<LanguageAnswer> =
            others.into_iter().filter_map(|other| answer(other).ok()).collect();
        match answer(usual) {
            Ok(found) => answers.insert(0, found),
            Err(_) if is_open && !answers.is_empty() => {}
            Err(error) => return Err(error),
        }
        let objective = scenario.options.objective;
        sort_answers(&mut answers[usize::from(!is_open)..], &scenario.device, objective);
        if is_open && objective == Objective::Latency && !is_nominal {
            advise_sure(self.conversation(), &mut answers)?;
        }
        Ok(answers)
    }

    /// Whether the best of several strategies is asked for.
    fn is_open(self, asked: Option<OneOrAll<Strategy>>) -> bool {
        asked == Some(OneOrAll::All) || self.scenario.stated_strategy.is_none()
    }

    /// The failure of a strategy without an answer, with the strategies that have one.
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
                "no strategy has times for this model on {device}: choose another device (`coexec devices`), or make a \
                 profile with its GPU (`coexec profile new`)"
            )
        } else {
            format!("choose a strategy available on {device} ({able}), or another device (`coexec devices`)")
        };
        Failure::usage(error.to_string(), help)
    }

    /// The requested picture and trace.
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

    /// `plan` with its prediction `generation`, its memory and its uncertainty.
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
    /// Prints a JSON document, with the plan as in a plan file and the strategies compared.
    fn json(&self, plan: Option<PlanFile>, strategies: &[Entry<'_>]) -> Result {
        let Case { scenario, task } = self.case;
        output::json(&record!(Document {
            scenario: &scenario.name,
            device: &scenario.device.name,
            plan_origin: &self.plan_origin,
            model: &task.model.name,
            parameters: task.model.parameters(),
            memory: &self.memory,
            peak_memory_bytes: self.memory.peak(),
            /// Whether it fits into the device's memory; none where the size of that is unknown.
            #[serde(skip_serializing_if = "output::is_null")]
            fits_memory: self.memory.fits(&scenario.device),
            #[serde(skip_serializing_if = "output::is_null")]
            plan,
            generation: self.generation,
            trust: &self.trust,
            /// Each strategy's answer, best first, if several were compared.
            #[serde(skip_serializing_if = "output::is_null")]
            strategies: (!strategies.is_empty()).then_some(strategies),
        }))
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
        print_excess(&self.memory, &scenario.device);
    }

    /// Prints the phases, their uncertainty and the memory.
    fn show(&self) {
        show::turns(self.generation);
        output::line("");
        if self.generation.turns.len() > 1 {
            output::line("Of the first turn:");
        }
        self.trust.print(&[], &format!("Verify on the device: {}", verification(self.case, self.plan)));
        output::line(&format!("\n{}", memory(&self.memory, &self.case.scenario.device)));
    }

    /// The answer of a strategy compared with this one.
    fn compared_with(
        &self,
        LanguageAnswer { strategy, plan, generation, memory }: &'a LanguageAnswer,
    ) -> Result<Entry<'a>> {
        let drawn = plan.drawn(self.case.conversation(), generation)?;
        Ok(Entry {
            strategy: strategy.name(),
            latency_ps: generation.latency,
            relative_to_plan: generation.latency.0 as f64 / self.generation.latency.0.max(1) as f64,
            is_sure: drawn.latency.is_surely_ordered(self.trust.drawn(), CONFIDENCE),
            drawn,
            fits_memory: memory.fits(&self.case.scenario.device),
            generation,
        })
    }
}

/// How to verify an answer on the device.
fn verification(Case { scenario, task }: Case<'_>, plan: &GenerationPlan) -> String {
    let Turn { prompt_tokens, generated_tokens } = task.turns[0];
    if let Graphs::Compiled { context, contexts } = plan.graphs {
        let graphs = match contexts {
            GraphContexts::One => format!("a context of {context} tokens"),
            GraphContexts::Several => "graphs of several contexts".to_owned(),
        };
        let engine = "an engine that compiles whole steps, as Genie does,";
        return format!("{engine} with a prompt of {prompt_tokens} tokens and {graphs}");
    }
    let device = &scenario.device.name;
    let first = plan.decode.layer.first().copied();
    // CPU rates are measured with all cores.
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
    format!("no known engine splits products this way; --strategy gpu-only can be verified by {bench}")
}
