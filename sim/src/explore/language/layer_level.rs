//! Whole products on the processor that is faster (`HeteroInfer`, SOSP'25, section 4.1):
//! in practice the NPU reads prompts and the GPU generates.

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
