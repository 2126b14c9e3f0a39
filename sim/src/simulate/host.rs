//! The host path of a whole inference, before, between and after its GPU launches.
//!
//! Operators are timed from launch to end, as in the papers on splitting them. An
//! inference also fills the queue, waits for the GPU and reads the result back
//! (`device::gpu::HostPath`). The kernel model of a launch is the same in both cases.
//! Invariant: without a host path the duration of every task is that of its kernel model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{HostPath, Profile};
use crate::kernel::{Phase, PhaseKind, Phases};
use crate::units::{Bytes, Picos};

/// Copies per operator that a GPU with its own memory computes for the host: one of its
/// inputs, one of its result.
const COPIES_PER_OPERATOR: u32 = 2;

/// What a measured time covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The operators: from the first launch to the end of the last one, by GPU events.
    #[default]
    Operators,
    /// A whole inference: from the call to the result in the caller's memory.
    Inference,
}

/// How much of a GPU's host path a simulation includes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Host<'a> {
    /// What a time covers.
    pub(super) measure: Measure,
    /// `None` where the profile has no host path, or only operators are timed.
    path: Option<&'a HostPath>,
    /// Whether a whole inference is timed and the profile has no host path of its GPU.
    pub(super) is_unknown: bool,
    /// Whether the simulation is a whole inference rather than a part of one.
    whole: bool,
    /// Whether launches keep their standalone times, as for operators timed by the host's clock.
    launches_alone: bool,
    /// Time of queueing the copies of an operator before the first launch.
    copies: Picos,
}

impl<'a> Host<'a> {
    /// The host path that `measure` covers on `device`.
    pub(super) fn new(device: &'a Profile, measure: Measure) -> Self {
        let gpu = device.gpu.as_ref().filter(|_| measure == Measure::Inference);
        let path = gpu.and_then(|gpu| gpu.host.as_ref());
        let is_unknown = gpu.is_some() && path.is_none();
        Self { measure, path, is_unknown, whole: true, launches_alone: false, copies: Picos::ZERO }
    }

    /// The host path of operators timed by the host's clock: from the call until the host
    /// learns of their end. For a GPU with its own memory, the host queues the copies as
    /// well before it computes.
    pub(super) fn timed_by_host(device: &'a Profile) -> Self {
        let gpu = device.gpu.as_ref();
        let memory = gpu.and_then(|gpu| gpu.memory.as_ref());
        let copies = memory.map_or(Picos::ZERO, |memory| memory.link.queueing(COPIES_PER_OPERATOR));
        let path = gpu.and_then(|gpu| gpu.host.as_ref());
        let measure = Measure::Operators;
        Self { measure, path, is_unknown: false, whole: true, launches_alone: true, copies }
    }

    /// Whether the CPU must fill the GPU's queue before it computes: for operators timed by the host's clock.
    pub(super) fn delays_the_cpu(self) -> bool {
        self.launches_alone && self.path.is_some()
    }

    /// The host path of some operators of the measured workload.
    pub(super) fn of_part(self) -> Self {
        Self { whole: self.launches_alone, ..self }
    }

    /// The phases of a layer's `launches`, given those of its kernel model.
    pub(super) fn launch(self, alone: Phases, launches: u32) -> Phases {
        let Some(path) = self.path.filter(|_| !self.launches_alone) else { return alone };
        let time = |alone: Picos, bytes: Bytes, launches| {
            Picos::from_micros(path.launches_us(alone.as_micros(), bytes.0, launches))
        };
        let gaps = time(Picos::ZERO, Bytes::ZERO, launches);
        let inside = alone
            .as_slice()
            .iter()
            .map(|phase| Phase { duration: time(phase.duration, phase.bytes, 0), ..*phase });
        std::iter::once(Phase::new(PhaseKind::QueueGap, gaps, Bytes::ZERO)).chain(inside).collect()
    }

    /// Time from the call to the first launch; `None` for a part of an inference.
    pub(super) fn submission(self) -> Option<Picos> {
        self.once(|path| path.submit_us.value).map(|submission| submission + self.copies)
    }

    /// Time from the end of the last launch until the caller has the result; `None` for a part of an
    /// inference.
    pub(super) fn read_back(self) -> Option<Picos> {
        self.once(|path| path.read_back_us.value)
    }

    fn once(self, micros: impl Fn(&HostPath) -> f64) -> Option<Picos> {
        self.path.filter(|_| self.whole).map(|path| Picos::from_micros(micros(path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launch_of_a_layer_has_its_gap() {
        let device = Profile::load("pixel4").unwrap();
        let alone = Phases::from_iter([Phase::new(PhaseKind::Launch, Picos::from_micros(5.0), Bytes::ZERO)]);
        let host = Host::new(&device, Measure::Inference);
        let gaps = [1, 3].map(|launches| host.launch(alone.clone(), launches).as_slice()[0]);
        assert!(gaps.iter().all(|gap| gap.kind == PhaseKind::QueueGap));
        assert_eq!(gaps[1].duration, gaps[0].duration.times(3));
    }
}
