//! Requests of several applications: the order in a processor's queue, and laws of queueing.

use coexec_sim::engine::{
    Backpressure, Capacity, ClientId, Engine, NoTrace, ProcessorId, Program, Request, RequestStream, TaskId,
    Work,
};
use coexec_sim::units::{Bytes, BytesPerSecond, Picos};
use proptest::prelude::*;

const CPU: ProcessorId = ProcessorId(0);
const GPU: ProcessorId = ProcessorId(1);
const NPU: ProcessorId = ProcessorId(2);
/// Stands for the background traffic of CPU threads.
const THREADS: ProcessorId = ProcessorId(3);

fn millis(millis: f64) -> Picos {
    Picos::from_micros(millis * 1e3)
}

fn work(millis: f64, bytes: u64) -> Work {
    Work { duration: Picos::from_micros(millis * 1e3), bytes: Bytes(bytes) }
}

fn capacity() -> Capacity {
    Capacity::new(&[BytesPerSecond::from_gigabytes(40.0)])
}

/// A single request at time zero.
fn once(queue_depth: usize) -> RequestStream {
    RequestStream { arrivals: vec![Picos::ZERO], backpressure: Backpressure::Queue, queue_depth }
}

/// Period of the game's frames.
const PERIOD_MS: f64 = 20.0;

/// A game of 50 frames per second, each two batches of 1 ms, for ten seconds.
fn frames() -> RequestStream {
    let arrivals = (0..500).map(|frame| millis(PERIOD_MS * f64::from(frame))).collect();
    RequestStream { arrivals, backpressure: Backpressure::BlockProducer, queue_depth: 1 }
}

/// Statistics of the frames while a program ran.
#[derive(Debug, PartialEq)]
struct Frames {
    completed: usize,
    late: usize,
    worst: Picos,
}

/// Runs the program of `build` alongside the game, whose CPU threads move `threads` bytes per period;
/// `queue_depth` is the program's.
fn run_alongside_game(build: impl Fn(&mut Program), queue_depth: usize, threads: Bytes) -> (Picos, Frames) {
    let mut program = Program::default();
    program.next_application();
    build(&mut program);
    program.next_application();
    program.task(GPU, 1, [work(1.0, 0)]);
    program.task(GPU, 1, [work(1.0, 0)]);
    let mut streams = vec![once(queue_depth), frames()];
    if threads > Bytes::ZERO {
        program.next_application();
        let traffic = program.task(THREADS, 1, [work(PERIOD_MS, threads.0)]);
        program.set_client(traffic, ClientId(CPU.0));
        streams.push(frames());
    }
    let mut engine = Engine::default();
    engine.serve(&program, &streams, &capacity(), &mut NoTrace);
    let of = |application| engine.requests().iter().filter(move |request| request.application == application);
    let latency = of(0).next().unwrap().finish;
    let lengths: Vec<Picos> =
        of(1).filter(|frame| frame.start < latency).map(|frame| frame.finish - frame.start).collect();
    let completed = of(1).filter(|frame| frame.finish <= latency).count();
    let late = lengths.iter().filter(|&&length| length > millis(PERIOD_MS)).count();
    (latency, Frames { completed, late, worst: lengths.into_iter().max().unwrap() })
}

fn run(build: impl Fn(&mut Program)) -> (Picos, Frames) {
    run_alongside_game(build, 4, Bytes::ZERO)
}

/// A sequence of `count` commands of `each` milliseconds.
fn commands(processor: ProcessorId, count: u32, each: f64) -> impl Fn(&mut Program) {
    move |program| (0..count).for_each(|_| _ = program.task(processor, 1, [work(each, 0)]))
}

#[test]
fn work_on_another_processor_and_frames_do_not_delay_each_other() {
    let (latency, frames) = run(commands(NPU, 10, 10.05));
    assert_eq!(latency, millis(100.5));
    assert_eq!(frames, Frames { completed: 5, late: 0, worst: millis(2.0) });
}

#[test]
fn frames_wait_for_commands_queued_earlier_on_the_gpu() {
    // 100 commands of 10 ms, four of them in the queue: each batch waits for four.
    let (latency, frames) = run(commands(GPU, 100, 10.0));
    assert!(frames.late >= frames.completed, "{frames:?}");
    // A batch is submitted while four commands wait or run, so a frame takes 80 to 84 ms.
    assert!((millis(76.0)..millis(84.0)).contains(&frames.worst), "{frames:?}");
    assert!((12..=13).contains(&frames.completed), "{frames:?}");
    // The GPU never idles: the run takes its own time plus that of the batches within it.
    let batches = (latency - millis(1_000.0)).as_micros() / 1e3;
    assert!((24.0..=27.0).contains(&batches), "{batches}");
}

