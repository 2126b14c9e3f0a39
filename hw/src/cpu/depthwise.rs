//! Depthwise convolution: each channel with a window of its own.
//!
//! Channels lie along the vectors, so one loop over whole vectors serves every
//! window; it is compiled for each instruction set.

use super::element::Element;
use super::window::Window;

/// Channels computed together: two vectors of AVX2, one of AVX-512, four of
/// NEON, so that sums stay in registers while the window passes.
const CHUNK: usize = 16;

/// A depthwise convolution with its weights.
pub(super) struct Depthwise<T> {
    pub(super) window: Window,
    /// Output channels per input channel.
    pub(super) multiplier: usize,
    /// Weights: window position, then output channel.
    pub(super) weights: Vec<T>,
    pub(super) bias: Vec<T>,
}

impl<T: Element> Depthwise<T> {
    /// Computes the output channels from `first` on of pixel number `pixel`.
    /// `FUSED`: a product and a sum are one instruction.
    #[inline(always)]
    pub(super) fn pixel<const FUSED: bool>(&self, input: &[T], pixel: usize, first: usize, to: &mut [T]) {
        if self.multiplier > 1 {
            self.multiplied(input, pixel, first, to);
            return;
        }
        let whole = to.len() / CHUNK * CHUNK;
        let (chunks, rest) = to.split_at_mut(whole);
        for (index, chunk) in chunks.chunks_exact_mut(CHUNK).enumerate() {
            self.chunk::<FUSED, CHUNK>(input, pixel, first + index * CHUNK, chunk);
        }
        for (index, channel) in rest.iter_mut().enumerate() {
            self.chunk::<FUSED, 1>(input, pixel, first + whole + index, std::slice::from_mut(channel));
        }
    }

    #[inline(always)]
    fn chunk<const FUSED: bool, const N: usize>(
        &self,
        input: &[T],
        pixel: usize,
        first: usize,
        to: &mut [T],
    ) {
        let channels = self.bias.len();
        let position = self.window.position(pixel);
        let mut sums = [0.0_f32; N];
        for (sum, bias) in sums.iter_mut().zip(&self.bias[first..first + N]) {
            *sum = bias.to_f32();
        }
        let [rows, columns] = self.window.inside(position);
        for row in rows {
            for column in columns.clone() {
                let offset = self.window.offset_inside(position, row, column) + first;
                let weight = self.window.tap(row, column) * channels + first;
                let inputs = &input[offset..offset + N];
                let weights = &self.weights[weight..weight + N];
                for lane in 0..N {
                    let (input, weight) = (inputs[lane].to_f32(), weights[lane].to_f32());
                    sums[lane] =
                        if FUSED { input.mul_add(weight, sums[lane]) } else { input * weight + sums[lane] };
                }
            }
        }
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = T::from_f32(sum);
        }
    }

    /// Several output channels an input channel: rare, and not worth a vector.
    fn multiplied(&self, input: &[T], pixel: usize, first: usize, to: &mut [T]) {
        let channels = self.bias.len();
        let position = self.window.position(pixel);
        let [rows, columns] = self.window.inside(position);
        for (channel, to) in (first..).zip(to) {
            let mut sum = self.bias[channel].to_f32();
            for row in rows.clone() {
                for column in columns.clone() {
                    let offset = self.window.offset_inside(position, row, column) + channel / self.multiplier;
                    let weight = self.weights[self.window.tap(row, column) * channels + channel];
                    sum += input[offset].to_f32() * weight.to_f32();
                }
            }
            *to = T::from_f32(sum);
        }
    }
}
