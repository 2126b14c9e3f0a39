//! Reductions, softmax and norms: operators along axes.

use super::{Conversion, Converter, axes, axis, unknown, unsound};
use crate::model::{Constant, Reduction, SourceNode, as_extent, elements};
use crate::view::{View, natural_shape};
use coexec_sim::workload::{
    Function, GenericKind, Mean, Norm, NormKind, Operator, Pool, PoolKind, Shape, Window,
};

impl Converter<'_> {
    /// A reduction over the axes in operand 1.
    pub(super) fn reduce(&mut self, node: &SourceNode, reduction: Reduction, keep: bool) -> Conversion<View> {
        if reduction == Reduction::Product {
            return unknown("a product over an axis");
        }
        let view = self.view(node, 0)?;
        let gone = reduced_axes(self.constant(node, 1), view.extents.len())?;
        self.reduced_over(&view, &gone, reduction, keep)
    }

    /// A reduction over the axes `gone`, mapped to one over all pixels per channel: reduced axes
    /// become pixels, inner kept axes channels, outer kept axes the batch. A reduction over the
    /// innermost axes becomes one over channels, without a copy.
    pub(super) fn reduced_over(
        &mut self,
        view: &View,
        gone: &[usize],
        reduction: Reduction,
        keep: bool,
    ) -> Conversion<View> {
        let (extents, kept) = (reduced(&view.extents, gone, true), reduced(&view.extents, gone, keep));
        if extents == view.extents {
            return Ok(view.reshaped(kept));
        }
        let order = self.order_of(view);
        let channels = order.iter().rev().take_while(|axis| gone.contains(axis)).count();
        if channels == order.len() && channels > 1 {
            // Reduced to a scalar: the memory order does not matter.
            let once = (GenericKind::Reduction, 1);
            let source = self.emit_generic("", once, &[view.source], Shape::tokens(1, 1))?;
            return Ok(self.view_as(source, extents, Vec::new()).reshaped(kept));
        }
        let is_over_channels = !order[..order.len() - channels].iter().any(|axis| gone.contains(axis));
        if channels > 0 && (channels < order.len() || channels == 1) && is_over_channels {
            return Ok(self.reduced_channels(view, order, channels)?.reshaped(kept));
        }
        let inside = order.iter().rposition(|axis| gone.contains(axis)).map_or(0, |last| last + 1);
        let (outer, inner) = order.split_at(inside);
        let (gone, left): (Vec<usize>, Vec<usize>) =
            outer.iter().copied().partition(|axis| gone.contains(axis));
        // No inner axes are kept: all kept axes become the channels, which takes one copy.
        let (outer, channels) = if inner.is_empty() { (Vec::new(), left) } else { (left, inner.to_vec()) };
        let wanted: Vec<usize> = [&outer[..], &gone[..], &channels[..]].concat();
        let count = |axes: &[usize]| {
            as_extent(axes.iter().map(|&axis| u64::from(view.extents[axis])).product::<u64>())
        };
        let mut shape =
            Shape { batch: count(&outer), height: 1, width: count(&gone), channels: count(&channels) };
        let own = view.shape;
        if view.order.as_ref() == Some(&wanted) && (own.batch, own.channels) == (shape.batch, shape.channels)
        {
            shape = own;
        }
        let source = self.arranged(view, &wanted, shape)?;
        let source = self.emit("", over_pixels(reduction, shape), &[source])?;
        let order = [&outer[..], &channels[..]].concat();
        Ok(self.view_as(source, extents, order).reshaped(kept))
    }

    /// A reduction over the last `channels` axes of `order`, the innermost in memory.
    fn reduced_channels(&mut self, view: &View, mut order: Vec<usize>, channels: usize) -> Conversion<View> {
        let outer = order.len() - channels;
        let mut memory: Vec<u32> = order.iter().map(|&axis| view.extents[axis]).collect();
        let inner = as_extent(elements(&memory.split_off(outer)));
        memory.push(inner);
        let own = view.shape;
        let shape = if view.order.as_ref() == Some(&order) && own.channels == inner {
            Some(own)
        } else {
            natural_shape(&memory)
        };
        let Some(shape) = shape else { return unsound("a tensor is too large") };
        let source = self.arranged(view, &order, shape)?;
        let source = self.emit_generic("", (GenericKind::Reduction, 1), &[source], shape.with_channels(1))?;
        let gone = order.split_off(outer);
        Ok(self.view_as(source, reduced(&view.extents, &gone, true), order))
    }

    /// `view` with all axes from `from` on merged into its channels.
    fn channels_from(&mut self, view: &View, from: usize) -> Conversion<View> {
        let inner: Vec<usize> = view.file_order().into_iter().filter(|&axis| axis >= from).collect();
        let mut order = self.order_of(view);
        order.retain(|axis| !inner.contains(axis));
        order.extend(&inner);
        let count = |axes: &[usize]| axes.iter().map(|&axis| u64::from(view.extents[axis])).product::<u64>();
        let channels = count(&inner);
        if view.order.as_ref() == Some(&order) && u64::from(view.shape.channels) == channels {
            return Ok(view.clone());
        }
        if inner.len() == 1 {
            return self.in_natural_shape(view, order);
        }
        let shape = Shape::tokens(as_extent(count(&order) / channels), as_extent(channels));
        let source = self.arranged(view, &order, shape)?;
        Ok(View { source, shape, order: Some(order), ..view.clone() })
    }

    /// An operator over channels, along any axis.
    pub(super) fn along_axis(
        &mut self,
        node: &SourceNode,
        operator: &Operator,
        along: i64,
        to_the_end: bool,
    ) -> Conversion<View> {
        let view = self.view(node, 0)?;
        let along = axis(along, view.extents.len().max(1))?;
        let view = if to_the_end || along + 1 == view.extents.len() || view.extents.is_empty() {
            self.channels_from(&view, along)?
        } else {
            // An axis in the middle is moved innermost for this operator.
            let mut permutation: Vec<usize> = (0..view.extents.len()).filter(|&axis| axis != along).collect();
            permutation.push(along);
            let last = view.extents.len() - 1;
            let moved = self.channels_from(&view.transposed(&permutation), last)?;
            let mut back: Vec<usize> = (0..last).collect();
            back.insert(along, last);
            moved.transposed(&back)
        };
        let source = self.emit("", operator.reading(&[view.shape]), &[view.source])?;
        Ok(View { source, ..view })
    }

    pub(super) fn skip_norm(&mut self, node: &SourceNode, kind: NormKind) -> Conversion<View> {
        let (left, right) = (self.view(node, 0)?, self.view(node, 1)?);
        let sum = self.two(&left, &right, Function::Add)?;
        let view = self.normalised(&sum, kind)?;
        self.write(node, 3, sum);
        Ok(view)
    }

    /// A norm along the last axis.
    pub(super) fn normalised(&mut self, view: &View, kind: NormKind) -> Conversion<View> {
        let last = axis(-1, view.extents.len())?;
        let view = self.channels_from(view, last)?;
        let source = self.emit("", Norm { kind, input: view.shape }, &[view.source])?;
        Ok(View { source, ..view })
    }

    /// Group norm; instance norm without `groups`. Frameworks compute it in the layout that the image has; its
    /// cost is that of a layer norm of as many elements.
    pub(super) fn group_norm(&mut self, node: &SourceNode, groups: Option<u32>) -> Conversion<View> {
        let view = self.view(node, 0)?;
        let [_, channels, ..] = view.extents[..] else {
            return unsound("a norm over something that is not an image");
        };
        let groups = groups.unwrap_or(channels);
        if groups == 0 || channels % groups != 0 {
            return unsound(format!("{channels} channels in {groups} groups"));
        }
        self.approximate("a layer norm of as many elements");
        let arranged = self.with_inner_channels(&view)?;
        let norm = Norm { kind: NormKind::Layer, input: arranged.shape };
        let source = self.emit("", norm, &[arranged.source])?;
        Ok(View { source, ..arranged })
    }

    /// Batch norm: folded into the operator before it if that has weights and no other reader. A
    /// reshape in between prevents this, as compilers look no further than the previous operator.
    pub(super) fn batch_norm(&mut self, node: &SourceNode) -> Conversion<View> {
        let view = self.view(node, 0)?;
        let is_behind_reshape = node.operand(0).is_some_and(|tensor| self.reshaped.contains(&tensor));
        if !is_behind_reshape && self.is_read_once(node, 0) && self.takes_bias(view.source) {
            return Ok(view);
        }
        let arranged = self.with_inner_channels(&view)?;
        if arranged.extents.is_empty() {
            return unsound("a norm of a scalar");
        }
        let operator = Norm { kind: NormKind::Batch, input: arranged.shape };
        let source = self.emit("", operator, &[arranged.source])?;
        Ok(View { source, ..arranged })
    }
}

/// The reduced axes: those in the operand, or all.
pub(crate) fn reduced_axes(operand: Option<&Constant>, rank: usize) -> Conversion<Vec<usize>> {
    let stated = axes(operand, rank)?.filter(|axes| !axes.is_empty());
    Ok(stated.unwrap_or_else(|| (0..rank).collect()))
}

/// Extents after a reduction over the axes `gone`, which `keep` keeps with extent 1.
pub(crate) fn reduced(extents: &[u32], gone: &[usize], keep: bool) -> Vec<u32> {
    let left = (0..extents.len()).filter(|axis| keep || !gone.contains(axis));
    left.map(|axis| if gone.contains(&axis) { 1 } else { extents[axis] }).collect()
}

/// A reduction of the pixels of each image.
pub(super) fn over_pixels(reduction: Reduction, input: Shape) -> Operator {
    match reduction {
        Reduction::Mean | Reduction::Sum | Reduction::Product => Mean { input }.into(),
        // A minimum costs what a maximum does.
        Reduction::Max | Reduction::Min => {
            let window = Window::of([input.height, input.width]);
            Pool { kind: PoolKind::Max, input, window }.into()
        }
    }
}
