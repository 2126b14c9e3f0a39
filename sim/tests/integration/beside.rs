//! Frames of a background load beside a program: who waits for whom in the GPU's queue.

use coexec_sim::engine::{
    Background, Capacity, ClientId, Engine, Frames, NoTrace, ProcessorId, Program, Work,
};
use coexec_sim::units::{Bytes, BytesPerSecond, Picos};

const CPU: ProcessorId = ProcessorId(0);
const GPU: ProcessorId = ProcessorId(1);
const NPU: ProcessorId = ProcessorId(2);

fn millis(millis: f64) -> Picos {
    Picos::from_micros(millis * 1e3)
}

fn work(millis: f64, bytes: u64) -> Work {
    Work { duration: Picos::from_micros(millis * 1e3), bytes: Bytes(bytes) }
}

/// A game of 50 frames a second, each two batches of 1 ms.
fn game() -> Background {
    Background {
        processor: GPU,
        period: millis(20.0),
        batches: 2,
        duration: millis(1.0),
        bytes: Bytes::ZERO,
        queue_depth: 4,
        steady: None,
    }
}

fn run(program: &Program, background: &Background) -> (Picos, Frames) {
    let capacity = Capacity::constant(BytesPerSecond::from_gigabytes(40.0));
    Engine::new().run_beside(program, &capacity, background, &mut NoTrace)
}

#[test]
fn work_elsewhere_and_frames_do_not_disturb_each_other() {
    let mut program = Program::new();
    for _ in 0..10 {
        program.task(NPU, 1, [work(10.05, 0)]);
    }
    let (latency, frames) = run(&program, &game());
    assert_eq!(latency, millis(100.5));
    assert_eq!(frames, Frames { completed: 5, late: 0, worst: millis(2.0) });
}

#[test]
fn frames_wait_behind_what_the_gpu_was_given_before() {
    // 100 commands of 10 ms, four of them in the queue: each batch waits for as many.
    let mut program = Program::new();
    for _ in 0..100 {
        program.task(GPU, 1, [work(10.0, 0)]);
    }
    let (latency, frames) = run(&program, &game());
    assert!(frames.late >= frames.completed, "{frames:?}");
    // A batch is handed over while four commands wait or run, so a frame takes 80 to 84 ms.
    assert!((millis(76.0)..millis(84.0)).contains(&frames.worst), "{frames:?}");
    assert!((12..=13).contains(&frames.completed), "{frames:?}");
    // The GPU never rests: the run takes its own time and that of the batches within it.
    let batches = (latency - millis(1_000.0)).as_micros() / 1e3;
    assert!((24.0..=27.0).contains(&batches), "{batches}");
}

#[test]
fn a_program_that_waits_for_another_processor_lets_frames_through() {
    // The same work of the GPU, but each command follows one of the NPU.
    let mut program = Program::new();
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
    let (latency, frames) = run(&program, &game());
    let due = (latency.as_micros() / 20e3) as u32;
    assert_eq!((frames.completed, frames.late), (due, 0), "{frames:?}, {latency}");
    assert!(frames.worst <= millis(12.0), "{frames:?}");
}

#[test]
fn the_deeper_the_queue_the_longer_the_frames() {
    let mut program = Program::new();
    for _ in 0..200 {
        program.task(GPU, 1, [work(3.0, 0)]);
    }
    let worst = |queue_depth| run(&program, &Background { queue_depth, ..game() }).1.worst;
    let depths = [1, 2, 4, 8, 15];
    let frames = depths.map(worst);
    assert!(frames.windows(2).all(|pair| pair[0] < pair[1]), "{frames:?}");
}

#[test]
fn traffic_of_the_game_s_threads_takes_bandwidth() {
    let mut program = Program::new();
    program.task(NPU, 1, [work(1_000.0, 40_000_000_000)]);
    let steady = |gigabytes: f64| {
        let bytes = Bytes((gigabytes * 1e9 * 0.02) as u64);
        run(&program, &Background { steady: Some((ClientId(CPU.0), bytes)), ..game() }).0
    };
    assert_eq!(steady(0.0), millis(1_000.0));
    let slowed = steady(8.0).as_seconds();
    assert!((slowed - 40.0 / 32.0).abs() < 1e-3, "{slowed}");
}

#[test]
fn a_host_s_hand_over_leaves_the_gpu_to_the_game() {
    let mut program = Program::new();
    let before = program.task(GPU, 1, [work(30.0, 0)]);
    program.on_host(before);
    program.task(GPU, 1, [work(5.0, 0)]);
    let (latency, frames) = run(&program, &game());
    assert_eq!((latency, frames.late), (millis(35.0), 0));
}

#[test]
fn the_same_run_gives_the_same_frames() {
    let mut program = Program::new();
    for index in 0..50_u32 {
        let processor = if index % 3 == 0 { NPU } else { GPU };
        program.task(processor, 1, [work(1.0 + f64::from(index % 7), 1_000_000)]);
    }
    assert_eq!(run(&program, &game()), run(&program, &game()));
}

/// What ends when another frame's batch does was there before its turn, whichever of the
/// two the engine handles first.
#[test]
fn whose_turn_it_is_shows_once_everything_at_a_time_has_happened() {
    // The first batch ends at 1 ms, as does the NPU's task that a command waits for; the
    // second batch is handed over then, too, and the program goes first.
    let mut program = Program::new();
    let npu = program.task(NPU, 1, [work(1.0, 0)]);
    let signal = program.delay(Picos::ZERO);
    program.after(signal, npu);
    let gpu = program.task(GPU, 1, [work(5.0, 0)]);
    program.after(gpu, signal);
    let (latency, frames) = run(&program, &game());
    assert_eq!((latency, frames.completed), (millis(6.0), 0));
}

#[test]
fn a_frame_that_ends_with_the_program_has_ended() {
    for before_frames in [true, false] {
        let mut program = Program::new();
        let delay = program.delay(if before_frames { millis(2.0) } else { millis(1.0) });
        if !before_frames {
            let rest = program.delay(millis(1.0));
            program.after(rest, delay);
        }
        assert_eq!(run(&program, &game()).1.completed, 1);
    }
}
