//! `coexec run`: measures a scenario on this machine, and compares its times with the predictions.

mod results;
mod stream;
mod variants;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use coexec_fit::measure::runs::{ExecutedOn, Measurement, fingerprints_path};
use coexec_fit::validate::choice::{Choices, choices};
use coexec_hw::execute::{ExecuteError, NoiseFloor, ProgressEvent, Report, Request, check_kernels, execute};
use coexec_sim::kernel::cpu::{CoreSet, CoreSetError};
use coexec_sim::simulate::Pipeline;
use coexec_sim::{InputError, Plan, PlanFile, Scenario, Workload};
use serde::Serialize;

use crate::output::{percent, record, stem};
use crate::simulate::{model, read_plan};
use crate::validate::{HOST_TIMES_COVER, choice_summary};
use crate::{
    Column, Common, Failure, OutputFile, Progress, Result, Run, or_dash, output, this_machine, workers,
};
use results::Row;
use variants::{Candidate, Processors, VariantMaker};

/// Exit status after a second interrupt, which ends the process at once: 128 plus SIGINT, as in shells.
const INTERRUPTED: i32 = 130;

/// A variant that does not run on this machine.
#[derive(Serialize)]
struct SkippedVariant {
    what: String,
    processor: String,
    is_plan: bool,
    reason: String,
    #[serde(skip)]
    error: ExecuteError,
}

/// What makes measurements steadier.
const STABILITY_REMEDY: &str = "stop other programs on this machine, fix its clocks, or raise --repetitions";

pub(crate) fn run(options: &Run, common: &Common) -> Result {
    // Paths are checked before measuring, so that a wrong one does not cost a measurement.
    let plan_path = options.out.with_extension("plan.toml");
    check_outputs(options, &[&options.out, &fingerprints_path(&options.out), &plan_path])?;
    options.place.check_one_plan(options.plan.as_deref())?;
    let (scenario, predicts) = this_machine::scenario(options, common)?;
    check_model(&scenario)?;
    let (plan, pipeline) = written_plan(options, common, &scenario)?;
    let processors = Processors::of(&scenario, plan.as_ref());
    if processors.gpu {
        workers::pin_workers(options.device.gpu_cores)?;
    }
    let cores = core_sets(options, &scenario)?;
    let plan_name = plan_path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let maker =
        VariantMaker { scenario: &scenario, cores, processors, splits: options.splits, plan_name, predicts };
    let groups = maker.groups(plan.as_ref())?;
    let (mut report, warnings) =
        measure(options, common, &scenario, &groups, (processors.gpu, pipeline.as_ref()))?;
    let Outcome { rows, measurements, left_out } = outcome(options, &scenario, &groups, &mut report)?;
    let is_measured = rows.iter().any(|row| row.is_plan);
    let whole = groups.first().and_then(|group| group.first()).filter(|_| is_measured);
    let plan_file = plan_text(&scenario, whole, pipeline.as_ref());
    let mut files = output::runs(&options.out, &measurements, &report.fingerprint)?;
    files.extend(plan_file.map(|text| OutputFile::new(&plan_path, text)));
    output::write(&files)?;
    let streamed = report.streamed.as_ref().zip(pipeline.as_ref()).zip(whole);
    let stream = streamed
        .map(|((streamed, pipeline), whole)| stream::compared(streamed, pipeline, &scenario, &whole.variant));
    let choices = predicts.then(|| choices(&scenario.device, &measurements, scenario.library)).flatten();
    if common.json {
        output::json(&record!(Document {
            scenario: &scenario.name,
            device: &scenario.device.name,
            runs: &options.out,
            fingerprint: report.fingerprint,
            noise_floor: report.noise,
            warnings,
            variants: &rows,
            /// What does not run on this machine.
            left_out: &left_out,
            /// Value of choosing by prediction among the measured ways to run an operator.
            choices,
            /// Mean absolute percentage error of the predictions.
            mape_percent: mape_percent(&rows),
            /// Streamed batches under the plan, if the scenario has a pipeline.
            #[serde(skip_serializing_if = "output::is_null")]
            stream: stream.map(|(record, _)| record),
        }))?;
    } else {
        show(&scenario, &report, (&rows, &left_out), choices.as_ref());
        if predicts && measurements.iter().any(Measurement::is_host_timed) {
            output::line(&format!("\n{HOST_TIMES_COVER}"));
        }
        if let Some((_, sentence)) = stream {
            output::line(&sentence);
        }
    }
    verdict(left_out, &rows)
}

