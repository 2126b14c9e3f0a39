//! Devices, sub-devices, and rejected requests.

use std::sync::Arc;

use coexec_hw::cpu::Element;
use coexec_hw::opencl::{
    DeviceKind, Dispatch, Home, Linearisation, OpenClError, Prepared, Runtime, Tensor, devices,
};
use coexec_hw::operands::{OperandError, Weights};
use coexec_sim::kernel::gpu::Kernel;
use coexec_sim::plan::{Region, Span};
use coexec_sim::workload::{DataType, Elementwise, Function, Layer, Layout, Linear, Operator, Shape};
use half::f16;

use super::{LIMIT, check, device, empty, filled, runtime};

const DISPATCH: Dispatch = Dispatch {
    kernel: Kernel::ConvGeneric,
    tile: [2, 1, 2],
    work_group: [4, 1, 2],
    linearisation: Linearisation::None,
};

fn layer(data_type: DataType) -> Layer {
    let linear = Linear { rows: 6, input_features: 8, output_features: 12, bias: false };
    Layer::new(Operator::Linear(linear), data_type)
}

fn prepare<T: Element>(
    runtime: &Arc<Runtime>,
    part: Region,
    dispatch: Dispatch,
) -> Result<Prepared<T>, OpenClError> {
    let input = empty(runtime, Shape::tokens(6, 8), Layout::Buffer);
    let output = empty(runtime, Shape::tokens(6, 12), Layout::Buffer);
    prepare_on::<T>((&[input], &output), part, dispatch)
}

fn prepare_on<T: Element>(
    tensors: (&[Arc<Tensor<T>>], &Arc<Tensor<T>>),
    part: Region,
    dispatch: Dispatch,
) -> Result<Prepared<T>, OpenClError> {
    let weights = Weights { kernel: &[0.5; 96], bias: &[] };
    Prepared::new(&layer(T::DATA_TYPE), &weights, part, tensors, dispatch)
}

fn whole() -> Region {
    Region::of(layer(DataType::F32).operator.output())
}

#[test]
fn a_device_is_described_as_its_driver_does() {
    if device().is_none() {
        return;
    }
    for device in devices().unwrap() {
        let description = device.description();
        assert!(
            !description.name.is_empty() && description.version.starts_with("OpenCL "),
            "{description:?}"
        );
        assert!(description.compute_units > 0 && description.max_work_group_size > 0);
        assert!(description.max_allocation_bytes <= description.global_memory_bytes);
        println!("{description}: {description:?}");
    }
}

#[test]
fn without_a_driver_the_error_says_so_and_nothing_crashes() {
    // The ICD loader reads its environment once per process.
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "devices::a_device_is_described_as_its_driver_does"])
        .env("OCL_ICD_VENDORS", "/nonexistent")
        .env("OPENCL_DYLIB_PATH", "/nonexistent/libOpenCL.so")
        .env_remove("COEXEC_REQUIRE_OPENCL")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{stderr}");
    assert!(stderr.contains("no platform") || stderr.contains("found no OpenCL library"), "{stderr}");
}

#[test]
fn some_cores_of_a_cpu_device_are_a_device_of_their_own() {
    let Some(device) = device() else { return };
    let whole_device = device.description().compute_units;
    assert!(matches!(device.sub_device(whole_device + 1), Err(OpenClError::SubDevice { .. })));
    if device.description().kind != DeviceKind::Cpu {
        return;
    }
    let part = device.sub_device(1).unwrap();
    assert_eq!(part.description().compute_units, 1);
    let runtime = Runtime::new(part).unwrap();
    check::<f32>(&runtime, &layer(DataType::F32), whole(), Layout::SlicedBuffer, DISPATCH);
}

#[test]
fn sixteen_bit_layers_run_where_the_device_computes_in_sixteen_bits_and_are_refused_elsewhere() {
    let Some(runtime) = runtime() else { return };
    if runtime.device().half {
        check::<f16>(&runtime, &layer(DataType::F16), whole(), Layout::SlicedBuffer, DISPATCH);
    } else {
        let error = prepare::<f16>(&runtime, whole(), DISPATCH).err().unwrap();
        assert!(matches!(error, OpenClError::NoHalf { .. }), "{error}");
    }
}

#[test]
fn a_work_group_beyond_the_device_s_limit_is_refused_before_it_is_launched() {
    let Some(runtime) = runtime() else { return };
    for work_group in [[1 << 20, 1, 1], [0, 1, 1], [256, 256, 1]] {
        let error = prepare::<f32>(&runtime, whole(), Dispatch { work_group, ..DISPATCH }).err().unwrap();
        assert!(matches!(error, OpenClError::WorkGroup { .. }), "{error}");
    }
}

