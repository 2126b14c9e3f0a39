//! Parts of tensors: slices, splits, gathers and embedding look-ups.

use super::{Conversion, Converter, Value, axis, unknown, unsound};
use crate::model::{Constant, Slicing, SourceNode, as_extent, elements};
use crate::view::{View, wide_axes};
use coexec_sim::workload::{Embedding, Shape, Slice};

/// A strided range of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    axis: usize,
    first: u32,
    count: u32,
    step: i64,
    /// Whether the axis is dropped.
    drop: bool,
}

impl Converter<'_> {
    pub(super) fn slice(&mut self, node: &SourceNode, slicing: &Slicing) -> Conversion<Value> {
        let value = self.tensor(node, 0)?;
        let ranges = self.ranges(node, slicing, value.extents())?;
        self.sliced(value, &ranges)
    }

    /// Slices a tensor by ranges along different axes; the result may be empty.
    fn sliced(&mut self, mut value: Value, ranges: &[Range]) -> Conversion<Value> {
        let extents = after(value.extents(), ranges);
        if ranges.iter().any(|range| range.count == 0) {
            return Ok(Value::Constant(Constant { extents, numbers: Some(Vec::new()) }));
        }
        for &Range { axis, first, count, step, .. } in ranges {
            value = match value {
                Value::View(view) => Value::View(self.strided_part(&view, axis, [first, count], step)?),
                Value::Constant(constant) => {
                    let (first, all, apart) = (first as usize, count as usize, step.unsigned_abs() as usize);
                    let place = |place: usize| {
                        first + apart.saturating_mul(if step > 0 { place } else { all - 1 - place })
                    };
                    Value::Constant(constant.picked(axis, count, place))
                }
            };
        }
        value.reshaped(extents)
    }

    /// The ranges that a slice takes of a tensor of `extents`.
    fn ranges(&self, node: &SourceNode, slicing: &Slicing, extents: &[u32]) -> Conversion<Vec<Range>> {
        let needed = |operand: usize| match self.constant(node, operand).and_then(Constant::integers) {
            Some(numbers) => Ok(numbers),
            None => unknown("a slice whose range is computed by the network"),
        };
        let (mut starts, mut ends) = (needed(1)?, needed(2)?);
        match *slicing {
            Slicing::Operands => {
                let optional = |operand| self.constant(node, operand).map(|_| needed(operand)).transpose();
                let (axes, steps) = (optional(3)?, optional(4)?.unwrap_or_default());
                ranges_between(extents, [starts, ends], axes, &steps)
            }
            Slicing::BySize => {
                for (end, &start) in ends.iter_mut().zip(&starts) {
                    *end = if *end < 0 { i64::MAX } else { start.saturating_add(*end) };
                }
                ranges_between(extents, [starts, ends], None, &[])
            }
            Slicing::Strided { begin_mask, end_mask, new_axes, shrink } => {
                if new_axes != 0 {
                    return unknown("a slice that adds axes");
                }
                let steps = needed(3)?;
                let masked = |mask: u32, axis: usize| axis < 32 && mask >> axis & 1 == 1;
                for (axis, (start, end)) in starts.iter_mut().zip(&mut ends).enumerate() {
                    let backwards = steps.get(axis).is_some_and(|&step| step < 0);
                    if masked(begin_mask, axis) {
                        *start = if backwards { i64::MAX } else { 0 };
                    }
                    if masked(shrink, axis) {
                        *end = if *start == -1 { i64::MAX } else { start.saturating_add(1) };
                    } else if masked(end_mask, axis) {
                        *end = if backwards { i64::MIN } else { i64::MAX };
                    }
                }
                let mut ranges = ranges_between(extents, [starts, ends], None, &steps)?;
                for range in &mut ranges {
                    range.drop = masked(shrink, range.axis);
                }
                Ok(ranges)
            }
        }
    }

    /// `count` consecutive elements of an axis.
    pub(super) fn part(&mut self, view: &View, along: usize, first: u32, count: u32) -> Conversion<View> {
        self.strided_part(view, along, [first, count], 1)
    }

    /// `count` elements of an axis, `step` apart; `first` is the lowest index, also for a negative step,
    /// which takes them in reverse.
    fn strided_part(
        &mut self,
        view: &View,
        along: usize,
        [first, count]: [u32; 2],
        step: i64,
    ) -> Conversion<View> {
        let extent = view.extents[along];
        if count == extent && step == 1 {
            return Ok(view.clone());
        }
        let apart = step.unsigned_abs();
        let last = u64::from(first).saturating_add(u64::from(count).saturating_sub(1).saturating_mul(apart));
        if count == 0 || last >= u64::from(extent) {
            return unsound(format!("elements {first} to {last} of {extent}"));
        }
        let view = if view.order.is_none() { self.with_inner_channels(view)? } else { view.clone() };
        let order = view.order.clone().unwrap_or_default();
        let (shape, dimension) = self.placed(&view, along, &order)?;
        let source = self.arranged(&view, &order, shape)?;
        let first = if step < 0 { last as u32 } else { first };
        let step = i32::try_from(step).unwrap_or(1);
        let slice = Slice { input: shape, dimension, first, count, step };
        let source = self.emit("", slice, &[source])?;
        let mut extents = view.extents.clone();
        extents[along] = count;
        Ok(self.view_as(source, extents, order))
    }

    pub(super) fn split(&mut self, node: &SourceNode, squeeze: bool) -> Conversion<()> {
        let value = match self.tensor(node, 0)? {
            // Copied once for all parts.
            Value::View(view) if view.order.is_none() => Value::View(self.with_inner_channels(&view)?),
            value => value,
        };
        let along = if node.reads.len() > 2 { self.numbers(node, 2)? } else { Vec::new() };
        let axis = axis(along.first().copied().unwrap_or(0), value.extents().len())?;
        let sizes = self.constant(node, 1).and_then(Constant::integers);
        let sizes = part_sizes(sizes, value.extents()[axis], node.writes.len())?;
        for (index, range) in side_by_side(sizes, axis, squeeze).enumerate() {
            if self.is_wanted(node, index) {
                let part = self.sliced(value.clone(), &[range])?;
                self.set(node, index, part);
            }
        }
        Ok(())
    }

    /// Splits a tensor into parts of the given sizes along an axis, which is dropped if `drop`.
    pub(super) fn parts(
        &mut self,
        value: &Value,
        axis: usize,
        sizes: &[i64],
        drop: bool,
    ) -> Conversion<Vec<Value>> {
        let sizes = part_sizes(Some(sizes.to_vec()), value.extents()[axis], sizes.len())?;
        side_by_side(sizes, axis, drop).map(|range| self.sliced(value.clone(), &[range])).collect()
    }

    pub(super) fn gather(&mut self, node: &SourceNode, along: i64) -> Conversion<View> {
        if self.constant(node, 0).is_some() {
            return if along == 0 {
                self.lookup(node, 0, 1)
            } else {
                unknown("a look-up along any axis but the first")
            };
        }
        let view = self.view(node, 0)?;
        let along = axis(along, view.extents.len())?;
        let Some(indices) = self.constant(node, 1).cloned() else {
            return unknown("a look-up at indices that the network computes");
        };
        let extent = i64::from(view.extents[along]);
        let first = match indices.integers().as_deref() {
            Some([]) => return unsound("a look-up of nothing"),
            Some(numbers) => {
                let in_order = numbers.windows(2).all(|pair| pair[1] == pair[0].saturating_add(1));
                if !in_order {
                    self.approximate("a slice of as many consecutive elements");
                }
                let first = if numbers[0] < 0 { numbers[0].saturating_add(extent) } else { numbers[0] };
                first.clamp(0, extent)
            }
            None => 0,
        };
        let count = indices.elements();
        if count > u64::from(view.extents[along]) {
            return unknown("a look-up of more elements than there are");
        }
        let count = count as u32;
        let first = (first as u32).min(view.extents[along] - count);
        let part = self.part(&view, along, first, count)?;
        let mut extents = part.extents.clone();
        extents.splice(along..=along, indices.extents.iter().copied());
        Self::check_extents(&extents)?;
        Ok(part.reshaped(extents))
    }

    /// Elements at indices along several axes. Where each index is of a row of a table, this is a look-up.
    pub(super) fn gather_places(&mut self, node: &SourceNode) -> Conversion<View> {
        let indices = self.extents_read(node, 1)?;
        if self.constant(node, 0).is_none() || indices.last() != Some(&1) {
            return self.generic_view(node);
        }
        let rows = self.lookup(node, 0, 1)?;
        let mut extents = rows.extents.clone();
        extents.remove(indices.len() - 1);
        Ok(rows.reshaped(extents))
    }

    /// Rows of a table at the indices in an operand.
    pub(super) fn lookup(&mut self, node: &SourceNode, table: usize, indices: usize) -> Conversion<View> {
        let extents = self.weight_extents(node, table)?;
        let Some((&vocabulary, row)) = extents.split_first() else {
            return unsound("a table that is a scalar");
        };
        let indices = self.view(node, indices)?;
        let (rows, features) = (as_extent(elements(&indices.extents)), as_extent(elements(row)));
        let source = self.arranged(&indices, &indices.file_order(), Shape::tokens(rows, 1))?;
        let operator = Embedding { rows, vocabulary, features };
        let source = self.emit("", operator, &[source])?;
        let mut extents = indices.extents.clone();
        extents.extend(row);
        Self::check_extents(&extents)?;
        let order = wide_axes(&extents);
        Ok(self.view_as(source, extents, order))
    }
}

