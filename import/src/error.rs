//! Why a model cannot be imported.

use std::fmt;

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
    #[error("too little of the model is covered: {coverage}; left out: {kinds}")]
    Covered { coverage: String, kinds: String, percent: u32 },
    /// A dimension was set that the model does not have.
    #[error("the model has no dimension named {name:?}")]
    NoSuchDimension { name: String, open: Vec<String>, unset: Vec<UnsetDimension> },
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

/// A dimension that need not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsetDimension {
    /// Its name.
    pub name: String,
    /// Its extent unless it is set.
    pub extent: u32,
    /// Whether it is the first of its tensor, as that of a batch is.
    pub is_first: bool,
}

impl fmt::Display for UnsetDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = if self.is_first { "; --batch N of explore sets a batch, too" } else { "" };
        write!(f, "{} ({} unless set{hint})", self.name, self.extent)
    }
}

/// What is wrong with a node.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum Problem {
    /// No operator of a scenario corresponds to it, or information is missing for one.
    #[error("has no counterpart: {0}")]
    Unknown(String),
    /// It is left out, but nothing can take its place.
    #[error(
        "has no counterpart, and nothing can stand for it, since the extents of its result are not known"
    )]
    Irreplaceable,
    /// The node is invalid.
    #[error("is invalid: {0}")]
    Unsound(String),
    /// The file is in a layout with padded channels, and its operands do not fit.
    #[error(
        "does not fit its operands, since ONNX Runtime saved the file for one kind of CPU, with padded channels: {0}"
    )]
    Padded(String),
    /// It depends on the values of a tensor in a file beside the model's, which could not be read.
    #[error("needs the values of {tensor}, which are in {file}, and that file is missing or incomplete")]
    Unread { tensor: String, file: String },
    /// Its operands do not fit, and their extents were guessed.
    #[error("does not fit extents that were guessed for {from}, which is left out: {reason}")]
    Guessed { from: String, reason: String },
    /// Its operands do not fit, and their extents follow from the most results that a node can have.
    #[error("does not fit the largest number of results of {from}, which the network computes: {reason}")]
    Bounded { from: String, reason: String },
}

impl Problem {
    /// The problem, attributed to a skipped node, or else to one with an assumed number of results, if the operands'
    /// extents follow from one.
    pub(super) fn after(self, skipped: Option<&str>, bounded: Option<&str>) -> Self {
        match (self, skipped.map(str::to_owned), bounded.map(str::to_owned)) {
            (Self::Unsound(reason), Some(from), _) => Self::Guessed { from, reason },
            (Self::Unsound(reason), None, Some(from)) => Self::Bounded { from, reason },
            (problem, _, _) => problem,
        }
    }

    /// Whether another operator may stand for the node, where the user accepts that.
    pub(super) fn is_replaceable(&self) -> bool {
        match self {
            Self::Unknown(_) | Self::Guessed { .. } | Self::Bounded { .. } => true,
            Self::Irreplaceable | Self::Unsound(_) | Self::Padded(_) | Self::Unread { .. } => false,
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
            Self::Node { problem: Problem::Unknown(_) | Problem::Bounded { .. }, .. } => {
                "import with --skip-unknown, which replaces it by the closest operator \
                                     and reports that, or export the model without it"
                    .to_owned()
            }
            Self::Node { problem: Problem::Irreplaceable, .. } => {
                "export the model without it, or with static shapes for its results".to_owned()
            }
            Self::Node { problem: Problem::Unsound(_), .. } | Self::Graph(_) => {
                "check that the runtime accepts the model, with the dimensions that --dim sets".to_owned()
            }
            Self::Node { problem: Problem::Padded(_), .. } => {
                "save the model with a lower level of graph optimisation (ORT_ENABLE_EXTENDED), or give the \
                 file that it was made from"
                    .to_owned()
            }
            Self::Node { problem: Problem::Unread { file, .. }, .. } => {
                format!("put {file} into the model's folder; the model was exported in several files")
            }
            Self::Node { problem: Problem::Guessed { from, .. }, .. } => {
                format!("export the model without {from}, or with static shapes for its results")
            }
            Self::OpenDimensions(open) => {
                let quote = |name: &String| if name.contains(' ') { "'" } else { "" };
                let set = |name: &String| format!("--dim {0}{name}=N{0}", quote(name));
                let set: Vec<String> = open.keys().map(set).collect();
                let batch = open.iter().find(|(_, place)| place.starts_with("axis 0 "));
                let batch =
                    batch.map(|(name, _)| format!("; if {name} is the batch, 1 is one input at a time"));
                format!("set their sizes: {}{}", set.join(" "), batch.unwrap_or_default())
            }
            Self::Covered { percent, .. } => format!(
                "the skipped nodes may dominate the time; export the model without them or with static shapes, or \
                 accept that with --least-covered {percent}"
            ),
            Self::NoSuchDimension { open, unset, .. } if open.is_empty() && unset.is_empty() => {
                "the model's inputs have fixed extents; leave --dim out".to_owned()
            }
            Self::NoSuchDimension { open, unset, .. } => {
                let unset = unset.iter().map(UnsetDimension::to_string);
                let known: Vec<String> = open.iter().cloned().chain(unset).collect();
                format!("its open dimensions are {}", known.join(", "))
            }
            Self::SeveralSignatures { known } => {
                let first = known.first().map_or("NAME", String::as_str);
                format!(
                    "choose one with --signature, such as --signature {first}; each needs a plan of its own"
                )
            }
            Self::NoSuchSignature { known, .. } if known.is_empty() => {
                "its graph has no signature; leave --signature out".to_owned()
            }
            Self::NoSuchSignature { known, .. } => format!("it offers {}", known.join(", ")),
        }
    }
}
