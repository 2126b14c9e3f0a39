//! The fastest of every way to compute a product (`HeteroInfer`, SOSP'25, section 4.4). The
//! best of each kind are compared by simulation, which includes the contention of GPU and NPU.

use super::{ProductPrices, activation_centric, hybrid, npu_alone, weight_centric};
use crate::plan::Placement;
use crate::simulate::Result;
use crate::workload::Stage;

pub(in super::super) fn place(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    let layer = &stage.layer;
    let found = [
        npu_alone::best(price, layer)?,
        activation_centric::best(price, layer)?,
        weight_centric::best(price, layer)?,
        hybrid::best(price, layer)?,
    ];
    let mut best = (price.gpu(layer)?, Placement::GPU);
    for (_, split) in found.into_iter().flatten() {
        let time = price.simulated(stage, &split)?;
        if time < best.0 {
            best = (time, split);
        }
    }
    Ok(best.1)
}
