//! Whether what a program computed is right: each part of an operator against the
//! reference, on what it really read. Lines that both sides of a chain computed count as
//! read from either, once they were joined.

use coexec_sim::Region;

use super::{ExecuteError, Machine, Program, Result, Side, borrowed, joined_stages};
use crate::cpu::Element;
use crate::operands;
use crate::verify::Reference;

/// Multiply-accumulates that checking one operator may cost: some hundredths of a
/// second in double precision. Of larger operators every so many elements are checked.
const WORK: u64 = 1 << 20;

/// Results that were found right.
pub(crate) struct Verified {
    /// Bits of the workload's results, by stage.
    results: Vec<(usize, Vec<u32>)>,
    /// Elements that were compared with the reference.
    pub(super) elements: usize,
}

impl<T: Element> Program<T> {
    /// Spoils all results, runs once, and compares every operator's result with the
    /// reference.
    pub(crate) fn verify(&mut self, machine: &mut Machine) -> Result<Verified> {
        for place in self.places[..self.operations.len()].iter().chain(self.joined.iter().flatten()) {
            place.spoil()?;
        }
        self.run(machine)?;
        let mut elements = 0;
        for stage in 0..self.operations.len() {
            elements += self.verify_stage(stage)?;
        }
        let results = self.results().map(|stage| Ok((stage, bits(&self.seen(None, Side::Host, stage)?))));
        Ok(Verified { results: results.collect::<Result<_>>()?, elements })
    }

    /// Each part on what its side read, where its own readers have it; then what everybody
    /// else is given.
    fn verify_stage(&self, stage: usize) -> Result<usize> {
        let operation = &self.operations[stage];
        let mut elements = 0;
        for part in &operation.parts {
            let side = if part.gpu.is_some() { Side::Device } else { Side::Host };
            // Outside chains the host is given all that it looks at.
            let holder = if operation.chain.is_some() { side } else { Side::Host };
            let own = self.seen(Some(stage), holder, stage)?;
            elements += self.verify_part(stage, part.computed, side, &own)?;
            if operation.chain.is_some() && joined_stages(&self.schedule).any(|joined| joined == stage) {
                let given = self.seen(None, Side::Host, stage)?;
                elements += self.verify_part(stage, part.owned, side, &given)?;
            }
        }
        Ok(elements)
    }

    /// Elements of `part` of the result `actual` that agree with the reference on what that
    /// side read.
    fn verify_part(&self, stage: usize, part: Region, side: Side, actual: &[T]) -> Result<usize> {
        let operation = &self.operations[stage];
        let mut inputs: Vec<Vec<f32>> = Vec::with_capacity(operation.reads.len());
        for &read in &operation.reads {
            let seen = self.seen(Some(stage), side, read)?;
            inputs.push(seen.into_iter().map(Element::to_f32).collect());
        }
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let weights = self.weights(stage);
        let reference = Reference::new(&operation.layer, borrowed(&weights), &inputs)?;
        let operator = &operation.layer.operator;
        let every = stride(operator.macs().div_ceil(WORK), operator.output().channels);
        let channels = operator.output().channels as usize;
        let mut elements =
            operands::elements(operator.output(), part).map(|(pixel, channel)| pixel * channels + channel);
        if let Some(element) = elements.find(|&element| actual[element].to_f32().is_nan()) {
            return Err(ExecuteError::NotComputed { operator: operator.to_string(), element });
        }
        // Each processor's part is checked as densely as the whole would be.
        Ok(reference.compare(actual, part, every)?)
    }

    /// A tensor as a reader on that side finds it; the caller's without a reader.
    fn seen(&self, reader: Option<usize>, side: Side, tensor: usize) -> Result<Vec<T>> {
        let place = self.place(reader, tensor, side);
        Ok(match side {
            Side::Host => place.read(),
            Side::Device => place.read_on_device(),
        }?)
    }

    /// Stages whose results nobody reads.
    fn results(&self) -> impl Iterator<Item = usize> {
        (0..self.operations.len())
            .filter(|stage| !self.operations.iter().any(|operation| operation.reads.contains(stage)))
    }

    /// Spoils the workload's results: what the next run leaves out is noticed.
    pub(super) fn spoil_results(&self) -> Result<()> {
        Ok(self.results().try_for_each(|stage| self.place(None, stage, Side::Host).spoil())?)
    }

    /// Whether the last run's results are, bit by bit, those that were verified.
    pub(super) fn compare(&self, verified: &Verified) -> Result<()> {
        for (stage, expected) in &verified.results {
            let found = bits(&self.seen(None, Side::Host, *stage)?);
            if let Some(element) = found.iter().zip(expected).position(|(found, right)| found != right) {
                let operator = self.operations[*stage].layer.operator.to_string();
                return Err(ExecuteError::Changed { operator, element });
            }
        }
        Ok(())
    }
}

/// At least `least`, and such that elements this far apart come to all of `channels`.
fn stride(least: u64, channels: u32) -> usize {
    let channels = u64::from(channels);
    let shares_a_divisor = |stride: u64| {
        (2..=channels).any(|divisor| channels.is_multiple_of(divisor) && stride.is_multiple_of(divisor))
    };
    let mut stride = least.max(1);
    while shares_a_divisor(stride) {
        stride += 1;
    }
    stride as usize
}

fn bits<T: Element>(numbers: &[T]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_f32().to_bits()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_are_checked_belong_to_all_channels() {
        for (least, channels) in [(1, 64), (64, 64), (400, 384), (30, 105)] {
            let stride = stride(least, channels);
            assert!(stride as u64 >= least);
            let mut seen: Vec<usize> =
                (0..channels as usize).map(|n| n * stride % channels as usize).collect();
            seen.sort_unstable();
            seen.dedup();
            assert_eq!(seen.len(), channels as usize, "{least}, {channels}");
        }
    }
}
