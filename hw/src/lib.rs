//! Real-hardware runs of coexec scenarios: `OpenCL` for the GPU, SIMD kernels for the CPU cores.
//!
//! Responsible for: executing a scenario and plan on the machine at hand,
//! probing it, and measuring. Not for: predicting anything; predictions come
//! from `coexec-sim`, whose scenario, plan and dispatch rules are used here
//! unchanged so that predicted and measured times describe the same work.
//!
//! The crate holds no code yet: it marks the border that keeps `OpenCL` and
//! `unsafe` out of every other crate.
