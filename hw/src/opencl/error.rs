//! Errors of `OpenCL`, each with the failed call and its code.

use cl3::error_codes::error_text;
use opencl3::error_codes::{
    CL_INVALID_BUFFER_SIZE, CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES,
    ClError,
};
use thiserror::Error;

use crate::operands::OperandError;

/// The result of an `OpenCL` call.
pub type Result<T, E = OpenClError> = std::result::Result<T, E>;

/// `OpenCL` cannot do what was requested.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "each message names its fields")]
pub enum OpenClError {
    /// The library is not in any of the searched places.
    #[error("found no OpenCL library, expected one of {searched}; OPENCL_DYLIB_PATH names others")]
    NoLibrary { searched: String },
    /// The library is present, but no driver.
    #[error("found an OpenCL library but no platform: no driver is installed")]
    NoPlatform,
    /// A selection matches no platform or device.
    #[error("found no OpenCL {what} \"{wanted}\", expected one of {offered}")]
    NotFound { what: &'static str, wanted: String, offered: String },
    /// A selection matches several devices.
    #[error("found several OpenCL {what}s \"{wanted}\": {matching}; expected one, give its number")]
    Ambiguous { what: &'static str, wanted: String, matching: String },
    /// A device cannot be partitioned into the requested sub-device, in compute units.
    #[error("found {offered} compute units in {device}, expected a sub-device of {wanted}: {reason}")]
    SubDevice { device: String, offered: u32, wanted: u32, reason: String },
    /// A kernel does not compile.
    #[error("kernel {kernel} does not build with \"{options}\":\n{log}")]
    Build { kernel: &'static str, options: String, log: String },
    /// The device cannot compute in 16-bit floating point.
    #[error("{device} does not compute in f16 (it lacks cl_khr_fp16), expected an f32 layer")]
    NoHalf { device: String },
    /// The device has no images of this size in texels, or none at all.
    #[error("found a tensor of {width}x{height} texels, expected at most {most}: keep it in a buffer")]
    Image { width: usize, height: usize, most: String },
    /// The device has no fine-grained shared virtual memory.
    #[error("{device} has no fine-grained shared virtual memory with atomics")]
    NoFineGrainedSvm { device: String },
    /// A work-group larger than the device or the kernel allows, in threads per axis.
    #[error("found a work-group of {found:?}, expected at most {most} for {kernel}")]
    WorkGroup { kernel: &'static str, found: [u32; 3], most: String },
    /// An operator, or a part of it, without a kernel.
    #[error("{operator} does not run on the GPU: {reason}")]
    Unsupported { operator: String, reason: String },
    /// Weights, inputs or a part that do not fit the operator.
    #[error(transparent)]
    Operand(#[from] OperandError),
    /// The device's memory does not suffice.
    #[error("out of memory on the OpenCL device: {call} of {bytes} bytes failed")]
    OutOfMemory { call: &'static str, bytes: usize },
    /// The device missed a time limit.
    #[error("the OpenCL device did not finish {what} within {limit_ms} ms")]
    TimedOut { what: &'static str, limit_ms: u64 },
    /// A kernel reached its spin limit: the host's signal did not reach it.
    #[error("the device did not see the host's answer in round {round} and stopped spinning")]
    SpunOut { round: u32 },
    /// A flag was seen before the data it announces.
    #[error("the {who} saw the flag of round {round} before the data")]
    Stale { who: &'static str, round: u32 },
    /// Any other failure.
    #[error("{call} failed: {name} ({code})")]
    Call { call: &'static str, code: i32, name: &'static str },
}

/// NVIDIA's driver code for a fault on the device, an illegal access or a kernel ended by a
/// watchdog; not in the standard.
const NVIDIA_DEVICE_FAULT: i32 = -9999;

/// Names the failed call in an error.
pub(super) trait Naming<T> {
    /// The value, or an error that names `call`.
    fn naming(self, call: &'static str) -> Result<T>;
    /// The value, or an error that names `call` and the requested bytes.
    fn allocating(self, call: &'static str, bytes: usize) -> Result<T>;
}

impl<T, C: Into<ClError>> Naming<T> for Result<T, C> {
    fn naming(self, call: &'static str) -> Result<T> {
        self.map_err(|code| of_code(call, code.into().0))
    }

    fn allocating(self, call: &'static str, bytes: usize) -> Result<T> {
        self.map_err(|code| match code.into().0 {
            CL_MEM_OBJECT_ALLOCATION_FAILURE
            | CL_OUT_OF_RESOURCES
            | CL_OUT_OF_HOST_MEMORY
            | CL_INVALID_BUFFER_SIZE => OpenClError::OutOfMemory { call, bytes },
            code => of_code(call, code),
        })
    }
}

fn of_code(call: &'static str, code: i32) -> OpenClError {
    let name = if code == NVIDIA_DEVICE_FAULT { "device fault" } else { error_text(code) };
    if code == CL_MEM_OBJECT_ALLOCATION_FAILURE {
        return OpenClError::OutOfMemory { call, bytes: 0 };
    }
    OpenClError::Call { call, code, name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_call_and_its_code() {
        let error = Err::<(), _>(-30).naming("clSetKernelArg").unwrap_err();
        assert_eq!(error.to_string(), "clSetKernelArg failed: CL_INVALID_VALUE (-30)");
    }

    #[test]
    fn what_does_not_fit_is_out_of_memory() {
        let error = Err::<(), _>(-4).allocating("clCreateBuffer", 1 << 40).unwrap_err();
        assert_eq!(error, OpenClError::OutOfMemory { call: "clCreateBuffer", bytes: 1 << 40 });
    }
}
