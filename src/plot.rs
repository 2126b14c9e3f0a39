//! `coexec plot`: figures from the files of other commands, and of device profiles.

mod npu;

use std::collections::BTreeMap;

use coexec_plots::{Comparison, Format, Launches, PlotError};
use coexec_sim::calibrate::learning;
use coexec_sim::input::Text;
use coexec_sim::validate::point::Point;

use crate::cli::{Common, Figure, Plot};
use crate::failure::Failure;
use crate::output::{self, OutputFile};
use crate::points;

/// Trips of the main loop from which a launch is in a staircase: in fewer, what a
/// launch costs besides hides the steps.
const LEAST_ITERATIONS: u32 = 16;

pub(crate) fn run(options: &Plot, common: &Common) -> Result<(), Failure> {
    let format = Format::of(&options.out)?;
    check(options)?;
    let content = match options.kind {
        Figure::Scatter => of_points(options, format, coexec_plots::scatter, "Predicted against measured")?,
        Figure::ErrorCdf => {
            of_points(options, format, coexec_plots::error_cdf, "How many predictions are how far off")?
        }
        Figure::ResidualWaves => {
            of_points(options, format, coexec_plots::residual_waves, "Error against waves per compute unit")?
        }
        Figure::ResidualBytes => {
            of_points(options, format, coexec_plots::residual_bytes, "Error against bytes")?
        }
        Figure::Staircase => staircase(options, format)?,
        Figure::LearningCurve => learning_curve(options, format)?,
        Figure::NpuStages | Figure::NpuOrder => npu::draw(options, format)?,
    };
    output::write(&[OutputFile { path: &options.out, content }])?;
    if common.json {
        output::json(&serde_json::json!({ "out": options.out }));
    } else {
        output::line(&format!("wrote {}", options.out.display()));
    }
    Ok(())
}

/// Refuses options that the figure has no use for.
fn check(options: &Plot) -> Result<(), Failure> {
    let unused = if options.kind != Figure::Staircase && options.kernel.is_some() {
        "--kernel"
    } else if options.kind != Figure::Staircase && options.tile_size.is_some() {
        "--tile-size"
    } else if !options.kind.is_of_points() && !options.group.is_empty() {
        "--group"
    } else {
        return Ok(());
    };
    Err(Failure::Usage {
        problem: format!("{unused} does not apply to this figure"),
        help: format!("leave out {unused}"),
    })
}

/// A figure of a learning curve.
fn learning_curve(options: &Plot, format: Format) -> Result<Vec<u8>, Failure> {
    let points = learning::of_csv(&Text::read(&options.file)?)?;
    let title = options.title.as_deref().unwrap_or("Error on networks kept out of the fit");
    Ok(coexec_plots::learning_curve(title, "", &points, format)?)
}

/// A figure of points as `draw` makes it.
fn of_points(
    options: &Plot,
    format: Format,
    draw: fn(&Comparison<'_>, Format) -> Result<Vec<u8>, PlotError>,
    title: &str,
) -> Result<Vec<u8>, Failure> {
    let points = points::read(&options.file, &options.group)?;
    let title = options.title.as_deref().unwrap_or(title);
    // Points do not say whose they are; their file is the nearest to it.
    let of_file = format!("points of {}", options.file.display());
    let subtitle =
        if options.group.is_empty() { of_file } else { format!("{of_file}, group {}", options.group) };
    Ok(draw(&Comparison { title, subtitle: &subtitle, points: &points }, format)?)
}

/// The staircase of one kernel's launches.
fn staircase(options: &Plot, format: Format) -> Result<Vec<u8>, Failure> {
    let points = points::read(&options.file, &options.group)?;
    let (kernel, tile_size) = launches(options, &points)?;
    let title = options.title.as_deref().unwrap_or("Time of an iteration against work-groups");
    let subtitle = format!("{kernel}, tiles of {tile_size} texels");
    let comparison = Comparison { title, subtitle: &subtitle, points: &points };
    let shown = Launches { kernel: &kernel, tile_size, least_iterations: LEAST_ITERATIONS };
    Ok(coexec_plots::staircase(&comparison, &shown, format)?)
}

/// The kernel and tile size of a staircase: as given, else those of most points.
fn launches(options: &Plot, points: &[Point]) -> Result<(String, u32), Failure> {
    let mut counts: BTreeMap<(&str, u32), usize> = BTreeMap::new();
    for point in points.iter().filter(|point| point.iterations.is_some_and(|it| it >= LEAST_ITERATIONS)) {
        let (Some(kernel), Some(tile_size)) = (point.kernel.as_deref(), point.tile_size) else { continue };
        let is_wanted = options.kernel.as_deref().is_none_or(|wanted| wanted == kernel)
            && options.tile_size.is_none_or(|wanted| wanted == tile_size);
        if is_wanted {
            *counts.entry((kernel, tile_size)).or_default() += 1;
        }
    }
    let most = counts.into_iter().max_by_key(|&(_, count)| count);
    most.map(|((kernel, tile_size), _)| (kernel.to_owned(), tile_size)).ok_or_else(|| Failure::Usage {
        problem: format!(
            "{} holds no GPU launch of such a kernel and tile with at least {LEAST_ITERATIONS} iterations",
            options.file.display()
        ),
        help: "choose another --kernel or --tile-size, or points of a GPU".to_owned(),
    })
}
