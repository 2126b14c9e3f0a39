//! Our matrix products compared with those of the `gemm` crate, on one thread.
//!
//! `cargo bench -p coexec-hw --bench gemm` measures GFLOP/s of each (criterion counts operations as
//! elements). `cargo bench -p coexec-hw --bench gemm -- --ratios` alternates between the two and
//! prints the ratio of their shortest times, which a busy machine disturbs least; it fails if ours
//! are slower than [`MIN_RATIO`] times the crate's speed.
//!
//! Ours are complete runs of a prepared linear layer with a bias. Each library gets its preferred
//! weight layout: packed ahead for ours; row-major with the depth as rows for `gemm`, which then
//! need not pack them.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use coexec_hw::cpu::{InstructionSet, Prepared, ThreadPool, available_sets};
use coexec_hw::operands::Weights;
use coexec_sim::plan::Region;
use coexec_sim::workload::{DataType, Layer, Linear, Operator};
use criterion::{BenchmarkId, Criterion, Throughput};

/// Fraction of the `gemm` crate's speed that ours must reach.
const MIN_RATIO: f64 = 0.8;
/// Time for which the two alternate on each shape.
const TURNS: Duration = Duration::from_secs(4);
/// Shortest turn, so that reading the clock does not matter.
const TURN: Duration = Duration::from_millis(1);

/// Output pixels by output channels by depth: a pointwise convolution of an early layer, one of a
/// late layer, a square, a classifier on one row, a transformer's first layer after attention.
const SHAPES: [Shape; 5] = [
    Shape { name: "64x3136x64", pixels: 3136, channels: 64, depth: 64 },
    Shape { name: "196x512x512", pixels: 196, channels: 512, depth: 512 },
    Shape { name: "512x512x512", pixels: 512, channels: 512, depth: 512 },
    Shape { name: "1x1000x1024", pixels: 1, channels: 1000, depth: 1024 },
    Shape { name: "3072x128x768", pixels: 128, channels: 3072, depth: 768 },
];

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    pixels: usize,
    channels: usize,
    depth: usize,
}

impl Shape {
    /// Two operations per multiply-accumulate.
    fn flops(self) -> u64 {
        2 * (self.pixels * self.channels * self.depth) as u64
    }

    fn inputs(self) -> Vec<f32> {
        numbers(self.pixels * self.depth, 1)
    }

    fn results(self) -> Vec<f32> {
        vec![0.0; self.pixels * self.channels]
    }
}

/// One library's product of one shape.
struct Contender {
    name: String,
    run: Box<dyn FnMut()>,
}

/// Pseudo-random numbers in [-1, 1) (linear congruential).
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(number).take(count).collect()
}

fn ours(shape: Shape, set: InstructionSet) -> Contender {
    let linear = Linear {
        rows: shape.pixels as u32,
        input_features: shape.depth as u32,
        output_features: shape.channels as u32,
        bias: true,
    };
    let layer = Layer::new(Operator::Linear(linear), DataType::F32);
    let (kernel, bias) = (numbers(shape.channels * shape.depth, 2), numbers(shape.channels, 3));
    let weights = Weights { kernel: &kernel, bias: &bias };
    let mut prepared = Prepared::<f32>::new(&layer, &weights, set).expect("the layer and its weights fit");
    let mut pool = ThreadPool::new(1).expect("one thread is the calling one");
    let (inputs, mut results) = (shape.inputs(), shape.results());
    let part = Region::of(layer.operator.output());
    let run = move || {
        let output = black_box(results.as_mut_slice());
        prepared.run(&mut pool, &[black_box(&inputs)], output, part).expect("the operands fit");
    };
    Contender { name: format!("ours, {set}"), run: Box::new(run) }
}

/// The products of the `gemm` crate.
#[cfg(target_arch = "x86_64")]
mod peer {
    use gemm_common::gemm::gemm_basic_generic;
    use gemm_common::simd::{MixedSimd, V3};
    use gemm_f32::microkernel::fma::f32 as avx2;

    use super::{Contender, InstructionSet, Shape, black_box, numbers};

    /// Lanes of an AVX2 register.
    const LANES: usize = 8;

    /// The crate's product with the instructions that ours uses with `set`, if it supports them.
    pub(super) fn with(set: InstructionSet, shape: Shape) -> Option<Contender> {
        let product: fn(Shape, &[f32], &[f32], &mut [f32]) = match set {
            InstructionSet::Avx2 => with_avx2,
            InstructionSet::Avx512 => with_widest_vectors,
            _ => return None,
        };
        let (inputs, weights) = (shape.inputs(), numbers(shape.channels * shape.depth, 2));
        let mut results = shape.results();
        let run = move || product(shape, black_box(&inputs), black_box(&weights), black_box(&mut results));
        Some(Contender { name: format!("gemm, {set}"), run: Box::new(run) })
    }

