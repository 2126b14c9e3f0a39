//! The region that each part of a plan's operators computes, halos of chains included.
//!
//! A **chain** is a set of operators inside which the processors exchange nothing. Along
//! the height, each processor also computes the halo: the rows beyond its part that its later
//! operators in the chain read. So the parts overlap (the padding of `CoDL`, `MobiSys`'22,
//! section 4.2). Along channels, a chain contains only operators that compute channels
//! independently, and its parts never overlap.

use std::collections::BTreeSet;

use arrayvec::ArrayVec;
use thiserror::Error;

use super::{Axis, MAX_PARTS, Placement, Plan, Processor, Region, Span};
use crate::workload::{Read, Stage};

/// The region of each part of an operator, in the order of its placement.
pub type Regions = ArrayVec<Region, MAX_PARTS>;

/// Why operators cannot be a chain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("operator {stage} cannot belong to chain {chain}: {reason}")]
pub struct ChainError {
    /// Position of the operator in the workload.
    pub stage: usize,
    /// Number of the chain.
    pub chain: u32,
    /// The violated condition.
    pub reason: &'static str,
}

/// The region that each part of every stage computes, in a chain widened by the halo that later
/// operators read.
///
/// # Errors
/// As [`check_chains`].
pub fn computed(stages: &[Stage], plan: &Plan) -> Result<Vec<Regions>, ChainError> {
    check_chains(stages, plan)?;
    let mut regions: Vec<Regions> =
        stages.iter().zip(&plan.placements).map(|(stage, placement)| owned(stage, placement)).collect();
    if !plan.chains.is_empty() {
        let is_chained =
            |reader, read| plan.chain(reader).is_some() && plan.chain(reader) == plan.chain(read);
        // From the last stage back, since readers come after what they read.
        for index in (1..regions.len()).rev() {
            widen_inputs((stages, 0), index, &mut regions, &is_chained, |_| {});
        }
    }
    Ok(regions)
}

/// The regions of a placement of one stage, without halos.
pub fn owned(stage: &Stage, placement: &Placement) -> Regions {
    let whole = Region::of(stage.layer.operator.output());
    placement.parts().map(|part| part.region.common(whole)).collect()
}

/// Widens the regions of a chain that starts at stage `first` by the reads of its last stage; those of
/// the others are included already. Returns the positions in the chain whose regions changed.
pub(crate) fn widen_by_last(stages: &[Stage], first: usize, regions: &mut [Regions]) -> BTreeSet<usize> {
    let (mut changed, mut open) = (BTreeSet::new(), BTreeSet::from([regions.len() - 1]));
    while let Some(index) = open.pop_last() {
        widen_inputs((stages, first), index, regions, &|_, _| true, |producer| {
            changed.insert(producer);
            open.insert(producer);
        });
    }
    changed
}

/// Widens the regions of the inputs of stage `first + index`, and calls `changed` for each that grew.
fn widen_inputs(
    (stages, first): (&[Stage], usize),
    index: usize,
    regions: &mut [Regions],
    is_chained: &impl Fn(usize, usize) -> bool,
    mut changed: impl FnMut(usize),
) {
    let (before, rest) = regions.split_at_mut(index);
    let stage = &stages[first + index];
    for &Read { position, input } in &stage.reads {
        let Some(producer) = input.checked_sub(first).filter(|_| is_chained(first + index, input)) else {
            continue;
        };
        let all = Span::new(0, stages[input].layer.operator.output().lines());
        let old = before[producer].clone();
        for (own, part) in before[producer].iter_mut().zip(&rest[0]) {
            let read = stage.rows_read(position, part.rows.range()).map_or(all, Span::from);
            own.rows = own.rows.hull(read.common(all));
        }
        if before[producer] != old {
            changed(producer);
        }
    }
}

/// Checks that a part of `stage` along `axis` can be computed from a part of `producer`, whose result it reads at
/// `position`.
///
/// # Errors
/// Why it cannot.
pub(crate) fn is_chainable(
    axis: Axis,
    (stage, position): (&Stage, usize),
    producer: &Stage,
) -> Result<(), &'static str> {
    let operator = &stage.layer.operator;
    let (lines, written) = (operator.output().lines(), producer.layer.operator.output().lines());
    match axis {
        Axis::Height => {
            let read = stage.rows_read(position, 0..lines);
            let is_readable = read.is_some_and(|read| read.end <= written || written == lines);
            if is_readable { Ok(()) } else { Err("it reads all rows of an operator of its chain") }
        }
        Axis::Channels if operator.separate_channels().is_none() => {
            Err("it reads every channel of an operator of its chain")
        }
        Axis::Channels => Ok(()),
    }
}

/// Checks that each processor can compute its region of `stage`, cut along `axis`, from its
/// region of `producer`, whose result it reads at `position`.
///
/// # Errors
/// Why it cannot.
pub(crate) fn follows(
    axis: Axis,
    (stage, position, regions): (&Stage, usize, &Regions),
    (producer, before): (&Stage, &Regions),
) -> Result<(), &'static str> {
    is_chainable(axis, (stage, position), producer)?;
    let [own, written] = [stage, producer].map(|stage| u64::from(stage.layer.operator.output().channels));
    let is_even = |(part, before): (&Region, &Region)| {
        u64::from(part.channels.end) * written == u64::from(before.channels.end) * own
    };
    match axis {
        Axis::Channels if !regions.iter().zip(before).all(is_even) => {
            Err("its channels are not cut where those of its input are")
        }
        Axis::Channels | Axis::Height => Ok(()),
    }
}

/// Checks the chains of `plan`.
///
/// # Errors
/// The first operator that cannot belong to its chain.
pub fn check_chains(stages: &[Stage], plan: &Plan) -> Result<(), ChainError> {
    // The first operator of each chain.
    let mut known: Vec<(u32, Axis, Placement)> = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        let Some(chain) = plan.chain(index) else { continue };
        let wrong = |reason| ChainError { stage: index, chain, reason };
        let Some(placement) = plan.placements.get(index).filter(|placement| placement.is_cut()) else {
            return Err(wrong("one processor computes it alone"));
        };
        let axis = placement.axis().ok_or_else(|| wrong("it is cut along its height and its channels"))?;
        match known.iter().find(|(number, ..)| *number == chain) {
            None => known.push((chain, axis, *placement)),
            Some((_, first, _)) if *first != axis => {
                return Err(wrong("it is cut along a different axis from the operators before it"));
            }
            Some((.., first)) if first.cores() != placement.cores() => {
                return Err(wrong("its core set differs from that of the operators before it"));
            }
            Some((.., first)) if !processors(first).eq(processors(placement)) => {
                return Err(wrong("its processors differ from those of the operators before it"));
            }
            Some(_) => {}
        }
        let in_chain = stage.reads.iter().filter(|read| plan.chain(read.input) == Some(chain));
        for &Read { position, input } in in_chain {
            let before = (&stages[input], &owned(&stages[input], &plan.placements[input]));
            follows(axis, (stage, position, &owned(stage, placement)), before).map_err(wrong)?;
        }
    }
    Ok(())
}

fn processors(placement: &Placement) -> impl Iterator<Item = Processor> {
    placement.parts().map(|part| part.by)
}

#[cfg(test)]
mod tests;
