//! Why numbers of `CoDL` are missed: what its own numbers imply, beside ours.
//!
//! Every figure in these sentences is computed, from published facts or from runs.

use super::super::Comparison;
use super::runs::{MODELS, PHONES, Run, Runs, System};
use super::{STYLE, mean};
use crate::simulate::{SimulateError, read_bytes};
use crate::units::Bytes;
use crate::workload::Stage;

/// Name of the phones with an Adreno GPU in the ids of facts.
const SNAPDRAGON: &str = "snapdragon-avg";

/// A speedup of `CoDL` over MACE on one processor.
fn over(comparison: &Comparison, phones: &str, processor: &str) -> f64 {
    comparison.number(&format!("{phones}/5-models/speedup-over-mace-{processor}-mean"))
}

/// Percent that a time is above what two processors need which share work perfectly, of the
/// speedups over each.
fn above_perfect(cpu: f64, gpu: f64) -> f64 {
    100.0 * (1.0 / cpu + 1.0 / gpu - 1.0)
}

/// The paper's times of fast style transfer over `CoDL`'s: of the CPU, and of the GPU as its
/// bound implies, which is perfect sharing.
pub(super) fn style_ratios(comparison: &Comparison) -> [f64; 2] {
    let left = |what: &str| {
        1.0 - comparison.number(&format!("snapdragon/fast-style-transfer/{what}-vs-mace-cpu")) / 100.0
    };
    let (codl, bound) = (left("latency-reduction"), left("theoretical-latency-reduction"));
    [1.0 / codl, 1.0 / (codl * (1.0 / bound - 1.0))]
}

/// On the greatest speedup over muLayer.
pub(super) fn of_mu_layer(comparison: &Comparison, ours: &[f64]) -> String {
    let greatest = ours.iter().copied().enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
    let (index, greatest) = greatest.unwrap_or((0, f64::NAN));
    let (phone, model) = (PHONES[index / MODELS.len()].1, MODELS[index % MODELS.len()].2);
    let others: Vec<f64> = ours
        .iter()
        .enumerate()
        .filter(|(at, _)| at % MODELS.len() != index % MODELS.len())
        .map(|(_, one)| *one)
        .collect();
    format!(
        "{greatest:.2} is {model} on the {phone}; the other models' greatest is {:.2}. One price of buffers, {:.1} \
         times that of images, stands for all shapes here: the paper measures it on 64 channels",
        others.iter().copied().fold(0.0, f64::max),
        comparison.number(super::BUFFERS),
    )
}

/// On the mean speedup over the CPU, of each phone and model.
pub(super) fn of_the_cpu(comparison: &Comparison, ours: &[f64]) -> String {
    let models = MODELS.len() as f64;
    let of_style: Vec<f64> = ours.iter().skip(STYLE).step_by(MODELS.len()).copied().collect();
    let (style, all) = (mean(&of_style), mean(ours));
    let published = [style_ratios(comparison)[0], over(comparison, SNAPDRAGON, "cpu")];
    let others = |style: f64, all: f64| (all * models - style) / (models - 1.0);
    format!(
        "fast style transfer gains {:.2} in the paper (73 % less), so its other four models gain {:.2} on the average, ours \
         {style:.2} and {:.2}: MACE's CPU is {:.1} times as fast on them, beside CoDL, as on fast style transfer, the one \
         rate here {:.1} times. Kernels that change with the shape of a map (Winograd, section 5.2) would; those that stand for \
         MACE's on the CPU do not",
        published[0],
        others(published[0], published[1]),
        others(style, all),
        published[0] / others(published[0], published[1]),
        style / others(style, all),
    )
}

/// On the speedups over both processors together.
pub(super) fn of_both(comparison: &Comparison, phones: &str, cpu: f64, gpu: f64) -> String {
    let published = above_perfect(over(comparison, phones, "cpu"), over(comparison, phones, "gpu"));
    format!(
        "by its speedups over both, the paper's CoDL takes {published:.0} % more than perfect sharing of both processors \
         would, ours {:.0} %; CPU over GPU time is {:.2} there and {:.2} here",
        above_perfect(cpu, gpu),
        over(comparison, phones, "cpu") / over(comparison, phones, "gpu"),
        cpu / gpu,
    )
}

