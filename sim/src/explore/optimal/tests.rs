//! No plan is below the bound, and the search comes close to it.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, proptest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::device::{ProcessorKind, Profile};
use crate::explore::{SearchOptions, Strategy, explore};
use crate::kernel::Library;
use crate::plan::{Axis, Mechanism, Placement, Plan, Processor};
use crate::simulate::{Measure, Pipeline, Simulator};
use crate::workload::{
    DataType, GraphBuilder, Layer, Linear, Operator, PoolKind, Shape, Stage, Window, fuse, network,
};

const NETWORKS: [&str; 7] = [
    "resnet18",
    "mobilenet-v2",
    "inception-v3",
    "codl-retinaface",
    "vit-tiny-p16",
    "efficientnet-b2",
    "vgg16",
];
const DEVICES: [&str; 7] =
    ["pixel4", "mi8se", "oneplus11", "jetson-agx-orin", "snapdragon-8gen3", "apple-m1", "h200"];

/// An interval of a network's stages, as a workload of its own.
fn part_of(stages: &[Stage], start: usize, count: usize) -> Vec<Stage> {
    let start = start % stages.len();
    (start..stages.len()).take(count).map(|stage| contention::within(stages, start, stage)).collect()
}

/// Whether the bound covers a plan: it does not cover chains with the NPU.
fn is_covered(plan: &Plan) -> bool {
    let mut chained = (0..plan.placements.len()).filter(|&stage| plan.chain(stage).is_some());
    !chained.any(|stage| plan.placements[stage].uses(ProcessorKind::Npu))
}

/// The least cost of the covered plans on a random walk that accepts every improvement and some other
/// changes; and the number of plans simulated.
fn walked(explorer: &mut Explorer<'_, '_>, model: &Model<'_>, steps: usize, seed: u64) -> (f64, usize) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let count = model.stages.len();
    let starts = [Placement::GPU, Placement::cpu(model.core_sets[0]), Placement::NPU];
    let start = starts[random.random_range(0..if model.uses_npu { 3 } else { 2 })];
    let mut plan = explorer.plan(vec![start; count]);
    let mut known = f64::INFINITY;
    let (mut least, mut simulated) = (f64::INFINITY, 0);
    for _ in 0..steps {
        let changed = walk::changed(model, &plan, walk::ALL_CHANGE_KINDS, &mut random);
        let Some(changed) = changed.filter(is_covered) else { continue };
        let Ok(cost) = explorer.cost_of(&changed) else { continue };
        simulated += 1;
        least = least.min(cost);
        if cost < known || random.random_bool(0.1) {
            (plan, known) = (changed, cost);
        }
    }
    (least, simulated)
}

/// The bound without the cost of a known plan as its limit.
fn unlimited_bound(explorer: &Explorer<'_, '_>, model: &Model<'_>) -> f64 {
    let unit = if model.weights == Weights::TIME { PICOS_PER_SECOND } else { 1.0 };
    relaxed(explorer, model, f64::INFINITY) / unit
}

proptest! {
    #[test]
    fn no_walked_plan_is_below_the_bound(
        net in 0..NETWORKS.len(),
        device in 0..DEVICES.len(),
        (start, count) in (0_usize..200, 1_usize..12),
        mechanism in prop::sample::select(Mechanism::ALL),
        measure in prop::sample::select(&[Measure::Operators, Measure::Inference][..]),
        objective in prop::sample::select(&[Objective::Latency, Objective::Latency, Objective::Energy][..]),
        seed in any::<u64>(),
    ) {
        let device = Profile::load(DEVICES[device]).unwrap();
        let stages = part_of(&fuse(&network(NETWORKS[net]).unwrap()), start, count);
        let objective = if device.power.is_some() { objective } else { Objective::Latency };
        let options = SearchOptions { objective, synchronisation: mechanism, ..SearchOptions::on(&device) };
        let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu)).measuring(measure);
        let mut explorer = Explorer::new(&mut simulator, &stages, &options);
        let weights = first_weights(&mut explorer)[0];
        let mut model = Model::new(&explorer).unwrap();
        model.weights = weights;
        let bound = unlimited_bound(&explorer, &model);
        let (least, simulated) = walked(&mut explorer, &model, 150, seed);
        prop_assert!(bound <= least * (1.0 + 1e-12), "bound {bound}, {least} the least of {simulated} plans");
        prop_assert!(bound > 0.0);
    }
}

