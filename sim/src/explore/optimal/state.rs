//! What the dynamic program knows of stages decided so far.

use super::places::Place;
use crate::plan::Placement;
use crate::units::Picos;

/// A way to have decided the stages before some stage.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Where each result lies that is still read, in order of the stages.
    pub(super) places: Vec<Place>,
    pub(super) cost: f64,
    /// What it takes.
    pub(super) elapsed: Picos,
    /// Whether the GPU has been given anything.
    pub(super) uses_gpu: bool,
    /// The last decision, in the list of all.
    pub(super) decision: Option<usize>,
}

/// What led to a state.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) before: Option<usize>,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    One(Placement),
    /// One of the chains that begin at a stage.
    Chain(usize, usize),
    /// The region with branches that begins at a stage.
    Region(usize),
}

/// One way to go on from a state.
pub(super) struct Move {
    pub(super) what: What,
    /// The stage behind.
    pub(super) end: usize,
    pub(super) cost: f64,
    pub(super) time: Picos,
    pub(super) uses_gpu: bool,
    /// Where the result of the stage lies, of the first of a chain, or of the last of a
    /// region.
    pub(super) place: Place,
}

/// For each position, the stages before it that are read from there on.
pub(super) fn live<'a>(inputs: impl Iterator<Item = &'a [usize]>) -> Vec<Vec<usize>> {
    let inputs: Vec<&[usize]> = inputs.collect();
    let mut last_read: Vec<usize> = vec![0; inputs.len()];
    for (stage, reads) in inputs.iter().enumerate() {
        reads.iter().for_each(|&input| last_read[input] = stage);
    }
    (0..=inputs.len())
        .map(|position| (0..position).filter(|&stage| last_read[stage] >= position).collect())
        .collect()
}
