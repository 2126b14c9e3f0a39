//! Branches of a model, of which one runs.
//!
//! Where the condition is known, that branch is the model's; else the one that takes more, by its
//! multiply-adds and then by the elements it moves, stands for both. What only the other needs is
//! left out behind.

use std::collections::HashSet;

use super::{Converter, Step, Value, unsound};
use crate::error::ImportError;
use crate::model::{Constant, SourceNode, Work};
use coexec_sim::Source;

impl Converter<'_> {
    /// Operands: the condition, what the first branch has for each result, then the second.
    pub(super) fn choice(&mut self, node: &SourceNode) -> Step<()> {
        let count = node.writes.len();
        let of = |first: usize| -> Option<Vec<Value>> {
            (first..first + count).map(|operand| self.value(node, operand).cloned()).collect()
        };
        let (yes, no) = (of(1), of(1 + count));
        let chosen = match (self.number(node, 0), yes, no) {
            (Some(condition), Some(yes), _) if condition != 0.0 => yes,
            (Some(0.0), _, Some(no)) => no,
            (None, Some(yes), Some(no)) => {
                // The condition is computed before either branch, whichever runs.
                self.out.wanted.extend(self.source(node, 0));
                let is_first = self.work_behind(&yes) >= self.work_behind(&no);
                self.approximate(if is_first { "the first branch" } else { "the second branch" });
                let (chosen, other) = if is_first { (yes, no) } else { (no, yes) };
                chosen.into_iter().zip(&other).map(|(chosen, other)| of_either(chosen, other)).collect()
            }
            // The other branch makes no sense with these extents, and does not run.
            (None, Some(only), None) | (None, None, Some(only)) => only,
            (_, _, _) => return unsound("a branch that writes less than it should"),
        };
        for (index, value) in chosen.into_iter().enumerate() {
            self.set(node, index, value);
        }
        Ok(())
    }

    /// Notes where the branch begins that `node` is in.
    pub(super) fn enter(&mut self, node: &SourceNode) {
        // A choice follows its branches, and takes one.
        let depth = node.branches as usize + usize::from(node.work == Work::Choice);
        self.begun.truncate(depth);
        while self.begun.len() < depth {
            self.begun.push(self.out.nodes.len());
        }
    }

    /// What becomes of `done`: a branch that cannot be converted may not be needed.
    pub(super) fn leave(
        &mut self,
        node: &SourceNode,
        done: Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        match done {
            Err(error) if node.branches > 0 => {
                self.refused.get_or_insert(error);
                Ok(())
            }
            Err(error) if node.work == Work::Choice => Err(self.refused.take().unwrap_or(error)),
            done => {
                // Nodes outside may come between those of a branch, as these need them.
                if node.branches == 0 && node.work == Work::Choice {
                    self.refused = None;
                }
                done
            }
        }
    }

    /// Multiply-adds and elements of all in the branches at hand that some results need.
    fn work_behind(&self, values: &[Value]) -> (u64, u64) {
        let first = self.begun.last().copied().unwrap_or(0);
        let mut seen = HashSet::new();
        let mut rest: Vec<Source> = values.iter().filter_map(Value::view).map(|view| view.source).collect();
        let mut work = (0_u64, 0_u64);
        while let Some(source) = rest.pop() {
            let Source::Node(id) = source else { continue };
            if id.index() >= first && seen.insert(id.index()) {
                let node = &self.out.nodes[id.index()];
                let moved = node.operator.input_elements().saturating_add(node.operator.output().elements());
                work = (work.0.saturating_add(node.operator.macs()), work.1.saturating_add(moved));
                rest.extend(&node.inputs);
            }
        }
        work
    }
}

/// What is known of a result whichever branch runs: of a constant its extents, unless both have the same.
fn of_either(chosen: Value, other: &Value) -> Value {
    match (chosen, other) {
        (Value::Constant(chosen), Value::Constant(other)) if chosen != *other => {
            Value::Constant(Constant { numbers: None, ..chosen })
        }
        (chosen, _) => chosen,
    }
}