/// Fails if the plan needs more cores than there are, or the times are not sound.
fn verdict(left_out: Vec<SkippedVariant>, rows: &[Row]) -> Result {
    let is_missed = |skipped: &SkippedVariant| skipped.is_plan && is_too_large(&skipped.error);
    if let Some(SkippedVariant { error, .. }) = left_out.into_iter().find(is_missed) {
        return Err(error.into());
    }
    results::verdict(rows).map_or(Ok(()), |problem| Err(Failure::unsound(problem, STABILITY_REMEDY)))
}

/// Refuses a model that has an operator without kernels. Of a set, the other operators are measured.
fn check_model(scenario: &Scenario) -> Result {
    match &scenario.workload {
        Workload::Model(stages) => Ok(check_kernels(stages)?),
        Workload::Set(_) | Workload::Language(_) | Workload::Applications(_) => Ok(()),
    }
}

/// Refuses outputs that cannot be written, or that this command reads.
fn check_outputs(options: &Run, outputs: &[&Path]) -> Result {
    outputs.iter().try_for_each(|path| {
        options.place.check_distinct(Some(path), options.plan.as_deref())?;
        output::check(path)
    })
}

/// The plan in the file of the options, if any, and the pipeline; notes if the plan was made for another
/// scenario or device.
fn written_plan(
    options: &Run,
    common: &Common,
    scenario: &Scenario,
) -> Result<(Option<Plan>, Option<Pipeline>)> {
    let Some(path) = options.plan.as_deref() else { return Ok((None, scenario.pipeline.clone())) };
    let written = read_plan(path, scenario, model(scenario)?)?;
    if written.is_of_another {
        common.note(format_args!("note: {}", written.origin));
    }
    Ok((Some(written.plan), written.pipeline))
}

/// Mean absolute percentage error of the rows with a prediction; none if there are none.
fn mape_percent(rows: &[Row]) -> Option<f64> {
    let errors: Vec<f64> = rows.iter().filter_map(|row| row.error_percent.map(f64::abs)).collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

/// Core sets on which operators are timed alone.
fn core_sets(options: &Run, scenario: &Scenario) -> Result<Vec<CoreSet>> {
    if options.cores.is_empty() {
        return Ok(scenario.options.core_sets.clone());
    }
    let refused = |CoreSetError { found, expected }| {
        Failure::Input(InputError::Option { option: "--cores", found, expected })
    };
    let parsed = options.cores.iter().map(|text| CoreSet::parse(text, &scenario.device.cpu));
    parsed.map(|cores| cores.map_err(refused)).collect()
}

/// Measures `groups`; warnings are printed and returned.
fn measure(
    options: &Run,
    common: &Common,
    scenario: &Scenario,
    groups: &[Vec<Candidate>],
    (gpu, pipeline): (bool, Option<&Pipeline>),
) -> Result<(Report, Vec<String>)> {
    // Before OpenCL is loaded: PoCL's compiler catches signals too, and passes each on to the handler that it
    // found. A handler that is registered after its own would call it, and it would end the process.
    let stop = stop_on_interrupt();
    let request = Request {
        profile: scenario.device.clone(),
        choice: options.device.choice(gpu).of_profile(&scenario.device),
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
    let progress = Progress::new(common);
    let mut warnings: Vec<String> = Vec::new();
    let report = execute(request, &stop, &mut |event| match event {
        ProgressEvent::Progress(step) => progress.report(&step),
        ProgressEvent::Warning(warning) if !warnings.contains(&warning) => {
            progress.report(&format!("warning: {warning}"));
            warnings.push(warning);
        }
        ProgressEvent::Warning(_) => {}
    })?;
    Ok((report, warnings))
}

/// A flag that SIGINT (Ctrl-C) or SIGTERM sets; a second signal ends the process at once.
fn stop_on_interrupt() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // If a signal cannot be caught, it ends the process. No file is left half-written, as files are
        // written under temporary names.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop));
        let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
    }
    stop
}

/// The measurements, as rows and for the file of runs.
struct Outcome {
    rows: Vec<Row>,
    measurements: Vec<Measurement>,
    left_out: Vec<SkippedVariant>,
}

/// Whether a variant needs more cores than this machine has.
fn is_too_large(error: &ExecuteError) -> bool {
    matches!(error, ExecuteError::TooFewCores { .. })
}

