//! A plain genetic algorithm: a baseline for the search of `optimal`, in addition to random plans.
//!
//! The first generation is drawn as `random` draws. Of each generation the elite survives; the other plans
//! are bred from two parents picked by tournament, with one-point crossover over the operators and, as
//! mutation, operators drawn again at random.
//! Invariant: the answer is a function of workload, device, options, budget and seed.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use coexec_sim::explore::{Choices, Explorer, RandomSearch, choices};
use coexec_sim::plan::{Placement, Plan};
use coexec_sim::simulate::{Result, SimulateError};

/// Plans per generation, plans that survive unchanged, and plans drawn per tournament.
const POPULATION: usize = 40;
const ELITE: usize = 2;
const TOURNAMENT: usize = 3;

/// The placements of a plan and their cost.
#[derive(Clone)]
struct Individual {
    cost: f64,
    placements: Vec<Placement>,
}

/// The best plan of the last generation.
///
/// # Errors
/// No available processor has a kernel for an operator, or no plan fits the GPU's own memory.
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

/// Crosses two parents and mutates one operator, on average.
fn bred(generation: &[Individual], choices: &[Choices], stream: &mut ChaCha8Rng) -> Vec<Placement> {
    let count = choices.len();
    // A generation is sorted by cost: the lowest index drawn is the best plan.
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
