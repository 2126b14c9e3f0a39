//! Test helpers for finding and locking a device.

use std::sync::{Mutex, MutexGuard};

use crate::opencl::Device;

/// The simulation engine's property tests, run on a second architecture's floating-point
/// arithmetic. They are included here so that one emulated binary covers both kernels and engine.
#[cfg(target_arch = "aarch64")]
#[path = "../../sim/tests/integration/engine.rs"]
mod engine;

/// Held by a test while it uses a device, so that no other test of this process does. Bind it before the
/// objects it protects: they are then dropped first.
pub(crate) type DeviceLock = MutexGuard<'static, ()>;

/// Waits until no other test uses a device: `PoCL` 3.1 crashes occasionally when several threads of
/// a process create contexts.
pub(crate) fn lock_devices() -> DeviceLock {
    static DEVICES: Mutex<()> = Mutex::new(());
    crate::lock::lock(&DEVICES)
}

/// The `OpenCL` device to test on: the one named by `COEXEC_OPENCL`, else the default. Without a
/// device the caller's test is skipped, or fails with `COEXEC_REQUIRE_OPENCL=1`.
pub(crate) fn device() -> Option<(DeviceLock, Device)> {
    let lock = lock_devices();
    Some((lock, available(Device::select(&std::env::var("COEXEC_OPENCL").unwrap_or_default()))?))
}

/// The value, or `None` with a message that the test is skipped; panics with
/// `COEXEC_REQUIRE_OPENCL=1`.
pub(crate) fn available<T, E: std::fmt::Display>(result: Result<T, E>) -> Option<T> {
    result
        .inspect_err(|error| {
            let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
            assert!(!required, "{error}");
            eprintln!("skipped: {error}");
        })
        .ok()
}
