//! `MobileNetV2` (Sandler et al., CVPR'18, table 2).

use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{Function, Window};
use crate::workload::shape::{DataType, Shape};

/// Expansion, output channels, repetitions and first stride of each stage.
const STAGES: [(u32, u32, u32, u32); 7] = [
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
];

pub(super) fn v2() -> Graph {
    let mut net = GraphBuilder::new("mobilenet-v2", DataType::F32);
    let mut x = net.input(Shape::image(224, 224, 3));
    net.scope("stem");
    x = conv_relu6(&mut net, x, 32, Window::same(3).stride(2));
    for (stage, (expansion, channels, repetitions, first_stride)) in STAGES.into_iter().enumerate() {
        for block in 0..repetitions {
            net.scope(format!("stage{}.block{}", stage + 1, block + 1));
            let stride = if block == 0 { first_stride } else { 1 };
            x = inverted_residual(&mut net, x, expansion, channels, stride);
        }
    }
    net.scope("head");
    x = conv_relu6(&mut net, x, 1280, Window::same(1));
    x = net.mean(x);
    net.linear(x, 1000);
    finish(net)
}

fn conv_relu6(net: &mut GraphBuilder, x: Source, channels: u32, window: Window) -> Source {
    let norm = net.conv_norm(x, channels, window);
    net.activate(norm, Function::Relu6)
}

/// Widens, filters each channel, narrows without an activation.
fn inverted_residual(
    net: &mut GraphBuilder,
    x: Source,
    expansion: u32,
    channels: u32,
    stride: u32,
) -> Source {
    let input_channels = net.shape(x).channels;
    let wide =
        if expansion == 1 { x } else { conv_relu6(net, x, input_channels * expansion, Window::same(1)) };
    let filtered = net.depthwise_norm(wide, Window::same(3).stride(stride));
    let filtered = net.activate(filtered, Function::Relu6);
    let narrow = net.conv_norm(filtered, channels, Window::same(1));
    if stride == 1 && channels == input_channels { net.add(narrow, x) } else { narrow }
}
