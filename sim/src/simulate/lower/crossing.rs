//! What of a result each processor has to be given: what it reads and did not compute.
//!
//! Responsible for: bytes. Not for: when they cross, or what that takes (`visible`).
//! Invariant: what a processor computed itself never crosses; where nobody reads a
//! result, everyone wants all of it.

use std::ops::Range;

use super::{Processor, result_bytes};
use crate::plan::{Axis, Cut, Placement, lines_read};
use crate::units::Bytes;
use crate::workload::{Shape, Stage};

/// Bytes of a result that each processor has to be given.
pub(in super::super) type Crossing = [Bytes; Processor::ALL.len()];

/// A box of a result: some of its lines, some of its channels.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    lines: Range<u32>,
    channels: Range<u32>,
}

impl Region {
    fn nothing() -> Self {
        Self { lines: 0..0, channels: 0..0 }
    }

    fn all(shape: Shape) -> Self {
        Self { lines: 0..shape.lines(), channels: 0..shape.channels }
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() || self.channels.is_empty()
    }

    fn size(&self) -> u64 {
        if self.is_empty() { 0 } else { u64::from(length(&self.lines)) * u64::from(length(&self.channels)) }
    }

    /// The smallest region with both.
    fn hull(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            self.lines = self.lines.start.min(other.lines.start)..self.lines.end.max(other.lines.end);
            self.channels =
                self.channels.start.min(other.channels.start)..self.channels.end.max(other.channels.end);
        }
    }

    fn common(&self, other: &Self) -> Self {
        let meet = |a: &Range<u32>, b: &Range<u32>| a.start.max(b.start)..a.end.min(b.end);
        Self { lines: meet(&self.lines, &other.lines), channels: meet(&self.channels, &other.channels) }
    }
}

fn length(range: &Range<u32>) -> u32 {
    range.end.saturating_sub(range.start)
}

/// Who computes which part of a stage.
fn computed(placement: &Placement, cut: Option<&Cut>, shape: Shape) -> [Region; Processor::ALL.len()] {
    let mut regions = Processor::ALL.map(|_| Region::nothing());
    let whole = Region::all(shape);
    match (placement, cut) {
        (Placement::Cpu(_), _) => regions[Processor::Cpu as usize] = whole,
        (Placement::Gpu, _) => regions[Processor::Gpu as usize] = whole,
        (Placement::Npu, _) => regions[Processor::Npu as usize] = whole,
        (Placement::Split { .. } | Placement::HeightSplit { .. }, Some(cut)) => {
            for (processor, part) in [Processor::Cpu, Processor::Gpu].into_iter().zip(&cut.parts) {
                regions[processor as usize] = match cut.axis {
                    Axis::Channels => Region { channels: part.clone(), ..whole.clone() },
                    Axis::Height => Region { lines: part.clone(), ..whole.clone() },
                };
            }
        }
        (Placement::Accelerators(split), _) => {
            regions[Processor::Npu as usize] =
                Region { lines: 0..split.npu_rows, channels: 0..split.npu_channels };
            if split.is_shared() {
                // Two boxes, whose hull is everything or the channels behind the NPU's.
                let first = if split.gpu_rows > 0 { 0 } else { split.npu_channels };
                regions[Processor::Gpu as usize] = Region { channels: first..shape.channels, ..whole };
            }
        }
        (Placement::Split { .. } | Placement::HeightSplit { .. }, None) => {}
    }
    regions
}

/// What `part` of `stage` reads of its input at `position`, of extent `input`.
fn read(stage: &Stage, position: usize, part: &Region, input: Shape) -> Region {
    let all = Region::all(input);
    if part.is_empty() {
        return Region::nothing();
    }
    let output = stage.layer.operator.output();
    let mut region = all.clone();
    let by_lines = stage.layer.operator.separate_rows() == Some(output.lines());
    if by_lines && length(&part.lines) < output.lines() {
        let lines = lines_read(stage, position, part.lines.clone());
        let is_broadcast = position > 0 && input.lines() != output.lines();
        if !is_broadcast {
            region.lines = lines.start.min(all.lines.end)..lines.end.min(all.lines.end);
        }
    }
    let keeps_channels = position > 0 || stage.layer.operator.separate_channels().is_some();
    if keeps_channels && input.channels == output.channels {
        region.channels = part.channels.clone();
    }
    region
}

/// Bytes of every stage's result that each processor has to be given.
pub(super) fn crossings(stages: &[Stage], placements: &[Placement], cuts: &[Option<Cut>]) -> Vec<Crossing> {
    let parts: Vec<[Region; Processor::ALL.len()]> = stages
        .iter()
        .zip(placements)
        .zip(cuts)
        .map(|((stage, placement), cut)| computed(placement, cut.as_ref(), stage.layer.operator.output()))
        .collect();
    let mut needs: Vec<[Region; Processor::ALL.len()]> =
        stages.iter().map(|_| Processor::ALL.map(|_| Region::nothing())).collect();
    let mut is_read = vec![false; stages.len()];
    for (stage, parts) in stages.iter().zip(&parts) {
        for (position, &input) in stage.inputs.iter().enumerate() {
            is_read[input] = true;
            let extent = stages[input].layer.operator.output();
            for (need, part) in needs[input].iter_mut().zip(parts) {
                need.hull(read(stage, position, part, extent));
            }
        }
    }
    (0..stages.len())
        .map(|index| {
            let shape = stages[index].layer.operator.output();
            let whole = Region::all(shape);
            let bytes = |processor: Processor| {
                let own = &parts[index][processor as usize];
                let need = if is_read[index] {
                    &needs[index][processor as usize]
                } else if own.is_empty() {
                    return Bytes::ZERO;
                } else {
                    &whole
                };
                let missing = need.size() - need.common(own).size();
                let bytes = u128::from(result_bytes(&stages[index].layer).0) * u128::from(missing);
                Bytes((bytes / u128::from(whole.size().max(1))) as u64)
            };
            Processor::ALL.map(bytes)
        })
        .collect()
}

#[cfg(test)]
mod tests;
