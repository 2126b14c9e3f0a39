//! The latency of each synchronisation mechanism on this machine, and which of them work.

use std::sync::Arc;
use std::time::Duration;

use coexec_sim::Picos;
use coexec_sim::device::sync::{Notification, SleepThenPoll};

use super::{Estimate, ProbeError, Result, TimeBudget, micros};
use crate::opencl::Runtime;
use crate::sync;
use crate::sync::{Mechanism, Notifications, Unsound};

/// Rounds per mechanism, quick and full.
const ROUNDS: [u32; 2] = [100, 600];
/// Time limit of a round: a hundred times the slowest published mechanism (`HeteroInfer`, SOSP'25:
/// 400 us), as another process may hold the core meanwhile.
const ROUND_LIMIT: Duration = Duration::from_millis(50);
/// Time limit of all rounds, kernel builds included.
const LIMIT: Duration = Duration::from_mins(1);
/// Fraction of a time by which the clock alignment may be uncertain. Beyond it, the mean of both
/// directions is used.
const MAX_CLOCK_UNCERTAINTY: f64 = 0.25;
/// Sleeps from which the shortest is measured.
const SLEEPS: u32 = 200;

/// A mechanism's latencies in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    pub(super) mechanism: Mechanism,
    /// From the device's end until the host learns of it.
    pub(super) to_host: Estimate,
    /// From the host's signal until the device continues.
    pub(super) to_device: Estimate,
    /// Their mean, in which the offset between the clocks cancels.
    mean: Estimate,
    /// Uncertainty of both directions from the clock alignment.
    pub(super) uncertainty_us: f64,
}

/// The timed mechanisms, and why the others were not timed.
#[derive(Default)]
pub(super) struct Mechanisms {
    pub(super) timed: Vec<Timed>,
    pub(super) unsound: Vec<Unsound>,
    /// Whether a call of one of them never returned.
    pub(super) gave_up: bool,
}

/// Measures every mechanism that works, each on a runtime of its own, so that a hung one does not
/// affect the others.
pub(super) fn measure(probed: &Runtime, quick: bool, budget: &TimeBudget<'_>) -> Result<Mechanisms> {
    let mut mechanisms = Mechanisms::default();
    for &mechanism in Mechanism::ALL {
        let runtime = probed.another()?;
        let rounds = ROUNDS[usize::from(!quick)];
        let measured = sync::probe(&runtime, mechanism)
            .and_then(|()| sync::measure_within(&runtime, mechanism, (rounds, ROUND_LIMIT), LIMIT));
        let outcome = measured.map_err(|unsound| unsound.why).and_then(|notifications| {
            let one_way = one_way(&runtime, mechanism, rounds);
            timed(mechanism, &notifications, one_way).map_err(|error| error.to_string())
        });
        mechanisms.gave_up |= runtime.is_lost();
        match outcome {
            Ok(timed) => {
                let [host, device] = [&timed.to_host, &timed.to_device].map(|time| time.value);
                budget
                    .report(&format!("{mechanism}: {host:.1} us to the host, {device:.1} us to the device"));
                mechanisms.timed.push(timed);
            }
            Err(why) => {
                let unsound = Unsound { mechanism, why };
                budget.report(&unsound.to_string());
                mechanisms.unsound.push(unsound);
            }
        }
    }
    if mechanisms.timed.is_empty() {
        let why = mechanisms.unsound.iter().map(ToString::to_string);
        return Err(ProbeError::NoMechanism { why: why.collect::<Vec<_>>().join("; ") });
    }
    Ok(mechanisms)
}

/// Latency of a flag in one direction; zero if the mechanism has none.
fn one_way(runtime: &Arc<Runtime>, mechanism: Mechanism, rounds: u32) -> Picos {
    // Half of a round trip.
    sync::ping_pong(runtime, mechanism, rounds, ROUND_LIMIT)
        .map_or(Picos::ZERO, |trips| Picos(sync::median(&trips).0 / 2))
}

/// The latencies of a mechanism. No latency to the host is taken as shorter than `one_way`: the
/// last work-group sets its flag before the driver stamps the kernel's end, from which the
/// latencies are counted.
fn timed(mechanism: Mechanism, notifications: &Notifications, one_way: Picos) -> Result<Timed> {
    let to_host: Vec<Picos> = notifications.to_host.iter().map(|&time| time.max(one_way)).collect();
    let of = |times: &[Picos]| Estimate::of(&micros(times), "synchronisations of host and device");
    Ok(Timed {
        mechanism,
        to_host: of(&to_host)?,
        to_device: of(&notifications.to_device)?,
        mean: of(&notifications.mean)?,
        uncertainty_us: notifications.uncertainty.as_micros(),
    })
}

