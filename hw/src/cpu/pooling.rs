//! Pooling windows and the mean over all pixels.

use coexec_sim::workload::PoolKind;

use super::element::Element;
use super::window::Window;

/// Channels whose sums of a mean are kept in registers while the pixels pass.
const CHUNK: usize = 16;

/// A pooling operator.
pub(super) struct Pooling {
    pub(super) window: Window,
    pub(super) kind: PoolKind,
}

impl Pooling {
    /// Computes the channels from `first` on of output pixel number `pixel`. The
    /// padding counts for neither kind, as in TFLite.
    #[inline(always)]
    pub(super) fn pixel<T: Element>(&self, input: &[T], pixel: usize, first: usize, to: &mut [T]) {
        let position = self.window.position(pixel);
        let [rows, columns] = self.window.inside(position);
        let count = rows.len() * columns.len();
        let factor = 1.0 / count.max(1) as f32;
        for (index, to) in to.chunks_mut(CHUNK).enumerate() {
            let first = first + index * CHUNK;
            let start = if self.kind == PoolKind::Max { f32::NEG_INFINITY } else { 0.0 };
            let mut kept = [start; CHUNK];
            for row in rows.clone() {
                for column in columns.clone() {
                    let offset = self.window.offset_inside(position, row, column) + first;
                    for (kept, value) in kept.iter_mut().zip(&input[offset..offset + to.len()]) {
                        let value = value.to_f32();
                        *kept = if self.kind == PoolKind::Max { kept.max(value) } else { *kept + value };
                    }
                }
            }
            for (to, kept) in to.iter_mut().zip(kept) {
                *to = T::from_f32(if self.kind == PoolKind::Max { kept } else { kept * factor });
            }
        }
    }
}

/// Computes the means over the `pixels` pixels of an image whose pixels have
/// `channels` channels each, of the channels from `first` on.
#[inline(always)]
pub(super) fn mean<T: Element>(image: &[T], channels: usize, first: usize, to: &mut [T]) {
    let factor = 1.0 / (image.len() / channels) as f32;
    for (index, to) in to.chunks_mut(CHUNK).enumerate() {
        let first = first + index * CHUNK;
        let mut sums = [0.0_f32; CHUNK];
        for pixel in image.chunks_exact(channels) {
            for (sum, value) in sums.iter_mut().zip(&pixel[first..first + to.len()]) {
                *sum += value.to_f32();
            }
        }
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = T::from_f32(sum * factor);
        }
    }
}
