//! From one label to the next: what a decision about the next stages does to queues and results.
//!
//! Responsible for: everything that the schedule of a plan has (hand-overs, joins, what waits for what), in the order in which
//! `schedule` adds it. Not for: which decisions are worth trying (`program`). Invariant: exact moves time a plan as simulating it
//! without contention does; relaxed moves never later, and are monotone: from a label that is no later they lead to one that is no later.

use super::{
    At, ChainTables, Contention, Cutting, Label, Members, Model, Place, Price, Progress, Way, Weights,
};
use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

/// A decision about the next stage, or the next few.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Move {
    /// The stage on one of the core sets.
    Cpu(usize),
    Gpu,
    Npu,
    /// The stage between CPU and GPU.
    Cut {
        cutting: Cutting,
        cut: u32,
    },
    /// The stage between the NPU and others: how many rows or channels each computes.
    Shared {
        cutting: Cutting,
        counts: [u32; 3],
    },
    /// The stages before `end` as a chain, the last one cut there.
    Chain {
        end: usize,
        cutting: Cutting,
        cut: u32,
        stays_open: bool,
        goes_on: bool,
    },
}

/// Something to try: a decision of which the best cut is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trial {
    Cpu(usize),
    Gpu,
    Npu,
    Cut(Cutting),
    /// Between the NPU and others, and how many rows or channels the NPU computes at least and at most.
    Shared(Cutting, Members, [u32; 2]),
    /// A chain up to a stage, whose parts are brought together behind it.
    Closing {
        end: usize,
        cutting: Cutting,
    },
    /// One that stays open, cut in the first of these ways; relaxed, in all of them.
    Open {
        end: usize,
        cutting: Cutting,
        first: usize,
        behind: usize,
    },
}

/// A label in the course of a move: the results that it reads by their stage.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) now: Progress,
    /// When the last of the queues ended before the move.
    pub(super) before: Picos,
    pub(super) results: Vec<(usize, Place)>,
}

/// Applies moves: exactly, with what is known of contention; without any, relaxed.
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
    pub(super) fn find(&self, stage: usize) -> Option<usize> {
        self.results.binary_search_by_key(&stage, |result| result.0).ok()
    }

    /// Whatever is apart lies so from then on.
    pub(super) fn place_apart(&mut self, place: Place) {
        let apart = self.results.iter_mut().filter(|(_, known)| matches!(known.at, At::Apart(_)));
        apart.for_each(|(_, known)| *known = place);
    }

    /// When the GPU can start what comes after the last join.
    pub(super) fn gpu_start(&self) -> Picos {
        self.now.queues[GPU].max(self.now.join)
    }
}

