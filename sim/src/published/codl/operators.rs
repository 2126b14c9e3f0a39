//! Single operators: `CoDL`'s Figures 3 to 5 and 10.

use super::super::{Comparison, Limit, ReproduceError};
use super::runs::{Runs, System, options};
use super::{STYLE, XIAOMI9, YOLO, chain, evidence};
use crate::device::profile::Profile;
use crate::explore::Strategy;
use crate::kernel::cpu::{CoreSet, Library};
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Axis, Cut, Placement, Plan, cuts};
use crate::simulate::{Prediction, SimulateError, Simulator, read_bytes};
use crate::workload::{Conv2d, DataType, Layer, Operator, Padding, Shape, Stage};

/// The big cores, which the paper's CPU kernels use.
const THREADS: u32 = 4;
/// Multiply-adds a cycle of a big core in 32 bits: two pipes of four lanes (Cortex-A76
/// software optimisation guide).
const LANES: f64 = 8.0;

/// Sets ours beside the published numbers of operators.
pub(super) fn compare(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), ReproduceError> {
    let profile = runs.profile(XIAOMI9).clone();
    let cores = CoreSet::fastest(&profile.cpu, THREADS).ok_or(SimulateError::NothingToUse)?;
    let bench = Bench { profile: &profile, cores };
    small_convolution(comparison, &bench)?;
    unbalanced_cut(comparison, &bench, runs)?;
    dimensions(comparison, &bench)?;
    chain::compare(comparison, &bench, runs.stages(YOLO))?;
    Ok(())
}

/// A phone on which single operators run.
pub(super) struct Bench<'a> {
    profile: &'a Profile,
    cores: CoreSet,
}

impl Bench<'_> {
    pub(super) fn run(&self, stages: &[Stage], plan: &Plan) -> Result<Prediction, SimulateError> {
        Simulator::new(self.profile, Library::Xnnpack).run(stages, plan)
    }

    fn micros(&self, stage: &Stage, placement: Placement) -> Result<f64, SimulateError> {
        let plan = Plan::new(Mechanism::EventWait, vec![placement]);
        Ok(self.run(std::slice::from_ref(stage), &plan)?.latency.as_micros())
    }

    fn cpu(&self) -> Placement {
        Placement::Cpu(self.cores)
    }

    /// `stage` with `gpu` tenths along `axis` on the GPU.
    pub(super) fn cut(&self, stage: &Stage, axis: Axis, gpu: u32) -> Option<Placement> {
        const TENTHS: u32 = 10;
        let all = axis.extent(&stage.layer.operator)?;
        let cpu = (all * (TENTHS - gpu) / TENTHS).max(1);
        Some(axis.placement(self.cores, [cpu, all - cpu]))
    }

    /// The longer of both parts alone.
    fn computing_micros(&self, stage: &Stage, placement: Placement) -> Result<f64, SimulateError> {
        let cut = Cut::of(&placement).ok_or(SimulateError::NothingToUse)?;
        Ok(self.part_micros(stage, &cut, 0)?.max(self.part_micros(stage, &cut, 1)?))
    }

    /// One part of a cut alone: the CPU's or the GPU's.
    fn part_micros(&self, stage: &Stage, cut: &Cut, which: usize) -> Result<f64, SimulateError> {
        let alone = if which == 0 { self.cpu() } else { Placement::Gpu };
        self.micros(&Stage::single(stage.name.clone(), cut.part(&stage.layer, which)), alone)
    }

    /// Microseconds of computing of operators under a plan: the longer part of each.
    pub(super) fn computing(&self, stages: &[Stage], plan: &Plan) -> Result<f64, SimulateError> {
        let mut total = 0.0;
        for (stage, cut) in stages.iter().zip(cuts(stages, plan)) {
            let Some(cut) = cut else { continue };
            total += self.part_micros(stage, &cut, 0)?.max(self.part_micros(stage, &cut, 1)?);
        }
        Ok(total)
    }

    /// Multiply-adds a nanosecond that the cores do at most.
    fn peak(&self) -> f64 {
        let clusters = self.profile.cpu.clusters.iter();
        let mut clocks: Vec<f64> = clusters
            .flat_map(|cluster| std::iter::repeat_n(cluster.clock_mhz.value, cluster.cores as usize))
            .collect();
        clocks.sort_by(|one, other| other.total_cmp(one));
        clocks.iter().take(THREADS as usize).map(|mhz| mhz / 1e3 * LANES).sum()
    }
}

/// A convolution `<height, width, input channels, output channels>`, as the paper writes.
fn convolution([height, width, input, output]: [u32; 4], window: u32) -> Stage {
    let conv = Conv2d {
        input: Shape::image(height, width, input),
        output_channels: output,
        kernel: [window; 2],
        stride: [1; 2],
        dilation: [1; 2],
        padding: Padding::symmetric(window / 2, window / 2),
        groups: 1,
        bias: true,
    };
    Stage::single("conv".to_owned(), Layer::new(Operator::Conv2d(conv), DataType::F32))
}

