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
use crate::plan::{Axis, Placement, Plan};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Layout, Stage};

/// Where the result of a stage is visible, and the task that finishes it there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Residence {
    /// Those that see all they need of it; none while its parts are apart.
    pub(super) processors: u8,
    pub(super) ready: TaskId,
    pub(super) bytes: Bytes,
    /// What a GPU with memory of its own computed of a result joined on the host.
    pub(super) on_gpu: Bytes,
    /// Pieces of memory that hold each part of a cut result.
    pub(super) pieces: u64,
    /// The parts of a chain that were not brought together yet.
    pub(super) apart: Option<Apart>,
}

/// Parts of one result that lie with the processors that computed them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Apart {
    pub(super) chain: u32,
    pub(super) cores: CoreSet,
    /// The CPU's and the GPU's.
    pub(super) parts: [TaskId; 2],
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
        if let Some(apart) = self.residences[input].apart {
            if self.chain == Some(apart.chain) {
                return apart.parts[usize::from(processor == Processor::Gpu)];
            }
            self.close(apart.chain);
        }
        let residence = self.residences[input];
        if residence.processors & processor.bit() != 0 {
            return residence.ready;
        }
        let residence = Residence { bytes: self.crossing(input, processor), ..residence };
        let ready = match own_memory(self.device) {
            Some(_) if processor == Processor::Gpu => self.onto_gpu(stage, residence),
            Some(_) if residence.is_on_gpu_alone() => {
                let cargo = Cargo::whole(residence.bytes);
                let copied = self.copy(stage, cargo, Direction::ToHost, Some(residence.ready));
                self.residences[input].ready = copied.unwrap_or(residence.ready);
                let residence = Residence { ready: self.residences[input].ready, ..residence };
                self.hand_over(stage, processor, cores, residence)
            }
            _ => self.hand_over(stage, processor, cores, residence),
        };
        self.residences[input].processors |= processor.bit();
        ready
    }

    /// What `processor` has to be given of the result of stage `input`; over a GPU's
    /// link all of it goes.
    fn crossing(&self, input: usize, processor: Processor) -> Bytes {
        let whole = self.residences[input].bytes;
        if has_own_memory(self.device) { whole } else { self.crossings[input][processor as usize] }
    }

    /// Brings together what a chain computed so far and somebody outside reads: one
    /// join, whatever the number of results.
    pub(super) fn close(&mut self, chain: u32) {
        let is_open = |residence: &Residence| residence.apart.is_some_and(|apart| apart.chain == chain);
        let open: Vec<usize> = (0..self.residences.len())
            .filter(|&stage| self.leaves_its_chain[stage] && is_open(&self.residences[stage]))
            .collect();
        let Some(&last) = open.last() else { return };
        let Some(Apart { cores, .. }) = self.residences[last].apart else { return };
        let mut predecessors = Vec::with_capacity(2 * open.len());
        let mut bytes = Bytes::ZERO;
        for &stage in &open {
            let Some(Apart { parts: [cpu, gpu], .. }) = self.residences[stage].apart else { continue };
            let Residence { on_gpu, pieces, .. } = self.residences[stage];
            predecessors.extend([cpu, self.part_onto_host(stage, Cargo { bytes: on_gpu, pieces }, gpu)]);
            bytes += self.joined_bytes(stage);
        }
        let ready = self.join(last, bytes, cores, predecessors);
        for stage in open {
            let residence = &mut self.residences[stage];
            (residence.ready, residence.apart) = (ready, None);
            residence.processors = joined(self.device);
        }
    }

    /// What both processors have to be given of a cut result.
    pub(super) fn joined_bytes(&self, stage: usize) -> Bytes {
        let crossing = &self.crossings[stage];
        crossing[Processor::Cpu as usize] + crossing[Processor::Gpu as usize]
    }

    /// Copies what the GPU lacks of a result in the host's memory. After a join the
    /// host, which queues the copy, knows of the result already.
    fn onto_gpu(&mut self, stage: usize, residence: Residence) -> TaskId {
        let is_joined = residence.on_gpu > Bytes::ZERO;
        let told =
            if is_joined { residence.ready } else { self.hand_over(stage, Processor::Gpu, None, residence) };
        let bytes = Bytes(residence.bytes.0.saturating_sub(residence.on_gpu.0));
        let missing = Cargo { bytes, pieces: residence.pieces };
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
        let mut delay = hand_over_delay(self.device, self.mechanism, residence.bytes, with_gpu);
        if processor == Processor::Gpu && residence.processors == Processor::Npu.bit() {
            delay += self.resubmission;
        }
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

/// Who sees a result whose parts were brought together.
pub(super) fn joined(device: &Profile) -> u8 {
    let shared = if has_own_memory(device) { 0 } else { Processor::Gpu.bit() };
    Processor::Cpu.bit() | shared
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

/// Pieces of memory in which a part of a layer's result lies that was cut along `axis`: of
/// some channels, each pixel's apart from the next one's.
pub(crate) fn pieces(layer: &Layer, axis: Axis) -> u64 {
    let output = layer.operator.output();
    match axis {
        Axis::Channels => output.elements() / u64::from(output.channels.max(1)),
        Axis::Height => u64::from(output.batch),
    }
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

/// From the end of the later part to the moment both processors may go on, `bytes` of
/// the result being what either still lacks. Where the GPU's part is copied, nothing is
/// left to map.
pub(crate) fn join_delay(device: &Profile, mechanism: Mechanism, bytes: Bytes) -> Picos {
    let join = synchronisation::join(&device.sync, mechanism, Picos::ZERO, bytes, needs_transform(device));
    if has_own_memory(device) || bytes == Bytes::ZERO { join.delay } else { join.delay + join.mapping }
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
