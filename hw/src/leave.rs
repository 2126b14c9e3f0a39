//! Ending a process whose device was given up.

use std::ffi::c_int;
use std::io::Write;

unsafe extern "C" {
    /// The C library's call that ends a process at once.
    fn _exit(status: c_int) -> !;
}

/// Ends the process with `status` without the clean-up that libraries registered: a driver
/// frees what the threads of a device that hangs still use, and crashes or waits for them.
pub fn leave(status: u8) -> ! {
    // Whoever reads the output may have gone away.
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    // SAFETY: the call takes any status and does not come back; nothing of this process is
    // used afterwards.
    unsafe { _exit(c_int::from(status)) }
}