#[test]
fn frames_run_while_a_program_waits_for_another_processor() {
    // The same work on the GPU, but each command depends on one on the NPU.
    let (latency, frames) = run(|program| {
        let mut last = None;
        for _ in 0..100 {
            let npu = program.task(NPU, 1, [work(10.0, 0)]);
            if let Some(last) = last {
                program.after(npu, last);
            }
            let gpu = program.task(GPU, 1, [work(10.0, 0)]);
            program.after(gpu, npu);
            last = Some(gpu);
        }
    });
    let due = (latency.as_micros() / 20e3) as usize;
    assert_eq!((frames.completed, frames.late), (due, 0), "{frames:?}, {latency}");
    assert!(frames.worst <= millis(12.0), "{frames:?}");
}

#[test]
fn frame_times_grow_with_the_queue_depth() {
    let worst = |queue_depth| run_alongside_game(commands(GPU, 200, 3.0), queue_depth, Bytes::ZERO).1.worst;
    let depths = [1, 2, 4, 8, 15];
    let frames = depths.map(worst);
    assert!(frames.windows(2).all(|pair| pair[0] < pair[1]), "{frames:?}");
}

#[test]
fn traffic_of_the_game_s_threads_takes_bandwidth() {
    let long = |program: &mut Program| _ = program.task(NPU, 1, [work(1_000.0, 40_000_000_000)]);
    let slowed = |gigabytes: f64| run_alongside_game(long, 4, Bytes((gigabytes * 1e9 * 0.02) as u64)).0;
    assert_eq!(slowed(0.0), millis(1_000.0));
    let slowed = slowed(8.0).as_seconds();
    assert!((slowed - 40.0 / 32.0).abs() < 1e-3, "{slowed}");
}

#[test]
fn a_host_s_hand_over_leaves_the_gpu_to_the_game() {
    let (latency, frames) = run(|program| {
        let before = program.task(GPU, 1, [work(30.0, 0)]);
        program.on_host(before);
        program.task(GPU, 1, [work(5.0, 0)]);
    });
    assert_eq!((latency, frames.late), (millis(35.0), 0));
}

/// A command that becomes ready when a batch ends competes for the next turn, whichever of the
/// two events the engine handles first.
#[test]
fn a_turn_is_given_after_all_simultaneous_events() {
    // The first batch ends at 1 ms, as does the NPU's task that a command waits for. The second
    // batch is submitted at the same time, so the application added first goes first.
    let (latency, frames) = run(|program| {
        let npu = program.task(NPU, 1, [work(1.0, 0)]);
        let signal = program.delay(Picos::ZERO);
        program.after(signal, npu);
        let gpu = program.task(GPU, 1, [work(5.0, 0)]);
        program.after(gpu, signal);
    });
    assert_eq!((latency, frames.completed), (millis(6.0), 0));
}

/// Requests on a processor that takes 3 ms for each, under each kind of backpressure.
#[test]
fn requests_to_a_busy_application_follow_its_backpressure() {
    let mut program = Program::default();
    program.next_application();
    program.task(CPU, 1, [work(3.0, 0)]);
    let arrivals: Vec<Picos> = [0.0, 1.0, 2.0, 10.0].map(millis).to_vec();
    let served = |backpressure| {
        let stream = RequestStream { arrivals: arrivals.clone(), backpressure, queue_depth: 1 };
        let mut engine = Engine::default();
        engine.serve(&program, &[stream], &capacity(), &mut NoTrace);
        let times =
            |request: &Request| [request.arrival, request.start, request.finish].map(|t| t.0 / 1_000_000_000);
        engine.requests().iter().map(times).collect::<Vec<_>>()
    };
    assert_eq!(served(Backpressure::Queue), [[0, 0, 3], [1, 3, 6], [2, 6, 9], [10, 10, 13]]);
    assert_eq!(served(Backpressure::KeepOnlyLatest), [[0, 0, 3], [2, 3, 6], [10, 10, 13]]);
    // The last would come 8 ms after the third, at 14 ms, but no request comes after 10 ms.
    assert_eq!(served(Backpressure::BlockProducer), [[0, 0, 3], [3, 3, 6], [6, 6, 9]]);
}

/// A task of up to three phases on one of three processors or on the host, with its predecessors.
#[derive(Clone, Debug)]
struct Spec {
    processor: u8,
    is_on_host: bool,
    phases: Vec<(u64, u64)>,
    after: Vec<usize>,
}

/// Up to eight tasks, each of which waits for some of the four before it. A phase takes 1 to 100 us and claims up
/// to `share` of the memory bandwidth.
fn specs(share: f64) -> impl Strategy<Value = Vec<Spec>> {
    let phase = (1_000_000_u64..100_000_000, prop_oneof![Just(0.0), 0.0..share])
        .prop_map(|(duration, share)| (duration, (share * 0.04 * duration as f64) as u64));
    let phases = prop::collection::vec(phase, 1..4);
    let named = prop::collection::vec(0_usize..4, 0..3);
    let spec = (0_u8..3, prop::bool::weighted(0.2), phases, named)
        .prop_map(|(processor, is_on_host, phases, after)| Spec { processor, is_on_host, phases, after });
    prop::collection::vec(spec, 1..9).prop_map(|mut specs| {
        for (task, spec) in specs.iter_mut().enumerate() {
            // Converts distances back to task numbers, if there are as many tasks.
            spec.after = spec.after.iter().filter_map(|back| task.checked_sub(back + 1)).collect();
        }
        specs
    })
}

