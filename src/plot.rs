//! `coexec plot`: figures from files that other commands wrote.

use coexec_fit::calibrate::learning;
use coexec_plots::Format;
use coexec_sim::Text;

use crate::{Common, Failure, Figure, Plot, Result, output, points};

pub(crate) fn run(options: &Plot, common: &Common) -> Result {
    if options.kind == Figure::LearningCurve && !options.group.is_empty() {
        return Err(Failure::usage("--group does not apply to this figure", "leave out --group"));
    }
    let file = options.out.file(|format| draw(options, format))?;
    output::write(&[file])?;
    let out = &options.out.path;
    if common.json {
        return output::json(&serde_json::json!({ "out": out }));
    }
    output::line(&format!("wrote {}", out.display()));
    Ok(())
}

fn draw(options: &Plot, format: Format) -> Result<Vec<u8>> {
    let points = || points::read(&options.file, &options.group);
    let (figure, usual_title) = match options.kind {
        Figure::Scatter => (coexec_plots::scatter(&points()?)?, "Predicted against measured"),
        Figure::ErrorCdf => (coexec_plots::error_cdf(&points()?)?, "Distribution of prediction errors"),
        Figure::LearningCurve => {
            let curve = learning::of_csv(&Text::read(&options.file)?)?;
            (coexec_plots::learning_curve(&curve)?, "Error on held-out networks")
        }
    };
    // Points do not name their device; the file name is the best hint.
    let file = options.file.display();
    let subtitle = match (options.kind, options.group.as_str()) {
        (Figure::LearningCurve, _) => String::new(),
        (Figure::Scatter | Figure::ErrorCdf, "") => format!("points of {file}"),
        (Figure::Scatter | Figure::ErrorCdf, group) => format!("points of {file}, group {group}"),
    };
    let title = options.title.as_deref().unwrap_or(usual_title);
    Ok(figure.titled(title, &subtitle).draw(format)?)
}
