//! `coexec import`: a model of another tool to a scenario file.

use std::collections::BTreeMap;

use coexec_import::{Imported, ImportedScenario, Replacement};
use coexec_sim::workload::fuse;

use crate::output::{record, row};
use crate::{Common, Import, OutputFile, Result, output};

pub(crate) fn run(options: &Import, common: &Common) -> Result {
    output::check(&options.out)?;
    output::check_apart(&options.out, &options.model)?;
    let imported = ImportedScenario::load(&options.model, &options.how.import()?)?;
    let stages = fuse(&imported.model.graph).len();
    output::write(&[OutputFile::encoded(&options.out, imported.to_toml())?])?;
    let model = &imported.model;
    tell(model, common);
    let graph = &model.graph;
    let mut other_data_types: BTreeMap<String, usize> = BTreeMap::new();
    for format in graph.nodes().iter().filter_map(|node| node.data_type) {
        *other_data_types.entry(format.to_string()).or_default() += 1;
    }
    if common.json {
        output::json(&record!(Document {
            /// Operators of the scenario.
            operators: graph.nodes().len(),
            /// What they are fused to: layers that a framework launches.
            stages,
            multiply_adds: graph.macs(),
            parameters: graph.parameters(),
            data_type: graph.data_type().to_string(),
            /// How many operators have another number format, by format.
            other_data_types,
            coverage: model.coverage,
            /// Nodes without counterpart, and what is in their place.
            skipped: &model.skipped,
            /// Nodes whose counterpart is something else at about the same cost.
            approximated: &model.approximated,
        }));
    } else {
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
    }
    Ok(())
}

/// Says on standard error what the scenario is not: what stands for something of about its cost in
/// a line a kind, as a network has hundreds; what has no counterpart node by node.
fn tell(model: &Imported, common: &Common) {
    let mut alike: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for Replacement { node, kind, instead } in &model.approximated {
        alike.entry((kind, instead)).or_default().push(node);
    }
    for ((kind, instead), nodes) in alike {
        let (first, count) = (nodes[0], nodes.len());
        let others = if count > 1 { format!(" and {} more", count - 1) } else { String::new() };
        common.note(format_args!("{first}{others} ({kind}): {instead}, stands for it at about its cost"));
    }
    for Replacement { node, kind, instead } in &model.skipped {
        common.note(format_args!("{node} ({kind}) has no counterpart: {instead}, is in its place"));
    }
}
