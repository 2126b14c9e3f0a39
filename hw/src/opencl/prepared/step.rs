//! One kernel launch of a layer: its arguments, grid and work-group.

use std::sync::Arc;

use coexec_sim::workload::Window;
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, ClMem};

use super::super::device::DeviceKind;
use super::super::error::OpenClError;
use super::super::launch::{enqueue, set, set_memory};
use super::super::runtime::Runtime;
use super::super::signals::Signals;
use super::super::source::Source;
use super::super::tensor::{Extent, Tensor};
use crate::cpu::Element;

/// The part of the output that is computed: first column, row and slice, and how many.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegionArgument {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) slice: i32,
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) slices: i32,
}

impl RegionArgument {
    /// Columns, rows, slices.
    pub(super) fn size(&self) -> [u32; 3] {
        [self.width, self.height, self.slices].map(|side| side as u32)
    }
}

/// A window that slides over an image: columns before rows.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowArgument {
    pub(super) kernel: [i32; 2],
    pub(super) stride: [i32; 2],
    pub(super) dilation: [i32; 2],
    pub(super) before: [i32; 2],
}

impl From<&Window> for WindowArgument {
    fn from(window: &Window) -> Self {
        let columns_first = |[vertical, horizontal]: [u32; 2]| [horizontal as i32, vertical as i32];
        Self {
            kernel: columns_first(window.kernel),
            stride: columns_first(window.stride),
            dilation: columns_first(window.dilation),
            before: columns_first([window.padding.top, window.padding.left]),
        }
    }
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

/// A tensor that a step reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TensorName {
    /// One of the layer's inputs.
    Input(usize),
    /// The layer's output.
    Output,
    /// A tensor between two steps.
    Inner(usize),
}

/// An argument of a kernel.
pub(super) enum Argument<T> {
    /// A tensor.
    Tensor(TensorName),
    /// The extent of one.
    Extent(TensorName),
    /// Weights.
    Weights(Arc<Buffer<T>>),
    Region(RegionArgument),
    Window(WindowArgument),
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
pub(super) struct LaunchGrid {
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
        grid: LaunchGrid,
        arguments: Vec<Argument<T>>,
    ) -> Result<Self, OpenClError> {
        let most = runtime.device().max_work_group_size;
        check_group(runtime, entry, grid.work_group, most)?;
        let mut source = source.clone();
        // A CPU shares out no registers, and PoCL compiles for each group in any case: a
        // program of its own for each would only be built for nothing.
        source.work_group(grid.work_group, runtime.device().kind != DeviceKind::Cpu);
        let kernel = runtime.kernel(&source, entry)?;
        // Threads that want many registers are fewer.
        let most = kernel.get_work_group_size(runtime.device_id()).unwrap_or(most);
        check_group(runtime, entry, grid.work_group, most)?;
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
        grid: LaunchGrid,
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
            if let Argument::Tensor(name) | Argument::Extent(name) = argument
                && let TensorName::Input(input) = *name
            {
                *name = TensorName::Inner(first + input);
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
        let tensor = |name: TensorName| match name {
            TensorName::Input(input) => (&*inputs[input], extents[input]),
            TensorName::Output => (output, output_extent),
            TensorName::Inner(index) => (&inner[index], inner[index].extent()),
        };
        for (index, argument) in self.arguments.iter().enumerate() {
            let (kernel, index) = (&self.kernel, index as u32);
            match argument {
                Argument::Tensor(name) => set_memory(kernel, index, tensor(*name).0.handle()),
                Argument::Extent(name) => set(kernel, index, &tensor(*name).1),
                Argument::Weights(buffer) => set(kernel, index, &buffer.get()),
                Argument::Region(region) => set(kernel, index, region),
                Argument::Window(window) => set(kernel, index, window),
                Argument::Groups(groups) => set(kernel, index, groups),
                Argument::Tiles(tiles) => set(kernel, index, tiles),
                Argument::Count(count) => set(kernel, index, count),
            }?;
        }
        Ok(())
    }

    /// Puts the kernel in the queue.
    pub(super) fn enqueue(&self, runtime: &Runtime) -> Result<Event, OpenClError> {
        enqueue(runtime, &self.kernel, self.global, self.local, &[])
    }
}

/// Refuses a group that the device, or a kernel with groups of at most `most` threads, cannot
/// have: a compiler need not explain it.
fn check_group(
    runtime: &Runtime,
    kernel: &'static str,
    found: [u32; 3],
    most: usize,
) -> Result<(), OpenClError> {
    let device = runtime.device();
    if device.allows(found, most) {
        return Ok(());
    }
    let axes = device.max_work_item_sizes;
    let most = format!("{most} threads in all and {axes:?} along the axes");
    Err(OpenClError::WorkGroup { kernel, found, most })
}
