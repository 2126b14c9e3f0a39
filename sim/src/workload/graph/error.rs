//! Errors of graphs, and how to fix them.

use strum::EnumMessage;
use thiserror::Error;

use super::Source;
use crate::workload::{MAX_WORK, OperatorError, Shape};

/// Why a graph is invalid.
#[derive(Clone, Debug, PartialEq, Eq, EnumMessage, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum GraphError {
    /// A graph without nodes.
    #[error("the graph has no operators")]
    #[strum(message = "List at least one operator.")]
    Empty,
    /// A graph input whose extent is out of range.
    #[error("graph input {index}: {error}")]
    Input { index: u32, error: OperatorError },
    /// An operator that is unsound by itself.
    #[error("{node}: {error}")]
    Operator { node: String, error: OperatorError },
    /// A name used twice.
    #[error("two operators are named {node}")]
    #[strum(message = "Give each operator a name of its own.")]
    DuplicateName { node: String },
    /// A source that does not exist.
    #[error("{node} reads {}, but there are only {limit}", describe(*read))]
    #[strum(message = "Sources count from 0.")]
    UnknownSource { node: String, read: Source, limit: usize },
    /// A source that does not precede its reader.
    #[error("{node} reads {read}, which is not computed before it")]
    #[strum(message = "List the operators so that each reads only earlier ones.")]
    ForwardSource { node: String, read: String },
    /// More or fewer sources than the operator reads.
    #[error("{node} lists {found} inputs, but its operator reads {expected}")]
    #[strum(message = "Give one source for each tensor that the operator reads.")]
    InputCount { node: String, found: usize, expected: usize },
    /// A source of another extent than the operator expects.
    #[error("{node} reads {expected} but {read} writes {found}")]
    #[strum(message = "Make the dimensions agree, or put a reshape, slice or concatenation between the two.")]
    Mismatch { node: String, read: String, found: Shape, expected: Shape },
    /// An operator that works along the dimension to which a batch would be added.
    #[error(
        "{node} ({kind}) works along the outermost dimension of its tensor, where a larger batch would go"
    )]
    #[strum(message = "Remove the batch.")]
    NoBatch { node: String, kind: &'static str },
    /// An operator that shares weights which no operator before it has.
    #[error("{node} shares the weights of an operator above, but none has as many weights")]
    #[strum(message = "Remove `shares_weights`, or list the operator with these weights first.")]
    NoneShares { node: String },
    /// Totals over the whole graph beyond [`MAX_WORK`].
    #[error("up to {node} the graph has more than {MAX_WORK} multiply-accumulates or parameters")]
    #[strum(message = "Simulate the graph in parts.")]
    TooLarge { node: String },
}

impl GraphError {
    /// The node concerned, if any.
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Empty | Self::Input { .. } => None,
            Self::Operator { node, .. }
            | Self::DuplicateName { node }
            | Self::UnknownSource { node, .. }
            | Self::ForwardSource { node, .. }
            | Self::InputCount { node, .. }
            | Self::Mismatch { node, .. }
            | Self::NoBatch { node, .. }
            | Self::NoneShares { node }
            | Self::TooLarge { node } => Some(node),
        }
    }

    /// How to fix it, in one sentence.
    pub fn help(&self) -> &'static str {
        if let Self::Input { error, .. } | Self::Operator { error, .. } = self {
            return error.help();
        }
        self.get_message().unwrap_or_default()
    }
}

fn describe(source: Source) -> String {
    match source {
        Source::Input(index) => format!("graph input {index}"),
        Source::Node(id) => format!("operator {}", id.0),
    }
}
