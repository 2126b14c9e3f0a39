//! How a thread waits: it spins, then sleeps.

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

/// Polls of the condition between two reads of the clock, which take tens of nanoseconds each.
const POLLS_PER_CLOCK_READ: u32 = 64;

/// One worker's mailbox, on cache lines of its own to avoid false sharing.
#[repr(align(128))]
#[derive(Default)]
pub(super) struct Mailbox {
    /// Number of the latest task for this worker.
    task: AtomicU32,
    asleep: AtomicBool,
}

impl Mailbox {
    /// Posts a task; returns whether the worker must be woken for it.
    pub(super) fn put(&self, task: u32) -> bool {
        self.task.store(task, Ordering::Release);
        store_load_fence();
        self.asleep.load(Ordering::Relaxed)
    }

    /// Waits for a task other than `done` and returns its number.
    pub(super) fn next(&self, done: u32, spin: Duration) -> u32 {
        let has_task = || self.task.load(Ordering::Acquire) != done;
        if !spin_until(spin, has_task) {
            self.asleep.store(true, Ordering::Relaxed);
            store_load_fence();
            // A poster that stored the task before this load may see no sleeper, but this load sees
            // its task; a poster that stores it later sees the sleeper and wakes it.
            while self.task.load(Ordering::Acquire) == done {
                thread::park();
            }
            self.asleep.store(false, Ordering::Relaxed);
        }
        self.task.load(Ordering::Acquire)
    }
}

/// Orders this thread's store before its next load (the store-buffering pattern): of two threads
/// that each store and then load the other's variable, at least one sees the other's store.
///
/// Sequentially consistent stores and loads alone promise the same, but emulators of aarch64 (QEMU
/// 7.2 on `x86_64`) let such a load pass the preceding store, and a thread then sleeps forever.
/// Hence a fence.
fn store_load_fence() {
    fence(Ordering::SeqCst);
}

/// Spins until `condition` holds or `spin` has passed; returns whether it holds.
pub(crate) fn spin_until(spin: Duration, condition: impl Fn() -> bool) -> bool {
    let mut start = None;
    loop {
        for _ in 0..POLLS_PER_CLOCK_READ {
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
