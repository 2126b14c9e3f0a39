//! What it costs that the other processor sees bytes in memory of both: mapping, changing
//! the layout.

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::device::quantity::Quantity;
use coexec_sim::device::sync::Transfer;

use super::statistics::{Line, Measured, micros};
use super::{ProbeError, Stage};
use crate::opencl::traffic::{Exchange, Launched};
use crate::opencl::{OpenClError, Runtime};

/// Bytes of the transfers.
const QUICK: [usize; 5] = [4 << 10, 64 << 10, 512 << 10, 2 << 20, 8 << 20];
const FULL: [usize; 9] =
    [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 32 << 20];
/// Repetitions of each.
const REPETITIONS: [usize; 2] = [10, 40];
/// Slices of the tensor whose layout changes: 64 channels.
const SLICES: u32 = 16;
/// Bytes of a slice's texel.
const TEXEL_BYTES: usize = 16;
/// What one launch may take.
const LIMIT: Duration = Duration::from_secs(10);
const NANOS_PER_MICRO: f64 = 1e3;

/// Times over bytes.
type Times = Vec<(f64, Vec<f64>)>;

/// Costs of each kind.
pub(super) struct Transfers {
    pub(super) map: Line,
    pub(super) unmap: Line,
    pub(super) transform: Line,
}

/// Measures them on a device that keeps activations in images or, without `image`, in
/// buffers of slices.
pub(super) fn measure(
    runtime: &Arc<Runtime>,
    image: bool,
    quick: bool,
    seed: u64,
    stage: &Stage<'_>,
) -> Result<Transfers, ProbeError> {
    let sizes: &[usize] = if quick { &QUICK } else { &FULL };
    let repetitions = REPETITIONS[usize::from(!quick)];
    let mut times: [Times; 3] = std::array::from_fn(|_| Vec::new());
    for &size in sizes {
        if stage.is_over() && times[0].len() > 1 {
            break;
        }
        let mut exchange = Exchange::new(runtime, size)?;
        let bytes = exchange.bytes().0 as f64;
        let mut columns: [Vec<_>; 3] = std::array::from_fn(|_| Vec::new());
        let transform = transform(runtime, size, image)?;
        let transformed = transform.bytes().0 as f64;
        // The first is a warm-up.
        for repetition in 0..=repetitions {
            let [map, unmap] = exchange.map_and_unmap()?;
            let changed = transform.run(LIMIT)?.device;
            if repetition > 0 {
                for (column, time) in columns.iter_mut().zip([map, unmap, changed]) {
                    column.push(time);
                }
            }
        }
        let bytes = [bytes, bytes, transformed];
        for ((times, column), bytes) in times.iter_mut().zip(columns).zip(bytes) {
            times.push((bytes, micros(&column)));
        }
        stage.tell(&format!("transfers of {} KiB", size >> 10));
    }
    let line = |times: &Times| Line::of(times, seed).ok_or(ProbeError::TooLittleTime { what: "transfers" });
    let [map, unmap, transform] = &times;
    Ok(Transfers { map: line(map)?, unmap: line(unmap)?, transform: line(transform)? })
}

/// A change of layout of about `size` bytes, as far as images are that wide.
fn transform(runtime: &Arc<Runtime>, size: usize, image: bool) -> Result<Launched, OpenClError> {
    let pixels = (size / TEXEL_BYTES / SLICES as usize).max(1);
    let most = runtime.device().images.filter(|_| image).map_or(usize::MAX, |limit| limit.width);
    Launched::transform(runtime, pixels.min(most) as u32, SLICES, image)
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
/// kernels write what both see the way the host reads it. What a kernel of its own would
/// take stands in the source.
pub(super) fn no_transform(line: &Line, what: &str) -> Transfer {
    let source = format!(
        "{what}: none, as kernels write the host's layout; a kernel of its own would take {:.3} us and \
         {:.5} ns a byte",
        line.fixed.value,
        line.slope.value * NANOS_PER_MICRO
    );
    Transfer { fixed_us: Quantity::plain(0.0), per_byte_ns: Quantity::plain(0.0), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fixed_us: f64, gbps: f64) -> Line {
        let times: Times = [1e4, 1e5, 1e6, 1e7]
            .iter()
            .map(|&bytes| (bytes, vec![fixed_us + bytes / (gbps * 1e3); 5]))
            .collect();
        Line::of(&times, 1).unwrap()
    }

    #[test]
    fn a_cost_a_byte_is_written_in_nanoseconds() {
        let table = table(&line(5.0, 10.0), "test");
        assert!((table.per_byte_ns.value - 0.1).abs() < 1e-6, "{table:?}");
    }
}
