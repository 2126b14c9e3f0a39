//! Rows divided between GPU and NPU (`HeteroInfer`, SOSP'25, section 4.2.2): full static
//! graphs on the NPU, one after another, and the remaining rows on the GPU.

use super::{Priced, ProductPrices, faster, layer_level, shared};
use crate::plan::{GraphCover, Placement};
use crate::simulate::Result;
use crate::workload::{Layer, Operator, Stage};

/// The placement of the product `stage`: on one processor if the rows cannot be divided.
pub(in super::super) fn place(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    match best(price, &stage.layer)? {
        None => layer_level::place(price, stage),
        split => Ok(shared(split)),
    }
}

/// The best division of the rows; `None` if the first graph covers all of them.
pub(super) fn best(price: &ProductPrices<'_>, layer: &Layer) -> Result<Priced> {
    let Operator::Linear(linear) = &layer.operator else { return Ok(None) };
    let mut best = None;
    for npu_rows in graph_filling_rows(price, linear.rows) {
        let rows = [npu_rows, linear.rows - npu_rows];
        let split = Placement::npu_and_gpu(rows, [linear.output_features, 0], GraphCover::Pieces);
        best = faster(best, price.split(layer, &split)?.map(|time| (time, split)));
    }
    Ok(best)
}

/// Numbers of rows below `rows` that fill static graphs: the largest graph, the two largest,
/// and so on.
pub(super) fn graph_filling_rows(price: &ProductPrices<'_>, rows: u32) -> Vec<u32> {
    let Some(npu) = price.device().systolic() else { return Vec::new() };
    if rows == 1 || npu.graph_sizes.is_empty() {
        return Vec::new();
    }
    let graphs = GraphCover::Pieces.graphs(rows, npu).unwrap_or_default();
    let sums = graphs.iter().scan(0, |sum, &graph| {
        *sum += graph;
        Some(*sum)
    });
    sums.filter(|&sum| sum < rows).collect()
}
