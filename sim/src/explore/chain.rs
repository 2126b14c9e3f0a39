//! A plan for a whole workload, one operator or many.
//!
//! A chain is planned by dynamic programming over where its latest result lies:
//! with the CPU, with the GPU, or visible to both after a join. Each operator is
//! then priced with the hand-over its placement needs. In a graph that is no
//! chain, operators are planned one by one, as EPEW'25 does: the GPU is the
//! default, a cut must pay for its join, and the CPU alone must pay for the
//! hand-overs to and fro. Either way the plan is simulated as a whole. What is best
//! for each operator alone, and a single processor, win where they are faster: under
//! contention a hand-over's price is a bound, so that the dynamic programme can miss.

use super::channel_split::{Candidate, Lead, Search, grids, search_grid};
use super::grid::Grid;
use super::{Options, Strategy, rule};
use crate::device::gpu::Direction;
use crate::plan::{Placement, Plan};
use crate::simulate::{
    Prediction, SimulateError, Simulator, copying, hand_over_delay, has_own_memory, result_bytes,
};
use crate::units::{Bytes, Picos};
use crate::workload::Stage;

/// The outcome of an exploration.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The plan found.
    pub plan: Plan,
    /// What simulating it predicts.
    pub prediction: Prediction,
    /// Single processors for comparison; those the device can run it on.
    pub baselines: Vec<Baseline>,
    /// For each operator, what the search found for it alone.
    pub searches: Vec<Search>,
    /// Candidates considered.
    pub considered: usize,
}

/// The whole workload on one processor.
#[derive(Clone, Debug, PartialEq)]
pub struct Baseline {
    /// Which processor.
    pub strategy: Strategy,
    /// Its plan.
    pub plan: Plan,
    /// Its prediction.
    pub prediction: Prediction,
}

