//! `coexec calibrate`: fits the values of a device profile to measured runs.

pub(crate) mod fit;
mod learning;
pub(crate) mod prior;
mod show;
mod suggest;

use std::collections::BTreeMap;
use std::path::Path;

use coexec_fit::calibrate::learning::LearningPoint;
use coexec_fit::calibrate::{Options, SAME_DEVICE_ERROR};
use coexec_fit::csv_rows;
use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::score;
use coexec_fit::validate::{cut, figures, validate};
use coexec_sim::device::calibration::{Calibration, ErrorGroup, Group};
use coexec_sim::device::gpu::HostPath;
use coexec_sim::simulate::known_in;
use coexec_sim::{Basis, DataType, KernelTable, Library, ProcessorKind, Profile};

use crate::output::record;
use crate::profile::kind;
use crate::validate::{warn_of_implausible, warn_of_other_device};
use crate::{
    Calibrate, Chosen, Common, DeviceRuns, Failure, OutputFile, Progress, Result, output, points, runs, why,
};
use fit::{Fitted, fit};

/// Number of runs below which a fit of kernels is mostly its prior: a bundled phone's kernels have six values
/// each, and eight kernels are common.
const FEW_RUNS: usize = 50;

/// Number of models on an NPU in one number format from which their own held-out error is stated even if the base's is
/// larger. With fewer, 90 % intervals by their own error hold 74 to 84 % of other models, by the larger of both 89 to
/// 94 % (Snapdragons of `data/aihub`, each calibrated on 3 to 20 models from another).
const ENOUGH_MODELS: usize = 10;

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
    warn_of_refit(&profile, &measured, &prior, common);
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
        let left_out = [&*fitted.left_out, &measured.runs.left_out].concat();
        return Err(runs::none_usable(path, "run that a value can be fitted to", &left_out));
    }
    fitted.held_out.extend(cuts);
    runs::list_skipped("not fitted", &fitted.left_out, common);
    let stated = still_stated((&base, how.library), (&by_base, &implausible), &fitted);
    let stated = without_contradicted(stated, &fitted, common);
    Ok((fitted, stated))
}

/// Warns if the base was fitted to these runs and is the prior of their fit again.
fn warn_of_refit(profile: &Profile, measured: &DeviceRuns, prior: &Chosen, common: &Common) {
    if measured.set(profile) && prior.is_base() {
        common.note(format_args!(
            "warning: the profile {} was already fitted to these runs, which now count a second time: each further fit moves \
             its values and errors. To add runs, calibrate the profile that it was made from with all of them",
            profile.name
        ));
    }
}

/// The errors that `base` states, other than those that the runs refute: all of a processor that is `implausible`; of
/// other networks, errors smaller than those of the runs on the same processor when held out, on an NPU of those in the
/// same number format if there are any. Where too few networks ran to hold one out, errors up to [`SAME_DEVICE_ERROR`] are refuted, unless the base was measured with this library
/// and its predictions of the runs, `by_base`, are within that. Networks do not refute errors of a GPU's kernels.
fn still_stated(
    (base, library): (&Profile, Library),
    (by_base, implausible): (&[Point], &[ProcessorKind]),
    fitted: &Fitted,
) -> Vec<Group> {
    let basis = known_in(base, library, DataType::F32);
    let least_percent = ProcessorKind::ALL.map(|processor| {
        let mape_percent = |points: &[Point]| {
            let of_it = points.iter().filter(|point| point.group.processor() == Some(processor));
            let pairs: Vec<_> = of_it.map(|point| (point.predicted_us, point.measured_us)).collect();
            (!pairs.is_empty()).then(|| figures("", &pairs).mape_percent)
        };
        let same_device_percent = 100.0 * SAME_DEVICE_ERROR;
        mape_percent(&fitted.held_out).unwrap_or_else(|| match mape_percent(by_base) {
            Some(percent)
                if percent > same_device_percent || basis[processor as usize] != Basis::Measured =>
            {
                same_device_percent
            }
            Some(_) | None => 0.0,
        })
    });
    let found = score(&fitted.held_out);
    let mut stated = base.calibration.as_ref().map_or(Vec::new(), |calibration| calibration.error.clone());
    stated.retain(|group| match group.name {
        ErrorGroup::On { processor, .. } => {
            let is_of_kernels = processor == ProcessorKind::Gpu && !group.name.is_of_networks();
            let alike = found.iter().find(|found| is_on_npu(group) && found.group.name == group.name);
            let least = alike.map_or(least_percent[processor as usize], |found| found.group.mape_percent);
            let is_refuted = !is_of_kernels && group.mape_percent < least;
            !implausible.contains(&processor) && !is_refuted
        }
        ErrorGroup::LanguageModel { processor, .. } => !implausible.contains(&processor),
        ErrorGroup::Cuts | ErrorGroup::Plans | ErrorGroup::Other(_) => true,
    });
    stated
}

