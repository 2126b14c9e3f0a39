//! The critical path from a result along its readers: a lower bound of the cost after it.
//!
//! Responsible for: the time of a stage on a path from the moment an input is ready, on any processor.
//! Not for: work divided among processors (`work`), with which a path may continue where everything
//! before is complete. Invariant: no plan costs less between a result and the end.

use super::model::{ANY, BEGUN, INSIDE};
use super::shares::WITH_NPU;
use super::work::{BOTH_PARTS, NOTHING, Remaining, SEVERAL, STATES, Weighted, combine, least_remaining};
use super::{CPU, GPU, Model, NPU, Place, Places, Price, Progress};
use crate::units::Picos;

/// For each way to compute one kind of operator whole or in joined parts: the state of its result, and
/// the cost from the moment an input is ready, by the state of the input.
type JoinedCosts = Vec<(usize, Remaining)>;

const IMPOSSIBLE: Remaining = [f64::INFINITY; STATES];

/// Remaining cost from the moment an input of each stage is ready, by the state of the input.
pub(super) struct CriticalPaths {
    /// Of each kind of operator.
    joined: Vec<JoinedCosts>,
    /// For each set of weights of CPU and GPU, which turn the ends of parts that stay apart into one
    /// time, and for each stage.
    by_weight: Vec<Vec<FromInput>>,
    /// For each reader of each stage, the longest path from it or a later reader, over all weights.
    by_reader: Vec<Vec<Remaining>>,
    /// From each position on, the longest path from any stage, whatever the state of its inputs.
    of_any: Vec<f64>,
}

/// Remaining cost from an input of a stage on.
#[derive(Clone, Copy)]
struct FromInput {
    /// From the moment it is ready, by its state.
    ready: Remaining,
    /// From the weighted end of its parts, if the stage continues their chain: the parts of both stages
    /// together are balanced, not those of each.
    parts: f64,
}

impl FromInput {
    const NOTHING: Self = Self { ready: NOTHING, parts: 0.0 };
}

impl CriticalPaths {
    /// Paths without any stage yet; [`Self::add`] adds them from the last one back.
    pub(super) fn new(model: &Model<'_>, weights: &[Weighted]) -> Self {
        let count = model.stages.len();
        Self {
            joined: (0..model.tables.len()).map(|kind| model.joined_costs(kind)).collect(),
            by_weight: vec![vec![FromInput::NOTHING; count]; between_cpu_and_gpu(weights).count()],
            by_reader: model.readers.iter().map(|readers| vec![NOTHING; readers.len()]).collect(),
            of_any: vec![0.0; count + 1],
        }
    }

    /// The longest path after the result of a stage, by its state; all later stages have been added.
    pub(super) fn after(&self, model: &Model<'_>, stage: usize) -> Remaining {
        let mut at_end = NOTHING;
        at_end[GPU] = model.weights.of(model.read_back, 0.0);
        self.by_reader[stage].first().copied().unwrap_or(at_end)
    }

    /// Adds the stage before those added so far; `after` is the remaining cost after its joined result.
    pub(super) fn add(&mut self, model: &Model<'_>, weights: &[Weighted], stage: usize, after: &Remaining) {
        let joined = model.joined(stage, &self.joined[model.kind(stage)], after);
        let mut longest = NOTHING;
        for (known, weighted) in self.by_weight.iter_mut().zip(between_cpu_and_gpu(weights)) {
            let (open, parts) = model.open_costs(stage, weighted, known, after[SEVERAL]);
            let ready = combine(joined, open, f64::min);
            known[stage] = FromInput { ready, parts };
            longest = combine(longest, ready, f64::max);
        }
        for input in model.stages[stage].inputs() {
            let readers = &model.readers[input];
            let first = readers.partition_point(|reader| reader.0 < stage);
            for at in (first..readers.len()).rev().filter(|&at| readers[at].0 == stage) {
                let later = self.by_reader[input].get(at + 1).copied().unwrap_or(NOTHING);
                self.by_reader[input][at] = combine(longest, later, f64::max);
            }
        }
        let least = longest.into_iter().fold(f64::INFINITY, f64::min);
        self.of_any[stage] = self.of_any[stage + 1].max(least);
    }

    /// Lower bound of the total cost from a label at `position`: no stage starts before a processor is
    /// free, and no reader before its input is ready.
    pub(super) fn least_cost(
        &self,
        model: &Model<'_>,
        now: &Progress,
        places: &Places,
        position: usize,
    ) -> f64 {
        let [cpu, gpu, npu] = now.queues;
        let free = if model.uses_npu { cpu.min(npu) } else { cpu }.min(gpu.max(now.join));
        let cost = |from: Picos, left: f64| model.weights.of(from, now.joules) + left;
        let of_result = |&(stage, ref place): &(usize, Place)| {
            let readers = &model.readers[stage];
            let next = readers.partition_point(|reader| reader.0 < position);
            let left = self.by_reader[stage].get(next);
            let left = left.map_or(0.0, |left| least_remaining(left, model.possible_states_at(place)));
            let ready = if place.is_open() { place.usable } else { place.ready };
            let until = readers.get(next).map_or(usize::MAX, |reader| reader.0);
            (model.weights.of(ready, 0.0) + left, until)
        };
        let of_results = places.largest_cost(position, of_result) + model.weights.of(Picos::ZERO, now.joules);
        cost(free, self.of_any[position]).max(of_results)
    }
}

