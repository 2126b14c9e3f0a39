//! Operators that only move elements take the time of their bytes, along every axis.
//!
//! A kernel that moves whole texels does so at the GPU's copy rate. Two rules of the delegate's
//! kernels cost more: a texel that gathers its channels from four others takes four reads, and in
//! a concatenation along channels one thread copies all slices of a pixel, which is slow for few
//! pixels.

use coexec_sim::device::{Gpu, Profile};
use coexec_sim::kernel::gpu::execute;
use coexec_sim::kernel::{CoreSet, Library, cpu};
use coexec_sim::workload::{
    CHANNELS_PER_SLICE, Concat, DataType, Dimension, Elementwise, Function, Interpolation, Layer, Operator,
    Pad, Resize, Shape, Slice, Transpose,
};

/// Extents with equal numbers of elements: tokens, heads, images, all in whole texels.
const EXTENTS: [[u32; 4]; 4] = [[1, 1, 1024, 128], [8, 1, 128, 128], [1, 32, 32, 128], [1, 64, 64, 32]];

fn gpus() -> impl Iterator<Item = (String, Gpu)> {
    let devices = Profile::bundled().unwrap().into_iter();
    devices.filter_map(|device| Some((device.name.clone(), device.gpu?)))
}

fn micros(operator: impl Into<Operator>, gpu: &Gpu) -> f64 {
    let operator = operator.into();
    operator.check().unwrap();
    execute(&Layer::new(operator, DataType::F32), gpu).unwrap().phases.duration().as_micros()
}

/// Time of a copy, in microseconds: each thread reads and writes one texel.
fn copy(shape: Shape, gpu: &Gpu) -> f64 {
    micros(Elementwise { function: Function::Relu, input: shape, other: None }, gpu)
}

/// Operators that move whole texels of `input`, along each dimension.
fn whole_texels(input: Shape) -> Vec<Operator> {
    use Dimension::{Batch, Channels, Height, Width};
    let mut moves = Vec::new();
    for dimension in Dimension::ALL {
        let extent = input.along(dimension);
        let count = (extent / 2).max(1);
        moves.push(Slice { input, dimension, first: 0, count, step: 1 }.into());
        if dimension != Channels {
            moves.push(Concat { extent: input, dimension, extents: vec![extent; 2] }.into());
            moves.push(Slice { input, dimension, first: extent - 1, count: extent, step: -1 }.into());
        }
        let mut before = [0; 4];
        before[dimension as usize] = CHANNELS_PER_SLICE;
        moves.push(Pad { input, before, after: [0; 4] }.into());
    }
    for order in [[Width, Batch, Height, Channels], [Batch, Width, Height, Channels]] {
        moves.push(Transpose { input, images: 1, order }.into());
    }
    let [height, width] = [2 * input.height, 2 * input.width];
    moves.push(Resize { input, height, width, interpolation: Interpolation::Nearest }.into());
    moves
}

/// Launch time of a kernel, and time per element of a large tensor, in microseconds.
fn launch_and_byte(gpu: &Gpu) -> [f64; 2] {
    // The small tensor has a work-group for every compute unit, so its time includes their start.
    let [small, large] = [Shape::image(32, 32, 16), Shape::image(512, 512, 64)];
    let launch = copy(small, gpu);
    [launch, (copy(large, gpu) - launch) / (large.elements() - small.elements()) as f64]
}

#[test]
fn a_move_of_whole_texels_is_a_copy_whichever_dimension_it_is_about() {
    for (name, gpu) in gpus() {
        let [launch, element] = launch_and_byte(&gpu);
        for input in EXTENTS.map(Shape::from) {
            for operator in whole_texels(input) {
                let (taken, output) = (micros(operator.clone(), &gpu), operator.output());
                assert!(taken <= 1.1 * copy(output, &gpu), "{name}: {operator} takes {taken} us");
                let bound = launch + 3.0 * element * output.elements() as f64;
                assert!(taken <= bound, "{name}: {operator} takes {taken} us, its bytes {bound}");
            }
        }
    }
}

#[test]
fn a_texel_from_four_others_takes_up_to_four_reads() {
    use Dimension::{Batch, Channels, Height, Width};
    for (name, gpu) in gpus() {
        let [launch, _] = launch_and_byte(&gpu);
        for input in EXTENTS.map(Shape::from) {
            let turned = Transpose { input, images: 1, order: [Batch, Height, Channels, Width] };
            let odd = Slice::of_channels(input, 1, input.channels - CHANNELS_PER_SLICE);
            for operator in [Operator::from(turned), odd.into()] {
                let (taken, copied) = (micros(operator.clone(), &gpu), copy(operator.output(), &gpu));
                let factor = (taken - launch) / (copied - launch);
                assert!((1.0..=4.0).contains(&factor), "{name}: {operator} takes {factor} times as long");
            }
        }
    }
}

#[test]
fn a_cpu_copies_along_one_dimension_as_along_another() {
    // coexec's own kernels work pixel by pixel, so their time also depends on the number of pixels.
    let phones = Profile::bundled().unwrap().into_iter().map(|device| device.cpu);
    let phones = phones.filter(|cpu| Library::default_for(cpu) != Library::Coexec);
    for (cpu, input) in phones.zip(EXTENTS.map(Shape::from).into_iter().cycle()) {
        let cpu = &cpu;
        let cores = CoreSet::fastest(cpu, 1).unwrap();
        let micros = |operator: Operator| {
            let layer = Layer::new(operator, DataType::F32);
            let execution = cpu::execute(&layer, cpu, &cores, Library::default_for(cpu)).unwrap();
            execution.phases.duration().as_micros()
        };
        let elements = Dimension::ALL.map(|dimension| {
            let extent = input.along(dimension);
            micros(Concat { extent: input, dimension, extents: vec![extent; 2] }.into())
        });
        assert!(elements.iter().all(|taken| (taken / elements[0] - 1.0).abs() < 0.1), "{elements:?}");
    }
}
