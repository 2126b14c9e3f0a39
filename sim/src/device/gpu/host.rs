//! The host path of a whole inference: its time in addition to its launches.
//!
//! Launches are timed one by one with profiling events, each repeated until its time
//! is stable. An inference runs each launch once, after a different one, and starts and
//! ends on the CPU. The sum of the launches therefore falls 12 to 80 % short of the CNN
//! end-to-end times of the mobile-ml-benchmark data set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Quantity;

/// Time of an inference on the GPU, given the times of its launches in isolation.
///
/// ```text
/// inference = submit_us + read_back_us
///           + sum over launches of (kernel_factor * launch alone + gap_us
///                                   + traffic_us_per_byte * bytes of the launch)
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostPath {
    /// Where the values come from.
    pub source: String,
    /// From the call to the first launch: copying the input, filling the queue, waking the
    /// GPU.
    pub submit_us: Quantity,
    /// From the end of the last launch to the result in the caller's memory:
    /// waking the CPU and copying the output.
    pub read_back_us: Quantity,
    /// Time of a launch inside an inference relative to its time when repeated in isolation,
    /// where clocks are higher.
    pub kernel_factor: Quantity,
    /// Gap between two launches.
    pub gap_us: Quantity,
    /// Extra time per byte of tensors and weights: caches are warm for a repeated launch, cold
    /// in an inference.
    pub traffic_us_per_byte: Quantity,
}

impl HostPath {
    /// Valid range of `kernel_factor`: clocks and caches account for tens of per cent, not more.
    pub const KERNEL_FACTORS: [f64; 2] = [0.5, 2.0];

    /// Time of `count` launches inside an inference, including the gaps before them, in
    /// microseconds. `alone_us` is their time in isolation, `bytes` their memory traffic.
    pub fn launches_us(&self, alone_us: f64, bytes: u64, count: u32) -> f64 {
        self.kernel_factor.value * alone_us
            + self.gap_us.value * f64::from(count)
            + self.traffic_us_per_byte.value * bytes as f64
    }

    /// Time of an inference outside its launches, in microseconds.
    pub fn inference_us(&self) -> f64 {
        self.submit_us.value + self.read_back_us.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::check::Checker;

    fn host() -> HostPath {
        let content = "source = \"test\"\nsubmit_us = 500.0\nread_back_us = 300.0\nkernel_factor = 1.1\n\
                       gap_us = 2.0\ntraffic_us_per_byte = 1e-5\n";
        crate::input::from_toml(content).unwrap()
    }

    #[test]
    fn a_launch_inside_an_inference_is_stretched_and_finds_cold_caches() {
        let host = host();
        assert!((host.launches_us(100.0, 1_000_000, 3) - (110.0 + 6.0 + 10.0)).abs() < 1e-9);
        assert!((host.inference_us() - 800.0).abs() < f64::EPSILON);
    }

    #[test]
    fn invalid_values_are_reported_by_key() {
        let mut host = host();
        host.kernel_factor = Quantity::plain(3.0);
        host.gap_us = Quantity::plain(-1.0);
        let mut checker = Checker::default();
        checker.table("gpu.host", |checker| checker.values(&host));
        let keys: Vec<String> = checker.violations.into_iter().map(|violation| violation.key).collect();
        assert_eq!(keys, ["gpu.host.gap_us", "gpu.host.kernel_factor"]);
    }
}