#[test]
fn no_plan_next_to_the_one_found_is_better() {
    let stages = part_of(&fuse(&network("mobilenet-v2").unwrap()), 10, 8);
    for device in ["pixel4", "oneplus11"] {
        let device = Profile::load(device).unwrap();
        let options = SearchOptions::on(&device);
        let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
        let mut explorer = Explorer::new(&mut simulator, &stages, &options);
        let found = explorer.find(Strategy::Optimal).unwrap().plan;
        let cost = explorer.cost_of(&found).unwrap();
        let model = Model::new(&explorer).unwrap();
        let next = (0..stages.len()).flat_map(|stage| walk::neighbours(&model, &found, stage));
        for plan in next.collect::<Vec<_>>() {
            assert!(explorer.cost_of(&plan).is_ok_and(|other| other >= cost), "{plan:?}");
        }
    }
}

#[test]
fn the_npu_is_dispatched_after_its_wait_only_where_the_cpu_shares_the_operator() {
    let device = Profile::load("apple-m1").unwrap();
    let stages = part_of(&fuse(&network("resnet18").unwrap()), 2, 1);
    let mut options = SearchOptions::on(&device);
    for (mechanism, dispatch_us) in [(Mechanism::SleepThenPoll, 230.0), (Mechanism::SvmPolling, 0.0)] {
        options.synchronisation = mechanism;
        let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
        let explorer = Explorer::new(&mut simulator, &stages, &options);
        let model = Model::new(&explorer).unwrap();
        let shares = model.shares(0, Axis::Height).unwrap();
        let start = |members| shares.sharing(members, [Picos::ZERO; 3], [1, 1]).starts[NPU];
        assert_eq!(start([true, false, true]), Picos::from_micros(dispatch_us));
        assert_eq!(start([false, true, true]), Picos::ZERO);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Contention for memory slows all processors here.
    #[test]
    fn no_plan_of_products_with_large_weights_is_below_the_bound(
        device in prop::sample::select(&["oneplus11", "snapdragon-8gen3", "apple-m1", "dimensity-9300"][..]),
        rows in prop::sample::select(&[1_u32, 1, 8, 50][..]),
        sizes in prop::collection::vec(1_u32..1_000, 2..4),
        scale in prop::sample::select(&[1_u32, 8, 25][..]),
        seed in any::<u64>(),
    ) {
        let device = Profile::load(device).unwrap();
        let mut net = GraphBuilder::new("products", DataType::F32);
        let mut last = net.input(Shape::tokens(rows, sizes[0] * scale));
        for size in &sizes[1..] {
            last = net.linear(last, size * scale);
        }
        let stages = fuse(&net.build().unwrap());
        let options = SearchOptions { strategy: Strategy::Optimal, ..SearchOptions::on(&device) };
        let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
        let found = explore(&mut simulator, &stages, &options).unwrap().prediction.latency.as_seconds();
        let mut explorer = Explorer::new(&mut simulator, &stages, &options);
        let model = Model::new(&explorer).unwrap();
        let bound = unlimited_bound(&explorer, &model);
        let (least, simulated) = walked(&mut explorer, &model, 300, seed);
        prop_assert!(bound <= least.min(found) * (1.0 + 1e-12), "{bound}, {found}, {least} of {simulated} plans");
    }

    /// Where branches meet, results wait for each other, among them parts of a chain. Large ones exceed the NPU's
    /// memory, and reshapes are free there.
    #[test]
    fn no_plan_of_branches_that_meet_again_is_below_the_bound(
        device in prop::sample::select(
            &["moto-edge-plus-2022", "snapdragon-8elite", "exynos-2400", "apple-m1", "pixel4", "h200"][..]
        ),
        (side, channels, scale) in (7_u32..40, 1_u32..16, prop::sample::select(&[1_u32, 3][..])),
        blocks in prop::collection::vec(prop::collection::vec(prop::collection::vec(0_u32..4, 1..4), 2..4), 1..4),
        skips in any::<bool>(),
        synchronisation in prop::sample::select(Mechanism::ALL),
        seed in any::<u64>(),
        // The last, so that saved seeds stand for the same graphs.
        objective in prop::sample::select(&[Objective::Latency, Objective::Energy][..]),
    ) {
        let device = Profile::load(device).unwrap();
        let objective = if device.power.is_some() { objective } else { Objective::Latency };
        let mut net = GraphBuilder::new("branches", DataType::F32);
        let mut last = net.input(Shape::image(scale * side, scale * side, 16 * channels));
        for block in &blocks {
            let mut ends: Vec<_> = if skips { vec![last] } else { Vec::new() };
            for branch in block {
                let layer = |end, &kind: &u32| match kind {
                    0 => net.pool(end, PoolKind::Max, Window::same(3)),
                    _ => net.conv(end, 16 * channels * kind, Window::same(2 * kind - 1)),
                };
                ends.push(branch.iter().fold(last, layer));
            }
            last = net.concat(&ends);
            if skips {
                last = net.reshape(last, net.shape(last));
            }
        }
        let stages = fuse(&net.build().unwrap());
        let (strategy, effort) = (Strategy::Optimal, Effort::Quick);
        let options = SearchOptions { strategy, objective, synchronisation, effort, ..SearchOptions::on(&device) };
        let mut simulator =
            Simulator::new(&device, Library::default_for(&device.cpu)).measuring(Measure::Inference);
        let found = explore(&mut simulator, &stages, &options).unwrap();
        let mut explorer = Explorer::new(&mut simulator, &stages, &options);
        let weights = first_weights(&mut explorer)[0];
        let mut model = Model::new(&explorer).unwrap().in_order(&explorer, found.plan.order.clone()).unwrap();
        model.weights = weights;
        let bound = unlimited_bound(&explorer, &model);
        let cost = objective.cost(found.prediction.latency, found.prediction.energy);
        prop_assert!(bound <= cost * (1.0 + 1e-12) || !is_covered(&found.plan), "{bound}, {cost} found");
        let mut model = Model::new(&explorer).unwrap();
        model.weights = weights;
        let bound = unlimited_bound(&explorer, &model);
        let (least, simulated) = walked(&mut explorer, &model, 300, seed);
        prop_assert!(bound <= least * (1.0 + 1e-12), "{bound}, {least} the least of {simulated} plans");
    }

    #[test]
    fn no_walked_plan_of_batches_in_flight_has_a_period_below_the_bound(
        net in 0..NETWORKS.len(),
        device in 0..DEVICES.len(),
        (start, count) in (0_usize..200, 1_usize..12),
        mechanism in prop::sample::select(Mechanism::ALL),
        (depth, gap_us) in (1_u32..10, prop::sample::select(&[0.0, 50.0, 2_000.0][..])),
        seed in any::<u64>(),
    ) {
        let device = Profile::load(DEVICES[device]).unwrap();
        let stages = part_of(&fuse(&network(NETWORKS[net]).unwrap()), start, count);
        let options = SearchOptions { synchronisation: mechanism, ..SearchOptions::on(&device) };
        let mut simulator =
            Simulator::new(&device, Library::default_for(&device.cpu)).measuring(Measure::Inference);
        let pipeline = Pipeline::new(depth, gap_us);
        let mut explorer = Explorer::new(&mut simulator, &stages, &options).streaming(Some(&pipeline));
        let model = Model::new(&explorer).unwrap();
        let latency = Picos(relaxed(&explorer, &model, f64::INFINITY) as u64);
        let bound = throughput::bound(&model, &pipeline, latency);
        let (least, simulated) = walked(&mut explorer, &model, 100, seed);
        prop_assert!(bound <= least * (1.0 + 1e-9), "bound {bound}, {least} the least of {simulated} plans");
        prop_assert!(bound > 0.0);
    }
}

/// If the CPU dispatches the NPU's part early, neither the time nor the energy of the dispatch counts.
#[test]
fn the_bound_of_energy_includes_the_saving_of_an_early_dispatch() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let product = Linear { rows: 1, input_features: 4_096, output_features: 28_672, bias: false };
    let stages =
        [Stage::single("product".to_owned(), Layer::new(Operator::Linear(product), DataType::W4A16))];
    let synchronisation = Mechanism::SleepThenPoll;
    let options =
        SearchOptions { objective: Objective::Energy, synchronisation, ..SearchOptions::on(&device) };
    let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
    let mut explorer = Explorer::new(&mut simulator, &stages, &options);
    let mut model = Model::new(&explorer).unwrap();
    model.weights = first_weights(&mut explorer)[0];
    let shares = [(Processor::NPU, 28_672 - 64), (Processor::Gpu, 64)];
    let early = explorer.plan(vec![Placement::cut(Axis::Channels, shares)]);
    let late = Plan { synchronisation: Mechanism::SvmPolling, ..early.clone() };
    let cost = explorer.cost_of(&early).unwrap();
    assert!(unlimited_bound(&explorer, &model) <= cost);
    assert!(cost < explorer.cost_of(&late).unwrap());
}

