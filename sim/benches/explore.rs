//! The time that a user of `explore` waits for: grid searches, kernel models, whole models and strategies.

use std::hint::black_box;
use std::time::{Duration, Instant};

use coexec_sim::explore::{Explorer, SearchOptions, Strategy, explore, latency_curve, split_search};
use coexec_sim::kernel::{cpu, gpu};
use coexec_sim::plan::{Mechanism, Placement, Plan};
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::simulate::Simulator;
use coexec_sim::workload::Stage;
use criterion::{Criterion, criterion_group, criterion_main};

fn scenario(name: &str) -> (Scenario, Vec<Stage>) {
    let scenario = Scenario::load(name, &Overrides::default()).expect("the scenario is bundled");
    let Workload::Model(stages) = scenario.workload.clone() else { panic!("{name} is one model") };
    (scenario, stages)
}

/// ViT-B/32's first linear layer: 3072 channels in steps of 8 give 385 candidates.
fn grid(criterion: &mut Criterion) {
    let (scenario, stages) = scenario("vit-b32-fc1");
    let simulator = Simulator::new(&scenario.device, scenario.library);
    let three_threads = scenario.options.core_sets.last().copied().into_iter().collect();
    let one_set = SearchOptions { core_sets: three_threads, ..scenario.options.clone() };
    let mut group = criterion.benchmark_group("grid");
    group.bench_function("fc1, 385 candidates", |bencher| {
        bencher.iter(|| split_search(&simulator, &stages[0], &one_set));
    });
    group.bench_function("fc1, one to three threads, 1153 candidates", |bencher| {
        bencher.iter(|| split_search(&simulator, &stages[0], &scenario.options));
    });
    group.bench_function("fc1, curve of 385 points", |bencher| {
        bencher.iter(|| latency_curve(&simulator, &stages[0], &one_set));
    });
    group.finish();
}

/// One evaluation of a kernel model.
fn kernels(criterion: &mut Criterion) {
    let (scenario, stages) = scenario("vit-b32-fc1");
    let layer = &stages[0].layer;
    let cores = scenario.options.core_sets.last().expect("a scenario has a core set");
    let gpu = scenario.device.gpu.as_ref().expect("the device has a GPU");
    let mut group = criterion.benchmark_group("kernel");
    group.bench_function("gpu linear", |bencher| bencher.iter(|| gpu::execute(black_box(layer), gpu)));
    group.bench_function("cpu linear, three threads", |bencher| {
        bencher.iter(|| cpu::execute(black_box(layer), &scenario.device.cpu, cores, scenario.library));
    });
    group.finish();
}

/// Whole models: planned, and simulated under a plan.
fn models(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("model");
    for name in ["resnet50", "vit-b32"] {
        let (scenario, stages) = scenario(name);
        let mut simulator = Simulator::new(&scenario.device, scenario.library);
        let answer = explore(&mut simulator, &stages, &scenario.options).expect("the device runs it");
        let tasks = stages.len();
        group.bench_function(format!("{name}, {tasks} layers, latency under a plan"), |bencher| {
            bencher.iter(|| simulator.latency(&stages, &answer.plan));
        });
        group.bench_function(format!("{name}, {tasks} layers, explore"), |bencher| {
            bencher.iter(|| explore(&mut simulator, &stages, &scenario.options));
        });
    }
    group.finish();
}

/// A whole network on one processor. Simulating it on the NPU, which prices its operators as one graph,
/// must take no longer than on the GPU.
fn whole(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("whole");
    let overrides = Overrides { device: Some("snapdragon-8gen3".to_owned()), ..Overrides::default() };
    let scenario = Scenario::load("resnet50", &overrides).expect("the scenario is bundled");
    let Workload::Model(stages) = scenario.workload.clone() else { panic!("resnet50 is one model") };
    for (name, placement) in [("GPU", Placement::GPU), ("NPU", Placement::NPU)] {
        let plan = Plan::new(Mechanism::SvmPolling, vec![placement; stages.len()]);
        group.bench_function(format!("resnet50 on the {name}, a new simulator"), |bencher| {
            bencher.iter(|| Simulator::new(&scenario.device, scenario.library).latency(&stages, &plan));
        });
        let mut simulator = Simulator::new(&scenario.device, scenario.library);
        group.bench_function(format!("resnet50 on the {name}, again"), |bencher| {
            bencher.iter(|| simulator.latency(&stages, &plan));
        });
    }
    group.finish();
}

/// Planning time of all strategies for one model and device, and of `optimal` once the others are known.
/// Limits: 200 ms for all, 50 ms for `optimal`.
fn strategies(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    for name in ["vgg16", "resnet34", "inception-v3"] {
        let overrides = Overrides { device: Some("pixel4".to_owned()), ..Overrides::default() };
        let scenario = Scenario::load(name, &overrides).expect("the scenario is bundled");
        let Workload::Model(stages) = scenario.workload.clone() else { panic!("{name} is one model") };
        let simulator = || Simulator::new(&scenario.device, scenario.library).measuring(scenario.measure);
        group.bench_function(format!("{name}, all strategies"), |bencher| {
            bencher.iter(|| {
                let mut simulator = simulator();
                let mut explorer = Explorer::new(&mut simulator, &stages, &scenario.options);
                Strategy::of_operators().filter(|&strategy| explorer.find(strategy).is_ok()).count()
            });
        });
        group.bench_function(format!("{name}, optimal after the others"), |bencher| {
            bencher.iter_custom(|count| {
                let mut sum = Duration::ZERO;
                for _ in 0..count {
                    let mut simulator = simulator();
                    let mut explorer = Explorer::new(&mut simulator, &stages, &scenario.options);
                    for strategy in Strategy::of_operators().filter(|one| *one != Strategy::Optimal) {
                        // Some devices lack an NPU.
                        black_box(explorer.find(strategy)).ok();
                    }
                    let start = Instant::now();
                    black_box(explorer.find(Strategy::Optimal)).expect("the device runs it");
                    sum += start.elapsed();
                }
                sum
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .sample_size(20);
    targets = grid, kernels, models, whole, strategies
}
criterion_main!(benches);
