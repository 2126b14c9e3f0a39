//! Lower bounds of the cost of a label's plans: what is left after it, at all sets of queue weights.
//!
//! Responsible for: combining the remaining work at each set of weights with a label's clocks. Not for: the
//! remaining work at one set of weights (`work`), and the critical path (`path`). Invariant: relaxed, no plan
//! that continues a label costs less.

use super::{
    ANY_STATE, Changes, CriticalPaths, Model, PossibleStates, Price, Progress, Remaining, STATES, Weighted,
    least_remaining, only_state,
};

/// Steps of the weight of one of two queues, from 0 to 1.
const WEIGHT_STEPS: u32 = 16;

/// How often the weight of the CPU's or GPU's queue is halved relative to the NPU's.
const HALVINGS: i32 = 6;

/// Sets of queue weights evaluated at once, for vectorisation.
const LANES: usize = 4;
type Lanes = [f64; LANES];

/// For a few sets of queue weights, the least cost of the remaining stages, and of those up to the next
/// meeting point.
#[derive(Clone, Copy, Default)]
struct LeastWork {
    weights: [Lanes; 3],
    left: [Lanes; STATES],
    up_to_meeting: [Lanes; STATES],
}

/// Least remaining cost from each position on, whatever was decided before.
pub(super) struct Rest {
    /// At each position, for all sets of queue weights.
    least_work: Vec<Vec<LeastWork>>,
    /// Relaxed only: the critical path after each result.
    pub(super) critical: Option<CriticalPaths>,
    /// Price of all stages from each position to the next meeting point on each single processor.
    pub(super) single_prices: Vec<[Price; 3]>,
}

impl Rest {
    pub(super) fn new(model: &Model<'_>, is_relaxed: bool) -> Self {
        // A search accounts for a graph when it begins one; counting possible ones leads to worse plans.
        let graph = if is_relaxed { model.graph } else { Price::NOTHING };
        let changes = Changes { waits: true, graph };
        let weights = queue_weights(model).into_iter();
        let weights: Vec<Weighted> = weights.map(|busy| model.weighted(busy, !is_relaxed)).collect();
        let mut critical = is_relaxed.then(|| CriticalPaths::new(model, &weights));
        let left = model.least_time(&weights, changes, critical.as_mut());
        let work = weights.iter().map(|weighted| model.least_work(weighted, changes));
        let work: Vec<Vec<Remaining>> = work.collect();
        let at = |position: usize| {
            let mut all = vec![LeastWork::default(); weights.len().div_ceil(LANES)];
            for (at, weighted) in weights.iter().enumerate() {
                let (least, lane) = (&mut all[at / LANES], at % LANES);
                let after_meeting = least_remaining(&work[at][model.meets[position]], ANY_STATE);
                (0..3).for_each(|by| least.weights[by][lane] = weighted.0[by]);
                for state in 0..STATES {
                    least.left[state][lane] = left[position][at][state];
                    least.up_to_meeting[state][lane] = work[at][position][state] - after_meeting;
                }
            }
            all
        };
        let least_work = (0..=model.stages.len()).map(at).collect();
        Self { least_work, critical, single_prices: model.prices_to_meeting_points() }
    }

    /// Lower bounds of the cost at the end and at the next meeting point; `before` is who may have the
    /// result of the stage before.
    pub(super) fn least_costs(
        &self,
        model: &Model<'_>,
        now: &Progress,
        position: usize,
        before: PossibleStates,
    ) -> (f64, f64) {
        // Only in a merged label can several states be possible.
        match only_state(before) {
            Some(state) => self.largest_costs(model, now, position, |left, lane| left[state][lane]),
            None => self.largest_costs(model, now, position, |left, lane| {
                let possible = left.iter().zip(before).filter(|(_, may)| *may);
                possible.fold(f64::INFINITY, |least, (left, _)| least.min(left[lane]))
            }),
        }
    }

    /// The largest lower bounds over all sets of queue weights; `of` gives the remaining cost.
    fn largest_costs(
        &self,
        model: &Model<'_>,
        now: &Progress,
        position: usize,
        of: impl Fn(&[Lanes; STATES], usize) -> f64,
    ) -> (f64, f64) {
        let so_far = model.weights.joule * now.joules;
        let picosecond = model.weights.picosecond;
        let [cpu, gpu, npu] = model.used_queues(now).map(|queue| queue.0 as f64 * picosecond);
        let read_back = now.read_back.0 as f64 * picosecond;
        let (mut bound, mut rank) = ([model.cost_so_far(now); LANES], [0.0; LANES]);
        let larger = |one: f64, other: f64| if one > other { one } else { other };
        for LeastWork { weights: [of_cpu, of_gpu, of_npu], left, up_to_meeting } in &self.least_work[position]
        {
            for lane in 0..LANES {
                let cost = of_cpu[lane] * cpu + of_gpu[lane] * gpu + of_npu[lane] * npu + so_far;
                bound[lane] = larger(cost + of_gpu[lane] * read_back + of(left, lane), bound[lane]);
                rank[lane] = larger(cost + of(up_to_meeting, lane), rank[lane]);
            }
        }
        (bound.into_iter().fold(0.0, larger), rank.into_iter().fold(0.0, larger))
    }
}

/// Sets of queue weights, each with sum one: of CPU and GPU on a linear grid; with an NPU, also of all
/// three on a geometric grid, since their speeds may differ by orders of magnitude.
pub(super) fn queue_weights(model: &Model<'_>) -> Vec<[f64; 3]> {
    let mut all: Vec<[f64; 3]> = (0..=WEIGHT_STEPS)
        .map(|step| f64::from(step) / f64::from(WEIGHT_STEPS))
        .map(|cpu| [cpu, 1.0 - cpu, 0.0])
        .collect();
    if model.uses_npu {
        let relative_weights = || std::iter::once(0.0).chain((0..=HALVINGS).map(|times| 0.5_f64.powi(times)));
        for cpu in relative_weights() {
            for gpu in relative_weights() {
                let sum = cpu + gpu + 1.0;
                all.push([cpu / sum, gpu / sum, 1.0 / sum]);
            }
        }
    }
    all
}
