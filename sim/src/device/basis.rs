//! Evidence behind the values of a table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

/// Evidence behind a table's times, best first. A table that does not state its basis is treated as
/// assumed, so that an unverified value never passes for a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Basis {
    /// Measured on this device.
    Measured,
    /// Predicted from measured devices and hardware data; the error of that transfer was measured.
    Transferred,
    /// Scaled from other devices, formats or kernels by clocks, widths and instructions.
    Scaled,
    /// Unmeasured.
    #[default]
    Assumed,
    /// No times exist. Not used in tables.
    #[serde(skip_deserializing)]
    #[strum(serialize = "not known")]
    NotKnown,
}
