//! What stands in the place of a node that has no counterpart.

use super::{Converter, Step, unsound};
use crate::model::{SourceNode, as_extent, elements};
use crate::view::{View, wide_axes};
use coexec_sim::workload::{Function, Shape, Slice};

impl Converter<'_> {
    /// Puts the closest operator in the place of `node`: a function of each element where
    /// the extents stay; a part of the operand where the result is smaller; a tensor that
    /// is given where it is larger, or nothing is read.
    pub(super) fn skip(&mut self, node: &SourceNode) -> Step<()> {
        let operand = node.reads.iter().flatten().find_map(|&tensor| self.values[tensor].as_ref()?.view());
        let operand = operand.cloned().map(|view| self.with_zeros(view)).transpose()?;
        self.out.wanted.extend(operand.as_ref().map(|view| view.source));
        for index in 0..node.writes.len() {
            let Some(tensor) = node.result(index).filter(|&tensor| self.readers[tensor] > 0) else {
                continue;
            };
            let said = self.model.tensors[tensor].said();
            let extents = said.or_else(|| operand.as_ref().map(|view| view.extents.clone()));
            let Some(extents) = extents else { return unsound("a result of unknown extents") };
            Self::check_extents(&extents)?;
            let (view, instead) = self.stand_in(operand.as_ref(), extents)?;
            let shape = view.shape;
            self.write(node, index, view);
            self.out.skipped.push(self.at.replaced(format!("{instead}, {shape}")));
        }
        Ok(())
    }

    fn stand_in(&mut self, operand: Option<&View>, extents: Vec<u32>) -> Step<(View, &'static str)> {
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
                Ok((self.seen(source, extents, order), "a part of its operand"))
            }
            _ => {
                let name = self.at.name.clone();
                let order = wide_axes(&extents);
                let view = self.lying(extents, order, |converter, shape| converter.input(&name, shape))?;
                Ok((view, "an input of the workload"))
            }
        }
    }
}
