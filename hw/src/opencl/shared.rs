//! Fine-grained shared virtual memory: addresses that mean the same to host and
//! device, without mapping.

use std::ptr::NonNull;
use std::sync::Arc;

use opencl3::memory::{
    CL_MEM_READ_WRITE, CL_MEM_SVM_ATOMICS, CL_MEM_SVM_FINE_GRAIN_BUFFER, svm_alloc, svm_free,
};

use super::error::{Naming, OpenClError};
use super::host_view::HostView;
use super::runtime::Runtime;

/// Elements that host and device both address.
pub(crate) struct SharedMemory<T> {
    runtime: Arc<Runtime>,
    view: HostView<T>,
}

impl<T: Copy> SharedMemory<T> {
    /// Room for `length` elements, all bits zero.
    pub(crate) fn new(runtime: &Arc<Runtime>, length: usize) -> Result<Self, OpenClError> {
        let device = runtime.device();
        if !device.shared_virtual_memory.allows_polling() {
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
        // SAFETY: it is freed when this is dropped.
        let view = unsafe { HostView::new(first, length) };
        Ok(Self { runtime: Arc::clone(runtime), view })
    }

    /// The first element.
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.view.first().as_ptr()
    }

    /// Overwrites the start with `content`, while no kernel accesses it.
    pub(crate) fn write(&mut self, content: &[T]) {
        self.view.write(content);
    }

    /// Copies the start to `content`, while no kernel writes it.
    pub(crate) fn read(&self, content: &mut [T]) {
        self.view.read(content);
    }
}

impl<T> Drop for SharedMemory<T> {
    fn drop(&mut self) {
        if self.runtime.is_lost() {
            // A kernel that hangs may still write here.
            return;
        }
        // SAFETY: it was allocated in this context; kernels that use it have finished,
        // as whoever runs them waits for them or gives the runtime up.
        unsafe {
            // What cannot be freed is left to the process's end.
            let _ = svm_free(self.runtime.context().get(), self.view.first().as_ptr().cast());
        }
    }
}
