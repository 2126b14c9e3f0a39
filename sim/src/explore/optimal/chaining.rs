//! Chains that begin at an operator: how far they reach, at which ratio, and what they
//! take.
//!
//! A chain costs the longer of what both processors compute in it, halos included, and
//! one join; the ratio that balances them is found by a few evaluations.

use std::ops::Range;

use super::cutting::Cutter;
use crate::explore::codl::can_follow;
use crate::explore::explorer::Explorer;
use crate::kernel::cpu::CoreSet;
use crate::plan::{Axis, Placement, Processor, ProcessorKind, Regions, owned, widen};
use crate::simulate::SimulateError;
use crate::units::Picos;
use crate::workload::{CHANNELS_PER_SLICE, Stage};

/// Most operators of a chain: each adds a halo to all before it.
const LONGEST: usize = 24;

/// Extensions in a row that do not gain after which a chain is given up.
const PATIENCE: usize = 4;

/// Evaluations of the ratio a chain gets.
const EVALUATIONS: usize = 3;

/// Chains kept that begin at one operator: those that gain most.
const KEPT: usize = 6;

/// A chain is balanced whose parts differ by less than one in so many.
const EVEN_ENOUGH: u64 = 100;

/// Operators in a row of which each processor computes its parts without the other.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) stages: Range<usize>,
    /// The CPU's share of the height or the channels.
    share: f64,
    pub(super) cores: CoreSet,
    pub(super) axis: Axis,
    /// What CPU and GPU compute of each, halos included.
    pub(super) cuts: Vec<Regions>,
    pub(super) cpu: Picos,
    pub(super) gpu: Picos,
    /// How much later than the CPU the GPU starts where the ratio is best.
    lead: Picos,
    pub(super) joules: f64,
    /// What it reads from before it: which stage, its input at which position, and the
    /// number of the input.
    pub(super) reads: Vec<(usize, usize, usize)>,
}

impl Chain {
    fn longer(&self) -> Picos {
        self.cpu.max(self.lead + self.gpu)
    }

    /// The placement of each of its operators, without halos.
    pub(super) fn placements(&self, stages: &[Stage]) -> Vec<Placement> {
        let placement = |stage: usize| nominal(&stages[stage], self.axis, self.cores, self.share);
        self.stages.clone().filter_map(placement).collect()
    }
}

/// The cut that leaves `share` to the CPU, on its own.
pub(super) fn nominal(stage: &Stage, axis: Axis, cores: CoreSet, share: f64) -> Option<Placement> {
    let all = axis.extent(&stage.layer.operator).filter(|&all| all > 1)?;
    // GPU kernels compute whole slices of channels.
    let unit = if axis == Axis::Channels && all > CHANNELS_PER_SLICE { CHANNELS_PER_SLICE } else { 1 };
    let units = (all - 1) / unit;
    let first = ((f64::from(all) * share / f64::from(unit)).round() as u32).clamp(1, units) * unit;
    Some(Placement::cpu_and_gpu(axis, cores, [first, all - first]))
}

/// The chains along `axis` that begin at `head` and gain over their operators unchained,
/// which take `apart` each; the GPU starts `lead` later than the CPU.
pub(super) fn chains_from<'a>(
    explorer: &mut Explorer<'_, 'a>,
    cutter: &mut Cutter<'a>,
    (head, axis): (usize, Axis),
    (lead, apart): (Picos, &[Picos]),
) -> Result<Vec<Chain>, SimulateError> {
    let mut found: Vec<(i128, Chain)> = Vec::new();
    let Some(alone) = cutter.best(explorer, head, axis, [Picos::ZERO; 2])? else { return Ok(Vec::new()) };
    let Some(cores) = alone.placement.cores() else { return Ok(Vec::new()) };
    let mut share = alone.placement.fraction(ProcessorKind::Cpu);
    let (mut best_gain, mut idle) = (0_i128, 0);
    let mut unchained = lead + apart[head];
    for end in head + 2..=explorer.stages.len().min(head + LONGEST) {
        let Some(chain) = balanced(explorer, head..end, axis, (cores, share, lead)) else { break };
        unchained += apart[end - 1];
        share = chain.share;
        let gain = i128::from(unchained.0) - i128::from(chain.longer().0);
        if gain > best_gain {
            (best_gain, idle) = (gain, 0);
        } else {
            idle += 1;
        }
        if gain > 0 {
            found.push((gain, Chain { reads: reads(explorer.stages, head..end), ..chain }));
        }
        if idle > PATIENCE {
            break;
        }
    }
    found.sort_by_key(|(gain, _)| std::cmp::Reverse(*gain));
    found.truncate(KEPT);
    Ok(found.into_iter().map(|(_, chain)| chain).collect())
}