#[test]
fn a_kernel_that_does_not_compute_the_operator_is_refused() {
    let Some(runtime) = runtime() else { return };
    for kernel in [Kernel::Winograd, Kernel::FullyConnected, Kernel::Softmax] {
        let error = prepare::<f32>(&runtime, whole(), Dispatch { kernel, ..DISPATCH }).err().unwrap();
        assert!(matches!(error, OpenClError::Unsupported { .. }), "{error}");
    }
}

#[test]
fn a_part_of_half_a_slice_is_refused() {
    let Some(runtime) = runtime() else { return };
    let part = Region { channels: Span::new(2, 8), ..whole() };
    let error = prepare::<f32>(&runtime, part, DISPATCH).err().unwrap();
    assert!(matches!(error, OpenClError::Operand(OperandError::Part { .. })), "{error}");
}

#[test]
fn tensors_of_another_shape_or_of_several_layouts_are_refused() {
    let Some(runtime) = runtime() else { return };
    let plain = |shape| empty::<f32>(&runtime, shape, Layout::Buffer);
    let sliced = |shape| empty::<f32>(&runtime, shape, Layout::SlicedBuffer);
    let (input, output) = (Shape::tokens(6, 8), Shape::tokens(6, 12));
    for inputs in [vec![], vec![plain(Shape::tokens(6, 7))]] {
        let refused = prepare_on((&inputs, &plain(output)), whole(), DISPATCH).err().unwrap();
        assert!(matches!(refused, OpenClError::Operand(OperandError::Count { .. })), "{refused}");
    }
    // As many elements, but not in the order of the host.
    for (inputs, output) in [([sliced(Shape::tokens(8, 6))], output), ([plain(input)], Shape::tokens(12, 6))]
    {
        let refused = prepare_on((&inputs, &sliced(output)), whole(), DISPATCH).err().unwrap();
        assert!(matches!(refused, OpenClError::Unsupported { .. }), "{refused}");
    }
    let add = Elementwise { function: Function::Add, input, other: Some(input) };
    let sum = Layer::new(Operator::Elementwise(add), DataType::F32);
    let add = Dispatch { kernel: Kernel::Elementwise, ..DISPATCH };
    let sum_of = |inputs: &[Arc<Tensor<f32>>]| {
        Prepared::new(&sum, &Weights::default(), Region::of(input), (inputs, &plain(input)), add)
    };
    assert!(sum_of(&[plain(input), plain(input)]).is_ok());
    let mixed = sum_of(&[plain(input), sliced(input)]).err().unwrap();
    assert!(matches!(mixed, OpenClError::Unsupported { .. }), "{mixed}");
}

#[test]
fn a_tensor_larger_than_the_device_s_memory_is_out_of_memory() {
    let Some(runtime) = runtime() else { return };
    let shape = Shape::image(1 << 15, 1 << 15, 1 << 10);
    let error = Tensor::<f32>::new(&runtime, shape, Layout::Buffer, Home::Device).err().unwrap();
    assert!(matches!(error, OpenClError::OutOfMemory { .. }), "{error}");
}

#[test]
fn an_image_wider_than_the_device_s_images_is_refused() {
    let Some(runtime) = runtime() else { return };
    let shape = Shape::tokens(1 << 20, 4);
    let error = Tensor::<f32>::new(&runtime, shape, Layout::Image, Home::Device).err().unwrap();
    assert!(matches!(error, OpenClError::Image { .. }), "{error}");
}

#[test]
fn a_result_in_shared_memory_is_read_without_a_copy() {
    let Some(runtime) = runtime() else { return };
    let shape = Shape::tokens(6, 12);
    let output = match Tensor::<f32>::new(&runtime, shape, Layout::Buffer, Home::Shared) {
        Ok(tensor) => Arc::new(tensor),
        Err(error) => {
            assert!(matches!(error, OpenClError::NoFineGrainedSvm { .. }), "{error}");
            return;
        }
    };
    let input = filled(&runtime, Shape::tokens(6, 8), Layout::Buffer, &[1.0; 48]);
    prepare_on((&[input], &output), whole(), DISPATCH).unwrap().run(LIMIT).unwrap();
    let first = output.shared_ptr().unwrap();
    // SAFETY: the tensor holds 72 numbers, and the kernel that wrote them has ended.
    let result = unsafe { std::slice::from_raw_parts(first, 72) };
    assert_eq!(result, [4.0; 72]);
}
