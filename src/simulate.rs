//! `coexec simulate`: what a scenario takes under a plan.

use std::path::Path;

use coexec_sim::explore::{self, Strategy};
use coexec_sim::simulate::{
    Drawn, Errors, Footprint, Known, OtherEnergy, Pipeline, Prediction, ProcessorUse, Samples, Simulator,
    StepKind, Stream, sample, timeline,
};
use coexec_sim::timeline::Timeline;
use coexec_sim::{Picos, Plan, PlanFile, Profile, Scenario, Stage, Text, Workload};
use serde::Serialize;

use crate::output::row;
use crate::{
    Common, Failure, OutputFile, PicturePath, Result, Simulate, Trust, applications, gantt, known, language,
    or_dash, output, why,
};

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    device: &'a str,
    /// Where the plan came from.
    plan_origin: String,
    trust: &'a Trust,
    /// What is known of each processor for these operators.
    known: &'a [Known],
    prediction: &'a Prediction,
    /// The plan's latency if processors shared the memory by max-min alone, where the
    /// profile knows better.
    #[serde(skip_serializing_if = "Option::is_none")]
    plain_sharing_latency_ps: Option<Picos>,
    samples: Option<&'a Samples>,
    /// Batches one after the other and in flight, where the scenario has a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a Stream>,
    /// What 90 % of draws of the errors lie between, of the time from batch to batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    period_interval_ps: Option<&'a Drawn>,
}

pub(crate) fn run(options: &Simulate, common: &Common) -> Result {
    options.place.refuse_beside(options.plan.as_deref())?;
    options.place.check_apart(options.trace.as_deref(), options.plan.as_deref())?;
    let scenario = options.place.load()?;
    match &scenario.workload {
        Workload::Model(_) | Workload::Set(_) => one_model(&scenario, model(&scenario)?, options, common),
        Workload::Language(task) => language::simulate(&scenario, task, options, common),
        Workload::Applications(several) => applications::simulate(&scenario, several, options, common),
    }
}

fn one_model(scenario: &Scenario, stages: &[Stage], options: &Simulate, common: &Common) -> Result {
    let mut simulator = scenario.simulator();
    let OfferedPlan { plan, pipeline_depth, origin, .. } =
        offered(options.plan.as_deref(), scenario, stages, &mut simulator)?;
    let known = known::of(scenario, stages);
    let pipeline = pipeline(scenario, pipeline_depth);
    let prediction = simulator.run(stages, &plan)?;
    let errors = Errors::of(&scenario.device, &known);
    let trust = Trust::of(&simulator, (stages, &plan), None, errors)?;
    let plain_sharing = plain_sharing(scenario, stages, &plan)?;
    let samples =
        options.samples.map(|count| sample(&simulator, stages, &plan, count as usize, options.seed));
    let samples = samples.transpose()?;
    let stream = pipeline.as_ref().map(|pipeline| simulator.stream(stages, &plan, pipeline)).transpose()?;
    let period = |pipeline| Drawn::of(&simulator, (stages, &plan), Some(pipeline), &errors);
    let period = pipeline.as_ref().map(period).transpose()?;
    let timeline = timeline(&mut simulator, stages, &plan)?;
    output::write(&timeline_files(&timeline, scenario, options.plot.as_ref(), options.trace.as_deref())?)?;
    if common.json {
        output::json(&Document {
            scenario: &scenario.name,
            device: &scenario.device.name,
            plan_origin: origin,
            trust: &trust,
            known: &known,
            prediction: &prediction,
            plain_sharing_latency_ps: plain_sharing,
            samples: samples.as_ref(),
            stream: stream.as_ref(),
            period_interval_ps: period.as_ref(),
        });
    } else {
        output::line(&format!("{}\non {}, {origin}\n", scenario.title, scenario.device.title));
        parts(&prediction);
        report(&prediction, &timeline, &scenario.device);
        known::tell(&known);
        output::line("");
        trust.tell(&known, &options.place.verification(scenario, &plan, options.plan.as_deref(), true));
        if let Some(latency) = plain_sharing {
            let percent = 100.0 * (latency.0 as f64 / prediction.latency.0.max(1) as f64 - 1.0);
            output::line(&format!("\nmemory shared by max-min alone: latency {latency} ({percent:+.1} %)"));
        }
        if let Some(samples) = &samples {
            spread(samples);
        }
        if let (Some(stream), Some(pipeline), Some(period)) = (&stream, &pipeline, &period) {
            streamed(stream, pipeline.depth, period.interval());
        }
    }
    Ok(())
}