    /// As the crate runs by default on this processor.
    fn with_widest_vectors(shape: Shape, inputs: &[f32], weights: &[f32], results: &mut [f32]) {
        let [channels, depth] = [shape.channels, shape.depth].map(usize::cast_signed);
        // SAFETY: the matrices have these dimensions and are row-major.
        unsafe {
            gemm::gemm(
                shape.pixels,
                shape.channels,
                shape.depth,
                results.as_mut_ptr(),
                1,
                channels,
                false,
                inputs.as_ptr(),
                1,
                depth,
                weights.as_ptr(),
                1,
                channels,
                0.0,
                1.0,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    }

    /// As the crate runs on a processor without AVX-512: it treats row-major matrices as their
    /// transposes.
    fn with_avx2(shape: Shape, inputs: &[f32], weights: &[f32], results: &mut [f32]) {
        let simd = <V3 as MixedSimd<f32, f32, f32, f32>>::try_new().expect("ours run with it as well");
        let [channels, depth] = [shape.channels, shape.depth].map(usize::cast_signed);
        // SAFETY: the matrices have these dimensions and are row-major.
        unsafe {
            gemm_basic_generic::<
                _,
                f32,
                LANES,
                { avx2::MR_DIV_N * LANES },
                { avx2::NR },
                { avx2::MR_DIV_N },
                { avx2::H_M },
                { avx2::H_N },
            >(
                simd,
                shape.channels,
                shape.pixels,
                shape.depth,
                results.as_mut_ptr(),
                channels,
                1,
                false,
                weights.as_ptr(),
                channels,
                1,
                inputs.as_ptr(),
                depth,
                1,
                0.0,
                1.0,
                false,
                false,
                false,
                |a, b, c| a * b + c,
                &avx2::UKR,
                &avx2::H_UKR,
                false,
                gemm::Parallelism::None,
            );
        }
    }
}

/// The `gemm` crate's development build does not compile elsewhere.
#[cfg(not(target_arch = "x86_64"))]
mod peer {
    use super::{Contender, InstructionSet, Shape};

    pub(super) fn with(_: InstructionSet, _: Shape) -> Option<Contender> {
        None
    }
}

fn measure(criterion: &mut Criterion) {
    for shape in SHAPES {
        let mut group = criterion.benchmark_group(shape.name);
        group.throughput(Throughput::Elements(shape.flops()));
        for set in available_sets() {
            for mut contender in [Some(ours(shape, set)), peer::with(set, shape)].into_iter().flatten() {
                let name = BenchmarkId::from_parameter(&contender.name);
                group.bench_function(name, |bencher| bencher.iter(&mut contender.run));
            }
        }
    }
}

/// Seconds of each contender's fastest run, while they alternate.
fn shortest_seconds<const N: usize>(mut contenders: [&mut Contender; N]) -> [f64; N] {
    let mut runs_a_turn = [1_u32; N];
    let mut shortest = [f64::INFINITY; N];
    let start = Instant::now();
    while start.elapsed() < TURNS {
        for ((contender, runs), shortest) in contenders.iter_mut().zip(&mut runs_a_turn).zip(&mut shortest) {
            let turn = Instant::now();
            for _ in 0..*runs {
                (contender.run)();
            }
            let elapsed = turn.elapsed();
            *shortest = shortest.min(elapsed.as_secs_f64() / f64::from(*runs));
            if elapsed < TURN {
                *runs *= 2;
            }
        }
    }
    shortest
}

/// Prints the ratios; returns whether all reach [`MIN_RATIO`].
fn print_ratios() -> bool {
    let mut all_reach = true;
    println!("{:12} {:8} {:>13} {:>13} {:>6}", "shape", "vectors", "ours GFLOP/s", "gemm GFLOP/s", "ratio");
    for shape in SHAPES {
        for set in available_sets() {
            let Some(mut peer) = peer::with(set, shape) else { continue };
            let times = shortest_seconds([&mut ours(shape, set), &mut peer]);
            let [ours, theirs] = times.map(|seconds| shape.flops() as f64 / seconds / 1e9);
            let ratio = ours / theirs;
            all_reach &= ratio >= MIN_RATIO;
            println!("{:12} {set:8} {ours:13.1} {theirs:13.1} {ratio:6.2}", shape.name);
        }
    }
    all_reach
}

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--ratios") {
        return if print_ratios() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let mut criterion = Criterion::default().configure_from_args();
    measure(&mut criterion);
    criterion.final_summary();
    ExitCode::SUCCESS
}
