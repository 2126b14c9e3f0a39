//! A kernel launch with all its arguments, its grid and work-group.

use std::sync::Arc;

use coexec_sim::workload::{Dimension, Pick, Shape, Window};
use opencl3::memory::Buffer;

use super::{DeviceKind, GridKernel, OpenClError, Result, Runtime, Signals, Source, Tensor, extent};
use crate::cpu::Element;

/// The part of a tensor that is computed, in columns, rows and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ComputedPart {
    pub(super) first: [u32; 3],
    pub(super) size: [u32; 3],
    /// Images that are interleaved in its columns.
    pub(super) images: u32,
}

impl ComputedPart {
    /// Number of tiles that cover it along each axis; no tile spans two images.
    pub(super) fn blocks(self, tile: [u32; 3]) -> [u32; 3] {
        let [columns, rows, slices] = self.size;
        let [x, y, z] = tile.map(|side| side.max(1));
        [(columns / self.images).div_ceil(x) * self.images, rows.div_ceil(y), slices.div_ceil(z)]
    }
}

/// A tensor that a step reads or writes, and the shape under which it does.
pub(super) struct Operand<T> {
    pub(super) tensor: Arc<Tensor<T>>,
    pub(super) shape: Shape,
}

impl<T> Clone for Operand<T> {
    fn clone(&self) -> Self {
        Self { tensor: Arc::clone(&self.tensor), ..*self }
    }
}

impl<T> Operand<T> {
    pub(super) fn memory(&self) -> Argument<T> {
        Argument::Tensor(Arc::clone(&self.tensor))
    }

    pub(super) fn extent(&self) -> Argument<T> {
        Argument::numbers(extent(self.shape))
    }
}

/// An argument of a kernel.
pub(super) enum Argument<T> {
    Tensor(Arc<Tensor<T>>),
    Buffer(Arc<Buffer<T>>),
    /// An integer, or a structure of integers.
    Numbers(Vec<i32>),
}

impl<T> Argument<T> {
    pub(super) fn numbers(numbers: impl IntoIterator<Item = u32>) -> Self {
        Self::Numbers(numbers.into_iter().map(|number| number as i32).collect())
    }

    pub(super) fn part(part: ComputedPart) -> Self {
        Self::numbers(part.first.into_iter().chain(part.size).chain([part.images]))
    }

    /// A sliding window, columns before rows.
    pub(super) fn window(window: &Window) -> Self {
        let before = [window.padding.top, window.padding.left];
        let sides = [window.kernel, window.stride, window.dilation, before];
        Self::numbers(sides.into_iter().flat_map(|[vertical, horizontal]| [horizontal, vertical]))
    }

    /// The mapping from output to input elements: first positions, then a column of steps for each
    /// output coordinate, then the input's extents.
    pub(super) fn pick(pick: &Pick) -> Self {
        let step = |along: Dimension| {
            pick.axes.map(move |axis| if axis.along == along { axis.step as i32 } else { 0 })
        };
        let first = pick.axes.map(|axis| axis.first as i32);
        let end = <[u32; 4]>::from(pick.input).map(|extent| extent as i32);
        let steps = Dimension::ALL.into_iter().flat_map(step);
        Self::Numbers(first.into_iter().chain(steps).chain(end).collect())
    }
}

/// A kernel with its arguments.
pub(super) struct Step<T> {
    pub(super) kernel: GridKernel,
    #[allow(dead_code, reason = "their memory lives as long as the kernel")]
    pub(super) arguments: Vec<Argument<T>>,
}

/// Launch size of a step.
#[derive(Clone, Copy)]
pub(super) struct LaunchGrid {
    /// Threads needed, before rounding up to whole work-groups.
    pub(super) threads: [u32; 3],
    /// Threads of a work-group.
    pub(super) work_group: [u32; 3],
}

impl<T: Element> Step<T> {
    /// The kernel `entry` of `source`, launched over whole work-groups. It announces its end
    /// through `signals`, if any, which must outlive it.
    pub(super) fn new(
        runtime: &Runtime,
        (mut source, signals): (Source, Option<&Signals>),
        entry: &'static str,
        LaunchGrid { threads, work_group }: LaunchGrid,
        arguments: Vec<Argument<T>>,
    ) -> Result<Self> {
        let most = runtime.device().max_work_group_size;
        check_group(runtime, entry, work_group, most)?;
        if let Some(signals) = signals {
            signals.announce_in(&mut source);
        }
        // A CPU does not divide a register file among threads, and PoCL compiles for each
        // work-group size anyway; a program per work-group would only cost build time.
        source.work_group(work_group, runtime.device().kind != DeviceKind::Cpu);
        let global = [0, 1, 2].map(|axis| threads[axis].max(1).next_multiple_of(work_group[axis]));
        let grid = [global, work_group].map(|sides| sides.map(|side| side as usize));
        let mut kernel = GridKernel::new(runtime, &source, entry, grid)?;
        // The more registers a thread uses, the smaller the largest work-group.
        check_group(runtime, entry, work_group, kernel.max_group_threads(runtime).unwrap_or(most))?;
        if let Some(signals) = signals {
            kernel.announce_through(signals, arguments.len() as u32)?;
        }
        for (index, argument) in (0..).zip(&arguments) {
            match argument {
                Argument::Tensor(tensor) => kernel.set_memory(index, tensor.handle()),
                Argument::Buffer(buffer) => kernel.set_memory(index, &**buffer),
                Argument::Numbers(numbers) => kernel.set(index, numbers),
            }?;
        }
        Ok(Self { kernel, arguments })
    }
}

/// Rejects a work-group that exceeds the device's limits or the kernel's `most` threads, for which
/// a driver may give no reason.
fn check_group(runtime: &Runtime, kernel: &'static str, found: [u32; 3], most: usize) -> Result<()> {
    let device = runtime.device();
    if device.allows(found, most) {
        return Ok(());
    }
    let axes = device.max_work_item_sizes;
    let most = format!("{most} threads in all and {axes:?} along the axes");
    Err(OpenClError::WorkGroup { kernel, found, most })
}
