use proptest::prelude::*;

use super::*;
use crate::device::{Profile, Quantity};
use crate::workload::{
    Conv2d, DepthwiseConv2d, Elementwise, Function, Generic, GenericKind, Interpolation, Linear, Linked,
    MatMul, Norm, NormKind, Operator, Pool, PoolKind, Reshape, Resize, Shape, Stage, Window, fuse, network,
};

fn compiled() -> CompiledGraphs {
    Profile::load("snapdragon-8gen3").unwrap().npu.unwrap().compiled.unwrap()
}

fn layer(operator: impl Into<Operator>) -> Layer {
    Layer::new(operator.into(), DataType::F16)
}

fn linear(rows: u32, input_features: u32, output_features: u32) -> Linear {
    Linear { rows, input_features, output_features, bias: true }
}

fn conv(side: u32, channels: u32, kernel: u32) -> Layer {
    layer(Conv2d::new(Shape::image(side, side, channels), channels, Window::same(kernel)))
}

/// A chain of layers.
fn chain(layers: &[Layer]) -> Vec<Member<'_>> {
    let reads =
        |index: usize| index.checked_sub(1).map(|read| (0, Producer::Member(read))).into_iter().collect();
    layers.iter().enumerate().map(|(i, layer)| Member { layer, reads: reads(i), input_count: 1 }).collect()
}

fn steps(layers: &[Layer]) -> Vec<Execution<Step>> {
    let compiled = compiled();
    Graph::new(&chain(layers), compiled.on_chip_bytes.value).unwrap().execute(&compiled).unwrap()
}

fn alone(layer: Layer) -> Execution<Step> {
    steps(&[layer]).swap_remove(0)
}

fn stages(name: &str, data_type: DataType) -> Vec<Stage> {
    let mut stages = fuse(&network(name).unwrap());
    for stage in &mut stages {
        stage.layer.data_type = data_type;
    }
    stages
}

#[test]
fn windows_of_a_convolution_are_read_on_chip() {
    // 3x3 on 56x56x64: the window matrix would be 4.09 MB.
    let step = alone(conv(56, 64, 3));
    let tensors = 2 * 56 * 56 * 64;
    let weights = 2 * 9 * 64 * 64;
    assert_eq!(step.detail.weights, Bytes(weights));
    assert!(step.phases.bytes().0 <= weights + tensors, "{:?}", step.phases);
}

#[test]
fn products_are_padded_to_tiles_of_32() {
    let micros = |rows| alone(layer(linear(rows, 1024, 1024))).detail.compute;
    assert!(micros(33) > micros(32));
    // Between multiples of 32 only operand traffic grows: stored tensors are not padded
    // along their rows.
    assert!((micros(64) - micros(33)).as_micros() < 0.2 * micros(33).as_micros());
    let conv = |side| alone(conv(side, 128, 3)).detail.compute.as_micros();
    assert!(conv(17) / conv(16) > 1.5, "three tiles of 8 rows for two");
}

#[test]
fn a_result_that_fits_on_chip_causes_no_traffic_and_a_larger_one_spills() {
    let spilled = |side| {
        let steps = steps(&[conv(side, 64, 3), conv(side, 64, 3), conv(side, 64, 3)]);
        [0, 1, 2].map(|step| steps[step].detail.spilled.0 as f64)
    };
    assert!(spilled(56)[1..].iter().all(|&bytes| bytes < 1.0));
    let beyond = 2.0 * f64::from(512 * 512 * 64) - compiled().on_chip_bytes.value;
    let tiled = spilled(512)[1] / (2.0 * compiled().spill_factor.value * beyond);
    assert!((tiled - 1.0).abs() < 0.01, "its input and its result, less what tiling avoids: {tiled}");
    let [entering, _, leaving] = spilled(512).map(|bytes| bytes / beyond);
    assert!(
        entering >= 1.0 && leaving >= 1.0,
        "nothing avoids that a graph reads and writes: {entering} {leaving}"
    );
}

