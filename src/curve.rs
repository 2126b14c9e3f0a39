//! The picture of latency against the cut of one operator.

use coexec_plots::{ChannelCurve, Format, Mark, Series, SeriesKind};
use coexec_sim::explore::{CurvePoint, Options, latency_curve};
use coexec_sim::input::nearest;
use coexec_sim::plan::{Placement, Plan};
use coexec_sim::scenario::Scenario;
use coexec_sim::simulate::Simulator;
use coexec_sim::units::Picos;
use coexec_sim::workload::Stage;

use crate::failure::Failure;

/// Draws latency against output channels for `operator`, or for the first that
/// `plan` cuts, or that can be cut.
pub(crate) fn draw(
    format: Format,
    operator: Option<&str>,
    scenario: &Scenario,
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    plan: &Plan,
) -> Result<Vec<u8>, Failure> {
    let (stage, placement) = shown(operator, scenario, stages, plan)?;
    if matches!(placement, Placement::HeightSplit { .. }) {
        return Err(Failure::Usage {
            problem: format!("the plan cuts {} along its height, the plot is over channels", stage.name),
            help: "leave out --plot, or search with --strategy channel-split".to_owned(),
        });
    }
    let mut options = scenario.options.clone();
    options.core_sets = match placement {
        Placement::Split { cores, .. } => vec![cores],
        _ => options.core_sets.last().copied().into_iter().collect(),
    };
    let points = latency_curve(simulator, stage, &options)?;
    let curve = ChannelCurve {
        title: format!("{} on {}", stage.layer.operator, scenario.device.title),
        subtitle: subtitle(&options),
        channels_label: "output channels on the GPU (the CPU computes the rest)".to_owned(),
        series: vec![
            series("GPU", SeriesKind::Gpu, &points, |point| point.gpu),
            series("CPU", SeriesKind::Cpu, &points, |point| point.cpu),
            series("together", SeriesKind::CoExecution, &points, |point| point.together),
        ],
        marks: mark(placement, &points).into_iter().collect(),
    };
    Ok(coexec_plots::channel_curve(&curve, format)?)
}

/// The operator to show, and what the plan does with it.
fn shown<'a>(
    operator: Option<&str>,
    scenario: &Scenario,
    stages: &'a [Stage],
    plan: &Plan,
) -> Result<(&'a Stage, Placement), Failure> {
    let mut cuttable = stages
        .iter()
        .zip(plan.placements.iter().copied())
        .filter(|(stage, _)| stage.layer.operator.splittable_channels().is_some());
    let is_cut = |placement| matches!(placement, Placement::Split { .. });
    let names: Vec<String> = cuttable.clone().map(|(stage, _)| stage.name.clone()).collect();
    let found = match operator {
        Some(name) => cuttable.find(|(stage, _)| stage.name == name),
        None => cuttable.clone().find(|&(_, placement)| is_cut(placement)).or_else(|| cuttable.next()),
    };
    found.ok_or_else(|| not_shown(operator, scenario, stages, &names))
}

/// Candidates that are named, of more.
const MOST_NAMED: usize = 8;

/// The failure where `operator` is not among `names`, those that can be cut along their
/// output channels.
fn not_shown(operator: Option<&str>, scenario: &Scenario, stages: &[Stage], names: &[String]) -> Failure {
    let problem = match operator {
        None => format!("no operator of {} can be cut along its output channels", scenario.name),
        Some(name) if stages.iter().any(|stage| stage.name == name) => {
            format!("--operator is {name:?}, which cannot be cut along its output channels")
        }
        Some(name) => format!("--operator is {name:?}, but {} has no such operator", scenario.name),
    };
    let near = operator.and_then(|name| nearest(name, names));
    let near = near.map_or_else(String::new, |near| format!("did you mean {near:?}? "));
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = names.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let help = if names.is_empty() {
        "leave out --plot, or ask for --timeline".to_owned()
    } else {
        format!("{near}Those that can be cut: {shown}{more}")
    };
    Failure::Usage { problem, help }
}

fn subtitle(options: &Options) -> String {
    let cores = options.core_sets.first().map_or(String::new(), ToString::to_string);
    format!("CPU cores {cores}, synchronisation {}", options.synchronisation)
}

fn series(
    name: &str,
    kind: SeriesKind,
    points: &[CurvePoint],
    time: fn(&CurvePoint) -> Option<Picos>,
) -> Series {
    let points = points.iter().filter_map(|point| Some((point.gpu_channels, time(point)?.as_micros())));
    Series { name: name.to_owned(), kind, points: points.collect() }
}

/// The cut that the plan makes.
fn mark(placement: Placement, points: &[CurvePoint]) -> Option<Mark> {
    let Placement::Split { gpu_channels, cpu_channels, .. } = placement else { return None };
    let point = points.iter().find(|point| point.gpu_channels == gpu_channels)?;
    let us = point.together?.as_micros();
    let label = format!("GPU {gpu_channels} + CPU {cpu_channels}: {us:.1} µs");
    Some(Mark { label, channels: gpu_channels, us })
}