/// Finds a plan for `stages` with the strategy of `options`.
///
/// # Errors
/// The device has no processor, or no kernel, for an operator.
pub fn explore(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &Options,
) -> Result<Answer, SimulateError> {
    if let Some(answer) = rule::explore(simulator, stages, options)? {
        return Ok(answer);
    }
    if !options.strategy.cuts() {
        let plan = uniform(simulator, stages, options, options.strategy)?;
        let prediction = simulator.run(stages, &plan)?;
        return Ok(Answer { plan, prediction, baselines: Vec::new(), searches: Vec::new(), considered: 1 });
    }
    let mut parts = simulator.of_parts();
    let grids =
        stages.iter().map(|stage| grids(&parts, stage, options)).collect::<Result<Vec<Vec<Grid>>, _>>()?;
    let searches = stages
        .iter()
        .zip(&grids)
        .map(|(stage, grid)| {
            let host = Lead::of_host(&parts, stage);
            search_grid(&mut parts, stage, options, host, grid)
        })
        .collect::<Result<Vec<Search>, _>>()?;
    let mut considered = searches.iter().map(|search| search.considered).sum();
    let placements = if stages.len() > 1 && is_chain(stages) {
        let (placements, more) = plan_chain(&mut parts.inside(), stages, options, &grids, &searches)?;
        considered += more;
        placements
    } else {
        plan_graph(&mut parts.inside(), stages, options, &grids, &searches)?
    };
    let alone = searches.iter().map(|search| search.best.placement).collect();
    let mut found = Vec::new();
    for placements in [placements, alone] {
        let plan = Plan::new(options.synchronisation, placements);
        match simulator.run(stages, &plan) {
            Ok(prediction) => found.push((plan, prediction)),
            // Operators were searched one by one: together they may be too much for it.
            Err(SimulateError::GpuMemoryFull { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let baselines = baselines(simulator, stages, options);
    found.extend(baselines.iter().map(|baseline| (baseline.plan.clone(), baseline.prediction.clone())));
    let cost = |prediction: &Prediction| options.objective.cost(prediction.latency, prediction.energy);
    // The first of equals: the plan that was searched for.
    let (plan, prediction) = found
        .into_iter()
        .reduce(|best, other| if cost(&other.1) < cost(&best.1) { other } else { best })
        .ok_or(SimulateError::NothingToUse)?;
    Ok(Answer { plan, prediction, baselines, searches, considered })
}

/// Every operator on the one processor of `strategy`; the CPU with the core set
/// that is best for the whole workload.
fn uniform(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &Options,
    strategy: Strategy,
) -> Result<Plan, SimulateError> {
    let everywhere = |placement| Plan::new(options.synchronisation, vec![placement; stages.len()]);
    if strategy != Strategy::CpuOnly {
        let placement = if strategy == Strategy::NpuOnly { Placement::Npu } else { Placement::Gpu };
        return Ok(everywhere(placement));
    }
    let mut best: Option<(f64, Plan)> = None;
    for &cores in &options.core_sets {
        let plan = everywhere(Placement::Cpu(cores));
        let prediction = simulator.run(stages, &plan)?;
        let cost = options.objective.cost(prediction.latency, prediction.energy);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, plan));
        }
    }
    best.map(|(_, plan)| plan).ok_or(SimulateError::NothingToUse)
}

/// Single processors that can run the whole workload.
pub(super) fn baselines(simulator: &mut Simulator<'_>, stages: &[Stage], options: &Options) -> Vec<Baseline> {
    [Strategy::GpuOnly, Strategy::CpuOnly, Strategy::NpuOnly]
        .into_iter()
        .filter_map(|strategy| {
            let plan = uniform(simulator, stages, options, strategy).ok()?;
            let prediction = simulator.run(stages, &plan).ok()?;
            Some(Baseline { strategy, plan, prediction })
        })
        .collect()
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

/// Plans a chain; `searches` are those of its operators alone.
fn plan_chain(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &Options,
    grids: &[Vec<Grid>],
    searches: &[Search],
) -> Result<(Vec<Placement>, usize), SimulateError> {
    let mut considered = 0;
    let mut choices: Vec<Choice> = Vec::with_capacity(3 * stages.len());
    // The input of the chain is visible to both processors.
    let mut prefixes = [None, None, Some(Prefix { cost: 0.0, choice: None })];
    for (index, (stage, grid)) in stages.iter().zip(grids).enumerate() {
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
                let search = search_grid(simulator, stage, options, lead, grid)?;
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
    hand_over_delay(device, options.synchronisation, bytes, true) + copying(device, bytes, direction)
}

/// What it takes that a GPU with memory of its own has the CPU's part of a joined
/// `stage`, too.
fn completing(simulator: &Simulator<'_>, stage: &Stage, cut: Placement) -> Picos {
    let missing = cut.parts(&stage.layer).map_or(Bytes::ZERO, |[part, _]| result_bytes(&part));
    copying(simulator.device(), missing, Direction::ToGpu)
}

/// One placement an operator of a graph that is no chain.
fn plan_graph(
    simulator: &mut Simulator<'_>,
    stages: &[Stage],
    options: &Options,
    grids: &[Vec<Grid>],
    searches: &[Search],
) -> Result<Vec<Placement>, SimulateError> {
    if let [only] = searches {
        return Ok(vec![only.best.placement]);
    }
    let objective = options.objective;
    let mut placements = Vec::with_capacity(stages.len());
    for ((stage, grid), alone) in stages.iter().zip(grids).zip(searches) {
        let onto_host = between_cpu_and_gpu(simulator, options, stage, Direction::ToHost);
        let onto_gpu = between_cpu_and_gpu(simulator, options, stage, Direction::ToGpu);
        // Alone, a GPU with memory of its own gets its inputs from the host; here it
        // has them.
        let inside = if has_own_memory(simulator.device()) {
            Some(search_grid(simulator, stage, options, Lead::default(), grid)?)
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
