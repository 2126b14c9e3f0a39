//! `RetinaFace` on ResNet-50 as `CoDL` (Jia et al., 2022) times it: see `codl.rs`.

use super::codl::{HALVE, STRIDED};
use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{PoolKind, Window};
use crate::workload::shape::{DataType, Padding, Shape};

/// 3x3 channels and number of bottleneck blocks of each backbone stage.
const STAGES: [(u32, u32); 4] = [(64, 3), (128, 4), (256, 6), (512, 3)];

/// What a bottleneck block's last convolution multiplies its channels by.
const EXPANSION: u32 = 4;

/// 3x3 channels and number of the block whose timed output, 20x18, is narrower
/// than what the next operator reads.
const NARROW_BLOCK: (u32, u32) = (512, 2);

/// Channels of every map of the feature pyramid.
const PYRAMID_CHANNELS: u32 = 256;

/// Channels of the convolutions over each map: the context module's three, a
/// further one, and the boxes (three anchors by four coordinates).
const HEAD_CHANNELS: [u32; 5] = [128, 64, 64, 256, 12];

/// Channels of the classification over each map: three anchors, two classes.
const CLASS_CHANNELS: u32 = 6;

pub(super) fn retinaface() -> Graph {
    let mut net = GraphBuilder::new("codl-retinaface", DataType::F32);
    let image = net.input(Shape::image(640, 640, 3));
    let features = backbone(&mut net, image);
    let maps = pyramid(&mut net, features);
    for (level, &map) in maps.iter().enumerate() {
        net.scope(format!("head{}", level + 1));
        for channels in HEAD_CHANNELS {
            net.conv(map, channels, Window::same(3));
        }
    }
    for (level, &map) in maps.iter().enumerate() {
        net.scope(format!("class{}", level + 1));
        net.conv(map, CLASS_CHANNELS, Window::same(3));
    }
    finish(net)
}

/// The backbone's maps of 160, 80, 40 and 20 rows. The first three stages halve
/// the extent in their last block (the first variant of ResNet-50), so the
/// finest map is the one before the first stage's last block.
fn backbone(net: &mut GraphBuilder, image: Source) -> [Source; 4] {
    net.scope("stem");
    let stem = net.conv(image, 64, Window::same(7).stride(2));
    let mut x = net.pool(stem, PoolKind::Max, HALVE);
    let mut finest = x;
    let mut outputs = [x; STAGES.len()];
    for (stage, (channels, blocks)) in STAGES.into_iter().enumerate() {
        for block in 1..=blocks {
            net.scope(format!("stage{}.block{block}", stage + 1));
            let halves = stage + 1 < STAGES.len() && block == blocks;
            if stage == 0 && halves {
                finest = x;
            }
            x = net.conv(x, channels, Window::same(1));
            x = net.conv(x, channels, middle_window(channels, block, halves));
            if (channels, block) == NARROW_BLOCK {
                x = net.input(Shape::image(20, 20, channels));
            }
            x = net.conv(x, channels * EXPANSION, Window::same(1));
        }
        outputs[stage] = x;
    }
    let [fine, middle, _, coarse] = outputs;
    [finest, fine, middle, coarse]
}

/// The 3x3 window of a bottleneck block, with the timed list's two oddities:
/// the third stage pads two rows where the others pad one, and the narrow
/// block does not pad its columns.
fn middle_window(channels: u32, block: u32, halves: bool) -> Window {
    match (channels, halves) {
        (256, true) => Window::same(3).stride(2),
        (_, true) => STRIDED,
        _ if (channels, block) == NARROW_BLOCK => Window::valid(3).padding(Padding::symmetric(1, 0)),
        _ => Window::same(3),
    }
}

/// The feature pyramid's maps, finest first. The sums of laterals and upsampled
/// maps are not timed, so the heads read the laterals; the coarsest map comes
/// from a convolution the artifact leaves out.
fn pyramid(net: &mut GraphBuilder, features: [Source; 4]) -> [Source; 5] {
    net.scope("pyramid");
    let [finest, fine, middle, coarse] = features;
    let coarse = net.conv(coarse, PYRAMID_CHANNELS, Window::same(1));
    let [middle, fine, finest] = [middle, fine, finest].map(|feature| {
        let extent = net.shape(feature).with_channels(PYRAMID_CHANNELS);
        let upsampled = net.input(extent);
        net.conv(upsampled, PYRAMID_CHANNELS, Window::same(3));
        net.conv(feature, PYRAMID_CHANNELS, Window::same(1))
    });
    let coarsest = net.input(Shape::image(10, 10, PYRAMID_CHANNELS));
    [finest, fine, middle, coarse, coarsest]
}