/// The errors `stated` by the base, without those of GPU kernels that the runs contradict; warns if it
/// is whole inferences that contradict them.
fn without_contradicted(mut stated: Vec<Group>, fitted: &Fitted, common: &Common) -> Vec<Group> {
    if fitted.contradicts_kernels {
        let [least, most] = HostPath::KERNEL_FACTORS;
        common.note(format_args!(
            "warning: inferences on the GPU differ from the sum of the profile's kernel times by more than clocks and \
             caches explain (gpu.host.kernel_factor is {least} to {most}): kernels without runs are scaled to match. Are \
             the runs of this device, in the same precision?"
        ));
    }
    if fitted.contradicts_kernels || fitted.tables.iter().any(|fit| fit.is_of_base == Some(false)) {
        let is_other =
            |name: &ErrorGroup| name.is_of_networks() || name.processor() != Some(ProcessorKind::Gpu);
        stated.retain(|group| is_other(&group.name));
    }
    stated
}

fn is_on_npu(group: &Group) -> bool {
    group.name.processor() == Some(ProcessorKind::Npu)
}

/// The errors found, and those the base states for groups without any found; worst first. GPU kernels
/// count as one group, CPU kernels are grouped by number format and kind of core set; whole networks,
/// language models, cuts and plans are groups of their own, on an NPU in each number format. What the base states
/// there replaces what was found with few models.
fn with_stated(mut errors: Vec<Group>, stated: Vec<Group>) -> Vec<Group> {
    errors.retain(|found| {
        let is_few = is_on_npu(found) && found.n < ENOUGH_MODELS;
        !is_few || stated.iter().all(|group| group.name != found.name)
    });
    let on_cpu = |name: &ErrorGroup| (name.processor() == Some(ProcessorKind::Cpu)).then(|| kind(name));
    let is_alike = |found: &Group, group: &Group| {
        let (found_name, name) = (&found.name, &group.name);
        if is_on_npu(found) {
            found_name == name
        } else {
            found_name.shares_runs_with(name) && on_cpu(found_name) == on_cpu(name)
        }
    };
    let is_found = |group: &Group| errors.iter().any(|found| is_alike(found, group));
    let kept: Vec<Group> = stated.into_iter().filter(|group| !is_found(group)).collect();
    errors.extend(kept);
    errors.sort_by(|a, b| b.mape_percent.total_cmp(&a.mape_percent));
    errors
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
    // No parameter is fitted to networks under plans; `validate` compares them.
    measured.runs.planned.clear();
    let count = measured.runs.count();
    if count == 0 {
        return Err(Failure::usage(
            "a profile cannot be fitted to times of plans alone",
            "give runs on single processors, or compare the plans: `coexec validate`",
        ));
    }
    let mut models: BTreeMap<String, usize> = BTreeMap::new();
    for run in measured.runs.inferences.iter().filter(|run| run.what.is_reference) {
        if run.what.unit == ProcessorKind::Npu {
            *models.entry(run.what.format.to_string()).or_default() += 1;
        }
    }
    models.retain(|_, count| *count < ENOUGH_MODELS);
    if !models.is_empty() {
        let models = models.iter().map(|(format, count)| format!("{count} in {format}"));
        common.note(format_args!(
            "warning: few models on the NPU ({}; fewer than {ENOUGH_MODELS}) say little about others: the written profile \
             states the errors of {} where they are larger",
            models.collect::<Vec<_>>().join(", "),
            profile.name
        ));
    }
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
    if let Some((option, asked, kept)) = drawn.filter(|&(_, asked, kept)| kept > 0 && kept < asked as usize) {
        common.note(format_args!("note: {option} is {asked}, and the runs have only {kept}"));
    }
    Ok(measured)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_the_base_states_stays_unless_the_runs_are_further_off() {
        let base = Profile::load("pixel4").unwrap();
        let off = |group: &str, factor: f64| Point {
            group: group.into(),
            measured_us: 1.0,
            predicted_us: factor,
            ..Point::default()
        };
        let stated_on = |processor: &str, by_base: Point, held_out: Vec<Point>, library| {
            let fitted = Fitted { held_out, ..Fitted::default() };
            let stated = still_stated((&base, library), (&[by_base], &[]), &fitted);
            stated.iter().filter(|group| group.name.to_string().starts_with(processor)).count()
        };
        let on_gpu = |by_base: f64, held_out: &[f64]| {
            let held_out = held_out.iter().map(|&factor| off("gpu/conv2d/all", factor)).collect();
            stated_on("gpu/end_to_end", off("gpu/end_to_end/all", by_base), held_out, Library::Ruy)
        };
        assert_eq!(on_gpu(1.1, &[]), 2, "a base that predicts the runs keeps its errors");
        assert_eq!(on_gpu(1.2, &[]), 0, "none is above 15 %");
        assert_eq!([1.01, 1.07].map(|off| on_gpu(1.1, &[off])), [2, 0], "they are 2.6 %");
        let on_cpu = |library| stated_on("cpu", off("cpu/1large/float", 1.1), Vec::new(), library);
        assert!(on_cpu(Library::Ruy) > 10);
        assert_eq!(on_cpu(Library::Xnnpack), 0, "the errors are not of this library");
    }

    #[test]
    fn few_models_on_an_npu_do_not_make_its_errors_smaller() {
        let group = |name: &str, runs: usize, percent: f64| Group {
            n: runs,
            mape_percent: percent,
            ..coexec_fit::validate::figures(name, &[(1.1, 1.0)])
        };
        let stated = |found: Group| -> Vec<(String, f64)> {
            let base = [("npu/end_to_end/float", 12.9), ("npu/end_to_end/w8a8", 13.5)];
            let base = base.map(|(name, percent)| group(name, 44, percent)).to_vec();
            let all = with_stated(vec![found], base).into_iter();
            all.map(|group| (group.name.to_string(), group.mape_percent)).collect()
        };
        let [float, integers] = ["npu/end_to_end/float", "npu/end_to_end/w8a8"].map(str::to_owned);
        let few = stated(group(&float, 3, 1.0));
        assert_eq!(few, [(integers.clone(), 13.5), (float.clone(), 12.9)]);
        let enough = stated(group(&float, ENOUGH_MODELS, 1.0));
        assert_eq!(enough, [(integers, 13.5), (float, 1.0)]);
    }

    #[test]
    fn a_fit_of_kernels_and_cuts_leaves_what_a_probe_stated_of_networks_and_plans() {
        let groups = |names: &[&str]| -> Vec<Group> {
            names.iter().map(|&name| coexec_fit::validate::figures(name, &[(1.1, 1.0)])).collect()
        };
        let stated = groups(&[
            "gpu/conv2d/unseen",
            "gpu/pool/unseen",
            "gpu/end_to_end/float",
            "cpu/end_to_end/float",
            "cpu/1large/float",
            "cut/all",
            "plan/all",
            "mine",
        ]);
        let found = groups(&["gpu/conv2d/all", "gpu/conv2d/unseen", "cut/all"]);
        let names: BTreeSet<String> =
            with_stated(found, stated).into_iter().map(|group| group.name.to_string()).collect();
        let expected = [
            "cpu/1large/float",
            "cpu/end_to_end/float",
            "cut/all",
            "gpu/conv2d/all",
            "gpu/conv2d/unseen",
            "gpu/end_to_end/float",
            "mine",
            "plan/all",
        ];
        assert_eq!(names, expected.map(str::to_owned).into());
    }
}
