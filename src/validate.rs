//! `coexec validate`: compares a profile's predictions with measured runs.

use std::path::{Path, PathBuf};

use coexec_fit::calibrate::MAX_TIME_RATIO;
use coexec_fit::measure::SkippedRow;
use coexec_fit::validate::choice::{Choices, choices};
use coexec_fit::validate::plans::{PlannedNetwork, planned_networks};
use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::{Scored, is_in, score, worst};
use coexec_fit::validate::{Validation, cut, validate};
use coexec_sim::simulate::known_in;
use coexec_sim::statistics::median;
use coexec_sim::{Basis, DataType, ProcessorKind, Profile};

use crate::output::{listed, percent, record};
use crate::{Column, Common, DeviceRuns, Failure, Result, Validate, or_dash, output, points, runs};

pub(crate) fn run(options: &Validate, common: &Common) -> Result {
    let profile = Profile::load(&options.profile)?;
    let read = [Some(runs::path(&options.runs)?), Some(Path::new(&options.profile)), options.seen.as_deref()];
    let written = [options.points.as_deref(), options.plot.as_ref().map(|picture| &*picture.path)];
    output::check_all_distinct(&written, &read)?;
    let measured = runs::measured(&profile, runs::path(&options.runs)?, &options.runs, common)?;
    let library = runs::library(&profile, &options.runs);
    let read = |path: &PathBuf| runs::measured(&profile, path, &options.runs, common);
    let seen = options.seen.as_ref().map(read).transpose()?;
    let Validation { mut points, left_out } =
        validate(&profile, &measured.runs, seen.as_ref().map(|seen| &seen.runs), library);
    // Tables that are scaled from others were not fitted.
    let cpu_basis = known_in(&profile, library, DataType::F32)[ProcessorKind::Cpu as usize];
    let is_fitted =
        |point: &Point| point.group.processor() != Some(ProcessorKind::Cpu) || cpu_basis == Basis::Measured;
    warn_of_implausible(&points, common);
    points.extend(cut::points(&profile, &measured.measurements, library));
    let choices = &choices(&profile, &measured.measurements, library);
    let planned = &planned_networks(&measured.measurements);
    let groups = &requested_groups(score(&points), options, [&left_out, &measured.runs.left_out])?;
    points.retain(|point| is_in(point, &options.group));
    let set_the_profile = measured.set(&profile) && points.iter().any(is_fitted);
    warn_of_mismatch((&options.profile, &profile), &measured, set_the_profile, common);
    write(options, &profile, &measured.source(), &points)?;
    runs::list_skipped("not predicted", &left_out, common);
    if common.json {
        output::json(&record!(Document {
            device: &profile.name,
            groups,
            /// Whether the profile was fitted to these runs, so that the errors are not of unseen data.
            set_the_profile,
            /// Predictions with the largest errors, worst first.
            worst: worst(&points, options.worst),
            /// Rows of the files that are not usable runs.
            unusable: &measured.runs.left_out,
            /// Runs the profile cannot predict.
            unpredicted: left_out,
            /// Value of choosing by prediction among the measured ways to run an operator.
            choices,
            /// Networks that ran under a plan and on processors alone, worst first.
            planned,
        }))?;
    } else {
        output::line(&format!("{}, predicted against measured, worst groups first\n", profile.title));
        show(groups);
        if let Some(choices) = choices {
            output::line(&format!("\n{}", choice_summary(choices)));
        }
        if let Some(summary) = plan_summary(planned) {
            output::line(&format!("\n{summary}"));
        }
        if !measured.runs.host_timed.is_empty() {
            output::line(&format!("\n{HOST_TIMES_COVER}"));
        }
        points::show_worst(&points, options.worst);
    }
    check_limit(groups, options.limit)
}

/// Warns if the runs were fitted to, or seem to be of another device.
fn warn_of_mismatch(
    (name, profile): (&str, &Profile),
    measured: &DeviceRuns,
    set_the_profile: bool,
    common: &Common,
) {
    if set_the_profile {
        common.note(format_args!(
            "warning: the profile was fitted to these runs: the errors show how well it was fitted, not how well it \
             predicts; `coexec devices {name}` lists errors on held-out networks"
        ));
    }
    warn_of_other_device(profile, measured, common);
}

