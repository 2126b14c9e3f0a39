//! Loops, unrolled.
//!
//! Each iteration is converted as if the file contained its nodes one after the other. Where the network computes when
//! to stop, the maximum number of iterations is used.

use std::rc::Rc;

use super::tensors::CurrentNode;
use super::{Converted, Converter, MAX_FOLDED, MAX_OPERATORS, Value};
use crate::Result;
use crate::error::Problem;
use crate::model::{Constant, Loop, MAX_NODES, NUMBERS_PER_NODE, SourceNode, TensorId};

/// The value of a tensor, or of a sequence of tensors.
type LoopValue = (Option<Value>, Option<Rc<Vec<Value>>>);

/// Operands before the loop-carried values: the maximum number of iterations, and the condition.
const LEADING_OPERANDS: usize = 2;

/// The problem of a loop that cannot be unrolled.
const ENDLESS: &str =
    "a loop of unknown length, or of too many iterations; export the model with the loop unrolled";

impl Converter<'_> {
    pub(super) fn unroll(&mut self, node: &SourceNode, body: &Loop) -> Result<()> {
        let at = self.at.clone();
        let count = body.inputs.len().saturating_sub(LEADING_OPERANDS);
        let most = self.number(node, 0);
        let mut condition = node.operand(1);
        let mut carried: Vec<LoopValue> =
            (0..count).map(|index| self.loop_value(node.operand(LEADING_OPERANDS + index))).collect();
        self.make_states_inputs(node, body, &mut carried)?;
        let mut written = vec![Vec::new(); node.writes.len().saturating_sub(count)];
        let mut round = 0_usize;
        while most.is_none_or(|most| (round as f64) < most) {
            match condition.map(|condition| self.known(condition)) {
                Some(Some(0.0)) => break,
                Some(None) => {
                    self.at = at.clone();
                    self.approximate("the maximum number of iterations");
                }
                Some(Some(_)) | None => {}
            }
            self.count_iteration(&at, body)?;
            let output = |index: usize| body.outputs.get(index).copied().flatten();
            self.iterate(body, round, carried)?;
            condition = output(0);
            carried = (1..=count).map(|index| self.loop_value(output(index))).collect();
            // With the next iteration as their only holder, sequences grow in place.
            for tensor in (1..=count).filter_map(output) {
                self.lists.remove(&tensor);
            }
            for (index, all) in written.iter_mut().enumerate() {
                let Some(value) = self.loop_value(output(1 + count + index)).0 else {
                    let less = "an iteration lacks an output".to_owned();
                    return Err(at.refused(Problem::Unsound(less)));
                };
                all.push((value, node.operand(0).unwrap_or_default()));
            }
            round += 1;
        }
        self.at = at.clone();
        for (&tensor, held) in node.writes.iter().zip(carried) {
            self.set_loop_value(tensor, held);
        }
        for (index, all) in written.iter().enumerate() {
            let value = if all.is_empty() {
                Value::Constant(Constant { extents: vec![0], numbers: Some(Vec::new()) })
            } else {
                self.joined_values(all, 0, true).map_err(|problem| at.refused(problem))?
            };
            self.set(node, count + index, value);
        }
        Ok(())
    }

    /// Counts an iteration of the loop `at`.
    fn count_iteration(&mut self, at: &CurrentNode, body: &Loop) -> Result<()> {
        let operands = body.nodes.iter().map(|node| node.reads.len() + node.writes.len());
        let operands = operands.sum::<usize>() + body.inputs.len() + body.outputs.len();
        self.repeated += body.nodes.len().max(1) + operands / NUMBERS_PER_NODE;
        let is_much = self.repeated > MAX_NODES || self.folded > MAX_FOLDED;
        if is_much || self.out.nodes.len() > MAX_OPERATORS {
            return Err(at.refused(Problem::Unknown(ENDLESS.to_owned())));
        }
        Ok(())
    }

    /// Turns constant loop-carried values that an iteration replaces by computed ones (mostly initial states of zeros)
    /// into inputs, so that the first iteration has the same operators as the others. A trial iteration, rolled back
    /// afterwards, finds them.
    fn make_states_inputs(
        &mut self,
        node: &SourceNode,
        body: &Loop,
        carried: &mut [LoopValue],
    ) -> Result<()> {
        let is_state = |held: &LoopValue| matches!(&held.0, Some(Value::Constant(constant)) if constant.extents.len() > 1);
        if !carried.iter().any(is_state) {
            return Ok(());
        }
        let Converted { nodes, approximated, skipped, .. } = &self.out;
        let before = [nodes.len(), approximated.len(), skipped.len()];
        self.count_iteration(&self.at.clone(), body)?;
        self.iterate(body, 0, carried.to_vec())?;
        for (index, held) in carried.iter_mut().enumerate().filter(|(_, held)| is_state(held)) {
            let after = self.loop_value(body.outputs.get(1 + index).copied().flatten());
            let (Some(Value::Constant(constant)), Some(Value::View(_))) = (&held.0, after.0) else {
                continue;
            };
            let tensor = node.operand(LEADING_OPERANDS + index).unwrap_or_default();
            if let Ok(given) = self.constant_view(tensor, constant.extents.clone()) {
                held.0 = Some(Value::View(given));
            }
        }
        self.roll_back(before[0]);
        self.out.approximated.truncate(before[1]);
        self.out.skipped.truncate(before[2]);
        Ok(())
    }

    /// Converts one iteration.
    fn iterate(&mut self, body: &Loop, round: usize, carried: Vec<LoopValue>) -> Result<()> {
        self.follow_from(self.guess_among(&body.outputs), &body.inputs);
        let given = [round as f64, 1.0].map(|number| (Some(Value::Constant(Constant::number(number))), None));
        for (&tensor, held) in body.inputs.iter().zip(given.into_iter().chain(carried)) {
            self.set_loop_value(tensor, held);
        }
        self.nodes(&body.nodes)
    }

    /// The value of a scalar tensor, if known.
    fn known(&self, tensor: TensorId) -> Option<f64> {
        self.values[tensor].as_ref()?.constant()?.first()
    }

    fn loop_value(&self, tensor: Option<TensorId>) -> LoopValue {
        let of = |tensor: TensorId| (self.values[tensor].clone(), self.lists.get(&tensor).cloned());
        tensor.map(of).unwrap_or_default()
    }

    fn set_loop_value(&mut self, tensor: Option<TensorId>, (value, list): LoopValue) {
        let Some(tensor) = tensor else { return };
        self.values[tensor] = value;
        match list {
            Some(list) => self.lists.insert(tensor, list),
            None => self.lists.remove(&tensor),
        };
    }
}
