//! Prices of an operator without contention: whole on each processor, and every part along either axis.
//!
//! Responsible for: evaluating the kernel models, once per kind of operator. Not for: contention
//! between parts (`contention`). Invariant: the least of a table is the least of all its cuts.

use std::ops::Range;

use super::{Model, NEVER, ShareTable, Streaming, Weights};
use crate::explore::{Objective, Price, SearchOptions};
use crate::kernel::Phases;
use crate::plan::{Axis, Processor, Region, Span};
use crate::simulate::{Detail, Simulator, has_own_memory, memory, streams_of};
use crate::units::{PICOS_PER_SECOND, Picos};
use crate::workload::Layer;

/// Most cuts of an operator along one axis that are priced; of longer axes every second, third and so
/// on.
pub(super) const MAX_PRICED_CUTS: u32 = 8_192;

impl Price {
    pub(super) const NOTHING: Self = Self { time: Picos::ZERO, joules: 0.0 };
    /// Without a kernel.
    pub(super) const NEVER: Self = Self { time: NEVER, joules: 0.0 };

    pub(super) fn is_known(self) -> bool {
        self.time < NEVER
    }

    /// The component-wise least of both.
    pub(super) fn least(self, other: Self) -> Self {
        Self { time: self.time.min(other.time), joules: self.joules.min(other.joules) }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { time: (self.time + other.time).min(NEVER), joules: self.joules + other.joules }
    }
}

/// A way to cut one operator or a chain, with the time of each part and their energy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Way {
    pub(super) cpu: Picos,
    pub(super) gpu: Picos,
    pub(super) joules: f64,
    /// Lines or channels that the CPU computes of the (last) operator.
    pub(super) cut: u32,
}

/// Ways in order of the CPU's work. If only time counts, the Pareto frontier of both processors' work;
/// otherwise all ways.
pub(super) type Ways = Vec<Way>;

/// The way of least cost for the given starts of CPU and GPU.
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
    // Along the ways, the CPU's work rises and the GPU's falls: the best one is next to the balance.
    let even = ways.partition_point(|way| cpu + way.cpu < gpu + way.gpu);
    ways[even.saturating_sub(1)..(even + 1).min(ways.len())].iter().copied().min_by_key(end)
}

/// Prices of one kind of operator.
#[derive(Debug)]
pub(super) struct OperatorTable {
    /// Whole, on each core set.
    pub(super) cpu: Vec<Price>,
    /// Whole, on the GPU.
    pub(super) gpu: Price,
    /// On the NPU, in a graph of its own.
    pub(super) npu: Price,
    /// Cuts along each of [`Axis::ALL`]; `None` if it cannot be cut or CPU or GPU have no kernel.
    pub(super) cuts: [Option<CutTable>; 2],
    /// Shares with the NPU along each of [`Axis::ALL`].
    pub(super) shares: [Option<ShareTable>; 2],
}

/// Prices of the parts of CPU and GPU along one axis, and their traffic, indexed by the rows or channels of the CPU.
/// Every one has an entry, unlike in the other strategies' `Grid`; beyond [`MAX_PRICED_CUTS`], neighbours share a price.
#[derive(Debug)]
pub(super) struct CutTable {
    /// All lines or channels.
    pub(super) all: u32,
    /// The CPU's part on each core set.
    pub(super) cpu: Vec<Vec<Price>>,
    /// The GPU's part, the rest.
    pub(super) gpu: Vec<Price>,
    /// The least price of a CPU part of this size or larger on any core set, and of a GPU part of this
    /// size or larger: a larger part may be faster, with another kernel.
    pub(super) least: [Vec<Price>; 2],
    /// The least of any core set.
    pub(super) best_cpu: Vec<Price>,
    /// Lower bound of the time to move the bytes of both parts.
    pub(super) moving: Vec<Picos>,
    /// Least energy of any cut, on the best core set.
    pub(super) least_joules: f64,
    /// For each core set, the ways to cut at points where the GPU's part can start.
    pub(super) ways: Vec<Ways>,
    /// Of the CPU, and of the GPU.
    pub(super) traffic: [Traffic; 2],
    /// Of the CPU on each core set, and of the GPU; empty without an NPU.
    pub(super) streaming: [Vec<Streaming>; 2],
}

