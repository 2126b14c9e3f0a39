//! Recurrent layers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    BatchOf, Checked, Class, Definition, Elementwise, Function, Linear, Operator, dimension, dimensions,
    is_one, is_true, of_own_extents, one, tensor, work, yes,
};
use crate::workload::Shape;

/// The steps of a recurrent layer (LSTM, GRU, RNN), one after another: each multiplies the
/// state by weights and applies the functions of the gates. The product of inputs and weights,
/// for all steps at once, is a separate linear layer before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recurrent {
    /// Number of sequences.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub sequences: u32,
    /// Steps of each sequence.
    pub steps: u32,
    /// Gates: 4 for an LSTM, 3 for a GRU, 1 for a plain RNN.
    pub gates: u32,
    /// Features of the state, and of each gate.
    pub features: u32,
    /// Whether a bias is added.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub bias: bool,
}

impl Recurrent {
    /// The product of one step.
    pub fn product(&self) -> Linear {
        let Self { sequences: rows, features: input_features, bias, .. } = *self;
        Linear { rows, input_features, output_features: self.gate_features(), bias }
    }

    /// The functions of one step's gates.
    pub fn functions(&self) -> Elementwise {
        let input = Shape::tokens(self.sequences, self.gate_features());
        Elementwise { function: Function::Sigmoid, input, other: None }
    }

    fn gate_features(&self) -> u32 {
        self.gates.saturating_mul(self.features)
    }

    fn of_steps(&self, channels: u32) -> Shape {
        Shape { batch: self.sequences, height: 1, width: self.steps, channels }
    }
}

impl Definition for Recurrent {
    fn class(&self) -> Class<'_> {
        Class::Recurrent(self)
    }

    fn check(&self) -> Checked {
        let Self { sequences, steps, gates, features, .. } = *self;
        dimensions([("sequences", sequences), ("steps", steps), ("gates", gates), ("features", features)])?;
        dimension("features of all gates", self.gate_features())?;
        tensor("the input", &[sequences, steps, gates, features])?;
        tensor("the weights", &[features, gates, features])?;
        work(&[sequences, steps, features, gates, features])
    }

    fn extent(&self) -> Shape {
        self.of_steps(self.gate_features())
    }

    fn output(&self) -> Shape {
        self.of_steps(self.features)
    }

    fn macs(&self) -> u64 {
        u64::from(self.steps) * self.product().macs()
    }

    fn weights(&self) -> [u64; 2] {
        self.product().weights()
    }

    fn describe(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sequences, steps, gates, features, .. } = self;
        write!(f, "{name} {sequences}x{steps} steps of {gates} gates of {features}")
    }

    fn takes_functions(&self) -> bool {
        false
    }

    of_own_extents!();

    fn batched(&self, batch: &BatchOf<'_>) -> Option<Operator> {
        Some(Self { sequences: batch.times(self.sequences), ..*self }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_multiplies_the_state_by_the_weights_of_all_gates() {
        let lstm = Recurrent { sequences: 2, steps: 5, gates: 4, features: 16, bias: true };
        assert_eq!(lstm.macs(), 2 * 5 * 4 * 16 * 16);
        assert_eq!(lstm.weights(), [4 * 16 * 16, 4 * 16]);
        assert_eq!((lstm.extent().channels, lstm.output().channels), (64, 16));
    }
}
