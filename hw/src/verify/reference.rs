//! The operators by their definitions, one element at a time.
//!
//! Shares no code with the kernels. Where a function has several variants (GELU, the divisor of
//! average pooling), it uses the kernels' variant.

use coexec_sim::workload::{
    Concat, Conv2d, DepthwiseConv2d, Function, Interpolation, MatMul, Mean, Norm, NormKind, Operator, Pick,
    Pool, PoolKind, Resize, SecondOperand, Shape, Window,
};

use super::Expected;
use crate::cpu::{NEIGHBOUR_OFFSET, NEIGHBOUR_POWER, VARIANCE_OFFSET};
use crate::operands::Weights;

impl Expected {
    /// A value that is copied, not computed.
    fn exact(value: f64) -> Self {
        Self { value, magnitude: value.abs(), terms: 1 }
    }

    fn sum(terms: impl Iterator<Item = f64>) -> Self {
        let none = Self { value: 0.0, magnitude: 0.0, terms: 0 };
        terms.fold(none, |sum, term| Self {
            value: sum.value + term,
            magnitude: sum.magnitude + term.abs(),
            terms: sum.terms + 1,
        })
    }

    /// The sum of the bias of `channel` and the products of inputs and weights.
    fn products(weights: Weights<'_>, channel: usize, factors: impl Iterator<Item = (f32, f32)>) -> Self {
        let bias = weights.bias.get(channel).copied().map_or(0.0, f64::from);
        let products = factors.map(|(input, weight)| f64::from(input) * f64::from(weight));
        Self::sum(std::iter::once(bias).chain(products))
    }

    /// The mean of the values; pixels in the padding are not among them.
    fn mean(values: impl Iterator<Item = f64>) -> Self {
        let Self { value, magnitude, terms } = Self::sum(values);
        let count = terms.max(1) as f64;
        Self { value: value / count, magnitude: magnitude / count, terms }
    }
}

/// An element of an operator's output, with the operands of the operator.
pub(super) struct Wanted<'a> {
    pub(super) weights: Weights<'a>,
    pub(super) inputs: &'a [&'a [f32]],
    /// Its pixel, counted over all images.
    pub(super) pixel: usize,
    pub(super) channel: usize,
}

