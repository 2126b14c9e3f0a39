use super::*;
use crate::device::{Core, Profile, Quantity};
use crate::kernel::{Phase, PhaseKind};
use crate::workload::{
    Conv2d, DataType, DepthwiseConv2d, Elementwise, Generic, GenericKind, Linear, MatMul, Norm, NormKind,
    Operator, Recurrent, Shape, Softmax, Window,
};

/// The CPU of the Pixel 4: 1 `large`, 3 `med` and 4 `small` cores.
pub(super) fn pixel4() -> Cpu {
    #[derive(Deserialize)]
    struct Document {
        cpu: Cpu,
    }
    crate::input::from_toml::<Document>(include_str!("../../../tests/golden/cpu_pixel4.toml")).unwrap().cpu
}

fn conv(kernel: u32, channels: u32, groups: u32) -> Conv2d {
    Conv2d::new(Shape::image(28, 28, channels), channels, Window::same(kernel)).groups(groups)
}

fn linear(rows: u32) -> Layer {
    let operator = Linear { rows, input_features: 768, output_features: 3072, bias: true };
    Layer::new(Operator::Linear(operator), DataType::F32)
}

fn run(layer: &Layer, cores: &str, library: Library) -> Execution<Schedule> {
    let cpu = pixel4();
    execute(layer, &cpu, &CoreSet::parse(cores, &cpu).unwrap(), library).unwrap()
}

fn micros(layer: &Layer, cores: &str, library: Library) -> f64 {
    run(layer, cores, library).phases.duration().as_micros()
}

fn phase(execution: &Execution<Schedule>, kind: PhaseKind) -> Picos {
    let of_kind = |phase: &&Phase| phase.kind == kind;
    execution.phases.as_slice().iter().filter(of_kind).map(|phase| phase.duration).sum()
}

fn assert_close(left: f64, right: f64) {
    assert!((left / right - 1.0).abs() < 1e-6, "{left} and {right}");
}

#[test]
fn a_matrix_vector_product_reads_each_weight_once() {
    let execution = run(&linear(1), "1large", Library::Ruy);
    let expected_nanos = 0.33797 * 768.0 * 3072.0 + 441.45;
    assert_close(execution.phases.duration().as_micros() * 1e3, expected_nanos);
    assert_eq!((execution.detail.kernel, execution.detail.limit), (Kernel::Gemv, Limit::Memory));
}

#[test]
fn one_thread_forks_nothing() {
    for library in [Library::Ruy, Library::Xnnpack] {
        assert_eq!(phase(&run(&linear(50), "1med", library), PhaseKind::ForkJoin), Picos::ZERO);
        assert!(phase(&run(&linear(50), "2med", library), PhaseKind::ForkJoin) > Picos::ZERO);
    }
}

#[test]
fn no_thread_is_busy_beyond_its_parallel_phase_and_one_fills_it() {
    let layers = [linear(50), Layer::new(Operator::Conv2d(conv(3, 64, 1)), DataType::F32)];
    for layer in &layers {
        for (cores, library) in
            [("3med", Library::Ruy), ("1large2med", Library::Ruy), ("3med", Library::Xnnpack)]
        {
            let execution = run(layer, cores, library);
            let longest = execution.detail.busy.into_iter().max().unwrap();
            let parallel = phase(&execution, PhaseKind::Parallel);
            assert!(longest.0.abs_diff(parallel.0) <= 1, "{cores} {library}");
            assert_eq!(execution.detail.busy[3..], [Picos::ZERO; 5]);
        }
    }
}

#[test]
fn ruy_runs_grouped_convolutions_on_one_thread_only() {
    let layer = Layer::new(Operator::Conv2d(conv(3, 64, 8)), DataType::F32);
    let execution = run(&layer, "3med", Library::Ruy);
    assert_eq!((execution.detail.kernel, execution.detail.threads), (Kernel::ReferenceLoop, 1));
    assert_eq!(execution.detail.limit, Limit::Serial);
    assert_close(micros(&layer, "3med", Library::Ruy), micros(&layer, "1med", Library::Ruy));
    assert!(micros(&layer, "3med", Library::Xnnpack) < 0.5 * micros(&layer, "1med", Library::Xnnpack));
}

