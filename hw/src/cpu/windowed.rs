//! Sliding windows over single channels: depthwise convolution and pooling. A mean over all pixels
//! is a pooling with a window as large as the image.
//!
//! Vector lanes hold channels, so one loop over whole vectors serves every window; it is compiled
//! for each instruction set.

#![expect(
    clippy::needless_range_loop,
    reason = "iterator adapters may not be inlined into functions with target features"
)]

use coexec_sim::workload::PoolKind;

use super::{Aligned, Element, ElementGrid, SlidingWindow, Vector};

/// Vectors computed together: their accumulators are independent, so that their operations overlap.
const VECTORS: usize = 4;

/// A depthwise convolution with its weights.
pub(super) struct Depthwise<T> {
    pub(super) window: SlidingWindow,
    /// Output channels per input channel.
    pub(super) multiplier: usize,
    /// Weights: window position, then output channel.
    pub(super) weights: Aligned<T>,
    pub(super) bias: Aligned<T>,
}

/// The inputs of an output pixel, and the first channel to compute.
struct Pixel<'a, T> {
    input: &'a [T],
    first_channel: usize,
    /// The window positions inside the image: their inputs, and their weights.
    inputs: ElementGrid,
    weights: ElementGrid,
}

impl<T: Element> Depthwise<T> {
    /// Computes the output channels from `first` on of output pixel `pixel`.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn pixel<V: Vector<T>>(&self, input: &[T], pixel: usize, first: usize, to: &mut [T]) {
        let position = self.window.position(pixel);
        let inside = self.window.inside(position);
        let pixel = Pixel {
            input,
            first_channel: first,
            inputs: self.window.inputs(position, &inside),
            weights: self.window.weights(&inside, self.bias.as_slice().len()),
        };
        if self.multiplier > 1 {
            self.multiplied(&pixel, to);
            return;
        }
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let done = self.chunks::<V, VECTORS>(&pixel, 0, to);
            let done = self.chunks::<V, 1>(&pixel, done, to);
            self.chunks::<V::Lane, 1>(&pixel, done, to);
        }
    }

    /// Computes whole chunks of `N` vectors of channels, from index `done` of `to` on, and returns
    /// the index of the first channel left.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn chunks<V: Vector<T>, const N: usize>(
        &self,
        pixel: &Pixel<'_, T>,
        mut done: usize,
        to: &mut [T],
    ) -> usize {
        let width = N * V::LANES;
        while done + width <= to.len() {
            let first = pixel.first_channel + done;
            // SAFETY: each slice has as many elements as a chunk has lanes; the caller
            // vouches for the instructions.
            unsafe {
                let mut sums = V::load_all::<N>(self.bias.as_slice()[first..first + width].as_ptr());
                for row in 0..pixel.inputs.rows {
                    for column in 0..pixel.inputs.columns {
                        let input = pixel.inputs.offset(row, column) + first;
                        let inputs = V::load_all::<N>(pixel.input[input..input + width].as_ptr());
                        let weight = pixel.weights.offset(row, column) + first;
                        let weights =
                            V::load_all::<N>(self.weights.as_slice()[weight..weight + width].as_ptr());
                        for vector in 0..N {
                            sums[vector] = sums[vector].add_product(inputs[vector], weights[vector]);
                        }
                    }
                }
                let to = to[done..done + width].as_mut_ptr();
                for vector in 0..N {
                    sums[vector].store(to.add(vector * V::LANES));
                }
            }
            done += width;
        }
        done
    }

    /// Several output channels per input channel: rare, so scalar.
    fn multiplied(&self, pixel: &Pixel<'_, T>, to: &mut [T]) {
        for (channel, to) in (pixel.first_channel..).zip(to) {
            let mut sum = self.bias.as_slice()[channel].to_f32();
            for row in 0..pixel.inputs.rows {
                for column in 0..pixel.inputs.columns {
                    let input = pixel.input[pixel.inputs.offset(row, column) + channel / self.multiplier];
                    let weight = self.weights.as_slice()[pixel.weights.offset(row, column) + channel];
                    sum += input.to_f32() * weight.to_f32();
                }
            }
            *to = T::from_f32(sum);
        }
    }
}

/// A pooling operator.
pub(super) struct Pooling {
    pub(super) window: SlidingWindow,
    pub(super) kind: PoolKind,
}

impl Pooling {
    /// Computes the channels from `first` on of output pixel `pixel`. As in TFLite, neither kind
    /// counts the padding.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn pixel<T: Element, V: Vector<T>>(
        &self,
        input: &[T],
        pixel: usize,
        first: usize,
        to: &mut [T],
    ) {
        let position = self.window.position(pixel);
        let grid = self.window.inputs(position, &self.window.inside(position));
        let grid = ElementGrid { start: grid.start + first, ..grid };
        // SAFETY: the caller vouches for the instructions.
        unsafe {
            let done = chunks::<T, V, VECTORS>(self.kind, input, &grid, 0, to);
            let done = chunks::<T, V, 1>(self.kind, input, &grid, done, to);
            chunks::<T, V::Lane, 1>(self.kind, input, &grid, done, to);
        }
    }
}

/// Pools whole chunks of `N` vectors of channels, from index `done` on, and returns the index of
/// the first channel left.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn chunks<T: Element, V: Vector<T>, const N: usize>(
    kind: PoolKind,
    input: &[T],
    grid: &ElementGrid,
    mut done: usize,
    to: &mut [T],
) -> usize {
    let width = N * V::LANES;
    let start = if kind == PoolKind::Max { f32::NEG_INFINITY } else { 0.0 };
    let factor = 1.0 / (grid.rows * grid.columns).max(1) as f32;
    while done + width <= to.len() {
        // SAFETY: each slice has as many elements as a chunk has lanes; the caller
        // vouches for the instructions.
        unsafe {
            let mut kept = [V::splat(start); N];
            for row in 0..grid.rows {
                for column in 0..grid.columns {
                    let offset = grid.offset(row, column) + done;
                    let from = input[offset..offset + width].as_ptr();
                    for vector in 0..N {
                        let values = V::load(from.add(vector * V::LANES));
                        kept[vector] = match kind {
                            PoolKind::Max => kept[vector].maximum(values),
                            PoolKind::Average => kept[vector].add(values),
                        };
                    }
                }
            }
            let to = to[done..done + width].as_mut_ptr();
            for vector in 0..N {
                let result = match kind {
                    PoolKind::Max => kept[vector],
                    PoolKind::Average => V::splat(0.0).add_product(kept[vector], V::splat(factor)),
                };
                result.store(to.add(vector * V::LANES));
            }
        }
        done += width;
    }
    done
}
