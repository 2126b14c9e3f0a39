//! Operators that the NPU shares with the CPU, the GPU or both.
//!
//! Responsible for: the price of each number of rows or channels on each processor, and the shares with
//! which all processors end together. Not for: cuts between CPU and GPU alone (`tables`), which are
//! priced exactly. Invariant: no part costs less than its table entry, wherever the part lies.

use super::{CPU, CutTable, GPU, MAX_PRICED_CUTS, NEVER, NPU, Price, Priced, Pricing, Streaming, Traffic};
use crate::device::ProcessorKind;
use crate::plan::{Axis, Processor, Region, Span};
use crate::units::Picos;
use crate::workload::Layer;

/// About how many part sizes are priced for the NPU; the sizes between take no less than the next lower
/// one, as systolic arrays are filled in steps.
const PRICED_SHARES: u32 = 512;

/// Part sizes below this are all priced, and above it the step is at most a size divided by this: a
/// size between two priced ones is relatively close to both.
const ALL_PRICED_BELOW: u32 = 128;

/// Precision of the search for a common end.
const END_TOLERANCE: Picos = Picos(1_000);

/// Factor above the rounding errors of sums of bytes.
pub(super) const ROUNDING: f64 = 1.000_001;

/// Which processors take part in a share.
pub(super) type Members = [bool; 3];

/// The NPU with the GPU, with the CPU, and with both.
pub(super) const WITH_NPU: [Members; 3] = [[false, true, true], [true, false, true], [true, true, true]];

/// Prices of parts of one operator along one axis, by their size.
#[derive(Debug)]
pub(super) struct ShareTable {
    /// All rows or channels.
    pub(super) all: u32,
    /// For each processor (the CPU: its best core set), the least price of a part with as many rows or
    /// channels as the index or more; [`Price::NEVER`] without a kernel.
    costs: [Vec<Price>; 3],
    /// For each processor, the least picoseconds and joules per row or channel.
    rates: [(f64, f64); 3],
    pub(super) traffic: [Traffic; 3],
    /// Of the CPU on each core set, of the GPU and of the NPU.
    pub(super) streaming: [Vec<Streaming>; 3],
    /// The processors in order of the bytes that they move per row or channel.
    pub(super) lightest: [usize; 3],
    /// The memory's capacity for two clients, and the larger of those for two and for three, in bytes
    /// per picosecond.
    capacity: [f64; 2],
}

/// The processors that share one operator, and the conditions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    pub(super) members: Members,
    /// When each processor can start.
    pub(super) starts: [Picos; 3],
    /// The NPU's rows or channels, at least and at most.
    pub(super) of_npu: [u32; 2],
    /// Whether no other stage is computed in the meantime.
    pub(super) is_alone: bool,
}

impl Sharing {
    /// The members' indices.
    pub(super) fn indices(&self) -> impl Iterator<Item = usize> + Clone {
        let members = self.members;
        (0..3).filter(move |&by| members[by])
    }
}

/// Shares of one operator, and a lower bound of the end of the last one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shared {
    pub(super) end: Picos,
    pub(super) counts: [u32; 3],
}

impl ShareTable {
    /// Prices a layer that the NPU has a kernel for; `cuts` are its cuts between CPU and GPU, if any.
    /// `None` if it cannot be shared.
    pub(super) fn new(
        pricing: &Pricing<'_, '_>,
        layer: &Layer,
        axis: Axis,
        cuts: Option<&CutTable>,
    ) -> Option<Self> {
        let all = axis.extent(&layer.operator).filter(|&all| all > 1)?;
        let priced = |by: &[Processor], most: u32| least_prices_from(pricing, (layer, axis, all), by, most);
        let (npu, of_npu, npu_streaming) = priced(&[Processor::NPU], PRICED_SHARES);
        let cores: Vec<Processor> =
            pricing.options.core_sets.iter().map(|&cores| Processor::Cpu(cores)).collect();
        let [(cpu, of_cpu, cpu_streaming), (gpu, of_gpu, gpu_streaming)] = match (cuts, axis) {
            // Parts with the same number of channels cost the same wherever they lie.
            (Some(cuts), Axis::Channels) => {
                let of_gpu = cuts.least[1].iter().rev().copied().collect();
                let [on_cpu, on_gpu] = cuts.streaming.clone();
                [(cuts.least[0].clone(), cuts.traffic[0], on_cpu), (of_gpu, cuts.traffic[1], on_gpu)]
            }
            (_, Axis::Height) | (None, _) => [priced(&cores, u32::MAX), priced(&[Processor::Gpu], u32::MAX)],
        };
        let (costs, traffic) = ([cpu, gpu, npu], [of_cpu, of_gpu, of_npu]);
        let streaming = [cpu_streaming, gpu_streaming, npu_streaming];
        let can = |kind: ProcessorKind| costs[kind as usize][1].is_known();
        let is_shared = can(ProcessorKind::Npu) && (can(ProcessorKind::Cpu) || can(ProcessorKind::Gpu));
        let rates = [0, 1, 2].map(|by: usize| rate(&costs[by]));
        let capacity = [pricing.shared_capacity(2), pricing.max_shared_capacity()];
        let mut lightest = [0, 1, 2];
        lightest.sort_by(|&one: &usize, &other| traffic[one].bytes.total_cmp(&traffic[other].bytes));
        is_shared.then_some(Self { all, costs, rates, traffic, streaming, lightest, capacity })
    }

