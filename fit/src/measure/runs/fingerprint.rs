//! The measurement conditions of runs: a TOML table next to them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use coexec_sim::input::{InputError, Text, Violation};

/// The conditions of a measurement. Values that could not be read are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Id by which runs refer to it.
    pub id: String,
    /// The device: maker, model, system-on-chip.
    pub device: String,
    /// Version of the tool that measured.
    pub tool_version: String,
    /// GPU driver.
    pub driver: Option<String>,
    /// Version of the GPU's platform, as it reports it: `OpenCL 3.0`.
    pub opencl_version: Option<String>,
    /// Cores that threads were bound to.
    pub affinity: Option<String>,
    /// Frequency governor.
    pub governor: Option<String>,
    /// Clocks of cores and GPU.
    pub clocks: Option<String>,
    /// Temperature before the runs, in degrees Celsius.
    pub temperature_c: Option<f64>,
    /// When the runs were made.
    pub date: Option<String>,
}

/// The file's format.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FingerprintFile {
    #[serde(default)]
    fingerprint: Vec<Fingerprint>,
}

/// The path of the table for a file of runs: `runs.fingerprints.toml` next to `runs.csv`.
pub fn fingerprints_path(runs: &Path) -> PathBuf {
    runs.with_extension("fingerprints.toml")
}

/// The table as TOML.
///
/// # Errors
/// A value cannot be serialised as TOML; all fields above can.
pub fn fingerprints_to_toml(fingerprints: &[Fingerprint]) -> Result<String, toml::ser::Error> {
    toml::to_string(&FingerprintFile { fingerprint: fingerprints.to_vec() })
}

/// Parses the table.
///
/// # Errors
/// Bad TOML, an unknown or missing key, or an id that is empty or duplicated.
pub fn fingerprints_of_toml(text: &Text) -> Result<Vec<Fingerprint>, InputError> {
    let file: FingerprintFile = text.parse()?;
    let mut ids = HashSet::new();
    for (index, fingerprint) in file.fingerprint.iter().enumerate() {
        if fingerprint.id.is_empty() || !ids.insert(fingerprint.id.as_str()) {
            return Err(text.reject(Violation {
                key: format!("fingerprint[{index}].id"),
                found: format!("{:?}", fingerprint.id),
                expected: "an id of its own".to_owned(),
            }));
        }
    }
    Ok(file.fingerprint)
}
