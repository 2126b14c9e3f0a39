//! Where results lie, and what makes them visible elsewhere.
//!
//! Processors that share the memory hand a result over: a signal, and a mapping
//! where the mechanism needs one. A GPU with memory of its own has it copied over
//! its link instead, through its in-order queue; the copy is also traffic of the
//! shared memory. What it works on lies there already, but for the inputs of the
//! workload, which come from the host; results go to the host in the end.

use super::super::{SimulateError, Simulator};
use super::{Lowering, Processor, Role, Task, result_bytes};
use crate::device::gpu::{Cargo, Direction, OwnMemory};
use crate::device::profile::Profile;
use crate::engine::TaskId;
use crate::kernel::cpu::CoreSet;
use crate::kernel::{Phase, PhaseKind, Phases};
use crate::plan::synchronisation::{self, Mechanism};
use crate::plan::{Placement, Plan};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Layout, Stage};

/// Where the result of a stage is visible, and the task that finishes it there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Residence {
    pub(super) processors: u8,
    pub(super) ready: TaskId,
    pub(super) bytes: Bytes,
    /// What a GPU with memory of its own computed of a result joined on the host.
    pub(super) on_gpu: Bytes,
    /// Pieces of memory that hold what such a GPU lacks of it.
    pub(super) rows: u64,
}

impl Residence {
    fn is_on_gpu_alone(self) -> bool {
        self.processors == Processor::Gpu.bit()
    }
}

impl Lowering<'_> {
    /// The task after which `processor` can read what stage `input` computed.
    pub(super) fn visible(
        &mut self,
        stage: usize,
        processor: Processor,
        cores: Option<CoreSet>,
        input: usize,
    ) -> TaskId {
        let residence = self.residences[input];
        if residence.processors & processor.bit() != 0 {
            return residence.ready;
        }
        let ready = match own_memory(self.device) {
            Some(_) if processor == Processor::Gpu => self.onto_gpu(stage, residence),
            Some(_) if residence.is_on_gpu_alone() => {
                let cargo = Cargo::whole(residence.bytes);
                let copied = self.copy(stage, cargo, Direction::ToHost, Some(residence.ready));
                self.residences[input].ready = copied.unwrap_or(residence.ready);
                self.hand_over(stage, processor, cores, self.residences[input])
            }
            _ => self.hand_over(stage, processor, cores, residence),
        };
        self.residences[input].processors |= processor.bit();
        ready
    }

    /// Copies what the GPU lacks of a result in the host's memory. After a join the
    /// host, which queues the copy, knows of the result already.
    fn onto_gpu(&mut self, stage: usize, residence: Residence) -> TaskId {
        let is_joined = residence.on_gpu > Bytes::ZERO;
        let told =
            if is_joined { residence.ready } else { self.hand_over(stage, Processor::Gpu, None, residence) };
        let bytes = Bytes(residence.bytes.0.saturating_sub(residence.on_gpu.0));
        let missing = Cargo { bytes, rows: residence.rows };
        self.copy(stage, missing, Direction::ToGpu, Some(told)).unwrap_or(told)
    }

    fn hand_over(
        &mut self,
        stage: usize,
        processor: Processor,
        cores: Option<CoreSet>,
        residence: Residence,
    ) -> TaskId {
        let with_gpu = processor == Processor::Gpu || residence.is_on_gpu_alone();
        let delay = hand_over_delay(self.device, self.mechanism, residence.bytes, with_gpu);
        self.push(Task {
            stage,
            processor,
            role: Role::HandOver,
            share: None,
            phases: synchronising(delay),
            cores,
            client: None,
            detail: None,
            predecessors: vec![residence.ready],
        })
    }

    /// Copies the inputs of the workload that `stage` reads to a GPU with memory of
    /// its own.
    pub(super) fn inputs_onto_gpu(&mut self, index: usize, stage: &Stage) -> Option<TaskId> {
        if !self.ends_on_host || stage.inputs.len() >= stage.input_count {
            return None;
        }
        let computed: Bytes = stage.inputs.iter().map(|&input| self.residences[input].bytes).sum();
        let given = read_bytes(&stage.layer).0.saturating_sub(computed.0);
        self.copy(index, Cargo::whole(Bytes(given)), Direction::ToGpu, None)
    }

    /// The task after which the host has the GPU's part of a cut stage.
    pub(super) fn part_onto_host(&mut self, stage: usize, part: Cargo, ready: TaskId) -> TaskId {
        self.copy(stage, part, Direction::ToHost, Some(ready)).unwrap_or(ready)
    }

    /// Copies the results of the workload, which no stage reads, from a GPU with
    /// memory of its own.
    pub(super) fn results_onto_host(&mut self, stages: &[Stage]) {
        if !self.ends_on_host || own_memory(self.device).is_none() {
            return;
        }
        let mut is_read = vec![false; stages.len()];
        stages.iter().flat_map(|stage| &stage.inputs).for_each(|&input| is_read[input] = true);
        for index in (0..stages.len()).filter(|&index| !is_read[index]) {
            let Residence { ready, bytes, .. } = self.residences[index];
            if self.residences[index].is_on_gpu_alone() {
                let copied = self.copy(index, Cargo::whole(bytes), Direction::ToHost, Some(ready));
                self.residences[index].ready = copied.unwrap_or(ready);
            }
        }
    }

    /// Copies `cargo` over the GPU's link; what takes no time needs no task.
    fn copy(
        &mut self,
        stage: usize,
        cargo: Cargo,
        direction: Direction,
        after: Option<TaskId>,
    ) -> Option<TaskId> {
        let duration = copying(self.device, cargo, direction);
        let bytes = cargo.bytes;
        if duration == Picos::ZERO {
            return after;
        }
        let mut phases = Phases::default();
        phases.push(Phase { kind: PhaseKind::Transfer, duration, bytes, steps: 1 });
        Some(self.push(Task {
            stage,
            processor: Processor::Gpu,
            role: Role::Transfer(direction),
            share: None,
            phases,
            cores: None,
            client: None,
            detail: None,
            predecessors: after.into_iter().collect(),
        }))
    }
}

