//! GPU and NPU sharing a product: the fork, the parts and the join.
//!
//! The CPU is the control plane: it hands the NPU its graphs and brings the parts
//! together, without computing any (`HeteroInfer`, SOSP'25, section 4). Where it sleeps for
//! the predicted wait, it also has the next graph handed over by the time the input is
//! there, so that a shared product pays no dispatch.

use super::super::SimulateError;
use super::alone::execute;
use super::visible::{Residence, hand_over_delay, join_delay, read_bytes, synchronising};
use super::{Lowering, Processor, Role, Task, result_bytes};
use crate::device::profile::Profile;
use crate::engine::TaskId;
use crate::kernel::cpu::CoreSet;
use crate::kernel::{PhaseKind, Phases};
use crate::plan::ShareOf;
use crate::plan::accelerators::AcceleratorSplit;
use crate::plan::synchronisation::Mechanism;
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Operator, Stage};

impl Lowering<'_> {
    /// The tasks of a product that GPU and NPU share, or that the NPU computes in several
    /// graphs.
    pub(super) fn accelerated(
        &mut self,
        index: usize,
        stage: &Stage,
        split: &AcceleratorSplit,
    ) -> Result<Residence, SimulateError> {
        let bytes = result_bytes(&stage.layer);
        let npu = self.npu_part(index, stage, split)?;
        if !split.is_shared() {
            return Ok(Residence {
                processors: Processor::Npu.bit(),
                ready: npu,
                bytes,
                on_gpu: Bytes::ZERO,
                pieces: 1,
                apart: None,
            });
        }
        let mut parts = vec![npu];
        for layer in split.gpu_layers(&stage.layer) {
            let share = share_of(split, &layer);
            parts.push(self.compute(index, stage, &layer, Processor::Gpu, None, Some(share))?);
        }
        let delay = join_delay(self.device, self.mechanism, bytes) + self.resubmission;
        let ready = self.push(Task {
            stage: index,
            processor: Processor::Cpu,
            role: Role::Join,
            share: None,
            phases: synchronising(delay),
            cores: CoreSet::slowest(&self.device.cpu),
            client: None,
            detail: None,
            predecessors: parts,
        });
        self.last_join = Some(ready);
        let processors = Processor::ALL.into_iter().fold(0, |all, processor| all | processor.bit());
        Ok(Residence { processors, ready, bytes, on_gpu: Bytes::ZERO, pieces: 1, apart: None })
    }

    fn npu_part(
        &mut self,
        index: usize,
        stage: &Stage,
        split: &AcceleratorSplit,
    ) -> Result<TaskId, SimulateError> {
        let npu = self.device.npu.as_ref().ok_or_else(|| SimulateError::absent("NPU", self.device))?;
        let Some(graphs) = split.graphs.graphs(split.npu_rows, npu).filter(|graphs| !graphs.is_empty())
        else {
            return Err(SimulateError::NoGraph { rows: split.npu_rows, operator: stage.name.clone() });
        };
        let mut predecessors: Vec<TaskId> =
            stage.inputs.iter().map(|&input| self.visible(index, Processor::Npu, None, input)).collect();
        let hides_dispatch = split.is_shared() && self.mechanism == Mechanism::SleepThenPoll;
        let mut last = None;
        for rows in graphs {
            let layer = split.npu_layer(&stage.layer, rows);
            let (phases, detail) = execute(&layer, self.device, self.library, Processor::Npu, None)?;
            let phases = if hides_dispatch { without_dispatch(&phases) } else { phases };
            last = Some(self.push(Task {
                stage: index,
                processor: Processor::Npu,
                role: Role::Compute,
                share: split.is_shared().then(|| share_of(split, &layer)),
                phases,
                cores: None,
                client: None,
                detail: Some(detail),
                predecessors: std::mem::take(&mut predecessors),
            }));
        }
        last.ok_or_else(|| SimulateError::NoGraph { rows: split.npu_rows, operator: stage.name.clone() })
    }
}

/// How a part of `split` is told: by its channels, or by its rows where it has all channels.
fn share_of(split: &AcceleratorSplit, part: &Layer) -> ShareOf {
    match &part.operator {
        Operator::Linear(linear) if linear.output_features == split.npu_channels + split.gpu_channels => {
            ShareOf::Rows(linear.rows)
        }
        operator => ShareOf::Channels(operator.output().channels),
    }
}

fn without_dispatch(phases: &Phases) -> Phases {
    let mut kept = Phases::default();
    phases
        .as_slice()
        .iter()
        .filter(|phase| phase.kind != PhaseKind::Launch)
        .for_each(|phase| kept.push(*phase));
    kept
}

/// What it takes that the GPU's queue goes on with `layer` after another processor's
/// result: nothing between the steps of one token, whose kernels wait in the queue unless
/// the mechanism empties it.
pub(super) fn resubmission(device: &Profile, mechanism: Mechanism, layer: &Layer) -> Picos {
    let kernels = device.gpu.as_ref().and_then(|gpu| gpu.language.as_ref());
    let is_empty = layer.operator.output().width > 1 || mechanism.maps();
    let kernels = kernels.filter(|_| is_empty && layer.data_type.is_weight_only());
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