/// Warns if the runs seem to be of another device than the profile.
pub(crate) fn warn_of_other_device(profile: &Profile, measured: &DeviceRuns, common: &Common) {
    if let Some(other) = measured.other_devices(profile) {
        common.note(format_args!(
            "warning: the profile {} is of {}, the runs are of {other}: is it the same device?",
            profile.name, profile.title
        ));
    }
}

/// The processors whose measured times are implausibly far from the predicted ones; warns of each.
pub(crate) fn warn_of_implausible(points: &[Point], common: &Common) -> Vec<ProcessorKind> {
    let is_implausible = |processor: &ProcessorKind| {
        let of_it = points.iter().filter(|point| point.group.processor() == Some(*processor));
        let ratios: Vec<f64> = of_it.map(|point| point.measured_us / point.predicted_us).collect();
        let ratio = median(&ratios).unwrap_or(1.0);
        let is_far = ratio.max(ratio.recip()) > MAX_TIME_RATIO;
        if is_far {
            let part =
                if ratio > 1.0 { format!("{ratio:.0} times") } else { format!("1/{:.0} of", ratio.recip()) };
            common.note(format_args!(
                "warning: runs on the {} take {part} what the profile predicts, more than any two known devices differ: are \
                 they in microseconds, and of this device?",
                processor.label()
            ));
        }
        is_far
    };
    ProcessorKind::ALL.into_iter().filter(is_implausible).collect()
}

/// The requested groups, or a failure if there is none; the rows in `left_out` are in no group.
fn requested_groups(
    mut groups: Vec<Scored>,
    options: &Validate,
    left_out: [&[SkippedRow]; 2],
) -> Result<Vec<Scored>> {
    let path = runs::path(&options.runs)?;
    if groups.is_empty() {
        return Err(runs::none_usable(path, "run that the profile predicts", &left_out.concat()));
    }
    let prefix = options.group.as_str();
    let is_asked = |scored: &Scored| scored.group.name.to_string().starts_with(prefix);
    if !prefix.is_empty() && !groups.iter().any(is_asked) {
        let known = groups.iter().map(|scored| scored.group.name.to_string());
        return Err(points::missing_group(path, prefix, known));
    }
    groups.retain(is_asked);
    Ok(groups)
}

/// Writes the requested picture and points.
fn write(options: &Validate, profile: &Profile, source: &str, points: &[Point]) -> Result {
    let mut files = Vec::new();
    if let Some(picture) = &options.plot {
        let subtitle = format!("predicted against measured, {source}");
        let figure = coexec_plots::scatter(points)?.titled(&profile.title, &subtitle);
        files.push(picture.file(|format| figure.draw(format))?);
    }
    if let Some(path) = &options.points {
        files.push(points::file(path, points)?);
    }
    output::write(&files)
}

/// Prints the groups' errors next to those of the baselines.
fn show(groups: &[Scored]) {
    let mut columns = COLUMNS.to_vec();
    // Without whole networks these columns would be empty.
    if groups.iter().any(|scored| scored.roofline_mape_percent.is_some()) {
        columns.extend(NETWORK_COLUMNS);
    }
    let (header, rows) = output::cells(&columns, groups);
    output::keyed_table(&header, 1, rows);
}

/// The speedup and harm of plans of whole networks, in a sentence; none if none ran.
fn plan_summary(planned: &[PlannedNetwork]) -> Option<String> {
    let worst = planned.first()?;
    let speedup = planned.iter().map(|one| -one.relative.ln()).sum::<f64>() / planned.len() as f64;
    Some(format!(
        "{} networks that ran under a plan and on processors alone (each counted once per session): {} took more than \
         2 % longer under the plan; speedup over the faster processor alone {:.2} on average, {:.2} at worst ({})",
        planned.len(),
        planned.iter().filter(|one| one.is_harmed()).count(),
        speedup.exp(),
        worst.relative.recip(),
        worst.network
    ))
}

