//! Unified Splitting: the runs behind its published numbers.
//!
//! The paper moves layers with little gain from the GPU to the CPU and streams batches
//! through both. What it moves cannot make its gains: a classifier is at most a few per
//! cent of a network's time. What can is the host's work for each batch, serial in the
//! GPU-only program and hidden behind the GPU once two batches are in flight. That work is
//! one constant here, the same for all networks, set from ResNet-18's gain; the other
//! four gains are predicted.

use super::{Comparison, Inputs, Result, fastest, range, stages};
use coexec_sim::explore::layer_wise::ratios;
use coexec_sim::simulate::{Pipeline, Simulator};
use coexec_sim::{CoreSet, Library, Mechanism, Placement, Plan, Profile, Quantity, Stage};

/// Networks of its Figure 3: ours, and the paper's in ids of facts.
const NETWORKS: [(&str, &str); 5] = [
    ("resnet18", "resnet-18"),
    ("resnet50", "resnet-50"),
    ("mobilenet-v2", "mobilenetv2"),
    ("efficientnet-b2", "efficientnet-b2"),
    ("vit-tiny-p16", VIT),
];
const VIT: &str = "vit-tiny";

/// Batches in flight: one with the host, one on the GPU, one on the CPU.
const DEPTH: u32 = 3;
/// Assumed: what an eager framework spends on one operator on a core of this class; the
/// paper runs `PyTorch` operator by operator. It binds where kernels are short.
const DISPATCH_US: f64 = 30.0;
/// Cores that compute the CPU's layers: as many as one core set has threads.
const THREADS: u32 = 8;

/// Id of a fact about the board.
fn id(rest: &str) -> String {
    format!("jetson-agx-orin-64gb/{rest}")
}

/// Sets ours beside the published numbers.
///
/// # Errors
/// A run cannot be simulated.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    let profile = inputs.profile("jetson-agx-orin")?;
    let cores = fastest(profile, THREADS)?;
    gains(comparison, profile, cores)?;
    speeds(comparison, profile, cores)
}

/// Seconds from batch to batch of one image of a network, the stages for which `on_cpu` holds
/// on `cores`, with so many batches in flight and the host's gap in microseconds.
fn period(
    profile: &Profile,
    stages: &[Stage],
    on_cpu: impl Fn(usize) -> Option<CoreSet>,
    depth: u32,
    gap_us: f64,
) -> Result<f64> {
    let place = |index| on_cpu(index).map_or(Placement::GPU, Placement::cpu);
    let plan = Plan::new(Mechanism::EventWait, (0..stages.len()).map(place).collect());
    let pipeline =
        Pipeline { dispatch_us: Some(Quantity::plain(DISPATCH_US)), ..Pipeline::new(depth, gap_us) };
    let mut simulator = Simulator::new(profile, Library::Xnnpack);
    Ok(simulator.stream(stages, &plan, &pipeline)?.period.as_seconds())
}

/// Seconds from batch to batch with the GPU alone, and with the classifier on `cores` and
/// batches in flight.
fn periods(profile: &Profile, stages: &[Stage], cores: CoreSet, gap_us: f64) -> Result<[f64; 2]> {
    let classifier = stages.iter().rposition(is_linear);
    let split = |index| (Some(index) == classifier).then_some(cores);
    Ok([period(profile, stages, |_| None, 1, gap_us)?, period(profile, stages, split, DEPTH, gap_us)?])
}

fn is_linear(stage: &Stage) -> bool {
    stage.layer.operator.product_with_weights().is_some()
}

fn gains(comparison: &mut Comparison, profile: &Profile, cores: CoreSet) -> Result {
    // The host's gap with which ResNet-18 gains what is published: the pipeline hides it.
    let (sets_the_gap, fact) = NETWORKS[0];
    let published = comparison.published(&id(&format!("{fact}/throughput-gain")))?;
    let [alone, split] = periods(profile, &stages(sets_the_gap)?, cores, 0.0)?;
    let gap_us = ((split * (1.0 + published / 100.0) - alone) * 1e6).max(0.0);
    let mut ours = Vec::new();
    for (name, fact) in NETWORKS {
        let stages = stages(name)?;
        let [alone, split] = periods(profile, &stages, cores, gap_us)?;
        let gain = 100.0 * (alone / split - 1.0);
        comparison.row(id(&format!("{fact}/throughput-gain")), gain);
        ours.push(gain);
        if fact == VIT {
            let one = fastest(profile, 1)?;
            let overloaded = |index: usize| is_linear(&stages[index]).then_some(one);
            let change = 100.0 * (alone / period(profile, &stages, overloaded, DEPTH, gap_us)? - 1.0);
            let text = format!("{change:+.0} % with every linear layer of ViT-Tiny on one core");
            comparison.finding(id("cpu-bottleneck-configuration/throughput"), text, change < 0.0);
        }
    }
    let [least, most] = range(ours);
    let text = format!("{least:.0} to {most:.0} %");
    comparison.finding(id("5-models/throughput-gain-range"), text, least > 5.0 && most < 25.0);
    Ok(())
}

/// How much faster the GPU computes kinds of operators: lows and highs over the five
/// networks.
fn speeds(comparison: &mut Comparison, profile: &Profile, cores: CoreSet) -> Result {
    let simulator = Simulator::new(profile, Library::Xnnpack);
    for (kind, name) in [("convolution", "conv2d"), ("fully-connected", "linear")] {
        let mut found = Vec::new();
        for (network, _) in NETWORKS {
            let ratios = ratios(&simulator, &stages(network)?, cores);
            found.extend(ratios.iter().filter(|ratio| ratio.kind == name).map(|ratio| ratio.ratio));
        }
        for (end, ours) in ["low", "high"].into_iter().zip(range(found)) {
            for place in ["", "/iii-c"] {
                comparison.row(id(&format!("{kind}/gpu-over-cpu-{end}{place}")), ours);
            }
        }
    }
    Ok(())
}