/// On `CoDL` on buffers: planned for them, and planned for images.
pub(super) fn of_buffers(comparison: &Comparison, own_plan: f64, image_plan: f64) -> String {
    let buffers = comparison.number("snapdragon-avg/5-models/speedup-over-codl-buffer-based-mean");
    let mu_layer = comparison.number("snapdragon-avg/5-models/speedup-over-mulayer-like-mean");
    format!(
        "of the plan made for images, computed on buffers ({image_plan:.2}); one made for buffers leaves more to the CPU \
         and is {own_plan:.2}. The paper's {buffers:.2} is slower than its muLayer on the same buffers ({mu_layer:.2}) and \
         than the CPU alone ({:.2}), as no plan is that knows of buffers: hence this reading",
        over(comparison, SNAPDRAGON, "cpu"),
    )
}

/// On fast style transfer on the Kirin, on buffers.
pub(super) fn of_style_on_kirin(
    comparison: &Comparison,
    runs: &mut Runs,
    phone: usize,
) -> Result<String, SimulateError> {
    let published = |soc: &str, model: &str| comparison.number(&format!("{soc}/{model}/codl-latency"));
    let of = |model| published(PHONES[phone].1, model) / published(PHONES[0].1, model);
    let others: Vec<f64> =
        MODELS.iter().enumerate().filter(|(at, _)| *at != STYLE).map(|(_, (_, id, _))| of(id)).collect();
    let cpu = runs.of(phone, STYLE, System::Cpu)?.millis();
    let ours = published(PHONES[phone].1, "fast-style-transfer");
    let operations: u64 = runs.stages(STYLE).iter().map(|stage| stage.layer.operator.macs()).sum();
    // What the GPU adds to a CPU that works all the time, at most.
    let rate = operations as f64 * (1.0 / ours - 1.0 / cpu) / 1e6;
    let gpu = runs.of(phone, STYLE, System::Gpu)?.millis();
    Ok(format!(
        "the paper's takes {:.1} times as long as on the {}, its other models {:.2} times on the average; beside a CPU that \
         takes {cpu:.0} ms alone, {ours:.0} ms leave the GPU {rate:.0} multiply-adds a nanosecond, where PoseNet's rate \
         gives {:.0}: one rate for all shapes cannot tell that kernels on buffers are slow on its large maps",
        of("fast-style-transfer"),
        PHONES[0].1,
        mean(&others),
        operations as f64 / gpu / 1e6,
    ))
}

/// Bytes that the operators read, whole, and how many operators there are.
fn read(stages: &[Stage]) -> Bytes {
    stages.iter().map(|stage| read_bytes(&stage.layer)).sum()
}

/// On what sharing costs in fast style transfer without chains.
pub(super) fn of_style_sharing(comparison: &Comparison, stages: &[Stage], unchained: &Run) -> String {
    let of = |what: &str| comparison.number(&format!("xiaomi-9/fast-style-transfer/{what}"));
    let unchained_ms = of("latency-hybrid-dimension-no-chain");
    let chained = comparison.number("snapdragon-855/fast-style-transfer/codl-latency");
    let price = comparison.number("xiaomi-9/1x1-conv-52-52-256-128/data-sharing-overhead");
    let (height, width, channels, word) = (52.0, 52.0, 256.0, 4.0);
    let megabytes = height * width * channels * word / 1e6;
    let all = read(stages).0 as f64 / 1e6;
    format!(
        "chains save the paper at least {unchained_ms:.0} - {chained:.0} = {:.0} ms of sharing. At the price of its Figure 4, \
         {price:.0} us for {megabytes:.2} MB, were it all by bytes, the {all:.0} MB that the {} operators read cost {:.0} ms \
         at most; shared as they are cut, {:.0} ms here",
        unchained_ms - chained,
        stages.len(),
        price / 1e3 / megabytes * all,
        unchained.sharing_millis(),
    )
}

