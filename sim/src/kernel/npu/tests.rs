//! The NPU model against a second implementation of its equations.

mod published;

use serde::Deserialize;

use super::*;
use crate::device::npu::Integer;
use crate::device::npu::Order::{WeightsStationary, WeightsStream};
use crate::device::{Basis, Checker, Memory, Npu, Power, Sync};
use crate::workload::{Conv2d, DataType, Function, Linear, MatMul, Operator, Shape, Softmax, Window};

/// Largest relative difference from the second implementation.
const TOLERANCE: f64 = 1e-3;

/// Outputs, inputs, tokens, order and microseconds of the second implementation, with a graph
/// for every row count (`HeteroInfer`'s constants, Snapdragon 8 Gen 3).
const PREFILL: [(u32, u32, u32, Order, f64); 46] = [
    (4096, 4096, 32, WeightsStream, 851.968),
    (4096, 4096, 128, WeightsStream, 940.912),
    (4096, 4096, 256, WeightsStream, 1_881.825),
    (4096, 4096, 1024, WeightsStream, 7_527.298),
    (28_672, 4096, 32, WeightsStream, 5_924.454),
    (28_672, 4096, 128, WeightsStream, 6_459.733),
    (28_672, 4096, 256, WeightsStream, 12_919.467),
    (28_672, 4096, 1024, WeightsStream, 51_677.867),
    (4096, 14_336, 32, WeightsStream, 2_965.504),
    (4096, 14_336, 128, WeightsStream, 11_862.016),
    (4096, 14_336, 256, WeightsStream, 23_724.032),
    (4096, 14_336, 1024, WeightsStream, 94_896.128),
    (14_336, 4096, 32, WeightsStream, 2_965.504),
    (14_336, 4096, 128, WeightsStream, 3_240.421),
    (14_336, 4096, 256, WeightsStream, 6_480.842),
    (14_336, 4096, 1024, WeightsStream, 25_923.368),
    (2048, 8192, 32, WeightsStream, 855.245),
    (2048, 8192, 128, WeightsStream, 962.021),
    (2048, 8192, 256, WeightsStream, 6_841.958),
    (2048, 8192, 1024, WeightsStream, 27_367.834),
    (8192, 2048, 32, WeightsStream, 855.245),
    (8192, 2048, 128, WeightsStream, 930.358),
    (8192, 2048, 256, WeightsStream, 1_860.716),
    (8192, 2048, 1024, WeightsStream, 7_442.863),
    (3072, 8192, 32, WeightsStream, 1_276.314),
    (3072, 8192, 128, WeightsStream, 1_421.923),
    (3072, 8192, 256, WeightsStream, 10_210.509),
    (3072, 8192, 1024, WeightsStream, 40_842.035),
    (1024, 4096, 32, WeightsStream, 217.907),
    (1024, 4096, 128, WeightsStream, 251.060),
    (1024, 4096, 256, WeightsStream, 502.119),
    (1024, 4096, 1024, WeightsStream, 2_008.477),
    (4096, 4096, 193, WeightsStream, 1_646.596),
    (4096, 14_336, 384, WeightsStream, 35_586.048),
    (4096, 14_336, 257, WeightsStream, 26_689.536),
    (100, 77, 33, WeightsStream, 1.331),
    (1000, 2048, 197, WeightsStream, 219.677),
    (4096, 2048, 1500, WeightsStream, 20_175.258),
    (14_336, 4096, 32, WeightsStationary, 5_894.963),
    (14_336, 4096, 64, WeightsStationary, 8_853.914),
    (14_336, 4096, 128, WeightsStationary, 14_771.814),
    (14_336, 4096, 256, WeightsStationary, 26_607.616),
    (14_336, 4096, 512, WeightsStationary, 50_279.219),
    (14_336, 4096, 1024, WeightsStationary, 97_622.426),
    (768, 768, 50, WeightsStationary, 39.916),
    (3072, 768, 50, WeightsStationary, 363.725),
];

