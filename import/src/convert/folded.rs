//! Constant folding: nodes that are evaluated during conversion.
//!
//! Responsible for: which nodes are folded: those with only constant operands, those that read extents, and those with
//! empty results. Not for: the folded values (`fold.rs`).

use super::{Conversion, Converter, MISSING, Problem, Value, unknown, unsound};
use crate::model::{Constant, Extents, SourceNode, TensorId, Work, elements};

impl Converter<'_> {
    /// Folds the node if possible; returns whether it did.
    pub(super) fn folded(&mut self, node: &SourceNode) -> Conversion<bool> {
        if matches!(node.work, Work::Shape { .. } | Work::Size) {
            let extents = self.extents_read(node, 0)?;
            let constant = if let Work::Shape { from, to } = node.work {
                let rank = extents.len() as i64;
                let at = |axis: i64| {
                    if axis < 0 { axis.saturating_add(rank) } else { axis }.clamp(0, rank) as usize
                };
                let (from, to) = (at(from), at(to));
                Constant::list(extents[from..to.max(from)].iter().map(|&extent| i64::from(extent)))
            } else {
                Constant::number(elements(&extents) as f64)
            };
            self.set(node, 0, Value::Constant(constant));
            return Ok(true);
        }
        if let Work::Reshape(_)
        | Work::Transpose
        | Work::Identity
        | Work::Slice(_)
        | Work::Split { .. }
        | Work::Concat { .. }
        | Work::Choice
        | Work::List(_) = node.work
        {
            // Their conversion handles constants and computed tensors alike.
            return Ok(false);
        }
        for &read in node.reads.iter().flatten() {
            match &self.values[read] {
                Some(Value::Constant(_)) => {}
                Some(Value::View(_)) => return Ok(self.is_determined(node) || self.has_empty_result(node)),
                None if self.lists.contains_key(&read) => return unknown("it reads a sequence of tensors"),
                None => return unsound(MISSING),
            }
        }
        // Compilers fold it whatever its values; where they are unknown here, its extents suffice.
        let constant = match self.result(node, 0) {
            Err(Problem::Unknown(_)) => return self.folded_as_computed(node).map(|()| true),
            known => known?,
        };
        Self::check_size(&constant.extents)?;
        for index in 1..node.writes.len() {
            let is_scale = matches!(node.work, Work::Generic { extents: Extents::Quantised, .. });
            let result = if is_scale { Ok(Constant::default()) } else { self.result(node, index) };
            let extents = result.unwrap_or_else(|_| constant.clone()).extents;
            self.set(node, index, Value::Constant(Constant::of_extents(extents)));
        }
        self.set(node, 0, Value::Constant(constant));
        Ok(true)
    }

    /// Folds a logical connective whose constant operand alone determines the result.
    fn is_determined(&mut self, node: &SourceNode) -> bool {
        let is_condition = matches!(node.work, Work::Arithmetic(_));
        let known = is_condition.then(|| self.by_node_rule(node)).and_then(Result::ok).flatten();
        let known = known.filter(|known| known.elements() == 1 && known.numbers.is_some());
        known.map(|known| self.set(node, 0, Value::Constant(known))).is_some()
    }

    /// Folds a node with an empty result, due to an empty operand (as for the masks of a detector without masks).
    fn has_empty_result(&mut self, node: &SourceNode) -> bool {
        let is_empty = |tensor: &TensorId| matches!(&self.values[*tensor], Some(Value::Constant(constant)) if constant.elements() == 0);
        if !node.reads.iter().flatten().any(is_empty) {
            return false;
        }
        let nothing = self.result(node, 0).ok().filter(|result| result.elements() == 0);
        nothing.map(|nothing| self.set(node, 0, Value::Constant(nothing))).is_some()
    }

    /// Folds a node of constants without a shape inference rule: converts it, then turns its results
    /// into constants, which leaves its operators without readers.
    fn folded_as_computed(&mut self, node: &SourceNode) -> Conversion<()> {
        self.computed(node)?;
        for &tensor in node.writes.iter().flatten() {
            if let Some(Value::View(view)) = &self.values[tensor] {
                let extents = view.padded_extents(self.spatial_axes());
                self.values[tensor] = Some(Value::Constant(Constant::of_extents(extents)));
            }
        }
        Ok(())
    }
}
