//! Background load on the same system-on-chip: a game beside the model.
//!
//! Responsible for: what a scenario says of it, and what became of both. Not for:
//! whose turn it is on the GPU (`engine::background_load`). Invariant: without background
//! every prediction is what it was.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SimulateError;
use crate::device::check::{Checker, Limits};
use crate::device::quantity::Quantity;
use crate::engine::{self, ClientId, Frames, MAX_QUEUE_DEPTH};
use crate::plan::ProcessorKind;
use crate::units::{Bytes, BytesPerSecond, Picos};

const MICROS_PER_SECOND: f64 = 1e6;

/// Fastest a renderer is asked to be: no display shows more frames a second.
const MOST_FRAMES_PER_SECOND: f64 = 1_000.0;

/// Most batches of one frame: more than any game submits.
const MOST_BATCHES: u32 = 10_000;

/// Most frames of one run, each of which is kept for the timeline: four and a half hours at 60 a second.
const MOST_FRAMES: f64 = 1e6;

/// Commands that the driver of an Adreno keeps in the ring buffer unless a scenario
/// says otherwise (`_dispatcher_inflight` of the KGSL kernel driver).
const USUAL_QUEUE_DEPTH: u32 = 15;

/// A renderer: periodic work on the GPU with a deadline, and traffic of its threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackgroundWork {
    /// What it is, in a few words.
    pub title: String,
    /// Where the values come from.
    pub source: String,
    /// Frames a second it is to show; a frame later than the next one is late.
    pub frames_per_second: Quantity,
    /// Time of one frame on the GPU alone.
    pub gpu_us: Quantity,
    /// Parts of a frame that are handed over to the GPU one after another (render
    /// passes): behind each may be whatever the model has handed over before.
    pub batches: u32,
    /// What one frame moves on the GPU.
    pub gpu_bytes: Quantity,
    /// What its threads on the CPU move all the time.
    pub cpu_gbps: Quantity,
    /// The model's commands that wait in the GPU's queue at most; 15 where absent, as
    /// the KGSL driver keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
}

/// What became of the background, and of the model beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BackgroundReport {
    /// What it is.
    pub title: String,
    /// Frames a second it was to show.
    pub frames_per_second: f64,
    /// Frames a second it did show; none in a run shorter than a frame.
    pub achieved_frames_per_second: Option<f64>,
    /// Frames that ended during the run.
    pub frames: u32,
    /// Frames that took longer than a period.
    pub late_frames: u32,
    /// The longest frame.
    #[serde(rename = "worst_frame_ps")]
    pub worst_frame: Picos,
    /// What the run takes without the background.
    #[serde(rename = "latency_alone_ps")]
    pub latency_alone: Picos,
    /// Part of its speed that the run loses, in percent.
    pub slowdown_percent: f64,
}

impl BackgroundWork {
    /// Notes every value that cannot be.
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.limited("frames_per_second", &self.frames_per_second, Limits::Positive);
        checker.limited(
            "frames_per_second",
            &self.frames_per_second,
            Limits::Within(0.0, MOST_FRAMES_PER_SECOND),
        );
        checker.limited("gpu_us", &self.gpu_us, Limits::Positive);
        checker.count("batches", self.batches, MOST_BATCHES);
        checker.limited("gpu_bytes", &self.gpu_bytes, Limits::NonNegative);
        checker.limited("cpu_gbps", &self.cpu_gbps, Limits::NonNegative);
        if let Some(depth) = self.queue_depth {
            checker.count("queue_depth", depth, MAX_QUEUE_DEPTH as u32);
        }
    }

    /// What the engine needs of it.
    pub(super) fn for_engine(&self) -> engine::Background {
        let period = Picos::from_micros(MICROS_PER_SECOND / self.frames_per_second.value);
        let batches = f64::from(self.batches);
        let steady = BytesPerSecond::from_gigabytes(self.cpu_gbps.value).0 * period.as_seconds();
        engine::Background {
            processor: ProcessorKind::Gpu.id(),
            period,
            batches: self.batches,
            duration: Picos::from_micros(self.gpu_us.value / batches),
            bytes: Bytes((self.gpu_bytes.value / batches) as u64),
            queue_depth: self.queue_depth.unwrap_or(USUAL_QUEUE_DEPTH) as usize,
            steady: Some((ClientId(ProcessorKind::Cpu as u8), Bytes(steady as u64))),
        }
    }

    /// Refuses to render beside a run that takes `alone` if that were too many frames.
    pub(super) fn check_frames(&self, alone: Picos) -> Result<(), SimulateError> {
        let frames = alone.as_seconds() * self.frames_per_second.value;
        if frames > MOST_FRAMES {
            return Err(SimulateError::TooManyFrames { frames: frames as u64, most: MOST_FRAMES as u64 });
        }
        Ok(())
    }

    /// What became of it in a run of `latency` that takes `alone` without it.
    pub(super) fn report(&self, frames: Frames, latency: Picos, alone: Picos) -> BackgroundReport {
        let asked = self.frames_per_second.value;
        // A frame that is due has had its whole period.
        let due = (latency.as_seconds() * asked).floor();
        let shown = f64::from(frames.completed) / due;
        BackgroundReport {
            title: self.title.clone(),
            frames_per_second: asked,
            achieved_frames_per_second: (due >= 1.0).then(|| asked * shown.min(1.0)),
            frames: frames.completed,
            late_frames: frames.late,
            worst_frame: frames.worst,
            latency_alone: alone,
            slowdown_percent: 100.0 * (1.0 - alone.0 as f64 / latency.0.max(1) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl BackgroundWork {
        /// A game of 60 frames a second that asks for a sixth of the GPU's time.
        pub(in crate::simulate) fn game() -> Self {
            Self {
                title: "game".to_owned(),
                source: "test".to_owned(),
                frames_per_second: Quantity::plain(60.0),
                gpu_us: Quantity::plain(2_800.0),
                batches: 7,
                gpu_bytes: Quantity::plain(2e7),
                cpu_gbps: Quantity::plain(6.0),
                queue_depth: None,
            }
        }
    }
}
