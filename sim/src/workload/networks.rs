//! The networks of the papers, at batch 1 and in 32-bit floating point.
//!
//! Responsible for: the operators of each network and their order. Not for:
//! trained weights, or importing models from files.
//! Invariant: layer lists, parameter counts and multiply-accumulates are those
//! of the published networks; tests hold them to committed lists.

use super::graph::{Graph, GraphBuilder};

mod codl;
mod inception;
mod mobile;
mod resnet;
mod retinaface;
mod vgg;
mod vit;

/// A bundled network: its name, one line about it, and what builds it.
pub type Network = (&'static str, &'static str, fn() -> Graph);

/// All bundled networks.
pub const NETWORKS: &[Network] = &[
    ("vgg16", "VGG-16 image classifier, 224x224", vgg::vgg16),
    ("resnet18", "ResNet-18 image classifier, 224x224", resnet::resnet18),
    ("resnet34", "ResNet-34 image classifier, 224x224", resnet::resnet34),
    ("resnet50", "ResNet-50 v1.5 image classifier, 224x224", resnet::resnet50),
    ("inception-v3", "Inception-v3 image classifier without its auxiliary head, 299x299", inception::v3),
    (
        "inception-v3-square",
        "Inception-v3 with square windows where it has rows and columns, 299x299",
        inception::v3_square,
    ),
    ("mobilenet-v2", "MobileNetV2 image classifier, 224x224", mobile::mobilenet_v2),
    ("efficientnet-b2", "EfficientNet-B2 image classifier, 288x288", mobile::efficientnet_b2),
    ("vit-tiny-p16", "ViT-Tiny/16 vision transformer, 224x224", vit::tiny_p16),
    ("vit-b32", "ViT-B/32 vision transformer, 224x224", vit::base_p32),
    ("vit-b32-mlp", "The two linear layers of one ViT-B/32 block, 50 tokens", vit::base_p32_mlp),
    ("codl-retinaface", "RetinaFace face detector as CoDL times it, 640x640", retinaface::retinaface),
    ("codl-yolov2", "YOLOv2 object detector as CoDL times it, 416x416", codl::yolov2),
    ("codl-vgg16", "VGG-16 image classifier as CoDL times it, 224x224", codl::vgg16),
    ("codl-posenet", "PoseNet pose estimator as CoDL times it, 256x256", codl::posenet),
    ("codl-fast-style-transfer", "Fast style transfer as CoDL times it, 480x640", codl::fast_style_transfer),
];

/// The bundled network called `name`, in whatever case; `None` where there is none.
pub fn network(name: &str) -> Option<Graph> {
    NETWORKS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).map(|(_, _, build)| build())
}

fn finish(builder: GraphBuilder) -> Graph {
    builder.build().expect("a test builds every bundled network")
}

#[cfg(test)]
mod tests;
