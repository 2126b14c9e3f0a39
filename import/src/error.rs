//! Why a model cannot be imported.

use thiserror::Error;

use coexec_sim::workload::GraphError;

/// Why a model cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// The bytes are not of that format.
    #[error("this is no {format} model: {reason}")]
    NotAModel {
        /// `ONNX` or `TFLite`.
        format: &'static str,
        /// What does not parse.
        reason: String,
    },
    /// A node that cannot be converted.
    #[error("{node} ({kind}) {problem}")]
    Node {
        /// Name of the node.
        node: String,
        /// What the file calls it.
        kind: String,
        /// What is wrong with it.
        problem: Problem,
    },
    /// A dimension was set that the model has not.
    #[error("the model has no dimension named {name:?}")]
    NoSuchDimension {
        /// The name.
        name: String,
        /// Names there are.
        known: Vec<String>,
    },
    /// The operators make no graph.
    #[error("the model's operators make no workload: {0}")]
    Graph(#[from] GraphError),
}

/// What is wrong with a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Nothing in a scenario stands for it, or for what is missing there.
    #[error("has no counterpart: {0}")]
    Unknown(String),
    /// Its operands do not fit it.
    #[error("does not make sense: {0}")]
    Unsound(String),
}

impl ImportError {
    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::NotAModel { .. } => "give an .onnx file of ONNX, or a .tflite file of TensorFlow Lite; \
                                       is this the right file, and is it whole?"
                .to_owned(),
            Self::Node { problem: Problem::Unknown(_), .. } => {
                "import with --skip-unknown, which puts the closest operator in its place \
                                     and says so, or export the model without it"
                    .to_owned()
            }
            Self::Node { problem: Problem::Unsound(_), .. } => {
                "check that the runtime accepts the model; dimensions that the file leaves \
                                     open are 1 unless set with --dim NAME=N"
                    .to_owned()
            }
            Self::NoSuchDimension { known, .. } if known.is_empty() => {
                "the model's inputs have fixed extents; leave --dim out".to_owned()
            }
            Self::NoSuchDimension { known, .. } => format!("it leaves open {}", known.join(", ")),
            Self::Graph(error) => error.help().to_owned(),
        }
    }
}