#[test]
fn no_strategy_streams_batches_faster_and_processors_share_what_one_batch_would_not() {
    for (net, device, most) in
        [("resnet18", "pixel4", 0.95), ("mobilenet-v2", "oneplus11", 0.84), ("vgg16", "jetson-agx-orin", 1.0)]
    {
        let device = Profile::load(device).unwrap();
        let stages = fuse(&network(net).unwrap());
        let options = SearchOptions::on(&device);
        let mut simulator = Simulator::new(&device, Library::Xnnpack).measuring(Measure::Inference);
        let pipeline = Pipeline::new(3, 100.0);
        let alone = Explorer::new(&mut simulator, &stages, &options).find(Strategy::Optimal).unwrap();
        let mut explorer = Explorer::new(&mut simulator, &stages, &options).streaming(Some(&pipeline));
        let found = explorer.find(Strategy::Optimal).unwrap();
        let period = found.period;
        for strategy in Strategy::of_operators() {
            let Ok(other) = explorer.find(strategy) else { continue };
            assert!(period <= other.period, "{net} by {}", strategy.name());
        }
        let of_one_batch = explorer.found(Strategy::Optimal, alone.plan, 0).unwrap().period.unwrap().0 as f64;
        assert!((period.unwrap().0 as f64) < most * of_one_batch, "{net}: {period:?}, {of_one_batch}");
        assert!(explorer.bound(&found).unwrap() <= period.unwrap().as_seconds());
    }
}

