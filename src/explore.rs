//! `coexec explore`: finds which processor should compute what, and explains why.

use coexec_sim::explore::delegates::{Partitioning, partitioning};
use coexec_sim::explore::{self, Answer, Objective, Search};
use coexec_sim::plan::{Axis, Part, Placement, Plan, PlanFile, Processor, ProcessorKind};
use coexec_sim::simulate::{Composition, Known, Prediction, Simulator, timeline};
use coexec_sim::{Basis, Picos, Scenario, Stage, Workload};
use serde::Serialize;

use crate::advice::Advice;
use crate::language::Case;
use crate::output::{record, row};
use crate::simulate::{print_excess, report, timeline_files};
use crate::strategies::Entry;
use crate::{
    Common, Explore, OneOrAll, OutputFile, Result, advice, applications, curve, delegates, known, language,
    or_dash, output, strategies, sweep,
};

pub(crate) fn run(options: &Explore, common: &Common) -> Result {
    options.place.check_distinct(options.out.as_deref(), None)?;
    options.place.check_distinct(options.trace.as_deref(), None)?;
    let scenario = options.place.load()?;
    match &scenario.workload {
        Workload::Model(_) => one_model(&scenario, options, common),
        Workload::Set(_) => {
            advice::refuse(options, "for models")?;
            sweep::run(&scenario, options, common)
        }
        Workload::Language(task) => {
            advice::refuse(options, "for graphs of operators")?;
            language::explore(Case { scenario: &scenario, task }, options, common)
        }
        Workload::Applications(several) => applications::explore(&scenario, several, options, common),
    }
}

fn one_model(scenario: &Scenario, options: &Explore, common: &Common) -> Result {
    let (mut simulator, stages) = (scenario.simulator(), scenario.stages());
    let known = known::of(scenario);
    let pipeline = scenario.pipeline.as_ref();
    let (answer, entries) = if options.place.strategy == Some(OneOrAll::All) {
        strategies::compare(scenario, &mut simulator, common)?
    } else {
        (explore::explore_stream(&mut simulator, stages, &scenario.options, pipeline)?, Vec::new())
    };
    let advice = advice::of(options, scenario, &mut simulator, (answer, &known))?;
    let answer = &advice.answer;
    let plan = PlanFile::new(&scenario.name, &scenario.device, stages, &answer.plan)
        .streaming(pipeline.map(|pipeline| pipeline.depth));
    let timeline = timeline(&mut simulator, stages, &answer.plan)?;
    let partitioning = partitioning(&simulator, stages, scenario.options.strategy);
    let mut files = timeline_files(&timeline, scenario, options.timeline.as_ref(), options.trace.as_deref())?;
    if let Some(path) = &options.out {
        files.push(OutputFile::encoded(path, toml::to_string_pretty(&plan))?);
    }
    files.extend(pictures(options, scenario, &mut simulator, (&answer.plan, &entries))?);
    output::write(&files)?;
    if common.json {
        return json(scenario, (&advice, &known), (&plan, partitioning.as_ref(), &entries));
    }
    // `run` cannot search by regret.
    let (file, is_searched) = (options.out.as_deref(), options.robust.is_none());
    let check = options.place.verification(scenario, &advice.answer.plan, file, is_searched);
    print_answer(scenario, (&advice, options.confidence), (&entries, &known, &check));
    if let Some(partitioning) = &partitioning {
        delegates::print_partitions(partitioning, stages);
    }
    report(&answer.prediction, &timeline, &scenario.device);
    Ok(())
}

/// Prints the answer as a JSON document.
fn json(
    scenario: &Scenario,
    (advice, known): (&Advice, &[Known]),
    (plan, partitioning, entries): (&PlanFile, Option<&Partitioning>, &[Entry]),
) -> Result {
    let answer = &advice.answer;
    output::json(&record!(Document {
        scenario: &scenario.name,
        device: &scenario.device.name,
        objective: scenario.options.objective,
        considered: answer.considered,
        /// Period between batches, in picoseconds: what is minimised if the scenario has a pipeline and
        /// the objective is latency.
        #[serde(skip_serializing_if = "output::is_null")]
        period_ps: answer.period,
        /// Lower bound of the cost of any plan in the model's order, at most this plan's, in seconds (of the
        /// period, if there is one), joules or joule-seconds; none if the strategy computes no bound.
        bound: answer.bound,
        /// Optimality gap: how much the plan exceeds the bound, in percent.
        gap_percent: gap_percent(answer, scenario.options.objective),
        /// Whether the plan runs branches in another order than the model's, for which there is no bound.
        is_reordered: answer.plan.is_reordered(),
        /// How certain it is that the plan found beats the best single processor, given the profile's
        /// errors.
        #[serde(skip_serializing_if = "output::is_null")]
        certainty: advice.certainty,
        /// The plan found, if a single processor is advised instead.
        #[serde(skip_serializing_if = "output::is_null")]
        found_instead: strategies::entries(advice.instead.as_slice(), (&answer.prediction, answer.period))
            .pop(),
        /// Regrets, with `--robust`.
        #[serde(skip_serializing_if = "output::is_null")]
        robust: &advice.robust,
        trust: &advice.trust,
        /// What is known of each processor for these operators.
        known,
        /// Partitions, if the strategy is a delegate.
        #[serde(skip_serializing_if = "output::is_null")]
        partitioning,
        plan,
        prediction: &answer.prediction,
        /// Plans of single processors.
        baselines: strategies::entries(&answer.baselines, (&answer.prediction, answer.period)),
        /// All strategies, with `--strategy all`.
        #[serde(skip_serializing_if = "output::is_null")]
        strategies: (!entries.is_empty()).then_some(entries),
        operators: scenario.stages().iter().zip(&answer.searches).map(operator).collect::<Vec<_>>(),
    }))
}

