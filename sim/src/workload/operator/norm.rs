//! Normalisations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Class, Definition, Elementwise, Function, Reduction, Statistic, UNKNOWN, of_one_input};
use crate::workload::Shape;

/// The statistics of a normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NormKind {
    /// Mean and variance of each token; a scale and a shift per feature.
    Layer,
    /// As `Layer`, as a sequence of operators that a framework computes one by one.
    LayerInSteps,
    /// Root mean square of each token; a scale per feature.
    Rms,
    /// Trained statistics per channel: a scale and a shift that inference
    /// frameworks fold into the preceding convolution.
    Batch,
}

/// A normalisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Norm {
    /// Its statistics.
    pub kind: NormKind,
    /// Input extent.
    #[serde(skip)]
    pub input: Shape,
}

impl From<NormKind> for Norm {
    fn from(kind: NormKind) -> Self {
        Self { kind, input: UNKNOWN }
    }
}

impl Definition for Norm {
    fn class(&self) -> Class<'_> {
        match self.kind {
            NormKind::Layer | NormKind::LayerInSteps => {
                let in_steps = self.kind == NormKind::LayerInSteps;
                Class::Reduction(Reduction::Normalisation(Statistic::MeanAndVariance { in_steps }))
            }
            NormKind::Rms => Class::Reduction(Reduction::Normalisation(Statistic::MeanSquare)),
            // One multiply-add per element.
            NormKind::Batch => Class::Elementwise(Elementwise {
                function: Function::Multiply,
                input: self.input,
                other: None,
            }),
        }
    }

    of_one_input!();

    fn weights(&self) -> [u64; 2] {
        let channels = u64::from(self.input.channels);
        [channels, if self.kind == NormKind::Rms { 0 } else { channels }]
    }

    fn folds(&self) -> bool {
        self.kind == NormKind::Batch
    }

    fn applies_bounds(&self) -> bool {
        // The operator that it folds into applies them.
        self.folds()
    }
}
