//! GPUs through `OpenCL`: single layers on one device, with execution times by the driver.
//!
//! Responsible for: finding the library and a device, kernels that follow the simulator's dispatch
//! rules, tensors in the layouts of the TFLite GPU delegate, and the time of each kernel. Not for:
//! plans, statistics, and synchronisation with other processors (`crate::sync`).
//! Invariants: the library is loaded at run time and its absence is an error, never a crash; a
//! kernel is launched with the tile and work-group that the simulator assumed, unless a caller
//! overrides them; every wait for the device has a time limit.
//!
//! `PoCL` (the host's cores as an `OpenCL` device) reads two settings when the process starts:
//! `POCL_AFFINITY=1` pins its worker `i` to core `i`, and `POCL_MAX_PTHREAD_COUNT` limits the
//! number of workers.

#![expect(
    clippy::cast_possible_wrap,
    reason = "kernels take sizes as int, which the sizes of a checked workload (MAX_DIMENSION, MAX_ELEMENTS) fit"
)]

mod device;
mod error;
pub(crate) mod events;
mod launch;
mod library;
pub(crate) mod prepared;
mod runtime;
pub(crate) mod signals;
mod source;
mod step;
mod tensor;
pub(crate) mod traffic;
pub(crate) mod visible;
mod weights;

pub use coexec_sim::kernel::gpu::Linearisation;
pub use device::{Description, Device, DeviceKind, devices};
pub use error::{OpenClError, Result};
pub use events::{Stamps, Timing};
pub use library::{ANDROID_PATHS, PATH_VARIABLE};
pub use prepared::{Dispatch, Prepared, stored};
pub use runtime::Runtime;
pub(crate) use runtime::stamping;
pub use tensor::{Home, Tensor};

// Re-exports for the files of this module and for other modules.
use error::Naming;
use events::wait;
pub(crate) use events::{
    Queued, UserEvent, between, drain, duration_to_picos, finish, flush, has_ended, hold, or_give_up, poll,
    poll_until, stamps, timed_out, wait_for,
};
use launch::{GridKernel, Handle};
pub(crate) use signals::{FlagHome, SPIN_LIMIT, Signals};
use source::Source;
use tensor::extent;
pub(crate) use traffic::{BoundKernel, DeviceCopies, MappedBuffer};
pub(crate) use visible::HostVisibleMemory;
use visible::{map, unmap};
use weights::{Blocks, CHANNELS};
