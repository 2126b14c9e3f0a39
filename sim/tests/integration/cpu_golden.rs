//! The CPU kernel model against golden values: ruy's block maps, and the times
//! of whole networks as the fitted CPU model predicts them (no measurements).

use coexec_sim::device::{Checker, Cpu};
use coexec_sim::kernel::cpu::execute;
use coexec_sim::kernel::cpu::ruy::{Product, Tile, block_map, thread_count};
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::workload::{
    Concat, Conv2d, DataType, DepthwiseConv2d, Elementwise, Function, Layer, Linear, Mean, Operator, Padding,
    Pool, PoolKind, Shape, Slice, Window,
};
use serde::Deserialize;

/// The model's predictions are stored in whole nanoseconds, phases are rounded to a
/// picosecond, and the stored times of mixed core sets used rates of six digits.
const TOLERANCE: f64 = 1e-5;

#[derive(Deserialize)]
struct Document {
    cpu: Cpu,
}

fn cpu(device: &str) -> Cpu {
    let text = match device {
        "pixel4" => include_str!("../golden/cpu_pixel4.toml"),
        "s10" => include_str!("../golden/cpu_s10.toml"),
        _ => include_str!("../golden/cpu_mi8se.toml"),
    };
    coexec_sim::input::from_toml::<Document>(text).expect("the golden profiles parse").cpu
}

/// The fields of each line, without the header.
fn rows(csv: &str) -> impl Iterator<Item = Vec<&str>> {
    csv.lines().skip(1).map(|line| line.split(',').collect())
}

fn number(field: &str) -> u32 {
    field.parse().expect("the golden tables hold whole numbers")
}

/// Input side of an unpadded window with `output` positions.
fn input_side(output: u32, kernel: u32, stride: u32) -> u32 {
    (output - 1) * stride + kernel
}

/// The layer of one line of `cpu_networks.csv`.
fn layer(fields: &[&str], data_type: DataType) -> Layer {
    let [kernel, stride, input_channels, output_channels, groups, side, elements] =
        [2, 3, 4, 5, 6, 7, 8].map(|index| number(fields[index]));
    let input = input_side(side, kernel, stride);
    let input = Shape::image(input, input, input_channels);
    let flat = Shape::tokens(1, elements);
    let (window, step, no, padding) = ([kernel; 2], [stride; 2], [1, 1], Padding::NONE);
    let operator = match fields[1] {
        "conv" | "gconv" => Operator::Conv2d(
            Conv2d::new(
                input,
                output_channels,
                Window { kernel: window, stride: step, dilation: no, padding },
            )
            .groups(groups),
        ),
        "dw" => Operator::DepthwiseConv2d(DepthwiseConv2d::new(
            input,
            Window { kernel: window, stride: step, dilation: no, padding },
        )),
        "pool" => Operator::Pool(Pool {
            kind: PoolKind::Max,
            input,
            window: Window { stride: step, ..Window::of(window).padding(padding) },
        }),
        "fc" => Operator::Linear(Linear {
            rows: 1,
            input_features: input_channels,
            output_features: output_channels,
            bias: true,
        }),
        "mean" => Operator::Mean(Mean { input: flat }),
        "concat" => Operator::Concat(Concat::of_channels(flat, vec![elements - 1, 1])),
        "pad" => Operator::Slice(Slice::of_channels(flat, 0, elements)),
        "ew" => {
            Operator::Elementwise(Elementwise { function: Function::Add, input: flat, other: Some(flat) })
        }
        other => panic!("operator {other}"),
    };
    Layer::new(operator, data_type)
}

#[test]
fn block_maps_and_thread_counts_are_ruys() {
    let csv = include_str!("../golden/cpu_ruy_blocks.csv");
    for fields in rows(csv) {
        let (tile, element_bytes) = match fields[0] {
            "f32" => (Tile { channels: 8, pixels: 8, depth: 1 }, 4),
            "dot" => (Tile { channels: 8, pixels: 8, depth: 4 }, 1),
            _ => (Tile { channels: 4, pixels: 4, depth: 16 }, 1),
        };
        let counts: Vec<u64> = fields[1..].iter().map(|field| field.parse().unwrap()).collect();
        let product = Product { channels: counts[0], pixels: counts[1], depth: counts[2] };
        let threads = thread_count(product, counts[3] as u32);
        let map = block_map(product, tile, element_bytes, threads);
        let got = [
            u64::from(threads),
            map.channel_blocks,
            map.pixel_blocks,
            u64::from(map.threads),
            map.small_block_channels,
            map.large_channel_blocks,
            map.small_block_pixels,
            map.large_pixel_blocks,
        ];
        assert_eq!(got, counts[4..], "{fields:?}");
    }
    assert_eq!(rows(csv).count(), 80);
}

#[test]
fn network_times_equal_those_of_the_fitted_model() {
    let networks: Vec<Vec<&str>> = rows(include_str!("../golden/cpu_networks.csv")).collect();
    let devices = ["pixel4", "s10", "mi8se"].map(|device| (device, cpu(device)));
    let mut worst = 0.0_f64;
    for fields in rows(include_str!("../golden/cpu_predictions.csv")) {
        let [device, core_set, data_type, network, expected] = fields[..] else { panic!("{fields:?}") };
        let (_, cpu) = devices.iter().find(|(name, _)| *name == device).unwrap();
        let cores = CoreSet::parse(core_set, cpu).unwrap();
        assert_eq!(cores.to_string(), core_set);
        let data_type = if data_type == "f32" { DataType::F32 } else { DataType::I8 };
        let micros: f64 = networks
            .iter()
            .filter(|operator| operator[0] == network)
            .map(|operator| layer(operator, data_type))
            .map(|layer| execute(&layer, cpu, &cores, Library::Ruy).unwrap().phases.duration().as_micros())
            .sum();
        let error = (micros / expected.parse::<f64>().unwrap() - 1.0).abs();
        assert!(error < TOLERANCE, "{fields:?}: {micros} us");
        worst = worst.max(error);
    }
    println!("largest difference {:.6} %", worst * 100.0);
}

#[test]
fn the_golden_profiles_pass_their_checks() {
    for device in ["pixel4", "s10", "mi8se"] {
        let mut checker = Checker::default();
        cpu(device).check(&mut checker);
        assert_eq!(checker.violations, [], "{device}");
    }
}
