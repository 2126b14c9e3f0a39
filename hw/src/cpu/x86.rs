//! x86-64 registers and micro-kernels. AVX2 with FMA: tiles of 6 pixels by 16 channels, 12 of 16
//! registers accumulate. AVX-512: 14 by 32, 28 of 32 registers accumulate.

use std::arch::x86_64::{
    __m256, __m512, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_max_ps, _mm256_min_ps,
    _mm256_set1_ps, _mm256_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_max_ps,
    _mm512_min_ps, _mm512_set1_ps, _mm512_storeu_ps,
};

use coexec_sim::InstructionSet;

use super::micro_kernel::micro_kernel;
use super::vector::{register, vector};
use super::{MicroKernel, Plain, Register, TileCall, Vector, micro_kernel};

/// Registers of output channels per tile.
const VECTORS: usize = 2;
/// Depth steps with accumulators of their own in the matrix-vector product: times [`VECTORS`], as
/// many sums as two pipes of latency four keep in flight.
const VECTOR_STEPS: usize = 4;

pub(super) const AVX2: MicroKernel<f32> =
    micro_kernel!("avx2,fma", f32, __m256, InstructionSet::Avx2.tile().pixels, VECTORS, VECTOR_STEPS);

pub(super) const AVX512: MicroKernel<f32> =
    micro_kernel!("avx512f", f32, __m512, InstructionSet::Avx512.tile().pixels, VECTORS, VECTOR_STEPS);

register! {
    __m256, f32, InstructionSet::Avx2.lanes();
    broadcast(value) = _mm256_set1_ps(value);
    load(from) = _mm256_loadu_ps(from);
    store(to, stored) = _mm256_storeu_ps(to, stored);
    add_product(sum, a, b) = _mm256_fmadd_ps(a, b, sum);
    add = _mm256_add_ps, maximum = _mm256_max_ps, minimum = _mm256_min_ps;
}
vector!(__m256, f32, _mm256_set1_ps);

register! {
    __m512, f32, InstructionSet::Avx512.lanes();
    broadcast(value) = _mm512_set1_ps(value);
    load(from) = _mm512_loadu_ps(from);
    store(to, stored) = _mm512_storeu_ps(to, stored);
    add_product(sum, a, b) = _mm512_fmadd_ps(a, b, sum);
    add = _mm512_add_ps, maximum = _mm512_max_ps, minimum = _mm512_min_ps;
}
vector!(__m512, f32, _mm512_set1_ps);