impl Timed {
    /// The profile's latency, and its source.
    fn notification(&self) -> (Estimate, String) {
        let [host, device] = [&self.to_host, &self.to_device].map(|time| time.value);
        let both = format!("{host:.2} us to the host, {device:.2} us to the device");
        if self.uncertainty_us <= MAX_CLOCK_UNCERTAINTY * host {
            return (self.to_host.clone(), format!("probe of {}: {both}", self.mechanism));
        }
        let source = format!(
            "probe of {}: the mean of both directions ({both}), as the clocks differ by up to {:.2} us",
            self.mechanism, self.uncertainty_us
        );
        (self.mean.clone(), source)
    }
}

impl Mechanisms {
    /// The table of `wanted`, or of its first working fallback.
    pub(super) fn table(&self, wanted: Mechanism) -> Notification {
        let of = |mechanism| self.timed.iter().find(|timed| timed.mechanism == mechanism);
        let found = wanted.candidates().find_map(of);
        let timed = found.or(self.timed.first()).expect("at least one mechanism was timed");
        let (measured, mut source) = timed.notification();
        if timed.mechanism != wanted {
            let unsound = self.unsound.iter().find(|unsound| unsound.mechanism == wanted);
            let why = unsound.map_or("it was not timed", |unsound| unsound.why.as_str());
            source = format!("{source}; stands in for {wanted}, which does not work here ({why})");
        }
        Notification { notification_us: measured.quantity(&source), source }
    }

    /// The table of sleep-then-poll.
    pub(super) fn sleep_then_poll(&self) -> SleepThenPoll {
        let Notification { source, notification_us } = self.table(Mechanism::SleepThenPoll);
        let shortest = sync::sleep_granularity(SLEEPS).as_micros();
        let granularity = Estimate { value: shortest, ci95: [shortest; 2], repetitions: SLEEPS as usize };
        SleepThenPoll {
            source,
            notification_us,
            sleep_granularity_us: granularity.quantity("probe: the shortest sleep, the median"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(mechanism: Mechanism, host_us: f64, device_us: f64, uncertainty_us: f64) -> Timed {
        let [to_host, to_device, mean] = [host_us, device_us, f64::midpoint(host_us, device_us)]
            .map(|time| Estimate::of(&[time; 9], "a test").unwrap());
        Timed { mechanism, to_host, to_device, mean, uncertainty_us }
    }

    #[test]
    fn clocks_that_differ_much_make_it_the_mean_of_both_directions() {
        let value =
            |uncertainty_us| timed(Mechanism::EventWait, 30.0, 10.0, uncertainty_us).notification().0.value;
        assert!((value(2.0) - 30.0).abs() < 1e-9);
        assert!((value(15.0) - 20.0).abs() < 1e-9);
    }

    #[test]
    fn no_notification_is_faster_than_its_flag() {
        let at = |times: &[f64]| times.iter().map(|&us| Picos::from_micros(us)).collect::<Vec<_>>();
        let notifications = Notifications {
            to_host: at(&[0.0, 0.1, 3.0]),
            to_device: at(&[1.0]),
            mean: at(&[0.5]),
            uncertainty: Picos::ZERO,
        };
        let timed = super::timed(Mechanism::SvmPolling, &notifications, Picos::from_micros(0.2)).unwrap();
        assert!((timed.to_host.value - 0.2).abs() < 1e-9 && timed.to_host.ci95[0] >= 0.2, "{timed:?}");
        assert!((timed.to_device.value - 1.0).abs() < 1e-9, "{timed:?}");
    }

    #[test]
    fn the_replacement_of_an_unsound_mechanism_is_in_its_table_and_named() {
        let mechanisms = Mechanisms {
            timed: vec![
                timed(Mechanism::EventWait, 30.0, 10.0, 0.1),
                timed(Mechanism::EventPolling, 20.0, 9.0, 0.1),
            ],
            unsound: vec![Unsound { mechanism: Mechanism::SvmPolling, why: "no shared memory".to_owned() }],
            gave_up: false,
        };
        let table = mechanisms.table(Mechanism::SvmPolling);
        assert!((table.notification_us.value - 20.0).abs() < 1e-9);
        assert!(table.source.contains("event-polling") && table.source.contains("no shared memory"));
        assert!(!mechanisms.table(Mechanism::EventWait).source.contains("stands in"));
    }
}
