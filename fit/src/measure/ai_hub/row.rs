//! A row of the table.

use std::sync::Arc;

use serde::Deserialize;

use super::super::{Run, time_in};
use super::{Format, Inference, Network, OnUnit, Runtime};
use coexec_sim::ProcessorKind;

/// Help of an error in the table.
pub(super) const HELP: &str = "give a folder of AI Hub's measurements, such as data/aihub";

/// The relevant cells of a row, unparsed.
#[derive(Debug, Deserialize)]
pub(super) struct Cells {
    pub(super) family: String,
    pub(super) graph: String,
    pub(super) chip: String,
    runtime: String,
    precision: String,
    time_us: String,
    unit: String,
    pub(super) date: String,
    /// `head` for the current version of the models.
    pub(super) origin: String,
    /// `head spec` where the graph is known to have the measured input.
    pub(super) input_checked: String,
    pub(super) job_id: String,
}

/// A usable row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) run: Run<()>,
    pub(super) cells: Cells,
    pub(super) unit: ProcessorKind,
    pub(super) runtime: Runtime,
    pub(super) format: Format,
    /// Whether it is the model's reference.
    pub(super) is_reference: bool,
}

impl Row {
    /// Parses the cells of a row, or returns the reason that it is unusable.
    pub(super) fn of(cells: Cells, line: u64) -> Result<Self, String> {
        let unit = match ProcessorKind::named(&cells.unit) {
            Some(unit) => unit,
            None if cells.unit == "mixed" => return Err("its layers ran on several units".to_owned()),
            None => return Err(format!("the unit is {:?}, expected npu, gpu, cpu or mixed", cells.unit)),
        };
        if cells.graph.is_empty() {
            return Err("there is no graph of the model".to_owned());
        }
        if cells.graph.contains(['/', '\\']) {
            return Err(format!("the graph {:?} is a path, not a name", cells.graph));
        }
        let runtime =
            (cells.runtime.parse()).map_err(|_| format!("the runtime {:?} is not known", cells.runtime))?;
        let format = (cells.precision.parse())
            .map_err(|_| format!("the number format {:?} is unknown or mixed", cells.precision))?;
        let run = Run::timed(&cells.graph, (time_in(&cells.time_us)?, None), line)?;
        Ok(Self { run, cells, unit, runtime, format, is_reference: false })
    }

    /// The row as an inference of `network`.
    pub(super) fn inference(&self, network: Arc<Network>) -> Inference {
        self.run.clone().of(OnUnit {
            // A model of no known family is a family of its own.
            family: if self.cells.family.is_empty() { &self.run.network } else { &self.cells.family }.clone(),
            unit: self.unit,
            runtime: self.runtime,
            format: self.format,
            is_reference: self.is_reference,
            job: self.cells.job_id.clone(),
            network,
        })
    }
}
