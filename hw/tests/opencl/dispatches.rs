//! Layers launched by the simulator's dispatch rules of each GPU family.

use coexec_hw::opencl::Dispatch;
use coexec_sim::device::gpu::{Gpu, GpuFamily};
use coexec_sim::kernel::gpu::{Kernel, execute};
use coexec_sim::plan::{Region, Span};
use coexec_sim::workload::{
    Conv2d, DataType, DepthwiseConv2d, Layer, Layout, Linear, MatMul, Mean, Operator, Padding, Pool,
    PoolKind, Shape, Window,
};

use super::{check, runtime};

const FAMILIES: [GpuFamily; 7] = [
    GpuFamily::Adreno6xx,
    GpuFamily::MaliBifrost3,
    GpuFamily::PowerVr,
    GpuFamily::AppleBionic,
    GpuFamily::Nvidia,
    GpuFamily::Amd,
    GpuFamily::Generic,
];

/// A GPU with the rules of `family`. Its times are another phone's, on which the dispatch does not
/// depend.
fn gpu(family: GpuFamily) -> Gpu {
    let text = include_str!("../../../sim/tests/golden/gpu_pixel4.toml");
    Gpu { family, compute_units: 2, max_work_group_size: 256, ..coexec_sim::input::from_toml(text).unwrap() }
}

fn convolution(input: Shape, output_channels: u32, kernel: u32) -> Operator {
    let padding = Padding::symmetric(kernel / 2, kernel / 2);
    Operator::Conv2d(Conv2d::new(input, output_channels, Window::valid(kernel).padding(padding)))
}

fn operators() -> Vec<Operator> {
    let depthwise = DepthwiseConv2d::new(Shape::image(17, 15, 22), Window::same(3));
    let pool =
        Pool { kind: PoolKind::Max, input: Shape::image(15, 15, 20), window: Window::valid(3).stride(2) };
    vec![
        convolution(Shape::image(24, 24, 64), 64, 3),
        convolution(Shape::image(28, 28, 24), 72, 1),
        convolution(Shape::image(9, 7, 16), 20, 5),
        convolution(Shape::image(12, 12, 3), 8, 3),
        Operator::Linear(Linear { rows: 50, input_features: 48, output_features: 100, bias: true }),
        Operator::Linear(Linear { rows: 1, input_features: 250, output_features: 130, bias: true }),
        Operator::MatMul(MatMul { images: 1, batch: 3, m: 20, k: 16, n: 24 }),
        Operator::DepthwiseConv2d(depthwise),
        Operator::DepthwiseConv2d(DepthwiseConv2d {
            window: Window { stride: [2; 2], ..depthwise.window },
            ..depthwise
        }),
        Operator::Pool(pool),
        Operator::Mean(Mean { input: Shape::image(14, 14, 40) }),
    ]
}

/// The dispatch that the rules of `gpu` choose for `layer`.
fn chosen(layer: &Layer, gpu: &Gpu) -> Dispatch {
    Dispatch::from(&execute(layer, gpu).unwrap().detail)
}

#[test]
fn the_launch_of_every_family_computes_what_the_reference_does() {
    let Some(runtime) = runtime() else { return };
    for family in FAMILIES {
        let gpu = gpu(family);
        for operator in operators() {
            let layer = Layer::new(operator, DataType::F32);
            let dispatch = chosen(&layer, &gpu);
            let part = Region::of(layer.operator.output());
            let layouts = [gpu.layout(), Layout::Buffer];
            let timing = check::<f32>(&runtime, &layer, part, layouts[0], dispatch);
            check::<f32>(&runtime, &layer, part, layouts[1], dispatch);
            let kernels = match dispatch.kernel {
                Kernel::Winograd => 3,
                Kernel::MatMul => 2,
                _ => 1,
            };
            assert_eq!(timing.kernels.len(), kernels, "{}", layer.operator);
            assert!(timing.device <= timing.wall, "{timing:?}");
        }
    }
}

#[test]
fn the_families_differ_in_tile_and_joined_axes() {
    let layer = Layer::new(convolution(Shape::image(28, 28, 24), 72, 1), DataType::F32);
    let dispatches = FAMILIES.map(|family| chosen(&layer, &gpu(family)));
    assert_eq!(dispatches[0].tile, [2, 2, 2]);
    assert_eq!(dispatches[2].work_group, [32, 1, 1]);
    let axes: Vec<_> = dispatches.iter().map(|dispatch| dispatch.linearisation as u32).collect();
    assert_eq!(axes[2], 1, "PowerVR joins columns and rows");
    assert_eq!(axes[0], 0, "Adreno joins none");
}

#[test]
fn a_part_is_launched_as_the_layer_that_computes_only_it() {
    let Some(runtime) = runtime() else { return };
    let gpu = gpu(GpuFamily::Adreno6xx);
    let layer = Layer::new(convolution(Shape::image(14, 14, 32), 96, 3), DataType::F32);
    let dispatch = chosen(&layer.with_output_channels(36), &gpu);
    assert_eq!(
        dispatch.work_group[2],
        execute(&layer.with_output_channels(36), &gpu).unwrap().detail.work_group[2]
    );
    let part = Region { channels: Span::new(60, 96), ..Region::of(layer.operator.output()) };
    check::<f32>(&runtime, &layer, part, Layout::Buffer, dispatch);
}
