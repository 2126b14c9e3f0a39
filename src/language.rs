//! Language models: what a prompt and its answer take under a plan, and which strategy
//! is fastest.

use std::path::Path;

use coexec_sim::explore::language::{LanguageAnswer, explore_language, plan_language};
use coexec_sim::simulate::Footprint;
use coexec_sim::simulate::generation::{
    Generation, GenerationPlan, PhaseReport, generate, generation_timeline, planned_stages,
};
use coexec_sim::workload::LanguageTask;
use coexec_sim::{Bytes, Picos, PlanFile, Profile, Scenario, Strategy};
use serde::Serialize;

use crate::cli::{Common, Explore, OneOrAll, Simulate};
use crate::explore::describe;
use crate::failure::Failure;
use crate::output::{self, OutputFile, PicturePath, or_dash, row};
use crate::simulate::{self, found_by, read_plan, timeline_files};

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    device: &'a str,
    /// Where the plan came from.
    plan_origin: String,
    model: &'a str,
    parameters: u64,
    /// Weights, and the keys and values of all turns.
    memory: Footprint,
    peak_memory_bytes: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanFile>,
    generation: &'a Generation,
    /// Each strategy's answer, fastest first, where they were compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    strategies: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    strategy: &'static str,
    latency_ps: Picos,
    /// Latency over the plan's.
    relative_to_plan: f64,
    generation: &'a Generation,
}

/// That there are no kernels of this machine for a language model.
pub(crate) fn no_kernels(scenario: &str) -> Failure {
    Failure::usage(
        format!("{scenario} is a language model, which coexec predicts but does not run itself"),
        "use `coexec simulate` or `coexec explore`, or run a scenario of operators",
    )
}

pub(crate) fn simulate(
    scenario: &Scenario,
    task: &LanguageTask,
    options: &Simulate,
    common: &Common,
) -> Result<(), Failure> {
    if options.samples.is_some() {
        return Err(Failure::usage(
            "--samples repeats a run of operators, not a language model",
            "leave it out",
        ));
    }
    let Scenario { device, library, options: search, .. } = scenario;
    let (plan, origin) = match options.plan.as_deref() {
        Some(path) => {
            let written = read_plan(path, scenario, &planned_stages(task))?;
            (GenerationPlan::of_flat(task, &written.plan), written.origin)
        }
        None => (
            plan_language(device, *library, task, search.strategy, search.synchronisation)?,
            found_by(search.strategy),
        ),
    };
    let generation = generate(device, *library, task, &plan)?;
    output::write(&timeline(scenario, task, &plan, options.plot.as_ref(), options.trace.as_deref())?)?;
    let document = Document::new(scenario, task, origin, &generation);
    if common.json {
        output::json(&document);
    } else {
        document.heading(scenario);
        document.show(&scenario.device);
    }
    Ok(())
}

pub(crate) fn explore(
    scenario: &Scenario,
    task: &LanguageTask,
    options: &Explore,
    common: &Common,
) -> Result<(), Failure> {
    if options.plot.is_some() || options.shares.is_some() {
        return Err(Failure::usage(
            "--plot and --shares draw one run of operators, and a language model runs its own again and again",
            "ask for --timeline, or `coexec reproduce HeteroInfer --plots`",
        ));
    }
    let answers = answers(scenario, task, options.place.strategy)?;
    let LanguageAnswer { strategy, plan, generation } = &answers[0];
    let file =
        plan.flat().map(|flat| PlanFile::new(&scenario.name, &scenario.device, &planned_stages(task), &flat));
    let mut files = timeline(scenario, task, plan, options.timeline.as_ref(), options.trace.as_deref())?;
    match (&options.out, &file) {
        (Some(path), Some(file)) => files.push(OutputFile::encoded(path, toml::to_string_pretty(file))?),
        (Some(_), None) => {
            return Err(Failure::usage(
                format!("a plan file has no words for the graphs of {}", strategy.name()),
                "leave --out away, or choose another strategy",
            ));
        }
        (None, _) => {}
    }
    output::write(&files)?;
    let strategies = answers.iter().map(|LanguageAnswer { strategy, generation: other, .. }| Entry {
        strategy: strategy.name(),
        latency_ps: other.latency,
        relative_to_plan: other.latency.0 as f64 / generation.latency.0.max(1) as f64,
        generation: other,
    });
    let mut document = Document::new(scenario, task, found_by(*strategy), generation);
    (document.plan, document.strategies) = (file, strategies.collect());
    if common.json {
        output::json(&document);
        return Ok(());
    }
    document.heading(scenario);
    placements(task, plan);
    document.show(&scenario.device);
    if answers.len() > 1 {
        output::line("");
        compare(&document.strategies);
    }
    Ok(())
}