/// What the stages of `range` read from before it.
fn reads(stages: &[Stage], range: Range<usize>) -> Vec<(usize, usize, usize)> {
    let head = range.start;
    let of = |stage: usize| {
        let inputs = stages[stage].inputs.iter().enumerate();
        inputs.filter(move |(_, input)| **input < head).map(move |(at, &input)| (stage, at, input))
    };
    range.flat_map(of).collect()
}

/// The chain of `stages` at the ratio that keeps both busy, from `share` on.
fn balanced(
    explorer: &mut Explorer<'_, '_>,
    stages: Range<usize>,
    axis: Axis,
    (cores, share, lead): (CoreSet, f64, Picos),
) -> Option<Chain> {
    let last = &explorer.stages[stages.end - 1].layer.operator;
    let line = 1.0 / f64::from(axis.extent(last)?);
    let mut best = evaluate(explorer, stages.clone(), axis, (cores, share, lead))?;
    let mut tried = vec![best.share];
    for _ in 1..EVALUATIONS {
        let uneven = best.cpu.0.abs_diff((best.lead + best.gpu).0);
        if uneven * EVEN_ENOUGH <= best.longer().0 {
            break;
        }
        let Some(share) = next_share(&best, line, &tried) else { break };
        tried.push(share);
        if let Some(other) = evaluate(explorer, stages.clone(), axis, (cores, share, lead))
            && other.longer() < best.longer()
        {
            best = other;
        }
    }
    Some(best)
}

/// The share that would balance both at the speeds seen, or the next line towards it.
fn next_share(chain: &Chain, line: f64, tried: &[f64]) -> Option<f64> {
    let [cpu, gpu] = [chain.cpu.0 as f64 / chain.share, chain.gpu.0 as f64 / (1.0 - chain.share)];
    let whole = |share: f64| (share / line).round().clamp(1.0, (1.0 / line - 1.0).max(1.0)) * line;
    let even = whole((gpu + chain.lead.0 as f64) / (cpu + gpu));
    let step = if chain.cpu > chain.lead + chain.gpu { -line } else { line };
    let is_new = |share: &f64| {
        *share > 0.0 && *share < 1.0 && tried.iter().all(|known| (known - share).abs() > 0.4 * line)
    };
    [even, whole(chain.share + step), whole(chain.share - step)].into_iter().find(is_new)
}

fn evaluate(
    explorer: &mut Explorer<'_, '_>,
    range: Range<usize>,
    axis: Axis,
    (cores, share, lead): (CoreSet, f64, Picos),
) -> Option<Chain> {
    let stages = explorer.stages;
    let mut cuts: Vec<Regions> = Vec::with_capacity(range.len());
    for stage in range.clone() {
        let own = owned(&stages[stage], &nominal(&stages[stage], axis, cores, share)?);
        if !can_follow(stages, (range.start, axis), stage, &cuts, &own) {
            return None;
        }
        cuts.push(own);
    }
    widen(stages, range.start, &mut cuts, |_, _| true);
    let (mut cpu, mut gpu, mut joules) = (Picos::ZERO, Picos::ZERO, 0.0);
    for (stage, cut) in range.clone().zip(&cuts) {
        let first = explorer.prices.part(stage, Processor::Cpu(cores), cut[0])?;
        let second = explorer.prices.part(stage, Processor::Gpu, cut[1])?;
        (cpu, gpu) = (cpu + first.time, gpu + second.time);
        joules += first.joules + second.joules;
    }
    Some(Chain { stages: range, share, cores, axis, cuts, cpu, gpu, lead, joules, reads: Vec::new() })
}