#[test]
fn weights_are_fetched_while_earlier_operators_run_as_far_as_there_is_place() {
    let compiled = compiled();
    let most_us = compiled.fetched_ahead_bytes.value / compiled.bandwidth_gbps.value / 1e3;
    for (channels, fits) in [(256, true), (1024, false)] {
        let after = |first| steps(&[first, conv(7, channels, 3)])[1].phases.duration().as_micros();
        let gained_us = after(conv(1, 32, 1)) - after(conv(56, 256, 3));
        assert!(gained_us > 5.0 && gained_us < 1.001 * most_us, "{gained_us} of {most_us}");
        assert_eq!(gained_us < 0.95 * most_us, fits, "{gained_us} of {most_us}");
    }
}

#[test]
fn weights_that_are_fetched_ahead_move_while_the_earlier_operator_runs() {
    let steps = steps(&[conv(56, 256, 3), conv(7, 256, 3)]);
    let own = |step: &Execution<Step>| (step.detail.weights + step.detail.spilled).0;
    assert_eq!(steps[1].phases.bytes(), Bytes::ZERO);
    assert_eq!(steps[0].phases.bytes().0, own(&steps[0]) + own(&steps[1]));
    let phases = steps[0].phases.as_slice();
    let [graph_us, rate] = [compiled().graph_us.value, 1e3 * compiled().bandwidth_gbps.value];
    assert_eq!((phases[0].duration, phases[0].bytes), (Picos::from_micros(graph_us), Bytes::ZERO));
    let micros: f64 = phases[1..].iter().map(|phase| phase.duration.as_micros()).sum();
    let expected = (own(&steps[0]) + own(&steps[1])) as f64 / micros;
    for phase in &phases[1..] {
        let moved = phase.bytes.0 as f64 / phase.duration.as_micros();
        assert!((moved / expected - 1.0).abs() < 1e-3 && moved < rate, "{moved} of {rate} B/us in {phase:?}");
    }
}

proptest! {
    #[test]
    fn faster_memory_never_makes_a_graph_slower_and_is_ahead_by_no_more_than_the_bound(
        sides in prop::collection::vec((1_u32..60, 1_u32..1500, 0_u32..4), 2..12),
        faster in 1.0_f64..8.0, one_row in prop::bool::ANY, place in 16.0_f64..24.0,
    ) {
        let of = |&(side, channels, kind): &(u32, u32, u32)| match kind {
            0 => layer(linear(1, channels, 1000)),
            1 => layer(linear(side, channels, 1000)),
            _ => conv(side, channels, 2 * kind - 3),
        };
        let layers: Vec<Layer> = sides.iter().map(of).collect();
        let micros = |[by_tile, by_row]: [f64; 2]| {
            let mut compiled = compiled();
            compiled.bandwidth_gbps.value *= by_tile;
            compiled.one_row_bandwidth_gbps.value *= by_row;
            compiled.fetched_ahead_bytes = Quantity::of(place.exp2(), "a test");
            let graph = Graph::new(&chain(&layers), compiled.on_chip_bytes.value).unwrap();
            let most = most_ahead(&[(graph.clone(), chain(&layers))], &compiled).unwrap();
            for (cost, most) in graph.costs(&compiled, &graph.spills).unwrap().iter().zip(&most[0]) {
                let ahead = Picos::from_micros(cost.ahead_us);
                assert!(ahead <= most.in_graphs_with.min(most.in_any) + Picos(1), "{cost:?} {most:?}");
            }
            graph.micros(&compiled).unwrap()
        };
        let [now, then] = [[1.0, 1.0], if one_row { [1.0, faster] } else { [faster, 1.0] }].map(micros);
        prop_assert!(then <= now * (1.0 + 1e-12), "{then} us after {now} us");
    }
}

#[test]
fn a_graph_is_dispatched_once() {
    let layers = [conv(28, 128, 3), conv(28, 128, 3)];
    let micros = |steps: &[Execution<Step>]| -> f64 {
        steps.iter().map(|step| step.phases.duration().as_micros()).sum()
    };
    let [whole, part] = [micros(&steps(&layers)), micros(&steps(&layers[..1]))];
    assert!(2.0 * part - whole >= 0.95 * compiled().graph_us.value, "{whole} of {part} each");
}