#[test]
fn plans_are_within_a_percent_of_the_bound_and_cut_where_a_gpu_can_start() {
    for (net, device, most_percent) in [
        ("resnet18", "pixel4", 0.2),
        ("mobilenet-v2", "oneplus11", 0.2),
        ("resnet50", "snapdragon-8gen3", 1.0),
        ("codl-posenet", "mi8se", 0.2),
        ("efficientnet-b2", "jetson-agx-orin", 0.5),
        ("vgg16", "snapdragon-8gen3", 1.0),
        ("vit-b32-mlp", "apple-m1", 1.0),
        ("codl-retinaface", "apple-m1", 3.0),
        ("codl-retinaface", "moto-edge-plus-2022", 10.0),
        ("inception-v3", "moto-edge-plus-2022", 5.0),
    ] {
        let device = Profile::load(device).unwrap();
        let stages = fuse(&network(net).unwrap());
        let options = SearchOptions { strategy: Strategy::Optimal, ..SearchOptions::on(&device) };
        let mut simulator = Simulator::new(&device, Library::Xnnpack).measuring(Measure::Inference);
        let answer = explore(&mut simulator, &stages, &options).unwrap();
        let gap = 100.0 * (answer.prediction.latency.as_seconds() / answer.bound.unwrap() - 1.0);
        assert!((0.0..most_percent).contains(&gap), "{net} on {}: {gap} %", device.name);
        for (placement, stage) in answer.plan.placements.iter().zip(&stages) {
            let all = stage.layer.operator.output().channels;
            let on_gpu = placement.parts().filter(|part| part.by == Processor::Gpu);
            let starts =
                on_gpu.flat_map(|part| [part.region.channels.start, part.region.channels.end.min(all)]);
            for channel in starts.filter(|&channel| channel < all) {
                assert_eq!(channel % Axis::Channels.unit(), 0, "{}: {placement:?}", stage.name);
            }
        }
    }
}

