//! Consistency between the parts of the simulator: kernel models, engine and search agree.

use coexec_sim::device::Profile;
use coexec_sim::explore::{Effort, Objective, SearchOptions, Strategy as Search, explore, split_search};
use coexec_sim::kernel::{CoreSet, Library, gpu};
use coexec_sim::plan::synchronisation::hand_over;
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan, Processor};
use coexec_sim::simulate::{Simulator, execute};
use coexec_sim::units::{Bytes, Picos};
use coexec_sim::workload::{DataType, Layer, Layout, Linear, Operator, Stage, fuse, network};

/// The devices with unified memory and a power table: phones.
pub(crate) fn devices() -> Vec<Profile> {
    let is_phone = |device: &Profile| {
        device.power.is_some() && device.gpu.as_ref().is_none_or(|gpu| gpu.memory.is_none())
    };
    Profile::bundled().unwrap().into_iter().filter(is_phone).collect()
}

fn networks() -> impl Iterator<Item = (&'static str, Vec<Stage>)> {
    coexec_sim::workload::networks().filter_map(|(name, _)| Some((name, fuse(&network(name)?))))
}

fn named(name: &str) -> Vec<Stage> {
    networks().find(|(known, _)| *known == name).map(|(_, stages)| stages).unwrap()
}

fn core_sets(device: &Profile) -> Vec<CoreSet> {
    (1..=device.cpu.cores().min(3)).map(|threads| CoreSet::fastest(&device.cpu, threads).unwrap()).collect()
}

fn options(device: &Profile) -> SearchOptions {
    SearchOptions {
        strategy: Search::ChannelSplit,
        objective: Objective::Latency,
        synchronisation: Mechanism::SvmPolling,
        core_sets: core_sets(device),
        step: 32,
        effort: Effort::default(),
    }
}

fn plan(placements: Vec<Placement>) -> Plan {
    Plan::new(Mechanism::SvmPolling, placements)
}

/// Every way to run a whole layer on one processor of the device.
fn whole_placements(device: &Profile) -> Vec<(Placement, Processor)> {
    let on_cpu = core_sets(device).into_iter().map(Processor::Cpu);
    on_cpu.chain([Processor::Gpu, Processor::NPU]).map(|by| (Placement::whole(by), by)).collect()
}

#[test]
fn a_single_layer_takes_exactly_the_time_of_its_kernel_model() {
    let mut compared = 0;
    for device in devices() {
        for library in [Library::Xnnpack, Library::Ruy] {
            let mut simulator = Simulator::new(&device, library);
            for (name, stages) in networks() {
                for stage in stages {
                    let alone = [stage.isolated()];
                    for (placement, processor) in whole_placements(&device) {
                        let layer = &alone[0].layer;
                        let Ok((phases, _)) = execute(layer, &device, library, processor) else {
                            continue;
                        };
                        let latency = simulator.latency(&alone, &plan(vec![placement])).unwrap();
                        let what = (name, &alone[0].name, &device.name, processor);
                        assert_eq!(latency, phases.duration(), "{what:?}");
                        compared += 1;
                    }
                }
            }
        }
    }
    assert!(compared > 5_000, "only {compared}");
}

#[test]
fn every_device_runs_every_network_on_its_gpu_and_on_its_cpu() {
    for device in Profile::bundled().unwrap() {
        let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
        for (name, stages) in networks() {
            // Without a compiler, an NPU only has kernels for products; a device with nothing else
            // modelled has no GPU.
            let runs_all = |by: Processor| match by {
                Processor::Cpu(_) => true,
                Processor::Gpu => device.gpu.is_some(),
                Processor::Npu(_) => device.npu.as_ref().is_some_and(|npu| npu.compiled.is_some()),
            };
            for (placement, _) in whole_placements(&device).iter().filter(|(_, by)| runs_all(*by)) {
                let latency = simulator.latency(&stages, &plan(vec![*placement; stages.len()]));
                assert!(latency.is_ok(), "{name} on {}, {placement:?}: {latency:?}", device.name);
            }
        }
    }
}

#[test]
fn on_one_processor_a_graph_takes_the_sum_of_its_layers() {
    for device in devices() {
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        for (name, stages) in networks() {
            for (placement, processor) in whole_placements(&device) {
                let durations: Result<Vec<Picos>, _> = stages
                    .iter()
                    .map(|stage| execute(&stage.layer, &device, Library::Xnnpack, processor))
                    .map(|executed| executed.map(|(phases, _)| phases.duration()))
                    .collect();
                let Ok(durations) = durations else { continue };
                let latency = simulator.latency(&stages, &plan(vec![placement; stages.len()])).unwrap();
                let sum = durations.into_iter().sum();
                let what = format!("{name} on {}, {processor:?}", device.name);
                // A compiler takes them as one graph, which is dispatched once.
                let is_compiled = device.npu.as_ref().is_some_and(|npu| npu.compiled.is_some());
                match processor {
                    Processor::Npu(_) if is_compiled && stages.len() > 1 => assert!(latency < sum, "{what}"),
                    Processor::Npu(_) | Processor::Cpu(_) | Processor::Gpu => {
                        assert_eq!(latency, sum, "{what}");
                    }
                }
            }
        }
    }
}

