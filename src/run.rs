//! `coexec run`: what a scenario takes on this machine, beside what is predicted.

mod results;
mod stream;
mod variants;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use coexec_fit::measure::runs::{Fingerprint, Measurement, fingerprints_path};
use coexec_fit::validate::choice::{Choices, choices};
use coexec_hw::execute::{
    DeviceChoice, ExecuteError, Measured, NoiseFloor, ProgressEvent, Report, Request, execute,
};
use coexec_sim::simulate::Pipeline;
use coexec_sim::{CoreSet, InputError, PlanFile, Scenario, Workload};
use serde::Serialize;

use crate::simulate::{OfferedPlan, model, pipeline, read_plan};
use crate::validate::worth;
use crate::{
    Column, Common, Failure, OutputFile, Progress, Result, Run, or_dash, output, this_machine, workers,
};
use results::Row;
use stream::Stream;
use variants::{Candidate, Maker, Processors};

/// Status of a process that a second interrupt ends at once (128 and the signal's number,
/// as shells have it).
const INTERRUPTED: i32 = 130;

#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    device: &'a str,
    runs: &'a Path,
    fingerprint: &'a Fingerprint,
    noise_floor: NoiseFloor,
    warnings: &'a [String],
    variants: &'a [Row],
    left_out: &'a [SkippedRow],
    /// What choosing among the measured ways to run an operator by prediction is worth.
    choices: Option<Choices>,
    /// Mean absolute error of the predictions, in percent.
    mape_percent: Option<f64>,
    /// Batches of the plan that followed each other, where the scenario has a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a Stream>,
}

/// A variant that does not run here.
#[derive(Serialize)]
struct SkippedRow {
    what: String,
    processor: String,
    reason: String,
}

pub(crate) fn run(options: &Run, common: &Common) -> Result {
    // A wrong file name should not cost a measurement first.
    options.place.check_apart(Some(&options.out), options.plan.as_deref())?;
    let paths = [options.out.clone(), fingerprints_path(&options.out)];
    paths.iter().try_for_each(|path| output::check(path))?;
    options.place.refuse_beside(options.plan.as_deref())?;
    let (scenario, predicts) = this_machine::scenario(options, common)?;
    let written = written_plan(options, common, &scenario)?;
    let pipeline = pipeline(&scenario, written.as_ref().and_then(|written| written.pipeline_depth));
    let plan = written.map(|written| written.plan);
    let plan_path = options.out.with_extension("plan.toml");
    let processors = Processors::of(&scenario, plan.as_ref());
    if processors.gpu {
        workers::keep_on_their_cores(options.device.gpu_cores)?;
    }
    let (cores, plan_name) = (core_sets(options, &scenario)?, file_name(&plan_path));
    let maker = Maker { scenario: &scenario, cores, processors, splits: options.splits, plan_name, predicts };
    let groups = maker.groups(plan.as_ref())?;
    let (mut report, warnings) =
        measure(options, common, &scenario, &groups, (processors.gpu, pipeline.as_ref()))?;
    let network = network_name(&scenario);
    let context = results::Common {
        network: &network,
        fingerprint: &report.fingerprint.id,
        noise: report.noise,
        max_spread: options.max_spread,
    };
    let is_model = matches!(scenario.workload, Workload::Model(_));
    let times = std::mem::take(&mut report.groups);
    let Outcome { rows, measurements, left_out } = outcome(&groups, times, is_model, &context)?;
    for SkippedRow { what, processor, reason } in &left_out {
        common.note(format_args!("not run: {what} on {processor}: {reason}"));
    }
    let plan_file = plan_text(&scenario, &groups, pipeline.as_ref());
    let plan_file = plan_file.map(|text| OutputFile::new(&plan_path, text));
    let files = output::runs(&options.out, &measurements, &report.fingerprint)?;
    output::write(&files.into_iter().chain(plan_file).collect::<Vec<OutputFile>>())?;
    let stream = stream_of(&report, pipeline.as_ref(), &scenario, &groups);
    let document = Document {
        scenario: &scenario.name,
        device: &scenario.device.name,
        runs: &options.out,
        fingerprint: &report.fingerprint,
        noise_floor: report.noise,
        warnings: &warnings,
        variants: &rows,
        left_out: &left_out,
        choices: predicts.then(|| choices(&scenario.device, &measurements, scenario.library)).flatten(),
        mape_percent: mape_percent(&rows),
        stream: stream.as_ref(),
    };
    if common.json {
        output::json(&document);
    } else {
        show(&scenario, &document);
    }
    let help = "let the machine do nothing else, keep its clocks fixed, or ask for more --repetitions";
    results::verdict(&rows).map_or(Ok(()), |problem| Err(Failure::unsound(problem, help)))
}

