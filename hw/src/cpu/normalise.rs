//! Softmax and norms: statistics over the channels of each pixel.

use coexec_sim::workload::NormKind;

use super::element::Element;
use super::elementwise::exp;

/// Added to a variance or mean square before its root is taken (the default of
/// the layer norms of `PyTorch` and of Llama's root-mean-square norm).
pub(crate) const VARIANCE_OFFSET: f32 = 1e-5;

/// A norm with its scales and shifts.
pub(super) struct Normalisation<T> {
    pub(super) kind: NormKind,
    pub(super) scale: Vec<T>,
    /// Empty where there is none.
    pub(super) shift: Vec<T>,
}

impl<T: Element> Normalisation<T> {
    /// Normalises the channels from `first` on of a pixel; all of them, but for a
    /// batch norm.
    #[inline(always)]
    pub(super) fn pixel(&self, from: &[T], first: usize, to: &mut [T]) {
        let count = from.len() as f32;
        let (mean, factor) = match self.kind {
            NormKind::Batch => (0.0, 1.0),
            NormKind::Rms => {
                let square: f32 = from.iter().map(|x| x.to_f32() * x.to_f32()).sum();
                (0.0, 1.0 / (square / count + VARIANCE_OFFSET).sqrt())
            }
            NormKind::Layer => {
                let mean = from.iter().map(|x| x.to_f32()).sum::<f32>() / count;
                let variance = from.iter().map(|x| (x.to_f32() - mean) * (x.to_f32() - mean)).sum::<f32>();
                (mean, 1.0 / (variance / count + VARIANCE_OFFSET).sqrt())
            }
        };
        for (index, (to, from)) in to.iter_mut().zip(from).enumerate() {
            let scaled = (from.to_f32() - mean) * factor * self.scale[first + index].to_f32();
            let shift = self.shift.get(first + index).map_or(0.0, |shift| shift.to_f32());
            *to = T::from_f32(scaled + shift);
        }
    }
}

/// Softmax over the channels of a pixel.
#[inline(always)]
pub(super) fn softmax<T: Element>(from: &[T], to: &mut [T]) {
    let largest = from.iter().map(|x| x.to_f32()).fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (to, from) in to.iter_mut().zip(from) {
        *to = T::from_f32(exp(from.to_f32() - largest));
        sum += to.to_f32();
    }
    let factor = 1.0 / sum;
    for to in to {
        *to = T::from_f32(to.to_f32() * factor);
    }
}
