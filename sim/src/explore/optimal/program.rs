//! Dynamic programming: states, and the ways from one to the next.

use super::Weights;
use super::chaining::Chain;
use super::concurrent::BranchRegion;
use super::cutting::Cutter;
use super::places::{Boundary, Crossing, Place, Reader};
use super::state::{Decision, Move, State, What, live};
use crate::explore::channel_split::StartDelays;
use crate::explore::explorer::Explorer;
use crate::plan::{Axis, Placement, Plan, Processor, ProcessorKind};
use crate::simulate::{SimulateError, has_own_memory};
use crate::units::Picos;

/// Most states kept before each stage: those that cost least.
const BEAM: usize = 20;

pub(super) struct DpSearch<'e, 's, 'a> {
    pub(super) explorer: &'e mut Explorer<'s, 'a>,
    pub(super) cutter: Cutter<'a>,
    pub(super) boundary: Boundary<'a>,
    pub(super) weights: Weights,
    /// From the call until the GPU can start.
    pub(super) submission: Picos,
    /// Stages before each position whose results are read from there on.
    pub(super) live: Vec<Vec<usize>>,
    pub(super) chains: Vec<Vec<Chain>>,
    /// For each chain, what [`Self::around`] says.
    pub(super) around: Vec<Vec<[Picos; 2]>>,
    /// The region with branches that begins at each stage.
    pub(super) regions: Vec<Option<BranchRegion>>,
    decisions: Vec<Decision>,
    pub(super) considered: usize,
}

/// The plans of the `count` cheapest final states, and how many moves were considered.
pub(super) fn plans(
    explorer: &mut Explorer<'_, '_>,
    weights: Weights,
    count: usize,
) -> Result<(Vec<Plan>, usize), SimulateError> {
    let stages = explorer.stages;
    let boundary =
        Boundary { device: explorer.simulator.device(), mechanism: explorer.options.synchronisation };
    let mut search = DpSearch {
        cutter: Cutter::new(explorer, weights),
        boundary,
        weights,
        submission: explorer.simulator.around_launches()[0],
        live: live(stages.iter().map(|stage| stage.inputs.as_slice())),
        chains: Vec::new(),
        around: Vec::new(),
        regions: vec![None; stages.len()],
        decisions: Vec::new(),
        considered: 0,
        explorer,
    };
    search.prepare()?;
    let finals = search.run()?;
    let plans = finals.iter().take(count).map(|state| search.plan(state)).collect();
    Ok((plans, search.considered))
}

