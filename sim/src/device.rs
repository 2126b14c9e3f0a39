//! WHERE it runs: the device profile.
//!
//! Responsible for: the profile's schema, its validation, the provenance of
//! every value and the bundled profiles. Not for: any formula; parameters are
//! named after the terms of the kernel models that read them.
//! Invariant: every value has its unit in its key and a source, its own or its
//! table's; a profile that breaks a rule is rejected with the key's path.

pub mod basis;
pub mod calibration;
pub mod check;
pub mod cpu;
pub mod gpu;
pub mod memory;
pub mod npu;
pub mod power;
mod processor;
pub mod profile;
pub mod quantity;
pub mod sync;

pub use processor::ProcessorKind;
