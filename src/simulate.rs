//! `coexec simulate`: predicts a scenario under a plan.

use std::path::Path;

use coexec_sim::explore::{self, Strategy};
use coexec_sim::simulate::{
    Drawn, Errors, Footprint, OtherEnergy, Pipeline, Prediction, ProcessorUse, Samples, Simulator, StepKind,
    Stream, sample, timeline,
};
use coexec_sim::timeline::Timeline;
use coexec_sim::workload::LanguageTask;
use coexec_sim::{Picos, Plan, PlanFile, Profile, Scenario, Stage, Text, Workload};

use crate::language::Case;
use crate::output::{distinct, listed, percent, record, row, stem};
use crate::{
    Common, Failure, OutputFile, PicturePath, Result, Simulate, Trust, applications, gantt, known, language,
    or_dash, output, why,
};

pub(crate) fn run(options: &Simulate, common: &Common) -> Result {
    options.place.check_one_plan(options.plan.as_deref())?;
    options.place.check_distinct(options.trace.as_deref(), options.plan.as_deref())?;
    let plan = options.plan.as_deref().map(|path| Text::read(path)?.parse()).transpose()?;
    let scenario = options.place.load_for(plan.as_ref())?;
    match &scenario.workload {
        Workload::Model(_) | Workload::Set(_) => one_model(&scenario, options, common),
        Workload::Language(task) => language::simulate(Case { scenario: &scenario, task }, options, common),
        Workload::Applications(several) => applications::simulate(&scenario, several, options, common),
    }
}

fn one_model(scenario: &Scenario, options: &Simulate, common: &Common) -> Result {
    let (stages, mut simulator) = (model(scenario)?, scenario.simulator());
    let OfferedPlan { plan, pipeline, origin, .. } = match &options.plan {
        Some(path) => read_plan(path, scenario, stages)?,
        None => searched(scenario, &mut simulator)?,
    };
    let known = known::of(scenario);
    let prediction = simulator.run(stages, &plan)?;
    let errors = Errors::of(&scenario.device, &known);
    let trust = Trust::of(&simulator, (stages, &plan), None, errors)?;
    let plain_sharing = plain_sharing(scenario, &plan)?;
    let samples =
        options.samples.map(|count| sample(&simulator, stages, &plan, count as usize, options.seed));
    let samples = samples.transpose()?;
    let stream = pipeline.as_ref().map(|pipeline| simulator.stream(stages, &plan, pipeline)).transpose()?;
    let period = |pipeline| Drawn::of(&simulator, (stages, &plan), Some(pipeline), &errors);
    let period = pipeline.as_ref().map(period).transpose()?;
    let timeline = timeline(&mut simulator, stages, &plan)?;
    output::write(&timeline_files(&timeline, scenario, options.plot.as_ref(), options.trace.as_deref())?)?;
    if common.json {
        return output::json(&record!(Document {
            scenario: &scenario.name,
            device: &scenario.device.name,
            /// Where the plan came from.
            plan_origin: origin,
            trust,
            /// What is known of each processor for these operators.
            known,
            prediction,
            /// The plan's latency under max-min fair sharing of the memory alone, if the profile has
            /// measured interference.
            #[serde(skip_serializing_if = "output::is_null")]
            plain_sharing_latency_ps: plain_sharing,
            samples,
            /// Streamed batches, if the scenario or the plan has a pipeline.
            #[serde(skip_serializing_if = "output::is_null")]
            stream,
            /// Interval that contains the period between batches in 90 % of draws of the errors.
            #[serde(skip_serializing_if = "output::is_null")]
            period_interval_ps: period,
        }));
    }
    output::line(&format!("{}\non {}, {origin}\n", scenario.title, scenario.device.title));
    print_excess(&prediction.memory, &scenario.device);
    parts(&prediction);
    report(&prediction, &timeline, &scenario.device);
    known::print_missing(&known);
    output::line("");
    trust.print(&known, &options.place.verification(scenario, &plan, options.plan.as_deref(), true));
    print_plain_sharing(plain_sharing, prediction.latency);
    if let Some(samples) = &samples {
        spread(samples);
    }
    if let (Some(stream), Some(pipeline), Some(period)) = (&stream, &pipeline, &period) {
        streamed(stream, pipeline.depth, period.interval());
    }
    Ok(())
}