/// The GPU's own memory, where it has one.
fn own_memory(device: &Profile) -> Option<&OwnMemory> {
    device.gpu.as_ref()?.memory.as_ref()
}

/// Whether all bytes of the GPU go through a memory of its own.
pub(crate) fn has_own_memory(device: &Profile) -> bool {
    own_memory(device).is_some()
}

/// What it takes that `cargo` crosses the GPU's link; nothing where there is none.
pub(crate) fn copying(device: &Profile, cargo: Cargo, direction: Direction) -> Picos {
    own_memory(device).map_or(Picos::ZERO, |memory| memory.link.transfer(cargo, direction))
}

/// The result of `part`, to which `placement` cut a layer, as it lies in the result of all:
/// of some channels, each pixel's apart from the next one's.
pub(crate) fn part_of_result(part: &Layer, placement: Placement) -> Cargo {
    let rows = match placement {
        Placement::Split { .. } => pieces(part, true),
        Placement::HeightSplit { .. } => pieces(part, false),
        Placement::Cpu(_) | Placement::Gpu | Placement::Npu => 1,
    };
    Cargo { bytes: result_bytes(part), rows }
}

/// Pieces of memory in which a part of the channels, or else of the height, of a layer's
/// result lies.
pub(crate) fn pieces(layer: &Layer, of_channels: bool) -> u64 {
    let output = layer.operator.output();
    let pixels = output.elements() / u64::from(output.channels.max(1));
    if of_channels { pixels } else { u64::from(output.batch) }
}

/// Bytes of the tensors a layer reads, weights apart.
pub(crate) fn read_bytes(layer: &Layer) -> Bytes {
    let linked = u64::from(layer.linked.additions() + layer.linked.multiplications());
    let elements = layer.operator.input_elements() + linked * layer.operator.output().elements();
    Bytes(elements * layer.data_type.activation_bytes())
}

/// That the weights a plan leaves with a GPU fit its own memory, together with the
/// tensors of its largest operator.
pub(super) fn check_room(
    stages: &[Stage],
    plan: &Plan,
    simulator: &Simulator<'_>,
) -> Result<(), SimulateError> {
    let Some(memory) = own_memory(simulator.device) else { return Ok(()) };
    let (mut weights, mut tensors) = (Bytes::ZERO, Bytes::ZERO);
    for (stage, placement) in stages.iter().zip(&plan.placements) {
        let parts = placement.parts(&stage.layer);
        let layer = match (placement, &parts) {
            (Placement::Gpu, _) => &stage.layer,
            (_, Some([_, part])) => part,
            _ => continue,
        };
        weights += layer.data_type.weight_bytes(layer.operator.parameters());
        tensors = tensors.max(read_bytes(layer) + result_bytes(layer));
    }
    let needed = weights + tensors;
    if needed > memory.capacity() {
        return Err(SimulateError::GpuMemoryFull { needed, capacity: memory.capacity() });
    }
    Ok(())
}

/// Whether the GPU's tensors have to be transformed before a CPU reads them.
fn needs_transform(device: &Profile) -> bool {
    device.gpu.as_ref().is_some_and(|gpu| gpu.layout() != Layout::Buffer)
}

/// From the end of the later part to the moment both processors may go on. Where
/// the GPU's part is copied, nothing is left to map.
pub(crate) fn join_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes) -> Picos {
    let join = synchronisation::join(&device.sync, mechanism, Picos::ZERO, bytes, needs_transform(device));
    if has_own_memory(device) { join.delay } else { join.delay + join.mapping }
}

/// From the end of one processor's work to the moment another may read it;
/// `with_gpu` where the GPU, which alone keeps images, is one of the two. A copy
/// over the GPU's link comes on top, and takes the place of the mapping.
pub(crate) fn hand_over_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes, with_gpu: bool) -> Picos {
    if with_gpu && has_own_memory(device) {
        return join_delay(device, mechanism, bytes);
    }
    synchronisation::hand_over(&device.sync, mechanism, bytes, with_gpu && needs_transform(device))
}

pub(super) fn synchronising(delay: Picos) -> Phases {
    let mut phases = Phases::default();
    phases.push(Phase { kind: PhaseKind::Synchronise, duration: delay, bytes: Bytes::ZERO, steps: 1 });
    phases
}
