//! Plans of every operator, drawn at random: what holds of any, and that a plan file keeps them.

use coexec_sim::device::Profile;
use coexec_sim::input::Text;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan, PlanFile, Processor};
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::simulate::Simulator;
use coexec_sim::units::Picos;
use coexec_sim::workload::Stage;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::consistency::devices;

fn every_operator() -> Vec<Stage> {
    let content = include_str!("../inputs/every_operator.toml").to_owned();
    let text = Text { name: "every_operator.toml".to_owned(), content };
    let Workload::Model(stages) =
        Scenario::parse("every-operator", &text, &Overrides::default()).unwrap().workload
    else {
        panic!("the scenario is one model");
    };
    stages
}

/// The stages in a different order from the workload's, each still after its inputs.
fn any_order(stages: &[Stage], choices: &[[Index; 3]]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    for choice in &choices[..stages.len()] {
        let can_be_next = |stage: &usize| {
            !order.contains(stage) && stages[*stage].inputs().all(|input| order.contains(&input))
        };
        let next: Vec<usize> = (0..stages.len()).filter(can_be_next).collect();
        order.push(next[choice[1].index(next.len())]);
    }
    if order.is_sorted() { Vec::new() } else { order }
}

/// The placement of `stage` that `choice` selects.
fn placement(stage: &Stage, device: &Profile, choice: &[Index; 3]) -> Placement {
    let [kind, cores, channels] = choice;
    let mut sets: Vec<String> = Vec::new();
    for cluster in &device.cpu.clusters {
        for count in 1..=cluster.cores.min(8) {
            let part = format!("{count}{}", cluster.name.as_str());
            let mixed: Vec<String> =
                sets.iter().filter(|set| set.len() < 8).map(|set| format!("{set}{part}")).collect();
            sets.extend(mixed);
            sets.push(part);
        }
    }
    let valid: Vec<CoreSet> = sets.iter().filter_map(|set| CoreSet::parse(set, &device.cpu).ok()).collect();
    let cores = valid[cores.index(valid.len())];
    let npu = device.npu.as_ref().map(|_| Processor::NPU);
    let [cpu, gpu] = [Processor::Cpu(cores), Processor::Gpu];
    let cut = |axis: Axis, pair: [Processor; 2]| {
        let all = axis.extent(&stage.layer.operator).filter(|&all| all > 1)?;
        let first = 1 + channels.index(all as usize - 1) as u32;
        Some(Placement::cut(axis, [(pair[0], first), (pair[1], all - first)]))
    };
    let thirds = |axis: Axis| {
        let all = axis.extent(&stage.layer.operator).filter(|&all| all > 2)?;
        let first = 1 + channels.index(all as usize - 2) as u32;
        Some(Placement::cut(axis, [(npu?, first), (cpu, 1), (gpu, all - first - 1)]))
    };
    let mut placements: Vec<Placement> =
        [Some(cpu), Some(gpu), npu].into_iter().flatten().map(Placement::whole).collect();
    for axis in Axis::ALL {
        placements.extend(
            [cut(axis, [cpu, gpu]), cut(axis, [gpu, npu.unwrap_or(cpu)]), thirds(axis)].into_iter().flatten(),
        );
    }
    placements[kind.index(placements.len())]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_plan_survives_writing_and_reading(
        device in 0..3_usize,
        mechanism in proptest::sample::select(Mechanism::ALL),
        choices in proptest::collection::vec(any::<[Index; 3]>(), 64),
    ) {
        let device = &devices()[device];
        let stages = every_operator();
        prop_assert!(stages.len() <= choices.len());
        let placements = stages.iter().zip(&choices).map(|(stage, choice)| placement(stage, device, choice));
        let order = if choices[0][0].index(2) == 0 { Vec::new() } else { any_order(&stages, &choices) };
        let plan = Plan { order, ..Plan::new(mechanism, placements.collect()) };
        let file = PlanFile::new("every-operator", device, &stages, &plan);
        let text = Text { name: "plan.toml".to_owned(), content: toml::to_string_pretty(&file).unwrap() };
        let read: PlanFile = text.parse().unwrap();
        prop_assert_eq!(&read, &file);
        prop_assert_eq!(read.resolve(&text, &stages, device).unwrap(), plan);
    }

    #[test]
    fn latency_is_between_the_busiest_processor_and_the_sum_of_all_work(
        device in 0..3_usize,
        mechanism in proptest::sample::select(Mechanism::ALL),
        choices in proptest::collection::vec(any::<[Index; 3]>(), 64),
    ) {
        let device = &devices()[device];
        let stages = every_operator();
        let placements = stages.iter().zip(&choices).map(|(stage, choice)| placement(stage, device, choice));
        let plan = Plan::new(mechanism, placements.collect());
        // An NPU has no kernel for some operators.
        let Ok(prediction) = Simulator::new(device, Library::Xnnpack).run(&stages, &plan) else { return Ok(()) };
        let work: Vec<Picos> = prediction.processors.iter().map(|usage| usage.busy + usage.overhead).collect();
        prop_assert!(work.iter().all(|&part| part <= prediction.latency));
        prop_assert!(prediction.latency <= work.iter().copied().sum());
        let first = prediction.critical_path.first().unwrap();
        let last = prediction.critical_path.last().unwrap();
        prop_assert_eq!((first.start, last.finish), (Picos::ZERO, prediction.latency));
        for pair in prediction.critical_path.windows(2) {
            prop_assert_eq!(pair[0].finish, pair[1].start);
        }
    }
}
