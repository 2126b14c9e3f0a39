//! `coexec explore`: who should compute what, and why.

use coexec_plots::Format;
use coexec_sim::explore::{self, Answer, Baseline, Objective, Search};
use coexec_sim::plan::{AcceleratorSplit, Placement, PlanFile};
use coexec_sim::scenario::{Scenario, Workload};
use coexec_sim::simulate::{Prediction, Processor, SimulateError, Simulator, execute, timeline};
use coexec_sim::units::Picos;
use coexec_sim::workload::Stage;
use serde::Serialize;

use crate::cli::{Common, Explore, StrategyName};
use crate::failure::Failure;
use crate::output::OutputFile;
use crate::simulate::{report, timeline_file};
use crate::strategies::{self, Entry};
use crate::{curve, language, output, sweep, why};

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    device: &'a str,
    objective: coexec_sim::explore::Objective,
    considered: usize,
    plan: PlanFile,
    prediction: &'a Prediction,
    baselines: Vec<BaselineEntry>,
    /// With `--strategy all`.
    #[serde(skip_serializing_if = "<[Entry]>::is_empty")]
    strategies: &'a [Entry],
    operators: Vec<OperatorEntry>,
}

#[derive(Serialize)]
struct BaselineEntry {
    strategy: &'static str,
    latency_ps: Picos,
    /// Latency over the plan's.
    relative_to_plan: f64,
}

/// What the search found for one operator alone.
#[derive(Serialize)]
struct OperatorEntry {
    name: String,
    gpu_only_ps: Option<Picos>,
    cpu_only_ps: Option<Picos>,
    split: Option<SplitEntry>,
}

#[derive(Serialize)]
struct SplitEntry {
    cores: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_channels: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_channels: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_rows: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_rows: Option<u32>,
    cpu_ps: Picos,
    gpu_ps: Picos,
    latency_ps: Picos,
}

pub(crate) fn run(options: &Explore, common: &Common) -> Result<(), Failure> {
    let plot = options.plot.as_deref().map(Format::of).transpose()?;
    let shares_format = options.shares.as_deref().map(Format::of).transpose()?;
    let timeline_format = options.timeline.as_deref().map(Format::of).transpose()?;
    let scenario = Scenario::load(&options.place.scenario, &options.place.overrides())?;
    let stages = match &scenario.workload {
        Workload::Model(stages) => stages,
        Workload::Set(operators) => return sweep::run(&scenario, operators, options, common),
        Workload::Language(task) => return language::explore(&scenario, task, options, common),
    };
    let mut simulator = Simulator::new(&scenario.device, scenario.library).measuring(scenario.measure);
    tell_who_cannot_help(&scenario, stages, common);
    let compares = options.place.strategy == Some(StrategyName::All);
    let (answer, entries) = if compares {
        strategies::compare(&scenario, &mut simulator, stages, common)?
    } else {
        (
            explore::explore_stream(&mut simulator, stages, &scenario.options, scenario.pipeline.as_ref())?,
            Vec::new(),
        )
    };
    let plan = PlanFile::new(&scenario.name, &scenario.device, stages, &answer.plan)
        .streaming(scenario.pipeline.as_ref().map(|pipeline| pipeline.depth));
    let timeline = timeline(&mut simulator, stages, &answer.plan)?;
    let mut files = Vec::new();
    if let Some(path) = &options.out {
        files.push(OutputFile { path, content: plan_text(&plan)?.into_bytes() });
    }
    if let (Some(path), Some(format)) = (&options.plot, plot) {
        let operator = options.operator.as_deref();
        let content = if compares && operator.is_none() {
            coexec_plots::picture(&strategies::picture(&scenario, &entries), format)?
        } else {
            curve::draw(format, operator, &scenario, &mut simulator, stages, &answer.plan)?
        };
        files.push(OutputFile { path, content });
    }
    if let (Some(path), Some(format)) = (&options.shares, shares_format) {
        let rows = if compares {
            strategies::share_rows(&entries)
        } else {
            vec![strategies::share_row(scenario.options.strategy.name(), &answer.plan)]
        };
        let content = coexec_plots::picture(&strategies::share_map(&scenario, rows), format)?;
        files.push(OutputFile { path, content });
    }
    if let (Some(path), Some(format)) = (&options.timeline, timeline_format) {
        files.push(timeline_file(path, format, &timeline, &scenario)?);
    }
    if let Some(path) = &options.trace {
        files.push(OutputFile { path, content: coexec_plots::perfetto::trace(&timeline) });
    }
    output::write(&files)?;
    if common.json {
        output::json(&document(&scenario, stages, &answer, plan, &entries));
    } else {
        output::line(&format!("{}\non {}\n", scenario.title, scenario.device.title));
        if compares {
            strategies::table(&entries);
        } else {
            compare(&answer, scenario.options.objective != Objective::Latency);
        }
        operators(stages, &answer);
        output::line("");
        report(&answer.prediction, &timeline, &scenario.device);
    }
    Ok(())
}

pub(crate) fn plan_text(plan: &PlanFile) -> Result<String, Failure> {
    toml::to_string_pretty(plan).map_err(|error| Failure::Usage {
        problem: format!("the plan cannot be written as TOML: {error}"),
        help: "report this scenario: every plan can be written".to_owned(),
    })
}

