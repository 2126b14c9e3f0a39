//! Published numbers that contradict each other: why no model meets them all.
//!
//! Responsible for: the arguments, from published numbers alone. Not for: what coexec
//! says of them. Invariant: an argument holds whatever the model; what it takes for
//! granted it says.

use crate::published::Comparison;

/// Tokens of the ablation (section 5.6).
const LADDER_TOKENS: f64 = 320.0;
/// Layers of Llama-3-8B, Llama-3.2-3B and InternLM2-1.8B.
const LAYERS: [f64; 3] = [32.0, 28.0, 24.0];
/// Rows of 4096 weights in Llama-3-8B's matrices but FFN-down, over those of a square
/// one: query, output, key and value together, gate and up together.
const SQUARES_BESIDE_DOWN: f64 = 1.0 + 1.0 + 0.5 + 7.0;

/// Facts that an argument says something of.
pub(super) const CONTESTED: [&str; 7] = [
    "snapdragon-8-gen-3/weight-4096x4096-activation-4096x-193-255/npu-latency",
    "snapdragon-8-gen-3/14336-4096-x-4096-k-vs-k-4096-x-4096-14336/order-speedup",
    "snapdragon-8-gen-3/llama-8b-prefill-seq-320/plus-tensor-order",
    "snapdragon-8-gen-3/llama-8b-prefill-seq-320/plus-activation-centric",
    "snapdragon-8-gen-3/llama-8b-prefill-seq-320/naive-npu-vs-gpu-baseline",
    "snapdragon-8-gen-3/other-models-decode/fast-sync-speedup",
    "snapdragon-8-gen-3/weight-4096x14336-activation-14336x1/strategy-gpu-npu",
];

/// Why the fact called `id` cannot be met together with others, where that is so.
pub(super) fn argument(comparison: &Comparison, id: &str) -> Option<String> {
    let facts = Facts(comparison);
    match CONTESTED.iter().position(|contested| *contested == id)? {
        0 => Some(facts.padded_length()),
        1 | 2 => Some(facts.order()),
        3 => Some(facts.graph_making()),
        4 => Some(facts.naive()),
        5 => Some(facts.waits()),
        _ => Some(facts.uncut_product()),
    }
}

struct Facts<'a>(&'a Comparison);