fn outcome(
    options: &Run,
    scenario: &Scenario,
    groups: &[Vec<Candidate>],
    report: &mut Report,
) -> Result<Outcome> {
    let times = std::mem::take(&mut report.groups);
    let context = results::Common {
        // A bundled name, or a file's name without its extension.
        network: &stem(Path::new(&scenario.name)),
        fingerprint: &report.fingerprint.id,
        noise: report.noise,
        max_spread: options.max_spread,
    };
    let is_model = matches!(scenario.workload, Workload::Model(_));
    let mut outcome = Outcome { rows: Vec::new(), measurements: Vec::new(), left_out: Vec::new() };
    for (candidates, measured) in groups.iter().zip(times) {
        for (candidate, measured) in candidates.iter().zip(measured.into_iter().flatten()) {
            match measured {
                Ok(measured) => {
                    let (row, measurement) = Row::of(outcome.rows.len(), candidate, &measured, &context);
                    outcome.rows.push(row);
                    outcome.measurements.push(measurement);
                }
                Err(error) if candidate.is_plan && is_model && !is_too_large(&error) => {
                    return Err(error.into());
                }
                Err(error) => {
                    outcome.left_out.push(SkippedVariant {
                        what: candidate.operator_or(context.network),
                        processor: candidate.ran.to_string(),
                        is_plan: candidate.is_plan,
                        reason: error.to_string(),
                        error,
                    });
                }
            }
        }
    }
    if outcome.rows.is_empty() && !outcome.left_out.is_empty() {
        return Err(outcome.left_out.swap_remove(0).error.into());
    }
    Ok(outcome)
}

/// The executed plan as TOML; none for a set, without a plan, or for a single operator whose row states
/// where it ran.
fn plan_text(scenario: &Scenario, whole: Option<&Candidate>, pipeline: Option<&Pipeline>) -> Option<String> {
    let Workload::Model(stages) = &scenario.workload else { return None };
    let whole = whole.filter(|whole| whole.is_plan)?;
    let is_named = matches!(whole.ran, ExecutedOn::Plan(_));
    let plan = (is_named || stages.len() > 1).then_some(&whole.variant.plan)?;
    let file = PlanFile::new(&scenario.name, &scenario.device, stages, plan)
        .streaming(pipeline.map(|pipeline| pipeline.depth));
    Some(toml::to_string(&file).expect("a plan has only tables, words and numbers"))
}

/// Prints the table of variants, what did not run, and the summary.
fn show(
    scenario: &Scenario,
    report: &Report,
    (rows, left_out): (&[Row], &[SkippedVariant]),
    choices: Option<&Choices>,
) {
    output::line(&format!("{}\non {}", scenario.title, report.fingerprint.device));
    let NoiseFloor { clock_ns, spread_percent } = report.noise;
    output::line(&format!(
        "noise floor: a fixed loop varies by +-{spread_percent:.1} %, the clock's step is {clock_ns:.0} ns\n"
    ));
    let columns: [Column<Row>; 8] = [
        ("what", |row| row.what.clone()),
        ("processor", Row::processor_and_clock),
        ("synchronisation", |row| or_dash(row.synchronisation.as_ref())),
        ("measured", |row| format!("{:.1} us", row.median_us)),
        ("95 % interval", |row| or_dash(row.ci95_us.map(|[low, high]| format!("{low:.1} to {high:.1}")))),
        ("outliers", |row| format!("{} of {}", row.outliers, row.repetitions)),
        ("predicted", |row| or_dash(row.predicted_us.map(|predicted| format!("{predicted:.1} us")))),
        ("error", |row| or_dash(row.error_percent.map(percent))),
    ];
    let (header, cells) = output::cells(&columns, rows);
    output::keyed_table(&header, 2, cells);
    for (index, SkippedVariant { what, processor, is_plan, reason, .. }) in left_out.iter().enumerate() {
        let before = if index == 0 { "\n" } else { "" };
        let plan = if *is_plan { ", the plan" } else { "" };
        output::line(&format!("{before}not run: {what} on {processor}{plan}: {reason}"));
    }
    if let Some(mape) = mape_percent(rows) {
        let predictions = rows.iter().filter(|row| row.error_percent.is_some()).count();
        output::line(&format!("\nMAPE of {predictions} predictions: {mape:.1} %"));
    }
    if let Some(choices) = choices {
        output::line(&format!("\n{}", choice_summary(choices)));
    }
}
