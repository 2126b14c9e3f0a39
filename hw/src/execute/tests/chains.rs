//! Chains: the halos of their parts, and the results that leave them.

use coexec_sim::Axis;

use super::*;

/// Windows with padding and stride, depthwise and dense; pooling, a separate function, a residual
/// sum and a concatenation.
const BLOCKS: &str = r#"
title = "a test"
device = "pixel4"
[[operator]]
name = "stem"
conv2d = { input = [33, 9, 8], output_channels = 16, kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "depthwise"
depthwise_conv2d = { input = [33, 9, 16], kernel = [3, 3], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "residual"
from = ["depthwise", "stem"]
function = "add"
[[operator]]
name = "sigmoid"
from = ["stem"]
function = "sigmoid"
[[operator]]
name = "both"
from = ["residual", "sigmoid"]
concat = true
[[operator]]
name = "pool"
pool = { input = [33, 9, 32], kind = "max", kernel = [3, 3], stride = [2, 2], padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "strided"
conv2d = { input = [17, 5, 32], output_channels = 12, kernel = [3, 3], stride = [2, 2], padding = { top = 0, bottom = 1, left = 0, right = 1 } }
[[operator]]
name = "pointwise"
conv2d = { input = [8, 2, 12], output_channels = 20, kernel = [1, 1] }
"#;

/// Operators that keep channels separate, after one that mixes them.
const SEPARATE: &str = r#"
title = "a test"
device = "pixel4"
[[operator]]
name = "mixing"
conv2d = { input = [12, 9, 8], output_channels = 16, kernel = [1, 1] }
[[operator]]
name = "depthwise"
depthwise_conv2d = { input = [12, 9, 16], kernel = [3, 3], multiplier = 2, padding = { top = 1, bottom = 1, left = 1, right = 1 } }
[[operator]]
name = "pool"
pool = { input = [12, 9, 32], kind = "average", kernel = [2, 2], stride = [2, 2] }
[[operator]]
name = "head"
conv2d = { input = [6, 4, 32], output_channels = 8, kernel = [1, 1] }
"#;

/// The chain of each stage: a digit, or none.
fn chains(text: &str) -> Vec<Option<u32>> {
    text.chars().map(|chain| chain.to_digit(10)).collect()
}

/// Cuts all stages at a fraction of their height, where they can be cut; stages marked `c` and `g`
/// in `chain` are placed on one processor.
fn cut_by_height(stages: &[Stage], profile: &Profile, chain: &str, share: f64) -> Vec<Placement> {
    let cores = cores(profile);
    let placement = |(stage, mark): (&Stage, char)| match (mark, Axis::Height.extent(&stage.layer.operator)) {
        ('c', _) => Placement::cpu(cores),
        ('g', _) => Placement::GPU,
        (_, None) => panic!("{} cannot be cut", stage.name),
        (_, Some(rows)) => {
            let cpu_rows = ((f64::from(rows) * share) as u32).clamp(1, rows - 1);
            Placement::cpu_and_gpu(Axis::Height, cores, [cpu_rows, rows - cpu_rows])
        }
    };
    stages.iter().zip(chain.chars()).map(placement).collect()
}

fn check_chain(machine: &mut Machine, text: &str, chain: &str, share: f64, synchronisation: Modelled) {
    let (stages, profile) = scenario(text);
    assert_eq!(stages.len(), chain.len(), "{:?}", stages.iter().map(|stage| &stage.name).collect::<Vec<_>>());
    let placements = cut_by_height(&stages, &profile, chain, share);
    let plan = Plan::new(synchronisation, placements).chained(chains(chain));
    check_plan(machine, (&stages, &profile), &plan, Clock::Host);
}

#[test]
fn a_chain_is_right_wherever_it_is_cut() {
    let Some((_lock, mut machine)) = machine() else { return };
    for share in [0.05, 0.3, 0.55, 0.95] {
        check_chain(&mut machine, BLOCKS, "0000000", share, Modelled::SvmPolling);
    }
}

#[test]
fn chains_synchronise_by_every_mechanism() {
    let Some((_lock, mut machine)) = machine() else { return };
    // Whole stages before, between and after chains; two chains; results read inside and outside.
    for &mechanism in Modelled::ALL {
        for chain in ["g0000cx", "00x1111", "0cx11gc", "0011100"] {
            check_chain(&mut machine, BLOCKS, chain, 0.4, mechanism);
        }
    }
}

#[test]
fn chains_are_right_where_results_are_copied() {
    let Some((_lock, mut machine)) = machine() else { return };
    let on_buffers_of_slices = BLOCKS.replace("pixel4", "h200");
    for mechanism in [Mechanism::EventPolling, Mechanism::EventWait, Mechanism::BlockingFinish] {
        assume(&mut machine, Modelled::SvmPolling, mechanism, Home::Device);
        for chain in ["0000000", "00x1111", "0cx11gc", "0011100"] {
            check_chain(&mut machine, BLOCKS, chain, 0.4, Modelled::SvmPolling);
            check_chain(&mut machine, &on_buffers_of_slices, chain, 0.7, Modelled::SvmPolling);
        }
    }
}

#[test]
fn a_chain_along_channels_includes_channel_wise_operators() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (stages, profile) = scenario(SEPARATE);
    let cut = |cpu_channels, all: u32| {
        Placement::cpu_and_gpu(Axis::Channels, cores(&profile), [cpu_channels, all - cpu_channels])
    };
    for memory in [None, Some(Home::Device)] {
        if let Some(memory) = memory {
            assume(&mut machine, Modelled::SvmPolling, Mechanism::EventWait, memory);
        }
        let plan = Plan::new(Modelled::SvmPolling, vec![cut(4, 16), cut(8, 32), cut(8, 32), cut(4, 8)]);
        let plan = plan.chained(chains("000x"));
        check_plan(&mut machine, (&stages, &profile), &plan, Clock::Host);
    }
}

#[test]
fn uncomputed_rows_are_detected() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (stages, profile) = scenario(BLOCKS);
    let plan = Plan::new(Modelled::SvmPolling, cut_by_height(&stages, &profile, "0000000", 0.5))
        .chained(chains("0000000"));
    let task = task((&stages, &profile), &plan);
    let mut program = Program::<f32>::new(&mut machine, &task).unwrap();
    program.verify(&mut machine).unwrap();
    // The stem's halo is read across the cut; without it, its reader's results are wrong.
    let cpu = &mut program.operations[0].parts[0];
    assert!(cpu.gpu.is_none() && cpu.computed.rows.end > cpu.owned.rows.end);
    cpu.computed = cpu.owned;
    let error = program.verify(&mut machine).map(drop).unwrap_err();
    assert!(matches!(error, ExecuteError::NotComputed { .. } | ExecuteError::Wrong(_)), "{error}");
}

#[test]
fn an_invalid_chain_says_why() {
    let Some((_lock, mut machine)) = machine() else { return };
    let (stages, profile) = scenario(BLOCKS);
    let placements = cut_by_height(&stages, &profile, "c000000", 0.5);
    let plan = Plan::new(Modelled::SvmPolling, placements).chained(chains("0000000"));
    let task = task((&stages, &profile), &plan);
    let error = Program::<f32>::new(&mut machine, &task).map(drop).unwrap_err();
    assert!(
        matches!(error, ExecuteError::Schedule(ScheduleError::Chain(_))) && error.is_of_variant(),
        "{error}"
    );
}
