//! Energy of one processor's work on one part, above that of an idle device.

use super::Detail;
use super::report::working_time;
use crate::device::{Power, ProcessorPower, Profile};
use crate::kernel::cpu::Schedule;
use crate::kernel::{CoreSet, Phases};
use crate::units::{Joules, Picos, Watts};

fn above(state: Watts, processor: &ProcessorPower, time: Picos) -> Joules {
    Watts(state.0 - processor.idle().0).during(time)
}

/// Energy of each thread above idle, in an operator that took `length` instead of its
/// `nominal` time. The main core works all the time. A worker works on its share and spins
/// for the rest, as the thread pools of ruy and XNNPACK do.
pub(super) fn of_threads<'a>(
    power: &'a Power,
    (cores, schedule): (&'a CoreSet, &'a Schedule),
    length: Picos,
    nominal: Picos,
) -> impl Iterator<Item = Joules> + 'a {
    (0..schedule.threads.max(1)).filter_map(move |thread| {
        let core = power.cluster.get(cores.cluster(thread)?)?;
        let working = working_time(schedule, thread, length, nominal);
        let spinning = length.saturating_sub(working);
        Some(above(core.active(), core, working) + above(core.polling(), core, spinning))
    })
}

/// Power of all cores while idle, in watts.
pub(super) fn idle_cores(device: &Profile, power: &Power) -> f64 {
    let clusters = device.cpu.clusters.iter().zip(&power.cluster);
    clusters.map(|(cluster, core)| f64::from(cluster.cores) * core.idle().0).sum()
}

/// Energy above idle of the part that `detail` describes, running alone; zero where the
/// profile has no power table.
pub(crate) fn above_idle(device: &Profile, phases: &Phases, detail: &Detail) -> Joules {
    let Some(power) = &device.power else { return Joules(0.0) };
    let length = phases.duration();
    let active = |processor: &Option<ProcessorPower>| {
        processor.as_ref().map_or(Joules(0.0), |processor| above(processor.active(), processor, length))
    };
    let working = match detail {
        Detail::Gpu(_) | Detail::GpuLanguage(_) => active(&power.gpu),
        Detail::Npu(_) | Detail::NpuLanguage(_) | Detail::NpuGraph(_) => active(&power.npu),
        Detail::Cpu { cores, schedule } => of_threads(power, (cores, schedule), length, length).sum(),
    };
    working + power.memory_energy(phases.bytes())
}

/// Power of the idle device: its base power plus the idle power of every processor; zero where the profile
/// has no power table.
pub(crate) fn idle_power(device: &Profile) -> Watts {
    let Some(power) = &device.power else { return Watts(0.0) };
    let cores = idle_cores(device, power);
    let others: f64 = [&power.gpu, &power.npu].into_iter().flatten().map(|other| other.idle().0).sum();
    Watts(power.base().0 + cores + others)
}
