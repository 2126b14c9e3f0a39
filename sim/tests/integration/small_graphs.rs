//! A graph whose best plan differs from the best one without it in three operators at once.

use coexec_sim::explore::{SearchOptions, Strategy, explore};
use coexec_sim::input::Text;
use coexec_sim::kernel::CoreSet;
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan, Processor};
use coexec_sim::scenario::{Overrides, Scenario};

/// Found by an independent search (see `cuts_that_fit_each_other_are_found`) among random graphs.
const GRAPH: &str = r#"
title = "products and sums of three images"
device = "pixel4"
[[input]]
name = "first"
extent = [1, 56, 56, 256]
[[input]]
name = "second"
extent = [1, 56, 56, 256]
[[input]]
name = "third"
extent = [1, 56, 56, 256]
[[operator]]
name = "product"
from = ["second", "third"]
function = "multiply"
[[operator]]
name = "square"
from = ["product", "third"]
function = "multiply"
[[operator]]
name = "sum"
from = ["square", "product"]
function = "add"
[[operator]]
name = "scaled"
from = ["sum", "third"]
function = "multiply"
[[operator]]
name = "conv"
from = ["product"]
conv2d = { input = [56, 56, 256], output_channels = 16, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "last"
from = ["sum", "second"]
function = "add"
"#;

/// The convolution and the last sum are cut and their parts left apart, and the CPU takes a third operator in between.
/// Each of the three changes alone makes the plan slower. 200,000 steps of an independent annealing found this plan; the
/// search without annealing stays 2.6 % above it.
#[test]
fn cuts_that_fit_each_other_are_found() {
    let text = Text { name: "graph.toml".to_owned(), content: GRAPH.to_owned() };
    let scenario = Scenario::parse("graph", &text, &Overrides::default()).unwrap();
    let stages = scenario.stages();
    let cores = |set| CoreSet::parse(set, &scenario.device.cpu).unwrap();
    let cut = |axis, [cpu, gpu]: [u32; 2]| {
        Placement::cut(axis, [(Processor::Cpu(cores("1large2med")), cpu), (Processor::Gpu, gpu)])
    };
    let placed = |name: &str| match name {
        "conv" => (cut(Axis::Height, [8, 48]), Some(1)),
        "last" => (cut(Axis::Channels, [192, 64]), Some(2)),
        "scaled" => (Placement::cpu(cores("1large1med")), None),
        _ => (Placement::GPU, None),
    };
    let (placements, chains) = stages.iter().map(|stage| placed(&stage.name)).unzip();
    let position = |name: &str| stages.iter().position(|stage| stage.name == name).unwrap();
    let order = ["product", "square", "conv", "last", "scaled"].map(position).to_vec();
    let known = Plan { chains, order, ..Plan::new(Mechanism::SvmPolling, placements) };
    let mut simulator = scenario.simulator();
    let latency = simulator.latency(stages, &known).unwrap();
    let options = SearchOptions { strategy: Strategy::Optimal, ..SearchOptions::on(&scenario.device) };
    let found = explore(&mut simulator, stages, &options).unwrap();
    assert!(found.prediction.latency <= latency, "{} after {latency}", found.prediction.latency);
}
