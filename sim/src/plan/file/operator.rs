//! One operator of a plan file against its workload and device.

use super::{Partition, PlannedOperator, Share};
use crate::device::profile::Profile;
use crate::input::Violation;
use crate::kernel::cpu::CoreSet;
use crate::plan::{Axis, MAX_PARTS, Part, Placement, Processor, ProcessorKind, Region, Span};
use crate::workload::{Operator, Stage};

impl PlannedOperator {
    /// The placement this entry stands for, or what is wrong with it; the
    /// violation's key is relative to the entry.
    pub(super) fn resolve(&self, stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        if self.name != stage.name {
            return Err(Violation::new(
                "name",
                format!("{:?}", self.name),
                format!("{:?}, the workload's next operator", stage.name),
            ));
        }
        let placement = match self.partition {
            Partition::None => self.whole(device)?,
            Partition::OutputChannels => self.along(Axis::Channels, stage, device)?,
            Partition::Height => self.along(Axis::Height, stage, device)?,
            Partition::RowsAndChannels => self.along_both(stage, device)?,
            Partition::Accelerators => self.accelerators(stage, device)?,
        };
        check_graphs(placement, stage, device)?;
        Ok(placement)
    }

    fn whole(&self, device: &Profile) -> Result<Placement, Violation> {
        let [share] = self.shares.as_slice() else {
            return Err(Violation::new(
                "shares",
                format!("{} shares", self.shares.len()),
                "one share, since partition is \"none\"",
            ));
        };
        for (key, found) in [("channels", share.channels), ("rows", share.rows)] {
            if let Some(found) = found {
                return Err(Violation::new(
                    format!("shares[0].{key}"),
                    found,
                    format!("no {key}, since partition is \"none\""),
                ));
            }
        }
        Ok(Placement::whole(share.by(0, device)?))
    }

    /// Parts side by side along `axis`.
    fn along(&self, axis: Axis, stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        let (written, along, unit, other) = match axis {
            Axis::Height => ("\"height\"", "its height", "row", "channels"),
            Axis::Channels => ("\"output-channels\"", "output channels", "channel", "rows"),
        };
        let whole = Self::extent(axis, along, written, stage)?;
        self.check_count()?;
        let mut parts = Vec::with_capacity(self.shares.len());
        let mut counts = Vec::with_capacity(self.shares.len());
        let mut end = 0_u64;
        for (index, share) in self.shares.iter().enumerate() {
            let (count, beside) = match axis {
                Axis::Height => (share.rows, share.channels),
                Axis::Channels => (share.channels, share.rows),
            };
            if let Some(found) = beside {
                let expected = format!("no {other}, since partition is {written}");
                return Err(Violation::new(format!("shares[{index}].{other}"), found, expected));
            }
            let count = at_least_one(index, &format!("{unit}s"), count)?;
            counts.push(count.to_string());
            let start = end;
            end += u64::from(count);
            let region = Region::along(axis, Span::new(start as u32, end as u32));
            parts.push(Part { by: share.by(index, device)?, region });
        }
        if end != u64::from(whole) {
            return Err(Violation::new(
                "shares",
                format!("{} {unit}s", counts.join(" + ")),
                format!("shares that add up to the {whole} output {unit}s of {:?}", stage.name),
            ));
        }
        placed(&parts)
    }

