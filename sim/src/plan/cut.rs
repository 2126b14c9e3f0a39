//! Which part of an operator each of two processors computes, halos of chains included.
//!
//! A **chain** is a set of cut operators inside which the processors exchange nothing.
//! Along the height, each processor then also computes the lines that its later
//! operators in the chain reach beyond its share, so that the parts overlap (the padding
//! of `CoDL`, `MobiSys`'22, section 4.2). Along channels, a chain goes only through
//! operators that keep channels apart, and its parts never overlap.

use std::ops::Range;

use thiserror::Error;

use super::placement::{Placement, Plan};
use crate::kernel::cpu::CoreSet;
use crate::workload::{Layer, Operator, Stage};

/// What an operator is cut along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Axis {
    /// Output channels.
    Channels,
    /// The output's height, or the tokens of a matrix.
    Height,
}

/// Which part of an operator each processor of a cut computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// What it is cut along.
    pub axis: Axis,
    /// Channels or lines of the whole output.
    pub all: u32,
    /// The part of the first processor, which begins at 0, and that of the second, which
    /// ends at `all`. Inside a chain they may overlap.
    pub parts: [Range<u32>; 2],
}

/// Why operators cannot be a chain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operator {stage} cannot belong to chain {chain}: {reason}")]
pub struct ChainError {
    /// Position of the operator in the workload.
    pub stage: usize,
    /// Number of the chain.
    pub chain: u32,
    /// What a chain would need.
    pub reason: &'static str,
}

impl Axis {
    /// Channels or lines of the output of `operator`, where a plan may cut it so.
    pub fn extent(self, operator: &Operator) -> Option<u32> {
        match self {
            Self::Channels => operator.splittable_channels().or_else(|| operator.separate_channels()),
            Self::Height => operator.separate_rows(),
        }
    }
}

impl Cut {
    /// The cut of one operator on its own; `None` where `placement` cuts nothing.
    pub fn of(placement: &Placement) -> Option<Self> {
        let cut = |axis, first: u32, second: u32| {
            let all = first.saturating_add(second);
            Self { axis, all, parts: [0..first, first..all] }
        };
        match *placement {
            Placement::Split { cpu_channels, gpu_channels, .. } => {
                Some(cut(Axis::Channels, cpu_channels, gpu_channels))
            }
            Placement::HeightSplit { cpu_rows, gpu_rows, .. } => Some(cut(Axis::Height, cpu_rows, gpu_rows)),
            Placement::Cpu(_) | Placement::Gpu | Placement::Npu | Placement::Accelerators(_) => None,
        }
    }

    /// What one of both processors computes of `layer`.
    pub fn part(&self, layer: &Layer, which: usize) -> Layer {
        let range = self.parts[which].clone();
        match self.axis {
            Axis::Channels => layer.with_output_channels(range.end - range.start),
            Axis::Height => layer.with_output_rows(range),
        }
    }

    /// Lines that both processors compute.
    pub fn overlap(&self) -> u32 {
        self.parts[0].end.saturating_sub(self.parts[1].start)
    }

    /// Widens `producer` by what the parts of `stage` read of it at `position`.
    fn widen(&self, stage: &Stage, position: usize, producer: &mut Self) {
        if self.axis == Axis::Channels {
            return;
        }
        let [first, second] = [0, 1].map(|part: usize| lines_read(stage, position, self.parts[part].clone()));
        let [own, other] = &mut producer.parts;
        own.end = own.end.max(first.end.min(producer.all));
        other.start = other.start.min(second.start);
    }

    /// Whether each processor can compute its part of `stage`, cut so, from its part of
    /// `producer`, cut as `before` says.
    pub(crate) fn reads_parts_of(&self, stage: &Stage, before: &Self, producer: &Stage) -> bool {
        self.link(stage, before, producer).is_ok()
    }

