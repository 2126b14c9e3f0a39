//! The dynamic programme: states, and the ways from one to the next.

use super::Weights;
use super::chaining::{Chain, chains_from};
use super::cutting::Cutter;
use super::places::{Boundary, Crossing, Place, Reader};
use crate::explore::channel_split::Lead;
use crate::explore::explorer::Explorer;
use crate::explore::prices::{Price, Who};
use crate::kernel::cpu::CoreSet;
use crate::plan::{Axis, Cut, Placement, Plan};
use crate::simulate::{SimulateError, has_own_memory};
use crate::units::Picos;

/// Most states kept before each stage: those that cost least.
const BEAM: usize = 20;

/// A way to have decided the stages before some stage.
#[derive(Clone, Debug)]
struct State {
    /// Where each result lies that is still read, in order of the stages.
    places: Vec<Place>,
    cost: f64,
    /// The last step, in the list of all.
    step: Option<usize>,
}

/// What led to a state.
#[derive(Clone, Debug)]
struct Step {
    before: Option<usize>,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    One(Placement),
    /// One of the chains that begin at a stage.
    Chain(usize, usize),
}

/// One way to go on from a state.
struct Move {
    what: What,
    /// The stage behind.
    end: usize,
    cost: f64,
    /// Where the result of the stage lies, or of the first of a chain.
    place: Place,
}

struct Programme<'e, 's, 'a> {
    explorer: &'e mut Explorer<'s, 'a>,
    cutter: Cutter<'a>,
    boundary: Boundary<'a>,
    weights: Weights,
    /// Stages before each position whose results are read from there on.
    live: Vec<Vec<usize>>,
    chains: Vec<Vec<Chain>>,
    /// For each chain, what [`Self::around`] says.
    around: Vec<Vec<[Picos; 2]>>,
    steps: Vec<Step>,
    considered: usize,
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
    let mut programme = Programme {
        cutter: Cutter::new(explorer, weights),
        boundary,
        weights,
        live: live(stages.iter().map(|stage| stage.inputs.as_slice())),
        chains: Vec::new(),
        around: Vec::new(),
        steps: Vec::new(),
        considered: 0,
        explorer,
    };
    programme.find_chains()?;
    let finals = programme.run()?;
    let plans = finals.iter().take(count).map(|state| programme.plan(state)).collect();
    Ok((plans, programme.considered))
}

/// For each position, the stages before it that are read from there on.
fn live<'a>(inputs: impl Iterator<Item = &'a [usize]>) -> Vec<Vec<usize>> {
    let inputs: Vec<&[usize]> = inputs.collect();
    let mut last_read: Vec<usize> = vec![0; inputs.len()];
    for (stage, reads) in inputs.iter().enumerate() {
        reads.iter().for_each(|&input| last_read[input] = stage);
    }
    (0..=inputs.len())
        .map(|position| (0..position).filter(|&stage| last_read[stage] >= position).collect())
        .collect()
}

