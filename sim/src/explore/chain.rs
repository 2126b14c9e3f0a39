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

use super::channel_split::{Candidate, Grid, Lead, Search, search_grid};
use super::{Options, Strategy};
use crate::plan::{Placement, Plan};
use crate::simulate::{Prediction, SimulateError, Simulator, hand_over_delay, result_bytes};
use crate::units::Picos;
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
    if options.strategy != Strategy::ChannelSplit {
        let plan = uniform(simulator, stages, options, options.strategy)?;
        let prediction = simulator.run(stages, &plan)?;
        return Ok(Answer { plan, prediction, baselines: Vec::new(), searches: Vec::new(), considered: 1 });
    }
    let mut parts = simulator.of_parts();
    let grids =
        stages.iter().map(|stage| Grid::new(&parts, stage, options)).collect::<Result<Vec<Grid>, _>>()?;
    let searches = stages
        .iter()
        .zip(&grids)
        .map(|(stage, grid)| search_grid(&mut parts, stage, options, Lead::default(), grid))
        .collect::<Result<Vec<Search>, _>>()?;
    let mut considered = searches.iter().map(|search| search.considered).sum();
    let placements = if stages.len() > 1 && is_chain(stages) {
        let (placements, more) = plan_chain(&mut parts, stages, options, &grids, &searches)?;
        considered += more;
        placements
    } else {
        plan_graph(&parts, stages, options, &searches)
    };
    let mut plan = Plan { synchronisation: options.synchronisation, placements };
    let mut prediction = simulator.run(stages, &plan)?;
    let baselines = baselines(simulator, stages, options);
    let alone = searches.iter().map(|search| search.best.placement).collect();
    let greedy = Plan { synchronisation: options.synchronisation, placements: alone };
    let greedy_prediction = simulator.run(stages, &greedy)?;
    let others = baselines.iter().map(|baseline| (&baseline.plan, &baseline.prediction));
    for (other, predicted) in std::iter::once((&greedy, &greedy_prediction)).chain(others) {
        let cost = |prediction: &Prediction| options.objective.cost(prediction.latency, prediction.energy);
        if cost(predicted) < cost(&prediction) {
            plan = other.clone();
            prediction = predicted.clone();
        }
    }
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
    let everywhere = |placement| Plan {
        synchronisation: options.synchronisation,
        placements: vec![placement; stages.len()],
    };
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
fn baselines(simulator: &mut Simulator<'_>, stages: &[Stage], options: &Options) -> Vec<Baseline> {
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
    grids: &[Grid],
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
            let lead = lead(simulator, options, previous, state);
            let found = if lead == Lead::default() {
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

/// How late the processors can start when the previous result lies at `state`.
fn lead(simulator: &Simulator<'_>, options: &Options, previous: Option<&Stage>, state: usize) -> Lead {
    let Some(previous) = previous else { return Lead::default() };
    let delay = between_cpu_and_gpu(simulator, options, previous);
    match state {
        ON_CPU => Lead { cpu: Picos::ZERO, gpu: delay },
        ON_GPU => Lead { cpu: delay, gpu: Picos::ZERO },
        _ => Lead::default(),
    }
}

/// What it costs that CPU or GPU reads what the other computed of `stage`.
fn between_cpu_and_gpu(simulator: &Simulator<'_>, options: &Options, stage: &Stage) -> Picos {
    hand_over_delay(simulator.device(), options.synchronisation, result_bytes(&stage.layer), true)
}

/// One placement an operator of a graph that is no chain.
fn plan_graph(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    options: &Options,
    searches: &[Search],
) -> Vec<Placement> {
    if let [only] = searches {
        return vec![only.best.placement];
    }
    let objective = options.objective;
    stages
        .iter()
        .zip(searches)
        .map(|(stage, search)| {
            let delay = between_cpu_and_gpu(simulator, options, stage);
            let cost = |candidate: &Candidate| {
                let crossings = if matches!(candidate.placement, Placement::Cpu(_)) { 2 } else { 0 };
                objective.cost(candidate.latency + delay * crossings, candidate.energy)
            };
            [search.gpu_only, search.split, search.cpu_only]
                .into_iter()
                .flatten()
                .reduce(|best, other| if cost(&other) < cost(&best) { other } else { best })
                .map_or(search.best.placement, |candidate| candidate.placement)
        })
        .collect()
}
