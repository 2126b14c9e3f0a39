//! Models, engine and search behind `coexec`: how long neural-network operators
//! take when split over the CPU cores, the GPU and the NPU of a phone.
//!
//! The way through: a [`device`] profile and a [`workload`] become kernel
//! phases ([`kernel`]); a plan says who does what; the [`engine`] says when.
//! Invariant: no clock is read, no thread is started inside one simulation, and
//! only the loading functions touch the file system.

pub mod calibrate;
pub mod device;
pub mod engine;
pub mod explore;
pub mod input;
pub mod kernel;
pub mod measure;
pub mod plan;
pub mod predictor;
pub mod published;
pub mod scenario;
pub mod simulate;
pub mod statistics;
pub mod timeline;
pub mod units;
pub mod validate;
pub mod workload;
