//! The power of each processor, where the machine has a meter.
//!
//! Several states are held for a while each: idle, the cores of one cluster computing in registers,
//! one core polling, a memory stream, the GPU computing. A processor's power is that of its state
//! above idle. Invariant: without a meter the profile has no power, rather than an assumed one.

use std::time::Duration;

use coexec_sim::Quantity;
use coexec_sim::device::power::{Power, ProcessorPower};
use coexec_sim::kernel::cpu::MAX_THREADS;
use coexec_sim::statistics::{VALUE_DIGITS, rounded};
use coexec_sim::units::PICOJOULES_PER_JOULE;

use super::meter::Meter;
use super::{Bench, Notes, Result, Stream, memory_bytes};
use crate::cpu::{ThreadPool, spin_until};
use crate::opencl::BoundKernel;

/// How long a state is held, quick and full: batteries report once a second.
const HOLD_TIME: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
/// Duration of a state between two readings of the meter.
const METER_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes that each thread works on, in its first-level cache, and multiply-adds per number.
const CACHED_BYTES: usize = 8 << 10;
const WORK: u32 = 2_000;
/// Work-groups per compute unit of the GPU, threads per group, and steps per thread.
const GROUPS_PER_UNIT: usize = 8;
const GROUP_THREADS: usize = 64;
const STEPS: u32 = 200_000;
/// Lower bound of an active processor's power, because meters are coarse.
const MIN_WATTS: f64 = 1e-3;

/// Power of each state, in watts.
#[derive(Clone, Debug, PartialEq)]
struct Watts {
    idle: f64,
    /// For each cluster, the power with all its cores active, and their number.
    clusters: Vec<(f64, usize)>,
    /// With one core of the first cluster polling.
    polling: f64,
    /// With all cores of the first cluster streaming, and the bandwidth in bytes per second.
    streaming: (f64, f64),
    /// With the GPU active, if the meter covers it.
    gpu: Option<f64>,
}

/// Measures the states; `None` if the machine has no meter.
pub(super) fn measure(bench: &Bench<'_>, notes: &mut Notes) -> Result<Option<Power>> {
    let groups = &bench.groups;
    let root = std::path::Path::new("/");
    let Some(meter) = Meter::find(root) else { return Ok(None) };
    let held = HOLD_TIME[usize::from(!bench.options.quick)];
    let watch = |work: &mut dyn FnMut() -> Result<()>| meter.watch(held, work);
    let mut sleep = || {
        std::thread::sleep(METER_INTERVAL);
        Ok(())
    };
    let Some((idle, _)) = watch(&mut sleep)? else { return Ok(None) };
    let mut poll = || {
        // As a core of the first cluster does that waits for a flag: pools of other clusters move this thread.
        spin_until(METER_INTERVAL, || false);
        Ok(())
    };
    let Some((polling, _)) = watch(&mut poll)? else { return Ok(None) };
    let mut clusters = Vec::with_capacity(groups.len());
    for group in groups {
        let cores = &group.cores[..group.cores.len().min(MAX_THREADS)];
        let mut stream = Stream::of_cpu(ThreadPool::pinned_or_not(cores)?, CACHED_BYTES * cores.len());
        let Some((watts, _)) = watch(&mut || stream.pass(WORK).map(drop))? else { return Ok(None) };
        clusters.push((watts, cores.len()));
    }
    let Some(first) = groups.first() else { return Ok(None) };
    let cores = &first.cores[..first.cores.len().min(MAX_THREADS)];
    let mut stream = Stream::of_cpu(ThreadPool::pinned_or_not(cores)?, memory_bytes(root));
    let Some((streaming, passes)) = watch(&mut || stream.pass(0).map(drop))? else { return Ok(None) };
    let rate = f64::from(passes) * stream.bytes() / held.as_secs_f64();
    let device = bench.runtime.device();
    let mut gpu = None;
    // A discrete GPU is not covered by the machine's meter.
    if device.unified_memory {
        let count = GROUPS_PER_UNIT * device.compute_units as usize;
        let spin = BoundKernel::spin(&bench.runtime, count, GROUP_THREADS, STEPS)?;
        gpu = watch(&mut || Ok(spin.run().map(drop)?))?.map(|(watts, _)| watts);
    }
    let watts = Watts { idle, clusters, polling, streaming: (streaming, rate), gpu };
    notes.note(format!("power at rest, by {}", meter.name), watts.idle, "W");
    Ok(Some(watts.power(meter.name)))
}

impl Watts {
    /// The power table of a profile.
    fn power(&self, meter: &str) -> Power {
        let source = format!("probe by {meter}");
        let plain = |value: f64| Quantity::plain(rounded(value, VALUE_DIGITS));
        let beyond = |watts: f64| (watts - self.idle).max(MIN_WATTS);
        let processor = |active: f64, polling: Option<f64>, what: &str| ProcessorPower {
            source: format!("{source}: {what}"),
            active_watts: plain(active),
            polling_watts: polling.map(|polling| plain(polling.min(active))),
            idle_watts: plain(0.0),
        };
        let polling = beyond(self.polling);
        let cluster = |&(watts, cores): &(f64, usize)| {
            let what = "its cores computing in their registers, beyond rest; polling of the first cluster's";
            processor(beyond(watts) / cores as f64, Some(polling), what)
        };
        let computing = self.clusters.first().map_or(self.idle, |(watts, _)| *watts);
        let (streaming, rate) = self.streaming;
        let per_byte = (streaming - computing).max(0.0) / rate.max(1.0) * PICOJOULES_PER_JOULE;
        Power {
            base_watts: plain(self.idle),
            memory_picojoules_per_byte: Quantity::of(
                rounded(per_byte, VALUE_DIGITS),
                format!("{source}: a stream beyond computing in registers"),
            ),
            cluster: self.clusters.iter().map(cluster).collect(),
            gpu: self.gpu.map(|watts| processor(beyond(watts), None, "computing, beyond rest")),
            npu: None,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_s_power_beyond_rest_is_its_processor_s() {
        let watts = Watts {
            idle: 2.0,
            clusters: vec![(10.0, 4), (3.0, 4)],
            polling: 3.0,
            streaming: (12.0, 20e9),
            gpu: Some(7.0),
        };
        let power = watts.power("a meter");
        let active: Vec<f64> = power.cluster.iter().map(|core| core.active().0).collect();
        assert_eq!((power.base().0, active), (2.0, vec![2.0, 0.25]));
        // A slow core draws no more when polling than when computing.
        let polling: Vec<f64> = power.cluster.iter().take(2).map(|cluster| cluster.polling().0).collect();
        assert_eq!(polling, [1.0, 0.25]);
        assert!((power.memory_picojoules_per_byte.value - 100.0).abs() < 1e-9, "{power:?}");
        assert!((power.gpu.unwrap().active().0 - 5.0).abs() < 1e-12);
    }

    #[test]
    fn a_too_coarse_meter_gives_a_valid_table() {
        let watts =
            Watts { idle: 5.0, clusters: vec![(5.0, 2)], polling: 4.0, streaming: (5.0, 0.0), gpu: None };
        let power = watts.power("a meter");
        assert!(
            power.cluster[0].active().0 > 0.0 && power.cluster[0].polling().0 <= power.cluster[0].active().0
        );
        assert!(power.memory_picojoules_per_byte.value.abs() < f64::EPSILON);
    }
}
