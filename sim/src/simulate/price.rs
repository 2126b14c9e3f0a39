//! What meeting takes: hand-overs, joins, and copies over a GPU's link.
//!
//! One function each, which the simulator, the search and whoever explains them ask.
//! Invariant: nothing here depends on what else runs.

use crate::device::{Direction, LinkTransfer, OwnMemory, Profile};
use crate::plan::{Mechanism, synchronisation};
use crate::schedule::{read_bytes, result_bytes};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Layout};

/// The GPU's own memory, where it has one.
pub(super) fn own_memory(device: &Profile) -> Option<&OwnMemory> {
    device.gpu.as_ref()?.memory.as_ref()
}

/// Whether all bytes of the GPU go through a memory of its own.
pub(crate) fn has_own_memory(device: &Profile) -> bool {
    own_memory(device).is_some()
}

/// What it takes that `transfer` crosses the GPU's link; nothing where there is none.
pub(crate) fn copying(device: &Profile, transfer: LinkTransfer, direction: Direction) -> Picos {
    own_memory(device).map_or(Picos::ZERO, |memory| memory.link.transfer(transfer, direction))
}

/// Whether the GPU's tensors have to be transformed before a CPU reads them.
fn needs_transform(device: &Profile) -> bool {
    device.gpu.as_ref().is_some_and(|gpu| gpu.layout() != Layout::Buffer)
}

/// From the end of the later part to the moment both processors may go on, `bytes` of
/// the result being what either still lacks. Where the GPU's part is copied, nothing is
/// left to map.
pub(crate) fn join_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes) -> Picos {
    if has_own_memory(device) || bytes == Bytes::ZERO {
        return synchronisation::notification(&device.sync, mechanism);
    }
    synchronisation::hand_over(&device.sync, mechanism, bytes, needs_transform(device))
}

/// From the end of one processor's work to the moment another may read it;
/// `with_gpu` where the GPU, which alone keeps images, is one of the two. A copy
/// over the GPU's link comes on top, and takes the place of the mapping.
pub fn hand_over_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes, with_gpu: bool) -> Picos {
    if with_gpu && has_own_memory(device) {
        return join_delay(device, mechanism, bytes);
    }
    synchronisation::hand_over(&device.sync, mechanism, bytes, with_gpu && needs_transform(device))
}

/// What it takes that the CPU has `bytes` of the GPU's result, or the GPU of the CPU's: the
/// hand-over, and the copy where the GPU has a memory of its own.
pub(crate) fn between_cpu_and_gpu(
    device: &Profile,
    mechanism: Mechanism,
    bytes: Bytes,
    direction: Direction,
) -> Picos {
    hand_over_delay(device, mechanism, bytes, true) + copying(device, LinkTransfer::whole(bytes), direction)
}

/// What it takes that the GPU's queue goes on with `layer` after another processor's
/// result: nothing between the steps of one token, whose kernels wait in the queue unless
/// the mechanism empties it.
pub(super) fn resubmission(device: &Profile, mechanism: Mechanism, layer: &Layer) -> Picos {
    let kernels = device.gpu.as_ref().and_then(|gpu| gpu.language.as_ref());
    let is_empty = layer.operator.output().width > 1 || mechanism.maps();
    let kernels = kernels.filter(|_| is_empty && layer.is_of_language_engine());
    kernels.map_or(Picos::ZERO, |kernels| Picos::from_micros(kernels.submission_us.value))
}

/// What it takes that the NPU learns of an input of `layer` on the GPU, that the GPU learns of the
/// NPU's result, and that both learn of a shared result.
pub(crate) fn accelerator_costs(device: &Profile, mechanism: Mechanism, layer: &Layer) -> [Picos; 3] {
    let (read, written) = (read_bytes(layer), result_bytes(layer));
    let resubmission = resubmission(device, mechanism, layer);
    let hand_over = |bytes| hand_over_delay(device, mechanism, bytes, true);
    [
        hand_over(read),
        hand_over(written) + resubmission,
        join_delay(device, mechanism, written) + resubmission,
    ]
}
