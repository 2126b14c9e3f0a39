//! `coexec validate`: predictions of a profile against measured runs.

use coexec_sim::device::profile::Profile;
use coexec_sim::measure::LeftOut;
use coexec_sim::validate::gpu::{Scored, validate};
use coexec_sim::validate::{Group, cpu};
use serde::Serialize;

use crate::cli::{Common, Validate};
use crate::failure::Failure;
use crate::{output, runs};

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    groups: &'a [Scored],
    /// Rows of the files that are no usable runs.
    unusable: &'a [LeftOut],
    /// Runs the profile cannot predict.
    unpredicted: &'a [LeftOut],
}

pub(crate) fn run(options: &Validate, common: &Common) -> Result<(), Failure> {
    let profile = Profile::load(&options.profile)?;
    let measured = runs::measured(&profile, &options.runs.folder, &options.runs, common)?;
    let (mut groups, mut left_out) = (Vec::new(), Vec::new());
    if let (Some(gpu), Some(table)) = (&profile.gpu, &measured.gpu) {
        let seen =
            options.seen.as_ref().map(|folder| runs::gpu_table(folder, &options.runs, common)).transpose()?;
        let validation = validate(
            gpu,
            profile.calibration.as_ref(),
            &table.runs,
            seen.as_ref().map(|seen| seen.runs.as_slice()),
        );
        groups.extend(validation.groups);
        left_out.extend(validation.left_out);
    }
    if let Some(table) = &measured.cpu {
        let validation = cpu::validate(&profile.cpu, table);
        groups.extend(validation.groups);
        left_out.extend(validation.left_out);
    }
    if !common.quiet {
        runs::name_left_out("not predicted", &left_out);
    }
    if common.json {
        output::json(&Document {
            device: &profile.name,
            groups: &groups,
            unusable: &measured.unusable(),
            unpredicted: &left_out,
        });
        return Ok(());
    }
    output::line(&format!("{}, predicted against measured, worst groups first\n", profile.title));
    groups.sort_by(|a, b| b.group.mape_percent.total_cmp(&a.group.mape_percent));
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|scored| {
            let percent = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1} %"));
            let mut row = cells(&scored.group);
            row.extend([percent(scored.flops_linear_mape_percent), percent(scored.repeat_noise_percent)]);
            row
        })
        .collect();
    output::table(&[HEADER.as_slice(), &["FLOPs-linear MAPE", "repeat noise"]].concat(), &rows);
    Ok(())
}

/// Header of [`cells`].
pub(crate) const HEADER: [&str; 7] = ["group", "runs", "MAPE", "median APE", "within 10 %", "95th", "bias"];

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
