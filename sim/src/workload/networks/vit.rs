//! Vision transformers (Dosovitskiy et al., ICLR'21): ViT-Tiny/16 and ViT-B/32
//! for 224x224 images, with attention spelled out in operators.

use super::finish;
use crate::workload::graph::{Graph, GraphBuilder, Source};
use crate::workload::operator::{Function, NormKind, Slice, Window};
use crate::workload::shape::{DataType, Dimension, Shape};

/// Layers of both networks.
const LAYERS: u32 = 12;

/// Features inside the multi-layer perceptron, over those outside.
const MLP_EXPANSION: u32 = 4;

const CLASSES: u32 = 1000;

/// Rows of heads for each token become rows of tokens for each head.
const HEADS_FIRST: [Dimension; 4] =
    [Dimension::Width, Dimension::Batch, Dimension::Height, Dimension::Channels];

/// The same, with the tokens innermost.
const HEADS_FIRST_TURNED: [Dimension; 4] =
    [Dimension::Width, Dimension::Batch, Dimension::Channels, Dimension::Height];

/// And back.
const TOKENS_FIRST: [Dimension; 4] =
    [Dimension::Height, Dimension::Width, Dimension::Batch, Dimension::Channels];

/// Tokens of ViT-B/32: 7x7 patches and the class token.
const BASE_P32_TOKENS: u32 = 50;

const BASE_FEATURES: u32 = 768;

pub(super) fn tiny_p16() -> Graph {
    build("vit-tiny-p16", 16, 192, 3)
}

pub(super) fn base_p32() -> Graph {
    build("vit-b32", 32, BASE_FEATURES, 12)
}

/// The example of EPEW'25, figure 2: the linear layers of one block, fc1
/// 50x768 to 3072 and fc2 back to 768.
pub(super) fn base_p32_mlp() -> Graph {
    let mut net = GraphBuilder::new("vit-b32-mlp", DataType::F32);
    let tokens = net.input(Shape::tokens(BASE_P32_TOKENS, BASE_FEATURES));
    net.scope("mlp");
    mlp(&mut net, tokens);
    finish(net)
}

fn build(name: &str, patch: u32, features: u32, heads: u32) -> Graph {
    let mut net = GraphBuilder::new(name, DataType::F32);
    let image = net.input(Shape::image(224, 224, 3));
    let mut x = embed(&mut net, image, patch, features);
    for layer in 1..=LAYERS {
        net.scope(format!("layer{layer}.attention"));
        let attended = attention(&mut net, x, heads);
        x = net.add(attended, x);
        net.scope(format!("layer{layer}.mlp"));
        let normed = net.norm(x, NormKind::Layer);
        let mixed = mlp(&mut net, normed);
        x = net.add(mixed, x);
    }
    net.scope("head");
    x = net.norm(x, NormKind::Layer);
    // The class token is the first.
    let class = Slice { input: net.shape(x), dimension: Dimension::Width, first: 0, count: 1, step: 1 };
    x = net.operator("slice", class, &[x]);
    net.linear(x, CLASSES);
    finish(net)
}

/// Patches, preceded by the class token, plus a position each.
///
/// The class token and the positions are trained vectors that do not depend on
/// the image: look-ups whose indices are inputs of the graph.
fn embed(net: &mut GraphBuilder, image: Source, patch: u32, features: u32) -> Source {
    net.scope("embedding");
    let patches = net.conv(image, features, Window::valid(patch).stride(patch));
    let extent = net.shape(patches);
    let tokens = extent.height * extent.width + 1;
    let class_index = net.input(Shape::tokens(1, 1));
    let class = net.embedding(class_index, 1, features);
    let patches = net.reshape(patches, Shape::tokens(tokens - 1, features));
    let joined = net.concat_along(Dimension::Width, &[class, patches]);
    let position_indices = net.input(Shape::tokens(tokens, 1));
    let positions = net.embedding(position_indices, tokens, features);
    net.add(joined, positions)
}

/// Self-attention of `heads` heads; its scale is part of the query weights.
fn attention(net: &mut GraphBuilder, x: Source, heads: u32) -> Source {
    let Shape { width: tokens, channels: features, .. } = net.shape(x);
    let head_features = features / heads;
    let by_token = Shape::image(tokens, heads, head_features);

    let normed = net.norm(x, NormKind::Layer);
    let qkv = net.linear(normed, 3 * features);
    // Each head is a product of its own; the key's channels become its tokens.
    let [query, key, value] =
        [(0, HEADS_FIRST), (1, HEADS_FIRST_TURNED), (2, HEADS_FIRST)].map(|(part, order)| {
            let slice = net.slice(qkv, part * features, features);
            let heads = net.reshape(slice, by_token);
            net.transpose(heads, order)
        });
    let scores = net.matmul(query, key);
    let weights = net.softmax(scores);
    let mixed = net.matmul(weights, value);
    let mixed = net.transpose(mixed, TOKENS_FIRST);
    let mixed = net.reshape(mixed, Shape::tokens(tokens, features));
    net.linear(mixed, features)
}

fn mlp(net: &mut GraphBuilder, x: Source) -> Source {
    let features = net.shape(x).channels;
    let wide = net.linear(x, MLP_EXPANSION * features);
    let wide = net.activate(wide, Function::Gelu);
    net.linear(wide, features)
}
