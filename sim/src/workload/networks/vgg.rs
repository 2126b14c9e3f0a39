//! VGG-16 (Simonyan and Zisserman, ICLR'15, table 1, configuration D).

use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{Function, PoolKind, Window};
use crate::workload::shape::{DataType, Shape};

/// Channels and number of the 3x3 convolutions in each block.
const BLOCKS: [(u32, u32); 5] = [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)];

/// Features of the linear layers, the last one's being the classes.
const FEATURES: [u32; 3] = [4096, 4096, 1000];

pub(super) fn vgg16() -> Graph {
    build("vgg16", Some(Function::Relu))
}

/// The network, with `activation` after all layers but the last.
pub(super) fn build(name: &str, activation: Option<Function>) -> Graph {
    let mut net = GraphBuilder::new(name, DataType::F32);
    let activate = |net: &mut GraphBuilder, x: Source| match activation {
        Some(function) => net.activate(x, function),
        None => x,
    };
    let mut x = net.input(Shape::image(224, 224, 3));
    for (block, (channels, convolutions)) in BLOCKS.into_iter().enumerate() {
        net.scope(format!("block{}", block + 1));
        for _ in 0..convolutions {
            x = net.conv(x, channels, Window::same(3));
            x = activate(&mut net, x);
        }
        x = net.pool(x, PoolKind::Max, Window::valid(2).stride(2));
    }
    net.scope("classifier");
    x = net.flatten(x);
    for (layer, features) in FEATURES.into_iter().enumerate() {
        x = net.linear(x, features);
        if layer + 1 < FEATURES.len() {
            x = activate(&mut net, x);
        }
    }
    finish(net)
}
