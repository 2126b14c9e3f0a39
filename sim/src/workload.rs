//! WHAT is computed: tensors, operators, layers and graphs.
//!
//! Responsible for: shapes, multiply-accumulate and parameter counts, graph
//! checking, the networks and operator sets of the papers. Not for: time; nothing
//! here depends on a device. Invariant: an [`Operator`] contains every dimension
//! it needs, so a kernel model sees one operator and nothing else.

pub(crate) mod assemble;
mod fuse;
mod graph;
mod language_model;
mod layer;
mod networks;
mod operator;
mod operator_sets;
mod shape;

pub use assemble::{InputTable, constants};
pub use fuse::{Read, Stage, fuse};
pub use graph::{Graph, GraphBuilder, GraphError, Node, NodeId, Source};
pub use language_model::{
    ConfigError, GraphContexts, LanguageModel, LanguageTask, StepParts, StepStages, TokenStep, Turn,
    WeightFormat, language_model, language_models,
};
pub use layer::{Layer, Linked};
pub use networks::{network, networks};
pub use operator::*;
pub use operator_sets::{OPERATOR_SETS, OperatorSet, operator_set};
pub use shape::{DataType, Dimension, Layout, Padding, Shape};

/// Number of channels in one slice: GPU tensors store channels in groups of
/// four, one RGBA texel or `half4` each (TFLite GPU delegate).
pub const CHANNELS_PER_SLICE: u32 = 4;

/// Number of four-channel slices that hold `channels`.
pub fn slices(channels: u32) -> u32 {
    channels.div_ceil(CHANNELS_PER_SLICE)
}
