//! Single operators and short chains: `CoDL`'s Figures 3 to 5, 10 and 13.

use super::super::{Comparison, Limit, Measure, ReproduceError};
use super::runs::{Runs, System, options};
use super::{STYLE, XIAOMI9};
use crate::device::profile::Profile;
use crate::explore::Strategy;
use crate::kernel::cpu::{CoreSet, Library};
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Axis, Cut, Placement, Plan};
use crate::simulate::{Prediction, SimulateError, Simulator};
use crate::units::Picos;
use crate::workload::{Conv2d, DataType, Layer, Operator, Padding, Shape, Stage};

/// The big cores, which the paper's CPU kernels use.
const THREADS: u32 = 4;
/// Index of `YOLOv2` among the models.
const YOLO: usize = 1;

/// Sets ours beside the published numbers of operators.
pub(super) fn compare(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), ReproduceError> {
    let profile = runs.profile(XIAOMI9).clone();
    let cores = CoreSet::fastest(&profile.cpu, THREADS).ok_or(SimulateError::NothingToUse)?;
    let bench = Bench { profile: &profile, cores };
    small_convolution(comparison, &bench)?;
    unbalanced_cut(comparison, &bench, runs)?;
    dimensions(comparison, &bench)?;
    chain(comparison, &bench, runs.stages(YOLO))?;
    Ok(())
}

/// A phone on which single operators run.
struct Bench<'a> {
    profile: &'a Profile,
    cores: CoreSet,
}

impl Bench<'_> {
    fn run(&self, stages: &[Stage], plan: &Plan) -> Result<Prediction, SimulateError> {
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
    fn cut(&self, stage: &Stage, axis: Axis, gpu: u32) -> Option<Placement> {
        const TENTHS: u32 = 10;
        let all = axis.extent(&stage.layer.operator)?;
        let cpu = (all * (TENTHS - gpu) / TENTHS).max(1);
        Some(axis.placement(self.cores, [cpu, all - cpu]))
    }

    /// The longer of both parts alone.
    fn computing_micros(&self, stage: &Stage, placement: Placement) -> Result<f64, SimulateError> {
        let cut = Cut::of(&placement).ok_or(SimulateError::NothingToUse)?;
        let mut longest = 0.0_f64;
        for (which, alone) in [self.cpu(), Placement::Gpu].into_iter().enumerate() {
            let part = Stage::single(stage.name.clone(), cut.part(&stage.layer, which));
            longest = longest.max(self.micros(&part, alone)?);
        }
        Ok(longest)
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
    let bytes = crate::simulate::read_bytes(&stage.layer);
    let sharing =
        crate::simulate::hand_over_delay(bench.profile, options.synchronisation, bytes, true).as_micros();
    let of = |what: &str| format!("xiaomi-9/1x1-conv-52-52-256-128/{what}");
    comparison.group("a small convolution", Limit::each(15.0));
    comparison
        .row(&of("single-processor-execution-latency"), alone)
        .note("on the GPU; the figure does not say which processor");
    comparison.row(&of("co-execution-compute-latency"), computing);
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
    comparison.row(&of("slowdown-of-flops-split"), suggested / best.1).note(
        "a GPU nine times as fast as the CPU on this convolution, as the best cut of 90 % says, is not what the \
         models' speedups of 2.08 and 1.56 say of the two processors; one rate a processor cannot give both",
    );
    Ok(())
}

/// Half on each processor along either dimension (Figure 10).
fn dimensions(comparison: &mut Comparison, bench: &Bench<'_>) -> Result<(), SimulateError> {
    comparison.group("half of a convolution along either dimension", Limit::each(15.0));
    for (shape, name) in [
        ([104, 104, 64, 128], "conv-104-104-64-128-yolo"),
        ([13, 13, 1024, 1024], "conv-13-13-1024-1024-yolo"),
    ] {
        let stage = convolution(shape, 3);
        let alone = bench.micros(&stage, bench.cpu())?;
        for (axis, letters) in [(Axis::Height, "h"), (Axis::Channels, "oc")] {
            let half = bench.cut(&stage, axis, 5).ok_or(SimulateError::NothingToUse)?;
            let id = format!("xiaomi-9/{name}/speedup-{letters}-split-over-cpu-only");
            comparison.row(&id, alone / bench.micros(&stage, half)?);
        }
    }
    Ok(())
}

/// The first operators of `YOLOv2`, half on each processor, chained and not (Figure 13).
fn chain(comparison: &mut Comparison, bench: &Bench<'_>, stages: &[Stage]) -> Result<(), SimulateError> {
    const LONGEST: usize = 12;
    let mut lengths = Vec::new();
    for length in 2..=LONGEST.min(stages.len()) {
        let stages = &stages[..length];
        let halves: Option<Vec<Placement>> =
            stages.iter().map(|stage| bench.cut(stage, Axis::Height, 5)).collect();
        let Some(halves) = halves else { break };
        let plan = Plan::new(Mechanism::EventWait, halves);
        let unchained = bench.run(stages, &plan)?;
        let chained = bench.run(stages, &plan.chained(vec![Some(0); length]));
        // A longer chain than the rows of an operator allow is none.
        let Ok(chained) = chained else { break };
        lengths.push((length, unchained, chained));
    }
    let of_length = |wanted: usize| lengths.iter().find(|(length, ..)| *length == wanted);
    let gain = |(_, unchained, chained): &(usize, Prediction, Prediction)| {
        unchained.latency.as_seconds() / chained.latency.as_seconds() - 1.0
    };
    let best = lengths.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)));
    let (mut sharing, mut computing) = (f64::NAN, f64::NAN);
    if let Some((_, unchained, chained)) = of_length(9) {
        let [without, with] = [unchained, chained].map(|run| overhead(run).as_seconds());
        let [before, after] = [(unchained, without), (chained, with)]
            .map(|(run, overhead)| run.latency.as_seconds() - overhead);
        (sharing, computing) = (100.0 * with / without, 100.0 * (after / before - 1.0));
    }
    comparison.group_measured("a chain of YOLOv2", Limit::each(15.0), Measure::Points);
    comparison.row("xiaomi-9/yolo-chain-of-9/data-sharing-overhead-relative-to-no-chain", sharing);
    comparison.row("xiaomi-9/yolo-chain-of-9/compute-latency-increase-from-padding", computing);
    let improvement = of_length(8).map_or(f64::NAN, |run| 100.0 * gain(run));
    comparison.row("xiaomi-9/yolo-chain-of-8/improvement-over-no-chain", improvement);
    comparison
        .note("which operators of YOLOv2 the figure chains is not said: the first here, pools included");
    comparison.group("its best length", Limit::each(25.0));
    comparison
        .row("xiaomi-9/yolo/optimal-chain-length", best.map_or(f64::NAN, |(length, ..)| *length as f64));
    Ok(())
}

/// Time of sharing data.
fn overhead(run: &Prediction) -> Picos {
    run.processors.iter().fold(Picos::ZERO, |sum, one| sum + one.overhead)
}
