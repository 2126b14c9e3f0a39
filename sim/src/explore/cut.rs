//! The best cut of one operator along its output channels or its output's height.
//!
//! EPEW'25, section 2: minimise `overhead(c1, c2) + max(T_cpu(c1), T_gpu(c2))`
//! over `c1 + c2 = C`, where the overhead is zero unless both compute. Without
//! memory contention this is the engine's answer; with contention it is a lower
//! bound, so only candidates whose bound beats the best simulated one are simulated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::{CoRunCache, Explorer, Grid, Objective, SearchOptions, Strategy, missing_kernel};
use crate::device::{Direction, LinkTransfer, ProcessorKind};
use crate::plan::{Axis, Placement, Plan};
use crate::schedule::{read_bytes, result_bytes};
use crate::simulate::{Result, SimulateError, Simulator, copying, join_delay};
use crate::units::{Joules, Picos};
use crate::workload::Stage;

/// One way to run one operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Who computes it.
    pub placement: Placement,
    /// Time of the CPU's part without contention; zero without a part.
    pub cpu: Picos,
    /// Time of the GPU's part without contention; zero without a part.
    pub gpu: Picos,
    /// Latency of the operator: simulated, or its lower bound if the candidate cannot win.
    pub latency: Picos,
    /// Energy; `None` if it was not simulated.
    pub energy: Option<Joules>,
}

/// How long a processor waits before it can start, because an input must first be handed
/// over to it, and the delay after the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StartDelays {
    /// Delay of the CPU.
    pub(super) cpu: Picos,
    /// Delay of the GPU.
    pub(super) gpu: Picos,
    /// From the end of a GPU that computed everything until the result is where it is needed.
    pub(super) after_gpu: Picos,
    /// From the call until the first processor starts, if the GPU takes part.
    pub(super) launch: Picos,
}

impl StartDelays {
    /// The delays of an operator that reads its inputs from the host and writes its result
    /// there: copies over the link of a GPU with memory of its own, and the launch.
    pub(super) fn of_host(simulator: &Simulator<'_>, stage: &Stage) -> Self {
        let [launch, read_back] = simulator.around_launches();
        let crossing = |bytes, direction| copying(simulator.device(), LinkTransfer::whole(bytes), direction);
        Self {
            cpu: Picos::ZERO,
            launch,
            gpu: crossing(read_bytes(&stage.layer), Direction::ToGpu),
            after_gpu: crossing(result_bytes(&stage.layer), Direction::ToHost) + read_back,
        }
    }
}

/// The outcome of a search over one operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// The best candidate.
    pub best: Candidate,
    /// The GPU alone, where it has a kernel.
    pub gpu_only: Option<Candidate>,
    /// The best core set alone, where the CPU has a kernel.
    pub cpu_only: Option<Candidate>,
    /// The best cut, where the operator can be cut.
    pub split: Option<Candidate>,
    /// Candidates considered.
    pub considered: usize,
}

/// Finds the best placement of one operator that reads its inputs from the host and
/// writes its result there.
///
/// # Errors
/// None of the processors allowed has a kernel for the operator.
pub fn split_search(simulator: &Simulator<'_>, stage: &Stage, options: &SearchOptions) -> Result<Search> {
    // A strategy without axes of its own is searched like channel splits.
    let strategy = if options.strategy.axes().is_empty() { Strategy::ChannelSplit } else { options.strategy };
    let mut parts = simulator.of_parts();
    Ok(Explorer::new(&mut parts, std::slice::from_ref(stage), options).searches(strategy)?.remove(0))
}

