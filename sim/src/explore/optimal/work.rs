//! Lower bound of the weighted work of the stages from a position on.
//!
//! Responsible for: the work of each stage on the processors that compute it, and the hand-over of the
//! stage before. Not for: other waits, or which processor is late (`moves`). Invariant: in no plan does
//! the weighted sum of the queues grow by less.

use super::model::{ANY, BEGUN, INSIDE};
use super::path::CriticalPaths;
use super::shares::{Members, ShareTable};
use super::tables::OperatorTable;
use super::{At, CPU, GPU, Model, NPU, Place, Price, WITH_NPU, Weights};
use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

/// The costs of changing between processors that count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changes {
    /// Whether hand-overs count.
    pub(super) waits: bool,
    /// Price of beginning an NPU graph.
    pub(super) graph: Price,
}

/// States of a result: the CPU, the GPU or the NPU alone has it, or several do.
pub(super) const STATES: usize = 4;
pub(super) const SEVERAL: usize = 3;

/// The processors that compute a stage, and their least weighted work.
type Assignment = (Members, f64);

/// CPU and GPU each compute a part.
pub(super) const BOTH_PARTS: Members = [true, true, false];

/// The possible assignments of each kind of operator.
type Assignments = Vec<Vec<Assignment>>;

/// A set of queue weights, and the assignments of each kind of operator at these weights.
pub(super) type Weighted = ([f64; 3], Assignments);

/// Least cost of the remaining stages, by the state of the result before them.
pub(super) type Remaining = [f64; STATES];

/// Whether a result may be in each state; at least one is possible.
pub(super) type PossibleStates = [bool; STATES];

/// No remaining cost.
pub(super) const NOTHING: Remaining = [0.0; STATES];

/// Every state is possible.
pub(super) const ANY_STATE: PossibleStates = [true; STATES];

/// The least remaining cost over the possible states.
pub(super) fn least_remaining(left: &Remaining, may: PossibleStates) -> f64 {
    let possible = left.iter().zip(may).filter(|(_, may)| *may);
    possible.map(|(left, _)| *left).fold(f64::INFINITY, f64::min)
}

/// Combines two remaining costs state by state.
pub(super) fn combine(one: Remaining, other: Remaining, of: impl Fn(f64, f64) -> f64) -> Remaining {
    [0, 1, 2, SEVERAL].map(|state: usize| of(one[state], other[state]))
}

/// Remaining cost after a stage: if its result is joined before any other stage starts, and if its
/// parts may stay apart.
#[derive(Clone, Copy)]
struct After {
    complete: Remaining,
    open: Remaining,
}

/// The state of a result, if only one is possible.
pub(super) fn only_state(may: PossibleStates) -> Option<usize> {
    let state = may.iter().position(|&may| may)?;
    (!may[state + 1..].contains(&true)).then_some(state)
}

