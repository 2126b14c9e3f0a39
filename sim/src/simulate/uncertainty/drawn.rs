//! The times of one plan over all draws, and what they say beside those of another.
//!
//! Responsible for: intervals, medians and the fraction of draws in which a plan is faster. Not for: drawing errors
//! and running plans under them (`uncertainty`). Invariant: draw `i` of two plans saw the same errors, so they are
//! compared draw by draw.

use serde::{Serialize, Serializer};

use super::{DRAWS, Errors, latencies};
use crate::plan::Plan;
use crate::simulate::{Pipeline, Result, Simulator};
use crate::units::Picos;
use crate::workload::Stage;

/// Times in each of [`DRAWS`] draws of errors; serialised as their central 90 % interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn(pub(in crate::simulate) Vec<Picos>);

impl Drawn {
    /// Latencies of a plan, or its periods where `pipeline` streams it.
    ///
    /// # Errors
    /// As [`Simulator::run`].
    pub fn of(
        simulator: &Simulator<'_>,
        (stages, plan): (&[Stage], &Plan),
        pipeline: Option<&Pipeline>,
        errors: &Errors,
    ) -> Result<Self> {
        latencies(simulator, (stages, plan, pipeline), errors, 0..DRAWS).map(Self)
    }

    /// The central 90 % interval of the draws.
    pub fn interval(&self) -> [Picos; 2] {
        let outside = self.0.len() / 20;
        [outside, self.0.len().saturating_sub(1 + outside)].map(|rank| self.of_rank(rank))
    }

    /// The median of the draws. It is longer than the time without errors where processors wait for each other,
    /// and where plans that were measured took longer than predicted.
    pub fn median(&self) -> Picos {
        self.of_rank(self.0.len() / 2)
    }

    /// The time with as many shorter ones.
    fn of_rank(&self, rank: usize) -> Picos {
        let mut drawn = self.0.clone();
        drawn.sort_unstable();
        drawn.get(rank).copied().unwrap_or_default()
    }

    /// The number of draws in which it is faster than `other`.
    pub fn times_faster(&self, other: &Self) -> u64 {
        self.0.iter().zip(&other.0).filter(|(own, other)| own < other).count() as u64
    }

    /// Whether it is faster than `other` in at least a fraction `confidence` of the draws.
    pub fn is_surely_faster(&self, other: &Self, confidence: f64) -> bool {
        self.times_faster(other) as f64 >= confidence * DRAWS as f64
    }

    /// Whether the same one of both is faster in at least a fraction `confidence` of the draws, or both are
    /// equal.
    pub fn is_surely_ordered(&self, other: &Self, confidence: f64) -> bool {
        self == other || self.is_surely_faster(other, confidence) || other.is_surely_faster(self, confidence)
    }
}

impl Serialize for Drawn {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.interval().serialize(serializer)
    }
}
