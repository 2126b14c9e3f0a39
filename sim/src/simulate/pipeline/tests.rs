use super::*;
use crate::device::profile::Profile;
use crate::kernel::cpu::{CoreSet, Library};
use crate::plan::Placement;
use crate::plan::synchronisation::Mechanism;
use crate::simulate::Measure;
use crate::workload::{DataType, GraphBuilder, Shape, Window, fuse, network};

/// The stages of VGG-16 and a plan with the last `on_cpu` of them on two cores.
fn plan(profile: &Profile, on_cpu: usize) -> (Vec<Stage>, Plan) {
    let stages = fuse(&network("vgg16").unwrap());
    let cores = CoreSet::fastest(&profile.cpu, 2).unwrap();
    let place = |index| if index + on_cpu < stages.len() { Placement::GPU } else { Placement::cpu(cores) };
    let placements = (0..stages.len()).map(place).collect();
    let plan = Plan::new(Mechanism::SvmPolling, placements);
    (stages, plan)
}

fn stream(profile: &Profile, on_cpu: usize, depth: u32, gap_us: f64) -> Stream {
    let (stages, plan) = plan(profile, on_cpu);
    let mut simulator = Simulator::new(profile, Library::Xnnpack);
    simulator.stream(&stages, &plan, &Pipeline::new(depth, gap_us)).unwrap()
}

#[test]
fn one_batch_at_a_time_takes_a_latency_and_the_gap() {
    let profile = Profile::load("pixel4").unwrap();
    let (stages, plan) = plan(&profile, 3);
    let latency = Simulator::new(&profile, Library::Xnnpack).latency(&stages, &plan).unwrap();
    let streamed = stream(&profile, 3, 1, 250.0);
    assert_eq!(streamed.period, latency + Picos::from_micros(250.0));
    assert_eq!(streamed.batch_latency, streamed.period);
}

#[test]
fn a_result_is_read_back_when_the_gpu_has_computed_everything() {
    let profile = Profile::load("pixel4").unwrap();
    let mut net = GraphBuilder::new("early", DataType::F32);
    let input = net.input(Shape::image(56, 56, 64));
    let late = net.conv(input, 64, Window::same(3));
    net.conv(input, 16, Window::same(1));
    net.conv(late, 256, Window::same(3));
    let stages = fuse(&net.build().unwrap());
    let cores = CoreSet::fastest(&profile.cpu, 1).unwrap();
    let whole = [Placement::GPU, Placement::GPU, Placement::cpu(cores)];
    let plan = Plan::new(Mechanism::SvmPolling, whole.to_vec()).running_in(&[1, 0, 2]);
    let mut simulator = Simulator::new(&profile, Library::Xnnpack).measuring(Measure::Inference);
    let latency = simulator.latency(&stages, &plan).unwrap();
    assert_eq!(simulator.stream(&stages, &plan, &Pipeline::new(1, 0.0)).unwrap().period, latency);
}

#[test]
fn two_batches_in_flight_hide_the_hosts_gap() {
    let profile = Profile::load("pixel4").unwrap();
    let (one, two) = (stream(&profile, 0, 1, 5_000.0), stream(&profile, 0, 2, 5_000.0));
    let gain = two.batches_per_second / one.batches_per_second;
    let gap = Picos::from_micros(5_000.0).as_seconds();
    let expected = one.period.as_seconds() / (one.period.as_seconds() - gap);
    assert!((gain - expected).abs() < 1e-6, "{gain} {expected}");
    assert!(two.busy_percent.iter().any(|(name, busy)| name == "gpu" && *busy > 99.9), "{two:?}");
}

#[test]
fn a_host_that_is_hardly_faster_than_the_gpu_gets_ahead_of_it_until_all_batches_wait() {
    let profile = Profile::load("pixel4").unwrap();
    let period = stream(&profile, 0, 2, 0.0).period;
    let streamed = stream(&profile, 0, 8, 0.97 * period.as_micros());
    assert_eq!(streamed.period, period);
    assert!((streamed.batch_latency.as_micros() / period.as_micros() - 8.0).abs() < 0.01, "{streamed:?}");
    assert!((streamed.busy_percent[0].1 - 97.0).abs() < 0.1, "{streamed:?}");
    // A slower host is never ahead.
    let slower = stream(&profile, 0, 8, 1.03 * period.as_micros());
    assert!((slower.batch_latency.as_micros() / period.as_micros() - 2.03).abs() < 0.01, "{slower:?}");
}

#[test]
fn the_host_submits_a_batch_while_the_gpu_computes_another() {
    let profile = Profile::load("pixel4").unwrap();
    let (stages, plan) = plan(&profile, 0);
    let mut simulator = Simulator::new(&profile, Library::Xnnpack).measuring(Measure::Inference);
    let [one, two] =
        [1, 2].map(|depth| simulator.stream(&stages, &plan, &Pipeline::new(depth, 0.0)).unwrap().period);
    let around: Picos = simulator.around_launches().into_iter().sum();
    assert!(around > Picos::ZERO);
    assert_eq!(two + around, one);
}

#[test]
fn processors_overlap_across_batches_and_the_slower_sets_the_pace() {
    let profile = Profile::load("pixel4").unwrap();
    let (one, three) = (stream(&profile, 3, 1, 0.0), stream(&profile, 3, 3, 0.0));
    assert!(three.period < one.period);
    assert!(three.batch_latency >= one.batch_latency, "overlap does not speed up a single batch");
    let busiest = three.busy_percent.iter().map(|(_, busy)| *busy).fold(0.0, f64::max);
    assert!(busiest > 99.0, "{three:?}");
}

#[test]
fn dispatching_matters_only_where_it_takes_longer_than_the_processors() {
    let profile = Profile::load("pixel4").unwrap();
    let (stages, plan) = plan(&profile, 0);
    let period = |dispatch_us: f64| {
        let dispatch_us = Some(Quantity::plain(dispatch_us));
        let pipeline = Pipeline { dispatch_us, ..Pipeline::new(1, 0.0) };
        Simulator::new(&profile, Library::Xnnpack).stream(&stages, &plan, &pipeline).unwrap().period
    };
    assert_eq!(period(1.0), period(0.0));
    // Nodes of VGG-16, including its ReLUs: more launches than fused stages.
    let nodes: usize = stages.iter().map(|stage| stage.nodes.len()).sum();
    assert!(nodes > stages.len());
    assert!(period(1e6) >= Picos::from_micros(1e6 * stages.len() as f64));
}

#[test]
fn depth_beyond_what_the_segments_need_changes_nothing() {
    let profile = Profile::load("pixel4").unwrap();
    let [four, eight] = [4, 8].map(|depth| stream(&profile, 3, depth, 100.0).period);
    assert_eq!(four, eight);
}
