//! Which plan to advise under the errors of a profile.
//!
//! Responsible for: how often a plan is faster than the best single processor, and plans of little
//! regret. Not for: the size of the errors (`simulate::uncertainty`), or the search itself. Invariant:
//! plans are judged on held-out draws, not on those that they were found or chosen on.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;

use super::{Answer, Effort, Explorer, Found, SearchOptions, Strategy};
use crate::device::{ProcessorKind, Profile};
use crate::plan::Plan;
use crate::simulate::{DRAWS, Deviation, Drawn, Errors, Prediction, Result, Simulator, latencies, latency};
use crate::units::Picos;
use crate::workload::Stage;

/// Share of draws in which a plan must be faster than the best single processor to be advised.
pub const CONFIDENCE: f64 = 0.8;

/// Draws on which a plan is chosen.
const SELECTION_DRAWS: Range<u64> = DRAWS..2 * DRAWS;

/// Draws for each of which a plan is searched.
const SEARCH_DRAWS: Range<u64> = 2 * DRAWS..2 * DRAWS + 24;

/// Number of crossovers of plans.
const CROSSOVERS: usize = 400;

/// Seed of the crossovers.
const SEED: u64 = 1;

/// Weight of the mean regret next to the 95th percentile in [`Regret::P95`].
const MEAN_WEIGHT: f64 = 0.1;

/// Factor on some of a profile's times, for the sensitivity of a gain to them.
const SENSITIVITY_FACTOR: f64 = 1.1;

/// How often a plan is faster than the best single processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Certainty {
    /// The best single processor.
    pub over: Strategy,
    /// Draws of the profile's errors.
    pub draws: u64,
    /// Draws in which the plan is faster.
    pub faster: u64,
    /// The errors that were drawn from.
    pub errors: Errors,
}

impl Certainty {
    /// Compares a plan, whose latencies in draws of `errors` are `own`, with a single processor's.
    pub fn new(own: &Drawn, (over, single): (Strategy, &Drawn), errors: Errors) -> Self {
        Self { over, draws: DRAWS, faster: own.times_faster(single), errors }
    }

    /// Whether the plan is faster in at least the share `confidence` of the draws.
    pub fn is_sure(&self, confidence: f64) -> bool {
        self.faster as f64 >= confidence * self.draws as f64
    }
}

/// Statistic of regret over draws. Regret in a draw is a plan's latency over that of the fastest plan
/// known for the draw, less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Regret {
    /// Its mean.
    Mean,
    /// Its 95th percentile.
    P95,
}

/// The regret of one plan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Regrets {
    /// Mean over draws, in percent.
    pub mean_percent: f64,
    /// 95th percentile, in percent.
    pub p95_percent: f64,
    /// Draws in which no plan is faster.
    pub best: u64,
}

/// A plan of little regret, and the nominal plan: the one that is best if the profile has no error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Robust {
    /// The plan chosen, and its prediction if the profile has no error.
    #[serde(skip)]
    pub found: Found,
    /// Its regret.
    pub chosen: Regrets,
    /// Regret of the nominal plan.
    pub nominal: Regrets,
    /// Plans compared.
    pub plans: usize,
    /// Held-out draws on which both are judged.
    pub draws: u64,
}

/// How the gain of one plan over another depends on some of a profile's times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The processor whose times these are; `None` for hand-overs and joins.
    pub processor: Option<ProcessorKind>,
    /// The gain, a ratio of latencies, if these times are a tenth longer.
    pub gain: f64,
    /// How much the error of these times alone changes the gain, in percent.
    pub error_percent: f64,
}

/// The best single processor; `None` if `plan` is that. One that does not fit into the memory counts only where the
/// answer's plan does not fit either.
pub fn best_single<'a>(answer: &'a Answer, plan: &Plan) -> Option<&'a Found> {
    let is_too_large = |prediction: &Prediction| prediction.fits_memory == Some(false);
    let cost = |single: &&Found| (is_too_large(&single.prediction), single.prediction.latency);
    let counts = |best: &&Found| is_too_large(&answer.prediction) || !is_too_large(&best.prediction);
    answer.baselines.iter().min_by_key(cost).filter(counts).filter(|best| best.plan != *plan)
}

