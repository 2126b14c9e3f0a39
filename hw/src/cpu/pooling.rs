//! Pooling windows: that of the mean over all pixels is as large as the image.

#![expect(
    clippy::needless_range_loop,
    reason = "iterators are calls that stay calls among vector instructions"
)]

use coexec_sim::workload::PoolKind;

use super::{Element, ElementGrid, SlidingWindow, Vector};

/// Vectors computed together: with a result each, their operations overlap while
/// the pixels pass.
const VECTORS: usize = 4;

/// A pooling operator.
pub(super) struct Pooling {
    pub(super) window: SlidingWindow,
    pub(super) kind: PoolKind,
}

impl Pooling {
    /// Computes the channels from `first` on of output pixel number `pixel`. The
    /// padding counts for neither kind, as in TFLite.
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

/// Pools the channels from number `done` on, as many as fill whole chunks of `N`
/// vectors, and returns the number of the first that is left.
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
    let (start, factor) = match kind {
        PoolKind::Max => (f32::NEG_INFINITY, 1.0),
        PoolKind::Average => (0.0, 1.0 / (grid.rows * grid.columns).max(1) as f32),
    };
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
                kept[vector].multiply(V::splat(factor)).store(to.add(vector * V::LANES));
            }
        }
        done += width;
    }
    done
}
