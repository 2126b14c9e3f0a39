//! Strategies that cut operators one at a time, and those of a single processor.
//!
//! Operators in a row are planned by dynamic programming over where its latest result lies:
//! with the CPU, with the GPU, or visible to both after a join. Each operator is
//! then priced with the hand-over its placement needs. In any other
//! graph, operators are planned one by one, as EPEW'25 does: the GPU is the
//! default, a cut must pay for its join, and the CPU alone must pay for the
//! hand-overs to and fro. Either way the plan is simulated as a whole. What is best
//! for each operator alone, and a single processor, win where they are faster: under
//! contention a hand-over's price is a bound, so that the dynamic programme can miss.

use std::rc::Rc;

use super::channel_split::{Candidate, Lead, Search, Together, search_grid};
use super::explorer::{Baseline, Explorer, Found};
use super::grid::Grid;
use super::{Objective, Options, Strategy};
use crate::device::gpu::{Cargo, Direction};
use crate::plan::{Axis, Placement, Plan};
use crate::simulate::{
    SimulateError, Simulator, copying, hand_over_delay, has_own_memory, pieces, result_bytes,
};
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
pub(super) fn find(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Found, SimulateError> {
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
        let plan = explorer.plan(placements);
        match explorer.found(strategy, plan, considered) {
            Ok(answer) => found.push(answer),
            // Operators were searched one by one: together they may be too much for it.
            Err(SimulateError::GpuMemoryFull { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    if options.objective != Objective::Latency {
        // Waiting costs energy, too, which operators one by one do not know of: what is
        // fastest can also need least.
        let fastest = Options { objective: Objective::Latency, ..options.clone() };
        let plan = Explorer::new(explorer.simulator, stages, &fastest).find(strategy)?.plan;
        found.push(explorer.found(strategy, plan, considered)?);
    }
    found.extend(explorer.baselines().into_iter().map(|Baseline { plan, prediction, .. }| Found {
        strategy,
        plan,
        prediction,
        considered,
    }));
    // The first of equals: the plan that was searched for.
    found
        .into_iter()
        .reduce(
            |best, other| {
                if explorer.cost(&other.prediction) < explorer.cost(&best.prediction) { other } else { best }
            },
        )
        .ok_or(SimulateError::NothingToUse)
}

/// Every operator on the one processor of `strategy`; the CPU with the core set
/// that is best for the whole workload.
pub(super) fn uniform(explorer: &mut Explorer<'_, '_>, strategy: Strategy) -> Result<Plan, SimulateError> {
    let everywhere =
        |placement| Plan::new(explorer.options.synchronisation, vec![placement; explorer.stages.len()]);
    if strategy != Strategy::CpuOnly {
        let placement = if strategy == Strategy::NpuOnly { Placement::Npu } else { Placement::Gpu };
        return Ok(everywhere(placement));
    }
    let mut best: Option<(f64, Plan)> = None;
    for &cores in &explorer.options.core_sets {
        let plan = everywhere(Placement::Cpu(cores));
        let prediction = explorer.simulator.run(explorer.stages, &plan)?;
        let cost = explorer.cost(&prediction);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, plan));
        }
    }
    best.map(|(_, plan)| plan).ok_or(SimulateError::NothingToUse)
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

/// The cheapest way to have computed a chain up to some operator: what it cost,
/// and the choice that ended it.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    cost: f64,
    choice: Option<usize>,
}

/// A placement of one operator, after the choice for the operator before it.
#[derive(Clone, Copy, Debug)]
struct Choice {
    placement: Placement,
    before: Option<usize>,
}

/// Plans operators in a row.
fn plan_chain(
    simulator: &mut Simulator<'_>,
    options: &Options,
    operators: &Operators<'_>,
    together: &mut Together,
) -> Result<(Vec<Placement>, usize), SimulateError> {
    let Operators { stages, kinds, grids, searches } = operators;
    let mut considered = 0;
    let mut choices: Vec<Choice> = Vec::with_capacity(3 * stages.len());
    // The input of the chain is visible to both processors.
    let mut prefixes = [None, None, Some(Prefix { cost: 0.0, choice: None })];
    for (index, (stage, grid)) in stages.iter().zip(*grids).enumerate() {
        let previous = index.checked_sub(1).map(|previous| &stages[previous]);
        let mut next: [Option<(f64, Choice)>; 3] = [None; 3];
        for (state, prefix) in prefixes.iter().enumerate() {
            let Some(prefix) = prefix else { continue };
            let before = prefix.choice.map(|choice| choices[choice].placement);
            let mut lead = lead(simulator, options, previous.zip(before), state);
            let host = Lead::of_host(simulator, stage);
            if previous.is_none() {
                lead.gpu = host.gpu;
            }
            if index + 1 == stages.len() {
                lead.behind_gpu = host.behind_gpu;
            }
            let found = if lead == Lead::default() && !has_own_memory(simulator.device()) {
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
                let cost = prefix.cost + options.objective.cost(candidate.latency, candidate.energy);
                if target.is_none_or(|(cheapest, _)| cost < cheapest) {
                    *target = Some((cost, Choice { placement: candidate.placement, before: prefix.choice }));
                }
            }
        }
        prefixes = next.map(|best| {
            let (cost, choice) = best?;
            choices.push(choice);
            Some(Prefix { cost, choice: Some(choices.len() - 1) })
        });
    }
    let cheapest = prefixes
        .into_iter()
        .flatten()
        .reduce(|best, other| if other.cost < best.cost { other } else { best })
        .ok_or(SimulateError::NothingToUse)?;
    let last = cheapest.choice.map(|index| choices[index]);
    let mut placements: Vec<Placement> =
        std::iter::successors(last, |choice| choice.before.map(|index| choices[index]))
            .map(|choice| choice.placement)
            .collect();
    placements.reverse();
    Ok((placements, considered))
}

/// How late the processors can start when the previous operator's result lies at
/// `state`, after the placement that led there.
fn lead(
    simulator: &Simulator<'_>,
    options: &Options,
    previous: Option<(&Stage, Placement)>,
    state: usize,
) -> Lead {
    let Some((previous, placement)) = previous else { return Lead::default() };
    let crossing = |direction| between_cpu_and_gpu(simulator, options, previous, direction);
    match (state, placement) {
        (ON_CPU, _) => Lead { gpu: crossing(Direction::ToGpu), ..Lead::default() },
        (ON_GPU, _) => Lead { cpu: crossing(Direction::ToHost), ..Lead::default() },
        (_, placement) if placement.is_cut() => {
            Lead { gpu: completing(simulator, previous, placement), ..Lead::default() }
        }
        _ => Lead::default(),
    }
}

/// What it costs that CPU or GPU reads what the other computed of `stage`.
fn between_cpu_and_gpu(
    simulator: &Simulator<'_>,
    options: &Options,
    stage: &Stage,
    direction: Direction,
) -> Picos {
    let (device, bytes) = (simulator.device(), result_bytes(&stage.layer));
    hand_over_delay(device, options.synchronisation, bytes, true)
        + copying(device, Cargo::whole(bytes), direction)
}

/// What it takes that a GPU with memory of its own has the CPU's part of a joined
/// `stage`, too.
fn completing(simulator: &Simulator<'_>, stage: &Stage, cut: Placement) -> Picos {
    let axis = if matches!(cut, Placement::HeightSplit { .. }) { Axis::Height } else { Axis::Channels };
    cut.parts(&stage.layer).map_or(Picos::ZERO, |[part, _]| {
        let missing = Cargo { bytes: result_bytes(&part), pieces: pieces(&part, axis) };
        copying(simulator.device(), missing, Direction::ToGpu)
    })
}

/// One placement an operator of a graph that is no chain.
fn plan_graph(
    simulator: &mut Simulator<'_>,
    options: &Options,
    operators: &Operators<'_>,
    together: &mut Together,
) -> Result<Vec<Placement>, SimulateError> {
    let Operators { stages, kinds, grids, searches } = *operators;
    if let [only] = searches {
        return Ok(vec![only.best.placement]);
    }
    let objective = options.objective;
    let mut placements = Vec::with_capacity(stages.len());
    for (index, (stage, alone)) in stages.iter().zip(searches).enumerate() {
        let onto_host = between_cpu_and_gpu(simulator, options, stage, Direction::ToHost);
        let onto_gpu = between_cpu_and_gpu(simulator, options, stage, Direction::ToGpu);
        // Alone, a GPU with memory of its own gets its inputs from the host; here it
        // has them.
        let inside = if has_own_memory(simulator.device()) {
            let of = (kinds[index], stage);
            Some(search_grid(simulator, of, options, Lead::default(), (&grids[index], together))?)
        } else {
            None
        };
        let search = inside.as_ref().unwrap_or(alone);
        let cost = |candidate: &Candidate| {
            let crossings = match candidate.placement {
                Placement::Cpu(_) => onto_host + onto_gpu,
                cut if cut.is_cut() && inside.is_some() => onto_host + completing(simulator, stage, cut),
                _ => Picos::ZERO,
            };
            objective.cost(candidate.latency + crossings, candidate.energy)
        };
        let cheapest = [search.gpu_only, search.split, search.cpu_only]
            .into_iter()
            .flatten()
            .reduce(|best, other| if cost(&other) < cost(&best) { other } else { best });
        placements.push(cheapest.map_or(search.best.placement, |candidate| candidate.placement));
    }
    Ok(placements)
}
