//! `coexec calibrate`: measured runs into the values of a device profile.

use std::path::PathBuf;

use coexec_sim::calibrate::cpu::{self, FittedTable};
use coexec_sim::calibrate::gpu::{Calibrated, Options, Progress, TableFit, calibrate};
use coexec_sim::device::gpu::{Gpu, TableSpread};
use coexec_sim::device::profile::{Calibration, Profile};
use coexec_sim::input::Text;
use coexec_sim::measure::LeftOut;
use coexec_sim::measure::benchmark_cpu::CpuTable;
use coexec_sim::measure::benchmark_gpu::GpuTable;
use coexec_sim::validate::{self as errors, Group};
use coexec_sim::workload::DataType;
use serde::Serialize;

use crate::cli::{Calibrate, Common, RunFormat};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::{runs, validate};

/// Folds of the cross-validation.
const FOLDS: usize = 5;
/// Correlation from which two CPU parameters are named as trading off.
const STRONG_CORRELATION: f64 = 0.7;

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    out: &'a PathBuf,
    /// Cross-validated, worst first.
    groups: &'a [Group],
    tables: &'a [TableFit],
    cpu_tables: &'a [FittedTable],
    /// Rows of the files that are no usable runs.
    unusable: &'a [LeftOut],
    /// Runs that nothing in the base describes.
    undescribed: &'a [LeftOut],
}

/// What was fitted, besides the profile's values.
#[derive(Default)]
struct Fitted {
    tables: Vec<TableFit>,
    /// How far the GPU's predictions may be off.
    spreads: Vec<TableSpread>,
    cpu_tables: Vec<FittedTable>,
    /// Cross-validated errors.
    errors: Vec<Group>,
    left_out: Vec<LeftOut>,
}

pub(crate) fn run(options: &Calibrate, common: &Common) -> Result<(), Failure> {
    let mut profile = Profile::load(&options.base)?;
    let measured = runs::measured(&profile, &options.runs.folder, &options.runs, common)?;
    let data = match options.runs.format {
        RunFormat::MobileMlBenchmark => "mobile-ml-benchmark",
    };
    let count = measured.gpu.as_ref().map_or(0, |table| table.runs.len())
        + measured.cpu.as_ref().map_or(0, |table| table.runs.len());
    let source = format!("fit on {data}, {count} runs of {}", options.runs.device_column);
    let mut fitted = Fitted::default();
    if let (Some(gpu), Some(table)) = (&mut profile.gpu, &measured.gpu) {
        fit_gpu(gpu, table, &source, options, common, &mut fitted);
    }
    if let Some(table) = &measured.cpu {
        fit_cpu(&mut profile, table, &source, options, common, &mut fitted);
    }
    fitted.errors.sort_by(|a, b| b.mape_percent.total_cmp(&a.mape_percent));
    let Fitted { tables, spreads, cpu_tables, errors, left_out } = fitted;
    if !common.quiet {
        runs::name_left_out("not fitted", &left_out);
    }
    forget_used_facts(&mut profile, &tables, &cpu_tables);
    profile.calibration =
        Some(Calibration { source, date: options.date.clone(), error: errors.clone(), gpu_table: spreads });
    write(&profile, options)?;
    if common.json {
        output::json(&Document {
            device: &profile.name,
            out: &options.out,
            groups: &errors,
            tables: &tables,
            cpu_tables: &cpu_tables,
            unusable: &measured.unusable(),
            undescribed: &left_out,
        });
        return Ok(());
    }
    show(&tables, &cpu_tables);
    show_errors(&profile.title, &errors);
    output::line(&format!("wrote {}", options.out.display()));
    Ok(())
}

/// Fits the GPU's tables.
fn fit_gpu(
    gpu: &mut Gpu,
    table: &GpuTable,
    source: &str,
    options: &Calibrate,
    common: &Common,
    fitted: &mut Fitted,
) {
    let fit = Options { source: source.to_owned(), folds: FOLDS, seed: options.seed, residual: true };
    let calibrated = calibrate(gpu, &table.runs, &fit, &|progress| {
        if !common.quiet {
            match progress {
                Progress::Fitted => eprintln!("GPU: fitted all runs"),
                Progress::Fold { number, of } => eprintln!("GPU: cross-validated fold {number} of {of}"),
            }
        }
    });
    let Calibrated { gpu: calibrated, tables, errors, left_out, spreads, .. } = calibrated;
    *gpu = calibrated;
    fitted.tables = tables;
    fitted.spreads = spreads;
    fitted.errors.extend(errors);
    fitted.left_out.extend(left_out);
}

