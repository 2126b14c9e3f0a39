//! What stands in the place of a node that has no counterpart.

use super::{Converter, Step, Value, unsound};
use crate::workload::import::Replacement;
use crate::workload::import::model::{SourceNode, elements};
use crate::workload::import::view::{View, natural_shape, wide_axes};
use crate::workload::operator::{Elementwise, Function, Operator, Slice};
use crate::workload::shape::{Padding, Shape};

impl Converter<'_> {
    /// Puts the closest operator in the place of `node`: a function of each element where
    /// the extents stay; a part of the operand where the result is smaller; a tensor that
    /// is given where it is larger, or nothing is read.
    pub(super) fn skip(&mut self, node: &SourceNode) -> Step<()> {
        let operand = node.reads.iter().flatten().find_map(|&tensor| match &self.values[tensor] {
            Some(Value::View(view)) => Some(view.clone()),
            _ => None,
        });
        let operand = match operand {
            Some(view) => Some(self.with_zeros(view)?),
            None => None,
        };
        self.out.wanted.extend(operand.as_ref().map(|view| view.source));
        for (index, tensor) in node.writes.iter().enumerate() {
            let Some(tensor) = *tensor else { continue };
            if self.readers[tensor] == 0 {
                continue;
            }
            let said = self.model.tensors[tensor].extents.clone().filter(|extents| !extents.contains(&0));
            let extents = said.or_else(|| operand.as_ref().map(|view| view.extents.clone()));
            let Some(extents) = extents else { return unsound("a result of unknown extents") };
            Self::check_extents(&extents)?;
            let (view, instead) = self.stand_in(operand.as_ref(), extents)?;
            let shape = view.shape;
            self.write(node, index, view);
            self.out.skipped.push(Replacement {
                node: self.name.clone(),
                kind: self.kind.clone(),
                instead: format!("{instead}, {shape}"),
            });
        }
        Ok(())
    }

    fn stand_in(&mut self, operand: Option<&View>, extents: Vec<u32>) -> Step<(View, &'static str)> {
        let count = elements(&extents);
        match operand {
            Some(view) if elements(&view.extents) == count => {
                let (input, function) = (view.shape, Function::Relu);
                let operator = Operator::Elementwise(Elementwise { function, input, other: None });
                let source = self.emit("", operator, &[view.source])?;
                let view = View { source, ..view.clone() };
                Ok((
                    if view.extents == extents { view } else { view.reshaped(extents) },
                    "an element-wise function",
                ))
            }
            Some(view) if elements(&view.extents) > count => {
                let flat = |count: u64| Shape::tokens(1, u32::try_from(count).unwrap_or(u32::MAX));
                let input = flat(elements(&view.extents));
                let order = self.order_of(view);
                let source = self.arranged(view, &order, input)?;
                let slice = Slice { input, first_channel: 0, channels: flat(count).channels };
                let source = self.emit("", Operator::Slice(slice), &[source])?;
                let order = wide_axes(&extents);
                Ok((self.seen(source, extents, order), "a part of its operand"))
            }
            _ => {
                let order = wide_axes(&extents);
                let memory: Vec<u32> = order.iter().map(|&axis| extents[axis]).collect();
                let Some(shape) = natural_shape(&memory) else { return unsound("a result is too large") };
                let name = self.name.clone();
                let source = self.input(&name, shape);
                let view = View { source, shape, extents, order: Some(order), padding: Padding::NONE };
                Ok((view, "an input of the workload"))
            }
        }
    }
}
