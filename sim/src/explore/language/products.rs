//! Where strategies place the products of activations and weights: on the GPU, on the NPU, or divided between both
//! along their rows, their output channels, or both (`HeteroInfer`, SOSP'25, section 4).

use super::ProductPrices;
use crate::plan::{GraphCover, Placement, Processor};
use crate::simulate::Result;
use crate::units::Picos;
use crate::workload::{Product, Stage};

/// Rows of llm.npu's chunks: 512, the size at which a prompt of 256 tokens reaches half the
/// rate of a long one (`HeteroInfer`, SOSP'25, section 5.3.2).
pub(in super::super) const CHUNKS: GraphCover = GraphCover::Chunks(512);

/// Most divisions of the channels that are priced.
const MAX_DIVISIONS: u32 = 128;

/// Ways to divide a product.
type Divide = fn(&ProductPrices<'_>, Product) -> Vec<Placement>;

/// All of `stage` on the NPU.
pub(in super::super) fn on_npu(stage: &Stage, graphs: GraphCover) -> Placement {
    match stage.layer.operator.product_with_weights() {
        Some(_) => Placement::whole(Processor::Npu(graphs)),
        None => Placement::GPU,
    }
}

/// Whole products on the faster processor (section 4.1): in practice the NPU for prefill and the
/// GPU for decode.
pub(in super::super) fn layer_level(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    let gpu = price.gpu(&stage.layer)?;
    Ok(match fastest(price, stage, whole)? {
        Some((npu, split)) if npu < gpu => split,
        _ => Placement::GPU,
    })
}

/// Output channels divided (section 4.2.1).
pub(in super::super) fn weight_centric(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    Ok(fastest(price, stage, by_channels)?.map_or(Placement::GPU, |(_, split)| split))
}

/// Rows divided (section 4.2.2); on one processor if they cannot be.
pub(in super::super) fn activation_centric(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    match fastest(price, stage, by_rows)? {
        Some((_, split)) => Ok(split),
        None => layer_level(price, stage),
    }
}

/// Rows and channels divided (section 4.2.3).
pub(in super::super) fn hybrid(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    Ok(fastest(price, stage, by_both)?.map_or(Placement::GPU, |(_, split)| split))
}

/// The fastest of every way to compute a product (section 4.4). The best of each kind are compared
/// by simulation, which includes the contention of GPU and NPU.
pub(in super::super) fn solver(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    let mut found = Vec::new();
    for divide in [whole as Divide, by_rows, by_channels, by_both] {
        found.extend(fastest(price, stage, divide)?);
    }
    let mut best = (price.gpu(&stage.layer)?, Placement::GPU);
    for (_, split) in found {
        let time = price.simulated(stage, &split)?;
        if time < best.0 {
            best = (time, split);
        }
    }
    Ok(best.1)
}

/// The first of the fastest of these divisions of the product `stage`, with its latency; `None` if there is
/// none, which leaves the product to the GPU.
fn fastest(price: &ProductPrices<'_>, stage: &Stage, divide: Divide) -> Result<Option<(Picos, Placement)>> {
    let product = stage.layer.operator.product_with_weights();
    let splits = product.map(|product| divide(price, product)).unwrap_or_default();
    let timed = splits.into_iter().filter_map(|split| {
        let time = price.split(stage, &split).transpose()?;
        Some(time.map(|time| (time, split)))
    });
    Ok(timed.collect::<Result<Vec<_>>>()?.into_iter().min_by_key(|&(time, _)| time))
}

/// The whole product on the NPU, padded and in pieces.
fn whole(_: &ProductPrices<'_>, _: Product) -> Vec<Placement> {
    [GraphCover::Padded, GraphCover::Pieces].map(|graphs| Placement::whole(Processor::Npu(graphs))).to_vec()
}

/// Full static graphs on the NPU, one after another, and the remaining rows on the GPU; none if the
/// first graph covers all rows.
fn by_rows(price: &ProductPrices<'_>, product: Product) -> Vec<Placement> {
    let split = |rows| Placement::npu_and_gpu(rows, [product.outputs, 0], GraphCover::Pieces);
    full_graphs(price, product.rows).into_iter().map(split).collect()
}

/// Some channels of all rows on the NPU, padded and in pieces.
fn by_channels(price: &ProductPrices<'_>, product: Product) -> Vec<Placement> {
    let of = |graphs| channels(price, product, [product.rows, 0], graphs);
    [GraphCover::Padded, GraphCover::Pieces].map(of).concat()
}

/// Some channels on the NPU, in padded or full graphs; the other channels, and the rows that fill no
/// graph, on the GPU.
fn by_both(price: &ProductPrices<'_>, product: Product) -> Vec<Placement> {
    let of_graphs = full_graphs(price, product.rows).into_iter();
    let of_graphs = of_graphs.flat_map(|rows| channels(price, product, rows, GraphCover::Pieces));
    by_channels(price, product).into_iter().chain(of_graphs).collect()
}

/// Divisions of the channels of the NPU's rows; the GPU computes all channels of the other rows. The
/// NPU's channels are a multiple of its arrays' dimension.
fn channels(
    price: &ProductPrices<'_>,
    product: Product,
    rows: [u32; 2],
    graphs: GraphCover,
) -> Vec<Placement> {
    let Some(npu) = price.device().systolic() else { return Vec::new() };
    let all = product.outputs;
    let step = all.div_ceil(MAX_DIVISIONS).next_multiple_of(npu.array_dimension.max(1)).max(1);
    let split = |npu| Placement::npu_and_gpu(rows, [npu, all - npu], graphs);
    (step..all).step_by(step as usize).map(split).collect()
}

/// Rows on the NPU that fill static graphs, and the others, of which there are some: the largest graph,
/// the two largest, and so on.
fn full_graphs(price: &ProductPrices<'_>, rows: u32) -> Vec<[u32; 2]> {
    let Some(npu) = price.device().systolic() else { return Vec::new() };
    if rows == 1 || npu.graph_sizes.is_empty() {
        return Vec::new();
    }
    let graphs = GraphCover::Pieces.graphs(rows, npu).unwrap_or_default();
    let sums = graphs.iter().scan(0, |sum, &graph| {
        *sum += graph;
        Some(*sum)
    });
    sums.filter(|&sum| sum < rows).map(|sum| [sum, rows - sum]).collect()
}
