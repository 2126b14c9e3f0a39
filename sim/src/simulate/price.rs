//! Cost of synchronisation: hand-overs, joins, and copies over a GPU's link.
//!
//! The simulator, the search and their explanations share these functions.
//! Invariant: no cost here depends on what else runs.

use crate::device::{Direction, LinkTransfer, OwnMemory, Profile};
use crate::plan::{Mechanism, synchronisation};
use crate::schedule::{read_bytes, result_bytes};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Layout};

/// The memory of a discrete GPU; `None` where the GPU shares the host's.
pub(super) fn own_memory(device: &Profile) -> Option<&OwnMemory> {
    device.gpu.as_ref()?.memory.as_ref()
}

/// Whether the GPU has a memory of its own.
pub(crate) fn has_own_memory(device: &Profile) -> bool {
    own_memory(device).is_some()
}

/// Time of `transfer` over the GPU's link; zero where the GPU has no memory of its own.
pub(crate) fn copying(device: &Profile, transfer: LinkTransfer, direction: Direction) -> Picos {
    own_memory(device).map_or(Picos::ZERO, |memory| memory.link.transfer(transfer, direction))
}

/// Whether the GPU's tensors must be transformed before a CPU reads them.
fn needs_transform(device: &Profile) -> bool {
    device.gpu.as_ref().is_some_and(|gpu| gpu.layout() != Layout::Buffer)
}

/// Time from the end of the later part until both processors may go on. `bytes` is how
/// much of the result either processor still lacks. Where the GPU's part is copied,
/// nothing has to be mapped.
pub(crate) fn join_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes) -> Picos {
    if has_own_memory(device) || bytes == Bytes::ZERO {
        return synchronisation::notification(&device.sync, mechanism);
    }
    synchronisation::hand_over(&device.sync, mechanism, bytes, needs_transform(device))
}

/// Time from the end of one processor's work until another may read its result.
/// `with_gpu`: the GPU, the only processor that stores images, is one of the two. For a
/// GPU with its own memory, the copy over the link is not included and replaces the
/// mapping.
pub fn hand_over_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes, with_gpu: bool) -> Picos {
    if with_gpu && has_own_memory(device) {
        return join_delay(device, mechanism, bytes);
    }
    synchronisation::hand_over(&device.sync, mechanism, bytes, with_gpu && needs_transform(device))
}

/// Time until the CPU has `bytes` of the GPU's result, or the GPU of the CPU's: the hand-over,
/// and the copy where the GPU has a memory of its own.
pub(crate) fn between_cpu_and_gpu(
    device: &Profile,
    mechanism: Mechanism,
    bytes: Bytes,
    direction: Direction,
) -> Picos {
    hand_over_delay(device, mechanism, bytes, true) + copying(device, LinkTransfer::whole(bytes), direction)
}

/// Time to submit `layer` of a language-model engine to the GPU's queue again after another
/// processor's result; zero for other layers. Kernels of a single token are already queued,
/// at no cost, unless the mechanism drains the queue.
pub(super) fn resubmission(device: &Profile, mechanism: Mechanism, layer: &Layer) -> Picos {
    let kernels = device.gpu.as_ref().and_then(|gpu| gpu.language.as_ref());
    let is_empty = layer.operator.output().width > 1 || mechanism.maps();
    let kernels = kernels.filter(|_| is_empty && layer.is_of_language_engine());
    kernels.map_or(Picos::ZERO, |kernels| Picos::from_micros(kernels.submission_us.value))
}

/// Cost of handing the input of `layer` from the GPU to the NPU, its result from the NPU to the
/// GPU, and of joining a result that both compute.
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
