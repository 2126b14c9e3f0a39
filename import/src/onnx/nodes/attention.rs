//! Attention in ONNX's own operator, and in those that ONNX Runtime contributes.

use super::Attributes;
use crate::model::{Attention, Packing, TensorId, Work};

/// Heads as an axis need no number; `Apart` fits any.
const PLAIN: Attention = Attention {
    heads: 0,
    shared_heads: 0,
    packing: Packing::Apart,
    widths: None,
    rotates: false,
    is_capped: false,
    functions: 0,
};

fn is_absent(reads: &[Option<TensorId>], operand: usize) -> bool {
    reads.get(operand).copied().flatten().is_none()
}

/// `MultiHeadAttention` as its operands are.
pub(super) fn multi_head(reads: &[Option<TensorId>]) -> &'static str {
    if is_absent(reads, 1) { "MultiHeadTogether" } else { "MultiHead" }
}

/// `GroupQueryAttention` as its operands are.
pub(super) fn group_query(reads: &[Option<TensorId>]) -> &'static str {
    if is_absent(reads, 1) { "GroupQueryTogether" } else { "GroupQuery" }
}

/// What a kind of attention does; none of other kinds.
pub(super) fn work(kind: &str, attributes: &Attributes<'_>) -> Option<Work> {
    let count = |name: &str| attributes.count(name, 0);
    let has = |name: &str| attributes.find(name).is_some();
    let is_capped = attributes.find("softcap").is_some_and(|cap| cap.f != 0.0);
    let own =
        Attention { heads: count("q_num_heads"), shared_heads: count("kv_num_heads"), is_capped, ..PLAIN };
    let equal =
        |packing| Attention { heads: count("num_heads"), shared_heads: count("num_heads"), packing, ..PLAIN };
    let rotates = attributes.flag("do_rotary");
    let grouped =
        |packing| Attention { shared_heads: count("kv_num_heads"), rotates, is_capped, ..equal(packing) };
    Some(Work::Attention(match kind {
        "Attention" => own,
        // Each graph of an attribute changes scores or their softmax, element by element.
        "FlexAttention" => {
            Attention { functions: u32::from(has("score_mod")) + u32::from(has("prob_mod")), ..PLAIN }
        }
        "PackedAttention" => {
            let widths = attributes.counts("qkv_hidden_sizes").try_into().ok();
            Attention { widths, rotates, ..equal(Packing::Projected) }
        }
        "MultiHead" => equal(Packing::Apart),
        "MultiHeadTogether" => equal(Packing::Together),
        "GroupQuery" => grouped(Packing::Apart),
        "GroupQueryTogether" => grouped(Packing::Together),
        "LinearAttention" => {
            // What those rules add is another product with the state.
            let is_delta = matches!(attributes.text("update_rule"), "" | "delta" | "gated_delta");
            return Some(Work::LinearAttention(Attention { functions: u32::from(is_delta), ..own }));
        }
        _ => return None,
    }))
}
