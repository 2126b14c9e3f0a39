//! Single operators: `CoDL`'s Figures 3 to 5 and 10.

use super::chain::HALF;
use super::runs::{Runs, System, options};
use super::{STYLE, THREADS, XIAOMI9, YOLO, chain};
use crate::{Comparison, Result, bundled, fastest};
use coexec_sim::SimulateError;
use coexec_sim::plan::{Axis, Placement, Plan, computed};
use coexec_sim::schedule::{ScheduleError, read_bytes};
use coexec_sim::simulate::{Prediction, Simulator, hand_over_delay};
use coexec_sim::workload::{Conv2d, DataType, Layer, Operator, Shape, Stage, Window};
use coexec_sim::{CoreSet, Library, Mechanism, Profile, Strategy};

/// Compares ours with the published numbers of operators.
pub(super) fn compare(comparison: &mut Comparison, runs: &mut Runs) -> Result {
    let profile = runs.profile(XIAOMI9).clone();
    let cores = fastest(&profile, THREADS)?;
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
    pub(super) fn run(&self, stages: &[Stage], plan: &Plan) -> Result<Prediction> {
        Ok(Simulator::new(self.profile, Library::Xnnpack).run(stages, plan)?)
    }

    fn micros(&self, stage: &Stage, placement: Placement) -> Result<f64> {
        let plan = Plan::new(Mechanism::EventWait, vec![placement]);
        Ok(self.run(std::slice::from_ref(stage), &plan)?.latency.as_micros())
    }

    /// The placement of `stage` with `gpu` tenths along `axis` on the GPU; none if it cannot be cut.
    pub(super) fn cut(&self, stage: &Stage, axis: Axis, gpu: u32) -> Option<Placement> {
        const TENTHS: u32 = 10;
        let all = axis.extent(&stage.layer.operator)?;
        let cpu = (all * (TENTHS - gpu) / TENTHS).max(1);
        Some(Placement::cpu_and_gpu(axis, self.cores, [cpu, all - cpu]))
    }

    /// [`Self::cut`] of a convolution, which can always be cut.
    fn cut_convolution(&self, stage: &Stage, axis: Axis, gpu: u32) -> Result<Placement> {
        let problem = || format!("a convolution of CoDL's figures has no cut along {axis:?}");
        bundled(self.cut(stage, axis, gpu), problem)
    }

    /// Compute time of operators under a plan, in microseconds: the sum of each cut operator's longest
    /// part, run alone.
    pub(super) fn computing(&self, stages: &[Stage], plan: &Plan) -> Result<f64> {
        let computed =
            computed(stages, plan).map_err(|error| SimulateError::from(ScheduleError::from(error)))?;
        let mut total = 0.0;
        for ((stage, placement), regions) in stages.iter().zip(&plan.placements).zip(&computed) {
            let mut longest: f64 = 0.0;
            for (part, region) in placement.parts().zip(regions).filter(|_| placement.is_cut()) {
                let alone = Stage::single(stage.name.clone(), region.part_of(&stage.layer));
                longest = longest.max(self.micros(&alone, Placement::whole(part.by))?);
            }
            total += longest;
        }
        Ok(total)
    }
}

/// A convolution `<height, width, input channels, output channels>` in the paper's notation.
fn convolution([height, width, input, output]: [u32; 4], window: u32) -> Stage {
    let conv = Conv2d::new(Shape::image(height, width, input), output, Window::same(window));
    Stage::single("conv".to_owned(), Layer::new(Operator::Conv2d(conv), DataType::F32))
}

/// A 1x1 convolution cut in half between the processors (Figure 4).
fn small_convolution(comparison: &mut Comparison, bench: &Bench<'_>) -> Result {
    let stage = convolution([52, 52, 256, 128], 1);
    let alone = bench.micros(&stage, Placement::GPU)?;
    let half = Plan::new(Mechanism::EventWait, vec![bench.cut_convolution(&stage, Axis::Channels, HALF)?]);
    let computing = bench.computing(std::slice::from_ref(&stage), &half)?;
    // The data shared is the input, which the previous operator left on the GPU.
    let synchronisation = options(bench.profile, Strategy::Codl).synchronisation;
    let sharing = hand_over_delay(bench.profile, synchronisation, read_bytes(&stage.layer), true).as_micros();
    let of = |what: &str| format!("xiaomi-9/1x1-conv-52-52-256-128/{what}");
    comparison.row(of("single-processor-execution-latency"), alone);
    comparison.row(of("co-execution-compute-latency"), computing);
    comparison.row(of("data-sharing-overhead"), sharing);
    comparison.row(of("net-slowdown"), (computing + sharing) / alone);
    Ok(())
}

/// The cut of a large convolution that a FLOPs predictor suggests, and the best one (Figure 5).
fn unbalanced_cut(comparison: &mut Comparison, bench: &Bench<'_>, runs: &mut Runs) -> Result {
    let stage = convolution([240, 320, 64, 128], 3);
    let takes = |gpu| bench.micros(&stage, bench.cut_convolution(&stage, Axis::Height, gpu)?);
    let times = (1..10).map(takes).collect::<Result<Vec<f64>>>()?;
    let best = (1..).zip(&times).min_by(|one, other| one.1.total_cmp(other.1)).unwrap_or((0, &f64::NAN));
    let [cpu, gpu] = [System::Cpu, System::Gpu].map(|system| runs.of(XIAOMI9, STYLE, system));
    let (cpu, gpu) = (cpu?.millis(), gpu?.millis());
    let share = 10.0 * cpu / (cpu + gpu);
    let suggested = times.get((share.round() as usize).wrapping_sub(1)).copied().unwrap_or(f64::NAN);
    let of = |what: &str| format!("xiaomi-9/3x3-conv-240-320-64-128/{what}");
    comparison.row(of("flops-predictor-gpu-ratio"), 10.0 * share);
    comparison.row(of("optimal-gpu-ratio"), 10.0 * f64::from(best.0));
    comparison.row(of("slowdown-of-flops-split"), suggested / best.1);
    Ok(())
}

/// Convolutions cut in half along either dimension (Figure 10).
fn dimensions(comparison: &mut Comparison, bench: &Bench<'_>) -> Result {
    for (shape, name) in [
        ([104, 104, 64, 128], "conv-104-104-64-128-yolo"),
        ([13, 13, 1024, 1024], "conv-13-13-1024-1024-yolo"),
    ] {
        let stage = convolution(shape, 3);
        let alone = bench.micros(&stage, Placement::cpu(bench.cores))?;
        for (axis, letters) in [(Axis::Height, "h"), (Axis::Channels, "oc")] {
            let id = format!("xiaomi-9/{name}/speedup-{letters}-split-over-cpu-only");
            comparison.row(id, alone / bench.micros(&stage, bench.cut_convolution(&stage, axis, HALF)?)?);
        }
    }
    Ok(())
}