#[test]
fn a_relu_fuses_and_a_hard_swish_is_one_more_operator() {
    let plain = Layer::new(Operator::Conv2d(conv(3, 64, 1)), DataType::F32);
    let linked =
        |functions: &[Function]| Layer { linked: functions.iter().copied().collect(), ..plain.clone() };
    let shape = plain.operator.output();
    let hard_swish = Elementwise { function: Function::HardSwish, input: shape, other: None };
    let hard_swish = Layer::new(Operator::Elementwise(hard_swish), DataType::F32);
    for library in [Library::Ruy, Library::Xnnpack] {
        let time = |layer: &Layer| micros(layer, "2med", library);
        assert_close(time(&linked(&[Function::Relu])), time(&plain));
        assert_close(time(&linked(&[Function::HardSwish])), time(&plain) + time(&hard_swish));
        let sum_then_relu = linked(&[Function::Add, Function::Relu]);
        assert_close(time(&sum_then_relu), time(&linked(&[Function::Add])));
        assert!(
            time(&linked(&[Function::HardSwish, Function::Relu])) > time(&linked(&[Function::HardSwish]))
        );
    }
}

#[test]
fn occupying_a_whole_cluster_costs_its_slowdown_factor() {
    let layer = linear(50);
    let mut cpu = pixel4();
    let cores = CoreSet::parse("4small", &cpu).unwrap();
    let time = |cpu: &Cpu| execute(&layer, cpu, &cores, Library::Ruy).unwrap().phases.duration().as_micros();
    let with = time(&cpu);
    cpu.clusters[2].ruy_f32.as_mut().unwrap().whole_cluster_slowdown_factor = Quantity::plain(0.0);
    assert_close(with, time(&cpu) * 1.046_512);
}

#[test]
fn mixed_clusters_pay_the_mixed_cluster_factor() {
    let mut cpu = pixel4();
    let cores = CoreSet::parse("1large2med", &cpu).unwrap();
    for library in [Library::Ruy, Library::Xnnpack] {
        let time =
            |cpu: &Cpu| execute(&linear(50), cpu, &cores, library).unwrap().phases.duration().as_micros();
        cpu.mixed_cluster_factor = Quantity::plain(1.0);
        let without = time(&cpu);
        cpu.mixed_cluster_factor = Quantity::plain(1.14);
        assert_close(time(&cpu), 1.14 * without);
    }
}

#[test]
fn stealing_threads_of_two_clusters_add_their_rates() {
    let cpu = pixel4();
    let layer = linear(600);
    let parallel = |cores| phase(&run(&layer, cores, Library::Xnnpack), PhaseKind::Parallel).as_micros();
    let tiles = f64::from(run(&layer, "1large1med", Library::Xnnpack).detail.blocks);
    let last_round = (tiles / 2.0).ceil() * 2.0 / tiles;
    assert_close(parallel("1large1med"), last_round / (1.0 / parallel("1large") + 1.0 / parallel("1med")));
    assert_eq!(cpu.clusters.len(), 3);
}

#[test]
fn xnnpack_products_cost_their_tiles_and_their_weights() {
    // 34 rows and 384 columns of 6x8 tiles; 9.4 MB of weights.
    let (tiles, nanos_per_tile) = (34.0 * 384.0, 14.085);
    let padded_macs = tiles * 48.0 * 768.0;
    let weight_reads = 34.0 * 3072.0 * 768.0;
    let output_bytes = 200.0 * 3072.0 * 4.0;
    let nanos = padded_macs * 0.049_296
        + tiles * nanos_per_tile
        + weight_reads * (0.035_211 + 0.017_606)
        + output_bytes * 0.35211
        + 528.17;
    assert_close(micros(&linear(200), "1large", Library::Xnnpack) * 1e3, nanos);
}

#[test]
fn one_row_takes_no_longer_than_several_which_read_the_same_weights() {
    for profile in Profile::bundled().unwrap() {
        let cpu = &profile.cpu;
        let core_sets = [CoreSet::fastest(cpu, 1), CoreSet::fastest(cpu, 2), CoreSet::slowest(cpu)];
        let formats = [DataType::F32, DataType::F16, DataType::I8];
        for (cores, data_type) in
            core_sets.into_iter().flatten().flat_map(|cores| formats.map(|format| (cores, format)))
        {
            let time = |rows: u32| {
                let operator = Linear { rows, input_features: 1024, output_features: 1024, bias: true };
                let layer = Layer::new(Operator::Linear(operator), data_type);
                execute(&layer, cpu, &cores, Library::Xnnpack).ok().map(|run| run.phases.duration())
            };
            for rows in [2, 3, 4, 8, 16] {
                assert!(time(1) <= time(rows), "{} {cores:?} {data_type} {rows}", profile.name);
            }
        }
    }
}

