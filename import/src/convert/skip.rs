//! Replacements for nodes without a counterpart.

use std::rc::Rc;

use super::{Conversion, Converter, Problem, Value};
use crate::model::{Operands, SourceNode, TensorId, as_extent, elements};
use crate::view::{View, wide_axes};
use coexec_sim::workload::{Function, Shape, Slice};

impl Converter<'_> {
    /// Replaces `node` by the closest operator: an element-wise function if the number of
    /// elements stays; a slice of the operand if the result is smaller; an input of the graph
    /// if it is larger or there is no operand.
    pub(super) fn skip(&mut self, node: &SourceNode) -> Conversion<()> {
        let before = [self.out.nodes.len(), self.out.inputs.len()];
        // The replacement reads the first computed operand; the network computes the others as well.
        let mut operand = None;
        for place in 0..node.reads.len() {
            if self.source(node, place).is_some() {
                let view = self.view(node, place)?;
                self.out.wanted.push(view.source);
                operand.get_or_insert(view);
            }
        }
        for index in 0..node.writes.len() {
            let Some(tensor) = node.result(index).filter(|&tensor| self.readers[tensor] > 0) else {
                continue;
            };
            let stated = self.model.tensors[tensor].static_extents();
            let extents = stated.or_else(|| operand.as_ref().map(|view| view.extents.clone()));
            let Some(extents) = extents else { return Err(Problem::Irreplaceable) };
            if self.model.tensors[tensor].static_extents().is_none() {
                self.out.is_guessed = true;
                self.guessed.insert(tensor, self.at.name.as_str().into());
            }
            Self::check_extents(&extents)?;
            let (view, instead) = self.placeholder(operand.as_ref(), extents)?;
            let shape = view.shape;
            self.write(node, index, view);
            self.out.skipped.push(self.at.replaced(format!("{instead}, {shape}")));
        }
        for &tensor in node.reads.iter().flatten() {
            if let Some(Value::Constant(constant)) = &self.values[tensor] {
                self.out.skipped_weights.insert(tensor, constant.elements());
            }
        }
        let inner = node.with_inner().into_iter().skip(1).map(|inner| inner.name.clone());
        self.out.following.extend(inner);
        self.uncover(before);
        Ok(())
    }

    /// Marks the operators and inputs from the given indices on as uncovered.
    fn uncover(&mut self, [node, input]: [usize; 2]) {
        let nodes = self.out.nodes[node..].iter().map(|node| &node.name);
        let inputs = self.out.inputs[input..].iter().map(|input| &input.name);
        self.out.uncovered.extend(nodes.chain(inputs).cloned());
    }

    /// The skipped node that extents of any of these tensors follow from.
    pub(super) fn guess_among(&self, tensors: &[Option<TensorId>]) -> Option<Rc<str>> {
        tensors.iter().flatten().find_map(|tensor| self.guessed.get(tensor)).cloned()
    }

    /// Records that the extents of these tensors follow from a skipped node.
    pub(super) fn follow_from(&mut self, guess: Option<Rc<str>>, tensors: &[Option<TensorId>]) {
        let Some(guess) = guess else { return };
        self.guessed.extend(tensors.iter().flatten().map(|&tensor| (tensor, guess.clone())));
    }

    /// If `node` reads guessed extents, records that its operators, from index `first` on, and its results follow from
    /// them; except results with the extents stated in the file.
    pub(super) fn follow(&mut self, node: &SourceNode, guess: Option<Rc<str>>, first: usize) {
        if guess.is_none() {
            return;
        }
        self.uncover([first.min(self.out.nodes.len()), self.out.inputs.len()]);
        self.out.following.insert(node.name.clone());
        let is_as_stated = |&tensor: &TensorId| {
            let view = self.values[tensor].as_ref().and_then(Value::view);
            let extents = view.map(|view| view.padded_extents(self.spatial_axes()));
            extents.is_some() && extents == self.model.tensors[tensor].static_extents()
        };
        let others = node.writes.iter().map(|tensor| tensor.filter(|tensor| !is_as_stated(tensor)));
        let others: Operands = others.collect();
        self.follow_from(guess, &others);
    }

    fn placeholder(&mut self, operand: Option<&View>, extents: Vec<u32>) -> Conversion<(View, &'static str)> {
        let count = elements(&extents);
        match operand {
            Some(view) if elements(&view.extents) == count => {
                let view = self.applied(view, Function::Relu)?;
                let view = if view.extents == extents { view } else { view.reshaped(extents) };
                Ok((view, "an element-wise function"))
            }
            Some(view) if elements(&view.extents) > count => {
                let flat = |count: u64| Shape::tokens(1, as_extent(count));
                let input = flat(elements(&view.extents));
                let order = self.order_of(view);
                let source = self.arranged(view, &order, input)?;
                let slice = Slice::of_channels(input, 0, flat(count).channels);
                let source = self.emit("", slice, &[source])?;
                let order = wide_axes(&extents);
                Ok((self.view_as(source, extents, order), "a part of its operand"))
            }
            _ => {
                let name = self.at.name.clone();
                let order = wide_axes(&extents);
                let view =
                    self.laid_out(extents, order, |converter, shape| converter.input(&name, shape, false))?;
                Ok((view, "an input of the workload"))
            }
        }
    }
}