/// The requested pictures of the plan, or of all strategies.
fn pictures(
    options: &Explore,
    scenario: &Scenario,
    simulator: &mut Simulator<'_>,
    (plan, entries): (&Plan, &[Entry]),
) -> Result<Vec<OutputFile>> {
    let mut files = Vec::new();
    if let Some(picture) = &options.plot {
        files.push(picture.file(|format| match options.operator.as_deref() {
            None if !entries.is_empty() => Ok(strategies::picture(scenario, entries, format)?),
            operator => curve::draw(format, operator, scenario, simulator, plan),
        })?);
    }
    if let Some(picture) = &options.shares {
        let plan = (scenario.options.strategy.name(), plan);
        files.push(picture.file(|format| strategies::share_map(scenario, entries, plan, format))?);
    }
    Ok(files)
}

/// Prints the answer: a table of strategies or baselines, the uncertainty, and a table of operators.
fn print_answer(
    scenario: &Scenario,
    (advice, confidence): (&Advice, f64),
    (entries, known, check): (&[Entry], &[Known], &str),
) {
    let answer = &advice.answer;
    output::line(&format!("{}\non {}\n", scenario.title, scenario.device.title));
    print_excess(&answer.prediction.memory, &scenario.device);
    if entries.is_empty() {
        compare(advice, known, scenario.options.objective != Objective::Latency);
    } else {
        strategies::table(entries);
    }
    known::print_missing(known);
    let gap =
        gap_percent(answer, scenario.options.objective).map(|gap| distance(gap, answer, scenario.stages()));
    let order = answer.plan.is_reordered().then(|| OTHER_ORDER.to_owned());
    output::line("");
    for sentence in order.into_iter().chain(gap).chain(advice.sentence(confidence)) {
        output::line(&sentence);
    }
    advice.trust.print(known, check);
    advice.print_robust();
    operators(scenario.stages(), answer);
}

/// The note on a plan that reorders operators.
const OTHER_ORDER: &str =
    "This plan runs branches in another order than the model; operators are listed in the plan's order";

/// Largest optimality gap of a plan that is called optimal, in percent.
const OPTIMAL_PERCENT: f64 = 0.01;

/// Optimality gap: how much the plan's cost exceeds the lower bound, in percent; none without a bound.
fn gap_percent(answer: &Answer, objective: Objective) -> Option<f64> {
    let cost = match answer.period {
        Some(period) => period.as_seconds(),
        None => objective.cost(answer.prediction.latency, answer.prediction.energy),
    };
    answer.bound.map(|bound| explore::comparison::gap_percent(cost, bound))
}

fn distance(gap_percent: f64, answer: &Answer, stages: &[Stage]) -> String {
    let order = if explore::has_branches(stages) { ", in the model's order" } else { "" };
    let what = format!("of plans with whole operators and cuts along one axis, on any processors{order}");
    if let Some(period) = answer.period {
        return format!("A batch every {period}: at most {gap_percent:.2} % from the shortest period {what}");
    }
    if gap_percent <= OPTIMAL_PERCENT && answer.plan.is_reordered() {
        format!("This plan is at least as good as the best {what}")
    } else if gap_percent <= OPTIMAL_PERCENT {
        format!("This plan is optimal {what}")
    } else {
        format!("At most {gap_percent:.2} % from the best {what}")
    }
}

/// The search's result for one operator alone, as JSON.
fn operator((stage, search): (&Stage, &Search)) -> impl Serialize {
    let split = search.split.and_then(|candidate| {
        let (axis, [cpu, gpu]) = candidate.placement.cpu_and_gpu_extents()?;
        let along = |wanted, extent| (axis == wanted).then_some(extent);
        Some(record!(Split {
            cores: candidate.placement.cores()?.to_string(),
            #[serde(skip_serializing_if = "output::is_null")]
            cpu_channels: along(Axis::Channels, cpu),
            #[serde(skip_serializing_if = "output::is_null")]
            gpu_channels: along(Axis::Channels, gpu),
            #[serde(skip_serializing_if = "output::is_null")]
            cpu_rows: along(Axis::Height, cpu),
            #[serde(skip_serializing_if = "output::is_null")]
            gpu_rows: along(Axis::Height, gpu),
            cpu_ps: candidate.cpu,
            gpu_ps: candidate.gpu,
            latency_ps: candidate.latency,
        }))
    });
    record!(Operator {
        name: stage.name.clone(),
        gpu_only_ps: search.gpu_only.map(|candidate| candidate.latency),
        cpu_only_ps: search.cpu_only.map(|candidate| candidate.latency),
        split,
    })
}

