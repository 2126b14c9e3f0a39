//! Measured runs: what was executed, where, and how long it took.
//!
//! Responsible for: the records and the importers of public data sets. Not for:
//! fitting (`calibrate`) or judging predictions (`validate`). Invariant: a row
//! that cannot be used is handed back with its line and the reason, never dropped.

pub mod benchmark_cpu;
pub mod benchmark_gpu;
pub mod benchmark_gpu_network;
mod benchmark_table;
pub mod digest;
pub mod draw;
mod gaps;
pub mod runs;

use serde::Serialize;

use coexec_sim::workload::Layer;

/// A kind of operation, as error figures are grouped.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    strum::VariantArray,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Family {
    /// Two-dimensional convolution, whatever kernel runs it.
    Conv2d,
    /// Depthwise convolution.
    DepthwiseConv2d,
    /// Grouped convolution.
    GroupedConv2d,
    /// Fully connected layer.
    FullyConnected,
    /// Mean over pixels.
    Mean,
    /// Concatenation.
    Concat,
    /// Windowed pooling.
    Pool,
}

impl Family {
    /// Every family, in the order of tables.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Name in the groups of error figures: `conv2d`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One layer measured on a GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuRun {
    /// Network the layer is part of: what cross-validation keeps together.
    pub network: String,
    /// Kind of operation.
    pub family: Family,
    /// The operator and what is linked behind it.
    pub layer: Layer,
    /// Kernel name as the profiler reported it, numbers included.
    pub kernel: String,
    /// Time of the launch, in microseconds.
    pub measured_us: f64,
    /// Line of the file it comes from, from 1.
    pub line: u64,
}

/// A row that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SkippedRow {
    /// Line of the file, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}
