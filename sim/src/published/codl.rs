//! `CoDL` (MobiSys'22): the runs behind its published numbers.
//!
//! Every operator that can be cut is, as the 77 and 23 % of Figure 17 say; the strategy of
//! that name may also leave one whole, as section 4.1's ratios from 0 to 1 do.
//! Every phone's GPU rate is set from one model's latency; the buffer type's from the
//! ratio of Figure 2; synchronisation and power as the profiles say. All else is
//! predicted, by the systems as the paper describes them, on the models that its
//! repository times.

mod chain;
mod evidence;
mod memory;
mod operators;
mod plans;
mod predictors;
mod runs;

use super::{BarSeries, Bars, Comparison, Drawing, Inputs, Limit, Measure, Picture, ReproduceError};
use crate::simulate::SimulateError;
use runs::{MODELS, PHONES, Runs, SNAPDRAGONS, System};

/// How much longer GPU kernels take on buffers than on images (Figure 2).
const BUFFERS: &str = "xiaomi-9/3x3-conv-ic-oc-64-h-w-64-256/image-vs-buffer-type-speedup";
/// Index of the Xiaomi 9 among the phones.
const XIAOMI9: usize = 0;
/// Index of `RetinaFace`, `YOLOv2`, VGG-16 and fast style transfer among the models.
const RETINAFACE: usize = 0;
const YOLO: usize = 1;
const VGG: usize = 2;
const STYLE: usize = 4;

/// Sets ours beside the published numbers.
///
/// # Errors
/// A run cannot be simulated.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    comparison.set_by(BUFFERS, "the GPU's kernels on buffers");
    let mut runs = Runs::new(inputs, comparison.number(BUFFERS))?;
    latencies(comparison, &mut runs)?;
    speedups(comparison, &mut runs)?;
    plans::dimensions(comparison, &mut runs)?;
    plans::chains(comparison, &mut runs)?;
    operators::compare(comparison, &mut runs)?;
    predictors::compare(comparison, &runs)?;
    energy(comparison, &mut runs)?;
    memory::compare(comparison, &mut runs)?;
    findings(comparison, &mut runs)?;
    rest(comparison);
    Ok(())
}

