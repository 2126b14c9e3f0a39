//! Flags in memory that host and device both see, and kernels that meet the host there.
//!
//! Responsible for: the words, the kernels, and the bounds of their spins. Not for: what
//! a meeting is worth (`crate::sync`).
//! Invariants: a kernel that announces does so when all its groups have finished; only one group of a kernel spins, the one that finishes last; each spin
//! ends after about [`SPIN_LIMIT`], or when the host releases it.

mod hand_over;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, ClMem};
use opencl3::types::cl_event;

use super::error::{Naming, OpenClError};
use super::events::{UserEvent, stamps};
use super::mapped::MappedMemory;
use super::runtime::Runtime;
use super::shared::SharedMemory;
use super::source::Source;
use super::timing::wait;

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
/// The host's flag when it wants nobody to wait any more.
const RELEASED: u32 = u32::MAX;
/// Factor of Knuth's multiplicative hash: makes data of a round unlike its number.
const DATA_FACTOR: u32 = 2_654_435_761;
/// Threads of the kernel that takes its time.
const BUSY_THREADS: usize = 64;

/// A word of the flags.
#[derive(Clone, Copy)]
enum Word {
    Device,
    Host,
    Status,
    DeviceData,
    HostData,
}

/// What became of a meeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// No kernel has ended one yet.
    Pending,
    /// Both sides met.
    Met,
    /// The kernel spun as long as it may.
    SpunOut,
    /// The host released the kernel.
    GivenUp,
    /// A side saw the other's flag before its data.
    Stale,
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

enum Memory {
    Shared(SharedMemory<u32>),
    Pinned(MappedMemory<u32>),
}

/// Flags, with the kernels that use them.
pub(crate) struct Signals {
    runtime: Arc<Runtime>,
    memory: Memory,
    home: FlagHome,
    groups_done: Buffer<u32>,
    meet: Kernel,
    ping_pong: Kernel,
    hand_over: Kernel,
    spins: u32,
}

// SAFETY: the words are only accessed as atomics, and the kernels' arguments are set
// under `&mut self`.
unsafe impl Send for Signals {}

impl Memory {
    fn new(runtime: &Arc<Runtime>, home: FlagHome) -> Result<Self, OpenClError> {
        match home {
            FlagHome::Shared => Ok(Self::Shared(SharedMemory::new(runtime, WORDS)?)),
            FlagHome::Pinned => Ok(Self::Pinned(MappedMemory::new(runtime, WORDS)?)),
        }
    }

    fn word(&self, word: Word) -> &AtomicU32 {
        let first = match self {
            Self::Shared(memory) => memory.as_ptr(),
            Self::Pinned(memory) => memory.as_ptr(),
        };
        // SAFETY: the memory holds all words, aligned, as long as `self` lives, and the
        // host accesses them as atomics only.
        unsafe { AtomicU32::from_ptr(first.add(word as usize)) }
    }
}

impl Signals {
    /// Flags in `home`, with spins bounded in time.
    pub(crate) fn new(runtime: &Arc<Runtime>, home: FlagHome) -> Result<Self, OpenClError> {
        let source = source(runtime, home);
        let mut signals = Self {
            runtime: Arc::clone(runtime),
            memory: Memory::new(runtime, home)?,
            home,
            groups_done: runtime.buffer_of(&[0])?,
            meet: runtime.kernel(&source, "meet")?,
            ping_pong: runtime.kernel(&source, "ping_pong")?,
            hand_over: runtime.kernel(&source, "hand_over")?,
            spins: CALIBRATION_SPINS,
        };
        signals.spins = signals.calibrate()?;
        Ok(signals)
    }

    /// Reads of a flag that take [`SPIN_LIMIT`], by the quickest of a few trials: in the
    /// others something else may have run meanwhile.
    fn calibrate(&mut self) -> Result<u32, OpenClError> {
        let mut least_ns = f64::INFINITY;
        for _ in 0..CALIBRATIONS {
            least_ns = least_ns.min(self.spin_ns()?);
        }
        let spins = SPIN_LIMIT.as_nanos() as f64 / least_ns;
        Ok(spins.clamp(f64::from(CALIBRATION_SPINS), f64::from(u32::MAX)) as u32)
    }