/// Prints the latency under max-min fair sharing of the memory alone, if the profile has measured
/// interference.
fn print_plain_sharing(plain_sharing: Option<Picos>, latency: Picos) {
    if let Some(plain) = plain_sharing {
        let percent = 100.0 * (plain.0 as f64 / latency.0.max(1) as f64 - 1.0);
        output::line(&format!("\nmemory shared by max-min alone: latency {plain} ({percent:+.1} %)"));
    }
}

/// The plan's latency without the profile's interference; none if it has none.
fn plain_sharing(scenario: &Scenario, plan: &Plan) -> Result<Option<Picos>> {
    if scenario.device.memory.interference.is_empty() {
        return Ok(None);
    }
    let device = scenario.device.without_interference();
    let mut simulator = Simulator::new(&device, scenario.library).measuring(scenario.measure);
    Ok(Some(simulator.latency(scenario.stages(), plan)?))
}

/// The stages of a scenario that is a single model, or the failure that it is not.
pub(crate) fn model(scenario: &Scenario) -> Result<&[Stage]> {
    match &scenario.workload {
        Workload::Model(stages) => Ok(stages),
        Workload::Language(_) => Err(missing_kernels(&scenario.name)),
        Workload::Applications(_) => Err(applications::only_simulated(&scenario.name)),
        Workload::Set(operators) => Err(Failure::usage(
            format!("{} is a set of {} single operators, not one model", scenario.name, operators.len()),
            "explore the set (`coexec explore`), or name a network or another scenario",
        )),
    }
}

/// The failure of running a language model, for which this machine has no kernels.
pub(crate) fn missing_kernels(scenario: &str) -> Failure {
    Failure::usage(
        format!("{scenario} is a language model, which coexec predicts but does not run itself"),
        "use `coexec simulate` or `coexec explore`, or run a scenario of operators",
    )
}

/// The plan that the scenario's strategy finds.
fn searched(scenario: &Scenario, simulator: &mut Simulator<'_>) -> Result<OfferedPlan> {
    let (search, pipeline) = (&scenario.options, scenario.pipeline.clone());
    let plan = explore::explore_stream(simulator, scenario.stages(), search, pipeline.as_ref())?.plan;
    Ok(OfferedPlan { plan, pipeline, origin: found_by(search.strategy), is_of_another: false })
}

/// Origin of a plan that was searched for.
pub(crate) fn found_by(strategy: Strategy) -> String {
    format!("plan found by {}", strategy.name())
}

/// A plan, searched for or read from a file, with its origin.
pub(crate) struct OfferedPlan {
    pub(crate) plan: Plan,
    /// The scenario's pipeline, with the plan file's depth if it sets one.
    pub(crate) pipeline: Option<Pipeline>,
    /// Origin of the plan, in words.
    pub(crate) origin: String,
    /// Whether the plan was made for another scenario or device.
    pub(crate) is_of_another: bool,
}

/// Reads the plan of `stages` from a file.
pub(crate) fn read_plan(path: &Path, scenario: &Scenario, stages: &[Stage]) -> Result<OfferedPlan> {
    let text = Text::read(path)?;
    let written: PlanFile = text.parse()?;
    let plan = written.resolve(&text, stages, &scenario.device)?;
    let pipeline = match (scenario.pipeline.clone(), written.pipeline_depth) {
        (Some(pipeline), Some(depth)) => Some(Pipeline { depth, ..pipeline }),
        // Without a pipeline in the scenario, the host does no work for a batch.
        (None, Some(depth)) => Some(Pipeline::new(depth, 0.0)),
        (pipeline, None) => pipeline,
    };
    let made_for = made_for(&written, scenario);
    let (origin, is_of_another) = (format!("plan {}{made_for}", path.display()), !made_for.is_empty());
    Ok(OfferedPlan { plan, pipeline, origin, is_of_another })
}

