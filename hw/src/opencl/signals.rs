//! Flags in memory that host and device both see, and kernels that meet the host there.
//!
//! Responsible for: the words, the kernels, and the bounds of their spins. Not for: what
//! a meeting is worth (`crate::sync`).
//! Invariants: a kernel that announces does so when all its groups have finished; only one group of a kernel spins, the one that finishes last; each spin
//! ends after about [`SPIN_LIMIT`], or when the host releases it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use opencl3::event::Event;
use opencl3::memory::Buffer;

use super::{GridKernel, HostVisibleMemory, OpenClError, Result, Runtime, Source, Stamps, stamps, wait};

/// Words and what is done with them.
const FLAGS: &str = include_str!("kernels/flags.cl");
/// How long a kernel spins at most, about: a lost host must not hold the device.
pub(crate) const SPIN_LIMIT: Duration = Duration::from_secs(2);
/// Reads of a flag by which the duration of one is measured.
const CALIBRATION_SPINS: u32 = 1 << 16;
/// What calibrating may take: 65,536 reads at 10 us, far slower than any bus.
const CALIBRATION_LIMIT: Duration = Duration::from_secs(5);
/// Trials of a calibration.
const CALIBRATIONS: u32 = 5;
/// Words of the flags.
const WORDS: usize = 5;
/// The value of the host's flag that ends every wait.
const RELEASED: u32 = u32::MAX;
/// The status of a wait in which the device saw the host's flag before its data.
const STALE: u32 = 3;

/// A word of the flags.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    Device,
    Host,
    Status,
    DeviceData,
    HostData,
}

/// Where the flags lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlagHome {
    /// Fine-grained shared virtual memory.
    Shared,
    /// A host buffer that stays mapped while kernels run. The standard leaves open
    /// whether that works, so it has to be tried.
    Pinned,
}

/// Flags, with the kernels that use them.
pub(crate) struct Signals {
    runtime: Arc<Runtime>,
    pub(super) memory: HostVisibleMemory<u32>,
    /// The standard and the definitions that sources need to use them.
    flags: (&'static str, String),
    /// Groups of a kernel that announces itself that have finished.
    pub(super) groups_done: Buffer<u32>,
    ping_pong: GridKernel,
    hand_over: GridKernel,
    spins: u32,
}

// SAFETY: the words are only accessed as atomics, and the kernels' arguments are set
// under `&mut self`.
unsafe impl Send for Signals {}

impl Signals {
    /// Flags in `home`, with spins bounded in time.
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
        // SAFETY: the memory holds all words, aligned, as long as `self` lives, and the
        // host accesses them as atomics only.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(word as usize)) }
    }

    /// Reads of a flag that take [`SPIN_LIMIT`], by the quickest of a few trials: in the
    /// others something else may have run meanwhile.
    fn calibrate(&mut self) -> Result<u32> {
        let mut least_ns = u64::MAX;
        for _ in 0..CALIBRATIONS {
            self.reset();
            // Nobody answers.
            let event = self.enqueue_hand_over(None, Some(1))?;
            wait(&self.runtime, &event, "the calibration of its spins", CALIBRATION_LIMIT)?;
            let Stamps { started, ended, .. } = stamps(&event)?;
            least_ns = least_ns.min(ended.saturating_sub(started));
        }
        let spin_ns = least_ns.max(1) as f64 / f64::from(CALIBRATION_SPINS);
        let spins = SPIN_LIMIT.as_nanos() as f64 / spin_ns;
        Ok(spins.clamp(f64::from(CALIBRATION_SPINS), f64::from(u32::MAX)) as u32)
    }

    /// Forgets all meetings; no kernel may be running.
    pub(crate) fn reset(&mut self) {
        for word in [Word::Device, Word::Host, Word::Status, Word::DeviceData, Word::HostData] {
            self.word(word).store(0, Ordering::SeqCst);
        }
    }

    /// Queues a kernel that announces number `announced` of the device to the host and then
    /// keeps the queue until the host has signalled `awaited`. Numbers count from 1.
    pub(crate) fn enqueue_hand_over(
        &mut self,
        announced: Option<u32>,
        awaited: Option<u32>,
    ) -> Result<Event> {
        self.hand_over.set_memory(0, self.memory.handle())?;
        for (index, number) in (1..).zip([announced.unwrap_or(0), awaited.unwrap_or(0), self.spins]) {
            self.hand_over.set(index, &[number])?;
        }
        self.hand_over.enqueue(&self.runtime)
    }

    /// Queues a kernel that makes as many round trips with the host.
    pub(crate) fn enqueue_ping_pong(&mut self, rounds: u32) -> Result<Event> {
        self.ping_pong.set_memory(0, self.memory.handle())?;
        self.ping_pong.set(1, &[rounds])?;
        self.ping_pong.set(2, &[self.spins])?;
        self.ping_pong.enqueue(&self.runtime)
    }

    /// Makes the kernels of `source` that can announce their ends through these flags.
    pub(super) fn announce_in(&self, source: &mut Source) {
        source.need(self.flags.0, &self.flags.1);
    }

    /// Whether the device has announced `number`, with its data.
    pub(crate) fn has_announced(&self, number: u32) -> Result<bool> {
        let has_come = |word: Word| self.word(word).load(Ordering::SeqCst) >= number;
        let is_announced = has_come(Word::Device);
        if is_announced && !has_come(Word::DeviceData) {
            return Err(OpenClError::Stale { who: "host", round: number });
        }
        Ok(is_announced)
    }

    /// Hands the data of the host's number `number` over, and signals it to the device.
    pub(crate) fn signal(&self, number: u32) {
        self.word(Word::HostData).store(number, Ordering::SeqCst);
        self.word(Word::Host).store(number, Ordering::SeqCst);
    }

    /// Lets every kernel that spins go.
    pub(crate) fn release(&self) {
        self.word(Word::Host).store(RELEASED, Ordering::SeqCst);
    }

    /// What the device's kernels, which have ended, say of their waits up to `round` since the last reset.
    pub(crate) fn check(&self, round: u32) -> Result<()> {
        match self.word(Word::Status).load(Ordering::SeqCst) {
            0 => Ok(()),
            STALE => Err(OpenClError::Stale { who: "device", round }),
            // One spun as long as it may, or was released.
            _ => Err(OpenClError::SpunOut { round }),
        }
    }
}

/// The standard by which flags are C11 atomics, where the device has them for this memory,
/// and their definitions with their scope.
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

/// `OpenCL` C 3.0: atomics of all orders are a feature, and so is the scope of all
/// devices; one that lacks the latter has but one kind of memory (`PoCL`).
const SCOPE_OF_FEATURES: &str = "\
#if defined(__opencl_c_atomic_order_seq_cst) && defined(__opencl_c_atomic_scope_all_devices)
#define SCOPE memory_scope_all_devices
#elif defined(__opencl_c_atomic_order_seq_cst) && defined(__opencl_c_atomic_scope_device)
#define SCOPE memory_scope_device
#endif
";
