//! Softmax and normalisations: statistics over the channels of each pixel.

use coexec_sim::workload::Statistic;

use super::elementwise::exp;
use super::{Element, Vector};

/// Epsilon added to a variance or mean square before the square root (the default of the layer
/// norms of `PyTorch` and of Llama's root-mean-square norm).
pub(crate) const VARIANCE_OFFSET: f32 = 1e-5;

/// Offset and exponent of local response norms. With these values a wrong sum shows in the result.
pub(crate) const NEIGHBOUR_OFFSET: f32 = 1.0;
pub(crate) const NEIGHBOUR_POWER: f32 = -0.75;

/// A normalisation with its scales and shifts.
pub(super) struct Normalisation<T> {
    /// The statistic computed at run time; `None` for a batch norm, whose trained statistics are
    /// folded into the scales and shifts.
    pub(super) statistic: Option<Statistic>,
    pub(super) scale: Vec<T>,
    /// Empty where the operator has none.
    pub(super) shift: Vec<T>,
}

impl<T: Element> Normalisation<T> {
    /// Normalises the channels of a pixel from `first` on. Except for a batch norm, `to` holds all
    /// channels.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn pixel<V: Vector<T>>(&self, from: &[T], first: usize, to: &mut [T]) {
        let count = from.len() as f32;
        let (mean, factor) = match self.statistic {
            None => (0.0, 1.0),
            Some(Statistic::MeanSquare) => {
                // SAFETY: the caller vouches for the instructions.
                let square = unsafe { sum_of_squares::<T, V>(from, 0.0) };
                (0.0, 1.0 / (square / count + VARIANCE_OFFSET).sqrt())
            }
            Some(Statistic::MeanAndVariance { .. }) => {
                // SAFETY: the caller vouches for the instructions.
                let mean = unsafe { sum::<T, V>(from) } / count;
                // SAFETY: as above.
                let squares = unsafe { sum_of_squares::<T, V>(from, mean) };
                (mean, 1.0 / (squares / count + VARIANCE_OFFSET).sqrt())
            }
            Some(Statistic::NeighbourSquares { channels }) => {
                return local_response_norm(from, channels as usize, to);
            }
        };
        let channels = first..first + to.len();
        for ((to, from), scale) in to.iter_mut().zip(from).zip(&self.scale[channels.clone()]) {
            *to = T::from_f32((from.to_f32() - mean) * factor * scale.to_f32());
        }
        if !self.shift.is_empty() {
            for (to, shift) in to.iter_mut().zip(&self.shift[channels]) {
                *to = T::from_f32(to.to_f32() + shift.to_f32());
            }
        }
    }
}

/// Local response normalisation of a pixel: each channel times a power of the mean square of the
/// `count` channels around it.
fn local_response_norm<T: Element>(from: &[T], count: usize, to: &mut [T]) {
    let before = (count - 1) / 2;
    for (channel, to) in to.iter_mut().enumerate() {
        let neighbours = channel.saturating_sub(before)..(channel + count - before).min(from.len());
        let squares: f32 = from[neighbours].iter().map(|x| x.to_f32() * x.to_f32()).sum();
        let factor = (squares / count as f32 + NEIGHBOUR_OFFSET).powf(NEIGHBOUR_POWER);
        *to = T::from_f32(from[channel].to_f32() * factor);
    }
}

/// Softmax over the channels of a pixel.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn softmax<T: Element, V: Vector<T>>(from: &[T], to: &mut [T]) {
    // SAFETY: the caller vouches for the instructions.
    let largest = unsafe { largest::<T, V>(from) };
    for (to, from) in to.iter_mut().zip(from) {
        *to = T::from_f32(exp(from.to_f32() - largest));
    }
    // SAFETY: as above.
    let factor = 1.0 / unsafe { sum::<T, V>(to) };
    for to in to {
        *to = T::from_f32(to.to_f32() * factor);
    }
}

/// The largest of the values.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn largest<T: Element, V: Vector<T>>(values: &[T]) -> f32 {
    let chunks = values.chunks_exact(V::LANES);
    let rest = chunks.remainder().iter().fold(f32::NEG_INFINITY, |all, x| all.max(x.to_f32()));
    // SAFETY: each chunk has as many elements as a vector has lanes; the caller
    // vouches for the instructions.
    unsafe {
        let mut kept = V::splat(rest);
        for chunk in chunks {
            kept = kept.maximum(V::load(chunk.as_ptr()));
        }
        kept.reduce(f32::max)
    }
}

/// The sum of the values.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn sum<T: Element, V: Vector<T>>(values: &[T]) -> f32 {
    let chunks = values.chunks_exact(V::LANES);
    let rest = chunks.remainder().iter().fold(0.0, |all, x| all + x.to_f32());
    // SAFETY: each chunk has as many elements as a vector has lanes; the caller
    // vouches for the instructions.
    unsafe {
        let mut sums = V::splat(0.0);
        for chunk in chunks {
            sums = sums.add(V::load(chunk.as_ptr()));
        }
        sums.reduce(|a, b| a + b) + rest
    }
}

/// The sum of the squared differences from `centre`.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn sum_of_squares<T: Element, V: Vector<T>>(values: &[T], centre: f32) -> f32 {
    let chunks = values.chunks_exact(V::LANES);
    let square = |x: &T| (x.to_f32() - centre) * (x.to_f32() - centre);
    let rest = chunks.remainder().iter().fold(0.0, |all, x| all + square(x));
    // SAFETY: each chunk has as many elements as a vector has lanes; the caller
    // vouches for the instructions.
    unsafe {
        let mut sums = V::splat(0.0);
        for chunk in chunks {
            let difference = V::load(chunk.as_ptr()).add(V::splat(-centre));
            sums = sums.add_product(difference, difference);
        }
        sums.reduce(|a, b| a + b) + rest
    }
}
