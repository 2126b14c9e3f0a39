//! Concatenation, padding, tiling, expansion and resizing.

use super::{Conversion, Converter, Problem, Value, axis, unknown, unsound};
use crate::fold;
use crate::model::{Constant, SourceNode, TensorId, as_extent, elements};
use crate::view::{View, natural_shape, wide, wide_axes};
use coexec_sim::workload::{
    Concat, Dimension, Interpolation, MAX_DIMENSION, Pad, Padding, Reshape, Resize, Shape, Source,
};

/// Maximum number of copies of a tensor that are concatenated, as for a mask per head.
const MAX_COPIES: u32 = 64;

impl Converter<'_> {
    pub(super) fn concat(&mut self, node: &SourceNode, along: i64, is_new: bool) -> Conversion<Value> {
        let mut parts = Vec::with_capacity(node.reads.len());
        for (operand, read) in node.reads.iter().enumerate() {
            if let &Some(tensor) = read {
                parts.push((self.tensor(node, operand)?, tensor));
            }
        }
        self.joined_values(&parts, along, is_new)
    }

    /// Concatenates tensors along an axis, or stacks them along a new one. Constants among them are stored in the
    /// layout of the others.
    pub(super) fn joined_values(
        &mut self,
        parts: &[(Value, TensorId)],
        along: i64,
        is_new: bool,
    ) -> Conversion<Value> {
        let constants = parts.iter().map(|(part, _)| part.constant().cloned());
        if let Some(constants) = constants.collect::<Option<Vec<Constant>>>() {
            let joined = fold::joined(constants, along, is_new)?;
            Self::check_size(&joined.extents)?;
            return Ok(Value::Constant(joined));
        }
        let mut views = Vec::with_capacity(parts.len());
        let mut place = 0;
        for (part, tensor) in parts {
            let view = match part {
                Value::View(view) => view.clone(),
                Value::Constant(constant) if constant.elements() == 0 => continue,
                Value::Constant(constant) => self.constant_view(*tensor, constant.extents.clone())?,
            };
            let mut extents = view.extents.clone();
            place = axis(along, extents.len() + usize::from(is_new))?;
            if is_new {
                extents.insert(place, 1);
            }
            views.push(view.reshaped(extents));
        }
        self.joined_along(&views, place).map(Value::View)
    }

    /// Concatenates tensors along an axis.
    pub(super) fn joined_along(&mut self, views: &[View], along: usize) -> Conversion<View> {
        let extents = joined_extents(views.iter().map(|view| &view.extents[..]), along)?;
        let first = &views[0];
        if views.len() == 1 {
            return Ok(first.clone());
        }
        // Constants are stored in the layout of the computed tensors, which therefore come first.
        let (stored, computed): (Vec<&View>, Vec<&View>) =
            views.iter().partition(|view| self.stored.contains(&view.source));
        let leading = [computed, stored].concat();
        let order = self.order_with(&leading, along, &extents);
        let (shape, dimension) = self.placed(leading[0], along, &order)?;
        let mut arranged = |view: &View| {
            let own = wide(&view.extents, order.clone());
            self.arranged(view, &own, shape.with(dimension, view.extents[along]))
        };
        let mut sources: Vec<Source> = Vec::with_capacity(views.len());
        for (index, view) in views.iter().enumerate() {
            // Copies of one tensor are rearranged once.
            let before = index.checked_sub(1).filter(|&before| views[before] == *view);
            sources.push(match before {
                Some(before) => sources[before],
                None => arranged(view)?,
            });
        }
        let parts: Vec<u32> = views.iter().map(|view| view.extents[along]).collect();
        let extent = shape.with(dimension, parts[0]);
        let source = self.emit("", Concat { extent, dimension, extents: parts }, &sources)?;
        Ok(self.view_as(source, extents, order))
    }

    /// The shape in which the axis `along` of `view` is a dimension of its own, and that dimension,
    /// for axes in memory order `order`.
    pub(super) fn placed(
        &self,
        view: &View,
        along: usize,
        order: &[usize],
    ) -> Conversion<(Shape, Dimension)> {
        let place = order.iter().position(|&other| other == along).unwrap_or(order.len());
        let of = |axes: &[usize]| axes.iter().map(|&other| view.extents[other]).collect::<Vec<u32>>();
        let (outer, mut inner) = (of(&order[..place]), of(&order[(place + 1).min(order.len())..]));
        let rank = view.extents.len();
        let is_channels = along + 1 == rank || self.image_order(rank).last() == Some(&along);
        if inner.is_empty() && (rank == 1 || !is_channels) {
            // Frameworks keep tensors of one channel as such. They treat a vector as a batch of scalars,
            // with a thread for each.
            inner.push(1);
        }
        placed_in(view, along, &outer, &inner)
            .ok_or_else(|| Problem::Unsound("a tensor is too large".to_owned()))
    }

    /// The memory order of a concatenation along an axis: that of a part with more than one element along it.
    fn order_with(&self, views: &[&View], along: usize, extents: &[u32]) -> Vec<usize> {
        let has = |view: &&&View| view.extents[along] != 1;
        if let Some(order) = views.iter().filter(has).find_map(|view| view.order.clone()) {
            return order;
        }
        match views.iter().find_map(|view| view.order.clone()) {
            Some(order) => self.order_and(&order, along, extents.len()),
            None => wide_axes(extents),
        }
    }

    /// A memory order with one more axis: channels innermost, other axes at their position in the
    /// file.
    fn order_and(&self, order: &[usize], along: usize, rank: usize) -> Vec<usize> {
        let mut order: Vec<usize> = order.iter().copied().filter(|&other| other != along).collect();
        let is_channels = rank == 4 && self.image_order(rank).last() == Some(&along);
        let place = match order.iter().position(|&other| other > along) {
            Some(place) if !is_channels => place,
            _ => order.len(),
        };
        order.insert(place, along);
        order
    }

    /// The view with its padding materialised.
    pub(super) fn with_zeros(&mut self, view: View) -> Conversion<View> {
        if view.padding == Padding::NONE {
            return Ok(view);
        }
        let extents = view.padded_extents(self.spatial_axes());
        let order = self.image_order(4);
        let [batch, height, width, channels] = self.image_extents(&view.extents)[..] else {
            return unsound("padding around something that is not an image");
        };
        let Padding { top, bottom, left, right } = view.padding;
        let input = Shape { batch, height, width, channels };
        let source = self.arranged(&view, &wide(&view.extents, order.clone()), input)?;
        let pad = Pad { input, before: [0, top, left, 0], after: [0, bottom, right, 0] };
        let source = self.emit(self.suffix(".pad"), pad, &[source])?;
        Ok(self.view_as(source, extents, order))
    }

    fn with_zeros_along(&mut self, view: &View, along: usize, [before, after]: [u32; 2]) -> Conversion<View> {
        if [before, after] == [0, 0] {
            return Ok(view.clone());
        }
        let order = self.order_of(view);
        let all = if order.contains(&along) {
            order.clone()
        } else {
            self.order_and(&order, along, view.extents.len())
        };
        let (shape, dimension) = self.placed(view, along, &all)?;
        let source = self.arranged(view, &order, shape)?;
        let mut pad = Pad { input: shape, before: [0; 4], after: [0; 4] };
        (pad.before[dimension as usize], pad.after[dimension as usize]) = (before, after);
        let source = self.emit("", pad, &[source])?;
        let mut extents = view.extents.clone();
        extents[along] = extents[along].saturating_add(before).saturating_add(after);
        Ok(self.view_as(source, extents, all))
    }

    /// The elements that operand 1 adds before and after each of `axes` axes: all begins then all ends, or rows of
    /// pairs. `None` if it is of another number of axes.
    pub(super) fn around(&self, node: &SourceNode, axes: usize) -> Conversion<Option<Vec<[i64; 2]>>> {
        let numbers = self.numbers(node, 1)?;
        let is_pairs = self.constant(node, 1).is_some_and(|constant| constant.extents.len() == 2);
        let places = |axis: usize| if is_pairs { [2 * axis, 2 * axis + 1] } else { [axis, axis + axes] };
        let of = |axis: usize| places(axis).map(|place| numbers[place]);
        Ok((numbers.len() == 2 * axes).then(|| (0..axes).map(of).collect()))
    }

    pub(super) fn pad(&mut self, node: &SourceNode) -> Conversion<View> {
        let view = self.unpadded_view(node, 0)?;
        let rank = view.extents.len();
        let around = self.around(node, rank)?.filter(|all| all.iter().flatten().all(|&number| number >= 0));
        let Some(around) = around else {
            return unknown("padding that crops, or is not given for every axis");
        };
        let around: Vec<[u32; 2]> = around.into_iter().map(|counts| counts.map(as_extent)).collect();
        let is_too_large = |count: &u32| *count > MAX_DIMENSION;
        if around.iter().flatten().any(is_too_large) {
            return unsound("too much padding");
        }
        let [height, width] = self.spatial_axes();
        let is_around_image =
            rank == 4 && (0..rank).all(|axis| axis == height || axis == width || around[axis] == [0, 0]);
        let view = if is_around_image {
            let [[top, bottom], [left, right]] = [around[height], around[width]];
            View { padding: view.padding + Padding { top, bottom, left, right }, ..view }
        } else {
            let mut view = self.with_zeros(view)?;
            for (axis, counts) in around.into_iter().enumerate() {
                view = self.with_zeros_along(&view, axis, counts)?;
            }
            view
        };
        let padded = view.padded_extents(self.spatial_axes());
        Self::check_extents(&padded)?;
        if padded.iter().any(is_too_large) {
            return unsound(format!(
                "its result has extents {padded:?}, expected at most {MAX_DIMENSION} each"
            ));
        }
        Ok(view)
    }

    pub(super) fn expand(&mut self, node: &SourceNode) -> Conversion<View> {
        let view = self.view(node, 0)?;
        let wanted: Vec<u32> = self.numbers(node, 1)?.into_iter().map(as_extent).collect();
        let extents = super::elementwise::broadcast(&view.extents, &wanted)?;
        Self::check_extents(&extents)?;
        self.repeated(&view.aligned(extents.len()), &extents)
    }

    pub(super) fn tile(&mut self, node: &SourceNode) -> Conversion<View> {
        let mut view = self.view(node, 0)?;
        let copies = self.numbers(node, 1)?;
        if copies.len() != view.extents.len() {
            return unsound("repeats that are not given for every axis");
        }
        for (axis, copies) in copies.into_iter().enumerate().rev() {
            view = self.copied(&view, axis, as_extent(copies))?;
        }
        Ok(view)
    }

    /// `view` broadcast along its axes of one element to `extents`, which has the same
    /// rank.
    pub(super) fn repeated(&mut self, view: &View, extents: &[u32]) -> Conversion<View> {
        let mut view = view.clone();
        for axis in (0..extents.len()).rev() {
            if view.extents[axis] == 1 && extents[axis] != 1 {
                view = self.copied(&view, axis, extents[axis])?;
            }
        }
        Ok(view)
    }

    fn copied(&mut self, view: &View, along: usize, copies: u32) -> Conversion<View> {
        if let (2.., Source::Input(index)) = (copies, view.source)
            && self.stored.contains(&view.source)
        {
            // A constant is stored with as many copies as are needed.
            let mut extents = view.extents.clone();
            extents[along] = extents[along].saturating_mul(copies);
            Self::check_extents(&extents)?;
            let name = self.out.inputs[index as usize].name.clone();
            let order = wide_axes(&extents);
            return self.laid_out(extents, order, |converter, shape| converter.stored_input(&name, shape));
        }
        match copies {
            0 => unsound("a tensor without elements"),
            1 => Ok(view.clone()),
            2..=MAX_COPIES => self.joined_along(&vec![view.clone(); copies as usize], along),
            _ => unknown(format!("{copies} copies of a tensor")),
        }
    }

    /// A resize of an image's height and width.
    pub(super) fn resize(&mut self, node: &SourceNode, interpolation: Interpolation) -> Conversion<View> {
        let view = self.view(node, 0)?;
        let wanted = self.resized(node, &view.extents)?;
        if wanted == view.extents {
            return Ok(view);
        }
        let [height, width] = self.spatial_axes();
        let whole = |axis: usize| view.extents[axis] == wanted[axis] || axis == height || axis == width;
        if view.extents.len() != 4 || !(0..4).all(whole) {
            return unknown("a resize of anything but an image's height and width");
        }
        Self::check_extents(&wanted)?;
        let order = self.image_order(4);
        let input: [u32; 4] = std::array::from_fn(|index| view.extents[order[index]]);
        let source = self.arranged(&view, &wide(&view.extents, order.clone()), input.into())?;
        let resize =
            Resize { input: input.into(), height: wanted[height], width: wanted[width], interpolation };
        let source = self.emit("", resize, &[source])?;
        Ok(self.view_as(source, wanted, order))
    }

    /// Extents after a resize.
    pub(super) fn resized(&self, node: &SourceNode, from: &[u32]) -> Conversion<Vec<u32>> {
        let number = |number: f64| number.clamp(0.0, f64::from(u32::MAX)) as u32;
        let given = |operand: usize| {
            let numbers = self.constant(node, operand)?.numbers.clone()?;
            (!numbers.is_empty()).then_some(numbers)
        };
        let mut extents = from.to_vec();
        match (given(3), given(2)) {
            (Some(sizes), _) if sizes.len() == extents.len() => Ok(sizes.into_iter().map(number).collect()),
            (Some(sizes), _) if sizes.len() == 2 && extents.len() == 4 => {
                for (axis, size) in self.spatial_axes().into_iter().zip(sizes) {
                    extents[axis] = number(size);
                }
                Ok(extents)
            }
            (None, Some(scales)) if scales.len() == extents.len() => {
                let scaled =
                    |(&extent, scale): (&u32, f64)| number((f64::from(extent) * scale + 1e-6).floor());
                Ok(extents.iter().zip(scales).map(scaled).collect())
            }
            _ => unknown("a resize to a size that the network computes"),
        }
    }

    /// Depth to space or back: elements move, and nothing is computed.
    pub(super) fn rearrange_blocks(
        &mut self,
        node: &SourceNode,
        block: u32,
        to_space: bool,
    ) -> Conversion<View> {
        let view = self.view(node, 0)?;
        let [1, height, width, channels] = self.image_extents(&view.extents)[..] else {
            return unknown("a rearrangement of anything but a single image");
        };
        let area = block.checked_mul(block).filter(|&area| area > 0);
        let Some(area) = area else { return unsound("a block without pixels") };
        let shape = if to_space && channels % area == 0 {
            Shape::image(height.saturating_mul(block), width.saturating_mul(block), channels / area)
        } else if !to_space && height % block == 0 && width % block == 0 {
            Shape::image(height / block, width / block, channels.saturating_mul(area))
        } else {
            return unsound(format!("its extents are not divisible into blocks of {block}"));
        };
        let moved = Reshape { input: view.shape, output: shape };
        let source = self.emit("", moved, &[view.source])?;
        Ok(self.image_view(source, false))
    }
}

