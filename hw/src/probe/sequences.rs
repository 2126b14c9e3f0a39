//! Networks under the plan that a search finds for each, measured in turn with both processors alone.
//!
//! Responsible for: which networks, the gap between their launches, what cold caches cost inside
//! them, and the error of each prediction. Not for: what that means for an answer (`coexec_sim::simulate::Errors`). Invariants:
//! the networks are drawn from a seed, and none is a known network; each is predicted by a fit to
//! the others.

use std::ops::RangeInclusive;

use coexec_fit::calibrate::cpu::{InNetwork, cold_caches};
use coexec_fit::validate::cut::calibrated_us;
use coexec_fit::validate::point::Point;
use coexec_sim::device::calibration::ErrorGroup;
use coexec_sim::explore::{Effort, SearchOptions, Strategy, explore};
use coexec_sim::statistics::median;
use coexec_sim::workload::{
    CHANNELS_PER_SLICE, DataType, Dimension, Function, Graph, GraphBuilder, GraphError, MatMul, NormKind,
    PoolKind, Shape, Source, Transpose, Window, fuse,
};
use coexec_sim::{
    CoreSet, Cpu, Library, Measure, Mechanism, Picos, Placement, Plan, ProcessorKind, Profile, Quantity,
    Simulator, Stage,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::assemble::checked;
use super::co_execution::{Planned, Ways};
use super::layers::{HEAD, pick};
use super::{Bench, ProbeError, Result, co_execution};
use crate::execute::Machine;

/// Networks, quick and full: those that are long enough, and those with a plan that uses both processors.
const NETWORKS: [[usize; 2]; 2] = [[4, 2], [6, 6]];
/// Shortest time on the GPU, as predicted, of a network that shows what networks take there. Of shorter
/// ones, which data centres' GPUs compute in less time than a driver takes to enqueue them, no user asks.
const MIN_GPU_US: f64 = 500.0;
/// Repetitions of each way to compute one, quick and full.
const REPETITIONS: [u32; 2] = [7, 15];
/// Draws per wanted network: for some, the best plan is one processor alone, and some are too large or small.
const DRAWS: usize = 10;
/// Multiply-accumulates of a network: at least as many as MobileNet v3 small has, at most as many as ResNet-50.
const MACS: RangeInclusive<u64> = 50_000_000..=4_000_000_000;
/// Networks needed to estimate what only networks show, as a single one may be disturbed.
const MIN_NETWORKS: usize = 3;
/// Fraction of the probe's time reserved for networks, which follow the fits.
pub(super) const TIME_PART: f64 = 0.2;

/// A measured network, with the times of its plan, the CPU alone and the GPU alone.
pub(super) struct Timed {
    network: Planned,
    /// Whether it takes the GPU long enough to show what networks take.
    is_long: bool,
    shared_us: f64,
    cpu_us: f64,
    gpu_us: f64,
    /// The time of each operator inside the network on the CPU alone.
    operators_us: Vec<Option<f64>>,
}

/// Measures networks that take the GPU long enough, and others for which the best plan under `profile` uses both
/// processors.
pub(super) fn measure(bench: &Bench<'_>, machine: &mut Machine, profile: &Profile) -> Result<Vec<Timed>> {
    let full = usize::from(!bench.options.quick);
    let strategy = Strategy::Optimal;
    let options = SearchOptions { strategy, effort: Effort::Quick, ..SearchOptions::on(profile) };
    let mut timed = Vec::new();
    for (number, wanted) in (0..).zip(NETWORKS[full]) {
        let is_long = number == 0;
        let mut random = ChaCha8Rng::seed_from_u64(bench.options.seed.wrapping_add(number));
        let drawn = (0..DRAWS * wanted).map(|draw| {
            let graph = if draw % 2 == 0 { image_network(&mut random) } else { token_network(&mut random) };
            let graph = graph.map_err(|error| ProbeError::Layer(error.to_string()))?;
            let stages = fuse(&graph);
            let is_of_size =
                MACS.contains(&graph.macs()) && (!is_long || gpu_us(profile, &stages) >= MIN_GPU_US);
            let name = format!("network {draw} of the probe's {}", if is_long { "long" } else { "shared" });
            let planned = is_of_size.then(|| planned(profile, name, stages, &options)).flatten();
            Ok(planned.filter(|network| is_long || shares(network)))
        });
        let kept = (if is_long { "long networks" } else { "shared networks" }, TIME_PART / 2.0);
        let extent = (wanted, REPETITIONS[full]);
        timed.extend(co_execution::measure((bench, machine, profile), kept, extent, drawn)?);
    }
    let of = |(network, measured): (Planned, Ways)| {
        let mut operators = vec![Vec::new(); network.stages.len()];
        measured[2].on_cores_us.iter().for_each(|&(stage, time_us)| operators[stage].push(time_us));
        let operators_us = operators.iter().map(|times| median(times)).collect();
        let [shared, gpu, cpu] = measured.map(|measured| median(&measured.wall_us));
        let is_long = gpu_us(profile, &network.stages) >= MIN_GPU_US;
        Some(Timed { network, is_long, shared_us: shared?, cpu_us: cpu?, gpu_us: gpu?, operators_us })
    };
    Ok(timed.into_iter().filter_map(of).collect())
}

/// The network under the plan that a search finds.
fn planned(profile: &Profile, name: String, stages: Vec<Stage>, options: &SearchOptions) -> Option<Planned> {
    let plan = explore(&mut simulator(profile), &stages, options).ok()?.plan;
    let largest = options.core_sets.iter().copied().max_by_key(CoreSet::threads);
    let cores = plan.placements.iter().find_map(Placement::cores).or(largest)?;
    Some(Planned { name, stages, plan, cores })
}

/// Whether CPU and GPU share the network.
fn shares(network: &Planned) -> bool {
    let uses = |kind| network.plan.placements.iter().any(|placement| placement.uses(kind));
    uses(ProcessorKind::Cpu) && uses(ProcessorKind::Gpu)
}

/// Predicted time on the GPU alone, in microseconds; infinite without a prediction.
fn gpu_us(profile: &Profile, stages: &[Stage]) -> f64 {
    let alone = Plan::new(Mechanism::EventWait, vec![Placement::GPU; stages.len()]);
    simulator(profile).latency(stages, &alone).map_or(f64::INFINITY, Picos::as_micros)
}

fn simulator(profile: &Profile) -> Simulator<'_> {
    Simulator::new(profile, Library::default_for(&profile.cpu)).measuring(Measure::Inference)
}