    fn link(&self, stage: &Stage, before: &Self, producer: &Stage) -> Result<(), &'static str> {
        match self.axis {
            Axis::Height => {
                let written = producer.layer.operator.output().lines();
                let read = stage.layer.operator.rows_reached(0..self.all).end;
                let is_readable = read <= written || written == self.all;
                if is_readable { Ok(()) } else { Err("it reads all lines of an operator of its chain") }
            }
            Axis::Channels if stage.layer.operator.separate_channels().is_none() => {
                Err("it reads every channel of an operator of its chain")
            }
            Axis::Channels => {
                let own = u64::from(self.parts[0].end) * u64::from(before.all);
                let expected = u64::from(before.parts[0].end) * u64::from(self.all);
                if own == expected { Ok(()) } else { Err("its channels are cut elsewhere") }
            }
        }
    }
}

/// The cut of each stage of `plan`, a plan that [`check_chains`] accepts.
pub fn cuts(stages: &[Stage], plan: &Plan) -> Vec<Option<Cut>> {
    let mut cuts: Vec<Option<Cut>> = plan.placements.iter().map(Cut::of).collect();
    if plan.chains.is_empty() {
        return cuts;
    }
    // From the last operator of a chain to its first: what reads comes after what it reads.
    for index in (0..stages.len()).rev() {
        let Some(chain) = plan.chain(index) else { continue };
        let (before, behind) = cuts.split_at_mut(index);
        let Some(Some(cut)) = behind.first() else { continue };
        for (position, &input) in stages[index].inputs.iter().enumerate() {
            if plan.chain(input) == Some(chain)
                && let Some(producer) = &mut before[input]
            {
                cut.widen(&stages[index], position, producer);
            }
        }
    }
    cuts
}

/// Widens the cuts of a chain of all stages from `first` on by what later ones read.
pub(crate) fn widen(stages: &[Stage], first: usize, cuts: &mut [Cut]) {
    for index in (1..cuts.len()).rev() {
        let (before, behind) = cuts.split_at_mut(index);
        let stage = &stages[first + index];
        for (position, &input) in stage.inputs.iter().enumerate().filter(|(_, input)| **input >= first) {
            behind[0].widen(stage, position, &mut before[input - first]);
        }
    }
}

/// Lines that `part` of the output of `stage` reads of its input at `position`.
pub(crate) fn lines_read(stage: &Stage, position: usize, part: Range<u32>) -> Range<u32> {
    let reached = stage.layer.operator.rows_reached(part.clone());
    match position {
        // Tensors of linked functions have the output's lines.
        1.. => part,
        // Which inputs of the graph are missing in front is not known: the first that
        // another stage computed may be the operator's or a linked function's.
        0 if stage.inputs.len() < stage.input_count => {
            reached.start.min(part.start)..reached.end.max(part.end)
        }
        0 => reached,
    }
}

/// That the chains of `plan` are chains.
///
/// # Errors
/// The first operator that its chain cannot have.
pub fn check_chains(stages: &[Stage], plan: &Plan) -> Result<(), ChainError> {
    let mut known: Vec<(u32, Axis, Option<CoreSet>)> = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        let Some(chain) = plan.chain(index) else { continue };
        let wrong = |reason| ChainError { stage: index, chain, reason };
        let Some(cut) = plan.placements.get(index).and_then(Cut::of) else {
            return Err(wrong("one processor computes it alone"));
        };
        let cores = plan.placements[index].cores();
        match known.iter().find(|(number, ..)| *number == chain) {
            None => known.push((chain, cut.axis, cores)),
            Some((_, axis, _)) if *axis != cut.axis => {
                return Err(wrong("it is cut along something else than the operators before it"));
            }
            Some((.., others)) if *others != cores => {
                return Err(wrong("its core set is another than that of the operators before it"));
            }
            Some(_) => {}
        }
        for &input in stage.inputs.iter().filter(|&&input| plan.chain(input) == Some(chain)) {
            let Some(before) = Cut::of(&plan.placements[input]) else { continue };
            cut.link(stage, &before, &stages[input]).map_err(wrong)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
