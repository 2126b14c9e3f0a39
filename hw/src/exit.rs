//! Ending a process after its device was given up.

use std::ffi::c_int;
use std::io::Write;

unsafe extern "C" {
    /// The C library's immediate exit, which runs no exit handlers.
    fn _exit(status: c_int) -> !;
}

/// Ends the process with `status` without running the exit handlers of libraries: a driver's
/// handlers free what the threads of a hung device still use, and then crash or wait for those
/// threads.
pub fn exit_immediately(status: u8) -> ! {
    // The reader of the output may be gone.
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    // SAFETY: the call accepts any status and does not return.
    unsafe { _exit(c_int::from(status)) }
}
