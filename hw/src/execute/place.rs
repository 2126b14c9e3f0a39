//! The memory of a tensor: the host's, the device's, memory visible to both, or a copy on each
//! side.

use std::ptr::NonNull;
use std::sync::Arc;

use coexec_sim::workload::{Layout, Shape};

use super::Side;
use crate::cpu::{Aligned, CacheLine, Element};
use crate::opencl::{Home, HostVisibleMemory, OpenClError, Runtime, Tensor};

/// The host's memory of a tensor.
enum Hosted<T> {
    /// Memory allocated by the host alone, aligned to cache lines as a device's is. Otherwise
    /// vector loads across two lines would make times depend on the allocator.
    Pageable(NonNull<[CacheLine]>),
    Pinned(HostVisibleMemory<T>),
}

// SAFETY: the memory is bound to no thread; a program's schedule orders the accesses to each part.
unsafe impl<T: Send> Send for Hosted<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Hosted<T> {}

impl<T> Drop for Hosted<T> {
    fn drop(&mut self) {
        if let Self::Pageable(lines) = self {
            // SAFETY: the slice was leaked from a box in `Place::new`.
            drop(unsafe { Box::from_raw(lines.as_ptr()) });
        }
    }
}

/// Kind of the host's own memory of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostHome {
    /// Memory that the device does not access.
    Pageable,
    /// Memory that the device accesses, for copies in both directions.
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

/// The memory of a program's tensors.
pub(super) struct Places<T> {
    /// The operators' results, then the workload's inputs.
    pub(super) own: Vec<Place<T>>,
    /// For each joined operator whose parts overlap, the whole result.
    pub(super) joined: Vec<Option<Place<T>>>,
    /// For each operator, the chain it belongs to; `None` outside of chains.
    pub(super) chains: Vec<Option<u32>>,
}

impl<T: Element> Places<T> {
    /// The memory in which a reader finds a tensor: within a chain its processor's own copy,
    /// elsewhere the joined one, if there is one on that side. Without a reader, the memory in
    /// which the caller finds it.
    pub(super) fn of(&self, reader: Option<usize>, tensor: usize, side: Side) -> &Place<T> {
        let own = &self.own[tensor];
        let Some(joined) = self.joined.get(tensor).and_then(Option::as_ref) else { return own };
        let is_of_chain = reader.is_some_and(|reader| self.chains[reader] == self.chains[tensor]);
        if is_of_chain || (side == Side::Device && joined.device().is_none()) { own } else { joined }
    }
}

/// A tensor of a program.
pub(super) struct Place<T> {
    host: Option<Hosted<T>>,
    device: Option<Arc<Tensor<T>>>,
    length: usize,
}

impl<T: Element> Place<T> {
    /// Allocates a tensor of `shape` on the device, if a layout is given, and on the host, if a
    /// kind of memory is given. Both are initialised with `numbers`, if any.
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

    /// The tensor as the host addresses it: its own memory, else the device's where visible.
    pub(super) fn host_ptr(&self) -> Option<*mut [T]> {
        let host = self.host.as_ref().map(|host| self.all_from(host.as_ptr()));
        host.or_else(|| self.device_ptr())
    }

    /// The tensor on the device.
    pub(super) fn device(&self) -> Option<&Arc<Tensor<T>>> {
        self.device.as_ref()
    }

    /// The device's tensor, if the host can address it.
    pub(super) fn device_ptr(&self) -> Option<*mut [T]> {
        self.device.as_ref()?.shared_ptr().map(|first| self.all_from(first))
    }

    fn all_from(&self, first: *mut T) -> *mut [T] {
        std::ptr::slice_from_raw_parts_mut(first, self.length)
    }

    /// Fills the tensor with NaN on each side, so that missing results are noticed. Nothing may be
    /// computing.
    pub(super) fn poison(&self) -> Result<(), OpenClError> {
        let nothing = T::from_f32(f32::NAN);
        for all in self.host_ptr().into_iter().chain(self.device_ptr()) {
            // SAFETY: nothing accesses the memory now.
            unsafe { &mut *all }.fill(nothing);
        }
        match &self.device {
            Some(tensor) if tensor.shared_ptr().is_none() => tensor.fill(nothing),
            _ => Ok(()),
        }
    }

    /// The tensor from the host's memory, else from the device's. Nothing may be computing.
    pub(super) fn read(&self) -> Result<Vec<T>, OpenClError> {
        match (self.host_ptr(), &self.device) {
            // SAFETY: nothing writes the memory now.
            (Some(all), _) => Ok(unsafe { &*all }.to_vec()),
            (None, Some(tensor)) => tensor.read(),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The tensor from the device's memory, else from the host's. Nothing may be computing.
    pub(super) fn read_on_device(&self) -> Result<Vec<T>, OpenClError> {
        self.device.as_ref().map_or_else(|| self.read(), |tensor| tensor.read())
    }
}
