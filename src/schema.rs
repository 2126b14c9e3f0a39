//! `coexec schema`: prints the JSON Schema of a file format.

use coexec_fit::measure::runs::Row;
use coexec_sim::scenario::ScenarioFile;
use coexec_sim::{PlanFile, Profile};
use schemars::schema_for;

use crate::{Result, Schema, SchemaName, output};

pub(crate) fn run(options: &Schema) -> Result {
    let schema = match options.format {
        SchemaName::Profile => schema_for!(Profile),
        SchemaName::Scenario => schema_for!(ScenarioFile),
        SchemaName::Plan => schema_for!(PlanFile),
        SchemaName::Runs => schema_for!(Row),
    };
    output::json(&schema)
}
