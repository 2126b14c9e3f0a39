//! What does not run on this machine, or not soundly: exit status and remedy.

use coexec_hw::execute::ExecuteError;
use coexec_hw::opencl::OpenClError;
use coexec_sim::schedule::ScheduleError;

use super::{ABSENT, UNSOUND, WRONG_INPUT};

/// The exit status that `error` stands for.
pub(super) fn status(error: &ExecuteError) -> u8 {
    match error {
        ExecuteError::NoNpu { .. }
        | ExecuteError::CutSlice { .. }
        | ExecuteError::Schedule(_)
        | ExecuteError::Format { .. }
        | ExecuteError::Unsupported(_)
        | ExecuteError::OpenCl(
            OpenClError::Ambiguous { .. }
            | OpenClError::SubDevice { .. }
            | OpenClError::Unsupported { .. }
            | OpenClError::Operand(_),
        ) => WRONG_INPUT,
        ExecuteError::TooFewCores { .. }
        | ExecuteError::NoGpu
        | ExecuteError::OpenCl(
            OpenClError::NoLibrary { .. }
            | OpenClError::NoPlatform
            | OpenClError::NotFound { .. }
            | OpenClError::NoHalf { .. },
        ) => ABSENT,
        _ => UNSOUND,
    }
}

/// What to do about it.
pub(super) fn remedy(error: &ExecuteError) -> &'static str {
    match error {
        ExecuteError::OpenCl(OpenClError::NoLibrary { .. } | OpenClError::NoPlatform) => {
            "install an OpenCL driver (PoCL for the cores of this machine), or use --strategy cpu-only"
        }
        ExecuteError::OpenCl(OpenClError::NotFound { .. } | OpenClError::Ambiguous { .. }) => {
            "name a device with --opencl PLATFORM:DEVICE"
        }
        ExecuteError::OpenCl(OpenClError::SubDevice { .. }) => {
            "give --gpu-cores as many as the device has, or leave it out"
        }
        ExecuteError::OpenCl(OpenClError::Build { .. }) => "report the driver and what its compiler says",
        ExecuteError::OpenCl(OpenClError::OutOfMemory { .. }) => {
            "run smaller operators, or use a device with more memory"
        }
        ExecuteError::OpenCl(OpenClError::TimedOut { .. }) | ExecuteError::Stalled { .. } => {
            "give a run more time with --run-limit, or check that the device works at all"
        }
        ExecuteError::OpenCl(OpenClError::Unsupported { .. }) => {
            "place this operator on the CPU in a plan (--plan), or use --strategy cpu-only"
        }
        ExecuteError::TooFewCores { .. } => "use fewer --threads or --gpu-cores",
        ExecuteError::CutSlice { .. } => "cut at multiples of 4 channels (--step)",
        ExecuteError::Schedule(ScheduleError::Placement(_)) => "leave the operator to one processor",
        ExecuteError::Schedule(_) => "write a plan with coexec explore --out",
        ExecuteError::NoNpu { .. } => "use a plan without the NPU (--strategy channel-split)",
        ExecuteError::Format { .. } | ExecuteError::OpenCl(OpenClError::NoHalf { .. }) => {
            "set data_type in the scenario to one this machine computes in"
        }
        ExecuteError::Cancelled => "nothing was written; start again when there is time",
        _ => "check driver and device; nothing was written",
    }
}
