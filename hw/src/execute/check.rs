//! Whether what a program computed is right: each part of an operator against the
//! reference, on what it really read. Lines that both sides of a chain computed count as
//! read from either, once they were joined.

use super::ExecuteError;
use super::machine::Machine;
use super::program::{Program, borrowed};
use crate::cpu::Element;
use crate::operands::Part;
use crate::verify::Reference;

/// Multiply-accumulates that checking one operator may cost: some hundredths of a
/// second in double precision. Of larger operators every so many elements are checked.
const WORK: u64 = 1 << 20;

/// Whose copy of a tensor is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Host,
    Device,
}

/// Results that were found right.
pub(super) struct Verified {
    /// Bits of the workload's results, by stage.
    results: Vec<(usize, Vec<u32>)>,
    /// Elements that were compared with the reference.
    pub(super) elements: usize,
}

impl<T: Element> Program<T> {
    /// Spoils all results, runs once, and compares every operator's result with the
    /// reference.
    pub(super) fn verify(&mut self, machine: &mut Machine) -> Result<Verified, ExecuteError> {
        for place in &self.places[..self.operations.len()] {
            place.spoil()?;
        }
        self.run(machine)?;
        let mut elements = 0;
        for stage in 0..self.operations.len() {
            elements += self.verify_stage(stage)?;
        }
        let results = self.results().map(|stage| Ok((stage, bits(&self.places[stage].read()?))));
        Ok(Verified { results: results.collect::<Result<_, ExecuteError>>()?, elements })
    }

    /// Each side's part on what that side read, where its own readers have it; then what
    /// everybody else is given.
    fn verify_stage(&self, stage: usize) -> Result<usize, ExecuteError> {
        let operation = &self.operations[stage];
        let mut elements = 0;
        if let Some(cpu) = &operation.cpu {
            elements += self.verify_part(stage, &cpu.portion.part, [Side::Host; 2])?;
        }
        if let Some(gpu) = &operation.gpu {
            // Outside chains the host is given all that it looks at.
            let found = if operation.chain.is_some() { Side::Device } else { Side::Host };
            elements += self.verify_part(stage, &gpu.portion.part, [Side::Device, found])?;
            if operation.chain.is_some() && self.is_joined(stage) {
                elements += self.verify_part(stage, &gpu.portion.share, [Side::Device, Side::Host])?;
            }
        }
        Ok(elements)
    }

    /// Elements of `part` that agree with the reference on what the first of the sides
    /// read; the result is taken from the second.
    fn verify_part(
        &self,
        stage: usize,
        part: &Part,
        [reader, holder]: [Side; 2],
    ) -> Result<usize, ExecuteError> {
        let operation = &self.operations[stage];
        let mut inputs: Vec<Vec<f32>> = Vec::with_capacity(operation.reads.len());
        for &read in &operation.reads {
            inputs.push(self.seen_by(reader, read)?.into_iter().map(Element::to_f32).collect());
        }
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let weights = self.weights(stage);
        let reference = Reference::new(&operation.layer, borrowed(&weights), &inputs)?;
        let operator = &operation.layer.operator;
        let every = stride(operator.macs().div_ceil(WORK), operator.output().channels);
        let actual = self.seen_by(holder, stage)?;
        let channels = operator.output().channels as usize;
        let mut elements = part.elements(operator).map(|(pixel, channel)| pixel * channels + channel);
        if let Some(element) = elements.find(|&element| actual[element].to_f32().is_nan()) {
            return Err(ExecuteError::NotComputed { operator: operator.to_string(), element });
        }
        // Each processor's part is checked as densely as the whole would be.
        Ok(reference.compare(&actual, part, every)?.elements)
    }

    fn seen_by(&self, side: Side, tensor: usize) -> Result<Vec<T>, ExecuteError> {
        let place = &self.places[tensor];
        Ok(match side {
            Side::Host => place.read(),
            Side::Device => place.read_on_device(),
        }?)
    }

    /// Whether the host is given all of a chain's result.
    fn is_joined(&self, stage: usize) -> bool {
        !self.places[stage].is_copied() || self.schedule.is_fetched(stage)
    }

    /// Stages whose results nobody reads.
    fn results(&self) -> impl Iterator<Item = usize> {
        (0..self.operations.len())
            .filter(|stage| !self.operations.iter().any(|operation| operation.reads.contains(stage)))
    }

    /// Spoils the workload's results: what the next run leaves out is noticed.
    pub(super) fn spoil_results(&self) -> Result<(), ExecuteError> {
        Ok(self.results().try_for_each(|stage| self.places[stage].spoil())?)
    }

    /// Whether the last run's results are, bit by bit, those that were verified.
    pub(super) fn compare(&self, verified: &Verified) -> Result<(), ExecuteError> {
        for (stage, expected) in &verified.results {
            let found = bits(&self.places[*stage].read()?);
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
    let common = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut stride = least.max(1);
    while stride > 1 && common(stride, u64::from(channels)) != 1 {
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
