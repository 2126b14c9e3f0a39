//! `optimal` against plain searches with the same time budget: how much worse their plans are, and the
//! optimality gap of `optimal` to its bound.
//!
//! Each plain search is first timed on a few plans, then given as many plans as fit into the time of `optimal`,
//! including its bound.

mod genetic;
mod greedy;

use std::time::{Duration, Instant};

use coexec_sim::explore::{Explorer, RandomSearch, SearchOptions, Strategy};
use coexec_sim::plan::Plan;
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::workload::Stage;

/// Sequences and branches, with and without an NPU.
const CASES: [(&str, &str); 6] = [
    ("resnet18", "pixel4"),
    ("mobilenet-v2", "oneplus11"),
    ("inception-v3", "pixel4"),
    ("vit-b32", "mi8se"),
    ("resnet50", "snapdragon-8gen3"),
    ("codl-posenet", "jetson-agx-orin"),
];

/// Number of plans that a search is timed on.
const TIMED_PLANS: usize = 200;

/// A search that may simulate the given number of plans.
type Search = fn(&mut Explorer<'_, '_>, usize) -> Plan;

const SEARCHES: [(&str, Search); 3] = [
    ("random", |explorer, plans| {
        explorer.random(RandomSearch { plans, seed: 0 }).expect("a processor has a kernel").plan
    }),
    ("genetic", |explorer, plans| {
        genetic::find(explorer, RandomSearch { plans, seed: 0 }).expect("a processor has a kernel")
    }),
    ("greedy", |explorer, plans| greedy::find(explorer, plans).expect("a processor has a kernel")),
];

fn main() {
    println!(
        "{:14}{:18}{:>9}{:>10}{:>10}{:>10}{:>10}",
        "network", "device", "seconds", "to bound", "random", "genetic", "greedy"
    );
    for (network, device) in CASES {
        let overrides = Overrides { device: Some(device.to_owned()), ..Overrides::default() };
        let scenario = Scenario::load(network, &overrides).expect("both are bundled");
        let Workload::Model(stages) = scenario.workload.clone() else { panic!("{network} is one model") };
        let start = Instant::now();
        let (best, bound) = optimal(&scenario, &stages, &scenario.options);
        let time = start.elapsed();
        let found = SEARCHES.map(|(_, search)| in_time(&scenario, &stages, search, time));
        let over = |cost: f64| format!("+{:.1} %", 100.0 * (cost / best - 1.0));
        let [random, genetic, greedy] = found.map(over);
        println!(
            "{network:14}{device:18}{:>9.2}{:>10}{random:>10}{genetic:>10}{greedy:>10}",
            time.as_secs_f64(),
            format!("{:.1} %", 100.0 * (best / bound - 1.0)),
        );
    }
}

/// Latency of the plan of `optimal` in seconds, and its lower bound.
fn optimal(scenario: &Scenario, stages: &[Stage], options: &SearchOptions) -> (f64, f64) {
    let mut simulator = scenario.simulator();
    let mut explorer = Explorer::new(&mut simulator, stages, options);
    let found = explorer.find(Strategy::Optimal).expect("the device runs it");
    let bound = explorer.bound(&found).expect("what was simulated can be priced");
    (found.prediction.latency.as_seconds(), bound)
}

/// Cost of the plan that a search finds in about `time`.
fn in_time(scenario: &Scenario, stages: &[Stage], search: Search, time: Duration) -> f64 {
    let mut simulator = scenario.simulator();
    let mut explorer = Explorer::new(&mut simulator, stages, &scenario.options);
    // Warm up: the first plans evaluate kernel models whose results are cached for later ones.
    search(&mut explorer, TIMED_PLANS);
    let start = Instant::now();
    search(&mut explorer, TIMED_PLANS);
    let plans = TIMED_PLANS as f64 * time.as_secs_f64() / start.elapsed().as_secs_f64();
    let plan = search(&mut explorer, plans as usize);
    explorer.cost_of(&plan).expect("it was simulated before")
}