/// Lower bound of a processor's traffic for a part of an operator: a number of bytes per row or
/// channel, less a constant that small parts may save in caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Traffic {
    /// Bytes per row or channel.
    pub(super) bytes: f64,
    /// Bytes that a part may save, at most.
    pub(super) saved: f64,
    /// Highest rate, in bytes per picosecond.
    pub(super) rate: f64,
    /// Least time from the start of a part to its first byte.
    pub(super) lead: Picos,
    /// Least dispatch of a part that is hidden unless the CPU computes a part, too.
    pub(super) dispatch: Picos,
}

impl CutTable {
    /// Earliest end of both parts over all cuts, on the best core set, for the given starts.
    pub(super) fn least_end(&self, cpu_start: Picos, gpu_start: Picos) -> Picos {
        let end = |cut: usize| {
            let moved = cpu_start.min(gpu_start) + self.moving[cut];
            let parts = (cpu_start + self.best_cpu[cut].time).max(gpu_start + self.gpu[cut].time);
            parts.max(moved)
        };
        // Starts at the balanced cut, and goes in each direction until the longer part alone ends too
        // late.
        let [cpu, gpu] = &self.least;
        let mut even = 1..self.all as usize;
        while even.start < even.end {
            let middle = even.start.midpoint(even.end);
            if cpu_start + cpu[middle].time < gpu_start + gpu[middle].time {
                even.start = middle + 1;
            } else {
                even.end = middle;
            }
        }
        let mut least = Picos::MAX;
        let mut more = even.start..self.all as usize;
        while let Some(cut) = more.next().filter(|&cut| cpu_start + cpu[cut].time < least) {
            least = least.min(end(cut));
        }
        let mut fewer = (1..even.start).rev();
        while let Some(cut) = fewer.next().filter(|&cut| gpu_start + gpu[cut].time < least) {
            least = least.min(end(cut));
        }
        least
    }
}

impl Traffic {
    const NONE: Self =
        Self { bytes: f64::INFINITY, saved: 0.0, rate: 0.0, lead: Picos::ZERO, dispatch: Picos::ZERO };

    /// The traffic of priced parts, each with its rows or channels; every `step`th size is priced, and
    /// a size in between moves no less than the next lower one.
    pub(super) fn of(parts: impl Iterator<Item = (u32, Priced)> + Clone, step: u32) -> Self {
        let known = parts.filter(|(count, part)| *count > 0 && part.cost.is_known());
        let each = |&(count, part): &(u32, Priced)| part.bytes / f64::from(count);
        let Some(largest) = known.clone().max_by_key(|(count, _)| *count) else { return Self::NONE };
        let bytes = each(&largest);
        let less = |(count, part): (u32, Priced)| bytes * f64::from(count + step - 1) - part.bytes;
        let saved = known.clone().map(less).fold(0.0, f64::max);
        let rate = known.clone().map(|(_, part)| part.rate).fold(0.0, f64::max);
        let least =
            |of: fn(&Priced) -> Picos| known.clone().map(|(_, part)| of(&part)).min().unwrap_or_default();
        let (lead, dispatch) = (least(|part| part.lead), least(|part| part.dispatch));
        Self { bytes, saved, rate, lead, dispatch }
    }
}

/// Price and memory traffic of one part.
#[derive(Clone, Copy)]
pub(super) struct Priced {
    pub(super) cost: Price,
    /// Bytes that count as traffic.
    bytes: f64,
    /// Highest rate, in bytes per picosecond.
    rate: f64,
    /// Time before the first byte.
    lead: Picos,
    /// Dispatch that is not part of the cost.
    dispatch: Picos,
    /// Time during which bytes move.
    pub(super) streaming: Picos,
    /// Lowest rate in that time, in bytes per picosecond.
    pub(super) least_rate: f64,
    /// Equal memory streams that the traffic consists of.
    pub(super) streams: f64,
}

impl Priced {
    const NOTHING: Self = Self {
        cost: Price::NOTHING,
        bytes: 0.0,
        rate: 0.0,
        lead: Picos::ZERO,
        dispatch: Picos::ZERO,
        streaming: Picos::ZERO,
        least_rate: f64::INFINITY,
        streams: 1.0,
    };
}

/// Prices parts of operators by the kernel models.
pub(super) struct Pricing<'p, 'a> {
    pub(super) parts: &'p Simulator<'a>,
    pub(super) options: &'p SearchOptions,
}

