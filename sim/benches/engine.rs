//! Speed of the engine: its calendar against that of a general-purpose simulator,
//! its shared memory, and whole programs.
//!
//! `hold`: the hold model, the usual benchmark of an event queue. Every event
//! schedules its successor after an exponential delay; `nexosim` runs one model per
//! pending event on one thread. `fluid`: flows that share a memory, each replaced when
//! it ends. `graph`: a network of 50 operators, each split over a CPU and a GPU.

#![allow(clippy::unused_async, reason = "nexosim requires async init functions")]

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

use coexec_sim::engine::calendar::Calendar;
use coexec_sim::engine::fluid::{SharedMemory, Traffic};
use coexec_sim::engine::{
    Capacity, ClientId, Engine, Interference, NoTrace, ProcessorId, Program, Recorder, TaskId, Work,
};
use coexec_sim::units::{Bytes, BytesPerSecond, Picos};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use nexosim::model::{Context, Model, schedulable};
use nexosim::simulation::{Mailbox, SimInit, Simulation};
use nexosim::time::MonotonicTime;
use rand::{Rng, RngExt, TryRng};
use rand_distr::{Distribution, Exp1};
use serde::{Deserialize, Serialize};

/// Mean delay between an event and its successor, long against the nanosecond ticks of
/// nexosim's clock, so that simultaneous events are rare.
const MEAN_DELAY_NANOS: f64 = 1e6;
const PENDING: [u32; 3] = [8, 64, 1_000];
const HOLD_EVENTS: u32 = 20_000;
const FLUID_COMPLETIONS: u32 = 20_000;

/// The random stream of one entity (`SplitMix64`).
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stream(u64);

impl Stream {
    /// Uniform in [0, 1).
    fn uniform(&mut self) -> f64 {
        self.random()
    }

    /// An exponentially distributed delay of at least one nanosecond.
    fn delay_nanos(&mut self) -> u64 {
        let delay: f64 = Exp1.sample(self);
        1 + (MEAN_DELAY_NANOS * delay) as u64
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(mixed ^ (mixed >> 31))
    }

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.try_next_u64().map(|bits| (bits >> 32) as u32)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.try_next_u64()?.to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

/// An entity with a recurring event. There are two kinds, so that events must be dispatched.
struct Station {
    stream: Stream,
    events: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Core(u32),
    Queue(u32),
}

struct Stations {
    calendar: Calendar<Event>,
    cores: Vec<Station>,
    queues: Vec<Station>,
}

impl Stations {
    fn new(pending: u32) -> Self {
        let station = |seed| Station { stream: Stream(u64::from(seed)), events: 0 };
        let mut stations = Self {
            calendar: Calendar::default(),
            cores: (0..pending / 2).map(station).collect(),
            queues: (pending / 2..pending).map(station).collect(),
        };
        for index in 0..pending / 2 {
            stations.handle(Event::Core(index));
            stations.handle(Event::Queue(index));
        }
        stations
    }

    fn handle(&mut self, event: Event) {
        let station = match event {
            Event::Core(index) => &mut self.cores[index as usize],
            Event::Queue(index) => &mut self.queues[index as usize],
        };
        station.events += 1;
        let delay = Picos(1_000 * station.stream.delay_nanos());
        self.calendar.push(self.calendar.now() + delay, event);
    }

    fn step(&mut self) {
        if let Some(event) = self.calendar.pop() {
            self.handle(event);
        }
    }
}

#[derive(Serialize, Deserialize)]
struct NexosimStation {
    stream: Stream,
    events: u64,
}

#[Model]
impl NexosimStation {
    #[nexosim(init)]
    async fn start(&mut self, context: &Context<Self>) {
        self.handle((), context);
    }

