//! Arguments and launches of kernels: the driver's calls, each once.
//!
//! Responsible for: what every kernel of this crate is started by. Not for: which arguments
//! it takes. The owner of a kernel also owns what its arguments refer to, so that this
//! memory outlives every launch.

use std::ffi::c_void;

use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::types::{cl_event, cl_mem};

use super::error::{Naming, OpenClError};
use super::runtime::Runtime;

/// What stands for memory among a kernel's arguments.
#[derive(Clone, Copy)]
pub(super) enum Handle {
    /// A buffer or an image.
    Object(cl_mem),
    /// An address in shared virtual memory.
    Pointer(*const c_void),
}

/// Sets argument number `index` to plain data or a memory object.
pub(super) fn set<V: Copy>(kernel: &Kernel, index: u32, value: &V) -> Result<(), OpenClError> {
    // SAFETY: the value is plain data; the driver checks its size against the kernel's
    // parameter, and memory objects outlive the launches (this module's condition).
    unsafe { kernel.set_arg(index, value) }.naming("clSetKernelArg")
}

/// Sets argument number `index` to memory.
pub(super) fn set_memory(kernel: &Kernel, index: u32, memory: Handle) -> Result<(), OpenClError> {
    match memory {
        Handle::Object(object) => set(kernel, index, &object),
        Handle::Pointer(pointer) => {
            // SAFETY: the pointer is shared memory of the kernel's context, which outlives the
            // launches (this module's condition).
            unsafe { kernel.set_arg_svm_pointer(index, pointer) }.naming("clSetKernelArgSVMPointer")
        }
    }
}

/// Puts `kernel` in the queue: `global` threads in groups of `local` along each axis, to
/// start when all of `after` have ended.
pub(super) fn enqueue<const AXES: usize>(
    runtime: &Runtime,
    kernel: &Kernel,
    global: [usize; AXES],
    local: [usize; AXES],
    after: &[cl_event],
) -> Result<Event, OpenClError> {
    // SAFETY: all arguments are set, to memory that outlives the launch; the kernels stay
    // within it for the grids they are given.
    let event = unsafe {
        runtime.queue().enqueue_nd_range_kernel(
            kernel.get(),
            AXES as u32,
            std::ptr::null(),
            global.as_ptr(),
            local.as_ptr(),
            after,
        )
    };
    event.naming("clEnqueueNDRangeKernel")
}