fn document<'a>(
    scenario: &'a Scenario,
    stages: &[Stage],
    answer: &'a Answer,
    plan: PlanFile,
    strategies: &'a [Entry],
) -> Document<'a> {
    let latency = answer.prediction.latency;
    Document {
        scenario: &scenario.name,
        device: &scenario.device.name,
        objective: scenario.options.objective,
        considered: answer.considered,
        plan,
        prediction: &answer.prediction,
        baselines: answer
            .baselines
            .iter()
            .map(|Baseline { strategy, prediction, .. }| BaselineEntry {
                strategy: strategy.name(),
                latency_ps: prediction.latency,
                relative_to_plan: ratio(prediction.latency, latency),
            })
            .collect(),
        strategies,
        operators: stages.iter().zip(&answer.searches).map(operator_entry).collect(),
    }
}

fn operator_entry((stage, search): (&Stage, &Search)) -> OperatorEntry {
    let split = search.split.and_then(|candidate| {
        let [cpu, gpu] = candidate.placement.shares()?;
        Some(SplitEntry {
            cores: candidate.placement.cores()?.to_string(),
            cpu_channels: cpu.channels(),
            gpu_channels: gpu.channels(),
            cpu_rows: cpu.rows(),
            gpu_rows: gpu.rows(),
            cpu_ps: candidate.cpu,
            gpu_ps: candidate.gpu,
            latency_ps: candidate.latency,
        })
    });
    OperatorEntry {
        name: stage.name.clone(),
        gpu_only_ps: search.gpu_only.map(|candidate| candidate.latency),
        cpu_only_ps: search.cpu_only.map(|candidate| candidate.latency),
        split,
    }
}

/// `slow / fast`; 1 where there is nothing to compare.
fn ratio(slow: Picos, fast: Picos) -> f64 {
    if fast == Picos::ZERO { 1.0 } else { slow.0 as f64 / fast.0 as f64 }
}

/// Says on standard error which processor has no kernel for any of `stages`, and
/// why: its absence from the answer must not read as "it does not help".
pub(crate) fn tell_who_cannot_help(scenario: &Scenario, stages: &[Stage], common: &Common) {
    if common.quiet {
        return;
    }
    let Scenario { device, library, options, .. } = scenario;
    let cores = options.core_sets.first().copied();
    for processor in [Processor::Cpu, Processor::Gpu] {
        let attempt = |stage: &Stage| execute(&stage.layer, device, *library, processor, cores).err();
        let reasons: Option<Vec<SimulateError>> = stages.iter().map(attempt).collect();
        if let Some(reason) = reasons.as_ref().and_then(|reasons| reasons.first()) {
            eprintln!("note: the {} takes no part: {reason}", why::processor(processor));
        }
    }
}

/// The plan beside single processors.
fn compare(answer: &Answer, energy: bool) {
    let latency = answer.prediction.latency;
    let row = |name: &str, prediction: &Prediction| {
        let mut row = vec![
            name.to_owned(),
            prediction.latency.to_string(),
            format!("{:.2}x", ratio(prediction.latency, latency)),
        ];
        if energy {
            row.push(prediction.energy.map_or("-".to_owned(), |energy| energy.to_string()));
        }
        row
    };
    let mut rows = vec![row("this plan", &answer.prediction)];
    rows.extend(answer.baselines.iter().map(|baseline| row(baseline.strategy.name(), &baseline.prediction)));
    let mut header = vec!["strategy", "latency", "relative"];
    if energy {
        header.push("energy");
    }
    output::table(&header, &rows);
}

/// What the search found for each operator alone, beside what the plan does.
fn operators(stages: &[Stage], answer: &Answer) {
    if answer.searches.is_empty() {
        return;
    }
    let time = |candidate: Option<explore::Candidate>| {
        candidate.map_or("-".to_owned(), |candidate| candidate.latency.to_string())
    };
    let rows: Vec<Vec<String>> = stages
        .iter()
        .zip(&answer.searches)
        .zip(&answer.plan.placements)
        .enumerate()
        .map(|(index, ((stage, search), placement))| {
            let chain = answer.plan.chain(index).map(|chain| format!(", chain {chain}"));
            vec![
                stage.name.clone(),
                stage.layer.operator.to_string(),
                describe(*placement) + &chain.unwrap_or_default(),
                time(search.split),
                time(search.gpu_only),
                time(search.cpu_only),
            ]
        })
        .collect();
    output::line("");
    let header = ["operator", "what", "plan", "best cut alone", "GPU alone", "CPU alone"];
    output::table(&header, &rows);
}

pub(crate) fn describe(placement: Placement) -> String {
    match placement {
        Placement::Cpu(cores) => format!("CPU {cores}"),
        Placement::Gpu => "GPU".to_owned(),
        Placement::Npu => "NPU".to_owned(),
        Placement::Split { cores, cpu_channels, gpu_channels } => {
            format!("GPU {gpu_channels} + CPU {cores} {cpu_channels}")
        }
        Placement::Accelerators(split) => accelerators(&split),
        Placement::HeightSplit { cores, cpu_rows, gpu_rows } => {
            format!("GPU {gpu_rows} + CPU {cores} {cpu_rows} rows")
        }
    }
}

/// What GPU and NPU compute of a product they share.
fn accelerators(split: &AcceleratorSplit) -> String {
    let &AcceleratorSplit { npu_rows, gpu_rows, npu_channels, gpu_channels, .. } = split;
    match (gpu_rows, gpu_channels) {
        (0, 0) => "NPU".to_owned(),
        (0, _) => format!("NPU {npu_channels} + GPU {gpu_channels}"),
        (_, 0) => format!("NPU {npu_rows} rows + GPU {gpu_rows} rows"),
        _ => format!("NPU {npu_channels} of {npu_rows} rows + GPU {gpu_channels} and {gpu_rows} rows"),
    }
}
