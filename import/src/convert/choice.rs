//! Conditionals.
//!
//! Where the condition is known, its branch is taken. Otherwise the branch with more multiply-adds, then
//! with more elements moved, represents both. Operators that only the other branch needs are pruned
//! afterwards.

use std::collections::HashSet;

use super::{Conversion, Converter, Value, unsound};
use crate::Result;
use crate::model::{Constant, SourceNode, Work};
use coexec_sim::Source;

impl Converter<'_> {
    /// Operands: the condition, the results of the first branch, the results of the second.
    pub(super) fn choice(&mut self, node: &SourceNode) -> Conversion<()> {
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
                let is_first = self.work_of(&yes) >= self.work_of(&no);
                self.approximate(if is_first { "the first branch" } else { "the second branch" });
                let (chosen, other) = if is_first { (yes, no) } else { (no, yes) };
                chosen.into_iter().zip(&other).map(|(chosen, other)| of_either(chosen, other)).collect()
            }
            // The other branch is invalid with these extents, so it cannot run.
            (None, Some(only), None) | (None, None, Some(only)) => only,
            (_, _, _) => return unsound("a branch lacks a result"),
        };
        for (index, value) in chosen.into_iter().enumerate() {
            self.set(node, index, value);
        }
        Ok(())
    }

    /// Converts nodes in order, each with the branches that contain it.
    pub(super) fn nodes(&mut self, nodes: &[SourceNode]) -> Result<()> {
        nodes.iter().try_for_each(|node| self.in_branches(node))
    }

    /// Converts a node. Records where the branches that contain it start in the graph, and defers an error inside
    /// a branch to its conditional, since the branch may not be needed.
    fn in_branches(&mut self, node: &SourceNode) -> Result<()> {
        let is_choice = node.work == Work::Choice;
        // A conditional comes after its branches and compares their work.
        let depth = node.branches as usize + usize::from(is_choice);
        while self.begun.len() < depth {
            self.begun.push(self.out.nodes.len());
        }
        let done = self.node(node);
        // Nodes outside may come between those of a branch, so only its conditional ends it.
        if is_choice {
            self.begun.truncate(node.branches as usize);
        }
        match done {
            Err(error) if node.branches > 0 => {
                self.refused.get_or_insert(error);
                Ok(())
            }
            Err(error) if is_choice => Err(self.refused.take().unwrap_or(error)),
            done => {
                // Only the outermost conditional resets this, too.
                if node.branches == 0 && is_choice {
                    self.refused = None;
                }
                done
            }
        }
    }

    /// Multiply-adds and elements moved by the operators of the current branches that `values` depend on.
    fn work_of(&self, values: &[Value]) -> (u64, u64) {
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

/// The result of the chosen branch; a constant loses its values unless both branches have the same.
fn of_either(chosen: Value, other: &Value) -> Value {
    match (chosen, other) {
        (Value::Constant(chosen), Value::Constant(other)) if chosen != *other => {
            Value::Constant(Constant { numbers: None, ..chosen })
        }
        (chosen, _) => chosen,
    }
}