#[test]
fn every_kind_of_work_has_its_kernel() {
    let image = Shape::image(28, 28, 96);
    let gelu = Layer { linked: Linked::from_iter([Function::Gelu]), ..layer(linear(196, 384, 1536)) };
    for (layer, kernel, operators) in [
        (conv(28, 96, 3), Kernel::Product, 1),
        (layer(DepthwiseConv2d::new(image, Window::same(3))), Kernel::Window, 1),
        (layer(MatMul { images: 1, batch: 12, m: 197, k: 64, n: 197 }), Kernel::BatchedProduct, 1),
        (layer(Norm { kind: NormKind::Layer, input: Shape::tokens(197, 768) }), Kernel::Normalisation, 1),
        (gelu, Kernel::Product, 2),
        (
            layer(Reshape { input: Shape::tokens(197, 768), output: Shape::image(197, 12, 64) }),
            Kernel::Movement,
            1,
        ),
        (
            layer(Reshape { input: Shape::image(14, 14, 768), output: Shape::tokens(196, 768) }),
            Kernel::Free,
            0,
        ),
    ] {
        let step = alone(layer);
        assert_eq!((step.detail.kernel, step.detail.operators), (kernel, operators), "{step:?}");
    }
}

#[test]
fn the_images_of_a_batch_are_resized_one_by_one() {
    let resized = |images: u32| {
        let input = Shape::image(128, 128, 128).images(images);
        let resize = Resize { input, height: 256, width: 256, interpolation: Interpolation::Bilinear };
        let graph = Graph::new(&chain(&[layer(resize)]), 1e9).unwrap();
        graph.micros(&compiled()).unwrap()
    };
    assert!(resized(4) < 4.0 * resized(1));
}

#[test]
fn a_large_average_in_floats_is_known_over_the_whole_image_only() {
    let average = |side, kernel| {
        let window = Window { kernel: [kernel; 2], stride: [kernel; 2], ..Window::same(1) };
        layer(Pool { kind: PoolKind::Average, input: Shape::image(side, side, 32), window })
    };
    let whole = alone(average(64, 64));
    assert_eq!(whole.detail.kernel, Kernel::Elementwise);
    assert!(Graph::new(&chain(&[average(64, 32)]), 8e6).is_err());
}

#[test]
fn maxima_over_channels_are_faster_in_integers_where_the_profile_states_it() {
    let detector = Generic {
        kind: GenericKind::Reduction,
        inputs: vec![Shape::tokens(8400, 80)],
        output: Shape::tokens(8400, 1),
        passes: 1,
    };
    let maximum = |data_type| Layer { data_type, ..layer(detector.clone()) };
    let graph = |data_type| Graph::new(&chain(&[maximum(data_type)]), 8e6).unwrap();
    let micros = |data_type, rates: &CompiledGraphs| graph(data_type).micros(rates).unwrap();
    let mut rates = compiled();
    let [floats, integers] = [DataType::F16, DataType::I8].map(|data_type| micros(data_type, &rates));
    let factor = &mut rates.integer.as_mut().unwrap().channel_reduction_rate_factor;
    assert!(factor.take().unwrap().value > 3.0);
    assert!(integers < 0.75 * floats && micros(DataType::I8, &rates) > 1.2 * integers);
}

#[test]
fn a_picture_is_normalised_by_two_functions_and_not_by_one_or_three() {
    let picture = Shape::image(224, 224, 3);
    let micros = |more: &[Function]| {
        let scale =
            Elementwise { function: Function::Multiply, input: picture, other: Some(Shape::image(1, 1, 3)) };
        let layer = Layer { linked: more.iter().copied().collect(), ..layer(scale) };
        // It reads an input of the network, which has no producer, and a constant for each function.
        let member = Member { layer: &layer, reads: Vec::new(), input_count: 2 + more.len() };
        let compiled = compiled();
        Graph::new(&[member], compiled.on_chip_bytes.value).unwrap().micros(&compiled).unwrap()
    };
    let normalising = 2.0 * f64::from(224 * 224) * compiled().normalised_pixel_ns.value / 1e3;
    let [one, two, three] = [&[][..], &[Function::Add], &[Function::Add, Function::Multiply]].map(micros);
    assert!(one < compiled().graph_us.value + 0.3 * normalising, "{one}");
    assert!(two - one > 0.9 * normalising && three - two < 0.1 * normalising, "{one}, {two}, {three}");
}

