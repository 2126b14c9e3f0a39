//! The moves of chains: several stages of which each processor computes its part without the other.
//!
//! Responsible for: the effect on a label of entering, running, leaving open and closing a chain. Not
//! for: the prices of the parts (`chains`). Invariant: that of [`Mover`].

use super::chains::Read;
use super::{
    At, BOTH, CPU, Cutting, GPU, Move, Mover, Place, Places, Progress, Step, Way, Ways, Weights, best, gather,
};
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

impl Mover<'_, '_, '_> {
    /// The stages before `end` as a chain: joined after it or, if `open` gives a range of ways, left
    /// open.
    pub(super) fn chain(
        &mut self,
        mut step: Step,
        position: usize,
        (end, cutting): (usize, Cutting),
        open: Option<(usize, usize)>,
    ) -> Option<(Progress, Places, Move)> {
        let model = self.model;
        let ways = self.chains.ways(cutting, end, end - position)?;
        let reads = self.chains.reads(position, end);
        let (mut continues_chain, cut);
        if self.is_relaxed() {
            continues_chain = false;
            cut = self.enter_relaxed(&mut step, (position, end, cutting), reads, (ways, open))?;
        } else {
            let given = open.map_or(0..ways.len(), |(first, _)| first..first + 1);
            let fitting = self.fitting(&step, (end, cutting), &ways[given.clone()], reads);
            continues_chain = fitting.is_some();
            let ways = fitting.as_deref().unwrap_or(&ways[given]);
            cut = self.enter(&mut step, (position, end, cutting), ways, (reads, continues_chain))?;
        }
        let (mut lines, at) = (None, At::Open(cutting));
        let own = if open.is_some() && end < model.stages.len() {
            if !self.is_relaxed() {
                lines = Some(self.chains.lines(model, end, cutting.axis, cut));
            }
            let ready = step.now.queues[GPU];
            let usable = if self.is_relaxed() { ready.min(step.now.queues[CPU]) } else { ready };
            Place { at, ready, usable, of_npu: false, lines: [0; 2] }
        } else {
            continues_chain = self.close(&mut step, (position, end, cutting), cut, continues_chain);
            self.joined_place([0; 2], step.now.join)
        };
        let decided = Move::Chain { end, cutting, cut, stays_open: own.at == at, continues_chain };
        self.hand_over_during_join(&mut step, &decided, end);
        let (now, places) = self.advanced(step, position, end, |stage| {
            let own_lines = lines.as_ref().and_then(|lines| lines.get(end - 1 - stage));
            Place { lines: own_lines.copied().unwrap_or(own.lines), ..own }
        });
        Some((now, places, decided))
    }

    /// Both processors compute a chain whose inputs are there; its cut.
    fn run(step: &mut Step, way: Way) -> u32 {
        let gpu = step.gpu_start() + way.gpu;
        step.now.queues[CPU] += way.cpu;
        step.now.queues[GPU] = gpu;
        step.now.joules += way.joules;
        way.cut
    }

    /// The join after a chain, which also joins the chain's open results; whether the chain continues
    /// an open one.
    fn close(
        &mut self,
        step: &mut Step,
        (position, end, cutting): (usize, usize, Cutting),
        cut: u32,
        continues_chain: bool,
    ) -> bool {
        let model = self.model;
        let is_relaxed = self.is_relaxed();
        let is_other = |place: &Place| !is_relaxed && place.at == At::Open(cutting);
        let others = step.places.open().filter(|(_, place)| is_other(place));
        let others = others.map(|(_, place)| place.ready).max();
        let lost = match &mut self.contention {
            Some(contention) => contention.of_chain(model, position..end, cutting, cut),
            None => Picos::ZERO,
        };
        if !is_relaxed {
            step.now.queues[GPU] += gather(model, end - 1, cutting.axis, cut);
        }
        let parts = step.now.queues[CPU].max(step.now.queues[GPU]).max(others.unwrap_or_default());
        let joined_at = parts + lost + model.transfer_delays(end - 1, is_relaxed).join;
        (step.now.queues[CPU], step.now.join) = (joined_at, joined_at);
        let continues_chain = continues_chain || others.is_some();
        let joined_place = self.joined_place([0; 2], joined_at);
        if continues_chain {
            step.places.close(is_other, joined_place);
        }
        self.join_all(step, joined_at);
        continues_chain
    }

    /// The ways in which a chain can continue the open results of the same cutting that it reads: each
    /// processor has the lines that its part reads. `None` if there are no such results, or no such
    /// ways.
    fn fitting(
        &self,
        step: &Step,
        (end, cutting): (usize, Cutting),
        ways: &[Way],
        reads: &[Read],
    ) -> Option<Ways> {
        let model = self.model;
        let open = |&Read { stage, at, input }: &Read| {
            let place = step.places.get(input)?;
            (place.at == At::Open(cutting)).then_some((stage, at, input, place.lines))
        };
        let open: Vec<_> = reads.iter().filter_map(open).collect();
        if open.is_empty() {
            return None;
        }
        let extent = |stage| model.cuts(stage, cutting.axis).map_or(1, |cuts| u64::from(cuts.all));
        let fits = |way: &&Way| {
            let lines = self.chains.lines(model, end, cutting.axis, way.cut);
            open.iter().all(|&(stage, at, input, there)| {
                let own = lines[end - 1 - stage];
                let has_all = match cutting.axis {
                    Axis::Channels => {
                        u64::from(own[0]) * extent(input) == u64::from(there[0]) * extent(stage)
                    }
                    Axis::Height => {
                        let [first, second] = model.read((stage, at), own);
                        first <= there[0] && second >= there[1]
                    }
                };
                has_all && model.is_linkable(stage, input, cutting.axis)
            })
        };
        let fitting: Ways = ways.iter().filter(fits).copied().collect();
        (!fitting.is_empty()).then_some(fitting)
    }

    /// Relaxed, the stages of a chain: an input that a later stage reads from outside may arrive while
    /// earlier ones are computed, so only that stage and those after it wait; results that are apart
    /// along the same axis may belong to the same chain; a bucket of ways in which the chain stays open
    /// counts as one.
    fn enter_relaxed(
        &self,
        step: &mut Step,
        (position, end, cutting): (usize, usize, Cutting),
        reads: &[Read],
        (ways, open): (&Ways, Option<(usize, usize)>),
    ) -> Option<u32> {
        let mut late = self.read_relaxed(step, position, cutting, reads);
        (position + 1..end).for_each(|stage| self.inputs_onto_gpu(step, stage));
        let least = |ways: &[Way]| {
            ways.iter().copied().reduce(|least, way| Way {
                cpu: least.cpu.min(way.cpu),
                gpu: least.gpu.min(way.gpu),
                joules: least.joules.min(way.joules),
                cut: least.cut,
            })
        };
        if let Some((first, last)) = open {
            let cut = Self::run(step, least(&ways[first..last])?);
            for by in [CPU, GPU] {
                let last = late.iter().map(|(_, starts)| starts[by]).max().unwrap_or_default();
                step.now.queues[by] = step.now.queues[by].max(last);
            }
            return Some(cut);
        }
        let even = |ways: &Ways, [cpu, gpu]: [Picos; 2]| {
            let way = best(ways, (cpu, gpu), (self.model, Weights::TIME))?;
            Some(((cpu + way.cpu).max(gpu + way.gpu), way.cut))
        };
        let starts = [step.now.queues[CPU], step.gpu_start()];
        let (mut computed, cut) = even(ways, starts)?;
        late.retain(|(_, late)| late[CPU] > starts[CPU] || late[GPU] > starts[GPU]);
        for (stage, late) in late {
            let (from_stage, _) = even(self.chains.ways(cutting, end, end - stage)?, late)?;
            computed = computed.max(from_stage);
        }
        step.now.joules += least(ways)?.joules;
        // Later GPU kernels wait for the join, so the end of the GPU's part does not matter.
        step.now.queues[CPU] = computed;
        Some(cut)
    }

    /// Relaxed, hands over what a chain reads from outside; for each later stage that reads such an
    /// input, when CPU and GPU can start it.
    fn read_relaxed(
        &self,
        step: &mut Step,
        position: usize,
        cutting: Cutting,
        reads: &[Read],
    ) -> Vec<(usize, [Picos; 2])> {
        let continues_parts = |place: &Place, ids| self.continues_parts(place, ids, cutting.axis);
        let mut late = Vec::new();
        // The stage for whose inputs each processor last waited.
        let mut waited = [None; 2];
        let inputs = self.model.stages[position].inputs();
        for by in BOTH {
            let is_inside = |place: &Place, input| continues_parts(place, [position, input]);
            self.read(step, (by, position), inputs.clone(), is_inside);
        }
        for &Read { stage, input, .. } in reads.iter().filter(|read| read.stage > position) {
            let Some(&place) = step.places.get(input) else { continue };
            if continues_parts(&place, [stage, input]) {
                continue;
            }
            let At::With(holders) = place.at else {
                // Joined at some time within the chain: only the delay of the join is certain.
                step.now.queues[CPU] += self.model.transfer_delays(input, true).join;
                step.places.close(|_| true, self.joined_place([0; 2], Picos::ZERO));
                for by in BOTH {
                    self.cross(step, by, (input, std::iter::once(input)), &mut Holders::default());
                }
                continue;
            };
            let (mut starts, mut holders) = ([place.ready; 2], holders);
            for by in BOTH {
                if !holders.has(by) {
                    let wait = self.model.transfer_delays(input, true).wait(by, holders);
                    let has_waited =
                        !self.model.own_memory && waited[by as usize].replace(stage) == Some(stage);
                    let again = if has_waited { self.model.notification } else { Picos::ZERO };
                    step.now.queues[by as usize] += wait - again;
                    starts[by as usize] += wait;
                    holders = holders.with(by);
                    step.places.add_holder(input, by);
                }
            }
            late.push((stage, starts));
        }
        late
    }

    /// Exact, the stages of a chain: at once if all inputs are there, otherwise stage by stage.
    fn enter(
        &self,
        step: &mut Step,
        (position, end, cutting): (usize, usize, Cutting),
        ways: &[Way],
        (reads, continues_chain): (&[Read], bool),
    ) -> Option<u32> {
        let model = self.model;
        let is_inside = |place: &Place| continues_chain && place.at == At::Open(cutting);
        let has_all = Holders::joined(false);
        let waits = |&Read { stage, input, .. }: &Read| {
            stage > position
                && step.places.get(input).is_some_and(|place| {
                    let is_there = matches!(place.at, At::With(holders) if holders.has_all(has_all));
                    !is_inside(place) && (!is_there || place.ready > Picos::ZERO)
                })
        };
        if !reads.iter().any(waits) {
            let inputs = reads.iter().map(|read| read.input);
            for by in BOTH {
                self.read(step, (by, position), inputs.clone(), |place, _| is_inside(place));
            }
            (position + 1..end).for_each(|stage| self.inputs_onto_gpu(step, stage));
            let way = best(ways, (step.now.queues[CPU], step.gpu_start()), (model, model.weights))?;
            return Some(Self::run(step, way));
        }
        let read = reads.iter().filter_map(|read| step.places.get(read.input));
        let last = read.map(|place| place.ready).max().unwrap_or_default();
        let cpu = step.now.queues[CPU];
        let way = |start: Picos| best(ways, (start, step.gpu_start()), (model, model.weights));
        let (early, late) = (way(cpu)?, way(cpu.max(last))?);
        let ways = std::iter::once(early).chain((late != early).then_some(late));
        let tried = ways.map(|way| {
            let mut tried = step.clone();
            let lines = self.chains.lines(model, end, cutting.axis, way.cut);
            let mut reads = reads;
            for stage in position..end {
                let own;
                (own, reads) = reads.split_at(reads.iter().take_while(|read| read.stage == stage).count());
                for by in BOTH {
                    let inputs = own.iter().map(|read| read.input);
                    self.read(&mut tried, (by, stage), inputs, |place, _| is_inside(place));
                }
                let [first, second] = lines[end - 1 - stage];
                let cuts = model.cuts(stage, cutting.axis)?;
                tried.now.queues[CPU] += cuts.cpu[cutting.cores as usize][first as usize].time;
                tried.now.queues[GPU] = tried.gpu_start() + cuts.gpu[second.min(first) as usize].time;
            }
            tried.now.joules += way.joules;
            Some((tried, way.cut))
        });
        let (best, cut) = tried.flatten().min_by_key(|(tried, _)| tried.now.end())?;
        *step = best;
        Some(cut)
    }
}