fn latencies(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    comparison.group("latencies of CoDL", Limit { mean: Some(15.0), ..Limit::default() });
    let mut bars = Vec::new();
    for (phone, (_, soc)) in PHONES.iter().enumerate() {
        for (model, (_, id, _)) in MODELS.iter().enumerate() {
            let ours = runs.of(phone, model, System::Codl)?.millis();
            let fact = format!("{soc}/{id}/codl-latency");
            bars.push([comparison.number(&fact), ours]);
            comparison.row(&fact, ours);
            if model == STYLE && phone >= SNAPDRAGONS {
                let note = evidence::of_style_on_kirin(comparison, runs, phone)?;
                comparison.note(&note);
            }
        }
    }
    let series = |name: &str, which: usize| BarSeries {
        name: name.to_owned(),
        is_published: which == 0,
        values: bars.iter().map(|pair| Some(pair[which])).collect(),
    };
    let names =
        PHONES.iter().flat_map(|(_, soc)| MODELS.iter().map(move |(.., name)| format!("{name}, {soc}")));
    comparison.figure(Picture {
        name: "codl-latencies".to_owned(),
        title: "Latency of CoDL".to_owned(),
        subtitle: "five models on four phones; PoseNet's set each phone's GPU rate".to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "latency (ms)".to_owned(),
            categories: names.collect(),
            series: vec![series("published", 0), series("coexec", 1)],
        }),
    });
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn speedups(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    comparison.group("speedups of CoDL", Limit::each(15.0));
    let mut of = |phones: std::ops::Range<usize>, over| {
        let each = phones.map(|phone| runs.speedups(phone, System::Codl, over));
        Ok::<_, SimulateError>(each.collect::<Result<Vec<_>, _>>()?.concat())
    };
    let mu_layer = of(0..SNAPDRAGONS, System::MuLayer)?;
    comparison.row("snapdragon-avg/5-models/speedup-over-mulayer-like-mean", mean(&mu_layer));
    comparison.row("snapdragon/5-models/speedup-over-mulayer-like-max", greatest(&mu_layer));
    let note = evidence::of_mu_layer(comparison, &mu_layer);
    comparison.note(&note);
    let cpu = of(0..SNAPDRAGONS, System::Cpu)?;
    comparison.row("snapdragon-avg/5-models/speedup-over-mace-cpu-mean", mean(&cpu));
    let note = evidence::of_the_cpu(comparison, &cpu);
    comparison.note(&note);
    let gpu = of(0..SNAPDRAGONS, System::Gpu)?;
    comparison.row("snapdragon-avg/5-models/speedup-over-mace-gpu-mean", mean(&gpu));
    let note = evidence::of_both(comparison, "snapdragon-avg", mean(&cpu), mean(&gpu));
    comparison.note(&note);
    let own_plan = of(0..SNAPDRAGONS, System::CodlOnBuffers)?;
    let buffers = of(0..SNAPDRAGONS, System::ImagePlanOnBuffers)?;
    comparison.row("snapdragon-avg/5-models/speedup-over-codl-buffer-based-mean", mean(&buffers));
    let note = evidence::of_buffers(comparison, mean(&own_plan), mean(&buffers));
    comparison.note(&note);
    let kirin = SNAPDRAGONS..PHONES.len();
    let mu_layer = of(kirin.clone(), System::MuLayer)?;
    comparison.row("kirin-990/5-models/speedup-over-mulayer-like-max", greatest(&mu_layer));
    comparison.row("kirin-990/5-models/speedup-over-mulayer-like-mean", mean(&mu_layer));
    let kirin_cpu = of(kirin.clone(), System::Cpu)?;
    comparison.row("kirin-990/5-models/speedup-over-mace-cpu-mean", mean(&kirin_cpu));
    let kirin_gpu = of(kirin, System::Gpu)?;
    comparison.row("kirin-990/5-models/speedup-over-mace-gpu-mean", mean(&kirin_gpu));
    let note = evidence::of_both(comparison, "kirin-990", mean(&kirin_cpu), mean(&kirin_gpu));
    comparison.note(&note);
    style_transfer(comparison, runs)?;
    comparison.figure(speedup_figure(
        comparison,
        &[
            ("over the CPU", "snapdragon-avg/5-models/speedup-over-mace-cpu-mean", mean(&cpu)),
            ("over the GPU", "snapdragon-avg/5-models/speedup-over-mace-gpu-mean", mean(&gpu)),
            ("over muLayer-like", "snapdragon-avg/5-models/speedup-over-mulayer-like-mean", {
                let each: Result<Vec<_>, _> = (0..SNAPDRAGONS)
                    .map(|phone| runs.speedups(phone, System::Codl, System::MuLayer))
                    .collect();
                mean(&each?.concat())
            }),
            (
                "over buffers alone",
                "snapdragon-avg/5-models/speedup-over-codl-buffer-based-mean",
                mean(&buffers),
            ),
            ("Kirin: over the CPU", "kirin-990/5-models/speedup-over-mace-cpu-mean", mean(&kirin_cpu)),
            ("Kirin: over the GPU", "kirin-990/5-models/speedup-over-mace-gpu-mean", mean(&kirin_gpu)),
            (
                "Kirin: over muLayer-like",
                "kirin-990/5-models/speedup-over-mulayer-like-mean",
                mean(&mu_layer),
            ),
        ],
    ));
    Ok(())
}

/// What `CoDL`, and its bound, save of the CPU's time on the largest model.
fn style_transfer(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    comparison.group_measured("latency saved of fast style transfer", Limit::each(15.0), Measure::Points);
    for (id, system) in [
        ("snapdragon/fast-style-transfer/latency-reduction-vs-mace-cpu", System::Codl),
        ("snapdragon/fast-style-transfer/theoretical-latency-reduction-vs-mace-cpu", System::Bound),
    ] {
        let mut saved = Vec::new();
        for phone in 0..SNAPDRAGONS {
            let cpu = runs.of(phone, STYLE, System::Cpu)?.millis();
            saved.push(100.0 * (1.0 - runs.of(phone, STYLE, system)?.millis() / cpu));
        }
        comparison.row(id, mean(&saved));
    }
    Ok(())
}

