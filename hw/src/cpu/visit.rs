//! What is computed for each pixel by the operators that are no products.

use std::ops::Range;

use super::element::Element;
use super::instruction_set::Loops;
use super::pixelwise::Results;
use super::prepared::{Implementation, Pass};
use super::vector::Vector;
use super::{elementwise, normalise, pooling};

/// The operator itself, with bounds of its results, or a function linked behind
/// it.
pub(super) enum Computation<'a, T> {
    Operator(&'a Implementation<T>, Option<[T; 2]>),
    Pass(&'a Pass<T>),
}

/// A step for some of the results' pixels.
pub(super) struct Visit<'a, T: Element> {
    pub(super) step: &'a Computation<'a, T>,
    pub(super) inputs: &'a [&'a [T]],
    pub(super) results: &'a Results<T>,
    /// Channels of the output tensor.
    pub(super) all_channels: usize,
    pub(super) pixels: Range<usize>,
}

impl<T: Element> Loops<T> for Visit<'_, T> {
    // The step is chosen anew for each pixel: loops of its own for each step would be
    // closures, which may be compiled apart from here and then lack the vectors.
    #[inline(always)]
    unsafe fn run<V: Vector<T>>(self) {
        for index in self.pixels.clone() {
            // SAFETY: whoever runs the visit vouches for the results; every thread has
            // pixels or channels of its own.
            let (pixel, to) = unsafe { self.results.pixel(index) };
            let clamp = match self.step {
                Computation::Operator(kind, clamp) => {
                    // SAFETY: the caller vouches for the instructions.
                    unsafe { self.compute::<V>(kind, pixel, to) };
                    *clamp
                }
                Computation::Pass(pass) => {
                    let other = pass.input.map_or(&[][..], |input| self.operand(input, pixel, to.len()));
                    elementwise::apply(pass.function, to, other);
                    pass.clamp
                }
            };
            if let Some(bounds) = clamp {
                elementwise::clamp(to, bounds);
            }
        }
    }
}

impl<T: Element> Visit<'_, T> {
    /// Computes the channels `to` of a pixel.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn compute<V: Vector<T>>(&self, kind: &Implementation<T>, pixel: usize, to: &mut [T]) {
        let (channels, first) = (self.all_channels, self.results.channels.start);
        let inputs = self.inputs;
        match kind {
            // SAFETY: the caller vouches for the instructions.
            Implementation::Depthwise(depthwise) => unsafe {
                depthwise.pixel::<V>(inputs[0], pixel, first, to);
            },
            // SAFETY: the caller vouches for the instructions.
            Implementation::Pooling(pool) => unsafe { pool.pixel::<T, V>(inputs[0], pixel, first, to) },
            Implementation::Mean(pixels) => {
                let size = pixels * channels;
                let image = &inputs[0][pixel * size..(pixel + 1) * size];
                // SAFETY: the caller vouches for the instructions.
                unsafe { pooling::mean::<T, V>(image, channels, first, to) };
            }
            Implementation::Elementwise(function) => {
                to.copy_from_slice(self.operand(0, pixel, to.len()));
                // A function of one tensor ignores what a linked function reads.
                let other = if inputs.len() > 1 { self.operand(1, pixel, to.len()) } else { &[] };
                elementwise::apply(*function, to, other);
            }
            // SAFETY: the caller vouches for the instructions.
            Implementation::Softmax => unsafe {
                normalise::softmax::<T, V>(self.operand(0, pixel, to.len()), to);
            },
            Implementation::Normalisation(norm) => {
                let from = self.operand(0, pixel, to.len());
                // SAFETY: the caller vouches for the instructions.
                unsafe { norm.pixel::<V>(from, first, to) };
            }
            Implementation::Concat(runs) => join(inputs, runs, pixel * channels + first, to),
            Implementation::Slice(slice) => {
                let start = pixel * slice.input.channels as usize + slice.first_channel as usize + first;
                to.copy_from_slice(&inputs[0][start..start + to.len()]);
            }
            Implementation::Reshape => to.copy_from_slice(self.operand(0, pixel, to.len())),
            Implementation::Embedding(table) => {
                let start = inputs[0][pixel].to_f32() as usize * channels + first;
                to.copy_from_slice(&table[start..start + to.len()]);
            }
            Implementation::Product(_) | Implementation::BatchedProduct(_) => {
                unreachable!("products are computed in blocks")
            }
        }
    }

    /// The channels of a pixel of input number `input`, a tensor like the output or
    /// one with a value a channel.
    #[inline(always)]
    fn operand(&self, input: usize, pixel: usize, count: usize) -> &[T] {
        let tensor = self.inputs[input];
        let pixel = if tensor.len() == self.all_channels { 0 } else { pixel };
        let start = pixel * self.all_channels + self.results.channels.start;
        &tensor[start..start + count]
    }
}

/// Copies the elements from number `first` on of the inputs' joined result, in which
/// `runs` of each follow one another over and over; they lie in one such round.
fn join<T: Element>(inputs: &[&[T]], runs: &[usize], first: usize, to: &mut [T]) {
    let round: usize = runs.iter().sum();
    let (rounds, first) = (first / round, first % round);
    let mut start = 0;
    for (input, &run) in inputs.iter().zip(runs) {
        let [from, end] = [start.max(first), (start + run).min(first + to.len())];
        if from < end {
            let source = rounds * run + from - start;
            to[from - first..end - first].copy_from_slice(&input[source..source + end - from]);
        }
        start += run;
    }
}
