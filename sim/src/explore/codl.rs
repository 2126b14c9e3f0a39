//! The planner of `CoDL` (`MobiSys`'22): a base plan over dimension and ratio, then chains.
//!
//! The base plan takes for each operator the dimension (height or output channels) and
//! the ratio, in tenths, of least predicted time (section 4.1). Algorithm 1 then chains
//! operators up from a head that is in no chain: for each ratio around the head's it
//! appends the next operator while that gains, with the rows that chaining adds
//! (section 4.2). The predictor is equation 2 on the kernel models of this simulator:
//! `T_trans + T_map + T_psync + max(T_cpu, T_gpu)`, the first three only where an operator
//! begins a chain and is cut, or lies on the CPU.
//!
//! Where the paper leaves it open: a head keeps its overhead in a chain (figure 8: data
//! are shared at the beginning of one); the gain that is largest is that of the whole
//! chain over its operators unchained; and of the core sets offered, the one with the
//! least predicted time computes all the CPU's parts. What is minimised is time,
//! whatever the objective.

use super::Explorer;
use crate::kernel::CoreSet;
use crate::plan::{Axis, Placement, Plan, Processor, Regions, follows, owned, widen_by_last};
use crate::schedule::read_bytes;
use crate::simulate::hand_over_delay;
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// The ratio goes in tenths (section 3).
const TENTHS: u32 = 10;

/// How far a chain's ratio may be from its head's, in tenths: the paper's 0.3.
const DELTA: u32 = 3;

/// Who computes one operator: the GPU's share in tenths along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    axis: Axis,
    /// Tenths of the GPU: none leave all to the CPU, ten all to the GPU.
    gpu: u32,
    /// Predicted, unchained.
    time: Picos,
}

/// Operators in a row that share nothing, and what they gain.
#[derive(Clone, Debug)]
struct CodlChain {
    axis: Axis,
    gpu: u32,
    end: usize,
    gain: i128,
}

/// How much of the planner is used: the paper's ablations leave out parts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodlParts {
    /// Dimensions of the base plan: both, or one (figure 18).
    pub axes: &'static [Axis],
    /// Whether operators that can be cut may be left to one processor.
    pub whole: WholeOperators,
    /// Whether operators are chained (figure 20).
    pub chains: bool,
}

impl CodlParts {
    /// All of it.
    pub const ALL: Self =
        Self { axes: &[Axis::Height, Axis::Channels], whole: WholeOperators::Allowed, chains: true };
}

/// Whether operators that can be cut may be left to one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeOperators {
    /// Ratios go from 0 to 1, both included (section 4.1).
    Allowed,
    /// Every operator that can be cut is: the shares of both dimensions in the paper's
    /// Figure 17 leave none whole.
    OnlyIfUnsplittable,
}

/// A planner for one core set.
struct Planner<'e, 's, 'a> {
    explorer: &'e mut Explorer<'s, 'a>,
    cores: CoreSet,
    parts: CodlParts,
    considered: usize,
}

/// Base plan and chains, and how many candidates were considered.
pub(super) fn plan(explorer: &mut Explorer<'_, '_>, parts: CodlParts) -> (Plan, usize) {
    let mut best: Option<(Picos, Plan)> = None;
    let mut considered = 0;
    for &cores in &explorer.options.core_sets {
        let mut planner = Planner { explorer, cores, parts, considered: 0 };
        let Some(base) = planner.base() else { continue };
        let (time, plan) = planner.chained(&base);
        considered += planner.considered;
        if best.as_ref().is_none_or(|(least, _)| time < *least) {
            best = Some((time, plan));
        }
    }
    match best {
        Some((_, plan)) => (plan, considered),
        None => (explorer.plan(vec![Placement::GPU; explorer.stages.len()]), 1),
    }
}

