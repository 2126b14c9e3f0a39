//! A fork-join pool of threads that share one operator.
//!
//! Responsible for: waking the workers, dividing items among them, waiting for the last. The
//! calling thread is worker 0 and takes part. An idle worker spins for a while before it sleeps, as
//! in ruy and XNNPACK, so that consecutive operators pay only the fork-join cost of spinning
//! workers. Invariants: a task's closure is never run after the call that received it returns; a
//! panic in it reaches the caller; dividing work allocates nothing.

mod waiting;

use std::any::Any;
use std::cell::UnsafeCell;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use core_affinity::CoreId;
use thiserror::Error;

use crate::lock::lock;
use waiting::Mailbox;
pub(crate) use waiting::spin_until;

/// How long an idle thread spins before it sleeps (ruy's thread pool: 2 ms).
pub const SPIN: Duration = Duration::from_millis(2);
/// Cores in Linux's affinity mask (`CPU_SETSIZE`).
const MAX_CORES: usize = 1024;

/// A thread pool could not be created.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum PoolError {
    /// No threads were asked for.
    #[error("found 0 threads, expected at least 1")]
    NoThreads,
    /// The operating system does not pin a thread to a core.
    #[error(
        "cannot pin a thread to core {core}: it does not exist here, or this system does not pin threads"
    )]
    CannotPin { core: usize },
    /// The operating system did not start a thread.
    #[error("cannot start a worker thread")]
    CannotStart(#[source] std::io::Error),
}

/// A task; the argument is the worker's index.
type Work<'a> = dyn Fn(usize) + Sync + 'a;

struct Shared {
    mailboxes: Vec<Mailbox>,
    /// The closure of the running task; written only while no worker is pending.
    work: UnsafeCell<Option<*const Work<'static>>>,
    /// Workers that have not finished the running task.
    pending: AtomicUsize,
    /// The calling thread, while it sleeps until no worker is pending.
    sleeping_caller: Mutex<Option<Thread>>,
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
    stop: AtomicBool,
    spin: Duration,
}

// SAFETY: `work` is the only field that is not `Sync` and `Send` by itself. The caller writes it
// while `pending` is 0; workers read it between the store to their mailbox and their decrement of
// `pending`, both of which order memory. It points to a `Sync` closure.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// Worker threads, with the calling thread as the first.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
    next_task: u32,
    /// Threads that take part; the others stay asleep.
    active: usize,
}

impl ThreadPool {
    /// A pool of `threads` threads, the calling one included, placed by the operating system.
    ///
    /// # Errors
    /// Where `threads` is 0 or a thread cannot be started.
    pub fn new(threads: usize) -> Result<Self, PoolError> {
        Self::start(&vec![None; threads], SPIN)
    }

    /// One thread per core of `cores`, pinned to it; the calling thread is pinned to the first.
    ///
    /// # Errors
    /// Where `cores` is empty, or a thread cannot be started or pinned to its core (a system
    /// without affinity, a core that does not exist).
    pub fn pinned(cores: &[usize]) -> Result<Self, PoolError> {
        let cores: Vec<Option<usize>> = cores.iter().copied().map(Some).collect();
        Self::start(&cores, SPIN)
    }

    /// The calling thread, wherever it runs, and one on `core`.
    ///
    /// # Errors
    /// Where the thread cannot be started or pinned.
    pub fn beside(core: usize) -> Result<Self, PoolError> {
        Self::start(&[None, Some(core)], SPIN)
    }

    /// As [`ThreadPool::pinned`], but unpinned where the system does not pin threads.
    ///
    /// # Errors
    /// Where `cores` is empty or a thread cannot be started.
    pub fn pinned_or_not(cores: &[usize]) -> Result<Self, PoolError> {
        match Self::pinned(cores) {
            Err(PoolError::CannotPin { .. }) => Self::new(cores.len()),
            pool => pool,
        }
    }

    /// As [`ThreadPool::new`], with another time to spin before sleeping.
    ///
    /// # Errors
    /// As for [`ThreadPool::new`].
    pub fn with_spin(threads: usize, spin: Duration) -> Result<Self, PoolError> {
        Self::start(&vec![None; threads], spin)
    }

    fn start(cores: &[Option<usize>], spin: Duration) -> Result<Self, PoolError> {
        let (own, others) = cores.split_first().ok_or(PoolError::NoThreads)?;
        let shared = Arc::new(Shared {
            mailboxes: others.iter().map(|_| Mailbox::default()).collect(),
            work: UnsafeCell::new(None),
            pending: AtomicUsize::new(0),
            sleeping_caller: Mutex::new(None),
            panicked: Mutex::new(None),
            stop: AtomicBool::new(false),
            spin,
        });
        let mut pool =
            Self { shared, workers: Vec::with_capacity(others.len()), next_task: 0, active: cores.len() };
        let (report, reports) = mpsc::channel();
        for (index, &core) in others.iter().enumerate() {
            let (shared, report) = (Arc::clone(&pool.shared), report.clone());
            let worker = thread::Builder::new().name(format!("worker {}", index + 1)).spawn(move || {
                // The creator of the pool receives every report, so sending cannot fail.
                let _ = report.send(pin(core));
                // The creator waits until every sender is dropped.
                drop(report);
                shared.work_until_stopped(index);
            });
            pool.workers.push(worker.map_err(PoolError::CannotStart)?);
        }
        drop(report);
        reports.iter().try_for_each(|pinned| pinned)?;
        pin(*own)?;
        Ok(pool)
    }

