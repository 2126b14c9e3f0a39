//! Memory bandwidth over time: in total, and of each processor.

use crate::device::ProcessorKind;
use crate::engine::Recorder;
use crate::simulate::PricedCommand;
use crate::timeline::Counter;
use crate::units::Picos;

/// The total bandwidth and, where more than one processor moves bytes, that of each processor.
pub(super) fn counters(recorder: &Recorder, tasks: &[PricedCommand]) -> Vec<Counter> {
    let mut counters = vec![total(recorder, Picos::MAX)];
    let parts = ProcessorKind::ALL.map(|processor| part(recorder, tasks, processor));
    if parts.iter().filter(|samples| samples.iter().any(|&(_, rate)| rate > 0.0)).count() < 2 {
        return counters;
    }
    for (processor, samples) in ProcessorKind::ALL.into_iter().zip(parts) {
        if samples.iter().any(|&(_, rate)| rate > 0.0) {
            counters.push(counter(format!("{processor} bandwidth"), samples));
        }
    }
    counters
}

/// The total bandwidth before `end`.
pub(in crate::simulate) fn total(recorder: &Recorder, end: Picos) -> Counter {
    let samples = recorder.memory.iter().filter(|(time, _)| *time < end);
    counter("memory bandwidth".to_owned(), samples.map(|&(time, rate)| (time, rate.as_gigabytes())).collect())
}

fn counter(name: String, samples: Vec<(Picos, f64)>) -> Counter {
    Counter { name, unit: "GB/s", samples }
}

/// The bandwidth of `processor` in GB/s, with a sample at each change.
fn part(recorder: &Recorder, tasks: &[PricedCommand], processor: ProcessorKind) -> Vec<(Picos, f64)> {
    let mut flows = recorder.flows.iter().peekable();
    let mut samples: Vec<(Picos, f64)> = Vec::new();
    for &(time, _) in &recorder.memory {
        let mut rate = 0.0;
        while let Some(&(_, task, moved)) = flows.next_if(|&&(at, _, _)| at <= time) {
            let owner = tasks.get(task.0 as usize).map(PricedCommand::processor);
            rate += if owner == Some(processor) { moved.as_gigabytes() } else { 0.0 };
        }
        if samples.last().is_none_or(|&(_, before): &(Picos, f64)| before.to_bits() != rate.to_bits()) {
            samples.push((time, rate));
        }
    }
    samples
}
