//! `coexec reproduce`: the papers' published numbers compared with coexec's.

mod table;

use std::path::Path;

use coexec_papers::{Group, Inputs, Paper, Report, Summary, reproduce};
use coexec_plots::{Format, picture};
use coexec_sim::workload::operator_set;
use serde::Serialize;

use crate::output::{listed, record};
use crate::{Common, Failure, OutputFile, Reproduce, Result, output};

#[derive(Serialize)]
struct PaperEntry {
    #[serde(flatten)]
    report: Report,
    summaries: Vec<Summary>,
    /// The part of the paper's operators that was run, if not all; limits are then not judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    only: Option<String>,
}

pub(crate) fn run(options: &Reproduce, common: &Common) -> Result {
    let every = options.every as usize;
    let mut inputs = Inputs::bundled()?;
    inputs.benchmark.clone_from(&options.data);
    inputs.every = every;
    let papers = options.paper.one().map_or(Paper::ALL.to_vec(), |paper| vec![paper]);
    if every > 1 && papers.iter().all(|paper| paper.operator_sets().is_empty()) {
        return Err(Failure::usage(
            "--every picks operators of a paper's sets, and this paper has none",
            "leave out --every: it shortens EPEW25 alone",
        ));
    }
    if options.data.is_some() && !papers.contains(&Paper::EdgeSys24) {
        return Err(Failure::usage(
            "--data is the data set of EdgeSys24, and no other paper's numbers are recomputed from it",
            "leave it out, or name EdgeSys24",
        ));
    }
    let mut entries = Vec::new();
    for paper in papers {
        common.note(format_args!("running what {} needs", paper.name()));
        let report = reproduce(paper, &inputs)?;
        let summaries = report.groups.iter().map(Group::summary).collect();
        entries.push(PaperEntry { report, summaries, only: only(paper, every) });
    }
    if let Some(folder) = &options.plots {
        draw(&entries, folder, common)?;
    }
    let missed = missed(&entries);
    if common.json {
        output::json(&record!(Document {
            /// Only every Nth operator of a paper's sets was run, with this N.
            every: options.every,
            papers: entries,
            /// Groups whose predictions miss their limit, of the papers that are judged.
            missed: &missed,
        }))?;
    } else {
        entries.iter().for_each(table::print);
        table::totals(&entries);
    }
    if options.check && !missed.is_empty() {
        return Err(Failure::limit_missed(
            format!("groups that miss their limit: {}", missed.join("; ")),
            "see which numbers deviate, and the notes on their rows (`coexec reproduce`)",
        ));
    }
    Ok(())
}

/// Describes which part of a paper's operators was run; none if it was all of them.
fn only(paper: Paper, every: usize) -> Option<String> {
    if every == 1 || paper.operator_sets().is_empty() {
        return None;
    }
    let counts = paper.operator_sets().iter().filter_map(|set| Some((set, operator_set(set)?.len())));
    let parts = counts.map(|(set, all)| format!("{} of {all} of {set}", all.div_ceil(every)));
    Some(format!("over every {every}th operator: {}; limits are not judged", listed(parts)))
}

/// The groups that miss their limits, of papers that are judged.
fn missed(entries: &[PaperEntry]) -> Vec<String> {
    let mut missed = Vec::new();
    for PaperEntry { report, .. } in entries.iter().filter(|entry| entry.only.is_none()) {
        let groups = report.groups.iter().filter(|group| !group.holds());
        missed.extend(groups.map(|group| format!("{}, {}", report.paper.name(), group.published.name)));
    }
    missed
}

/// The file name of a figure: the paper's name, then the figure's, without the paper's name if it
/// starts with that (ignoring hyphens).
fn file_name(paper: &str, figure: &str) -> String {
    let ends = figure.match_indices('-').map(|(end, _)| end);
    let own = ends.rev().find(|&end| figure[..end].replace('-', "") == paper);
    format!("{paper}-{}.svg", own.map_or(figure, |end| &figure[end + 1..]))
}

/// Writes each figure as a file of the folder.
fn draw(entries: &[PaperEntry], folder: &Path, common: &Common) -> Result {
    let mut files = Vec::new();
    for PaperEntry { report, .. } in entries {
        for figure in &report.figures {
            let name = file_name(&report.paper.name().to_lowercase(), &figure.name);
            files.push(OutputFile::new(&folder.join(name), picture(figure, Format::Svg)?));
        }
    }
    output::make_folder(folder)?;
    output::write(&files)?;
    common.note(format_args!("wrote {} figures to {}", files.len(), folder.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_named_after_its_paper_once() {
        assert_eq!(file_name("codl", "codl-latencies"), "codl-latencies.svg");
        assert_eq!(file_name("unifiedsplitting", "unified-splitting-gains"), "unifiedsplitting-gains.svg");
        assert_eq!(file_name("epew25", "speedup-conv"), "epew25-speedup-conv.svg");
    }
}
