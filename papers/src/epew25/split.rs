//! Sections 1 and 3: one linear layer on one phone, cut by cut.

use super::{DATA_TYPE, MOST_THREADS, STEP, curves, fastest, line, options};
use crate::{Comparison, Inputs, ReproduceError};
use coexec_plots::figure::Line;
use coexec_sim::explore::{CurvePoint, latency_curve, split_search};
use coexec_sim::simulate::{SimulateError, Simulator, execute};
use coexec_sim::workload::{Layer, Linear, Operator, Stage};
use coexec_sim::{Axis, Library, Mechanism, Picos, Placement, Plan, Processor, Profile};

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

/// Time of a layer on one processor, in microseconds.
fn alone(device: &Profile, stage: &Stage, by: Processor) -> Result<f64, SimulateError> {
    Ok(execute(&stage.layer, device, Library::Xnnpack, by)?.0.duration().as_micros())
}

/// Sets ours beside the numbers of sections 1 and 3.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    let device = inputs.profile(PHONE)?;
    let (one, three) = (fastest(device, THREADS_OF_CUTS)?, fastest(device, MOST_THREADS)?);
    let mut simulator = Simulator::new(device, Library::Xnnpack);
    let on_gpu = |stage: &Stage| alone(device, stage, Processor::Gpu);
    let whole = layer(NARROW, WIDE);
    let gpu_only = on_gpu(&whole)?;
    for (gpu_channels, key) in CUTS {
        let cpu_channels = WIDE - gpu_channels;
        let placement = Placement::cpu_and_gpu(Axis::Channels, one, [cpu_channels, gpu_channels]);
        let plan = Plan::new(Mechanism::SvmPolling, vec![placement]);
        let together = simulator.latency(&[whole.isolated()], &plan)?.as_micros();
        let cpu = alone(device, &layer(NARROW, cpu_channels), Processor::Cpu(one))?;
        comparison.row(format!("split/{key}/gpu-us"), on_gpu(&layer(NARROW, gpu_channels))?);
        comparison.row(format!("split/{key}/cpu-us"), cpu);
        comparison.row(format!("split/{key}/latency-us"), together);
        comparison.row(format!("split/{key}/speedup"), gpu_only / together);
    }
    let search = split_search(&simulator, &whole, &options(one))?;
    if let Some((Axis::Channels, [cpu, gpu])) =
        search.split.and_then(|split| split.placement.cpu_and_gpu_extents())
    {
        comparison.row("split/augmented/gpu-channels", f64::from(gpu));
        comparison.row("split/augmented/cpu-channels", f64::from(cpu));
    }
    let [high, low] = SPIKE.map(|channels| on_gpu(&layer(NARROW, channels)));
    comparison.row("spike/ratio", high? / low?);
    comparison.row("vit/longest-linear-us", gpu_only.max(on_gpu(&layer(WIDE, NARROW))?));
    let points = latency_curve(&simulator, &whole, &options(one))?;
    let lines = lines_of_cuts(comparison, &points)?;
    comparison.figure(curves(
        "cut-of-a-layer",
        "A linear layer of ViT-B/32, 50x768 to 3072, cut between CPU and GPU",
        "OnePlus 11, one CPU thread; markers: measured (EPEW'25, sections 3.1 and 3.2)",
        ["output channels of the GPU", "time (us)"],
        lines,
    ));
    crossover(comparison, |stage| Ok([on_gpu(stage)?, alone(device, stage, Processor::Cpu(three))?]))
}

/// Where the CPU with three threads stops being faster than the GPU on 50x3072 (figure 2).
fn crossover(
    comparison: &mut Comparison,
    times: impl Fn(&Stage) -> Result<[f64; 2], SimulateError>,
) -> Result<(), ReproduceError> {
    let mut last = 0;
    let (mut of_gpu, mut of_cpu) = (Vec::new(), Vec::new());
    for channels in (STEP..=NARROW).step_by(STEP as usize) {
        let [gpu, cpu] = times(&layer(WIDE, channels))?;
        if cpu < gpu {
            last = channels;
        }
        of_gpu.push((f64::from(channels), gpu));
        of_cpu.push((f64::from(channels), cpu));
    }
    comparison.row("crossover/channels", f64::from(last));
    let published = comparison.published("crossover/channels")?;
    comparison.figure(curves(
        "crossover",
        "Linear layers of 50x3072 on the OnePlus 11",
        &format!("the paper's curves cross at {published} channels (EPEW'25, figure 2)"),
        ["output channels", "time (us)"],
        vec![line("GPU", of_gpu), line("CPU, 3 threads", of_cpu)],
    ));
    Ok(())
}

/// Times over the GPU's channels of the layer that section 3 cuts, each after what was
/// measured.
fn lines_of_cuts(comparison: &Comparison, points: &[CurvePoint]) -> Result<Vec<Line>, ReproduceError> {
    type Time = fn(&CurvePoint) -> Option<Picos>;
    let kinds: [(&str, &str, Time); 3] = [
        ("GPU", "gpu-us", |point| point.gpu),
        ("CPU", "cpu-us", |point| point.cpu),
        ("both", "latency-us", |point| point.together),
    ];
    let mut lines = Vec::new();
    for (name, quantity, time) in kinds {
        let measured = CUTS.map(|(channels, key)| {
            Ok((f64::from(channels), comparison.published(&format!("split/{key}/{quantity}"))?))
        });
        let measured = measured.into_iter().collect::<Result<_, ReproduceError>>()?;
        lines.push(Line { name: format!("{name}, measured"), is_published: true, points: measured });
        let drawn = points.iter().filter(|point| point.gpu_channels >= FIRST_DRAWN);
        let ours = drawn.filter_map(|point| Some((f64::from(point.gpu_channels), time(point)?.as_micros())));
        let name = if name == "both" { name.to_owned() } else { format!("{name} alone") };
        lines.push(line(name, ours.collect()));
    }
    Ok(lines)
}
