//! Variation between measured phones: prior standard deviations of log parameters
//! (six-phone study).
//!
//! Responsible for: the priors of an unmeasured device that the fit to few networks (`inferences`) and
//! the design of measurements (`design`) share. Not for: the priors that only one of them needs.

/// Shift common to all times.
pub(super) const COMMON: f64 = 0.21;
/// Shifts that all kernels of a device share: launches, loop latencies, arithmetic and reads, traffic.
pub(super) const LAUNCHES: f64 = 0.42;
pub(super) const LATENCIES: f64 = 0.30;
pub(super) const THROUGHPUT: f64 = 0.26;
pub(super) const TRAFFIC: f64 = 0.67;
/// Host path: time per inference, gaps between launches, and the factor on kernel times.
pub(super) const INFERENCE: f64 = 1.0;
pub(super) const GAPS: f64 = 1.3;
pub(super) const KERNELS: f64 = 0.08;
