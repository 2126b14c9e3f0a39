//! Recurrent layers.
//!
//! The products with the inputs of all steps are one linear layer per direction; the rest of each
//! step depends on the previous step.

use super::{Conversion, Converter, unknown, unsound};
use crate::model::SourceNode;
use crate::view::{View, wide_axes};
use coexec_sim::workload::{Recurrent, Shape};

impl Converter<'_> {
    /// Operands: input, input weights, recurrent weights, biases, lengths, initial state, initial cell.
    /// The rows of the weights are all gates of a direction, or those of a single gate if `gates` is
    /// given. `stated` is the number of features of the state that the file states.
    pub(super) fn recurrent(
        &mut self,
        node: &SourceNode,
        [gates, stated]: [Option<u32>; 2],
        batch_first: bool,
    ) -> Conversion<()> {
        let weights = self.weight_extents(node, 1)?;
        let state = self.weight_extents(node, 2)?;
        let (directions, rows, depth, features) = match (&weights[..], &state[..], gates) {
            (&[directions, rows, depth], &[_, own, features], None)
                if rows == own && own.checked_rem(features) == Some(0) =>
            {
                (directions, rows, depth, features)
            }
            // In quantised layers the gates are in the columns.
            (&[directions, depth, rows], &[_, features, own], None) if rows == own => {
                (directions, rows, depth, features)
            }
            (&[own, depth], &[_, features], Some(gates)) if own == features => {
                (1, gates.saturating_mul(own), depth, features)
            }
            _ => return unknown("a recurrent layer with a projection of its state"),
        };
        if features == 0 || rows % features != 0 {
            return unsound(format!("{rows} rows of weights for {features} features"));
        }
        if directions > 2 {
            return unsound(format!("weights of {directions} directions, expected one or two"));
        }
        if let Some(stated) = stated.filter(|&stated| stated != features) {
            let weights = self.name_of(node, 2);
            return unsound(format!("{weights} is for {features} features, and hidden_size is {stated}"));
        }
        self.keep_initial_states(node, features)?;
        let bias = node.operand(3).is_some();
        let input = self.view(node, 0)?;
        let input = if batch_first { input } else { input.swapped() };
        let [sequences, steps, _] = input.extents[..] else {
            return unsound("an input of another rank than 3");
        };
        let layer = Recurrent { sequences, steps, gates: rows / features, features, bias };
        let mut parts = Vec::new();
        for _ in 0..directions {
            let gates = self.linear(&input, depth, rows, bias)?;
            let shape = Shape { batch: sequences, height: 1, width: steps, channels: rows };
            let source = self.arranged(&gates, &gates.file_order(), shape)?;
            let source = self.emit("", layer, &[source])?;
            let extents = vec![sequences, steps, features];
            parts.push(self.view_as(source, extents.clone(), wide_axes(&extents)));
        }
        self.write_steps(node, &parts, gates.is_none(), batch_first)
    }

    /// Checks the initial states, and keeps their producers.
    fn keep_initial_states(&mut self, node: &SourceNode, features: u32) -> Conversion<()> {
        for operand in 5..node.reads.len() {
            let own = self.value(node, operand).and_then(|state| state.extents().last().copied());
            if let Some(own) = own.filter(|&own| own != features) {
                let state = self.name_of(node, operand);
                return unsound(format!("its initial state {state} has {own} features, expected {features}"));
            }
            self.out.wanted.extend(self.source(node, operand));
        }
        Ok(())
    }

    /// Writes all steps and the last step of each direction. Without an axis of directions there is only the
    /// first result.
    fn write_steps(
        &mut self,
        node: &SourceNode,
        parts: &[View],
        has_directions: bool,
        batch_first: bool,
    ) -> Conversion<()> {
        if !has_directions {
            let Some(part) = parts.first() else { return unsound("a layer without directions") };
            let part = if batch_first { part.clone() } else { part.swapped() };
            self.write(node, 0, part);
            return Ok(());
        }
        if self.is_wanted(node, 0) || !(self.is_wanted(node, 1) || self.is_wanted(node, 2)) {
            let apart: Vec<View> = parts
                .iter()
                .map(|part| part.reshaped(vec![part.extents[0], part.extents[1], 1, part.extents[2]]))
                .collect();
            let all = self.joined_along(&apart, 2)?;
            self.write(node, 0, if batch_first { all } else { all.transposed(&[1, 2, 0, 3]) });
        }
        for index in [1, 2] {
            if self.is_wanted(node, index) {
                let last = parts.iter().map(|part| self.part(part, 1, part.extents[1] - 1, 1));
                let last = last.collect::<Conversion<Vec<View>>>()?;
                let last = self.joined_along(&last, 1)?;
                self.write(node, index, if batch_first { last } else { last.swapped() });
            }
        }
        Ok(())
    }
}

impl View {
    /// Swaps the first two axes of three.
    fn swapped(&self) -> Self {
        if self.extents.len() == 3 { self.transposed(&[1, 0, 2]) } else { self.clone() }
    }
}
