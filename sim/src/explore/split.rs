//! Strategies that cut operators one at a time, and those of a single processor.
//!
//! Operators in a row are planned by dynamic programming over where its latest result lies:
//! with the CPU, with the GPU, or visible to both after a join. Each operator is
//! then priced with the hand-over its placement needs. In any other
//! graph, operators are planned one by one, as EPEW'25 does: the GPU is the
//! default, a cut must pay for its join, and the CPU alone must pay for the
//! hand-overs to and fro. Either way the plan is simulated as a whole. What is best
//! for each operator alone, and a single processor, win where they are faster: under
//! contention a hand-over's price is a bound, so that the dynamic program can miss.

use std::rc::Rc;

use super::{
    Candidate, CoRunCache, Explorer, Found, Grid, Objective, Search, SearchOptions, StartDelays, Strategy,
    search_grid,
};
use crate::device::{Direction, LinkTransfer};
use crate::plan::{Placement, Processor};
use crate::schedule::{pieces, result_bytes};
use crate::simulate::{Result, SimulateError, Simulator, between_cpu_and_gpu, copying, has_own_memory};
use crate::units::Picos;
use crate::workload::Stage;

/// Operators to be planned, and what is known of each alone.
struct Operators<'o> {
    stages: &'o [Stage],
    kinds: &'o [usize],
    grids: &'o [Vec<Rc<Grid>>],
    searches: &'o [Search],
}

/// The plan of a strategy that cuts operators one at a time.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found> {
    let (stages, options) = (explorer.stages, explorer.options);
    let grids = explorer.grids(strategy.axes())?;
    let searches = explorer.searches(strategy)?;
    let mut considered = searches.iter().map(|search| search.considered).sum();
    let mut inside = explorer.parts.inside();
    let kinds: Vec<usize> = (0..stages.len()).map(|stage| explorer.prices.kind(stage)).collect();
    let operators = Operators { stages, kinds: &kinds, grids: &grids, searches: &searches };
    // With one memory a cut takes as long inside a workload as alone.
    let together =
        if has_own_memory(inside.device()) { &mut explorer.together_inside } else { &mut explorer.together };
    let placements = if stages.len() > 1 && is_chain(stages) {
        let (placements, more) = plan_chain(&mut inside, options, &operators, together)?;
        considered += more;
        placements
    } else {
        plan_graph(&mut inside, options, &operators, together)?
    };
    let alone = searches.iter().map(|search| search.best.placement).collect();
    let mut found = Vec::new();
    for placements in [placements, alone] {
        found.extend(explorer.fitting(strategy, explorer.plan(placements), considered)?);
    }
    if options.objective != Objective::Latency {
        // Waiting costs energy, too, which operators one by one do not know of: what is
        // fastest can also need least.
        let fastest = SearchOptions { objective: Objective::Latency, ..options.clone() };
        let plan = Explorer::new(explorer.simulator, stages, &fastest).find(strategy)?.plan;
        found.push(explorer.found(strategy, plan, considered)?);
    }
    // What cuts between CPU and GPU is held against these two; another processor is another strategy's.
    let singles =
        [Strategy::GpuOnly, Strategy::CpuOnly].into_iter().filter_map(|one| explorer.find(one).ok());
    let singles: Vec<Found> = singles.map(|single| Found { strategy, considered, ..single }).collect();
    found.extend(singles);
    // The first of equals: the plan that was searched for.
    explorer.best(found)
}

/// Every operator on one processor: the one of `placements` that is best for the whole workload.
pub(super) fn on_one_processor(
    explorer: &mut Explorer<'_, '_>,
    strategy: Strategy,
    placements: &[Placement],
) -> Result<Found> {
    let count = explorer.stages.len();
    explorer.best_of((strategy, 1), placements.iter().map(|&placement| vec![placement; count]))
}

/// Whether each operator reads the one before it and nothing else.
fn is_chain(stages: &[Stage]) -> bool {
    stages.iter().enumerate().all(|(index, stage)| match stage.inputs.as_slice() {
        [] => index == 0,
        [input] => input + 1 == index,
        _ => false,
    })
}

/// Where the latest result of a chain lies: with the CPU, with the GPU, or (index
/// 2) visible to both, as after a join.
const ON_CPU: usize = 0;
const ON_GPU: usize = 1;

/// A placement of one operator, after the operator before it left its result somewhere.
#[derive(Clone, Copy, Debug)]
struct Backpointer {
    placement: Placement,
    /// Where that was.
    before: usize,
}