/// A clause that names the scenario and the device that a plan was made for, if they differ; else
/// empty.
fn made_for(written: &PlanFile, scenario: &Scenario) -> String {
    let name = |scenario: &str| {
        let path = Path::new(scenario);
        let is_file = path.extension().is_some_and(|ending| ending == "toml");
        if is_file { stem(path).into_owned() } else { scenario.to_owned() }
    };
    let of_scenario = (name(&written.scenario) != name(&scenario.name)).then_some(&written.scenario);
    let of_device = (written.device != scenario.device.name).then_some(&written.device);
    let other: Vec<&str> = of_scenario.into_iter().chain(of_device).map(String::as_str).collect();
    if other.is_empty() { String::new() } else { format!(", which was made for {}", other.join(" on ")) }
}

/// The requested picture and trace of `timeline`.
pub(crate) fn timeline_files(
    timeline: &Timeline,
    scenario: &Scenario,
    picture: Option<&PicturePath>,
    trace: Option<&Path>,
) -> Result<Vec<OutputFile>> {
    let title = format!("{} on {}", scenario.title, scenario.device.title);
    let draw =
        |picture: &PicturePath| picture.file(|format| coexec_plots::timeline(timeline, &title, format));
    let mut files: Vec<OutputFile> = picture.map(draw).transpose()?.into_iter().collect();
    files.extend(trace.map(|path| OutputFile::new(path, coexec_plots::trace(timeline))));
    Ok(files)
}

/// Prints the composition of the latency.
fn parts(prediction: &Prediction) {
    let parts = prediction.composition.parts().into_iter().filter(|(_, length)| *length > Picos::ZERO);
    let share = |length: Picos| percent(100.0 * length.0 as f64 / prediction.latency.0.max(1) as f64);
    let rows = parts.chain([("total", prediction.latency)]);
    output::table(&["part", "time", "share"], rows.map(|(name, length)| row![name, length, share(length)]));
    output::line("");
}

/// Prints a prediction for `device`.
pub(crate) fn report(prediction: &Prediction, timeline: &Timeline, device: &Profile) {
    output::line(&why::operators(prediction));
    let energy = prediction.energy.map_or("not known".to_owned(), |energy| energy.to_string());
    output::line(&format!(
        "latency {}, {} moved at {}, energy {energy}",
        prediction.latency, prediction.bytes, prediction.bandwidth
    ));
    output::line(&format!("{}\n", memory(&prediction.memory, device)));
    if let Some(preparation) = prediction.preparation {
        output::line(&format!("once before the first run: {preparation} to compile the NPU's graphs\n"));
    }
    uses(prediction);
    if let Some(power) = &device.power {
        output::line(&format!("\npower: {}", power.source));
    }
    output::line(&format!("\ncritical path: {}\n", critical_path(prediction)));
    output::line(&gantt::text(timeline));
}

/// Notes that the conversation is longer than what the model can attend to.
pub(crate) fn note_length(task: &LanguageTask, common: &Common) {
    let tokens = u64::from(task.context_before(task.turns.len()));
    if let Some(most) = task.model.max_context.filter(|&most| tokens > most) {
        common.note(format_args!(
            "note: {tokens} tokens of prompts and answers are more than the {most} that {} can attend to",
            task.model.name
        ));
    }
}

/// Prints ahead of the times that the device cannot hold the run, if it cannot.
pub(crate) fn print_excess(footprint: &Footprint, device: &Profile) {
    if footprint.fits(device) == Some(false) {
        output::line(&format!("{}\n", memory(footprint, device)));
    }
}

/// The memory that a run needs, and whether the device has as much.
pub(crate) fn memory(footprint: &Footprint, device: &Profile) -> String {
    let (peak, size) = (footprint.peak(), device.memory.size());
    let held = match size {
        Some(size) if footprint.fits(device) == Some(false) => {
            format!(": more than the {size} of this device, which cannot hold it")
        }
        Some(size) => format!(" of {size}"),
        None => String::new(),
    };
    let Footprint { weights_bytes, activations_bytes, .. } = footprint;
    format!(
        "memory: {weights_bytes} weights + {activations_bytes} results + {} copies = {peak} at most{held}",
        footprint.extra()
    )
}

