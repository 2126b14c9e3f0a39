//! What a simulation says of a language task: plain data.

use serde::Serialize;

use super::Cost;
use crate::units::{Bytes, BytesPerSecond, Joules, Picos};
use crate::workload::Turn;

/// Reading a prompt, or generating an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseReport {
    /// Tokens read or generated.
    pub tokens: u32,
    /// How long it takes.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// Their rate.
    pub tokens_per_second: f64,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// Their mean rate.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy, where the profile knows power.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
    /// Time each of CPU, GPU and NPU computes.
    #[serde(rename = "busy_ps")]
    pub busy: [Picos; 3],
}

/// One prompt and its answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TurnReport {
    /// Tokens of the prompt, and generated.
    pub turn: Turn,
    /// Tokens of the turns before it.
    pub context_before: u32,
    /// Making the NPU's graphs for the prompt's length, where that is part of the answer.
    #[serde(rename = "preparation_ps")]
    pub preparation: Picos,
    /// From the prompt to the first token of the answer (TTFT).
    #[serde(rename = "time_to_first_token_ps")]
    pub time_to_first_token: Picos,
    /// Mean time of a token after the first (TPOT).
    #[serde(rename = "time_per_token_ps")]
    pub time_per_token: Option<Picos>,
    /// Reading the prompt; its rate counts the making of graphs.
    pub prefill: PhaseReport,
    /// Generating the answer.
    pub decode: Option<PhaseReport>,
}

/// All turns of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Generation {
    /// In order.
    pub turns: Vec<TurnReport>,
    /// All turns together.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// Their energy, where the profile knows power.
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

    /// Mean power, where the energy is known.
    pub fn watts(&self) -> Option<f64> {
        Some(self.energy?.0 / self.latency.as_seconds())
    }

    /// Energy of one token, where known.
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

    /// The whole turn.
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
