//! Launches of nearly empty kernels: the cost of starting one.

use std::sync::Arc;

use coexec_sim::device::gpu::HostPath;
use coexec_sim::{Picos, Quantity};

use super::{Estimate, Result, relative_deviation, repeated};
use crate::opencl::{BoundKernel, Runtime, between};

/// Repetitions of a single launch, quick and full.
const REPETITIONS: [usize; 2] = [50, 300];
/// Back-to-back launches.
const CHAIN: u32 = 20;
/// Steps of the repeated kernel: tens of microseconds on any device.
const SPIN_STEPS: u32 = 20_000;
/// Threads of its work-group.
const SPIN_THREADS: usize = 64;

/// Launch costs, in microseconds.
pub(super) struct Launches {
    /// From the host's call until the device starts.
    pub(super) submit: Estimate,
    /// From the end on the device until the polling host learns of it.
    pub(super) read_back: Estimate,
    /// Between two kernels of a queue.
    pub(super) gap: Estimate,
}

/// Measures single and back-to-back launches.
pub(super) fn measure(runtime: &Arc<Runtime>, quick: bool) -> Result<Launches> {
    let empty_kernel = BoundKernel::spin(runtime, 1, 1, 1)?;
    let [submit, read_back, gap] = repeated(REPETITIONS[usize::from(!quick)], || {
        let single = empty_kernel.run_polled()?;
        let [started, computed] = single.kernels.first().map_or([Picos::ZERO; 2], |kernel| {
            [between(kernel.queued, kernel.started), between(kernel.started, kernel.ended)]
        });
        let chain = empty_kernel.run_times(CHAIN)?;
        let inside: Picos = chain.kernels.iter().map(|kernel| between(kernel.started, kernel.ended)).sum();
        let gap = Picos(chain.device.saturating_sub(inside).0 / u64::from(CHAIN - 1));
        let known = single.wall.saturating_sub(started).saturating_sub(computed);
        Ok([started, known, gap])
    })?;
    let measured = |times: &[f64]| Estimate::of(times, "launches");
    Ok(Launches { submit: measured(&submit)?, read_back: measured(&read_back)?, gap: measured(&gap)? })
}

impl Launches {
    /// The host path of a profile; `what` states how it was measured.
    pub(super) fn host_path(&self, what: &str) -> HostPath {
        let assumed = |value, why| Quantity::of(value, format!("assumed, not measured: {why}"));
        HostPath {
            source: what.to_owned(),
            submit_us: self.submit.quantity(&format!("{what}, from the call to the start of a kernel")),
            read_back_us: self
                .read_back
                .quantity(&format!("{what}, from a kernel's end until the host notices")),
            kernel_factor: assumed(1.0, "a launch takes in an inference what it takes alone"),
            gap_us: self.gap.quantity(&format!("{what}, between kernels of one queue")),
            traffic_us_per_byte: assumed(
                0.0,
                "an inference finds its data in the caches as a repeated launch",
            ),
        }
    }
}

/// Relative deviation of the times of a repeated compute-only kernel.
pub(super) fn noise(runtime: &Arc<Runtime>) -> Result<f64> {
    let spin = BoundKernel::spin(runtime, 1, SPIN_THREADS, SPIN_STEPS)?;
    let [times] = repeated(REPETITIONS[0], || Ok([spin.run()?.device]))?;
    Ok(relative_deviation(&times))
}
