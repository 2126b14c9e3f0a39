//! `coexec probe`: micro-benchmarks of this machine into a device profile.

use std::path::Path;
use std::time::{Duration, Instant};

use coexec_hw::fingerprint::today;
use coexec_hw::probe::{Finding, Options, Probed, probe};
use coexec_sim::calibrate::interference::HeldOut;
use coexec_sim::measure::runs::{fingerprints_path, fingerprints_to_toml, to_csv};
use coexec_sim::validate::score::{Scored, error, is_in, score};
use serde::Serialize;

use crate::cli::{Common, Probe};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::progress::Progress;
use crate::{points, workers};

/// Seconds a full and a quick probe measure unless told; the fits come on top.
const SECONDS: [u64; 2] = [1_080, 90];

#[derive(Serialize)]
struct Document<'a> {
    device: &'a str,
    out: &'a Path,
    runs: usize,
    /// Cross-validated, worst first.
    groups: &'a [Scored],
    /// Errors of co-run slowdowns at held-out levels of traffic.
    co_run: Vec<CoRun<'a>>,
    findings: Vec<Found<'a>>,
    warnings: &'a [String],
    /// Why its predictions should not be trusted; empty for a profile to use.
    doubts: &'a [String],
}

#[derive(Serialize)]
struct CoRun<'a> {
    client: &'a str,
    runs: usize,
    error_percent: f64,
    plain_error_percent: f64,
    idle_error_percent: f64,
}

#[derive(Serialize)]
struct Found<'a> {
    what: &'a str,
    value: f64,
    unit: &'a str,
    ci95: Option<[f64; 2]>,
}

pub(crate) fn run(options: &Probe, common: &Common) -> Result<(), Failure> {
    workers::keep_on_their_cores(options.gpu_cores)?;
    let how = Options {
        name: name(options)?,
        selection: options.opencl.clone(),
        gpu_cores: options.gpu_cores,
        quick: options.quick,
        seed: options.seed,
        limit: Duration::from_secs(options.time_limit.unwrap_or(SECONDS[usize::from(options.quick)])),
        date: date(options)?,
    };
    let progress = Progress::new(common);
    let started = Instant::now();
    let tell = |step: &str| progress.tell(&format!("{:>4} s  {step}", started.elapsed().as_secs()));
    let probed = probe(&how, &tell)?;
    drop(progress);
    write(&probed, options)?;
    if !common.quiet {
        for warning in &probed.warnings {
            eprintln!("warning: {warning}");
        }
    }
    let groups = score(&probed.held_out);
    let doubts = doubts(&probed, options.max_error);
    if common.json {
        output::json(&Document {
            device: &probed.profile.name,
            out: &options.out,
            runs: probed.runs.len(),
            groups: &groups,
            co_run: probed.co_run.iter().map(CoRun::from).collect(),
            findings: probed.findings.iter().map(Found::from).collect(),
            warnings: &probed.warnings,
            doubts: &doubts,
        });
    } else {
        show(&probed, &groups);
        output::line(&format!("wrote {}", options.out.display()));
    }
    if !doubts.is_empty() {
        let (out, doubts) = (options.out.clone(), doubts.join("; "));
        return Err(Failure::Doubtful { out, doubts });
    }
    if probed.gave_up {
        // A driver would wait for what still runs on the device.
        coexec_hw::leave(0);
    }
    Ok(())
}

impl<'a> From<&'a HeldOut> for CoRun<'a> {
    fn from(held_out: &'a HeldOut) -> Self {
        Self {
            client: &held_out.client,
            runs: held_out.runs,
            error_percent: held_out.error_percent,
            plain_error_percent: held_out.plain_error_percent,
            idle_error_percent: held_out.idle_error_percent,
        }
    }
}

impl<'a> From<&'a Finding> for Found<'a> {
    fn from(Finding { what, value, unit, ci95 }: &'a Finding) -> Self {
        Self { what, value: *value, unit, ci95: *ci95 }
    }
}

