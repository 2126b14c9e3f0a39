//! Output channels divided between GPU and NPU (`HeteroInfer`, SOSP'25, section 4.2.1).

use super::{Priced, ProductPrices, faster};
use crate::plan::{GraphCover, Placement};
use crate::simulate::Result;
use crate::workload::{Layer, Operator};

/// Most divisions of the channels that are priced.
const MAX_DIVISIONS: u32 = 128;

/// The best division of the channels of all rows.
pub(in super::super) fn best(price: &ProductPrices<'_>, layer: &Layer) -> Result<Priced> {
    let Operator::Linear(linear) = &layer.operator else { return Ok(None) };
    let mut best = None;
    for graphs in [GraphCover::Padded, GraphCover::Pieces] {
        best = faster(best, divide(price, layer, [linear.rows, 0], graphs)?);
    }
    Ok(best)
}

/// The best division of the channels of the NPU's rows; the GPU computes all channels of
/// `gpu_rows`. The NPU's channels are a multiple of its arrays' dimension.
pub(super) fn divide(
    price: &ProductPrices<'_>,
    layer: &Layer,
    [npu_rows, gpu_rows]: [u32; 2],
    graphs: GraphCover,
) -> Result<Priced> {
    let (Operator::Linear(linear), Some(npu)) = (&layer.operator, price.device().systolic()) else {
        return Ok(None);
    };
    let all = linear.output_features;
    let array = npu.array_dimension.max(1);
    let step = all.div_ceil(MAX_DIVISIONS).next_multiple_of(array);
    let mut best = None;
    let mut npu_channels = step;
    while npu_channels < all {
        let gpu_channels = all - npu_channels;
        let split = Placement::npu_and_gpu([npu_rows, gpu_rows], [npu_channels, gpu_channels], graphs);
        best = faster(best, price.split(layer, &split)?.map(|time| (time, split)));
        npu_channels = npu_channels.saturating_add(step);
    }
    Ok(best)
}
