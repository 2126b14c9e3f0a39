//! How processors synchronise: four mechanisms of notification, and the mapping that
//! each needs before the other side sees the bytes.
//!
//! Responsible for: the delay, the polling and the mapping of one join or
//! hand-over. Not for: when one is needed, or the energy of polling.
//! Invariant: mechanisms on fine-grained shared memory map nothing; a mechanism
//! with sleeps polls for less than one sleep.
//!
//! What the papers measured:
//! - Blocking finish: about 400 us, fixed (`HeteroInfer`, SOSP'25, section 3.1).
//! - Event wait: 162 us per linear and 141 us per convolution layer on average
//!   (Fine-Grained CPU-GPU Co-Execution, EPEW'25, section 5.5).
//! - SVM polling: 7.0 us and 5.4 us (the same section).
//! - Sleep, then poll: a few microseconds, with sleeps in steps of 80 to 100 us
//!   (`HeteroInfer`, section 4.3).
//! - Map and transform: linear in the bytes; a CPU that waits for the mapping
//!   is notified up to 1 ms late (`CoDL`, `MobiSys`'22, section 5.1).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

use super::{Placement, ProcessorKind};
use crate::device::Sync;
use crate::units::{Bytes, Picos};

/// How one processor is notified that another is done.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, VariantArray, Display)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mechanism {
    /// The CPU blocks until the accelerator's command queue is empty. Needs the
    /// result mapped.
    BlockingFinish,
    /// The CPU sleeps until an event fires, or fires the event that the accelerator
    /// waits for. Needs the result mapped.
    EventWait,
    /// Both poll flags in fine-grained shared virtual memory, which also holds the
    /// results (EPEW'25, section 4).
    SvmPolling,
    /// The CPU sleeps for the predicted wait, to the granularity of sleeps, then
    /// polls a flag in memory that stays mapped (`HeteroInfer`, section 4.3).
    SleepThenPoll,
}

impl Mechanism {
    /// Every mechanism, in order of notification delay on published devices, slowest first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Whether results must be mapped and unmapped, because they are not in memory that
    /// both sides see.
    pub fn maps(self) -> bool {
        matches!(self, Self::BlockingFinish | Self::EventWait)
    }

    /// Whether an accelerator that waits for the CPU polls a flag. Otherwise it idles:
    /// its command queue holds the next kernel back, or the CPU, the only side that
    /// sleeps and polls, submits the kernel only then (`HeteroInfer`, section 4.3).
    pub fn accelerator_spins(self) -> bool {
        self == Self::SvmPolling
    }

    /// Whether the NPU's dispatch of a single product can overlap its wait: a CPU that sleeps for the predicted wait
    /// dispatches the next graph before the input is there.
    pub fn may_hide_dispatch(self) -> bool {
        self == Self::SleepThenPoll
    }

    /// Whether the NPU's dispatch of a single product with this placement is hidden. The CPU is the control
    /// plane of GPU and NPU if it computes no part of a shared product (`HeteroInfer`, section 4).
    pub fn hides_dispatch(self, placement: &Placement) -> bool {
        self.may_hide_dispatch() && placement.is_cut() && !placement.uses(ProcessorKind::Cpu)
    }
}

/// Time from the later processor's end until both are notified.
pub fn notification(sync: &Sync, mechanism: Mechanism) -> Picos {
    let notification_us = match mechanism {
        Mechanism::BlockingFinish => &sync.blocking_finish.notification_us,
        Mechanism::EventWait => &sync.event_wait.notification_us,
        Mechanism::SvmPolling => &sync.svm_polling.notification_us,
        Mechanism::SleepThenPoll => &sync.sleep_then_poll.notification_us,
    };
    Picos::from_micros(notification_us.value)
}

/// The part of `wait` during which the CPU polls; it sleeps through the rest.
pub fn polling(sync: &Sync, mechanism: Mechanism, wait: Picos) -> Picos {
    match mechanism {
        Mechanism::BlockingFinish | Mechanism::EventWait => Picos::ZERO,
        Mechanism::SvmPolling => wait,
        Mechanism::SleepThenPoll => sync.sleep_then_poll.polling(wait),
    }
}

