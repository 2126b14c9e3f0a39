//! Missing bytes: the part of a result that a processor reads and did not compute.
//!
//! Invariant: bytes that a processor computed itself never cross. A result without readers
//! is needed in whole by every processor that computed a part of it.

use crate::device::ProcessorKind;
use crate::plan::{Axis, Placement, Region, Regions, Span};
use crate::units::Bytes;
use crate::workload::{Layer, Read, Shape, Stage};

/// Bytes of a result that must be handed over to each processor.
pub type Missing = [Bytes; ProcessorKind::ALL.len()];

/// The hull of each processor's regions of a stage.
type Owned = [Region; ProcessorKind::ALL.len()];

/// The region that `part` of `stage` reads of the tensor at `position`, of shape `input`.
fn needed(stage: &Stage, position: usize, part: Region, input: Shape) -> Region {
    if part.is_empty() {
        return Region::NONE;
    }
    let operator = &stage.layer.operator;
    let (output, mut region) = (operator.output(), Region::of(input));
    if part == Region::of(output) {
        return region;
    }
    let is_narrower = part.rows.length() < output.lines();
    if is_narrower
        && operator.separate_rows() == Some(output.lines())
        && let Some(rows) = stage.rows_read(position, part.rows.range())
    {
        region.rows = Span::from(rows).common(region.rows);
    }
    let has_channels = input.channels == output.channels;
    if has_channels && (position > 0 || operator.separate_channels().is_some()) {
        region.channels = part.channels;
    }
    region
}

/// Missing bytes of every stage's result, for parts of `placements` that compute the regions
/// `computed`.
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
        for &Read { position, input } in &stage.reads {
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

/// Bytes of a part of size `size` (as [`Region::size`]) of a result of `all` bytes.
pub(super) fn share(all: Bytes, size: u64, whole: Region) -> Bytes {
    // The common cases, without a 128-bit division.
    if size == 0 || size == whole.size() {
        return if size == 0 { Bytes::ZERO } else { all };
    }
    Bytes((u128::from(all.0) * u128::from(size) / u128::from(whole.size().max(1))) as u64)
}

/// Bytes of a layer's result.
pub fn result_bytes(layer: &Layer) -> Bytes {
    bytes_of(layer.operator.output().elements(), layer)
}

/// Bytes of a number of elements of a layer's activations.
fn bytes_of(elements: u64, layer: &Layer) -> Bytes {
    Bytes(elements * layer.data_type.activation_bytes())
}

/// Bytes of the tensors that a layer reads, without weights.
pub fn read_bytes(layer: &Layer) -> Bytes {
    let output = layer.operator.output();
    let linked = layer.linked.operand_tensors(output) * output.elements() as f64;
    bytes_of(layer.operator.input_elements() + linked as u64, layer)
}

/// Bytes of the workload's inputs that a stage reads, without constants.
pub fn input_bytes(stage: &Stage) -> Bytes {
    if stage.reads.len() + stage.constants.len() >= stage.input_count {
        return Bytes::ZERO;
    }
    let is_computed = |at: usize| stage.reads.iter().any(|read| read.position == at);
    let is_given = |&(at, _): &(usize, Shape)| !is_computed(at) && !stage.constants.contains(&at);
    let given = stage.layer.read_shapes().enumerate().filter(is_given);
    bytes_of(given.map(|(_, shape)| shape.elements()).sum(), &stage.layer)
}

/// Number of contiguous pieces of memory that hold a part of a layer's result, cut along
/// `axis`: a part of the channels has one piece per pixel.
pub fn pieces(layer: &Layer, axis: Option<Axis>) -> u64 {
    let output = layer.operator.output();
    match axis {
        Some(Axis::Height) => u64::from(output.batch),
        Some(Axis::Channels) | None => output.elements() / u64::from(output.channels.max(1)),
    }
}
