//! Products on the NPU alone: padded, in pieces, or in chunks of one size.

use super::{Priced, ProductPrices, faster};
use crate::plan::{GraphCover, Placement, Processor};
use crate::simulate::Result;
use crate::workload::{Layer, Operator, Stage};

/// Rows of llm.npu's chunks: 512, the size at which a prompt of 256 tokens reaches half the
/// rate of a long one (`HeteroInfer`, SOSP'25, section 5.3.2).
pub(in super::super) const CHUNKS: GraphCover = GraphCover::Chunks(512);

/// All of `stage` on the NPU.
pub(in super::super) fn place(stage: &Stage, graphs: GraphCover) -> Placement {
    match stage.layer.operator.product_with_weights() {
        Some(_) => Placement::whole(Processor::Npu(graphs)),
        None => Placement::GPU,
    }
}

/// The faster of padding and pieces.
pub(super) fn best(price: &ProductPrices<'_>, layer: &Layer) -> Result<Priced> {
    let Operator::Linear(_) = &layer.operator else { return Ok(None) };
    let mut best = None;
    for graphs in [GraphCover::Padded, GraphCover::Pieces] {
        let split = Placement::whole(Processor::Npu(graphs));
        best = faster(best, price.split(layer, &split)?.map(|time| (time, split)));
    }
    Ok(best)
}