/// What is above `limit` percent: the mean error of each processor's layers in predictions by
/// fits that had not seen them, and the spread of one layer's times.
fn doubts(probed: &Probed, limit: f64) -> Vec<String> {
    let mut doubts = Vec::new();
    let jitter = &probed.profile.jitter;
    for (prefix, name, spread) in [("gpu", "GPU", &jitter.gpu_percent), ("cpu", "CPU", &jitter.cpu_percent)] {
        let errors = probed.held_out.iter().filter(|point| is_in(point, prefix));
        let errors: Vec<f64> = errors.map(|point| 100.0 * error(point).abs()).collect();
        let mape = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
        if mape > limit {
            doubts.push(format!("the MAPE of {} held-out {name} layers is {mape:.0} %", errors.len()));
        }
        if spread.value > limit {
            doubts.push(format!("times of one {name} layer spread by {:.0} %", spread.value));
        }
    }
    doubts
}

/// The profile's name: as given, or that of the file.
fn name(options: &Probe) -> Result<String, Failure> {
    let stem = options.out.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let name = options.name.clone().or(stem).unwrap_or_default();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(Failure::Usage {
            problem: format!("found the name {name:?}, expected one without spaces"),
            help: "give a name with --name".to_owned(),
        });
    }
    Ok(name)
}

/// The date as given, or today's.
fn date(options: &Probe) -> Result<String, Failure> {
    options.date.clone().or_else(today).ok_or_else(|| Failure::Usage {
        problem: "this system does not tell the date".to_owned(),
        help: "give it with --date".to_owned(),
    })
}

/// Writes the profile and what else is asked for.
fn write(probed: &Probed, options: &Probe) -> Result<(), Failure> {
    let failed = |path: &Path, reason: String| Failure::Write { path: path.to_owned(), reason };
    let content = probed.profile.to_toml().map_err(|error| failed(&options.out, error.to_string()))?;
    let mut files = vec![OutputFile { path: &options.out, content: content.into_bytes() }];
    if let Some(path) = &options.points {
        files.push(points::file(path, &probed.held_out)?);
    }
    let beside = options.runs.as_deref().map(fingerprints_path);
    if let (Some(path), Some(beside)) = (&options.runs, &beside) {
        let content = to_csv(&probed.runs).map_err(|error| failed(path, error.to_string()))?;
        files.push(OutputFile { path, content: content.into_bytes() });
        let fingerprints = fingerprints_to_toml(std::slice::from_ref(&probed.fingerprint));
        let content = fingerprints.map_err(|error| failed(beside, error.to_string()))?;
        files.push(OutputFile { path: beside, content: content.into_bytes() });
    }
    output::write(&files)
}

fn show(probed: &Probed, groups: &[Scored]) {
    let rows: Vec<Vec<String>> = probed
        .findings
        .iter()
        .map(|Finding { what, value, unit, ci95 }| {
            let interval = ci95.map_or("-".to_owned(), |[low, high]| format!("{low:.4} to {high:.4}"));
            vec![what.clone(), format!("{value:.4} {unit}"), interval]
        })
        .collect();
    output::table(&["measured", "median", "95 % interval"], &rows);
    output::line("");
    let percent = |value: f64| format!("{value:.1}%");
    if !probed.co_run.is_empty() {
        let rows: Vec<Vec<String>> = probed
            .co_run
            .iter()
            .map(|held| {
                let errors = [held.error_percent, held.plain_error_percent, held.idle_error_percent];
                [held.client.clone(), held.runs.to_string()].into_iter().chain(errors.map(percent)).collect()
            })
            .collect();
        output::table(&["slowed", "held out", "error", "max-min alone", "no slowdown"], &rows);
        output::line("");
    }
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|Scored { group, .. }| {
            vec![
                group.name.clone(),
                group.n.to_string(),
                percent(group.mape_percent),
                percent(group.within_10_percent),
            ]
        })
        .collect();
    output::table(&["held out", "layers", "MAPE", "within 10 %"], &rows);
}