impl Model<'_> {
    /// Costs of all ways to compute one kind of operator with a whole result, except on the NPU alone.
    fn joined_costs(&self, kind: usize) -> JoinedCosts {
        let table = &self.tables[kind];
        let by_holder = |cost: &dyn Fn([Picos; 3]) -> f64| {
            [0, 1, 2, SEVERAL].map(|holder| cost([0, 1, 2].map(|by| self.waiting(holder, by))))
        };
        let whole = |by: usize, price: Price| {
            let cost = |starts: [Picos; 3]| self.weights.of(starts[by] + price.time, price.joules);
            (by, if price.is_known() { by_holder(&cost) } else { IMPOSSIBLE })
        };
        let on_cpu = table.cpu.iter().map(|&price| whole(CPU, price));
        let mut costs: JoinedCosts = on_cpu.chain([whole(GPU, table.gpu)]).collect();
        let join = self.transfer_delays(0, true).join;
        for cuts in table.cuts.iter().flatten() {
            let end = |starts: [Picos; 3]| cuts.least_end(starts[CPU], starts[GPU]) + join;
            costs.push((SEVERAL, by_holder(&|starts| self.weights.of(end(starts), cuts.least_joules))));
        }
        for shares in table.shares.iter().flatten() {
            costs.extend(WITH_NPU.map(|members| {
                let cost = |starts: [Picos; 3]| {
                    let shared = shares.balanced(&shares.sharing(members, starts, [1, shares.all]));
                    let joules = shares.least_joules(members);
                    shared.map_or(f64::INFINITY, |shared| self.weights.of(shared.end + join, joules))
                };
                (SEVERAL, by_holder(&cost))
            }));
        }
        costs
    }

    /// Least cost of a stage with a whole result and of all after it, by the state of an input.
    fn joined(&self, stage: usize, costs: &JoinedCosts, after: &Remaining) -> Remaining {
        // A running graph continues with its own results and with those that were handed over before it.
        let begins_one = self.stages[stage].inputs().all(|input| input + 1 == stage);
        let on_npu = |holder: usize| {
            let (case, entry) = match (begins_one, holder == NPU) {
                (true, false) => (BEGUN, self.graph),
                (true, true) => (INSIDE, Price::NOTHING),
                (false, _) => (ANY, Price::NOTHING),
            };
            let Price { time, joules } = self.on_npu[stage].in_graphs[case][0].price.plus(entry);
            self.weights.of(self.waiting(holder, NPU) + time, joules) + after[NPU]
        };
        let on_npu =
            if self.on_npu[stage].least().is_known() { [0, 1, 2, SEVERAL].map(on_npu) } else { IMPOSSIBLE };
        let cost = |(state, costs): &(usize, Remaining)| costs.map(|cost| cost + after[*state]);
        costs.iter().map(cost).fold(on_npu, |one, other| combine(one, other, f64::min))
    }

    /// As [`Self::joined`], for a stage whose parts stay apart and are read in a chain, at one set of
    /// weights; and [`FromInput::parts`] of the stage, whose parts may be joined after it.
    fn open_costs(
        &self,
        stage: usize,
        (busy, assignments): &Weighted,
        known: &[FromInput],
        after_join: f64,
    ) -> (Remaining, f64) {
        let parts = assignments[self.kind(stage)].iter().find(|(members, _)| *members == BOTH_PARTS);
        let Some(&(members, cost)) = parts else { return (IMPOSSIBLE, f64::INFINITY) };
        let from = |&(reader, _): &(usize, usize)| known[reader].ready[SEVERAL].min(known[reader].parts);
        let after = if self.may_stay_open(stage) {
            self.readers[stage].iter().map(from).fold(0.0, f64::max)
        } else {
            f64::INFINITY
        };
        let open = [0, 1, 2, SEVERAL].map(|holder| cost + self.reading(*busy, holder, members) + after);
        let join = self.weights.of(self.transfer_delays(0, true).join, 0.0);
        (open, cost + after.min(join + after_join))
    }
}

/// The sets of weights in which the NPU's is zero.
fn between_cpu_and_gpu(weights: &[Weighted]) -> impl Iterator<Item = &Weighted> {
    weights.iter().filter(|(busy, _)| busy[NPU] == 0.0)
}
