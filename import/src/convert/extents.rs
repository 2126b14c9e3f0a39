//! Shape inference for nodes without an operator of the workload, and values of folded constants.
//!
//! Responsible for: each node's rule, and the extents stated in the file where there is no rule. Not for: operators of
//! the workload, which determine their extents themselves.

use super::elementwise::broadcast;
use super::reduce::{reduced, reduced_axes};
use super::{Conversion, Converter, MAX_FOLDED, Value, axis, unknown, unsound};
use crate::fold;
use crate::model::{Constant, Elemental, Extents, SourceNode, Spectrum, Work, as_extent, elements};

impl Converter<'_> {
    /// Extents and known values of a result: by rule, or else the extents stated in the file.
    pub(super) fn result(&mut self, node: &SourceNode, index: usize) -> Conversion<Constant> {
        let tensor = node.result(index);
        let stated = tensor.and_then(|tensor| self.model.tensors[tensor].static_extents());
        let is_bound = matches!(&node.work, Work::Generic { extents, .. } if extents.is_bound());
        if is_bound && stated.is_none() {
            self.approximate("the maximum number of results");
            self.bounded.extend(tensor.map(|tensor| (tensor, self.at.name.as_str().into())));
        }
        if let (Work::Generic { extents: Extents::Rows { has_kinds: true, .. }, .. }, 0) = (&node.work, index)
        {
            return Ok(Constant::of_extents(vec![rows(&self.extents_read(node, 0)?)]));
        }
        match (stated, self.by_node_rule(node)) {
            // Rules describe the first result; the others rarely have its extents.
            (Some(stated), _) if index > 0 || is_bound => Ok(Constant::of_extents(stated)),
            (_, Ok(Some(known))) => Ok(known),
            (Some(stated), _) => Ok(Constant::of_extents(stated)),
            (None, Ok(None)) if matches!(node.work, Work::Generic { extents: Extents::Said, .. }) => unknown(
                "the file does not state the extents of its result; ONNX's shape inference may add them",
            ),
            (None, Ok(None)) => {
                unknown("its extents are computed by the network, and the file does not state them")
            }
            (None, Err(problem)) => Err(problem),
        }
    }

    /// Extents of an operand, including its padding.
    pub(super) fn extents_read(&self, node: &SourceNode, operand: usize) -> Conversion<Vec<u32>> {
        Ok(match self.read(node, operand)? {
            Value::View(view) => view.padded_extents(self.spatial_axes()),
            Value::Constant(constant) => constant.extents.clone(),
        })
    }

    /// Extents by the rule of the node's work, with the values of folded constants; `None` where no rule applies.
    pub(super) fn by_node_rule(&self, node: &SourceNode) -> Conversion<Option<Constant>> {
        let extents = self.extents_by_rule(node)?;
        extents.map(|extents| self.with_numbers(node, extents)).transpose()
    }

    fn extents_by_rule(&self, node: &SourceNode) -> Conversion<Option<Vec<u32>>> {
        let read = |operand: usize| self.extents_read(node, operand);
        let counts = |operand: usize| -> Option<Vec<u32>> {
            Some(self.constant(node, operand)?.integers()?.into_iter().map(as_extent).collect())
        };
        Ok(match &node.work {
            Work::Generic { extents, .. } => self.by_rule(node, extents)?,
            Work::Arithmetic(_) | Work::Where => Some(self.broadcast(node)?),
            Work::Function(_) | Work::Identity | Work::BatchNorm | Work::AlongAxis { .. } => Some(read(0)?),
            Work::Reduce { keep, .. } if self.is_known(node, 1) => {
                let from = read(0)?;
                Some(reduced(&from, &reduced_axes(self.constant(node, 1), from.len())?, *keep))
            }
            Work::Pool { window, .. } => Some(self.pooled(&read(0)?, window)?),
            Work::GlobalPool(_) => {
                let extents = read(0)?;
                Some(extents.iter().enumerate().map(|(axis, &one)| if axis < 2 { one } else { 1 }).collect())
            }
            Work::Resize(_) => self.resized(node, &read(0)?).ok(),
            Work::Pad if self.is_known(node, 1) => self.padded(node)?,
            Work::ConstantOfShape(_) => counts(0),
            Work::Expand => counts(1).map(|counts| broadcast(&read(0)?, &counts)).transpose()?,
            Work::Tile => counts(1).map(|copies| Ok(tiled(&read(0)?, &copies))).transpose()?,
            Work::Range => match [0, 1, 2].map(|operand| self.number(node, operand)) {
                [Some(start), Some(limit), Some(step)] => Some(vec![fold::range([start, limit, step])?]),
                _ => None,
            },
            &Work::Gather { axis: along } => {
                let mut extents = read(0)?;
                let along = axis(along, extents.len())?;
                extents.splice(along..=along, read(1)?);
                Some(extents)
            }
            Work::Reduce { .. }
            | Work::Pad
            | Work::Concat { .. }
            | Work::Convolution(_)
            | Work::TransposedConvolution(_)
            | Work::Product { .. }
            | Work::Linear { .. }
            | Work::Recurrent { .. }
            | Work::Attention(_)
            | Work::LinearAttention(_)
            | Work::Einsum(_)
            | Work::EmbeddingNorm
            | Work::SkipNorm { .. }
            | Work::GroupNorm { .. }
            | Work::Choice
            | Work::List(_)
            | Work::Loop(_)
            | Work::Reshape(_)
            | Work::Transpose
            | Work::Slice(_)
            | Work::Split { .. }
            | Work::BlockRearrangement { .. }
            | Work::Shape { .. }
            | Work::Size
            | Work::Unknown(_) => None,
        })
    }

    /// A result with `extents`, and with its values if they can be folded.
    fn with_numbers(&self, node: &SourceNode, extents: Vec<u32>) -> Conversion<Constant> {
        if self.folded > MAX_FOLDED {
            return Ok(Constant::of_extents(extents));
        }
        let constant = |operand: usize| self.constant(node, operand);
        let at = |operand: usize, place: &[usize]| constant(operand)?.at(place);
        if let Work::Arithmetic(arithmetic) = node.work {
            let given = (0..node.reads.len()).filter(|&operand| node.reads[operand].is_some());
            return Ok(fold::calculated(arithmetic, extents, &given.map(constant).collect::<Vec<_>>()));
        }
        if let (&Work::Gather { axis }, Some(from), Some(places)) = (&node.work, constant(0), constant(1)) {
            return fold::gathered(from, places, axis);
        }
        if let (
            &Work::Generic { extents: Extents::Counted { axis: along, is_new: true }, .. },
            Some(places),
            Some(values),
        ) = (&node.work, constant(0), constant(2))
        {
            let along = axis(along, extents.len())?;
            return Ok(fold::one_hot(extents, along, places, values));
        }
        if let (Work::Reduce { reduction, .. }, 1) = (&node.work, elements(&extents)) {
            let all = constant(0).and_then(|constant| constant.numbers.as_ref());
            let numbers = all.map(|numbers| vec![fold::reduction(*reduction, numbers)]);
            return Ok(Constant { extents, numbers });
        }
        Ok(Constant::built(extents, |place| {
            if node.work == Work::Function(Elemental::Clip) {
                self.clipped(node, place)
            } else if let Work::Function(elemental) = node.work {
                fold::function(elemental, at(0, place)?)
            } else if let Work::ConstantOfShape(number) = node.work {
                Some(number)
            } else if node.work == Work::Where {
                at(if at(0, place)? == 0.0 { 2 } else { 1 }, place)
            } else if node.work == Work::Range {
                Some(self.number(node, 0)? + place[0] as f64 * self.number(node, 2)?)
            } else if node.work == Work::Expand {
                at(0, place)
            } else {
                None
            }
        }))
    }

    /// The value of a clip with limits in operands 1 and 2; an absent operand is no limit. `None` without operands.
    fn clipped(&self, node: &SourceNode, place: &[usize]) -> Option<f64> {
        let at = |operand: usize| self.constant(node, operand)?.at(place);
        let limit = |operand: usize, usual: f64| match node.operand(operand) {
            Some(_) => at(operand),
            None => Some(usual),
        };
        // TensorFlow Lite's variants have fixed limits and no operands for them.
        let has_limits = node.operand(1).is_some() || node.operand(2).is_some();
        let number = at(0)?.max(limit(1, f64::MIN)?).min(limit(2, f64::MAX)?);
        has_limits.then_some(number)
    }

    /// The broadcast extents of all operands.
    fn broadcast(&self, node: &SourceNode) -> Conversion<Vec<u32>> {
        let mut given = (0..node.reads.len()).filter(|&operand| node.reads[operand].is_some());
        given.try_fold(Vec::new(), |extents, operand| broadcast(&extents, &self.extents_read(node, operand)?))
    }

    /// Whether the values of an operand are known, or it is absent.
    fn is_known(&self, node: &SourceNode, operand: usize) -> bool {
        node.operand(operand).is_none()
            || self.constant(node, operand).is_some_and(|constant| constant.numbers.is_some())
    }

    fn by_rule(&self, node: &SourceNode, rule: &Extents) -> Conversion<Option<Vec<u32>>> {
        let read = |operand: usize| self.extents_read(node, operand);
        Ok(match *rule {
            Extents::Like(operand) => Some(read(operand)?),
            Extents::Quantised | Extents::Chosen { axis: Some(_) } => Some(read(0)?),
            Extents::Broadcast => Some(self.broadcast(node)?),
            Extents::Reduced { axis: along, keep } => {
                let from = read(0)?;
                Some(reduced(&from, &[axis(along, from.len())?], keep))
            }
            Extents::Matrices => match &read(0)?[..] {
                [outer @ .., _, _] => Some(outer.to_vec()),
                _ => return unsound("something that is not a matrix"),
            },
            Extents::Picked => {
                let (mut extents, count) = (read(0)?, as_extent(elements(&read(1)?)));
                extents.pop();
                let outer = if extents.is_empty() { vec![1] } else { extents };
                Some([outer, vec![count]].concat())
            }
            Extents::Counted { axis: along, is_new } => {
                let mut extents = read(0)?;
                let along = axis(along, extents.len() + usize::from(is_new))?;
                self.number(node, 1).map(|count| {
                    extents.splice(along..along + usize::from(!is_new), [as_extent(count as i64)]);
                    extents
                })
            }
            Extents::Places { shared } => {
                let (from, mut extents) = (read(0)?, read(1)?);
                let depth = extents.pop().map_or(0, |depth| depth as usize).saturating_add(shared);
                let Some(inner) = from.get(depth..) else {
                    return unsound("indices into more axes than there are");
                };
                extents.extend(inner);
                Some(extents)
            }
            Extents::Rows { numbers, has_kinds: _ } => Some(vec![rows(&read(0)?), numbers]),
            Extents::Spectrum(ref spectrum) => self.spectrum(node, spectrum)?,
            Extents::Grid => Some(sampled(&read(0)?, &read(1)?)?),
            Extents::Regions { height, width } => Some(regions(&read(0)?, &read(1)?, [height, width])?),
            Extents::NonZero => {
                let from = read(0)?;
                Some(vec![as_extent(from.len() as u64), as_extent(elements(&from))])
            }
            Extents::Chosen { axis: None } => Some(vec![as_extent(elements(&read(0)?))]),
            Extents::Boxes => Some(self.boxes(node)?),
            Extents::Blocks { to_batch } => self.dealt(node, to_batch)?,
            Extents::Said => None,
        })
    }

    /// Extents of a Fourier transform; `None` where the number of points is unknown.
    fn spectrum(&self, node: &SourceNode, spectrum: &Spectrum) -> Conversion<Option<Vec<u32>>> {
        let mut extents = self.extents_read(node, 0)?;
        let rank = extents.len();
        let numbers = |operand: usize| self.constant(node, operand).and_then(Constant::integers);
        let first = |operand: usize| self.number(node, operand).map(|number| as_extent(number as i64));
        let frequencies = |points: u32, is_half: bool| if is_half { points / 2 + 1 } else { points };
        if !self.is_known(node, 1) {
            return Ok(None);
        }
        match *spectrum {
            Spectrum::Whole { axis: usual, is_half } => {
                // In later opsets the axis is an operand.
                let along = axis(self.number(node, 2).map_or(usual, |along| along as i64), rank)?;
                extents[along] = frequencies(first(1).unwrap_or(extents[along]), is_half);
                extents[rank - 1] = 2;
            }
            Spectrum::Windows { is_half } => {
                let window = self.value(node, 2).and_then(|window| window.extents().first().copied());
                let (Some(step), Some(length)) = (first(1), first(3).or(window)) else { return Ok(None) };
                let (&[batch, points], true) = (&extents[..rank.min(2)], step > 0) else {
                    return unsound("windows over something that is not a signal");
                };
                let Some(remaining) = points.checked_sub(length) else {
                    return unsound(format!("windows of {length} points over {points}"));
                };
                extents = vec![batch, (remaining / step).saturating_add(1), frequencies(length, is_half), 2];
            }
            Spectrum::Plane => {
                let (Some([height, width]), true) =
                    (numbers(1).as_deref().and_then(<[i64]>::first_chunk).copied(), rank > 1)
                else {
                    return Ok(None);
                };
                extents[rank - 2] = as_extent(height);
                extents[rank - 1] = frequencies(as_extent(width), true);
            }
        }
        Ok(Some(extents))
    }

    /// Extents after the pixels of each block are dealt to as many images, or put together again; `None` where blocks
    /// or padding are unknown.
    fn dealt(&self, node: &SourceNode, to_batch: bool) -> Conversion<Option<Vec<u32>>> {
        let mut extents = self.extents_read(node, 0)?;
        let numbers = |operand: usize| self.constant(node, operand).and_then(Constant::integers);
        let (Some(block), Some(around)) = (numbers(1), numbers(2)) else { return Ok(None) };
        let is_sound = block.iter().all(|&side| side > 0)
            && around.len() == 2 * block.len()
            && extents.len() > block.len();
        if !is_sound {
            return unsound("blocks of other axes than its input has");
        }
        for (axis, (&side, around)) in (1..).zip(block.iter().zip(around.chunks(2))) {
            let (extent, images) = (i64::from(extents[axis]), i64::from(extents[0]));
            let around = around.iter().copied().fold(0, i64::saturating_add);
            let dealt = if to_batch {
                [images.saturating_mul(side), extent.saturating_add(around) / side]
            } else {
                [images / side, extent.saturating_mul(side).saturating_sub(around)]
            };
            [extents[0], extents[axis]] = dealt.map(as_extent);
        }
        Ok(Some(extents))
    }

    /// Upper bound of the result of non-maximum suppression: batch, class and index per box.
    fn boxes(&self, node: &SourceNode) -> Conversion<Vec<u32>> {
        let (boxes, scores) = (self.extents_read(node, 0)?, self.extents_read(node, 1)?);
        let (&[_, count, _], &[batch, kinds, _]) = (&boxes[..], &scores[..]) else {
            return unsound("boxes or scores of the wrong rank");
        };
        let most = self.number(node, 2).map_or(count, |most| as_extent(most as i64));
        let all = u64::from(batch) * u64::from(kinds);
        Ok(vec![as_extent(all.saturating_mul(u64::from(count.min(most)))), 3])
    }

    /// Extents after padding or cropping; `None` where the axes are unknown.
    fn padded(&self, node: &SourceNode) -> Conversion<Option<Vec<u32>>> {
        let mut extents = self.extents_read(node, 0)?;
        let rank = extents.len();
        let axes: Option<Vec<usize>> = match self.constant(node, 3).map(Constant::integers) {
            None => Some((0..rank).collect()),
            Some(Some(axes)) => Some(axes.into_iter().map(|one| axis(one, rank)).collect::<Conversion<_>>()?),
            Some(None) => None,
        };
        let Some(axes) = axes else { return Ok(None) };
        let Some(around) = self.around(node, axes.len())? else { return Ok(None) };
        for (along, [before, after]) in axes.into_iter().zip(around) {
            let around = before.saturating_add(after);
            extents[along] = as_extent(i64::from(extents[along]).saturating_add(around));
        }
        Ok(Some(extents))
    }
}

/// Extents after tiling.
fn tiled(extents: &[u32], copies: &[u32]) -> Vec<u32> {
    extents.iter().zip(copies).map(|(one, &copies)| one.saturating_mul(copies)).collect()
}

/// Number of rows of a matrix; a vector is one row.
fn rows(extents: &[u32]) -> u32 {
    if extents.len() > 1 { extents[0] } else { 1 }
}

/// Extents after grid sampling: batch and channels of the image, pixels of the grid.
fn sampled(image: &[u32], grid: &[u32]) -> Conversion<Vec<u32>> {
    match (image.get(..2), grid) {
        (Some(outer), [_, inner @ .., _]) => Ok([outer, inner].concat()),
        _ => unsound("a grid over something that is not an image"),
    }
}

/// Extents after region pooling: regions, channels of the image, height, width.
fn regions(image: &[u32], regions: &[u32], [height, width]: [u32; 2]) -> Conversion<Vec<u32>> {
    match (image, regions) {
        (&[_, channels, ..], &[count, ..]) => Ok(vec![count, channels, height, width]),
        _ => unsound("regions of something that is not an image"),
    }
}
