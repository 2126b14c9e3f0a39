//! The sweep over layers on both processors, kept as runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use coexec_fit::measure::runs::{Dispatch, ExecutedOn, Measurement, Repetition};
use coexec_sim::device::cpu::Cpu;
use coexec_sim::device::gpu::Gpu;
use coexec_sim::kernel::cpu::{CoreSet, MAX_THREADS};
use coexec_sim::statistics::median;
use coexec_sim::workload::{DataType, Layer, Linear, Operator};
use core_affinity::CoreId;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::cores::CoreGroup;
use super::fit::MIN_LAYERS;
use super::layer_runs::{Effort, OnGpu, memory_bytes, on_cpu};
use super::layers::sweep;
use super::{ProbeError, TimeBudget};
use crate::cpu::{PoolError, ThreadPool};
use crate::opencl::Runtime;
use crate::statistics::outliers;

/// What all runs name as their conditions.
pub(super) const FINGERPRINT: &str = "probe";
/// Repetitions of each layer on the CPU.
const QUICK: Effort = Effort { least: 5, most: 15, time: Duration::from_millis(60) };
const FULL: Effort = Effort { least: 7, most: 40, time: Duration::from_millis(400) };
/// Repetitions of each visit to a layer on the GPU, and visits. What disturbs a machine
/// lasts longer than a visit: under `PoCL` on a shared host, launches of a visit are
/// within 5 % of their median, the medians of visits a second apart within 10 %.
const QUICK_VISIT: Effort = Effort { least: 3, most: 8, time: Duration::from_millis(15) };
const FULL_VISIT: Effort = Effort { least: 2, most: 3, time: Duration::from_millis(20) };
const VISITS: [usize; 2] = [2, 16];
/// Part of the device's memory that layers take which wait for their next visit.
const MEMORY_PART: u64 = 4;
/// Part of the time left that preparing layers may take.
const PREPARING: f64 = 0.5;
/// Rounds in which the layers on the CPU are timed, quickly and in full: what disturbs a
/// core for seconds then spoils a part of a layer's repetitions and not all.
const ROUNDS: [usize; 2] = [2, 8];
/// Layers that are timed even where time has run out: a few more than a fit needs.
const ENOUGH_LAYERS: usize = MIN_LAYERS + 8;
/// Longest that a layer may take on a processor, by its rate on products.
const LONGEST: [Duration; 2] = [Duration::from_millis(15), Duration::from_millis(120)];

/// Layers timed on a processor, and those that could not be.
#[derive(Default)]
pub(super) struct Sweep {
    pub(super) measurements: Vec<Measurement>,
    pub(super) left_out: Vec<String>,
}

/// The product by which the rate of a processor is found: 67 million
/// multiply-accumulates, none of them wasted by any tile.
fn rated_layer() -> Layer {
    let linear = Linear { rows: 256, input_features: 512, output_features: 512, bias: true };
    Layer::new(Operator::Linear(linear), DataType::F32)
}

/// Most multiply-accumulates of a layer where the rated one takes `times`.
fn most_macs(times: &[f64], quick: bool) -> u64 {
    let per_us = rated_layer().operator.macs() as f64 / median(times).unwrap_or(f64::INFINITY);
    (per_us * LONGEST[usize::from(!quick)].as_micros() as f64) as u64
}

/// A layer of the sweep on the GPU, and its times so far.
struct Visited {
    index: usize,
    name: String,
    layer: Layer,
    on_gpu: OnGpu,
    times_us: Vec<f64>,
}

impl Visited {
    fn measurement(self) -> Measurement {
        let OnGpu { launch, .. } = self.on_gpu;
        Measurement {
            kernel: Some(launch.kernel.to_string()),
            dispatch: Some(Dispatch { grid: launch.grid, work_group: launch.work_group }),
            ..measurement(ExecutedOn::Gpu, "gpu", (self.name, self.layer), &self.times_us, self.index)
        }
    }
}

/// Layer number `index` as `processor`, which is `called` so, ran it.
fn measurement(
    processor: ExecutedOn,
    called: &str,
    (name, layer): (String, Layer),
    times_us: &[f64],
    index: usize,
) -> Measurement {
    let marks = outliers(times_us);
    let numbered = (0..).zip(times_us).zip(marks);
    let repetitions =
        numbered.map(|((number, &measured_us), outlier)| Repetition { number, measured_us, outlier });
    Measurement {
        run: format!("{called} {name}"),
        network: name.clone(),
        data_type: layer.data_type,
        operator: Some((name, layer)),
        processor,
        synchronisation: None,
        kernel: None,
        dispatch: None,
        fingerprint: Some(FINGERPRINT.to_owned()),
        repetitions: repetitions.collect(),
        line: index as u64 + 1,
    }
}

