//! Builds the commands stage by stage, and tracks where results are.

use arrayvec::ArrayVec;

use super::missing::share;
use super::{
    Command, CommandId, Holders, Memory, Schedule, ScheduleError, Setting, Tensor, What, input_bytes,
    leaves_its_chain, pieces, result_bytes,
};
use crate::device::ProcessorKind;
use crate::kernel::CoreSet;
use crate::plan::{MAX_PARTS, Plan, Processor, Region};
use crate::units::Bytes;
use crate::workload::Stage;

/// Where the result of a stage is, and the command that put it there.
#[derive(Clone, Debug, Default)]
struct Residence {
    /// The processors that have what they need of it; none while its parts are apart.
    holders: Holders,
    ready: CommandId,
    /// Bytes of the whole result.
    bytes: Bytes,
    /// Bytes that the GPU computed of a cut result.
    on_gpu: Bytes,
    /// Pieces of memory that hold each part of a cut result.
    pieces: u64,
    /// The chain, if its parts are not joined yet, and the command of each part.
    apart: Option<(u32, Parts)>,
}

/// The command of each part of a stage.
type Parts = ArrayVec<CommandId, MAX_PARTS>;

/// Makes a schedule.
pub(super) struct Builder<'a> {
    stages: &'a [Stage],
    plan: &'a Plan,
    setting: &'a Setting,
    schedule: Schedule,
    residences: Vec<Residence>,
    last_join: Option<CommandId>,
    /// The command that fills the GPU's queue.
    submission: Option<CommandId>,
    /// Whether a stage has used the GPU.
    submitted: bool,
    /// Whether each stage's result is read outside its chain, or not at all.
    leaves_its_chain: Vec<bool>,
    /// For each processor, up to which command it has waited for each other one.
    waited: [[Option<CommandId>; 3]; 3],
}

impl<'a> Builder<'a> {
    pub(super) fn new(stages: &'a [Stage], plan: &'a Plan, setting: &'a Setting, schedule: Schedule) -> Self {
        Self {
            stages,
            plan,
            setting,
            schedule,
            residences: vec![Residence::default(); stages.len()],
            last_join: None,
            submission: None,
            submitted: false,
            leaves_its_chain: leaves_its_chain(stages, plan),
            waited: [[None; 3]; 3],
        }
    }

    pub(super) fn build(mut self) -> Result<Schedule, ScheduleError> {
        for stage in self.plan.in_order() {
            self.residences[stage] = self.stage(stage)?;
        }
        self.close_all()?;
        self.results_onto_host();
        self.read_back();
        Ok(self.schedule)
    }

    /// Adds all parts of a stage, and their join unless the stage is in a chain.
    fn stage(&mut self, stage: usize) -> Result<Residence, ScheduleError> {
        let (placement, layer) = (&self.plan.placements[stage], &self.stages[stage].layer);
        if placement.uses(ProcessorKind::Gpu) {
            self.submit(stage);
        }
        let mut parts = Parts::new();
        for (part, by) in placement.parts().map(|part| part.by).enumerate() {
            parts.push(self.compute(stage, part, by)?);
        }
        let bytes = result_bytes(layer);
        if let ([ready], Some(by)) = (&parts[..], placement.only()) {
            let (holders, ready) = (Holders::one(by.kind()), *ready);
            return Ok(Residence { holders, ready, bytes, pieces: 1, ..Residence::default() });
        }
        let whole = Region::of(layer.operator.output());
        let regions = self.schedule.computed[stage].iter();
        let of_gpu = placement.parts().zip(regions).filter(|(part, _)| part.by == Processor::Gpu);
        let on_gpu = share(bytes, of_gpu.map(|(_, region)| region.size()).sum(), whole);
        let pieces = pieces(layer, placement.axis());
        let (holders, ready) = (Holders::default(), parts[0]);
        let chain = self.plan.chain(stage);
        if let Some(chain) = chain {
            return Ok(Residence { holders, ready, bytes, on_gpu, pieces, apart: Some((chain, parts)) });
        }
        let after = self.parts_onto_host(stage, &parts, pieces);
        let ready = self.join(stage, self.missing_bytes(stage), self.uses_npu(stage), after)?;
        Ok(Residence { holders: self.joined(stage), ready, bytes, on_gpu, pieces, apart: None })
    }

