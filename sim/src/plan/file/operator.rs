//! Checks one operator of a plan file against its workload and device.

use super::{Partition, PlannedOperator, Share};
use crate::device::{ProcessorKind, Profile};
use crate::input::Violation;
use crate::kernel::CoreSet;
use crate::plan::{Axis, MAX_PARTS, Part, Placement, Processor, Region, Span};
use crate::workload::{Operator, Stage};

impl PlannedOperator {
    /// The placement of this entry, or what is wrong with it; the violation's key
    /// is relative to the entry.
    pub(super) fn resolve(&self, stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        let placement = match self.partition {
            Partition::None => self.cut(&[], stage, device)?,
            Partition::OutputChannels => self.cut(&[Axis::Channels], stage, device)?,
            Partition::Height => self.cut(&[Axis::Height], stage, device)?,
            Partition::RowsAndChannels => self.cut(&[Axis::Height, Axis::Channels], stage, device)?,
            Partition::Accelerators => self.accelerators(stage, device)?,
        };
        check_graphs(placement, stage, device)?;
        Ok(placement)
    }

    /// The placement of shares side by side along the channels, in bands of rows. Along an axis that is
    /// not cut, each part has everything.
    fn cut(&self, axes: &[Axis], stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        let (operator, written) = (&stage.layer.operator, format!("{:?}", self.partition.to_string()));
        if let Some(&axis) = axes.iter().find(|axis| axis.extent(operator).is_none()) {
            let expected = format!("\"none\": this {} cannot be cut along {}", operator.name(), unit(axis));
            return Err(Violation::new("partition", written, expected));
        }
        let counts = if axes.is_empty() { 1..=1 } else { 2..=MAX_PARTS };
        if !counts.contains(&self.shares.len()) {
            let found = format!("{} shares", self.shares.len());
            let counts = if axes.is_empty() { "1".to_owned() } else { format!("2 to {MAX_PARTS}") };
            let expected = format!("{counts}, since partition is {written}");
            return Err(Violation::new("shares", found, expected));
        }
        let whole = Region::of(operator.output());
        let mut parts: Vec<Part> = Vec::with_capacity(self.shares.len());
        let mut counts = Vec::with_capacity(self.shares.len());
        let (mut rows, mut channel) = (Span::ALL, 0_u32);
        for (index, share) in self.shares.iter().enumerate() {
            let count = |axis| share.count(index, axis, axes.contains(&axis), &written);
            let [height, width] = [count(Axis::Height)?, count(Axis::Channels)?];
            if let Some(height) = height {
                let start = if index == 0 { 0 } else { rows.end };
                if channel == 0 {
                    rows = Span::new(start, start.saturating_add(height));
                } else if height != rows.length() {
                    let expected = format!("{}, the rows of the share before it", rows.length());
                    return Err(Violation::new(format!("shares[{index}].rows"), height, expected));
                }
            }
            let channels = width.map_or(Span::ALL, |width| Span::new(channel, channel.saturating_add(width)));
            parts.push(Part { by: share.by(index, device)?, region: Region { rows, channels } });
            let ends_band = height.is_some() && channels.end >= whole.channels.end;
            channel = if ends_band { 0 } else { channels.end };
            let extents = [height, width].into_iter().flatten().map(|count| count.to_string());
            counts.push(extents.collect::<Vec<_>>().join("x"));
        }
        let placement = Placement::of(&parts)
            .map_err(|error| Violation::new("shares", format!("{} parts", parts.len()), error.to_string()))?;
        placement.check(operator).map_err(|_| {
            let units = axes.iter().map(|&axis| unit(axis)).collect::<Vec<_>>().join(" x ");
            let found = format!("{} {units}", counts.join(" + "));
            let all = axes.iter().map(|&axis| format!("{} output {}", whole.span(axis).length(), unit(axis)));
            let all = all.collect::<Vec<_>>().join(" and ");
            let expected = format!("shares that add up to the {all} of {:?}", stage.name);
            Violation::new("shares", found, expected)
        })?;
        Ok(placement)
    }

