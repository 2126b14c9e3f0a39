//! Verification of a program's results: each part of an operator against the reference, computed
//! from the inputs that the part really read. Rows that both sides of a chain computed may be read
//! from either copy after the join.

use coexec_sim::Region;

use super::{ExecuteError, Machine, Place, Program, Result, Side, borrowed, joined_stages};
use crate::cpu::Element;
use crate::operands;
use crate::verify::Reference;

/// Terms that the reference adds up to check one operator: some hundredths of a second in double
/// precision. Of operators with more, only every nth element is checked.
const MAX_CHECKED_TERMS: u64 = 1 << 20;

/// Verified results.
pub(crate) struct Verified {
    /// Bits of the workload's results, by stage.
    results: Vec<(usize, Vec<u32>)>,
    /// Number of elements compared with the reference.
    pub(super) elements: usize,
}

impl<T: Element> Program<T> {
    /// Poisons all results, runs once, and compares every operator's result with the reference.
    pub(crate) fn verify(&mut self, machine: &mut Machine) -> Result<Verified> {
        self.poison()?;
        self.run(machine)?;
        let mut elements = 0;
        for stage in 0..self.operations.len() {
            machine.control.check()?;
            elements += self.verify_stage(stage)?;
        }
        let results = self.results().map(|stage| Ok((stage, bits(&self.seen(None, Side::Host, stage)?))));
        Ok(Verified { results: results.collect::<Result<_>>()?, elements })
    }

    /// Compares each part, as its own readers see it, with the reference; then the joined result,
    /// as other readers see it.
    fn verify_stage(&self, stage: usize) -> Result<usize> {
        let operation = &self.operations[stage];
        let is_in_chain = self.places.chains[stage].is_some();
        let mut elements = 0;
        for part in &operation.parts {
            let side = if part.gpu.is_some() { Side::Device } else { Side::Host };
            // Outside of chains, the host receives everything that it checks.
            let holder = if is_in_chain { side } else { Side::Host };
            let own = self.seen(Some(stage), holder, stage)?;
            elements += self.verify_part(stage, part.computed, side, &own)?;
            if is_in_chain && joined_stages(&self.schedule).any(|joined| joined == stage) {
                let given = self.seen(None, Side::Host, stage)?;
                elements += self.verify_part(stage, part.owned, side, &given)?;
            }
        }
        Ok(elements)
    }

    /// Compares `part` of the result `actual` with the reference on the inputs that `side` read;
    /// returns the number of compared elements.
    fn verify_part(&self, stage: usize, part: Region, side: Side, actual: &[T]) -> Result<usize> {
        let operation = &self.operations[stage];
        let mut inputs: Vec<Vec<f32>> = Vec::with_capacity(self.tensors.reads[stage].len());
        for &read in &self.tensors.reads[stage] {
            let seen = self.seen(Some(stage), side, read)?;
            inputs.push(seen.into_iter().map(Element::to_f32).collect());
        }
        let inputs: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
        let weights = self.weights(stage);
        let reference = Reference::new(&operation.layer, borrowed(&weights), &inputs)?;
        let operator = &operation.layer.operator;
        let output = operator.output();
        let channels = output.channels as usize;
        let mut elements =
            operands::elements(output, part).map(|(pixel, channel)| pixel * channels + channel);
        if let Some(element) = elements.find(|&element| actual[element].to_f32().is_nan()) {
            return Err(ExecuteError::NotComputed { operator: operator.to_string(), element });
        }
        // At the image's edges the reference skips padding.
        let terms = output.elements() * reference.at(output.pixels() as usize / 2, 0).terms.max(1);
        let every = stride(terms.div_ceil(MAX_CHECKED_TERMS), output.channels);
        // Each processor's part is sampled as densely as the whole would be.
        Ok(reference.compare(actual, part, every)?)
    }

    /// A tensor as a reader on `side` sees it; as the caller sees it without a reader.
    fn seen(&self, reader: Option<usize>, side: Side, tensor: usize) -> Result<Vec<T>> {
        let place = self.places.of(reader, tensor, side);
        Ok(match side {
            Side::Host => place.read(),
            Side::Device => place.read_on_device(),
        }?)
    }

    /// Stages whose results no other stage reads.
    fn results(&self) -> impl Iterator<Item = usize> {
        (0..self.operations.len()).filter(|&stage| !self.tensors.is_read(stage))
    }

    /// Poisons all results, so that elements that the next run leaves out, or reads too early, are noticed.
    pub(super) fn poison(&self) -> Result<()> {
        let mut all =
            self.places.own[..self.operations.len()].iter().chain(self.places.joined.iter().flatten());
        Ok(all.try_for_each(Place::poison)?)
    }

    /// Checks that the last run's results equal the verified ones bit by bit.
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

/// A stride of at least `least` that is coprime to `channels`, so that sampled elements cover every
/// channel.
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
