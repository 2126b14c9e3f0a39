//! Generic operators.
//!
//! Responsible for: generic operators, priced by their traffic, for nodes without an operator of their own.
//! Not for: the extents of their results, which `extents.rs` infers.

use super::{Conversion, Converter, Value, unknown};
use crate::model::{Constant, Extents, SourceNode, TensorId, Work};
use crate::view::{View, wide, wide_axes};
use coexec_sim::workload::{GenericKind, Padding, Source};

/// Maximum number of elements of a constant that a kernel gets as an argument; a larger one is read as a tensor.
const MAX_ARGUMENT: u64 = 16;

impl Converter<'_> {
    /// Converts a node to generic operators, one per used result.
    pub(super) fn generic(&mut self, node: &SourceNode) -> Conversion<()> {
        for index in 0..node.writes.len() {
            if index == 0 || self.is_wanted(node, index) {
                let first = node.result(0).and_then(|tensor| self.values[tensor].clone());
                let value = match first {
                    Some(Value::View(first)) if index > 0 => self.further_result(node, index, &first)?,
                    _ => self.generic_value(node, index)?,
                };
                self.set(node, index, value);
            }
        }
        Ok(())
    }

    /// Whether a result has a reader.
    pub(super) fn is_wanted(&self, node: &SourceNode, index: usize) -> bool {
        node.result(index).is_some_and(|tensor| self.readers[tensor] > 0)
    }

    /// Writes the used results after the first with the extents of the first (the indices of a max pool).
    pub(super) fn write_like_first(&mut self, node: &SourceNode, first: &View) -> Conversion<()> {
        for index in 1..node.writes.len() {
            if self.is_wanted(node, index) {
                let source =
                    self.emit_generic("", (GenericKind::Movement, 1), &[first.source], first.shape)?;
                self.set(node, index, View { source, ..first.clone() }.into());
            }
        }
        Ok(())
    }

    /// A result after the first: a copy from the operator of the first.
    fn further_result(&mut self, node: &SourceNode, index: usize, first: &View) -> Conversion<Value> {
        if matches!(node.work, Work::Generic { extents: Extents::Quantised, .. }) {
            return Ok(Value::Constant(Constant::default()));
        }
        let extents = self.result(node, index)?.extents;
        Self::check_extents(&extents)?;
        let view = self.like(first, extents);
        let source = self.emit_generic("", (GenericKind::Movement, 1), &[first.source], view.shape)?;
        Ok(Value::View(View { source, ..view }))
    }

    /// The first result of a node with computed operands.
    pub(super) fn generic_view(&mut self, node: &SourceNode) -> Conversion<View> {
        match self.generic_value(node, 0)? {
            Value::View(view) => Ok(view),
            Value::Constant(_) => unknown("it computes with constants alone"),
        }
    }

    fn generic_value(&mut self, node: &SourceNode, index: usize) -> Conversion<Value> {
        // Quantisation is part of the product that follows, whose format the workload has.
        if let Work::Generic { extents: Extents::Quantised, .. } = node.work {
            return self.view(node, 0).map(Value::View);
        }
        let Some(mut work) = node.work.generic() else { return unknown("it has no generic operator") };
        let extents = self.result(node, index)?.extents;
        if extents.contains(&0) {
            return Ok(Value::Constant(Constant::of_extents(extents)));
        }
        let views = self.operands(node)?;
        let Some(first) = views.first() else {
            Self::check_size(&extents)?;
            return Ok(Value::Constant(Constant::of_extents(extents)));
        };
        Self::check_extents(&extents)?;
        if let Work::Generic { kind: GenericKind::Transform, extents: rule, .. } = &node.work {
            work.1 = rule.transform_passes(&extents);
        }
        let view = self.like(first, extents);
        let sources: Vec<Source> = views.iter().map(|view| view.source).collect();
        let source = self.emit_generic("", work, &sources, view.shape)?;
        Ok(Value::View(View { source, ..view }))
    }

    /// The source of an output of the model; a copy for an output that is an input, or a constant while the
    /// graph has no nodes. `None` for other constants.
    pub(super) fn output(&mut self, tensor: TensorId) -> Conversion<Option<Source>> {
        let view = match self.values[tensor].clone() {
            Some(Value::View(view)) => self.with_zeros(view)?,
            Some(Value::Constant(constant)) if self.out.nodes.is_empty() && constant.elements() > 0 => {
                self.constant_view(tensor, constant.extents)?
            }
            Some(Value::Constant(_)) | None => return Ok(None),
        };
        if matches!(view.source, Source::Node(_)) {
            return Ok(Some(view.source));
        }
        self.emit_generic("", (GenericKind::Movement, 1), &[view.source], view.shape).map(Some)
    }

    /// The operands that a node reads as tensors: computed ones, and constants too large for an
    /// argument. Empty if none is computed.
    fn operands(&mut self, node: &SourceNode) -> Conversion<Vec<View>> {
        if !(0..node.reads.len()).any(|operand| self.source(node, operand).is_some()) {
            return Ok(Vec::new());
        }
        let mut views = Vec::new();
        for operand in 0..node.reads.len() {
            let is_argument = |constant: &Constant| constant.elements() <= MAX_ARGUMENT;
            if node.reads[operand].is_some() && !self.constant(node, operand).is_some_and(is_argument) {
                views.push(self.view(node, operand)?);
            }
        }
        Ok(views)
    }

    /// A view of `extents` with a memory order like that of `other`, whose source the caller must replace.
    pub(super) fn like(&self, other: &View, extents: Vec<u32>) -> View {
        let is_image = extents.len() == 4
            && other.extents.len() == 4
            && other.order.as_ref().is_none_or(|order| !order.is_sorted());
        let order = if is_image { wide(&extents, self.image_order(4)) } else { wide_axes(&extents) };
        let view = View { extents, order: None, padding: Padding::NONE, ..other.clone() };
        let shape = self.natural(&view, &order).unwrap_or(view.shape);
        View { shape, order: Some(order), ..view }
    }
}
