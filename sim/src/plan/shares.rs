//! Who computes how much of each operator of a plan, as a figure shows it.

use serde::Serialize;

use super::cut::{Axis, Cut};
use super::placement::{Placement, Plan};

/// What each processor computes of one operator; the parts add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OperatorShares {
    /// The CPU's part.
    pub cpu: f64,
    /// The GPU's part.
    pub gpu: f64,
    /// The NPU's part.
    pub npu: f64,
    /// Whether CPU and GPU share it along its height rather than its channels.
    pub is_along_height: bool,
    /// Its chain.
    pub chain: Option<u32>,
}

/// Each operator's shares under `plan`, the halos of chains left out.
pub fn shares(plan: &Plan) -> Vec<OperatorShares> {
    let of = |(stage, placement): (usize, &Placement)| {
        let chain = plan.chain(stage);
        let none = OperatorShares { chain, ..OperatorShares::default() };
        match placement {
            Placement::Cpu(_) => OperatorShares { cpu: 1.0, ..none },
            Placement::Gpu => OperatorShares { gpu: 1.0, ..none },
            Placement::Npu => OperatorShares { npu: 1.0, ..none },
            Placement::Accelerators(split) => {
                let part =
                    |some: u32, others: u32| f64::from(some) / (f64::from(some) + f64::from(others)).max(1.0);
                let npu = part(split.npu_rows, split.gpu_rows) * part(split.npu_channels, split.gpu_channels);
                OperatorShares { npu, gpu: 1.0 - npu, ..none }
            }
            Placement::Split { .. } | Placement::HeightSplit { .. } => {
                Cut::of(placement).map_or(none, |cut| {
                    let cpu = f64::from(cut.parts[0].end) / f64::from(cut.all.max(1));
                    let is_along_height = cut.axis == Axis::Height;
                    OperatorShares { cpu, gpu: 1.0 - cpu, is_along_height, ..none }
                })
            }
        }
    };
    plan.placements.iter().enumerate().map(of).collect()
}