    /// The conditions for `members` that are free at `starts`: next to a part of its own, the CPU dispatches the NPU's part
    /// only when the NPU can start.
    pub(super) fn sharing(&self, members: Members, mut starts: [Picos; 3], of_npu: [u32; 2]) -> Sharing {
        starts[NPU] += self.dispatch(members);
        Sharing { members, starts, of_npu, is_alone: false }
    }

    fn dispatch(&self, members: Members) -> Picos {
        if members[CPU] { self.traffic[NPU].dispatch } else { Picos::ZERO }
    }

    /// The possible numbers of the NPU's rows or channels, in about equal ranges: at least and at most.
    pub(super) fn of_npu(&self, ranges: u32) -> impl Iterator<Item = [u32; 2]> + use<> {
        let (all, ranges) = (self.all, ranges.min(self.all));
        let up_to = move |range: u32| ((u64::from(all) * u64::from(range) / u64::from(ranges)) as u32).max(1);
        (0..ranges).map(move |range| [up_to(range), up_to(range + 1)])
    }

    /// The shares with the earliest end of the last part. The end returned is a lower bound for any
    /// shares: each part takes its time alone, and the memory moves all bytes at no more than its
    /// capacity.
    pub(super) fn balanced(&self, sharing: &Sharing) -> Option<Shared> {
        let (least, largest) = self.possible(sharing)?;
        let end_with = |by: usize, count: u32| sharing.starts[by] + self.costs[by][count as usize].time;
        let mut low = sharing.indices().map(|by| end_with(by, least[by])).max()?;
        if low >= NEVER {
            return None;
        }
        let counts_by = |end: Picos, between: [[usize; 3]; 2]| self.counts_by(sharing, end, between);
        // If the memory can move the most bytes of any shares by `low`, it is never the limit.
        let has_time =
            f64::from(self.all) * self.heaviest(sharing.members) * ROUNDING <= self.moved(sharing, low);
        let suffices = |end: Picos, [cpu, gpu, npu]: [usize; 3]| {
            cpu + gpu + npu >= self.all as usize
                && (has_time || self.bytes(self.filled([cpu, gpu, npu])) <= self.moved(sharing, end))
        };
        let most_of_one = self.all - (sharing.indices().count() as u32 - 1);
        let all_by_one = sharing.indices().map(|by| end_with(by, most_of_one)).min()?;
        let mut high = all_by_one.max(low).min(NEVER);
        let mut fewest = counts_by(low, [[0; 3], largest]);
        let mut most = counts_by(high, [fewest, largest]);
        while !suffices(high, most) {
            if high >= NEVER {
                return None;
            }
            high = Picos(high.0.saturating_mul(2)).min(NEVER);
            most = counts_by(high, [most, largest]);
        }
        if suffices(low, fewest) {
            (high, most) = (low, fewest);
        }
        while high > low + END_TOLERANCE {
            let middle = Picos(low.0.midpoint(high.0));
            let counts = counts_by(middle, [fewest, most]);
            if suffices(middle, counts) {
                (high, most) = (middle, counts);
            } else {
                (low, fewest) = (middle, counts);
            }
        }
        Some(Shared { end: low, counts: self.filled(most) })
    }

    /// The end of [`Self::contended`], if the memory may slow such parts at all.
    pub(super) fn slowed(&self, sharing: &Sharing) -> Option<Picos> {
        let wanted: f64 = sharing.indices().map(|by| self.traffic[by].rate).sum();
        let shared = self.balanced(sharing).filter(|_| wanted > self.capacity(sharing)[0])?;
        Some(self.contended(sharing, shared))
    }

    /// The least and the most rows or channels of each processor; `None` if there are too few for all
    /// members.
    pub(super) fn possible(&self, sharing: &Sharing) -> Option<([u32; 3], [usize; 3])> {
        let [npu_least, npu_most] = sharing.of_npu;
        let most_of_one =
            self.all.checked_sub(sharing.indices().count() as u32 - 1).filter(|&most| most > 0)?;
        let largest = [self.all, self.all, npu_most].map(|most| most.min(most_of_one) as usize);
        (npu_least <= most_of_one).then_some(([1, 1, npu_least], largest))
    }

