//! `coexec plot`: figures from the files of other commands.

use coexec_fit::calibrate::learning;
use coexec_fit::validate::point::Point;
use coexec_plots::{Format, PlotError};
use coexec_sim::Text;

use crate::{Common, Failure, Figure, Plot, Result, output, points};

pub(crate) fn run(options: &Plot, common: &Common) -> Result {
    check(options)?;
    let file = options.out.file(|format| draw(options, format))?;
    output::write(&[file])?;
    let out = options.out.path();
    if common.json {
        output::json(&serde_json::json!({ "out": out }));
    } else {
        output::line(&format!("wrote {}", out.display()));
    }
    Ok(())
}

fn draw(options: &Plot, format: Format) -> Result<Vec<u8>> {
    let (figure, subtitle) = match options.kind {
        Figure::Scatter => of_points(options, coexec_plots::scatter)?,
        Figure::ErrorCdf => of_points(options, coexec_plots::error_cdf)?,
        Figure::LearningCurve => {
            let points = learning::of_csv(&Text::read(&options.file)?)?;
            (coexec_plots::learning_curve(&points)?, String::new())
        }
    };
    Ok(figure.titled(title(options), &subtitle).draw(format)?)
}

/// Refuses options that the figure has no use for.
fn check(options: &Plot) -> Result {
    if options.kind == Figure::LearningCurve && !options.group.is_empty() {
        return Err(Failure::usage("--group does not apply to this figure", "leave out --group"));
    }
    Ok(())
}

/// The title asked for, else the usual one.
fn title(options: &Plot) -> &str {
    let usual = match options.kind {
        Figure::Scatter => "Predicted against measured",
        Figure::ErrorCdf => "How many predictions are how far off",
        Figure::LearningCurve => "Error on networks kept out of the fit",
    };
    options.title.as_deref().unwrap_or(usual)
}

/// A figure of points as `figure` makes it, and its subtitle.
fn of_points(
    options: &Plot,
    figure: impl FnOnce(&[Point]) -> Result<coexec_plots::Figure, PlotError>,
) -> Result<(coexec_plots::Figure, String)> {
    let points = points::read(&options.file, &options.group)?;
    // Points do not say whose they are; their file is the nearest to it.
    let mut subtitle = format!("points of {}", options.file.display());
    if !options.group.is_empty() {
        subtitle = format!("{subtitle}, group {}", options.group);
    }
    Ok((figure(&points)?, subtitle))
}