impl Programme<'_, '_, '_> {
    /// Chains from every stage, along both dimensions.
    fn find_chains(&mut self) -> Result<(), SimulateError> {
        let count = self.explorer.stages.len();
        let mut apart = Vec::with_capacity(count);
        for stage in 0..count {
            apart.push(self.unchained(stage)?);
        }
        for head in 0..count {
            let mut chains = Vec::new();
            for axis in [Axis::Height, Axis::Channels] {
                chains.extend(chains_from(self.explorer, &mut self.cutter, (head, axis), &apart)?);
            }
            self.considered += chains.len();
            self.around.push(chains.iter().map(|chain| self.around(chain)).collect());
            self.chains.push(chains);
        }
        Ok(())
    }

    /// The least time of one stage in no chain, everything it reads being where it must.
    fn unchained(&mut self, stage: usize) -> Result<Picos, SimulateError> {
        let mut least = self.explorer.prices.whole(stage, Who::Gpu).map(|price| price.time);
        for axis in [Axis::Channels, Axis::Height] {
            if let Some(choice) = self.cutter.best(self.explorer, stage, axis, [Picos::ZERO; 2])? {
                let time = choice.time(Picos::ZERO, Picos::ZERO) + self.boundary.notification();
                least = Some(least.map_or(time, |least| least.min(time)));
            }
        }
        match least {
            Some(least) => Ok(least),
            None => Ok(self.best_cores(stage).map_or(Picos::ZERO, |(_, price)| price.time)),
        }
    }

    /// The core set that computes a whole stage at least cost.
    fn best_cores(&mut self, stage: usize) -> Option<(CoreSet, Price)> {
        let mut best: Option<(CoreSet, Price)> = None;
        for &cores in &self.explorer.options.core_sets {
            let Some(price) = self.explorer.prices.whole(stage, Who::Cpu(cores)) else { continue };
            let cost = |price: &Price| self.weights.of(price.time, price.joules);
            if best.as_ref().is_none_or(|(_, known)| cost(&price) < cost(known)) {
                best = Some((cores, price));
            }
        }
        best
    }

    /// The final states, cheapest first.
    fn run(&mut self) -> Result<Vec<State>, SimulateError> {
        let count = self.explorer.stages.len();
        let mut states: Vec<Vec<State>> = vec![Vec::new(); count + 1];
        states[0].push(State { places: Vec::new(), cost: 0.0, step: None });
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
                    let known = there.iter_mut().find(|known| known.places == places);
                    if known.as_ref().is_some_and(|known| known.cost <= cost) {
                        continue;
                    }
                    self.steps.push(Step { before: state.step, what: next.what });
                    let step = Some(self.steps.len() - 1);
                    match known {
                        Some(known) => (known.cost, known.step) = (cost, step),
                        None => there.push(State { places, cost, step }),
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
            What::One(_) => next.place,
            What::Chain(head, index) => self.joined(&self.chains[head][index].cuts[stage - position]),
        }
    }

    fn joined(&self, cut: &Cut) -> Place {
        self.boundary.joined(cut.axis, cut.parts[0].end)
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
            sum.gpu += self.inputs_onto_gpu(stage);
        }
        sum
    }

    /// Every way to go on from `state`.
    fn moves(&mut self, position: usize, state: &State) -> Result<Vec<Move>, SimulateError> {
        let mut moves = Vec::with_capacity(8);
        if let Some(price) = self.explorer.prices.whole(position, Who::Gpu) {
            let crossing = self.crossing(position, state, position, Reader::Gpu);
            let time = crossing.both + crossing.gpu + price.time;
            moves.push(self.one(position, Placement::Gpu, Place::Gpu, (time, price.joules)));
        }
        if let Some((cores, price)) = self.best_cores(position) {
            let crossing = self.crossing(position, state, position, Reader::Cpu);
            let time = crossing.both + crossing.cpu + price.time;
            moves.push(self.one(position, Placement::Cpu(cores), Place::Cpu, (time, price.joules)));
        }
        for axis in [Axis::Channels, Axis::Height] {
            moves.extend(self.cut(position, state, axis)?);
        }
        for index in 0..self.chains[position].len() {
            moves.push(self.chain(position, state, index));
        }
        Ok(moves)
    }

    fn one(&self, position: usize, placement: Placement, place: Place, (time, joules): (Picos, f64)) -> Move {
        let cost = self.weights.of(time + self.behind(position, place), joules);
        Move { what: What::One(placement), end: position + 1, cost, place }
    }

    /// What comes behind a stage that nobody reads.
    fn behind(&self, stage: usize, place: Place) -> Picos {
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
        let crossing = self.crossing(position, state, position, Reader::Parts(&even.cut));
        let leads = [crossing.cpu, crossing.gpu];
        let choice = if leads == [Picos::ZERO; 2] {
            even
        } else {
            match self.cutter.best(self.explorer, position, axis, leads)? {
                Some(choice) => choice,
                None => return Ok(None),
            }
        };
        let crossing = self.crossing(position, state, position, Reader::Parts(&choice.cut));
        let time = crossing.both + choice.time(crossing.cpu, crossing.gpu) + self.boundary.notification();
        let place = self.boundary.joined(axis, choice.cut.parts[0].end);
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
        let time = waits.both
            + (waits.cpu + chain.cpu).max(waits.gpu + onto_gpu + chain.gpu)
            + self.boundary.notification()
            + behind;
        let cost = self.weights.of(time, chain.joules);
        let place = self.joined(&chain.cuts[0]);
        Move { what: What::Chain(position, index), end: chain.stages.end, cost, place }
    }

    /// What it takes until a chain's GPU has what it reads of the workload's inputs, and
    /// what comes behind results that nobody reads.
    fn around(&self, chain: &Chain) -> [Picos; 2] {
        let mut sums = [Picos::ZERO; 2];
        for (stage, cut) in chain.stages.clone().zip(&chain.cuts) {
            sums[0] += self.inputs_onto_gpu(stage);
            sums[1] += self.behind_chain(chain, stage, self.joined(cut));
        }
        sums
    }

    /// What it takes that the GPU has what a stage reads of the workload's inputs.
    fn inputs_onto_gpu(&self, stage: usize) -> Picos {
        let stage = &self.explorer.stages[stage];
        if stage.inputs.len() == stage.input_count || !has_own_memory(self.boundary.device) {
            return Picos::ZERO;
        }
        Lead::of_host(&self.explorer.parts, stage).gpu
    }

    /// What comes behind a stage of a chain that nobody reads at all.
    fn behind_chain(&self, chain: &Chain, stage: usize, place: Place) -> Picos {
        let stages = self.explorer.stages;
        let is_read = chain.stages.clone().any(|reader| stages[reader].inputs.contains(&stage));
        if is_read { Picos::ZERO } else { self.behind(stage, place) }
    }

    /// The plan that led to `state`.
    fn plan(&self, state: &State) -> Plan {
        let steps = std::iter::successors(state.step, |&step| self.steps[step].before);
        let mut whats: Vec<What> = steps.map(|step| self.steps[step].what).collect();
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
            }
        }
        self.explorer.plan(placements).chained(chains)
    }
}
