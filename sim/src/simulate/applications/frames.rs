//! Frames of a renderer as requests: a game running alongside models.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PricedRequest;
use crate::device::{Checker, Limits, Profile, Quantity};
use crate::engine::Work;
use crate::kernel::{Phase, PhaseKind, Phases};
use crate::plan::{Processor, Region, Span};
use crate::schedule::What;
use crate::simulate::{Lowered, PricedCommand, Result, Share, SimulateError, has_own_memory};
use crate::units::{Bytes, BytesPerSecond, Picos};

/// Maximum number of batches per frame: more than any game submits.
const MAX_BATCHES_PER_FRAME: u32 = 10_000;

/// GPU time and memory traffic of a renderer, per frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frames {
    /// Where the values come from.
    pub source: String,
    /// Time of one frame on the GPU without contention.
    pub gpu_us: Quantity,
    /// Number of equal parts of a frame that the GPU computes one after another (render passes).
    pub batches: u32,
    /// Memory traffic of one frame on the GPU.
    pub gpu_bytes: Quantity,
    /// Constant memory traffic of the renderer's CPU threads.
    pub cpu_gbps: Quantity,
}

impl Frames {
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.sourced(&self.source);
        checker.limited("gpu_us", &self.gpu_us, Limits::Positive);
        checker.count("batches", self.batches, MAX_BATCHES_PER_FRAME);
        checker.limited("gpu_bytes", &self.gpu_bytes, Limits::NonNegative);
        checker.limited("cpu_gbps", &self.cpu_gbps, Limits::NonNegative);
    }

    /// The request of one frame on `device`, with one frame every `period`.
    ///
    /// # Errors
    /// The device has no GPU.
    pub fn request(&self, device: &Profile, period: Picos) -> Result<PricedRequest> {
        if device.gpu.is_none() {
            return Err(SimulateError::absent("GPU", device));
        }
        let batches = f64::from(self.batches);
        let duration = Picos::from_micros(self.gpu_us.value / batches);
        let bytes = Bytes((self.gpu_bytes.value / batches) as u64);
        let one = Span::new(0, 1);
        let batch = PricedCommand {
            stage: 0,
            by: Processor::Gpu,
            what: What::Compute { part: 0, region: Region { rows: one, channels: one } },
            share: Share::default(),
            phases: Phases::from_iter([Phase::new(PhaseKind::FullRounds, duration, bytes)]),
            client: None,
            detail: None,
            predecessors: Vec::new(),
            goes_on: false,
        };
        let gpu_has_own_memory = has_own_memory(device);
        let tasks = vec![batch; self.batches as usize];
        let lowered = Lowered { tasks, gpu_has_own_memory, ..Lowered::default() };
        let steady = BytesPerSecond::from_gigabytes(self.cpu_gbps.value).0 * period.as_seconds();
        let traffic = Work { duration: period, bytes: Bytes(steady as u64) };
        Ok(PricedRequest {
            traffic: Some(traffic),
            ..PricedRequest::of_run(lowered, vec!["frame".to_owned()])
        })
    }
}