impl Wanted<'_> {
    /// The element of the operator's output.
    pub(super) fn of(&self, operator: &Operator) -> Expected {
        let &Self { weights, inputs, pixel, channel } = self;
        let first = inputs[0];
        let copied = |value: f32| Expected::exact(f64::from(value));
        let picked = |pick: &Pick| {
            let at = position(operator.output(), pixel, channel).map(|position| position as u32);
            copied(pick.element(operator.output().batch, at).map_or(0.0, |element| first[element]))
        };
        match operator {
            Operator::Linear(l) => {
                let tokens = Shape::tokens(l.rows, l.input_features);
                self.conv2d(&Conv2d::new(tokens, l.output_features, Window::valid(1)))
            }
            Operator::MatMul(product) => self.matmul(product),
            Operator::Conv2d(conv) => self.conv2d(conv),
            Operator::DepthwiseConv2d(conv) => self.depthwise(conv),
            Operator::Pool(pool) => self.pool(pool),
            Operator::Mean(Mean { input }) => {
                let window = Window::of([input.height, input.width]);
                self.pool(&Pool { kind: PoolKind::Average, input: *input, window })
            }
            Operator::Concat(c) => {
                let channels = operator.output().channels as usize;
                copied(concat(c, inputs, pixel * channels + channel))
            }
            Operator::Elementwise(e) => {
                let channels = e.input.channels as usize;
                let other = e.other.map(|other| self.operand(1, e.input, other));
                apply(e.function, copied(first[pixel * channels + channel]), other)
            }
            Operator::Softmax(s) => softmax(self.channels(s.input), channel),
            Operator::Norm(norm) => normalise(norm, weights, self.channels(norm.input), channel),
            Operator::LocalResponseNorm(norm) => {
                local_response_norm(norm.size as usize, self.channels(norm.input), channel)
            }
            Operator::Embedding(table) => {
                let row = (first[pixel] as usize).min(table.vocabulary as usize - 1);
                copied(weights.kernel[row * table.features as usize + channel])
            }
            // A test checks each pick against the operator's definition.
            Operator::Slice(slice) => picked(&slice.pick()),
            Operator::Transpose(transpose) => picked(&transpose.pick()),
            Operator::Pad(pad) => picked(&pad.pick()),
            Operator::Resize(r) => resize(r, first, position(operator.output(), pixel, channel)),
            Operator::Generic(generic) => {
                let element = pixel as u64 * u64::from(generic.output.channels) + channel as u64;
                let read = |index: usize| {
                    generic.summed(index, element).map(move |from| f64::from(inputs[index][from as usize]))
                };
                Expected::sum((0..generic.passes).flat_map(|_| (0..inputs.len()).flat_map(read)))
            }
            // Nothing executes these, so their results are never compared.
            Operator::Recurrent(_) => Expected::sum(std::iter::empty()),
            Operator::Reshape(reshape) => copied(first[pixel * reshape.output.channels as usize + channel]),
        }
    }

    /// The element of input `input`, of extent `second`, beside that of a first operand of extent `first`.
    pub(super) fn operand(&self, input: usize, first: Shape, second: Shape) -> f64 {
        let pixel = SecondOperand::new(first, second).pixel(first, self.pixel);
        let channels = second.channels as usize;
        f64::from(self.inputs[input][pixel * channels + self.channel % channels])
    }

    fn matmul(&self, product: &MatMul) -> Expected {
        let &Self { inputs, pixel, channel: column, .. } = self;
        let [k, n] = [product.k, product.n].map(|extent| extent as usize);
        let head = pixel / product.m as usize;
        let factors =
            (0..k).map(|step| (inputs[0][pixel * k + step], inputs[1][(head * k + step) * n + column]));
        Expected::products(Weights::default(), column, factors)
    }

    fn conv2d(&self, conv: &Conv2d) -> Expected {
        let &Self { weights, inputs, pixel, channel } = self;
        let channels = conv.input.channels as usize;
        let depth = channels / conv.groups as usize;
        let group = channel / (conv.output_channels / conv.groups) as usize;
        let [kernel_height, kernel_width] = conv.window.kernel.map(|extent| extent as usize);
        let window = windowed([conv.input, conv.output()], conv.window, pixel);
        let factors = window.flat_map(|(from, [row, column])| {
            let first_weight = ((channel * kernel_height + row) * kernel_width + column) * depth;
            (0..depth).map(move |k| {
                (inputs[0][from * channels + group * depth + k], weights.kernel[first_weight + k])
            })
        });
        Expected::products(weights, channel, factors)
    }

    fn depthwise(&self, conv: &DepthwiseConv2d) -> Expected {
        let &Self { weights, inputs: operands, pixel, channel } = self;
        let [inputs, multiplier] = [conv.input.channels, conv.multiplier].map(|extent| extent as usize);
        let outputs = inputs * multiplier;
        let factors =
            windowed([conv.input, conv.output()], conv.window, pixel).map(|(from, [row, column])| {
                let weight = (row * conv.window.kernel[1] as usize + column) * outputs + channel;
                (operands[0][from * inputs + channel / multiplier], weights.kernel[weight])
            });
        Expected::products(weights, channel, factors)
    }

    fn pool(&self, pool: &Pool) -> Expected {
        let channels = pool.input.channels as usize;
        let values = windowed([pool.input, pool.output()], pool.window, self.pixel)
            .map(|(from, _)| f64::from(self.inputs[0][from * channels + self.channel]));
        match pool.kind {
            PoolKind::Max => {
                let (largest, terms) = values
                    .fold((f64::NEG_INFINITY, 0), |(largest, terms), value| (largest.max(value), terms + 1));
                Expected { terms, ..Expected::exact(largest) }
            }
            PoolKind::Average => Expected::mean(values),
        }
    }

    /// The channels of the same pixel of the first input, of `shape`.
    fn channels(&self, shape: Shape) -> &[f32] {
        let channels = shape.channels as usize;
        &self.inputs[0][self.pixel * channels..(self.pixel + 1) * channels]
    }
}

fn resize(resize: &Resize, input: &[f32], [image, row, column, channel]: [usize; 4]) -> Expected {
    let extents = [(row, resize.input.height, resize.height), (column, resize.input.width, resize.width)];
    let at =
        |row: usize, column: usize| f64::from(input[number(resize.input, [image, row, column, channel])]);
    match resize.interpolation {
        Interpolation::Nearest => {
            let [row, column] = extents.map(|(at, from, to)| at * from as usize / to as usize);
            Expected::exact(at(row, column))
        }
        Interpolation::Bilinear => {
            let around = extents.map(|(at, from, to)| {
                let place = (at as f64 + 0.5) * f64::from(from) / f64::from(to) - 0.5;
                let place = place.clamp(0.0, f64::from(from - 1));
                let before = place.floor();
                [
                    (before as usize, 1.0 - place + before),
                    ((before as usize + 1).min(from as usize - 1), place - before),
                ]
            });
            let terms = around[0].iter().flat_map(|row| around[1].iter().map(move |column| (row, column)));
            Expected::sum(terms.map(|(row, column)| row.1 * column.1 * at(row.0, column.0)))
        }
    }
}

/// Image, row, column and channel of an output element.
fn position(shape: Shape, pixel: usize, channel: usize) -> [usize; 4] {
    let [height, width] = [shape.height, shape.width].map(|extent| extent as usize);
    [pixel / (height * width), pixel / width % height, pixel % width, channel]
}

/// Index of an element in a dense tensor.
fn number(shape: Shape, [image, row, column, channel]: [usize; 4]) -> usize {
    let [height, width, channels] = [shape.height, shape.width, shape.channels].map(|extent| extent as usize);
    ((image * height + row) * width + column) * channels + channel
}