impl DpSearch<'_, '_, '_> {
    /// The final states, cheapest first.
    fn run(&mut self) -> Result<Vec<State>, SimulateError> {
        let count = self.explorer.stages.len();
        let mut states: Vec<Vec<State>> = vec![Vec::new(); count + 1];
        states[0].push(State::default());
        for position in 0..count {
            let mut here = std::mem::take(&mut states[position]);
            here.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            here.truncate(BEAM);
            for state in &here {
                for next in self.moves(position, state)? {
                    self.considered += 1;
                    let cost = state.cost + next.cost;
                    let places = self.places_behind(position, state, &next);
                    let there = &mut states[next.end];
                    let uses_gpu = state.uses_gpu || next.uses_gpu;
                    let known =
                        there.iter_mut().find(|known| known.places == places && known.uses_gpu == uses_gpu);
                    if known.as_ref().is_some_and(|known| known.cost <= cost) {
                        continue;
                    }
                    self.decisions.push(Decision { before: state.decision, what: next.what });
                    let (decision, elapsed) = (Some(self.decisions.len() - 1), state.elapsed + next.time);
                    let reached = State { places, cost, elapsed, uses_gpu, decision };
                    match known {
                        Some(known) => *known = reached,
                        None => there.push(reached),
                    }
                }
            }
        }
        let mut finals = std::mem::take(&mut states[count]);
        finals.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        Ok(finals)
    }

    /// Where the results lie that are read behind `next`.
    fn places_behind(&self, position: usize, state: &State, next: &Move) -> Vec<Place> {
        let (live, stages) = (&self.live, self.explorer.stages);
        let place = |&stage: &usize| {
            if stage >= position {
                return self.place_of(position, next, stage);
            }
            let known = live[position].iter().zip(&state.places).find(|(known, _)| **known == stage);
            let before = known.map_or(Place::Both, |(_, place)| *place);
            // Who reads a result has it from then on.
            let reads = (position..next.end).any(|reader| stages[reader].inputs.contains(&stage));
            match (before, next.place) {
                (before, _) if !reads => before,
                (Place::Cpu, Place::Cpu) => Place::Cpu,
                (Place::Gpu, Place::Gpu) => Place::Gpu,
                _ => Place::Both,
            }
        };
        self.live[next.end].iter().map(place).collect()
    }

    /// Where the result of a stage that `next` decides lies.
    fn place_of(&self, position: usize, next: &Move, stage: usize) -> Place {
        match next.what {
            What::One(_) | What::Region(_) => next.place,
            What::Chain(head, index) => self.joined(&self.chains[head][index], stage - position),
        }
    }

    /// The place of the result of one stage of a chain.
    pub(super) fn joined(&self, chain: &Chain, index: usize) -> Place {
        self.boundary.joined(chain.axis, chain.cuts[index][0].span(chain.axis).end)
    }

    fn place(&self, position: usize, state: &State, stage: usize) -> Place {
        let known = self.live[position].iter().position(|&live| live == stage);
        known.map_or(Place::Both, |index| state.places[index])
    }

    /// What `reader` waits for before it has all inputs of `stage` that lie before
    /// `position`.
    fn crossing(&self, position: usize, state: &State, stage: usize, reader: Reader<'_>) -> Crossing {
        let stages = self.explorer.stages;
        let mut sum = Crossing::default();
        for (at, &input) in stages[stage].inputs.iter().enumerate().filter(|(_, input)| **input < position) {
            let place = self.place(position, state, input);
            let one = self.boundary.crossing(place, &stages[input], (&stages[stage], at), reader);
            sum.cpu += one.cpu;
            sum.gpu += one.gpu;
            sum.both += one.both;
        }
        if !matches!(reader, Reader::Cpu) {
            sum.gpu += self.inputs_onto_gpu(stage) + self.pending(state);
        }
        sum
    }

    /// How long the GPU still has to wait for its queue.
    fn pending(&self, state: &State) -> Picos {
        if state.uses_gpu { Picos::ZERO } else { self.submission.saturating_sub(state.elapsed) }
    }

    /// Every way to go on from `state`.
    fn moves(&mut self, position: usize, state: &State) -> Result<Vec<Move>, SimulateError> {
        let mut moves = Vec::with_capacity(8);
        if let Some(price) = self.explorer.prices.whole(position, Processor::Gpu) {
            let crossing = self.crossing(position, state, position, Reader::Gpu);
            let time = crossing.both + crossing.gpu + price.time;
            moves.push(self.one(position, Placement::GPU, Place::Gpu, (time, price.joules)));
        }
        if let Some((cores, price)) = self.best_cores(position) {
            let crossing = self.crossing(position, state, position, Reader::Cpu);
            let time = crossing.both + crossing.cpu + price.time;
            moves.push(self.one(position, Placement::cpu(cores), Place::Cpu, (time, price.joules)));
        }
        for axis in [Axis::Channels, Axis::Height] {
            moves.extend(self.cut(position, state, axis)?);
        }
        for index in 0..self.chains[position].len() {
            moves.push(self.chain(position, state, index));
        }
        moves.extend(self.region_move(position, state));
        Ok(moves)
    }

    fn one(&self, position: usize, placement: Placement, place: Place, (time, joules): (Picos, f64)) -> Move {
        let uses_gpu = placement.uses(ProcessorKind::Gpu);
        let (what, end) = (What::One(placement), position + 1);
        self.step(what, end, place, (time + self.behind(position, place), joules, uses_gpu))
    }

    fn step(
        &self,
        what: What,
        end: usize,
        place: Place,
        (time, joules, uses_gpu): (Picos, f64, bool),
    ) -> Move {
        Move { what, end, cost: self.weights.of(time, joules), time, uses_gpu, place }
    }

    /// The region with branches that begins at a stage.
    fn region_move(&self, position: usize, state: &State) -> Option<Move> {
        let region = self.regions[position].as_ref()?;
        let entry = |stage: usize| self.place(position, state, stage);
        let scheduled = region.schedule((self.explorer.stages, &self.boundary), &entry, self.pending(state));
        let end = region.stages.end;
        let time = scheduled.time + region.contention_excess + self.behind(end - 1, scheduled.place);
        let what = What::Region(position);
        Some(self.step(what, end, scheduled.place, (time, region.joules(), region.uses_gpu())))
    }

    /// What comes behind a stage that nobody reads.
    pub(super) fn behind(&self, stage: usize, place: Place) -> Picos {
        let is_read = self.live[stage + 1].contains(&stage);
        if is_read {
            return Picos::ZERO;
        }
        let [_, read_back] = self.explorer.simulator.around_launches();
        self.boundary.behind(place, &self.explorer.stages[stage], read_back)
    }

    fn cut(&mut self, position: usize, state: &State, axis: Axis) -> Result<Option<Move>, SimulateError> {
        let Some(even) = self.cutter.best(self.explorer, position, axis, [Picos::ZERO; 2])? else {
            return Ok(None);
        };
        // How late each can start depends a little on the cut, and the cut on that.
        let crossing = self.crossing(position, state, position, Reader::Parts(&even.regions));
        let leads = [crossing.cpu, crossing.gpu];
        let choice = if leads == [Picos::ZERO; 2] {
            even
        } else {
            match self.cutter.best(self.explorer, position, axis, leads)? {
                Some(choice) => choice,
                None => return Ok(None),
            }
        };
        let crossing = self.crossing(position, state, position, Reader::Parts(&choice.regions));
        let time = crossing.both + choice.time(crossing.cpu, crossing.gpu) + self.boundary.notification();
        let place = self.boundary.joined(axis, choice.placement.extent(axis, ProcessorKind::Cpu));
        let joules = choice.cpu.joules + choice.gpu.joules;
        Ok(Some(self.one(position, choice.placement, place, (time, joules))))
    }

    fn chain(&self, position: usize, state: &State, index: usize) -> Move {
        let (chain, stages) = (&self.chains[position][index], self.explorer.stages);
        let mut waits = Crossing::default();
        for &(stage, at, input) in &chain.reads {
            let place = self.place(position, state, input);
            let reader = Reader::Parts(&chain.cuts[stage - position]);
            let crossing = self.boundary.crossing(place, &stages[input], (&stages[stage], at), reader);
            waits.cpu += crossing.cpu;
            waits.gpu += crossing.gpu;
            waits.both += crossing.both;
        }
        let [onto_gpu, behind] = self.around[position][index];
        waits.gpu += self.pending(state);
        let time = waits.both
            + (waits.cpu + chain.cpu).max(waits.gpu + onto_gpu + chain.gpu)
            + self.boundary.notification()
            + behind;
        let (what, place) = (What::Chain(position, index), self.joined(chain, 0));
        self.step(what, chain.stages.end, place, (time, chain.joules, true))
    }

    /// What it takes that the GPU has what a stage reads of the workload's inputs.
    pub(super) fn inputs_onto_gpu(&self, stage: usize) -> Picos {
        let stage = &self.explorer.stages[stage];
        if stage.inputs.len() == stage.input_count || !has_own_memory(self.boundary.device) {
            return Picos::ZERO;
        }
        StartDelays::of_host(&self.explorer.parts, stage).gpu
    }

    /// The plan that led to `state`.
    fn plan(&self, state: &State) -> Plan {
        let decisions = std::iter::successors(state.decision, |&decision| self.decisions[decision].before);
        let mut whats: Vec<What> = decisions.map(|decision| self.decisions[decision].what).collect();
        whats.reverse();
        let (mut placements, mut chains) = (Vec::new(), Vec::new());
        for what in whats {
            match what {
                What::One(placement) => {
                    placements.push(placement);
                    chains.push(None);
                }
                What::Chain(head, index) => {
                    let chain = &self.chains[head][index];
                    placements.extend(chain.placements(self.explorer.stages));
                    chains.resize(placements.len(), Some(head as u32));
                }
                What::Region(head) => {
                    let region = self.regions[head].as_ref();
                    placements.extend(region.map(BranchRegion::placements).unwrap_or_default());
                    chains.resize(placements.len(), None);
                }
            }
        }
        self.explorer.plan(placements).chained(chains)
    }
}
