//! Where a tensor lies: with the host, with the device, in memory that both address, or
//! with both.

use std::ptr::NonNull;
use std::sync::Arc;

use coexec_sim::workload::{Layout, Shape};

use crate::cpu::Element;
use crate::opencl::visible::HostVisibleMemory;
use crate::opencl::{Home, OpenClError, Runtime, Tensor};

/// Who accesses a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) host: bool,
    pub(super) device: bool,
}

/// How tensors are kept that both sides access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// In fine-grained shared virtual memory.
    SharedVirtualMemory,
    /// In buffers of the host that stay mapped.
    MappedBuffers,
    /// With each side, and copied.
    Copies,
}

/// Elements that the host alone allocates.
pub(super) struct HostMemory<T> {
    first: NonNull<T>,
    length: usize,
}

// SAFETY: the memory belongs to no thread; the schedule of a program says who accesses
// which part when.
unsafe impl<T: Send> Send for HostMemory<T> {}

/// Where the host keeps a tensor of its own.
enum Hosted<T> {
    /// Memory that no device reaches.
    Pageable(HostMemory<T>),
    /// Memory that the device reaches: what is copied back and forth.
    Pinned(HostVisibleMemory<T>),
}

/// A tensor of a program.
pub(super) struct Place<T> {
    host: Option<Hosted<T>>,
    device: Option<Arc<Tensor<T>>>,
    length: usize,
}

impl<T: Element> HostMemory<T> {
    fn new(elements: Vec<T>) -> Self {
        let length = elements.len();
        Self { first: NonNull::from(Box::leak(elements.into_boxed_slice())).cast::<T>(), length }
    }
}

impl<T> Drop for HostMemory<T> {
    fn drop(&mut self) {
        // SAFETY: it was leaked from a box of that length in `new`.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.first.as_ptr(), self.length)) });
    }
}

impl<T: Element> Hosted<T> {
    /// Memory with these elements; pinned where a device reaches it.
    fn new(elements: Vec<T>, runtime: Option<&Arc<Runtime>>) -> Result<Self, OpenClError> {
        let Some(runtime) = runtime else { return Ok(Self::Pageable(HostMemory::new(elements))) };
        let mut memory = HostVisibleMemory::mapped(runtime, elements.len())?;
        memory.write(&elements);
        Ok(Self::Pinned(memory))
    }

    fn as_ptr(&self) -> *mut T {
        match self {
            Self::Pageable(memory) => memory.first.as_ptr(),
            Self::Pinned(memory) => memory.as_ptr(),
        }
    }
}

impl<T: Element> Place<T> {
    /// Memory for a tensor of `shape` that `touched` says who accesses; on the device
    /// alone it has `layout`, elsewhere the host's. It holds `numbers`, if any.
    pub(super) fn new(
        runtime: Option<&Arc<Runtime>>,
        shape: Shape,
        touched: Touched,
        layout: Layout,
        sharing: Sharing,
        numbers: Option<&[T]>,
    ) -> Result<Self, OpenClError> {
        let length = shape.elements() as usize;
        let (layout, home) =
            if touched.host { (Layout::Buffer, sharing.home()) } else { (layout, Home::Device) };
        let mut device = match runtime {
            Some(runtime) if touched.device => Some(Tensor::new(runtime, shape, layout, home)?),
            _ => None,
        };
        if let (Some(tensor), Some(numbers)) = (&mut device, numbers) {
            tensor.write(numbers)?;
        }
        let device = device.map(Arc::new);
        let addressed = device.as_ref().is_some_and(|tensor| tensor.shared_ptr().is_some());
        let needs_host = touched.host && !addressed;
        let elements = || numbers.map_or_else(|| vec![T::default(); length], <[T]>::to_vec);
        let reached = runtime.filter(|_| touched.device);
        let host = needs_host.then(|| Hosted::new(elements(), reached)).transpose()?;
        Ok(Self { host, device, length })
    }

