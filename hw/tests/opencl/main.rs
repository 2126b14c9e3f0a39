//! The `OpenCL` kernels on the available device.
//!
//! Without a platform every test is skipped with a message; with `COEXEC_REQUIRE_OPENCL=1` it fails
//! instead. `COEXEC_OPENCL=PLATFORM:DEVICE` selects the device.

#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod devices;
mod dispatches;
mod kernels;
mod pixelwise;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coexec_hw::cpu::Element;
use coexec_hw::opencl::{Device, Dispatch, Home, OpenClError, Prepared, Runtime, Tensor, Timing, stored};
use coexec_hw::operands::{Weights, weight_counts};
use coexec_hw::verify::Reference;
use coexec_sim::plan::Region;
use coexec_sim::workload::{Function, Layer, Layout, Linked, Operator, SecondOperand, Shape};

/// Time limit of a run on a busy machine, kernel compilation included.
const LIMIT: Duration = Duration::from_mins(1);

/// Fill value before a run: it must be gone from the computed part and remain everywhere else.
const UNTOUCHED: f32 = -77.0;

/// Layouts of tensors.
const LAYOUTS: [Layout; 3] = [Layout::Buffer, Layout::SlicedBuffer, Layout::Image];

/// The device to test on; `None` without `OpenCL`.
fn device() -> Option<Device> {
    let selection = std::env::var("COEXEC_OPENCL").unwrap_or_default();
    match Device::select(&selection) {
        Ok(device) => Some(device),
        Err(
            error @ (OpenClError::NoLibrary { .. } | OpenClError::NoPlatform | OpenClError::NotFound { .. }),
        ) => {
            let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
            assert!(!required, "{error}");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// One runtime for all tests, so that each kernel is built once.
fn runtime() -> Option<Arc<Runtime>> {
    static RUNTIME: OnceLock<Option<Arc<Runtime>>> = OnceLock::new();
    RUNTIME.get_or_init(|| device().map(|device| Runtime::new(device).unwrap())).clone()
}

/// Row indices into an embedding table, each different from the one before.
fn rows(count: u64, vocabulary: u64) -> Vec<f32> {
    (0..count).map(|index| (index * 7 % vocabulary) as f32).collect()
}

/// Pseudo-random numbers in [-1, 1) (linear congruential), exact in `f16`.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 23) as f32 / 256.0 - 1.0
    };
    std::iter::repeat_with(number).take(count).collect()
}

/// Shapes that a second operand may have beside a first of shape `first`.
fn second_operands(first: Shape) -> [Shape; 7] {
    let images = if first.batch.is_multiple_of(2) { first.batch / 2 } else { first.batch };
    [
        first,
        Shape::image(1, 1, first.channels),
        first.with_channels(1),
        Shape { batch: 1, ..first },
        Shape { height: 1, ..first },
        Shape { width: 1, ..first },
        Shape { batch: images, width: 1, ..first },
    ]
}

/// `functions` linked to an operator, with second operands that `seed` selects.
fn linked(functions: &[Function], output: Shape, seed: u32) -> Linked {
    let mut linked = Linked::default();
    for (index, &function) in functions.iter().enumerate() {
        let shapes = second_operands(output);
        let other = shapes[(seed as usize + index) % shapes.len()];
        assert!(linked.push(function, SecondOperand::new(output, other)));
    }
    linked
}

/// Runs `part` of a layer twice and compares it with the reference; elements outside must stay
/// untouched.
fn check<T: Element>(
    runtime: &Arc<Runtime>,
    layer: &Layer,
    part: Region,
    layout: Layout,
    dispatch: Dispatch,
) -> Timing {
    let timing = check_result::<T>(runtime, layer, part, [layout; 2], dispatch);
    if layout != Layout::Buffer {
        check_result::<T>(runtime, layer, part, [layout, Layout::Buffer], dispatch);
    }
    timing
}

/// As [`check`], with separate layouts for inputs and output.
fn check_result<T: Element>(
    runtime: &Arc<Runtime>,
    layer: &Layer,
    part: Region,
    [layout, result]: [Layout; 2],
    dispatch: Dispatch,
) -> Timing {
    let layer = &Layer { data_type: T::DATA_TYPE, ..layer.clone() };
    let context =
        format!("{} {:?} in {layout:?} to {result:?} by {dispatch:?}", layer.operator, layer.linked);
    let [kernel, bias] = weight_counts(&layer.operator);
    let (kernel, bias) = (numbers(kernel, 91), numbers(bias, 92));
    let weights = Weights { kernel: &kernel, bias: &bias };
    let output_shape = stored(&layer.operator, layer.operator.output());
    // In plain layout an operator accepts a tensor of any shape with the same number of elements.
    let shapes: Vec<Shape> = if layout == Layout::Buffer {
        layer.read_shapes().collect()
    } else {
        layer.read_shapes().map(|shape| stored(&layer.operator, shape)).collect()
    };
    let inputs: Vec<Vec<f32>> = shapes
        .iter()
        .enumerate()
        .map(|(index, shape)| match &layer.operator {
            Operator::Embedding(table) => rows(shape.elements(), u64::from(table.vocabulary)),
            _ => numbers(shape.elements() as usize, index as u32),
        })
        .collect();
    let tensor = |shape: Shape, layout: Layout, numbers: &[f32]| {
        let converted: Vec<T> = numbers.iter().map(|&number| T::from_f32(number)).collect();
        filled(runtime, shape, layout, &converted)
    };
    let tensors: Vec<_> =
        shapes.iter().zip(&inputs).map(|(&shape, numbers)| tensor(shape, layout, numbers)).collect();
    let output = tensor(output_shape, result, &vec![UNTOUCHED; output_shape.elements() as usize]);
    let prepared = Prepared::<T>::new(layer, &weights, part, (&tensors, &output), dispatch);
    let prepared = prepared.unwrap_or_else(|error| panic!("{context}: {error}"));
    // Twice, so that a second run does not depend on what the first left.
    prepared.run(LIMIT).unwrap_or_else(|error| panic!("{context}: {error}"));
    let timing = prepared.run(LIMIT).unwrap();
    let result = output.read().unwrap();
    let operands: Vec<&[f32]> = inputs.iter().map(Vec::as_slice).collect();
    let reference = Reference::new(layer, weights, &operands).unwrap();
    reference.compare(&result, part, 1).unwrap_or_else(|mismatch| panic!("{context}: {mismatch}"));
    for (place, element) in result.iter().enumerate() {
        let outside = !contains(layer, part, place);
        assert!(!outside || element.to_f32() == UNTOUCHED, "{context}: element {place} was overwritten");
    }
    timing
}

/// Whether output element `place` belongs to `part`.
fn contains(layer: &Layer, part: Region, place: usize) -> bool {
    let output = layer.operator.output();
    let channels = output.channels as usize;
    let image = (output.height * output.width) as usize;
    let line = place / channels % image / (image / output.lines() as usize);
    part.channels.range().contains(&((place % channels) as u32)) && part.rows.range().contains(&(line as u32))
}

/// A tensor initialised with `numbers`.
fn filled<T: Element>(runtime: &Arc<Runtime>, shape: Shape, layout: Layout, numbers: &[T]) -> Arc<Tensor<T>> {
    let mut tensor =
        Tensor::new(runtime, shape, layout, Home::Device).unwrap_or_else(|error| panic!("{error}"));
    tensor.write(numbers).unwrap();
    Arc::new(tensor)
}

/// An uninitialised tensor, for tests of rejected operands.
fn empty<T: Element>(runtime: &Arc<Runtime>, shape: Shape, layout: Layout) -> Arc<Tensor<T>> {
    Arc::new(Tensor::new(runtime, shape, layout, Home::Device).unwrap())
}
