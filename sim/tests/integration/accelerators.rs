//! Products split between GPU and NPU.

use coexec_sim::device::{ProcessorKind, Profile};
use coexec_sim::kernel::Library;
use coexec_sim::plan::{Axis, GraphCover, Mechanism, Placement, Plan, Processor};
use coexec_sim::simulate::{Prediction, Simulator};
use coexec_sim::units::Picos;
use coexec_sim::workload::{Conv2d, DataType, Layer, Linear, Operator, Shape, Stage, Window};

fn device() -> Profile {
    Profile::load("snapdragon-8gen3").unwrap()
}

fn product(rows: u32, input_features: u32, output_features: u32) -> Stage {
    let operator = Operator::Linear(Linear { rows, input_features, output_features, bias: false });
    Stage::single("product".to_owned(), Layer::new(operator, DataType::W4A16))
}

fn run(stage: &Stage, placement: Placement, synchronisation: Mechanism) -> Prediction {
    let device = device();
    let plan = Plan::new(synchronisation, vec![placement]);
    Simulator::new(&device, Library::Xnnpack).run(std::slice::from_ref(stage), &plan).unwrap()
}

fn split(npu: [u32; 2], gpu: [u32; 2], graphs: GraphCover) -> Placement {
    let ([npu_rows, npu_channels], [gpu_rows, gpu_channels]) = (npu, gpu);
    Placement::npu_and_gpu([npu_rows, gpu_rows], [npu_channels, gpu_channels], graphs)
}

fn busy(prediction: &Prediction, processor: ProcessorKind) -> Picos {
    prediction.processors.iter().find(|usage| usage.processor == processor).unwrap().busy
}

#[test]
fn a_shared_product_takes_its_longer_part_and_one_synchronisation() {
    let stage = product(256, 14336, 4096);
    let shared = run(&stage, split([256, 2528], [0, 1568], GraphCover::Padded), Mechanism::SleepThenPoll);
    let longer = busy(&shared, ProcessorKind::Gpu).max(busy(&shared, ProcessorKind::Npu));
    // 5 us until the notification, 30 us to submit the next command.
    assert_eq!(shared.latency, longer + Picos::from_micros(35.0));
}

#[test]
fn sharing_ffn_down_two_to_three_beats_either_processor_alone() {
    let stage = product(256, 14336, 4096);
    let shared = run(&stage, split([256, 2458], [0, 1638], GraphCover::Padded), Mechanism::SleepThenPoll);
    for alone in [Placement::GPU, Placement::NPU] {
        let alone = run(&stage, alone, Mechanism::SleepThenPoll);
        assert!(alone.latency.0 as f64 / shared.latency.0 as f64 > 1.5);
    }
}

#[test]
fn pieces_of_300_rows_are_the_sum_of_their_graphs() {
    let alone = |rows| run(&product(rows, 4096, 4096), Placement::NPU, Mechanism::SvmPolling).latency;
    let pieces = split([300, 4096], [0, 0], GraphCover::Pieces);
    let pieces = run(&product(300, 4096, 4096), pieces, Mechanism::SvmPolling).latency;
    assert_eq!(pieces, alone(256) + alone(32) + alone(32));
    assert!(pieces < alone(300), "padding computes 512 rows");
}

#[test]
fn one_token_on_both_moves_three_quarters_of_the_weights_through_the_gpu() {
    let stage = product(1, 4096, 28672);
    let alone = run(&stage, Placement::GPU, Mechanism::SleepThenPoll).latency;
    let best = (1..128)
        .map(|share| {
            let npu = 224 * share;
            let both = split([1, npu], [0, 28672 - npu], GraphCover::Padded);
            (run(&stage, both, Mechanism::SleepThenPoll), 1.0 - f64::from(npu) / 28672.0)
        })
        .min_by_key(|(prediction, _)| prediction.latency)
        .unwrap();
    let (prediction, gpu_share) = best;
    // HeteroInfer, section 3.3: 75/25 and about 60 GB/s; neither was fitted.
    assert!((gpu_share - 0.75).abs() < 0.03, "{gpu_share}");
    let rate = prediction.bytes.0 as f64 / prediction.latency.as_seconds() / 1e9;
    assert!((57.0..60.0).contains(&rate), "{rate} GB/s");
    assert!(alone.0 as f64 / prediction.latency.0 as f64 > 1.3);
}

#[test]
fn only_a_mechanism_with_a_known_wait_hides_the_dispatch() {
    let stage = product(1, 4096, 28672);
    let halves = split([1, 7168], [0, 21504], GraphCover::Padded);
    let [known, unknown] = [Mechanism::SleepThenPoll, Mechanism::SvmPolling]
        .map(|mechanism| busy(&run(&stage, halves, mechanism), ProcessorKind::Npu));
    assert_eq!(unknown, known + Picos::from_micros(161.0));
}

#[test]
fn no_mechanism_hides_the_start_of_a_compiled_graph() {
    let device = Profile::load("oneplus11").unwrap();
    let conv = Conv2d::new(Shape::image(56, 56, 64), 128, Window::same(3));
    let stage = [Stage::single("conv".to_owned(), Layer::new(conv.into(), DataType::F32))];
    let cut = Placement::cut(Axis::Height, [(Processor::NPU, 55), (Processor::Gpu, 1)]);
    let busy_under = |mechanism| {
        let mut simulator = Simulator::new(&device, Library::default_for(&device.cpu));
        busy(&simulator.run(&stage, &Plan::new(mechanism, vec![cut])).unwrap(), ProcessorKind::Npu)
    };
    let start_us = device.npu.as_ref().unwrap().compiled.as_ref().unwrap().graph_us.value;
    assert_eq!(busy_under(Mechanism::SleepThenPoll), busy_under(Mechanism::SvmPolling));
    assert!(busy_under(Mechanism::SleepThenPoll) > Picos::from_micros(start_us));
}
