//! How far predictions may be off, from the errors on networks kept out of the fit.

use crate::calibrate::conformal::factor_interval;
use crate::measure::{CpuRun, OnCores};
use coexec_sim::device::cpu::CoreSetSpread;

/// The intervals of core sets with enough networks, in the order of the runs, from each run
/// of a network kept out and its measured over predicted time.
pub(super) fn spreads<'a>(factors_of: impl Iterator<Item = (&'a CpuRun, f64)>) -> Vec<CoreSetSpread> {
    let mut factors: Vec<(&CpuRun, Vec<f64>)> = Vec::new();
    for (run, factor) in factors_of {
        let cores = |run: &'a CpuRun| (&run.what.core_set, run.what.data_type);
        match factors.iter_mut().find(|(other, _)| cores(other) == cores(run)) {
            Some((_, factors)) => factors.push(factor),
            None => factors.push((run, vec![factor])),
        }
    }
    let spread = |(run, factors): (&CpuRun, Vec<f64>)| {
        let networks = factors.len() as u32;
        let [low_factor, high_factor] = factor_interval(factors)?;
        let OnCores { core_set, data_type, .. } = run.what.clone();
        Some(CoreSetSpread { core_set, data_type, networks, low_factor, high_factor })
    };
    factors.into_iter().filter_map(spread).collect()
}
