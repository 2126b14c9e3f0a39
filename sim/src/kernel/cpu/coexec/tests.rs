use super::*;
use crate::device::InstructionSet;
use crate::device::cpu::CoexecRates;
use crate::kernel::cpu::{Kernel, Library, execute};
use crate::kernel::{Execution, PhaseKind};
use crate::workload::{Conv2d, DepthwiseConv2d, Linear, Operator, Shape, Window};

/// A server with eight AVX-512 cores.
fn server() -> Cpu {
    let mut cpu = crate::kernel::cpu::tests::pixel4();
    let mut cluster = cpu.clusters.swap_remove(0);
    cluster.cores = 8;
    cluster.instruction_set = Some(InstructionSet::Avx512);
    (cluster.l1_cache_bytes, cluster.l2_cache_bytes) = (Some(48 << 10), Some(2 << 20));
    (cluster.ruy_f32, cluster.ruy_i8, cluster.xnnpack_f32) = (None, None, None);
    cluster.coexec_f32 = Some(fitted());
    cpu.clusters = vec![cluster];
    cpu
}

fn fitted() -> CoexecRates {
    crate::input::from_toml(include_str!("../../../../tests/golden/coexec_rates.toml")).unwrap()
}

/// A server on which one unit of work costs a nanosecond and everything else is free.
fn only(unit: CoexecUnit) -> Cpu {
    let mut cpu = server();
    let mut rates = toml::Table::try_from(fitted()).unwrap();
    for (key, value) in rates.iter_mut().filter(|(_, value)| value.is_float()) {
        *value = f64::from(u8::from(key == unit.key())).into();
    }
    cpu.clusters[0].coexec_f32 = Some(rates.try_into().unwrap());
    cpu
}

fn linear(rows: u32, inputs: u32, outputs: u32) -> Layer {
    let linear = Linear { rows, input_features: inputs, output_features: outputs, bias: true };
    Layer::new(Operator::Linear(linear), DataType::F32)
}

fn run(layer: &Layer, cpu: &Cpu, cores: &str) -> Execution<crate::kernel::cpu::Schedule> {
    execute(layer, cpu, &CoreSet::parse(cores, cpu).unwrap(), Library::Coexec).unwrap()
}

fn nanos(layer: &Layer, cpu: &Cpu, cores: &str) -> f64 {
    run(layer, cpu, cores).phases.duration().as_micros() * 1e3
}

fn assert_close(left: f64, right: f64) {
    assert!((left / right - 1.0).abs() < 1e-6, "{left} and {right}");
}

#[test]
fn tiles_are_computed_whole_and_copied_in_part() {
    let arithmetic = only(CoexecUnit::MultiplyAccumulate);
    assert_close(nanos(&linear(20, 100, 40), &arithmetic, "1large"), 28.0 * 64.0 * 100.0);
    // The partial second panel copies 20 pixels, the partial tile of the first one 6. Each further
    // block of the depth copies them twice; 2,048 inputs make eight blocks.
    let edges = only(CoexecUnit::EdgePixel);
    assert_close(nanos(&linear(20, 100, 40), &edges, "1large"), 26.0);
    assert_close(nanos(&linear(20, 2_048, 40), &edges, "1large"), 26.0 * 15.0);
    assert!(nanos(&linear(28, 100, 64), &edges, "1large") < 1e-3, "whole tiles are copied by none");
}

#[test]
fn a_product_with_one_row_reads_whole_panels_once() {
    let weights = only(CoexecUnit::VectorWeight);
    let layer = linear(1, 256, 1_000);
    assert_close(nanos(&layer, &weights, "1large"), 256.0 * 1_024.0);
    assert_eq!(run(&layer, &weights, "1large").detail.kernel, Kernel::Gemv);
    // 4 MiB of weights miss the second-level cache of one core but fit those of two.
    let memory = only(CoexecUnit::BeyondL2Byte);
    assert_close(nanos(&linear(1, 2_048, 512), &memory, "1large"), 4.0 * 2_048.0 * 512.0);
    assert!(nanos(&linear(1, 2_048, 512), &memory, "2large") < 1e-3);
}

#[test]
fn windows_are_found_through_pointers_and_padding_is_not_read() {
    let conv = Conv2d::new(Shape::image(14, 14, 32), 32, Window::same(3));
    let conv = Layer::new(Operator::Conv2d(conv), DataType::F32);
    assert_close(nanos(&conv, &only(CoexecUnit::WindowPointer), "1large"), 196.0 * 9.0);
    let depthwise = DepthwiseConv2d::new(Shape::image(3, 3, 85), Window::same(3));
    let depthwise = Layer::new(Operator::DepthwiseConv2d(depthwise), DataType::F32);
    // 85 channels are a chunk of 64, a vector of 16 and 5 lanes; (2 + 3 + 2)^2 taps of the 3x3 windows
    // over 3x3 pixels are inside the image.
    for (unit, count) in [
        (CoexecUnit::DepthwiseChunk, 1.0),
        (CoexecUnit::DepthwiseVector, 1.0),
        (CoexecUnit::DepthwiseLane, 5.0),
    ] {
        assert_close(nanos(&depthwise, &only(unit), "1large"), 49.0 * count);
    }
}

