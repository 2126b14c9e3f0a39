//! Flags in memory visible to host and device, and kernels that synchronise with the host through
//! them.
//!
//! Responsible for: the flag words, the kernels, and the limits of their spins. Not for: when a
//! plan synchronises, and by which mechanism (`crate::sync`).
//! Invariants: a kernel announces its end after all its work-groups have finished, and of them only
//! the last to finish makes the announcement; every spin ends after about [`SPIN_LIMIT`], or when
//! the host releases it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use opencl3::event::Event;
use opencl3::memory::Buffer;

use super::{GridKernel, HostVisibleMemory, OpenClError, Result, Runtime, Source, Stamps, stamps, wait};

/// Definitions of the flags and of the operations on them.
const FLAGS: &str = include_str!("kernels/flags.cl");
/// Approximate limit of a kernel's spin: a lost host must not block the device.
pub(crate) const SPIN_LIMIT: Duration = Duration::from_secs(2);
/// Flag reads timed to calibrate the spin limit.
const CALIBRATION_SPINS: u32 = 1 << 16;
/// Time limit of a calibration: 65,536 reads take less than 1 s at 10 us each, slower than any bus.
const CALIBRATION_LIMIT: Duration = Duration::from_secs(5);
/// Repetitions of a calibration.
const CALIBRATIONS: u32 = 5;
/// Number of flag words.
const WORDS: usize = 5;
/// Value of the host's flag that ends every wait.
const RELEASED: u32 = u32::MAX;
/// Status of a wait in which the device saw the host's flag before its data.
const STALE: u32 = 3;

/// Indices of the flag words, as in `flags.cl`.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    Device,
    Host,
    Status,
    DeviceData,
    HostData,
}

/// The memory that holds the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagHome {
    /// Fine-grained shared virtual memory.
    Shared,
    /// A host buffer that stays mapped while kernels run. The standard does not guarantee that
    /// this works, so it must be probed.
    Pinned,
}

/// The flags and the kernels that use them.
pub(crate) struct Signals {
    runtime: Arc<Runtime>,
    pub(super) memory: HostVisibleMemory<u32>,
    /// The `OpenCL` C standard and the definitions that sources need to use the flags.
    flags: (&'static str, String),
    /// Counter of the finished work-groups of a self-announcing kernel.
    pub(super) groups_done: Buffer<u32>,
    ping_pong: GridKernel,
    hand_over: GridKernel,
    spins: u32,
}

impl Signals {
    /// Flags in `home`, with calibrated spin limits.
    pub(crate) fn new(runtime: &Arc<Runtime>, home: FlagHome) -> Result<Self> {
        let mut source = Source::new("signals", include_str!("kernels/signals.cl"));
        let flags = flags(runtime, home);
        source.need(flags.0, &flags.1);
        let kernel = |name| GridKernel::new(runtime, &source, name, [[1; 3]; 2]);
        let memory = match home {
            FlagHome::Shared => HostVisibleMemory::shared(runtime, WORDS),
            FlagHome::Pinned => HostVisibleMemory::mapped(runtime, WORDS),
        };
        let mut signals = Self {
            runtime: Arc::clone(runtime),
            memory: memory?,
            flags,
            groups_done: runtime.buffer_of(&[0])?,
            ping_pong: kernel("ping_pong")?,
            hand_over: kernel("hand_over")?,
            spins: CALIBRATION_SPINS,
        };
        signals.spins = signals.calibrate()?;
        Ok(signals)
    }

    pub(crate) fn word(&self, word: Word) -> &AtomicU32 {
        // SAFETY: the memory holds all words, aligned, for as long as `self` lives, and the host
        // accesses them only as atomics.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(word as usize)) }
    }

    /// The number of flag reads that take [`SPIN_LIMIT`]. The fastest of several trials counts:
    /// others may have been disturbed.
    fn calibrate(&mut self) -> Result<u32> {
        let mut least_ns = u64::MAX;
        for _ in 0..CALIBRATIONS {
            self.reset();
            // The host never signals, so the kernel spins to its limit.
            let event = self.enqueue_hand_over(None, Some(1))?;
            wait(&self.runtime, &event, "the calibration of its spins", CALIBRATION_LIMIT)?;
            let Stamps { started, ended, .. } = stamps(&event)?;
            least_ns = least_ns.min(ended.saturating_sub(started));
        }
        let spin_ns = least_ns.max(1) as f64 / f64::from(CALIBRATION_SPINS);
        let spins = SPIN_LIMIT.as_nanos() as f64 / spin_ns;
        Ok(spins.clamp(f64::from(CALIBRATION_SPINS), f64::from(u32::MAX)) as u32)
    }

