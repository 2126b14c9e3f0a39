//! Reshapes, transposes, squeezes and unsqueezes.

use super::{Conversion, Converter, Value, axes, axis, unknown, unsound};
use crate::model::{Constant, ImageOrder, Reshaping, SourceNode, as_extent, elements};
use crate::view::{View, natural_shape, wide};
use coexec_sim::Shape;

impl Converter<'_> {
    pub(super) fn transpose(&mut self, node: &SourceNode) -> Conversion<Value> {
        let value = self.tensor(node, 0)?;
        let permutation = permutation(self.constant(node, 1), value.extents().len())?;
        Ok(match value.transposed(&permutation) {
            Value::View(view)
                if node.writes.iter().flatten().any(|tensor| self.materialised.contains(tensor)) =>
            {
                Value::View(self.materialise(&view, true)?)
            }
            value => value,
        })
    }

    /// `view` materialised in the file's axis order. Channels-first images keep the framework's
    /// channels-last order: a transpose between the two moves nothing. With `is_batch`, the
    /// outermost of three axes becomes the batch, as matrix products want it.
    fn materialise(&mut self, view: &View, is_batch: bool) -> Conversion<View> {
        let Some(order) = &view.order else { return Ok(view.clone()) };
        let rank = view.extents.len();
        let mut rest = view.file_order();
        if self.model.order == ImageOrder::ChannelsFirst && rank >= 4 {
            let spatial = wide(&view.extents, vec![rank - 2, rank - 1]);
            if order.starts_with(&spatial) {
                rest.rotate_right(spatial.len());
            }
        }
        if *order == rest {
            return Ok(view.clone());
        }
        let memory: Vec<u32> = rest.iter().map(|&axis| view.extents[axis]).collect();
        let shape = match memory[..] {
            [height, width, channels] if !is_batch => Some(Shape::image(height, width, channels)),
            _ => natural_shape(&memory),
        };
        let Some(shape) = shape else { return unsound("a tensor is too large") };
        let source = self.arranged(view, &rest, shape)?;
        Ok(self.view_as(source, view.extents.clone(), rest))
    }

    pub(super) fn reshape(&mut self, node: &SourceNode, reshaping: &Reshaping) -> Conversion<Value> {
        let mut value = self.tensor(node, 0)?;
        let extents = reshaped_extents(reshaping, self.constant(node, 1), value.extents())?;
        if let Value::View(view) = &value
            && view.reshaped(extents.clone()).order.is_none()
        {
            // Axes that are not adjacent in memory are merged, which needs a copy.
            value = Value::View(self.materialise(view, false)?);
        }
        value.reshaped(extents)
    }
}

/// The old axis of each new one.
fn permutation(operand: Option<&Constant>, rank: usize) -> Conversion<Vec<usize>> {
    let Some(constant) = operand else { return Ok((0..rank).rev().collect()) };
    let Some(numbers) = constant.integers() else { return unknown("its axes are computed by the network") };
    let permutation = numbers.iter().map(|&number| axis(number, rank)).collect::<Conversion<Vec<usize>>>()?;
    let mut sorted = permutation.clone();
    sorted.sort_unstable();
    if sorted != (0..rank).collect::<Vec<usize>>() {
        return unsound("a permutation that does not have each axis once");
    }
    Ok(permutation)
}

/// Extents after a reshape.
fn reshaped_extents(
    reshaping: &Reshaping,
    operand: Option<&Constant>,
    extents: &[u32],
) -> Conversion<Vec<u32>> {
    let rank = extents.len();
    match reshaping {
        Reshaping::ToOperand { zero_is_zero } => match operand.and_then(Constant::integers) {
            Some(numbers) => filled(&numbers, extents, *zero_is_zero),
            None => unknown("a reshape to extents that the network computes"),
        },
        Reshaping::Flatten { axis: at } => {
            let at = if *at == rank as i64 { rank } else { axis(*at, rank)? };
            let (rows, columns) = extents.split_at(at);
            Ok(vec![as_extent(elements(rows)), as_extent(elements(columns))])
        }
        Reshaping::Squeeze => {
            let dropped = match axes(operand, rank)? {
                Some(axes) if !axes.is_empty() => axes,
                _ => (0..rank).filter(|&axis| extents[axis] == 1).collect(),
            };
            if dropped.iter().any(|&axis| extents[axis] != 1) {
                return unsound("an axis of several elements is dropped");
            }
            Ok((0..rank).filter(|axis| !dropped.contains(axis)).map(|axis| extents[axis]).collect())
        }
        Reshaping::Unsqueeze => {
            let Some(operand) = operand else { return unknown("no axes to add") };
            let count = operand.elements().min(64) as usize;
            let added = axes(Some(operand), rank + count)?.unwrap_or_default();
            let mut seen = extents.to_vec();
            for axis in added {
                seen.insert(axis.min(seen.len()), 1);
            }
            Ok(seen)
        }
    }
}

/// The extents of a reshape: -1 is inferred, 0 keeps the input's extent unless `zero_is_zero`.
fn filled(numbers: &[i64], extents: &[u32], zero_is_zero: bool) -> Conversion<Vec<u32>> {
    let all = elements(extents);
    let mut filled = Vec::with_capacity(numbers.len());
    let mut open = None;
    for (index, &number) in numbers.iter().enumerate() {
        filled.push(match number {
            -1 if open.is_none() => {
                open = Some(index);
                1
            }
            0 if !zero_is_zero => extents.get(index).copied().unwrap_or(0),
            _ => as_extent(number),
        });
    }
    let stated = elements(&filled);
    if let Some(open) = open
        && stated > 0
        && all.is_multiple_of(stated)
    {
        filled[open] = as_extent(all / stated);
    }
    if elements(&filled) != all {
        return unsound(format!("{all} elements become {filled:?}"));
    }
    Ok(filled)
}