/// Applies `function` to a result, and to another tensor's element if it is binary. The magnitude
/// is scaled by the function's steepest slope.
pub(super) fn apply(function: Function, result: Expected, other: Option<f64>) -> Expected {
    let x = result.value;
    let other = other.unwrap_or(0.0);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let relu6 = |x: f64| x.clamp(0.0, 6.0);
    let (value, slope) = match function {
        Function::Add => (x + other, 1.0),
        Function::Multiply => (x * other, other.abs()),
        Function::Divide => (x / other, 1.0 / other.abs()),
        Function::Prelu => (x.max(0.0) + other * x.min(0.0), other.abs().max(1.0)),
        Function::Relu => (x.max(0.0), 1.0),
        Function::Relu6 => (relu6(x), 1.0),
        Function::HardSwish => (x * relu6(x + 3.0) / 6.0, 1.5),
        Function::HardSigmoid => (relu6(x + 3.0) / 6.0, 1.0 / 6.0),
        Function::Sigmoid => (sigmoid(x), 0.25),
        Function::Silu => (x * sigmoid(x), 1.1),
        Function::Gelu => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
            (0.5 * x * (1.0 + inner.tanh()), 1.13)
        }
        Function::Tanh => (x.tanh(), 1.0),
    };
    // Drivers may compute tanh from an exponential, as a difference of values near 1.
    let rounded = if function == Function::Tanh { 1.0 } else { value.abs() };
    Expected { value, magnitude: slope * result.magnitude + rounded, terms: result.terms }
}

/// The input pixels under a window, each with its row and column in the window; padding is skipped.
fn windowed(
    [input, output]: [Shape; 2],
    Window { kernel, stride, dilation, padding }: Window,
    pixel: usize,
) -> impl Iterator<Item = (usize, [usize; 2])> {
    let [width, height] = [output.width, output.height].map(|extent| extent as usize);
    let image = pixel / (width * height);
    let [row, column] = [pixel / width % height, pixel % width].map(|at| at as u32);
    let position = move |at: u32, axis: usize, tap: u32, before: u32| {
        i64::from(at) * i64::from(stride[axis]) + i64::from(tap) * i64::from(dilation[axis])
            - i64::from(before)
    };
    (0..kernel[0]).flat_map(move |tap_row| {
        (0..kernel[1]).filter_map(move |tap_column| {
            let y = position(row, 0, tap_row, padding.top);
            let x = position(column, 1, tap_column, padding.left);
            let inside =
                (0..i64::from(input.height)).contains(&y) && (0..i64::from(input.width)).contains(&x);
            let [height, width] = [input.height as usize, input.width as usize];
            inside.then(|| {
                ((image * height + y as usize) * width + x as usize, [tap_row as usize, tap_column as usize])
            })
        })
    })
}

fn concat(concat: &Concat, inputs: &[&[f32]], element: usize) -> f32 {
    let round = concat.runs().sum::<u64>() as usize;
    let (rounds, mut place) = (element / round, element % round);
    for (input, run) in inputs.iter().zip(concat.runs()) {
        let run = run as usize;
        if place < run {
            return input[rounds * run + place];
        }
        place -= run;
    }
    f32::NAN
}

fn softmax(values: &[f32], channel: usize) -> Expected {
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let distance = |value: f32| f64::from(value) - f64::from(largest);
    let sum: f64 = values.iter().map(|&value| distance(value).exp()).sum();
    let value = distance(values[channel]).exp() / sum;
    // The relative error of an exponential grows with the magnitude of its argument.
    let magnitude = value * (1.0 - distance(values[channel]));
    Expected { value, magnitude, terms: values.len() as u64 }
}

fn normalise(norm: &Norm, weights: Weights<'_>, values: &[f32], channel: usize) -> Expected {
    let count = values.len() as f64;
    let mean = match norm.kind {
        NormKind::Layer | NormKind::LayerInSteps => values.iter().map(|&x| f64::from(x)).sum::<f64>() / count,
        NormKind::Rms | NormKind::Batch => 0.0,
    };
    let (factor, terms) = match norm.kind {
        NormKind::Batch => (1.0, 1),
        NormKind::Layer | NormKind::LayerInSteps | NormKind::Rms => {
            let squares = values.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>();
            (1.0 / (squares / count + f64::from(VARIANCE_OFFSET)).sqrt(), values.len() as u64)
        }
    };
    let scale = factor * f64::from(weights.kernel[channel]);
    let shift = weights.bias.get(channel).copied().map_or(0.0, f64::from);
    let x = f64::from(values[channel]);
    Expected {
        value: (x - mean) * scale + shift,
        magnitude: (x.abs() + mean.abs()) * scale.abs() + shift.abs(),
        terms,
    }
}

fn local_response_norm(size: usize, values: &[f32], channel: usize) -> Expected {
    let (first, end) = (channel.saturating_sub((size - 1) / 2), channel + size / 2 + 1);
    let squares: f64 = values[first..end.min(values.len())].iter().map(|&x| f64::from(x).powi(2)).sum();
    let x = f64::from(values[channel]);
    let value = x * (squares / size as f64 + f64::from(NEIGHBOUR_OFFSET)).powf(f64::from(NEIGHBOUR_POWER));
    Expected { value, magnitude: x.abs() + value.abs(), terms: size as u64 }
}
