//! One kernel launch of a layer: its arguments, grid and work-group.

use std::sync::Arc;

use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, ClMem};

use super::super::device::DeviceKind;
use super::super::error::{Naming, OpenClError};
use super::super::runtime::Runtime;
use super::super::signals::Signals;
use super::super::source::Source;
use super::super::tensor::{Extent, Handle, Tensor};
use crate::cpu::Element;

/// The part of the output that is computed: first column, row and slice, and how many.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) slice: i32,
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) slices: i32,
}

impl Region {
    /// Columns, rows, slices.
    pub(super) fn size(&self) -> [u32; 3] {
        [self.width, self.height, self.slices].map(|side| side as u32)
    }
}

/// A window that slides over an image: columns before rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) kernel: [i32; 2],
    pub(super) stride: [i32; 2],
    pub(super) dilation: [i32; 2],
    pub(super) before: [i32; 2],
}

/// Channel groups of a convolution: source slices a block reads, input and output
/// channels of a group.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) depth: i32,
    pub(super) inputs: i32,
    pub(super) outputs: i32,
}

/// Winograd tiles: columns, rows, images.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tiles {
    pub(super) columns: i32,
    pub(super) rows: i32,
    pub(super) images: i32,
}

/// An argument of a kernel.
pub(super) enum Argument<T> {
    /// One of the layer's inputs.
    Input(usize),
    /// Its extent.
    InputExtent(usize),
    /// The layer's output.
    Output,
    /// Its extent.
    OutputExtent,
    /// A tensor between two steps.
    Inner(usize),
    /// Its extent.
    InnerExtent(usize),
    /// Weights.
    Weights(Arc<Buffer<T>>),
    Region(Region),
    Window(Window),
    Groups(Groups),
    Tiles(Tiles),
    Count(i32),
}

/// A kernel with its launch.
pub(super) struct Step<T> {
    pub(super) name: &'static str,
    kernel: Kernel,
    arguments: Vec<Argument<T>>,
    global: [usize; 3],
    local: [usize; 3],
    announces: bool,
}

/// How a step is launched.
#[derive(Clone, Copy)]
pub(super) struct Grid {
    /// Threads that are needed.
    pub(super) threads: [u32; 3],
    /// Threads of a work-group.
    pub(super) work_group: [u32; 3],
}

impl<T: Element> Step<T> {
    /// The kernel `entry` of `source`, launched over whole work-groups.
    pub(super) fn new(
        runtime: &Runtime,
        source: &Source,
        entry: &'static str,
        grid: Grid,
        arguments: Vec<Argument<T>>,
    ) -> Result<Self, OpenClError> {
        check_axes(runtime, entry, grid.work_group)?;
        let mut source = source.clone();
        // A CPU shares out no registers, and PoCL compiles for each group in any case: a
        // program of its own for each would only be built for nothing.
        source.work_group(grid.work_group, runtime.device().kind != DeviceKind::Cpu);
        let kernel = runtime.kernel(&source, entry)?;
        check_threads(runtime, &kernel, entry, grid.work_group)?;
        let local = grid.work_group.map(|threads| threads as usize);
        let threads = grid.threads.map(|threads| threads as usize);
        let global = [0, 1, 2].map(|axis| threads[axis].max(1).next_multiple_of(local[axis]));
        Ok(Self { name: entry, kernel, arguments, global, local, announces: false })
    }

    /// The same that announces itself through `signals`, which outlive it.
    pub(super) fn announcing(
        runtime: &Runtime,
        (source, signals): (&Source, &Signals),
        entry: &'static str,
        grid: Grid,
        arguments: Vec<Argument<T>>,
    ) -> Result<Self, OpenClError> {
        let mut source = source.clone();
        signals.announce_in(&mut source, entry);
        let step = Self { announces: true, ..Self::new(runtime, &source, entry, grid, arguments)? };
        signals.set_parameters(&step.kernel, step.arguments.len() as u32)?;
        Ok(step)
    }

    /// Makes it read the tensors between the steps from number `first` on where it read the
    /// layer's inputs.
    pub(super) fn read_inner(&mut self, first: usize) {
        for argument in &mut self.arguments {
            match *argument {
                Argument::Input(input) => *argument = Argument::Inner(first + input),
                Argument::InputExtent(input) => *argument = Argument::InnerExtent(first + input),
                _ => {}
            }
        }
    }

    /// Whether it announces itself.
    pub(super) fn announces(&self) -> bool {
        self.announces
    }

