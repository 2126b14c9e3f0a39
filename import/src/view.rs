//! Views: tensors of the graph under the extents that a model file gives them.
//!
//! Responsible for: tracking reshapes and transposes of a file without moving
//! elements. Not for: copies that become necessary in the end.
//! Invariant: [`View::order`] lists every axis of more than one element exactly once,
//! outermost in memory first. `None` means that no permutation of the axes describes
//! the memory layout, so that a copy is needed.

use std::ops::Range;

use super::model::elements;
use coexec_sim::workload::{Padding, Shape, Source};

/// A tensor of the graph as the file sees it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    /// The node or input that it comes from.
    pub(super) source: Source,
    /// Its shape in the graph.
    pub(super) shape: Shape,
    /// Extents in the file's axis order.
    pub(super) extents: Vec<u32>,
    /// Axes of more than one element, outermost in memory first.
    pub(super) order: Option<Vec<usize>>,
    /// Zero padding around the image that is not materialised; a window may absorb it.
    pub(super) padding: Padding,
}

impl View {
    /// Extents including the padding of the image, whose height and width are the given axes.
    pub(super) fn padded_extents(&self, [height, width]: [usize; 2]) -> Vec<u32> {
        let mut extents = self.extents.clone();
        if let Some(extent) = extents.get_mut(height) {
            *extent = extent.saturating_add(self.padding.top + self.padding.bottom);
        }
        if let Some(extent) = extents.get_mut(width) {
            *extent = extent.saturating_add(self.padding.left + self.padding.right);
        }
        extents
    }

    /// The transposed view; `permutation` has each axis once.
    pub(super) fn transposed(&self, permutation: &[usize]) -> Self {
        let mut inverse = vec![0; permutation.len()];
        for (new, &old) in permutation.iter().enumerate() {
            inverse[old] = new;
        }
        Self {
            extents: permutation.iter().map(|&axis| self.extents[axis]).collect(),
            order: self.order.as_ref().map(|order| order.iter().map(|&axis| inverse[axis]).collect()),
            ..self.clone()
        }
    }

    /// The view reshaped to `extents`, which have the same number of elements.
    pub(super) fn reshaped(&self, extents: Vec<u32>) -> Self {
        let order = self.order.as_ref().and_then(|order| order_after(&self.extents, order, &extents));
        Self { extents, order, ..self.clone() }
    }

    /// The view with leading axes of one element, up to `rank` axes.
    pub(super) fn aligned(&self, rank: usize) -> Self {
        let before = rank.saturating_sub(self.extents.len());
        self.reshaped([vec![1; before], self.extents.clone()].concat())
    }

    /// Axes of more than one element, in the file's order.
    pub(super) fn file_order(&self) -> Vec<usize> {
        wide_axes(&self.extents)
    }
}

/// Axes of more than one element.
pub(super) fn wide_axes(extents: &[u32]) -> Vec<usize> {
    wide(extents, (0..extents.len()).collect())
}

/// The `axes` that have more than one element.
pub(super) fn wide(extents: &[u32], mut axes: Vec<usize>) -> Vec<usize> {
    axes.retain(|&axis| extents[axis] != 1);
    axes
}

/// The memory order of the axes after a reshape. `None` unless each group of old axes that
/// becomes a group of new ones is contiguous in memory, in the file's order.
fn order_after(old: &[u32], order: &[usize], new: &[u32]) -> Option<Vec<usize>> {
    let mut position = vec![0; old.len()];
    for (index, &axis) in order.iter().enumerate() {
        position[axis] = index;
    }
    let (old_axes, new_axes) = (wide_axes(old), wide_axes(new));
    let mut groups: Vec<(usize, &[usize])> = Vec::new();
    for [from, to] in matching(&along(old, &old_axes), &along(new, &new_axes))? {
        let group = &old_axes[from];
        if !group.windows(2).all(|pair| position[pair[1]] == position[pair[0]] + 1) {
            return None;
        }
        groups.push((position[*group.first()?], &new_axes[to]));
    }
    groups.sort_by_key(|&(position, _)| position);
    Some(groups.into_iter().flat_map(|(_, axes)| axes).copied().collect())
}

/// The extents of these axes.
pub(super) fn along(extents: &[u32], axes: &[usize]) -> Vec<u32> {
    axes.iter().map(|&axis| extents[axis]).collect()
}

/// The smallest groups of consecutive extents that have as many elements in both lists, in order, as ranges of indices
/// into each. `None` unless both have the same number of elements, of at most 64 bits.
pub(super) fn matching(left: &[u32], right: &[u32]) -> Option<Vec<[Range<usize>; 2]>> {
    let mut groups = Vec::new();
    let (mut from, mut to) = (0, 0);
    while from < left.len() || to < right.len() {
        let [first_left, first_right] = [from, to];
        let (mut in_left, mut in_right) = (1_u64, 1_u64);
        loop {
            if in_left <= in_right && from < left.len() {
                in_left = in_left.checked_mul(u64::from(left[from]))?;
                from += 1;
            } else {
                in_right = in_right.checked_mul(u64::from(*right.get(to)?))?;
                to += 1;
            }
            if in_left == in_right {
                break;
            }
        }
        groups.push([first_left..from, first_right..to]);
    }
    Some(groups)
}

/// The shape of a tensor with the extents `memory`, outermost first: a matrix of tokens, a
/// batch of such, or images. `None` if the batch overflows.
pub(super) fn natural_shape(memory: &[u32]) -> Option<Shape> {
    Some(match *memory {
        [] => Shape::tokens(1, 1),
        [channels] => Shape::tokens(1, channels),
        [rows, channels] => Shape::tokens(rows, channels),
        [batch, rows, channels] => Shape { batch, height: 1, width: rows, channels },
        [ref outer @ .., height, width, channels] => {
            Shape { batch: u32::try_from(elements(outer)).ok()?, height, width, channels }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(extents: &[u32], order: &[usize]) -> View {
        View {
            source: Source::Input(0),
            shape: Shape::tokens(1, 1),
            extents: extents.to_vec(),
            order: Some(order.to_vec()),
            padding: Padding::NONE,
        }
    }

    #[test]
    fn an_image_with_channels_first_becomes_tokens_without_moving() {
        // 1x768x7x7 as 1x768x49, then transposed to 1x49x768: what a vision transformer does.
        let image = view(&[1, 768, 7, 7], &[2, 3, 1]);
        let tokens = image.reshaped(vec![1, 768, 49]).transposed(&[0, 2, 1]);
        assert_eq!(tokens.extents, [1, 49, 768]);
        assert_eq!(tokens.order, Some(vec![1, 2]));
    }

    #[test]
    fn flattening_an_image_with_channels_first_moves_its_elements() {
        let image = view(&[1, 512, 7, 7], &[2, 3, 1]);
        assert_eq!(image.reshaped(vec![1, 25_088]).order, None);
        let pixel = view(&[1, 512, 1, 1], &[1]);
        assert_eq!(pixel.reshaped(vec![1, 512]).order, Some(vec![1]));
    }

    #[test]
    fn heads_are_split_from_features_without_moving() {
        let tokens = view(&[1, 50, 768], &[1, 2]);
        let heads = tokens.reshaped(vec![1, 50, 12, 64]).transposed(&[0, 2, 1, 3]);
        assert_eq!(heads.order, Some(vec![2, 1, 3]));
        assert_eq!(heads.reshaped(vec![12, 50, 64]).order, Some(vec![1, 0, 2]));
        assert_eq!(
            heads.reshaped(vec![600, 64]).order,
            None,
            "heads and tokens are not in that order in memory"
        );
    }
}
