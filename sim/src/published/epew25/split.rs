//! Sections 1 and 3: one linear layer on one phone, cut by cut.

use super::{DATA_TYPE, MOST_THREADS, options};
use crate::explore::{Lead, latency_curve, split_search};
use crate::kernel::cpu::{CoreSet, Library};
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Placement, Plan};
use crate::published::{Comparison, Curves, Drawing, Inputs, Limit, Line, Picture, ReproduceError};
use crate::simulate::{Processor, SimulateError, Simulator};
use crate::workload::{Layer, Linear, Operator, Stage};

/// The phone of these sections.
const PHONE: &str = "oneplus11";

/// CPU threads behind the cuts of section 3, which does not say: its 128 GFLOP/s are what
/// one Cortex-X3 does in 16 bits, a third of what three cores do in Table 2 and figure 2.
const THREADS_OF_CUTS: u32 = 1;

/// Rows of every linear layer of ViT-B/32.
const ROWS: u32 = 50;
/// Input channels and output channels of its first and second layer of an MLP.
const NARROW: u32 = 768;
const WIDE: u32 = 3_072;

/// The cuts that sections 3.1 and 3.2 measure: channels of the GPU, in ids of facts.
const CUTS: [(u32, &str); 2] = [(2_378, "plain"), (2_480, "augmented")];

/// Fewest channels of the GPU that the curve shows, as the paper's figure 5.
const FIRST_DRAWN: u32 = 2_048;

/// Output channels on both sides of the spike of figure 5.
const SPIKE: [u32; 2] = [2_500, 2_520];

/// A linear layer of ViT-B/32.
fn layer(input_features: u32, output_features: u32) -> Stage {
    let linear = Linear { rows: ROWS, input_features, output_features, bias: true };
    Stage::single("linear".to_owned(), Layer::new(Operator::Linear(linear), DATA_TYPE))
}

/// Runs of the phone.
struct Bench<'a> {
    simulator: Simulator<'a>,
    cores: CoreSet,
}

impl Bench<'_> {
    /// Time of a layer on one processor, in microseconds.
    fn alone(&self, stage: &Stage, processor: Processor) -> Result<f64, SimulateError> {
        let cores = (processor == Processor::Cpu).then_some(self.cores);
        let (phases, _) = self.simulator.layer(&stage.layer, processor, cores)?;
        Ok(phases.duration().as_micros())
    }

    /// Time of a layer cut so that the GPU has so many channels, in microseconds.
    fn together(&mut self, stage: &Stage, gpu_channels: u32) -> Result<f64, SimulateError> {
        let cpu_channels = WIDE - gpu_channels;
        let placement = Placement::Split { cores: self.cores, cpu_channels, gpu_channels };
        let plan = Plan::new(Mechanism::SvmPolling, vec![placement]);
        Ok(self.simulator.latency(&[stage.isolated()], &plan)?.as_micros())
    }
}

/// Sets ours beside the numbers of sections 1 and 3.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    let profile = inputs.profile(PHONE)?;
    let bench = |threads| {
        let cores = CoreSet::fastest(&profile.cpu, threads);
        cores.map(|cores| Bench { simulator: Simulator::new(profile, Library::Xnnpack), cores })
    };
    let (Some(mut bench), Some(three)) = (bench(THREADS_OF_CUTS), bench(MOST_THREADS)) else {
        return Ok(());
    };
    let cores = bench.cores;
    let whole = layer(NARROW, WIDE);
    comparison.group("Sections 1 and 3: linear layers of ViT-B/32 on the OnePlus 11", Limit::default());
    let gpu_only = bench.alone(&whole, Processor::Gpu)?;
    for (gpu_channels, key) in CUTS {
        let [gpu, cpu] = [(Processor::Gpu, gpu_channels), (Processor::Cpu, WIDE - gpu_channels)]
            .map(|(processor, channels)| bench.alone(&layer(NARROW, channels), processor));
        let together = bench.together(&whole, gpu_channels)?;
        comparison.row(&format!("split/{key}/gpu-us"), gpu?);
        comparison.row(&format!("split/{key}/cpu-us"), cpu?);
        comparison.row(&format!("split/{key}/latency-us"), together);
        comparison.row(&format!("split/{key}/speedup"), gpu_only / together);
    }
    let search =
        split_search(&bench.simulator, &whole, &options(cores, Mechanism::SvmPolling), Lead::default())?;
    if let Some(Placement::Split { cpu_channels, gpu_channels, .. }) =
        search.split.map(|split| split.placement)
    {
        comparison.row("split/augmented/gpu-channels", f64::from(gpu_channels));
        comparison.row("split/augmented/cpu-channels", f64::from(cpu_channels));
    }
    let spike = SPIKE.map(|channels| bench.alone(&layer(NARROW, channels), Processor::Gpu));
    let [high, low] = spike;
    comparison.row("spike/ratio", high? / low?);
    let [first, second] =
        [layer(NARROW, WIDE), layer(WIDE, NARROW)].map(|stage| bench.alone(&stage, Processor::Gpu));
    comparison.row("vit/longest-linear-us", first?.max(second?));
    comparison.row("crossover/channels", f64::from(crossover(&three)?));
    let published = comparison.number("crossover/channels");
    let figures = [whole_curve(comparison, &bench, &whole)?, wide_curve(&three, published)?];
    for figure in figures {
        comparison.figure(figure);
    }
    Ok(())
}

