//! The layers that are timed: products drawn from the ranges of EPEW'25, and other operators drawn
//! from those of mobile networks, so that every kernel table is covered.
//!
//! Invariant: the draw depends on the seed alone, and any prefix of it holds layers of every kind,
//! in case time runs out.

use coexec_sim::workload::{
    Concat, Conv2d, DataType, DepthwiseConv2d, Dimension, Elementwise, Function, Layer, Linear, MatMul, Mean,
    Norm, NormKind, Operator, Pool, PoolKind, Shape, Slice, Softmax, Transpose, Window, operator_set,
};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Draws an operator of one kind.
type Maker = fn(&mut ChaCha8Rng) -> Operator;

/// Number of layers drawn from each set of products, of depthwise convolutions, and of each other
/// kind.
const QUICK: [usize; 3] = [14, 8, 5];
const FULL: [usize; 3] = [160, 80, 30];

/// Image sizes in mobile networks.
const SIDES: [u32; 5] = [7, 14, 28, 56, 112];
/// Channels of their depthwise convolutions, poolings and sums.
const CHANNELS: [u32; 10] = [16, 24, 32, 64, 96, 144, 192, 320, 576, 960];
/// Tokens of transformers for images and short texts.
const TOKENS: [u32; 6] = [49, 64, 128, 197, 256, 512];
/// Attention heads, and features per head.
const HEADS: [u32; 4] = [3, 4, 6, 12];
pub(super) const HEAD: u32 = 64;
/// Most elements of a tensor of a memory-bound layer: 8 MB.
const MAX_ELEMENTS: u64 = 2 << 20;

/// The layers, with unique names, in the order in which they are timed. Those with more than
/// `most_macs` multiply-accumulates are excluded.
pub(super) fn sweep(quick: bool, seed: u64, most_macs: u64) -> Vec<(String, Layer)> {
    let [products, depthwise_convolutions, others] = if quick { QUICK } else { FULL };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let draw = |set: &str, random: &mut ChaCha8Rng| {
        let set = operator_set(set).expect("the set is one of those listed");
        let mut operators: Vec<Operator> = set
            .into_iter()
            .map(|(_, operator)| operator)
            .filter(|operator| operator.macs() <= most_macs)
            .collect();
        operators.shuffle(random);
        operators.truncate(products);
        operators
    };
    let mut kinds = vec![draw("epew-linear", &mut random), draw("epew-conv-same", &mut random)];
    let makers: [(usize, Maker); 14] = [
        (depthwise_convolutions, depthwise),
        (others, matrix_vector),
        (others, small_conv),
        (others, wide_conv),
        (others, grouped),
        (others, pool),
        (others, mean),
        (others, concat),
        (others + others / 2, elementwise),
        (others, batched_product),
        (others, softmax),
        (others, norm),
        (others, slice),
        (others, transpose),
    ];
    kinds.extend(makers.map(|(count, make)| made(count, make, most_macs, &mut random)));
    interleaved(kinds)
}

/// Up to `count` distinct operators drawn by `make`.
fn made(count: usize, make: Maker, most_macs: u64, random: &mut ChaCha8Rng) -> Vec<Operator> {
    /// Draws per wanted operator, after which no more are made.
    const DRAWS: usize = 50;
    let mut found: Vec<Operator> = Vec::with_capacity(count);
    for _ in 0..DRAWS * count {
        let operator = make(random);
        let fits = operator.check().is_ok()
            && operator.macs() <= most_macs
            && operator.output().elements() <= MAX_ELEMENTS
            && operator.inputs().iter().all(|shape| shape.elements() <= MAX_ELEMENTS);
        if fits && found.len() < count && !found.contains(&operator) {
            found.push(operator);
        }
    }
    found
}

