//! Kernel arguments and launches.
//!
//! Responsible for: the driver's calls that start every kernel of this crate. Not for: which
//! arguments a kernel takes. The owner of a kernel also owns the memory that its arguments refer
//! to, so that this memory outlives every launch.

use std::ffi::c_void;
use std::sync::Mutex;

use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, ClMem};
use opencl3::types::cl_mem;

use super::{Naming, Result, Runtime, Signals, Source};
use crate::lock::lock;

/// Memory as a kernel argument.
#[derive(Clone, Copy)]
pub(super) enum Handle {
    /// A buffer or an image.
    Object(cl_mem),
    /// An address in shared virtual memory.
    Pointer(*const c_void),
}

impl<T> From<&Buffer<T>> for Handle {
    fn from(buffer: &Buffer<T>) -> Self {
        Self::Object(buffer.get())
    }
}

/// A kernel with its launch grid.
pub(super) struct GridKernel {
    pub(super) name: &'static str,
    /// Locked for each call of the driver; that one thread at a time sets arguments and enqueues is its owner's
    /// matter.
    kernel: Mutex<Kernel>,
    /// Threads along each axis, in whole groups, and the threads of a group.
    global: [usize; 3],
    local: [usize; 3],
    /// Index of the first announcement parameter; `None` if the kernel does not announce its end.
    announcement: Option<u32>,
}

impl GridKernel {
    /// The kernel `name` of `source` on a grid of `global` threads in groups of `local`.
    pub(super) fn new(
        runtime: &Runtime,
        source: &Source,
        name: &'static str,
        [global, local]: [[usize; 3]; 2],
    ) -> Result<Self> {
        let kernel = Mutex::new(runtime.kernel(source, name)?);
        Ok(Self { name, kernel, global, local, announcement: None })
    }

    /// Largest work-group that the kernel's register use allows, if the driver reports it.
    pub(super) fn max_group_threads(&self, runtime: &Runtime) -> Option<usize> {
        lock(&self.kernel).get_work_group_size(runtime.device_id()).ok()
    }

    /// Sets argument `index` to a number, or to a structure of numbers.
    pub(super) fn set<V: Copy>(&self, index: u32, numbers: &[V]) -> Result<()> {
        let (size, first) = (size_of_val(numbers), numbers.as_ptr().cast());
        // SAFETY: the numbers are plain data of that size, which the driver checks against the
        // kernel's parameter.
        let set = unsafe { cl3::kernel::set_kernel_arg(lock(&self.kernel).get(), index, size, first) };
        set.naming("clSetKernelArg")
    }

    /// Sets argument `index` to memory.
    pub(super) fn set_memory(&self, index: u32, memory: impl Into<Handle>) -> Result<()> {
        match memory.into() {
            Handle::Object(object) => self.set(index, &[object]),
            Handle::Pointer(pointer) => {
                // SAFETY: the pointer is shared memory of the kernel's context, which outlives the
                // launches (this module's condition).
                unsafe { lock(&self.kernel).set_arg_svm_pointer(index, pointer) }
                    .naming("clSetKernelArgSVMPointer")
            }
        }
    }

    /// Makes the kernel announce its end through `signals`, which must outlive it and for which its
    /// source was compiled. The announcement's parameters follow the `own` first ones.
    pub(super) fn announce_through(&mut self, signals: &Signals, own: u32) -> Result<()> {
        self.set_memory(own, signals.memory.handle())?;
        self.set_memory(own + 1, &signals.groups_done)?;
        self.announcement = Some(own + 2);
        self.announce(0)
    }

    /// Whether the kernel announces its end.
    pub(super) fn announces(&self) -> bool {
        self.announcement.is_some()
    }

    /// Sets the number that the next launch announces, if the kernel announces at all; 0 for no
    /// announcement.
    pub(super) fn announce(&self, number: u32) -> Result<()> {
        self.announcement.map_or(Ok(()), |parameter| self.set(parameter, &[number]))
    }

    /// Enqueues a launch.
    pub(super) fn enqueue(&self, runtime: &Runtime) -> Result<Event> {
        let kernel = lock(&self.kernel);
        // SAFETY: all arguments are set, to memory that outlives the launch; the kernels stay
        // within it for the grids they are given.
        let event = unsafe {
            runtime.queue().enqueue_nd_range_kernel(
                kernel.get(),
                self.global.len() as u32,
                std::ptr::null(),
                self.global.as_ptr(),
                self.local.as_ptr(),
                &[],
            )
        };
        event.naming("clEnqueueNDRangeKernel")
    }
}
