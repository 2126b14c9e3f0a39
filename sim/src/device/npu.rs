//! Parameters of a neural processing unit: systolic arrays behind a compiler.
//!
//! Responsible for: the constants of the NPU's latency rules and their valid ranges.
//! Not for: the rules (`kernel::npu`). Invariant: every parameter is a term of one of
//! those rules, and its documentation names the term.

pub mod compiled;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::compiled::CompiledGraphs;
use super::{Basis, Checker, LanguageRates, Quantity};
use crate::workload::DataType;

/// Which operand of a product of activations and weights streams through the arrays; the
/// other one is stationary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Activations are stationary, weights stream: the operands are exchanged, as an engine
    /// does if there are more weights than tokens (`HeteroInfer`, section 4.1).
    #[default]
    WeightsStream,
    /// Weights are stationary, activations stream: the order for which a systolic array is
    /// built (`HeteroInfer`, Figure 2).
    WeightsStationary,
}

/// Maximum rows of a systolic array: sixteen times the largest existing one, the first TPU's.
const MAX_ROWS: u32 = 4_096;

/// An NPU, with at least one of its tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Npu {
    /// Name of the unit: `Hexagon`.
    pub name: String,
    /// Products dispatched one by one, in static graphs, as in language-model engines
    /// that split products between processors. If absent, such products cannot be
    /// predicted.
    pub systolic: Option<SystolicArrays>,
    /// Networks compiled as whole graphs. If absent, only products run here.
    pub compiled: Option<CompiledGraphs>,
    /// A language-model engine's kernels for integer weights, dispatched one by one. If
    /// absent, they cannot be predicted.
    pub language: Option<LanguageRates>,
}

/// Systolic arrays, for products dispatched one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystolicArrays {
    /// Source of the values that have none of their own.
    pub source: String,
    /// Evidence behind the values.
    #[serde(default)]
    pub basis: Basis,
    /// R: rows and columns of one systolic array.
    pub array_dimension: u32,
    /// Number of arrays, which process folds in rounds. If absent (unknown), no round is ever
    /// partly filled.
    pub arrays: Option<u32>,
    /// A: clock of an array times the number of arrays. Latencies identify only the product
    /// of the two.
    pub combined_clock_mhz: Quantity,
    /// C: bytes of on-chip memory that the compiler allots to the stationary operand.
    pub on_chip_bytes: Quantity,
    /// Bytes of an operand's element as read from memory, whatever the model's storage format: 2
    /// if weights are dequantised to 16-bit floats first.
    pub element_bytes: u32,
    /// Products of 8-bit integers. If absent, they run like those of floats.
    pub integer: Option<Integer>,
    /// Memory bandwidth of the NPU without contention.
    pub bandwidth_gbps: Quantity,
    /// Time from dispatching one graph to its first fold.
    pub dispatch_us: Quantity,
    /// Which operand of linear layers and matrix products streams through the arrays.
    #[serde(default)]
    pub order: Order,
    /// Row counts (tokens) of precompiled graphs, ascending; rows are padded to the next one.
    /// Empty if there is a graph for every row count.
    #[serde(default)]
    pub graph_sizes: Vec<u32>,
    /// How the compiler blocks a stationary operand that does not fit on chip.
    pub column_block: Option<ColumnBlock>,
    /// The path for one token. If absent, one row runs like any other row count.
    pub decode: Option<Decode>,
    /// Time to compile graphs for a further row count.
    pub graph_preparation: GraphPreparation,
}

/// Products of 8-bit integers, relative to those of floats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Integer {
    /// Where the values come from.
    pub source: String,
    /// Evidence behind the values.
    #[serde(default)]
    pub basis: Basis,
    /// Rate of the arrays relative to floats.
    pub rate_factor: Quantity,
    /// Bytes of an operand's element as read from memory.
    pub element_bytes: u32,
}

/// Blocks of stationary columns: each is loaded once, and the streamed operand is read once
/// per block. All blocks are equal, so the last one is padded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnBlock {
    /// Where the values come from.
    pub source: String,
    /// Columns of one block.
    pub columns: u32,
    /// Maximum columns that the compiler blocks; wider operands are streamed panel by panel,
    /// each as wide as the array.
    pub most_columns: u32,
}

/// A product of one row of activations and a weight matrix: `dispatch + weights
/// x bytes / bandwidth x max(1, in / long_row_elements)`.
///
/// The slowdown depends on the row's length, not on its ratio to the outputs: a split by
/// outputs leaves the row length unchanged, and `HeteroInfer`'s solver does gain from
/// halving a square matrix (Table 3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decode {
    /// Where the values come from.
    pub source: String,
    /// Bytes of one 4-bit weight as read from memory; wider weights take in proportion to their bits.
    pub bytes_per_weight: Quantity,
    /// Memory bandwidth of the weights.
    pub bandwidth_gbps: Quantity,
    /// Time from dispatching the graph to the first weight.
    pub dispatch_us: Quantity,
    /// Row length (inputs per output) above which traffic slows down.
    pub long_row_elements: Quantity,
}

/// Time to compile the graphs of a network for one row count: `base + rows x per_row`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphPreparation {
    /// Where the values come from, and for which network.
    pub source: String,
    /// Fixed part.
    pub base_us: Quantity,
    /// Additional time per row (token).
    pub per_row_us: Quantity,
}

impl Npu {
    /// The compiler for graphs with layers of number format `format`, if any. 4-bit
    /// weights are those of language models, whose engines dispatch products one by one,
    /// in static graphs for some numbers of tokens (`HeteroInfer`, SOSP'25, section 4).
    pub fn compiler(&self, format: DataType) -> Option<&CompiledGraphs> {
        self.compiled.as_ref().filter(|_| format != DataType::W4A16)
    }

    /// Records every invalid value.
    pub fn check(&self, checker: &mut Checker) {
        if self.name.trim().is_empty() {
            checker.violation("name", "nothing", "the name of the unit");
        }
        if self.systolic.is_none() && self.compiled.is_none() && self.language.is_none() {
            checker.violation(
                "systolic",
                "nothing",
                "[npu.systolic], [npu.compiled], [npu.language] or several",
            );
        }
        checker.values(self);
        checker.optional("systolic", self.systolic.as_ref(), SystolicArrays::check);
    }
}

impl SystolicArrays {
    fn check(&self, checker: &mut Checker) {
        if self.array_dimension > MAX_ROWS {
            checker.count("array_dimension", self.array_dimension, MAX_ROWS);
        }
        let ascending = self.graph_sizes.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || self.graph_sizes.first() == Some(&0) {
            let found = format!("{:?}", self.graph_sizes);
            checker.violation("graph_sizes", found, "whole numbers above 0, each above the one before");
        }
        if let Some(block) = &self.column_block
            && block.most_columns < block.columns
        {
            let expected = format!("at least one block, {} columns", block.columns);
            checker.violation("column_block.most_columns", block.most_columns, expected);
        }
    }
}