    /// The most bytes per row or channel of any of `members`.
    fn heaviest(&self, members: Members) -> f64 {
        self.lightest.iter().rev().find(|&&by| members[by]).map_or(0.0, |&by| self.traffic[by].bytes)
    }

    /// How many rows or channels each member can have computed by `end`, given the counts of an earlier
    /// and of a later time.
    pub(super) fn counts_by(
        &self,
        sharing: &Sharing,
        end: Picos,
        [fewest, most]: [[usize; 3]; 2],
    ) -> [usize; 3] {
        let mut counts = [0; 3];
        for by in sharing.indices() {
            let more = &self.costs[by][fewest[by] + 1..=most[by]];
            counts[by] = fewest[by] + more.partition_point(|cost| sharing.starts[by] + cost.time <= end);
        }
        counts
    }

    /// When each can move its first byte: after the phases without traffic, such as the launch.
    pub(super) fn first_bytes(&self, starts: [Picos; 3]) -> [Picos; 3] {
        [0, 1, 2].map(|by: usize| starts[by] + self.traffic[by].lead)
    }

    /// Bytes that the memory can have moved for the members by `end`, within its capacity for several
    /// clients.
    pub(super) fn moved(&self, sharing: &Sharing, end: Picos) -> f64 {
        let first = self.first_bytes(sharing.starts);
        let (mut active, mut moved, mut until) = (sharing.members, 0.0, end);
        loop {
            let (mut sum, mut one, mut last) = (0.0, 0.0_f64, None);
            for by in 0..3 {
                if active[by] {
                    (sum, one) = (sum + self.traffic[by].rate, one.max(self.traffic[by].rate));
                    last = last.filter(|&last: &usize| first[last] > first[by]).or(Some(by));
                }
            }
            let Some(last) = last else { return moved };
            let all = active.iter().filter(|&&active| active).count();
            let rate = one.max(self.capacity(sharing)[usize::from(all > 2)].min(sum));
            moved += until.saturating_sub(first[last]).0 as f64 * rate;
            until = until.min(first[last]);
            active[last] = false;
        }
    }

    /// The memory's capacity for two and for three members, in bytes per picosecond.
    pub(super) fn capacity(&self, sharing: &Sharing) -> [f64; 2] {
        let [of_two, of_more] = self.capacity;
        if sharing.is_alone { [of_two, of_more] } else { [of_more; 2] }
    }

    /// The shares that move the fewest bytes with no member above `most`, and none below one if `most`
    /// allows.
    fn filled(&self, most: [usize; 3]) -> [u32; 3] {
        let most = [most[0] as u32, most[1] as u32, most[2] as u32];
        let mut counts = [most[0].min(1), most[1].min(1), most[2].min(1)];
        let mut left = self.all.saturating_sub(counts[0] + counts[1] + counts[2]);
        for by in self.lightest {
            let more = left.min(most[by] - counts[by]);
            counts[by] += more;
            left -= more;
        }
        counts
    }

    /// The least bytes that parts of these sizes move.
    fn bytes(&self, counts: [u32; 3]) -> f64 {
        let of = |by: usize| f64::from(counts[by]) * self.traffic[by].bytes - self.traffic[by].saved;
        [0, 1, 2].into_iter().filter(|&by| counts[by] > 0).map(of).sum()
    }

    /// The least energy of shares of `members`.
    pub(super) fn least_joules(&self, members: Members) -> f64 {
        let rates = (0..3).filter(|&by| members[by]).map(|by| self.rates[by].1);
        f64::from(self.all) * rates.fold(f64::INFINITY, f64::min)
    }

    /// The least cost of shares of `members`, at a cost `busy` per picosecond of each processor and
    /// `joule` per joule: over all sizes of the NPU's part, with the rest on the processor that is
    /// cheapest per row or channel.
    pub(super) fn least_work(&self, members: Members, busy: [f64; 3], joule: f64) -> f64 {
        if !self.have_kernels(members) {
            return f64::INFINITY;
        }
        let of = |by: usize, count: u32| {
            let price = self.costs[by][count as usize];
            busy[by] * price.time.0 as f64 + joule * price.joules
        };
        let others = |count: u32| match members {
            [true, false, _] => of(CPU, count),
            [false, true, _] => of(GPU, count),
            [true, true, _] | [false, false, _] => {
                f64::from(count) * self.least_rate([CPU, GPU], busy, joule)
            }
        };
        let least =
            (1..self.all).map(|npu| of(NPU, npu) + others(self.all - npu)).fold(f64::INFINITY, f64::min);
        least + busy[NPU] * self.dispatch(members).0 as f64
    }

