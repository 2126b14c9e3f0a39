//! Attention: ONNX's own operator, and those of ONNX Runtime.

use super::Attributes;
use crate::model::{Attention, Packing, Work};

/// Semantics of attention operators; `None` for other operators.
pub(super) fn work(kind: &str, attributes: &Attributes<'_>) -> Option<Work> {
    let count = |name: &str| attributes.count(name, 0);
    let has = |name: &str| attributes.find(name).is_some();
    let is_capped = attributes.find("softcap").is_some_and(|cap| cap.f != 0.0);
    let rotates = attributes.flag("do_rotary");
    let plain = Attention::default();
    let (heads, shared_heads) = (count("num_heads"), count("kv_num_heads"));
    let own = Attention { heads: count("q_num_heads"), shared_heads, is_capped, ..plain };
    let equal = Attention { heads, shared_heads: heads, packing: Packing::ApartOrTogether, ..plain };
    Some(Work::Attention(match kind {
        "Attention" => own,
        // Each graph attribute modifies the scores or their softmax element by element.
        "FlexAttention" => {
            Attention { functions: u32::from(has("score_mod")) + u32::from(has("prob_mod")), ..plain }
        }
        "PackedAttention" => {
            let widths = attributes.counts("qkv_hidden_sizes").try_into().ok();
            Attention { widths, rotates, packing: Packing::Projected, ..equal }
        }
        "MultiHeadAttention" => equal,
        "GroupQueryAttention" => Attention { shared_heads, rotates, is_capped, ..equal },
        "LinearAttention" => {
            // Delta rules add another product with the state.
            let is_delta = matches!(attributes.text("update_rule"), "" | "delta" | "gated_delta");
            return Some(Work::LinearAttention(Attention { functions: u32::from(is_delta), ..own }));
        }
        _ => return None,
    }))
}
