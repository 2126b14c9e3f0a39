//! How graphs are partitioned, what that costs, and that it costs nothing if a delegate takes
//! everything.

use super::*;
use crate::explore::{SearchOptions, explore};
use crate::kernel::Library;
use crate::simulate::{Measure, Prediction};
use crate::workload::{
    DataType, GraphBuilder, LocalResponseNorm, PoolKind, Shape, Window, fuse, network, networks,
};

/// Two branches, one through a local response normalisation, which TFLite's GPU delegate does not take,
/// and a convolution and a pooling after they meet.
fn branches() -> Vec<Stage> {
    let mut net = GraphBuilder::new("branches", DataType::F32);
    let input = net.input(Shape::image(56, 56, 32));
    let stem = net.conv(input, 64, Window::same(3));
    let shape = Shape::image(56, 56, 64);
    let normalised = net.operator("norm", LocalResponseNorm { input: shape, size: 5 }, &[stem]);
    let one = net.conv(normalised, 64, Window::same(3));
    let other = net.conv(stem, 64, Window::same(1));
    let mut both = net.concat(&[one, other]);
    both = net.conv(both, 64, Window::same(3));
    net.pool(both, PoolKind::Max, Window::valid(2).stride(2));
    fuse(&net.build().unwrap())
}

fn simulator(device: &Profile) -> Simulator<'_> {
    Simulator::new(device, Library::default_for(&device.cpu)).measuring(Measure::Inference)
}

fn predicted(device: &Profile, stages: &[Stage], strategy: Strategy) -> Result<Prediction> {
    let options = SearchOptions { strategy, ..SearchOptions::on(device) };
    Ok(explore(&mut simulator(device), stages, &options)?.prediction)
}

#[test]
fn a_partition_skips_refused_operators_and_only_the_largest_is_delegated() {
    let device = Profile::load("pixel4").unwrap();
    let cut = partitioning(&simulator(&device), &branches(), Strategy::DelegateGpu).unwrap();
    // The stem and the branch without the normalisation; the normalisation; everything that depends on
    // it.
    let stages: Vec<&[usize]> = cut.partitions.iter().map(|one| one.stages.as_slice()).collect();
    assert_eq!(stages, [&[0, 3][..], &[1], &[2, 4, 5, 6]]);
    assert_eq!(cut.partitions.iter().map(|one| one.delegated).collect::<Vec<_>>(), [false, false, true]);
    let left: Vec<(usize, &str)> = cut.left_out.iter().map(|one| (one.stage, one.reason.as_str())).collect();
    let smaller = "not in the largest partition";
    assert_eq!(left, [(0, smaller), (1, "local response normalisation"), (3, smaller)]);
    // The results of the normalisation and of the other branch.
    assert_eq!(cut.partitions.iter().map(|one| one.tensors).collect::<Vec<_>>(), [0, 0, 2]);
}

#[test]
fn a_compilers_partitions_end_at_refused_operators_and_all_are_delegated() {
    let takes = [true, false, true, true, true, true, true];
    let islands = grown(&branches(), &takes, false);
    let stages: Vec<&[usize]> = islands.iter().map(|one| one.stages.as_slice()).collect();
    assert_eq!(stages, [&[0][..], &[1], &[2, 3, 4, 5, 6]]);
}

#[test]
fn processors_take_turns_and_every_border_has_the_reported_cost() {
    let (device, stages) = (Profile::load("pixel4").unwrap(), branches());
    let cut = partitioning(&simulator(&device), &stages, Strategy::DelegateGpu).unwrap();
    let crossing: Picos = cut.partitions.iter().map(|one| one.crossing).sum();
    let prediction = predicted(&device, &stages, Strategy::DelegateGpu).unwrap();
    assert_eq!(prediction.composition.hand_overs, crossing);
    let of_kind = |kind| prediction.processors.iter().find(|one| one.processor == kind).unwrap();
    let [cpu, gpu] = [ProcessorKind::Cpu, ProcessorKind::Gpu].map(|kind| of_kind(kind).busy);
    assert_eq!(prediction.composition.computing, cpu + gpu, "nothing overlaps");
    let waits = Picos::from_micros(400.0)..Picos::from_micros(2.0 * 400.0);
    assert!(waits.contains(&crossing), "two tensors cross, after one wait for the CPU: {crossing}");
    let optimal = predicted(&device, &stages, Strategy::Optimal).unwrap();
    assert!(optimal.latency < prediction.latency);
}

#[test]
fn a_delegate_that_takes_everything_equals_its_single_processor() {
    let mut taken = 0;
    for device in ["pixel4", "galaxy-s10", "snapdragon-8gen3"].map(|name| Profile::load(name).unwrap()) {
        for (name, _) in networks() {
            let stages = fuse(&network(name).unwrap());
            let latency = |strategy| predicted(&device, &stages, strategy).map(|found| found.latency);
            let pairs = [
                (Strategy::DelegateGpu, Strategy::GpuOnly),
                (Strategy::DelegateXnnpack, Strategy::CpuOnly),
                (Strategy::DelegateNpu, Strategy::NpuOnly),
            ];
            for (delegate, alone) in pairs {
                let cut = partitioning(&simulator(&device), &stages, delegate).unwrap();
                if cut.left_out.is_empty() {
                    assert_eq!(latency(delegate), latency(alone), "{name} on {}", device.name);
                    taken += 1;
                }
            }
        }
    }
    assert!(taken >= 3 * 2 * (networks().count() - 1), "{taken}");
}

#[test]
fn core_mls_delegate_leaves_attention_to_the_cpu_and_takes_no_partition_of_one_operator() {
    let device = Profile::load("apple-m1").unwrap();
    let stages = fuse(&network("vit-tiny-p16").unwrap());
    let cut = partitioning(&simulator(&device), &stages, Strategy::DelegateNpu).unwrap();
    assert_eq!(cut.delegate, Delegate::CoreMl);
    let reason = |wanted: &str| cut.left_out.iter().filter(|one| one.reason == wanted).count();
    assert!(reason("normalisation") > 0 && reason("product of two activations") > 0, "{:?}", cut.left_out);
    assert!(cut.partitions.iter().filter(|one| one.delegated).all(|one| one.nodes >= 2));
    assert!(reason("in a partition of fewer than 2 operators") > 0, "{:?}", cut.left_out);
    predicted(&device, &stages, Strategy::DelegateNpu).unwrap();
}