    /// A rougher lower bound than [`Self::least_work`]: every row or channel on its cheapest processor.
    pub(super) fn rough_least_work(&self, members: Members, busy: [f64; 3], joule: f64) -> f64 {
        let able = (0..3).filter(|&by| members[by]);
        if self.have_kernels(members) {
            f64::from(self.all) * self.least_rate(able, busy, joule)
        } else {
            f64::INFINITY
        }
    }

    fn have_kernels(&self, members: Members) -> bool {
        (0..3).all(|by| !members[by] || self.costs[by][1].is_known())
    }

    /// The least cost per row or channel on any of `those` processors.
    fn least_rate(&self, those: impl IntoIterator<Item = usize>, busy: [f64; 3], joule: f64) -> f64 {
        let each = |by: usize| busy[by] * self.rates[by].0 + joule * self.rates[by].1;
        those.into_iter().map(each).fold(f64::INFINITY, f64::min)
    }

    /// The shares with a few channels moved to the GPU, so that its part, the last, starts at a
    /// multiple of the axis's unit; `None` if no other member has enough.
    pub(super) fn in_units(&self, counts: [u32; 3], axis: Axis) -> Option<[u32; 3]> {
        let [cpu, gpu, npu] = counts;
        let moved = if gpu > 0 { (self.all - gpu) % axis.unit() } else { 0 };
        match (npu > moved, cpu > moved) {
            (true, _) => Some([cpu, gpu + moved, npu - moved]),
            (false, true) => Some([cpu - moved, gpu + moved, npu]),
            (false, false) => None,
        }
    }

    /// When each member's part ends, for the given starts.
    pub(super) fn ends(&self, members: Members, counts: [u32; 3], starts: [Picos; 3]) -> [Picos; 3] {
        let end = |by: usize| starts[by] + self.costs[by][counts[by] as usize].time;
        [0, 1, 2].map(|by| if members[by] { end(by) } else { Picos::ZERO })
    }

    pub(super) fn joules(&self, counts: [u32; 3]) -> f64 {
        (0..3).map(|by: usize| self.costs[by][counts[by] as usize].joules).sum()
    }
}

/// For each number of rows or channels, the least price on any of `by` of a part with as many or more;
/// the traffic of the parts, and how each of `by` streams it.
fn least_prices_from(
    pricing: &Pricing<'_, '_>,
    (layer, axis, all): (&Layer, Axis, u32),
    by: &[Processor],
    most: u32,
) -> (Vec<Price>, Traffic, Vec<Streaming>) {
    let step = all.div_ceil(most.min(MAX_PRICED_CUTS));
    let mut least = vec![Price::NOTHING];
    let mut priced: Vec<Vec<(u32, Priced)>> = vec![Vec::new(); by.len()];
    let mut next = 1;
    for count in 1..=all {
        if count != next && count != all {
            least.push(least[count as usize - 1]);
            continue;
        }
        next = count + (count / ALL_PRICED_BELOW).clamp(1, step);
        let parts = parts(layer, axis, (count, all));
        let mut cost = Price::NEVER;
        for (&by, priced) in by.iter().zip(&mut priced) {
            let known = parts.iter().map(|part| pricing.part(part, by)).filter(|part| part.cost.is_known());
            for part in known {
                cost = cost.least(part.cost);
                priced.push((count, part));
            }
        }
        least.push(cost);
    }
    for count in (1..all as usize).rev() {
        least[count] = least[count].least(least[count + 1]);
    }
    let traffic = Traffic::of(priced.iter().flatten().copied(), step);
    let streaming = priced.into_iter().map(|of| Streaming::of(of.into_iter(), all)).collect();
    (least, traffic, streaming)
}

/// The distinct parts with `count` rows or channels at either end and in the middle.
fn parts(layer: &Layer, axis: Axis, (count, all): (u32, u32)) -> Vec<Layer> {
    let at = |first: u32| Region::along(axis, Span::new(first, first + count)).part_of(layer);
    let mut parts = vec![at(0)];
    if axis == Axis::Height {
        for first in [all - count, (all - count) / 2] {
            let part = at(first);
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    parts
}

/// The least picoseconds and joules per row or channel.
fn rate(costs: &[Price]) -> (f64, f64) {
    let each = |of: &dyn Fn(&Price) -> f64| {
        let rates = costs.iter().enumerate().skip(1).map(|(count, cost)| of(cost) / count as f64);
        rates.fold(f64::INFINITY, f64::min)
    };
    (each(&|cost| cost.time.0 as f64), each(&|cost| cost.joules))
}
