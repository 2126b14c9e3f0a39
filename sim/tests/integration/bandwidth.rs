//! Bandwidth over time: of each processor, and in total.

use coexec_sim::device::Profile;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Axis, Mechanism, Placement, Plan};
use coexec_sim::simulate::{Simulator, timeline};
use coexec_sim::timeline::{Counter, Timeline};
use coexec_sim::units::Picos;
use coexec_sim::workload::{DataType, Layer, Linear, Operator, Stage};

fn run(placement: impl Fn(&Profile) -> Placement) -> Timeline {
    let device = Profile::load("oneplus11").unwrap();
    let operator = Linear { rows: 4, input_features: 2048, output_features: 4096, bias: false };
    let stages = [Stage::single("fc".to_owned(), Layer::new(Operator::Linear(operator), DataType::F32))];
    let plan = Plan::new(Mechanism::SvmPolling, vec![placement(&device)]);
    timeline(&mut Simulator::new(&device, Library::Xnnpack), &stages, &plan).unwrap()
}

fn at(counter: &Counter, time: Picos) -> f64 {
    counter.samples.iter().rev().find(|(from, _)| *from <= time).map_or(0.0, |&(_, rate)| rate)
}

#[test]
fn bandwidths_of_all_processors_add_up() {
    let split = |device: &Profile| {
        let cores = CoreSet::fastest(&device.cpu, 2).unwrap();
        Placement::cpu_and_gpu(Axis::Channels, cores, [512, 3584])
    };
    let shown = run(split);
    let names: Vec<&str> = shown.counters.iter().map(|counter| counter.name.as_str()).collect();
    assert_eq!(names, ["memory bandwidth", "CPU bandwidth", "GPU bandwidth"]);
    let [total, parts @ ..] = shown.counters.as_slice() else { unreachable!() };
    for &(time, rate) in &total.samples {
        let sum: f64 = parts.iter().map(|part| at(part, time)).sum();
        assert!((sum - rate).abs() < 1e-9, "at {time}: {sum} of {rate}");
    }
}

#[test]
fn a_processor_alone_has_no_curve_of_its_own() {
    assert_eq!(run(|_| Placement::GPU).counters.len(), 1);
}

#[test]
fn a_single_processor_is_bounded_only_by_the_peak() {
    let device = Profile::load("pixel4").unwrap();
    let operator = Linear { rows: 1, input_features: 4096, output_features: 4096, bias: false };
    let stages = [Stage::single("fc".to_owned(), Layer::new(Operator::Linear(operator), DataType::F32))];
    let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::GPU]);
    let rate = Simulator::new(&device, Library::Xnnpack).run(&stages, &plan).unwrap().bandwidth;
    let peak = device.memory.peak_bandwidth_gbps.value;
    assert!(rate > device.memory.capacity(1), "{rate}");
    assert!(rate.as_gigabytes() <= peak, "{rate}");
}
