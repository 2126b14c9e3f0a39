//! Lowering of layers to the compiler's operators, and the tensors between them.
//!
//! A layer is an operator with linked functions. A clamp (`relu`) after most kernels fuses and costs
//! nothing ([`Kernel::applies_bounds`]); an addition, a gate or a nonlinear function is a separate
//! operator. A reshape that does not move elements is not an operator.

use std::collections::{HashMap, HashSet};

use super::work::Work;
use super::{Kernel, Member, Producer, work};
use crate::kernel::Result;
use crate::workload::{Elementwise, Function, GenericKind, Operator, Shape};

/// An operator of a graph.
#[derive(Clone, Debug)]
pub(super) struct CompiledOperator {
    pub(super) work: Work,
    /// Tensors that it reads, without duplicates.
    pub(super) inputs: Vec<usize>,
    /// The tensor that it writes.
    pub(super) output: usize,
    /// The member of the graph that it belongs to.
    pub(super) member: usize,
}

/// The operators of a graph, in order, and its tensors.
#[derive(Clone, Debug, Default)]
pub(super) struct Operators {
    pub(super) all: Vec<CompiledOperator>,
    /// Stored elements of each tensor, including padding; for attention scores, those of one head.
    pub(super) sizes: Vec<f64>,
    /// Whether a tensor comes from outside the graph.
    pub(super) is_outside: Vec<bool>,
    /// Shapes of the network inputs counted so far; layers cannot distinguish two inputs of one shape.
    counted_images: HashSet<Shape>,
}

/// Tensor of each producer seen so far.
#[derive(Default)]
struct Results {
    of_members: Vec<usize>,
    of_others: HashMap<usize, usize>,
}

