//! Operators without a kernel of their own.
//!
//! Responsible for: the elements that such an operator visits and moves, from which every kernel
//! model prices it. Not for: the function that it computes, on which no time depends: hardware
//! executes sums of the elements that it visits in its place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BatchOf, Checked, Class, Definition, Operator, UNKNOWN, bounds, is_one, one};
use crate::workload::Shape;

/// How an operator without a kernel of its own accesses elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum GenericKind {
    /// Computes each element of the output from a few of the inputs (a comparison, a mask, a rotation).
    Elementwise,
    /// Visits every element of the inputs (sums, running sums, statistics).
    Reduction,
    /// Moves elements to other places.
    Movement,
    /// Reads the first input at positions that the other inputs contain, or that it computes.
    Gather,
    /// A Fourier transform, in as many passes over all elements.
    Transform,
    /// Searches the inputs, on one thread (a sort, the largest elements, overlapping boxes).
    Search,
}

/// An operator priced by the elements that it visits and moves: `{ kind, output, passes }`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generic {
    /// How it accesses elements.
    pub kind: GenericKind,
    /// Extents of its inputs.
    #[serde(skip)]
    pub inputs: Vec<Shape>,
    /// Output extent, `[batch, height, width, channels]`.
    pub output: Shape,
    /// Number of passes over its elements.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub passes: u32,
}

impl GenericKind {
    /// Whether it moves elements unchanged.
    pub fn moves(self) -> bool {
        matches!(self, Self::Movement | Self::Gather)
    }
}

impl Generic {
    /// Elements that it visits, over all passes.
    pub fn visited(&self) -> u64 {
        let read = self.inputs.iter().fold(0_u64, |sum, input| sum.saturating_add(input.elements()));
        let output = self.output.elements();
        let once = match self.kind {
            GenericKind::Elementwise | GenericKind::Movement | GenericKind::Gather => output,
            GenericKind::Reduction | GenericKind::Transform | GenericKind::Search => read.max(output),
        };
        once.saturating_mul(u64::from(self.passes))
    }

    /// Elements that it reads and writes, each once; of the first input of a gather or movement, at
    /// most as many as the output has.
    pub fn moved(&self) -> u64 {
        self.moved_as(Shape::elements)
    }

    /// Elements of input `index` whose sum, over all inputs and passes, hardware computes as element `element` of
    /// the output: one, or where the input is larger and not only moved, its share of all.
    pub fn summed(&self, index: usize, element: u64) -> impl Iterator<Item = u64> {
        let (all, step) = (self.inputs.get(index).map_or(0, Shape::elements), self.step(index));
        let first = if step == all { element % all.max(1) } else { element };
        (first..all).step_by(step.max(1) as usize)
    }

    /// The distance between the elements of [`Self::summed`]: the output's elements, or those of the input if one is
    /// read.
    pub fn step(&self, index: usize) -> u64 {
        let (all, output) = (self.inputs.get(index).map_or(0, Shape::elements), self.output.elements());
        if all <= output || (self.kind.moves() && index == 0) { all } else { output }
    }

    /// As [`Self::moved`], in units of `size` of a tensor.
    pub fn moved_as(&self, size: impl Fn(&Shape) -> u64) -> u64 {
        let output = size(&self.output);
        let read = |(index, input): (usize, &Shape)| {
            if self.kind.moves() && index == 0 { size(input).min(output) } else { size(input) }
        };
        self.inputs.iter().enumerate().map(read).fold(output, u64::saturating_add)
    }
}

impl Definition for Generic {
    fn special_name(&self) -> Option<&'static str> {
        Some(match self.kind {
            GenericKind::Elementwise => "generic element-wise",
            GenericKind::Reduction => "generic reduction",
            GenericKind::Movement => "generic movement",
            GenericKind::Gather => "generic gather",
            GenericKind::Transform => "fourier transform",
            GenericKind::Search => "generic search",
        })
    }

    fn class(&self) -> Class<'_> {
        Class::Generic(self)
    }

    fn check(&self) -> Checked {
        bounds::dimension("passes", self.passes)?;
        // At least one tensor.
        bounds::shape("the input", self.extent())?;
        for &shape in self.inputs.iter().chain([&self.output]) {
            bounds::shape("a tensor", shape)?;
            let Shape { batch, height, width, channels } = shape;
            bounds::work(&[batch, height, width, channels, self.passes])?;
        }
        Ok(())
    }

    fn extent(&self) -> Shape {
        self.inputs.first().copied().unwrap_or(UNKNOWN)
    }

    fn input(&self, index: usize) -> Option<Shape> {
        self.inputs.get(index).copied()
    }

    fn output(&self) -> Shape {
        self.output
    }

    fn takes_functions(&self) -> bool {
        false
    }

    fn over(&self, extent: Shape) -> Operator {
        let mut generic = self.clone();
        if let Some(first) = generic.inputs.first_mut() {
            *first = extent;
        }
        generic.into()
    }

    fn reading(&self, given: &[Shape]) -> Operator {
        Self { inputs: given.to_vec(), ..*self }.into()
    }

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        let output = self.output.repeated(batch.count);
        Some(Self { inputs: batch.given.to_vec(), output, ..*self }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: GenericKind, passes: u32) -> Generic {
        let inputs = vec![Shape::tokens(1_000, 8), Shape::tokens(1, 3)];
        Generic { kind, inputs, output: Shape::tokens(3, 8), passes }
    }

    #[test]
    fn a_gather_reads_of_a_table_what_it_writes_and_a_search_reads_all() {
        assert_eq!(of(GenericKind::Gather, 1).moved(), 24 + 24 + 3);
        assert_eq!(of(GenericKind::Gather, 2).visited(), 48);
        assert_eq!(of(GenericKind::Search, 1).moved(), 24 + 8_000 + 3);
        assert_eq!(of(GenericKind::Search, 2).visited(), 2 * 8_003);
    }

    #[test]
    fn it_reads_at_least_one_tensor() {
        let nothing = Generic { inputs: Vec::new(), ..of(GenericKind::Gather, 1) };
        assert!(nothing.check().is_err());
        assert_eq!(of(GenericKind::Gather, 1).check(), Ok(()));
    }
}
