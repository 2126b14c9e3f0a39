//! Unary and binary element-wise functions.
//!
//! A difference, maximum or minimum of two tensors costs the same as a sum and becomes one;
//! likewise a quotient by a constant becomes a product, and any clip `relu6`. A per-channel scale
//! or shift after trained weights is folded into them.

use super::{Conversion, Converter, unsound};
use crate::model::{Arithmetic, Elemental, SourceNode, elements};
use crate::view::{View, along, matching, wide, wide_axes};
use coexec_sim::workload::{Elementwise, Function, GenericKind, Shape, Source};

impl Converter<'_> {
    pub(super) fn function(&mut self, node: &SourceNode, elemental: Elemental) -> Conversion<View> {
        let view = self.view(node, 0)?;
        let function = match elemental {
            Elemental::Known(function) => return self.applied(&view, function),
            Elemental::Clip => return self.applied(&view, Function::Relu6),
            Elemental::Cheap | Elemental::Not | Elemental::Negate | Elemental::Floor | Elemental::Ceil => {
                Function::Relu
            }
            Elemental::Truncate => return Ok(view),
            Elemental::Square => return self.square(&view),
            Elemental::Erf
            | Elemental::Sqrt
            | Elemental::ReciprocalSqrt
            | Elemental::Reciprocal
            | Elemental::Transcendental => Function::Sigmoid,
        };
        self.approximate(format!("{function}, a function of about as many instructions"));
        self.applied(&view, function)
    }

    /// Applies a unary function, in whatever memory order the elements have.
    pub(super) fn applied(&mut self, view: &View, function: Function) -> Conversion<View> {
        let operator = Elementwise { function, input: view.shape, other: None };
        let source = self.emit("", operator, &[view.source])?;
        Ok(View { source, ..view.clone() })
    }

    fn square(&mut self, view: &View) -> Conversion<View> {
        self.joined(view, view.source, view.shape, Function::Multiply)
    }

    pub(super) fn arithmetic(&mut self, node: &SourceNode, arithmetic: Arithmetic) -> Conversion<View> {
        let function = match arithmetic {
            Arithmetic::Add
            | Arithmetic::Subtract
            | Arithmetic::Mean
            | Arithmetic::Maximum
            | Arithmetic::Minimum => Function::Add,
            Arithmetic::Divide | Arithmetic::DivideFloats | Arithmetic::FloorDivide
                if self.source(node, 0).and(self.source(node, 1)).is_some() =>
            {
                Function::Divide
            }
            Arithmetic::Multiply
            | Arithmetic::Divide
            | Arithmetic::DivideFloats
            | Arithmetic::FloorDivide
            | Arithmetic::SquaredDifference => Function::Multiply,
            Arithmetic::Prelu => Function::Prelu,
            Arithmetic::Power => return self.power(node),
            Arithmetic::Modulo | Arithmetic::Comparison(_) => return self.generic_view(node),
        };
        if node.reads.len() < 2 {
            return self.view(node, 0);
        }
        let mut view = self.pair(node, function)?;
        for operand in 2..node.reads.len() {
            let other = self.view(node, operand)?;
            view = self.two(&view, &other, function)?;
        }
        Ok(view)
    }

    fn power(&mut self, node: &SourceNode) -> Conversion<View> {
        let view = self.view(node, 0)?;
        match self.number(node, 1) {
            Some(exponent) if (exponent - 2.0).abs() < 1e-6 => self.square(&view),
            _ => self.function(node, Elemental::Transcendental),
        }
    }

    /// The first two operands, one of which may be constant.
    fn pair(&mut self, node: &SourceNode, function: Function) -> Conversion<View> {
        let (first, second) = if self.source(node, 0).is_some() { (0, 1) } else { (1, 0) };
        let view = self.view(node, first)?;
        self.with_operand(node, &view, [first, second], function)
    }

    /// A function of `view`, made from operand `operand`, and of operand `other`, which may be constant.
    pub(super) fn with_operand(
        &mut self,
        node: &SourceNode,
        view: &View,
        [operand, other]: [usize; 2],
        function: Function,
    ) -> Conversion<View> {
        let constant = self.constant(node, other).map(|constant| constant.extents.clone());
        let joined = constant.as_ref().map(|constant| broadcast(&view.extents, constant)).transpose()?;
        let joined = joined.filter(|extents| elements(extents) == elements(&view.extents));
        let (Some(constant), Some(extents)) = (constant, joined) else {
            let other = self.view(node, other)?;
            return self.two(view, &other, function);
        };
        let before = extents.len() - constant.len();
        let view = view.reshaped(extents);
        let wide: Vec<usize> = wide_axes(&constant).into_iter().map(|axis| axis + before).collect();
        let innermost = view.order.as_ref().and_then(|order| order.last().copied());
        let is_small = wide.is_empty() || (wide.len() == 1 && innermost == Some(wide[0]));
        let folds = match function {
            Function::Multiply if wide.is_empty() => self.is_trained(view.source),
            Function::Prelu => false,
            _ => self.is_read_once(node, operand) && self.takes_bias(view.source),
        };
        if is_small && folds {
            return Ok(view);
        }
        let tensor = node.reads[other].unwrap_or_default();
        let view = self.with_inner_channels(&view)?;
        let shape = if is_small {
            Shape::image(1, 1, view.shape.channels)
        } else {
            let given = [vec![1; before], constant].concat();
            beside(&view, view.order.as_deref().unwrap_or_default(), &given).0
        };
        let given = self.constant_input(tensor, shape);
        self.joined(&view, given, shape, function)
    }

    /// A function of two tensors with broadcasting.
    pub(super) fn two(&mut self, left: &View, right: &View, function: Function) -> Conversion<View> {
        let extents = broadcast(&left.extents, &right.extents)?;
        let (mut first, mut second) = (left.aligned(extents.len()), right.aligned(extents.len()));
        if elements(&first.extents) < elements(&second.extents)
            || (first.order.is_none() && second.order.is_some() && second.extents == extents)
        {
            std::mem::swap(&mut first, &mut second);
        }
        if first.extents != extents {
            return self.of_both(&first, &second, extents);
        }
        let first = self.with_inner_channels(&first)?;
        let Some(order) = first.order.clone() else { return unsound("a tensor without order") };
        let (shape, needed) = beside(&first, &order, &second.extents);
        second = self.repeated(&second, &needed)?;
        let other = self.arranged(&second, &wide(&second.extents, order), shape)?;
        self.joined(&first, other, shape, function)
    }

    /// A function of two tensors, each of which is broadcast to the other's extents.
    fn of_both(&mut self, first: &View, second: &View, extents: Vec<u32>) -> Conversion<View> {
        let is_image = extents.len() == 4 && (first.shape.height > 1 || second.shape.height > 1);
        let axes = if is_image { self.image_order(4) } else { (0..extents.len()).collect() };
        let (order, inputs) = (wide(&extents, axes), [first.source, second.source]);
        let joined = View { extents, ..first.clone() };
        let Some(shape) = self.natural(&joined, &order) else { return unsound("a tensor is too large") };
        let source = self.emit_generic("", (GenericKind::Elementwise, 1), &inputs, shape)?;
        Ok(self.view_as(source, joined.extents, order))
    }

    /// Emits a binary function.
    fn joined(&mut self, first: &View, other: Source, shape: Shape, function: Function) -> Conversion<View> {
        let operator = Elementwise { function, input: first.shape, other: Some(shape) };
        let source = self.emit("", operator, &[first.source, other])?;
        Ok(View { source, ..first.clone() })
    }
}