/// Fits the rate tables of the CPU's clusters.
fn fit_cpu(
    profile: &mut Profile,
    table: &CpuTable,
    source: &str,
    options: &Calibrate,
    common: &Common,
    fitted: &mut Fitted,
) {
    let fit = cpu::Options { folds: FOLDS, seed: options.seed, others: &[], source };
    let calibrated = cpu::calibrate(&profile.cpu, table, &fit, &|done, of| {
        if !common.quiet {
            eprintln!("CPU: {done} of {of} fits");
        }
    });
    fitted.errors.extend(errors::cpu::groups(&calibrated.held_out));
    profile.cpu = calibrated.cpu;
    fitted.cpu_tables = calibrated.tables;
    fitted.left_out.extend(calibrated.left_out);
}

/// A published number no longer sets a value that has been fitted.
fn forget_used_facts(profile: &mut Profile, tables: &[TableFit], cpu_tables: &[FittedTable]) {
    let mut fitted: Vec<String> = tables.iter().map(|fit| format!("gpu.{}", fit.table)).collect();
    fitted.extend(cpu_tables.iter().map(cpu_key));
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

/// Where in the profile a table of the CPU is.
fn cpu_key(fit: &FittedTable) -> String {
    let table = if fit.data_type == DataType::I8 { "ruy_i8" } else { "ruy_f32" };
    format!("cpu.{}.{table}", fit.cluster)
}

/// Prints the parameters and what they trade off against.
fn show(tables: &[TableFit], cpu_tables: &[FittedTable]) {
    let row = |key: String, value: f64, ci95: Option<[f64; 2]>, informed: bool| {
        vec![
            key,
            format!("{value:.4e}"),
            ci95.map_or("-".to_owned(), |[low, high]| format!("{low:.2e} to {high:.2e}")),
            (if informed { "runs" } else { "prior" }).to_owned(),
        ]
    };
    let mut parameters = Vec::new();
    for fit in tables {
        parameters.extend(fit.parameters.iter().map(|parameter| {
            let key = format!("gpu.{}.{}", fit.table, parameter.key);
            row(key, parameter.value, Some(parameter.ci95), parameter.informed)
        }));
    }
    for fit in cpu_tables {
        parameters.extend(fit.parameters.iter().map(|known| {
            row(format!("{}.{}", cpu_key(fit), known.key), known.value, known.ci95, known.informed)
        }));
    }
    output::table(&["parameter", "value", "95 % interval", "decided by"], &parameters);
    for fit in tables {
        for pair in &fit.trade_offs {
            let [first, second] = pair.keys;
            trade_off(&format!("gpu.{}", fit.table), first, second, pair.correlation);
        }
        if !fit.converged {
            output::line(&format!("gpu.{}: the fit stopped before it had converged", fit.table));
        }
    }
    for fit in cpu_tables {
        for known in &fit.parameters {
            let Some((other, correlation)) = known.trades_with else { continue };
            let mutual = fit.parameters.iter().any(|second| {
                second.key == other && second.trades_with.is_some_and(|(first, _)| first == known.key)
            });
            // A mutual pair shows once.
            if correlation.abs() >= STRONG_CORRELATION && (known.key < other || !mutual) {
                trade_off(&cpu_key(fit), known.key, other, correlation);
            }
        }
    }
}

fn trade_off(table: &str, first: &str, second: &str, correlation: f64) {
    output::line(&format!("{table}: {first} and {second} trade off (correlation {correlation:+.2})"));
}

/// Prints the cross-validated errors.
fn show_errors(title: &str, errors: &[Group]) {
    if errors.is_empty() {
        output::line("\nall runs are of one network: no errors on networks kept out of the fit");
        return;
    }
    output::line(&format!("\n{title}, networks kept out of the fit, worst groups first\n"));
    output::table(&validate::HEADER, &errors.iter().map(validate::cells).collect::<Vec<_>>());
}
