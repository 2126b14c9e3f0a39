//! Why a model cannot be imported.

use thiserror::Error;

use super::OpenDimensions;

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
    /// The file leaves dimensions of its inputs open.
    #[error("the model leaves open {}", places(.0))]
    OpenDimensions(OpenDimensions),
    /// Too little of the model has a counterpart.
    #[error("too little of the model has a counterpart: {coverage}; without one: {kinds}")]
    Covered {
        /// How much is left.
        coverage: String,
        /// What the file calls the others.
        kinds: String,
    },
    /// A dimension was set that the model has not.
    #[error("the model has no dimension named {name:?}")]
    NoSuchDimension {
        /// The name.
        name: String,
        /// Names there are.
        known: Vec<String>,
    },
    /// The file offers several functions, and none was chosen.
    #[error("the file offers several functions, each a graph of its own: {}", known.join(", "))]
    SeveralSignatures {
        /// Their names.
        known: Vec<String>,
    },
    /// A function was chosen that the file does not offer.
    #[error("the file offers no function named {name:?}")]
    NoSuchSignature {
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
    /// Its operands do not fit it, and their extents were guessed.
    #[error("follows from extents of {from}, which has no counterpart, and they are guessed: {reason}")]
    Guessed {
        /// The node that was skipped.
        from: String,
        /// What does not fit.
        reason: String,
    },
}

impl Problem {
    /// The problem of a node whose operands' extents follow from a skipped one, if they do.
    pub(super) fn after(self, skipped: Option<&str>) -> Self {
        match (self, skipped) {
            (Self::Unsound(reason), Some(from)) => Self::Guessed { from: from.to_owned(), reason },
            (problem, _) => problem,
        }
    }
}

fn places(open: &OpenDimensions) -> String {
    open.iter().map(|(name, place)| format!("{name} ({place})")).collect::<Vec<_>>().join(", ")
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
            Self::Node { problem: Problem::Unsound(_), .. } | Self::Graph(_) => {
                "check that the runtime accepts the model, with the dimensions that --dim sets".to_owned()
            }
            Self::Node { problem: Problem::Guessed { from, .. }, .. } => {
                format!("export the model without {from}, or so that the file says the extents of its results")
            }
            Self::OpenDimensions(open) => {
                let set: Vec<String> = open.keys().map(|name| format!("--dim {name}=N")).collect();
                let batch = open.iter().find(|(_, place)| place.starts_with("axis 0 "));
                let batch = batch.map(|(name, _)| format!("; where {name} is a batch, 1 is one input at a time"));
                format!("say how large they are: {}{}", set.join(" "), batch.unwrap_or_default())
            }
            Self::Covered { .. } => {
                "what is left out may be what takes the time; export the model without it, or so that the file says \
                 its extents, or ask for the rest with a lower --least-covered"
                    .to_owned()
            }
            Self::NoSuchDimension { known, .. } if known.is_empty() => {
                "the model's inputs have fixed extents; leave --dim out".to_owned()
            }
            Self::NoSuchDimension { known, .. } => format!("it leaves open {}", known.join(", ")),
            Self::SeveralSignatures { known } => {
                let first = known.first().map_or("NAME", String::as_str);
                format!(
                    "say which with --signature, such as --signature {first}; a plan of one is not one of the others"
                )
            }
            Self::NoSuchSignature { known, .. } if known.is_empty() => {
                "its graph has no other name than the file; leave --signature out".to_owned()
            }
            Self::NoSuchSignature { known, .. } => format!("it offers {}", known.join(", ")),
        }
    }
}
