//! Unified Splitting: the runs behind its published numbers.
//!
//! The paper moves layers with little gain from the GPU to the CPU and streams batches
//! through both. What it moves cannot make its gains: a classifier is at most a few per
//! cent of a network's time. What can is the host's work for each batch, serial in the
//! GPU-only program and hidden behind the GPU once two batches are in flight. That work is
//! one constant here, the same for all networks, set from ResNet-18's gain; the other
//! four gains are predicted.

use super::{BarSeries, Bars, Comparison, Drawing, Inputs, Limit, Measure, Picture, ReproduceError};
use crate::device::profile::Profile;
use crate::explore::layer_wise::ratios;
use crate::kernel::cpu::{CoreSet, Library};
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Placement, Plan};
use crate::simulate::{Pipeline, SimulateError, Simulator};
use crate::workload::{Graph, Operator, Stage, fuse, network};

/// Networks of its Figure 3: ours, the paper's name, and the fact.
const NETWORKS: [(&str, &str, &str); 5] = [
    ("resnet18", "ResNet-18", "jetson-agx-orin-64gb/resnet-18/throughput-gain"),
    ("resnet50", "ResNet-50", "jetson-agx-orin-64gb/resnet-50/throughput-gain"),
    ("mobilenet-v2", "MobileNetV2", "jetson-agx-orin-64gb/mobilenetv2/throughput-gain"),
    ("efficientnet-b2", "EfficientNet-B2", "jetson-agx-orin-64gb/efficientnet-b2/throughput-gain"),
    ("vit-tiny-p16", "ViT-Tiny", "jetson-agx-orin-64gb/vit-tiny/throughput-gain"),
];
/// What the host's gap is set from.
const SETS_THE_GAP: &str = NETWORKS[0].2;

/// Batches in flight: one with the host, one on the GPU, one on the CPU.
const DEPTH: u32 = 3;
/// Assumed: what an eager framework spends on one operator on a core of this class; the
/// paper runs `PyTorch` operator by operator. It binds where kernels are short.
const DISPATCH_US: f64 = 30.0;
/// How far a gain may be off, in percentage points.
const GAIN_LIMIT_POINTS: f64 = 5.0;
/// Cores that compute the CPU's layers: as many as one core set has threads.
const THREADS: u32 = 8;

/// Sets ours beside the published numbers.
///
/// # Errors
/// A run cannot be simulated.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    let profile = inputs.profile("jetson-agx-orin")?;
    let cores = CoreSet::fastest(&profile.cpu, THREADS).ok_or(SimulateError::NothingToUse)?;
    gains(comparison, profile, cores)?;
    speeds(comparison, profile, cores);
    comparison.group("not compared", Limit::default());
    comparison.rest_not_reproduced("the same abstract gives another number for it", |fact| {
        fact.id.ends_with("first-statement")
    });
    comparison.rest_not_reproduced("the result of another paper", |fact| fact.id.contains("jedi"));
    comparison.rest_not_reproduced(
        "batch norms are folded into convolutions, and activations run in their epilogues",
        |fact| fact.workload == "batch normalisation" || fact.workload == "activation functions",
    );
    comparison.rest_not_reproduced("an input: the device, the protocol or the rule", |_| true);
    Ok(())
}

/// One network, GPU-only and split, in batches of one image.
struct Model<'a> {
    profile: &'a Profile,
    stages: Vec<Stage>,
}

impl<'a> Model<'a> {
    fn new(profile: &'a Profile, name: &str) -> Result<Self, SimulateError> {
        let graph = network(name).ok_or(SimulateError::NothingToUse)?;
        Ok(Self { profile, stages: fuse(&graph) })
    }

    /// Seconds from batch to batch, with the classifier on `cpu` where some cores are
    /// named, and the host's gap in microseconds.
    fn period(&self, cpu: Option<CoreSet>, depth: u32, gap_us: f64) -> Result<f64, SimulateError> {
        let is_linear = |stage: &Stage| matches!(stage.layer.operator, Operator::Linear(_));
        let classifier = self.stages.iter().rposition(is_linear);
        let place = |index| match cpu {
            Some(cores) if Some(index) == classifier => Placement::Cpu(cores),
            _ => Placement::Gpu,
        };
        self.stream(&(0..self.stages.len()).map(place).collect::<Vec<_>>(), depth, gap_us)
    }

    /// The same with every linear layer on `cores`.
    fn overloaded(&self, cores: CoreSet, gap_us: f64) -> Result<f64, SimulateError> {
        let place = |stage: &Stage| match stage.layer.operator {
            Operator::Linear(_) => Placement::Cpu(cores),
            _ => Placement::Gpu,
        };
        self.stream(&self.stages.iter().map(place).collect::<Vec<_>>(), DEPTH, gap_us)
    }

    fn stream(&self, placements: &[Placement], depth: u32, gap_us: f64) -> Result<f64, SimulateError> {
        let plan = Plan::new(Mechanism::EventWait, placements.to_vec());
        let pipeline = Pipeline::new(depth, gap_us).dispatching(DISPATCH_US);
        let mut simulator = Simulator::new(self.profile, Library::Xnnpack);
        Ok(simulator.stream(&self.stages, &plan, &pipeline)?.period.as_seconds())
    }

    /// Percent more batches a second than with the GPU alone.
    fn gain_percent(&self, cores: CoreSet, gap_us: f64) -> Result<f64, SimulateError> {
        let alone = self.period(None, 1, gap_us)?;
        Ok(100.0 * (alone / self.period(Some(cores), DEPTH, gap_us)? - 1.0))
    }

