//! `coexec validate`: predictions of a profile against measured runs.

use coexec_plots::{Comparison, Format};
use coexec_sim::device::profile::Profile;
use coexec_sim::measure::LeftOut;
use coexec_sim::validate::compare::{is_in, worst};
use coexec_sim::validate::gpu::{Scored, validate};
use coexec_sim::validate::point::Point;
use coexec_sim::validate::{Group, cpu, host};
use serde::Serialize;

use crate::cli::{Common, Validate};
use crate::failure::Failure;
use crate::output::OutputFile;
use crate::{output, points, runs};

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    groups: &'a [Scored],
    /// Predictions that are furthest off, worst first.
    worst: Vec<&'a Point>,
    /// Rows of the files that are no usable runs.
    unusable: &'a [LeftOut],
    /// Runs the profile cannot predict.
    unpredicted: &'a [LeftOut],
}

/// What the profile's predictions are worth.
#[derive(Default)]
struct Validated {
    groups: Vec<Scored>,
    points: Vec<Point>,
    left_out: Vec<LeftOut>,
    unusable: Vec<LeftOut>,
}

pub(crate) fn run(options: &Validate, common: &Common) -> Result<(), Failure> {
    // A wrong file name should not cost a validation first.
    let format = options.plot.as_deref().map(Format::of).transpose()?;
    let profile = Profile::load(&options.profile)?;
    let mut validated = predictions(&profile, options, common)?;
    keep(&mut validated, options)?;
    let Validated { groups, points, left_out, unusable } = &validated;
    write(options, &profile, points, format)?;
    if !common.quiet {
        runs::name_left_out("not predicted", left_out);
    }
    if common.json {
        let worst = worst(points, options.worst);
        output::json(&Document { device: &profile.name, groups, worst, unusable, unpredicted: left_out });
    } else {
        output::line(&format!("{}, predicted against measured, worst groups first\n", profile.title));
        show(groups);
        points::show_worst(points, options.worst);
    }
    hold(groups, options.limit)
}

/// Compares the profile with the runs on each of its processors.
fn predictions(profile: &Profile, options: &Validate, common: &Common) -> Result<Validated, Failure> {
    let measured = runs::measured(profile, &options.runs.path, &options.runs, common)?;
    let mut validated = Validated { unusable: measured.unusable(), ..Validated::default() };
    let seen = options.seen.as_ref().map(|path| runs::seen(path, &options.runs, common)).transpose()?;
    if let (Some(gpu), Some(table)) = (&profile.gpu, &measured.gpu) {
        let layers = seen.as_ref().map(|seen| seen.gpu.as_slice());
        let validation = validate(gpu, profile.calibration.as_ref(), &table.runs, layers);
        validated.points.extend(validation.points);
        validated.groups.extend(validation.groups);
        validated.left_out.extend(validation.left_out);
    }
    if let (Some(gpu), Some(table)) = (&profile.gpu, &measured.inferences) {
        let validation =
            host::validate(gpu, &table.networks, seen.as_ref().map(|seen| seen.inferences.as_slice()));
        validated.points.extend(validation.points);
        validated.groups.extend(validation.groups);
        validated.left_out.extend(validation.left_out);
    }
    if let Some(table) = &measured.cpu {
        let seen = seen.as_ref().map(|seen| &seen.cpu);
        let validation = cpu::validate(&profile.cpu, profile.calibration.as_ref(), table, seen);
        validated.points.extend(validation.points);
        validated.groups.extend(validation.groups);
        validated.left_out.extend(validation.left_out);
    }
    validated.groups.sort_by(|a, b| b.group.mape_percent.total_cmp(&a.group.mape_percent));
    Ok(validated)
}

/// Keeps the groups that were asked for.
fn keep(validated: &mut Validated, options: &Validate) -> Result<(), Failure> {
    let prefix = options.group.as_str();
    if !prefix.is_empty() && !validated.groups.iter().any(|scored| scored.group.name.starts_with(prefix)) {
        let known = validated.groups.iter().map(|scored| scored.group.name.as_str());
        return Err(points::no_group(&options.runs.path.display().to_string(), prefix, known));
    }
    validated.groups.retain(|scored| scored.group.name.starts_with(prefix));
    validated.points.retain(|point| is_in(point, prefix));
    Ok(())
}

/// Writes the picture and the points that were asked for.
fn write(
    options: &Validate,
    profile: &Profile,
    points: &[Point],
    format: Option<Format>,
) -> Result<(), Failure> {
    let mut files = Vec::new();
    if let (Some(path), Some(format)) = (&options.plot, format) {
        let comparison = Comparison { title: &profile.title, subtitle: "predicted against measured", points };
        files.push(OutputFile { path, content: coexec_plots::scatter(&comparison, format)? });
    }
    if let Some(path) = &options.points {
        files.push(points::file(path, points)?);
    }
    output::write(&files)
}

/// Prints the groups and what to hold them against.
fn show(groups: &[Scored]) {
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|scored| {
            let mut row = cells(&scored.group);
            row.extend([
                percent(scored.physics_mape_percent),
                percent(scored.flops_linear_mape_percent),
                percent(scored.repeat_noise_percent),
                percent(scored.interval_coverage_percent),
            ]);
            row
        })
        .collect();
    output::table(&[HEADER.as_slice(), BASELINES.as_slice()].concat(), &rows);
}

/// Whether every group keeps the limit.
fn hold(groups: &[Scored], limit: Option<f64>) -> Result<(), Failure> {
    let Some(limit) = limit else { return Ok(()) };
    let above = groups.iter().map(|scored| &scored.group).filter(|group| group.mape_percent > limit);
    let above: Vec<String> =
        above.map(|group| format!("{} ({:.1} %)", group.name, group.mape_percent)).collect();
    if above.is_empty() { Ok(()) } else { Err(Failure::FellShort { limit, groups: above.join(", ") }) }
}

/// Header of [`cells`].
pub(crate) const HEADER: [&str; 7] = ["group", "runs", "MAPE", "median APE", "within 10 %", "95th", "bias"];
/// Header of what a group is held against: MAPE without residual and of a model
/// linear in FLOPs, the measurement's own noise, and how many of the 90 % intervals
/// hold the measured time.
pub(crate) const BASELINES: [&str; 4] = ["physics only", "FLOPs-linear", "repeat noise", "in interval"];

/// The figures of a group, as a row of a table.
pub(crate) fn cells(group: &Group) -> Vec<String> {
    vec![
        group.name.clone(),
        group.n.to_string(),
        format!("{:.1} %", group.mape_percent),
        format!("{:.1} %", group.median_ape_percent),
        format!("{:.0} %", group.within_10_percent),
        format!("{:.1} %", group.p95_ape_percent),
        format!("{:+.1} %", group.bias_percent),
    ]
}

/// A percentage that there may be.
pub(crate) fn percent(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1} %"))
}
