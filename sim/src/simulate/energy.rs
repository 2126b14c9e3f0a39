//! What one processor's work on one part adds to the energy of a device that idles.

use super::Detail;
use super::report::working_time;
use crate::device::power::ProcessorPower;
use crate::device::profile::Profile;
use crate::kernel::Phases;
use crate::units::{Joules, Picos, Watts};

/// Energy above idle of what `detail` describes, running alone; nothing where the
/// profile knows no power.
pub(crate) fn above_idle(device: &Profile, phases: &Phases, detail: &Detail) -> Joules {
    let Some(power) = &device.power else { return Joules(0.0) };
    let above = |state: Watts, processor: &ProcessorPower, time: Picos| {
        Watts(state.0 - processor.idle().0).during(time)
    };
    let length = phases.duration();
    let active = |processor: &Option<ProcessorPower>| {
        processor.as_ref().map_or(Joules(0.0), |processor| above(processor.active(), processor, length))
    };
    let working = match detail {
        Detail::Gpu(_) | Detail::GpuLanguage(_) => active(&power.gpu),
        Detail::Npu(_) => active(&power.npu),
        Detail::Cpu { cores, schedule } => (0..schedule.threads.max(1))
            .filter_map(|thread| {
                let core = power.cluster.get(cores.cluster(thread)?)?;
                let working = working_time(schedule, thread, length, length);
                let spinning = length.saturating_sub(working);
                Some(above(core.active(), core, working) + above(core.polling(), core, spinning))
            })
            .fold(Joules(0.0), |sum, joules| sum + joules),
    };
    working + power.memory_energy(phases.bytes())
}

/// What the device draws while nothing runs: its base, and every processor idle.
pub(crate) fn idle_power(device: &Profile) -> Watts {
    let Some(power) = &device.power else { return Watts(0.0) };
    let cores: f64 = device
        .cpu
        .clusters
        .iter()
        .zip(&power.cluster)
        .map(|(cluster, core)| f64::from(cluster.cores) * core.idle().0)
        .sum();
    let others: f64 = [&power.gpu, &power.npu].into_iter().flatten().map(|other| other.idle().0).sum();
    Watts(power.base().0 + cores + others)
}
