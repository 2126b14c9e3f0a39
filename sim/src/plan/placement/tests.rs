use super::*;
use crate::device::Profile;
use crate::workload::{Linear, Softmax};

fn cores(text: &str) -> Processor {
    Processor::Cpu(CoreSet::parse(text, &Profile::load("pixel4").unwrap().cpu).unwrap())
}

fn product() -> Operator {
    Operator::Linear(Linear { rows: 300, input_features: 8, output_features: 96, bias: false })
}

#[test]
fn adjacent_parts_have_an_axis_and_cover_the_output_once() {
    let thirds = [(cores("1large"), 32), (Processor::Gpu, 48), (Processor::NPU, 16)];
    let placement = Placement::cut(Axis::Channels, thirds);
    assert_eq!(placement.check(&product()), Ok(()));
    assert_eq!((placement.axis(), placement.only()), (Some(Axis::Channels), None));
    assert_eq!(placement.extent(Axis::Channels, ProcessorKind::Gpu), 48);
    assert_eq!(placement.cpu_and_gpu_extents(), None, "the NPU takes part");
    let shares = ProcessorKind::ALL.map(|kind| placement.fraction(kind));
    assert!(
        shares.iter().zip([1.0 / 3.0, 0.5, 1.0 / 6.0]).all(|(found, share)| (found - share).abs() < 1e-12)
    );
    assert_eq!(placement.parts().map(|part| part.by).collect::<Vec<_>>(), thirds.map(|(by, _)| by));
}

#[test]
fn a_corner_of_the_npu_leaves_the_gpu_an_l_of_two_boxes() {
    let hybrid = Placement::npu_and_gpu([256, 44], [64, 32], GraphCover::Padded);
    assert_eq!(hybrid.check(&product()), Ok(()));
    assert_eq!((hybrid.parts().count(), hybrid.axis()), (3, None));
    let gpu = (256.0 * 32.0 + 44.0 * 96.0) / (300.0 * 96.0);
    assert!((hybrid.fraction(ProcessorKind::Gpu) - gpu).abs() < 1e-12);
    // If the GPU has no rows or no channels to itself, the placement is cut along one axis or not at
    // all.
    let axes = [([300, 0], [64, 32]), ([256, 44], [96, 0]), ([300, 0], [96, 0])]
        .map(|(rows, channels)| Placement::npu_and_gpu(rows, channels, GraphCover::Padded).axis());
    assert_eq!(axes, [Some(Axis::Channels), Some(Axis::Height), None]);
}

#[test]
fn parts_that_overlap_or_do_not_cover_the_output_are_refused() {
    let error = |placement: Placement, operator: &Operator| placement.check(operator).unwrap_err();
    let channels = |cpu, gpu| Placement::cut(Axis::Channels, [(cores("1large"), cpu), (Processor::Gpu, gpu)]);
    for placement in [channels(32, 63), channels(32, 65)] {
        assert!(matches!(error(placement, &product()), PlacementError::Uncovered { .. }));
    }
    let twice = Part { by: Processor::Gpu, region: Region::along(Axis::Channels, Span::new(0, 48)) };
    let overlapping = Placement::of(&[twice, twice]).unwrap();
    assert!(matches!(error(overlapping, &product()), PlacementError::Uncovered { .. }));
    let beyond = channels(96, 4);
    assert!(matches!(error(beyond, &product()), PlacementError::Empty { processor: ProcessorKind::Gpu, .. }));
    let softmax = Operator::Softmax(Softmax { input: product().output() });
    assert!(matches!(error(channels(32, 64), &softmax), PlacementError::CannotCut { .. }));
}

#[test]
fn an_operator_has_four_parts_and_one_core_set_at_most() {
    let part = |by, start, end| Part { by, region: Region::along(Axis::Channels, Span::new(start, end)) };
    let two_sets = [part(cores("1large"), 0, 48), part(cores("2med"), 48, 96)];
    assert!(matches!(Placement::of(&two_sets), Err(PlacementError::TwoCoreSets { .. })));
    let five = [0, 1, 2, 3, 4].map(|at| part(Processor::Gpu, at, at + 1));
    assert_eq!(Placement::of(&five), Err(PlacementError::TooManyParts { found: 5 }));
}
