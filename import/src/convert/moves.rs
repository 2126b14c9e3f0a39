//! Copies that a framework really executes: transposes and reshapes.
//!
//! Responsible for: changing the memory order of a tensor's axes with as few operators as
//! possible. Not for: deciding when that is needed (readers, and transposes of the file).

use super::{Conversion, Converter};
use crate::view::View;
use coexec_sim::workload::{Dimension, Reshape, Shape, Source, Transpose};

/// Axes that stay adjacent in a transpose, with their number of elements.
type Group = (Vec<usize>, u32);

impl Converter<'_> {
    /// `view` copied, if necessary, to the memory order `order` and the graph's `shape`.
    pub(super) fn arranged(&mut self, view: &View, order: &[usize], shape: Shape) -> Conversion<Source> {
        if view.shape == shape && view.order.as_deref() == Some(order) {
            return Ok(view.source);
        }
        if let Source::Input(index) = view.source
            && self.stored.contains(&view.source)
        {
            // A constant is stored in whatever layout is needed.
            let name = self.out.inputs[index as usize].name.clone();
            return Ok(self.stored_input(&name, shape));
        }
        let key =
            view.order.clone().map(|from| (view.source, view.extents.clone(), from, order.to_vec(), shape));
        if let Some(&source) = key.as_ref().and_then(|key| self.moved.get(key)) {
            return Ok(source);
        }
        let rearranged = match &view.order {
            Some(from) if from != order => self.rearranged(view, from, order, shape)?,
            Some(_) | None => None,
        };
        let source = self.reshaped(rearranged.unwrap_or(view.source), shape)?;
        if let Some(key) = key {
            self.moved.insert(key, source);
        }
        Ok(source)
    }

    /// The tensor from `source` reshaped to `shape`.
    fn reshaped(&mut self, source: Source, shape: Shape) -> Conversion<Source> {
        let input = self.shape(source);
        if input == shape {
            return Ok(source);
        }
        self.emit(self.suffix(".reshape"), Reshape { input, output: shape }, &[source])
    }

    /// The suffix of a copy's name; empty if the current node is itself such a copy.
    pub(super) fn suffix(&self, suffix: &'static str) -> &'static str {
        let is_move = self.at.kind.eq_ignore_ascii_case(suffix.trim_start_matches('.'));
        if is_move { "" } else { suffix }
    }

    /// `view` transposed from memory order `from` to `to`; `None` for more than four groups of
    /// axes, which no framework transposes in one kernel.
    fn rearranged(
        &mut self,
        view: &View,
        from: &[usize],
        to: &[usize],
        shape: Shape,
    ) -> Conversion<Option<Source>> {
        let each: Vec<Group> = from.iter().map(|&axis| (vec![axis], view.extents[axis])).collect();
        let together = groups(view, from, to);
        // Keep axes separate if that saves a reshape; otherwise merge them into as few groups as possible.
        let reshapes = |groups: &[Group]| {
            let [input, output] = [from, to].map(|order| in_order(groups, order));
            let output = placed(&output, shape).is_none();
            u32::from(placed(&input, view.shape).is_none()) + u32::from(output)
        };
        let groups = match (each.len() <= 4, together.len() <= 4) {
            (true, _) if reshapes(&each) <= reshapes(&together) => each,
            (_, true) => together,
            (_, false) => return Ok(None),
        };
        let [input, output] = [from, to].map(|order| in_order(&groups, order));
        let from = placed(&input, view.shape).unwrap_or_else(|| innermost(input.len()));
        let to = placed(&output, shape).unwrap_or_else(|| innermost(output.len()));
        let mut read = Shape { batch: 1, height: 1, width: 1, channels: 1 };
        for (group, &dimension) in input.iter().zip(&from) {
            read = read.with(dimension, group.1);
        }
        let source = self.reshaped(view.source, read)?;
        let transpose =
            Transpose { input: read, ..Transpose::from(permutation([&input, &output], [&from, &to])) };
        self.emit(self.suffix(".transpose"), transpose, &[source]).map(Some)
    }
}

/// Maximal runs of axes that are consecutive in both orders.
fn groups(view: &View, from: &[usize], to: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for &axis in from {
        let follows = |group: &Group| {
            let last = group.0.last();
            to.windows(2).any(|pair| Some(&pair[0]) == last && pair[1] == axis)
        };
        match groups.last_mut().filter(|group| follows(group)) {
            Some(group) => {
                group.0.push(axis);
                group.1 = group.1.saturating_mul(view.extents[axis]);
            }
            None => groups.push((vec![axis], view.extents[axis])),
        }
    }
    groups
}

/// The groups sorted by the position of their axes in `order`.
fn in_order<'a>(groups: &'a [Group], order: &[usize]) -> Vec<&'a Group> {
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|group| order.iter().position(|axis| group.0.first() == Some(axis)));
    sorted
}

/// The dimensions of `shape` that the groups correspond to; `None` unless they are exactly its dimensions of more
/// than one element.
fn placed(groups: &[&Group], shape: Shape) -> Option<Vec<Dimension>> {
    let wide: Vec<Dimension> =
        Dimension::ALL.into_iter().filter(|&dimension| shape.along(dimension) != 1).collect();
    let fits = wide.len() == groups.len()
        && wide.iter().zip(groups).all(|(&dimension, group)| shape.along(dimension) == group.1);
    fits.then_some(wide)
}

/// The `count` innermost dimensions.
fn innermost(count: usize) -> Vec<Dimension> {
    Dimension::ALL[Dimension::ALL.len().saturating_sub(count)..].to_vec()
}

/// The permutation of a transpose that moves groups from the dimensions `from` to the dimensions `to`;
/// the other dimensions have one element.
fn permutation([input, output]: [&[&Group]; 2], [from, to]: [&[Dimension]; 2]) -> [Dimension; 4] {
    let mut unused = Dimension::ALL.into_iter().filter(|dimension| !from.contains(dimension));
    Dimension::ALL.map(|dimension| {
        let group = to.iter().position(|&other| other == dimension).map(|index| output[index]);
        let read = group.and_then(|group| input.iter().position(|&other| other == group));
        read.and_then(|index| from.get(index).copied()).or_else(|| unused.next()).unwrap_or(dimension)
    })
}
