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
mod model;
mod onnx;
mod operators;
mod patterns;
mod prune;
mod scenario;
mod tflite;
mod view;

use std::collections::BTreeMap;

pub use error::{ImportError, Problem};
pub use scenario::{ImportedScenario, load};

use coexec_sim::workload::{Graph, Shape};

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
        if extension.eq_ignore_ascii_case("onnx") {
            Some(Self::Onnx)
        } else if extension.eq_ignore_ascii_case("tflite") {
            Some(Self::TfLite)
        } else {
            None
        }
    }
}

/// How to import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Extents that the file leaves open, by name; 1 where not given.
    pub dimensions: BTreeMap<String, u32>,
    /// Whether a node without counterpart is replaced by the closest operator.
    pub skip_unknown: bool,
}

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

/// A tensor that is given to a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenInput {
    /// Name, unlike any other input's or node's.
    pub name: String,
    /// Extent.
    pub shape: Shape,
}

/// An imported model.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The workload.
    pub graph: Graph,
    /// Names of the graph's inputs, in its order: the model's, and constants that an
    /// operator reads beside its weights.
    pub inputs: Vec<GivenInput>,
    /// Nodes without a counterpart, and what stands in their place.
    pub skipped: Vec<Replacement>,
    /// Nodes whose counterpart costs about as much, but is something else.
    pub approximated: Vec<Replacement>,
    /// Extents that the file leaves open, and what they were taken to be.
    pub dimensions: BTreeMap<String, u32>,
}

/// The workload of the model in `bytes`.
///
/// # Errors
/// Where the bytes are no such model, a node has no counterpart (unless they are
/// skipped) or makes no sense, or a dimension is set that the model has not.
pub fn import(
    format: ModelFormat,
    name: &str,
    bytes: Vec<u8>,
    options: &ImportOptions,
) -> Result<Imported, ImportError> {
    let (mut model, dimensions) = match format {
        ModelFormat::Onnx => onnx::read(bytes, &options.dimensions)?,
        ModelFormat::TfLite => (tflite::read(&bytes)?, BTreeMap::new()),
    };
    if let Some(name) = options.dimensions.keys().find(|name| !dimensions.contains_key(*name)) {
        let known = dimensions.into_keys().collect();
        return Err(ImportError::NoSuchDimension { name: name.clone(), known });
    }
    patterns::rewrite(&mut model);
    let mut converted = convert::convert(&model, options)?;
    prune::prune(&mut converted);
    let shapes = converted.inputs.iter().map(|input| input.shape).collect();
    let graph = Graph::new(name, model.data_type, shapes, converted.nodes)?;
    Ok(Imported {
        graph,
        inputs: converted.inputs,
        skipped: converted.skipped,
        approximated: converted.approximated,
        dimensions,
    })
}

#[cfg(test)]
mod tests;
