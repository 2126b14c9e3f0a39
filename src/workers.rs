//! The worker threads of an `OpenCL` device that is made of this machine's cores.

use coexec_hw::fingerprint::{POCL_AFFINITY, POCL_WORKERS};

use crate::{Failure, Result};

/// Restarts this process with `PoCL`'s workers pinned to their cores and limited to the cores used as
/// the GPU (half of the cores unless given); variables that the environment sets already are kept. A
/// restart is needed because `PoCL` reads them once, when it is loaded.
///
/// A sub-device alone does not suffice: `PoCL` wakes all its workers for each command, and those on the
/// other cores would preempt the CPU's part there.
#[cfg(unix)]
pub(crate) fn pin_workers(gpu_cores: Option<u32>) -> Result {
    use std::os::unix::process::CommandExt;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = gpu_cores.map_or((cores / 2).max(1), |count| count as usize);
    // More workers than cores are refused later, when the sub-device is created.
    let limits = POCL_WORKERS.map(|setting| (setting, workers.to_string())).into_iter();
    let limits = limits.filter(|_| workers <= cores);
    let missing: Vec<(&str, String)> = std::iter::once((POCL_AFFINITY, "1".to_owned()))
        .chain(limits)
        .filter(|(setting, _)| std::env::var_os(setting).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let failed = |reason: String| {
        Failure::usage(
            format!("cannot restart with {}: {reason}", settings(&missing)),
            format!("set {} in the environment", settings(&missing)),
        )
    };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = std::process::Command::new(program);
    command.args(std::env::args_os().skip(1)).envs(missing.iter().cloned());
    // `exec` returns only if it fails.
    Err(failed(command.exec().to_string()))
}

/// The settings in shell syntax.
#[cfg(unix)]
fn settings(settings: &[(&str, String)]) -> String {
    settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
pub(crate) fn pin_workers(_gpu_cores: Option<u32>) -> Result {
    Ok(())
}