    /// Adds the command of a part, and the hand-overs that it needs.
    fn compute(&mut self, stage: usize, part: usize, by: Processor) -> Result<CommandId, ScheduleError> {
        let inputs = self.stages[stage].inputs();
        let mut after = Vec::with_capacity(inputs.len() + 1);
        if !self.plan.in_turn {
            self.waited = [[None; 3]; 3];
        }
        match by {
            Processor::Gpu => after.extend(self.inputs_onto_gpu(stage)),
            Processor::Cpu(_) if self.setting.cpu_fills_the_queue => after.extend(self.submission),
            Processor::Cpu(_) | Processor::Npu(_) => {}
        }
        for input in inputs {
            after.push(self.visible(stage, part, by, input)?);
        }
        if by == Processor::Gpu {
            after.extend(self.last_join);
        }
        let region = self.schedule.computed[stage][part];
        Ok(self.push(stage, by, What::Compute { part, region }, after))
    }

    /// The command after which a part of `stage` can read the result of stage `input`.
    fn visible(
        &mut self,
        stage: usize,
        part: usize,
        by: Processor,
        input: usize,
    ) -> Result<CommandId, ScheduleError> {
        if let Some((chain, parts)) = &self.residences[input].apart {
            if self.plan.chain(stage) == Some(*chain) {
                return Ok(parts[part]);
            }
            let chain = *chain;
            self.close(chain)?;
        }
        let residence = self.residences[input].clone();
        if residence.holders.has(by.kind()) {
            return Ok(residence.ready);
        }
        let has_own_memory = self.setting.gpu_has_own_memory;
        // Over the link of a GPU with memory of its own, a result is copied in whole.
        let missing =
            if has_own_memory { residence.bytes } else { self.schedule.missing[input][by.kind() as usize] };
        let wait = self.wait(stage, by.kind(), &residence);
        let from = residence.holders;
        let hand_over = What::HandOver { result: input, missing, from, waits: wait.is_some() };
        let ready = if has_own_memory && by == Processor::Gpu {
            self.onto_gpu(stage, input, hand_over, &residence)
        } else {
            let mut before = residence.ready;
            if has_own_memory && residence.holders.is_only(ProcessorKind::Gpu) {
                before = self.whole_onto_host(stage, input, missing, before);
                self.residences[input].ready = before;
            }
            self.push(stage, by, hand_over, vec![wait.map_or(before, |last| last.max(before))])
        };
        let holders = &mut self.residences[input].holders;
        *holders = holders.with(by.kind());
        Ok(ready)
    }

    /// The command for which a processor waits before it reads a result that it lacks: the last one of those that
    /// `stage` reads and only the same other processor has. `None` if it has waited for the result. From a GPU with
    /// memory of its own, and to it, each result is copied and waited for by itself.
    fn wait(&mut self, stage: usize, by: ProcessorKind, residence: &Residence) -> Option<CommandId> {
        let Residence { holders, ready, .. } = *residence;
        let Some(of) = holders.only().filter(|_| !self.setting.gpu_has_own_memory) else {
            return Some(ready);
        };
        let waited = &mut self.waited[by as usize][of as usize];
        if waited.is_some_and(|last| ready <= last) {
            return None;
        }
        let read = self.stages[stage].inputs().map(|input| &self.residences[input]);
        let last = read.filter(|other| other.holders == holders).map(|other| other.ready).max();
        // If processors take turns, every command so far has ended.
        let ended = || self.schedule.commands.len().checked_sub(1).map(|last| CommandId(last as u32));
        *waited = if self.plan.in_turn { ended() } else { last };
        last
    }