/// Outputs, inputs and microseconds of the second implementation for one token.
const DECODE: [(u32, u32, f64); 6] = [
    (4096, 4096, 693.272),
    (28_672, 4096, 3_886.905),
    (4096, 14_336, 6_681.333),
    (14_336, 4096, 2_023.952),
    (2048, 8192, 1_225.544),
    (1024, 1024, 194.267),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Profile {
    npu: Npu,
    memory: Memory,
    sync: Sync,
    power: Power,
}

fn profile() -> Profile {
    crate::input::from_toml(include_str!("../../../tests/golden/npu_snapdragon_8gen3.toml")).unwrap()
}

/// The Hexagon of the golden profile.
fn hexagon() -> SystolicArrays {
    profile().npu.systolic.unwrap()
}

/// The Hexagon with a graph for every row count.
fn hexagon_with_all_graphs() -> SystolicArrays {
    SystolicArrays { graph_sizes: Vec::new(), ..hexagon() }
}

fn linear(rows: u32, input_features: u32, output_features: u32) -> Layer {
    let linear = Linear { rows, input_features, output_features, bias: false };
    Layer::new(Operator::Linear(linear), DataType::W4A16)
}

fn conv(groups: u32) -> Layer {
    let conv = Conv2d::new(Shape::image(56, 56, 64), 128, Window::same(3)).groups(groups);
    Layer::new(Operator::Conv2d(conv), DataType::F16)
}

fn micros(layer: &Layer, npu: &SystolicArrays) -> f64 {
    execute(layer, npu).unwrap().phases.duration().as_micros()
}

fn schedule(layer: &Layer, npu: &SystolicArrays) -> Schedule {
    execute(layer, npu).unwrap().detail
}

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < TOLERANCE, "{what}: {found} us, expected {expected} us");
}

#[test]
fn the_golden_profile_is_valid_and_every_table_has_a_source() {
    let profile = profile();
    let mut checker = Checker::default();
    checker.table("npu", |checker| profile.npu.check(checker));
    checker.table("memory", |checker| profile.memory.check(checker));
    checker.table("sync", |checker| checker.values(&profile.sync));
    checker.table("power", |checker| profile.power.check(checker));
    assert_eq!(checker.violations, []);
}

#[test]
fn an_invalid_npu_is_rejected_key_by_key() {
    let mut unit = profile().npu;
    let npu = unit.systolic.as_mut().unwrap();
    npu.array_dimension = 0;
    npu.graph_sizes = vec![64, 32];
    npu.column_block.as_mut().unwrap().most_columns = 1;
    npu.decode.as_mut().unwrap().source.clear();
    let mut checker = Checker::default();
    unit.check(&mut checker);
    let keys: Vec<String> = checker.violations.into_iter().map(|violation| violation.key).collect();
    let expected = ["array_dimension", "decode.source", "graph_sizes", "column_block.most_columns"];
    assert_eq!(keys, expected.map(|key| format!("systolic.{key}")));
    let empty = Npu { systolic: None, ..unit };
    let mut checker = Checker::default();
    empty.check(&mut checker);
    assert_eq!(checker.violations[0].key, "systolic");
}

#[test]
fn prefill_agrees_with_a_second_implementation() {
    let npu = hexagon_with_all_graphs();
    for (outputs, inputs, tokens, order, expected) in PREFILL {
        let found = micros(&linear(tokens, inputs, outputs), &SystolicArrays { order, ..npu.clone() });
        assert_close(found, expected, &format!("{outputs}x{inputs}, {tokens} tokens, {order:?}"));
    }
}

#[test]
fn decode_agrees_with_a_second_implementation() {
    for (outputs, inputs, expected) in DECODE {
        let layer = linear(1, inputs, outputs);
        assert_close(micros(&layer, &hexagon()), expected, &format!("{outputs}x{inputs}"));
        assert_eq!(schedule(&layer, &hexagon()).path, Path::Decode);
    }
}

#[test]
fn a_stationary_operand_that_does_not_fit_makes_the_layer_wait_for_memory() {
    let npu = hexagon();
    let square = schedule(&linear(256, 4096, 4096), &npu);
    assert_eq!((square.panels, square.limit), (1, Limit::Compute));
    assert_eq!((square.padded, square.folds), ([4096, 4096, 256], 128 * 8));
    let down = schedule(&linear(256, 14_336, 4096), &npu);
    assert_eq!((down.panels, down.limit), (256 / 32, Limit::Traffic));
    assert!(down.traffic_time > down.compute);
}

#[test]
fn streaming_the_weights_is_several_times_faster_than_keeping_them() {
    let npu = hexagon();
    let plain = SystolicArrays { order: WeightsStationary, ..npu.clone() };
    for tokens in [128, 256, 512] {
        let layer = linear(tokens, 4096, 14_336);
        let ratio = micros(&layer, &plain) / micros(&layer, &npu);
        assert!((3.5..5.0).contains(&ratio), "{tokens} tokens: {ratio}");
    }
    // HeteroInfer reports 6x (Figure 4), for a token count it does not state.
}

#[test]
fn rows_are_padded_to_the_next_standard_graph() {
    let npu = hexagon();
    let padded = schedule(&linear(300, 4096, 4096), &npu);
    assert_eq!(padded, schedule(&linear(512, 4096, 4096), &npu));
    assert_eq!(padded.padded, [4096, 4096, 512]);
    let exact = schedule(&linear(300, 4096, 4096), &hexagon_with_all_graphs());
    assert_eq!(exact.padded, [4096, 4096, 320], "whole arrays remain");
}

