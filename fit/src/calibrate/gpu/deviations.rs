//! By how much measured phones differ: standard deviations of logarithms (few-runs study, section 3).
//!
//! Responsible for: what the fit to few networks (`few`) and the design of launches (`design`) both expect of a device
//! that nobody measured. Not for: what either adds of its own.

/// All times together.
pub(super) const COMMON: f64 = 0.21;
/// What all kernels of a device share: launches, latencies of loops, arithmetic and reads, bytes.
pub(super) const LAUNCHES: f64 = 0.42;
pub(super) const LATENCIES: f64 = 0.30;
pub(super) const THROUGHPUT: f64 = 0.26;
pub(super) const TRAFFIC: f64 = 0.67;
/// What the host adds: to an inference, between launches, and how much longer than alone they take.
pub(super) const INFERENCE: f64 = 1.0;
pub(super) const GAPS: f64 = 1.3;
pub(super) const KERNELS: f64 = 0.08;