/// Times the sweep on the GPU: prepares as many layers as the device's memory holds well,
/// and visits them in turn, several times each and in an order of its own each time, so
/// that what disturbs the machine for a while does not meet the same layer each time.
pub(super) fn gpu(
    runtime: &Arc<Runtime>,
    gpu: &Gpu,
    quick: bool,
    seed: u64,
    budget: &TimeBudget<'_>,
) -> Result<Sweep, ProbeError> {
    let rated = OnGpu::new(runtime, gpu, &rated_layer()).and_then(|rated| rated.visit(QUICK));
    let rated = rated.map_err(ProbeError::Layer)?;
    let layers = sweep(quick, seed, most_macs(&rated, quick));
    let mut waiting: VecDeque<(usize, (String, Layer))> = layers.into_iter().enumerate().collect();
    let mut sweep = Sweep::default();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    while !waiting.is_empty() && (!budget.is_over() || sweep.measurements.len() < ENOUGH_LAYERS) {
        let mut prepared = prepare(runtime, gpu, &mut waiting, budget, &mut sweep)?;
        visit_all(runtime, &mut prepared, quick, &mut random, budget, &mut sweep)?;
        let timed = prepared.into_iter().filter(|visited| !visited.times_us.is_empty());
        sweep.measurements.extend(timed.map(Visited::measurement));
    }
    Ok(sweep)
}

/// Prepares the first of the `waiting` layers, as many as there is memory and time for.
fn prepare(
    runtime: &Arc<Runtime>,
    gpu: &Gpu,
    waiting: &mut VecDeque<(usize, (String, Layer))>,
    budget: &TimeBudget<'_>,
    sweep: &mut Sweep,
) -> Result<Vec<Visited>, ProbeError> {
    let preparing = TimeBudget { end: budget.end_of_part(PREPARING), progress: budget.progress };
    let most_bytes = runtime.device().global_memory_bytes / MEMORY_PART;
    let mut prepared = Vec::new();
    let mut bytes = 0;
    while bytes <= most_bytes {
        let enough = prepared.len() + sweep.measurements.len() >= ENOUGH_LAYERS;
        if enough && preparing.is_over() {
            break;
        }
        let Some((index, (name, layer))) = waiting.pop_front() else { break };
        budget.report_every(index, index + waiting.len(), "preparing layers on the GPU");
        match OnGpu::new(runtime, gpu, &layer) {
            Ok(on_gpu) => {
                bytes += memory_bytes(&layer, &on_gpu.launch);
                prepared.push(Visited { index, name, layer, on_gpu, times_us: Vec::new() });
            }
            Err(why) => sweep.leave_out(runtime, &layer, &why)?,
        }
    }
    Ok(prepared)
}

/// Visits `layers` until each has had its visits or the time has passed. The first visits
/// are in the order of the draw: time may run out.
fn visit_all(
    runtime: &Runtime,
    layers: &mut [Visited],
    quick: bool,
    random: &mut ChaCha8Rng,
    budget: &TimeBudget<'_>,
    sweep: &mut Sweep,
) -> Result<(), ProbeError> {
    let effort = if quick { QUICK_VISIT } else { FULL_VISIT };
    let visits = VISITS[usize::from(!quick)];
    let mut order: Vec<usize> = (0..layers.len()).collect();
    for visit in 0..visits {
        budget.report(&format!("visit {} of {visits} to {} layers on the GPU", visit + 1, layers.len()));
        for (turn, &index) in order.iter().enumerate() {
            let enough = visit > 0 || sweep.measurements.len() + turn >= ENOUGH_LAYERS;
            if enough && budget.is_over() {
                return Ok(());
            }
            let visited = &mut layers[index];
            match visited.on_gpu.visit(effort) {
                Ok(times) => visited.times_us.extend(times),
                Err(why) => sweep.leave_out(runtime, &visited.layer, &why)?,
            }
        }
        order.shuffle(random);
    }
    Ok(())
}

impl Sweep {
    /// Notes why `layer` is not timed.
    ///
    /// # Errors
    /// Where the device did not come back from it.
    fn leave_out(&mut self, runtime: &Runtime, layer: &Layer, why: &str) -> Result<(), ProbeError> {
        if runtime.is_lost() {
            return Err(ProbeError::Layer(format!("the device did not come back from {}", layer.operator)));
        }
        self.left_out.push(format!("{}: {why}", layer.operator));
        Ok(())
    }
}

