//! Why a model cannot be imported.

use thiserror::Error;

use super::OpenDimensions;

use coexec_sim::workload::GraphError;

/// Why a model cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum ImportError {
    /// The bytes are not a model of that format.
    #[error("this is not a valid {format} model: {reason}")]
    NotAModel { format: &'static str, reason: String },
    /// A node that cannot be converted.
    #[error("{node} ({kind}) {problem}")]
    Node { node: String, kind: String, problem: Problem },
    /// The model's inputs have symbolic dimensions that were not set.
    #[error("the model leaves open {}", places(.0))]
    OpenDimensions(OpenDimensions),
    /// Too little of the model has a counterpart.
    #[error("too little of the model has a counterpart: {coverage}; without one: {kinds}")]
    Covered { coverage: String, kinds: String },
    /// A dimension was set that the model does not have.
    #[error("the model has no dimension named {name:?}")]
    NoSuchDimension { name: String, known: Vec<String> },
    /// The file has several functions, and none was chosen.
    #[error("the file offers several functions, each a graph of its own: {}", known.join(", "))]
    SeveralSignatures { known: Vec<String> },
    /// A function was chosen that the file does not have.
    #[error("the file offers no function named {name:?}")]
    NoSuchSignature { name: String, known: Vec<String> },
    /// The operators do not form a valid graph.
    #[error("the model's operators do not form a valid workload: {0}")]
    Graph(#[from] GraphError),
}

/// What is wrong with a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Problem {
    /// No operator of a scenario corresponds to it, or information is missing for one.
    #[error("has no counterpart: {0}")]
    Unknown(String),
    /// The node is invalid.
    #[error("is invalid: {0}")]
    Unsound(String),
    /// Its operands do not fit, and their extents were guessed.
    #[error("does not fit extents that were guessed for {from}, which has no counterpart: {reason}")]
    Guessed { from: String, reason: String },
}

impl Problem {
    /// The problem, attributed to a skipped node if the operands' extents follow from one.
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
    /// What the user can do about it.
    pub fn help(&self) -> String {
        match self {
            Self::NotAModel { .. } => "give an .onnx file of ONNX, or a .tflite file of TensorFlow Lite; \
                                       is this the right file, and is it complete?"
                .to_owned(),
            Self::Node { problem: Problem::Unknown(_), .. } => {
                "import with --skip-unknown, which replaces it by the closest operator \
                                     and reports that, or export the model without it"
                    .to_owned()
            }
            Self::Node { problem: Problem::Unsound(_), .. } | Self::Graph(_) => {
                "check that the runtime accepts the model, with the dimensions that --dim sets".to_owned()
            }
            Self::Node { problem: Problem::Guessed { from, .. }, .. } => {
                format!("export the model without {from}, or with static shapes for its results")
            }
            Self::OpenDimensions(open) => {
                let set: Vec<String> = open.keys().map(|name| format!("--dim {name}=N")).collect();
                let batch = open.iter().find(|(_, place)| place.starts_with("axis 0 "));
                let batch = batch.map(|(name, _)| format!("; if {name} is the batch, 1 is one input at a time"));
                format!("set their sizes: {}{}", set.join(" "), batch.unwrap_or_default())
            }
            Self::Covered { .. } => {
                "the skipped nodes may dominate the time; export the model without them or with static shapes, or \
                 accept less coverage with a lower --least-covered"
                    .to_owned()
            }
            Self::NoSuchDimension { known, .. } if known.is_empty() => {
                "the model's inputs have fixed extents; leave --dim out".to_owned()
            }
            Self::NoSuchDimension { known, .. } => format!("its open dimensions are {}", known.join(", ")),
            Self::SeveralSignatures { known } => {
                let first = known.first().map_or("NAME", String::as_str);
                format!("choose one with --signature, such as --signature {first}; each needs a plan of its own")
            }
            Self::NoSuchSignature { known, .. } if known.is_empty() => {
                "its graph has no signature; leave --signature out".to_owned()
            }
            Self::NoSuchSignature { known, .. } => format!("it offers {}", known.join(", ")),
        }
    }
}
