//! Unified Splitting: the runs behind its published numbers.
//!
//! The paper moves layers that gain little from the GPU to the CPU, and streams batches
//! through both. The moved layers cannot explain its gains: a classifier is at most a few per
//! cent of a network's time. The host's work for each batch can: it is serial in the GPU-only
//! program, and overlaps with the GPU once two batches are in flight. Here that work is one
//! constant for all networks, set from ResNet-18's gain; the other four gains are predicted.

use super::{Comparison, Inputs, Result, fastest, range, stages};
use coexec_sim::explore::layer_wise::ratios;
use coexec_sim::simulate::{Pipeline, Simulator};
use coexec_sim::{CoreSet, Library, Mechanism, Placement, Plan, Profile, Quantity, Stage};

/// Networks of the paper's Figure 3: the bundled network, and the name in ids of facts.
const NETWORKS: [(&str, &str); 5] = [
    ("resnet18", "resnet-18"),
    ("resnet50", "resnet-50"),
    ("mobilenet-v2", "mobilenetv2"),
    ("efficientnet-b2", "efficientnet-b2"),
    ("vit-tiny-p16", VIT),
];
const VIT: &str = "vit-tiny";

/// Batches in flight: one each on the host, the GPU and the CPU.
const DEPTH: u32 = 3;
/// Dispatch time of one operator in an eager framework on a core of this class, assumed: the
/// paper runs `PyTorch` operator by operator. It is the bottleneck if kernels are short.
const DISPATCH_US: f64 = 30.0;
/// Cores that compute the CPU's layers: as many as a core set can have.
const THREADS: u32 = 8;

/// Id of a fact about the board.
fn id(rest: &str) -> String {
    format!("jetson-agx-orin-64gb/{rest}")
}

/// Compares ours with the published numbers.
///
/// # Errors
/// A run cannot be simulated.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    let profile = inputs.profile("jetson-agx-orin")?;
    let cores = fastest(profile, THREADS)?;
    gains(comparison, profile, cores)?;
    speeds(comparison, profile, cores)
}

/// Period between batches of one image, in seconds, with `depth` batches in flight and `gap_us`
/// microseconds of host work for each. A stage runs on the core set that `on_cpu` returns for its
/// index, or else on the GPU.
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

/// Periods between batches, in seconds: on the GPU alone, one batch at a time, and with the classifier
/// on `cores` and [`DEPTH`] batches in flight.
fn periods(profile: &Profile, stages: &[Stage], cores: CoreSet, gap_us: f64) -> Result<[f64; 2]> {
    let classifier = stages.iter().rposition(is_linear);
    let split = |index| (Some(index) == classifier).then_some(cores);
    Ok([period(profile, stages, |_| None, 1, gap_us)?, period(profile, stages, split, DEPTH, gap_us)?])
}

fn is_linear(stage: &Stage) -> bool {
    stage.layer.operator.product_with_weights().is_some()
}

fn gains(comparison: &mut Comparison, profile: &Profile, cores: CoreSet) -> Result {
    // The host's gap for which ResNet-18's gain is the published one: the pipeline hides the gap.
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

/// Speedup of the GPU over the CPU by kind of operator: lowest and highest over the five networks.
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
