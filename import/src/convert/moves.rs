//! What a framework really moves: transposes, and other extents of the same elements.
//!
//! Responsible for: putting the axes of a tensor in another order in memory by as few operators
//! as do it. Not for: deciding that they must be (readers, and transposes of the file).

use super::{Converter, Step};
use crate::view::View;
use coexec_sim::workload::{Dimension, Reshape, Shape, Source, Transpose};

/// Axes that stay together in a move, with their elements.
type Group = (Vec<usize>, u32);

impl Converter<'_> {
    /// `view` with its axes in that order in memory, under that extent of the graph.
    pub(super) fn arranged(&mut self, view: &View, order: &[usize], shape: Shape) -> Step<Source> {
        if view.shape == shape && view.order.as_deref() == Some(order) {
            return Ok(view.source);
        }
        if let Source::Input(index) = view.source
            && self.stored.contains(&view.source)
        {
            // A constant is stored as it is needed.
            let name = self.out.inputs[index as usize].name.clone();
            return Ok(self.stored_input(&name, shape));
        }
        let key =
            view.order.clone().map(|from| (view.source, view.extents.clone(), from, order.to_vec(), shape));
        if let Some(&source) = key.as_ref().and_then(|key| self.moved.get(key)) {
            return Ok(source);
        }
        let turned = match &view.order {
            Some(from) if from != order => self.turned(view, from, order, shape)?,
            Some(_) | None => None,
        };
        let source = self.reshaped(turned.unwrap_or(view.source), shape)?;
        if let Some(key) = key {
            self.moved.insert(key, source);
        }
        Ok(source)
    }

    /// The tensor from `source` under another extent.
    fn reshaped(&mut self, source: Source, shape: Shape) -> Step<Source> {
        let input = self.shape(source);
        if input == shape {
            return Ok(source);
        }
        self.emit(self.suffix(".reshape"), Reshape { input, output: shape }, &[source])
    }

    /// What tells a move from the operator of the node at work; nothing where that is the move.
    pub(super) fn suffix(&self, suffix: &'static str) -> &'static str {
        let is_move = self.at.kind.eq_ignore_ascii_case(suffix.trim_start_matches('.'));
        if is_move { "" } else { suffix }
    }

    /// `view`, whose axes lie in the order `from`, with those in the order `to`; none where
    /// more than four groups of axes move, which no framework does in one kernel.
    fn turned(&mut self, view: &View, from: &[usize], to: &[usize], shape: Shape) -> Step<Option<Source>> {
        let each: Vec<Group> = from.iter().map(|&axis| (vec![axis], view.extents[axis])).collect();
        let together = groups(view, from, to);
        // Axes on their own where that spares a reshape, else as few as there may be.
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

/// Runs of axes that follow one another in both orders.
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

/// The groups as `order` has their axes.
fn in_order<'a>(groups: &'a [Group], order: &[usize]) -> Vec<&'a Group> {
    let mut sorted: Vec<&Group> = groups.iter().collect();
    sorted.sort_by_key(|group| order.iter().position(|axis| group.0.first() == Some(axis)));
    sorted
}

/// The dimensions of `shape` that the groups are, where it has no others.
fn placed(groups: &[&Group], shape: Shape) -> Option<Vec<Dimension>> {
    let wide: Vec<Dimension> =
        Dimension::ALL.into_iter().filter(|&dimension| shape.along(dimension) != 1).collect();
    let fits = wide.len() == groups.len()
        && wide.iter().zip(groups).all(|(&dimension, group)| shape.along(dimension) == group.1);
    fits.then_some(wide)
}

/// So many of the innermost dimensions.
fn innermost(count: usize) -> Vec<Dimension> {
    Dimension::ALL[Dimension::ALL.len().saturating_sub(count)..].to_vec()
}

/// The order of a transpose from groups in some dimensions to the same in others; what is left
/// of both are extents of one element.
fn permutation([input, output]: [&[&Group]; 2], [from, to]: [&[Dimension]; 2]) -> [Dimension; 4] {
    let mut unused = Dimension::ALL.into_iter().filter(|dimension| !from.contains(dimension));
    Dimension::ALL.map(|dimension| {
        let group = to.iter().position(|&other| other == dimension).map(|index| output[index]);
        let read = group.and_then(|group| input.iter().position(|&other| other == group));
        read.and_then(|index| from.get(index).copied()).or_else(|| unused.next()).unwrap_or(dimension)
    })
}