/// Time on the CPU, after the notification, to map, unmap and, with `needs_transform`, transform
/// `bytes` of a result for the other side.
///
/// `needs_transform` is set if the accelerator keeps the result as an image. Shared memory needs no
/// mapping and no transform: memory that both sides address is a buffer.
pub fn mapping(sync: &Sync, mechanism: Mechanism, bytes: Bytes, needs_transform: bool) -> Picos {
    if !mechanism.maps() {
        return Picos::ZERO;
    }
    let transform = if needs_transform { sync.transform.cost(bytes) } else { Picos::ZERO };
    sync.map.cost(bytes) + sync.unmap.cost(bytes) + transform
}

/// Delay of handing `bytes` of a result over to another processor: the notification, and the
/// mapping if the mechanism maps.
pub fn hand_over(sync: &Sync, mechanism: Mechanism, bytes: Bytes, needs_transform: bool) -> Picos {
    notification(sync, mechanism) + mapping(sync, mechanism, bytes, needs_transform)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Profile {
        sync: Sync,
    }

    fn snapdragon_8_gen_3() -> Sync {
        let profile: Profile =
            crate::input::from_toml(include_str!("../../tests/golden/npu_snapdragon_8gen3.toml")).unwrap();
        profile.sync
    }

    const WAIT: Picos = Picos(1_234_567_000);
    const RESULT: Bytes = Bytes(2_000_000);

    #[test]
    fn shared_memory_notifies_faster_than_events_and_events_faster_than_finishing() {
        let sync = snapdragon_8_gen_3();
        let delays: Vec<Picos> =
            Mechanism::ALL.iter().map(|&mechanism| notification(&sync, mechanism)).collect();
        assert!(delays.is_sorted_by(|slow, fast| slow > fast), "{delays:?}");
        assert_eq!(delays[0], Picos::from_micros(400.0));
    }

    #[test]
    fn fine_grained_shared_memory_maps_nothing() {
        let sync = snapdragon_8_gen_3();
        for &mechanism in Mechanism::ALL {
            let is_free = mapping(&sync, mechanism, RESULT, true) == Picos::ZERO;
            assert_eq!(is_free, !mechanism.maps(), "{mechanism}");
        }
        let svm = Mechanism::SvmPolling;
        assert_eq!(hand_over(&sync, svm, RESULT, true), notification(&sync, svm));
    }

    #[test]
    fn only_polling_spins_through_the_whole_wait() {
        let sync = snapdragon_8_gen_3();
        let spins: Vec<Picos> =
            Mechanism::ALL.iter().map(|&mechanism| polling(&sync, mechanism, WAIT)).collect();
        assert_eq!(spins[0], Picos::ZERO);
        assert_eq!(spins[1], Picos::ZERO);
        assert_eq!(spins[2], WAIT);
        assert!(spins[3] > Picos::ZERO && spins[3] < WAIT);
    }

    #[test]
    fn after_sleeping_the_cpu_spins_for_less_than_one_sleep() {
        let sync = snapdragon_8_gen_3();
        let granularity = Picos::from_micros(sync.sleep_then_poll.sleep_granularity_us.value);
        for micros in [0.0, 3.5, 89.9, 90.0, 90.1, 450.0, 12_345.6] {
            let wait = Picos::from_micros(micros);
            let polling = polling(&sync, Mechanism::SleepThenPoll, wait);
            assert!(polling < granularity && polling <= wait, "{micros} us");
            assert_eq!((wait - polling).0 % granularity.0, 0, "the sleep before is whole: {micros} us");
        }
    }

    #[test]
    fn no_mechanism_polls_without_a_wait() {
        let sync = snapdragon_8_gen_3();
        for &mechanism in Mechanism::ALL {
            assert_eq!(polling(&sync, mechanism, Picos::ZERO), Picos::ZERO);
        }
    }

    #[test]
    fn more_bytes_and_a_transform_never_make_a_hand_over_cheaper() {
        let sync = snapdragon_8_gen_3();
        for &mechanism in Mechanism::ALL {
            let costs =
                [0, 4_096, 1 << 20, 1 << 24].map(|bytes| hand_over(&sync, mechanism, Bytes(bytes), false));
            assert!(costs.is_sorted(), "{mechanism}: {costs:?}");
            let transformed = hand_over(&sync, mechanism, RESULT, true);
            let plain = hand_over(&sync, mechanism, RESULT, false);
            assert_eq!(transformed > plain, mechanism.maps(), "{mechanism}");
        }
    }

    #[test]
    fn mechanisms_are_serialised_as_in_files() {
        for &mechanism in Mechanism::ALL {
            let written = serde_json::to_value(mechanism).unwrap();
            assert_eq!(written, mechanism.to_string());
        }
    }
}
