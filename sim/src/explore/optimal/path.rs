//! What follows a result along its readers at least: the critical path that is left.
//!
//! Responsible for: what a stage takes on a path from when an input of it is ready, whoever computes it. Not for:
//! the work that processors share (`work`), which is what a path may go on with where all before it is complete.
//! Invariant: no plan is over before a result is ready in it and what follows here has been computed.

use super::shares::{Sharing, WITH_NPU};
use super::work::{BOTH_PARTS, NOTHING, Remaining, SEVERAL, STATES, Weighted, each, least_remaining};
use super::{At, CPU, GPU, Model, NPU, Place, Price, Progress};
use crate::units::Picos;

/// Of each way to compute one kind of operator whole, or in parts that are joined: who has its result then, and what it
/// costs from when an input is ready, by who has that.
type JoinedCosts = Vec<(usize, Remaining)>;

const IMPOSSIBLE: Remaining = [f64::INFINITY; STATES];

/// What is left from when an input of each stage is ready, by who has that.
pub(super) struct CriticalPaths {
    /// Of each kind of operator.
    joined: Vec<JoinedCosts>,
    /// By each weight of CPU and GPU, with which the ends of parts that stay apart count as one time.
    by_weight: Vec<Vec<Remaining>>,
    /// Of each reader of a stage and those behind it, the longest by any of the weights.
    by_reader: Vec<Vec<Remaining>>,
    /// Of any stage from each position on, the longest, whoever has its inputs.
    of_any: Vec<f64>,
}

impl CriticalPaths {
    /// Before anything is known of any stage.
    pub(super) fn new(model: &Model<'_>, weights: &[Weighted]) -> Self {
        let count = model.stages.len();
        Self {
            joined: (0..model.tables.len()).map(|kind| model.joined_costs(kind)).collect(),
            by_weight: vec![vec![NOTHING; count]; between_cpu_and_gpu(weights).count()],
            by_reader: model.readers.iter().map(|readers| vec![NOTHING; readers.len()]).collect(),
            of_any: vec![0.0; count + 1],
        }
    }

    /// What follows the result of a stage behind which all are known, by who has it.
    pub(super) fn behind(&self, model: &Model<'_>, stage: usize) -> Remaining {
        let mut at_end = NOTHING;
        at_end[GPU] = model.weights.of(model.read_back, 0.0);
        self.by_reader[stage].first().copied().unwrap_or(at_end)
    }

    /// Goes on to the stage before all that are known, of which so much is left behind its result.
    pub(super) fn add(&mut self, model: &Model<'_>, weights: &[Weighted], stage: usize, behind: &Remaining) {
        let joined = model.joined(stage, &self.joined[model.kind(stage)], behind);
        let mut longest = NOTHING;
        for (known, weighted) in self.by_weight.iter_mut().zip(between_cpu_and_gpu(weights)) {
            known[stage] = each(joined, model.apart(stage, weighted, known), f64::min);
            longest = each(longest, known[stage], f64::max);
        }
        for &input in &model.stages[stage].inputs {
            let readers = &model.readers[input];
            let first = readers.partition_point(|reader| reader.0 < stage);
            for at in (first..readers.len()).rev().filter(|&at| readers[at].0 == stage) {
                let later = self.by_reader[input].get(at + 1).copied().unwrap_or(NOTHING);
                self.by_reader[input][at] = each(longest, later, f64::max);
            }
        }
        let whoever = longest.into_iter().fold(f64::INFINITY, f64::min);
        self.of_any[stage] = self.of_any[stage + 1].max(whoever);
    }

    /// What everything costs at least where processors are so far before a position and results lie so: no stage is
    /// computed before a processor is free, and no reader before its input is ready.
    pub(super) fn least_cost(
        &self,
        model: &Model<'_>,
        now: &Progress,
        places: &[Place],
        position: usize,
    ) -> f64 {
        let [cpu, gpu, npu] = now.queues;
        let free = if model.uses_npu { cpu.min(npu) } else { cpu }.min(gpu.max(now.join));
        let cost = |from: Picos, left: f64| model.weights.of(from, now.joules) + left;
        let of_result = |(&stage, place): (&usize, &Place)| {
            let next = model.readers[stage].partition_point(|reader| reader.0 < position);
            let left = self.by_reader[stage].get(next);
            let left = left.map_or(0.0, |left| least_remaining(left, model.may_hold(place)));
            let ready = if matches!(place.at, At::Apart(_)) { place.usable } else { place.ready };
            cost(ready, left)
        };
        let of_results = model.live[position].iter().zip(places).map(of_result);
        of_results.fold(cost(free, self.of_any[position]), f64::max)
    }
}

impl Model<'_> {
    /// Of all ways to compute one kind of operator after which its result is whole, but that of the NPU alone.
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
        let join = self.meeting(0, true).join;
        for cuts in table.cuts.iter().flatten() {
            let end = |starts: [Picos; 3]| cuts.least_end(starts[CPU], starts[GPU]) + join;
            costs.push((SEVERAL, by_holder(&|starts| self.weights.of(end(starts), cuts.least_joules))));
        }
        for shares in table.shares.iter().flatten() {
            costs.extend(WITH_NPU.map(|members| {
                let cost = |starts: [Picos; 3]| {
                    let of_npu = [1, shares.all];
                    let shared = shares.balanced(&Sharing { members, starts, of_npu, is_alone: false });
                    let joules = shares.least_joules(members);
                    shared.map_or(f64::INFINITY, |shared| self.weights.of(shared.end + join, joules))
                };
                (SEVERAL, by_holder(&cost))
            }));
        }
        costs
    }

    /// What a stage costs after which its result is whole, and what is left behind it, by who has an input.
    fn joined(&self, stage: usize, costs: &JoinedCosts, behind: &Remaining) -> Remaining {
        let Price { time, joules } = self.on_npu[stage].least;
        // A graph that is running goes on with its own results, and with those that are older than it.
        let begins_one = self.stages[stage].inputs.iter().all(|&input| input + 1 == stage);
        let on_npu = |holder: usize| {
            let entry = if begins_one && holder != NPU { self.graph.time } else { Picos::ZERO };
            self.weights.of(self.waiting(holder, NPU) + entry + time, joules) + behind[NPU]
        };
        let on_npu =
            if self.on_npu[stage].least.is_known() { [0, 1, 2, SEVERAL].map(on_npu) } else { IMPOSSIBLE };
        let cost = |(after, costs): &(usize, Remaining)| costs.map(|cost| cost + behind[*after]);
        costs.iter().map(cost).fold(on_npu, |one, other| each(one, other, f64::min))
    }

    /// The same of a stage whose parts stay apart and are read so, by weights of both processors.
    fn apart(&self, stage: usize, (busy, assignments): &Weighted, known: &[Remaining]) -> Remaining {
        let parts = assignments[self.kind(stage)].iter().find(|(members, _)| *members == BOTH_PARTS);
        let Some((members, cost)) = parts.filter(|_| self.may_stay_apart(stage)) else { return IMPOSSIBLE };
        let behind = self.readers[stage].iter().map(|reader| known[reader.0][SEVERAL]).fold(0.0, f64::max);
        [0, 1, 2, SEVERAL].map(|holder| cost + self.reading(*busy, holder, *members) + behind)
    }
}

/// The weights of which the NPU has none.
fn between_cpu_and_gpu(weights: &[Weighted]) -> impl Iterator<Item = &Weighted> {
    weights.iter().filter(|(busy, _)| busy[NPU] == 0.0)
}