fn speedup_figure(comparison: &Comparison, bars: &[(&str, &str, f64)]) -> Picture {
    let published = bars.iter().map(|(_, id, _)| Some(comparison.number(id))).collect();
    let ours = bars.iter().map(|(.., ours)| Some(*ours)).collect();
    Picture {
        name: "codl-speedups".to_owned(),
        title: "Speedups of CoDL".to_owned(),
        subtitle: "means over five models; the first four over three Snapdragons (Figures 15 and 16)"
            .to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "speedup".to_owned(),
            categories: bars.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            series: vec![
                BarSeries { name: "published".to_owned(), is_published: true, values: published },
                BarSeries { name: "coexec".to_owned(), is_published: false, values: ours },
            ],
        }),
    }
}

fn energy(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    let mut more = |over: System| {
        let (mut power, mut energy) = (Vec::new(), Vec::new());
        for model in 0..MODELS.len() {
            let (codl, other) = (runs.of(XIAOMI9, model, System::Codl)?, runs.of(XIAOMI9, model, over)?);
            power.push(100.0 * (codl.watts() / other.watts() - 1.0));
            energy.push(100.0 * (codl.joules() / other.joules() - 1.0));
        }
        Ok::<_, SimulateError>([mean(&power), mean(&energy)])
    };
    let (cpu, gpu, mu_layer) = (more(System::Cpu)?, more(System::Gpu)?, more(System::MuLayer)?);
    comparison.group_measured("power and energy", Limit::each(15.0), Measure::Points);
    for (name, [power, energy]) in [("mace-cpu", cpu), ("mace-gpu", gpu), ("mulayer-like", mu_layer)] {
        comparison.row(&format!("xiaomi-9/5-models/average-power-vs-{name}"), power);
        comparison.row(&format!("xiaomi-9/5-models/energy-vs-{name}"), energy);
    }
    let series = |name: &str, is_published, values: [f64; 3]| BarSeries {
        name: name.to_owned(),
        is_published,
        values: values.map(Some).to_vec(),
    };
    let published = ["mace-cpu", "mace-gpu", "mulayer-like"]
        .map(|name| 100.0 + comparison.number(&format!("xiaomi-9/5-models/energy-vs-{name}")));
    comparison.figure(Picture {
        name: "codl-energy".to_owned(),
        title: "Energy of CoDL".to_owned(),
        subtitle: "an inference on the Xiaomi 9 over that of another system (Figure 21b)".to_owned(),
        drawing: Drawing::GroupedBars(Bars {
            y: "energy (% of the other's)".to_owned(),
            categories: ["MACE, CPU", "MACE, GPU", "muLayer-like"].map(str::to_owned).to_vec(),
            series: vec![
                series("published", true, published),
                series("coexec", false, [cpu, gpu, mu_layer].map(|[_, energy]| 100.0 + energy)),
            ],
        }),
    });
    Ok(())
}

fn findings(comparison: &mut Comparison, runs: &mut Runs) -> Result<(), SimulateError> {
    const POSENET: usize = 3;
    comparison.group("statements", Limit::default());
    let [cpu, gpu] = [System::Cpu, System::Gpu].map(|system| runs.of(XIAOMI9, YOLO, system));
    let (cpu, gpu) = (cpu?.millis(), gpu?.millis());
    comparison.finding(
        "mobile/yolo/single-processor-latency",
        format!("{cpu:.0} ms on the CPU, {gpu:.0} ms on the GPU"),
        cpu > 200.0 && gpu > 200.0,
    );
    let alone = runs.of(XIAOMI9, POSENET, System::Gpu)?.millis();
    let slower = runs.of(XIAOMI9, POSENET, System::MuLayer)?.millis() / alone;
    comparison.finding(
        "xiaomi-9/posenet/mulayer-vs-mace-single-processor",
        format!("{slower:.1} times the GPU's time"),
        (1.5..2.5).contains(&slower),
    );
    let light = runs::light_model_speedup(runs.profile(XIAOMI9))?;
    comparison.finding(
        "all/light-models-mobilenet/speedup",
        format!("{light:.2} over the faster processor, MobileNetV2"),
        light < 1.1,
    );
    Ok(())
}

fn rest(comparison: &mut Comparison) {
    comparison.group("not compared", Limit::default());
    comparison.rest_not_reproduced("no rate of image kernels on a Mali is published", |fact| {
        fact.id.contains("codl-image-based")
    });
    comparison.rest_not_reproduced("an implementation's figure: not modelled", |fact| {
        fact.id.starts_with("phone/")
    });
    comparison.rest_not_reproduced("another work's figure", |fact| fact.id.contains("nn-meter"));
    comparison.rest_not_reproduced("an input: the method, or the device", |_| true);
}
