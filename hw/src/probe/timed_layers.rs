//! The sweep over layers on both processors, recorded as runs.
//!
//! Responsible for: which layers are timed where, how often, and in which order. Not for:
//! interpreting their times. Invariant: a time counts only after the layer's result agreed with the
//! reference.

use std::collections::VecDeque;
use std::time::Duration;

use coexec_fit::measure::runs::{ExecutedOn, Measurement};
use coexec_sim::kernel::cpu::{CoreSet, MAX_THREADS};
use coexec_sim::kernel::gpu::{Kernel, Launch, WINOGRAD_POINTS, WINOGRAD_TILE};
use coexec_sim::workload::{DataType, Layer, Linear, Operator, Shape, Stage};
use coexec_sim::{Cpu, Mechanism, Picos, Placement, Plan, Profile};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::fit::MIN_LAYERS;
use super::{ProbeError, Result, TimeBudget, layers};
use crate::execute::{Clock, ExecuteError, Machine, Program, Task};
use crate::operands::weight_counts;
use crate::statistics::repetitions;

/// Fingerprint id of all runs.
pub(super) const FINGERPRINT: &str = "probe";
/// Time limit of one run; the first also compiles kernels.
pub(super) const RUN_LIMIT: Duration = Duration::from_secs(30);
/// Prepared layers may occupy the device's memory divided by this.
const MEMORY_PART: u64 = 4;
/// Fraction of the remaining time for preparing layers.
const PREPARATION_SHARE: f64 = 0.5;
/// Layers that are timed even if time has run out: a few more than a fit needs.
const MIN_TIMED_LAYERS: usize = MIN_LAYERS + 8;
/// Longest time of a layer on a processor, quick and full, estimated from the rate of a product.
const MAX_LAYER_TIME: [Duration; 2] = [Duration::from_millis(15), Duration::from_millis(120)];

/// How often a layer is run.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Turns of each layer. A disturbance of several seconds then affects only some of its
    /// repetitions.
    turns: usize,
    /// Fewest and most repetitions per turn.
    repetitions: [usize; 2],
    /// Target time of a layer's repetitions in one turn; sets their number between these limits.
    time: Duration,
    /// Most layers that run back to back.
    in_a_row: usize,
}

/// Layers that run back to back on a GPU: as many as many networks have, so that together they read
/// more than the caches hold.
const NETWORK_LAYERS: usize = 96;

/// CPU layers, quick and full, each repeated by itself: timed back to back, layers predicted
/// networks worse on a Xeon's cores (five networks were 20 % off instead of 12 %).
const CPU_EFFORT: [Effort; 2] = [
    Effort { turns: 2, repetitions: [3, 8], time: Duration::from_millis(30), in_a_row: 1 },
    Effort { turns: 8, repetitions: [1, 5], time: Duration::from_millis(50), in_a_row: 1 },
];
/// The same on the GPU. Disturbances last longer than a turn: under `PoCL` on a shared host,
/// launches of one turn are within 5 % of their median, the medians of turns a second apart within
/// 10 %.
const GPU_EFFORT: [Effort; 2] = [
    Effort { turns: 2, repetitions: [3, 8], time: Duration::from_millis(15), in_a_row: NETWORK_LAYERS },
    Effort { turns: 16, repetitions: [2, 3], time: Duration::from_millis(20), in_a_row: NETWORK_LAYERS },
];
/// For measuring the rate of a processor.
const RATING: Effort =
    Effort { turns: 1, repetitions: [5, 15], time: Duration::from_millis(60), in_a_row: 1 };

/// Layers timed on a processor, and those that could not be.
pub(super) struct Sweep {
    processor: &'static str,
    effort: Effort,
    pub(super) measurements: Vec<Measurement>,
    pub(super) left_out: Vec<String>,
}

/// A layer to be timed: its index in the draw, its name, and its placement.
type PendingLayer = (usize, (String, Layer), Placement);

/// A layer prepared and verified on a processor, with its times so far.
struct TimedLayer {
    index: usize,
    name: String,
    layer: Layer,
    ran: ExecutedOn,
    program: Program<f32>,
    /// Time of a run after verification.
    once: Picos,
    times_us: Vec<f64>,
}

/// The environment of a sweep.
pub(super) struct Sweeper<'a> {
    pub(super) machine: &'a mut Machine,
    /// Provides the GPU's dispatch rules and the core sets.
    pub(super) profile: &'a Profile,
    pub(super) quick: bool,
    pub(super) seed: u64,
    pub(super) budget: TimeBudget<'a>,
}

/// Approximate memory of `layer` under `launch`, in bytes: tensors and weights; for a Winograd
/// convolution also 36 points per 16 pixels, and 36 instead of every 9 weights.
fn memory_bytes(layer: &Layer, launch: Option<Launch>) -> u64 {
    let operator = &layer.operator;
    let tensors: u64 = operator.inputs().iter().chain([&operator.output()]).map(Shape::elements).sum();
    let weights: u64 = weight_counts(operator).iter().map(|&count| count as u64).sum();
    let transformed = if launch.is_some_and(|launch| launch.kernel == Kernel::Winograd) {
        let points = u64::from(WINOGRAD_POINTS);
        tensors * points / u64::from(WINOGRAD_TILE * WINOGRAD_TILE) + weights * points / 9
    } else {
        weights
    };
    (tensors + transformed) * size_of::<f32>() as u64
}