impl Pricing<'_, '_> {
    /// All prices of one kind of operator.
    pub(super) fn table(&self, layer: &Layer) -> OperatorTable {
        let whole = |by| self.price(layer, by).cost;
        let cores = || self.options.core_sets.iter().map(|&cores| Processor::Cpu(cores));
        let npu = whole(Processor::NPU);
        let cuts = Axis::ALL.map(|axis| self.cuts(layer, axis));
        let of = |axis: Axis| ShareTable::new(self, layer, axis, cuts[axis as usize].as_ref());
        let shares = Axis::ALL.map(|axis| if npu.is_known() { of(axis) } else { None });
        OperatorTable { cpu: cores().map(whole).collect(), gpu: whole(Processor::Gpu), npu, cuts, shares }
    }

    /// The price of a part of a shared operator. If the CPU sleeps for a predicted time, it may already
    /// have dispatched the NPU's part (`simulate` determines when).
    pub(super) fn part(&self, part: &Layer, by: Processor) -> Priced {
        self.priced(part, by, self.options.synchronisation.may_hide_dispatch())
    }

    /// The price of phases without contention.
    pub(super) fn uncontended(&self, phases: &Phases, detail: &Detail) -> Price {
        Price::of(self.parts.device(), phases, detail, self.options.objective)
    }

    fn price(&self, layer: &Layer, by: Processor) -> Priced {
        self.priced(layer, by, false)
    }

    fn priced(&self, layer: &Layer, by: Processor, may_be_early: bool) -> Priced {
        let Ok((phases, detail)) = self.parts.layer(layer, by) else {
            return Priced { cost: Price::NEVER, ..Priced::NOTHING };
        };
        let with_dispatch = phases.duration();
        let is_early = may_be_early && detail.is_dispatched_early();
        let phases = if is_early { phases.without_launch() } else { phases };
        let dispatch = with_dispatch.saturating_sub(phases.duration());
        let moves_nothing = phases.as_slice().iter().take_while(|phase| phase.bytes.0 == 0);
        let lead = moves_nothing.map(|phase| phase.duration).sum();
        let cost = self.uncontended(&phases, &detail);
        let streams = f64::from(streams_of(self.parts.device(), &detail, by.kind()));
        let mut priced = Priced { cost, lead, dispatch, streams, ..Priced::NOTHING };
        if by == Processor::Gpu && has_own_memory(self.parts.device()) {
            return priced;
        }
        // As the engine counts it, on which the bounds rest.
        let capacity = memory::totals(&self.parts.device().memory);
        for phase in phases.as_slice().iter().filter(|phase| phase.bytes.0 > 0) {
            let duration = phase.duration.0 as f64;
            let rate = capacity.demand(phase.bytes.0 as f64 / duration.max(1.0));
            priced.bytes += rate * duration;
            priced.rate = priced.rate.max(rate);
            priced.least_rate = priced.least_rate.min(rate);
            priced.streaming += phase.duration;
        }
        priced
    }

    /// The memory's capacity for `clients` processors, in bytes per picosecond.
    pub(super) fn shared_capacity(&self, clients: usize) -> f64 {
        self.parts.device().memory.capacity(clients).0 / PICOS_PER_SECOND
    }

    fn cuts(&self, layer: &Layer, axis: Axis) -> Option<CutTable> {
        let all = axis.extent(&layer.operator).filter(|&all| all > 1)?;
        let step = all.div_ceil(MAX_PRICED_CUTS);
        let part = |by: Processor, range: Range<u32>| {
            if range.is_empty() {
                return Priced::NOTHING;
            }
            self.price(&Region::along(axis, Span::from(range)).part_of(layer), by)
        };
        let every = |of: &dyn Fn(u32) -> Priced| -> Vec<Priced> {
            let mut priced: Vec<Priced> = Vec::with_capacity(all as usize + 1);
            for cut in 0..=all {
                let is_priced = cut % step == 0 || cut == all;
                let same = priced.last().copied().filter(|_| !is_priced);
                priced.push(same.unwrap_or_else(|| of(cut)));
            }
            priced
        };
        if !self.price(layer, Processor::Gpu).cost.is_known() {
            return None;
        }
        let gpu = every(&|cut| part(Processor::Gpu, cut..all));
        let of_cores = |&cores| every(&|cut| part(Processor::Cpu(cores), 0..cut));
        let cpu: Vec<Vec<Priced>> = self.options.core_sets.iter().map(of_cores).collect();
        if cpu.iter().all(|of_cores| !of_cores[all as usize].cost.is_known()) {
            return None;
        }
        let moving = (0..=all as usize).map(|cut| self.moving(cpu.iter().map(|of| of[cut]), gpu[cut]));
        let moving = moving.collect();
        let costs = |priced: &Vec<Priced>| -> Vec<Price> { priced.iter().map(|part| part.cost).collect() };
        let traffic_of_cpu = cpu.iter().flat_map(|priced| (0..).zip(priced.iter().copied()));
        let of_gpu = (0..).zip(gpu.iter().copied()).map(|(cut, priced)| (all - cut, priced));
        let traffic = [Traffic::of(traffic_of_cpu, step), Traffic::of(of_gpu.clone(), step)];
        let is_priced = |cut: u32| cut.is_multiple_of(step) || cut == all;
        let on_cores = |priced: &Vec<Priced>| {
            let of_cpu = (0..).zip(priced.iter().copied());
            Streaming::of(of_cpu.filter(|&(cut, _)| is_priced(cut)), all)
        };
        // Needed only for shares with an NPU.
        let streaming = self.parts.device().npu.is_some().then(|| {
            let on_gpu = Streaming::of(of_gpu.filter(|&(count, _)| is_priced(all - count)), all);
            [cpu.iter().map(on_cores).collect(), vec![on_gpu]]
        });
        let streaming = streaming.unwrap_or_default();
        let costs = (cpu.iter().map(costs).collect(), costs(&gpu));
        Some(self.cut_table((step, all, axis.unit()), costs, (moving, traffic, streaming)))
    }

