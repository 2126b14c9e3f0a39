//! Buffers that stay mapped: the host addresses them while kernels run.
//!
//! The standard leaves open whether either side sees what the other writes meanwhile;
//! where host and device share the memory, drivers let both. It has to be tried before
//! it is relied on (`crate::sync`, `crate::execute`).

use std::ptr::NonNull;
use std::sync::Arc;

use opencl3::memory::{Buffer, CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, ClMem};
use opencl3::types::{CL_BLOCKING, cl_mem};

use super::error::{Naming, OpenClError};
use super::host_view::HostView;
use super::runtime::Runtime;

/// Elements of a buffer in the host's memory, mapped as long as this lives.
pub(crate) struct MappedMemory<T> {
    runtime: Arc<Runtime>,
    buffer: Buffer<T>,
    view: HostView<T>,
}

// SAFETY: the buffer belongs to no thread.
unsafe impl<T: Send> Send for MappedMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for MappedMemory<T> {}

impl<T: Copy> MappedMemory<T> {
    /// Room for `length` elements, undefined.
    pub(crate) fn new(runtime: &Arc<Runtime>, length: usize) -> Result<Self, OpenClError> {
        let length = length.max(1);
        let buffer = runtime.buffer_with(length, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR)?;
        let first = map(runtime, &buffer, length)?;
        // SAFETY: the buffer stays mapped there until this is dropped.
        let view = unsafe { HostView::new(first, length) };
        Ok(Self { runtime: Arc::clone(runtime), buffer, view })
    }

    /// The first element, for the host.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.view.first().as_ptr()
    }

    /// The buffer, for a kernel.
    pub(crate) fn object(&self) -> cl_mem {
        self.buffer.get()
    }

    /// Overwrites the start with `content`, while no kernel accesses it.
    pub(crate) fn write(&mut self, content: &[T]) {
        self.view.write(content);
    }

    /// Copies the start to `content`, while no kernel writes it.
    pub(crate) fn read(&self, content: &mut [T]) {
        self.view.read(content);
    }

    /// Maps the buffer once more and gives that up again: what a mechanism that maps
    /// results pays.
    pub(crate) fn map_and_unmap(&self) -> Result<(), OpenClError> {
        let again = map(&self.runtime, &self.buffer, self.view.length())?;
        unmap(&self.runtime, &self.buffer, again).naming("clEnqueueUnmapMemObject")
    }
}

fn map<T>(runtime: &Runtime, buffer: &Buffer<T>, length: usize) -> Result<NonNull<T>, OpenClError> {
    let bytes = length * size_of::<T>();
    let mut mapped = std::ptr::null_mut();
    // SAFETY: the call is blocking and fits the buffer.
    let event = unsafe {
        let flags = CL_MAP_READ | CL_MAP_WRITE;
        runtime.queue().enqueue_map_buffer(buffer, CL_BLOCKING, flags, 0, bytes, &mut mapped, &[])
    };
    event.naming("clEnqueueMapBuffer").map(drop)?;
    NonNull::new(mapped.cast::<T>()).ok_or(OpenClError::OutOfMemory { call: "clEnqueueMapBuffer", bytes })
}

fn unmap<T>(runtime: &Runtime, buffer: &Buffer<T>, mapped: NonNull<T>) -> opencl3::Result<()> {
    // SAFETY: the buffer was mapped there, and this mapping is not used afterwards.
    let event =
        unsafe { runtime.queue().enqueue_unmap_mem_object(buffer.get(), mapped.as_ptr().cast(), &[]) };
    event.map(drop)
}

impl<T> Drop for MappedMemory<T> {
    fn drop(&mut self) {
        if self.runtime.is_lost() {
            return;
        }
        // What cannot be unmapped is left to the end of the process.
        let _ = unmap(&self.runtime, &self.buffer, self.view.first());
    }
}
