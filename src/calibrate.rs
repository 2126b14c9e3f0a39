//! `coexec calibrate`: fits the values of a device profile to measured runs.

pub(crate) mod fit;
mod learning;
pub(crate) mod prior;
mod show;
mod stated;
mod suggest;

use std::mem;
use std::path::Path;

use coexec_fit::calibrate::Options;
use coexec_fit::calibrate::learning::LearningPoint;
use coexec_fit::csv_rows;
use coexec_fit::measure::ai_hub::Format;
use coexec_fit::validate::score::score;
use coexec_fit::validate::{cut, validate};
use coexec_sim::device::calibration::{Calibration, Group};
use coexec_sim::{KernelTable, ProcessorKind, Profile};

use crate::output::record;
use crate::validate::{warn_of_implausible, warn_of_other_device};
use crate::{
    Calibrate, Chosen, Common, DeviceRuns, Failure, OutputFile, Progress, Result, Runs, output, points, runs,
    why,
};
use fit::{Fitted, fit};
use stated::{ENOUGH_MODELS, note_of_never_held_out, still_stated, with_stated, without_contradicted};

/// Number of runs below which a fit of kernels is mostly its prior: a bundled phone's kernels have six values
/// each, and eight kernels are common.
const FEW_RUNS: usize = 50;

pub(crate) fn run(options: &Calibrate, common: &Common) -> Result {
    let profile = Profile::load(&options.base)?;
    match (options.suggest, &options.out) {
        (Some(count), _) => suggest::run(&profile, count as usize, options, common),
        (None, Some(out)) => calibrate(profile, out, options, common),
        (None, None) => Err(Failure::usage("no profile is named to write", "name one with --out")),
    }
}

/// Fits `profile` to the runs of `options`, and writes it to `out`.
fn calibrate(mut profile: Profile, out: &Path, options: &Calibrate, common: &Common) -> Result {
    let prior = Chosen::of(&options.prior)?;
    let path = runs::path(&options.runs)?;
    let others = [options.points.as_deref(), options.learning_curve.as_deref()];
    output::check_all_distinct(&others, &[Some(path), Some(Path::new(&options.base))])?;
    output::check_distinct(out, path)?;
    let measured = runs_to_fit(&profile, options, common)?;
    warn_of_other_device(&profile, &measured, common);
    check_refit(&profile, &measured, &prior, common)?;
    let source = format!("fit on {}, prior {}", measured.source(), prior.name);
    let progress = Progress::new(common);
    let curve = || learning::curve(&profile, &measured.runs.gpu, &prior, options, &progress);
    let curve = options.learning_curve.is_some().then(curve).transpose()?;
    let how = Options {
        correctable: if options.no_residual { &[] } else { KernelTable::ALL },
        // A base that was fitted to these same runs has seen them all.
        from_scratch: measured.set(&profile),
        library: runs::library(&profile, &options.runs),
        seed: options.seed,
        ..Options::of(&source)
    };
    let (fitted, stated) =
        fitted_and_stated(&mut profile, &measured, (&prior, how), (progress, path, common))?;
    let errors = score(&fitted.held_out);
    forget_used_facts(&mut profile, &fitted);
    rename(&mut profile, out, &measured);
    profile.calibration = Some(Calibration {
        source,
        // The digest covers all runs, also those not drawn: they are not independent of the choice.
        runs_digest: Some(measured.digest.clone()),
        date: options.date.clone(),
        error: with_stated(errors.iter().map(|scored| scored.group.clone()).collect(), stated),
        ..fitted.spreads.clone()
    });
    write(&profile, &fitted, curve.as_deref(), (out, options))?;
    if common.json {
        return output::json(&record!(Document {
            device: &profile.name,
            out,
            /// Cross-validated, worst first.
            groups: errors,
            tables: fitted.tables,
            cpu_tables: fitted.cpu_tables,
            /// Parameters of the host's part of a whole inference on the GPU.
            host: fitted.host,
            /// Rates of the NPU's compiled graphs, or their speedup over the base's.
            npu: fitted.npu,
            /// Rows of the files that are not usable runs.
            unusable: measured.runs.left_out,
            /// Runs that the base cannot describe.
            undescribed: fitted.left_out,
        }));
    }
    show::parameters(&fitted);
    show::errors(&profile.title, &errors);
    output::line(&format!("wrote {}", out.display()));
    Ok(())
}