impl Model<'_> {
    /// Least cost of the stages from each position on, at one set of queue weights.
    pub(super) fn least_work(&self, (busy, assignments): &Weighted, changes: Changes) -> Vec<Remaining> {
        let mut sums = vec![[0.0; STATES]; self.stages.len() + 1];
        for stage in (0..self.stages.len()).rev() {
            let after = After { complete: sums[stage + 1], open: sums[stage + 1] };
            sums[stage] = self.least_of(stage, &assignments[self.kind(stage)], (*busy, changes), after);
        }
        sums
    }

    /// As [`Self::least_work`], at each position for each of `weights`, each with sum one. At a
    /// position where all later stages wait for all earlier ones, time before and after it adds up, so
    /// the maximum over the weights, or a `critical` path, may replace the remaining cost. Only parts
    /// that stay apart overlap with later stages.
    pub(super) fn least_time(
        &self,
        weights: &[Weighted],
        changes: Changes,
        mut critical: Option<&mut CriticalPaths>,
    ) -> Vec<Vec<Remaining>> {
        let mut all = vec![vec![NOTHING; weights.len()]; self.stages.len() + 1];
        for stage in (0..self.stages.len()).rev() {
            let after = &all[stage + 1];
            let latest = |state: usize| after.iter().map(|left| left[state]).fold(0.0, f64::max);
            let mut complete = self.completes[stage + 1].then(|| [0, 1, 2, SEVERAL].map(latest));
            if let Some(paths) = &mut critical {
                let path = paths.after(self, stage);
                complete = complete.map(|work| combine(work, path, f64::max));
                paths.add(self, weights, stage, &complete.unwrap_or(path));
            }
            let may_stay_open = self.may_stay_open(stage);
            let of = |(at, (busy, assignments)): (usize, &Weighted)| {
                let complete = complete.unwrap_or(after[at]);
                let open = if may_stay_open { after[at] } else { complete };
                self.least_of(
                    stage,
                    &assignments[self.kind(stage)],
                    (*busy, changes),
                    After { complete, open },
                )
            };
            all[stage] = weights.iter().enumerate().map(of).collect();
        }
        all
    }

    /// Least cost of a stage and all later ones, by the state of the result before it.
    fn least_of(
        &self,
        stage: usize,
        assignments: &[Assignment],
        (busy, changes): ([f64; 3], Changes),
        after: After,
    ) -> Remaining {
        let graph = self.cost(busy, changes.graph, NPU);
        let reads_it = self.reads_previous_stage(stage);
        let reads_only_it = self.stages[stage].inputs().all(|input| input + 1 == stage);
        let on_npu = |before: usize| {
            let case = match (before == NPU, reads_it) {
                // A search does not count graphs.
                _ if changes.graph == Price::NOTHING => ANY,
                (false, true) => BEGUN,
                (true, _) if reads_only_it => INSIDE,
                (true, _) | (false, false) => ANY,
            };
            self.cost(busy, self.on_npu[stage].in_graphs[case][0].price, NPU)
        };
        let is_waiting = reads_it && changes.waits;
        let from = |before: usize| {
            let reading =
                |members: Members| if is_waiting { self.reading(busy, before, members) } else { 0.0 };
            let others = assignments.iter().map(|&(members, cost)| {
                let left = if members == BOTH_PARTS { &after.open } else { &after.complete };
                cost + reading(members) + left[state(members)]
            });
            let begins = if reads_it && before != NPU { graph } else { 0.0 };
            let npu = on_npu(before) + begins + reading([false, false, true]) + after.complete[NPU];
            others.fold(npu, f64::min)
        };
        [0, 1, 2, SEVERAL].map(from)
    }

    /// Price of all stages from each position to the next meeting point after it, on each single
    /// processor.
    pub(super) fn prices_to_meeting_points(&self) -> Vec<[Price; 3]> {
        let mut sums = vec![[Price::NOTHING; 3]; self.stages.len() + 1];
        for stage in (0..self.stages.len()).rev() {
            let after =
                if self.meets[stage + 1] == stage + 1 { [Price::NOTHING; 3] } else { sums[stage + 1] };
            let table = self.table(stage);
            let cpu = self.best_core_set(stage).map_or(Price::NEVER, |set| table.cpu[set]);
            let own = [cpu, table.gpu, self.on_npu[stage].within];
            sums[stage] = [0, 1, 2].map(|by: usize| own[by].plus(after[by]));
        }
        sums
    }

    /// Whether the parts of a stage may stay apart in a chain with a reader.
    pub(super) fn may_stay_open(&self, stage: usize) -> bool {
        let is_linked = |&(reader, _): &(usize, usize)| {
            let is_along = |&axis: &Axis| {
                self.cuts(stage, axis).is_some()
                    && self.cuts(reader, axis).is_some()
                    && self.is_linkable(reader, stage, axis)
            };
            Axis::ALL.iter().any(is_along)
        };
        self.readers[stage].iter().any(is_linked)
    }

    /// The possible states of the result before a position, by its place, that of the `last` live
    /// result; in a merged label there may be several. If the stage at the position does not read it,
    /// nothing depends on it.
    pub(super) fn possible_states(&self, position: usize, last: Option<&Place>) -> PossibleStates {
        let place = last.filter(|_| self.reads_previous_stage(position));
        place.map_or([true, false, false, false], |place| self.possible_states_at(place))
    }

    /// The possible states of a result at `place`.
    pub(super) fn possible_states_at(&self, place: &Place) -> PossibleStates {
        match place.at {
            At::Open(_) => [false, false, false, true],
            At::With(holders) => {
                let [cpu, gpu, npu] = ProcessorKind::ALL.map(|kind| holders.has(kind));
                // With a GPU that has memory of its own, the CPU alone has a joined result. If several
                // may have a result, no processor waits longer than if one of them had it.
                let are_several = cpu && (gpu || npu || self.own_memory);
                [cpu && !are_several, gpu && !are_several, place.of_npu || !(cpu || gpu), are_several]
            }
        }
    }

    fn cost(&self, busy: [f64; 3], price: Price, by: usize) -> f64 {
        let Weights { picosecond, joule } = self.weights;
        if price.is_known() {
            picosecond * busy[by] * price.time.0 as f64 + joule * price.joules
        } else {
            f64::INFINITY
        }
    }

    /// The assignments of each kind of operator at one set of queue weights, except to the NPU alone. A
    /// search uses rough costs of shares with the NPU: it finds worse plans with the exact ones.
    pub(super) fn weighted(&self, busy: [f64; 3], is_rough: bool) -> Weighted {
        (busy, self.tables.iter().map(|table| self.assignments_of(table, busy, is_rough)).collect())
    }

    fn assignments_of(&self, table: &OperatorTable, busy: [f64; 3], is_rough: bool) -> Vec<Assignment> {
        let least_work = if is_rough { ShareTable::rough_least_work } else { ShareTable::least_work };
        let least = |costs: &mut dyn Iterator<Item = f64>| costs.fold(f64::INFINITY, f64::min);
        let cpu = least(&mut table.cpu.iter().map(|&price| self.cost(busy, price, CPU)));
        let mut assignments =
            vec![([true, false, false], cpu), ([false, true, false], self.cost(busy, table.gpu, GPU))];
        let cut = least(&mut table.cuts.iter().flatten().flat_map(|cuts| {
            (1..cuts.all as usize).map(|cut| {
                self.cost(busy, cuts.least[0][cut], CPU) + self.cost(busy, cuts.least[1][cut], GPU)
            })
        }));
        assignments.push((BOTH_PARTS, cut));
        let Weights { picosecond, joule } = self.weights;
        let busy = busy.map(|busy| picosecond * busy);
        assignments.extend(WITH_NPU.map(|members| {
            let shares = table.shares.iter().flatten();
            (members, least(&mut shares.map(|shares| least_work(shares, members, busy, joule))))
        }));
        assignments.retain(|one| one.1 < f64::INFINITY);
        assignments
    }

    /// Weighted cost of handing a result in state `before` over to the members of a cut.
    pub(super) fn reading(&self, busy: [f64; 3], before: usize, members: Members) -> f64 {
        let wait = |by: usize| self.weights.picosecond * busy[by] * self.waiting(before, by).0 as f64;
        (0..3).filter(|&by| members[by]).map(wait).sum()
    }

    /// Delay of handing a result in state `before` over to processor `by`; zero if several processors
    /// have it.
    pub(super) fn waiting(&self, before: usize, by: usize) -> Picos {
        match ProcessorKind::ALL.get(before) {
            Some(&holder) if before != by => {
                self.transfer_delays(0, true).wait(ProcessorKind::ALL[by], Holders::one(holder))
            }
            Some(_) | None => Picos::ZERO,
        }
    }
}

/// The state of the result of a stage that `members` computed.
fn state(members: Members) -> usize {
    match members {
        [true, false, false] => CPU,
        [false, true, false] => GPU,
        [false, false, true] => NPU,
        [true, true, _] | [true, _, true] | [_, true, true] | [false, false, false] => SEVERAL,
    }
}