/// Sets in `profile` what only networks show: the gap between launches on the GPU, which differs from that
/// between empty kernels with time stamps, and what operators on cores cost with cold caches. Returns the
/// held-out error of each network, predicted from the others: each processor alone, and the plan given their
/// times.
pub(super) fn fit(profile: &mut Profile, timed: &[Timed], source: &str) -> Vec<Point> {
    let all: Vec<(&Timed, Option<f64>)> =
        timed.iter().map(|network| (network, network.gap_us(profile))).collect();
    let held_out = (0..all.len()).flat_map(|index| {
        let others = [&all[..index], &all[index + 1..]].concat();
        all[index].0.points(&fitted(profile, &others, source))
    });
    let points = held_out.collect();
    *profile = fitted(profile, &all, source);
    points
}

/// The profile with the values that `networks` show, each with its gap, unless there are too few or a
/// value is invalid in a profile, as it may be on a disturbed machine.
fn fitted(profile: &Profile, networks: &[(&Timed, Option<f64>)], source: &str) -> Profile {
    if networks.len() < MIN_NETWORKS {
        return profile.clone();
    }
    let operators: Vec<InNetwork<'_>> =
        networks.iter().flat_map(|(network, _)| network.operators()).collect();
    let what = format!("{source}: {} operators inside networks", operators.len());
    let cold_caches = cold_caches(&profile.cpu, &operators, &what);
    let cold = Profile { cpu: Cpu { cold_caches, ..profile.cpu.clone() }, ..profile.clone() };
    let cold = checked(cold).unwrap_or_else(|_| profile.clone());
    let gaps: Vec<f64> = networks.iter().filter_map(|(_, gap)| *gap).collect();
    let gap = super::Estimate::of(&gaps, "networks").ok().filter(|_| gaps.len() >= MIN_NETWORKS);
    let gap = gap.map(|gap| gap.quantity(&format!("{source}: between launches of networks, by their times")));
    let with = gap.and_then(|gap| checked(with_gap(&cold, gap)).ok());
    with.unwrap_or(cold)
}

