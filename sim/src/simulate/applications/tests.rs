use proptest::prelude::*;

use super::*;
use crate::kernel::{CoreSet, Library};
use crate::plan::{Mechanism, Placement};
use crate::workload::{fuse, network};

const SECOND: Picos = Picos(1_000_000_000_000);

fn periodic(period_ms: f64) -> Arrivals {
    Arrivals { period_ms: Some(period_ms), ..Arrivals::default() }
}

fn load(request: &PricedRequest, arrivals: Arrivals, duration: Picos, seed: u64) -> Load<'_> {
    let arrivals = arrivals.times(duration, seed, 0);
    let stream =
        RequestStream { arrivals, queue_depth: DEFAULT_QUEUE_DEPTH as usize, ..RequestStream::default() };
    Load { name: "a", request, stream, deadline: None }
}

/// A frame of one millisecond without memory traffic.
fn millisecond(device: &Profile) -> PricedRequest {
    frames(0.0).request(device, SECOND).unwrap()
}

/// Frames of one millisecond with background CPU traffic of `cpu_gbps`.
fn frames(cpu_gbps: f64) -> Frames {
    Frames {
        source: "test".to_owned(),
        gpu_us: crate::Quantity::plain(1e3),
        batches: 1,
        gpu_bytes: crate::Quantity::plain(0.0),
        cpu_gbps: crate::Quantity::plain(cpu_gbps),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn requests_slower_than_the_model_each_take_its_latency_to_the_picosecond(
        on_cpu in prop::collection::vec(0_u8..3, 70), period_ms in 60.0_f64..200.0, offset_ms in 0.0_f64..50.0
    ) {
        let device = Profile::load("pixel4").unwrap();
        let stages = fuse(&network("mobilenet-v2").unwrap());
        let cores = CoreSet::fastest(&device.cpu, 2).unwrap();
        let cut = |stage: &Stage| {
            let channels = stage.layer.operator.output().channels;
            if channels < 2 { return Placement::GPU }
            Placement::cpu_and_gpu(crate::Axis::Channels, cores, [channels / 2, channels - channels / 2])
        };
        let place = |(stage, by): (&Stage, &u8)| match by {
            0 => Placement::GPU,
            1 => Placement::cpu(cores),
            _ if stage.layer.operator.parameters() > 0 => cut(stage),
            _ => Placement::GPU,
        };
        let placements = stages.iter().zip(on_cpu.iter().cycle()).map(place).collect();
        let plan = Plan::new(Mechanism::SvmPolling, placements);
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        let latency = simulator.latency(&stages, &plan).unwrap();
        let request = PricedRequest::new(&simulator, &stages, &plan).unwrap();
        let arrivals = Arrivals { offset_ms: Some(offset_ms), ..periodic(period_ms) };
        let served = ApplicationSimulator::new(&device).run(&[load(&request, arrivals, SECOND, 0)], SECOND).unwrap();
        prop_assert!(latency < Picos::from_micros(60e3), "the period is longer");
        prop_assert!(served.requests.len() >= 4);
        prop_assert!(served.requests.iter().all(|request| request.finish - request.arrival == latency));
        prop_assert!(served.processors.iter().all(|usage| usage.busy_percent <= 100.0));
    }
}

/// Pollaczek-Khinchine formula for M/D/1: at utilisation `r` and constant service time `d`, the mean wait is
/// `r d / (2 (1 - r))`.
#[test]
fn poisson_requests_wait_as_the_pollaczek_khinchine_formula_predicts() {
    let device = Profile::load("pixel4").unwrap();
    let request = millisecond(&device);
    for part in [0.3, 0.6, 0.8] {
        let arrivals = Arrivals { rate_per_second: Some(1e3 * part), ..Arrivals::default() };
        let duration = Picos(400 * SECOND.0);
        let loads = [load(&request, arrivals, duration, 7)];
        let served = ApplicationSimulator::new(&device).serve(&loads, duration).unwrap();
        let waited = served.applications[0].latency.unwrap().mean.as_micros() - 1e3;
        let expected = 1e3 * part / (2.0 * (1.0 - part));
        // 120,000 to 320,000 requests; the busier the server, the more their waits are correlated.
        assert!((waited / expected - 1.0).abs() < 0.05, "{part}: {waited} us, expected {expected}");
    }
}

/// Two applications that share a server wait as long as one with the requests of both.
#[test]
fn two_applications_wait_as_long_as_one_with_the_requests_of_both() {
    let device = Profile::load("pixel4").unwrap();
    let request = millisecond(&device);
    let duration = Picos(400 * SECOND.0);
    let arrivals = Arrivals { rate_per_second: Some(300.0), ..Arrivals::default() };
    let loads = [1, 2].map(|seed| load(&request, arrivals, duration, seed));
    let served = ApplicationSimulator::new(&device).serve(&loads, duration).unwrap();
    for report in &served.applications {
        let waited = report.latency.unwrap().mean.as_micros() - 1e3;
        assert!((waited / 750.0 - 1.0).abs() < 0.05, "{waited} us, expected 750");
    }
}

#[test]
fn a_compiled_graph_is_one_command_whatever_the_depth_of_the_queue() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let stages = fuse(&network("resnet18").unwrap());
    let plan = Plan::new(Mechanism::SvmPolling, vec![Placement::NPU; stages.len()]);
    let simulator = Simulator::new(&device, Library::default_for(&device.cpu));
    let request = PricedRequest::new(&simulator, &stages, &plan).unwrap();
    let mut served = ApplicationSimulator::new(&device);
    let alone = served.latency(&request).unwrap();
    for queue_depth in [1, 2, 22, 64] {
        let stream = RequestStream { arrivals: vec![Picos::ZERO], queue_depth, ..RequestStream::default() };
        let one = Load { name: "a", request: &request, stream, deadline: None };
        let both = served.serve(&[one.clone(), one], SECOND).unwrap();
        let ends: Vec<Picos> = both.requests.iter().map(|request| request.finish).collect();
        assert_eq!(ends, [alone, alone.times(2)], "queue_depth {queue_depth}");
    }
}

