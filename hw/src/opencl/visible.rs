//! Memory that host and device address at the same time.
//!
//! Responsible for: its allocation, and its release once no kernel can use it any more. Not
//! for: who accesses it when. Invariant: memory of a device that was given up is never
//! released, as its kernels may still write there.
//!
//! In fine-grained shared virtual memory addresses mean the same to both. A buffer that
//! stays mapped is addressed by the host while kernels run; the standard leaves open
//! whether either side sees what the other writes meanwhile. Where both share the memory,
//! drivers let them, which has to be tried before it is relied on (`crate::sync`,
//! `crate::execute`).

use std::ptr::NonNull;
use std::sync::Arc;

use opencl3::memory::{
    Buffer, CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, CL_MEM_SVM_ATOMICS,
    CL_MEM_SVM_FINE_GRAIN_BUFFER, ClMem, svm_alloc, svm_free,
};
use opencl3::types::CL_BLOCKING;

use super::{Handle, Naming, OpenClError, Result, Runtime};

/// Elements that host and device both address.
pub(crate) struct HostVisibleMemory<T> {
    runtime: Arc<Runtime>,
    /// None of shared virtual memory.
    buffer: Option<Buffer<T>>,
    first: NonNull<T>,
    length: usize,
}

// SAFETY: the memory belongs to no thread; who accesses it when is up to the users of
// `as_ptr`, and `read` and `write` need the device to be at rest as documented.
unsafe impl<T: Send> Send for HostVisibleMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HostVisibleMemory<T> {}

impl<T: Copy> HostVisibleMemory<T> {
    /// Room for `length` elements in fine-grained shared virtual memory, all bits zero.
    pub(crate) fn shared(runtime: &Arc<Runtime>, length: usize) -> Result<Self> {
        let device = runtime.device();
        if !device.polls_shared_memory {
            return Err(OpenClError::NoFineGrainedSvm { device: device.name.clone() });
        }
        let bytes = length.max(1).saturating_mul(size_of::<T>());
        if bytes as u64 > device.max_allocation_bytes {
            return Err(OpenClError::OutOfMemory { call: "clSVMAlloc", bytes });
        }
        let flags = CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS;
        // SAFETY: the context is valid; an alignment of 0 means that of the largest
        // type, which suits numbers and flags.
        let first = unsafe { svm_alloc(runtime.context().get(), flags, bytes, 0) };
        let first = NonNull::new(first.allocating("clSVMAlloc", bytes)?.cast::<T>());
        let first = first.ok_or(OpenClError::OutOfMemory { call: "clSVMAlloc", bytes })?;
        // SAFETY: that many bytes were just allocated.
        unsafe { first.as_ptr().cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { runtime: Arc::clone(runtime), buffer: None, first, length })
    }

    /// Room for `length` elements in a buffer in the host's memory that stays mapped,
    /// undefined.
    pub(crate) fn mapped(runtime: &Arc<Runtime>, length: usize) -> Result<Self> {
        let length = length.max(1);
        let buffer = runtime.buffer_with(length, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR)?;
        let first = map(runtime, &buffer, length)?;
        Ok(Self { runtime: Arc::clone(runtime), buffer: Some(buffer), first, length })
    }

    /// Overwrites the start with `content`, while no kernel accesses it.
    pub(crate) fn write(&mut self, content: &[T]) {
        let count = content.len().min(self.length);
        // SAFETY: both hold `count` elements; nobody else writes here meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), self.as_ptr(), count) };
    }

    /// Copies the start to `content`, while no kernel writes it.
    pub(crate) fn read(&self, content: &mut [T]) {
        let count = content.len().min(self.length);
        // SAFETY: both hold `count` elements; nobody else writes here meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(self.as_ptr(), content.as_mut_ptr(), count) };
    }

    /// Maps a buffer once more and gives that up again: what a mechanism that maps results
    /// pays; nothing in shared memory.
    pub(crate) fn map_and_unmap(&self) -> Result<()> {
        let Some(buffer) = &self.buffer else { return Ok(()) };
        let again = map(&self.runtime, buffer, self.length)?;
        unmap(&self.runtime, buffer, again)
    }
}

impl<T> HostVisibleMemory<T> {
    /// The first element, for the host.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.first.as_ptr()
    }

    /// The memory, for a kernel.
    pub(super) fn handle(&self) -> Handle {
        let pointer = || Handle::Pointer(self.first.as_ptr().cast());
        self.buffer.as_ref().map_or_else(pointer, |buffer| Handle::Object(buffer.get()))
    }
}

/// Maps the first `length` elements of `buffer` for the host to read and write, and waits.
pub(super) fn map<T>(runtime: &Runtime, buffer: &Buffer<T>, length: usize) -> Result<NonNull<T>> {
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

/// Queues that a mapping of `buffer` is given up; it is not used afterwards.
pub(super) fn unmap<T>(runtime: &Runtime, buffer: &Buffer<T>, mapped: NonNull<T>) -> Result<()> {
    // SAFETY: the buffer was mapped there, and this mapping is not used afterwards.
    let event =
        unsafe { runtime.queue().enqueue_unmap_mem_object(buffer.get(), mapped.as_ptr().cast(), &[]) };
    event.naming("clEnqueueUnmapMemObject").map(drop)
}

impl<T> Drop for HostVisibleMemory<T> {
    fn drop(&mut self) {
        if self.runtime.is_lost() {
            // A kernel that hangs may still write here.
            return;
        }
        // What cannot be released is left to the end of the process.
        match &self.buffer {
            Some(buffer) => drop(unmap(&self.runtime, buffer, self.first)),
            // SAFETY: it was allocated in this context; kernels that use it have finished,
            // as whoever runs them waits for them or gives the runtime up.
            None => drop(unsafe { svm_free(self.runtime.context().get(), self.as_ptr().cast()) }),
        }
    }
}
