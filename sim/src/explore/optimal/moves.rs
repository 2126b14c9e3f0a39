//! Moves from one label to the next: the effect of a decision on queues and results.
//!
//! Responsible for: everything in a plan's schedule (hand-overs, joins, dependences), in the order in which
//! `schedule` adds it. Not for: which decisions are worth trying (`program`). Invariant: exact moves time a plan
//! as simulation without contention does; relaxed moves never later, and they are monotone: from a label that is
//! no later they lead to one that is no later.

mod npu;
mod reading;

use npu::InGraph;

use super::work::BOTH_PARTS;
use super::{
    At, ChainTables, Contention, Cutting, Label, Members, Model, Place, Places, Price, Progress, Sharing,
    best,
};
use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

/// A decision about the next stage, or the next stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Move {
    /// The stage on a core set, by its index.
    Cpu(usize),
    Gpu,
    Npu,
    /// The stage cut between CPU and GPU; the CPU has `cut` lines or channels.
    Cut {
        cutting: Cutting,
        cut: u32,
    },
    /// The stage shared by the NPU and others: rows or channels of CPU, GPU and NPU.
    Shared {
        cutting: Cutting,
        counts: [u32; 3],
    },
    /// The stages before `end` as a chain, the last one cut at `cut`; `continues_chain` if it extends an open one.
    Chain {
        end: usize,
        cutting: Cutting,
        cut: u32,
        stays_open: bool,
        continues_chain: bool,
    },
}

/// A decision to try, whose best cut is still to be found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trial {
    Cpu(usize),
    Gpu,
    Npu(InGraph),
    Cut(Cutting),
    /// Shared by the NPU and others; the NPU's rows or channels, at least and at most.
    Shared(Cutting, Members, [u32; 2]),
    /// A chain before `end` that is joined there.
    Closing {
        end: usize,
        cutting: Cutting,
    },
    /// A chain before `end` that stays open, cut in the way `first`; relaxed, at the least of `first..last`.
    Open {
        end: usize,
        cutting: Cutting,
        first: usize,
        last: usize,
    },
}

/// A label in the middle of a move.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) now: Progress,
    /// When the last of the queues ended before the move.
    pub(super) before: Picos,
    pub(super) places: Places,
}

/// Applies moves: exactly, with contention; or, without it, relaxed.
pub(super) struct Mover<'m, 'e, 'a> {
    pub(super) model: &'m Model<'e>,
    pub(super) chains: &'m ChainTables,
    pub(super) contention: Option<&'m mut Contention<'e, 'a>>,
}

pub(super) const BOTH: [ProcessorKind; 2] = [ProcessorKind::Cpu, ProcessorKind::Gpu];
pub(super) const CPU: usize = ProcessorKind::Cpu as usize;
pub(super) const GPU: usize = ProcessorKind::Gpu as usize;
pub(super) const NPU: usize = ProcessorKind::Npu as usize;

impl Step {
    /// When the GPU can start its next kernel: after its queue and the last join.
    pub(super) fn gpu_start(&self) -> Picos {
        self.now.queues[GPU].max(self.now.join)
    }
}