impl Operators {
    pub(super) fn of(members: &[Member<'_>]) -> Result<Self> {
        let mut operators = Self { all: Vec::with_capacity(members.len()), ..Self::default() };
        let mut results = Results { of_members: Vec::with_capacity(members.len()), ..Results::default() };
        let is_free = feeds_volumes(members);
        for (index, member) in members.iter().enumerate() {
            let result = operators.add((index, member), is_free[index], &mut results)?;
            results.of_members.push(result);
        }
        operators.count_results(members);
        operators.leave_one_head();
        Ok(operators)
    }

    fn tensor(&mut self, size: f64, is_outside: bool) -> usize {
        self.sizes.push(size);
        self.is_outside.push(is_outside);
        self.sizes.len() - 1
    }

    /// Adds the operators of a member; returns the tensor that is its result.
    fn add(
        &mut self,
        (index, member): (usize, &Member<'_>),
        is_free: bool,
        results: &mut Results,
    ) -> Result<usize> {
        let Member { layer, reads, input_count } = member;
        let output = layer.operator.output();
        let linked_operands = layer.linked.of_two_operands() as usize;
        let operands = input_count.saturating_sub(linked_operands);
        let own = reads.partition_point(|&(position, _)| position < operands);
        let mut read = Vec::with_capacity(own + 1);
        let mut missing = work::stored_inputs(layer);
        for &(_, producer) in &reads[..own] {
            let tensor = self.of_producer(producer, output, results);
            missing -= self.sizes[tensor];
            read.push(tensor);
        }
        // What linked functions read of the network's inputs and of constants is small, and not counted.
        let reads_network_input = own < operands;
        if reads_network_input && missing > 0.0 {
            read.push(self.tensor(missing, true));
        }
        let mut work = Work::of(layer, reads_network_input)?;
        if let Some(image) = layer.operator.input(0).filter(|_| reads_network_input)
            && self.counted_images.insert(image)
        {
            work.count_image(image);
        }
        if is_free {
            work.kernel = Kernel::Free;
        }
        let mut after = work.kernel;
        let mut is_normalised = after == Kernel::ImageNormalisation;
        let mut result = self.push(index, work, read, work::stored(output));
        let mut position = operands;
        for &function in layer.linked.functions() {
            let mut read = vec![result];
            if function.is_binary() {
                let other = reads.iter().find(|read| read.0 == position);
                read.extend(other.map(|&(_, producer)| self.of_producer(producer, output, results)));
                position += 1;
            }
            let stored = read.iter().map(|&tensor| self.sizes[tensor]).sum();
            let mut work = Work::of_function(function, output, stored, after);
            // Mean and deviation are counted, and nothing after them.
            if std::mem::take(&mut is_normalised) && work.kernel == Kernel::Elementwise {
                work.kernel = Kernel::ImageNormalisation;
            }
            if work.kernel != Kernel::Free {
                after = work.kernel;
            }
            result = self.push(index, work, read, work::stored(output));
        }
        Ok(result)
    }

    /// Adds an operator and returns the tensor that it writes; for [`Kernel::Free`], its input.
    fn push(&mut self, member: usize, work: Work, mut inputs: Vec<usize>, stored: f64) -> usize {
        if let (Kernel::Free, Some(&input)) = (work.kernel, inputs.first()) {
            return input;
        }
        for place in (1..inputs.len()).rev() {
            if inputs[..place].contains(&inputs[place]) {
                inputs.remove(place);
            }
        }
        let output = self.tensor(stored, false);
        self.all.push(CompiledOperator { work, inputs, output, member });
        output
    }

    /// The tensor of `producer`; one from outside the graph is assumed to have the shape `extent`.
    fn of_producer(&mut self, producer: Producer, extent: Shape, results: &mut Results) -> usize {
        match producer {
            Producer::Member(member) => results.of_members[member],
            Producer::Outside(outside) => {
                *results.of_others.entry(outside).or_insert_with(|| self.tensor(work::stored(extent), true))
            }
        }
    }

    /// Counts the images that the graph returns.
    fn count_results(&mut self, members: &[Member<'_>]) {
        let mut is_read = vec![false; members.len()];
        for (_, producer) in members.iter().flat_map(|member| &member.reads) {
            if let Producer::Member(member) = producer {
                is_read[*member] = true;
            }
        }
        for (index, member) in members.iter().enumerate().filter(|&(index, _)| !is_read[index]) {
            let own = self.all.iter_mut().rev().find(|operator| operator.member == index);
            if let Some(operator) = own {
                operator.work.count_image(member.layer.operator.output());
            }
        }
    }

    /// Limits tensors between attention operators to one head's part: heads and windows run in
    /// sequence, so only one is on chip at a time.
    fn leave_one_head(&mut self) {
        let mut between = vec![true; self.sizes.len()];
        let mut is_read = vec![false; self.sizes.len()];
        for operator in &self.all {
            for &input in &operator.inputs {
                is_read[input] = true;
                between[input] &= operator.work.kernel.runs_by_head();
            }
        }
        for operator in &self.all {
            if between[operator.output] && is_read[operator.output] {
                self.sizes[operator.output] /= operator.work.slices;
            }
        }
    }
}

/// For each member, whether it is a data movement read only by 3-D convolutions: it arranges slices for
/// processors with 2-D convolutions only, and is free here.
fn feeds_volumes(members: &[Member<'_>]) -> Vec<bool> {
    let (mut is_read, mut by_others) = (vec![false; members.len()], vec![false; members.len()]);
    for member in members {
        let is_volume = matches!(&member.layer.operator, Operator::Conv2d(conv) if conv.slices.is_some());
        for (_, producer) in &member.reads {
            if let Producer::Member(read) = producer {
                is_read[*read] = true;
                by_others[*read] |= !is_volume;
            }
        }
    }
    let moves = |member: &Member<'_>| {
        let generic =
            if let Operator::Generic(generic) = &member.layer.operator { Some(generic) } else { None };
        generic.is_some_and(|generic| generic.kind == GenericKind::Movement)
    };
    let is_free =
        |(index, member): (usize, &Member<'_>)| is_read[index] && !by_others[index] && moves(member);
    members.iter().enumerate().map(is_free).collect()
}

/// The kernel of a stand-alone function.
pub(super) fn kernel_of(elementwise: &Elementwise) -> Kernel {
    let Elementwise { function, other, .. } = elementwise;
    if *function == Function::Multiply && other.is_none() {
        // A multiplication without a second tensor is a batch norm.
        Kernel::BatchNorm
    } else if function.is_bound() || matches!(function, Function::Add | Function::Multiply) {
        Kernel::Elementwise
    } else {
        Kernel::Nonlinear
    }
}
