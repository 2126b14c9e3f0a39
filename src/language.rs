//! Language models: what a prompt and its answer take under a plan, and which strategy
//! is fastest.

use std::path::Path;

use coexec_plots::Format;
use coexec_sim::explore::language::{LanguageAnswer, LanguageStrategy, explore_language, plan_language};
use coexec_sim::input::Text;
use coexec_sim::plan::PlanFile;
use coexec_sim::scenario::Scenario;
use coexec_sim::simulate::generation::{
    Generation, GenerationBeside, GenerationPlan, PhaseReport, generate, generate_beside,
    generation_timeline, planned_stages,
};
use coexec_sim::units::Picos;
use coexec_sim::workload::LanguageTask;
use serde::Serialize;

use crate::cli::{Common, Explore, Simulate, StrategyName};
use crate::explore::{describe, plan_text};
use crate::failure::Failure;
use crate::output;
use crate::output::OutputFile;
use crate::simulate::{self, origin, timeline_file};

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    device: &'a str,
    /// Where the plan came from.
    plan_origin: &'a str,
    model: &'a str,
    parameters: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<&'a PlanFile>,
    generation: &'a Generation,
    /// The first prompt and tokens beside somebody else's work, where the scenario has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<&'a GenerationBeside>,
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
    Failure::Usage {
        problem: format!("{scenario} is a language model, which coexec predicts but does not run itself"),
        help: "use `coexec simulate` or `coexec explore`, or run a scenario of operators".to_owned(),
    }
}

pub(crate) fn simulate(
    scenario: &Scenario,
    task: &LanguageTask,
    options: &Simulate,
    common: &Common,
) -> Result<(), Failure> {
    let format = options.plot.as_deref().map(Format::of).transpose()?;
    if options.samples.is_some() {
        return Err(Failure::Usage {
            problem: "--samples repeats a run of operators, not a language model".to_owned(),
            help: "leave it out".to_owned(),
        });
    }
    let (plan, origin) = match options.plan.as_deref() {
        Some(path) => written(path, scenario, task)?,
        None => (planned(scenario, task)?, format!("plan found by {}", scenario.language_strategy.name())),
    };
    let generation = generate(&scenario.device, scenario.library, task, &plan)?;
    let picture = options.plot.as_deref().zip(format);
    write(scenario, task, &plan, None, options.trace.as_deref(), picture)?;
    let beside = beside(scenario, task, &plan)?;
    let found = Found { origin: &origin, plan: None, generation: &generation, answers: &[], beside };
    tell(scenario, task, &found, common);
    Ok(())
}

pub(crate) fn explore(
    scenario: &Scenario,
    task: &LanguageTask,
    options: &Explore,
    common: &Common,
) -> Result<(), Failure> {
    if options.plot.is_some() {
        return Err(Failure::Usage {
            problem: "--plot draws latency against output channels, which a language model has no one of"
                .to_owned(),
            help: "ask for --timeline, or `coexec reproduce HeteroInfer --plots`".to_owned(),
        });
    }
    let format = options.timeline.as_deref().map(Format::of).transpose()?;
    let answers = answers(scenario, task, options.place.strategy)?;
    let chosen = &answers[0];
    let file = written_plan(scenario, task, &chosen.plan);
    if options.out.is_some() && file.is_none() {
        return Err(Failure::Usage {
            problem: format!("a plan file has no words for the graphs of {}", chosen.strategy.name()),
            help: "leave --out away, or choose another strategy".to_owned(),
        });
    }
    let out = options.out.as_deref().zip(file.as_ref());
    let picture = options.timeline.as_deref().zip(format);
    write(scenario, task, &chosen.plan, out, options.trace.as_deref(), picture)?;
    let origin = format!("plan found by {}", chosen.strategy.name());
    let beside = beside(scenario, task, &chosen.plan)?;
    let generation = &chosen.generation;
    let found = Found { origin: &origin, plan: file.as_ref(), generation, answers: &answers, beside };
    tell(scenario, task, &found, common);
    Ok(())
}

