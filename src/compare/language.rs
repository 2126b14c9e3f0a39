//! Language models in `coexec compare`: which device answers first.

use coexec_sim::simulate;
use coexec_sim::simulate::generation::{Generation, GenerationDrawn};
use coexec_sim::{Bytes, Picos};
use serde::Serialize;

use super::show::{Timed, print_too_large, rank};
use crate::language::Case;
use crate::language::show::{decode_rate, first_token};
use crate::output::row;
use crate::trust::basis;
use crate::{Column, output};

/// A language model on a device, under the strategy that `explore` advises there.
#[derive(Serialize)]
pub(super) struct LanguageRow {
    scenario: String,
    device: String,
    strategy: &'static str,
    peak_memory_bytes: Bytes,
    /// Largest memory the device is sold with; none if unknown.
    memory_bytes: Option<Bytes>,
    /// Whether it fits into that; none if the size is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    fits_memory: Option<bool>,
    /// Latency of all turns.
    latency_ps: Picos,
    #[serde(flatten)]
    drawn: GenerationDrawn,
    generation: Generation,
}

impl LanguageRow {
    /// Predicts a model on a device.
    ///
    /// # Errors
    /// No strategy has a plan for the model on the device.
    pub(super) fn of(case: Case<'_>) -> simulate::Result<Self> {
        let scenario = case.scenario;
        let best = case.answers(None, false)?.swap_remove(0);
        Ok(Self {
            scenario: scenario.name.clone(),
            device: scenario.device.name.clone(),
            strategy: best.strategy.name(),
            peak_memory_bytes: best.memory.peak(),
            memory_bytes: scenario.device.memory.size(),
            fits_memory: best.memory.fits(&scenario.device),
            latency_ps: best.generation.latency,
            drawn: best.plan.drawn(case.conversation(), &best.generation)?,
            generation: best.generation,
        })
    }

    fn timed(&self) -> Timed<'_> {
        let interval = self.drawn.latency.interval();
        let (model, device) = (&self.scenario, &self.device);
        Timed { model, device, latency: self.latency_ps, interval, is_held: self.is_held() }
    }

    /// Whether the device can hold the model; true if the memory size is unknown.
    fn is_held(&self) -> bool {
        self.fits_memory != Some(false)
    }

    fn memory(&self) -> String {
        let peak = self.peak_memory_bytes;
        match self.memory_bytes {
            Some(size) if !self.is_held() => format!("{peak}, more than its {size}"),
            Some(size) => format!("{peak} of {size}"),
            None => peak.to_string(),
        }
    }
}

/// Prints each model on each device, and ranks the devices by latency.
pub(super) fn show(rows: &[LanguageRow]) {
    if rows.is_empty() {
        return;
    }
    output::line(
        "language models, each by the strategy that `explore` advises there; rates are of the first turn",
    );
    let columns: [Column<LanguageRow>; 7] = [
        ("model", |row| row.scenario.clone()),
        ("device", |row| row.device.clone()),
        ("strategy", |row| row.strategy.to_owned()),
        ("TTFT (90 %)", |row| first_token(&row.generation, &row.drawn)),
        ("decode tokens/s (90 %)", |row| decode_rate(&row.generation, &row.drawn)),
        ("all", |row| row.latency_ps.to_string()),
        ("memory", LanguageRow::memory),
    ];
    let (header, cells) = output::cells(&columns, rows);
    output::keyed_table(&header, 2, cells);
    let timed: Vec<Timed<'_>> = rows.iter().map(LanguageRow::timed).collect();
    rank("Devices by the time for all", &timed);
    print_too_large(&timed);
    output::line("");
    let basis = |row: &LanguageRow| {
        let [prompt, answer] = [0, 1].map(|part| basis(&row.drawn.known[part], &row.drawn.errors[part]));
        row![row.device, row.strategy, prompt, answer]
    };
    let header = ["device", "strategy", "basis of the prompt", "basis of the answer"];
    output::table(&header, output::distinct(rows.iter().map(basis)));
    output::line(
        "\nVerify on the device with the command that `coexec explore MODEL --device DEVICE` prints",
    );
}
