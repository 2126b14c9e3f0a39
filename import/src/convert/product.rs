//! Matrix products of activations with weights, and of two activations.

use super::elementwise::broadcast;
use super::{Conversion, Converter, Value, unsound};
use crate::model::{SourceNode, as_extent, elements};
use crate::view::{View, wide_axes};
use coexec_sim::workload::{Conv2d, Function, Linear, MatMul, Operator, Shape, Source, Window};

impl Converter<'_> {
    pub(super) fn product(
        &mut self,
        node: &SourceNode,
        transpose: [bool; 2],
        flatten: bool,
    ) -> Conversion<View> {
        let weights = |operand, transpose| matrix(&self.constant(node, operand)?.extents, transpose);
        let (left, right) = (weights(0, !transpose[0]), weights(1, transpose[1]));
        if let Some([depth, output]) = right {
            let bias = self.constant(node, 2).is_some_and(|added| added.elements() <= u64::from(output));
            let mut input = self.view(node, 0)?;
            if transpose[0] {
                input = last_two_swapped(&input)?;
            }
            if flatten {
                let count = elements(&input.extents);
                if depth == 0 || !count.is_multiple_of(u64::from(depth)) {
                    return unsound(format!(
                        "{count} elements do not make rows for weights of depth {depth}"
                    ));
                }
                input = input.reshaped(vec![as_extent(count / u64::from(depth)), depth]);
            }
            let product = self.linear(&input, depth, output, bias)?;
            return if bias { Ok(product) } else { self.plus_addend(node, product) };
        }
        // Weights on the left: the transposed product has them on the right.
        if let Some([depth, output]) = left {
            let input = self.view(node, 1)?;
            let input = if transpose[1] { input } else { last_two_swapped(&input)? };
            let product = last_two_swapped(&self.linear(&input, depth, output, false)?)?;
            return self.plus_addend(node, product);
        }
        let product = self.product_of_views(node, transpose)?;
        self.plus_addend(node, product)
    }

    /// Adds operand 2 to a product where it is not a bias: a value per element, or after a product of activations.
    fn plus_addend(&mut self, node: &SourceNode, product: View) -> Conversion<View> {
        if node.operand(2).is_none() {
            return Ok(product);
        }
        self.with_operand(node, &product, [0, 2], Function::Add)
    }

    /// The last axis of `input` times weights.
    pub(super) fn linear(&mut self, input: &View, depth: u32, output: u32, bias: bool) -> Conversion<View> {
        let Some((&last, outer)) = input.extents.split_last() else {
            return unsound("a product of a scalar");
        };
        if last != depth || depth == 0 {
            return unsound(format!("rows of {last} elements on weights of depth {depth}"));
        }
        let rows = as_extent(elements(outer));
        let axis = input.extents.len() - 1;
        // Rows may be in any order, as long as each is contiguous.
        let order = match &input.order {
            Some(order) if depth == 1 || order.last() == Some(&axis) => order.clone(),
            _ => input.file_order(),
        };
        let extents = [outer, &[output]].concat();
        let mut written: Vec<usize> = order.iter().copied().filter(|&other| other != axis).collect();
        written.push(axis);
        let is_image = input.shape.height > 1 && self.is_batch(input) && input.shape.channels == depth;
        let source = if is_image && input.order.as_ref() == Some(&order) {
            // Frameworks run a 1x1 convolution where the pixels are not in one row.
            let conv = Conv2d::new(input.shape, output, Window::valid(1)).bias(bias);
            self.emit("", conv, &[input.source])?
        } else {
            let source = self.arranged(input, &order, Shape::tokens(rows, depth))?;
            let linear = Linear { rows, input_features: depth, output_features: output, bias };
            self.emit("", linear, &[source])?
        };
        Ok(self.view_as(source, extents, written))
    }

    /// Whether a view holds one image, or as many as an input of the model has; others are windows or heads.
    fn is_batch(&self, view: &View) -> bool {
        let inputs = self.model.inputs.iter().map(|&input| &self.model.tensors[input].extents);
        let mut counts = inputs.filter_map(|extents| extents.as_ref()?.first());
        view.shape.batch == 1 || counts.any(|&count| count == view.shape.batch)
    }

    fn product_of_views(&mut self, node: &SourceNode, transpose: [bool; 2]) -> Conversion<View> {
        let mut views = [self.view(node, 0)?, self.view(node, 1)?];
        let mut vectors = [false; 2];
        for (side, view) in views.iter_mut().enumerate() {
            if let [length] = view.extents[..] {
                // A row on the left, a column on the right.
                vectors[side] = true;
                *view = view.reshaped(if side == 0 { vec![1, length] } else { vec![length, 1] });
            } else if transpose[side] {
                *view = last_two_swapped(view)?;
            }
        }
        let product = self.multiplied(&views[0], &views[1])?;
        let mut extents = product.extents.clone();
        let rank = extents.len();
        if vectors[1] {
            extents.remove(rank - 1);
        }
        if vectors[0] {
            extents.remove(rank - 2);
        }
        Ok(product.reshaped(extents))
    }

    /// Matrix products of two computed tensors, whose outer axes broadcast.
    pub(super) fn multiplied(&mut self, left: &View, right: &View) -> Conversion<View> {
        let (left_outer, [m, k]) = split_matrix(left)?;
        let (right_outer, [depth, n]) = split_matrix(right)?;
        if k != depth {
            return unsound(format!("rows of {k} elements on columns of {depth}"));
        }
        let mut extents = broadcast(left_outer, right_outer)?;
        let (left_batch, right_batch) = (elements(left_outer), elements(right_outer));
        let all = elements(&extents);
        let (batch, rows) = if right_batch == 1 {
            // A single right operand: all products are one product with more rows.
            (1, left_batch.saturating_mul(u64::from(m)))
        } else if left_batch == all && right_batch == all {
            (all, u64::from(m))
        } else {
            let mut whole = |view: &View, matrix: [u32; 2]| {
                let wanted = [&extents[..], &matrix[..]].concat();
                self.repeated(&view.aligned(wanted.len()), &wanted)
            };
            let (left, right) = (whole(left, [m, k])?, whole(right, [k, n])?);
            return self.multiplied(&left, &right);
        };
        // The first of three axes is that of images. With more axes, the last outer one is that of heads; all
        // outer axes are merged into it, as TFLite's delegate does for several images.
        let is_of_images = matches!(extents[..], [_]);
        extents.extend([m, n]);
        let [all, m] = [batch, rows].map(as_extent);
        let [images, batch] = if is_of_images { [all, 1] } else { [1, all] };
        let product = Operator::from(MatMul { images, batch, m, k, n });
        let read = product.inputs();
        let first = self.arranged(left, &left.file_order(), read[0])?;
        let second = self.arranged(right, &right.file_order(), read[1])?;
        let source = self.emit("", product, &[first, second])?;
        let order = wide_axes(&extents);
        Ok(self.view_as(source, extents, order))
    }

    /// Whether `source` is the result of an operator with trained weights, or a copy of one.
    /// Frameworks then fold a constant factor into the weights. A product of activations has
    /// none: scaling the scores of attention takes a pass over them.
    pub(super) fn is_trained(&self, source: Source) -> bool {
        let mut source = source;
        loop {
            let Source::Node(id) = source else { return false };
            let node = &self.out.nodes[id.index()];
            if !node.operator.is_view() && !matches!(node.operator, Operator::Transpose(_)) {
                return node.operator.parameters() > 0;
            }
            source = node.inputs[0];
        }
    }

    /// Whether the operator that computes `source` can absorb a per-channel shift; if so,
    /// it gets a bias.
    pub(super) fn takes_bias(&mut self, source: Source) -> bool {
        let Source::Node(id) = source else { return false };
        let operator = &mut self.out.nodes[id.index()].operator;
        let Some(biased) = operator.with_bias() else { return matches!(operator, Operator::Norm(_)) };
        *operator = biased;
        true
    }

    /// Whether an operand has no other reader.
    pub(super) fn is_read_once(&self, node: &SourceNode, operand: usize) -> bool {
        node.operand(operand).is_some_and(|tensor| self.readers[tensor] == 1)
    }

    pub(super) fn value(&self, node: &SourceNode, operand: usize) -> Option<&Value> {
        self.read(node, operand).ok()
    }

    /// The source of an operand in the graph; `None` for constants and absent operands.
    pub(super) fn source(&self, node: &SourceNode, operand: usize) -> Option<Source> {
        self.value(node, operand)?.view().map(|view| view.source)
    }
}

/// Rows and columns of weights; `None` where they hold several matrices, or less than one.
fn matrix(extents: &[u32], transpose: bool) -> Option<[u32; 2]> {
    let (outer, [rows, columns]) = match extents {
        [outer @ .., rows, columns] => (outer, [*rows, *columns]),
        _ => return None,
    };
    (elements(outer) == 1).then_some(if transpose { [columns, rows] } else { [rows, columns] })
}

/// The outer extents, and rows and columns.
pub(super) fn split_matrix(view: &View) -> Conversion<(&[u32], [u32; 2])> {
    match &view.extents[..] {
        [outer @ .., rows, columns] => Ok((outer, [*rows, *columns])),
        _ => unsound("a product of something that is not a matrix"),
    }
}

pub(super) fn last_two_swapped(view: &View) -> Conversion<View> {
    let rank = view.extents.len();
    if rank < 2 {
        return unsound("a transpose of something that is not a matrix");
    }
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation.swap(rank - 1, rank - 2);
    Ok(view.transposed(&permutation))
}
