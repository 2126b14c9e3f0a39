//! Plans with few changes of the processor: runs of stages, each run whole on one processor.
//!
//! Responsible for: where two or three runs meet so that the busiest processor has the least work. With so few changes,
//! batches hardly wait for each other, even if few are in flight. Not for: cuts, which the levelling of these plans
//! adds. Invariant: of each sequence of processors, no division into runs at the ends tried leaves the busiest less
//! work.

use super::fastest_whole;
use crate::device::ProcessorKind;
use crate::explore::Explorer;
use crate::explore::optimal::{Model, NEVER};
use crate::plan::{Placement, Plan};

/// Most stages at which a run may end: of larger workloads every second, third and so on.
const MAX_ENDS: usize = 128;

/// Ends of the first two of three runs; with two runs, the second ends with the workload.
type Ends = [usize; 2];

/// One plan for each sequence of two or three processors, the third of which may be the first.
pub(super) fn in_runs(explorer: &Explorer<'_, '_>, model: &Model<'_>) -> Vec<Plan> {
    let count = model.stages.len();
    let work_before = ProcessorKind::ALL.map(|kind| work_before(model, kind));
    let busiest = |sequence: [ProcessorKind; 3], [first, second]: Ends| {
        let mut work = [0.0; ProcessorKind::ALL.len()];
        for (kind, run) in sequence.into_iter().zip([0..first, first..second, second..count]) {
            let before = &work_before[kind as usize];
            work[kind as usize] += before[run.end] - before[run.start];
        }
        work.into_iter().fold(0.0, f64::max)
    };
    let plan = |sequence: [ProcessorKind; 3], ends: Ends| {
        let kind = |stage: usize| sequence[ends.iter().filter(|&&end| end <= stage).count()];
        let placed =
            (0..count).map(|stage| Some(Placement::whole(fastest_whole(model, stage, kind(stage))?.0)));
        placed.collect::<Option<_>>().map(|placed| explorer.plan(placed))
    };
    let [two, three] = divisions(count);
    let others = |kind: ProcessorKind| ProcessorKind::ALL.into_iter().filter(move |&other| other != kind);
    let mut plans = Vec::new();
    for first in ProcessorKind::ALL {
        for second in others(first) {
            let of_two = std::iter::once((first, &two));
            for (third, divisions) in of_two.chain(others(second).map(|third| (third, &three))) {
                let sequence = [first, second, third];
                let costs = divisions.iter().map(|&ends| (busiest(sequence, ends), ends));
                let best = costs.min_by(|one, other| one.0.total_cmp(&other.0));
                plans.extend(best.and_then(|(_, ends)| plan(sequence, ends)));
            }
        }
    }
    plans
}

/// The work of the stages before each position, and of all, on the fastest processor of a kind: without a kernel,
/// longer than any run.
fn work_before(model: &Model<'_>, kind: ProcessorKind) -> Vec<f64> {
    let mut sums = vec![0.0];
    for stage in 0..model.stages.len() {
        let time = fastest_whole(model, stage, kind).map_or(NEVER, |(_, time)| time);
        sums.push(sums[stage] + time.0 as f64);
    }
    sums
}

/// The divisions of `count` stages into two and into three runs.
fn divisions(count: usize) -> [Vec<Ends>; 2] {
    let step = count.div_ceil(MAX_ENDS);
    let ends = || (step..count).step_by(step);
    let two = ends().map(|end| [end, count]).collect();
    let later = |first: usize| ends().filter(move |&end| end > first);
    [two, ends().flat_map(|first| later(first).map(move |second| [first, second])).collect()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Profile;
    use crate::explore::{SearchOptions, Strategy};
    use crate::kernel::Library;
    use crate::plan::Processor;
    use crate::simulate::{Measure, Pipeline, Simulator};
    use crate::workload::{Stage, fuse, network};

    fn with_explorer<T>(
        (name, device): (&str, &str),
        of: impl FnOnce(&mut Explorer<'_, '_>, &[Stage]) -> T,
    ) -> T {
        let profile = Profile::load(device).unwrap();
        let stages = fuse(&network(name).unwrap());
        let library = Library::default_for(&profile.cpu);
        let mut simulator = Simulator::new(&profile, library).measuring(Measure::Inference);
        let (options, pipeline) = (SearchOptions::on(&profile), Pipeline::new(2, 50.0));
        let mut explorer = Explorer::new(&mut simulator, &stages, &options).streaming(Some(&pipeline));
        of(&mut explorer, &stages)
    }

    #[test]
    fn each_sequence_of_processors_has_its_plan() {
        with_explorer(("mobilenet-v2", "snapdragon-8gen3"), |explorer, stages| {
            let model = Model::new(explorer).unwrap();
            let plans = in_runs(explorer, &model);
            let kind = |placement: &Placement| placement.only().map(Processor::kind);
            let mut sequences: Vec<Vec<ProcessorKind>> = Vec::new();
            for plan in &plans {
                assert_eq!(plan.placements.len(), stages.len());
                let mut kinds: Vec<ProcessorKind> = plan.placements.iter().filter_map(kind).collect();
                kinds.dedup();
                assert!((2..=3).contains(&kinds.len()), "{kinds:?}");
                assert!(!sequences.contains(&kinds), "{kinds:?}");
                sequences.push(kinds);
            }
            // Three times two pairs, each with two further processors or none.
            assert_eq!(sequences.len(), 6 * 3);
        });
    }

    #[test]
    fn two_batches_of_resnet18_hardly_wait_for_each_other() {
        with_explorer(("resnet18", "mi8se"), |explorer, _| {
            let found = explorer.find(Strategy::Optimal).unwrap();
            let bound = explorer.bound(&found).unwrap();
            // 1.15 without these plans.
            assert!(found.period.unwrap().as_seconds() < 1.08 * bound, "{:?}, {bound}", found.period);
        });
    }
}