impl TimedLayer {
    fn new(
        sweeper: &mut Sweeper<'_>,
        (index, (name, layer), placement): PendingLayer,
    ) -> Result<Self, ExecuteError> {
        let task = Task {
            stages: &[Stage::single(name.clone(), layer.clone())],
            plan: &Plan::new(Mechanism::SvmPolling, vec![placement]),
            profile: sweeper.profile,
            clock: Clock::Device,
            seed: sweeper.seed,
            limit: RUN_LIMIT,
        };
        let mut program = Program::new(sweeper.machine, &task)?;
        sweeper.machine.pin_caller_to(program.team());
        program.verify(sweeper.machine)?;
        let once = program.run(sweeper.machine)?.counted;
        let ran = placement.cores().map_or(ExecutedOn::Gpu, |cores| ExecutedOn::Cpu(cores.to_string()));
        Ok(Self { index, name, layer, ran, program, once, times_us: Vec::new() })
    }

    fn measurement(self) -> Measurement {
        let run = format!("{} {}", self.ran, self.name);
        let blank = Measurement::new(run, &self.name, self.layer.data_type, self.ran);
        Measurement {
            operator: Some((self.name, self.layer)),
            fingerprint: Some(FINGERPRINT.to_owned()),
            repetitions: repetitions(&self.times_us),
            line: self.index as u64 + 1,
            ..blank.launched(self.program.launch())
        }
    }
}

/// Runs layers of one processor back to back, for several rounds, and records the time of each run
/// in microseconds, except in the first round, which wakes cores and raises clocks. If there are
/// many layers, caches hold other layers' data and weights come from memory, as in an inference:
/// repeated by itself, a convolution whose weights fit an NVIDIA H100's cache took half as long.
/// Returns the layers that failed.
fn run_row(row: &mut [TimedLayer], machine: &mut Machine, effort: Effort) -> Vec<(Operator, ExecuteError)> {
    let once: f64 = row.iter().map(|layer| layer.once.as_micros()).sum();
    let fit = effort.time.as_secs_f64() * 1e6 * row.len() as f64 / once.max(f64::MIN_POSITIVE);
    let [least, most] = effort.repetitions;
    if let Some(first) = row.first() {
        machine.pin_caller_to(first.program.team());
    }
    let mut failed = Vec::new();
    for round in 0..=(fit as usize).clamp(least, most) {
        let programs = row.iter_mut().map(|layer| &mut layer.program).collect();
        for (layer, time) in Program::run_back_to_back(programs, machine, RUN_LIMIT).into_iter().enumerate() {
            match time {
                Ok(time) if round > 0 => row[layer].times_us.push(time.as_micros()),
                Ok(_) => {}
                Err(why) => failed.push((row[layer].layer.operator.clone(), why)),
            }
        }
        if !failed.is_empty() {
            break;
        }
    }
    failed
}

/// Core sets within each cluster, by powers of two, and the set of all cores.
fn core_sets(cpu: &Cpu) -> Vec<CoreSet> {
    let mut sets = Vec::new();
    for cluster in &cpu.clusters {
        let most = cluster.cores.min(MAX_THREADS as u32);
        let powers = std::iter::successors(Some(1), |count| Some(2 * count));
        let counts = powers.take_while(|&count| count < most).chain([most]);
        let names = counts.map(|count| format!("{count}{}", cluster.name.as_str()));
        sets.extend(names.filter_map(|name| CoreSet::parse(&name, cpu).ok()));
    }
    if cpu.clusters.len() > 1 {
        sets.extend(CoreSet::fastest(cpu, cpu.cores().min(MAX_THREADS as u32)));
    }
    sets
}

