//! `coexec run`: what a scenario takes on this machine, beside what is predicted.

mod choice;
mod results;
mod stream;
mod variants;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use coexec_hw::execute::{Choice, ExecuteError, Measured, NoiseFloor, Report, Request, Told, execute};
use coexec_sim::input::{InputError, Text};
use coexec_sim::kernel::cpu::CoreSet;
use coexec_sim::measure::runs::{Fingerprint, Measurement, fingerprints_path, fingerprints_to_toml, to_csv};
use coexec_sim::plan::{Plan, PlanFile};
use coexec_sim::scenario::{Scenario, Workload};
use coexec_sim::simulate::Pipeline;
use serde::Serialize;

use crate::cli::{Common, Run};
use crate::failure::Failure;
use crate::output::OutputFile;
use crate::progress::Progress;
use crate::{output, workers};
use choice::Choices;
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
    left_out: &'a [LeftOut],
    /// What the plan chose for single operators, among all that was measured of them.
    choices: Option<&'a Choices>,
    /// Mean absolute error of the predictions, in percent.
    mape_percent: Option<f64>,
    /// Batches of the plan that followed each other, where the scenario has a pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a Stream>,
}

/// A variant that does not run here.
#[derive(Serialize)]
struct LeftOut {
    what: String,
    processor: String,
    reason: String,
}

pub(crate) fn run(options: &Run, common: &Common) -> Result<(), Failure> {
    // A wrong file name should not cost a measurement first.
    let paths = [options.out.clone(), fingerprints_path(&options.out)];
    paths.iter().try_for_each(|path| output::check(path))?;
    options.place.refuse_beside(options.plan.as_deref())?;
    let scenario = Scenario::load(&options.place.scenario, &options.place.overrides())?;
    let written = options.plan.as_deref().map(|path| written_plan(path, &scenario, common)).transpose()?;
    let (plan, depth) = written.unzip();
    let pipeline = crate::simulate::pipeline(&scenario, depth.flatten());
    let plan_path = options.out.with_extension("plan.toml");
    let processors = Processors::of(&scenario, plan.as_ref());
    if processors.gpu {
        workers::keep_on_their_cores(options.gpu_cores)?;
    }
    let maker = Maker {
        scenario: &scenario,
        cores: core_sets(options, &scenario)?,
        processors,
        splits: options.splits,
        plan_name: file_name(&plan_path),
    };
    let groups = maker.groups(plan.as_ref())?;
    let (mut report, warnings) =
        measure(options, common, &scenario, &groups, (processors.gpu, pipeline.as_ref()))?;
    let network = network_name(&scenario);
    let context = results::Common {
        network: &network,
        fingerprint: &report.fingerprint.id,
        noise: report.noise,
        max_spread: options.max_spread,
        seed: options.seed,
    };
    let is_model = matches!(scenario.workload, Workload::Model(_));
    let times = std::mem::take(&mut report.groups);
    let Outcome { rows, measurements, left_out, choices } = outcome(&groups, times, is_model, &context)?;
    if !common.quiet {
        for LeftOut { what, processor, reason } in &left_out {
            eprintln!("not run: {what} on {processor}: {reason}");
        }
    }
    let plan_file = plan_text(&scenario, &groups, pipeline.as_ref());
    write(
        options,
        &report.fingerprint,
        &measurements,
        plan_file.as_deref().map(|text| (plan_path.as_path(), text)),
    )?;
    let first = groups.first().and_then(|group| group.first());
    let stream = report.streamed.as_ref().zip(pipeline.as_ref()).zip(first);
    let stream = stream
        .map(|((streamed, pipeline), first)| Stream::new(streamed, pipeline, &scenario, &first.variant));
    let errors: Vec<f64> = rows.iter().filter_map(|row| row.error_percent.map(f64::abs)).collect();
    let document = Document {
        scenario: &scenario.name,
        device: &scenario.device.name,
        runs: &options.out,
        fingerprint: &report.fingerprint,
        noise_floor: report.noise,
        warnings: &warnings,
        variants: &rows,
        left_out: &left_out,
        choices: choices.as_ref(),
        mape_percent: (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64),
        stream: stream.as_ref(),
    };
    if common.json {
        output::json(&document);
    } else {
        show(&scenario, &document);
    }
    results::verdict(&rows).map_or(Ok(()), |problem| Err(Failure::Meaningless { problem }))
}

/// The plan in the file, with its pipeline's depth.
fn written_plan(path: &Path, scenario: &Scenario, common: &Common) -> Result<(Plan, Option<u32>), Failure> {
    let text = Text::read(path)?;
    let written: PlanFile = text.parse()?;
    let plan = written.resolve(&text, crate::simulate::model(scenario)?, &scenario.device)?;
    let origin = crate::simulate::origin(path, &written, scenario);
    if !common.quiet && origin.contains(", which was made for ") {
        eprintln!("note: {origin}");
    }
    Ok((plan, written.pipeline_depth))
}

