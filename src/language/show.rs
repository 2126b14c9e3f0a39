//! The tables of a language model's answer.

use coexec_sim::simulate::generation::{Generation, GenerationDrawn, GenerationPlan, PhaseReport};
use coexec_sim::workload::LanguageTask;
use coexec_sim::{Picos, Stage};

use super::Entry;
use crate::explore::describe;
use crate::output::{note_too_large, row, with_mark};
use crate::trust::UNCERTAIN_NOTE;
use crate::{Column, or_dash, output};

/// Prints one row per phase of each turn.
pub(super) fn turns(generation: &Generation) {
    let row = |name: String, phase: &PhaseReport, per_token: Picos| {
        let PhaseReport { tokens, latency, tokens_per_second, bandwidth, energy, .. } = phase;
        let (energy, each) = (or_dash(*energy), or_dash(phase.energy_per_token()));
        let watts = or_dash(phase.watts().map(|watts| format!("{watts:.2} W")));
        let rate = format!("{tokens_per_second:.2}");
        row![name, tokens, latency, per_token, rate, bandwidth, energy, each, watts]
    };
    let mut rows = Vec::new();
    for (index, turn) in generation.turns.iter().enumerate() {
        let name = |phase: &str| {
            if generation.turns.len() == 1 { phase.to_owned() } else { format!("{phase} {}", index + 1) }
        };
        let each = Picos(turn.prefill.latency.0 / u64::from(turn.prefill.tokens.max(1)));
        rows.push(row(name("prefill"), &turn.prefill, each));
        if let (Some(phase), Some(per_token)) = (&turn.decode, turn.time_per_token) {
            rows.push(row(name("decode"), phase, per_token));
        }
    }
    let header =
        ["phase", "tokens", "time", "per token", "tokens/s", "bandwidth", "energy", "per token", "power"];
    output::keyed_table(&header, 1, rows);
    let first = &generation.turns[0];
    let rest = first.time_per_token.map_or(String::new(), |time| format!(", then {time} a token (TPOT)"));
    let which = if generation.turns.len() > 1 { "of the first turn: " } else { "" };
    output::line(&format!("\n{which}first token after {} (TTFT){rest}", first.time_to_first_token));
    if first.preparation > Picos::ZERO {
        output::line(&format!("including {} to compile the NPU's graphs", first.preparation));
    }
}

fn rate(phase: &PhaseReport) -> String {
    format!("{:.2}", phase.tokens_per_second)
}

/// The time to the first token of the first turn, with its interval.
pub(crate) fn first_token(generation: &Generation, drawn: &GenerationDrawn) -> String {
    let [low, high] = drawn.first_token.interval();
    format!("{} ({low} - {high})", generation.turns[0].time_to_first_token)
}

/// Decode rate of the first turn in tokens per second, with its interval.
pub(crate) fn decode_rate(generation: &Generation, drawn: &GenerationDrawn) -> String {
    let within = drawn.tokens_per_second.map(|[low, high]| format!(" ({low:.2} - {high:.2})"));
    let phase = generation.turns[0].decode.as_ref();
    or_dash(phase.map(|phase| rate(phase) + &within.unwrap_or_default()))
}

/// Prints the strategies side by side, with the rates of their first turn.
pub(super) fn compare(strategies: &[Entry<'_>]) {
    let columns: [Column<Entry<'_>>; 7] = [
        ("strategy", |entry| with_mark(entry.strategy, entry.fits_memory)),
        ("TTFT (90 %)", |entry| first_token(entry.generation, &entry.drawn)),
        ("prefill tokens/s", |entry| rate(&entry.generation.turns[0].prefill)),
        ("decode tokens/s (90 %)", |entry| decode_rate(entry.generation, &entry.drawn)),
        ("all", |entry| entry.generation.latency.to_string()),
        ("relative", |entry| {
            format!("{:.2}x{}", entry.relative_to_plan, if entry.is_sure { "" } else { " ~" })
        }),
        ("energy", |entry| or_dash(entry.generation.energy)),
    ];
    if strategies.iter().any(|entry| entry.generation.turns.len() > 1) {
        output::line("rates are of the first turn, `all` is of all turns");
    }
    let (header, rows) = output::cells(&columns, strategies);
    output::keyed_table(&header, 1, rows);
    if strategies.iter().any(|strategy| !strategy.is_sure) {
        output::line(UNCERTAIN_NOTE);
    }
    note_too_large(strategies.iter().map(|entry| entry.fits_memory));
}

/// Prints which processors compute the products of the first prompt and of one token.
pub(super) fn placements(task: &LanguageTask, plan: &GenerationPlan) {
    let stages = task.stages(task.prefill(0));
    let prefill = plan.prefill.first().unwrap_or(&plan.decode);
    let [reading, generating] = [prefill, &plan.decode].map(|step| step.parts().into_iter().flatten());
    let is_product = |stage: &Stage| stage.layer.operator.parameters() > 0 && stage.layer.operator.macs() > 0;
    let rows = stages.parts().into_iter().flatten().zip(reading.zip(generating));
    let rows = rows.filter(|(stage, _)| is_product(stage)).map(|(stage, (reading, generating))| {
        row![stage.name, stage.layer.operator, describe(*reading), describe(*generating)]
    });
    output::table(&["product", "of the prompt", "reading the prompt", "generating a token"], rows);
    output::line("");
}