impl Sweeper<'_> {
    /// Times the sweep on the GPU.
    pub(super) fn gpu(&mut self) -> Result<Sweep> {
        self.sweep(("GPU", GPU_EFFORT), &[Placement::GPU])
    }

    /// Times the sweep on the CPU: each layer on one core, and on one of the other core sets by
    /// rotation. All layers on all sets would take too long on a phone with many clusters.
    pub(super) fn cpu(&mut self) -> Result<Sweep> {
        let cpu = &self.profile.cpu;
        let sets = core_sets(cpu);
        self.machine.prepare(&sets, cpu)?;
        let placements: Vec<Placement> = sets.into_iter().map(Placement::cpu).collect();
        self.sweep(("CPU", CPU_EFFORT), &placements)
    }

    /// Times layers on the first of `placements`, and on one of the others by rotation. Prepares as
    /// many as memory allows, then times them in several turns, each in another random order, so
    /// that a temporary disturbance does not always affect the same layers.
    fn sweep(
        &mut self,
        (processor, efforts): (&'static str, [Effort; 2]),
        placements: &[Placement],
    ) -> Result<Sweep> {
        let effort = efforts[usize::from(!self.quick)];
        let mut sweep = Sweep { processor, effort, measurements: Vec::new(), left_out: Vec::new() };
        let Some((&first, others)) = placements.split_first() else { return Ok(sweep) };
        let most_macs = self.most_macs(first)?;
        let mut waiting = VecDeque::new();
        for (index, layer) in layers::sweep(self.quick, self.seed, most_macs).into_iter().enumerate() {
            waiting.push_back((index, layer.clone(), first));
            if !others.is_empty() {
                waiting.push_back((index, layer, others[index % others.len()]));
            }
        }
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        while !waiting.is_empty() && (!self.budget.is_over() || sweep.measurements.len() < MIN_TIMED_LAYERS) {
            let mut prepared = self.prepare(&mut waiting, &mut sweep)?;
            self.time_all(&mut prepared, &mut random, &mut sweep)?;
            prepared.sort_by_key(|layer| layer.index);
            let timed = prepared.into_iter().filter(|layer| !layer.times_us.is_empty());
            sweep.measurements.extend(timed.map(TimedLayer::measurement));
        }
        Ok(sweep)
    }

    /// Most multiply-accumulates of a layer, estimated from the time of one product.
    fn most_macs(&mut self, placement: Placement) -> Result<u64, ExecuteError> {
        // 67 million multiply-accumulates, with dimensions that no tile pads.
        let linear = Linear { rows: 256, input_features: 512, output_features: 512, bias: true };
        let layer = Layer::new(Operator::Linear(linear), DataType::F32);
        let macs = layer.operator.macs() as f64;
        let mut rated = TimedLayer::new(self, (0, ("rated".to_owned(), layer), placement))?;
        if let Some((_, why)) = run_row(std::slice::from_mut(&mut rated), self.machine, RATING).pop() {
            return Err(why);
        }
        let per_us = macs / coexec_sim::statistics::median(&rated.times_us).unwrap_or(f64::INFINITY);
        Ok((per_us * MAX_LAYER_TIME[usize::from(!self.quick)].as_micros() as f64) as u64)
    }

    /// Prepares the first of the `waiting` layers, as many as memory and time allow.
    fn prepare(
        &mut self,
        waiting: &mut VecDeque<PendingLayer>,
        sweep: &mut Sweep,
    ) -> Result<Vec<TimedLayer>> {
        let preparing = self.budget.part(PREPARATION_SHARE);
        let most_bytes = self
            .machine
            .runtime()
            .map_or(u64::MAX, |runtime| runtime.device().global_memory_bytes / MEMORY_PART);
        let mut prepared = Vec::new();
        let mut bytes = 0;
        while bytes <= most_bytes {
            let enough = prepared.len() + sweep.measurements.len() >= MIN_TIMED_LAYERS;
            if enough && preparing.is_over() {
                break;
            }
            let Some(next) = waiting.pop_front() else { break };
            let (index, (_, Layer { operator, .. }), _) = next.clone();
            let of = index + waiting.len();
            if index.is_multiple_of((of / 10).max(1)) {
                self.budget.report(&format!("preparing layers on the {}: {index} of {of}", sweep.processor));
            }
            match TimedLayer::new(self, next) {
                Ok(timed) => {
                    bytes += memory_bytes(&timed.layer, timed.program.launch());
                    prepared.push(timed);
                }
                Err(why) => self.leave_out(sweep, &operator, &why)?,
            }
        }
        Ok(prepared)
    }

    /// Times `layers` until each has had its turns or the time is up. The first turn is in the
    /// order of the draw, in case time runs out.
    fn time_all(
        &mut self,
        layers: &mut [TimedLayer],
        random: &mut ChaCha8Rng,
        sweep: &mut Sweep,
    ) -> Result<()> {
        let (Effort { turns, in_a_row, .. }, processor) = (sweep.effort, sweep.processor);
        for turn in 1..=turns {
            let count = layers.len();
            self.budget.report(&format!("turn {turn} of {turns}: {count} layers on the {processor}"));
            let mut started = sweep.measurements.len();
            for row in layers.chunks_mut(in_a_row) {
                let enough = turn > 1 || started >= MIN_TIMED_LAYERS;
                if enough && self.budget.is_over() {
                    return Ok(());
                }
                started += row.len();
                for (operator, why) in run_row(row, self.machine, sweep.effort) {
                    self.leave_out(sweep, &operator, &why)?;
                }
            }
            layers.shuffle(random);
        }
        Ok(())
    }

    /// Records why a layer is not timed.
    ///
    /// # Errors
    /// Where the device is lost.
    fn leave_out(&self, sweep: &mut Sweep, operator: &Operator, why: &ExecuteError) -> Result<()> {
        if self.machine.runtime().is_some_and(|runtime| runtime.is_lost()) {
            return Err(ProbeError::Layer(format!("the device never finished {operator}")));
        }
        sweep.left_out.push(format!("{operator}: {why}"));
        Ok(())
    }
}