/// The scenario's strategy, or where that is the usual one, what is faster; beside others. Or every one of them,
/// fastest first.
fn answers(
    scenario: &Scenario,
    task: &LanguageTask,
    asked: Option<OneOrAll<Strategy>>,
) -> Result<Vec<LanguageAnswer>, Failure> {
    let answer = |strategy| {
        let mechanism = scenario.options.synchronisation;
        explore_language(&scenario.device, scenario.library, task, strategy, mechanism)
    };
    if asked != Some(OneOrAll::All) {
        let usual = scenario.options.strategy;
        let mut answers = vec![answer(usual)?];
        // What products are shared between processors by is not all there is: a whole step may be compiled.
        let compiled =
            answer(Strategy::NpuGraphs).ok().filter(|_| asked.is_none() && usual == Strategy::HeteroTensor);
        let is_faster =
            |compiled: &LanguageAnswer| compiled.generation.latency < answers[0].generation.latency;
        let place = usize::from(!compiled.as_ref().is_some_and(is_faster));
        answers.splice(place..place, compiled);
        let others = [Strategy::GpuOnly, Strategy::NpuPipe, Strategy::HeteroLayer];
        let others = others.into_iter().filter(|&other| other != usual);
        answers.extend(others.filter_map(|other| answer(other).ok()));
        return Ok(answers);
    }
    // Those that cannot run on the device, or cover these lengths, drop out.
    let mut answers: Vec<LanguageAnswer> =
        Strategy::of_language_models().filter_map(|strategy| answer(strategy).ok()).collect();
    if answers.is_empty() {
        answers.push(answer(scenario.options.strategy)?);
    }
    // The solver comes last of all and first of equals.
    answers.reverse();
    answers.sort_by_key(|answer| answer.generation.latency);
    Ok(answers)
}

/// The picture and the trace that were asked for.
fn timeline(
    scenario: &Scenario,
    task: &LanguageTask,
    plan: &GenerationPlan,
    picture: Option<&PicturePath>,
    trace: Option<&Path>,
) -> Result<Vec<OutputFile>, Failure> {
    if trace.is_none() && picture.is_none() {
        return Ok(Vec::new());
    }
    let timeline = generation_timeline(&scenario.device, scenario.library, task, plan)?;
    timeline_files(&timeline, scenario, picture, trace)
}

impl<'a> Document<'a> {
    /// What one plan comes to.
    fn new(
        scenario: &'a Scenario,
        task: &'a LanguageTask,
        plan_origin: String,
        generation: &'a Generation,
    ) -> Self {
        let memory = Footprint::of_language(task);
        Self {
            scenario: &scenario.name,
            device: &scenario.device.name,
            plan_origin,
            model: &task.model.name,
            parameters: task.model.parameters(),
            memory,
            peak_memory_bytes: memory.peak(),
            plan: None,
            generation,
            strategies: Vec::new(),
        }
    }

    fn heading(&self, scenario: &Scenario) {
        output::line(&format!(
            "{} ({:.2} billion parameters)\non {}, {}\n",
            scenario.title,
            self.parameters as f64 / 1e9,
            scenario.device.title,
            self.plan_origin
        ));
    }

    /// Prints the phases.
    fn show(&self, device: &Profile) {
        turns(self.generation);
        output::line(&format!("\n{}", simulate::memory(&self.memory, device)));
    }
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
    output::line(&format!("\nfirst token after {} (TTFT){rest}", first.time_to_first_token));
    if first.preparation > Picos::ZERO {
        output::line(&format!("of which {} to make the NPU's graphs", first.preparation));
    }
}

/// The strategies side by side, by their first turn.
fn compare(strategies: &[Entry<'_>]) {
    let rows = strategies.iter().map(|Entry { strategy, relative_to_plan, generation, .. }| {
        let first = &generation.turns[0];
        let rate = |phase: &PhaseReport| format!("{:.2}", phase.tokens_per_second);
        let (prefill, decode) = (rate(&first.prefill), or_dash(first.decode.as_ref().map(rate)));
        let (relative, energy) = (format!("{relative_to_plan:.2}x"), or_dash(generation.energy));
        row![strategy, first.time_to_first_token, prefill, decode, generation.latency, relative, energy]
    });
    let header = ["strategy", "TTFT", "prefill tokens/s", "decode tokens/s", "all", "relative", "energy"];
    output::keyed_table(&header, 1, rows);
}

/// Who computes the products of the first prompt and of one token.
fn placements(task: &LanguageTask, plan: &GenerationPlan) {
    let stages = task.stages(task.prefill(0));
    let mut rows = Vec::new();
    let prefill = plan.prefill.first().unwrap_or(&plan.decode);
    let parts = stages.parts().into_iter().zip(prefill.parts().into_iter().zip(plan.decode.parts()));
    for (stages, (prefill, decode)) in parts {
        for ((stage, prefill), decode) in stages.iter().zip(prefill).zip(decode) {
            if stage.layer.operator.parameters() > 0 && stage.layer.operator.macs() > 0 {
                rows.push(row![stage.name, stage.layer.operator, describe(*prefill), describe(*decode)]);
            }
        }
    }
    output::table(&["product", "of the prompt", "reading the prompt", "generating a token"], rows);
    output::line("");
}
