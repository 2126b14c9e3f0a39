//! Runs allocate nothing once the buffers have reached their size.

use coexec_sim::engine::{
    Capacity, ClientId, Engine, Interference, NoTrace, ProcessorId, Program, Recorder, Work,
};
use coexec_sim::units::{Bytes, BytesPerSecond, Picos};

/// Three processors that contend for the memory and signal each other.
fn build(program: &mut Program) {
    program.clear();
    for layer in 1..=40 {
        let signal = program.delay(Picos(1_000 * layer));
        for processor in (0..3).map(ProcessorId) {
            let duration = Picos(100_000 + 7_000 * layer + 3_000 * u64::from(processor.0));
            let phase = |bytes| Work { duration, bytes: Bytes(bytes) };
            let task = program.task(processor, 2, [phase(0), phase(2_000 + 10 * layer), phase(500)]);
            program.after(task, signal);
        }
    }
}

#[test]
fn a_second_run_allocates_nothing() {
    let rates = |gigabytes: [f64; 2]| gigabytes.map(BytesPerSecond::from_gigabytes);
    let interference = Interference::new(rates([5.0, 40.0]), rates([20.0, 12.0]), 1.1);
    let capacity =
        Capacity::constant(BytesPerSecond::from_gigabytes(30.0)).with_interference(ClientId(1), interference);
    let mut program = Program::new();
    let mut engine = Engine::new();
    let mut recorder = Recorder::new();
    let mut simulate = || {
        build(&mut program);
        engine.run(&program, &capacity, &mut NoTrace);
        recorder.clear();
        engine.run(&program, &capacity, &mut recorder);
    };
    let first = allocation_counter::measure(&mut simulate);
    let second = allocation_counter::measure(&mut simulate);
    assert!(first.bytes_total > 0);
    assert_eq!(second.bytes_total, 0);
}
