//! Sequences of tensors, which exporters build and take apart within a model.
//!
//! A workload has no sequences: their contents are tracked while nodes are converted.

use std::rc::Rc;

use super::{Conversion, Converter, Value, axis, unknown};
use crate::model::{Constant, Listing, MAX_NODES, SourceNode};

impl Converter<'_> {
    /// Converts an operation on a sequence. Returns the resulting tensor; `None` if the result is a sequence.
    pub(super) fn list(&mut self, node: &SourceNode, listing: Listing) -> Conversion<Option<Value>> {
        let list = match listing {
            Listing::Make => {
                let operands = (0..node.reads.len()).map(|operand| self.tensor(node, operand));
                operands.collect::<Conversion<Vec<Value>>>()?
            }
            Listing::Insert => {
                let (mut list, tensor) = (self.take_list(node)?, self.tensor(node, 1)?);
                let place =
                    if node.reads.len() > 2 { self.place(node, 2, list.len() + 1)? } else { list.len() };
                list.insert(place, tensor);
                list
            }
            Listing::Cut { axis, keep } => self.cut(node, axis, keep)?,
            Listing::At => {
                let list = self.list_read(node)?;
                return Ok(Some(list[self.place(node, 1, list.len())?].clone()));
            }
            Listing::Length => {
                let length = self.list_read(node)?.len();
                return Ok(Some(Value::Constant(Constant::number(length as f64))));
            }
            Listing::Join { axis, is_new } => {
                let tensor = node.reads[0].unwrap_or_default();
                let list: Vec<_> = self.take_list(node)?.into_iter().map(|value| (value, tensor)).collect();
                return self.joined_values(&list, axis, is_new).map(Some);
            }
        };
        if let Some(tensor) = node.result(0) {
            self.lists.insert(tensor, Rc::new(list));
        }
        Ok(None)
    }

    fn list_read(&self, node: &SourceNode) -> Conversion<&Rc<Vec<Value>>> {
        match node.operand(0).and_then(|tensor| self.lists.get(&tensor)) {
            Some(list) => Ok(list),
            None => unknown("it reads a sequence whose elements are not known"),
        }
    }

    /// The sequence that a node reads, moved out if it has no other reader, so that a sequence that
    /// grows by one tensor per node is never copied.
    fn take_list(&mut self, node: &SourceNode) -> Conversion<Vec<Value>> {
        let list = self.list_read(node)?.clone();
        let tensor = node.operand(0);
        if let Some(tensor) = tensor.filter(|&tensor| self.readers[tensor] == 1) {
            self.lists.remove(&tensor);
        }
        match Rc::try_unwrap(list) {
            Ok(list) => Ok(list),
            Err(shared) => {
                self.count_elements(shared.len())?;
                Ok(shared.to_vec())
            }
        }
    }

    /// Counts elements of sequences that are made at once.
    fn count_elements(&mut self, count: usize) -> Conversion<()> {
        self.repeated = self.repeated.saturating_add(count);
        if self.repeated > MAX_NODES { unknown("sequences of too many tensors") } else { Ok(()) }
    }

    /// The index in an operand, into a sequence of `count` elements.
    fn place(&self, node: &SourceNode, operand: usize, count: usize) -> Conversion<usize> {
        axis(self.numbers(node, operand)?.first().copied().unwrap_or(0), count)
    }

    /// Splits operand 0 along an axis.
    fn cut(&mut self, node: &SourceNode, along: i64, keep: bool) -> Conversion<Vec<Value>> {
        let value = self.tensor(node, 0)?;
        let along = axis(along, value.extents().len())?;
        let extent = value.extents()[along];
        let is_said = node.operand(1).is_some();
        let sizes = if is_said { self.numbers(node, 1)? } else { vec![1] };
        let is_each = self.constant(node, 1).is_none_or(|constant| constant.extents.is_empty());
        let sizes = match sizes[..] {
            // Equal parts of that size, then the remainder.
            [size] if is_each && size > 0 => {
                let whole = (i64::from(extent) / size) as usize;
                self.count_elements(whole)?;
                let mut sizes = vec![size; whole];
                sizes.extend(Some(i64::from(extent) % size).filter(|&rest| rest > 0));
                sizes
            }
            _ => sizes,
        };
        self.parts(&value, along, &sizes, !is_said && !keep)
    }
}
