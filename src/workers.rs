//! The threads of an `OpenCL` device that is made of this machine's cores.

use crate::failure::Failure;

/// Setting of `PoCL` that keeps its worker `i` on core `i`.
const POCL_AFFINITY: &str = "POCL_AFFINITY";

/// Starts this command anew with such threads kept on their cores, where the environment
/// does not say so yet: `PoCL` reads it once, when it is loaded.
#[cfg(unix)]
pub(crate) fn keep_on_their_cores() -> Result<(), Failure> {
    use std::os::unix::process::CommandExt;
    if std::env::var_os(POCL_AFFINITY).is_some() {
        return Ok(());
    }
    let failed = |reason: String| Failure::Usage {
        problem: format!("cannot start anew with {POCL_AFFINITY}=1: {reason}"),
        help: format!("set {POCL_AFFINITY}=1 in the environment"),
    };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    // Comes back only where it fails.
    let error =
        std::process::Command::new(program).args(std::env::args_os().skip(1)).env(POCL_AFFINITY, "1").exec();
    Err(failed(error.to_string()))
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(crate) fn keep_on_their_cores() -> Result<(), Failure> {
    Ok(())
}
