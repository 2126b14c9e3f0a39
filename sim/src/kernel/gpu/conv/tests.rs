use super::*;
use crate::device::GpuFamily;
use crate::kernel::gpu::{execute, latency};
use crate::workload::{Linear, MatMul, Operator, Shape, Window};

fn gpu() -> Gpu {
    crate::input::from_toml(include_str!("../../../../tests/golden/gpu_pixel4.toml")).unwrap()
}

fn micros(gpu: &Gpu, output_features: u32) -> f64 {
    let linear = Linear { rows: 4, input_features: 512, output_features, bias: true };
    let layer = Layer::new(Operator::Linear(linear), DataType::F32);
    execute(&layer, gpu).unwrap().phases.duration().as_micros()
}

#[test]
fn a_tile_never_spans_two_images() {
    let gpu = gpu();
    let grid = |batch| {
        let conv = Conv2d::new(Shape { batch, ..Shape::image(7, 7, 64) }, 512, Window::valid(1));
        execute(&Layer::new(conv.into(), DataType::F32), &gpu).unwrap().detail
    };
    let (one, three) = (grid(1), grid(3));
    assert_eq!((one.tile, one.tile[0] > 1), (three.tile, true));
    assert_eq!(three.grid[0], 3 * one.grid[0], "not the tiles of 21 columns");
}

#[test]
fn products_of_several_images_take_two_more_launches_except_in_language_model_engines() {
    let gpu = gpu();
    let of = |[images, batch]: [u32; 2], k, data_type| {
        let product = MatMul { images, batch, m: 48, k, n: 64 };
        execute(&Layer::new(product.into(), data_type), &gpu).unwrap()
    };
    let micros = |images, k| of(images, k, DataType::F32).phases.duration().as_micros();
    let launch = gpu.elementwise.launch_us.value;
    let reshapes = micros([12, 1], 32) - micros([1, 12], 32);
    assert!(reshapes > 2.0 * launch && reshapes < 4.0 * launch, "{reshapes} of {launch} each");
    let channel_by_channel = micros([12, 1], 30) - micros([1, 12], 30);
    assert!(channel_by_channel > reshapes, "{channel_by_channel} {reshapes}");
    let [one, twelve] = [[1, 12], [12, 1]].map(|images| of(images, 32, DataType::F32));
    assert_eq!((twelve.detail.grid, twelve.detail.tile), (one.detail.grid, one.detail.tile));
    // Input and output of both reshapes, of 12 x 48 pixels with 8 and 16 slices, in 16 bits.
    let moved = twelve.phases.bytes().0 - one.phases.bytes().0;
    assert_eq!(moved, 12 * 48 * (2 * 8 + 2 * 16) * SLICE_BYTES);
    let [one, twelve] = [[1, 12], [12, 1]].map(|images| of(images, 32, DataType::W4A16).phases);
    assert_eq!(one.duration(), twelve.duration());
}

#[test]
fn a_product_of_activations_counts_the_launches_and_bytes_around_it() {
    let product = |images| MatMul { images, batch: 12 / images, m: 48, k: 32, n: 64 };
    let [one, twelve] =
        [1, 12].map(|images| execute(&Layer::new(product(images).into(), DataType::F32), &gpu()).unwrap());
    assert_eq!((one.detail.launches, twelve.detail.launches), (2, 4));
    // Tensors and result in 16 bits, and the right operand again, read and written by the converter.
    let bytes = |elements: u64| 2 * 12 * elements;
    let moved = bytes(48 * 32 + 32 * 64 + 48 * 64) + 2 * bytes(32 * 64);
    assert_eq!(one.phases.bytes().0, moved);
}

#[test]
fn a_transposed_convolution_runs_on_the_generic_kernel() {
    let kernel =
        |conv: Conv2d| execute(&Layer::new(conv.into(), DataType::F32), &gpu()).unwrap().detail.kernel;
    let wide = Conv2d::new(Shape::image(64, 64, 128), 128, Window::same(3));
    let narrow = Conv2d::new(Shape::image(64, 64, 8), 8, Window::same(3));
    assert_eq!([wide, narrow].map(kernel), [Kernel::Winograd, Kernel::ConvConstants]);
    assert_eq!([wide, narrow].map(|conv| kernel(conv.phases(4))), [Kernel::ConvGeneric; 2]);
}

