//! The best of plans that are bred: what a search has to beat, beside chance.
//!
//! A plain genetic search. The first generation is drawn as `random` draws. Of each, the best go on as they
//! are; the others come from two parents, each the best of a few that are drawn: operators up to one place from
//! one parent, behind it from the other, and now and then an operator is drawn anew.
//! Invariant: the answer is a function of workload, device, options, budget and seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use coexec_sim::explore::{Choices, Explorer, RandomSearch, choices};
use coexec_sim::plan::{Placement, Plan};
use coexec_sim::simulate::{Result, SimulateError};

/// Plans of a generation, those that go on as they are, and those of which the best is a parent.
const POPULATION: usize = 40;
const ELITE: usize = 2;
const TOURNAMENT: usize = 3;

/// Who computes what, and what that costs.
#[derive(Clone)]
struct Individual {
    cost: f64,
    placements: Vec<Placement>,
}

/// The best plan that was bred.
///
/// # Errors
/// No processor offered has a kernel for an operator, or no plan fits the GPU's own memory.
pub(super) fn find(explorer: &mut Explorer<'_, '_>, search: RandomSearch) -> Result<Plan> {
    let choices = choices(explorer)?;
    let mut stream = ChaCha8Rng::seed_from_u64(search.seed);
    let mut generation: Vec<Individual> = Vec::new();
    let mut left = search.plans.max(1);
    while left > 0 {
        let elite = &generation[..ELITE.min(generation.len())];
        let mut next: Vec<Individual> = elite.to_vec();
        while left > 0 && next.len() < POPULATION {
            let placements = if generation.is_empty() {
                choices.iter().map(|choices| choices.draw(&mut stream)).collect()
            } else {
                bred(&generation, &choices, &mut stream)
            };
            let plan = explorer.plan(placements);
            let cost = explorer.fitting_cost(&plan)?;
            next.push(Individual { cost, placements: plan.placements });
            left -= 1;
        }
        next.sort_by(|one, other| one.cost.total_cmp(&other.cost));
        generation = next;
    }
    let best = generation.into_iter().next().filter(|best| best.cost.is_finite());
    best.map(|best| explorer.plan(best.placements)).ok_or(SimulateError::NothingToUse)
}

/// A plan of two parents; one operator is drawn anew, on average.
fn bred(generation: &[Individual], choices: &[Choices], stream: &mut ChaCha8Rng) -> Vec<Placement> {
    let count = choices.len();
    // A generation is sorted: the first of those drawn is the best.
    let mut parent = || {
        let drawn = (0..TOURNAMENT).map(|_| stream.random_range(0..generation.len()));
        &generation[drawn.min().unwrap_or_default()].placements
    };
    let [first, second] = [parent(), parent()];
    let place = stream.random_range(0..=count);
    let mut placements: Vec<Placement> = first[..place].iter().chain(&second[place..]).copied().collect();
    for (placement, choices) in placements.iter_mut().zip(choices) {
        if stream.random_range(0..count) == 0 {
            *placement = choices.draw(stream);
        }
    }
    placements
}