#[test]
fn bounds_of_energy_are_close_where_memory_takes_much_of_it() {
    for (net, device, objective, most_percent) in [
        ("mobilenet-v2", "oneplus11", Objective::Energy, 0.2),
        ("resnet18", "snapdragon-8gen3", Objective::Energy, 5.0),
        ("resnet18", "oneplus11", Objective::Edp, 6.0),
    ] {
        let device = Profile::load(device).unwrap();
        let stages = fuse(&network(net).unwrap());
        let strategy = Strategy::Optimal;
        let options = SearchOptions { strategy, objective, ..SearchOptions::on(&device) };
        let mut simulator = Simulator::new(&device, Library::Xnnpack).measuring(Measure::Inference);
        let answer = explore(&mut simulator, &stages, &options).unwrap();
        let cost = objective.cost(answer.prediction.latency, answer.prediction.energy);
        let gap = 100.0 * (cost / answer.bound.unwrap() - 1.0);
        assert!((0.0..most_percent).contains(&gap), "{net} on {}: {gap} %", device.name);
    }
}

/// A plan with an order of its own runs like a plan of a workload that lists its operators in that
/// order.
#[test]
fn a_plan_with_an_order_takes_as_long_as_on_stages_in_that_order() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for (net, device) in [("inception-v3", "snapdragon-8gen3"), ("inception-v3", "h200")] {
        let device = Profile::load(device).unwrap();
        let stages = fuse(&network(net).unwrap());
        let options = SearchOptions::on(&device);
        let mut simulator =
            Simulator::new(&device, Library::default_for(&device.cpu)).measuring(Measure::Inference);
        let explorer = Explorer::new(&mut simulator, &stages, &options);
        let model =
            Model::new(&explorer).unwrap().in_order(&explorer, other_orders(&stages).remove(0)).unwrap();
        let mut plan = explorer.plan(vec![Placement::GPU; stages.len()]);
        let mut simulated = 0;
        for _ in 0..400 {
            let Some(changed) = walk::changed(&model, &plan, walk::ALL_CHANGE_KINDS, &mut random) else {
                continue;
            };
            let Ok(expected) = explorer.simulator.run(&model.stages, &changed) else { continue };
            let ordered = model.for_workload(changed.clone());
            assert_eq!(ordered.of_ordered(), changed);
            let found = explorer.simulator.run(&stages, &ordered).unwrap();
            assert_eq!((found.latency, found.memory), (expected.latency, expected.memory), "{net}");
            (plan, simulated) = (changed, simulated + 1);
        }
        assert!(simulated > 100, "{simulated} plans of {net} could be simulated");
    }
}

/// The plan is equally good whichever of two branches a model file lists first.
#[test]
fn plans_do_not_depend_on_which_branch_is_listed_first() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let latency = |first_is_long: bool| {
        let mut net = GraphBuilder::new("branches", DataType::F32);
        let mut x = net.input(Shape::image(28, 28, 64));
        for _ in 0..3 {
            let mut branches = [3, 1].map(|layers| (x, layers));
            if !first_is_long {
                branches.reverse();
            }
            let ends = branches.map(|(mut end, layers)| {
                for _ in 0..layers {
                    end = net.conv(end, 64, Window::same(5));
                }
                end
            });
            x = net.concat(&if first_is_long { ends } else { [ends[1], ends[0]] });
            x = net.conv(x, 64, Window::same(1));
        }
        let stages = fuse(&net.build().unwrap());
        let options = SearchOptions { strategy: Strategy::Optimal, ..SearchOptions::on(&device) };
        let mut simulator = Simulator::new(&device, Library::Xnnpack).measuring(Measure::Inference);
        let answer = explore(&mut simulator, &stages, &options).unwrap();
        let latency = answer.prediction.latency.as_seconds();
        assert!(answer.bound.unwrap() <= latency * (1.0 + 1e-12));
        latency
    };
    let [one, other] = [true, false].map(latency);
    assert!((one / other - 1.0).abs() < 0.002, "{one} s, {other} s");
}