    fn cut_table(
        &self,
        (step, all, unit): (u32, u32, u32),
        (cpu, gpu): (Vec<Vec<Price>>, Vec<Price>),
        (moving, traffic, streaming): (Vec<Picos>, [Traffic; 2], [Vec<Streaming>; 2]),
    ) -> CutTable {
        let cuts = 0..=all as usize;
        let of_any = |cut: usize| cpu.iter().map(|of| of[cut]).fold(Price::NEVER, least_known);
        let best_cpu: Vec<Price> = cuts.clone().map(of_any).collect();
        let joules = (1..all as usize).map(|cut| best_cpu[cut].joules + gpu[cut].joules);
        let least_joules = joules.fold(f64::INFINITY, f64::min);
        let mut least = [best_cpu.clone(), gpu.clone()];
        for cut in cuts.clone().rev().skip(1) {
            least[0][cut] = least[0][cut].least(least[0][cut + 1]);
        }
        for cut in cuts.skip(1) {
            least[1][cut] = least[1][cut].least(least[1][cut - 1]);
        }
        let ways = |of_cores: &Vec<Price>| {
            let way = |cut: u32| {
                let (cpu, gpu) = (of_cores[cut as usize], gpu[cut as usize]);
                Way { cpu: cpu.time, gpu: gpu.time, joules: cpu.joules + gpu.joules, cut }
            };
            self.best_ways((unit..all).step_by(step.next_multiple_of(unit) as usize).map(way).collect())
        };
        let ways = cpu.iter().map(ways).collect();
        CutTable { all, cpu, gpu, least, best_cpu, moving, least_joules, ways, traffic, streaming }
    }

    /// Those of `ways` that may be part of an optimal plan, sorted.
    pub(super) fn best_ways(&self, mut ways: Ways) -> Ways {
        ways.retain(|way| way.cpu < NEVER && way.gpu < NEVER);
        ways.sort_by_key(|way| (way.cpu, way.gpu, way.cut));
        match self.options.objective {
            Objective::Latency => {
                let mut least = NEVER;
                ways.retain(|way| {
                    let is_faster = way.gpu < least;
                    least = least.min(way.gpu);
                    is_faster
                });
            }
            // A way that is slower may take less energy.
            Objective::Energy | Objective::Edp => {}
        }
        ways
    }

    /// The memory's largest capacity for two or three processors, in bytes per picosecond.
    pub(super) fn max_shared_capacity(&self) -> f64 {
        (2..=3).map(|clients| self.shared_capacity(clients)).fold(0.0, f64::max)
    }

    /// Lower bound of the time to move the bytes of two parts, in any schedule.
    fn moving(&self, cpu: impl Iterator<Item = Priced>, gpu: Priced) -> Picos {
        let both = self.max_shared_capacity();
        let of = |cpu: Priced| {
            let rate = cpu.rate.max(gpu.rate).max(both.min(cpu.rate + gpu.rate));
            if rate > 0.0 { Picos(((cpu.bytes + gpu.bytes) / rate) as u64) } else { Picos::ZERO }
        };
        cpu.map(of).min().unwrap_or_default()
    }
}

fn least_known(least: Price, other: Price) -> Price {
    match (least.is_known(), other.is_known()) {
        (_, false) => least,
        (false, true) => other,
        (true, true) => least.least(other),
    }
}