#[test]
fn more_rows_than_the_largest_graph_take_several_graphs() {
    let npu = SystolicArrays { dispatch_us: crate::device::quantity::Quantity::plain(50.0), ..hexagon() };
    let long = execute(&linear(2048 + 20, 4096, 4096), &npu).unwrap();
    assert_eq!((long.detail.graphs, long.detail.padded), (3, [4096, 4096, 2048 + 32]));
    let parts = 2.0 * micros(&linear(1024, 4096, 4096), &npu) + micros(&linear(20, 4096, 4096), &npu);
    assert_close(long.phases.duration().as_micros(), parts, "2068 tokens");
    let launch = long.phases.as_slice()[0];
    assert_eq!((launch.kind, launch.duration), (PhaseKind::Launch, Picos::from_micros(150.0)));
    assert_eq!(launch.bytes, Bytes::ZERO);
}

#[test]
fn every_byte_moves_during_the_folds_at_an_even_rate() {
    let execution = execute(&linear(256, 14_336, 4096), &hexagon()).unwrap();
    let kinds: Vec<PhaseKind> = execution.phases.as_slice().iter().map(|phase| phase.kind).collect();
    assert_eq!(kinds, [PhaseKind::StationaryLoad, PhaseKind::Stream, PhaseKind::Drain]);
    // 8 panels of the weights, the activations and the outputs, 2 bytes each.
    let elements = 8 * 4096 * 14_336 + 14_336 * 256 + 4096 * 256;
    assert_eq!(execution.phases.bytes(), Bytes(2 * elements));
    for phase in execution.phases.as_slice() {
        assert_eq!(u64::from(phase.steps), execution.detail.folds);
        let rate = BytesPerSecond::mean(phase.bytes, phase.duration).as_gigabytes();
        assert_close(rate, 40.0, "copies run ahead of the arrays, at an even rate");
    }
}

#[test]
fn the_parts_of_a_fold_share_its_time_by_their_cycles() {
    // On 32 x 32 arrays, 4096 rows stream after 32 cycles of loading and before 62 of draining.
    let phases = execute(&linear(256, 4096, 4096), &hexagon()).unwrap().phases;
    let total = phases.duration().as_micros();
    for (phase, cycles) in phases.as_slice().iter().zip([32.0, 4096.0, 62.0]) {
        assert_close(phase.duration.as_micros(), total * cycles / 4190.0, &format!("{:?}", phase.kind));
    }
}

#[test]
fn blocks_of_columns_are_whole() {
    // 4096 x 544 does not fit on chip: blocks of 256 columns, the third one padded.
    let npu = hexagon_with_all_graphs();
    let between = schedule(&linear(525, 4096, 4096), &npu);
    assert_eq!((between.padded, between.panels), ([4096, 4096, 768], 3));
    assert_eq!(between, schedule(&linear(768, 4096, 4096), &npu));
    // 14336 x 256 does not fit either: panels as wide as the array, without padding.
    assert_eq!(schedule(&linear(525, 14_336, 4096), &npu).padded, [4096, 14_336, 544]);
}

#[test]
fn splitting_the_outputs_in_half_halves_the_time_of_one_token() {
    // HeteroInfer's solver halves 4096x4096 (Table 3), which is profitable only if half of
    // the outputs take half of the NPU's time.
    let whole = micros(&linear(1, 4096, 4096), &hexagon()) - 161.0;
    let half = micros(&linear(1, 4096, 2048), &hexagon()) - 161.0;
    assert_close(half, whole / 2.0, "half of the outputs");
}

#[test]
fn arrays_process_folds_in_rounds() {
    let npu = SystolicArrays { arrays: Some(4), ..hexagon_with_all_graphs() };
    let folds = |outputs| {
        schedule(&linear(32, 32, outputs), &SystolicArrays { order: WeightsStationary, ..npu.clone() })
    };
    let [full, spill] = [4 * 32, 5 * 32].map(folds);
    assert_eq!((full.folds, spill.folds), (4, 5));
    assert_eq!((full.cycles, spill.cycles), (32 + 94 - 1, 2 * (32 + 94) - 1));
    assert_close(spill.compute.as_micros(), spill.cycles as f64 / (2280.0 / 4.0), "the clock of one");
}

