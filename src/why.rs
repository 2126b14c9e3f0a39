//! Sentences that explain the time of each part of an operator.

use std::fmt::Write as _;

use coexec_sim::kernel::npu::compiled;
use coexec_sim::kernel::{cpu, gpu};
use coexec_sim::simulate::{Detail, PartReport, Prediction};
use coexec_sim::{Bytes, Picos};

/// Most operators that are explained one by one.
const MAX_EXPLAINED: usize = 6;

/// Explains the times of a run's operators, one line per part.
pub(crate) fn operators(prediction: &Prediction) -> String {
    let mut text = String::new();
    for stage in prediction.stages.iter().take(MAX_EXPLAINED) {
        let _ = writeln!(text, "{}: {}", stage.name, stage.operator);
        for part in &stage.parts {
            let _ = writeln!(text, "  {}", explain(part));
        }
    }
    let more = prediction.stages.len().saturating_sub(MAX_EXPLAINED);
    if more > 0 {
        let more = counted(more as u64, "more operator");
        let _ = writeln!(text, "and {more}; --json explains each");
    }
    text
}

/// Explains one part: processor, share, time, kernel and limit.
fn explain(part: &PartReport) -> String {
    let share = match (part.channels, part.rows) {
        (Some(channels), Some(rows)) => format!(" {rows} rows x {channels} channels,"),
        (Some(channels), None) => format!(" {channels} channels,"),
        (None, Some(rows)) => format!(" {rows} rows,"),
        (None, None) => String::new(),
    };
    let waits = if part.wait > Picos::ZERO { format!("; waits {}", part.wait) } else { String::new() };
    format!(
        "{}{share} {}: {}{waits}",
        part.processor,
        part.finish.saturating_sub(part.start),
        detail(&part.detail)
    )
}

fn detail(detail: &Detail) -> String {
    match detail {
        Detail::Cpu { cores, schedule } => {
            let pieces = if schedule.tile == [0, 0] {
                String::new()
            } else {
                let [rows, columns] = schedule.tile;
                let piece = match schedule.library {
                    Some(cpu::Library::Xnnpack) => "tile",
                    Some(cpu::Library::Ruy | cpu::Library::Coexec) | None => "block",
                };
                format!(", {rows}x{columns} micro-kernel, {}", counted(schedule.blocks, piece))
            };
            format!(
                "{} {} on {cores} ({}){pieces}; limited by {}",
                schedule.library.map_or("integer weights".to_owned(), |library| library.to_string()),
                schedule.kernel,
                counted(schedule.threads, "thread"),
                schedule.limit
            )
        }
        Detail::Gpu(launch) => gpu_launch(launch),
        Detail::GpuLanguage(launch) | Detail::NpuLanguage(launch) => {
            format!("{}, {} moved", launch.kernel, launch.bytes)
        }
        Detail::Npu(schedule) => format!(
            "{} of the array, {} over the streamed operand, {} moved; limited by {}",
            counted(schedule.folds, "fold"),
            counted(schedule.panels, "pass"),
            schedule.bytes,
            schedule.limit
        ),
        Detail::NpuGraph(step) => npu_graph(step),
    }
}

/// A count and its noun, given in the singular.
pub(crate) fn counted(count: impl Into<u64>, one: &str) -> String {
    match count.into() {
        1 => format!("1 {one}"),
        count if one.ends_with('s') => format!("{count} {one}es"),
        count => format!("{count} {one}s"),
    }
}

fn gpu_launch(launch: &gpu::Launch) -> String {
    let [x, y, slices] = launch.tile;
    let [wx, wy, wz] = launch.work_group;
    let rounds = match launch.slots {
        Some(slots) => {
            let partial = u32::from(launch.last_round_groups > 0);
            let total = u64::from(launch.full_rounds) + u64::from(partial);
            format!("{} of {slots} slots", counted(total, "occupancy round"))
        }
        None => "all resident at once".to_owned(),
    };
    let learned = launch
        .residual_factor
        .map_or(String::new(), |factor| format!(", {:+.1} % learned from runs", 100.0 * (factor - 1.0)));
    format!(
        "{}, tile {x}x{y}x{slices}, {} of {wx}x{wy}x{wz} (waves each: {}), {rounds}, {}; \
         limited by {}{learned}",
        launch.kernel,
        counted(launch.groups, "work-group"),
        launch.waves_per_group,
        counted(launch.iterations, "iteration"),
        launch.limit
    )
}

fn npu_graph(step: &compiled::Step) -> String {
    let spilled = match step.spilled {
        Bytes::ZERO => "every tensor on chip".to_owned(),
        bytes => format!("{bytes} spilled"),
    };
    let operators = counted(step.operators, "operator");
    let compiled::Step { kernel, weights, limit, .. } = step;
    format!("{kernel} ({operators}), {weights} of weights, {spilled}; limited by {limit}")
}
