//! Memory that host and device can address at the same time.
//!
//! Responsible for: its allocation, and its release once no kernel can use it any more. Not for:
//! the order of accesses. Invariant: memory of a lost device is never released, as its kernels may
//! still write there.
//!
//! In fine-grained shared virtual memory, addresses are the same for both. A buffer that stays
//! mapped can be addressed by the host while kernels run, but the standard does not guarantee that
//! either side sees the other's writes meanwhile. Drivers with unified memory allow it, which must
//! be probed before use (`crate::sync`, `crate::execute`).

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use opencl3::memory::{
    Buffer, CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, CL_MEM_SVM_ATOMICS,
    CL_MEM_SVM_FINE_GRAIN_BUFFER, ClMem, svm_alloc, svm_free,
};
use opencl3::types::CL_BLOCKING;

use super::{Handle, Naming, OpenClError, Result, Runtime, drain};

/// How long kernels of a failed run may take to end before the memory that they use is released.
const DRAIN_LIMIT: Duration = Duration::from_mins(1);

/// Elements that host and device both address.
pub(crate) struct HostVisibleMemory<T> {
    runtime: Arc<Runtime>,
    /// `None` for shared virtual memory.
    buffer: Option<Buffer<T>>,
    first: NonNull<T>,
    length: usize,
}

// SAFETY: the memory is bound to no thread; users of `as_ptr` order their accesses, and `read` and
// `write` require the device to be idle as documented.
unsafe impl<T: Send> Send for HostVisibleMemory<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HostVisibleMemory<T> {}

impl<T: Copy> HostVisibleMemory<T> {
    /// Zeroed fine-grained shared virtual memory for `length` elements.
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
        // SAFETY: the context is valid; an alignment of 0 means that of the largest type, which
        // suits numbers and flags.
        let first = unsafe { svm_alloc(runtime.context().get(), flags, bytes, 0) };
        let first = NonNull::new(first.allocating("clSVMAlloc", bytes)?.cast::<T>());
        let first = first.ok_or(OpenClError::OutOfMemory { call: "clSVMAlloc", bytes })?;
        // SAFETY: that many bytes were just allocated.
        unsafe { first.as_ptr().cast::<u8>().write_bytes(0, bytes) };
        Ok(Self { runtime: Arc::clone(runtime), buffer: None, first, length })
    }

    /// An uninitialised host buffer for `length` elements that stays mapped.
    pub(crate) fn mapped(runtime: &Arc<Runtime>, length: usize) -> Result<Self> {
        let length = length.max(1);
        let buffer = runtime.buffer_with(length, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR)?;
        let first = map(runtime, &buffer, length)?;
        Ok(Self { runtime: Arc::clone(runtime), buffer: Some(buffer), first, length })
    }

    /// Overwrites the start with `content`, while no kernel accesses it.
    pub(crate) fn write(&mut self, content: &[T]) {
        let count = content.len().min(self.length);
        // SAFETY: both hold `count` elements; nothing else writes here meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), self.as_ptr(), count) };
    }

    /// Copies the start to `content`, while no kernel writes it.
    pub(crate) fn read(&self, content: &mut [T]) {
        let count = content.len().min(self.length);
        // SAFETY: both hold `count` elements; nothing else writes here meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(self.as_ptr(), content.as_mut_ptr(), count) };
    }

    /// Maps the buffer once more and unmaps it: the cost of a mechanism that maps results. Does
    /// nothing in shared virtual memory.
    pub(crate) fn map_and_unmap(&self) -> Result<()> {
        let Some(buffer) = &self.buffer else { return Ok(()) };
        let again = map(&self.runtime, buffer, self.length)?;
        unmap(&self.runtime, buffer, again)
    }
}

impl<T> HostVisibleMemory<T> {
    /// The host's pointer to the first element.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.first.as_ptr()
    }

    /// The memory as a kernel argument.
    pub(super) fn handle(&self) -> Handle {
        let pointer = || Handle::Pointer(self.first.as_ptr().cast());
        self.buffer.as_ref().map_or_else(pointer, |buffer| Handle::Object(buffer.get()))
    }
}

/// Maps the first `length` elements of `buffer` for the host to read and write; blocks.
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

/// Enqueues the unmapping of `buffer`, whose mapping is not used afterwards.
pub(super) fn unmap<T>(runtime: &Runtime, buffer: &Buffer<T>, mapped: NonNull<T>) -> Result<()> {
    // SAFETY: the buffer was mapped there, and this mapping is not used afterwards.
    let event =
        unsafe { runtime.queue().enqueue_unmap_mem_object(buffer.get(), mapped.as_ptr().cast(), &[]) };
    event.naming("clEnqueueUnmapMemObject").map(drop)
}

impl<T> Drop for HostVisibleMemory<T> {
    fn drop(&mut self) {
        if self.runtime.is_lost() {
            // A hung kernel may still write here.
            return;
        }
        // An error leaves the memory allocated until the process ends.
        match &self.buffer {
            // Kernels that use it precede the unmapping in the queue.
            Some(buffer) => drop(unmap(&self.runtime, buffer, self.first)),
            None if drain(&self.runtime, DRAIN_LIMIT).is_ok() => {
                // SAFETY: it was allocated in this context; kernels that use it have ended, even
                // those of a failed run, and none is enqueued any more.
                let _ = unsafe { svm_free(self.runtime.context().get(), self.as_ptr().cast()) };
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::{BoundKernel, has_ended};

    #[test]
    fn shared_memory_is_released_after_the_kernels_that_may_use_it() {
        let Some((_lock, device)) = crate::tests::device() else { return };
        let runtime = Runtime::new(device).unwrap();
        if !runtime.device().polls_shared_memory {
            return;
        }
        let memory = HostVisibleMemory::<f32>::shared(&runtime, 64).unwrap();
        let kernel = BoundKernel::spin(&runtime, 1, 64, 1_000_000).unwrap();
        let events: Vec<_> = (0..5).map(|_| kernel.enqueue().unwrap()).collect();
        let last = events.last().unwrap();
        drop(memory);
        assert!(has_ended(last).unwrap() && !runtime.is_lost());
    }
}