/// Core sets that compute operators alone.
fn core_sets(options: &Run, scenario: &Scenario) -> Result<Vec<CoreSet>, Failure> {
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
) -> Result<(Report, Vec<String>), Failure> {
    let request = Request {
        profile: scenario.device.clone(),
        choice: Choice { gpu, opencl: options.opencl.clone(), compute_units: options.gpu_cores },
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
        Told::Progress(step) => progress.tell(&step),
        Told::Warning(warning) if !warnings.contains(&warning) => {
            progress.tell(&format!("warning: {warning}"));
            warnings.push(warning);
        }
        Told::Warning(_) => {}
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
    left_out: Vec<LeftOut>,
    choices: Option<Choices>,
}

/// Times of each variant of each group; none of a group that was left out.
type Times = Vec<Option<Vec<Result<Measured, ExecuteError>>>>;

fn outcome(
    groups: &[Vec<Candidate>],
    times: Times,
    is_model: bool,
    context: &results::Common<'_>,
) -> Result<Outcome, Failure> {
    let mut outcome =
        Outcome { rows: Vec::new(), measurements: Vec::new(), left_out: Vec::new(), choices: None };
    let mut choices = Vec::new();
    for (candidates, measured) in groups.iter().zip(times) {
        let first = outcome.rows.len();
        for (candidate, measured) in candidates.iter().zip(measured.into_iter().flatten()) {
            match measured {
                Ok(measured) => {
                    let number = outcome.rows.len();
                    let result = results::Result::new(number, candidate, &measured, context);
                    outcome.rows.push(result.row);
                    outcome.measurements.push(result.measurement);
                }
                Err(error) if candidate.is_plan && is_model => return Err(error.into()),
                Err(error) => outcome.left_out.push(LeftOut {
                    what: candidate.operator.as_ref().map_or(context.network, |(name, _)| name).to_owned(),
                    processor: candidate.ran.to_string(),
                    reason: error.to_string(),
                }),
            }
        }
        let is_operator = candidates.first().is_some_and(|candidate| candidate.operator.is_some());
        choices.extend(choice::Choice::of(&outcome.rows[first..]).filter(|_| is_operator));
    }
    outcome.choices = Choices::of(choices);
    Ok(outcome)
}

fn write(
    options: &Run,
    fingerprint: &Fingerprint,
    measurements: &[Measurement],
    plan: Option<(&Path, &str)>,
) -> Result<(), Failure> {
    let unwritable = |path: &Path, reason: String| Failure::Write { path: path.to_owned(), reason };
    let runs = to_csv(measurements).map_err(|error| unwritable(&options.out, error.to_string()))?;
    let beside: PathBuf = fingerprints_path(&options.out);
    let conditions = fingerprints_to_toml(std::slice::from_ref(fingerprint))
        .map_err(|error| unwritable(&beside, error.to_string()))?;
    let mut files = vec![
        OutputFile { path: &options.out, content: runs.into_bytes() },
        OutputFile { path: &beside, content: conditions.into_bytes() },
    ];
    if let Some((path, text)) = plan {
        files.push(OutputFile { path, content: text.as_bytes().to_vec() });
    }
    output::write(&files)
}

/// The plan as it ran, of a model of several operators.
fn plan_text(scenario: &Scenario, groups: &[Vec<Candidate>], pipeline: Option<&Pipeline>) -> Option<String> {
    let Workload::Model(stages) = &scenario.workload else { return None };
    let plan = &groups.first()?.first().filter(|_| stages.len() > 1)?.variant.plan;
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
    let cells = |row: &Row| {
        let [low, high] = row.ci95_us;
        vec![
            row.what.clone(),
            row.processor_and_clock(),
            row.synchronisation.clone().unwrap_or_else(|| "-".to_owned()),
            format!("{:.1} us", row.median_us),
            format!("{low:.1} to {high:.1}"),
            format!("{}", row.outliers),
            row.predicted_us.map_or("-".to_owned(), |predicted| format!("{predicted:.1} us")),
            row.error_percent.map_or("-".to_owned(), |error| format!("{error:.1} %")),
        ]
    };
    let header = [
        "what",
        "processor",
        "synchronisation",
        "measured",
        "95 % interval",
        "outliers",
        "predicted",
        "error",
    ];
    output::table(&header, &document.variants.iter().map(cells).collect::<Vec<_>>());
    if let Some(mape) = document.mape_percent {
        output::line(&format!("\nMAPE of {} predictions: {mape:.1} %", document.variants.len()));
    }
    show_choices(document.choices);
    if let Some(stream) = document.stream {
        stream.show();
    }
}

/// Prints what the choice of cuts was worth.
fn show_choices(choices: Option<&Choices>) {
    let Some(choices) = choices else { return };
    let (head, rows) = choices.table();
    output::line("");
    output::table(&head, &rows);
    output::line(&format!("\n{}", choices.words()));
}
