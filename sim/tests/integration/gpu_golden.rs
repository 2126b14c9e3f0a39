//! The GPU model against its reference: the dispatch of every distinct
//! convolution shape of the mobile-ml-benchmark GPU table on six phones, and the
//! times of a sample of all kernel families.

use coexec_sim::device::Gpu;
use coexec_sim::kernel::Execution;
use coexec_sim::kernel::gpu::{Kernel, Launch, execute};
use coexec_sim::workload::{
    Concat, Conv2d, DataType, DepthwiseConv2d, Function, Layer, Linear, Linked, Mean, Operator, Padding,
    Pool, PoolKind, SecondOperand, Shape, Window,
};

const PHONES: [(&str, &str); 6] = [
    ("pixel4", include_str!("../golden/gpu_pixel4.toml")),
    ("s10", include_str!("../golden/gpu_s10.toml")),
    ("mi8se", include_str!("../golden/gpu_mi8se.toml")),
    ("a03s", include_str!("../golden/gpu_a03s.toml")),
    ("iphone7", include_str!("../golden/gpu_iphone7.toml")),
    ("iphonexs", include_str!("../golden/gpu_iphonexs.toml")),
];

/// Largest relative difference between a time and its reference.
const TOLERANCE: f64 = 1e-3;

fn gpus() -> Vec<(&'static str, Gpu)> {
    PHONES
        .iter()
        .map(|&(name, text)| {
            (name, coexec_sim::input::from_toml(text).expect("the committed profile parses"))
        })
        .collect()
}

/// The lines of a golden file, without comments and header.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.starts_with('#')).skip(1).map(|line| line.split(',').collect())
}

fn number(text: &str) -> u32 {
    text.parse().expect("the committed value parses")
}

/// The padding with which `input` pixels give `output`: none, or "SAME".
fn padding(input: u32, output: u32, window: u32, stride: u32) -> Padding {
    let total = ((output - 1) * stride + window).saturating_sub(input);
    let (before, after) = (total / 2, total - total / 2);
    Padding { top: before, bottom: after, left: before, right: after }
}

fn conv(row: &[&str]) -> Conv2d {
    let [input, in_channels, output, output_channels, window, stride, groups] =
        [0, 1, 2, 3, 4, 5, 6].map(|column| number(row[column]));
    Conv2d::new(
        Shape::image(input, input, in_channels),
        output_channels,
        Window::valid(window).stride(stride).padding(padding(input, output, window, stride)),
    )
    .groups(groups)
}

/// An execution in the notation of the golden file.
fn dispatch_of(execution: &Execution<Launch>) -> String {
    let launch = execution.detail;
    let letter = match launch.kernel {
        Kernel::FullyConnected => 'f',
        Kernel::Winograd => 'w',
        Kernel::ConvConstants => 'c',
        Kernel::GroupedConv => 'r',
        _ => 'g',
    };
    let axes = |[x, y, z]: [u32; 3]| format!("{x}.{y}.{z}");
    let Launch { tile, grid, work_group, groups, iterations, .. } = launch;
    format!("{letter} {} {} {} {groups} {iterations}", axes(tile), axes(grid), axes(work_group))
}

#[test]
fn the_dispatch_of_every_public_convolution_shape_is_the_reference_s() {
    let gpus = gpus();
    let mut checked = 0;
    for row in rows(include_str!("../golden/gpu_dispatch.csv")) {
        let layer = Layer::new(Operator::Conv2d(conv(&row)), DataType::F32);
        assert_eq!(layer.operator.output().height, number(row[2]), "{}", layer.operator);
        for ((phone, gpu), expected) in gpus.iter().zip(&row[7..]) {
            let execution = execute(&layer, gpu).unwrap();
            assert_eq!(dispatch_of(&execution), *expected, "{phone}: {}", layer.operator);
            checked += 1;
        }
    }
    assert_eq!(checked, 1046 * PHONES.len());
}

/// The functions of a row. The reference reads no tensor for a multiplication, nor for the addition after
/// it in a concatenation.
fn linked(text: &str, is_concat: bool) -> Linked {
    let mut linked = Linked::default();
    for name in text.split('+').filter(|name| !name.is_empty()) {
        let function = match name {
            "add" => Function::Add,
            "mul" => Function::Multiply,
            "relu" => Function::Relu,
            "relu6" => Function::Relu6,
            "hard_swish" => Function::HardSwish,
            "sigmoid" => Function::Sigmoid,
            other => panic!("{other} is not a function of the golden file"),
        };
        let follows = is_concat && linked.functions().last() == Some(&Function::Multiply);
        let is_per_channel = follows || function == Function::Multiply;
        let operand = if is_per_channel { SecondOperand::PER_CHANNEL } else { SecondOperand::WHOLE };
        assert!(linked.push(function, operand));
    }
    linked
}

/// The operator of a row of the times: operation, then its dimensions.
fn operator(row: &[&str]) -> Operator {
    let dimensions = &row[1..];
    match row[0] {
        "conv" => Operator::Conv2d(conv(dimensions)),
        "depthwise" => {
            let as_conv = conv(&[&dimensions[..6], &["1"]].concat());
            Operator::DepthwiseConv2d(DepthwiseConv2d::new(as_conv.input, as_conv.window))
        }
        "linear" => Operator::Linear(Linear {
            rows: 1,
            input_features: number(dimensions[1]),
            output_features: number(dimensions[3]),
            bias: true,
        }),
        "mean" => {
            let side = number(dimensions[0]);
            Operator::Mean(Mean { input: Shape::image(side, side, number(dimensions[1])) })
        }
        "concat" => {
            let side = number(dimensions[0]);
            let channels = dimensions[1].split('+').map(number).collect();
            Operator::Concat(Concat::of_channels(Shape::image(side, side, 0), channels))
        }
        pool => {
            let (side, output) = (number(dimensions[0]), number(dimensions[2]));
            let (window, stride) = (number(dimensions[4]), number(dimensions[5]));
            Operator::Pool(Pool {
                kind: if pool == "max-pool" { PoolKind::Max } else { PoolKind::Average },
                input: Shape::image(side, side, number(dimensions[1])),
                window: Window::valid(window).stride(stride).padding(padding(side, output, window, stride)),
            })
        }
    }
}

#[test]
fn times_are_within_a_thousandth_of_the_reference_model_s() {
    let gpus = gpus();
    let (mut checked, mut worst) = (0, 0.0_f64);
    for row in rows(include_str!("../golden/gpu_times.csv")) {
        let (_, gpu) = gpus.iter().find(|(phone, _)| *phone == row[0]).unwrap();
        let operator = operator(&row[2..]);
        let linked = linked(row[10], matches!(operator, Operator::Concat(_)));
        let layer = Layer { operator, linked, data_type: DataType::F32 };
        let expected: f64 = row[11].parse().unwrap();
        let execution = execute(&layer, gpu).unwrap();
        let error = (execution.phases.duration().as_micros() / expected - 1.0).abs();
        assert!(error < TOLERANCE, "{row:?}: off by {:.3} %, {:?}", error * 100.0, execution.detail);
        worst = worst.max(error);
        checked += 1;
    }
    println!("{checked} times, largest difference {worst:.2e}");
    assert_eq!(checked, 1828);
}
