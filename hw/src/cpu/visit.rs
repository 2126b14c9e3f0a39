//! What is computed for each pixel by the operators that are no products.

use std::ops::Range;

use coexec_sim::workload::NormKind;

use super::element::Element;
use super::instruction_set::Loops;
use super::pixelwise::Results;
use super::prepared::{Kind, Pass};
use super::{elementwise, normalise, pooling};

/// The operator itself, with bounds of its results, or a function linked behind
/// it.
pub(super) enum Step<'a, T> {
    Operator(&'a Kind<T>, Option<[T; 2]>),
    Pass(&'a Pass<T>),
}

/// A step for some of the results' pixels.
pub(super) struct Visit<'a, T: Element> {
    pub(super) step: &'a Step<'a, T>,
    pub(super) inputs: &'a [&'a [T]],
    pub(super) results: &'a Results<T>,
    /// Channels of the output tensor.
    pub(super) all_channels: usize,
    pub(super) pixels: Range<usize>,
}

impl<T> Step<'_, T> {
    /// Whether each channel can be computed by itself.
    pub(super) fn is_channelwise(&self) -> bool {
        match self {
            Self::Operator(Kind::Normalisation(norm), _) => norm.kind == NormKind::Batch,
            Self::Operator(Kind::Softmax, _) => false,
            _ => true,
        }
    }
}

impl<T: Element> Loops for Visit<'_, T> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let first = self.results.channels.start;
        let inputs = self.inputs;
        match self.step {
            Step::Operator(kind, clamp) => match kind {
                Kind::Depthwise(depthwise) => self.each(*clamp, |pixel, to| {
                    depthwise.pixel::<FUSED>(inputs[0], pixel, first, to);
                }),
                Kind::Pooling(pool) => self.each(*clamp, |pixel, to| {
                    pool.pixel(inputs[0], pixel, first, to);
                }),
                _ => self.run_simple(kind, *clamp),
            },
            Step::Pass(pass) => self.each(pass.clamp, |pixel, to| {
                let other = pass.input.map_or(&[][..], |input| self.operand(inputs[input], pixel, to.len()));
                elementwise::apply(pass.function, to, other);
            }),
        }
    }
}

impl<T: Element> Visit<'_, T> {
    #[inline(always)]
    fn run_simple(&self, kind: &Kind<T>, clamp: Option<[T; 2]>) {
        let (channels, first) = (self.all_channels, self.results.channels.start);
        let inputs = self.inputs;
        match kind {
            Kind::Mean(pixels) => self.each(clamp, |image, to| {
                let size = pixels * channels;
                pooling::mean(&inputs[0][image * size..(image + 1) * size], channels, first, to);
            }),
            Kind::Elementwise(function) => self.each(clamp, |pixel, to| {
                to.copy_from_slice(self.operand(inputs[0], pixel, to.len()));
                let other = inputs.get(1).map_or(&[][..], |input| self.operand(input, pixel, to.len()));
                // A function of one tensor ignores what a linked function reads.
                elementwise::apply(*function, to, other);
            }),
            Kind::Softmax => self.each(clamp, |pixel, to| {
                normalise::softmax(self.operand(inputs[0], pixel, to.len()), to);
            }),
            Kind::Normalisation(norm) => self.each(clamp, |pixel, to| {
                norm.pixel(self.operand(inputs[0], pixel, to.len()), first, to);
            }),
            Kind::Concat(widths) => self.each(clamp, |pixel, to| {
                join(inputs, widths, pixel, first, to);
            }),
            Kind::Slice(slice) => self.each(clamp, |pixel, to| {
                let start = pixel * slice.input.channels as usize + slice.first_channel as usize + first;
                to.copy_from_slice(&inputs[0][start..start + to.len()]);
            }),
            Kind::Reshape => self.each(clamp, |pixel, to| {
                to.copy_from_slice(self.operand(inputs[0], pixel, to.len()));
            }),
            Kind::Embedding(table) => self.each(clamp, |pixel, to| {
                let start = inputs[0][pixel].to_f32() as usize * channels + first;
                to.copy_from_slice(&table[start..start + to.len()]);
            }),
            Kind::Product(_) | Kind::BatchedProduct(_) | Kind::Depthwise(_) | Kind::Pooling(_) => {
                unreachable!("products are computed in blocks, windows by `run`")
            }
        }
    }

    #[inline(always)]
    fn each(&self, clamp: Option<[T; 2]>, mut compute: impl FnMut(usize, &mut [T])) {
        // SAFETY: whoever runs the visit vouches for the results; every thread has
        // pixels or channels of its own.
        unsafe {
            self.results.visit(self.pixels.clone(), |pixel, to| {
                compute(pixel, to);
                if let Some(bounds) = clamp {
                    elementwise::clamp(to, bounds);
                }
            });
        }
    }

    /// The channels of a pixel of a tensor like the output, or of one with a value a
    /// channel.
    #[inline(always)]
    fn operand<'b>(&self, tensor: &'b [T], pixel: usize, count: usize) -> &'b [T] {
        let pixel = if tensor.len() == self.all_channels { 0 } else { pixel };
        let start = pixel * self.all_channels + self.results.channels.start;
        &tensor[start..start + count]
    }
}

/// Copies the channels from `first` on of a pixel whose channels are those of the
/// inputs, one after the other.
fn join<T: Element>(inputs: &[&[T]], widths: &[usize], pixel: usize, first: usize, to: &mut [T]) {
    let mut start = 0;
    for (input, &width) in inputs.iter().zip(widths) {
        let [from, end] = [start.max(first), (start + width).min(first + to.len())];
        if from < end {
            let source = pixel * width + from - start;
            to[from - first..end - first].copy_from_slice(&input[source..source + end - from]);
        }
        start += width;
    }
}
