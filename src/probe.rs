//! `coexec probe`: micro-benchmarks of this machine into a device profile.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use coexec_hw::probe::{Finding, Options, Probed, probe};
use coexec_sim::calibrate::interference::HeldOut;
use coexec_sim::measure::runs::{fingerprints_path, fingerprints_to_toml, to_csv};
use coexec_sim::validate::score::{Scored, score};
use serde::Serialize;

use crate::cli::{Common, Probe};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::progress::Progress;
use crate::{points, workers};

/// Seconds a full and a quick probe measure unless told; the fits come on top.
const SECONDS: [u64; 2] = [1_080, 90];
const SECONDS_PER_DAY: u64 = 86_400;

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
    if options.gpu_cores.is_some() {
        workers::keep_on_their_cores()?;
    }
    let how = Options {
        name: name(options)?,
        selection: options.opencl.clone(),
        gpu_cores: options.gpu_cores,
        quick: options.quick,
        seed: options.seed,
        limit: Duration::from_secs(options.time_limit.unwrap_or(SECONDS[usize::from(options.quick)])),
        date: options.date.clone().unwrap_or_else(today),
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
    if common.json {
        output::json(&Document {
            device: &probed.profile.name,
            out: &options.out,
            runs: probed.runs.len(),
            groups: &groups,
            co_run: probed.co_run.iter().map(CoRun::from).collect(),
            findings: probed.findings.iter().map(Found::from).collect(),
            warnings: &probed.warnings,
        });
    } else {
        show(&probed, &groups);
        output::line(&format!("wrote {}", options.out.display()));
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

/// Today's date, in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / SECONDS_PER_DAY)
}

/// The date so many days after 1970-01-01, in the Gregorian calendar, by eras of 400
/// years that start on 1 March.
fn date(days: u64) -> String {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", 400 * era + year + next)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_through_leap_years() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_453), "2025-12-31");
        assert_eq!(date(20_454), "2026-01-01");
    }
}