    /// Sets what it announces when it is queued next: nothing where it is 0.
    pub(super) fn announce(&self, number: u32) -> Result<(), OpenClError> {
        if !self.announces {
            return Ok(());
        }
        Signals::set_announced(&self.kernel, self.arguments.len() as u32, number)
    }

    /// Sets every argument; tensors are seen under the extents beside them.
    pub(super) fn bind(
        &self,
        (inputs, extents): (&[Arc<Tensor<T>>], &[Extent]),
        (output, output_extent): (&Tensor<T>, Extent),
        inner: &[Tensor<T>],
    ) -> Result<(), OpenClError> {
        for (index, argument) in self.arguments.iter().enumerate() {
            let index = index as u32;
            match argument {
                Argument::Input(input) => self.set_tensor(index, &inputs[*input]),
                Argument::InputExtent(input) => self.set(index, &extents[*input]),
                Argument::Output => self.set_tensor(index, output),
                Argument::OutputExtent => self.set(index, &output_extent),
                Argument::Inner(tensor) => self.set_tensor(index, &inner[*tensor]),
                Argument::InnerExtent(tensor) => self.set(index, &inner[*tensor].extent()),
                Argument::Weights(buffer) => self.set(index, &buffer.get()),
                Argument::Region(region) => self.set(index, region),
                Argument::Window(window) => self.set(index, window),
                Argument::Groups(groups) => self.set(index, groups),
                Argument::Tiles(tiles) => self.set(index, tiles),
                Argument::Count(count) => self.set(index, count),
            }?;
        }
        Ok(())
    }

    fn set<V: Copy>(&self, index: u32, value: &V) -> Result<(), OpenClError> {
        // SAFETY: the value is plain data; the driver checks its size against the
        // kernel's parameter, and memory objects live as long as the step's layer is
        // bound to them.
        unsafe { self.kernel.set_arg(index, value) }.naming("clSetKernelArg")
    }

    fn set_tensor(&self, index: u32, tensor: &Tensor<T>) -> Result<(), OpenClError> {
        match tensor.handle() {
            Handle::Object(object) => self.set(index, &object),
            Handle::Pointer(pointer) => {
                // SAFETY: the pointer is shared memory of the kernel's context, and
                // lives as long as the step's layer is bound to it.
                unsafe { self.kernel.set_arg_svm_pointer(index, pointer) }.naming("clSetKernelArgSVMPointer")
            }
        }
    }

    /// Puts the kernel in the queue.
    pub(super) fn enqueue(&self, runtime: &Runtime) -> Result<Event, OpenClError> {
        // SAFETY: all arguments are set, to memory that lives until the layer is bound
        // again or dropped; the kernels stay within their tensors' extents.
        let event = unsafe {
            runtime.queue().enqueue_nd_range_kernel(
                self.kernel.get(),
                3,
                std::ptr::null(),
                self.global.as_ptr(),
                self.local.as_ptr(),
                &[],
            )
        };
        event.naming("clEnqueueNDRangeKernel")
    }
}

/// Refuses a group that no kernel can have, which a compiler need not explain.
fn check_axes(runtime: &Runtime, entry: &'static str, found: [u32; 3]) -> Result<(), OpenClError> {
    let device = runtime.device();
    let axes = device.max_work_item_sizes;
    if (0..3).any(|axis| found[axis] == 0 || found[axis] as usize > axes[axis]) {
        return Err(too_large(entry, found, format!("{axes:?} along the axes")));
    }
    at_most(device.max_work_group_size, entry, found)
}

/// Refuses a group that is too large for the registers of its threads.
fn check_threads(
    runtime: &Runtime,
    kernel: &Kernel,
    entry: &'static str,
    found: [u32; 3],
) -> Result<(), OpenClError> {
    let device = runtime.device();
    at_most(
        kernel.get_work_group_size(runtime.device_id()).unwrap_or(device.max_work_group_size),
        entry,
        found,
    )
}

fn at_most(most: usize, entry: &'static str, found: [u32; 3]) -> Result<(), OpenClError> {
    let threads: u64 = found.iter().map(|&threads| u64::from(threads)).product();
    if threads > most as u64 {
        return Err(too_large(entry, found, format!("{most} threads in all")));
    }
    Ok(())
}

fn too_large(kernel: &'static str, found: [u32; 3], most: String) -> OpenClError {
    OpenClError::WorkGroup { kernel, found, most }
}