/// Fits `profile` to the runs, read from the path; the fit, and the errors that the base states and the runs do not
/// refute.
fn fitted_and_stated(
    profile: &mut Profile,
    measured: &DeviceRuns,
    (prior, how): (&Chosen, Options<'_>),
    (progress, path, common): (Progress, &Path, &Common),
) -> Result<(Fitted, Vec<Group>)> {
    let base = profile.clone();
    let by_base = validate(&base, &measured.runs, None, how.library).points;
    let implausible = warn_of_implausible(&by_base, common);
    let mut fitted = fit(profile, measured, (prior, how), &progress)?;
    drop(progress);
    let cuts = cut::points(profile, &measured.measurements, how.library);
    if *profile == base && cuts.is_empty() {
        let help = fitted.left_out.first().map_or_else(
            || "compare the runs with predictions: `coexec validate`".to_owned(),
            |row| format!("line {}: {}", row.line, row.reason),
        );
        let path = path.display();
        return Err(Failure::usage(
            format!("{path} holds no usable run that a value can be fitted to"),
            help,
        ));
    }
    fitted.held_out.extend(cuts);
    runs::list_skipped("not fitted", &fitted.left_out, common);
    note_of_never_held_out(&fitted, common);
    let stated = still_stated((&base, how.library), (&by_base, &implausible), &fitted);
    let stated = without_contradicted(stated, &fitted, common);
    Ok((fitted, stated))
}

/// Warns if the base was fitted to these runs and is the prior of their fit again; refuses a draw of them.
fn check_refit(profile: &Profile, measured: &DeviceRuns, prior: &Chosen, common: &Common) -> Result {
    if measured.set(profile) && prior.is_base() {
        if measured.drawn.is_some() {
            return Err(Failure::usage(
                format!(
                    "the profile {} was already fitted to all these runs: a draw of them would replace its values by worse \
                     ones",
                    profile.name
                ),
                "fit without --rows and --networks; or, to learn what few runs are worth, give a --base that has not seen \
                 them (`coexec profile new --without`) or another --prior",
            ));
        }
        common.note(format_args!(
            "warning: the profile {} was already fitted to these runs, which now count a second time: each further fit moves \
             its values and errors. To add runs, calibrate the profile that it was made from with all of them",
            profile.name
        ));
    }
    Ok(())
}

/// Leaves out the runs of coexec's own CPU kernels, unless `--library` says what they are fitted to: they say nothing
/// about a framework's kernels, which the profile has.
fn leave_own_kernels_out(
    profile: &Profile,
    measured: &mut DeviceRuns,
    options: &Runs,
    common: &Common,
) -> Result<()> {
    let is_asked = options.library.is_some() || profile.cpu.has_only_coexec();
    if is_asked || measured.fingerprints.is_empty() || measured.runs.cpu.is_empty() {
        return Ok(());
    }
    let count = why::counted(measured.runs.cpu.len() as u64, "run");
    let why = format!("{count} on the CPU: `run` has kernels of its own, the profile those of frameworks");
    let remedy =
        "--library coexec fits tables of their own to them, with which `explore --library coexec` plans";
    measured.runs.cpu.clear();
    if measured.runs.count() == 0 {
        return Err(Failure::usage(format!("nothing is left to fit to without {why}"), remedy));
    }
    common.note(format_args!("not used: {why} ({remedy})"));
    Ok(())
}

/// The runs to fit to, reduced to the requested number; warns if there are too few for a fit.
fn runs_to_fit(profile: &Profile, options: &Calibrate, common: &Common) -> Result<DeviceRuns> {
    let mut measured = runs::measured(profile, runs::path(&options.runs)?, &options.runs, common)?;
    if !measured.runs.answers.is_empty() {
        return Err(Failure::usage(
            "a profile cannot be fitted to times of language models",
            "compare them with its predictions: `coexec validate`",
        ));
    }
    leave_own_kernels_out(profile, &mut measured, &options.runs, common)?;
    // No parameter is fitted to networks under plans; `validate` compares them.
    measured.runs.planned.clear();
    let count = measured.runs.count();
    if count == 0 {
        return Err(Failure::usage(
            "a profile cannot be fitted to times of plans alone",
            "give runs on single processors, or compare the plans: `coexec validate`",
        ));
    }
    warn_of_few_models(profile, &measured, common);
    let others = count - measured.runs.inferences.len();
    if (1..FEW_RUNS).contains(&others) {
        common.note(format_args!(
            "warning: {} (fewer than {FEW_RUNS}) determine little: most values stay at their prior, and the errors \
             below are unreliable",
            why::counted(others as u64, "run")
        ));
    }
    let drawn = match (options.rows, options.networks) {
        (Some(rows), _) => Some(("--rows", rows, measured.draw_rows(rows as usize, options.seed))),
        (None, Some(networks)) => {
            Some(("--networks", networks, measured.draw_networks(networks as usize, options.seed)))
        }
        (None, None) => None,
    };
    if let Some(("--rows", _, 0)) = drawn {
        return Err(Failure::usage(
            "--rows draws layer runs on the GPU, and there are none",
            "draw networks: --networks",
        ));
    }
    if let Some((option, asked, kept)) = drawn.filter(|&(_, asked, kept)| kept < asked as usize) {
        common.note(format_args!("note: {option} is {asked}, and the runs have only {kept}"));
    }
    Ok(measured)
}

/// Names the profile after its file. Runs of the base's device are still recognised by the base's names, which no
/// other device has.
fn rename(profile: &mut Profile, file: &Path, measured: &DeviceRuns) {
    let is_other = measured.other_devices(profile).is_some();
    let of_base = mem::replace(&mut profile.name, output::stem(file).into_owned());
    profile.aliases.push(of_base);
    profile.aliases.retain(|alias| !is_other && *alias != profile.name);
}

/// Warns of the number formats in which few models ran on the NPU, or none.
fn warn_of_few_models(profile: &Profile, measured: &DeviceRuns, common: &Common) {
    let runs = measured.runs.inferences.iter();
    let on_npu = runs.filter(|run| run.what.is_reference && run.what.unit == ProcessorKind::Npu);
    let formats: Vec<Format> = on_npu.map(|run| run.what.format).collect();
    let counts = [Format::Float, Format::W8a8, Format::W8a16]
        .map(|format| (format, formats.iter().filter(|&&of_run| of_run == format).count()));
    let few = counts.iter().filter(|(_, count)| *count < ENOUGH_MODELS && !formats.is_empty());
    let few: Vec<String> = few.map(|(format, count)| format!("{count} in {format}")).collect();
    if !few.is_empty() {
        common.note(format_args!(
            "warning: few models on the NPU ({}; fewer than {ENOUGH_MODELS}) say little about others: the written profile \
             states the errors of {} where they are larger",
            few.join(", "),
            profile.name
        ));
    }
}

/// Removes from `used_fact` the keys that have been fitted: published numbers no longer set them.
fn forget_used_facts(profile: &mut Profile, fitted: &Fitted) {
    let mut tables: Vec<String> =
        fitted.tables.iter().map(|fit| format!("gpu.{}", fit.table.key())).collect();
    tables.extend(fitted.cpu_tables.iter().map(show::cpu_key));
    tables.extend(fitted.host.first().map(|_| "gpu.host".to_owned()));
    for fact in &mut profile.used_fact {
        fact.sets.retain(|key| !tables.iter().any(|table| key.starts_with(table.as_str())));
    }
    profile.used_fact.retain(|fact| !fact.sets.is_empty());
}

/// Writes the profile, and the points and the learning curve if requested.
fn write(
    profile: &Profile,
    fitted: &Fitted,
    curve: Option<&[LearningPoint]>,
    (out, options): (&Path, &Calibrate),
) -> Result {
    let mut files = vec![OutputFile::profile(out, profile)?];
    if let Some(path) = &options.points {
        files.push(points::file(path, &fitted.held_out)?);
    }
    if let (Some(path), Some(curve)) = (&options.learning_curve, curve) {
        files.push(OutputFile::encoded(path, csv_rows::write(curve))?);
    }
    output::write(&files)
}
