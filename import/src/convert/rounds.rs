//! Nodes that run again and again.
//!
//! What they do is known once it is known how often they run: each round is as if the file had its nodes
//! one after the other. Where the network computes when to stop, they run as often as they can.

use std::rc::Rc;

use super::{Converted, Converter, Value};
use crate::error::{ImportError, Problem};
use crate::model::{Constant, MOST_NODES, Rounds, SourceNode, TensorId};

/// A tensor or a list of such, as far as it is known.
type Held = (Option<Value>, Option<Rc<Vec<Value>>>);

/// Most operators that a model with rounds may have: a search of plans for as many takes seconds.
const MOST_OPERATORS: usize = 30_000;

/// Operands before what is carried: how often, and whether.
const BEFORE: usize = 2;

/// What is said of a loop that is no workload.
const ENDLESS: &str = "a loop of which nothing before says when it ends, or of too many rounds; export the model with \
                       it resolved";

impl Converter<'_> {
    pub(super) fn rounds(&mut self, node: &SourceNode, body: &Rounds) -> Result<(), ImportError> {
        let at = self.at.clone();
        let count = body.inputs.len().saturating_sub(BEFORE);
        let most = self.number(node, 0);
        let mut condition = node.operand(1);
        let mut carried: Vec<Held> =
            (0..count).map(|index| self.held(node.operand(BEFORE + index))).collect();
        self.compute_with(node, body, &mut carried)?;
        let mut written = vec![Vec::new(); node.writes.len().saturating_sub(count)];
        let mut round = 0_usize;
        while most.is_none_or(|most| (round as f64) < most) {
            match condition.map(|condition| self.known(condition)) {
                Some(Some(0.0)) => break,
                Some(None) => {
                    self.at = at.clone();
                    self.approximate("as many rounds as there can be");
                }
                Some(Some(_)) | None => {}
            }
            self.repeated += body.nodes.len().max(1);
            if self.repeated > MOST_NODES || self.out.nodes.len() > MOST_OPERATORS {
                return Err(at.refused(Problem::Unknown(ENDLESS.to_owned())));
            }
            let output = |index: usize| body.outputs.get(index).copied().flatten();
            self.round(body, round, carried)?;
            condition = output(0);
            carried = (1..=count).map(|index| self.held(output(index))).collect();
            // Held by the next round alone, lists grow where they are.
            for tensor in (1..=count).filter_map(output) {
                self.lists.remove(&tensor);
            }
            for (index, all) in written.iter_mut().enumerate() {
                let Some(value) = self.held(output(1 + count + index)).0 else {
                    let less = "a round writes less than it should".to_owned();
                    return Err(at.refused(Problem::Unsound(less)));
                };
                all.push((value, node.operand(0).unwrap_or_default()));
            }
            round += 1;
        }
        self.at = at.clone();
        for (&tensor, held) in node.writes.iter().zip(carried) {
            self.hold(tensor, held);
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

    /// Takes constants that a round computes anew (first states of zeros, for the most part) for tensors, so that the
    /// first round computes with them as others do. A round that is taken back says which those are.
    fn compute_with(
        &mut self,
        node: &SourceNode,
        body: &Rounds,
        carried: &mut [Held],
    ) -> Result<(), ImportError> {
        let is_state =
            |held: &Held| matches!(&held.0, Some(Value::Constant(constant)) if constant.extents.len() > 1);
        if !carried.iter().any(is_state) {
            return Ok(());
        }
        let Converted { nodes, approximated, skipped, .. } = &self.out;
        let before = [nodes.len(), approximated.len(), skipped.len()];
        self.round(body, 0, carried.to_vec())?;
        for (index, held) in carried.iter_mut().enumerate().filter(|(_, held)| is_state(held)) {
            let after = self.held(body.outputs.get(1 + index).copied().flatten());
            let (Some(Value::Constant(constant)), Some(Value::View(_))) = (&held.0, after.0) else {
                continue;
            };
            let tensor = node.operand(BEFORE + index).unwrap_or_default();
            if let Ok(given) = self.given_constant(tensor, constant.extents.clone()) {
                held.0 = Some(Value::View(given));
            }
        }
        self.forget(before[0]);
        self.out.approximated.truncate(before[1]);
        self.out.skipped.truncate(before[2]);
        Ok(())
    }

    /// One round, with what it reads.
    fn round(&mut self, body: &Rounds, round: usize, carried: Vec<Held>) -> Result<(), ImportError> {
        self.follow_from(self.guess_among(&body.outputs), &body.inputs);
        let given = [round as f64, 1.0].map(|number| (Some(Value::Constant(Constant::number(number))), None));
        for (&tensor, held) in body.inputs.iter().zip(given.into_iter().chain(carried)) {
            self.hold(tensor, held);
        }
        for inner in &body.nodes {
            self.enter(inner);
            let done = self.node(inner);
            self.leave(inner, done)?;
        }
        Ok(())
    }

    /// The number in a tensor, where it is known.
    fn known(&self, tensor: TensorId) -> Option<f64> {
        self.values[tensor].as_ref()?.constant()?.first()
    }

    fn held(&self, tensor: Option<TensorId>) -> Held {
        let of = |tensor: TensorId| (self.values[tensor].clone(), self.lists.get(&tensor).cloned());
        tensor.map(of).unwrap_or_default()
    }

    fn hold(&mut self, tensor: Option<TensorId>, (value, list): Held) {
        let Some(tensor) = tensor else { return };
        self.values[tensor] = value;
        match list {
            Some(list) => self.lists.insert(tensor, list),
            None => self.lists.remove(&tensor),
        };
    }
}
