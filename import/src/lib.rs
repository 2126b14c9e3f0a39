//! Models of others as workloads: ONNX and `TFLite` files.
//!
//! Responsible for: a file's bytes to a checked [`Graph`], and telling what in the file
//! has no counterpart. Not for: weights, which are never read; nor for fusing, which
//! [`coexec_sim::workload::fuse`] does with every graph.
//! Invariant: no bytes make this panic, and what it computes for a file is bounded by
//! the file's size.
//!
//! The way of a model: `onnx.rs` or `tflite.rs` reads it into nodes and tensors of one
//! vocabulary (`model.rs`); `patterns.rs` finds functions that an exporter spelled out
//! (GELU, swish, norms); `convert.rs` turns nodes into operators, computing shapes on
//! the way (`fold.rs`); `prune.rs` leaves out what no output needs.
//!
//! ONNX is decoded by `prost` into a few messages written by hand: generated code would
//! need a compiler of the schema and read the weights. `TFLite` is read by a small
//! bounds-checked reader of our own (`tflite/table.rs`): the `flatbuffers` crate offers
//! tables without generated code through `unsafe` functions only, which this crate
//! forbids, and the `tflite` crate builds the C++ runtime.

#![forbid(unsafe_code)]
#![allow(clippy::cast_possible_wrap, reason = "ranks, counts and places are far below 2^63")]

mod convert;
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
pub use error::{ImportError, Problem};
pub use scenario::{ImportedScenario, load};

use coexec_sim::Graph;
use coexec_sim::workload::InputTable;
use convert::Converted;

/// Format of a model file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// `.onnx`
    Onnx,
    /// `.tflite`
    TfLite,
}

impl ModelFormat {
    /// The format that a file's name says, if it says one.
    pub fn of_name(name: &str) -> Option<Self> {
        let extension = std::path::Path::new(name).extension()?;
        let formats = [("onnx", Self::Onnx), ("tflite", Self::TfLite)];
        formats.into_iter().find(|(own, _)| extension.eq_ignore_ascii_case(own)).map(|(_, format)| format)
    }
}

/// How to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Extents that the file leaves open, by name, and numbers of inputs that have one element.
    pub dimensions: BTreeMap<String, u32>,
    /// Which of several functions that a file offers under names (a language model's prompt and its next token, say).
    pub signature: Option<String>,
    /// Whether a node without counterpart is replaced by the closest operator.
    pub skip_unknown: bool,
    /// How much of a model must have a counterpart, in percent of its nodes and of the
    /// elements that they read and write.
    pub least_covered_percent: u32,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            dimensions: BTreeMap::new(),
            signature: None,
            skip_unknown: false,
            least_covered_percent: LEAST_COVERED_PERCENT,
        }
    }
}

/// Less of a model than this is no answer about it, unless that is asked for: what is left out
/// may well be what takes the time.
pub const LEAST_COVERED_PERCENT: u32 = 90;

/// Dimensions that a model leaves open, and where the first of that name is.
pub type OpenDimensions = BTreeMap<String, String>;

/// Something else in the place of a node.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Replacement {
    /// Name of the node.
    pub node: String,
    /// What the file calls it.
    pub kind: String,
    /// What stands in its place.
    pub instead: String,
}

/// An imported model.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The workload.
    pub graph: Graph,
    /// The graph's inputs, in its order: the model's, and constants that an operator reads beside
    /// its weights. Their names are unlike any other input's or node's.
    pub inputs: Vec<InputTable>,
    /// Nodes without a counterpart, and what stands in their place.
    pub skipped: Vec<Replacement>,
    /// Nodes whose counterpart costs about as much, but is something else.
    pub approximated: Vec<Replacement>,
    /// How much of the file they are.
    pub coverage: Coverage,
}

/// How much of a model has a counterpart.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Coverage {
    /// Nodes of the file.
    pub nodes: usize,
    /// Those without a counterpart.
    pub skipped: usize,
    /// Those that have one, and read extents that were guessed for others or follow from such.
    pub following: usize,
    /// Part of the elements read and written that others read and write, in percent; none where extents are guessed.
    pub elements_percent: Option<f64>,
    /// Part of the multiply-adds that is known to be theirs, in percent, where each weight of those without a
    /// counterpart multiplies once: it is no larger. None where extents are guessed.
    pub multiply_adds_percent: Option<f64>,
}

impl Coverage {
    fn new(nodes: usize, converted: &Converted) -> Self {
        let names: BTreeSet<&str> = converted.skipped.iter().map(|skipped| skipped.node.as_str()).collect();
        let following = converted.following.iter().filter(|name| !names.contains(name.as_str())).count();
        let (mut elements, mut macs) = ([0_u64; 2], 0);
        for node in &converted.nodes {
            let moved = node.operator.input_elements() + node.operator.output().elements();
            elements[usize::from(converted.uncovered.contains(&node.name))] += moved;
            macs += node.operator.macs();
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

    /// The smallest of the parts, in percent; 0 where one is not known.
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
            f.write_str("an unknown part of what they read, write and multiply, as extents are guessed")
        }
    }
}

/// The workload of the model in `bytes`.
///
/// # Errors
/// Where the bytes are no such model, a node has no counterpart (unless they are
/// skipped) or makes no sense, too little of the model is left, a dimension is open, or one is
/// set that the model has not.
pub fn import(
    format: ModelFormat,
    name: &str,
    bytes: Vec<u8>,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    let read = match format {
        ModelFormat::Onnx => {
            let length = bytes.len() as u64;
            onnx::read((Cursor::new(bytes), length), options)?
        }
        ModelFormat::TfLite => tflite::read(&bytes, options)?,
    };
    imported(name, read, options)
}

/// The workload of a model that was read, with the dimensions that it leaves open.
fn imported(
    name: &str,
    (mut model, dimensions): (model::Model, OpenDimensions),
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    for (name, &number) in options.dimensions.iter().filter(|(name, _)| !dimensions.contains_key(*name)) {
        if !model.give_number(name, number) {
            let known = dimensions.into_keys().collect();
            return Err(ImportError::NoSuchDimension { name: name.clone(), known });
        }
    }
    let mut open = dimensions;
    open.retain(|name, _| !options.dimensions.contains_key(name));
    if !open.is_empty() {
        return Err(ImportError::OpenDimensions(open));
    }
    let nodes = model.nodes.len();
    patterns::rewrite(&mut model);
    let mut converted = convert::convert(&model, options)?;
    prune::prune(&mut converted);
    let coverage = Coverage::new(nodes, &converted);
    if coverage.percent() < f64::from(options.least_covered_percent) {
        let kinds: BTreeSet<&str> = converted.skipped.iter().map(|skipped| skipped.kind.as_str()).collect();
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        return Err(ImportError::Covered { coverage: coverage.to_string(), kinds });
    }
    let Converted { inputs, nodes, skipped, approximated, .. } = converted;
    let shapes = inputs.iter().map(|input| input.extent).collect();
    let graph = Graph::new(name, model.data_type, shapes, nodes)?;
    Ok(Imported { graph, inputs, skipped, approximated, coverage })
}

#[cfg(test)]
mod tests;
