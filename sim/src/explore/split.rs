//! Strategies that cut operators one at a time, and those of a single processor.
//!
//! A sequence of operators is planned by dynamic programming over the place of the latest result:
//! on the CPU, on the GPU, or visible to both after a join. Each operator is priced with the
//! hand-over that its placement needs. In any other graph, operators are planned one by one, as in
//! EPEW'25: the GPU is the default, a cut includes the price of its join, and the CPU alone that of
//! the hand-overs in both directions. Either way the plan is simulated as a whole, and compared with
//! the plan of each operator's best placement alone and with a single processor: under contention a
//! hand-over's price is a lower bound, so the dynamic programme can miss the best plan.

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

/// The operators to plan, with each one's grids and its search result on its own.
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
    // With shared memory, a cut takes as long inside a workload as on its own.
    let co_runs =
        if has_own_memory(inside.device()) { &mut explorer.co_runs_inside } else { &mut explorer.co_runs };
    let placements = if stages.len() > 1 && is_chain(stages) {
        let (placements, more) = plan_chain(&mut inside, options, &operators, co_runs)?;
        considered += more;
        placements
    } else {
        plan_graph(&mut inside, options, &operators, co_runs)?
    };
    let alone = searches.iter().map(|search| search.best.placement).collect();
    let mut found = Vec::new();
    for placements in [placements, alone] {
        found.extend(explorer.fitting(strategy, explorer.plan(placements), considered)?);
    }
    if options.objective != Objective::Latency {
        // Waiting costs energy, too, which the price of a single operator leaves out: the fastest plan
        // can also need the least energy.
        let fastest = SearchOptions { objective: Objective::Latency, ..options.clone() };
        let plan = Explorer::new(explorer.simulator, stages, &fastest).find(strategy)?.plan;
        found.push(explorer.found(strategy, plan, considered)?);
    }
    // Cuts between CPU and GPU compete with these two; the NPU belongs to other strategies.
    let singles =
        [Strategy::GpuOnly, Strategy::CpuOnly].into_iter().filter_map(|one| explorer.find(one).ok());
    let singles: Vec<Found> = singles.map(|single| Found { strategy, considered, ..single }).collect();
    found.extend(singles);
    // Of equals the first wins: the plan of the search.
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

/// Whether each operator reads the result of the one before it and no other.
fn is_chain(stages: &[Stage]) -> bool {
    let reads_before = |(index, stage): (usize, &Stage)| stage.inputs().eq(index.checked_sub(1));
    stages.iter().enumerate().all(reads_before)
}

/// Place of a sequence's latest result: on the CPU, on the GPU, or (index 2) visible to
/// both, as after a join.
const ON_CPU: usize = 0;
const ON_GPU: usize = 1;

/// A placement of one operator, and the place of the result before it.
#[derive(Clone, Copy, Debug)]
struct Backpointer {
    placement: Placement,
    /// That place, as a state of the dynamic programme.
    before: usize,
}

/// Plans a sequence of operators; their placements, and the number of candidates considered.
fn plan_chain(
    simulator: &mut Simulator<'_>,
    options: &SearchOptions,
    operators: &Operators<'_>,
    co_runs: &mut CoRunCache,
) -> Result<(Vec<Placement>, usize)> {
    let Operators { stages, kinds, grids, searches } = operators;
    let mut considered = 0;
    // For each operator and each place of its result, the cheapest placement.
    let mut steps: Vec<[Option<Backpointer>; 3]> = Vec::with_capacity(stages.len());
    // The input of the sequence is visible to both processors.
    let mut costs = [None, None, Some(0.0)];
    for (index, (stage, grid)) in stages.iter().zip(*grids).enumerate() {
        let previous = index.checked_sub(1).map(|previous| &stages[previous]);
        let mut next: [Option<(f64, Backpointer)>; 3] = [None; 3];
        for (state, cost) in costs.iter().enumerate() {
            let Some(before_cost) = cost else { continue };
            let before = steps.last().and_then(|steps| steps[state]).map(|step| step.placement);
            let mut lead = start_delays(simulator, options, previous.zip(before), state);
            let host = StartDelays::of_host(simulator, stage);
            if previous.is_none() {
                lead.gpu = host.gpu;
            }
            if index + 1 == stages.len() {
                lead.after_gpu = host.after_gpu;
            }
            let found = if lead == StartDelays::default() && !has_own_memory(simulator.device()) {
                None
            } else {
                let of = (kinds[index], stage);
                let search = search_grid(simulator, of, options, lead, (grid, co_runs))?;
                considered += search.considered;
                Some(search)
            };
            let search = found.as_ref().unwrap_or(&searches[index]);
            // In the order of the states that result.
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

/// Start delays of the processors when the previous operator's result is in place `state`,
/// after the placement that put it there.
fn start_delays(
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
            StartDelays { gpu: copy_to_gpu_time(simulator, previous, placement), ..StartDelays::default() }
        }
        _ => StartDelays::default(),
    }
}

/// Time to copy the CPU's part of a joined `stage` to a GPU with memory of its own.
fn copy_to_gpu_time(simulator: &Simulator<'_>, stage: &Stage, cut: Placement) -> Picos {
    let on_host = cut.parts().find(|part| part.by != Processor::Gpu);
    cut.axis().zip(on_host).map_or(Picos::ZERO, |(axis, part)| {
        let part = part.region.part_of(&stage.layer);
        let missing = LinkTransfer { bytes: result_bytes(&part), pieces: pieces(&part, Some(axis)) };
        copying(simulator.device(), missing, Direction::ToGpu)
    })
}

/// Plans the operators of a graph that is not a sequence one by one.
fn plan_graph(
    simulator: &mut Simulator<'_>,
    options: &SearchOptions,
    operators: &Operators<'_>,
    co_runs: &mut CoRunCache,
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
        // An operator on its own copies its inputs from the host to a GPU with memory of its own;
        // inside the graph they are there already.
        let inside = if has_own_memory(simulator.device()) {
            let of = (kinds[index], stage);
            Some(search_grid(simulator, of, options, StartDelays::default(), (&grids[index], co_runs))?)
        } else {
            None
        };
        let search = inside.as_ref().unwrap_or(alone);
        let cost = |candidate: &Candidate| {
            let cut = candidate.placement;
            let crossings = match cut.only() {
                Some(Processor::Cpu(_)) => onto_host + onto_gpu,
                None if inside.is_some() => onto_host + copy_to_gpu_time(simulator, stage, cut),
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
