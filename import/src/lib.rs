//! Imports ONNX and `TFLite` models as workloads.
//!
//! Responsible for: converting a file's bytes to a checked [`Graph`], and reporting nodes
//! without a counterpart. Not for: weights, which are never read, or fusion, which
//! [`coexec_sim::workload::fuse`] applies to every graph.
//! Invariants: no bytes make this crate panic, and the work for a file is bounded by the
//! file's size.
//!
//! The pipeline: `onnx.rs` or `tflite.rs` reads a model into nodes and tensors of one
//! vocabulary (`model.rs`); `patterns.rs` recognises functions that an exporter decomposed
//! (GELU, swish, norms); `convert.rs` turns nodes into operators, with shape inference and
//! constant folding (`fold.rs`) on the way; `prune.rs` removes what no output needs.
//!
//! ONNX is decoded by `prost` into a few handwritten messages: generated code would need
//! `protoc` and would read the weights. `TFLite` is read by a small bounds-checked reader
//! (`tflite/table.rs`): the `flatbuffers` crate offers tables without generated code only
//! through `unsafe` functions, which this crate forbids, and the `tflite` crate builds the
//! C++ runtime.

#![forbid(unsafe_code)]
#![allow(clippy::cast_possible_wrap, reason = "ranks, counts and indices are far below 2^63")]

mod convert;
mod dimensions;
mod error;
mod fold;
mod majority;
mod model;
mod onnx;
mod operators;
mod patterns;
mod prune;
mod scenario;
mod tflite;
mod view;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::Cursor;

pub use convert::node_name;
pub use error::{ImportError, Problem, UnsetDimension};
pub use scenario::{ImportedScenario, ReadScenario, load, read_each};

use coexec_sim::Graph;
use coexec_sim::workload::{InputTable, constants};
use convert::Converted;

/// The outcome of an import.
pub type Result<T, E = ImportError> = std::result::Result<T, E>;

/// Format of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// `.onnx`
    Onnx,
    /// `.tflite`
    TfLite,
}

impl ModelFormat {
    /// The format implied by the extension of a file's name; `None` for other extensions.
    pub fn of_name(name: &str) -> Option<Self> {
        let extension = std::path::Path::new(name).extension()?;
        let formats = [("onnx", Self::Onnx), ("tflite", Self::TfLite)];
        formats.into_iter().find(|(own, _)| extension.eq_ignore_ascii_case(own)).map(|(_, format)| format)
    }
}

/// Options of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Sizes of symbolic dimensions, by name, and values of scalar inputs, by the input's name.
    pub dimensions: BTreeMap<String, u32>,
    /// Which of several named functions (signatures) of a file to import, such as the prefill and decode of a
    /// language model.
    pub signature: Option<String>,
    /// Whether a node without counterpart is replaced by the closest operator.
    pub skip_unknown: bool,
    /// Minimum coverage ([`Coverage::percent`]) of the model.
    pub least_covered_percent: u32,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            dimensions: BTreeMap::new(),
            signature: None,
            skip_unknown: false,
            least_covered_percent: MIN_COVERED_PERCENT,
        }
    }
}

/// Default minimum coverage. Below it a prediction says little about the model, since the skipped
/// nodes may dominate its time.
pub const MIN_COVERED_PERCENT: u32 = 90;

/// Symbolic dimensions of a model, each with the place of its first occurrence.
pub type OpenDimensions = BTreeMap<String, String>;

/// A node that was replaced.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Replacement {
    /// Name of the node.
    pub node: String,
    /// Its operator type in the file.
    pub kind: String,
    /// Its replacement.
    pub instead: String,
}

/// An imported model.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The workload.
    pub graph: Graph,
    /// The graph's inputs, in its order: those of the model, and constants that operators read in addition
    /// to their weights. Their names are unique among inputs and nodes.
    pub inputs: Vec<InputTable>,
    /// Nodes without a counterpart, with their replacements.
    pub skipped: Vec<Replacement>,
    /// Nodes replaced by a different operator of about the same cost.
    pub approximated: Vec<Replacement>,
    /// How much of the model has a counterpart.
    pub coverage: Coverage,
}

/// How much of a model has a counterpart.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Coverage {
    /// Number of nodes in the file.
    pub nodes: usize,
    /// Number of nodes without a counterpart.
    pub skipped: usize,
    /// Number of nodes that have one, but whose extents follow from guessed extents of skipped nodes.
    pub following: usize,
    /// Elements read and written by the covered nodes, in percent of all; `None` where extents are guessed.
    pub elements_percent: Option<f64>,
    /// Upper bound of the multiply-adds of the covered nodes, in percent of all, from the assumption that each
    /// weight of a skipped node multiplies only once. `None` where extents are guessed.
    pub multiply_adds_percent: Option<f64>,
}