    /// The host's gap with which the gain is `percent`: the pipeline hides it.
    fn gap_us(&self, cores: CoreSet, percent: f64) -> Result<f64, SimulateError> {
        let split = self.period(Some(cores), DEPTH, 0.0)?;
        let wanted = split * (1.0 + percent / 100.0);
        Ok(((wanted - self.period(None, 1, 0.0)?) * 1e6).max(0.0))
    }
}

fn gains(comparison: &mut Comparison, profile: &Profile, cores: CoreSet) -> Result<(), ReproduceError> {
    let published = comparison.number(SETS_THE_GAP);
    let gap_us = Model::new(profile, NETWORKS[0].0)?.gap_us(cores, published)?;
    comparison.set_by(SETS_THE_GAP, "the host's gap of every batch");
    comparison.group_measured("throughput gains", Limit::each(GAIN_LIMIT_POINTS), Measure::Points);
    let mut ours = Vec::new();
    for (name, _, id) in NETWORKS {
        let gain = Model::new(profile, name)?.gain_percent(cores, gap_us)?;
        comparison.row(id, gain);
        ours.push(gain);
    }
    let consequence = of_a_constant_gap(comparison)?;
    comparison.note(&format!(
        "one gap of {gap_us:.0} us a batch for all, {DISPATCH_US:.0} us assumed for each operator given to the GPU. \
         {consequence}"
    ));
    let (least, most) =
        ours.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), &gain| (low.min(gain), high.max(gain)));
    let agrees = least > 5.0 && most < 25.0;
    comparison.finding(
        "jetson-agx-orin-64gb/5-models/throughput-gain-range",
        format!("{least:.0} to {most:.0} %"),
        agrees,
    );
    let vit = Model::new(profile, "vit-tiny-p16")?;
    let one = CoreSet::fastest(&profile.cpu, 1).ok_or(SimulateError::NothingToUse)?;
    let change = 100.0 * (vit.period(None, 1, gap_us)? / vit.overloaded(one, gap_us)? - 1.0);
    comparison
        .finding(
            "jetson-agx-orin-64gb/cpu-bottleneck-configuration/throughput",
            format!("{change:+.0} % with every linear layer of ViT-Tiny on one core"),
            change < 0.0,
        )
        .note("the paper does not say what its CPU bottleneck was");
    comparison.figure(figure(comparison, &ours));
    Ok(())
}

/// Why no constant gap gives the gains of both `ResNet`s: it makes gains inverse to the time
/// of a batch.
fn of_a_constant_gap(comparison: &Comparison) -> Result<String, SimulateError> {
    let ratio_of = |count: fn(&Graph) -> f64| {
        let [small, large] = [NETWORKS[0].0, NETWORKS[1].0].map(|name| network(name).map(|net| count(&net)));
        small.zip(large).map(|(small, large)| large / small).ok_or(SimulateError::NothingToUse)
    };
    let macs = ratio_of(|net| net.macs() as f64)?;
    let operators = ratio_of(|net| net.nodes().len() as f64)?;
    let [small, large] = [NETWORKS[0].2, NETWORKS[1].2].map(|id| comparison.number(id));
    let within = GAIN_LIMIT_POINTS;
    Ok(format!(
        "A constant gap makes gains inverse to the time of a batch. ResNet-50 has {macs:.2} times the multiply-adds and \
         {operators:.2} times the operators of ResNet-18, so it gains no more than {:.2} of ResNet-18's gain, where \
         {:.2} is published and {:.2} is the least within {within:.0} points of both",
        1.0 / macs.min(operators),
        large / small,
        (large - within) / (small + within),
    ))
}

fn figure(comparison: &Comparison, ours: &[f64]) -> Picture {
    let published = NETWORKS.iter().map(|(.., id)| Some(comparison.number(id))).collect();
    Picture {
        name: "unified-splitting-gains".to_owned(),
        title: "Throughput gains of Unified Splitting".to_owned(),
        subtitle: "over the GPU alone, Jetson AGX Orin (Figure 3); the host's gap set from ResNet-18"
            .to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "gain (%)".to_owned(),
            categories: NETWORKS.iter().map(|(_, title, _)| (*title).to_owned()).collect(),
            series: vec![
                BarSeries { name: "published".to_owned(), is_published: true, values: published },
                BarSeries {
                    name: "coexec".to_owned(),
                    is_published: false,
                    values: ours.iter().copied().map(Some).collect(),
                },
            ],
        }),
    }
}

/// How much faster the GPU computes kinds of operators: lows and highs over the five
/// networks.
fn speeds(comparison: &mut Comparison, profile: &Profile, cores: CoreSet) {
    let simulator = Simulator::new(profile, Library::Xnnpack);
    let mut of_kind = [(f64::INFINITY, 0.0_f64); 2];
    for (name, ..) in NETWORKS {
        let Some(graph) = network(name) else { continue };
        for kind in ratios(&simulator, &fuse(&graph), cores) {
            let index = match kind.kind {
                "conv2d" => 0,
                "linear" => 1,
                _ => continue,
            };
            let (low, high) = &mut of_kind[index];
            (*low, *high) = (low.min(kind.ratio), high.max(kind.ratio));
        }
    }
    comparison.group("GPU over CPU, by kind of operator", Limit::default());
    for (kind, (low, high)) in ["convolution", "fully-connected"].into_iter().zip(of_kind) {
        for place in ["", "/iii-c"] {
            comparison.row(&format!("jetson-agx-orin-64gb/{kind}/gpu-over-cpu-low{place}"), low);
            comparison.row(&format!("jetson-agx-orin-64gb/{kind}/gpu-over-cpu-high{place}"), high);
        }
    }
    comparison.note(
        "a GPU of 5.3 TFLOP/s in 32 bits 370 times as fast is a CPU of 14 GFLOP/s or less, a twentieth of what its 12 \
         cores compute with a tuned library: the paper's CPU kernels are not those modelled here",
    );
}