    /// Copies the parts of a result that the GPU lacks from the host's memory. After a join the
    /// host, which queues the copy, has been notified already.
    fn onto_gpu(&mut self, stage: usize, input: usize, hand_over: What, residence: &Residence) -> CommandId {
        let is_joined = residence.on_gpu > Bytes::ZERO;
        let notified = if is_joined {
            residence.ready
        } else {
            self.push(stage, Processor::Gpu, hand_over, vec![residence.ready])
        };
        let of_others = self.plan.placements[input].parts().zip(&self.schedule.computed[input]);
        let region = of_others
            .filter(|(part, _)| part.by != Processor::Gpu)
            .fold(Region::NONE, |hull, (_, &region)| hull.hull(region));
        let bytes = Bytes(residence.bytes.0.saturating_sub(residence.on_gpu.0));
        let (tensor, pieces) = (Tensor::Result(input), residence.pieces);
        let copied = What::Move { tensor, region, bytes, pieces, to: Memory::Gpu };
        self.copy(stage, copied, Some(notified)).unwrap_or(notified)
    }

    fn whole_onto_host(&mut self, stage: usize, result: usize, bytes: Bytes, ready: CommandId) -> CommandId {
        let region = Region::of(self.stages[result].layer.operator.output());
        let tensor = Tensor::Result(result);
        let copied = What::Move { tensor, region, bytes, pieces: 1, to: Memory::Host };
        self.copy(stage, copied, Some(ready)).unwrap_or(ready)
    }

    /// Copies the inputs of the workload that a stage reads to a GPU with memory of its own. A stage knows their
    /// shapes, but not which inputs they are: one that several stages read is copied for each.
    fn inputs_onto_gpu(&mut self, stage: usize) -> Option<CommandId> {
        if !self.setting.ends_on_host {
            return None;
        }
        let bytes = input_bytes(&self.stages[stage]);
        let tensor = Tensor::Inputs(stage);
        let copied = What::Move { tensor, region: Region::ALL, bytes, pieces: 1, to: Memory::Gpu };
        self.copy(stage, copied, None)
    }

    /// The commands after which the host has all parts of a stage.
    fn parts_onto_host(&mut self, stage: usize, parts: &Parts, pieces: u64) -> Vec<CommandId> {
        let plan = self.plan;
        let whole = Region::of(self.stages[stage].layer.operator.output());
        let all = result_bytes(&self.stages[stage].layer);
        let of_part = |(index, part): (usize, crate::plan::Part)| {
            let ready = parts[index];
            if part.by != Processor::Gpu {
                return ready;
            }
            let bytes = share(all, self.schedule.computed[stage][index].size(), whole);
            let (tensor, region) = (Tensor::Result(stage), part.region.common(whole));
            let copied = What::Move { tensor, region, bytes, pieces, to: Memory::Host };
            self.copy(stage, copied, Some(ready)).unwrap_or(ready)
        };
        plan.placements[stage].parts().enumerate().map(of_part).collect()
    }

    /// Copies the results of the workload, which no stage reads, from a GPU with
    /// memory of its own.
    fn results_onto_host(&mut self) {
        if !self.setting.ends_on_host || !self.setting.gpu_has_own_memory {
            return;
        }
        for stage in self.results_of_the_gpu() {
            let Residence { ready, bytes, .. } = self.residences[stage];
            self.residences[stage].ready = self.whole_onto_host(stage, stage, bytes, ready);
        }
    }

    /// The results of the workload that only the GPU has.
    fn results_of_the_gpu(&self) -> Vec<usize> {
        let mut is_result = vec![true; self.stages.len()];
        self.stages.iter().flat_map(Stage::inputs).for_each(|input| is_result[input] = false);
        let with_gpu = |stage: &usize| self.residences[*stage].holders.is_only(ProcessorKind::Gpu);
        (0..self.stages.len()).filter(|&stage| is_result[stage]).filter(with_gpu).collect()
    }

    /// Adds a copy between memories, unless they are shared or there is nothing to copy.
    fn copy(&mut self, stage: usize, what: What, after: Option<CommandId>) -> Option<CommandId> {
        if !self.setting.gpu_has_own_memory || matches!(what, What::Move { bytes: Bytes::ZERO, .. }) {
            return after;
        }
        Some(self.push(stage, Processor::Gpu, what, after.into_iter().collect()))
    }

