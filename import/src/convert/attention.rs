//! Attention as matrix products, softmax and the functions that exporters fuse with them.
//!
//! Heads are outside tokens in memory. Query heads that share a key and value head are rows of one
//! product. Causal masks and the lengths of padded sequences are part of the softmax, at no extra
//! cost.

use super::product::last_two_swapped;
use super::{Conversion, Converter, axis, unknown, unsound};
use crate::model::{SourceNode, as_extent, elements};
use crate::view::View;
use crate::work::{Attention, Packing};
use coexec_sim::workload::{Function, GenericKind, Softmax, Source};

/// Passes of a rotary embedding: products with cosines and sines, and their sum.
const ROTARY_PASSES: u32 = 3;

impl Converter<'_> {
    /// Operands: query, key, value, past key, past value, additive mask. Results: output, all keys,
    /// all values, scores.
    pub(super) fn attention(&mut self, node: &SourceNode, attention: &Attention) -> Conversion<()> {
        let (is_flat, [mut query, mut key, value]) = self.heads(node, attention)?;
        if attention.rotates {
            query = self.passed(".rotary", &query, &[], ROTARY_PASSES)?;
            key = self.passed(".rotary", &key, &[], ROTARY_PASSES)?;
        }
        let key = self.appended_to_past(node, 3, key)?;
        let value = self.appended_to_past(node, 4, value)?;
        self.write(node, 1, key.clone());
        self.write(node, 2, value.clone());
        let (grouped, [batch, heads, tokens]) = grouped(&query, &key)?;
        let (shared, rows, all) = (key.extents[1], grouped.extents[2], key.extents[2]);
        let mut scores = self.multiplied(&grouped, &last_two_swapped(&key)?)?;
        scores = scores.reshaped(vec![batch, heads, tokens, all]);
        if attention.is_capped {
            scores = self.applied(&scores, Function::Tanh)?;
        }
        let mut functions = attention.functions;
        if node.operand(5).is_some() {
            let mask = self.view(node, 5)?;
            scores = self.passed(".mask", &scores, &[mask], 1)?;
            functions = functions.saturating_sub(1);
        }
        if functions > 0 {
            scores = self.passed(".functions", &scores, &[], functions)?;
        }
        self.write(node, 3, scores.clone());
        let arranged = self.with_inner_channels(&scores.reshaped(vec![batch, shared, rows, all]))?;
        let source = self.emit(".softmax", Softmax { input: arranged.shape }, &[arranged.source])?;
        let mixed = self.multiplied(&View { source, ..arranged }, &value)?;
        let width = mixed.extents.last().copied().unwrap_or(1);
        let mixed = mixed.reshaped(vec![batch, heads, tokens, width]);
        self.write(node, 0, if is_flat { side_by_side(&mixed) } else { mixed });
        Ok(())
    }

    /// Linear attention, with the products with the state (keys times values) for all steps at once.
    pub(super) fn linear_attention(&mut self, node: &SourceNode, attention: &Attention) -> Conversion<()> {
        let (_, [query, key, value]) = self.heads(node, attention)?;
        self.approximate("products of all steps at once");
        let (grouped, [batch, heads, tokens]) = grouped(&query, &key)?;
        let mut state = self.multiplied(&last_two_swapped(&key)?, &value)?;
        if attention.functions > 0 {
            // Delta rule: what the state already predicts for a key is subtracted from the value.
            let held = self.multiplied(&key, &state)?;
            state = self.multiplied(&last_two_swapped(&key)?, &held)?;
        }
        let mixed = self.multiplied(&grouped, &state)?;
        let width = state.extents.last().copied().unwrap_or(1);
        self.write(node, 0, side_by_side(&mixed.reshaped(vec![batch, heads, tokens, width])));
        self.write(node, 1, state);
        Ok(())
    }

    /// The heads of query, key and value, and whether the file packs heads into the features.
    fn heads(&mut self, node: &SourceNode, attention: &Attention) -> Conversion<(bool, [View; 3])> {
        let [query, key, value] = self.projections(node, attention)?;
        let (own, shared) = (attention.heads, attention.shared_heads);
        let heads = [heads_of(&query, own)?, heads_of(&key, shared)?, heads_of(&value, shared)?];
        Ok((query.extents.len() == 3, heads))
    }

    /// Query, key and value, unpacked from separate tensors, from one tensor, or projected by weights.
    fn projections(&mut self, node: &SourceNode, attention: &Attention) -> Conversion<[View; 3]> {
        let query = self.view(node, 0)?;
        let is_alone = node.operand(1).is_none();
        match (attention.packing, &query.extents[..]) {
            (Packing::Projected, _) => {
                let weights = self.weight_extents(node, 6)?;
                let &[depth, outputs] = &weights[..] else { return unsound("weights that are not a matrix") };
                let all = self.linear(&query, depth, outputs, true)?;
                self.split_heads(&all, attention)
            }
            (Packing::ApartOrTogether, [_, _, _]) if is_alone => self.split_heads(&query, attention),
            (Packing::ApartOrTogether, _) if is_alone => {
                let mut part = |place| self.packed_part(&query, place, 3);
                Ok([part(0)?, part(1)?, part(2)?])
            }
            (Packing::ApartOrTogether, _) if node.operand(2).is_none() => {
                let both = self.view(node, 1)?;
                Ok([query, self.packed_part(&both, 0, 2)?, self.packed_part(&both, 1, 2)?])
            }
            (Packing::Apart | Packing::ApartOrTogether, _) => {
                Ok([query, self.view(node, 1)?, self.view(node, 2)?])
            }
        }
    }

    /// One of `count` tensors that are packed as batch, tokens, heads, tensors, features.
    fn packed_part(&mut self, packed: &View, place: u32, count: u32) -> Conversion<View> {
        let &[batch, tokens, heads, tensors, depth] = &packed.extents[..] else {
            return unknown("a query, a key and a value packed in another way");
        };
        if tensors != count {
            return unsound(format!("{tensors} packed tensors, expected {count}"));
        }
        let features = as_extent(u64::from(heads) * u64::from(depth));
        Ok(self.part(packed, 3, place, 1)?.reshaped(vec![batch, tokens, features]))
    }

    /// Splits the features of one tensor into queries, keys and values.
    fn split_heads(&mut self, all: &View, attention: &Attention) -> Conversion<[View; 3]> {
        let place = axis(-1, all.extents.len())?;
        let (heads, shared) = (attention.heads, attention.shared_heads);
        let total = u64::from(heads) + 2 * u64::from(shared);
        let features = u64::from(all.extents[place]);
        let [query, key, value] = match attention.widths {
            Some(widths) if widths.iter().map(|&width| u64::from(width)).sum::<u64>() == features => widths,
            None if total > 0 && features.is_multiple_of(total) => {
                let of = |heads: u32| as_extent(u64::from(heads) * (features / total));
                [of(heads), of(shared), of(shared)]
            }
            Some(_) | None => return unsound(format!("{features} features of {total} heads")),
        };
        let arranged = self.with_inner_channels(all)?;
        Ok([
            self.part(&arranged, place, 0, query)?,
            self.part(&arranged, place, query, key)?,
            self.part(&arranged, place, query + key, value)?,
        ])
    }

    /// Keys or values appended to the past ones in `operand`, if there are any.
    fn appended_to_past(&mut self, node: &SourceNode, operand: usize, view: View) -> Conversion<View> {
        if node.operand(operand).is_none() {
            return Ok(view);
        }
        let past = match self.read(node, operand)? {
            super::Value::Constant(constant) if constant.elements() == 0 => return Ok(view),
            _ => self.view(node, operand)?,
        };
        let past = match past.extents[..] {
            // Past keys and values are in one tensor.
            [2, ref inner @ ..] if inner.len() == 4 => {
                let inner = inner.to_vec();
                self.part(&past, 0, operand as u32 - 3, 1)?.reshaped(inner)
            }
            _ => past,
        };
        self.joined_along(&[past, view], 2)
    }

    /// `view` after `passes` element-wise passes, which also read `others`.
    fn passed(&mut self, suffix: &str, view: &View, others: &[View], passes: u32) -> Conversion<View> {
        let sources: Vec<Source> = std::iter::once(view).chain(others).map(|view| view.source).collect();
        let source = self.emit_generic(suffix, (GenericKind::Elementwise, passes), &sources, view.shape)?;
        Ok(View { source, ..view.clone() })
    }

    /// Norm of the sum of word, position and segment embeddings.
    pub(super) fn embedding_norm(&mut self, node: &SourceNode) -> Conversion<View> {
        let mut sum = self.lookup(node, 2, 0)?;
        let [.., tokens, features] = sum.extents[..] else { return unsound("a table that is a scalar") };
        let places = self.view(node, 3)?;
        if elements(&places.extents) < u64::from(tokens) * u64::from(features) {
            return unsound(format!("{tokens} tokens, but a table of fewer positions"));
        }
        let tensor = node.operand(3).unwrap_or_default();
        let places = self.constant_view(tensor, vec![1, tokens, features])?;
        sum = self.two(&sum, &places, Function::Add)?;
        if node.operand(4).is_some() {
            let segments = self.lookup(node, 4, 1)?;
            sum = self.two(&sum, &segments, Function::Add)?;
        }
        self.normalised(&sum, coexec_sim::workload::NormKind::Layer)
    }
}

