//! How a thread waits: it spins, and then sleeps.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

/// Looks at a flag between two looks at the clock, which cost tens of
/// nanoseconds each.
const LOOKS_PER_CLOCK: u32 = 64;

/// One worker's mailbox, on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Mailbox {
    /// Number of the latest task for this worker.
    task: AtomicU32,
    asleep: AtomicBool,
}

impl Mailbox {
    /// Puts a task in; whether the worker has to be woken for it.
    pub(super) fn put(&self, task: u32) -> bool {
        self.task.store(task, Ordering::Release);
        look_after_store();
        self.asleep.load(Ordering::Relaxed)
    }

    /// Waits for a task other than `done` and returns its number.
    pub(super) fn next(&self, done: u32, spin: Duration) -> u32 {
        let has_task = || self.task.load(Ordering::Acquire) != done;
        if !spin_until(spin, has_task) {
            self.asleep.store(true, Ordering::Relaxed);
            look_after_store();
            // Whoever wrote the task before this look sees no sleeper and is seen here;
            // whoever writes it after wakes this thread.
            while self.task.load(Ordering::Acquire) == done {
                thread::park();
            }
            self.asleep.store(false, Ordering::Relaxed);
        }
        self.task.load(Ordering::Acquire)
    }
}

/// What this thread stored is seen by the other before this thread looks at what the
/// other stored: of two threads that store and then look, one sees the other.
///
/// A fence, and not sequentially consistent stores and loads alone: those promise the
/// same, but emulators of aarch64 (QEMU 7.2 on `x86_64`) let such a load pass the store
/// before it, and a thread then sleeps forever.
fn look_after_store() {
    fence(Ordering::SeqCst);
}

/// Spins until `condition` holds or `spin` has passed; whether it holds.
pub(crate) fn spin_until(spin: Duration, condition: impl Fn() -> bool) -> bool {
    let mut start = None;
    loop {
        for _ in 0..LOOKS_PER_CLOCK {
            if condition() {
                return true;
            }
            hint::spin_loop();
        }
        if start.get_or_insert_with(Instant::now).elapsed() >= spin {
            return false;
        }
    }
}