fn with_gap(profile: &Profile, gap_us: Quantity) -> Profile {
    let mut with = profile.clone();
    if let Some(host) = with.gpu.as_mut().and_then(|gpu| gpu.host.as_mut()) {
        host.gap_us = gap_us;
    }
    with
}

impl Timed {
    /// Its operators on the CPU alone.
    fn operators(&self) -> impl Iterator<Item = InNetwork<'_>> {
        let timed = self.network.stages.iter().zip(&self.operators_us);
        timed.filter_map(|(stage, &measured_us)| {
            Some(InNetwork { layer: &stage.layer, cores: self.network.cores, measured_us: measured_us? })
        })
    }

    /// The gap between launches on the GPU, in microseconds, at which the prediction equals the measured time;
    /// none where even without gaps it is longer, as launches without time stamps take a little less. `None` if
    /// the network is too short.
    fn gap_us(&self, profile: &Profile) -> Option<f64> {
        let plan = self.network.on_one_processor(Placement::GPU);
        let takes = |gap_us| {
            let profile = with_gap(profile, Quantity::plain(gap_us));
            simulator(&profile).latency(&self.network.stages, &plan).ok().map(Picos::as_micros)
        };
        let [without, of_one] = [takes(0.0)?, takes(1.0)?];
        let gap_us = (self.gpu_us - without) / (of_one - without);
        (self.is_long && of_one > without).then_some(gap_us.max(0.0))
    }

    fn points(&self, profile: &Profile) -> Vec<Point> {
        let Planned { name, stages, plan, cores } = &self.network;
        let mut simulator = simulator(profile);
        let mut takes = |placement| {
            simulator.latency(stages, &self.network.on_one_processor(placement)).ok().map(Picos::as_micros)
        };
        let predicted = [takes(Placement::cpu(*cores)), takes(Placement::GPU)];
        let given = calibrated_us(&simulator, (stages, plan), *cores, [self.cpu_us, self.gpu_us]);
        let point = |group: ErrorGroup, measured_us: f64, predicted_us: Option<f64>| {
            predicted_us.map(|predicted_us| Point {
                group,
                network: name.clone(),
                what: name.clone(),
                unseen: true,
                measured_us,
                predicted_us,
                physics_us: predicted_us,
                ..Point::default()
            })
        };
        let points = [
            point("cpu/end_to_end/float".into(), self.cpu_us, predicted[0]),
            point("gpu/end_to_end/float".into(), self.gpu_us, predicted[1].filter(|_| self.is_long)),
            point(ErrorGroup::Plans, self.shared_us, given.filter(|_| shares(&self.network))),
        ];
        points.into_iter().flatten().collect()
    }
}

/// Convolutional networks for images, with residual blocks and parallel branches.
fn image_network(random: &mut ChaCha8Rng) -> Result<Graph, GraphError> {
    let mut net = GraphBuilder::new("of images", DataType::F32);
    let side = pick([28, 56, 112], random);
    let input = net.input(Shape::image(side, side, 3));
    let mut last = net.conv_norm(input, pick([32, 64], random), Window::same(3));
    let function = pick([Function::Relu, Function::HardSwish, Function::Silu], random);
    for _ in 0..pick([4, 8, 12, 16], random) {
        let Shape { height, channels, .. } = net.shape(last);
        let shrinks = height > 7 && pick([true, false, false], random);
        let (stride, outputs) = if shrinks { (2, (2 * channels).min(1_024)) } else { (1, channels) };
        let window = Window::same(3).stride(stride);
        let block = match pick([0, 1, 2], random) {
            0 => {
                let first = net.conv_norm(last, outputs, window);
                let first = net.activate(first, function);
                net.conv_norm(first, outputs, Window::same(3))
            }
            1 => {
                let wide = net.conv_norm(last, pick([2, 4, 6], random) * channels, Window::same(1));
                let wide = net.activate(wide, function);
                let wide = net.depthwise_norm(wide, window);
                let wide = net.activate(wide, function);
                net.conv_norm(wide, outputs, Window::same(1))
            }
            _ => inception_module(&mut net, last, outputs, window, function),
        };
        last = if shrinks { net.activate(block, function) } else { net.add(block, last) };
    }
    let pooled = net.mean(last);
    net.linear(pooled, 1_000);
    net.build()
}