/// The most channels up to which the CPU is faster than the GPU on 50x3072.
fn crossover(bench: &Bench<'_>) -> Result<u32, SimulateError> {
    let mut last = 0;
    for channels in (super::STEP..=NARROW).step_by(super::STEP as usize) {
        let stage = layer(WIDE, channels);
        if bench.alone(&stage, Processor::Cpu)? < bench.alone(&stage, Processor::Gpu)? {
            last = channels;
        }
    }
    Ok(last)
}

/// Times over the GPU's channels of the layer that section 3 cuts.
fn whole_curve(comparison: &Comparison, bench: &Bench<'_>, stage: &Stage) -> Result<Picture, SimulateError> {
    let points = latency_curve(&bench.simulator, stage, &options(bench.cores, Mechanism::SvmPolling))?;
    let line = |name: &str, time: fn(&crate::explore::CurvePoint) -> Option<crate::units::Picos>| Line {
        name: name.to_owned(),
        is_published: false,
        points: points
            .iter()
            .filter(|point| point.gpu_channels >= FIRST_DRAWN)
            .filter_map(|point| time(point).map(|time| (f64::from(point.gpu_channels), time.as_micros())))
            .collect(),
    };
    let published = |name: &str, quantity: &str| Line {
        name: name.to_owned(),
        is_published: true,
        points: CUTS
            .iter()
            .map(|(channels, key)| {
                (f64::from(*channels), comparison.number(&format!("split/{key}/{quantity}")))
            })
            .collect(),
    };
    Ok(Picture {
        name: "cut-of-a-layer".to_owned(),
        title: "A linear layer of ViT-B/32, 50x768 to 3072, cut between CPU and GPU".to_owned(),
        subtitle: "OnePlus 11, one CPU thread; markers: measured (EPEW'25, sections 3.1 and 3.2)".to_owned(),
        drawing: Drawing::Curves(Curves {
            x: "output channels of the GPU".to_owned(),
            y: "time (us)".to_owned(),
            lines: vec![
                published("GPU, measured", "gpu-us"),
                line("GPU alone", |point| point.gpu),
                published("CPU, measured", "cpu-us"),
                line("CPU alone", |point| point.cpu),
                published("both, measured", "latency-us"),
                line("both", |point| point.together),
            ],
        }),
    })
}

/// Times of both processors over output channels, as figure 2 shows them.
fn wide_curve(bench: &Bench<'_>, crossing: f64) -> Result<Picture, SimulateError> {
    let line = |name: &str, processor: Processor| {
        let points = (super::STEP..=NARROW)
            .step_by(super::STEP as usize)
            .map(|channels| Ok((f64::from(channels), bench.alone(&layer(WIDE, channels), processor)?)));
        let points = points.collect::<Result<Vec<_>, SimulateError>>()?;
        Ok::<_, SimulateError>(Line { name: name.to_owned(), is_published: false, points })
    };
    Ok(Picture {
        name: "crossover".to_owned(),
        title: "Linear layers of 50x3072 on the OnePlus 11".to_owned(),
        subtitle: format!("the paper's curves cross at {crossing} channels (EPEW'25, figure 2)"),
        drawing: Drawing::Curves(Curves {
            x: "output channels".to_owned(),
            y: "time (us)".to_owned(),
            lines: vec![line("GPU", Processor::Gpu)?, line("CPU, 3 threads", Processor::Cpu)?],
        }),
    })
}