/// The query with one matrix per head of `key`, whose rows are all tokens of the query heads that share it; and the
/// query's batch, heads and tokens.
fn grouped(query: &View, key: &View) -> Conversion<(View, [u32; 3])> {
    let (&[batch, heads, tokens, depth], &[_, shared, ..]) = (&query.extents[..], &key.extents[..]) else {
        return unsound("a query or a key without heads");
    };
    if shared == 0 || heads % shared != 0 {
        return unsound(format!("{heads} heads of queries on {shared} of keys"));
    }
    let rows = as_extent(u64::from(heads / shared) * u64::from(tokens));
    Ok((query.reshaped(vec![batch, shared, rows, depth]), [batch, heads, tokens]))
}

/// Concatenates the heads of each token as features.
fn side_by_side(heads: &View) -> View {
    let tokens = heads.transposed(&[0, 2, 1, 3]);
    let features = as_extent(elements(&tokens.extents[2..]));
    tokens.reshaped(vec![tokens.extents[0], tokens.extents[1], features])
}

/// A tensor as batch, heads, tokens, features; its heads are packed into the features or are an
/// axis.
fn heads_of(view: &View, heads: u32) -> Conversion<View> {
    match view.extents[..] {
        [_, _, _, _] => Ok(view.clone()),
        [batch, tokens, features] if heads > 0 && features % heads == 0 => {
            let split = view.reshaped(vec![batch, tokens, heads, features / heads]);
            Ok(split.transposed(&[0, 2, 1, 3]))
        }
        _ => unsound(format!("a tensor of {} axes for {heads} heads", view.extents.len())),
    }
}
