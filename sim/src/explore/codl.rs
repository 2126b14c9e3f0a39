//! The planner of `CoDL` (`MobiSys`'22): a base plan over dimension and ratio, then chains.
//!
//! The base plan chooses for each operator the dimension (height or output channels) and
//! the ratio, in tenths, with the least predicted time (section 4.1). Algorithm 1 then builds
//! chains, each from a head that is in no chain yet: at each ratio near the head's it appends
//! the next operator as long as this gains time, including the rows that chaining adds
//! (section 4.2). The predictor is equation 2 on the kernel models of this simulator:
//! `T_trans + T_map + T_psync + max(T_cpu, T_gpu)`, the first three only for an operator that
//! is cut and begins a chain, or that the CPU computes.
//!
//! Choices where the paper is silent: the head keeps its overhead in a chain (figure 8: data
//! are shared at the beginning of a chain); the gain to maximise is that of the whole chain
//! over its operators unchained; and the core set with the least predicted time computes all
//! the CPU's parts. Time is minimised, whatever the objective.

use super::Explorer;
use crate::kernel::CoreSet;
use crate::plan::{Axis, Placement, Plan, Processor, Regions, follows, owned, widen_by_last};
use crate::schedule::read_bytes;
use crate::simulate::hand_over_delay;
use crate::units::{Bytes, Picos};
use crate::workload::{Read, Stage};

/// Steps of the ratio (section 3).
const TENTHS: u32 = 10;

/// Largest distance of a chain's ratio from its head's, in tenths: the paper's 0.3.
const DELTA: u32 = 3;

/// The dimension and ratio of one operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    axis: Axis,
    /// The GPU's share in tenths: 0 is the CPU alone, 10 the GPU alone.
    gpu: u32,
    /// Predicted time, unchained.
    time: Picos,
}

/// A chain from its head up to `end`, and the picoseconds that it gains over its operators unchained.
#[derive(Clone, Debug)]
struct CodlChain {
    axis: Axis,
    gpu: u32,
    end: usize,
    gain: i128,
}

/// The parts of the planner in use, for the paper's ablations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodlParts {
    /// Dimensions of the base plan: both, or one (figure 18).
    pub axes: &'static [Axis],
    /// Whether one processor may compute all of an operator that can be cut.
    pub whole: WholeOperators,
    /// Whether operators are chained (figure 20).
    pub chains: bool,
}

impl CodlParts {
    /// The complete planner.
    pub const ALL: Self =
        Self { axes: &[Axis::Height, Axis::Channels], whole: WholeOperators::Allowed, chains: true };
}

/// Whether one processor may compute all of an operator that can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WholeOperators {
    /// Ratios go from 0 to 1, both included (section 4.1).
    Allowed,
    /// Every operator that can be cut is cut: in the paper's Figure 17, the shares of both
    /// dimensions leave none whole.
    OnlyIfUnsplittable,
}

/// A planner for one core set.
struct Planner<'e, 's, 'a> {
    explorer: &'e mut Explorer<'s, 'a>,
    cores: CoreSet,
    parts: CodlParts,
    considered: usize,
}

/// The plan with its chains, and the number of candidates considered.
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

/// Channels or rows of `stage` on the CPU and on the GPU for a GPU share of `gpu` tenths;
/// `None` if the stage cannot be cut there. Channels are cut between slices, as GPU kernels
/// compute four at a time.
fn cut(stage: &Stage, axis: Axis, gpu: u32) -> Option<[u32; 2]> {
    let all = axis.extent(&stage.layer.operator)?;
    let exact = f64::from(all) * f64::from(TENTHS - gpu) / f64::from(TENTHS);
    let unit = f64::from(axis.unit());
    let first = ((exact / unit).round() as u32).max(1) * axis.unit();
    (first < all).then(|| [first, all - first])
}

impl Planner<'_, '_, '_> {
    /// The best dimension and ratio of each operator on its own; `None` if one has no kernel
    /// on any processor.
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

    /// The best dimension and ratio with `least` to `most` tenths on the GPU.
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

    /// Time to hand the CPU what it reads of an input on the GPU.
    fn sharing(&self, stage: usize, cut: Option<(Axis, &Regions)>) -> Picos {
        let Explorer { simulator, stages, options, .. } = &*self.explorer;
        let all = read_bytes(&stages[stage].layer);
        let bytes = match cut {
            Some((Axis::Height, regions)) => read_bytes(&regions[0].part_of(&stages[stage].layer)).min(all),
            Some((Axis::Channels, _)) | None => all,
        };
        hand_over_delay(simulator.device(), options.synchronisation, bytes.max(Bytes(1)), true)
    }

    /// The longer of both parts' times.
    fn computing(&mut self, stage: usize, regions: &Regions) -> Option<Picos> {
        let prices = &mut self.explorer.prices;
        let cpu = prices.part(stage, Processor::Cpu(self.cores), regions[0])?;
        let gpu = prices.part(stage, Processor::Gpu, regions[1])?;
        Some(cpu.time.max(gpu.time))
    }

    /// The regions of the CPU and the GPU for a GPU share of `gpu` tenths.
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

    /// The chain from `head` on that gains most, over the ratios near the head's.
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

    /// Appends operators to a chain at one ratio until another one loses time.
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
            // Only the increment counts: at a ratio other than the head's, the chain may at first
            // be slower than its operators unchained.
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

/// Whether each processor can compute its part of `next`, `own`, from its parts of the
/// operators from `head` on, all cut along `axis`.
pub(super) fn can_follow(
    stages: &[Stage],
    (head, axis): (usize, Axis),
    next: usize,
    cuts: &[Regions],
    own: &Regions,
) -> bool {
    let mut reads = stages[next].reads.iter().filter(|read| read.input >= head);
    reads.all(|&Read { position, input }| {
        follows(axis, (&stages[next], position, own), (&stages[input], &cuts[input - head])).is_ok()
    })
}