#[test]
fn a_transpose_of_channels_finds_each_element_apart_and_each_pixel_by_division() {
    use crate::workload::{Dimension, Transpose};
    use Dimension::{Batch, Channels, Height, Width};
    let pairs = [
        ([Batch, Height, Channels, Width], [CoexecUnit::StridedElement, CoexecUnit::CopiedElement]),
        ([Batch, Width, Height, Channels], [CoexecUnit::CopiedElement, CoexecUnit::StridedElement]),
    ];
    for (order, [used, unused]) in pairs {
        let transpose = Transpose { input: Shape::image(20, 30, 40), images: 1, order };
        let layer = Layer::new(Operator::Transpose(transpose), DataType::F32);
        assert_close(nanos(&layer, &only(used), "1large"), 20.0 * 30.0 * 40.0);
        assert!(nanos(&layer, &only(unused), "1large") < 1e-3);
        let pixels = layer.operator.output().pixels() as f64;
        assert_close(nanos(&layer, &only(CoexecUnit::Pixel), "1large"), 3.0 * pixels);
    }
}

#[test]
fn threads_share_products_and_cost_a_fork() {
    let cpu = server();
    let layer = linear(1_024, 512, 512);
    let times = ["1large", "2large", "4large", "8large"].map(|cores| nanos(&layer, &cpu, cores));
    for (fewer, more) in times.iter().zip(&times[1..]) {
        assert!(more < fewer && *more > 0.45 * fewer, "{times:?}");
    }
    let forks = |cores: &str| {
        let phases = run(&layer, &cpu, cores).phases;
        phases.as_slice().iter().any(|phase| phase.kind == PhaseKind::ForkJoin && phase.duration.0 > 0)
    };
    assert!(!forks("1large") && forks("2large"));
    assert!(nanos(&linear(4, 64, 64), &cpu, "8large") < 2_000.0, "little work is one thread's");
}

#[test]
fn a_straggler_holds_up_few_blocks_more_than_many() {
    let stretched = |layer: &Layer| {
        let mut even = server();
        even.clusters[0].coexec_f32.as_mut().unwrap().straggler_factor.value = 0.0;
        let mut uneven = server();
        uneven.clusters[0].coexec_f32.as_mut().unwrap().straggler_factor.value = 0.5;
        nanos(layer, &uneven, "8large") / nanos(layer, &even, "8large")
    };
    let few = stretched(&linear(40, 3_072, 1_280));
    let many = stretched(&linear(384, 512, 384));
    assert!(few > 1.4 && many < 1.35, "{few} {many}");
}

#[test]
fn the_equation_is_the_kernel_model_s_time() {
    let cpu = server();
    let cluster = &cpu.clusters[0];
    let costs = Costs::of(cluster.coexec_f32.as_ref().unwrap());
    for (layer, cores) in [(linear(50, 768, 300), "1large"), (linear(333, 768, 300), "8large")] {
        let threads = CoreSet::parse(cores, &cpu).unwrap().threads() as usize;
        let caches = Caches::of(cluster);
        let works = Work::of_layer(&layer, &caches, threads);
        let time: f64 = works.map(|work| costs.time(&work)).sum();
        assert_close(time, nanos(&layer, &cpu, cores));
    }
}

#[test]
fn missing_rates_and_formats_are_named() {
    let cpu = crate::kernel::cpu::tests::pixel4();
    let cores = CoreSet::parse("1large", &cpu).unwrap();
    let reason = |layer: &Layer| execute(layer, &cpu, &cores, Library::Coexec).unwrap_err().to_string();
    assert!(reason(&linear(1, 8, 8)).contains("no table `coexec_f32`"));
    let half = Layer { data_type: DataType::F16, ..linear(1, 8, 8) };
    assert!(reason(&half).contains("in f32, not in f16"));
    assert_eq!(Library::default_for(&cpu), Library::Xnnpack);
    assert_eq!([Library::default_for(&server()), Library::of_runs(&server())], [Library::Coexec; 2]);
}

#[test]
fn inside_a_network_an_operator_finds_its_data_outside_the_caches() {
    use crate::device::Quantity;
    use crate::device::cpu::ColdCaches;
    use crate::kernel::cpu::{Limit, execute_in_network};

    let mut cpu = server();
    let layer = linear(20, 100, 40);
    let cores = CoreSet::parse("4large", &cpu).unwrap();
    let inside = |cpu: &Cpu| execute_in_network(&layer, cpu, &cores, Library::Coexec).unwrap();
    let repeated = run(&layer, &cpu, "4large");
    assert_eq!(inside(&cpu), repeated, "the profile does not say what cold caches cost");
    let [operator_us, weight_byte_ns, tensor_byte_ns] = [3.0, 5.0, 0.5].map(Quantity::plain);
    let source = "test".to_owned();
    cpu.cold_caches = Some(ColdCaches { source, operator_us, weight_byte_ns, tensor_byte_ns });
    let cold = inside(&cpu);
    let [weights, tensors] = [4_040.0, 20.0 * 140.0].map(|elements| 4.0 * elements);
    let threads = f64::from(repeated.detail.threads);
    let extra = cold.phases.duration().as_micros() - repeated.phases.duration().as_micros();
    assert!(threads > 1.0);
    assert!((extra - 3.0 - (5.0 * weights + 0.5 * tensors) / 1e3 / threads).abs() < 1e-3, "{extra}");
    assert_eq!((cold.phases.bytes(), cold.detail.limit), (repeated.phases.bytes(), Limit::Memory));
    assert_eq!(run(&layer, &cpu, "4large"), repeated);
}
