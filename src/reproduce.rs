//! `coexec reproduce`: what the papers published, beside ours.

mod table;

use std::fs;
use std::path::{Path, PathBuf};

use coexec_plots::{Format, picture};
use coexec_sim::published::{Inputs, Paper, Report, Summary, reproduce};
use serde::Serialize;

use crate::cli::{Common, Reproduce};
use crate::failure::Failure;
use crate::output::{self, OutputFile};

#[derive(Serialize)]
struct Document<'a> {
    papers: Vec<PaperEntry<'a>>,
    /// Groups whose predicted numbers are farther off than their limit.
    missed: Vec<String>,
}

#[derive(Serialize)]
struct PaperEntry<'a> {
    #[serde(flatten)]
    report: &'a Report,
    summaries: Vec<Summary>,
}

pub(crate) fn run(options: &Reproduce, common: &Common) -> Result<(), Failure> {
    let every = options.every as usize;
    let inputs = Inputs { benchmark: options.data.clone(), every, ..Inputs::bundled()? };
    let mut reports = Vec::new();
    for paper in options.paper.papers() {
        if !common.quiet {
            eprintln!("running what {} needs", paper.name());
        }
        reports.push(reproduce(paper, &inputs)?);
    }
    if let Some(folder) = &options.plots {
        draw(&reports, folder, common)?;
    }
    let missed = missed(&reports);
    if common.json {
        let papers = reports.iter().map(|report| PaperEntry {
            report,
            summaries: report.groups.iter().map(coexec_sim::published::Group::summary).collect(),
        });
        output::json(&Document { papers: papers.collect(), missed: missed.clone() });
    } else {
        reports.iter().for_each(table::print);
        table::totals(&reports);
    }
    if options.check && !missed.is_empty() {
        return Err(Failure::NotReproduced { groups: missed.join("; ") });
    }
    Ok(())
}

/// The groups that miss their limits.
fn missed(reports: &[Report]) -> Vec<String> {
    let groups =
        reports.iter().flat_map(|report| report.groups.iter().map(move |group| (report.paper, group)));
    groups
        .filter(|(_, group)| !group.holds())
        .map(|(paper, group): (Paper, _)| format!("{}, {}", paper.name(), group.name))
        .collect()
}

/// Writes each figure as a file of the folder.
fn draw(reports: &[Report], folder: &Path, common: &Common) -> Result<(), Failure> {
    let failed = |reason: String| Failure::Write { path: folder.to_owned(), reason };
    let mut drawn: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for report in reports {
        for figure in &report.figures {
            let name = format!("{}-{}.svg", report.paper.name().to_lowercase(), figure.name);
            drawn.push((folder.join(name), picture(figure, Format::Svg)?));
        }
    }
    fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
    let files: Vec<OutputFile<'_>> =
        drawn.iter().map(|(path, content)| OutputFile { path, content: content.clone() }).collect();
    output::write(&files)?;
    if !common.quiet {
        eprintln!("wrote {} figures to {}", files.len(), folder.display());
    }
    Ok(())
}