#[test]
fn a_clamp_after_a_product_is_free_and_a_gate_is_not() {
    let with = |function: Option<Function>| {
        alone(Layer { linked: function.into_iter().collect(), ..conv(28, 128, 1) }).phases.duration()
    };
    assert_eq!(with(None), with(Some(Function::Relu)));
    assert!(with(Some(Function::Silu)) > with(Some(Function::Add)));
    assert!(with(Some(Function::Add)) > with(None));
}

#[test]
fn times_of_whole_networks_agree_with_the_python_prototype() {
    // The prototype has the same constants and the same fetching ahead, without the input image's
    // normalisation.
    for (name, data_type, expected_us) in
        [("resnet50", DataType::F16, 1_328.1), ("resnet50", DataType::I8, 558.1)]
    {
        let compiled = compiled();
        let graph = Graph::of_stages(&stages(name, data_type), compiled.on_chip_bytes.value).unwrap();
        let micros = graph.micros(&compiled).unwrap();
        assert!((micros / expected_us - 1.0).abs() < 0.005, "{name} in {data_type}: {micros} us");
    }
}

#[test]
fn members_of_a_graph_have_the_rates_and_bytes_of_their_formats() {
    let in_integers = |layer: Layer| Layer { data_type: DataType::I8, ..layer };
    let pair = |first: Layer| steps(&[first, conv(28, 128, 3)]);
    let (floats, mixed) = (pair(conv(28, 128, 3)), pair(in_integers(conv(28, 128, 3))));
    let both = steps(&[in_integers(conv(28, 128, 3)), in_integers(conv(28, 128, 3))]);
    // When they are moved depends on the other member.
    let own = |step: &Execution<Step>| (step.phases.duration(), step.detail);
    assert_eq!([own(&mixed[0]), own(&mixed[1])], [own(&both[0]), own(&floats[1])]);
    // A spilled tensor is in the format of the member that wrote it.
    let spilled = |first: Layer| steps(&[first, conv(512, 64, 3)])[0].detail.spilled.0;
    assert!(2 * spilled(in_integers(conv(512, 64, 3))) < spilled(conv(512, 64, 3)));
}

#[test]
fn a_format_without_rates_is_an_error_that_names_the_table() {
    let graph = Graph::of_stages(&stages("resnet18", DataType::I8), 8e6).unwrap();
    let without = CompiledGraphs { integer: None, ..compiled() };
    let error = graph.micros(&without).unwrap_err().to_string();
    assert!(error.contains("[npu.compiled.integer]"), "{error}");
}

proptest! {
    #[test]
    fn the_steps_of_a_graph_add_up_and_no_unit_is_faster_than_its_rates(
        sides in prop::collection::vec((1_u32..200, 1_u32..300, 1_u32..4), 1..12)
    ) {
        let layers: Vec<Layer> =
            sides.iter().map(|&(side, channels, kernel)| conv(side, channels, 2 * kernel - 1)).collect();
        let compiled = compiled();
        let graph = Graph::new(&chain(&layers), compiled.on_chip_bytes.value).unwrap();
        let steps = graph.execute(&compiled).unwrap();
        let sum: f64 = steps.iter().map(|step| step.phases.duration().as_micros()).sum();
        let micros = graph.micros(&compiled).unwrap();
        prop_assert!((sum / micros - 1.0).abs() < 1e-6, "{sum} of {micros}");
        let weights: u64 = layers.iter().map(|layer| 2 * layer.operator.weights()[0]).sum();
        let moved: u64 = steps.iter().map(|step| step.detail.weights.0).sum();
        prop_assert_eq!(weights, moved);
        let own: u64 = moved + steps.iter().map(|step| step.detail.spilled.0).sum::<u64>();
        prop_assert_eq!(own, steps.iter().map(|step| step.phases.bytes().0).sum::<u64>());
        for phase in steps.iter().flat_map(|step| step.phases.as_slice()) {
            let most = 1e3 * compiled.bandwidth_gbps.value * phase.duration.as_micros();
            prop_assert!(phase.bytes.0 as f64 <= most + 2.0, "{phase:?} moves more than {most} bytes");
        }
        let busy = steps.iter().map(|step| step.detail.compute.as_micros()).sum::<f64>();
        prop_assert!(micros >= busy.max(moved as f64 / 1e3 / compiled.bandwidth_gbps.value));
    }
}