#[test]
fn integer_products_have_their_own_rate_and_element_size() {
    let integer = Integer {
        source: "test".into(),
        basis: Basis::Assumed,
        rate_factor: crate::device::quantity::Quantity::plain(2.0),
        element_bytes: 1,
    };
    let npu = SystolicArrays { integer: Some(integer), ..hexagon() };
    let layer = |data_type| Layer { data_type, ..linear(256, 4096, 4096) };
    let [float, int] = [DataType::F16, DataType::I8].map(|data_type| schedule(&layer(data_type), &npu));
    assert_eq!(int.cycles, float.cycles);
    assert_eq!(float.bytes.0, 2 * int.bytes.0);
    assert_close(float.compute.as_micros(), 2.0 * int.compute.as_micros(), "twice the rate");
}

#[test]
fn a_small_layer_is_bound_by_its_dispatch_in_decode() {
    assert_eq!(schedule(&linear(1, 1024, 1024), &hexagon()).limit, Limit::Dispatch);
    assert_eq!(schedule(&linear(1, 4096, 4096), &hexagon()).limit, Limit::Traffic);
}

#[test]
fn one_row_without_a_decode_path_is_folded() {
    let npu = SystolicArrays { decode: None, ..hexagon() };
    assert_eq!(schedule(&linear(1, 4096, 4096), &npu).path, Path::Prefill);
}

#[test]
fn a_convolution_is_the_product_of_its_unrolled_windows() {
    let npu = SystolicArrays { order: WeightsStationary, ..hexagon_with_all_graphs() };
    assert_eq!(schedule(&conv(1), &hexagon()), schedule(&linear(56 * 56, 9 * 64, 128), &npu));
}

#[test]
fn groups_and_heads_are_folded_in_sequence() {
    let grouped = schedule(&conv(2), &hexagon());
    assert_eq!(grouped.folds, 2 * (9 * 32 / 32) * (64 / 32));
    assert_eq!(grouped.graphs, 1);
    let heads = |batch| {
        let product = MatMul { images: 1, batch, m: 256, k: 128, n: 256 };
        schedule(&Layer::new(Operator::MatMul(product), DataType::F16), &hexagon())
    };
    assert_eq!(heads(32).folds, 32 * heads(1).folds);
    assert_eq!(heads(32).bytes, Bytes(32 * heads(1).bytes.0));
}

#[test]
fn a_linked_sum_reads_one_more_tensor() {
    let plain = linear(256, 4096, 4096);
    let summed = Layer { linked: [Function::Add, Function::Relu].into_iter().collect(), ..plain.clone() };
    let more = schedule(&summed, &hexagon()).bytes.0 - schedule(&plain, &hexagon()).bytes.0;
    assert_eq!(more, 2 * 256 * 4096);
}

#[test]
fn an_array_of_128_pads_to_multiples_of_128() {
    let npu = SystolicArrays { array_dimension: 128, ..hexagon_with_all_graphs() };
    let schedule = schedule(&linear(129, 300, 1000), &npu);
    assert_eq!(schedule.padded, [1024, 384, 256]);
    assert_eq!(schedule.cycles, 3 * 2 * (1024 + 3 * 128 - 2) - 1);
}

fn bundled(name: &str) -> SystolicArrays {
    crate::device::profile::Profile::load(name).unwrap().npu.unwrap().systolic.unwrap()
}

#[test]
fn folds_change_at_multiples_of_each_npus_array() {
    for (name, array) in [("snapdragon-8gen3", 32), ("tpu-v4", 128), ("apple-m1", 16)] {
        let npu = SystolicArrays { graph_sizes: Vec::new(), order: WeightsStationary, ..bundled(name) };
        let folds = |outputs| schedule(&linear(512, 1024, outputs), &npu).folds;
        assert_eq!(folds(array), folds(array - 1), "{name}");
        assert_eq!(folds(array + 1), 2 * folds(array), "{name}");
    }
}

#[test]
fn a_small_product_on_a_neural_engine_is_bound_by_its_dispatch() {
    let npu = bundled("apple-m1");
    let layer = Layer { data_type: DataType::F16, ..linear(64, 256, 256) };
    assert_eq!(schedule(&layer, &npu).limit, Limit::Dispatch);
}

#[test]
fn an_operator_other_than_a_product_is_refused() {
    let softmax = Operator::Softmax(Softmax { input: Shape::tokens(256, 256) });
    let error = execute(&Layer::new(softmax, DataType::F16), &hexagon()).unwrap_err();
    assert_eq!(error.processor, "NPU");
    assert!(error.to_string().contains("place it on the GPU or the CPU"), "{error}");
}

#[test]
fn extents_beyond_any_network_saturate() {
    let huge = linear(u32::MAX, u32::MAX, u32::MAX);
    assert_eq!(schedule(&huge, &hexagon_with_all_graphs()).bytes, Bytes(u64::MAX));
}