/// Half of a 1x1 convolution on each processor (Figure 4).
fn small_convolution(comparison: &mut Comparison, bench: &Bench<'_>) -> Result<(), SimulateError> {
    let stage = convolution([52, 52, 256, 128], 1);
    let half = bench.cut(&stage, Axis::Channels, 5).ok_or(SimulateError::NothingToUse)?;
    let alone = bench.micros(&stage, Placement::Gpu)?;
    let computing = bench.computing_micros(&stage, half)?;
    // Of the input, which the operator before left with the GPU.
    let options = options(bench.profile, Strategy::Codl);
    let bytes = read_bytes(&stage.layer);
    let sharing =
        crate::simulate::hand_over_delay(bench.profile, options.synchronisation, bytes, true).as_micros();
    let of = |what: &str| format!("xiaomi-9/1x1-conv-52-52-256-128/{what}");
    comparison.group("a small convolution", Limit::each(15.0));
    comparison
        .row(&of("single-processor-execution-latency"), alone)
        .note("on the GPU; the figure does not say which processor");
    comparison.row(&of("co-execution-compute-latency"), computing);
    let note = evidence::of_the_peak(comparison, stage.layer.operator.macs(), bench.peak());
    comparison.note(&note);
    comparison.row(&of("data-sharing-overhead"), sharing);
    comparison.row(&of("net-slowdown"), (computing + sharing) / alone);
    Ok(())
}

/// The cut of a large convolution that FLOPs suggest, and the best (Figure 5).
fn unbalanced_cut(
    comparison: &mut Comparison,
    bench: &Bench<'_>,
    runs: &mut Runs,
) -> Result<(), SimulateError> {
    let stage = convolution([240, 320, 64, 128], 3);
    let mut best = (0, f64::INFINITY);
    for gpu in 1..10 {
        let Some(placement) = bench.cut(&stage, Axis::Height, gpu) else { continue };
        let micros = bench.micros(&stage, placement)?;
        if micros < best.1 {
            best = (gpu, micros);
        }
    }
    let [cpu, gpu] = [System::Cpu, System::Gpu].map(|system| runs.of(XIAOMI9, STYLE, system));
    let (cpu, gpu) = (cpu?.millis(), gpu?.millis());
    let share = 10.0 * cpu / (cpu + gpu);
    let suggested = bench.cut(&stage, Axis::Height, share.round() as u32);
    let suggested = bench.micros(&stage, suggested.ok_or(SimulateError::NothingToUse)?)?;
    let of = |what: &str| format!("xiaomi-9/3x3-conv-240-320-64-128/{what}");
    comparison.group("a large convolution", Limit::each(15.0));
    comparison.row(&of("flops-predictor-gpu-ratio"), 10.0 * share).note("fast style transfer's throughput");
    comparison.row(&of("optimal-gpu-ratio"), 10.0 * f64::from(best.0));
    comparison.row(&of("slowdown-of-flops-split"), suggested / best.1);
    let alone = bench.micros(&stage, bench.cpu())? / bench.micros(&stage, Placement::Gpu)?;
    let note = evidence::of_unbalanced(comparison, [alone, cpu / gpu]);
    comparison.note(&note);
    Ok(())
}

/// Half on each processor along either dimension (Figure 10).
fn dimensions(comparison: &mut Comparison, bench: &Bench<'_>) -> Result<(), SimulateError> {
    /// Rows of a map on which cuts along the height win in the paper.
    const SMALL: u32 = 13;
    comparison.group("half of a convolution along either dimension", Limit::each(15.0));
    for (shape, name) in [
        ([104, 104, 64, 128], "conv-104-104-64-128-yolo"),
        ([13, 13, 1024, 1024], "conv-13-13-1024-1024-yolo"),
    ] {
        let stage = convolution(shape, 3);
        let alone = bench.micros(&stage, bench.cpu())?;
        let mut read = Vec::new();
        for (axis, letters) in [(Axis::Height, "h"), (Axis::Channels, "oc")] {
            let half = bench.cut(&stage, axis, 5).ok_or(SimulateError::NothingToUse)?;
            let id = format!("xiaomi-9/{name}/speedup-{letters}-split-over-cpu-only");
            let cut = Cut::of(&half).ok_or(SimulateError::NothingToUse)?;
            let parts = [bench.part_micros(&stage, &cut, 0)?, bench.part_micros(&stage, &cut, 1)?];
            read.push(read_bytes(&cut.part(&stage.layer, 0)));
            comparison.row(&id, alone / bench.micros(&stage, half)?).note(&format!(
                "the CPU's half takes {:.2} of its time alone, the GPU's {:.2}",
                parts[0] / alone,
                parts[1] / alone
            ));
        }
        if read.len() == 2 && shape[0] > SMALL {
            let note = evidence::of_halves(comparison, [read[0], read[1]]);
            comparison.note(&note);
        }
    }
    Ok(())
}