/// On the greatest gain of both dimensions.
pub(super) fn of_hybrid_gain(comparison: &Comparison) -> String {
    let of = |what: &str| comparison.number(&format!("xiaomi-9/fast-style-transfer/latency-{what}"));
    let hybrid = of("hybrid-dimension-no-chain");
    let [first, second] = ["unified-dimension-first", "unified-dimension-second"].map(|one| of(one) / hybrid);
    format!(
        "over the slower single dimension; the paper's own latencies are {first:.2} and {second:.2} times the hybrid one, \
         neither of them its greatest"
    )
}

/// On the sharing that is left in chains.
pub(super) fn of_chained_sharing(comparison: &Comparison, runs: &mut Runs) -> Result<String, SimulateError> {
    let of = |what: &str| comparison.number(&format!("xiaomi-9/retinaface/{what}"));
    // The most operators of any of its models (section 7.1).
    let operators = 61.0;
    let lengths = ["chain-length-rank-1", "chain-length-rank-2", "chain-length-rank-3"].map(of);
    let chained: f64 = lengths.iter().sum();
    let sharings = operators - chained + lengths.len() as f64;
    let (without, with) = (of("sharing-overhead-without-chains"), of("sharing-overhead-with-chains"));
    let ours = runs.of(super::XIAOMI9, super::RETINAFACE, System::Codl)?;
    let count = ours.plan.placements.len();
    Ok(format!(
        "of at most {operators} operators, the paper's three longest chains hold {chained:.0} and leave {sharings:.0} places \
         where data are shared: at {:.1} ms each, as without chains, {:.0} ms, not {with:.0}. The network that its \
         repository times has {count} operators",
        without / operators,
        without / operators * sharings,
    ))
}

/// Microseconds that a convolution would leave the CPU, and what its cores can do at most.
pub(super) fn of_the_peak(comparison: &Comparison, macs: u64, peak: f64) -> String {
    let of = |what: &str| comparison.number(&format!("xiaomi-9/1x1-conv-52-52-256-128/{what}"));
    let (alone, half) = (of("single-processor-execution-latency"), of("co-execution-compute-latency"));
    let macs = macs as f64;
    format!(
        "half of it in {half:.0} us is {:.0} multiply-adds a nanosecond on four cores whose peak is {peak:.0} ({:.0} %), all of \
         it in {alone:.0} us {:.0} ({:.0} %): so the time alone is the GPU's, and the CPU's half is near its peak",
        macs / 2.0 / half / 1e3,
        50.0 * macs / half / 1e3 / peak,
        macs / alone / 1e3,
        100.0 * macs / alone / 1e3 / peak,
    )
}

/// On the cut that FLOPs suggest: how much faster than the CPU the GPU is.
pub(super) fn of_unbalanced(comparison: &Comparison, ours: [f64; 2]) -> String {
    let of = |what: &str| comparison.number(&format!("xiaomi-9/3x3-conv-240-320-64-128/{what}"));
    let (best, flops) = (of("optimal-gpu-ratio"), of("flops-predictor-gpu-ratio"));
    let [cpu, gpu] = style_ratios(comparison);
    format!(
        "the CPU's {:.0} % against {:.0} % is the slowdown of {:.0}, so the figure agrees with itself: the GPU is {:.1} times as \
         fast on this convolution. On fast style transfer, which has its shapes, the paper's bound makes it {:.1} times, on \
         five models {:.1}; here {:.1} and {:.1}",
        100.0 - flops,
        100.0 - best,
        of("slowdown-of-flops-split"),
        best / (100.0 - best),
        cpu / gpu,
        over(comparison, SNAPDRAGON, "cpu") / over(comparison, SNAPDRAGON, "gpu"),
        ours[0],
        ours[1],
    )
}

/// On halves along either dimension: sharing beyond half of the CPU's time.
pub(super) fn of_halves(comparison: &Comparison, bytes: [Bytes; 2]) -> String {
    let of = |axis: &str| {
        1.0 / comparison
            .number(&format!("xiaomi-9/conv-104-104-64-128-yolo/speedup-{axis}-split-over-cpu-only"))
            - 0.5
    };
    format!(
        "beside half of the CPU's time, the paper's cut along channels takes {:.1} times as much as that along the height, but \
         reads {:.1} times the bytes",
        of("oc") / of("h"),
        bytes[1].0 as f64 / bytes[0].0 as f64,
    )
}
