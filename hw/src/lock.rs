//! Locks whose content stays valid when a thread that holds one panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even after a panic elsewhere.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
