//! Vector registers behind one interface for every instruction set.
//!
//! Responsible for: the operations that matrix products and loops over channels need. Not for: the
//! loops. Invariant: an element goes through the same operations in every lane, so results do not
//! depend on where vectors start.

#![expect(
    clippy::needless_range_loop,
    reason = "iterator adapters may not be inlined into functions with target features"
)]

use super::Element;

/// A vector register loaded from and stored to elements of format `T`, the operand of
/// micro-kernels.
///
/// The methods must be inlined into functions compiled with the instructions they use. Safety
/// condition of each: the processor has these instructions, and a pointer argument is valid for as
/// many elements as the register has lanes.
pub trait Register<T: Copy>: Copy {
    /// Lanes of the register.
    const LANES: usize;
    /// Depth steps that [`Register::add_steps`] takes at once.
    const STEPS: usize = 1;

    /// The same element in every lane.
    unsafe fn broadcast(value: T) -> Self;

    /// Loads consecutive elements.
    unsafe fn load(from: *const T) -> Self;

    /// Stores consecutive elements.
    unsafe fn store(self, to: *mut T);

    /// Lane-wise sum.
    unsafe fn add(self, other: Self) -> Self;

    /// Multiply-add: `a * b + self`, lane by lane.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;

    /// Lane-wise maximum.
    unsafe fn maximum(self, other: Self) -> Self;

    /// Lane-wise minimum.
    unsafe fn minimum(self, other: Self) -> Self;

    /// Loads `N` registers of consecutive elements.
    #[inline(always)]
    unsafe fn load_all<const N: usize>(from: *const T) -> [Self; N] {
        // SAFETY: the caller vouches for the instructions and all registers.
        unsafe {
            let mut registers = [Self::load(from); N];
            for index in 1..N {
                registers[index] = Self::load(from.add(index * Self::LANES));
            }
            registers
        }
    }

    /// One depth step: to the sums of each of `P` pixels, adds the pixel's input `k` times the
    /// weights of `N` registers of channels.
    #[inline(always)]
    unsafe fn add_step<const P: usize, const N: usize>(
        sums: &mut [[Self; N]; P],
        rows: &[*const T; P],
        k: usize,
        weights: *const T,
    ) {
        // SAFETY: the caller vouches for the instructions, the inputs and the column.
        unsafe {
            let column = Self::load_all::<N>(weights);
            for pixel in 0..P {
                let input = Self::broadcast(*rows[pixel].add(k));
                for vector in 0..N {
                    sums[pixel][vector] = sums[pixel][vector].add_product(input, column[vector]);
                }
            }
        }
    }

    /// The same for the [`Register::STEPS`] depth steps from `k` on, whose weights are consecutive.
    #[inline(always)]
    unsafe fn add_steps<const P: usize, const N: usize>(
        sums: &mut [[Self; N]; P],
        rows: &[*const T; P],
        k: usize,
        weights: *const T,
    ) {
        // SAFETY: the caller vouches for the instructions, the inputs and the columns.
        unsafe { Self::add_step(sums, rows, k, weights) };
    }
}

/// A register with `f32` lanes whatever the format in memory, the operand of operators other than
/// products.
///
/// # Safety
/// The register is [`Register::LANES`] consecutive `f32` in memory.
pub unsafe trait Vector<T: Copy>: Register<T> {
    /// The scalar version of the register.
    type Lane: Vector<T>;

    /// The same `f32` in every lane.
    unsafe fn splat(value: f32) -> Self;

    /// Reduces the lanes in order, from the first to the last.
    #[inline(always)]
    fn reduce(self, combine: impl Fn(f32, f32) -> f32) -> f32 {
        let lanes: *const f32 = (&raw const self).cast();
        // SAFETY: the register consists of that many `f32`.
        let lanes = unsafe { std::slice::from_raw_parts(lanes, Self::LANES) };
        lanes[1..].iter().fold(lanes[0], |all, &lane| combine(all, lane))
    }
}

/// Implements [`Register`] for a processor's register by its intrinsics. Tokens after the
/// operations are copied into the implementation.
macro_rules! register {
    (
        $register:ty, $element:ty, $lanes:expr;
        broadcast($value:ident) = $broadcast:expr;
        load($from:ident) = $load:expr;
        store($to:ident, $stored:ident) = $store:expr;
        add_product($sum:ident, $a:ident, $b:ident) = $add_product:expr;
        $($lane_by_lane:ident = $intrinsic:ident),*;
        $($more:tt)*
    ) => {
        // SAFETY of all methods: the caller vouches for the instructions and all lanes.
        #[allow(clippy::undocumented_unsafe_blocks, reason = "the comment above covers all methods")]
        impl Register<$element> for $register {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn broadcast($value: $element) -> Self {
                unsafe { $broadcast }
            }

            #[inline(always)]
            unsafe fn load($from: *const $element) -> Self {
                unsafe { $load }
            }

            #[inline(always)]
            unsafe fn store(self, $to: *mut $element) {
                let $stored = self;
                unsafe { $store }
            }

            $(
                #[inline(always)]
                unsafe fn $lane_by_lane(self, other: Self) -> Self {
                    unsafe { $intrinsic(self, other) }
                }
            )*

            #[inline(always)]
            unsafe fn add_product(self, $a: Self, $b: Self) -> Self {
                let $sum = self;
                unsafe { $add_product }
            }

            $($more)*
        }
    };
}

/// Implements [`Vector`] for a register of single-precision lanes.
macro_rules! vector {
    ($register:ty, $element:ty, $splat:ident) => {
        // SAFETY: the register consists of that many `f32`; the callers of the methods vouch for
        // the instructions.
        #[allow(clippy::undocumented_unsafe_blocks, reason = "the comment above covers all methods")]
        unsafe impl Vector<$element> for $register {
            type Lane = Plain<1, true>;

            #[inline(always)]
            unsafe fn splat(value: f32) -> Self {
                unsafe { $splat(value) }
            }
        }
    };
}

pub(super) use {register, vector};

/// A register in portable code. `FUSED`: multiply-add rounds once, which is fast only where the
/// processor has such an instruction.
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

impl<T: Element, const N: usize, const FUSED: bool> Register<T> for Plain<N, FUSED> {
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn broadcast(value: T) -> Self {
        Self([value.to_f32(); N])
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

    #[inline(always)]
    unsafe fn minimum(self, other: Self) -> Self {
        self.combine(other, f32::min)
    }
}

// SAFETY: the type is a transparent wrapper of `N` `f32`.
unsafe impl<T: Element, const N: usize, const FUSED: bool> Vector<T> for Plain<N, FUSED> {
    type Lane = Plain<1, FUSED>;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; N])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_combined_in_order() {
        // SAFETY: every processor has the instructions; the array has four elements.
        let vector = unsafe { <Plain<4, false> as Register<f32>>::load([8.0, 4.0, 2.0, 1.0].as_ptr()) };
        let difference = <Plain<4, false> as Vector<f32>>::reduce(vector, |a, b| a - b);
        assert!((difference - 1.0).abs() < f32::EPSILON);
    }
}
