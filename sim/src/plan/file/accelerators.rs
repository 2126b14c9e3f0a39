//! A product that GPU and NPU share, as it is written: the NPU's share with its rows,
//! channels and graphs, then the GPU's with what it has beyond them.

use super::{PlannedOperator, ProcessorName, Share, absent, violation};
use crate::device::check::Violation;
use crate::device::profile::Profile;
use crate::plan::accelerators::AcceleratorSplit;
use crate::workload::{Operator, Stage};

/// The shares of `split`.
pub(super) fn shares(split: &AcceleratorSplit) -> Vec<Share> {
    let some = |count: u32| (count > 0).then_some(count);
    let npu = Share {
        processor: ProcessorName::Npu,
        cores: None,
        channels: Some(split.npu_channels),
        rows: Some(split.npu_rows),
        graphs: Some(split.graphs),
    };
    let gpu = Share {
        processor: ProcessorName::Gpu,
        channels: some(split.gpu_channels),
        rows: some(split.gpu_rows),
        graphs: None,
        ..npu.clone()
    };
    if split.is_shared() { vec![npu, gpu] } else { vec![npu] }
}

impl PlannedOperator {
    /// What GPU and NPU compute of `stage`.
    pub(super) fn resolve_accelerators(
        &self,
        stage: &Stage,
        device: &Profile,
    ) -> Result<AcceleratorSplit, Violation> {
        let Operator::Linear(linear) = &stage.layer.operator else {
            let found = "\"accelerators\"";
            let expected =
                format!("\"none\": {} is no product of activations and weights", stage.layer.operator.name());
            return Err(violation("partition", found, expected));
        };
        let (npu, gpu) = match self.shares.as_slice() {
            [npu] => (npu, None),
            [npu, gpu] => (npu, Some(gpu)),
            shares => {
                let found = format!("{} shares", shares.len());
                return Err(violation("shares", found, "a share of \"npu\", then one of \"gpu\" or none"));
            }
        };
        let of_gpu = gpu.map(|share| share.processor);
        if npu.processor != ProcessorName::Npu || of_gpu.is_some_and(|found| found != ProcessorName::Gpu) {
            return Err(violation("shares", "other processors", "\"npu\", then \"gpu\" or nothing"));
        }
        let split = AcceleratorSplit {
            npu_rows: npu.rows.unwrap_or(linear.rows),
            gpu_rows: gpu.and_then(|share| share.rows).unwrap_or(0),
            npu_channels: npu.channels.unwrap_or(linear.output_features),
            gpu_channels: gpu.and_then(|share| share.channels).unwrap_or(0),
            graphs: npu.graphs.unwrap_or_default(),
        };
        check_sum("rows", [split.npu_rows, split.gpu_rows], linear.rows)?;
        check_sum("channels", [split.npu_channels, split.gpu_channels], linear.output_features)?;
        if split.is_shared() && device.gpu.is_none() {
            return Err(absent(1, "gpu", device));
        }
        let unit = device.npu.as_ref().ok_or_else(|| absent(0, "npu", device))?;
        if split.graphs.graphs(split.npu_rows, unit).is_none() {
            let expected = format!("\"padded\", \"pieces\" or chunks of one of {:?} rows", unit.graph_sizes);
            return Err(violation("shares[0].graphs", format!("{:?}", split.graphs), expected));
        }
        Ok(split)
    }
}

fn check_sum(unit: &str, [npu, gpu]: [u32; 2], whole: u32) -> Result<(), Violation> {
    if npu > 0 && u64::from(npu) + u64::from(gpu) == u64::from(whole) {
        return Ok(());
    }
    let expected = format!("at least 1 for the NPU and {whole} {unit} together");
    Err(violation("shares", format!("{npu} and {gpu} {unit}"), expected))
}