impl Facts<'_> {
    fn number(&self, id: &str) -> f64 {
        self.0.number(&format!("snapdragon-8-gen-3/{id}"))
    }

    /// Table 3's latency of a product.
    fn latency(&self, weight: &str, activation: &str, processor: &str) -> f64 {
        self.number(&format!("weight-{weight}-activation-{activation}/{processor}-latency"))
    }

    /// 193 tokens in "1.2k" microseconds.
    fn padded_length(&self) -> String {
        let [short, long] =
            ["4096x128", "4096x256"].map(|activation| self.latency("4096x4096", activation, "npu"));
        let stage = |tokens: f64| short + (long - short) * (tokens - 128.0) / 128.0;
        format!(
            "Table 3's own rows contradict the low end: 1.2k us at 193 tokens are {:.1} us a token, less than the \
             {:.1} at 128 tokens ({short:.0} us) and the {:.1} at 256 ({long:.0} us); between those rows, steps of \
             32 tokens (figure 3) leave {:.0} to {:.0} us",
            1200.0 / 193.0,
            short / 128.0,
            long / 256.0,
            stage(193.0),
            stage(224.0)
        )
    }

    /// Sixfold by the order of operands, against 1.79-fold of a whole prefill.
    fn order(&self) -> String {
        let published = self.number("14336-4096-x-4096-k-vs-k-4096-x-4096-14336/order-speedup");
        let ladder = self.number("llama-8b-prefill-seq-320/plus-tensor-order");
        let others = SQUARES_BESIDE_DOWN * self.latency("4096x4096", "4096x256", "npu");
        let down = self.latency("4096x14336", "14336x256", "npu");
        let whole = others + down;
        format!(
            "figure 4 and figure 18 contradict each other at this length: of Table 3's {whole:.0} us a layer, \
             {others:.0} are of matrices with more outputs than inputs (time taken as linear in the outputs); {published:.0}x on \
             them alone makes {:.1}x of the prefill, and {ladder:.2}x leaves {:.1}x for them",
            (published * others + down) / whole,
            (ladder * whole - down) / others
        )
    }

    /// Seconds of the prefill before the ladder's order, weight and synchronisation steps, and
    /// of making graphs: as the activation step needs it, and as section 5.3.2 has it.
    fn ladder(&self) -> [f64; 3] {
        let last = LADDER_TOKENS / self.number("llama-8b/prefill-rate-hetero-tensor-max");
        let steps = ["plus-tensor-order", "plus-weight-centric", "plus-fast-synchronisation"];
        let gains: f64 =
            steps.iter().map(|step| self.number(&format!("llama-8b-prefill-seq-320/{step}"))).product();
        let before = last * gains;
        let needed = before * (self.number("llama-8b-prefill-seq-320/plus-activation-centric") - 1.0);
        let [short, long] =
            ["135", "1000"].map(|tokens| self.number(&format!("llama-8b-seq-{tokens}/graph-preparation")));
        let line = short + (long - short) * (LADDER_TOKENS - 135.0) / (1000.0 - 135.0);
        [before, needed, line / 1e3]
    }

    /// The activation-centric step.
    fn graph_making(&self) -> String {
        let [before, needed, line] = self.ladder();
        format!(
            "figure 18 and section 5.3.2 contradict each other: with at most 247.9 tokens/s at the end, the later steps \
             make {before:.1} s of the prefill behind this one, and what it saves, which is said to be making graphs, \
             {needed:.1} s; the line through 408.4 ms (135 tokens) and 2050 ms (1000) has {line:.2} s, a step of {:.2}x",
            1.0 + line / before
        )
    }

    /// The naive rung.
    fn naive(&self) -> String {
        let [before, needed, line] = self.ladder();
        let slower = self.number("llama-8b-prefill-seq-320/naive-npu-vs-gpu-baseline");
        let gpu = (before + needed) / (1.0 + slower / 100.0);
        format!(
            "it stands on the {needed:.1} s of making graphs that section 5.3.2 contradicts ({line:.2} s): the ladder \
             has {:.1} s for the naive NPU and {gpu:.1} s for the GPU; with {line:.2} s the naive NPU takes {:.1} s, no \
             longer than the GPU",
            before + needed,
            before + line
        )
    }

    /// Waits a layer and token that fast synchronisation saves.
    fn waits(&self) -> String {
        let wait = self.number("gpu-npu/synchronisation-clfinish");
        let gains = [
            self.number("llama-8b-decode/fast-sync-speedup"),
            self.number("other-models-decode/fast-sync-speedup"),
        ];
        let rates = ["llama-8b", "llama-3b", "internlm-1-8b"]
            .map(|model| self.number(&format!("{model}/decode-rate-hetero-tensor")));
        let waits = |model: usize, gain: f64| (gain - 1.0) * 1e6 / rates[model] / LAYERS[model] / wait;
        format!(
            "the two gains contradict each other: at {wait:.0} us a wait, {:.2}x on Llama-8B is {:.1} waits a layer, {:.1}x \
             {:.1} on Llama-3B and {:.1} on InternLM-1.8B, whose layers have the same products",
            gains[0],
            waits(0, gains[0]),
            gains[1],
            waits(1, gains[1]),
            waits(2, gains[1])
        )
    }

    /// FFN-down on the GPU alone in decode.
    fn uncut_product(&self) -> String {
        let of =
            |weight, activation| ["gpu", "npu"].map(|processor| self.latency(weight, activation, processor));
        let [gpu, npu] = of("4096x4096", "4096x1");
        let accepted = gpu - (gpu / 2.0).max(npu / 2.0);
        let [gpu, npu] = of("4096x14336", "14336x1");
        let rejected = gpu - gpu * npu / (gpu + npu);
        format!(
            "no synchronisation cost explains both choices by the solver's formula (section 4.4): halving 4096x4096 saves \
             at most {accepted:.0} us of Table 3's times and is chosen, cutting this product in balance would save \
             {rejected:.0} us and is not"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::{Inputs, Paper};

    fn argued(index: usize) -> String {
        let comparison = Comparison::new(Paper::HeteroInfer, &Inputs::bundled().unwrap());
        argument(&comparison, CONTESTED[index]).unwrap()
    }

    #[test]
    fn every_contested_fact_exists_and_has_an_argument_with_numbers() {
        let comparison = Comparison::new(Paper::HeteroInfer, &Inputs::bundled().unwrap());
        for id in CONTESTED {
            assert!(comparison.fact(id).is_some(), "{id}");
            let text = argument(&comparison, id).unwrap();
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
        assert!(argument(&comparison, "no such fact").is_none());
    }

    #[test]
    fn a_token_would_have_to_cost_less_between_two_sizes_than_at_both() {
        let text = argued(0);
        assert!(text.contains("6.2 us a token") && text.contains("7.1 at 128"), "{text}");
        assert!(text.contains("1406 to 1641 us"), "{text}");
    }

    #[test]
    fn sixfold_by_order_would_make_more_of_the_ladder_than_is_published() {
        assert!(argued(1).contains("6x on them alone makes 3.2x"), "{}", argued(1));
        assert!(argued(2).contains("1.79x leaves 2.8x"), "{}", argued(2));
    }

    #[test]
    fn the_ladder_needs_several_times_the_graph_making_that_is_published() {
        let text = argued(3);
        assert!(text.contains("3.5 s") && text.contains("0.76 s, a step of 1.23x"), "{text}");
    }

    #[test]
    fn equal_layers_would_wait_unequally_often() {
        let text = argued(5);
        assert!(text.contains("16.8 waits a layer") && text.contains("3.6 on Llama-3B"), "{text}");
    }

    #[test]
    fn the_solver_takes_the_smaller_saving_and_leaves_the_larger() {
        let text = argued(6);
        assert!(text.contains("at most 164 us") && text.contains("270 us"), "{text}");
    }
}