/// What the plan takes without the profile's interference, where it has any.
fn plain_sharing(scenario: &Scenario, stages: &[Stage], plan: &Plan) -> Result<Option<Picos>> {
    if scenario.device.memory.interference.is_empty() {
        return Ok(None);
    }
    let device = scenario.device.without_interference();
    let mut simulator = Simulator::new(&device, scenario.library).measuring(scenario.measure);
    Ok(Some(simulator.latency(stages, plan)?))
}

/// The stages of a scenario that is one model.
pub(crate) fn model(scenario: &Scenario) -> Result<&[Stage]> {
    match &scenario.workload {
        Workload::Model(stages) => Ok(stages),
        Workload::Language(_) => Err(language::no_kernels(&scenario.name)),
        Workload::Applications(_) => Err(applications::not_run(&scenario.name)),
        Workload::Set(operators) => Err(Failure::usage(
            format!("{} is a set of {} single operators, not one model", scenario.name, operators.len()),
            "explore the set (`coexec explore`), or simulate a network or a scenario",
        )),
    }
}

/// The plan in the file, or the one the scenario's strategy finds.
fn offered(
    file: Option<&Path>,
    scenario: &Scenario,
    stages: &[Stage],
    simulator: &mut Simulator<'_>,
) -> Result<OfferedPlan> {
    let (search, pipeline) = (&scenario.options, scenario.pipeline.as_ref());
    if let Some(path) = file {
        return read_plan(path, scenario, stages);
    }
    let plan = explore::explore_stream(simulator, stages, search, pipeline)?.plan;
    Ok(OfferedPlan { plan, pipeline_depth: None, origin: found_by(search.strategy), is_of_another: false })
}

/// Where a plan came from that was searched.
pub(crate) fn found_by(strategy: Strategy) -> String {
    format!("plan found by {}", strategy.name())
}

/// Who computes what, and who says so.
pub(crate) struct OfferedPlan {
    pub(crate) plan: Plan,
    /// Batches in flight, where a file says so.
    pub(crate) pipeline_depth: Option<u32>,
    /// Where it came from.
    pub(crate) origin: String,
    /// Whether it was made for another scenario or device.
    pub(crate) is_of_another: bool,
}

/// The plan of `stages` in a file.
pub(crate) fn read_plan(path: &Path, scenario: &Scenario, stages: &[Stage]) -> Result<OfferedPlan> {
    let text = Text::read(path)?;
    let written: PlanFile = text.parse()?;
    let plan = written.resolve(&text, stages, &scenario.device)?;
    let made_for = made_for(&written, scenario);
    let (origin, is_of_another) = (format!("plan {}{made_for}", path.display()), !made_for.is_empty());
    Ok(OfferedPlan { plan, pipeline_depth: written.pipeline_depth, origin, is_of_another })
}

/// What a plan was made for, where that is something else.
fn made_for(written: &PlanFile, scenario: &Scenario) -> String {
    let name = |scenario: &str| {
        let path = Path::new(scenario);
        let stem = path.file_stem().filter(|_| path.extension().is_some_and(|ending| ending == "toml"));
        stem.map_or_else(|| scenario.to_owned(), |stem| stem.to_string_lossy().into_owned())
    };
    let of_scenario = (name(&written.scenario) != name(&scenario.name)).then_some(&written.scenario);
    let of_device = (written.device != scenario.device.name).then_some(&written.device);
    let other: Vec<&str> = of_scenario.into_iter().chain(of_device).map(String::as_str).collect();
    if other.is_empty() { String::new() } else { format!(", which was made for {}", other.join(" on ")) }
}

/// How batches follow each other: as the scenario says, with as many in flight as a plan
/// does.
pub(crate) fn pipeline(scenario: &Scenario, depth: Option<u32>) -> Option<Pipeline> {
    match (scenario.pipeline.clone(), depth) {
        (Some(pipeline), Some(depth)) => Some(Pipeline { depth, ..pipeline }),
        // Batches of which nobody says that the host does anything for them.
        (None, Some(depth)) => Some(Pipeline::new(depth, 0.0)),
        (pipeline, None) => pipeline,
    }
}

/// A picture of `timeline` and a trace of it, where they are asked for.
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

/// Prints what the latency consists of.
fn parts(prediction: &Prediction) {
    let parts = prediction.composition.parts().into_iter().filter(|(_, length)| *length > Picos::ZERO);
    let percent =
        |length: Picos| format!("{:.1} %", 100.0 * length.0 as f64 / prediction.latency.0.max(1) as f64);
    let rows = parts.chain([("total", prediction.latency)]);
    output::table(&["part", "time", "share"], rows.map(|(name, length)| row![name, length, percent(length)]));
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
        output::line(&format!("once before the first run: {preparation} to make the NPU's graphs\n"));
    }
    uses(prediction);
    if let Some(power) = &device.power {
        output::line(&format!("\npower: {}", power.source));
    }
    output::line(&format!("\ncritical path: {}\n", critical_path(prediction)));
    output::line(&gantt::text(timeline));
}

