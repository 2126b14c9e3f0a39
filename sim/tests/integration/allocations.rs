//! Runs allocate nothing once their buffers have grown to size, and kernel models never allocate.

use coexec_sim::device::Profile;
use coexec_sim::engine::{
    Capacity, ClientId, Engine, Interference, NoTrace, ProcessorId, Program, Recorder, RequestStream, Work,
};
use coexec_sim::input::Text;
use coexec_sim::kernel::{cpu, gpu, npu};
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::units::{Bytes, BytesPerSecond, Picos};
use coexec_sim::workload::{DataType, Layer};

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
        Capacity::new(&[BytesPerSecond::from_gigabytes(30.0)]).with_interference(ClientId(1), interference);
    let mut program = Program::default();
    let mut engine = Engine::default();
    let mut recorder = Recorder::default();
    let arrivals: Vec<Picos> = (0..100).map(|request| Picos(90_000 * request)).collect();
    let streams = vec![RequestStream { arrivals, queue_depth: 4, ..RequestStream::default() }; 2];
    let mut simulate = || {
        build(&mut program);
        engine.run(&program, &capacity, &mut NoTrace);
        clear(&mut recorder);
        engine.run(&program, &capacity, &mut recorder);
        program.clear();
        for _ in 0..2 {
            program.next_application();
            program.task(ProcessorId(0), 1, [Work { duration: Picos(70_000), bytes: Bytes(2_000) }]);
            program.task(ProcessorId(1), 1, [Work { duration: Picos(30_000), bytes: Bytes(5_000) }]);
        }
        clear(&mut recorder);
        engine.serve(&program, &streams, &capacity, &mut recorder);
        assert_eq!(engine.requests().len(), 200);
    };
    let first = allocation_counter::measure(&mut simulate);
    let second = allocation_counter::measure(&mut simulate);
    assert!(first.bytes_total > 0);
    assert_eq!(second.bytes_total, 0);
}

/// Clears the recording; keeps the buffers.
fn clear(recorder: &mut Recorder) {
    recorder.phases.clear();
    recorder.memory.clear();
}

/// Every kind of operator, in two number formats.
fn layers() -> Vec<Layer> {
    let content = include_str!("../inputs/every_operator.toml").to_owned();
    let text = Text { name: "every_operator.toml".to_owned(), content };
    let scenario = Scenario::parse("every-operator", &text, &Overrides::default()).unwrap();
    let Workload::Model(stages) = scenario.workload else { panic!("the scenario is one model") };
    let formats = [DataType::F32, DataType::I8, DataType::W4A16];
    formats
        .into_iter()
        .flat_map(|data_type| stages.iter().map(move |stage| Layer { data_type, ..stage.layer.clone() }))
        .collect()
}

/// Evaluates `model` for every layer, checks that none allocates, and counts those with a kernel.
fn answered(name: &str, model: impl Fn(&Layer) -> bool) -> usize {
    let layers = layers();
    let known = layers.iter().filter(|layer| model(layer));
    known
        .map(|layer| {
            let allocated = allocation_counter::measure(|| assert!(model(layer)));
            assert_eq!(allocated.count_total, 0, "{name}: {}", layer.operator);
        })
        .count()
}

#[test]
fn a_kernel_model_allocates_nothing_per_question() {
    for device in Profile::bundled().unwrap() {
        let cores = cpu::CoreSet::fastest(&device.cpu, device.cpu.cores().min(3)).unwrap();
        for library in [cpu::Library::Ruy, cpu::Library::Xnnpack, cpu::Library::Coexec] {
            answered(&format!("{} {library}", device.name), |layer| {
                cpu::execute(layer, &device.cpu, &cores, library).is_ok()
            });
        }
        if let Some(gpu) = &device.gpu {
            assert!(answered(&device.name, |layer| gpu::execute(layer, gpu).is_ok()) > 0);
        }
        if let Some(kernels) = device.gpu.as_ref().and_then(|gpu| gpu.language.as_ref()) {
            let whole = answered(&device.name, |layer| {
                gpu::language::execute(layer, kernels).phases.duration() > Picos::ZERO
            });
            assert!(whole > 0);
        }
        if let Some(npu) = device.systolic() {
            assert!(answered(&device.name, |layer| npu::execute(layer, npu).is_ok()) > 0);
        }
    }
}