#[test]
fn each_group_has_whole_slices_of_weights() {
    let conv = Conv2d::new(Shape::image(14, 14, 64), 64, Window::same(3));
    assert_eq!([1, 16, 32].map(|groups| weight_blocks(&conv.groups(groups))), [9 * 256, 9 * 16, 9 * 32]);
}

#[test]
fn a_layer_that_exceeds_the_cache_has_a_longer_read_latency() {
    let near = gpu();
    let mut far = near.clone();
    // 512 x 512 weights of two bytes.
    far.conv_generic.cache_bytes = Some(Quantity::plain(524_288.0));
    far.conv_generic.spill_latency_factor = Some(Quantity::plain(0.7));
    assert!((micros(&far, 256) - micros(&near, 256)).abs() < f64::EPSILON, "half of it is kept");
    assert!(micros(&far, 1_024) > 1.2 * micros(&near, 1_024));
}

#[test]
fn an_8_bit_model_is_computed_in_floats_and_requantised_after_each_operator() {
    let gpu = gpu();
    for rows in [1, 64] {
        let linear = Linear { rows, input_features: 512, output_features: 512, bias: true };
        let of = |data_type| execute(&Layer::new(linear.into(), data_type), &gpu).unwrap().phases;
        let [float, fixed, dynamic] = [DataType::F32, DataType::I8, DataType::I8Dynamic].map(of);
        assert_eq!([fixed.bytes(), dynamic.bytes()], [float.bytes(); 2], "weights are floats");
        assert_eq!(dynamic.duration(), float.duration());
        assert!(fixed.duration() > float.duration(), "{rows}");
    }
}

#[test]
fn waking_each_further_core_of_a_cpu_device_takes_time() {
    let cores = Gpu { family: GpuFamily::Generic, compute_units: 8, simd_width: 1, ..gpu() };
    let mut asleep = cores.clone();
    asleep.conv_generic.unit_us = Some(Quantity::plain(2.0));
    let waking = |features| micros(&asleep, features) - micros(&cores, features);
    // Each group covers up to 16 blocks of four slices: one group, then four, then many.
    assert!(waking(256).abs() < 1e-9);
    assert!((waking(1_024) - 3.0 * 2.0).abs() < 1e-9, "{}", waking(1_024));
    assert!((waking(8_192) - 7.0 * 2.0).abs() < 1e-9);
}

#[test]
fn unrolling_grouped_convolutions_by_group_slices_matters_little_on_measured_phones() {
    // From ResNeXt-50, RegNet and ShuffleNet: side, channels, groups, kernel.
    let convs = [
        (56, 128, 32, 3),
        (28, 256, 32, 3),
        (28, 128, 8, 3),
        (14, 320, 20, 3),
        (28, 240, 3, 1),
        (28, 272, 4, 1),
    ];
    let most = |name: &str| {
        let gpu = crate::device::profile::Profile::load(name).unwrap().gpu.unwrap();
        let changes = convs.map(|(side, channels, groups, kernel)| {
            let window = if kernel == 1 { Window::valid(1) } else { Window::same(kernel) };
            let whole = Conv2d::new(Shape::image(side, side, channels), channels, window);
            let conv = Conv2d { groups, ..whole };
            let layer = Layer::new(conv.into(), DataType::F32);
            let micros = |source_slices: Option<u32>| {
                let problem = of_convolution(&conv, &layer, &gpu);
                let source_slices = source_slices.unwrap_or(problem.task.source_slices);
                let problem = Problem { task: TileTask { source_slices, ..problem.task }, ..problem };
                let table = gpu.grouped_conv.as_ref().unwrap_or(&gpu.conv_generic);
                let Modelled { dispatch, cost } = problem.model(table, &gpu);
                latency::execution(&dispatch, &cost, 0, &gpu).phases.duration().as_micros()
            };
            (micros(Some(slices(channels / groups))) / micros(None) - 1.0).abs()
        });
        changes.into_iter().fold(0.0, f64::max)
    };
    assert!((0.15..0.16).contains(&most("galaxy-a03s")));
    for name in ["pixel4", "pixel5", "galaxy-s10", "mi8se", "iphone7", "iphone-xs"] {
        assert!(most(name) < 0.04, "{name}");
    }
}