/// The plan that the options name; says where it was made for another scenario.
fn written_plan(options: &Run, common: &Common, scenario: &Scenario) -> Result<Option<OfferedPlan>> {
    let Some(path) = options.plan.as_deref() else { return Ok(None) };
    let written = read_plan(path, scenario, model(scenario)?)?;
    if written.is_of_another {
        common.note(format_args!("note: {}", written.origin));
    }
    Ok(Some(written))
}

/// The batches that followed each other, where the scenario has a pipeline.
fn stream_of(
    report: &Report,
    pipeline: Option<&Pipeline>,
    scenario: &Scenario,
    groups: &[Vec<Candidate>],
) -> Option<Stream> {
    let first = groups.first()?.first()?;
    Some(Stream::new(report.streamed.as_ref()?, pipeline?, scenario, &first.variant))
}

/// Mean absolute error of the rows that have a prediction, in percent.
fn mape_percent(rows: &[Row]) -> Option<f64> {
    let errors: Vec<f64> = rows.iter().filter_map(|row| row.error_percent.map(f64::abs)).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// Core sets that compute operators alone.
fn core_sets(options: &Run, scenario: &Scenario) -> Result<Vec<CoreSet>> {
    if options.cores.is_empty() {
        return Ok(scenario.options.core_sets.clone());
    }
    let parse = |text: &String| {
        CoreSet::parse(text, &scenario.device.cpu).map_err(|error| {
            Failure::Input(InputError::Option {
                option: "--cores",
                found: error.found,
                expected: error.expected,
            })
        })
    };
    options.cores.iter().map(parse).collect()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What runs call the workload: a bundled name, or a file's without its ending.
fn network_name(scenario: &Scenario) -> String {
    let path = Path::new(&scenario.name);
    path.file_stem().map_or_else(|| scenario.name.clone(), |stem| stem.to_string_lossy().into_owned())
}

/// Measures `groups`; the warnings that came up are printed and handed back.
fn measure(
    options: &Run,
    common: &Common,
    scenario: &Scenario,
    groups: &[Vec<Candidate>],
    (gpu, pipeline): (bool, Option<&Pipeline>),
) -> Result<(Report, Vec<String>)> {
    let request = Request {
        profile: scenario.device.clone(),
        choice: DeviceChoice {
            gpu,
            opencl: options.device.opencl.clone(),
            compute_units: options.device.gpu_cores,
        },
        groups: groups
            .iter()
            .map(|group| group.iter().map(|candidate| candidate.variant.clone()).collect())
            .collect(),
        repetitions: options.repetitions,
        seed: options.seed,
        time_limit: options.time_limit,
        run_limit: options.longest,
        streaming: pipeline.map(stream::streaming),
    };
    let stop = stop_on_interrupt();
    let progress = Progress::new(common);
    let mut warnings: Vec<String> = Vec::new();
    let report = execute(request, &stop, &mut |told| match told {
        ProgressEvent::Progress(step) => progress.tell(&step),
        ProgressEvent::Warning(warning) if !warnings.contains(&warning) => {
            progress.tell(&format!("warning: {warning}"));
            warnings.push(warning);
        }
        ProgressEvent::Warning(_) => {}
    })?;
    Ok((report, warnings))
}

/// A flag that Ctrl-C (or a request to end) sets; a second one ends the process at once.
fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // Where signals cannot be caught, they end the process as ever: files are written
        // under temporary names, so none is left half-written.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop));
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

/// What came of it.
struct Outcome {
    rows: Vec<Row>,
    measurements: Vec<Measurement>,
    left_out: Vec<SkippedRow>,
}

/// Times of each variant of each group; none of a group that was left out.
type Times = Vec<Option<Vec<Result<Measured, ExecuteError>>>>;

fn outcome(
    groups: &[Vec<Candidate>],
    times: Times,
    is_model: bool,
    context: &results::Common<'_>,
) -> Result<Outcome> {
    let mut outcome = Outcome { rows: Vec::new(), measurements: Vec::new(), left_out: Vec::new() };
    for (candidates, measured) in groups.iter().zip(times) {
        for (candidate, measured) in candidates.iter().zip(measured.into_iter().flatten()) {
            match measured {
                Ok(measured) => {
                    let (row, measurement) = Row::of(outcome.rows.len(), candidate, &measured, context);
                    outcome.rows.push(row);
                    outcome.measurements.push(measurement);
                }
                Err(error) if candidate.is_plan && is_model => return Err(error.into()),
                Err(error) => outcome.left_out.push(SkippedRow {
                    what: candidate.operator.as_ref().map_or(context.network, |(name, _)| name).to_owned(),
                    processor: candidate.ran.to_string(),
                    reason: error.to_string(),
                }),
            }
        }
    }
    Ok(outcome)
}

/// The plan as it ran, of a model of several operators.
fn plan_text(scenario: &Scenario, groups: &[Vec<Candidate>], pipeline: Option<&Pipeline>) -> Option<String> {
    let Workload::Model(stages) = &scenario.workload else { return None };
    let first = groups.first()?.first()?;
    let plan = &Some(first).filter(|first| first.is_plan && stages.len() > 1)?.variant.plan;
    let file = PlanFile::new(&scenario.name, &scenario.device, stages, plan)
        .streaming(pipeline.map(|pipeline| pipeline.depth));
    Some(toml::to_string(&file).expect("a plan has only tables, words and numbers"))
}

/// Prints the figures.
fn show(scenario: &Scenario, document: &Document<'_>) {
    output::line(&format!("{}\non {}", scenario.title, document.fingerprint.device));
    let NoiseFloor { clock_ns, spread_percent } = document.noise_floor;
    output::line(&format!(
        "noise floor: a fixed loop varies by +-{spread_percent:.1} %, the clock's step is {clock_ns:.0} ns\n"
    ));
    let columns: [Column<Row>; 8] = [
        ("what", |row| row.what.clone()),
        ("processor", Row::processor_and_clock),
        ("synchronisation", |row| or_dash(row.synchronisation.as_ref())),
        ("measured", |row| format!("{:.1} us", row.median_us)),
        ("95 % interval", |row| row.ci95_us.map(|end| format!("{end:.1}")).join(" to ")),
        ("outliers", |row| row.outliers.to_string()),
        ("predicted", |row| or_dash(row.predicted_us.map(|predicted| format!("{predicted:.1} us")))),
        ("error", |row| or_dash(row.error_percent.map(|error| format!("{error:.1} %")))),
    ];
    let (header, rows) = output::cells(&columns, document.variants);
    output::table(&header, rows);
    if let Some(mape) = document.mape_percent {
        output::line(&format!("\nMAPE of {} predictions: {mape:.1} %", document.variants.len()));
    }
    if let Some(choices) = &document.choices {
        output::line(&format!("\n{}", worth(choices)));
    }
    if let Some(stream) = document.stream {
        stream.show();
    }
}