#[test]
fn a_tile_is_that_of_the_first_core_and_no_taller_for_convolutions() {
    let mut cpu = pixel4();
    cpu.clusters[0].core = Core::CortexX3;
    let cores = CoreSet::parse("2small", &cpu).unwrap();
    let tile = |layer: &Layer| execute(layer, &cpu, &cores, Library::Xnnpack).unwrap().detail.tile;
    assert_eq!(tile(&linear(50)), [8, 8]);
    assert_eq!(tile(&Layer::new(Operator::Conv2d(conv(3, 64, 1)), DataType::F32)), [6, 8]);
}

#[test]
fn the_right_operand_of_a_product_of_activations_is_packed_on_every_call() {
    let of = |operator: Operator| run(&Layer::new(operator, DataType::F32), "1large", Library::Xnnpack);
    for rows in [1, 50] {
        let weights = of(Linear { rows, input_features: 64, output_features: 256, bias: false }.into());
        let given = of(MatMul { images: 1, batch: 1, m: rows, k: 64, n: 256 }.into());
        let nanos = (given.phases.duration().as_micros() - weights.phases.duration().as_micros()) * 1e3;
        assert!((nanos - 64.0 * 256.0 * 0.35211).abs() < 0.1, "{rows}: {nanos}");
        let bytes = |execution: &Execution<Schedule>| execution.phases.bytes().0;
        assert_eq!(bytes(&given) - bytes(&weights), 2 * 4 * 64 * 256);
    }
}

/// A CPU whose 8-bit rates are its f32 rates with four times as fast products.
fn with_integers() -> Cpu {
    let mut cpu = pixel4();
    for cluster in &mut cpu.clusters {
        let mut rates = cluster.xnnpack_f32.clone().unwrap();
        rates.multiply_accumulate_ns.value *= 0.25;
        cluster.xnnpack_i8 = Some(rates);
    }
    cpu
}

#[test]
fn dynamic_quantisation_multiplies_integers_and_does_everything_else_in_floats() {
    let cpu = with_integers();
    let cores = CoreSet::parse("1large", &cpu).unwrap();
    let of = |layer: &Layer, data_type, library| {
        execute(&Layer { data_type, ..layer.clone() }, &cpu, &cores, library).unwrap().phases
    };
    for library in [Library::Ruy, Library::Xnnpack] {
        let micros = |layer: &Layer, data_type| of(layer, data_type, library).duration().as_micros();
        let [float, fixed, dynamic] =
            [DataType::F32, DataType::I8, DataType::I8Dynamic].map(|format| micros(&linear(50), format));
        assert!(fixed < dynamic && dynamic < float, "{fixed} {dynamic} {float}");
        let softmax = Layer::new(Operator::Softmax(Softmax { input: Shape::tokens(50, 50) }), DataType::F32);
        assert_close(micros(&softmax, DataType::I8Dynamic), micros(&softmax, DataType::F32));
    }
    let bytes = of(&linear(50), DataType::I8Dynamic, Library::Xnnpack).bytes().0;
    assert_eq!(bytes, 4 * 50 * (768 + 3072) + 768 * 3072 + 3072, "weights and biases alone are small");
    // Half the weight bytes, with the same 8-bit products.
    let packed = of(&linear(50), DataType::I4Dynamic, Library::Xnnpack).bytes().0;
    assert_eq!(bytes - packed, 768 * 3072 / 2 + 3072 / 2);
    let one_row = |format| of(&linear(1), format, Library::Xnnpack).duration().as_micros();
    let ratio = one_row(DataType::I4Dynamic) / one_row(DataType::I8Dynamic);
    assert!((0.5..0.6).contains(&ratio), "{ratio}");
}

#[test]
fn large_depthwise_windows_have_no_unrolled_kernel() {
    let depthwise = |kernel: u32| {
        let base = conv(kernel, 64, 1);
        let operator = DepthwiseConv2d::new(base.input, base.window);
        Layer::new(Operator::DepthwiseConv2d(operator), DataType::F32)
    };
    let per_tap = |kernel: u32| {
        let execution = run(&depthwise(kernel), "1large", Library::Xnnpack);
        phase(&execution, PhaseKind::Parallel).as_micros() / f64::from(kernel * kernel)
    };
    assert_close(per_tap(7) / per_tap(5), 0.88028 / 0.21127);
}

#[test]
fn a_batch_norm_is_folded_and_an_empty_share_is_nothing() {
    let norm = Norm { kind: NormKind::Batch, input: Shape::image(28, 28, 64) };
    let layers = [Layer::new(Operator::Norm(norm), DataType::F32), linear(50).with_output_channels(0)];
    for layer in layers {
        for library in [Library::Ruy, Library::Xnnpack] {
            let execution = run(&layer, "2med", library);
            assert!(execution.phases.as_slice().is_empty());
            assert_eq!(execution.detail.kernel, Kernel::Nothing);
        }
    }
}