impl Coverage {
    fn new(nodes: usize, converted: &Converted) -> Self {
        let names: BTreeSet<&str> = converted.skipped.iter().map(|skipped| skipped.node.as_str()).collect();
        let following = converted.following.iter().filter(|name| !names.contains(name.as_str())).count();
        let (mut elements, mut macs) = ([0_u64; 2], 0);
        for node in &converted.nodes {
            let moved = node.operator.input_elements() + node.operator.output().elements();
            let sum = &mut elements[usize::from(converted.uncovered.contains(&node.name))];
            *sum = sum.saturating_add(moved);
            macs = u64::saturating_add(macs, node.operator.macs());
        }
        let given = converted.inputs.iter().filter(|input| converted.uncovered.contains(&input.name));
        elements[1] += given.map(|input| input.extent.elements()).sum::<u64>();
        let skipped_macs =
            converted.skipped_weights.values().fold(0, |sum: u64, &count| sum.saturating_add(count));
        let percent = |[covered, skipped]: [u64; 2]| {
            let part = 100.0 * covered as f64 / (covered as f64 + skipped as f64);
            (!converted.is_guessed).then_some(if skipped > 0 { part } else { 100.0 })
        };
        let (elements_percent, multiply_adds_percent) = (percent(elements), percent([macs, skipped_macs]));
        Self { nodes, skipped: names.len(), following, elements_percent, multiply_adds_percent }
    }

    fn covered(&self) -> usize {
        self.nodes - (self.skipped + self.following).min(self.nodes)
    }

    /// The smallest of the three percentages: nodes, elements, multiply-adds; 0 where one is unknown.
    pub fn percent(&self) -> f64 {
        if self.nodes == 0 {
            return 100.0;
        }
        let nodes = 100.0 * self.covered() as f64 / self.nodes as f64;
        [self.elements_percent, self.multiply_adds_percent]
            .into_iter()
            .fold(nodes, |least, part| least.min(part.unwrap_or_default()))
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} nodes, ", self.covered(), self.nodes)?;
        if let (Some(elements), Some(macs)) = (self.elements_percent, self.multiply_adds_percent) {
            write!(
                f,
                "{elements:.1} % of what they read and write, at most {macs:.1} % of their multiply-adds"
            )
        } else {
            f.write_str("an unknown part of what they read, write and multiply, since extents are guessed")
        }
    }
}

/// Imports the model in `bytes`.
///
/// # Errors
/// The bytes are not a model of that format, a node is invalid or has no counterpart (unless
/// such nodes are skipped), the coverage is too low, a symbolic dimension is not set, or a
/// dimension is set that the model does not have.
pub fn import(format: ModelFormat, name: &str, bytes: Vec<u8>, options: &ImportOptions) -> Result<Imported> {
    let read = match format {
        ModelFormat::Onnx => {
            let length = bytes.len() as u64;
            onnx::read((Cursor::new(bytes), length), None, options)?
        }
        ModelFormat::TfLite => tflite::read(&bytes, options)?,
    };
    imported(name, read, options)
}

/// Converts a model that was read, given with its symbolic dimensions.
fn imported(
    name: &str,
    (mut model, dimensions): (model::Model, OpenDimensions),
    options: &ImportOptions,
) -> Result<Imported> {
    dimensions::set(&mut model, dimensions, options)?;
    let nodes = model.nodes.iter().map(|node| node.with_inner().len()).sum();
    patterns::rewrite(&mut model);
    let mut converted = convert::convert(&model, options)?;
    prune::prune(&mut converted);
    let coverage = Coverage::new(nodes, &converted);
    if coverage.percent() < f64::from(options.least_covered_percent) {
        let kinds: BTreeSet<&str> = converted.skipped.iter().map(|skipped| skipped.kind.as_str()).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        let percent = coverage.percent() as u32;
        return Err(ImportError::Covered { coverage: coverage.to_string(), kinds, percent });
    }
    let Converted { inputs, nodes, skipped, approximated, .. } = converted;
    let shapes = inputs.iter().map(|input| input.extent).collect();
    let graph = Graph::new(name, model.data_type, shapes, nodes)?.with_constants(constants(&inputs));
    Ok(Imported { graph, inputs, skipped, approximated, coverage })
}

#[cfg(test)]
mod tests;