/// Whether both parts together demand no more than the memory's bandwidth for two
/// processors, and neither more than that for one.
fn is_memory_idle(device: &Profile, parts: &[coexec_sim::kernel::Phases]) -> bool {
    let peak = |phases: &coexec_sim::kernel::Phases| {
        let rates = phases.as_slice().iter().map(|phase| phase.bytes.0 as f64 / phase.duration.as_seconds());
        rates.fold(0.0, f64::max)
    };
    parts.iter().map(peak).sum::<f64>() <= device.memory.capacity(2).0
}

#[test]
fn without_contention_a_cut_operator_takes_its_longer_part_and_its_join() {
    let (mut free, mut contended) = (0, 0);
    for device in devices() {
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        for (_, stages) in networks() {
            for stage in stages {
                let Some(channels) = stage.layer.operator.splittable_channels().filter(|&n| n > 1) else {
                    continue;
                };
                let alone = [stage.isolated()];
                let layer = &alone[0].layer;
                for (part, cores) in (2..=4).zip(core_sets(&device)) {
                    let (cpu_channels, gpu_channels) =
                        ((channels / part).max(1), channels - (channels / part).max(1));
                    let run = |channels, processor| {
                        let part = layer.with_output_channels(channels);
                        execute(&part, &device, Library::Xnnpack, processor).unwrap().0
                    };
                    let parts = [run(cpu_channels, Processor::Cpu(cores)), run(gpu_channels, Processor::Gpu)];
                    let longer = parts[0].duration().max(parts[1].duration());
                    for &synchronisation in Mechanism::ALL {
                        let placements =
                            vec![Placement::cpu_and_gpu(Axis::Channels, cores, [cpu_channels, gpu_channels])];
                        let latency =
                            simulator.latency(&alone, &Plan::new(synchronisation, placements)).unwrap();
                        let bound = longer + join_delay(&device, synchronisation, layer);
                        if is_memory_idle(&device, &parts) {
                            assert_eq!(latency, bound, "{} on {}", alone[0].name, device.name);
                            free += 1;
                        } else {
                            assert!(latency >= bound, "{} on {}", alone[0].name, device.name);
                            contended += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(free > 1_000 && contended > 0, "{free} free, {contended} contended");
}

fn join_delay(device: &Profile, mechanism: Mechanism, layer: &Layer) -> Picos {
    let bytes = Bytes(layer.operator.output().elements() * layer.data_type.activation_bytes());
    let transforms = device.gpu.as_ref().is_some_and(|gpu| gpu.layout() != Layout::Buffer);
    hand_over(&device.sync, mechanism, bytes, transforms)
}

#[test]
fn a_cut_between_cpu_and_gpu_is_never_slower_than_one_of_them() {
    for device in devices() {
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        for (name, stages) in networks() {
            let options = options(&device);
            let found = explore(&mut simulator, &stages, &options).unwrap().prediction.latency;
            for strategy in [Search::CpuOnly, Search::GpuOnly] {
                let options = SearchOptions { strategy, ..options.clone() };
                let Ok(single) = explore(&mut simulator, &stages, &options) else { continue };
                assert!(found <= single.prediction.latency, "{name} on {}: {strategy:?}", device.name);
            }
        }
    }
}

#[test]
fn the_plan_found_is_what_simulating_it_predicts() {
    for device in devices() {
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        for name in ["vit-b32-mlp", "resnet18", "mobilenet-v2"] {
            let stages = named(name);
            let answer = explore(&mut simulator, &stages, &options(&device)).unwrap();
            assert_eq!(
                Simulator::new(&device, Library::Xnnpack).run(&stages, &answer.plan),
                Ok(answer.prediction)
            );
        }
    }
}

#[test]
fn a_further_core_set_never_makes_one_operator_slower() {
    for device in devices() {
        let simulator = Simulator::new(&device, Library::Xnnpack);
        let all = core_sets(&device);
        for stage in ["vit-b32-mlp", "resnet18", "codl-yolov2"].into_iter().flat_map(named) {
            let bests: Vec<Picos> = (0..=all.len())
                .map(|count| {
                    let options = SearchOptions { core_sets: all[..count].to_vec(), ..options(&device) };
                    split_search(&simulator, &stage, &options).unwrap().best.latency
                })
                .collect();
            assert!(bests.is_sorted_by(|fewer, more| fewer >= more), "{}: {bests:?}", stage.name);
        }
    }
}

#[test]
fn a_finer_grid_never_makes_one_operator_slower() {
    for device in devices() {
        let simulator = Simulator::new(&device, Library::Xnnpack);
        for stage in named("vit-b32-mlp") {
            let bests: Vec<Picos> = [64, 32, 16, 8, 4]
                .map(|step| {
                    let options = SearchOptions { step, ..options(&device) };
                    split_search(&simulator, &stage, &options).unwrap().best.latency
                })
                .to_vec();
            assert!(bests.is_sorted_by(|coarse, fine| coarse >= fine), "{}: {bests:?}", stage.name);
        }
    }
}

#[test]
fn the_plan_of_least_energy_never_spends_more_than_the_fastest() {
    for device in devices() {
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        for name in ["vit-b32-mlp", "resnet18", "mobilenet-v2", "vit-b32", "codl-posenet", "efficientnet-b2"]
        {
            let stages = named(name);
            let mut energy = |objective| {
                let options = SearchOptions { objective, ..options(&device) };
                explore(&mut simulator, &stages, &options).unwrap().prediction.energy.unwrap().0
            };
            let (saved, spent) = (energy(Objective::Energy), energy(Objective::Latency));
            assert!(saved <= spent, "{name} on {}: {saved} J against {spent} J", device.name);
        }
    }
}

#[test]
fn a_chain_planned_as_one_is_never_slower_than_its_operators_planned_alone() {
    for device in devices() {
        for library in [Library::Xnnpack, Library::Ruy] {
            let mut simulator = Simulator::new(&device, library);
            for name in ["vit-b32-mlp", "vgg16", "codl-vgg16", "codl-posenet"] {
                for &synchronisation in Mechanism::ALL {
                    let stages = named(name);
                    let options = SearchOptions { synchronisation, ..options(&device) };
                    // Only some devices have rates for each library.
                    let Ok(answer) = explore(&mut simulator, &stages, &options) else { continue };
                    let placements = answer.searches.iter().map(|search| search.best.placement).collect();
                    let greedy = simulator.latency(&stages, &Plan::new(synchronisation, placements)).unwrap();
                    let latency = answer.prediction.latency;
                    assert!(
                        latency <= greedy,
                        "{name} on {}, {synchronisation}: {latency} {greedy}",
                        device.name
                    );
                }
            }
        }
    }
}

#[test]
fn an_unused_processor_idles_for_the_whole_run() {
    for device in devices() {
        let stages = named("vit-b32-mlp");
        let prediction =
            Simulator::new(&device, Library::Xnnpack).run(&stages, &plan(vec![Placement::GPU; 2])).unwrap();
        let power = device.power.as_ref().unwrap();
        let cores: f64 = device
            .cpu
            .clusters
            .iter()
            .zip(&power.cluster)
            .map(|(cluster, core)| f64::from(cluster.cores) * core.idle().0)
            .sum();
        let resting = cores + power.npu.as_ref().map_or(0.0, |npu| npu.idle().0);
        let expected = prediction.processors[0].energy.unwrap().0
            + (power.base().0 + resting) * prediction.latency.as_seconds()
            + power.memory_energy(prediction.bytes).0;
        assert_eq!(prediction.processors.len(), 1);
        assert!((prediction.energy.unwrap().0 - expected).abs() < 1e-9 * expected, "{}", device.name);
    }
}

fn fully_connected(output_features: u32) -> Layer {
    let linear = Linear { rows: 50, input_features: 768, output_features, bias: true };
    Layer::new(Operator::Linear(linear), DataType::F32)
}

#[test]
fn the_published_staircase_comes_from_the_dispatch() {
    // EPEW'25, section 3.1: on the OnePlus 11 the latency of 2500 output channels
    // is 1.85 times that of 2520.
    let device = Profile::load("oneplus11").unwrap();
    let gpu = device.gpu.as_ref().unwrap();
    let at = |channels| {
        let execution = gpu::execute(&fully_connected(channels), gpu).unwrap();
        (execution.detail.groups, execution.phases.duration().as_micros())
    };
    let ((many, spike), (few, next)) = (at(2500), at(2520));
    assert!(spike >= 1.5 * next, "{spike} us against {next} us");
    assert_eq!((many, few), (313, 35));
    // The same holds for all counts nearby: hundreds of groups are slow, few are fast.
    for channels in (2400..=2600).step_by(4) {
        let (groups, micros) = at(channels);
        if groups >= 300 {
            assert!(micros >= 1.5 * next, "{channels} channels, {groups} groups: {micros} us");
        } else if groups <= 35 {
            assert!(micros <= 1.2 * next, "{channels} channels, {groups} groups: {micros} us");
        }
    }
}