/// [`split_search`] over priced grids, by a simulator of parts; `lead` includes the
/// copies between host and GPU.
pub(super) fn search_grid(
    simulator: &mut Simulator<'_>,
    (kind, stage): (usize, &Stage),
    options: &SearchOptions,
    lead: StartDelays,
    (grids, co_runs): (&[Rc<Grid>], &mut CoRunCache),
) -> Result<Search> {
    let overhead = join_delay(simulator.device(), options.synchronisation, result_bytes(&stage.layer));
    let mut candidates: Vec<Candidate> = Vec::new();
    let mut whole: Vec<Placement> = Vec::new();
    for candidate in grids.iter().flat_map(|grid| grid.candidates(lead, overhead)) {
        // Every grid includes the whole operator on each processor.
        if !candidate.placement.is_cut() {
            if whole.contains(&candidate.placement) {
                continue;
            }
            whole.push(candidate.placement);
        }
        candidates.push(candidate);
    }
    let considered = candidates.len();
    let mut best_where = |wanted: fn(&Placement) -> bool| {
        // Best bound first; equal bounds keep the grid's order.
        let wanted = candidates.iter().enumerate().filter(|(_, candidate)| wanted(&candidate.placement));
        let mut queue: BinaryHeap<Reverse<(Picos, usize)>> =
            wanted.map(|(index, candidate)| Reverse((candidate.latency, index))).collect();
        let mut best: Option<Candidate> = None;
        while let Some(Reverse((bound, index))) = queue.pop() {
            let bound_loses = best.is_some_and(|best| bound >= best.latency);
            if bound_loses && options.objective == Objective::Latency {
                break;
            }
            let mut simulated = candidates[index];
            // A single processor has no contention: its bound is its latency.
            if simulated.placement.is_cut() || options.objective != Objective::Latency {
                let (latency, energy) = co_runs.of(simulator, (kind, stage), options, simulated.placement)?;
                // With start delays this is still a lower bound: contention is simulated for parts
                // that start together. The whole plan is simulated in the end.
                (simulated.latency, simulated.energy) = (bound.max(latency), energy);
            }
            if best.is_none_or(|best| cost(options, &simulated) < cost(options, &best)) {
                best = Some(simulated);
            }
        }
        Ok::<_, SimulateError>(best)
    };
    let gpu_only = best_where(|placement| !placement.is_cut() && placement.uses(ProcessorKind::Gpu))?;
    let cpu_only = best_where(|placement| !placement.is_cut() && placement.uses(ProcessorKind::Cpu))?;
    let split = best_where(Placement::is_cut)?;
    let found = [gpu_only, cpu_only, split].into_iter().flatten();
    let best = found.min_by(|one, other| cost(options, one).total_cmp(&cost(options, other)));
    let best = best.ok_or_else(|| missing_kernel(simulator, stage, options))?;
    Ok(Search { best, gpu_only, cpu_only, split, considered })
}

fn cost(options: &SearchOptions, candidate: &Candidate) -> f64 {
    options.objective.cost(candidate.latency, candidate.energy)
}

/// One point of a latency curve over the GPU's output channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurvePoint {
    /// Output channels that the GPU computes.
    pub gpu_channels: u32,
    /// The GPU's time for them without contention.
    pub gpu: Option<Picos>,
    /// The CPU's time for the other channels without contention.
    pub cpu: Option<Picos>,
    /// Latency of the operator cut there, with synchronisation and contention if
    /// both compute.
    pub together: Option<Picos>,
}

/// Times of a cuttable operator against the cut, with the first core set allowed, at
/// every grid point from none to all channels on the GPU.
///
/// # Errors
/// As [`Simulator::run`].
pub fn latency_curve(
    simulator: &Simulator<'_>,
    stage: &Stage,
    options: &SearchOptions,
) -> Result<Vec<CurvePoint>> {
    let mut parts = simulator.of_parts();
    let grid = Grid::new(&parts, stage, options, Axis::Channels)?;
    let host = StartDelays::of_host(&parts, stage);
    let mut curve = Vec::with_capacity(grid.cpu_extent.len());
    for (index, &cpu_channels) in grid.cpu_extent.iter().enumerate().rev() {
        let gpu = grid.gpu[index].map(|price| price.time);
        let (cores, cpu) = match grid.cpu.first() {
            Some((cores, times)) => (Some(*cores), times[index].map(|price| price.time)),
            None => (None, None),
        };
        let gpu_channels = grid.all - cpu_channels;
        let together = match (cores, cpu, gpu) {
            (Some(cores), Some(_), Some(_)) => {
                let placement = Placement::cpu_and_gpu(Axis::Channels, cores, [cpu_channels, gpu_channels]);
                let plan = Plan::new(options.synchronisation, vec![placement]);
                Some(parts.latency(&[stage.isolated()], &plan)?)
            }
            (_, Some(cpu), None) if gpu_channels == 0 => Some(cpu),
            (_, None, Some(gpu)) if cpu_channels == 0 => Some(host.gpu + gpu + host.after_gpu),
            _ => None,
        };
        curve.push(CurvePoint { gpu_channels, gpu, cpu, together });
    }
    Ok(curve)
}