/// What the model and somebody else's work do to each other, where the scenario has some.
fn beside(
    scenario: &Scenario,
    task: &LanguageTask,
    plan: &GenerationPlan,
) -> Result<Option<GenerationBeside>, Failure> {
    let Some(work) = &scenario.background else { return Ok(None) };
    Ok(Some(generate_beside(&scenario.device, scenario.library, task, plan, work)?))
}

/// The scenario's strategy, or every one of them, fastest first.
fn answers(
    scenario: &Scenario,
    task: &LanguageTask,
    asked: Option<StrategyName>,
) -> Result<Vec<LanguageAnswer>, Failure> {
    let answer = |strategy| {
        let mechanism = scenario.options.synchronisation;
        explore_language(&scenario.device, scenario.library, task, strategy, mechanism)
    };
    if asked != Some(StrategyName::All) {
        let mut answers = vec![answer(scenario.language_strategy)?];
        let others = [LanguageStrategy::GpuOnly, LanguageStrategy::NpuPipe, LanguageStrategy::HeteroLayer];
        let others = others.into_iter().filter(|&other| other != scenario.language_strategy);
        answers.extend(others.filter_map(|other| answer(other).ok()));
        return Ok(answers);
    }
    // Those that cannot run on the device, or cover these lengths, drop out.
    let mut answers: Vec<LanguageAnswer> =
        LanguageStrategy::ALL.into_iter().filter_map(|strategy| answer(strategy).ok()).collect();
    if answers.is_empty() {
        answers.push(answer(scenario.language_strategy)?);
    }
    // The solver comes last of all and first of equals.
    answers.reverse();
    answers.sort_by_key(|answer| answer.generation.latency);
    Ok(answers)
}

fn planned(scenario: &Scenario, task: &LanguageTask) -> Result<GenerationPlan, Failure> {
    let Scenario { device, library, language_strategy, options, .. } = scenario;
    Ok(plan_language(device, *library, task, *language_strategy, options.synchronisation)?)
}

/// The plan in the file, and where it came from.
fn written(
    path: &Path,
    scenario: &Scenario,
    task: &LanguageTask,
) -> Result<(GenerationPlan, String), Failure> {
    let text = Text::read(path)?;
    let file: PlanFile = text.parse()?;
    let plan = file.resolve(&text, &planned_stages(task), &scenario.device)?;
    Ok((GenerationPlan::of_flat(task, &plan), origin(path, &file, scenario)))
}

fn written_plan(scenario: &Scenario, task: &LanguageTask, plan: &GenerationPlan) -> Option<PlanFile> {
    let stages = planned_stages(task);
    Some(PlanFile::new(&scenario.name, &scenario.device, &stages, &plan.flat()?))
}

/// Writes the plan, the trace and the picture asked for.
fn write(
    scenario: &Scenario,
    task: &LanguageTask,
    plan: &GenerationPlan,
    out: Option<(&Path, &PlanFile)>,
    trace: Option<&Path>,
    picture: Option<(&Path, Format)>,
) -> Result<(), Failure> {
    let mut files = Vec::new();
    if let Some((path, file)) = out {
        files.push(OutputFile { path, content: plan_text(file)?.into_bytes() });
    }
    if trace.is_some() || picture.is_some() {
        let timeline = generation_timeline(&scenario.device, scenario.library, task, plan)?;
        if let Some((path, format)) = picture {
            files.push(timeline_file(path, format, &timeline, scenario)?);
        }
        if let Some(path) = trace {
            files.push(OutputFile { path, content: coexec_plots::perfetto::trace(&timeline) });
        }
    }
    output::write(&files)
}

/// What is told of a task.
struct Found<'a> {
    origin: &'a str,
    plan: Option<&'a PlanFile>,
    generation: &'a Generation,
    /// Each strategy's, where they were compared.
    answers: &'a [LanguageAnswer],
    beside: Option<GenerationBeside>,
}