/// One operator of each kind in turn, until none is left.
fn interleaved(kinds: Vec<Vec<Operator>>) -> Vec<(String, Layer)> {
    let longest = kinds.iter().map(Vec::len).max().unwrap_or(0);
    let mut turns: Vec<(usize, Operator)> = Vec::new();
    for kind in kinds {
        // A kind with few operators is spread over all turns.
        let count = kind.len();
        turns.extend(kind.into_iter().enumerate().map(|(index, one)| (index * longest / count, one)));
    }
    turns.sort_by_key(|&(turn, _)| turn);
    let named = |(number, (_, operator)): (usize, (usize, Operator))| {
        (format!("{} {number}", operator.name()), Layer::new(operator, DataType::F32))
    };
    turns.into_iter().enumerate().map(named).collect()
}

/// A uniformly random element.
pub(super) fn pick<T: Copy, const N: usize>(from: [T; N], random: &mut ChaCha8Rng) -> T {
    from[random.random_range(0..N)]
}

fn image(random: &mut ChaCha8Rng) -> Shape {
    let side = pick(SIDES, random);
    Shape::image(side, side, pick(CHANNELS, random))
}

fn depthwise(random: &mut ChaCha8Rng) -> Operator {
    let window = pick([3, 3, 5], random);
    DepthwiseConv2d::new(image(random), Window::same(window).stride(pick([1, 1, 2], random))).into()
}

fn matrix_vector(random: &mut ChaCha8Rng) -> Operator {
    let input_features = pick([64, 128, 256, 512, 960, 1_280, 2_048], random);
    let output_features = pick([16, 64, 128, 256, 512, 1_000, 2_048], random);
    Operator::Linear(Linear { rows: 1, input_features, output_features, bias: true })
}

fn conv(input: Shape, output_channels: u32, window: u32, stride: u32, groups: u32) -> Operator {
    Operator::Conv2d(Conv2d::new(input, output_channels, Window::same(window).stride(stride)).groups(groups))
}

/// The first layers of networks, and small 1x1 convolutions: launches with little arithmetic, and
/// weights that fit into constant memory.
fn small_conv(random: &mut ChaCha8Rng) -> Operator {
    let side = pick(SIDES, random);
    let [inputs, outputs] = [pick([3, 4, 8, 16], random), pick([8, 16, 24, 32], random)];
    conv(Shape::image(side, side, inputs), outputs, pick([1, 1, 3], random), pick([1, 2], random), 1)
}

/// 3x3 windows over many channels, for which Winograd's transform pays off; the ranges of EPEW'25
/// have none with so many pixels.
fn wide_conv(random: &mut ChaCha8Rng) -> Operator {
    let side = pick([24, 28, 48, 56], random);
    let [inputs, outputs] = [0, 0].map(|_| pick([64, 96, 128, 192], random));
    conv(Shape::image(side, side, inputs), outputs, 3, 1, 1)
}

fn grouped(random: &mut ChaCha8Rng) -> Operator {
    let [side, groups] = [pick([7, 14, 28], random), pick([2, 4, 8], random)];
    let channels = groups * pick([8, 16, 32], random);
    conv(Shape::image(side, side, channels), channels, 3, pick([1, 2], random), groups)
}

fn pool(random: &mut ChaCha8Rng) -> Operator {
    let [window, stride] = [pick([2, 3], random), pick([1, 2], random)];
    let kind = if random.random_bool(0.5) { PoolKind::Max } else { PoolKind::Average };
    Pool { kind, input: image(random), window: Window::same(window).stride(stride) }.into()
}

fn mean(random: &mut ChaCha8Rng) -> Operator {
    Operator::Mean(Mean { input: image(random) })
}

fn concat(random: &mut ChaCha8Rng) -> Operator {
    let count = random.random_range(2..5);
    let channels = (0..count).map(|_| pick([6, 8, 16, 32, 64, 96, 160], random)).collect();
    Operator::Concat(Concat::of_channels(image(random), channels))
}

