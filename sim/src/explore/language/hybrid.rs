//! Rows and channels divided between GPU and NPU (`HeteroInfer`, SOSP'25, section 4.2.3): some
//! channels on the NPU, in padded or full graphs; the other channels, and the rows that fill no
//! graph, on the GPU.

use super::activation_centric::graph_filling_rows;
use super::{Priced, ProductPrices, faster, weight_centric};
use crate::plan::GraphCover;
use crate::simulate::Result;
use crate::workload::{Layer, Operator};

/// The best division of rows and channels.
pub(in super::super) fn best(price: &ProductPrices<'_>, layer: &Layer) -> Result<Priced> {
    let Operator::Linear(linear) = &layer.operator else { return Ok(None) };
    let mut best = weight_centric::best(price, layer)?;
    for npu_rows in graph_filling_rows(price, linear.rows) {
        let rows = [npu_rows, linear.rows - npu_rows];
        best = faster(best, weight_centric::divide(price, layer, rows, GraphCover::Pieces)?);
    }
    Ok(best)
}