/// Channels or rows of `stage` for the CPU and the GPU that leave `gpu` tenths to the GPU;
/// `None` where it cannot be cut so. Channels are cut between slices, as GPU kernels compute
/// four at a time.
fn cut(stage: &Stage, axis: Axis, gpu: u32) -> Option<[u32; 2]> {
    let all = axis.extent(&stage.layer.operator)?;
    let exact = f64::from(all) * f64::from(TENTHS - gpu) / f64::from(TENTHS);
    let unit = f64::from(axis.unit());
    let first = ((exact / unit).round() as u32).max(1) * axis.unit();
    (first < all).then(|| [first, all - first])
}

impl Planner<'_, '_, '_> {
    /// The best dimension and ratio of each operator on its own; `None` where one has no
    /// kernel anywhere.
    fn base(&mut self) -> Option<Vec<Choice>> {
        (0..self.explorer.stages.len()).map(|stage| self.base_of(stage)).collect()
    }

    fn base_of(&mut self, stage: usize) -> Option<Choice> {
        let cut = match self.parts.whole {
            WholeOperators::Allowed => None,
            WholeOperators::OnlyIfUnsplittable => self.best_of(stage, [1, TENTHS - 1]),
        };
        cut.or_else(|| self.best_of(stage, [0, TENTHS]))
    }

    /// The best dimension and ratio, with at least and at most so many tenths on the GPU.
    fn best_of(&mut self, stage: usize, [least, most]: [u32; 2]) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        for &axis in self.parts.axes {
            for gpu in (least..=most).rev() {
                let Some(time) = self.predict(stage, axis, gpu) else { continue };
                self.considered += 1;
                if best.is_none_or(|best| time < best.time) {
                    best = Some(Choice { axis, gpu, time });
                }
            }
        }
        best
    }

    /// Equation 2 for an operator in no chain.
    fn predict(&mut self, stage: usize, axis: Axis, gpu: u32) -> Option<Picos> {
        match gpu {
            TENTHS => Some(self.explorer.prices.whole(stage, Processor::Gpu)?.time),
            0 => {
                let cpu = self.explorer.prices.whole(stage, Processor::Cpu(self.cores))?.time;
                Some(self.sharing(stage, None) + cpu)
            }
            _ => {
                let regions = self.cut(stage, axis, gpu)?;
                Some(self.sharing(stage, Some((axis, &regions))) + self.computing(stage, &regions)?)
            }
        }
    }

    /// What it takes until the CPU has what it reads of an input that lies with the GPU.
    fn sharing(&self, stage: usize, cut: Option<(Axis, &Regions)>) -> Picos {
        let Explorer { simulator, stages, options, .. } = &*self.explorer;
        let all = read_bytes(&stages[stage].layer);
        let bytes = match cut {
            Some((Axis::Height, regions)) => read_bytes(&regions[0].part_of(&stages[stage].layer)).min(all),
            Some((Axis::Channels, _)) | None => all,
        };
        hand_over_delay(simulator.device(), options.synchronisation, bytes.max(Bytes(1)), true)
    }

    /// The longer of both parts.
    fn computing(&mut self, stage: usize, regions: &Regions) -> Option<Picos> {
        let prices = &mut self.explorer.prices;
        let cpu = prices.part(stage, Processor::Cpu(self.cores), regions[0])?;
        let gpu = prices.part(stage, Processor::Gpu, regions[1])?;
        Some(cpu.time.max(gpu.time))
    }

    /// What CPU and GPU compute of a stage that is cut so.
    fn cut(&self, stage: usize, axis: Axis, gpu: u32) -> Option<Regions> {
        let stage = &self.explorer.stages[stage];
        let extents = cut(stage, axis, gpu)?;
        Some(owned(stage, &Placement::cpu_and_gpu(axis, self.cores, extents)))
    }

    /// Algorithm 1: the predicted time, and the plan.
    fn chained(&mut self, base: &[Choice]) -> (Picos, Plan) {
        let count = base.len();
        let mut placements = Vec::with_capacity(count);
        let mut chains: Vec<Option<u32>> = Vec::with_capacity(count);
        let mut total: i128 = base.iter().map(|choice| i128::from(choice.time.0)).sum();
        while placements.len() < count {
            let head = placements.len();
            let chain = if self.parts.chains { self.longest_gain(base, head) } else { None };
            if let Some(chain) = chain {
                total -= chain.gain;
                for stage in head..chain.end {
                    placements.push(self.placement(stage, chain.axis, chain.gpu));
                    chains.push(Some(head as u32));
                }
            } else {
                placements.push(self.placement(head, base[head].axis, base[head].gpu));
                chains.push(None);
            }
        }
        (Picos(u64::try_from(total).unwrap_or(0)), self.explorer.plan(placements).chained(chains))
    }

    fn placement(&self, stage: usize, axis: Axis, gpu: u32) -> Placement {
        match (gpu, cut(&self.explorer.stages[stage], axis, gpu)) {
            (1..TENTHS, Some(extents)) => Placement::cpu_and_gpu(axis, self.cores, extents),
            (0, _) => Placement::cpu(self.cores),
            _ => Placement::GPU,
        }
    }

    /// The chain from `head` on that gains most, at any ratio around the head's.
    fn longest_gain(&mut self, base: &[Choice], head: usize) -> Option<CodlChain> {
        let Choice { axis, gpu, .. } = base[head];
        let mut best: Option<CodlChain> = None;
        for gpu in gpu.saturating_sub(DELTA).max(1)..=(gpu + DELTA).min(TENTHS - 1) {
            let chain = self.extend(base, head, axis, gpu);
            let is_better = |chain: &CodlChain| best.as_ref().is_none_or(|best| chain.gain > best.gain);
            best = chain.filter(|chain| chain.gain > 0 && is_better(chain)).or(best);
        }
        best
    }

    /// Appends operators to a chain at one ratio until one more does not gain.
    fn extend(&mut self, base: &[Choice], head: usize, axis: Axis, gpu: u32) -> Option<CodlChain> {
        let stages = self.explorer.stages;
        let mut cuts = vec![self.cut(head, axis, gpu)?];
        let mut times = vec![self.computing(head, &cuts[0])?];
        let mut computing = times[0];
        let mut chained = self.sharing(head, Some((axis, &cuts[0]))) + computing;
        let mut unchained = base[head].time;
        let mut best: Option<CodlChain> = None;
        for (next, alone) in base.iter().enumerate().skip(head + 1) {
            let Some(own) = self.cut(next, axis, gpu) else { break };
            if !can_follow(stages, (head, axis), next, &cuts, &own) {
                break;
            }
            cuts.push(own);
            times.push(Picos::ZERO);
            let widened = widen_by_last(stages, head, &mut cuts);
            for index in widened.into_iter().chain([next - head]) {
                let time = self.computing(head + index, &cuts[index])?;
                computing = computing - times[index] + time;
                times[index] = time;
            }
            let time = self.sharing(head, Some((axis, &cuts[0]))) + computing;
            self.considered += 1;
            // The first append may also have to make up for a ratio that is not the head's.
            let loses = time > chained + alone.time;
            if loses {
                break;
            }
            (chained, unchained) = (time, unchained + alone.time);
            let gain = i128::from(unchained.0) - i128::from(chained.0);
            if best.as_ref().is_none_or(|best| gain > best.gain) {
                best = Some(CodlChain { axis, gpu, end: next + 1, gain });
            }
        }
        best
    }
}

/// Whether `next` can compute its parts, `own`, from the parts of the operators from `head`
/// on, all cut along `axis`.
pub(super) fn can_follow(
    stages: &[Stage],
    (head, axis): (usize, Axis),
    next: usize,
    cuts: &[Regions],
    own: &Regions,
) -> bool {
    let mut inputs = stages[next].inputs.iter().filter(|&&input| input >= head);
    inputs.all(|&input| follows(axis, (&stages[next], own), (&stages[input], &cuts[input - head])).is_ok())
}