    /// Joins the results of a chain so far that stages outside it read: one join, whatever
    /// the number of results.
    fn close(&mut self, chain: u32) -> Result<(), ScheduleError> {
        let is_open = |residence: &Residence| residence.apart.as_ref().is_some_and(|apart| apart.0 == chain);
        let open: Vec<usize> = (0..self.residences.len())
            .filter(|&stage| self.leaves_its_chain[stage] && is_open(&self.residences[stage]))
            .collect();
        let Some(&last) = open.last() else { return Ok(()) };
        let mut after = Vec::with_capacity(2 * open.len());
        let (mut missing, mut with_npu) = (Bytes::ZERO, false);
        for &stage in &open {
            let Some((_, parts)) = self.residences[stage].apart.take() else { continue };
            let pieces = self.residences[stage].pieces;
            after.extend(self.parts_onto_host(stage, &parts, pieces));
            missing += self.missing_bytes(stage);
            with_npu |= self.uses_npu(stage);
        }
        let ready = self.join(last, missing, with_npu, after)?;
        for stage in open {
            let holders = self.joined(stage);
            let residence = &mut self.residences[stage];
            (residence.ready, residence.holders) = (ready, holders);
        }
        Ok(())
    }

    /// Joins the results of chains that are still open at the end.
    fn close_all(&mut self) -> Result<(), ScheduleError> {
        for stage in 0..self.residences.len() {
            if let Some((chain, _)) = self.residences[stage].apart
                && self.leaves_its_chain[stage]
            {
                self.close(chain)?;
            }
        }
        Ok(())
    }

    fn join(
        &mut self,
        stage: usize,
        missing: Bytes,
        with_npu: bool,
        after: Vec<CommandId>,
    ) -> Result<CommandId, ScheduleError> {
        let own: Option<CoreSet> = self.plan.placements[stage].cores();
        let cores = own.or(self.setting.control).ok_or(ScheduleError::NoCores)?;
        let join = self.push(stage, Processor::Cpu(cores), What::Join { missing, with_npu }, after);
        self.last_join = Some(join);
        Ok(join)
    }

    /// Bytes that the processors of a cut stage lack. If the NPU computed a part, every
    /// processor gets the whole result.
    fn missing_bytes(&self, stage: usize) -> Bytes {
        if self.uses_npu(stage) {
            return result_bytes(&self.stages[stage].layer);
        }
        let missing = &self.schedule.missing[stage];
        missing[ProcessorKind::Cpu as usize] + missing[ProcessorKind::Gpu as usize]
    }

    /// The processors that have a joined result.
    fn joined(&self, stage: usize) -> Holders {
        let joined = Holders::joined(self.setting.gpu_has_own_memory);
        if self.uses_npu(stage) { joined.with(ProcessorKind::Npu) } else { joined }
    }

    fn uses_npu(&self, stage: usize) -> bool {
        self.plan.placements[stage].uses(ProcessorKind::Npu)
    }

    /// Adds the submission before the GPU's first launch. The queue is filled from the call
    /// on, concurrently with the other processors.
    fn submit(&mut self, stage: usize) {
        if !std::mem::replace(&mut self.submitted, true) && self.setting.is_inference {
            self.submission = Some(self.push(stage, Processor::Gpu, What::Submit, Vec::new()));
        }
    }

    /// Adds the read-back at the end, if only the GPU has a result of the workload. The CPU has a hand-over
    /// or a join for what it computes or reads itself; an NPU's overhead per graph includes handing over
    /// its result.
    fn read_back(&mut self) {
        let results = self.results_of_the_gpu();
        if let Some(&last) = results.last().filter(|_| self.setting.is_inference) {
            let ready = results.iter().map(|&stage| self.residences[stage].ready).collect();
            self.push(last, Processor::Gpu, What::ReadBack, ready);
        }
    }

    fn push(&mut self, stage: usize, by: Processor, what: What, mut after: Vec<CommandId>) -> CommandId {
        let id = CommandId(self.schedule.commands.len() as u32);
        if self.plan.in_turn {
            after.extend(id.0.checked_sub(1).map(CommandId));
        }
        self.schedule.commands.push(Command { stage, by, what, after });
        id
    }
}