/// Cores that work together, and the pool of threads on them.
struct Team {
    cores: CoreSet,
    /// The core of the thread that calls.
    first: usize,
    pool: ThreadPool,
}

/// Core sets of the clusters alone, by powers of two, and of all cores.
fn teams(cpu: &Cpu, groups: &[CoreGroup]) -> Result<Vec<Team>, PoolError> {
    let mut teams = Vec::new();
    for (cluster, group) in cpu.clusters.iter().zip(groups) {
        let most = group.cores.len().min(MAX_THREADS);
        let mut counts: Vec<usize> = std::iter::successors(Some(1), |count| Some(2 * count))
            .take_while(|&count| count < most)
            .collect();
        counts.push(most);
        for count in counts {
            let text = format!("{count}{}", cluster.name.as_str());
            if let Ok(cores) = CoreSet::parse(&text, cpu) {
                let pool = pool(&group.cores[..count])?;
                teams.push(Team { cores, first: group.cores[0], pool });
            }
        }
    }
    let all: Vec<usize> = groups.iter().flat_map(|group| group.cores.iter().copied()).collect();
    if groups.len() > 1
        && let Some(cores) = CoreSet::fastest(cpu, all.len().min(MAX_THREADS) as u32)
    {
        let pool = pool(&all[..all.len().min(MAX_THREADS)])?;
        teams.push(Team { cores, first: all[0], pool });
    }
    Ok(teams)
}

/// Threads on these cores, or anywhere where the system pins none.
pub(super) fn pool(cores: &[usize]) -> Result<ThreadPool, PoolError> {
    match ThreadPool::pinned(cores) {
        Err(PoolError::CannotPin { .. }) => ThreadPool::new(cores.len()),
        pool => pool,
    }
}

/// Times the sweep on the CPU: each layer on one core of a cluster and on one of the
/// larger core sets in turn.
pub(super) fn cpu(
    cpu: &Cpu,
    groups: &[CoreGroup],
    quick: bool,
    seed: u64,
    budget: &TimeBudget<'_>,
) -> Result<Sweep, ProbeError> {
    let effort = if quick { QUICK } else { FULL };
    let mut teams = teams(cpu, groups)?;
    let mut rated = Vec::new();
    if let Some(team) = teams.first_mut() {
        rated = on_cpu(&mut team.pool, &rated_layer(), QUICK).map_err(ProbeError::Layer)?;
    }
    let layers = sweep(quick, seed, most_macs(&rated, quick));
    let rounds = ROUNDS[usize::from(!quick)];
    // Times of each layer on the team of each turn. Every layer on every team would take
    // too long on a phone of many clusters.
    let turns = teams.len().min(2);
    let others = teams.len() - usize::from(!teams.is_empty());
    let place = |index: usize, turn: usize| if turn == 0 { 0 } else { 1 + index % others };
    let mut times: Vec<Vec<Result<Vec<f64>, String>>> = vec![vec![Ok(Vec::new()); turns]; layers.len()];
    for round in 0..rounds {
        for (index, (_, layer)) in layers.iter().enumerate() {
            if budget.is_over() && (round > 0 || index * turns >= ENOUGH_LAYERS) {
                break;
            }
            budget.report_every(round * layers.len() + index, rounds * layers.len(), "layers on the CPU");
            for (turn, so_far) in times[index].iter_mut().enumerate() {
                let Ok(known) = so_far else { continue };
                match timed(layer, &mut teams[place(index, turn)], effort.part(rounds)) {
                    Ok(more) => known.extend(more),
                    Err(why) => *so_far = Err(why),
                }
            }
        }
    }
    let mut sweep = Sweep::default();
    for (index, (layer, times)) in layers.into_iter().zip(times).enumerate() {
        for (turn, times) in times.into_iter().enumerate() {
            match times {
                Ok(times) if times.is_empty() => {}
                Ok(times) => {
                    let cores = teams[place(index, turn)].cores.to_string();
                    let ran = ExecutedOn::Cpu(cores.clone());
                    sweep.measurements.push(measurement(ran, &cores, layer.clone(), &times, index));
                }
                Err(why) => sweep.left_out.push(format!("{}: {why}", layer.1.operator)),
            }
        }
    }
    Ok(sweep)
}

fn timed(layer: &Layer, Team { first, pool, .. }: &mut Team, effort: Effort) -> Result<Vec<f64>, String> {
    // The pools of other teams moved the calling thread, which is a worker of each.
    let _ = core_affinity::set_for_current(CoreId { id: *first });
    on_cpu(pool, layer, effort)
}
