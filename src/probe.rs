//! `coexec probe`: turns micro-benchmarks of this machine into a device profile.

use std::time::{Duration, Instant};

use coexec_fit::validate::point::Point;
use coexec_fit::validate::score::{Scored, error, is_in, score};
use coexec_hw::fingerprint::today;
use coexec_hw::probe::{Finding, ProbeOptions, Probed, probe};

use crate::output::{percent, record, row, stem};
use crate::this_machine::last_probe;
use crate::{Common, Failure, OutputFile, Probe, Progress, Result, or_dash, output, points, workers};

/// Default time budget of a full and of a quick probe's measurements, in seconds; the fits take
/// additional time.
const SECONDS: [u64; 2] = [1_080, 90];

pub(crate) fn run(options: &Probe, common: &Common) -> Result {
    workers::pin_workers(options.device.gpu_cores)?;
    let written = [Some(&options.out), options.points.as_ref(), options.runs.as_ref()];
    written.into_iter().flatten().try_for_each(|path| output::check(path))?;
    let no_date = || Failure::usage("this system has no date", "give it with --date");
    let how = ProbeOptions {
        name: name(options)?,
        choice: options.device.choice(true),
        quick: options.quick,
        seed: options.seed,
        limit: Duration::from_secs(options.time_limit.unwrap_or(SECONDS[usize::from(options.quick)])),
        date: options.date.clone().or_else(today).ok_or_else(no_date)?,
    };
    let progress = Progress::new(common);
    let started = Instant::now();
    let report_step = |step: &str| progress.report(&format!("{:>4} s  {step}", started.elapsed().as_secs()));
    let probed = probe(&how, &report_step)?;
    drop(progress);
    let doubts = doubts(&probed, options.max_error);
    write(&probed, options)?;
    if doubts.is_empty() {
        keep(&probed, common)?;
    }
    for warning in &probed.warnings {
        common.note(format_args!("warning: {warning}"));
    }
    let groups = score(&probed.held_out);
    if common.json {
        output::json(&record!(Document {
            device: &probed.profile.name,
            out: &options.out,
            runs: probed.runs.len(),
            /// Cross-validated, worst first.
            groups,
            /// Errors of co-run slowdowns at held-out levels of traffic.
            co_run: &probed.co_run,
            findings: &probed.findings,
            warnings: &probed.warnings,
            /// Reasons not to trust the profile's predictions; empty if it is usable.
            doubts: &doubts,
        }))?;
    } else {
        show(&probed, &groups);
        output::line(&format!("wrote {}", options.out.display()));
    }
    if !doubts.is_empty() {
        return Err(untrusted(options, &doubts));
    }
    if probed.gave_up {
        // On a normal exit the driver would wait for the work still running on the device.
        coexec_hw::exit_immediately(0);
    }
    Ok(())
}

/// The failure of a probe whose profile was written, but is not to be trusted.
fn untrusted(options: &Probe, doubts: &[String]) -> Failure {
    let (out, doubts) = (options.out.display(), doubts.join("; "));
    let longer = match (options.quick, options.time_limit) {
        (true, _) => ", without --quick",
        (false, Some(_)) => ", with a longer --time-limit",
        (false, None) => "",
    };
    Failure::unsound(
        format!("{out} was written, but its predictions are not to be trusted: {doubts}"),
        format!(
            "stop other programs on this machine and probe again{longer}; or raise --max-error. `coexec run` does not \
             use this profile unless --device names it"
        ),
    )
}

/// What exceeds `limit` percent, for each processor: the mean error on held-out layers, without whole
/// networks, and the spread of one layer's times.
fn doubts(probed: &Probed, limit: f64) -> Vec<String> {
    let mut doubts = Vec::new();
    let jitter = &probed.profile.jitter;
    for (prefix, name, spread) in [("gpu", "GPU", &jitter.gpu_percent), ("cpu", "CPU", &jitter.cpu_percent)] {
        let errors = layer_errors(&probed.held_out, prefix);
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

/// Errors of a processor's layers, without those of whole networks, in percent.
fn layer_errors(held_out: &[Point], prefix: &str) -> Vec<f64> {
    let networks = format!("{prefix}/end_to_end");
    let layers = held_out.iter().filter(|point| is_in(point, prefix) && !is_in(point, &networks));
    layers.map(|point| 100.0 * error(point).abs()).collect()
}

/// The profile's name: as given, or the file's.
fn name(options: &Probe) -> Result<String> {
    let name = options.name.clone().unwrap_or_else(|| stem(&options.out).into_owned());
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(Failure::usage(
            format!("found the name {name:?}, expected one without spaces"),
            "give a name with --name",
        ));
    }
    Ok(name)
}

/// Writes the profile and the requested files.
fn write(probed: &Probed, options: &Probe) -> Result {
    let mut files = vec![OutputFile::encoded(&options.out, probed.profile.to_toml())?];
    if let Some(path) = &options.points {
        files.push(points::file(path, &probed.held_out)?);
    }
    if let Some(path) = &options.runs {
        files.extend(output::runs(path, &probed.runs, &probed.fingerprint)?);
    }
    output::write(&files)
}

/// Keeps a copy of the profile for `run`.
fn keep(probed: &Probed, common: &Common) -> Result {
    let Some(path) = last_probe() else { return Ok(()) };
    let copy = OutputFile::encoded(&path, probed.profile.to_toml())?;
    // Without a copy, `run` needs the profile named by --device.
    let folder = path.parent().map_or(Ok(()), output::make_folder);
    match folder.and_then(|()| output::write(&[copy])) {
        Ok(()) => {
            common.note(format_args!("note: `coexec run` uses {} unless --device is given", path.display()));
        }
        Err(error) => common.note(format_args!("warning: `coexec run` needs a --device: {error}")),
    }
    Ok(())
}

fn show(probed: &Probed, groups: &[Scored]) {
    let rows = probed.findings.iter().map(|Finding { what, value, unit, ci95 }| {
        let interval = or_dash(ci95.map(|[low, high]| format!("{low:.4} to {high:.4}")));
        row![what, format!("{value:.4} {unit}"), interval]
    });
    output::table(&["measured", "median", "95 % interval"], rows);
    output::line("");
    if !probed.co_run.is_empty() {
        let rows = probed.co_run.iter().map(|held| {
            let errors = [held.error_percent, held.plain_error_percent, held.idle_error_percent];
            row![held.client, held.runs].into_iter().chain(errors.map(percent)).collect()
        });
        output::table(&["slowed", "held out", "error", "max-min alone", "no slowdown"], rows);
        output::line("");
    }
    let rows = groups.iter().map(|Scored { group, .. }| {
        row![group.name, group.n, percent(group.mape_percent), percent(group.within_10_percent)]
    });
    output::table(&["held out", "layers", "MAPE", "within 10 %"], rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_networks_are_no_held_out_layers() {
        let point = |group: &str, measured_us| Point {
            group: group.into(),
            predicted_us: 1.0,
            measured_us,
            ..Point::default()
        };
        let held_out =
            [("gpu/conv2d", 2.0), ("gpu/end_to_end/float", 4.0), ("cpu/1large/float", 4.0), ("cut/all", 4.0)];
        let errors = layer_errors(&held_out.map(|(group, time)| point(group, time)), "gpu");
        assert_eq!(errors, [50.0]);
    }
}