    /// The NPU's part of a product and the GPU's around it, in the form of older files.
    fn accelerators(&self, stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        let Operator::Linear(linear) = &stage.layer.operator else {
            let found = "\"accelerators\"";
            let expected = format!(
                "\"none\": {} is not a product of activations and weights",
                stage.layer.operator.name()
            );
            return Err(Violation::new("partition", found, expected));
        };
        let (npu, gpu) = match self.shares.as_slice() {
            [npu] => (npu, None),
            [npu, gpu] => (npu, Some(gpu)),
            shares => {
                let expected = "a share of \"npu\", then one of \"gpu\" or none";
                return Err(Violation::new("shares", format!("{} shares", shares.len()), expected));
            }
        };
        let of_gpu = gpu.map(|share| share.processor);
        if npu.processor != ProcessorKind::Npu || of_gpu.is_some_and(|found| found != ProcessorKind::Gpu) {
            return Err(Violation::new("shares", "other processors", "\"npu\", then \"gpu\" or nothing"));
        }
        for (index, share) in self.shares.iter().enumerate() {
            share.by(index, device)?;
        }
        let rows = [npu.rows.unwrap_or(linear.rows), gpu.and_then(|share| share.rows).unwrap_or(0)];
        let channels = [
            npu.channels.unwrap_or(linear.output_features),
            gpu.and_then(|share| share.channels).unwrap_or(0),
        ];
        check_sum("rows", rows, linear.rows)?;
        check_sum("channels", channels, linear.output_features)?;
        Ok(Placement::npu_and_gpu(rows, channels, npu.graphs.unwrap_or_default()))
    }
}

impl Share {
    /// Its rows or channels, at least one; `None` if the axis is not cut.
    fn count(&self, index: usize, axis: Axis, is_cut: bool, written: &str) -> Result<Option<u32>, Violation> {
        let found = match axis {
            Axis::Height => self.rows,
            Axis::Channels => self.channels,
        };
        let unit = unit(axis);
        let expected = match (found, is_cut) {
            (None, false) | (Some(1..), true) => return Ok(found),
            (_, true) => format!("at least 1 of the {unit}"),
            (Some(_), false) => format!("no {unit}, since partition is {written}"),
        };
        let found = found.map_or("absent".to_owned(), |count| count.to_string());
        Err(Violation::new(format!("shares[{index}].{unit}"), found, expected))
    }

    /// The processor of share number `index`, which the device must have.
    fn by(&self, index: usize, device: &Profile) -> Result<Processor, Violation> {
        let at = format!("shares[{index}]");
        if let Some(cores) = self.cores.as_ref().filter(|_| self.processor != ProcessorKind::Cpu) {
            let expected = format!("no cores for {:?}: only the CPU has them", self.processor.name());
            return Err(Violation::new(format!("{at}.cores"), format!("{cores:?}"), expected));
        }
        match self.processor {
            ProcessorKind::Cpu => self.core_set(&at, device).map(Processor::Cpu),
            ProcessorKind::Gpu if device.gpu.is_some() => Ok(Processor::Gpu),
            ProcessorKind::Npu if device.npu.is_some() => Ok(Processor::Npu(self.graphs.unwrap_or_default())),
            ProcessorKind::Gpu | ProcessorKind::Npu => {
                let name = self.processor.name();
                let expected =
                    format!("a processor that {} has; its profile has no [{name}] table", device.name);
                Err(Violation::new(format!("{at}.processor"), format!("{name:?}"), expected))
            }
        }
    }

    fn core_set(&self, at: &str, device: &Profile) -> Result<CoreSet, Violation> {
        let key = format!("{at}.cores");
        match &self.cores {
            None => Err(Violation::new(key, "absent", "the CPU cores to use, such as \"1large2med\"")),
            Some(cores) => CoreSet::parse(cores, &device.cpu)
                .map_err(|error| Violation::new(key, format!("{cores:?}"), error.expected)),
        }
    }
}

/// Checks that the NPU has graphs for the rows of its part.
fn check_graphs(placement: Placement, stage: &Stage, device: &Profile) -> Result<(), Violation> {
    let (Operator::Linear(linear), Some(unit)) = (&stage.layer.operator, device.systolic()) else {
        return Ok(());
    };
    let all = Span::new(0, linear.rows);
    for (index, part) in placement.parts().enumerate() {
        if let Processor::Npu(graphs) = part.by
            && graphs.graphs(part.region.rows.common(all).length(), unit).is_none()
        {
            let expected = format!("\"padded\", \"pieces\" or chunks of one of {:?} rows", unit.graph_sizes);
            return Err(Violation::new(format!("shares[{index}].graphs"), format!("{graphs:?}"), expected));
        }
    }
    Ok(())
}

/// The unit along an axis, which is also its key in a share.
fn unit(axis: Axis) -> &'static str {
    match axis {
        Axis::Height => "rows",
        Axis::Channels => "channels",
    }
}

fn check_sum(unit: &str, [npu, gpu]: [u32; 2], whole: u32) -> Result<(), Violation> {
    if npu > 0 && u64::from(npu) + u64::from(gpu) == u64::from(whole) {
        return Ok(());
    }
    let expected = format!("at least 1 for the NPU and {whole} {unit} together");
    Err(Violation::new("shares", format!("{npu} and {gpu} {unit}"), expected))
}