impl Mover<'_, '_, '_> {
    pub(super) fn is_relaxed(&self) -> bool {
        self.contention.is_none()
    }

    /// The label behind a trial at `position`, and the decision; `None` where there is no such way.
    pub(super) fn apply(
        &mut self,
        label: &Label,
        position: usize,
        trial: Trial,
    ) -> Option<(Progress, Vec<Place>, Move)> {
        let results = self.model.live[position].iter().copied().zip(label.places.iter().copied()).collect();
        let before = self.model.used_queues(&label.now).into_iter().max().unwrap_or_default();
        let mut step = Step { now: label.now, before, results };
        let (own, decided) = match trial {
            Trial::Cpu(set) => (self.whole(&mut step, position, ProcessorKind::Cpu, set)?, Move::Cpu(set)),
            Trial::Gpu => (self.whole(&mut step, position, ProcessorKind::Gpu, 0)?, Move::Gpu),
            Trial::Npu => (self.whole(&mut step, position, ProcessorKind::Npu, 0)?, Move::Npu),
            Trial::Cut(cutting) => self.cut(&mut step, position, cutting)?,
            Trial::Shared(cutting, members, of_npu) => {
                self.shared(&mut step, position, (cutting, members, of_npu))?
            }
            Trial::Closing { end, cutting } => return self.chain(step, position, (end, cutting), None),
            Trial::Open { end, cutting, first, behind } => {
                return self.chain(step, position, (end, cutting), Some((first, behind)));
            }
        };
        let end = position + 1;
        self.meanwhile(&mut step, &decided, end);
        let (now, places) = self.behind(&step, position, end, |_| own);
        Some((now, places, decided))
    }

    /// Queues and places of results that are read behind `end`; `own` says those of stages from `position` on.
    pub(super) fn behind(
        &self,
        step: &Step,
        position: usize,
        end: usize,
        own: impl Fn(usize) -> Place,
    ) -> (Progress, Vec<Place>) {
        // Both are in the order of the stages, and what is still read then is read now.
        let mut before = step.results.iter();
        let place = |&stage: &usize| {
            let known = if stage < position { before.find(|result| result.0 == stage) } else { None };
            known.map_or_else(|| own(stage), |result| result.1)
        };
        let mut places: Vec<Place> = self.model.live[end].iter().map(place).collect();
        let is_behind_all = |last: &&mut Place| self.is_relaxed() && self.model.is_behind_all(last, end);
        if let Some(last) = places.last_mut().filter(is_behind_all) {
            (last.ready, last.usable) = (last.ready.max(step.before), last.usable.max(step.before));
        }
        let mut now = step.now;
        let is_of_gpu =
            |place: Place| matches!(place.at, At::With(holders) if holders.is_only(ProcessorKind::Gpu));
        let of_gpu = |stage: &usize| self.model.readers[*stage].is_empty() && is_of_gpu(own(*stage));
        for result in (position..end).filter(of_gpu) {
            let once = if now.read_back == Picos::ZERO { self.model.read_back } else { Picos::ZERO };
            now.read_back += once + self.model.meeting(result, self.is_relaxed()).gather;
        }
        if self.is_relaxed() {
            self.pass_idle_time(&mut now, &places, end);
        }
        let [cpu, gpu, npu] = now.queues;
        // What every queue has passed already is no constraint.
        let on_gpu = |place: &Place| match place.at {
            At::With(holders) if holders.has_all(joined(false)) => gpu.max(now.join),
            At::With(_) | At::Apart(_) => gpu,
        };
        let uses_npu = self.model.uses_npu;
        for place in &mut places {
            if place.ready <= cpu && place.ready <= on_gpu(place) && (!uses_npu || place.ready <= npu) {
                (place.ready, place.usable) = (Picos::ZERO, Picos::ZERO);
            }
        }
        (now, places)
    }

    /// Relaxed: queues go on to where the next stage can start to compute, less what hand-overs and joins may
    /// take there before. Otherwise labels that are alike would differ in how long ago a processor was used.
    fn pass_idle_time(&self, now: &mut Progress, places: &[Place], position: usize) {
        let model = self.model;
        let live = &model.live[position];
        let usable =
            |input: &usize| live.binary_search(input).map_or(Picos::ZERO, |found| places[found].usable);
        let start = |inputs: &Vec<usize>| inputs.iter().map(usable).max().unwrap_or_default();
        let Some(earliest) = model.next[position].iter().map(start).min() else { return };
        for (queue, before) in now.queues.iter_mut().zip(model.before_computing(live.len())) {
            *queue = (*queue).max(earliest.saturating_sub(before));
        }
    }

    /// Whoever computes waits for the inputs, but for those of which it has its own part, inside a chain.
    pub(super) fn read(
        &self,
        step: &mut Step,
        by: ProcessorKind,
        inputs: impl Iterator<Item = usize> + Clone,
        is_inside: impl Fn(&Place, usize) -> bool,
    ) {
        let is_outside = |step: &Step, input: usize| {
            step.find(input).is_some_and(|found| !is_inside(&step.results[found].1, input))
        };
        for input in inputs.clone() {
            if is_outside(step, input) {
                self.cross(step, by, input);
            }
        }
        for input in inputs {
            if is_outside(step, input) {
                Self::wait(step, by, input);
            }
        }
    }

    /// Relaxed: whether both processors may compute their parts of a stage along `axis` from those of an input.
    pub(super) fn goes_on(&self, place: &Place, [stage, input]: [usize; 2], axis: Axis) -> bool {
        let is_along = matches!(place.at, At::Apart(cutting) if cutting.axis == axis);
        is_along && self.is_relaxed() && self.model.is_linkable(stage, input, axis)
    }

    /// Hands an input over to whoever computes, where it has to be. What is there already takes no command, so
    /// that hand-overs of other inputs are not behind it in the queue.
    pub(super) fn cross(&self, step: &mut Step, by: ProcessorKind, input: usize) {
        let Some(found) = step.find(input) else { return };
        if let At::Apart(cutting) = step.results[found].1.at {
            self.bring_together(step, cutting, step.results[found].1.ready);
        }
        let place = &mut step.results[found].1;
        let At::With(holders) = place.at else { return };
        if !holders.has(by) {
            let wait = self.model.meeting(input, self.is_relaxed()).wait(by, holders);
            // Of a result that was joined, a GPU with memory of its own lacks the CPU's part.
            let [part, all] = place.lines;
            let queue = &mut step.now.queues[by as usize];
            *queue = (*queue).max(place.ready);
            *queue += if all > 0 { wait.scale(f64::from(part) / f64::from(all)) } else { wait };
            place.at = At::With(holders.with(by));
        }
    }

    /// Whoever computes starts once an input is ready.
    fn wait(step: &mut Step, by: ProcessorKind, input: usize) {
        let Some(found) = step.find(input) else { return };
        let queue = &mut step.now.queues[by as usize];
        *queue = (*queue).max(step.results[found].1.ready);
    }

    /// Relaxed: what is apart may be of the chain that is joined then. Whatever else CPU and GPU compute comes
    /// behind that join, so that they do without it no later.
    pub(super) fn join_all(&self, step: &mut Step, joined_at: Picos) {
        if self.is_relaxed() {
            step.place_apart(Place::with(joined(false), joined_at));
        }
    }

    /// Brings the open results of a chain together. Relaxed, everything that is apart, after the parts
    /// of the result alone that is read.
    fn bring_together(&self, step: &mut Step, cutting: Cutting, ready: Picos) {
        let is_relaxed = self.is_relaxed();
        let is_meant = |place: &Place| match place.at {
            At::Apart(other) => is_relaxed || other == cutting,
            At::With(_) => false,
        };
        let meant = || step.results.iter().filter(|(_, place)| is_meant(place));
        let last = meant().map(|(_, place)| place.ready).max().unwrap_or(ready);
        let join = meant().map(|&(stage, _)| self.model.meeting(stage, is_relaxed).join).max();
        let start = step.now.queues[CPU].max(if is_relaxed { ready } else { last });
        let end = start + join.unwrap_or_default();
        (step.now.queues[CPU], step.now.join) = (end, end);
        let together = Place::with(joined(self.model.own_memory), end);
        step.results.iter_mut().filter(|(_, place)| is_meant(place)).for_each(|(_, place)| *place = together);
    }

    /// One processor computes a stage; its result.
    fn whole(&self, step: &mut Step, stage: usize, by: ProcessorKind, set: usize) -> Option<Place> {
        let model = self.model;
        let table = model.table(stage);
        let cost = match by {
            ProcessorKind::Cpu if self.is_relaxed() => {
                table.cpu.iter().copied().filter(|cost| cost.is_known()).reduce(Price::least)?
            }
            ProcessorKind::Cpu => table.cpu[set],
            ProcessorKind::Gpu => table.gpu,
            ProcessorKind::Npu => self.on_npu(step, stage),
        };
        if !cost.is_known() {
            return None;
        }
        self.read(step, by, model.stages[stage].inputs.iter().copied(), |_, _| false);
        if by == ProcessorKind::Gpu {
            self.inputs_onto_gpu(step, stage);
            step.now.queues[GPU] = step.gpu_start();
        }
        step.now.queues[by as usize] += cost.time;
        step.now.joules += cost.joules;
        let ready = step.now.queues[by as usize];
        Some(Place { of_npu: by == ProcessorKind::Npu, ..Place::with(Holders::one(by), ready) })
    }

    /// Copies what a stage reads of the workload's inputs to a GPU with memory of its own.
    pub(super) fn inputs_onto_gpu(&self, step: &mut Step, stage: usize) {
        if !self.is_relaxed() {
            step.now.queues[GPU] += self.model.inputs_onto_gpu[stage];
        }
    }

    /// What the NPU takes for a stage: with the graph that it begins, or in one that runs already, which
    /// needs that all it reads was computed by the NPU or before the graph.
    fn on_npu(&self, step: &mut Step, stage: usize) -> Price {
        let model = self.model;
        let on_npu = model.on_npu[stage];
        let own = if self.is_relaxed() { on_npu.least } else { on_npu.within };
        let is_ready = |&input: &usize| {
            input + 1 < step.now.graph || step.find(input).is_some_and(|found| step.results[found].1.of_npu)
        };
        if step.now.graph > 0 && model.stages[stage].inputs.iter().all(is_ready) {
            return own;
        }
        step.now.graph = stage + 1;
        own.plus(model.graph)
    }

    /// CPU and GPU each compute a part of a stage, and join.
    fn cut(&mut self, step: &mut Step, stage: usize, cutting: Cutting) -> Option<(Place, Move)> {
        let model = self.model;
        let cuts = model.cuts(stage, cutting.axis)?;
        for by in BOTH {
            let goes_on = |place: &Place, input| self.goes_on(place, [stage, input], cutting.axis);
            self.read(step, by, model.stages[stage].inputs.iter().copied(), goes_on);
        }
        self.inputs_onto_gpu(step, stage);
        let (cpu_start, gpu_start) = (step.now.queues[CPU], step.gpu_start());
        let meeting = model.meeting(stage, self.is_relaxed());
        let (end, cut) = match &mut self.contention {
            None => {
                step.now.joules += cuts.least_joules;
                // The end of the GPU's own part does not matter: its next kernel waits for the join.
                (cuts.least_end(cpu_start, gpu_start), 0)
            }
            Some(contention) => {
                let way =
                    best(&cuts.ways[cutting.cores as usize], (cpu_start, gpu_start), (model, model.weights))?;
                step.now.joules += way.joules;
                let gather = meeting.gather.scale(f64::from(cuts.all - way.cut) / f64::from(cuts.all));
                let lost = contention.of_cut(model, stage, cutting, way.cut);
                step.now.queues[GPU] = gpu_start + way.gpu + gather;
                ((cpu_start + way.cpu).max(step.now.queues[GPU]) + lost, way.cut)
            }
        };
        let end = end + meeting.join;
        (step.now.queues[CPU], step.now.join) = (end, end);
        self.join_all(step, end);
        let lines = if model.own_memory { [cut, cuts.all] } else { [0; 2] };
        let place = Place { lines, ..Place::with(joined(model.own_memory), end) };
        Some((place, Move::Cut { cutting, cut }))
    }

    /// Relaxed: what the next stage reads before the result that was just joined can cross while that is
    /// waited for.
    pub(super) fn meanwhile(&self, step: &mut Step, decided: &Move, end: usize) {
        let joins =
            matches!(decided, Move::Cut { .. } | Move::Shared { .. } | Move::Chain { stays_open: false, .. });
        let Some(next) = self.model.stages.get(end).filter(|_| joins && self.is_relaxed()) else { return };
        let Some(last) = next.inputs.iter().position(|&input| input + 1 == end) else { return };
        for &input in &next.inputs[..last] {
            let Some(found) = step.find(input) else { continue };
            let place = &mut step.results[found].1;
            *place = match place.at {
                At::Apart(_) => Place::with(joined(false), Picos::ZERO),
                At::With(holders) => Place { at: At::With(holders.with(ProcessorKind::Cpu)), ..*place },
            };
        }
    }
}

/// Who has a result whose parts were joined.
pub(super) fn joined(own_memory: bool) -> Holders {
    let cpu = Holders::one(ProcessorKind::Cpu);
    if own_memory { cpu } else { cpu.with(ProcessorKind::Gpu) }
}

/// The way that costs least where the processors can start then.
pub(super) fn best(
    ways: &[Way],
    (cpu, gpu): (Picos, Picos),
    (model, weights): (&Model<'_>, Weights),
) -> Option<Way> {
    let end = |way: &Way| (cpu + way.cpu).max(gpu + way.gpu);
    if model.has_joules {
        let cost = |way: &Way| weights.of(end(way), way.joules);
        return ways.iter().copied().min_by(|one, other| cost(one).total_cmp(&cost(other)));
    }
    // The CPU's work grows and the GPU's falls.
    let even = ways.partition_point(|way| cpu + way.cpu < gpu + way.gpu);
    ways[even.saturating_sub(1)..(even + 1).min(ways.len())].iter().copied().min_by_key(end)
}