/// Ratio of two plans' times: of their periods if both have one, else of their latencies; 1 if that of
/// `fast` is zero.
pub(crate) fn relative(slow: (Picos, Option<Picos>), fast: (Picos, Option<Picos>)) -> f64 {
    let (slow, fast) = slow.1.zip(fast.1).unwrap_or((slow.0, fast.0));
    if fast == Picos::ZERO { 1.0 } else { slow.0 as f64 / fast.0 as f64 }
}

/// Prints the plan next to the single processors, including those without known times, with the
/// composition of each latency.
fn compare(Advice { answer, instead, .. }: &Advice, known: &[Known], energy: bool) {
    let own = (answer.prediction.latency, answer.period);
    let others = || instead.iter().chain(&answer.baselines);
    let compositions = others().map(|other| &other.prediction.composition);
    let parts = Composition::named_parts(compositions.chain([&answer.prediction.composition]));
    let mut header = vec!["strategy", "latency"];
    header.extend(answer.period.map(|_| "period"));
    header.push("relative");
    header.extend(energy.then_some("energy"));
    header.extend(&parts);
    let row = |name: &str, prediction: &Prediction, period: Option<Picos>| {
        let relative = format!("{:.2}x", relative((prediction.latency, period), own));
        let mut row = row![name, prediction.latency];
        row.extend(period.map(|period| period.to_string()));
        row.push(relative);
        row.extend(energy.then(|| or_dash(prediction.energy)));
        let named = prediction.composition.parts().into_iter().filter(|(name, _)| parts.contains(name));
        row.extend(named.map(|(_, length)| length.to_string()));
        row
    };
    let others = others().map(|other| row(other.strategy.name(), &other.prediction, other.period));
    let open = known.iter().filter(|known| known.missing.is_some());
    let open = open.map(|known| {
        let mut row = row![format!("{}-only", known.processor.name()), Basis::NotKnown];
        row.resize(header.len(), "-".to_owned());
        row
    });
    let rows = std::iter::once(row("this plan", &answer.prediction, answer.period)).chain(others).chain(open);
    output::keyed_table(&header, 1, rows);
}

/// Prints each operator's placement in the plan next to its best times alone, in the plan's order, and
/// an empty line.
fn operators(stages: &[Stage], answer: &Answer) {
    if answer.searches.is_empty() {
        return output::line("");
    }
    let time = |candidate: Option<explore::Candidate>| or_dash(candidate.map(|candidate| candidate.latency));
    let rows = answer.plan.in_order().map(|index| {
        let (stage, search) = (&stages[index], &answer.searches[index]);
        let chain = answer.plan.chain(index).map(|chain| format!(", chain {chain}"));
        let plan = describe(answer.plan.placements[index]) + &chain.unwrap_or_default();
        let [split, gpu, cpu] = [search.split, search.gpu_only, search.cpu_only].map(time);
        let takes = answer.prediction.stages.get(index).map(|stage| stage.critical);
        row![stage.name, or_dash(takes), plan, stage.layer.operator, split, gpu, cpu]
    });
    let Prediction { composition, latency, .. } = answer.prediction;
    let beside = composition.parts().into_iter().skip(1).filter(|(_, length)| *length > Picos::ZERO);
    let sums = beside.chain([("total", latency)]);
    let sums = sums.map(|(name, length)| row![name, length, "", "", "", "", ""]);
    output::line("");
    let header = ["operator", "takes", "plan", "what", "best cut alone", "GPU alone", "CPU alone"];
    output::keyed_table(&header, 1, rows.chain(sums));
    output::line("");
}

/// A placement in a few words, such as `GPU 2584 + CPU 1large2med 488`.
pub(crate) fn describe(placement: Placement) -> String {
    let axis = placement.axis();
    let part = |Part { by, region }: Part| {
        let who = match by {
            Processor::Cpu(cores) => format!("CPU {cores}"),
            Processor::Gpu | Processor::Npu(_) => by.kind().to_string(),
        };
        let [channels, rows] = [region.channels.length(), region.rows.length()];
        match (placement.is_cut(), axis) {
            (false, _) => who,
            (true, Some(Axis::Channels)) => format!("{who} {channels}"),
            (true, Some(Axis::Height)) => format!("{who} {rows} rows"),
            (true, None) => format!("{who} {channels} of {rows} rows"),
        }
    };
    // Accelerators come first: the CPU assists them.
    let (cpu, others): (Vec<Part>, Vec<Part>) =
        placement.parts().partition(|part| part.by.kind() == ProcessorKind::Cpu);
    others.into_iter().chain(cpu).map(part).collect::<Vec<_>>().join(" + ")
}
