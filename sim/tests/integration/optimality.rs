//! The plans of `optimal` against exhaustive search on small graphs, random changes, and its bound.

use coexec_sim::device::Profile;
use coexec_sim::explore::{Effort, Objective, SearchOptions, Strategy, explore};
use coexec_sim::input::Text;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Mechanism, PlanFile, PlannedOperator};
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::simulate::{Prediction, Simulator};
use coexec_sim::workload::Stage;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A sequence of convolutions that is worth chaining along rows where joins are expensive.
const SEQUENCE: &str = r#"
title = "three convolutions"
[[operator]]
name = "first"
conv2d = { input = [56, 56, 64], output_channels = 128, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "second"
conv2d = { input = [56, 56, 128], output_channels = 128, kernel = [1, 1] }
[[operator]]
name = "third"
conv2d = { input = [56, 56, 128], output_channels = 64, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
"#;

/// Two branches, one for each processor, and their concatenation.
const BRANCHES: &str = r#"
title = "two branches"
[[operator]]
name = "first"
conv2d = { input = [28, 28, 64], output_channels = 128, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "one"
from = ["first"]
conv2d = { input = [28, 28, 128], output_channels = 128, kernel = [1, 1] }
[[operator]]
name = "other"
from = ["first"]
conv2d = { input = [28, 28, 128], output_channels = 128, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "joined"
from = ["one", "other"]
concat = true
"#;

/// Two convolutions of one image, and an operator that reads both in this order.
fn two_convolutions(order: [&str; 2]) -> String {
    format!(
        r#"
title = "two convolutions of one image"
[[input]]
name = "x"
extent = [1, 28, 28, 32]
[[operator]]
name = "a"
from = ["x"]
conv2d = {{ input = [28, 28, 32], output_channels = 32, kernel = [3, 3], padding = {{ top = 1, bottom = 1, left = 1, right = 1 }} }}
[[operator]]
name = "b"
from = ["x"]
conv2d = {{ input = [28, 28, 32], output_channels = 32, kernel = [1, 1] }}
[[operator]]
name = "both"
from = {order:?}
concat = "channels"
[[operator]]
name = "last"
conv2d = {{ input = [28, 28, 64], output_channels = 64, kernel = [1, 1] }}
"#
    )
}

/// One head of attention: queries and keys come from one tensor, so both can belong to one chain.
const HEAD: &str = r#"
title = "one head"
[[input]]
name = "x"
extent = [1, 1, 197, 128]
[[operator]]
name = "wide"
from = ["x"]
linear = { rows = 197, input_features = 128, output_features = 512 }
[[operator]]
name = "narrow"
linear = { rows = 197, input_features = 512, output_features = 128 }
[[operator]]
name = "tokens"
norm = "layer"
[[operator]]
name = "queries"
linear = { rows = 197, input_features = 128, output_features = 128 }
[[operator]]
name = "keys"
from = ["tokens"]
linear = { rows = 197, input_features = 128, output_features = 128 }
[[operator]]
name = "turned"
transpose = ["batch", "height", "channels", "width"]
[[operator]]
name = "scores"
from = ["queries", "turned"]
matmul = { m = 197, k = 128, n = 197 }
[[operator]]
name = "weights"
softmax = true
"#;

/// A model on a device.
struct Case {
    device: Profile,
    stages: Vec<Stage>,
    options: SearchOptions,
}

impl Case {
    /// `model` is the text of a scenario or the name of a bundled network.
    fn new(model: &str, device: &str, synchronisation: Mechanism, objective: Objective) -> Self {
        let scenario = if model.contains('=') {
            let text = Text { name: "graph.toml".to_owned(), content: model.to_owned() };
            Scenario::parse("graph", &text, &Overrides::default())
        } else {
            Scenario::load(model, &Overrides::default())
        };
        let Workload::Model(stages) = scenario.unwrap().workload else { panic!("{model} is no model") };
        let device = Profile::load(device).unwrap();
        let core_sets = vec![CoreSet::fastest(&device.cpu, 2).unwrap()];
        let options = SearchOptions {
            strategy: Strategy::Optimal,
            objective,
            synchronisation,
            core_sets,
            step: 4,
            effort: Effort::default(),
        };
        Self { device, stages, options }
    }

    /// Cost of the plan that `explore` finds with `effort`, and the bound.
    fn explored(model: &str, device: &str, effort: Effort) -> [f64; 2] {
        let mut case = Self::new(model, device, Mechanism::SvmPolling, Objective::Latency);
        let strategy = Strategy::Optimal;
        case.options = SearchOptions { strategy, effort, ..SearchOptions::on(&case.device) };
        let (_, cost, bound) = case.found();
        [cost, bound]
    }

    fn simulator(&self) -> Simulator<'_> {
        Simulator::new(&self.device, Library::Xnnpack)
    }

    /// The plan of `optimal` as a file, its cost, and the lower bound.
    fn found(&self) -> (PlanFile, f64, f64) {
        let answer = explore(&mut self.simulator(), &self.stages, &self.options).unwrap();
        let cost = self.options.objective.cost(answer.prediction.latency, answer.prediction.energy);
        (PlanFile::new("graph", &self.device, &self.stages, &answer.plan), cost, answer.bound.unwrap())
    }

    /// The cost of the plan in a file; `None` if the file is not a valid plan.
    fn cost(&self, simulator: &mut Simulator<'_>, file: &PlanFile) -> Option<f64> {
        let text = Text { name: "plan.toml".to_owned(), content: String::new() };
        let plan = file.resolve(&text, &self.stages, &self.device).ok()?;
        let prediction = simulator.run(&self.stages, &plan).ok()?;
        Some(self.options.objective.cost(prediction.latency, prediction.energy))
    }

    /// Entries of a plan file for one operator: whole on each processor, or cut between CPU and GPU
    /// at each multiple of `1 / parts`.
    fn choices(&self, stage: &Stage, parts: u32) -> Vec<PlannedOperator> {
        let (name, output) = (&stage.name, stage.layer.operator.output());
        let cpu = format!("processor = \"cpu\", cores = \"{}\"", self.options.core_sets[0]);
        let gpu = "processor = \"gpu\"";
        let mut shares = vec![("none", format!("{{ {cpu} }}")), ("none", format!("{{ {gpu} }}"))];
        if self.device.npu.is_some() {
            shares.push(("none", "{ processor = \"npu\" }".to_owned()));
        }
        for part in 1..parts {
            // Channels are cut between texels, so that no cut is at a disadvantage.
            for (partition, what, all, grain) in
                [("height", "rows", output.height, 1), ("output-channels", "channels", output.channels, 4)]
            {
                let of_cpu = all * part / parts / grain * grain;
                let of_gpu = all - of_cpu;
                let text = format!("{{ {cpu}, {what} = {of_cpu} }}, {{ {gpu}, {what} = {of_gpu} }}");
                shares.push((partition, text));
            }
        }
        let planned = |(partition, shares): (&str, String)| {
            let text = format!("name = {name:?}\npartition = \"{partition}\"\nshares = [{shares}]");
            coexec_sim::input::from_toml(&text).unwrap()
        };
        shares.into_iter().map(planned).collect()
    }

    /// The least cost of all plans of these choices, and the number of plans.
    fn least(&self, parts: u32) -> (f64, usize) {
        let mut simulator = self.simulator();
        let (mut file, ..) = self.found();
        file.operator.clear();
        for stage in &self.stages {
            file.operator.push(self.choices(stage, parts).remove(0));
        }
        let mut choices = Vec::new();
        for (index, stage) in self.stages.iter().enumerate() {
            // Not every operator can be cut along each axis.
            let mut possible = self.choices(stage, parts);
            possible.retain(|choice| {
                let mut file = file.clone();
                file.operator[index] = choice.clone();
                self.cost(&mut simulator, &file).is_some()
            });
            choices.push(possible);
        }
        let (mut least, mut count) = (f64::INFINITY, 0);
        for number in 0..choices.iter().map(Vec::len).product() {
            let mut rest: usize = number;
            for (operator, choices) in file.operator.iter_mut().zip(&choices) {
                operator.clone_from(&choices[rest % choices.len()]);
                rest /= choices.len();
            }
            for chain in [None, Some(1)] {
                for operator in file.operator.iter_mut().filter(|operator| operator.shares.len() > 1) {
                    operator.chain = chain;
                }
                if let Some(cost) = self.cost(&mut simulator, &file) {
                    least = least.min(cost);
                    count += 1;
                }
            }
        }
        (least, count)
    }

    /// The cost after `changes` random changes of one operator each, of which improvements are
    /// kept, and the number of changes simulated.
    fn walked(&self, mut file: PlanFile, mut cost: f64, changes: usize) -> (f64, usize) {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut simulator = self.simulator();
        let mut simulated = 0;
        for _ in 0..changes {
            let index = random.random_range(0..self.stages.len());
            let mut changed = file.clone();
            let operator = &mut changed.operator[index];
            let stage = self.stages.iter().find(|stage| stage.name == operator.name).unwrap();
            *operator = self.choices(stage, 16).choose(&mut random).unwrap().clone();
            if let Some(other) = self.cost(&mut simulator, &changed) {
                simulated += 1;
                if other < cost {
                    (file, cost) = (changed, other);
                }
            }
        }
        (cost, simulated)
    }
}

#[test]
fn no_plan_of_a_small_graph_is_better_than_the_one_found() {
    for (graph, parts, device, mechanism, objective) in [
        (SEQUENCE, 8, "pixel4", Mechanism::EventWait, Objective::Latency),
        (SEQUENCE, 8, "oneplus11", Mechanism::SvmPolling, Objective::Latency),
        (SEQUENCE, 4, "pixel4", Mechanism::SvmPolling, Objective::Energy),
        (SEQUENCE, 4, "pixel4", Mechanism::SvmPolling, Objective::Edp),
        (BRANCHES, 4, "pixel4", Mechanism::SvmPolling, Objective::Latency),
        (BRANCHES, 4, "galaxy-s10", Mechanism::EventWait, Objective::Latency),
        (SEQUENCE, 4, "snapdragon-8gen3", Mechanism::SvmPolling, Objective::Latency),
        (BRANCHES, 4, "snapdragon-8gen3", Mechanism::SvmPolling, Objective::Latency),
    ] {
        let case = Case::new(graph, device, mechanism, objective);
        let ((least, count), (_, found, bound)) = (case.least(parts), case.found());
        let percent = 100.0 * (found / least - 1.0);
        println!(
            "{device}, {mechanism}, {objective:?}: {percent:+.2} % relative to the best of {count} plans"
        );
        assert!(count > 500, "{count} plans");
        assert!(found <= least, "{device}, {mechanism}, {objective:?}: {percent:.2} % worse");
        let tight = 100.0 * (found / bound - 1.0);
        println!("at most {tight:.2} % from the best");
        assert!(bound <= found, "{device}, {mechanism}, {objective:?}: a bound {tight:.2} % too high");
    }
}

/// Most that random changes may gain over the plan found, in percent; here they gain at most 0.03.
const MAX_GAIN_PERCENT: f64 = 0.3;

#[test]
fn random_changes_hardly_improve_the_plan_of_a_network() {
    for (network, device, mechanism) in [
        ("mobilenet-v2", "pixel4", Mechanism::SvmPolling),
        ("resnet18", "galaxy-s10", Mechanism::EventWait),
        ("codl-retinaface", "oneplus11", Mechanism::SvmPolling),
    ] {
        let case = Case::new(network, device, mechanism, Objective::Latency);
        let (file, cost, bound) = case.found();
        let (walked, simulated) = case.walked(file, cost, 1500);
        let percent = 100.0 * (cost / walked - 1.0);
        println!("{network} on {device}: {simulated} changes gain {percent:.2} %");
        assert!(simulated > 500, "{simulated} changes");
        assert!(percent <= MAX_GAIN_PERCENT, "{network} on {device}: {percent:.2} %");
        assert!(bound <= walked, "{network} on {device}: the bound is above a plan");
    }
}

/// Hand-overs of other inputs overlap the wait for a joined one, in whichever order they are read.
#[test]
fn no_bound_exceeds_a_plan_of_the_graph_with_reordered_operands() {
    for device in ["pixel4", "galaxy-s10"] {
        let orders = [["a", "b"], ["b", "a"]].map(two_convolutions);
        let found = orders.map(|graph| Case::explored(&graph, device, Effort::Quick));
        for ([_, bound], [cost, _]) in [(found[0], found[1]), (found[1], found[0])] {
            assert!(bound <= cost * (1.0 + 1e-9), "{device}: {bound} is above {cost}");
        }
    }
}

/// Two branches of one input, of which the wide one is best on the NPU, with the groups of operators listed in `order`.
fn listed(order: [usize; 3]) -> String {
    const WIDE: &str = r#"
[[operator]]
name = "wide"
from = ["x"]
conv2d = { input = [75, 75, 35], output_channels = 82, kernel = [5, 5], padding = { top = 2, bottom = 2, left = 2, right = 2 } }
"#;
    const AFTER_WIDE: &str = r#"
[[operator]]
name = "pooled"
from = ["wide"]
pool = { kind = "average", input = [75, 75, 82], kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "depthwise"
depthwise_conv2d = { input = [75, 75, 82], kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
"#;
    const NARROW: &str = r#"
[[operator]]
name = "narrow"
from = ["x"]
conv2d = { input = [75, 75, 35], output_channels = 21, kernel = [1, 1] }
[[operator]]
name = "filtered"
conv2d = { input = [75, 75, 21], output_channels = 64, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
"#;
    let groups = order.map(|group| [WIDE, AFTER_WIDE, NARROW][group]).concat();
    format!(
        r#"
title = "two branches"
data_type = "f16"
[[input]]
name = "x"
extent = [1, 75, 75, 35]
{groups}
[[operator]]
name = "joined"
from = ["filtered", "depthwise"]
concat = true
"#
    )
}

/// An operator of another processor that is read inside a graph of the NPU has to be computed before the graph begins,
/// which is not so in the order that is listed first.
#[test]
fn a_plan_does_not_depend_on_the_order_in_which_branches_are_listed() {
    let [[one, _], [other, _]] =
        [[0, 2, 1], [2, 0, 1]].map(|order| Case::explored(&listed(order), "dimensity-9300", Effort::Normal));
    assert!((one / other - 1.0).abs() < 1e-3, "{one} and {other} seconds");
}

/// Parallel results of one chain are joined once.
#[test]
fn no_bound_at_low_effort_exceeds_a_plan_found_at_higher_effort() {
    for graph in [HEAD, BRANCHES] {
        let [[_, bound], [cost, _]] =
            [Effort::Quick, Effort::Thorough].map(|effort| Case::explored(graph, "mi8se", effort));
        assert!(bound <= cost * (1.0 + 1e-9), "{bound} is above {cost}");
    }
}

/// Most by which the final random changes may favour another search, in percent; 0.4 here.
const TOLERANCE_PERCENT: f64 = 0.5;

#[test]
fn no_plan_for_another_objective_is_better_by_this_one() {
    let objectives = [Objective::Latency, Objective::Energy, Objective::Edp];
    let predictions = objectives.map(|objective| {
        let case = Case::new("vit-tiny-p16", "jetson-agx-orin", Mechanism::SvmPolling, objective);
        explore(&mut case.simulator(), &case.stages, &case.options).unwrap().prediction
    });
    for (objective, own) in objectives.into_iter().zip(&predictions) {
        let cost = |plan: &Prediction| objective.cost(plan.latency, plan.energy);
        let least = predictions.iter().map(cost).fold(f64::INFINITY, f64::min);
        let percent = 100.0 * (cost(own) / least - 1.0);
        assert!(percent <= TOLERANCE_PERCENT, "{objective:?}: {percent:.2} % above {least}");
    }
}