    /// An input of `shape` that each side has where its kernels like it best: with the
    /// device in `layout`, and with the host where it reads it too.
    pub(super) fn apart(
        runtime: &Arc<Runtime>,
        shape: Shape,
        touched: Touched,
        layout: Layout,
        numbers: &[T],
    ) -> Result<Self, OpenClError> {
        let device = Some(Arc::new(Tensor::of(runtime, shape, layout, numbers)?));
        let host = touched.host.then(|| Hosted::new(numbers.to_vec(), None)).transpose()?;
        Ok(Self { host, device, length: numbers.len() })
    }

    /// A result of `shape` of which both sides compute some, each for itself. The host
    /// reads the device's where they share memory.
    pub(super) fn twice(runtime: &Arc<Runtime>, shape: Shape, sharing: Sharing) -> Result<Self, OpenClError> {
        let device = Some(Arc::new(Tensor::new(runtime, shape, Layout::Buffer, sharing.home())?));
        Ok(Self { device, ..Self::on_host(runtime, shape)? })
    }

    /// A result of `shape` that the host keeps, and that the device's part is copied to.
    pub(super) fn on_host(runtime: &Arc<Runtime>, shape: Shape) -> Result<Self, OpenClError> {
        let length = shape.elements() as usize;
        let host = Some(Hosted::new(vec![T::default(); length], Some(runtime))?);
        Ok(Self { host, device: None, length })
    }

    /// Number of elements.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The first element, where the host addresses the tensor.
    pub(super) fn host_ptr(&self) -> Option<*mut T> {
        let host = self.host.as_ref().map(Hosted::as_ptr);
        host.or_else(|| self.device_ptr())
    }

    /// The tensor on the device.
    pub(super) fn device(&self) -> Option<&Arc<Tensor<T>>> {
        self.device.as_ref()
    }

    /// The first element of what the device has, where the host addresses it.
    pub(super) fn device_ptr(&self) -> Option<*mut T> {
        self.device.as_ref().and_then(|tensor| tensor.shared_ptr())
    }

    /// Makes every element not a number on each side, while nobody computes: what is not
    /// computed afterwards is noticed.
    pub(super) fn spoil(&self) -> Result<(), OpenClError> {
        let nothing = T::from_f32(f32::NAN);
        for first in self.host.as_ref().map(Hosted::as_ptr).into_iter().chain(self.device_ptr()) {
            // SAFETY: the memory holds `length` elements, and nobody accesses it now.
            unsafe { std::slice::from_raw_parts_mut(first, self.length) }.fill(nothing);
        }
        match &self.device {
            Some(tensor) if tensor.shared_ptr().is_none() => tensor.fill(nothing),
            _ => Ok(()),
        }
    }

    /// The tensor as the host has it, or as the device has it where the host does not,
    /// while nobody computes.
    pub(super) fn read(&self) -> Result<Vec<T>, OpenClError> {
        match (self.host_ptr(), &self.device) {
            (Some(first), _) => {
                // SAFETY: the memory holds `length` elements, and nobody writes it now.
                Ok(unsafe { std::slice::from_raw_parts(first, self.length) }.to_vec())
            }
            (None, Some(tensor)) => tensor.read(),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The tensor as the device has it, or as the host does where the device does not,
    /// while nobody computes.
    pub(super) fn read_on_device(&self) -> Result<Vec<T>, OpenClError> {
        self.device.as_ref().map_or_else(|| self.read(), |tensor| tensor.read())
    }
}

impl Sharing {
    /// Where the device has what the host accesses too.
    fn home(self) -> Home {
        match self {
            Self::SharedVirtualMemory => Home::Shared,
            Self::MappedBuffers => Home::Mapped,
            Self::Copies => Home::Device,
        }
    }

    /// Name in messages and fingerprints.
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedVirtualMemory => "fine-grained shared virtual memory",
            Self::MappedBuffers => "buffers that stay mapped",
            Self::Copies => "copies",
        }
    }
}