/// The value of choosing cuts by prediction, in words.
pub(crate) fn choice_summary(choices: &Choices) -> String {
    let Choices { operators, reached_percent, speedup, best_speedup, uncut_percent, poor, .. } = choices;
    let Choices { advised, harmed, advised_speedup, .. } = choices;
    format!(
        "{operators} operators (each counted once per session): the way predicted to be fastest reaches \
         {reached_percent:.1} % of the best measured speedup (less than 90 % for {poor} of them), never cutting reaches \
         {uncut_percent:.1} %; speedup over the faster processor alone {speedup:.2}, {best_speedup:.2} at best\n\
         cuts advised as sure: {advised}, of which {harmed} take more than 2 % longer than the faster processor alone; \
         speedup of following the advice {advised_speedup:.2}"
    )
}

/// What the times of operators cover that the host timed, for those who compare them with `explore`.
pub(crate) const HOST_TIMES_COVER: &str = "cut operators, and those from host to host, are measured and predicted from the host's call until it sees the \
     end: with the time to fill the GPU's queue and to read back, which explore and simulate count for whole \
     inferences only";

/// Fails if the MAPE of a group exceeds the limit.
fn check_limit(groups: &[Scored], limit: Option<f64>) -> Result {
    let Some(limit) = limit else { return Ok(()) };
    let above = groups.iter().map(|scored| &scored.group).filter(|group| group.mape_percent > limit);
    let above = listed(above.map(|group| format!("{} ({:.1} %)", group.name, group.mape_percent)));
    if above.is_empty() {
        return Ok(());
    }
    Err(Failure::limit_missed(
        format!("the MAPE is above {limit} % in {above}"),
        "calibrate the profile on runs of this device, or raise --limit",
    ))
}

/// The columns of error figures and their baselines: the MAPE without residual; the MAPE of a model
/// linear in FLOPs and of `CoDL`'s predictor, without and with a launch time, with the share of
/// predictions within 10 % in brackets; the measurement's own noise; and the coverage of the 90 %
/// intervals.
pub(crate) const COLUMNS: [Column<Scored>; 13] = [
    ("group", |scored| scored.group.name.to_string()),
    ("runs", |scored| scored.group.n.to_string()),
    ("MAPE", |scored| percent(scored.group.mape_percent)),
    ("median APE", |scored| percent(scored.group.median_ape_percent)),
    ("within 10 %", |scored| format!("{:.0} %", scored.group.within_10_percent)),
    ("95th", |scored| percent(scored.group.p95_ape_percent)),
    ("bias", |scored| format!("{:+.1} %", scored.group.bias_percent)),
    ("physics only", |scored| or_dash(scored.physics_mape_percent.map(percent))),
    ("FLOPs-linear", |scored| {
        baseline(scored.flops_linear_mape_percent, scored.flops_linear_within_10_percent)
    }),
    ("CoDL", |scored| baseline(scored.codl_mape_percent, scored.codl_within_10_percent)),
    ("CoDL + launch", |scored| {
        baseline(scored.codl_launch_mape_percent, scored.codl_launch_within_10_percent)
    }),
    ("repeat noise", |scored| or_dash(scored.repeat_noise_percent.map(percent))),
    ("in interval", |scored| or_dash(scored.interval_coverage_percent.map(percent))),
];

/// Additional columns of whole networks on accelerators: only these have a roofline.
const NETWORK_COLUMNS: [Column<Scored>; 2] = [
    ("rank", |scored| or_dash(scored.rank_correlation.map(|rank| format!("{rank:.3}")))),
    ("roofline", |scored| baseline(scored.roofline_mape_percent, scored.roofline_within_10_percent)),
];

/// A baseline's MAPE, with the share of predictions within 10 % in brackets.
pub(crate) fn baseline(mape: Option<f64>, within: Option<f64>) -> String {
    or_dash(mape.zip(within).map(|(mape, within)| format!("{mape:.1} % ({within:.0} %)")))
}
