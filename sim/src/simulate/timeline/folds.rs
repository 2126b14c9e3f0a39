//! Slices for the folds of the systolic arrays during an operator.
//!
//! A kernel model groups the loads of all folds into one phase, then the streams, then the
//! drains. In the arrays they alternate fold by fold, and are drawn that way: a graph's
//! time is cut into a few equal stretches of consecutive folds, each with its own load,
//! stream and drain.

use super::{shown, slice};
use crate::kernel::{Phase, PhaseKind};
use crate::timeline::{Activity, Stretch};
use crate::units::Picos;

/// Maximum number of stretches per graph.
const MAX_STRETCHES: u32 = 8;

/// Adds the slices nested in an operator's slice.
pub(super) fn draw(slices: &mut Vec<Stretch>, phases: &[Phase], spans: &[(Picos, Picos)]) {
    let mut index = 0;
    while let (Some(phase), Some(&(start, end))) = (phases.get(index), spans.get(index)) {
        index += 1;
        if phase.kind == PhaseKind::Launch {
            slices.push(slice("dispatch", Activity::Launch, start, end));
        }
        if phase.kind != PhaseKind::StationaryLoad {
            continue;
        }
        let is_part = |phase: &&Phase| matches!(phase.kind, PhaseKind::Stream | PhaseKind::Drain);
        let parts = 1 + phases[index..].iter().take_while(is_part).count();
        let Some(lengths) = spans.get(index - 1..index - 1 + parts) else { return };
        graph(slices, phase.steps, lengths, &phases[index - 1..index - 1 + parts]);
        index += parts - 1;
    }
}

/// Draws the folds of one graph, or of several equal graphs in a row.
fn graph(slices: &mut Vec<Stretch>, folds: u32, spans: &[(Picos, Picos)], parts: &[Phase]) {
    let (Some(&(start, _)), Some(&(_, end))) = (spans.first(), spans.last()) else { return };
    let stretches = folds.clamp(1, MAX_STRETCHES);
    // The part of `whole` that lies before `step`.
    let before =
        |step: u32, whole: u64| (u128::from(whole) * u128::from(step) / u128::from(stretches)) as u64;
    let edge = |step, length: Picos| Picos(before(step, length.0));
    for stretch in 0..stretches {
        let [first, last] = [stretch, stretch + 1].map(|step| before(step, folds.into()));
        let name =
            if last == first + 1 { format!("fold {last}") } else { format!("folds {} to {last}", first + 1) };
        let [from, to] = [stretch, stretch + 1].map(|step| start + edge(step, end - start));
        slices.push(slice(name, Activity::Compute, from, to));
        let mut at = from;
        for (part, &(part_start, part_end)) in parts.iter().zip(spans) {
            let length = part_end - part_start;
            let part_to = (at + (edge(stretch + 1, length) - edge(stretch, length))).min(to);
            let (name, activity) = shown(part.kind);
            slices.push(slice(name, activity, at, part_to));
            at = part_to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::kernel::npu;
    use crate::workload::{DataType, Layer, Linear, Operator};

    fn drawn(rows: u32) -> Vec<Stretch> {
        let npu = Profile::load("snapdragon-8gen3").unwrap().npu.unwrap().systolic.unwrap();
        let linear = Linear { rows, input_features: 4096, output_features: 4096, bias: false };
        let layer = Layer::new(Operator::Linear(linear), DataType::W4A16);
        let phases = npu::execute(&layer, &npu).unwrap().phases;
        let mut spans = Vec::new();
        let mut now = Picos::ZERO;
        for phase in phases.as_slice() {
            spans.push((now, now + phase.duration));
            now += phase.duration;
        }
        let mut slices = Vec::new();
        draw(&mut slices, phases.as_slice(), &spans);
        slices
    }

    #[test]
    fn every_stretch_of_folds_loads_streams_and_drains() {
        let slices = drawn(256);
        let names: Vec<&str> = slices.iter().map(|slice| slice.name.as_str()).take(8).collect();
        let expected = ["folds 1 to 128", "load", "stream", "drain", "folds 129 to 256", "load", "stream"];
        assert_eq!(names[..7], expected);
        assert_eq!(slices.len(), 4 * MAX_STRETCHES as usize);
    }

    #[test]
    fn slices_nest_and_follow_each_other() {
        for rows in [1, 32, 256, 1500] {
            let slices = drawn(rows);
            for pair in slices.windows(2) {
                let [one, next] = pair else { unreachable!() };
                assert!(next.start >= one.end || next.end <= one.end, "{rows} rows: {one:?}, {next:?}");
                assert!(next.start >= one.start, "{rows} rows: {one:?}, {next:?}");
            }
        }
    }
}