    #[nexosim(schedulable)]
    fn handle(&mut self, (): (), context: &Context<Self>) {
        self.events += 1;
        let delay = Duration::from_nanos(self.stream.delay_nanos());
        context.schedule_event(delay, schedulable!(Self::handle), ()).expect("the delay is positive");
    }
}

fn nexosim_stations(pending: u32) -> Simulation {
    let mut bench = SimInit::with_num_threads(1);
    for index in 0..pending {
        let station = NexosimStation { stream: Stream(u64::from(index)), events: 0 };
        bench = bench.add_model(station, Mailbox::new(), &format!("station {index}"));
    }
    bench.init(MonotonicTime::EPOCH).expect("the bench is complete")
}

fn hold(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hold");
    group.throughput(Throughput::Elements(u64::from(HOLD_EVENTS)));
    for pending in PENDING {
        let mut stations = Stations::new(pending);
        group.bench_function(BenchmarkId::new("calendar", pending), |bencher| {
            bencher.iter(|| (0..HOLD_EVENTS).for_each(|_| stations.step()));
        });
        let mut simulation = nexosim_stations(pending);
        group.bench_function(BenchmarkId::new("nexosim", pending), |bencher| {
            bencher.iter(|| {
                for _ in 0..HOLD_EVENTS {
                    simulation.step().expect("a station always schedules its next event");
                }
            });
        });
    }
    group.finish();
}

/// A phase of 1 to 100 us that alone uses 1 to 60 % of the memory bandwidth.
fn traffic(task: TaskId, stream: &mut Stream, capacity_gigabytes: f64) -> Traffic {
    let micros = 1.0 + 99.0 * stream.uniform();
    let share = 0.01 + 0.59 * stream.uniform();
    let bytes = (share * capacity_gigabytes * 1e3 * micros) as u64;
    let streams = 1 + stream.next_u32() % 4;
    Traffic { task, client: ClientId(0), streams, duration: Picos::from_micros(micros), bytes: Bytes(bytes) }
}

/// Completions of flows under max-min sharing, without and with interference.
fn fluid(criterion: &mut Criterion) {
    const CAPACITY_GIGABYTES: f64 = 40.0;
    let plain = Capacity::new(&[BytesPerSecond::from_gigabytes(CAPACITY_GIGABYTES)]);
    let rates = |shares: [f64; 2]| shares.map(|s| BytesPerSecond::from_gigabytes(s * CAPACITY_GIGABYTES));
    let interference = Interference::new(rates([0.1, 0.8]), rates([0.9, 0.5]), 1.1);
    let disturbed = plain.clone().with_interference(ClientId(0), interference);
    let mut group = criterion.benchmark_group("fluid");
    group.throughput(Throughput::Elements(u64::from(FLUID_COMPLETIONS)));
    for (name, capacity) in [("max-min", &plain), ("interference", &disturbed)] {
        for flows in [2, 4, 8, 16] {
            let mut stream = Stream(u64::from(flows));
            let mut memory = SharedMemory::default();
            let mut now = Picos::ZERO;
            for task in (0..flows).map(TaskId) {
                memory.start(now, &traffic(task, &mut stream, CAPACITY_GIGABYTES), capacity);
            }
            group.bench_function(BenchmarkId::new(name, flows), |bencher| {
                bencher.iter(|| {
                    let mut completed = 0;
                    while completed < FLUID_COMPLETIONS {
                        now = memory.settle(now, capacity).expect("flows are replaced");
                        while let Some(task) = memory.take_ended(now) {
                            memory.start(now, &traffic(task, &mut stream, CAPACITY_GIGABYTES), capacity);
                            completed += 1;
                        }
                    }
                });
            });
        }
    }
    group.finish();
}

/// A chain of 50 operators. Each waits for a signal, then runs as 2 to 4 phases on a
/// CPU of 4 threads and on a GPU, which together demand up to 1.6 times the memory
/// bandwidth of a single processor.
fn build_graph(program: &mut Program, stream: &mut Stream) {
    const OPERATORS: usize = 50;
    const CPU: ProcessorId = ProcessorId(0);
    const GPU: ProcessorId = ProcessorId(1);
    program.clear();
    let mut previous: Option<[TaskId; 2]> = None;
    for _ in 0..OPERATORS {
        let signal = program.delay(Picos::from_micros(2.0 + 5.0 * stream.uniform()));
        if let Some(tasks) = previous {
            for task in tasks {
                program.after(signal, task);
            }
        }
        previous = Some([(CPU, 4), (GPU, 1)].map(|(processor, streams)| {
            let count = 2 + (stream.next_u32() % 3) as usize;
            let phases: [Work; 4] = std::array::from_fn(|index| {
                let micros = 5.0 + 100.0 * stream.uniform();
                let bytes = if index == 0 { 0.0 } else { 32_000.0 * micros * stream.uniform() };
                Work { duration: Picos::from_micros(micros), bytes: Bytes(bytes as u64) }
            });
            let task = program.task(processor, streams, phases.into_iter().take(count));
            program.after(task, signal);
            task
        }));
    }
}

fn graph(criterion: &mut Criterion) {
    let capacity = Capacity::new(&[40.0, 34.0].map(BytesPerSecond::from_gigabytes));
    let mut program = Program::default();
    build_graph(&mut program, &mut Stream(50));
    let mut engine = Engine::default();
    engine.run(&program, &capacity, &mut NoTrace);
    let mut group = criterion.benchmark_group("graph");
    group.throughput(Throughput::Elements(engine.events()));
    group.bench_function("no trace", |bencher| {
        bencher.iter(|| engine.run(black_box(&program), &capacity, &mut NoTrace));
    });
    let mut recorder = Recorder::default();
    group.bench_function("recorder", |bencher| {
        bencher.iter(|| {
            recorder.phases.clear();
            recorder.memory.clear();
            engine.run(black_box(&program), &capacity, &mut recorder)
        });
    });
    group.bench_function("build and run", |bencher| {
        bencher.iter(|| {
            build_graph(&mut program, &mut Stream(50));
            engine.run(&program, &capacity, &mut NoTrace)
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = hold, fluid, graph
}
criterion_main!(benches);
