use super::*;
use crate::kernel::cpu::CoreSet;
use crate::plan::synchronisation::Mechanism;
use crate::plan::{Plan, cuts};
use crate::workload::{DataType, GraphBuilder, Window, fuse};

/// Rows of a result of 32x32 pixels of 8 four-byte numbers.
const ROW: u64 = 32 * 8 * 4;

fn crossing(placements: &[Placement; 2]) -> Crossing {
    let mut net = GraphBuilder::new("two convolutions", DataType::F32);
    let input = net.input(Shape::image(32, 32, 8));
    let x = net.conv(input, 8, Window::same(3));
    net.conv(x, 8, Window::same(3));
    let stages = fuse(&net.build().unwrap());
    let plan = Plan::new(Mechanism::SvmPolling, placements.to_vec());
    crossings(&stages, placements, &cuts(&stages, &plan))[0]
}

fn rows(cpu_rows: u32) -> Placement {
    Placement::HeightSplit { cores: cores(), cpu_rows, gpu_rows: 32 - cpu_rows }
}

fn channels(cpu_channels: u32) -> Placement {
    Placement::Split { cores: cores(), cpu_channels, gpu_channels: 8 - cpu_channels }
}

fn cores() -> CoreSet {
    let profile = crate::device::profile::Profile::load("pixel4").unwrap();
    CoreSet::fastest(&profile.cpu, 1).unwrap()
}

fn bytes(cpu: u64, gpu: u64) -> Crossing {
    [Bytes(cpu), Bytes(gpu), Bytes::ZERO]
}

#[test]
fn along_the_height_only_halos_cross() {
    assert_eq!(crossing(&[rows(12), rows(12)]), bytes(ROW, ROW));
}

#[test]
fn along_channels_everything_crosses() {
    assert_eq!(crossing(&[channels(2), channels(2)]), bytes(32 * ROW * 6 / 8, 32 * ROW * 2 / 8));
}

#[test]
fn one_processor_hands_the_other_what_its_part_reads() {
    assert_eq!(crossing(&[Placement::Gpu, rows(12)]), bytes(13 * ROW, 0));
    assert_eq!(crossing(&[Placement::Gpu, channels(2)]), bytes(32 * ROW, 0));
    assert_eq!(crossing(&[rows(12), Placement::Gpu]), bytes(0, 12 * ROW));
    assert_eq!(crossing(&[Placement::Gpu, Placement::Gpu]), bytes(0, 0));
}