/// Prints each processor's use of time, bytes and energy, and the other energy.
fn uses(prediction: &Prediction) {
    let used = prediction.processors.iter().map(|usage| {
        let ProcessorUse { processor, busy, wait, overhead, bytes, bandwidth, energy, .. } = usage;
        let idle = [*busy, *wait, *overhead]
            .iter()
            .fold(prediction.latency, |left, &part| left.saturating_sub(part));
        row![processor, busy, wait, overhead, idle, bytes, bandwidth, or_dash(*energy)]
    });
    let others = prediction.other_energy.into_iter();
    let others = others.flat_map(|OtherEnergy { memory, idle_processors, base }| {
        [("memory", memory), ("others, idle", idle_processors), ("base", base)]
    });
    let others = others.filter(|(_, energy)| energy.0 > 0.0);
    let others = others.map(|(name, energy)| row![name, "", "", "", "", "", "", energy]);
    output::table(&HEADER, used.chain(others));
}

/// Columns of the table of processors.
const HEADER: [&str; 8] =
    ["processor", "busy", "waits", "overhead", "idle", "bytes", "rate while busy", "energy"];

/// Longest critical path printed step by step; the steps of a longer one are summed by kind.
const MAX_STEPS: usize = 8;

/// The critical path in words.
fn critical_path(prediction: &Prediction) -> String {
    let steps = prediction.critical_path.iter();
    let steps = steps.map(|step| (step, step.finish.saturating_sub(step.start)));
    if steps.len() <= MAX_STEPS {
        let parts = steps.map(|(step, length)| match step.kind {
            StepKind::Compute => format!("{} on {} {length}", step.stage, step.processor),
            StepKind::HandOver => format!("hand-over {length}"),
            StepKind::Move => format!("transfer {length}"),
            StepKind::Join => format!("join {length}"),
            StepKind::Submit => format!("host: submit {length}"),
            StepKind::ReadBack => format!("host: read back {length}"),
        });
        return parts.collect::<Vec<_>>().join(" -> ");
    }
    let lengths = steps.map(|(step, length)| match step.kind {
        StepKind::Compute => (step.processor.label(), length),
        StepKind::HandOver => ("hand-overs", length),
        StepKind::Move => ("transfers", length),
        StepKind::Join => ("joins", length),
        StepKind::Submit | StepKind::ReadBack => ("host", length),
    });
    let lengths: Vec<(&str, Picos)> = lengths.collect();
    let sums = distinct(lengths.iter().map(|(label, _)| *label)).into_iter().map(|label| {
        let alike = lengths.iter().filter(|(other, _)| *other == label).map(|(_, length)| *length);
        let steps = why::counted(alike.clone().count() as u64, "step");
        format!("{label} {} ({steps})", alike.sum::<Picos>())
    });
    sums.collect::<Vec<_>>().join(" + ")
}

/// Prints the rates of a stream of batches, with the interval of its period.
fn streamed(stream: &Stream, depth: u32, [low, high]: [Picos; 2]) {
    let busy = stream.busy_percent.iter().map(|(name, percent)| format!("{name} {percent:.1} %"));
    output::line(&format!(
        "\nbatches with {depth} in flight: {:.2} a second, one every {} (90 % of draws: {low} to {high}), each takes {} from the \
         start of the host's work; busy: {}",
        stream.batches_per_second,
        stream.period,
        stream.batch_latency,
        listed(busy)
    ));
}

fn spread(samples: &Samples) {
    let percentiles = samples.percentiles.iter().map(|(percent, time)| format!("p{percent} {time}"));
    let [low, high] = samples.mean_ci95;
    output::line(&format!(
        "\n{} samples with the profile's jitter, seed {}: mean {} (95 % CI {low} to {high}), {}",
        samples.count,
        samples.seed,
        samples.mean,
        listed(percentiles)
    ));
}
