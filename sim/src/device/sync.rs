//! Parameters of synchronisation: the cost of notifying a processor of another's result
//! and of making the result visible to it.
//!
//! Responsible for: the latency of each mechanism, and the cost of making bytes visible.
//! Not for: when processors synchronise, and what each mechanism requires
//! (`plan::synchronisation`). Invariant: every mechanism has its own table and source,
//! since they are rarely measured on the same device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantity;
use crate::units::{Bytes, Picos};

/// Synchronisation between the CPU and the accelerators of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// Source of the values that have none of their own.
    pub source: String,
    /// The CPU blocks until the command queue is empty (`clFinish`).
    pub blocking_finish: Notification,
    /// The CPU sleeps until a command's event (`clWaitForEvents`); the GPU waits for a user
    /// event that the CPU sets.
    pub event_wait: Notification,
    /// Both spin on flags in fine-grained shared virtual memory.
    pub svm_polling: Notification,
    /// The CPU sleeps for most of the predicted wait, then spins on a flag.
    pub sleep_then_poll: SleepThenPoll,
    /// Mapping: makes an accelerator's result visible to the CPU.
    pub map: Transfer,
    /// Unmapping: returns the memory to the accelerator, with the CPU's result.
    pub unmap: Transfer,
    /// Copying between an image, which the GPU prefers, and a buffer, which the CPU needs.
    pub transform: Transfer,
}

/// A mechanism of constant latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notification {
    /// Where the values come from.
    pub source: String,
    /// From the end of one processor's work until the other is notified.
    pub notification_us: Quantity,
}

/// A mechanism that replaces most of the polling with sleeps of coarse granularity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SleepThenPoll {
    /// Where the values come from.
    pub source: String,
    /// From the end of one processor's work until the other, which is polling by then, is notified.
    pub notification_us: Quantity,
    /// Shortest sleep of the operating system; every sleep is a multiple of it.
    pub sleep_granularity_us: Quantity,
}

/// A cost that is affine in the bytes: `fixed + bytes x per_byte`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Where the values come from.
    pub source: String,
    /// Fixed part.
    pub fixed_us: Quantity,
    /// Additional time per byte; 0.1 ns per byte is 10 GB/s.
    pub per_byte_ns: Quantity,
}

impl Sync {
    /// A copy with every time but the shortest sleep multiplied by `factor`.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        let mut scaled = self.clone();
        let Self { blocking_finish, event_wait, svm_polling, sleep_then_poll, map, unmap, transform, .. } =
            &mut scaled;
        let notifications = [blocking_finish, event_wait, svm_polling].map(|one| &mut one.notification_us);
        let transfers =
            [map, unmap, transform].into_iter().flat_map(|one| [&mut one.fixed_us, &mut one.per_byte_ns]);
        for quantity in transfers.chain(notifications).chain([&mut sleep_then_poll.notification_us]) {
            quantity.value *= factor;
        }
        scaled
    }
}

impl SleepThenPoll {
    /// Polling time of a wait predicted to last `wait`: the remainder after as many whole sleeps
    /// as fit, less than one sleep.
    pub fn polling(&self, wait: Picos) -> Picos {
        let granularity = Picos::from_micros(self.sleep_granularity_us.value);
        Picos(wait.0.checked_rem(granularity.0).unwrap_or(0))
    }
}

impl Transfer {
    /// Time for `bytes`.
    pub fn cost(&self, bytes: Bytes) -> Picos {
        Picos::from_micros(self.fixed_us.value) + Picos::from_nanos(bytes.0 as f64 * self.per_byte_ns.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::check::Checker;

    #[test]
    fn a_transfer_costs_a_constant_and_its_bytes() {
        let map = Transfer {
            source: "test".into(),
            fixed_us: Quantity::plain(20.0),
            per_byte_ns: Quantity::plain(0.1),
        };
        assert_eq!(map.cost(Bytes::ZERO), Picos::from_micros(20.0));
        assert_eq!(map.cost(Bytes(1_000_000)), Picos::from_micros(120.0));
    }

    #[test]
    fn a_violation_names_the_mechanism() {
        let mechanism = SleepThenPoll {
            source: "test".into(),
            notification_us: Quantity::plain(5.0),
            sleep_granularity_us: Quantity::plain(0.0),
        };
        let mut checker = Checker::default();
        checker.table("sleep_then_poll", |checker| checker.values(&mechanism));
        assert_eq!(checker.violations[0].key, "sleep_then_poll.sleep_granularity_us");
    }
}