fn elementwise(random: &mut ChaCha8Rng) -> Operator {
    // The model distinguishes three kinds of unary functions; these are the ones in mobile
    // networks.
    const FUNCTIONS: [Function; 6] = [
        Function::Add,
        Function::Multiply,
        Function::Relu,
        Function::HardSwish,
        Function::Silu,
        Function::Gelu,
    ];
    let function = pick(FUNCTIONS, random);
    let input = image(random);
    let other = function.is_binary().then(|| {
        let is_broadcast = function == Function::Multiply && random.random_bool(0.5);
        if is_broadcast { Shape::image(1, 1, input.channels) } else { input }
    });
    Operator::Elementwise(Elementwise { function, input, other })
}

/// Attention heads: queries by keys, or weights by values.
fn batched_product(random: &mut ChaCha8Rng) -> Operator {
    let tokens = pick(TOKENS, random);
    let [k, n] = if random.random_bool(0.5) { [HEAD, tokens] } else { [tokens, HEAD] };
    MatMul { images: 1, batch: pick(HEADS, random), m: tokens, k, n }.into()
}

/// Attention weights, or features.
fn softmax(random: &mut ChaCha8Rng) -> Operator {
    let input = tokens(random);
    let weights = Shape { batch: pick(HEADS, random), channels: input.width, ..input };
    Softmax { input: if random.random_bool(0.5) { weights } else { input } }.into()
}

fn norm(random: &mut ChaCha8Rng) -> Operator {
    Norm { kind: NormKind::Layer, input: tokens(random) }.into()
}

fn tokens(random: &mut ChaCha8Rng) -> Shape {
    Shape::tokens(pick(TOKENS, random), pick([64, 128, 192, 256, 384, 768], random))
}

/// A range of every token's features.
fn slice(random: &mut ChaCha8Rng) -> Operator {
    let input = tokens(random);
    Slice::of_channels(input, input.channels / 2, input.channels / 2).into()
}

/// Attention heads before tokens, or features before tokens.
fn transpose(random: &mut ChaCha8Rng) -> Operator {
    use Dimension::{Batch, Channels, Height, Width};
    const HEADS_FIRST: [Dimension; 4] = [Batch, Width, Height, Channels];
    const FEATURES_FIRST: [Dimension; 4] = [Batch, Height, Channels, Width];
    let input = tokens(random);
    if random.random_bool(0.5) {
        return Transpose { input, images: 1, order: FEATURES_FIRST }.into();
    }
    let heads = pick([2, 3, 4, 8], random);
    let input = Shape::image(input.width, heads, input.channels.div_ceil(heads));
    Transpose { input, images: 1, order: HEADS_FIRST }.into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// More than any drawn layer has.
    const UNLIMITED: u64 = 1 << 40;

    fn kinds(layers: &[(String, Layer)]) -> BTreeMap<&'static str, usize> {
        let mut kinds = BTreeMap::new();
        for (_, layer) in layers {
            *kinds.entry(layer.operator.name()).or_default() += 1;
        }
        kinds
    }

    #[test]
    fn a_draw_depends_on_its_seed_alone() {
        assert_eq!(sweep(true, 5, UNLIMITED), sweep(true, 5, UNLIMITED));
        assert_ne!(sweep(true, 5, UNLIMITED), sweep(true, 6, UNLIMITED));
    }

    #[test]
    fn any_first_quarter_holds_every_kind() {
        for quick in [true, false] {
            let all = sweep(quick, 1, UNLIMITED);
            let quarter = &all[..all.len() / 4];
            assert_eq!(kinds(quarter).len(), kinds(&all).len(), "{:?}", kinds(quarter));
        }
    }

    #[test]
    fn a_full_sweep_has_three_hundred_layers_and_a_quick_one_a_few_score() {
        assert!(sweep(false, 1, UNLIMITED).len() >= 300);
        assert!((40..110).contains(&sweep(true, 1, UNLIMITED).len()));
    }

    #[test]
    fn a_slow_device_gets_no_layer_that_takes_it_long() {
        let layers = sweep(false, 1, 5_000_000);
        assert!(layers.len() > 150);
        assert!(layers.iter().all(|(_, layer)| layer.operator.macs() <= 5_000_000));
    }
}
