//! Networks of inverted residual blocks: `MobileNetV2` (Sandler et al., CVPR'18, table 2) and
//! EfficientNet-B2 (Tan and Le, ICML'19): the B0 stages of table 1, widened
//! and deepened, with squeeze-and-excitation in each block.

use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{Function, Window};
use crate::workload::shape::{DataType, Shape};

/// Expansion, output channels, repetitions, first stride and depthwise kernel of a stage.
type Stage = (u32, u32, u32, u32, u32);

const MOBILENET_V2: [Stage; 7] = [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
];

const EFFICIENTNET_B0: [Stage; 7] = [
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
];

/// Channels of both networks' first convolution, before scaling.
const STEM_CHANNELS: u32 = 32;

/// Squeezed channels are the block's input channels divided by this.
const SQUEEZE: u32 = 4;

/// Channels after the last block, over those before.
const HEAD_EXPANSION: u32 = 4;

/// B2's width multiplier, 1.1, rounded to multiples of eight channels but not
/// below nine tenths of the exact width.
fn widened(channels: u32) -> u32 {
    let tenths = channels * 11;
    let rounded = ((tenths + 40) / 80 * 8).max(8);
    if rounded * 100 < tenths * 9 { rounded + 8 } else { rounded }
}

/// B2's depth multiplier, 1.2, rounded up.
fn deepened(repetitions: u32) -> u32 {
    (repetitions * 12).div_ceil(10)
}

pub(super) fn mobilenet_v2() -> Graph {
    let design = Design { activation: Function::Relu6, excites: false };
    design.build("mobilenet-v2", 224, STEM_CHANNELS, MOBILENET_V2)
}

/// At the resolution that it is evaluated at.
pub(super) fn efficientnet_b2() -> Graph {
    let design = Design { activation: Function::Silu, excites: true };
    let stages = EFFICIENTNET_B0.map(|(expansion, channels, repetitions, stride, kernel)| {
        (expansion, widened(channels), deepened(repetitions), stride, kernel)
    });
    design.build("efficientnet-b2", 288, widened(STEM_CHANNELS), stages)
}

/// What the blocks of a network have in common.
#[derive(Clone, Copy)]
struct Design {
    activation: Function,
    /// Whether channels are weighed before they are narrowed.
    excites: bool,
}

impl Design {
    fn build(self, name: &str, resolution: u32, stem: u32, stages: [Stage; 7]) -> Graph {
        let mut net = GraphBuilder::new(name, DataType::F32);
        let mut x = net.input(Shape::image(resolution, resolution, 3));
        net.scope("stem");
        x = self.conv(&mut net, x, stem, Window::same(3).stride(2));
        for (stage, (expansion, channels, repetitions, first_stride, kernel)) in
            stages.into_iter().enumerate()
        {
            for block in 0..repetitions {
                net.scope(format!("stage{}.block{}", stage + 1, block + 1));
                let window = Window::same(kernel).stride(if block == 0 { first_stride } else { 1 });
                x = self.block(&mut net, x, expansion, channels, window);
            }
        }
        net.scope("head");
        let channels = net.shape(x).channels * HEAD_EXPANSION;
        x = self.conv(&mut net, x, channels, Window::same(1));
        x = net.mean(x);
        net.linear(x, 1000);
        finish(net)
    }

    fn conv(self, net: &mut GraphBuilder, x: Source, channels: u32, window: Window) -> Source {
        let norm = net.conv_norm(x, channels, window);
        net.activate(norm, self.activation)
    }

    /// Widens, filters each channel, narrows without an activation.
    fn block(
        self,
        net: &mut GraphBuilder,
        x: Source,
        expansion: u32,
        channels: u32,
        window: Window,
    ) -> Source {
        let input_channels = net.shape(x).channels;
        let wide =
            if expansion == 1 { x } else { self.conv(net, x, input_channels * expansion, Window::same(1)) };
        let filtered = net.depthwise_norm(wide, window);
        let mut filtered = net.activate(filtered, self.activation);
        if self.excites {
            filtered = squeeze_and_excite(net, filtered, input_channels / SQUEEZE);
        }
        let narrow = net.conv_norm(filtered, channels, Window::same(1));
        if window.stride == [1, 1] && channels == input_channels { net.add(narrow, x) } else { narrow }
    }
}

/// Multiplies each channel by a weight computed from all channels' means.
fn squeeze_and_excite(net: &mut GraphBuilder, x: Source, squeezed: u32) -> Source {
    let mean = net.mean(x);
    let narrow = net.conv(mean, squeezed, Window::same(1));
    let narrow = net.activate(narrow, Function::Silu);
    let weights = net.conv(narrow, net.shape(x).channels, Window::same(1));
    let weights = net.activate(weights, Function::Sigmoid);
    net.multiply(x, weights)
}
