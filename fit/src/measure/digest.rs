//! Digests of runs, by which tables of the same runs are recognised.
//!
//! Responsible for: a short digest of runs, the same on every machine and for any order
//! of rows. Not for: security; the hash is not cryptographic, so collisions can be made.

use super::runs::Measurement;
use super::{ByProcessor, Run};

/// Offset basis and prime of the 64-bit FNV-1a hash (Fowler, Noll and Vo).
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// The digest of measurements in coexec's own format, in hexadecimal digits.
pub fn of_measurements(measurements: &[Measurement]) -> String {
    of_lines(measurements.iter().flat_map(|measurement| {
        measurement.repetitions.iter().map(|repetition| {
            let (run, processor) = (&measurement.run, &measurement.processor);
            format!("{run} {processor} {} {}", repetition.number, repetition.measured_us)
        })
    }))
}

/// The digest of one device's runs in a data set, in hexadecimal digits.
pub fn of_runs(runs: &ByProcessor) -> String {
    fn line<W>(on: &str, run: &Run<W>) -> String {
        format!("{on} {} {} {}", run.network, run.line, run.measured_us)
    }
    let layers = runs.gpu.iter().map(|run| line("gpu", run));
    let networks = runs.gpu_networks.iter().map(|run| line("inference", run));
    let cores = runs.cpu.iter().map(|run| line(&run.what.core_set, run));
    let inferences = runs.inferences.iter().map(|run| line(&run.what.job, run));
    let answers = runs.answers.iter().map(|run| line(&run.what.group().to_string(), run));
    of_lines(layers.chain(networks).chain(cores).chain(inferences).chain(answers))
}

/// The digest of lines of text in any order, in hexadecimal digits.
pub fn of_lines(lines: impl Iterator<Item = String>) -> String {
    let mut lines: Vec<String> = lines.collect();
    lines.sort_unstable();
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    let hash = bytes.fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> String {
        of_lines(lines.iter().map(|&line| line.to_owned()))
    }

    #[test]
    fn the_digest_depends_on_every_time_but_not_on_row_order() {
        assert_eq!(of(&["a 1", "b 2"]), of(&["b 2", "a 1"]));
        assert_ne!(of(&["a 1", "b 2"]), of(&["a 1", "b 3"]));
        assert_ne!(of(&["a 1"]), of(&["a 1", "a 1"]));
        // The hash of no bytes is its offset basis.
        assert_eq!(of(&[]), "cbf29ce484222325");
    }
}
