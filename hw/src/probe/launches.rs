//! Launches of kernels that do next to nothing: what starting one costs, and how many
//! groups run at once.

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::device::gpu::HostPath;
use coexec_sim::device::quantity::Quantity;
use coexec_sim::statistics::median;

use super::ProbeError;
use super::statistics::{Measured, relative_deviation};
use crate::opencl::traffic::Launched;
use crate::opencl::{OpenClError, Runtime};

/// Repetitions of a single launch.
const REPETITIONS: [usize; 2] = [50, 300];
/// Launches behind one another.
const CHAIN: u32 = 20;
/// Steps of the kernel whose groups are counted: tens of microseconds on any device.
const SPIN_STEPS: u32 = 20_000;
/// Threads of its groups.
const SPIN_THREADS: usize = 64;
/// Rounds of groups that are counted.
const ROUNDS: usize = 4;
/// Most group counts that are tried.
const MOST_COUNTS: usize = 40;
/// Relative rise of the time that counts as one more round, as a part of the first.
const STEP: f64 = 0.5;
/// What one launch may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What starting kernels costs, in microseconds.
pub(super) struct Launches {
    /// From the host's call until the device starts.
    pub(super) submit: Measured,
    /// From the device's end until the host knows, which asks all the time.
    pub(super) read_back: Measured,
    /// Between two kernels of a queue.
    pub(super) gap: Measured,
}

/// Times over numbers of work-groups.
pub(super) struct Staircase {
    /// Groups, microseconds.
    pub(super) times: Vec<(usize, f64)>,
    /// Groups that run at once, where the times have a step.
    pub(super) at_once: Option<usize>,
}

/// Measures single launches and launches behind one another.
pub(super) fn measure(runtime: &Arc<Runtime>, quick: bool) -> Result<Launches, ProbeError> {
    let nothing = Launched::spin(runtime, 1, 1, 1)?;
    let repetitions = REPETITIONS[usize::from(!quick)];
    let mut times: [Vec<f64>; 3] = std::array::from_fn(|_| Vec::with_capacity(repetitions));
    for _ in 0..repetitions {
        let single = nothing.run_polled(LIMIT)?;
        let Some(kernel) = single.kernels.first() else { continue };
        let submitted = (kernel.queued + kernel.submitted).as_micros();
        let known = single.wall.as_micros() - submitted - kernel.execution.as_micros();
        let chain = nothing.run_times(CHAIN, LIMIT)?;
        let inside: f64 = chain.kernels.iter().map(|kernel| kernel.execution.as_micros()).sum();
        let gap = (chain.device.as_micros() - inside) / f64::from(CHAIN - 1);
        for (times, time) in times.iter_mut().zip([submitted, known, gap]) {
            times.push(time.max(0.0));
        }
    }
    let measured = |times: &[f64]| Measured::of(times).ok_or(ProbeError::TooLittleTime { what: "launches" });
    let [submit, read_back, gap] = &times;
    Ok(Launches { submit: measured(submit)?, read_back: measured(read_back)?, gap: measured(gap)? })
}

impl Launches {
    /// The host path of a profile; `what` says how it was measured.
    pub(super) fn host_path(&self, what: &str) -> HostPath {
        let assumed = |value: f64, why: &str| Quantity {
            value,
            source: Some(format!("assumed, not measured: {why}")),
            ci95: None,
        };
        HostPath {
            source: what.to_owned(),
            submit_us: self.submit.quantity(&format!("{what}, from the call to the start of a kernel")),
            read_back_us: self
                .read_back
                .quantity(&format!("{what}, from a kernel's end until the host knows")),
            kernel_factor: assumed(1.0, "a launch takes in an inference what it takes alone"),
            gap_us: self.gap.quantity(&format!("{what}, between kernels of one queue")),
            traffic_us_per_byte: assumed(
                0.0,
                "an inference finds its data in the caches as a repeated launch",
            ),
        }
    }
}

/// Times growing numbers of groups around what `compute_units` would run at once.
pub(super) fn staircase(
    runtime: &Arc<Runtime>,
    compute_units: u32,
    quick: bool,
) -> Result<Staircase, OpenClError> {
    let units = compute_units as usize;
    let most = ROUNDS * units;
    let stride = most.div_ceil(if quick { MOST_COUNTS / 4 } else { MOST_COUNTS }).max(1);
    let mut times = Vec::new();
    for groups in (1..=most + 1).step_by(stride) {
        let spin = Launched::spin(runtime, groups, SPIN_THREADS, SPIN_STEPS)?;
        spin.run(LIMIT)?;
        let repeated = (0..5).map(|_| Ok(spin.run(LIMIT)?.device.as_micros()));
        let repeated: Vec<f64> = repeated.collect::<Result<_, OpenClError>>()?;
        times.push((groups, median(&repeated).unwrap_or(0.0)));
    }
    let at_once = first_step(&times);
    Ok(Staircase { times, at_once })
}

/// The largest number of groups that takes no longer than one: what runs at once.
fn first_step(times: &[(usize, f64)]) -> Option<usize> {
    let (_, alone) = *times.first()?;
    let place = times.iter().position(|&(_, time)| time > (1.0 + STEP) * alone)?;
    Some(times[place.checked_sub(1)?].0)
}

/// How much the same kernel differs from run to run, as a part of its time.
pub(super) fn noise(runtime: &Arc<Runtime>) -> Result<f64, OpenClError> {
    let spin = Launched::spin(runtime, 1, SPIN_THREADS, SPIN_STEPS)?;
    spin.run(LIMIT)?;
    let times = (0..REPETITIONS[0]).map(|_| Ok(spin.run(LIMIT)?.device.as_micros()));
    Ok(relative_deviation(&times.collect::<Result<Vec<f64>, OpenClError>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_that_run_at_once_end_at_the_first_step() {
        let times: Vec<(usize, f64)> = (1..=40)
            .map(|groups: usize| (groups, 100.0 * groups.div_ceil(12) as f64 + groups as f64 / 10.0))
            .collect();
        assert_eq!(first_step(&times), Some(12));
    }

    #[test]
    fn times_without_a_step_tell_nothing() {
        let flat: Vec<(usize, f64)> = (1..=40).map(|groups| (groups, 100.0)).collect();
        assert_eq!((first_step(&flat), first_step(&[])), (None, None));
    }
}
