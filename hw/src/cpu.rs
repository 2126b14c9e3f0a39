//! CPU kernels: single operators on a set of cores.
//!
//! Responsible for: micro-kernels for AVX2, AVX-512, NEON and portable code, weight packing, and
//! the threads that share the work as the simulator's model of these kernels divides it. Not for:
//! plans, measuring, and other processors.
//! Invariants: a prepared layer allocates nothing when it runs; its results do not depend on the
//! number of threads; instructions that the processor lacks are never executed.

#![expect(
    clippy::inline_always,
    reason = "a function called by a vector loop gets the loop's target features only if it is inlined"
)]

mod element;
mod elementwise;
mod instruction_set;
mod micro_kernel;
pub(crate) mod normalise;
pub(crate) mod packing;
mod prepared;
mod product;
mod thread_pool;
mod vector;
mod visit;
mod window;
mod windowed;

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use coexec_sim::device::cpu::InstructionSet;
pub use coexec_sim::kernel::cpu::coexec::{Division, Extent};
pub use element::Element;
pub use instruction_set::{available_sets, is_available, widest_set};
pub use prepared::Prepared;
pub(crate) use prepared::has_kernel;
pub use thread_pool::{PoolError, SPIN, ThreadPool};

// Re-exports for the files of this module and for other modules.
use micro_kernel::{MAX_TILE_CHANNELS, MAX_TILE_PIXELS, MicroKernel, TileCall};
use normalise::Normalisation;
pub(crate) use normalise::{NEIGHBOUR_OFFSET, NEIGHBOUR_POWER, VARIANCE_OFFSET};
use packing::Panels;
pub(crate) use packing::{Aligned, CacheLine};
pub(crate) use thread_pool::spin_until;
use vector::{Plain, Register, Vector};
use window::{ElementGrid, Position, SlidingWindow};
