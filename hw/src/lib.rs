//! Real-hardware runs of coexec scenarios: `OpenCL` for the GPU, SIMD kernels for the CPU cores.
//!
//! Responsible for: executing a scenario and plan on the machine at hand, probing the machine, and
//! measuring. Not for: predicting anything; predictions come from `coexec-sim`, whose scenarios,
//! plans and dispatch rules are used here unchanged, so that predicted and measured times describe
//! the same work. Invariant: no other crate uses `OpenCL` or `unsafe`, and every unsafe block
//! states why it is sound.

#![deny(unsafe_op_in_unsafe_fn)]
#![deny(clippy::undocumented_unsafe_blocks)]

pub mod cpu;
pub mod execute;
mod exit;
pub mod fingerprint;
mod lock;
pub mod opencl;
pub mod operands;
pub mod probe;
mod random_operands;
mod statistics;
pub mod sync;
mod system;
#[cfg(test)]
mod tests;
pub mod verify;

pub use exit::exit_immediately;