/// The shape of a tensor that is concatenated or cut along an axis of the file, and the dimension of
/// that axis: the part's own shape if the surrounding axes match a dimension of it, otherwise the natural one.
fn placed_in(part: &View, along: usize, outer: &[u32], inner: &[u32]) -> Option<(Shape, Dimension)> {
    let (around, own, step) = (elements(outer), part.extents[along], elements(inner));
    let mut dimensions = Dimension::ALL.into_iter().rev();
    let is_axis = |&dimension: &Dimension| {
        let (extent, inside) = (part.shape.along(dimension), part.shape.inside(dimension));
        let is_inside = dimension != Dimension::Channels || inner.is_empty();
        is_inside
            && extent == own
            && inside == step
            && part.shape.elements() == around * u64::from(own) * step
    };
    if let Some(dimension) = dimensions.find(is_axis) {
        return Some((part.shape, dimension));
    }
    let count = |extents: &[u32]| u32::try_from(elements(extents)).ok();
    Some(match inner {
        [] => (natural_shape(&[outer, &[own]].concat())?, Dimension::Channels),
        [channels] if around == 1 => (Shape::tokens(own, *channels), Dimension::Width),
        [channels] => (Shape::image(count(outer)?, own, *channels), Dimension::Width),
        [width @ .., channels] => {
            let (batch, width) = (count(outer)?, count(width)?);
            (Shape { batch, height: own, width, channels: *channels }, Dimension::Height)
        }
    })
}

/// Extents of tensors concatenated along an axis; all others must be equal.
pub(crate) fn joined_extents<'a>(
    mut parts: impl Iterator<Item = &'a [u32]>,
    along: usize,
) -> Conversion<Vec<u32>> {
    let Some(first) = parts.next() else { return unsound("nothing to join") };
    let mut extents = first.to_vec();
    for part in parts {
        let same = |other: usize| other == along || part.get(other) == extents.get(other);
        if part.len() != extents.len() || !(0..extents.len()).all(same) {
            return unsound("concatenated tensors differ along another axis");
        }
        extents[along] = extents[along].saturating_add(part[along]);
    }
    Ok(extents)
}
