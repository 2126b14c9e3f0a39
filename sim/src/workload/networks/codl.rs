//! The networks of `CoDL` (Jia et al., 2022) as its artifact times them.
//!
//! The artifact runs convolutions, pools and linear layers in sequence, without
//! activations, residual sums, concatenations or transposed convolutions, on
//! inputs that already carry their padding. Here the padding is the operator's,
//! so that results chain; a tensor that an untimed operator would write is an
//! input of the graph. Oddities of the timed lists are kept and named.

use super::{finish, vgg};
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{PoolKind, Window};
use crate::workload::shape::{DataType, Padding, Shape};

/// Half-extent pooling.
pub(super) const HALVE: Window = Window::valid(2).stride(2);

/// A 3x3 window of stride 2 that halves an even extent ("SAME").
pub(super) const STRIDED: Window =
    Window::valid(3).stride(2).padding(Padding { top: 0, bottom: 1, left: 0, right: 1 });

pub(super) fn vgg16() -> Graph {
    vgg::build("codl-vgg16", None)
}

/// Padded convolutions in a row: channels and kernel of each.
fn convs(net: &mut GraphBuilder, x: Source, layers: &[(u32, u32)]) -> Source {
    layers.iter().fold(x, |x, &(channels, kernel)| net.conv(x, channels, Window::same(kernel)))
}

/// `YOLOv2` on Darknet-19. The last two layers are timed with swapped channels:
/// 1024 to 1536 and 125 to 1024.
pub(super) fn yolov2() -> Graph {
    /// Channels and kernels between one pool and the next.
    const BLOCKS: [&[(u32, u32)]; 5] = [
        &[(32, 3)],
        &[(64, 3)],
        &[(128, 3), (64, 1), (128, 3)],
        &[(256, 3), (128, 1), (256, 3)],
        &[(512, 3), (256, 1), (512, 3), (256, 1), (512, 3)],
    ];
    const LAST: &[(u32, u32)] =
        &[(1024, 3), (512, 1), (1024, 3), (512, 1), (1024, 3), (1024, 3), (1024, 3), (1536, 3)];
    let mut net = GraphBuilder::new("codl-yolov2", DataType::F32);
    let mut x = net.input(Shape::image(416, 416, 3));
    for (block, layers) in BLOCKS.into_iter().enumerate() {
        net.scope(format!("block{}", block + 1));
        x = convs(&mut net, x, layers);
        x = net.pool(x, PoolKind::Max, HALVE);
    }
    net.scope("head");
    convs(&mut net, x, LAST);
    let detections = net.input(Shape::image(13, 13, 125));
    convs(&mut net, detections, &[(1024, 3)]);
    finish(net)
}

/// `PoseNet`: a VGG-19 front, one stage of predictions and two that refine them.
pub(super) fn posenet() -> Graph {
    const FRONT: [&[(u32, u32)]; 3] =
        [&[(64, 3), (64, 3)], &[(128, 3), (128, 3)], &[(256, 3), (256, 3), (256, 3), (256, 3)]];
    const FIRST_STAGE: &[(u32, u32)] =
        &[(512, 3), (512, 3), (256, 3), (256, 3), (256, 3), (256, 3), (128, 3), (512, 1), (21, 1)];
    const LATER_STAGE: &[(u32, u32)] = &[(128, 7), (128, 7), (128, 7), (128, 7), (128, 7), (128, 1), (21, 1)];
    let mut net = GraphBuilder::new("codl-posenet", DataType::F32);
    let mut x = net.input(Shape::image(256, 256, 3));
    for (block, layers) in FRONT.into_iter().enumerate() {
        net.scope(format!("block{}", block + 1));
        x = convs(&mut net, x, layers);
        x = net.pool(x, PoolKind::Max, HALVE);
    }
    net.scope("stage1");
    convs(&mut net, x, FIRST_STAGE);
    for stage in 2..=3 {
        net.scope(format!("stage{stage}"));
        // 128 features and 21 predictions, joined by an untimed concatenation.
        let joined = net.input(Shape::image(32, 32, 149));
        convs(&mut net, joined, LATER_STAGE);
    }
    finish(net)
}

/// Fast style transfer: 14 convolutions; the two transposed ones are not timed.
pub(super) fn fast_style_transfer() -> Graph {
    /// 3x3 convolutions of 128 channels in the residual blocks.
    const RESIDUAL_LAYERS: u32 = 10;
    let mut net = GraphBuilder::new("codl-fast-style-transfer", DataType::F32);
    let mut x = net.input(Shape::image(480, 640, 3));
    net.scope("encoder");
    x = net.conv(x, 32, Window::same(9));
    x = net.conv(x, 64, STRIDED);
    x = net.conv(x, 128, STRIDED);
    net.scope("residual");
    for _ in 0..RESIDUAL_LAYERS {
        x = net.conv(x, 128, Window::same(3));
    }
    net.scope("decoder");
    let upsampled = net.input(Shape::image(480, 640, 32));
    net.conv(upsampled, 3, Window::same(9));
    finish(net)
}