/// Plans operators in a row.
fn plan_chain(
    simulator: &mut Simulator<'_>,
    options: &SearchOptions,
    operators: &Operators<'_>,
    together: &mut CoRunCache,
) -> Result<(Vec<Placement>, usize)> {
    let Operators { stages, kinds, grids, searches } = operators;
    let mut considered = 0;
    // For each operator and place of its result, the cheapest way there.
    let mut steps: Vec<[Option<Backpointer>; 3]> = Vec::with_capacity(stages.len());
    // The input of the chain is visible to both processors.
    let mut costs = [None, None, Some(0.0)];
    for (index, (stage, grid)) in stages.iter().zip(*grids).enumerate() {
        let previous = index.checked_sub(1).map(|previous| &stages[previous]);
        let mut next: [Option<(f64, Backpointer)>; 3] = [None; 3];
        for (state, cost) in costs.iter().enumerate() {
            let Some(before_cost) = cost else { continue };
            let before = steps.last().and_then(|steps| steps[state]).map(|step| step.placement);
            let mut lead = lead(simulator, options, previous.zip(before), state);
            let host = StartDelays::of_host(simulator, stage);
            if previous.is_none() {
                lead.gpu = host.gpu;
            }
            if index + 1 == stages.len() {
                lead.behind_gpu = host.behind_gpu;
            }
            let found = if lead == StartDelays::default() && !has_own_memory(simulator.device()) {
                None
            } else {
                let of = (kinds[index], stage);
                let search = search_grid(simulator, of, options, lead, (grid, together))?;
                considered += search.considered;
                Some(search)
            };
            let search = found.as_ref().unwrap_or(&searches[index]);
            // In the order of the states that they lead to.
            let candidates = [search.cpu_only, search.gpu_only, search.split];
            for (target, candidate) in next.iter_mut().zip(candidates) {
                let Some(candidate) = candidate else { continue };
                let cost = before_cost + options.objective.cost(candidate.latency, candidate.energy);
                if target.is_none_or(|(cheapest, _)| cost < cheapest) {
                    *target = Some((cost, Backpointer { placement: candidate.placement, before: state }));
                }
            }
        }
        costs = next.map(|best| best.map(|(cost, _)| cost));
        steps.push(next.map(|best| best.map(|(_, step)| step)));
    }
    let reached = (0..costs.len()).filter_map(|state| Some((costs[state]?, state)));
    let (_, mut state) =
        reached.min_by(|one, other| one.0.total_cmp(&other.0)).ok_or(SimulateError::NothingToUse)?;
    let mut placements = Vec::with_capacity(stages.len());
    for reached in steps.iter().rev() {
        let Some(step) = reached[state] else { break };
        placements.push(step.placement);
        state = step.before;
    }
    placements.reverse();
    Ok((placements, considered))
}

/// How late the processors can start when the previous operator's result lies at
/// `state`, after the placement that led there.
fn lead(
    simulator: &Simulator<'_>,
    options: &SearchOptions,
    previous: Option<(&Stage, Placement)>,
    state: usize,
) -> StartDelays {
    let Some((previous, placement)) = previous else { return StartDelays::default() };
    let bytes = result_bytes(&previous.layer);
    let crossing =
        |direction| between_cpu_and_gpu(simulator.device(), options.synchronisation, bytes, direction);
    match (state, placement) {
        (ON_CPU, _) => StartDelays { gpu: crossing(Direction::ToGpu), ..StartDelays::default() },
        (ON_GPU, _) => StartDelays { cpu: crossing(Direction::ToHost), ..StartDelays::default() },
        (_, placement) if placement.is_cut() => {
            StartDelays { gpu: completing(simulator, previous, placement), ..StartDelays::default() }
        }
        _ => StartDelays::default(),
    }
}

/// What it takes that a GPU with memory of its own has the CPU's part of a joined
/// `stage`, too.
fn completing(simulator: &Simulator<'_>, stage: &Stage, cut: Placement) -> Picos {
    let on_host = cut.parts().find(|part| part.by != Processor::Gpu);
    cut.axis().zip(on_host).map_or(Picos::ZERO, |(axis, part)| {
        let part = part.region.part_of(&stage.layer);
        let missing = LinkTransfer { bytes: result_bytes(&part), pieces: pieces(&part, Some(axis)) };
        copying(simulator.device(), missing, Direction::ToGpu)
    })
}

/// One placement an operator of a graph that is no chain.
fn plan_graph(
    simulator: &mut Simulator<'_>,
    options: &SearchOptions,
    operators: &Operators<'_>,
    together: &mut CoRunCache,
) -> Result<Vec<Placement>> {
    let Operators { stages, kinds, grids, searches } = *operators;
    if let [only] = searches {
        return Ok(vec![only.best.placement]);
    }
    let objective = options.objective;
    let mut placements = Vec::with_capacity(stages.len());
    for (index, (stage, alone)) in stages.iter().zip(searches).enumerate() {
        let (device, bytes) = (simulator.device(), result_bytes(&stage.layer));
        let [onto_host, onto_gpu] = [Direction::ToHost, Direction::ToGpu]
            .map(|direction| between_cpu_and_gpu(device, options.synchronisation, bytes, direction));
        // Alone, a GPU with memory of its own gets its inputs from the host; here it
        // has them.
        let inside = if has_own_memory(simulator.device()) {
            let of = (kinds[index], stage);
            Some(search_grid(simulator, of, options, StartDelays::default(), (&grids[index], together))?)
        } else {
            None
        };
        let search = inside.as_ref().unwrap_or(alone);
        let cost = |candidate: &Candidate| {
            let cut = candidate.placement;
            let crossings = match cut.only() {
                Some(Processor::Cpu(_)) => onto_host + onto_gpu,
                None if inside.is_some() => onto_host + completing(simulator, stage, cut),
                Some(Processor::Gpu | Processor::Npu(_)) | None => Picos::ZERO,
            };
            objective.cost(candidate.latency + crossings, candidate.energy)
        };
        let found = [search.gpu_only, search.split, search.cpu_only].into_iter().flatten();
        let cheapest = found.min_by(|one, other| cost(one).total_cmp(&cost(other)));
        placements.push(cheapest.map_or(search.best.placement, |candidate| candidate.placement));
    }
    Ok(placements)
}