#[test]
fn attention_products_and_softmax_have_kernels_in_both_libraries() {
    let product =
        |m| Layer::new(Operator::MatMul(MatMul { images: 1, batch: 12, m, k: 64, n: 50 }), DataType::F32);
    let softmax = Layer::new(Operator::Softmax(Softmax { input: Shape::tokens(50, 50) }), DataType::F32);
    for library in [Library::Ruy, Library::Xnnpack] {
        assert_eq!(run(&product(1), "1large", library).detail.kernel, Kernel::Gemv);
        assert_eq!(run(&product(50), "1large", library).detail.kernel, Kernel::Gemm);
        assert_eq!(run(&softmax, "1large", library).detail.kernel, Kernel::Elementwise);
    }
}

#[test]
fn a_single_tile_takes_one_core_however_many_there_are() {
    let product = MatMul { images: 1, batch: 1, m: 4, k: 10_000, n: 8 };
    let layer = Layer::new(product.into(), DataType::F32);
    let [one, all] = ["1large", "1large3med4small"]
        .map(|cores| phase(&run(&layer, cores, Library::Xnnpack), PhaseKind::Parallel).as_micros());
    assert_close(all / one, pixel4().mixed_cluster_factor.value);
}

#[test]
fn a_missing_table_is_named_with_its_cluster() {
    let mut cpu = pixel4();
    let cores = CoreSet::parse("1large1med", &cpu).unwrap();
    let reason = |cpu: &Cpu, data_type, library| {
        execute(&Layer { data_type, ..linear(50) }, cpu, &cores, library).unwrap_err().reason
    };
    assert_eq!(reason(&cpu, DataType::F16, Library::Xnnpack), "cluster large has no table `xnnpack_f16`");
    assert_eq!(reason(&cpu, DataType::I8, Library::Xnnpack), "cluster large has no table `xnnpack_i8`");
    cpu.clusters[1].ruy_i8 = None;
    assert_eq!(reason(&cpu, DataType::I8, Library::Ruy), "cluster med has no table `ruy_i8`");
    assert_eq!(
        reason(&cpu, DataType::F16, Library::Ruy),
        "TFLite's own kernels compute in f32 or i8, not in f16"
    );
}

#[test]
fn sixteen_bit_floats_need_sixteen_bit_arithmetic() {
    let mut cpu = pixel4();
    let cores = CoreSet::parse("1large", &cpu).unwrap();
    let layer = Layer { data_type: DataType::F16, ..linear(50) };
    cpu.clusters[0].xnnpack_f16 = cpu.clusters[0].xnnpack_f32.clone();
    assert_eq!(execute(&layer, &cpu, &cores, Library::Xnnpack).unwrap().detail.tile, [6, 16]);
    cpu.clusters[0].f16_arithmetic = false;
    let refusal = execute(&layer, &cpu, &cores, Library::Xnnpack).unwrap_err();
    assert_eq!(refusal.reason, "cluster large does not compute in f16");
}

#[test]
fn a_core_set_of_another_cpu_is_refused() {
    let mut small = pixel4();
    let cores = CoreSet::parse("1large3med", &small).unwrap();
    small.clusters.truncate(1);
    let refusal = execute(&linear(50), &small, &cores, Library::Ruy).unwrap_err();
    assert_eq!(refusal.reason, "core set 1large3med belongs to another CPU");
}

#[test]
fn a_recurrent_layer_takes_a_product_and_the_functions_of_its_gates_per_time_step() {
    let recurrent = Recurrent { sequences: 1, steps: 20, gates: 4, features: 256, bias: true };
    for library in [Library::Ruy, Library::Xnnpack] {
        let of = |operator: Operator| micros(&Layer::new(operator, DataType::F32), "1large", library);
        let step = of(recurrent.product().into()) + of(recurrent.functions().into());
        assert_close(of(recurrent.into()), 20.0 * step);
    }
}

#[test]
fn the_time_of_an_operator_without_a_kernel_grows_with_the_elements_it_visits() {
    let inputs = vec![Shape::tokens(400, 64)];
    let generic = Generic { kind: GenericKind::Search, inputs, output: Shape::tokens(10, 64), passes: 1 };
    for library in [Library::Ruy, Library::Xnnpack] {
        let of = |generic: Generic| micros(&Layer::new(generic.into(), DataType::F32), "4small", library);
        let twice = of(Generic { passes: 2, ..generic.clone() });
        let gather = of(Generic { kind: GenericKind::Gather, ..generic.clone() });
        assert!(twice > 1.5 * of(generic.clone()) && gather < of(generic.clone()), "{twice} {gather}");
    }
}
