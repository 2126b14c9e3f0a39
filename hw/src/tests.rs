//! What tests need of a machine.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::opencl::Device;

/// The engine's properties hold in another processor's floating-point arithmetic, too. They stand
/// beside the kernels here for one emulated program, so one compilation of the simulator, to hold both.
#[cfg(target_arch = "aarch64")]
#[path = "../../sim/tests/integration/engine.rs"]
mod engine;

/// No other test of this process uses a device while it is held. It is named before what it protects, which
/// is then dropped before it.
pub(crate) type Alone = MutexGuard<'static, ()>;

/// Waits until no other test uses a device: `PoCL` 3.1 crashes now and then where several
/// threads of a process make contexts of their own.
pub(crate) fn alone() -> Alone {
    static DEVICES: Mutex<()> = Mutex::new(());
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `OpenCL` device to test on, `COEXEC_OPENCL` or the first; where there is none the
/// caller's test is skipped, or fails with `COEXEC_REQUIRE_OPENCL=1`.
pub(crate) fn device() -> Option<(Alone, Device)> {
    let alone = alone();
    Some((alone, found(Device::select(&std::env::var("COEXEC_OPENCL").unwrap_or_default()))?))
}

/// What was looked for, where it is here.
pub(crate) fn found<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    result
        .inspect_err(|error| {
            let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
            assert!(!required, "{error}");
            eprintln!("skipped: {error}");
        })
        .ok()
}
