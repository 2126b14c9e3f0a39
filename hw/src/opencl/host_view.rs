//! Memory that the host addresses directly and a device may use as well.

use std::ptr::NonNull;

/// So many elements from an address on, which whoever has the view keeps alive.
pub(super) struct HostView<T> {
    first: NonNull<T>,
    length: usize,
}

// SAFETY: the memory belongs to no thread; who accesses it when is up to the users of
// `first`, and `read` and `write` need the device to be at rest as documented.
unsafe impl<T: Send> Send for HostView<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for HostView<T> {}

impl<T> HostView<T> {
    /// A view of `length` elements.
    ///
    /// # Safety
    /// They must lie there as long as the view exists.
    pub(super) unsafe fn new(first: NonNull<T>, length: usize) -> Self {
        Self { first, length }
    }

    /// The first element.
    pub(super) fn first(&self) -> NonNull<T> {
        self.first
    }

    /// How many there are.
    pub(super) fn length(&self) -> usize {
        self.length
    }
}

impl<T: Copy> HostView<T> {
    /// Overwrites the start with `content`, while no kernel accesses it.
    pub(super) fn write(&mut self, content: &[T]) {
        let count = content.len().min(self.length);
        // SAFETY: both hold `count` elements; nobody else writes here meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), self.first.as_ptr(), count) };
    }

    /// Copies the start to `content`, while no kernel writes it.
    pub(super) fn read(&self, content: &mut [T]) {
        let count = content.len().min(self.length);
        // SAFETY: both hold `count` elements; nobody else writes here meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(self.first.as_ptr(), content.as_mut_ptr(), count) };
    }
}
