use std::ops::Range;

use super::*;
use crate::kernel::CoreSet;
use crate::plan::Mechanism;
use crate::workload::{DataType, Graph, GraphBuilder, PoolKind, Shape, Source, Window, fuse};

fn cores() -> CoreSet {
    let profile = crate::device::profile::Profile::load("pixel4").unwrap();
    CoreSet::fastest(&profile.cpu, 1).unwrap()
}

fn rows(cpu_rows: u32, gpu_rows: u32) -> Placement {
    Placement::cpu_and_gpu(Axis::Height, cores(), [cpu_rows, gpu_rows])
}

fn channels(cpu_channels: u32, gpu_channels: u32) -> Placement {
    Placement::cpu_and_gpu(Axis::Channels, cores(), [cpu_channels, gpu_channels])
}

/// The rows that CPU and GPU compute of each stage.
fn rows_of(stages: &[Stage], plan: &Plan) -> Vec<[Range<u32>; 2]> {
    let computed = computed(stages, plan).unwrap();
    computed.iter().map(|regions| [regions[0].rows.range(), regions[1].rows.range()]).collect()
}

fn chained(placements: Vec<Placement>, chains: &[u32]) -> Plan {
    Plan::new(Mechanism::SvmPolling, placements).chained(chains.iter().map(|&chain| Some(chain)).collect())
}

fn network(layers: impl Fn(&mut GraphBuilder, Source)) -> Vec<Stage> {
    let mut net = GraphBuilder::new("net", DataType::F32);
    let input = net.input(Shape::image(32, 32, 8));
    layers(&mut net, input);
    let graph: Graph = net.build().unwrap();
    fuse(&graph)
}

fn three_convolutions() -> Vec<Stage> {
    network(|net, mut x| {
        for _ in 0..3 {
            x = net.conv(x, 8, Window::same(3));
        }
    })
}

#[test]
fn each_later_operator_adds_its_halo_to_those_before_it() {
    let stages = three_convolutions();
    let plan = chained(vec![rows(16, 16); 3], &[0, 0, 0]);
    // Two 3x3 windows reach two rows across the cut from either side.
    assert_eq!(rows_of(&stages, &plan), [[0..18, 14..32], [0..17, 15..32], [0..16, 16..32]]);
}

#[test]
fn without_a_chain_no_row_is_computed_twice() {
    let stages = three_convolutions();
    for plan in
        [Plan::new(Mechanism::SvmPolling, vec![rows(16, 16); 3]), chained(vec![rows(16, 16); 3], &[0, 1, 2])]
    {
        assert!(rows_of(&stages, &plan).iter().all(|[cpu, gpu]| cpu.end == gpu.start));
    }
}

#[test]
fn the_halo_of_a_strided_window_is_counted_in_rows_of_what_it_reads() {
    let stages = network(|net, x| {
        let x = net.conv(x, 8, Window::same(3));
        let x = net.pool(x, PoolKind::Max, Window::valid(2).stride(2));
        net.conv(x, 8, Window::same(3));
    });
    let plan = chained(vec![rows(16, 16), rows(8, 8), rows(8, 8)], &[0, 0, 0]);
    assert_eq!(rows_of(&stages, &plan)[..2], [[0..18, 14..32], [0..9, 7..16]]);
}

#[test]
fn along_channels_a_chain_has_only_operators_with_independent_channels() {
    let stages = network(|net, x| {
        let x = net.conv(x, 8, Window::same(3));
        let x = net.pool(x, PoolKind::Max, Window::valid(2).stride(2));
        net.conv(x, 8, Window::same(3));
    });
    let plan = |pool, chain: [Option<u32>; 3]| {
        Plan::new(Mechanism::SvmPolling, vec![channels(4, 4), pool, channels(4, 4)]).chained(chain.to_vec())
    };
    assert_eq!(check_chains(&stages, &plan(channels(4, 4), [Some(0), Some(0), None])), Ok(()));
    let error = |plan| check_chains(&stages, &plan).unwrap_err();
    assert_eq!(error(plan(channels(4, 4), [Some(0); 3])).stage, 2, "a convolution reads every channel");
    assert_eq!(error(plan(channels(2, 6), [Some(0), Some(0), None])).stage, 1, "cut elsewhere");
    assert_eq!(error(plan(rows(8, 8), [Some(0), Some(0), None])).stage, 1, "another dimension");
    assert_eq!(error(plan(Placement::GPU, [Some(0), Some(0), None])).stage, 1, "not cut at all");
}

#[test]
fn a_residual_sum_needs_its_own_rows_of_the_short_cut() {
    let stages = network(|net, x| {
        let first = net.conv(x, 8, Window::same(3));
        let second = net.conv(first, 8, Window::same(3));
        net.add(second, first);
    });
    assert_eq!(stages.len(), 2, "the sum is linked");
    let plan = chained(vec![rows(10, 22); 2], &[3, 3]);
    assert_eq!(rows_of(&stages, &plan)[0], [0..11, 9..32], "the window reaches further than the sum");
}

#[test]
fn three_processors_reach_over_both_cuts() {
    let stages = three_convolutions();
    let thirds = [(Processor::Cpu(cores()), 10), (Processor::Gpu, 12), (Processor::NPU, 10)];
    let plan = chained(vec![Placement::cut(Axis::Height, thirds); 3], &[0, 0, 0]);
    let rows: Vec<Range<u32>> =
        computed(&stages, &plan).unwrap()[0].iter().map(|region| region.rows.range()).collect();
    assert_eq!(rows, [0..12, 8..24, 20..32]);
    let mut other = plan;
    let swapped = [(Processor::Gpu, 10), (Processor::Cpu(cores()), 12), (Processor::NPU, 10)];
    other.placements[2] = Placement::cut(Axis::Height, swapped);
    assert_eq!(check_chains(&stages, &other).unwrap_err().stage, 2, "others compute its parts");
}