/// The plan of least regret among those of `answer`, those searched for draws of errors, and their
/// crossovers.
///
/// # Errors
/// As [`super::explore`].
pub fn robust(
    simulator: &mut Simulator<'_>,
    (stages, options): (&[Stage], &SearchOptions),
    answer: &Answer,
    (errors, regret): (&Errors, Regret),
) -> Result<Robust> {
    // The first is the nominal plan.
    let mut plans = vec![answer.plan.clone()];
    let of_draws = plans_of_draws(simulator, (stages, options), errors)?;
    let singles = answer.baselines.iter().map(|single| single.plan.clone());
    for plan in singles.chain(of_draws) {
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    let judge = Judge { simulator, stages, errors };
    plans.push(judge.crossed(&plans, regret)?);
    let taken = judge.all(&plans, 0..DRAWS)?;
    let fastest = fastest(&taken);
    let mut index = plans.len() - 1;
    let mut prediction = simulator.run(stages, &plans[index])?;
    // A crossover of plans that fit into the memory may not fit.
    if prediction.fits_memory == Some(false) && answer.prediction.fits_memory == Some(true) {
        (index, prediction) = (0, answer.prediction.clone());
    }
    let [nominal, chosen] = [0, index].map(|plan| Regrets::of(&taken[plan], &fastest));
    let (strategy, plan) = (options.strategy, plans.swap_remove(index));
    let found = Found { strategy, plan, prediction, considered: answer.considered, period: None };
    Ok(Robust { found, chosen, nominal, plans: plans.len(), draws: DRAWS })
}

/// Simulates plans of one workload in draws of errors.
struct Judge<'s, 'a> {
    simulator: &'s Simulator<'a>,
    stages: &'s [Stage],
    errors: &'s Errors,
}

impl Judge<'_, '_> {
    /// Latency of each plan in each draw.
    fn all(&self, plans: &[Plan], draws: Range<u64>) -> Result<Vec<Vec<Picos>>> {
        let of = |plan| latencies(self.simulator, (self.stages, plan, None), self.errors, draws.clone());
        plans.par_iter().map(of).collect()
    }

    /// The plan of least regret, improved by intervals of stages from other plans.
    fn crossed(&self, plans: &[Plan], regret: Regret) -> Result<Plan> {
        let taken = self.all(plans, SELECTION_DRAWS)?;
        let fastest = fastest(&taken);
        let cost = |taken: &Vec<Picos>| Regrets::of(taken, &fastest).cost(regret);
        let costs: Vec<f64> = taken.iter().map(cost).collect();
        let least = (0..plans.len()).min_by(|&one, &other| costs[one].total_cmp(&costs[other]));
        let least = least.unwrap_or_default();
        let (mut best, mut least) = (plans[least].clone(), costs[least]);
        let mut random = ChaCha8Rng::seed_from_u64(SEED);
        for _ in 0..CROSSOVERS {
            let other = &plans[random.random_range(0..plans.len())];
            let start = random.random_range(0..self.stages.len());
            let end = random.random_range(start..self.stages.len()) + 1;
            let crossed = crossed(&best, other, start..end);
            // A plan that contains only part of a chain may be invalid.
            let Ok(taken) =
                latencies(self.simulator, (self.stages, &crossed, None), self.errors, SELECTION_DRAWS)
            else {
                continue;
            };
            let cost = cost(&taken);
            if cost < least {
                (best, least) = (crossed, cost);
            }
        }
        Ok(best)
    }
}

/// `plan` with an interval of stages from `other`, whose chains get numbers of their own.
fn crossed(plan: &Plan, other: &Plan, stages: Range<usize>) -> Plan {
    let mut crossed = plan.clone();
    crossed.chains.resize(plan.placements.len(), None);
    let last = crossed.chains.iter().flatten().max().map_or(0, |chain| chain + 1);
    for stage in stages {
        crossed.placements[stage] = other.placements[stage];
        crossed.chains[stage] = other.chain(stage).map(|chain| chain + last);
    }
    crossed
}

/// The best plan for the device of each draw in [`SEARCH_DRAWS`].
fn plans_of_draws(
    simulator: &Simulator<'_>,
    (stages, options): (&[Stage], &SearchOptions),
    errors: &Errors,
) -> Result<Vec<Plan>> {
    let options = SearchOptions { strategy: Strategy::Optimal, effort: Effort::Quick, ..options.clone() };
    let device = simulator.device();
    let plan = |draw: u64| {
        let Deviation { computing, synchronisation, .. } = errors.deviation(draw);
        let drawn = Profile { sync: device.sync.scaled(synchronisation), ..device.clone() };
        let mut simulator = simulator.deviating(&drawn, computing);
        Ok(Explorer::new(&mut simulator, stages, &options).find(Strategy::Optimal)?.plan)
    };
    SEARCH_DRAWS.into_par_iter().map(plan).collect()
}

/// The latency of the fastest plan in each draw.
fn fastest(taken: &[Vec<Picos>]) -> Vec<Picos> {
    let draws = taken.first().map_or(0, Vec::len);
    (0..draws).map(|draw| taken.iter().map(|of| of[draw]).min().unwrap_or_default()).collect()
}

impl Regrets {
    /// The regret of a plan with latency `taken` in each draw.
    fn of(taken: &[Picos], fastest: &[Picos]) -> Self {
        let both = || taken.iter().zip(fastest);
        let of_draw = |(taken, fastest): (&Picos, &Picos)| 100.0 * (taken.0 as f64 / fastest.0 as f64 - 1.0);
        let mut regrets: Vec<f64> = both().map(of_draw).collect();
        regrets.sort_by(f64::total_cmp);
        let rank = (0.95 * regrets.len() as f64).ceil() as usize;
        Self {
            mean_percent: regrets.iter().sum::<f64>() / regrets.len().max(1) as f64,
            p95_percent: regrets.get(rank.saturating_sub(1)).copied().unwrap_or_default(),
            best: both().filter(|(taken, fastest)| taken <= fastest).count() as u64,
        }
    }

    fn cost(&self, regret: Regret) -> f64 {
        match regret {
            Regret::Mean => self.mean_percent,
            Regret::P95 => self.p95_percent + MEAN_WEIGHT * self.mean_percent,
        }
    }
}

/// The sensitivities of the gain of `plan` over another, the largest first.
///
/// # Errors
/// As [`Simulator::run`].
pub fn sensitivities(
    simulator: &Simulator<'_>,
    (stages, plan): (&[Stage], &Plan),
    over: &Plan,
    errors: &Errors,
) -> Result<Vec<Sensitivity>> {
    let gain = |deviation: Deviation| -> Result<f64> {
        let of = |plan: &Plan| latency(simulator, (stages, plan), deviation);
        Ok(of(over)?.0 as f64 / of(plan)?.0 as f64)
    };
    let nominal = gain(Deviation::NONE)?;
    let longer = |processor: Option<ProcessorKind>| {
        let mut deviation = Deviation::NONE;
        let error_percent = if let Some(kind) = processor {
            deviation.computing[kind as usize] = SENSITIVITY_FACTOR;
            errors.common_percent[kind as usize]
        } else {
            deviation.synchronisation = SENSITIVITY_FACTOR;
            errors.meeting_percent
        };
        let gain = gain(deviation)?;
        let error_percent = (gain / nominal - 1.0).abs() / (SENSITIVITY_FACTOR - 1.0) * error_percent;
        Ok(Sensitivity { processor, gain, error_percent })
    };
    let all = ProcessorKind::ALL.into_iter().map(Some).chain([None]);
    let mut all = all.map(longer).collect::<Result<Vec<_>>>()?;
    all.retain(|sensitivity| sensitivity.error_percent > 0.0);
    all.sort_by(|one, other| other.error_percent.total_cmp(&one.error_percent));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Quantity;
    use crate::explore::explore;
    use crate::kernel::cpu::Library;
    use crate::simulate::Measure;
    use crate::workload::{fuse, network};

    /// The case of the specification with the shortest search.
    fn case() -> (Profile, Vec<Stage>) {
        (Profile::load("pixel4").unwrap(), fuse(&network("mobilenet-v2").unwrap()))
    }

    fn optimal(device: &Profile) -> SearchOptions {
        SearchOptions { strategy: Strategy::Optimal, effort: Effort::Quick, ..SearchOptions::on(device) }
    }

    #[test]
    fn a_gain_is_certain_without_errors_and_less_so_with_larger_ones() {
        let (device, stages) = case();
        let mut simulator = Simulator::new(&device, Library::Xnnpack).measuring(Measure::Inference);
        let answer = explore(&mut simulator, &stages, &optimal(&device)).unwrap();
        let single = best_single(&answer, &answer.plan).unwrap();
        let faster = |percent| {
            let errors = Errors::common(percent);
            let of = |plan| Drawn::of(&simulator, (&stages, plan), None, &errors).unwrap();
            of(&answer.plan).times_faster(&of(&single.plan))
        };
        let [none, some, large] = [0.0, 20.0, 120.0].map(faster);
        assert_eq!(none, DRAWS);
        assert!(none >= some && some > large, "{none} {some} {large}");
        assert!(best_single(&answer, &single.plan).is_none());
        let of = (stages.as_slice(), &answer.plan);
        let found = sensitivities(&simulator, of, &single.plan, &Errors::common(10.0)).unwrap();
        let on_gpu = found.iter().find(|found| found.processor == Some(ProcessorKind::Gpu)).unwrap();
        let on_cpu = found.iter().find(|found| found.processor == Some(ProcessorKind::Cpu)).unwrap();
        assert!(on_gpu.gain > on_cpu.gain, "a slower GPU makes help from the CPU worth more");
        assert!(found.iter().all(|found| found.processor != Some(ProcessorKind::Npu)), "it has no NPU");
    }

    #[test]
    fn a_plan_that_does_not_fit_the_memory_is_passed_over_while_another_fits() {
        let (device, stages) = case();
        let holding = |bytes: u64| {
            let mut device = device.clone();
            device.memory.capacity_gb = Some(Quantity::plain((bytes as f64 + 0.5) / 1e9));
            device
        };
        let found = |device: Profile| {
            let mut simulator = Simulator::new(&device, Library::Xnnpack).measuring(Measure::Inference);
            explore(&mut simulator, &stages, &optimal(&device)).unwrap()
        };
        let usual = found(device.clone());
        let needed = usual.baselines[0].prediction.peak_memory;
        assert!(usual.prediction.peak_memory > needed);
        let answer = found(holding(needed.0));
        assert_eq!(answer.prediction.fits_memory, Some(true));
        assert!(answer.prediction.latency <= usual.baselines[0].prediction.latency);
        // Where none fits, the plan is the usual one, and one processor alone still counts beside it.
        let none = found(holding(1));
        assert_eq!((&none.plan, none.prediction.fits_memory), (&usual.plan, Some(false)));
        assert!(best_single(&none, &none.plan).is_some());
        let fitting = Answer { prediction: usual.prediction, ..none };
        assert!(best_single(&fitting, &fitting.plan).is_none(), "one that does not fit is no alternative");
    }

    #[test]
    fn regret_is_over_the_best_plan_of_each_draw() {
        let of = |times: [u64; 2]| times.map(Picos).to_vec();
        let taken = [of([100, 300]), of([200, 150])];
        let [one, other] = [0, 1].map(|plan| Regrets::of(&taken[plan], &fastest(&taken)));
        for regrets in [one, other] {
            assert!((regrets.mean_percent - 50.0).abs() + (regrets.p95_percent - 100.0).abs() < 1e-9);
            assert_eq!(regrets.best, 1);
        }
    }
}
