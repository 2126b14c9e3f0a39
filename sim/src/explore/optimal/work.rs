//! What the stages from a position on cost at least, whatever is decided.
//!
//! Responsible for: the work of each stage on whoever takes it, and what a stage waits for that another processor
//! has of the stage before. Not for: what else waits, or which processor is late (`moves`). Invariant: no plan's
//! queues, each weighted, grow by less.

use super::path::CriticalPaths;
use super::shares::{Members, ShareTable};
use super::tables::OperatorTable;
use super::{At, CPU, GPU, Model, NPU, Place, Price, WITH_NPU, Weights};
use crate::device::ProcessorKind;
use crate::plan::Axis;
use crate::schedule::Holders;
use crate::units::Picos;

/// What changing between processors costs at least: learning of a result, and handing a graph to the NPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changes {
    pub(super) waits: bool,
    pub(super) graph: Price,
}

/// Who has a result: CPU, GPU or NPU alone, or several.
pub(super) const STATES: usize = 4;
pub(super) const SEVERAL: usize = 3;

/// Who computes a stage: the members of a cut, and what that costs.
type Assignment = (Members, f64);

/// CPU and GPU.
pub(super) const BOTH_PARTS: Members = [true, true, false];

/// Of each kind of operator.
type Assignments = Vec<Vec<Assignment>>;

/// What busy processors cost, and who can compute each kind of operator at that cost.
pub(super) type Weighted = ([f64; 3], Assignments);

/// What the stages from a position on cost at least, by who has the result before it.
pub(super) type Remaining = [f64; STATES];

/// Who may have a result: one of these at least.
pub(super) type May = [bool; STATES];

/// No more is left.
pub(super) const NOTHING: Remaining = [0.0; STATES];

/// Nothing is known of who has it.
pub(super) const ANYBODY: May = [true; STATES];

/// The least of what is left, for all who may have the result before.
pub(super) fn least_remaining(left: &Remaining, may: May) -> f64 {
    let possible = left.iter().zip(may).filter(|(_, may)| *may);
    possible.map(|(left, _)| *left).fold(f64::INFINITY, f64::min)
}

/// Of two, what `of` makes of both for each who may have the result before.
pub(super) fn each(one: Remaining, other: Remaining, of: impl Fn(f64, f64) -> f64) -> Remaining {
    [0, 1, 2, SEVERAL].map(|state: usize| of(one[state], other[state]))
}

/// What is left behind a stage, if its result is complete before any other stage starts to compute, and if parts of
/// it may stay apart.
#[derive(Clone, Copy)]
struct Behind {
    complete: Remaining,
    apart: Remaining,
}

/// Who has a result, where that is known.
pub(super) fn only_state(may: May) -> Option<usize> {
    let state = may.iter().position(|&may| may)?;
    (!may[state + 1..].contains(&true)).then_some(state)
}

