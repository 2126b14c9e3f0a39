//! The convolutions with which `CoDL` (Jia et al., 2022) profiles processors: those of its
//! five networks as published, which differ from those that the artifact times.

use super::conv;
use crate::workload::operator::Operator;
use crate::workload::{Shape, network};

const NETWORKS: [&str; 5] =
    ["codl-yolov2", "codl-posenet", "codl-vgg16", "codl-fast-style-transfer", "codl-retinaface"];

/// Input extent, output channels, kernel and stride of the profiled convolutions that
/// are in no timed list: the last two of `YOLOv2`, with their channels in order, and of
/// `RetinaFace` the four shortcut convolutions, the padded convolution in place of the narrow
/// one, and the one that writes the coarsest map.
const UNTIMED: [(Shape, u32, u32, u32); 8] = [
    (Shape::image(13, 13, 1536), 1024, 3, 1),
    (Shape::image(13, 13, 1024), 125, 1, 1),
    (Shape::image(160, 160, 64), 256, 1, 1),
    (Shape::image(80, 80, 256), 512, 1, 1),
    (Shape::image(40, 40, 512), 1024, 1, 1),
    (Shape::image(20, 20, 1024), 2048, 1, 1),
    (Shape::image(20, 20, 512), 512, 3, 1),
    (Shape::image(20, 20, 256), 256, 3, 2),
];

/// Input channels and output extent of the timed convolutions that are not
/// profiled: the last two of `YOLOv2`, and the narrow one of `RetinaFace`.
const ONLY_TIMED: [(u32, Shape); 3] =
    [(1024, Shape::image(13, 13, 1536)), (125, Shape::image(13, 13, 1024)), (512, Shape::image(20, 18, 512))];

pub(super) fn convs() -> Vec<(String, Operator)> {
    let mut found = Vec::new();
    for name in NETWORKS {
        let graph = network(name).expect("the five networks are bundled");
        for node in graph.nodes() {
            let Operator::Conv2d(conv) = &node.operator else { continue };
            if !ONLY_TIMED.contains(&(conv.input.channels, conv.output())) {
                found.push((format!("{name} {}", node.name), node.operator.clone()));
            }
        }
    }
    let untimed = |(input, output, kernel, stride)| conv(input, output, kernel, stride, u32::div_ceil);
    found.extend(UNTIMED.into_iter().map(untimed));
    found
}
