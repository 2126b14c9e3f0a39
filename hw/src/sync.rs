//! How host and device learn of each other's results, measured and tried before use.
//!
//! Responsible for: what each mechanism does (`link`), the time it takes in both directions,
//! whether it works here, and what replaces one that does not. Not for: what a plan
//! synchronises when.
//! Invariants: a mechanism is used only after a probe found it sound; every wait has a
//! limit, after which the device is released and an error returned.

mod clock;
pub(crate) mod link;
mod probe;
mod round;

use std::sync::Arc;

use coexec_sim::{Mechanism as Modelled, Picos};

use crate::opencl::{FlagHome, Result, Runtime, Signals};

pub(crate) use link::Link;
pub use link::sleep_granularity;
use link::spin_until;
pub use probe::{Unsound, choose, probe};
pub use round::{Notifications, measure, ping_pong};

/// How one side learns that the other is done; one that is not sound is replaced by a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display, strum::VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Mechanism {
    /// Both spin on flags in fine-grained shared virtual memory: the computing kernel's
    /// last-finishing group sets the device's, and a kernel of one thread behind it waits
    /// for the host's (EPEW'25, section 4).
    SvmPolling,
    /// The host sleeps for most of the predicted wait, then spins on such a flag
    /// (`HeteroInfer`, SOSP'25, section 4.3).
    SleepThenPoll,
    /// As by [`Self::SvmPolling`], with flags in a host buffer that stays mapped.
    PinnedPolling,
    /// The host polls an event's status, and queues what the device does next only when it
    /// has ended.
    EventPolling,
    /// The host sleeps until an event (`clWaitForEvents`), and ends the user event that
    /// the device's next kernel waits for.
    EventWait,
    /// The host sleeps until the queue is empty (`clFinish`), and queues what the
    /// device does next only then.
    BlockingFinish,
}

impl Mechanism {
    /// Every mechanism.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// What may replace this mechanism, best first: polling is replaced by polling as
    /// long as one kind works; what always works comes last.
    pub fn fallbacks(self) -> impl Iterator<Item = Self> {
        let later = Self::ALL.iter().copied().skip_while(move |&mechanism| mechanism != self).skip(1);
        later.filter(|&mechanism| mechanism != Self::SleepThenPoll)
    }

    /// The mechanism as the simulator models it: polling is the same whatever is
    /// polled.
    pub fn modelled(self) -> Modelled {
        match self {
            Self::BlockingFinish => Modelled::BlockingFinish,
            Self::EventWait | Self::EventPolling => Modelled::EventWait,
            Self::SvmPolling | Self::PinnedPolling => Modelled::SvmPolling,
            Self::SleepThenPoll => Modelled::SleepThenPoll,
        }
    }
}

impl From<Modelled> for Mechanism {
    fn from(modelled: Modelled) -> Self {
        match modelled {
            Modelled::BlockingFinish => Self::BlockingFinish,
            Modelled::EventWait => Self::EventWait,
            Modelled::SvmPolling => Self::SvmPolling,
            Modelled::SleepThenPoll => Self::SleepThenPoll,
        }
    }
}

/// The flags that `mechanism` polls, where it polls any.
pub(crate) fn flags(runtime: &Arc<Runtime>, mechanism: Mechanism) -> Result<Option<Signals>> {
    let has_shared = runtime.device().polls_shared_memory;
    let home = match mechanism {
        Mechanism::SvmPolling => FlagHome::Shared,
        Mechanism::SleepThenPoll if has_shared => FlagHome::Shared,
        Mechanism::PinnedPolling | Mechanism::SleepThenPoll => FlagHome::Pinned,
        Mechanism::BlockingFinish | Mechanism::EventWait | Mechanism::EventPolling => return Ok(None),
    };
    let mut signals = Signals::new(runtime, home)?;
    signals.reset();
    Ok(Some(signals))
}

/// The median of `times`; zero of none.
pub fn median(times: &[Picos]) -> Picos {
    let micros: Vec<f64> = times.iter().map(|time| time.as_micros()).collect();
    coexec_sim::statistics::median(&micros).map_or(Picos::ZERO, Picos::from_micros)
}

#[cfg(test)]
mod tests;
