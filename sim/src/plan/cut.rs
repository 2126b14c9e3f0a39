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

    /// Makes the parts reach what `reads` needs of them.
    fn reach(&mut self, reads: [Range<u32>; 2]) {
        let [first, second] = reads;
        self.parts[0].end = self.parts[0].end.max(first.end.min(self.all));
        self.parts[1].start = self.parts[1].start.min(second.start);
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
        let Some(cut) = cuts[index].clone().filter(|cut| cut.axis == Axis::Height) else { continue };
        for (position, &input) in stages[index].inputs.iter().enumerate() {
            if plan.chain(input) == Some(chain)
                && let Some(producer) = &mut cuts[input]
            {
                let reads = |part: Range<u32>| lines_read(&stages[index], position, part);
                producer.reach([reads(cut.parts[0].clone()), reads(cut.parts[1].clone())]);
            }
        }
    }
    cuts
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
            check_link(stage, &cut, &stages[input], &plan.placements[input]).map_err(wrong)?;
        }
    }
    Ok(())
}

/// That each processor can compute its part of `stage` from its part of `producer`.
fn check_link(stage: &Stage, cut: &Cut, producer: &Stage, placement: &Placement) -> Result<(), &'static str> {
    let Some(before) = Cut::of(placement) else { return Ok(()) };
    match cut.axis {
        Axis::Height => {
            let [read, written] =
                [stage.layer.operator.rows_reached(0..cut.all).end, producer.layer.operator.output().lines()];
            let same_lines = producer.layer.operator.output().lines() == cut.all;
            if read > written && !same_lines {
                return Err("it reads all lines of an operator of its chain");
            }
            Ok(())
        }
        Axis::Channels if stage.layer.operator.separate_channels().is_none() => {
            Err("it reads every channel of an operator of its chain")
        }
        Axis::Channels => {
            let scaled = |part: &Range<u32>| u64::from(part.end) * u64::from(before.all);
            let own = u64::from(before.parts[0].end) * u64::from(cut.all);
            if scaled(&cut.parts[0]) == own { Ok(()) } else { Err("its channels are cut elsewhere") }
        }
    }
}

#[cfg(test)]
mod tests;