fn add(specs: &[Spec], program: &mut Program) {
    program.next_application();
    let mut tasks: Vec<TaskId> = Vec::new();
    for spec in specs {
        let phases = spec
            .phases
            .iter()
            .map(|&(duration, bytes)| Work { duration: Picos(duration), bytes: Bytes(bytes) });
        let task = program.task(ProcessorId(spec.processor), 1, phases);
        if spec.is_on_host {
            program.on_host(task);
        }
        for &before in &spec.after {
            program.after(task, tasks[before]);
        }
        tasks.push(task);
    }
}

fn arrivals(gaps: &[u64]) -> Vec<Picos> {
    gaps.iter()
        .scan(0, |time, gap| {
            *time += gap;
            Some(Picos(*time))
        })
        .collect()
}

/// Busy picoseconds of a processor for one request.
fn computed(specs: &[Spec], processor: u8) -> u64 {
    let own = specs.iter().filter(|spec| spec.processor == processor && !spec.is_on_host);
    own.flat_map(|spec| &spec.phases).map(|(duration, _)| duration).sum()
}

proptest! {
    #[test]
    fn infrequent_requests_each_take_the_time_of_one_run(
        specs in specs(1.0), gaps in prop::collection::vec(3_000_000_000_u64..6_000_000_000, 1..20), depth in 1_usize..20
    ) {
        let mut program = Program::default();
        add(&specs, &mut program);
        let mut engine = Engine::default();
        let alone = engine.run(&program, &capacity(), &mut NoTrace);
        let stream = RequestStream { arrivals: arrivals(&gaps), backpressure: Backpressure::Queue, queue_depth: depth };
        engine.serve(&program, &[stream], &capacity(), &mut NoTrace);
        prop_assert_eq!(engine.requests().len(), gaps.len());
        for request in engine.requests() {
            prop_assert_eq!((request.start, request.finish - request.arrival), (request.arrival, alone));
        }
    }

    #[test]
    fn requests_are_computed_completely_and_in_order(
        of_each in prop::collection::vec((specs(0.1), prop::collection::vec(0_u64..1_000_000_000, 1..20), 1_usize..20), 1..4)
    ) {
        let mut program = Program::default();
        for (specs, ..) in &of_each {
            add(specs, &mut program);
        }
        let stream = |(_, gaps, depth): &(Vec<Spec>, Vec<u64>, usize)| {
            RequestStream { arrivals: arrivals(gaps), backpressure: Backpressure::Queue, queue_depth: *depth }
        };
        let streams: Vec<RequestStream> = of_each.iter().map(stream).collect();
        let mut engine = Engine::default();
        let end = engine.serve(&program, &streams, &capacity(), &mut NoTrace);
        for (application, (_, gaps, _)) in of_each.iter().enumerate() {
            let own: Vec<Request> =
                engine.requests().iter().filter(|request| request.application == application).copied().collect();
            prop_assert_eq!(own.iter().map(|request| request.arrival).collect::<Vec<_>>(), arrivals(gaps));
            prop_assert!(own.windows(2).all(|pair| pair[0].finish <= pair[1].start));
            prop_assert!(own.iter().all(|request| request.arrival <= request.start));
        }
        for processor in 0..3 {
            let asked: u64 =
                of_each.iter().map(|(specs, gaps, _)| computed(specs, processor) * gaps.len() as u64).sum();
            let busy = engine.busy(ProcessorId(processor));
            prop_assert_eq!(busy, Picos(asked));
            prop_assert!(busy <= end);
        }
        let again = engine.requests().to_vec();
        engine.serve(&program, &streams, &capacity(), &mut NoTrace);
        prop_assert_eq!(engine.requests(), again);
    }

    /// No processor idles while a command waits for it: if all requests come at once on one processor, it computes
    /// them without a gap.
    #[test]
    fn a_processor_never_idles_while_requests_are_pending(
        lengths in prop::collection::vec((prop::collection::vec(1_u64..1_000_000, 1..5), 1_usize..10), 1..5)
    ) {
        let mut program = Program::default();
        for (of_one, _) in &lengths {
            program.next_application();
            for &length in of_one {
                program.task(GPU, 1, [Work { duration: Picos(length), bytes: Bytes::ZERO }]);
            }
        }
        let stream = |&(_, count): &(Vec<u64>, usize)| {
            RequestStream { arrivals: vec![Picos::ZERO; count], backpressure: Backpressure::Queue, queue_depth: 3 }
        };
        let streams: Vec<RequestStream> = lengths.iter().map(stream).collect();
        let end = Engine::default().serve(&program, &streams, &capacity(), &mut NoTrace);
        let total: u64 = lengths.iter().map(|(of_one, count)| of_one.iter().sum::<u64>() * *count as u64).sum();
        prop_assert_eq!(end, Picos(total));
    }
}
