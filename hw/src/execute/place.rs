//! Where a tensor lies: with the host, with the device, in memory that both address, or
//! with both.

use std::ptr::NonNull;
use std::sync::Arc;

use coexec_sim::workload::{Layout, Shape};

use crate::cpu::{Aligned, CacheLine, Element};
use crate::opencl::{Home, HostVisibleMemory, OpenClError, Runtime, Tensor};

/// Who accesses a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) host: bool,
    pub(super) device: bool,
}

/// What the host has of a tensor.
enum Hosted<T> {
    /// Memory that the host alone allocates, on cache lines as a device's is: vectors across two
    /// lines would take a time that depends on luck.
    Pageable(NonNull<[CacheLine]>),
    Pinned(HostVisibleMemory<T>),
}

// SAFETY: the memory belongs to no thread; the schedule of a program says who accesses
// which part when.
unsafe impl<T: Send> Send for Hosted<T> {}

impl<T> Drop for Hosted<T> {
    fn drop(&mut self) {
        if let Self::Pageable(lines) = self {
            // SAFETY: it was leaked from a box in `Place::new`.
            drop(unsafe { Box::from_raw(lines.as_ptr()) });
        }
    }
}

/// Where the host keeps a tensor of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostHome {
    /// In memory that no device reaches.
    Pageable,
    /// In memory that the device reaches: what is copied back and forth.
    Pinned,
}

impl<T> Hosted<T> {
    fn as_ptr(&self) -> *mut T {
        match self {
            Self::Pageable(lines) => lines.as_ptr().cast(),
            Self::Pinned(memory) => memory.as_ptr(),
        }
    }
}

/// A tensor of a program.
pub(super) struct Place<T> {
    host: Option<Hosted<T>>,
    device: Option<Arc<Tensor<T>>>,
    length: usize,
}

impl<T: Element> Place<T> {
    /// Memory for a tensor of `shape` with the device, in a layout, and with the host, each
    /// where it has it. Both hold `numbers`, if any.
    pub(super) fn new(
        runtime: Option<&Arc<Runtime>>,
        shape: Shape,
        device: Option<(Layout, Home)>,
        host: Option<HostHome>,
        numbers: Option<&[T]>,
    ) -> Result<Self, OpenClError> {
        let length = shape.elements() as usize;
        let mut tensor = match (runtime, device) {
            (Some(runtime), Some((layout, home))) => Some(Tensor::new(runtime, shape, layout, home)?),
            _ => None,
        };
        if let (Some(tensor), Some(numbers)) = (&mut tensor, numbers) {
            tensor.write(numbers)?;
        }
        let elements = || numbers.map_or_else(|| Aligned::zeros(length), Aligned::of);
        let host = match (host, runtime) {
            (Some(HostHome::Pinned), Some(runtime)) => {
                let mut memory = HostVisibleMemory::mapped(runtime, length)?;
                memory.write(elements().as_slice());
                Some(Hosted::Pinned(memory))
            }
            (Some(_), _) => Some(Hosted::Pageable(NonNull::from(Box::leak(elements().into_lines())))),
            (None, _) => None,
        };
        Ok(Self { host, device: tensor.map(Arc::new), length })
    }

    /// The tensor where the host addresses it.
    pub(super) fn host_ptr(&self) -> Option<*mut [T]> {
        let host = self.host.as_ref().map(|host| self.all_from(host.as_ptr()));
        host.or_else(|| self.device_ptr())
    }

    /// The tensor on the device.
    pub(super) fn device(&self) -> Option<&Arc<Tensor<T>>> {
        self.device.as_ref()
    }

    /// What the device has, where the host addresses it.
    pub(super) fn device_ptr(&self) -> Option<*mut [T]> {
        self.device.as_ref()?.shared_ptr().map(|first| self.all_from(first))
    }

    fn all_from(&self, first: *mut T) -> *mut [T] {
        std::ptr::slice_from_raw_parts_mut(first, self.length)
    }

    /// Makes every element not a number on each side, while nobody computes: what is not
    /// computed afterwards is noticed.
    pub(super) fn spoil(&self) -> Result<(), OpenClError> {
        let nothing = T::from_f32(f32::NAN);
        for all in self.host_ptr().into_iter().chain(self.device_ptr()) {
            // SAFETY: nobody accesses the memory now.
            unsafe { &mut *all }.fill(nothing);
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
            // SAFETY: nobody writes the memory now.
            (Some(all), _) => Ok(unsafe { &*all }.to_vec()),
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