    /// Nanoseconds of one read of a flag.
    fn spin_ns(&mut self) -> Result<f64, OpenClError> {
        self.reset();
        // Nobody answers.
        let event = self.enqueue_meeting(1, 1, true)?;
        wait(&self.runtime, &event, "the calibration of its spins", CALIBRATION_LIMIT)?;
        let [_, started, ended] = stamps(&event)?;
        Ok(ended.saturating_sub(started).max(1) as f64 / f64::from(CALIBRATION_SPINS))
    }

    /// Forgets all meetings; no kernel may be running.
    pub(crate) fn reset(&mut self) {
        for word in [Word::Device, Word::Host, Word::Status, Word::DeviceData, Word::HostData] {
            self.memory.word(word).store(0, Ordering::SeqCst);
        }
    }

    /// Queues a kernel of `groups` groups that meets the host in `round`, from 1; unless it
    /// `tells` the host of itself, what runs before does.
    pub(crate) fn enqueue_meeting(
        &mut self,
        round: u32,
        groups: usize,
        tells: bool,
    ) -> Result<Event, OpenClError> {
        self.set_words(&self.meet, 0)?;
        set(&self.meet, 1, &self.groups_done.get())?;
        set(&self.meet, 2, &u32::from(tells))?;
        set(&self.meet, 3, &round)?;
        set(&self.meet, 4, &self.spins)?;
        enqueue(&self.runtime, &self.meet, groups, 1, &[])
    }

    /// Queues a kernel that meets the host in rounds 1 to `rounds`.
    pub(crate) fn enqueue_meetings(&mut self, rounds: u32) -> Result<Event, OpenClError> {
        self.set_words(&self.ping_pong, 0)?;
        set(&self.ping_pong, 1, &rounds)?;
        set(&self.ping_pong, 2, &self.spins)?;
        enqueue(&self.runtime, &self.ping_pong, 1, 1, &[])
    }

    /// Makes `source`'s kernel `entry` announce itself through these flags.
    pub(super) fn announce_in(&self, source: &mut Source, entry: &'static str) {
        let (standard, scope) = atomics(&self.runtime, self.home);
        source.need(standard, &format!("{scope}{FLAGS}"));
        source.announce(entry);
    }

    /// Sets the parameters of such a kernel, of which the first is number `first`; it
    /// announces nothing until [`Self::set_announced`] says so.
    pub(super) fn set_parameters(&self, kernel: &Kernel, first: u32) -> Result<(), OpenClError> {
        self.set_words(kernel, first)?;
        set(kernel, first + 1, &self.groups_done.get())?;
        Self::set_announced(kernel, first, 0)
    }

    /// Sets what such a kernel announces when it is queued next: nothing where it is 0.
    pub(super) fn set_announced(kernel: &Kernel, first: u32, number: u32) -> Result<(), OpenClError> {
        set(kernel, first + 2, &number)
    }

    fn set_words(&self, kernel: &Kernel, index: u32) -> Result<(), OpenClError> {
        match &self.memory {
            Memory::Shared(memory) => {
                // SAFETY: shared memory of the kernel's context, which lives as long as
                // the kernel.
                unsafe { kernel.set_arg_svm_pointer(index, memory.as_ptr().cast()) }
                    .naming("clSetKernelArgSVMPointer")
            }
            Memory::Pinned(memory) => set(kernel, index, &memory.object()),
        }
    }

    /// Whether the device has reached `round`.
    pub(crate) fn device_reached(&self, round: u32) -> bool {
        self.memory.word(Word::Device).load(Ordering::SeqCst) == round
    }

    /// Whether the device's data are those of `round`, which it has reached.
    pub(crate) fn device_data_seen(&self, round: u32) -> bool {
        self.memory.word(Word::DeviceData).load(Ordering::SeqCst) == round.wrapping_mul(DATA_FACTOR)
    }

    /// Hands the host's data of `round` over.
    pub(crate) fn answer(&self, round: u32) {
        self.memory.word(Word::HostData).store(round.wrapping_mul(DATA_FACTOR), Ordering::SeqCst);
        self.memory.word(Word::Host).store(round, Ordering::SeqCst);
    }

