//! `CoDL` (MobiSys'22): the runs behind its published numbers.
//!
//! Every operator that can be cut is cut, as the 77 and 23 % of Figure 17 imply; the strategy
//! `codl` may also leave one whole, as section 4.1's ratios from 0 to 1 do.
//! Each phone's GPU rate is set from one model's latency, the slowdown of buffers from the
//! ratio of Figure 2, and synchronisation and power as the profiles state. All else is
//! predicted, with the systems as the paper describes them, on the models that its
//! repository times.

mod chain;
mod memory;
mod operators;
mod plans;
mod predictors;
mod runs;

use super::{Comparison, Inputs, Result, mean, range, stages};
use runs::{MODELS, PHONES, Runs, SNAPDRAGONS, System};

/// Fact: ratio of GPU kernels' times on buffers to those on images (Figure 2).
const BUFFERS: &str = "xiaomi-9/3x3-conv-ic-oc-64-h-w-64-256/image-vs-buffer-type-speedup";
/// CPU threads: one for each big core, which the paper's CPU kernels use.
const THREADS: u32 = 4;
/// Index of the Xiaomi 9 among the phones.
const XIAOMI9: usize = 0;
/// Index of `RetinaFace`, `YOLOv2`, VGG-16, `PoseNet` and fast style transfer among the models.
const RETINAFACE: usize = 0;
const YOLO: usize = 1;
const VGG: usize = 2;
const POSENET: usize = 3;
const STYLE: usize = 4;

/// Compares ours with the published numbers.
///
/// # Errors
/// A run cannot be simulated.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    let mut runs = Runs::new(inputs, comparison.published(BUFFERS)?)?;
    for (phone, (_, soc)) in PHONES.iter().enumerate() {
        for (model, (_, id)) in MODELS.iter().enumerate() {
            comparison.row(format!("{soc}/{id}/codl-latency"), runs.of(phone, model, System::Codl)?.millis());
        }
    }
    speedups(comparison, &mut runs)?;
    plans::dimensions(comparison, &mut runs)?;
    plans::chains(comparison, &mut runs)?;
    operators::compare(comparison, &mut runs)?;
    predictors::compare(comparison, &runs)?;
    energy(comparison, &mut runs)?;
    memory::compare(comparison, &mut runs)?;
    findings(comparison, &mut runs)
}

fn speedups(comparison: &mut Comparison, runs: &mut Runs) -> Result {
    for (phones, name, mulayer_max) in [
        (0..SNAPDRAGONS, "snapdragon-avg", "snapdragon"),
        (SNAPDRAGONS..PHONES.len(), "kirin-990", "kirin-990"),
    ] {
        let mut over = |system, other| -> Result<Vec<f64>> {
            let each = phones.clone().map(|phone| runs.speedups(phone, system, other));
            Ok(each.collect::<Result<Vec<_>>>()?.concat())
        };
        let mu_layer = over(System::Codl, System::MuLayer)?;
        let of = |what: &str| format!("{name}/5-models/speedup-over-{what}");
        comparison.row(of("mulayer-like-mean"), mean(&mu_layer));
        comparison.row(of("mace-cpu-mean"), mean(&over(System::Codl, System::Cpu)?));
        comparison.row(of("mace-gpu-mean"), mean(&over(System::Codl, System::Gpu)?));
        let [_, most] = range(mu_layer);
        comparison.row(format!("{mulayer_max}/5-models/speedup-over-mulayer-like-max"), most);
        if phones.start == XIAOMI9 {
            let buffers = over(System::Codl, System::ImagePlanOnBuffers)?;
            comparison.row(of("codl-buffer-based-mean"), mean(&buffers));
        }
    }
    // Reduction of the CPU's time by CoDL, and by its theoretical bound, on the largest model.
    for (what, system) in
        [("latency-reduction", System::Codl), ("theoretical-latency-reduction", System::Bound)]
    {
        let mut saved = Vec::new();
        for phone in 0..SNAPDRAGONS {
            let cpu = runs.of(phone, STYLE, System::Cpu)?.millis();
            saved.push(100.0 * (1.0 - runs.of(phone, STYLE, system)?.millis() / cpu));
        }
        comparison.row(format!("snapdragon/fast-style-transfer/{what}-vs-mace-cpu"), mean(&saved));
    }
    Ok(())
}

fn energy(comparison: &mut Comparison, runs: &mut Runs) -> Result {
    for (name, over) in
        [("mace-cpu", System::Cpu), ("mace-gpu", System::Gpu), ("mulayer-like", System::MuLayer)]
    {
        let (mut power, mut energy) = (Vec::new(), Vec::new());
        for model in 0..MODELS.len() {
            let (codl, other) = (runs.of(XIAOMI9, model, System::Codl)?, runs.of(XIAOMI9, model, over)?);
            power.push(100.0 * (codl.watts() / other.watts() - 1.0));
            energy.push(100.0 * (codl.joules() / other.joules() - 1.0));
        }
        comparison.row(format!("xiaomi-9/5-models/average-power-vs-{name}"), mean(&power));
        comparison.row(format!("xiaomi-9/5-models/energy-vs-{name}"), mean(&energy));
    }
    Ok(())
}

fn findings(comparison: &mut Comparison, runs: &mut Runs) -> Result {
    let [cpu, gpu] = [System::Cpu, System::Gpu].map(|system| runs.of(XIAOMI9, YOLO, system));
    let (cpu, gpu) = (cpu?.millis(), gpu?.millis());
    let text = format!("{cpu:.0} ms on the CPU, {gpu:.0} ms on the GPU");
    comparison.finding("mobile/yolo/single-processor-latency", text, cpu > 200.0 && gpu > 200.0);
    let alone = runs.of(XIAOMI9, POSENET, System::Gpu)?.millis();
    let slower = runs.of(XIAOMI9, POSENET, System::MuLayer)?.millis() / alone;
    let text = format!("{slower:.1} times the GPU's time");
    let fact = "xiaomi-9/posenet/mulayer-vs-mace-single-processor";
    comparison.finding(fact, text, (1.5..2.5).contains(&slower));
    let light = runs::light_model_speedup(runs.profile(XIAOMI9))?;
    let text = format!("{light:.2} over the faster processor, MobileNetV2");
    comparison.finding("all/light-models-mobilenet/speedup", text, light < 1.1);
    Ok(())
}
