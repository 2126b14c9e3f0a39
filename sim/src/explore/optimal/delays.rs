//! How long results take from one processor to another.
//!
//! Responsible for: the delays of one result. Not for: when they begin (`moves`). Invariant: the delays of a result
//! without bytes are no longer than those of any other.

use crate::device::{Direction, LinkTransfer, ProcessorKind, Profile};
use crate::plan::Mechanism;
use crate::schedule::{Holders, input_bytes};
use crate::simulate::{copying, hand_over_delay, join_delay};
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// Delays of the hand-overs and the join of one result.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferDelays {
    /// From the GPU to the CPU.
    pub(super) to_cpu: Picos,
    /// From any processor to the GPU.
    pub(super) to_gpu: Picos,
    /// From the GPU to the NPU.
    pub(super) to_npu: Picos,
    /// Between CPU and NPU.
    pub(super) without_gpu: Picos,
    /// Join of the parts of a cut result.
    pub(super) join: Picos,
    /// Copy of the whole result from a GPU with memory of its own to the host; zero with shared memory.
    pub(super) gather: Picos,
}

impl TransferDelays {
    pub(super) fn of(device: &Profile, mechanism: Mechanism, bytes: Bytes) -> Self {
        let copied = |direction| copying(device, LinkTransfer::whole(bytes), direction);
        let with_gpu = hand_over_delay(device, mechanism, bytes, true);
        Self {
            to_cpu: with_gpu + copied(Direction::ToHost),
            to_gpu: with_gpu + copied(Direction::ToGpu),
            to_npu: with_gpu,
            without_gpu: hand_over_delay(device, mechanism, bytes, false),
            join: join_delay(device, mechanism, bytes),
            gather: if bytes > Bytes::ZERO { copied(Direction::ToHost) } else { Picos::ZERO },
        }
    }

    /// Delay until `reader` has a result that `holders` have.
    pub(super) fn wait(&self, reader: ProcessorKind, holders: Holders) -> Picos {
        let on_gpu_alone = holders.is_only(ProcessorKind::Gpu);
        match reader {
            ProcessorKind::Gpu => self.to_gpu,
            ProcessorKind::Cpu if on_gpu_alone => self.to_cpu,
            ProcessorKind::Npu if on_gpu_alone => self.to_npu,
            ProcessorKind::Cpu | ProcessorKind::Npu => self.without_gpu,
        }
    }
}

/// Time to copy the workload's inputs that a stage reads to a GPU with memory of its own.
pub(super) fn inputs_onto_gpu(device: &Profile, stage: &Stage) -> Picos {
    let bytes = input_bytes(stage);
    if bytes > Bytes::ZERO {
        copying(device, LinkTransfer::whole(bytes), Direction::ToGpu)
    } else {
        Picos::ZERO
    }
}

/// At each position, upper bound of the time that hand-overs and joins of the `live` results take in each queue, each
/// at the least delay; on a GPU with memory of its own, in its queue also copies of the results and of one stage's
/// inputs.
pub(super) fn max_transfer_times(
    live: &[Vec<usize>],
    (delays, least): (&[TransferDelays], &TransferDelays),
    copied_inputs: Option<Picos>,
) -> Vec<[Picos; 3]> {
    let to_cpu = least.to_cpu.max(least.without_gpu) + least.join;
    let to_npu = least.to_npu.max(least.without_gpu);
    let plus = |times: [Picos; 3], &stage: &usize| {
        let copied = copied_inputs.map_or(Picos::ZERO, |_| delays[stage].to_gpu.max(delays[stage].gather));
        [times[0] + to_cpu, times[1] + least.to_gpu + copied, times[2] + to_npu]
    };
    let none = [Picos::ZERO, copied_inputs.unwrap_or_default(), Picos::ZERO];
    live.iter().map(|live| live.iter().fold(none, plus)).collect()
}