/// What a run holds, and whether the device can.
pub(crate) fn memory(footprint: &Footprint, device: &Profile) -> String {
    let (peak, size) = (footprint.peak(), device.memory.size());
    let held = match size {
        Some(size) if peak > size => format!(": more than the {size} of this device, which cannot hold it"),
        Some(size) => format!(" of {size}"),
        None => String::new(),
    };
    let Footprint { weights_bytes, activations_bytes, .. } = footprint;
    format!(
        "memory: {weights_bytes} weights + {activations_bytes} results + {} copies = {peak} at most{held}",
        footprint.extra()
    )
}

/// Prints what each processor did, and where the energy went.
fn uses(prediction: &Prediction) {
    let used = prediction.processors.iter().map(|usage| {
        let ProcessorUse { processor, busy, wait, overhead, bytes, bandwidth, energy, .. } = usage;
        let idle = [*busy, *wait, *overhead]
            .iter()
            .fold(prediction.latency, |left, &part| left.saturating_sub(part));
        row![processor, busy, wait, overhead, idle, bytes, bandwidth, or_dash(*energy)]
    });
    let others =
        prediction.other_energy.map_or(Vec::new(), |OtherEnergy { memory, idle_processors, base }| {
            vec![("memory", memory), ("others, idle", idle_processors), ("base", base)]
        });
    let others = others.into_iter().filter(|(_, energy)| energy.0 > 0.0);
    let others = others.map(|(name, energy)| row![name, "", "", "", "", "", "", energy]);
    output::table(&HEADER, used.chain(others));
}

/// Columns of the table of processors.
const HEADER: [&str; 8] =
    ["processor", "busy", "waits", "overhead", "idle", "bytes", "rate while busy", "energy"];

/// More steps of a critical path than this are summed by what they are.
const MOST_STEPS: usize = 8;

/// The critical path in words.
fn critical_path(prediction: &Prediction) -> String {
    let steps = &prediction.critical_path;
    if steps.len() <= MOST_STEPS {
        let parts = steps.iter().map(|step| {
            let length = step.finish.saturating_sub(step.start);
            match step.kind {
                StepKind::Compute => format!("{} on {} {length}", step.stage, step.processor),
                StepKind::HandOver => format!("hand-over {length}"),
                StepKind::Move => format!("transfer {length}"),
                StepKind::Join => format!("join {length}"),
                StepKind::Submit => format!("host: submit {length}"),
                StepKind::ReadBack => format!("host: read back {length}"),
            }
        });
        return parts.collect::<Vec<_>>().join(" -> ");
    }
    let mut sums: Vec<(&str, Picos, usize)> = Vec::new();
    for step in steps {
        let label = match step.kind {
            StepKind::Compute => step.processor.label(),
            StepKind::HandOver => "hand-overs",
            StepKind::Move => "transfers",
            StepKind::Join => "joins",
            StepKind::Submit | StepKind::ReadBack => "host",
        };
        let length = step.finish.saturating_sub(step.start);
        match sums.iter_mut().find(|(known, _, _)| *known == label) {
            Some((_, sum, count)) => {
                *sum += length;
                *count += 1;
            }
            None => sums.push((label, length, 1)),
        }
    }
    let sums = sums.into_iter().map(|(label, sum, count)| {
        format!("{label} {sum} ({})", why::counted(count as u64, "step", "steps"))
    });
    sums.collect::<Vec<_>>().join(" + ")
}

/// Prints what a stream of batches comes to.
fn streamed(stream: &Stream, depth: u32, [low, high]: [Picos; 2]) {
    let busy: Vec<String> =
        stream.busy_percent.iter().map(|(name, percent)| format!("{name} {percent:.1} %")).collect();
    output::line(&format!(
        "\nbatches with {depth} in flight: {:.2} a second, one every {} (90 % of draws: {low} to {high}), each {} from the host's work \
         on; busy: {}",
        stream.batches_per_second,
        stream.period,
        stream.batch_latency,
        busy.join(", ")
    ));
}

fn spread(samples: &Samples) {
    let percentiles: Vec<String> =
        samples.percentiles.iter().map(|(percent, time)| format!("p{percent} {time}")).collect();
    let [low, high] = samples.mean_ci95;
    output::line(&format!(
        "\n{} samples with the profile's jitter, seed {}: mean {} (95 % CI {low} to {high}), {}",
        samples.count,
        samples.seed,
        samples.mean,
        percentiles.join(", ")
    ));
}
