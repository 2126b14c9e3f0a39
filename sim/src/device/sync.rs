//! Parameters of synchronisation: what it costs that one processor learns of
//! another's result, and sees it.
//!
//! Responsible for: the latency of each mechanism and the cost of making bytes
//! visible. Not for: who synchronises when, and what each mechanism needs
//! (`plan::synchronisation`). Invariant: every mechanism has its own table and
//! source, since they are rarely measured on one device.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Quantity;
use crate::units::{Bytes, Picos};

/// Synchronisation between the CPU and the accelerators of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sync {
    /// Where the values come from that name no source of their own.
    pub source: String,
    /// The CPU blocks until the command queue is empty (`clFinish`).
    pub blocking_finish: Notification,
    /// The CPU sleeps until a command's event (`clWaitForEvents`); the GPU waits
    /// for an event the CPU sets.
    pub event_wait: Notification,
    /// Both spin on flags in fine-grained shared virtual memory.
    pub svm_polling: Notification,
    /// The CPU sleeps for most of the predicted wait, then spins on a flag.
    pub sleep_then_poll: SleepThenPoll,
    /// Makes an accelerator's result visible to the CPU.
    pub map: Transfer,
    /// Gives the memory back to the accelerator, with the CPU's result.
    pub unmap: Transfer,
    /// Copies between an image, which the GPU prefers, and a buffer, which the
    /// CPU needs.
    pub transform: Transfer,
}

/// A mechanism that takes one time, whatever is waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Notification {
    /// Where the values come from.
    pub source: String,
    /// From one processor's end until the other knows of it.
    pub notification_us: Quantity,
}

/// A mechanism that trades spinning for sleep of a coarse granularity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SleepThenPoll {
    /// Where the values come from.
    pub source: String,
    /// From one processor's end until the other, by then spinning, knows of it.
    pub notification_us: Quantity,
    /// Shortest sleep of the operating system; a sleep is a multiple of it.
    pub sleep_granularity_us: Quantity,
}

/// A cost that grows with the bytes: `fixed + bytes x per_byte`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Where the values come from.
    pub source: String,
    /// The part that does not depend on the bytes.
    pub fixed_us: Quantity,
    /// The part each byte adds; 0.1 ns a byte are 10 GB/s.
    pub per_byte_ns: Quantity,
}

impl Sync {
    /// Where everything but the shortest sleep takes so many times as long.
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
    /// What is left to spin of a wait predicted to last `wait`, once the whole
    /// sleeps that fit into it are over: less than one sleep.
    pub fn polling(&self, wait: Picos) -> Picos {
        let granularity = Picos::from_micros(self.sleep_granularity_us.value);
        Picos(wait.0.checked_rem(granularity.0).unwrap_or(0))
    }
}

impl Transfer {
    /// What `bytes` cost.
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
