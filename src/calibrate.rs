//! `coexec calibrate`: measured runs into the values of a device profile.

use std::path::PathBuf;

use coexec_sim::calibrate::gpu::{Calibrated, Options, Progress, TableFit, calibrate};
use coexec_sim::device::profile::{Calibration, Profile};
use coexec_sim::input::Text;
use coexec_sim::measure::LeftOut;
use coexec_sim::validate::Group;
use serde::Serialize;

use crate::cli::{Calibrate, Common, RunFormat};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::{runs, validate};

/// Folds of the cross-validation.
const FOLDS: usize = 5;

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    out: &'a PathBuf,
    /// Cross-validated, worst first.
    groups: &'a [Group],
    tables: &'a [TableFit],
    /// Rows of the files that are no usable runs.
    unusable: &'a [LeftOut],
    /// Runs that no table of the base describes.
    undescribed: &'a [LeftOut],
}

pub(crate) fn run(options: &Calibrate, common: &Common) -> Result<(), Failure> {
    let mut profile = Profile::load(&options.base)?;
    let base = runs::gpu_of(&profile)?;
    let table = runs::gpu_table(&options.runs.folder, &options.runs, common)?;
    let data = match options.runs.format {
        RunFormat::MobileMlBenchmark => "mobile-ml-benchmark",
    };
    let source = format!("fit on {data}, {} runs of {}", table.runs.len(), options.runs.device_column);
    let fit = Options { source: source.clone(), folds: FOLDS, seed: options.seed };
    let calibrated = calibrate(base, &table.runs, &fit, &|progress| {
        if !common.quiet {
            match progress {
                Progress::Fitted => eprintln!("fitted all runs"),
                Progress::Fold { number, of } => eprintln!("cross-validated fold {number} of {of}"),
            }
        }
    });
    let Calibrated { gpu, tables, errors, left_out } = calibrated;
    if !common.quiet {
        runs::name_left_out("not fitted", &left_out);
    }
    profile.gpu = Some(gpu);
    forget_used_facts(&mut profile, &tables);
    profile.calibration = Some(Calibration { source, date: options.date.clone(), error: errors.clone() });
    write(&profile, options)?;
    if common.json {
        output::json(&Document {
            device: &profile.name,
            out: &options.out,
            groups: &errors,
            tables: &tables,
            unusable: &table.left_out,
            undescribed: &left_out,
        });
        return Ok(());
    }
    show(&profile.title, &errors, &tables);
    output::line(&format!("wrote {}", options.out.display()));
    Ok(())
}

/// A published number no longer sets a value that has been fitted.
fn forget_used_facts(profile: &mut Profile, tables: &[TableFit]) {
    let fitted: Vec<String> = tables.iter().map(|fit| format!("gpu.{}", fit.table)).collect();
    for fact in &mut profile.used_fact {
        fact.sets.retain(|key| !fitted.iter().any(|table| key.starts_with(table.as_str())));
    }
    profile.used_fact.retain(|fact| !fact.sets.is_empty());
}

/// Writes the profile, once it reads back as what it is.
fn write(profile: &Profile, options: &Calibrate) -> Result<(), Failure> {
    let failed = |reason: String| Failure::Write { path: options.out.clone(), reason };
    let content = profile.to_toml().map_err(|error| failed(error.to_string()))?;
    let text = Text { name: options.out.display().to_string(), content };
    Profile::parse(&text)?;
    output::write(&[OutputFile { path: &options.out, content: text.content.into_bytes() }])
}

fn show(title: &str, errors: &[Group], tables: &[TableFit]) {
    let number = |value: f64| format!("{value:.4e}");
    let parameters: Vec<Vec<String>> = tables
        .iter()
        .flat_map(|fit| fit.parameters.iter().map(move |parameter| (fit, parameter)))
        .map(|(fit, parameter)| {
            let [low, high] = parameter.ci95;
            vec![
                format!("gpu.{}.{}", fit.table, parameter.key),
                number(parameter.value),
                format!("{low:.2e} to {high:.2e}"),
                (if parameter.informed { "runs" } else { "prior" }).to_owned(),
            ]
        })
        .collect();
    output::table(&["parameter", "value", "95 % interval", "decided by"], &parameters);
    for fit in tables {
        for pair in &fit.trade_offs {
            let [first, second] = pair.keys;
            output::line(&format!(
                "gpu.{}: {first} and {second} trade off (correlation {:+.2})",
                fit.table, pair.correlation
            ));
        }
        if !fit.converged {
            output::line(&format!("gpu.{}: the fit stopped before it had converged", fit.table));
        }
    }
    if errors.is_empty() {
        output::line("\nall runs are of one network: no errors on networks kept out of the fit");
        return;
    }
    output::line(&format!("\n{title}, networks kept out of the fit, worst groups first\n"));
    output::table(&validate::HEADER, &errors.iter().map(validate::cells).collect::<Vec<_>>());
}
