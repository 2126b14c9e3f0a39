//! `coexec import`: converts a model file to a scenario file.

use std::collections::BTreeMap;

use coexec_import::{Imported, ImportedScenario, Replacement};
use coexec_sim::workload::fuse;

use crate::output::{record, row};
use crate::{Common, Failure, Import, OutputFile, Result, output};

pub(crate) fn run(options: &Import, common: &Common) -> Result {
    output::check(&options.out)?;
    output::check_distinct(&options.out, &options.model)?;
    if options.out.extension().is_none_or(|ending| !ending.eq_ignore_ascii_case("toml")) {
        let problem = format!("a scenario is TOML, and --out is {}", options.out.display());
        return Err(Failure::usage(problem, "name a file that ends in .toml"));
    }
    let imported = ImportedScenario::load(&options.model, &options.how.import()?)?;
    let stages = fuse(&imported.model.graph).len();
    output::write(&[OutputFile::encoded(&options.out, imported.to_toml())?])?;
    let model = &imported.model;
    note_differences(model, common);
    let graph = &model.graph;
    let mut other_data_types: BTreeMap<String, usize> = BTreeMap::new();
    for format in graph.nodes().iter().filter_map(|node| node.data_type) {
        *other_data_types.entry(format.to_string()).or_default() += 1;
    }
    if common.json {
        return output::json(&record!(Document {
            /// Operators of the scenario.
            operators: graph.nodes().len(),
            /// Stages after fusion, each of which a framework launches as one layer.
            stages,
            multiply_adds: graph.macs(),
            parameters: graph.parameters(),
            data_type: graph.data_type().to_string(),
            /// Number of operators in other number formats, by format.
            other_data_types,
            coverage: model.coverage,
            /// Unsupported nodes, and what replaces them.
            skipped: &model.skipped,
            /// Nodes approximated by an operator of about the same cost.
            approximated: &model.approximated,
        }));
    }
    let millions = |count: u64| format!("{:.1} M", count as f64 / 1e6);
    let others = other_data_types.iter().map(|(format, count)| format!(", {count} in {format}"));
    let formats: String = [graph.data_type().to_string()].into_iter().chain(others).collect();
    let rows = [
        row!["operators", graph.nodes().len()],
        row!["number format", formats],
        row!["stages, as fused", stages],
        row!["multiply-adds", millions(graph.macs())],
        row!["parameters", millions(graph.parameters())],
    ];
    output::table(&[graph.name(), "number"], rows);
    Ok(())
}

/// Reports on standard error where the scenario differs from the model: approximated nodes in one line
/// per kind, as a network can have hundreds, and unsupported nodes one by one.
fn note_differences(model: &Imported, common: &Common) {
    let mut alike: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for Replacement { node, kind, instead } in &model.approximated {
        alike.entry((kind, instead)).or_default().push(node);
    }
    for ((kind, instead), nodes) in alike {
        let (first, count) = (nodes[0], nodes.len());
        let others = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        common.note(format_args!("{first}{others} ({kind}): approximated by {instead}, at about its cost"));
    }
    for Replacement { node, kind, instead } in output::distinct(&model.skipped) {
        common.note(format_args!("{node} ({kind}) is left out: replaced by {instead}"));
    }
}
