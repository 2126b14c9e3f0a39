//! What it costs that the other processor sees bytes in memory of both: mapping, changing
//! the layout.

use std::sync::Arc;

use coexec_sim::Quantity;
use coexec_sim::device::sync::Transfer;

use super::{Bench, Line, Measured, NANOS_PER_MICRO, ProbeOptions, Result, TimeBudget, over_sizes, repeated};
use crate::opencl::{BoundKernel, Exchange, Runtime};

/// Bytes of the transfers.
const QUICK: [usize; 5] = [4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20];
const FULL: [usize; 9] =
    [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20];
/// Repetitions of each.
const REPETITIONS: [usize; 2] = [10, 40];
/// Slices of the tensor whose layout changes: 64 channels.
const SLICES: u32 = 16;
/// What is measured.
const WHAT: &str = "transfers";
/// Bytes of a slice's texel.
const TEXEL_BYTES: usize = 16;

/// Costs of each kind.
pub(super) struct Transfers {
    pub(super) map: Line,
    pub(super) unmap: Line,
}

/// Measures them.
pub(super) fn measure(
    bench: &Bench<'_>,
    runtime: &Arc<Runtime>,
    budget: &TimeBudget<'_>,
) -> Result<Transfers> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let sizes: &[usize] = if quick { &QUICK } else { &FULL };
    let repetitions = REPETITIONS[usize::from(!quick)];
    let [map, unmap] = over_sizes(sizes, 2, budget, |size| {
        let exchange = Exchange::new(runtime, size)?;
        budget.report(&format!("transfers of {} KiB", size >> 10));
        let times = repeated(repetitions, || Ok(exchange.map_and_unmap()?))?;
        Ok(times.map(|times| (exchange.bytes().0 as f64, times)))
    })?;
    Ok(Transfers { map: Line::of(&map, seed, WHAT)?, unmap: Line::of(&unmap, seed, WHAT)? })
}

/// Measures a kernel that changes the layout of a tensor in buffers.
pub(super) fn transform(bench: &Bench<'_>, runtime: &Arc<Runtime>, budget: &TimeBudget<'_>) -> Result<Line> {
    let ProbeOptions { quick, seed, .. } = *bench.options;
    let sizes: &[usize] = if quick { &QUICK } else { &FULL };
    let [times] = over_sizes(sizes, 2, budget, |size| {
        let pixels = (size / TEXEL_BYTES / SLICES as usize).max(1);
        let kernel = BoundKernel::transform(runtime, pixels as u32, SLICES)?;
        let run = || Ok([kernel.run()?.device]);
        let [times] = repeated(REPETITIONS[usize::from(!quick)], run)?;
        Ok([(kernel.bytes().0 as f64, times)])
    })?;
    Line::of(&times, seed, WHAT)
}

/// The costs of a kind as a profile has them.
pub(super) fn table(line: &Line, what: &str) -> Transfer {
    Transfer {
        source: what.to_owned(),
        fixed_us: line.fixed.quantity(what),
        per_byte_ns: line.slope.scaled(NANOS_PER_MICRO).quantity(what),
    }
}

/// What a change of layout adds to the queue of a device: a kernel, and the gap before it.
pub(super) fn arranging(line: &Line, gap: &Measured, what: &str) -> Transfer {
    let source = format!("{what}: a kernel that changes the layout, over sizes, and the gap before it");
    let ci95 = [0, 1].map(|end| line.fixed.ci95[end] + gap.ci95[end]);
    let fixed = Measured { value: line.fixed.value + gap.value, ci95, ..line.fixed };
    Transfer { fixed_us: fixed.quantity(&source), ..table(line, &source) }
}

/// What changes of layout cost where processors meet: nothing, as `crate::execute` has
/// kernels write what both see the way the host reads it.
pub(super) fn no_transform(what: &str) -> Transfer {
    let source = format!("{what}: none, as kernels write the host's layout");
    Transfer { fixed_us: Quantity::plain(0.0), per_byte_ns: Quantity::plain(0.0), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact_line(fixed_us: f64, gbps: f64) -> Line {
        let times: crate::probe::Times = [1e4, 1e5, 1e6, 1e7]
            .iter()
            .map(|&bytes| (bytes, vec![fixed_us + bytes / (gbps * 1e3); 5]))
            .collect();
        Line::of(&times, 1, WHAT).unwrap()
    }

    #[test]
    fn a_cost_a_byte_is_written_in_nanoseconds() {
        let table = table(&exact_line(5.0, 10.0), "test");
        assert!((table.per_byte_ns.value - 0.1).abs() < 1e-6, "{table:?}");
    }
}