/// The shape of a second operand with `extents` beside `first`, whose axes are in memory order `order`, and the
/// extents that it needs for that: where dimensions hold several axes, it has all of them or none, but for images.
fn beside(first: &View, order: &[usize], extents: &[u32]) -> (Shape, Vec<u32>) {
    let (mut shape, mut needed) = (<[u32; 4]>::from(first.shape), extents.to_vec());
    for [held, holders] in matching(&along(&first.extents, order), &shape).unwrap_or_default() {
        let held = &order[held];
        let own: u64 = held.iter().map(|&axis| u64::from(extents[axis])).product();
        if own == 1 {
            shape[holders].fill(1);
        } else if holders == (0..1) {
            // At most the images of the first operand.
            shape[0] = own as u32;
        } else {
            for &axis in held {
                needed[axis] = first.extents[axis];
            }
        }
    }
    (shape.into(), needed)
}

/// Broadcast extents of two tensors, by the rules of `NumPy`.
pub(crate) fn broadcast(left: &[u32], right: &[u32]) -> Conversion<Vec<u32>> {
    let rank = left.len().max(right.len());
    let at = |extents: &[u32], axis: usize| {
        (axis + extents.len()).checked_sub(rank).map_or(1, |index| extents[index])
    };
    (0..rank)
        .map(|axis| match (at(left, axis), at(right, axis)) {
            (one, other) if one == other || other == 1 => Ok(one),
            (1, other) => Ok(other),
            (one, other) => unsound(format!("extents {one} and {other} cannot be broadcast")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::workload::Padding;

    #[test]
    fn axes_of_more_elements_than_32_bits_count_are_told_from_one() {
        // The second product is 1 more than 2^32.
        for [rows, columns] in [[98_304, 65_536], [641, 6_700_417]] {
            let shape = Shape::image(columns, rows, 3);
            let extents = vec![rows, columns, 3];
            let view = View {
                source: Source::Input(0),
                shape,
                extents: extents.clone(),
                order: Some(vec![0, 1, 2]),
                padding: Padding::NONE,
            };
            assert_eq!(beside(&view, &[0, 1, 2], &extents), (shape, extents));
        }
    }
}