impl Mover<'_, '_, '_> {
    pub(super) fn is_relaxed(&self) -> bool {
        self.contention.is_none()
    }

    /// The state after a trial at `position`, and the decision; `None` if the trial is impossible.
    pub(super) fn apply(
        &mut self,
        label: &Label,
        position: usize,
        trial: Trial,
    ) -> Option<(Progress, Places, Move)> {
        let before = self.model.used_queues(&label.now).into_iter().max().unwrap_or_default();
        let mut step = Step { now: label.now, before, places: label.places.roomy_copy() };
        let (own, decided) = match trial {
            Trial::Cpu(set) => {
                let cost = self.on_cpu(position, set)?;
                (self.whole(&mut step, position, ProcessorKind::Cpu, cost)?, Move::Cpu(set))
            }
            Trial::Gpu => {
                let cost = self.model.table(position).gpu;
                (self.whole(&mut step, position, ProcessorKind::Gpu, cost)?, Move::Gpu)
            }
            Trial::Npu(way) => (self.on_npu(&mut step, position, way)?, Move::Npu),
            Trial::Cut(cutting) => self.cut(&mut step, position, cutting)?,
            Trial::Shared(cutting, members, of_npu) => {
                self.shared(&mut step, position, (cutting, members, of_npu))?
            }
            Trial::Closing { end, cutting } => return self.chain(step, position, (end, cutting), None),
            Trial::Open { end, cutting, first, last } => {
                return self.chain(step, position, (end, cutting), Some((first, last)));
            }
        };
        let end = position + 1;
        self.hand_over_during_join(&mut step, &decided, end);
        let (now, places) = self.advanced(step, position, end, |_| own);
        Some((now, places, decided))
    }

    /// Queues, and places of the results live at `end`; `own` gives the places of stages from `position` on.
    pub(super) fn advanced(
        &self,
        Step { mut now, before, mut places }: Step,
        position: usize,
        end: usize,
        own: impl Fn(usize) -> Place,
    ) -> (Progress, Places) {
        let live = &self.model.live[end];
        let new = &live[live.partition_point(|&stage| stage < position)..];
        let read = (position..end).flat_map(|stage| &self.model.last_reads[stage]);
        let dead = read.copied().filter(|&input| input < position);
        places.advance(end, dead, new.iter().map(|&stage| (stage, own(stage))));
        if now.graph > 0 && self.is_relaxed() {
            // Which graph runs matters to live results only: relaxed, labels that agree on these are alike.
            let since = live.partition_point(|&stage| stage + 1 < now.graph);
            now.graph = live.get(since).map_or(end, |&oldest| oldest) + 1;
        }
        let has_waited_for_all =
            |last: &&mut Place| self.is_relaxed() && self.model.has_waited_for_all(last, end);
        if let Some(last) = places.last_mut().filter(has_waited_for_all) {
            (last.ready, last.usable) = (last.ready.max(before), last.usable.max(before));
        }
        let is_of_gpu =
            |place: Place| matches!(place.at, At::With(holders) if holders.is_only(ProcessorKind::Gpu));
        let of_gpu = |stage: &usize| self.model.readers[*stage].is_empty() && is_of_gpu(own(*stage));
        for result in (position..end).filter(of_gpu) {
            let once = if now.read_back == Picos::ZERO { self.model.read_back } else { Picos::ZERO };
            now.read_back += once + self.model.transfer_delays(result, false).gather;
        }
        if self.is_relaxed() {
            self.pass_idle_time(&mut now, &places, end);
        }
        let [cpu, gpu, npu] = now.queues;
        // A time that every queue has passed is no constraint.
        let on_gpu = |place: &Place| match place.at {
            At::With(holders) if holders.has_all(Holders::joined(false)) => gpu.max(now.join),
            At::With(_) | At::Open(_) => gpu,
        };
        let uses_npu = self.model.uses_npu;
        places.forget(|place| {
            place.ready <= cpu && place.ready <= on_gpu(place) && (!uses_npu || place.ready <= npu)
        });
        (now, places)
    }

    /// Relaxed: advances the queues to the earliest start of a next stage, less the hand-overs and joins that may
    /// come before it. Otherwise equivalent labels would differ in how long a processor has been idle.
    fn pass_idle_time(&self, now: &mut Progress, places: &Places, position: usize) {
        let model = self.model;
        let usable = |&input: &usize| places.get(input).map_or(Picos::ZERO, |place| place.usable);
        let start = |inputs: &Vec<usize>| inputs.iter().map(usable).max().unwrap_or_default();
        let Some(earliest) = model.next[position].iter().map(start).min() else { return };
        for (queue, &before) in now.queues.iter_mut().zip(&model.max_transfer_times[position]) {
            *queue = (*queue).max(earliest.saturating_sub(before));
        }
        now.fetched = now.fetched.max(now.queues[NPU].saturating_sub(model.most_ahead));
    }

    /// Relaxed: results that are apart may belong to the chain that is joined at `joined_at`. Everything that CPU
    /// and GPU compute later comes after that join, so treating them as joined delays nothing.
    pub(super) fn join_all(&self, step: &mut Step, joined_at: Picos) {
        if self.is_relaxed() {
            step.places.close(|_| true, Place::with(Holders::joined(false), joined_at));
        }
    }

    /// Joins the open results of a chain; relaxed, everything that is apart, waiting only for the result read. Where
    /// they are then.
    fn join_open_results(&self, step: &mut Step, cutting: Cutting, ready: Picos) -> Place {
        let is_relaxed = self.is_relaxed();
        let is_meant = |place: &Place| is_relaxed || place.at == At::Open(cutting);
        let meant = || step.places.open().filter(|(_, place)| is_meant(place));
        let last = meant().map(|(_, place)| place.ready).max().unwrap_or(ready);
        let join = meant().map(|&(stage, _)| self.model.transfer_delays(stage, is_relaxed).join).max();
        let start = step.now.queues[CPU].max(if is_relaxed { ready } else { last });
        let end = start + join.unwrap_or_default();
        (step.now.queues[CPU], step.now.join) = (end, end);
        let result = self.joined_place([0; 2], end);
        step.places.close(is_meant, result);
        result
    }

    /// The price of a whole stage on a core set; relaxed, on its best one.
    fn on_cpu(&self, stage: usize, set: usize) -> Option<Price> {
        let costs = &self.model.table(stage).cpu;
        if !self.is_relaxed() {
            return Some(costs[set]);
        }
        costs.iter().copied().filter(|cost| cost.is_known()).reduce(Price::least)
    }

    /// One processor computes a whole stage at `cost`; the place of its result.
    fn whole(&self, step: &mut Step, stage: usize, by: ProcessorKind, cost: Price) -> Option<Place> {
        self.read(step, (by, stage), self.model.stages[stage].inputs(), |_, _| false);
        if by == ProcessorKind::Gpu {
            step.now.queues[GPU] = step.gpu_start();
        }
        Self::computed(step, by, cost)
    }

    /// One processor, which has all inputs, computes a whole stage at `cost`; the place of its result.
    fn computed(step: &mut Step, by: ProcessorKind, cost: Price) -> Option<Place> {
        if !cost.is_known() {
            return None;
        }
        step.now.queues[by as usize] += cost.time;
        step.now.joules += cost.joules;
        Some(Place::with(Holders::one(by), step.now.queues[by as usize]))
    }

    /// Copies the workload's inputs that a stage reads to a GPU with memory of its own.
    pub(super) fn inputs_onto_gpu(&self, step: &mut Step, stage: usize) {
        step.now.queues[GPU] += self.model.inputs_onto_gpu[stage];
    }

    /// CPU and GPU each compute a part of a stage, which is then joined.
    fn cut(&mut self, step: &mut Step, stage: usize, cutting: Cutting) -> Option<(Place, Move)> {
        let model = self.model;
        let cuts = model.cuts(stage, cutting.axis)?;
        for by in BOTH {
            let continues_parts =
                |place: &Place, input| self.continues_parts(place, [stage, input], cutting.axis);
            self.read(step, (by, stage), model.stages[stage].inputs(), continues_parts);
        }
        let (cpu_start, gpu_start) = (step.now.queues[CPU], step.gpu_start());
        let delays = model.transfer_delays(stage, self.is_relaxed());
        let (end, cut) = match &mut self.contention {
            None => {
                step.now.joules += cuts.least_joules;
                // The end of the GPU's part does not matter: its next kernel waits for the join.
                let streamed = model.shares(stage, cutting.axis).and_then(|shares| {
                    let starts = [cpu_start, gpu_start, Picos::ZERO];
                    let sharing = shares.sharing(BOTH_PARTS, starts, [0; 2]);
                    shares.slowed(&Sharing { is_alone: model.is_alone[stage], ..sharing })
                });
                (cuts.least_end(cpu_start, gpu_start).max(streamed.unwrap_or_default()), 0)
            }
            Some(contention) => {
                let way =
                    best(&cuts.ways[cutting.cores as usize], (cpu_start, gpu_start), (model, model.weights))?;
                step.now.joules += way.joules;
                let gather = gather(model, stage, cutting.axis, way.cut);
                let lost = contention.of_cut(model, stage, cutting, way.cut);
                step.now.queues[GPU] = gpu_start + way.gpu + gather;
                ((cpu_start + way.cpu).max(step.now.queues[GPU]) + lost, way.cut)
            }
        };
        let end = end + delays.join;
        (step.now.queues[CPU], step.now.join) = (end, end);
        self.join_all(step, end);
        Some((self.joined_place([cut, cuts.all], end), Move::Cut { cutting, cut }))
    }

    /// The place of a joined result, of whose lines the CPU computed a part, which a GPU with memory of its own lacks;
    /// relaxed, none.
    pub(super) fn joined_place(&self, lines: [u32; 2], ready: Picos) -> Place {
        let lines = match (self.model.own_memory, self.is_relaxed()) {
            (false, _) => [0; 2],
            (true, false) => lines,
            (true, true) => [0, 1],
        };
        Place { lines, ..Place::with(Holders::joined(self.model.own_memory), ready) }
    }

    /// Relaxed: inputs that the next stage reads before the result just joined cross while it waits for the join.
    pub(super) fn hand_over_during_join(&self, step: &mut Step, decided: &Move, end: usize) {
        let joins =
            matches!(decided, Move::Cut { .. } | Move::Shared { .. } | Move::Chain { stays_open: false, .. });
        let Some(next) = self.model.stages.get(end).filter(|_| joins && self.is_relaxed()) else { return };
        if next.inputs().all(|input| input + 1 != end) {
            return;
        }
        for input in next.inputs().take_while(|&input| input + 1 != end) {
            let Some(place) = step.places.get_mut(input) else { continue };
            *place = match place.at {
                At::Open(_) => Place::with(Holders::joined(false), Picos::ZERO),
                At::With(holders) => Place { at: At::With(holders.with(ProcessorKind::Cpu)), ..*place },
            };
        }
    }
}

/// Time to copy the GPU's part of a stage cut at `cut` from a memory of its own to the host.
pub(super) fn gather(model: &Model<'_>, stage: usize, axis: Axis, cut: u32) -> Picos {
    let all = model.cuts(stage, axis).map_or(cut, |cuts| cuts.all);
    model.transfer_delays(stage, false).gather.scale(f64::from(all - cut) / f64::from(all.max(1)))
}
