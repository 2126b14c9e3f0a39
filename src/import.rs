//! `coexec import`: a model of another tool to a scenario file.

use coexec_sim::scenario::ImportedScenario;
use coexec_sim::workload::import::{ImportOptions, Imported, Replacement};
use serde::Serialize;

use crate::cli::{Common, Import};
use crate::failure::Failure;
use crate::output::{self, OutputFile};

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    /// Operators of the scenario.
    operators: usize,
    /// What they are fused to: layers that a framework launches.
    stages: usize,
    multiply_adds: u64,
    parameters: u64,
    data_type: String,
    /// Nodes without counterpart, and what is in their place.
    skipped: &'a [Replacement],
    /// Nodes whose counterpart is something else at about the same cost.
    approximated: &'a [Replacement],
}

pub(crate) fn run(options: &Import, common: &Common) -> Result<(), Failure> {
    output::check(&options.out)?;
    let how = ImportOptions {
        dimensions: options.dimensions.iter().cloned().collect(),
        skip_unknown: options.skip_unknown,
    };
    let imported = ImportedScenario::load(&options.model, &how)?;
    let stages = imported.stages().len();
    output::write(&[OutputFile { path: &options.out, content: imported.text.into_bytes() }])?;
    let model = &imported.model;
    if !common.quiet {
        tell(model, &how);
    }
    if common.json {
        let graph = &model.graph;
        output::json(&Document {
            operators: graph.nodes().len(),
            stages,
            multiply_adds: graph.macs(),
            parameters: graph.parameters(),
            data_type: graph.data_type().to_string(),
            skipped: &model.skipped,
            approximated: &model.approximated,
        });
    } else {
        let row = |what: &str, number: String| vec![what.to_owned(), number];
        output::table(
            &[model.graph.name(), "number"],
            &[
                row("operators", model.graph.nodes().len().to_string()),
                row("stages, as fused", stages.to_string()),
                row("multiply-adds", format!("{:.1} M", model.graph.macs() as f64 / 1e6)),
                row("parameters", format!("{:.1} M", model.graph.parameters() as f64 / 1e6)),
            ],
        );
    }
    Ok(())
}

/// Says on standard error what the scenario is not.
fn tell(model: &Imported, how: &ImportOptions) {
    for (name, extent) in &model.dimensions {
        if !how.dimensions.contains_key(name) {
            eprintln!("{name} is taken to be {extent} (--dim {name}=N)");
        }
    }
    for Replacement { node, kind, instead } in &model.approximated {
        eprintln!("{node} ({kind}): {instead}, stands for it");
    }
    for Replacement { node, kind, instead } in &model.skipped {
        eprintln!("{node} ({kind}) has no counterpart: {instead}, is in its place");
    }
}