    /// Parts side by side along the channels, in bands of rows.
    fn along_both(&self, stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        let written = "\"rows-and-channels\"";
        Self::extent(Axis::Height, "its height", written, stage)?;
        let all = Self::extent(Axis::Channels, "output channels", written, stage)?;
        self.check_count()?;
        let mut parts: Vec<Part> = Vec::with_capacity(self.shares.len());
        let (mut rows, mut channel) = (Span::default(), 0_u32);
        for (index, share) in self.shares.iter().enumerate() {
            let count = at_least_one(index, "rows", share.rows)?;
            if channel == 0 {
                rows = Span::new(rows.end, rows.end.saturating_add(count));
            } else if count != rows.length() {
                let expected = format!("{}, the rows of the share before it", rows.length());
                return Err(Violation::new(format!("shares[{index}].rows"), count, expected));
            }
            let end = channel.saturating_add(at_least_one(index, "channels", share.channels)?);
            let region = Region { rows, channels: Span::new(channel, end) };
            parts.push(Part { by: share.by(index, device)?, region });
            channel = if end >= all { 0 } else { end };
        }
        let placement = placed(&parts)?;
        placement.check(&stage.layer.operator).map_err(|error| {
            Violation::new("shares", "other rows and channels", format!("all of {:?}: {error}", stage.name))
        })?;
        Ok(placement)
    }

    /// The NPU's part of a product and the GPU's around it, as older files have them.
    fn accelerators(&self, stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        let Operator::Linear(linear) = &stage.layer.operator else {
            let found = "\"accelerators\"";
            let expected =
                format!("\"none\": {} is no product of activations and weights", stage.layer.operator.name());
            return Err(Violation::new("partition", found, expected));
        };
        let (npu, gpu) = match self.shares.as_slice() {
            [npu] => (npu, None),
            [npu, gpu] => (npu, Some(gpu)),
            shares => {
                let found = format!("{} shares", shares.len());
                return Err(Violation::new(
                    "shares",
                    found,
                    "a share of \"npu\", then one of \"gpu\" or none",
                ));
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

    /// Rows or channels of an operator that may be cut so.
    fn extent(axis: Axis, along: &str, written: &str, stage: &Stage) -> Result<u32, Violation> {
        axis.extent(&stage.layer.operator).ok_or_else(|| {
            let name = stage.layer.operator.name();
            Violation::new("partition", written, format!("\"none\": this {name} cannot be cut along {along}"))
        })
    }

    fn check_count(&self) -> Result<(), Violation> {
        if (2..=MAX_PARTS).contains(&self.shares.len()) {
            return Ok(());
        }
        let found = format!("{} shares", self.shares.len());
        Err(Violation::new("shares", found, format!("two to {MAX_PARTS} shares")))
    }
}

impl Share {
    /// Who computes share number `index`, on a device that has such a processor.
    fn by(&self, index: usize, device: &Profile) -> Result<Processor, Violation> {
        let at = format!("shares[{index}]");
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
        let Some(cores) = &self.cores else {
            return Err(Violation::new(
                format!("{at}.cores"),
                "absent",
                "the CPU cores to use, such as \"1large2med\"",
            ));
        };
        CoreSet::parse(cores, &device.cpu)
            .map_err(|error| Violation::new(format!("{at}.cores"), format!("{cores:?}"), error.expected))
    }
}

/// That the NPU has graphs for the rows of its part.
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

/// Rows or channels of share number `index`, at least one.
fn at_least_one(index: usize, unit: &str, count: Option<u32>) -> Result<u32, Violation> {
    count.filter(|&count| count > 0).ok_or_else(|| {
        let found = count.map_or("absent".to_owned(), |count| count.to_string());
        Violation::new(
            format!("shares[{index}].{unit}"),
            found,
            format!("at least 1 {}", &unit[..unit.len() - 1]),
        )
    })
}

/// The placement of these parts.
fn placed(parts: &[Part]) -> Result<Placement, Violation> {
    Placement::of(parts).map_err(|error| Violation::new("shares", "other shares", error.to_string()))
}

fn check_sum(unit: &str, [npu, gpu]: [u32; 2], whole: u32) -> Result<(), Violation> {
    if npu > 0 && u64::from(npu) + u64::from(gpu) == u64::from(whole) {
        return Ok(());
    }
    let expected = format!("at least 1 for the NPU and {whole} {unit} together");
    Err(Violation::new("shares", format!("{npu} and {gpu} {unit}"), expected))
}
