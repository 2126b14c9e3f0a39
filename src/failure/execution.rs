//! Exit status and remedy of executions that fail on this machine or are unsound.

use coexec_hw::execute::ExecuteError;
use coexec_hw::opencl::OpenClError;
use coexec_hw::operands::OperandError;
use coexec_sim::schedule::ScheduleError;

use super::{ABSENT, UNSOUND, WRONG_INPUT};

/// Remedy where the cause is unknown.
const GENERAL_REMEDY: &str = "check driver and device; nothing was written";
/// Remedy where a run takes too long.
const TIME_LIMIT_REMEDY: &str =
    "give a run more time with --run-limit, or check that the device works at all";
/// Remedy where a number format is not supported.
const OTHER_FORMAT: &str = "set data_type in the scenario to one this machine computes in";

/// Remedy where an operator has no kernel on any processor.
const NO_KERNEL: &str =
    "measure the model with its framework's own benchmark, and compare with coexec validate";

/// Exit status and remedy of `error`.
pub(super) fn verdict(error: &ExecuteError) -> (u8, &'static str) {
    match error {
        ExecuteError::OpenCl(error) => of_device(error),
        ExecuteError::TooFewCores { .. } => (ABSENT, "use fewer --threads or --gpu-cores"),
        ExecuteError::CutSlice { .. } => (WRONG_INPUT, "cut at multiples of 4 channels (--step)"),
        ExecuteError::Schedule(ScheduleError::Placement(_)) => {
            (WRONG_INPUT, "place the operator on one processor")
        }
        ExecuteError::Schedule(_) => (WRONG_INPUT, "write a plan with coexec explore --out"),
        ExecuteError::NoNpu { .. } => (WRONG_INPUT, "use a plan without the NPU (--strategy channel-split)"),
        ExecuteError::Format { .. } => (WRONG_INPUT, OTHER_FORMAT),
        ExecuteError::Unsupported(_) => (WRONG_INPUT, GENERAL_REMEDY),
        ExecuteError::NoGpu => (ABSENT, GENERAL_REMEDY),
        ExecuteError::Stalled { .. } => (UNSOUND, TIME_LIMIT_REMEDY),
        ExecuteError::Cancelled => (UNSOUND, "nothing was written; start again when there is time"),
        ExecuteError::Operand(OperandError::NoKernel { .. }) => (WRONG_INPUT, NO_KERNEL),
        ExecuteError::Operand(_)
        | ExecuteError::Pool(_)
        | ExecuteError::Wrong(_)
        | ExecuteError::NotComputed { .. }
        | ExecuteError::Changed { .. }
        | ExecuteError::NoMechanism { .. }
        | ExecuteError::NoThread(_)
        | ExecuteError::ThreadFailed => (UNSOUND, GENERAL_REMEDY),
    }
}

/// Exit status and remedy of an error of the `OpenCL` device.
fn of_device(error: &OpenClError) -> (u8, &'static str) {
    const NAME_A_DEVICE: &str = "name a device with --opencl PLATFORM:DEVICE";
    match error {
        OpenClError::NoLibrary { .. } | OpenClError::NoPlatform => (
            ABSENT,
            "install an OpenCL driver (PoCL for the cores of this machine), or use --strategy cpu-only",
        ),
        OpenClError::NotFound { .. } => (ABSENT, NAME_A_DEVICE),
        OpenClError::Ambiguous { .. } => (WRONG_INPUT, NAME_A_DEVICE),
        OpenClError::SubDevice { .. } => {
            (WRONG_INPUT, "give --gpu-cores as many as the device has, or leave it out")
        }
        OpenClError::Build { .. } => (UNSOUND, "report the driver and its compiler's message"),
        OpenClError::OutOfMemory { .. } => {
            (UNSOUND, "run smaller operators, or use a device with more memory")
        }
        OpenClError::TimedOut { .. } => (UNSOUND, TIME_LIMIT_REMEDY),
        OpenClError::Unsupported { .. } => {
            (WRONG_INPUT, "place this operator on the CPU in a plan (--plan), or use --strategy cpu-only")
        }
        OpenClError::NoHalf { .. } => (ABSENT, OTHER_FORMAT),
        OpenClError::Operand(_) => (WRONG_INPUT, GENERAL_REMEDY),
        OpenClError::Image { .. }
        | OpenClError::NoFineGrainedSvm { .. }
        | OpenClError::WorkGroup { .. }
        | OpenClError::SpunOut { .. }
        | OpenClError::Stale { .. }
        | OpenClError::Call { .. } => (UNSOUND, GENERAL_REMEDY),
    }
}