    /// Resets all flags; no kernel may be running.
    pub(crate) fn reset(&mut self) {
        for word in [Word::Device, Word::Host, Word::Status, Word::DeviceData, Word::HostData] {
            self.word(word).store(0, Ordering::SeqCst);
        }
    }

    /// Enqueues a kernel that writes `announced` to the device's flag, and then holds the queue
    /// until the host has signalled `awaited`. Numbers start at 1.
    pub(crate) fn enqueue_hand_over(&self, announced: Option<u32>, awaited: Option<u32>) -> Result<Event> {
        self.hand_over.set_memory(0, self.memory.handle())?;
        for (index, number) in (1..).zip([announced.unwrap_or(0), awaited.unwrap_or(0), self.spins]) {
            self.hand_over.set(index, &[number])?;
        }
        self.hand_over.enqueue(&self.runtime)
    }

    /// Enqueues a kernel that makes `rounds` round trips with the host.
    pub(crate) fn enqueue_ping_pong(&mut self, rounds: u32) -> Result<Event> {
        self.ping_pong.set_memory(0, self.memory.handle())?;
        self.ping_pong.set(1, &[rounds])?;
        self.ping_pong.set(2, &[self.spins])?;
        self.ping_pong.enqueue(&self.runtime)
    }

    /// Prepares `source` so that its kernels can announce their ends through these flags.
    pub(super) fn announce_in(&self, source: &mut Source) {
        source.need(self.flags.0, &self.flags.1);
    }

    /// Whether the device has announced `number`; fails if the flag was seen before its data.
    pub(crate) fn has_announced(&self, number: u32) -> Result<bool> {
        let has_come = |word: Word| self.word(word).load(Ordering::SeqCst) >= number;
        let is_announced = has_come(Word::Device);
        if is_announced && !has_come(Word::DeviceData) {
            return Err(OpenClError::Stale { who: "host", round: number });
        }
        Ok(is_announced)
    }

    /// Publishes the host's data of `number`, then signals it to the device.
    pub(crate) fn signal(&self, number: u32) {
        self.word(Word::HostData).store(number, Ordering::SeqCst);
        self.word(Word::Host).store(number, Ordering::SeqCst);
    }

    /// Ends the spin of every kernel.
    pub(crate) fn release(&self) {
        self.word(Word::Host).store(RELEASED, Ordering::SeqCst);
    }

    /// The outcome of the waits of finished kernels since the last reset; `round` is named in an
    /// error.
    pub(crate) fn check(&self, round: u32) -> Result<()> {
        match self.word(Word::Status).load(Ordering::SeqCst) {
            0 => Ok(()),
            STALE => Err(OpenClError::Stale { who: "device", round }),
            // A kernel reached its spin limit, or was released.
            _ => Err(OpenClError::SpunOut { round }),
        }
    }
}

/// The `OpenCL` C standard and the definitions of the flags: C11 atomics where the device supports
/// them in this memory, else volatile words.
fn flags(runtime: &Runtime, home: FlagHome) -> (&'static str, String) {
    let version = runtime.device().version.as_str();
    let (standard, scope) = match home {
        FlagHome::Shared if version.starts_with("OpenCL 2.") => {
            ("CL2.0", "#define SCOPE memory_scope_all_svm_devices\n")
        }
        FlagHome::Shared if version.starts_with("OpenCL 3.") => ("CL3.0", SCOPE_OF_FEATURES),
        _ => ("CL1.2", ""),
    };
    (standard, format!("{scope}{FLAGS}"))
}

/// Memory scope in `OpenCL` C 3.0, where sequentially consistent atomics and the all-devices scope
/// are optional features. A device without that scope has only one kind of memory (`PoCL`).
const SCOPE_OF_FEATURES: &str = "\
#if defined(__opencl_c_atomic_order_seq_cst) && defined(__opencl_c_atomic_scope_all_devices)
#define SCOPE memory_scope_all_devices
#elif defined(__opencl_c_atomic_order_seq_cst) && defined(__opencl_c_atomic_scope_device)
#define SCOPE memory_scope_device
#endif
";
