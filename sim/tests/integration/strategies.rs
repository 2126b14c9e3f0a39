//! What the plans of all strategies have in common, and how they differ.

use coexec_sim::device::Profile;
use coexec_sim::explore::{Effort, Explorer, Found, Objective, SearchOptions, Strategy};
use coexec_sim::input::Text;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Axis, Mechanism, Placement, PlanFile, Processor};
use coexec_sim::simulate::{Measure, Simulator};
use coexec_sim::workload::{CHANNELS_PER_SLICE, Stage, fuse, network};

fn named(name: &str) -> Vec<Stage> {
    fuse(&network(name).unwrap())
}

fn options(device: &Profile, synchronisation: Mechanism) -> SearchOptions {
    SearchOptions {
        strategy: Strategy::ChannelSplit,
        objective: Objective::Latency,
        synchronisation,
        core_sets: vec![CoreSet::fastest(&device.cpu, device.cpu.cores().min(3)).unwrap()],
        step: 32,
        effort: Effort::default(),
    }
}

/// The result of every strategy that has a plan.
fn all(device: &Profile, stages: &[Stage], options: &SearchOptions) -> Vec<Found> {
    let mut simulator =
        Simulator::new(device, Library::default_for(&device.cpu)).measuring(Measure::Inference);
    let mut explorer = Explorer::new(&mut simulator, stages, options);
    Strategy::of_operators().filter_map(|strategy| explorer.find(strategy).ok()).collect()
}

fn of(found: &[Found], strategy: Strategy) -> &Found {
    found.iter().find(|found| found.strategy == strategy).unwrap()
}

#[test]
fn optimal_plans_beat_codl_with_cheap_and_costly_hand_overs() {
    let device = Profile::load("pixel4").unwrap();
    for mechanism in [Mechanism::SvmPolling, Mechanism::EventWait] {
        let mut ratios = Vec::new();
        for name in ["vgg16", "resnet18", "codl-yolov2", "codl-fast-style-transfer"] {
            let found = all(&device, &named(name), &options(&device, mechanism));
            let latency = |strategy| of(&found, strategy).prediction.latency.as_seconds();
            ratios.push(latency(Strategy::Codl) / latency(Strategy::Optimal));
        }
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        assert!(mean > 1.01, "{mechanism}: {ratios:?}");
    }
}

#[test]
fn branches_are_computed_side_by_side() {
    // With few waves, latency is not hidden on this GPU, so cutting a convolution gains nothing:
    // placing one branch on the CPU does.
    let device = Profile { npu: None, ..Profile::load("oneplus11").unwrap() };
    let found = all(&device, &named("inception-v3"), &options(&device, Mechanism::SvmPolling));
    let [optimal, codl] = [Strategy::Optimal, Strategy::Codl].map(|strategy| of(&found, strategy));
    let on_cpu = optimal
        .plan
        .placements
        .iter()
        .filter(|placement| matches!(placement.only(), Some(Processor::Cpu(_))))
        .count();
    assert!(on_cpu > 10, "{on_cpu} operators are on the CPU alone");
    let gain = codl.prediction.latency.as_seconds() / optimal.prediction.latency.as_seconds();
    assert!(gain > 1.08, "{gain}");
}

#[test]
fn the_cpu_starts_while_the_queue_of_the_gpu_is_filled() {
    let device = Profile::load("galaxy-s10").unwrap();
    let found = all(&device, &named("mobilenet-v2"), &options(&device, Mechanism::SvmPolling));
    let latency = |strategy| of(&found, strategy).prediction.latency.as_seconds();
    assert!(latency(Strategy::AnySplit) > 1.03 * latency(Strategy::Optimal));
    let first = of(&found, Strategy::Optimal).plan.placements[0];
    assert!(first != Placement::GPU, "{first:?}");
}

#[test]
fn codl_cuts_along_both_dimensions_and_chains() {
    let device = Profile::load("pixel4").unwrap();
    let found = all(&device, &named("codl-yolov2"), &options(&device, Mechanism::EventWait));
    let plan = &of(&found, Strategy::Codl).plan;
    let chained = plan.chains.iter().flatten().count();
    assert!(chained * 2 > plan.placements.len(), "{chained} of {} are chained", plan.placements.len());
    let cheap = all(&device, &named("codl-yolov2"), &options(&device, Mechanism::SvmPolling));
    let plan = &of(&cheap, Strategy::Codl).plan;
    let along = |axis| plan.placements.iter().filter(|placement| placement.axis() == Some(axis)).count();
    assert!(along(Axis::Height) > 0 && along(Axis::Channels) > 0);
}

#[test]
fn every_plan_can_be_written_and_read_again() {
    let device = Profile::load("pixel4").unwrap();
    let stages = named("mobilenet-v2");
    for found in all(&device, &stages, &options(&device, Mechanism::EventWait)) {
        let file = PlanFile::new("mobilenet-v2", &device, &stages, &found.plan);
        let text = Text { name: "plan.toml".to_owned(), content: toml::to_string_pretty(&file).unwrap() };
        let read: PlanFile = text.parse().unwrap();
        assert_eq!(read.resolve(&text, &stages, &device).unwrap(), found.plan, "{}", found.strategy.name());
    }
}

#[test]
fn search_results_do_not_depend_on_earlier_searches() {
    let device = Profile::load("oneplus11").unwrap();
    let stages = named("resnet18");
    let options = options(&device, Mechanism::SvmPolling);
    let together = all(&device, &stages, &options);
    for strategy in [Strategy::AnySplit, Strategy::Codl, Strategy::Optimal] {
        let mut simulator =
            Simulator::new(&device, Library::default_for(&device.cpu)).measuring(Measure::Inference);
        let alone = Explorer::new(&mut simulator, &stages, &options).find(strategy).unwrap();
        assert_eq!(alone.plan, of(&together, strategy).plan);
    }
}

#[test]
fn a_part_of_the_gpu_has_whole_slices() {
    let stages = named("inception-v3");
    for name in ["xeon-pocl", "pixel4", "oneplus11"] {
        let device = Profile::load(name).unwrap();
        let mut simulator =
            Simulator::new(&device, Library::default_for(&device.cpu)).measuring(Measure::Inference);
        let options = SearchOptions { step: 8, ..options(&device, Mechanism::SvmPolling) };
        let plan = Explorer::new(&mut simulator, &stages, &options).find(Strategy::Optimal).unwrap().plan;
        for (stage, placement) in stages.iter().zip(&plan.placements) {
            let all = stage.layer.operator.output().channels;
            for part in placement.parts().filter(|part| part.by == Processor::Gpu) {
                let channels = part.region.span(Axis::Channels);
                let is_whole = |channel: u32| channel.is_multiple_of(CHANNELS_PER_SLICE) || channel >= all;
                assert!(
                    is_whole(channels.start) && is_whole(channels.end),
                    "{name}: {} {channels:?}",
                    stage.name
                );
            }
        }
    }
}