/// Consecutive ranges of these sizes along an axis, which is dropped if `drop`.
fn side_by_side(sizes: Vec<u32>, axis: usize, drop: bool) -> impl Iterator<Item = Range> {
    let range = move |end: &mut u32, count| {
        let first = std::mem::replace(end, *end + count);
        Some(Range { axis, first, count, step: 1, drop })
    };
    sizes.into_iter().scan(0, range)
}

/// Sizes of a split's parts, which must fill the axis; a negative size is inferred.
fn part_sizes(sizes: Option<Vec<i64>>, extent: u32, parts: usize) -> Conversion<Vec<u32>> {
    let Some(sizes) = sizes else {
        let parts = as_extent(parts as u64).max(1);
        let each = extent.div_ceil(parts);
        let sizes = (0..parts).map(|part| extent.saturating_sub(part.saturating_mul(each)).min(each));
        return Ok(sizes.filter(|&size| size > 0).collect());
    };
    let stated: i64 = sizes.iter().filter(|&&size| size >= 0).fold(0, |sum, &size| sum.saturating_add(size));
    let rest = i64::from(extent).saturating_sub(stated);
    let sizes: Vec<i64> = sizes.into_iter().map(|size| if size < 0 { rest } else { size }).collect();
    let total = sizes.iter().fold(0_i64, |sum, &size| sum.saturating_add(size));
    if total != i64::from(extent) || sizes.iter().any(|&size| size < 0) {
        return unsound(format!("parts of {sizes:?} of {extent} elements"));
    }
    Ok(sizes.into_iter().map(|size| size as u32).collect())
}