impl Model<'_> {
    /// What the stages from each position on cost at least, where busy processors cost so much each.
    pub(super) fn least_work(&self, (busy, assignments): &Weighted, changes: Changes) -> Vec<Remaining> {
        let mut sums = vec![[0.0; STATES]; self.stages.len() + 1];
        for stage in (0..self.stages.len()).rev() {
            let behind = Behind { complete: sums[stage + 1], apart: sums[stage + 1] };
            sums[stage] = self.least_of(stage, &assignments[self.kind(stage)], (*busy, changes), behind);
        }
        sums
    }

    /// The same at each position for each of `weights` of busy processors that add up to one, where the weights may
    /// be others, or a `critical` path count, at each position that all stages behind it wait for: whatever is complete
    /// there takes its time before whatever is left. Only parts that stay apart there overlap with what comes behind.
    pub(super) fn least_time(
        &self,
        weights: &[Weighted],
        changes: Changes,
        mut critical: Option<&mut CriticalPaths>,
    ) -> Vec<Vec<Remaining>> {
        let mut all = vec![vec![NOTHING; weights.len()]; self.stages.len() + 1];
        for stage in (0..self.stages.len()).rev() {
            let behind = &all[stage + 1];
            let latest = |state: usize| behind.iter().map(|left| left[state]).fold(0.0, f64::max);
            let mut complete = self.completes[stage + 1].then(|| [0, 1, 2, SEVERAL].map(latest));
            if let Some(paths) = &mut critical {
                let path = paths.behind(self, stage);
                complete = complete.map(|work| each(work, path, f64::max));
                paths.add(self, weights, stage, &complete.unwrap_or(path));
            }
            let may_stay_apart = self.may_stay_apart(stage);
            let of = |(at, (busy, assignments)): (usize, &Weighted)| {
                let complete = complete.unwrap_or(behind[at]);
                let apart = if may_stay_apart { behind[at] } else { complete };
                self.least_of(
                    stage,
                    &assignments[self.kind(stage)],
                    (*busy, changes),
                    Behind { complete, apart },
                )
            };
            all[stage] = weights.iter().enumerate().map(of).collect();
        }
        all
    }

    /// What a stage and all behind it cost at least, by who has the result before it.
    fn least_of(
        &self,
        stage: usize,
        assignments: &[Assignment],
        (busy, changes): ([f64; 3], Changes),
        behind: Behind,
    ) -> Remaining {
        let graph = self.cost(busy, changes.graph, NPU);
        let on_npu = self.cost(busy, self.on_npu[stage].least, NPU);
        let reads_it = self.reads_the_one_before(stage);
        let is_waiting = reads_it && changes.waits;
        let from = |before: usize| {
            let reading =
                |members: Members| if is_waiting { self.reading(busy, before, members) } else { 0.0 };
            let others = assignments.iter().map(|&(members, cost)| {
                let left = if members == BOTH_PARTS { &behind.apart } else { &behind.complete };
                cost + reading(members) + left[state(members)]
            });
            let begins = if reads_it && before != NPU { graph } else { 0.0 };
            let npu = on_npu + begins + reading([false, false, true]) + behind.complete[NPU];
            others.fold(npu, f64::min)
        };
        [0, 1, 2, SEVERAL].map(from)
    }

    /// What everything from each position to the next meeting point behind it takes on each processor.
    pub(super) fn up_to_meetings(&self) -> Vec<[Price; 3]> {
        let mut sums = vec![[Price::NOTHING; 3]; self.stages.len() + 1];
        for stage in (0..self.stages.len()).rev() {
            let behind =
                if self.meets[stage + 1] == stage + 1 { [Price::NOTHING; 3] } else { sums[stage + 1] };
            let table = self.table(stage);
            let cpu = self.best_core_set(stage).map_or(Price::NEVER, |set| table.cpu[set]);
            let own = [cpu, table.gpu, self.on_npu[stage].within];
            sums[stage] = [0, 1, 2].map(|by: usize| own[by].plus(behind[by]));
        }
        sums
    }

    /// Whether parts of a stage may be read in a chain.
    pub(super) fn may_stay_apart(&self, stage: usize) -> bool {
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

    /// Who may have the result before a position that is read there, where results lie so; of merged labels all that
    /// any of them says. Where it is not read nothing depends on it.
    pub(super) fn may_have(&self, position: usize, places: &[Place]) -> May {
        let place = places.last().filter(|_| self.reads_the_one_before(position));
        place.map_or([true, false, false, false], |place| self.may_hold(place))
    }

    /// Who may have a result that lies so.
    pub(super) fn may_hold(&self, place: &Place) -> May {
        match place.at {
            At::Apart(_) => [false, false, false, true],
            At::With(holders) => {
                let [cpu, gpu, npu] = ProcessorKind::ALL.map(|kind| holders.has(kind));
                // Beside a GPU with memory of its own the CPU has what was joined. Where several may have it nobody
                // waits longer than for one of them.
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

    /// Who can compute each kind of operator but the NPU alone, and what their work costs at least; roughly for a search,
    /// which finds worse plans where it knows more of shares.
    pub(super) fn weighted(&self, busy: [f64; 3], is_rough: bool) -> Weighted {
        (busy, self.tables.iter().map(|table| self.assignments_of(table, busy, is_rough)).collect())
    }

    fn assignments_of(&self, table: &OperatorTable, busy: [f64; 3], is_rough: bool) -> Vec<Assignment> {
        let least_work = if is_rough { ShareTable::roughly_least_work } else { ShareTable::least_work };
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

    /// What it costs that members of a cut learn of a result that another processor has alone.
    pub(super) fn reading(&self, busy: [f64; 3], before: usize, members: Members) -> f64 {
        let wait = |by: usize| self.weights.picosecond * busy[by] * self.waiting(before, by).0 as f64;
        (0..3).filter(|&by| members[by]).map(wait).sum()
    }

    /// How long a processor takes to learn of a result that another has alone.
    pub(super) fn waiting(&self, before: usize, by: usize) -> Picos {
        match ProcessorKind::ALL.get(before) {
            Some(&holder) if before != by => {
                self.meeting(0, true).wait(ProcessorKind::ALL[by], Holders::one(holder))
            }
            Some(_) | None => Picos::ZERO,
        }
    }
}

/// Who has the result of a stage behind those who computed it.
fn state(members: Members) -> usize {
    match members {
        [true, false, false] => CPU,
        [false, true, false] => GPU,
        [false, false, true] => NPU,
        [true, true, _] | [true, _, true] | [_, true, true] | [false, false, false] => SEVERAL,
    }
}