    /// Number of threads that take part, the calling one included.
    pub fn threads(&self) -> usize {
        self.active
    }

    /// Sets how many threads take part, the first ones: at least the calling one, at most all.
    pub fn limit(&mut self, threads: usize) {
        self.active = threads.clamp(1, self.workers.len() + 1);
    }

    /// Runs `work(worker)` concurrently on the first `threads` workers (all, if there are fewer),
    /// and returns when all have finished.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn broadcast(&mut self, threads: usize, work: &Work<'_>) {
        let others = threads.clamp(1, self.threads()) - 1;
        if others == 0 {
            work(0);
            return;
        }
        self.next_task = self.next_task.wrapping_add(1);
        // SAFETY: only the lifetime changes. The closure is not run after this function returns: it
        // waits for every worker that received the closure, even if the calling thread's own part
        // panics.
        #[expect(clippy::transmute_ptr_to_ptr, reason = "a cast cannot make a lifetime longer")]
        let work_of_any_lifetime: *const Work<'static> =
            unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) };
        // SAFETY: no worker is pending, so none reads the cell.
        unsafe { *self.shared.work.get() = Some(work_of_any_lifetime) };
        self.shared.pending.store(others, Ordering::Release);
        for (mailbox, worker) in self.shared.mailboxes.iter().zip(&self.workers).take(others) {
            if mailbox.put(self.next_task) {
                worker.thread().unpark();
            }
        }
        let own = panic::catch_unwind(AssertUnwindSafe(|| work(0)));
        self.shared.wait_for_workers();
        let others = lock(&self.shared.panicked).take();
        if let Some(payload) = own.err().or(others) {
            panic::resume_unwind(payload);
        }
    }

    /// Divides `blocks` among the first `threads` workers as ruy does: worker `i` starts with block
    /// `i` and takes the next free one after each.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn self_scheduled(&mut self, threads: usize, blocks: usize, work: &(dyn Fn(usize) + Sync)) {
        let threads = threads.min(blocks).clamp(1, self.threads());
        if threads == 1 {
            (0..blocks).for_each(work);
            return;
        }
        let next = AtomicUsize::new(threads);
        self.broadcast(threads, &|worker| {
            let mut block = worker;
            while block < blocks {
                work(block);
                block = next.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Runs `work(index, item)` on each of `items`, self-scheduled over the first `threads`
    /// workers.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn for_each_mut<T: Send>(
        &mut self,
        threads: usize,
        items: &mut [T],
        work: &(dyn Fn(usize, &mut T) + Sync),
    ) {
        // An atomic pointer is `Sync`, so the workers may share it.
        let (count, first) = (items.len(), AtomicPtr::new(items.as_mut_ptr()));
        self.self_scheduled(threads, count, &|index| {
            // SAFETY: `index` is below the slice's length, and one worker gets it once, which
            // requires only `T: Send`. The slice is borrowed exclusively until all workers have
            // finished.
            work(index, unsafe { &mut *first.load(Ordering::Relaxed).add(index) });
        });
    }

    /// Divides `items` among the first `threads` workers in equal contiguous parts, the last
    /// workers taking the larger ones, as TFLite's depthwise convolution does.
    ///
    /// # Panics
    /// Where `work` does.
    pub fn equal_parts(&mut self, threads: usize, items: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
        let threads = threads.min(items).clamp(1, self.threads());
        self.broadcast(threads, &|worker| work(items * worker / threads..items * (worker + 1) / threads));
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let task = self.next_task.wrapping_add(1);
        for mailbox in &self.shared.mailboxes {
            mailbox.put(task);
        }
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker catches every panic of its tasks, so it never ends in one.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work_until_stopped(&self, index: usize) {
        let mailbox = &self.mailboxes[index];
        let mut done = 0;
        loop {
            let task = mailbox.next(done, self.spin);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            done = task;
            // SAFETY: the mailbox was written after the cell, which does not change until this
            // worker decrements `pending`.
            let work = unsafe { *self.work.get() }.expect("the task's closure is set before its number");
            // SAFETY: the caller of `broadcast` keeps the closure alive until `pending` is 0.
            let work = unsafe { &*work };
            // Worker 0 is the calling thread.
            let result = panic::catch_unwind(AssertUnwindSafe(|| work(index + 1)));
            if let Err(payload) = result {
                *lock(&self.panicked) = Some(payload);
            }
            let is_last = self.pending.fetch_sub(1, Ordering::AcqRel) == 1;
            if is_last && let Some(caller) = lock(&self.sleeping_caller).take() {
                caller.unpark();
            }
        }
    }

    fn wait_for_workers(&self) {
        let have_ended = || self.pending.load(Ordering::Acquire) == 0;
        if spin_until(self.spin, have_ended) {
            return;
        }
        // If the last worker took this lock first, it has already finished; if it takes the lock
        // later, it finds this thread registered and wakes it.
        *lock(&self.sleeping_caller) = Some(thread::current());
        while !have_ended() {
            thread::park();
        }
    }
}

fn pin(core: Option<usize>) -> Result<(), PoolError> {
    match core {
        Some(core) if core >= MAX_CORES || !core_affinity::set_for_current(CoreId { id: core }) => {
            Err(PoolError::CannotPin { core })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