/// The ranges from starts to ends; without `axes`, along the first axes in order.
fn ranges_between(
    extents: &[u32],
    [starts, ends]: [Vec<i64>; 2],
    axes: Option<Vec<i64>>,
    steps: &[i64],
) -> Conversion<Vec<Range>> {
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    if starts.len() != ends.len() || axes.len() != starts.len() {
        return unsound("a slice with different numbers of starts, ends and axes");
    }
    let mut ranges: Vec<Range> = Vec::with_capacity(starts.len());
    for (index, (start, end)) in starts.into_iter().zip(ends).enumerate() {
        let axis = axis(axes[index], extents.len())?;
        let (extent, step) = (i64::from(extents[axis]), steps.get(index).copied().unwrap_or(1));
        if step == 0 || ranges.iter().any(|range| range.axis == axis) {
            return unsound("a slice with a step of 0, or of one axis twice");
        }
        let at = |place: i64| if place < 0 { place.saturating_add(extent) } else { place };
        let (first, count) = if step > 0 {
            let (start, end) = (at(start).clamp(0, extent), at(end).clamp(0, extent));
            (start, (end - start).max(0).unsigned_abs().div_ceil(step.unsigned_abs()))
        } else {
            let end = if end == i64::MIN { -1 } else { at(end).clamp(-1, extent - 1) };
            let start = at(start).clamp(-1, extent - 1);
            let count = (start - end).max(0).unsigned_abs().div_ceil(step.unsigned_abs());
            let reached = (count as i64).saturating_sub(1).saturating_mul(step.saturating_abs());
            (start.saturating_sub(reached).max(0), count)
        };
        ranges.push(Range { axis, first: first as u32, count: count as u32, step, drop: false });
    }
    Ok(ranges)
}

/// Extents after a slice.
fn after(extents: &[u32], ranges: &[Range]) -> Vec<u32> {
    let of = |axis: usize| ranges.iter().find(|range| range.axis == axis);
    (0..extents.len())
        .filter(|&axis| !of(axis).is_some_and(|range| range.drop))
        .map(|axis| of(axis).map_or(extents[axis], |range| range.count))
        .collect()
}