/// Parallel branches with about the parts of channels that the modules of Inception v1 have (Szegedy et al. 2015,
/// table 1): a quarter by 1x1, half by 3x3, an eighth each by 5x5 and pooling; inputs of 3x3 and 5x5 are reduced
/// before. From 32 channels on, so that an eighth is a slice.
fn inception_module(
    net: &mut GraphBuilder,
    from: Source,
    outputs: u32,
    window: Window,
    function: Function,
) -> Source {
    let conv = |net: &mut GraphBuilder, from, channels, window| {
        let conv = net.conv_norm(from, channels, window);
        net.activate(conv, function)
    };
    let of = |side| Window { stride: window.stride, ..Window::same(side) };
    let pointwise = conv(net, from, outputs / 4, of(1));
    let reduced = [outputs / 4, (outputs / 16).max(CHANNELS_PER_SLICE)]
        .map(|channels| conv(net, from, channels, Window::same(1)));
    let wide = conv(net, reduced[0], outputs / 2, of(3));
    let widest = conv(net, reduced[1], outputs / 8, of(5));
    let pooled = net.pool(from, PoolKind::Max, of(3));
    let pooled = conv(net, pooled, outputs / 8, Window::same(1));
    net.concat(&[pointwise, wide, widest, pooled])
}

/// Transformer blocks, with attention or without, and a mixer of features.
fn token_network(random: &mut ChaCha8Rng) -> Result<Graph, GraphError> {
    let mut net = GraphBuilder::new("of tokens", DataType::F32);
    let features = pick([128, 192, 384, 768], random);
    let mut last: Source = net.input(Shape::tokens(pick([49, 64, 128, 197], random), features));
    let attends = pick([true, false], random);
    for _ in 0..pick([2, 6, 12], random) {
        if attends {
            last = attention(&mut net, last);
        }
        let normed = net.norm(last, NormKind::Layer);
        let wide = net.linear(normed, 4 * features);
        let wide = net.activate(wide, Function::Gelu);
        let block = net.linear(wide, features);
        last = net.add(block, last);
    }
    net.build()
}

/// Attention with heads of [`HEAD`] features, and the residual sum.
fn attention(net: &mut GraphBuilder, from: Source) -> Source {
    use Dimension::{Batch, Channels, Height, Width};
    const HEADS_FIRST: [Dimension; 4] = [Width, Batch, Height, Channels];
    const KEYS: [Dimension; 4] = [Width, Batch, Channels, Height];
    const TOKENS_FIRST: [Dimension; 4] = [Height, Width, Batch, Channels];
    let Shape { width: tokens, channels: features, .. } = net.shape(from);
    let heads = features / HEAD;
    let transpose = |net: &mut GraphBuilder, from, order| {
        let transpose = Transpose { input: net.shape(from), images: 1, order };
        net.operator("transpose", transpose, &[from])
    };
    let normed = net.norm(from, NormKind::Layer);
    let [queries, keys, values] = [HEADS_FIRST, KEYS, HEADS_FIRST].map(|order| {
        let part = net.linear(normed, features);
        let part = net.reshape(part, Shape::image(tokens, heads, HEAD));
        transpose(net, part, order)
    });
    let scores = MatMul { images: 1, batch: heads, m: tokens, k: HEAD, n: tokens };
    let scores = net.operator("scores", scores, &[queries, keys]);
    let weights = net.softmax(scores);
    let read = MatMul { images: 1, batch: heads, m: tokens, k: tokens, n: HEAD };
    let read = net.operator("read", read, &[weights, values]);
    let read = transpose(net, read, TOKENS_FIRST);
    let read = net.reshape(read, Shape::tokens(tokens, features));
    let block = net.linear(read, features);
    net.add(block, from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_depend_on_the_seed_alone_and_half_are_of_a_size_that_a_probe_can_run() {
        let draw = |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            [image_network(&mut random).unwrap(), token_network(&mut random).unwrap()]
        };
        let drawn: Vec<Graph> = (0..20).flat_map(draw).collect();
        assert_eq!(drawn[2..4], draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(drawn.iter().all(|network| network.macs() > 1_000_000));
        let fits = drawn.iter().filter(|network| MACS.contains(&network.macs())).count();
        assert!(fits >= drawn.len() / 2, "{fits}");
    }
}
