//! How GPU and NPU share one product of activations and trained weights.
//!
//! The NPU computes some output channels of the first rows, the GPU the other channels
//! of those rows and every channel of the rows behind them. Without rows of its own the GPU takes
//! only channels (weight-centric), without channels only rows
//! (activation-centric), with both it is a hybrid (`HeteroInfer`, SOSP'25, section 4.2).

use arrayvec::ArrayVec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::npu::Npu;
use crate::workload::{Layer, Operator};

/// Most graphs that the NPU executes one after another for one product.
pub const MAX_GRAPHS: usize = 64;

/// Rows of the graphs that compute one product, in order.
pub type GraphRows = ArrayVec<u32, MAX_GRAPHS>;

/// How static graphs cover a number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GraphCover {
    /// The largest graphs that are filled, then the smallest that takes the rest.
    #[default]
    Padded,
    /// Graphs that are filled, largest first; only what is left of the smallest is padded.
    Pieces,
    /// Graphs of this many rows, the last one padded.
    Chunks(u32),
}

impl GraphCover {
    /// The graphs that compute `rows` rows on `npu`; none where there would be more than
    /// [`MAX_GRAPHS`], or no such graph.
    pub fn graphs(self, rows: u32, npu: &Npu) -> Option<GraphRows> {
        let mut graphs = GraphRows::new();
        let sizes = npu.graph_sizes.as_slice();
        let (Some(&smallest), Some(&largest)) = (sizes.first(), sizes.last()) else {
            graphs.push(rows);
            return Some(graphs);
        };
        if rows == 1 && npu.decode.is_some() {
            graphs.push(rows);
            return Some(graphs);
        }
        let mut left = rows;
        while left > 0 {
            let filled = sizes.iter().rev().copied().find(|&size| size <= left);
            let next = match self {
                Self::Padded if left >= largest => largest,
                Self::Padded => sizes.iter().copied().find(|&size| size >= left)?,
                Self::Pieces => filled.unwrap_or(smallest),
                Self::Chunks(size) if sizes.contains(&size) => size,
                Self::Chunks(_) => return None,
            };
            graphs.try_push(next).ok()?;
            left = left.saturating_sub(next);
        }
        Some(graphs)
    }
}

/// Who computes what of a product of activations and trained weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct AcceleratorSplit {
    /// Rows of which the NPU computes something: the first ones.
    pub npu_rows: u32,
    /// Rows behind them, of which the GPU computes everything.
    pub gpu_rows: u32,
    /// Output channels of the NPU's rows that the NPU computes: the first ones.
    pub npu_channels: u32,
    /// The other channels of those rows, which the GPU computes.
    pub gpu_channels: u32,
    /// How static graphs cover the NPU's rows.
    pub graphs: GraphCover,
}

impl AcceleratorSplit {
    /// The NPU alone.
    pub fn npu_alone(rows: u32, channels: u32, graphs: GraphCover) -> Self {
        Self { npu_rows: rows, gpu_rows: 0, npu_channels: channels, gpu_channels: 0, graphs }
    }

    /// Whether the GPU takes part.
    pub fn is_shared(&self) -> bool {
        self.gpu_rows > 0 || self.gpu_channels > 0
    }

    /// What the NPU computes of `layer` in a graph of `rows` rows.
    pub fn npu_layer(&self, layer: &Layer, rows: u32) -> Layer {
        with_rows(&layer.with_output_channels(self.npu_channels), rows)
    }

    /// What the GPU computes of `layer`: its channels of the NPU's rows, and its rows.
    pub fn gpu_layers(&self, layer: &Layer) -> ArrayVec<Layer, 2> {
        let mut layers = ArrayVec::new();
        if self.gpu_channels > 0 {
            layers.push(with_rows(&layer.with_output_channels(self.gpu_channels), self.npu_rows));
        }
        if self.gpu_rows > 0 {
            layers.push(with_rows(layer, self.gpu_rows));
        }
        layers
    }

    /// Part of the multiply-accumulates that the GPU computes.
    pub fn gpu_fraction(&self) -> f64 {
        let area = |rows: u32, channels: u32| f64::from(rows) * f64::from(channels);
        let channels = self.npu_channels.saturating_add(self.gpu_channels);
        let whole = area(self.npu_rows, channels) + area(self.gpu_rows, channels);
        (area(self.npu_rows, self.gpu_channels) + area(self.gpu_rows, channels)) / whole.max(1.0)
    }
}

/// `layer` with other rows; a graph may have more than the product.
fn with_rows(layer: &Layer, rows: u32) -> Layer {
    let mut layer = layer.clone();
    if let Operator::Linear(linear) = &mut layer.operator {
        linear.rows = rows;
    }
    layer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::workload::{DataType, Linear};

    fn npu() -> Npu {
        Profile::load("snapdragon-8gen3").unwrap().npu.unwrap()
    }

    fn graphs(cover: GraphCover, rows: u32) -> Vec<u32> {
        cover.graphs(rows, &npu()).unwrap().to_vec()
    }

    #[test]
    fn three_hundred_rows_are_padded_to_512_or_cut_in_256_32_and_a_padded_32() {
        assert_eq!(graphs(GraphCover::Padded, 300), [512]);
        assert_eq!(graphs(GraphCover::Pieces, 300), [256, 32, 32]);
        assert_eq!(graphs(GraphCover::Chunks(256), 300), [256, 256]);
    }

    #[test]
    fn more_rows_than_the_largest_graph_take_several() {
        assert_eq!(graphs(GraphCover::Padded, 1787), [1024, 1024]);
        assert_eq!(graphs(GraphCover::Pieces, 1787), [1024, 512, 128, 64, 32, 32]);
    }

    #[test]
    fn a_graph_that_is_not_there_covers_nothing() {
        assert_eq!(GraphCover::Chunks(100).graphs(300, &npu()), None);
        assert_eq!(GraphCover::Chunks(32).graphs(1 << 20, &npu()), None, "too many");
    }

    #[test]
    fn both_together_compute_every_output_once() {
        let operator =
            Operator::Linear(Linear { rows: 300, input_features: 8, output_features: 96, bias: false });
        let layer = Layer::new(operator, DataType::W4A16);
        let split = AcceleratorSplit {
            npu_rows: 256,
            gpu_rows: 44,
            npu_channels: 64,
            gpu_channels: 32,
            graphs: GraphCover::Padded,
        };
        let npu = split.npu_layer(&layer, 256).operator.macs();
        let gpu: u64 = split.gpu_layers(&layer).iter().map(|part| part.operator.macs()).sum();
        assert_eq!(npu + gpu, layer.operator.macs());
        assert!((split.gpu_fraction() - gpu as f64 / layer.operator.macs() as f64).abs() < 1e-12);
    }
}
