//! Whole products on the faster processor (`HeteroInfer`, SOSP'25, section 4.1): in practice
//! the NPU for prefill and the GPU for decode.

use super::{ProductPrices, npu_alone};
use crate::plan::Placement;
use crate::simulate::Result;
use crate::workload::Stage;

pub(in super::super) fn place(price: &ProductPrices<'_>, stage: &Stage) -> Result<Placement> {
    let gpu = price.gpu(&stage.layer)?;
    Ok(match npu_alone::best(price, &stage.layer)? {
        Some((npu, split)) if npu < gpu => split,
        _ => Placement::GPU,
    })
}