    /// Lets every kernel that spins go.
    pub(crate) fn release(&self) {
        self.memory.word(Word::Host).store(RELEASED, Ordering::SeqCst);
    }

    /// What became of the last meeting.
    pub(crate) fn meeting(&self) -> Meeting {
        match self.memory.word(Word::Status).load(Ordering::SeqCst) {
            1 => Meeting::Met,
            2 => Meeting::SpunOut,
            3 => Meeting::GivenUp,
            4 => Meeting::Stale,
            _ => Meeting::Pending,
        }
    }
}

/// The kernels of this file, with flags in `home`.
fn source(runtime: &Runtime, home: FlagHome) -> Source {
    let (standard, scope) = atomics(runtime, home);
    let mut source = Source::new("signals", include_str!("kernels/signals.cl"));
    source.need(standard, &format!("{scope}{FLAGS}"));
    source
}

/// The standard by which flags are C11 atomics, where the device has them for this memory,
/// and their scope.
fn atomics(runtime: &Runtime, home: FlagHome) -> (&'static str, &'static str) {
    let version = runtime.device().version.as_str();
    match home {
        FlagHome::Shared if version.starts_with("OpenCL 2.") => {
            ("CL2.0", "#define SCOPE memory_scope_all_svm_devices\n")
        }
        FlagHome::Shared if version.starts_with("OpenCL 3.") => ("CL3.0", SCOPE_OF_FEATURES),
        _ => ("CL1.2", ""),
    }
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

fn set<V: Copy>(kernel: &Kernel, index: u32, value: &V) -> Result<(), OpenClError> {
    // SAFETY: plain data, whose size the driver checks; memory objects outlive the
    // kernels, as one struct owns both.
    unsafe { kernel.set_arg(index, value) }.naming("clSetKernelArg")
}

fn enqueue(
    runtime: &Runtime,
    kernel: &Kernel,
    groups: usize,
    threads: usize,
    after: &[cl_event],
) -> Result<Event, OpenClError> {
    // SAFETY: all arguments are set, to memory that outlives the kernel; threads beyond
    // it do not exist.
    let event = unsafe {
        runtime.queue().enqueue_nd_range_kernel(
            kernel.get(),
            1,
            std::ptr::null(),
            [groups * threads].as_ptr(),
            [threads].as_ptr(),
            after,
        )
    };
    event.naming("clEnqueueNDRangeKernel")
}

/// A kernel that takes its time.
pub(crate) struct Busy {
    runtime: Arc<Runtime>,
    kernel: Kernel,
    announces: bool,
    _result: Buffer<f32>,
}

impl Busy {
    /// Parameters of the kernel's own.
    const OWN_PARAMETERS: u32 = 2;

    /// One of `steps` dependent multiply-adds, which may announce itself through `signals`.
    pub(crate) fn new(
        runtime: &Arc<Runtime>,
        steps: u32,
        signals: Option<&Signals>,
    ) -> Result<Self, OpenClError> {
        let mut source = Source::new("busy", include_str!("kernels/busy.cl"));
        if let Some(signals) = signals {
            signals.announce_in(&mut source, "busy");
        }
        let kernel = runtime.kernel(&source, "busy")?;
        let result = runtime.buffer::<f32>(BUSY_THREADS)?;
        set(&kernel, 0, &result.get())?;
        set(&kernel, 1, &steps)?;
        if let Some(signals) = signals {
            signals.set_parameters(&kernel, Self::OWN_PARAMETERS)?;
        }
        let announces = signals.is_some();
        Ok(Self { runtime: Arc::clone(runtime), kernel, announces, _result: result })
    }

    /// Queues it, to start after `event`, if any, has ended.
    pub(crate) fn enqueue(&self, event: Option<&UserEvent>) -> Result<Event, OpenClError> {
        let after: Vec<cl_event> = event.map(|event| event.0.get()).into_iter().collect();
        enqueue(&self.runtime, &self.kernel, 1, BUSY_THREADS, &after)
    }

    /// Queues it, to announce `number` in the end, where it announces anything.
    pub(crate) fn enqueue_announcing(&mut self, number: u32) -> Result<Event, OpenClError> {
        if self.announces {
            Signals::set_announced(&self.kernel, Self::OWN_PARAMETERS, number)?;
        }
        self.enqueue(None)
    }
}
