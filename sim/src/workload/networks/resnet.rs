//! ResNet-18, -34 and -50 (He et al., CVPR'16, table 1). The 50-layer network
//! is the v1.5 variant, which strides in the 3x3 convolution.

use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{Function, PoolKind, Window};
use crate::workload::shape::{DataType, Padding, Shape};

/// Channels of the four stages' 3x3 convolutions.
const STAGE_CHANNELS: [u32; 4] = [64, 128, 256, 512];

/// What a bottleneck block's last convolution multiplies its channels by.
const BOTTLENECK_EXPANSION: u32 = 4;

#[derive(Clone, Copy)]
enum Block {
    Basic,
    Bottleneck,
}

pub(super) fn resnet18() -> Graph {
    build("resnet18", [2, 2, 2, 2], Block::Basic)
}

pub(super) fn resnet34() -> Graph {
    build("resnet34", [3, 4, 6, 3], Block::Basic)
}

pub(super) fn resnet50() -> Graph {
    build("resnet50", [3, 4, 6, 3], Block::Bottleneck)
}

fn build(name: &str, blocks: [u32; 4], kind: Block) -> Graph {
    let mut net = GraphBuilder::new(name, DataType::F32);
    let mut x = net.input(Shape::image(224, 224, 3));
    net.scope("stem");
    x = net.conv_norm_relu(x, 64, Window::same(7).stride(2));
    x = net.pool(x, PoolKind::Max, Window::valid(3).stride(2).padding(Padding::symmetric(1, 1)));
    for (stage, (channels, count)) in STAGE_CHANNELS.into_iter().zip(blocks).enumerate() {
        for block in 0..count {
            net.scope(format!("stage{}.block{}", stage + 1, block + 1));
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            x = residual(&mut net, x, channels, stride, kind);
        }
    }
    net.scope("classifier");
    x = net.mean(x);
    net.linear(x, 1000);
    finish(net)
}

/// A residual block; its shortcut is a convolution where the extent changes.
fn residual(net: &mut GraphBuilder, x: Source, channels: u32, stride: u32, kind: Block) -> Source {
    let (main, output_channels) = match kind {
        Block::Basic => {
            let main = net.conv_norm_relu(x, channels, Window::same(3).stride(stride));
            (net.conv_norm(main, channels, Window::same(3)), channels)
        }
        Block::Bottleneck => {
            let wide = channels * BOTTLENECK_EXPANSION;
            let main = net.conv_norm_relu(x, channels, Window::same(1));
            let main = net.conv_norm_relu(main, channels, Window::same(3).stride(stride));
            (net.conv_norm(main, wide, Window::same(1)), wide)
        }
    };
    let shortcut = if stride != 1 || net.shape(x).channels != output_channels {
        net.conv_norm(x, output_channels, Window::same(1).stride(stride))
    } else {
        x
    };
    let sum = net.add(main, shortcut);
    net.activate(sum, Function::Relu)
}
