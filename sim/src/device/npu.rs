//! Parameters of a neural processing unit: systolic arrays behind a compiler.
//!
//! Responsible for: the constants of the NPU's latency rules and what makes them
//! possible values. Not for: the rules (`kernel::npu`). Invariant: every number
//! is a term of one of those rules, and says which.

pub mod compiled;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::compiled::CompiledGraphs;
use super::{Basis, Checker, LanguageRates, Quantity};
use crate::workload::DataType;

/// Which operand of a product of activations and weights moves through the
/// arrays, the other one staying in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Activations stay, weights stream: the operands exchanged, as an engine
    /// does where there are more weights than tokens (`HeteroInfer`, section 4.1).
    #[default]
    WeightsStream,
    /// Weights stay, activations stream: the order a systolic array is built
    /// for (`HeteroInfer`, Figure 2).
    WeightsStationary,
}

/// Most rows of a systolic array: sixteen times those of the largest there is, the first TPU's.
const MOST_ROWS: u32 = 4_096;

/// An NPU: at least one of its tables is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Npu {
    /// Name of the unit: `Hexagon`.
    pub name: String,
    /// Products that are handed over one by one, in static graphs: what engines of language models
    /// do that share products between processors. Absent: nothing is known of them.
    pub systolic: Option<SystolicArrays>,
    /// Networks that are compiled as a whole. Absent: products alone run here.
    pub compiled: Option<CompiledGraphs>,
    /// A language-model engine's kernels for integer weights, which are handed over one by one. Absent: nothing is
    /// known of them.
    pub language: Option<LanguageRates>,
}

/// Systolic arrays that compute products handed over one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SystolicArrays {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// What they rest on.
    #[serde(default)]
    pub basis: Basis,
    /// R: rows, and columns, of one systolic array.
    pub array_dimension: u32,
    /// Arrays that work on folds of their own, in rounds. Absent where nobody knows:
    /// then no round is ever partly filled.
    pub arrays: Option<u32>,
    /// A: clock of an array times the number of arrays. A latency only tells the
    /// product of the two.
    pub combined_clock_mhz: Quantity,
    /// C: bytes of on-chip memory the compiler gives to the stationary operand.
    pub on_chip_bytes: Quantity,
    /// Bytes of an operand's element on its way from memory, whatever the model
    /// is stored in: 2 where weights are dequantised to 16-bit floats first.
    pub element_bytes: u32,
    /// Products of 8-bit integers. Absent: they run as floats do.
    pub integer: Option<Integer>,
    /// Memory bandwidth the NPU draws while nobody else uses the memory.
    pub bandwidth_gbps: Quantity,
    /// Time from handing over one graph to its first fold.
    pub dispatch_us: Quantity,
    /// Which operand of linear layers and matrix products stays in the arrays.
    #[serde(default)]
    pub order: Order,
    /// Row counts (tokens) for which a graph lies ready, ascending; rows are
    /// padded to the next one. Empty: there is a graph for every row count.
    #[serde(default)]
    pub graph_sizes: Vec<u32>,
    /// How the compiler blocks a stationary operand that does not fit on chip.
    pub column_block: Option<ColumnBlock>,
    /// The path for one token. Absent: one row runs as any other count does.
    pub decode: Option<Decode>,
    /// What it takes to make graphs for a row count that has none.
    pub graph_preparation: GraphPreparation,
}

/// How products of 8-bit integers differ from those of floats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Integer {
    /// Where the values come from.
    pub source: String,
    /// What they rest on.
    #[serde(default)]
    pub basis: Basis,
    /// Rate of the arrays over that for floats.
    pub rate_factor: Quantity,
    /// Bytes of an operand's element on its way from memory.
    pub element_bytes: u32,
}

/// Blocks of stationary columns: each is loaded once and the streamed operand is
/// read once for it. All blocks are equal, so the last is filled up with padding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ColumnBlock {
    /// Where the values come from.
    pub source: String,
    /// Columns of one block.
    pub columns: u32,
    /// Most columns the compiler blocks; operands with more are streamed panel
    /// by panel, a panel being as wide as the array.
    pub most_columns: u32,
}

/// A product of one row of activations and a weight matrix: `dispatch + weights
/// x bytes / bandwidth x max(1, in / long_row_elements)`.
///
/// The slowdown goes by the row's length and not by its ratio to the outputs: a cut
/// by outputs leaves the rows as long, and `HeteroInfer`'s solver gains from cutting
/// a square matrix in halves (Table 3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decode {
    /// Where the values come from.
    pub source: String,
    /// Bytes of one weight on its way from memory.
    pub bytes_per_weight: Quantity,
    /// Memory bandwidth of the weights.
    pub bandwidth_gbps: Quantity,
    /// Time from handing over the graph to the first weight.
    pub dispatch_us: Quantity,
    /// Inputs of an output from which more slow the traffic down.
    pub long_row_elements: Quantity,
}

/// Time to make the graphs of a network for one row count: `base + rows x per_row`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphPreparation {
    /// Where the values come from, and for which network.
    pub source: String,
    /// The part that does not depend on the rows.
    pub base_us: Quantity,
    /// The part each row (token) adds.
    pub per_row_us: Quantity,
}

impl Npu {
    /// What compiles graphs with layers of that number format in them, where anything does. Weights of
    /// 4 bits are a language model's, whose engine hands products over one by one, in static graphs for
    /// some numbers of tokens (`HeteroInfer`, SOSP'25, section 4).
    pub fn compiler(&self, format: DataType) -> Option<&CompiledGraphs> {
        self.compiled.as_ref().filter(|_| format != DataType::W4A16)
    }

    /// Notes every value that cannot be.
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
        if self.array_dimension > MOST_ROWS {
            checker.count("array_dimension", self.array_dimension, MOST_ROWS);
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