fn tell(scenario: &Scenario, task: &LanguageTask, found: &Found<'_>, common: &Common) {
    let &Found { origin, plan, generation, answers, ref beside } = found;
    let relative = |other: &Generation| other.latency.0 as f64 / generation.latency.0.max(1) as f64;
    if common.json {
        let entry = |answer: &'_ LanguageAnswer| (answer.strategy.name(), relative(&answer.generation));
        let strategies = answers
            .iter()
            .map(|answer| {
                let (strategy, relative_to_plan) = entry(answer);
                let generation = &answer.generation;
                Entry { strategy, latency_ps: generation.latency, relative_to_plan, generation }
            })
            .collect();
        output::json(&Document {
            scenario: &scenario.name,
            device: &scenario.device.name,
            plan_origin: origin,
            model: &task.model.name,
            parameters: task.model.parameters(),
            plan,
            generation,
            beside: beside.as_ref(),
            strategies,
        });
        return;
    }
    output::line(&format!(
        "{} ({:.2} billion parameters)\non {}, {origin}\n",
        scenario.title,
        task.model.parameters() as f64 / 1e9,
        scenario.device.title
    ));
    if let Some(answer) = answers.first() {
        placements(task, &answer.plan);
    }
    turns(generation);
    if let Some(GenerationBeside { prefill, decode }) = beside {
        output::line(&format!("\nreading the prompt: {}", simulate::beside(prefill)));
        if let Some(decode) = decode {
            output::line(&format!("generating: {}", simulate::beside(decode)));
        }
    }
    if answers.len() > 1 {
        output::line("");
        compare(answers, relative);
    }
}

/// One row a phase of each turn.
fn turns(generation: &Generation) {
    let row = |name: String, phase: &PhaseReport, per_token: Picos| {
        let energy = phase.energy.map_or("-".to_owned(), |energy| energy.to_string());
        let each = phase.energy_per_token().map_or("-".to_owned(), |energy| energy.to_string());
        let watts = phase.watts().map_or("-".to_owned(), |watts| format!("{watts:.2} W"));
        vec![
            name,
            phase.tokens.to_string(),
            phase.latency.to_string(),
            per_token.to_string(),
            format!("{:.2}", phase.tokens_per_second),
            phase.bandwidth.to_string(),
            energy,
            each,
            watts,
        ]
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
    output::table(&header, &rows);
    let first = &generation.turns[0];
    let rest = first.time_per_token.map_or(String::new(), |time| format!(", then {time} a token (TPOT)"));
    output::line(&format!("\nfirst token after {} (TTFT){rest}", first.time_to_first_token));
    if first.preparation > Picos::ZERO {
        output::line(&format!("of which {} to make the NPU's graphs", first.preparation));
    }
}

/// The strategies side by side, by their first turn.
fn compare(answers: &[LanguageAnswer], relative: impl Fn(&Generation) -> f64) {
    let rows: Vec<Vec<String>> = answers
        .iter()
        .map(|answer| {
            let first = &answer.generation.turns[0];
            let decode = first.decode.as_ref();
            let energy = answer.generation.energy.map_or("-".to_owned(), |energy| energy.to_string());
            vec![
                answer.strategy.name().to_owned(),
                first.time_to_first_token.to_string(),
                format!("{:.2}", first.prefill.tokens_per_second),
                decode.map_or("-".to_owned(), |phase| format!("{:.2}", phase.tokens_per_second)),
                answer.generation.latency.to_string(),
                format!("{:.2}x", relative(&answer.generation)),
                energy,
            ]
        })
        .collect();
    let header = ["strategy", "TTFT", "prefill tokens/s", "decode tokens/s", "all", "relative", "energy"];
    output::table(&header, &rows);
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
                rows.push(vec![
                    stage.name.clone(),
                    stage.layer.operator.to_string(),
                    describe(*prefill),
                    describe(*decode),
                ]);
            }
        }
    }
    output::table(&["product", "of the prompt", "reading the prompt", "generating a token"], &rows);
    output::line("");
}
