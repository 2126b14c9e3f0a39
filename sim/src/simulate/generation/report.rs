//! The prediction of a language task: plain data.

use serde::Serialize;

use super::Cost;
use crate::units::{Bytes, BytesPerSecond, Joules, Picos};
use crate::workload::Turn;

/// One phase of a turn: prefill or decode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Number of tokens read or generated.
    pub tokens: u32,
    /// Time of the phase.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// Tokens per second.
    pub tokens_per_second: f64,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// Mean rate of those bytes, without the time of building graphs.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy; `None` where the profile has no power table.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
    /// Busy time of CPU, GPU and NPU.
    #[serde(rename = "busy_ps")]
    pub busy: [Picos; 3],
}

/// One prompt and its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnReport {
    /// Numbers of prompt tokens and generated tokens.
    pub turn: Turn,
    /// Number of tokens in the turns before it.
    pub context_before: u32,
    /// Time of building the NPU's graphs for the prompt's length; zero unless they are built online.
    #[serde(rename = "preparation_ps")]
    pub preparation: Picos,
    /// From the prompt to the first token of the answer (TTFT), including the preparation.
    #[serde(rename = "time_to_first_token_ps")]
    pub time_to_first_token: Picos,
    /// Mean time per token after the first (TPOT); `None` without such tokens.
    #[serde(rename = "time_per_token_ps")]
    pub time_per_token: Option<Picos>,
    /// The prompt; latency and token rate include the preparation.
    pub prefill: PhaseReport,
    /// The tokens after the first; `None` where there are none.
    pub decode: Option<PhaseReport>,
}

/// All turns of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Generation {
    /// The turns, in order.
    pub turns: Vec<TurnReport>,
    /// Time of all turns together.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// Energy of all turns; `None` where the profile has no power table.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
}

impl PhaseReport {
    fn new(tokens: u32, preparation: Picos, cost: Cost) -> Self {
        let latency = preparation.saturating_add(cost.latency);
        let moved = Bytes(cost.bytes.round() as u64);
        Self {
            tokens,
            latency,
            tokens_per_second: f64::from(tokens) / latency.as_seconds().max(f64::MIN_POSITIVE),
            bytes: moved,
            bandwidth: BytesPerSecond::mean(moved, cost.latency),
            energy: cost.joules.is_finite().then_some(Joules(cost.joules)),
            busy: cost.busy.map(|picos| Picos(picos.round() as u64)),
        }
    }

    /// Mean power in watts; `None` where the energy is unknown.
    pub fn watts(&self) -> Option<f64> {
        Some(self.energy?.0 / self.latency.as_seconds())
    }

    /// Energy per token; `None` where the energy is unknown.
    pub fn energy_per_token(&self) -> Option<Joules> {
        Some(Joules(self.energy?.0 / f64::from(self.tokens.max(1))))
    }
}

impl TurnReport {
    pub(super) fn new(
        turn: Turn,
        context_before: u32,
        preparation: Picos,
        prefill: Cost,
        decode: Option<Cost>,
    ) -> Self {
        let prefill = PhaseReport::new(turn.prompt_tokens, preparation, prefill);
        let decode = decode.map(|cost| PhaseReport::new(turn.generated_tokens, Picos::ZERO, cost));
        let per_token = decode.as_ref().map(|phase| Picos(phase.latency.0 / u64::from(phase.tokens.max(1))));
        Self {
            turn,
            context_before,
            preparation,
            time_to_first_token: prefill.latency,
            time_per_token: per_token,
            prefill,
            decode,
        }
    }

    /// Time of the whole turn.
    pub fn latency(&self) -> Picos {
        self.decode
            .as_ref()
            .map_or(self.prefill.latency, |phase| self.prefill.latency.saturating_add(phase.latency))
    }
}

impl Generation {
    pub(super) fn new(turns: Vec<TurnReport>) -> Self {
        let latency = turns.iter().map(TurnReport::latency).sum();
        let phases = || turns.iter().flat_map(|turn| [Some(&turn.prefill), turn.decode.as_ref()]).flatten();
        let energy = phases().map(|phase| phase.energy).sum::<Option<Joules>>();
        Self { turns, latency, energy }
    }
}
