//! What of a result each processor has to be given: what it reads and did not compute.
//!
//! Invariant: what a processor computed itself never crosses; where nobody reads a
//! result, everyone wants all of it.

use crate::device::ProcessorKind;
use crate::plan::{Axis, Placement, Region, Regions, rows_read};
use crate::units::Bytes;
use crate::workload::{Layer, Shape, Stage};

/// Bytes of a result that each processor has to be given.
pub type Missing = [Bytes; ProcessorKind::ALL.len()];

/// What each processor computes of a stage, as one box.
type Owned = [Region; ProcessorKind::ALL.len()];

/// What `part` of `stage` reads of its input at `position`, of extent `input`.
fn needed(stage: &Stage, position: usize, part: Region, input: Shape) -> Region {
    if part.is_empty() {
        return Region::NONE;
    }
    let operator = &stage.layer.operator;
    let (output, mut region) = (operator.output(), Region::of(input));
    if part == Region::of(output) {
        return region;
    }
    let is_broadcast = position > 0 && input.lines() != output.lines();
    let is_narrower = part.rows.length() < output.lines() && !is_broadcast;
    if is_narrower && operator.separate_rows() == Some(output.lines()) {
        region.rows = rows_read(stage, position, part.rows).common(region.rows);
    }
    let has_channels = input.channels == output.channels;
    if has_channels && (position > 0 || operator.separate_channels().is_some()) {
        region.channels = part.channels;
    }
    region
}

/// Bytes of every stage's result that each processor has to be given, where the parts of
/// `placements` compute these regions.
pub fn missing(stages: &[Stage], placements: &[Placement], computed: &[Regions]) -> Vec<Missing> {
    let owned: Vec<Owned> = placements
        .iter()
        .zip(computed)
        .map(|(placement, regions)| {
            let mut owned = Owned::default();
            for (part, &region) in placement.parts().zip(regions) {
                let own = &mut owned[part.by.kind() as usize];
                *own = own.hull(region);
            }
            owned
        })
        .collect();
    let mut needs = vec![Owned::default(); stages.len()];
    let mut is_read = vec![false; stages.len()];
    for (stage, parts) in stages.iter().zip(&owned) {
        for (position, &input) in stage.inputs.iter().enumerate() {
            is_read[input] = true;
            let extent = stages[input].layer.operator.output();
            for (need, &part) in needs[input].iter_mut().zip(parts) {
                *need = need.hull(needed(stage, position, part, extent));
            }
        }
    }
    let of_stage = |(index, stage): (usize, &Stage)| {
        let whole = Region::of(stage.layer.operator.output());
        let all = result_bytes(&stage.layer);
        ProcessorKind::ALL.map(|kind| {
            let own = owned[index][kind as usize];
            let need = match (is_read[index], own.is_empty()) {
                (true, _) => needs[index][kind as usize],
                (false, true) => return Bytes::ZERO,
                (false, false) => whole,
            };
            share(all, need.size() - need.common(own).size(), whole)
        })
    };
    stages.iter().enumerate().map(of_stage).collect()
}

/// Bytes of so much of a result of `all` bytes.
pub(super) fn share(all: Bytes, size: u64, whole: Region) -> Bytes {
    // Nearly always nothing or everything, which needs no division of 128 bits.
    if size == 0 || size == whole.size() {
        return if size == 0 { Bytes::ZERO } else { all };
    }
    Bytes((u128::from(all.0) * u128::from(size) / u128::from(whole.size().max(1))) as u64)
}

/// Bytes of a layer's result.
pub fn result_bytes(layer: &Layer) -> Bytes {
    bytes_of(layer.operator.output().elements(), layer)
}

/// Bytes of so many elements of a layer's tensors.
fn bytes_of(elements: u64, layer: &Layer) -> Bytes {
    Bytes(elements * layer.data_type.activation_bytes())
}

/// Bytes of the tensors a layer reads, weights apart.
pub fn read_bytes(layer: &Layer) -> Bytes {
    let linked = u64::from(layer.linked.additions() + layer.linked.multiplications());
    let elements = layer.operator.input_elements() + linked * layer.operator.output().elements();
    bytes_of(elements, layer)
}

/// Pieces of memory in which a part of a layer's result lies that was cut along `axis`: of
/// some channels, each pixel's apart from the next one's.
pub fn pieces(layer: &Layer, axis: Option<Axis>) -> u64 {
    let output = layer.operator.output();
    match axis {
        Some(Axis::Height) => u64::from(output.batch),
        Some(Axis::Channels) | None => output.elements() / u64::from(output.channels.max(1)),
    }
}
