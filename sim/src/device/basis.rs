//! What the values of a table rest on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

/// What the times that a table gives rest on, the best first. A table that does not say is taken
/// to be assumed: what nobody vouches for must not pass for a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Basis {
    /// Runs on this device.
    Measured,
    /// What measured devices predict, carried over by the hardware; the error of doing so was measured.
    Transferred,
    /// Rates of other devices, formats or kernels, by clocks, widths and instructions.
    Scaled,
    /// What nobody measured.
    #[default]
    Assumed,
    /// Nothing: there are no times. No table says so.
    #[serde(skip_deserializing)]
    #[strum(serialize = "not known")]
    NotKnown,
}
