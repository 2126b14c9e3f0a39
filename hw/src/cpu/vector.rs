//! Registers of numbers, one interface for every instruction set.
//!
//! Responsible for: what loops over channels need, written once for all sets.
//! Not for: matrix products, whose micro-kernels know their registers. Invariant:
//! a number goes through the same operations in whatever lane it lies, so the
//! results do not depend on where vectors start.

use super::element::Element;

/// Several `f32`, loaded from and stored to elements of format `T`.
///
/// Its methods are to be inlined into functions that are compiled with the
/// instructions they use.
///
/// # Safety
/// The register is [`Vector::LANES`] consecutive `f32` in memory.
pub unsafe trait Vector<T>: Copy {
    /// The same operations on one number.
    type Lane: Vector<T>;
    /// Numbers in the register.
    const LANES: usize;

    /// The same number in every lane.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn splat(value: f32) -> Self;

    /// Consecutive elements.
    ///
    /// # Safety
    /// The processor has the instructions; `from` is valid for reads of as many
    /// elements as there are lanes.
    unsafe fn load(from: *const T) -> Self;

    /// Writes consecutive elements.
    ///
    /// # Safety
    /// The processor has the instructions; `to` is valid for writes of as many
    /// elements as there are lanes.
    unsafe fn store(self, to: *mut T);

    /// Lane by lane sum.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn add(self, other: Self) -> Self;

    /// Lane by lane product.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn multiply(self, other: Self) -> Self;

    /// `a * b + self`, lane by lane.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;

    /// Lane by lane maximum.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn maximum(self, other: Self) -> Self;

    /// Combines the lanes, from the first to the last.
    #[inline(always)]
    fn reduce(self, combine: impl Fn(f32, f32) -> f32) -> f32 {
        let lanes: *const f32 = (&raw const self).cast();
        // SAFETY: the register is that many numbers.
        let lanes = unsafe { std::slice::from_raw_parts(lanes, Self::LANES) };
        lanes[1..].iter().fold(lanes[0], |all, &lane| combine(all, lane))
    }
}

/// A register in plain code. `FUSED`: a product and a sum are rounded once, which
/// is quick only where the processor has an instruction for it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Plain<const N: usize, const FUSED: bool>([f32; N]);

impl<const N: usize, const FUSED: bool> Plain<N, FUSED> {
    #[inline(always)]
    fn combine(mut self, other: Self, function: impl Fn(f32, f32) -> f32) -> Self {
        for lane in 0..N {
            self.0[lane] = function(self.0[lane], other.0[lane]);
        }
        self
    }
}

// SAFETY: it is transparent.
unsafe impl<T: Element, const N: usize, const FUSED: bool> Vector<T> for Plain<N, FUSED> {
    type Lane = Plain<1, FUSED>;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        let mut lanes = [0.0; N];
        for (lane, number) in lanes.iter_mut().enumerate() {
            // SAFETY: the caller vouches for all lanes.
            *number = unsafe { (*from.add(lane)).to_f32() };
        }
        Self(lanes)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        for (lane, number) in self.0.into_iter().enumerate() {
            // SAFETY: the caller vouches for all lanes.
            unsafe { *to.add(lane) = T::from_f32(number) };
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.combine(other, |a, b| a + b)
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        self.combine(other, |a, b| a * b)
    }

    #[inline(always)]
    unsafe fn add_product(mut self, a: Self, b: Self) -> Self {
        for lane in 0..N {
            let [sum, a, b] = [self.0[lane], a.0[lane], b.0[lane]];
            self.0[lane] = if FUSED { a.mul_add(b, sum) } else { a * b + sum };
        }
        self
    }

    #[inline(always)]
    unsafe fn maximum(self, other: Self) -> Self {
        self.combine(other, f32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_combined_in_order() {
        // SAFETY: every processor has the instructions; the array has four elements.
        let vector = unsafe { <Plain<4, false> as Vector<f32>>::load([8.0, 4.0, 2.0, 1.0].as_ptr()) };
        let difference = <Plain<4, false> as Vector<f32>>::reduce(vector, |a, b| a - b);
        assert!((difference - 1.0).abs() < f32::EPSILON);
    }
}