#[test]
fn percentiles_depend_on_the_seed_alone() {
    let device = Profile::load("pixel4").unwrap();
    let request = millisecond(&device);
    let served = |seed| {
        let arrivals = Arrivals { rate_per_second: Some(500.0), ..Arrivals::default() };
        let loads = [load(&request, arrivals, SECOND, seed)];
        ApplicationSimulator::new(&device).run(&loads, SECOND).unwrap()
    };
    assert_eq!(served(1), served(1));
    assert_ne!(served(1).applications[0].latency, served(2).applications[0].latency);
}

#[test]
fn a_single_answer_takes_the_time_of_generate() {
    use crate::explore::Strategy;
    use crate::explore::language::plan_language;
    use crate::simulate::generation::{Conversation, generate, price_answer};
    use crate::workload::{LanguageTask, Turn, WeightFormat, language_model};

    let device = Profile::load("snapdragon-8gen3").unwrap();
    let library = Library::default_for(&device.cpu);
    let turn = Turn { prompt_tokens: 100, generated_tokens: 5 };
    let task = LanguageTask::single(language_model("llama3.2-1b").unwrap(), WeightFormat::W4a16, turn);
    for strategy in [Strategy::GpuOnly, Strategy::HeteroTensor, Strategy::NpuGraphs] {
        let plan =
            plan_language(Conversation::new(&device, library, &task), strategy, Mechanism::SleepThenPoll)
                .unwrap();
        let alone = generate(Conversation::new(&device, library, &task), &plan).unwrap().latency;
        let request = price_answer(Conversation::new(&device, library, &task), &plan).unwrap();
        let loads = [load(&request, periodic(10_000.0), SECOND, 0)];
        let served = ApplicationSimulator::new(&device).serve(&loads, SECOND).unwrap();
        assert_eq!(served.applications[0].latency.unwrap().max, alone, "{strategy:?}");
    }
}

#[test]
fn late_and_dropped_requests_miss_the_deadline() {
    let device = Profile::load("pixel4").unwrap();
    let request = millisecond(&device);
    // Ten requests of 1 ms, one every 0.5 ms: every second one arrives while another is computed.
    let served = |backpressure| {
        let arrivals = periodic(0.5).times(Picos(SECOND.0 / 1_000 * 5), 0, 0);
        let stream = RequestStream { arrivals, backpressure, queue_depth: 1 };
        let deadline = Some(Picos::from_micros(1_400.0));
        let loads = [Load { name: "a", request: &request, stream, deadline }];
        ApplicationSimulator::new(&device).serve(&loads, SECOND).unwrap().applications[0].clone()
    };
    let queued = served(Backpressure::Queue);
    assert_eq!((queued.requests, queued.completed), (10, 10));
    assert!((queued.deadline_miss_percent.unwrap() - 90.0).abs() < 1e-9, "all but the first: {queued:?}");
    let latest = served(Backpressure::KeepOnlyLatest);
    assert_eq!((latest.requests, latest.completed), (10, 6));
    assert!(
        (latest.deadline_miss_percent.unwrap() - 50.0).abs() < 1e-9,
        "four dropped, one late: {latest:?}"
    );
}

#[test]
fn a_run_ends_with_its_last_request_despite_background_traffic() {
    let device = Profile::load("pixel4").unwrap();
    let period = Picos(SECOND.0 / 10);
    let request = frames(2.0).request(&device, period).unwrap();
    let duration = Picos(SECOND.0 / 100 * 95);
    let loads = [load(&request, periodic(100.0), duration, 0)];
    let served = ApplicationSimulator::new(&device).serve(&loads, duration).unwrap();
    assert!(served.end > period.times(9) && served.end < duration, "{}", served.end);
    assert!((served.applications[0].throughput_per_second - 10.0 / 0.95).abs() < 1e-9, "{served:?}");
    let drawn = ApplicationSimulator::new(&device).timeline(&loads, SECOND).unwrap();
    assert_eq!(drawn.end, served.end);
}

#[test]
fn jittered_requests_arrive_within_the_duration() {
    let arrivals = Arrivals { jitter_ms: Some(500.0), ..periodic(10.0) };
    let times = arrivals.times(SECOND, 1, 0);
    assert!((50..100).contains(&times.len()), "{}", times.len());
    assert!(times.is_sorted() && times.iter().all(|time| *time < SECOND));
}
