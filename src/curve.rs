//! The figure of latency against the cut of one operator.

use coexec_plots::palette::{BLUE, GREEN, INK, Shape, VERMILION};
use coexec_plots::{Figure, Format, Mark, Unit};
use coexec_sim::explore::{CurvePoint, latency_curve};
use coexec_sim::input::nearest;
use coexec_sim::{Axis, Picos, Placement, Plan, Scenario, Simulator, Stage};

use crate::output::listed;
use crate::{Failure, Result};

// Sizes and widths are in figure pixels.

const PLOT: (f64, f64) = (720.0, 380.0);
const THIN: f64 = 1.5;
const STRONG: f64 = 2.5;

/// Draws latency against the GPU's output channels for `operator`; by default for the first operator
/// that `plan` cuts, else the first that can be cut.
pub(crate) fn draw(
    format: Format,
    operator: Option<&str>,
    scenario: &Scenario,
    simulator: &mut Simulator<'_>,
    plan: &Plan,
) -> Result<Vec<u8>> {
    let (stage, placement) = shown(operator, scenario, plan)?;
    if placement.axis() == Some(Axis::Height) {
        return Err(Failure::usage(
            format!("the plan cuts {} along its height, but --plot shows cuts along channels", stage.name),
            "leave out --plot, or search with --strategy channel-split",
        ));
    }
    let mut options = scenario.options.clone();
    let cut_between = placement.cores().filter(|_| placement.is_cut());
    options.core_sets = cut_between.or_else(|| options.core_sets.last().copied()).into_iter().collect();
    let points = latency_curve(simulator, stage, &options)?;
    let most = points.iter().map(|point| point.gpu_channels).max().unwrap_or(0);
    let lines = [
        ("GPU", (GREEN, THIN), series(&points, |point| point.gpu)),
        ("CPU", (BLUE, THIN), series(&points, |point| point.cpu)),
        // The main curve.
        ("together", (VERMILION, STRONG), series(&points, |point| point.together)),
    ];
    let times = lines.iter().flat_map(|(.., points)| points.iter().map(|point| point.1));
    let x = coexec_plots::Axis::channels("output channels on the GPU (the CPU computes the rest)", most);
    let mut figure = Figure::new(PLOT, x, coexec_plots::Axis::times("latency", times));
    for (name, (colour, width), points) in lines {
        figure.add(name, Mark::Line(width), colour, points);
    }
    if let Some((name, place)) = mark(placement, &points) {
        figure.add(&name, Mark::Markers { shape: Shape::Diamond, is_filled: true }, INK, vec![place]);
    }
    let title = format!("{} on {}", stage.layer.operator, scenario.device.title);
    let cores = options.core_sets.first().map_or(String::new(), ToString::to_string);
    let subtitle = format!("CPU cores {cores}, synchronisation {}", options.synchronisation);
    Ok(figure.titled(&title, &subtitle).draw(format)?)
}

/// The operator to show, and its placement in the plan.
fn shown<'a>(operator: Option<&str>, scenario: &'a Scenario, plan: &Plan) -> Result<(&'a Stage, Placement)> {
    let mut cuttable = (scenario.stages().iter())
        .zip(plan.placements.iter().copied())
        .filter(|(stage, _)| stage.layer.operator.splittable_channels().is_some());
    let is_cut = |placement: Placement| placement.axis() == Some(Axis::Channels);
    let names: Vec<String> = cuttable.clone().map(|(stage, _)| stage.name.clone()).collect();
    let found = match operator {
        Some(name) => cuttable.find(|(stage, _)| stage.name == name),
        None => cuttable.clone().find(|&(_, placement)| is_cut(placement)).or_else(|| cuttable.next()),
    };
    found.ok_or_else(|| not_shown(operator, scenario, &names))
}

/// Most candidates named in an error message.
const MAX_NAMED_CANDIDATES: usize = 8;

/// The failure if `operator` is not among `names`, the operators that can be cut along their output
/// channels.
fn not_shown(operator: Option<&str>, scenario: &Scenario, names: &[String]) -> Failure {
    let problem = match operator {
        None => format!("no operator of {} can be cut along its output channels", scenario.name),
        Some(name) if scenario.stages().iter().any(|stage| stage.name == name) => {
            format!("--operator is {name:?}, which cannot be cut along its output channels")
        }
        Some(name) => format!("--operator is {name:?}, but {} has no such operator", scenario.name),
    };
    let near = operator.and_then(|name| nearest(name, names));
    let near = near.map_or_else(String::new, |near| format!("did you mean {near:?}? "));
    let more = names.len().saturating_sub(MAX_NAMED_CANDIDATES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let shown = listed(names.iter().take(MAX_NAMED_CANDIDATES));
    let help = if names.is_empty() {
        "leave out --plot, or ask for --timeline".to_owned()
    } else {
        format!("{near}Those that can be cut: {shown}{more}")
    };
    Failure::usage(problem, help)
}

fn series(points: &[CurvePoint], time: fn(&CurvePoint) -> Option<Picos>) -> Vec<(f64, f64)> {
    let place = |point: &CurvePoint| Some((f64::from(point.gpu_channels), time(point)?.as_micros()));
    points.iter().filter_map(place).collect()
}

/// Legend and position of the plan's cut.
fn mark(placement: Placement, points: &[CurvePoint]) -> Option<(String, (f64, f64))> {
    let (Axis::Channels, [cpu_channels, gpu_channels]) = placement.cpu_and_gpu_extents()? else {
        return None;
    };
    let point = points.iter().find(|point| point.gpu_channels == gpu_channels)?;
    let us = point.together?.as_micros();
    let name = format!("GPU {gpu_channels} + CPU {cpu_channels}: {}", Unit::Micros.label(us));
    Some((name, (f64::from(gpu_channels), us)))
}
