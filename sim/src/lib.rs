//! Models, engine and search behind `coexec`: how long neural-network operators
//! take when split over the CPU cores, the GPU and the NPU of a phone.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let scenario = coexec_sim::Scenario::on("mobilenet-v2", "pixel4")?;
//! let answer = scenario.explore()?;
//! println!("{} after {}", scenario.title, answer.prediction.latency);
//! # Ok(())
//! # }
//! ```
//!
//! The pipeline: a [`device`] profile and a [`workload`] become kernel phases
//! ([`kernel`]), a [`plan`] assigns operators to processors, and the [`engine`]
//! computes when each phase runs.
//! Invariants: the crate reads no clock, starts no thread inside a simulation, and
//! touches the file system only in the loading functions.

#![forbid(unsafe_code)]

pub mod device;
pub mod engine;
pub mod explore;
pub mod input;
pub mod kernel;
pub mod plan;
pub mod scenario;
pub mod schedule;
pub mod simulate;
pub mod statistics;
pub mod timeline;
pub mod units;
pub mod workload;

pub use device::basis::Basis;
pub use device::calibration::Calibration;
pub use device::cpu::{Cpu, InstructionSet};
pub use device::gpu::{Gpu, KernelTable};
pub use device::profile::Profile;
pub use device::quantity::Quantity;
pub use explore::{Answer, Objective, SearchOptions, Strategy};
pub use input::{InputError, Text};
pub use kernel::Unsupported;
pub use kernel::cpu::{CoreSet, Library};
pub use plan::synchronisation::Mechanism;
pub use plan::{Axis, Placement, Plan, PlanFile, Processor, ProcessorKind, Region};
pub use scenario::{Overrides, Scenario, Workload};
pub use simulate::{Measure, Prediction, SimulateError, Simulator};
pub use units::{Bytes, Picos};
pub use workload::{DataType, Function, Graph, Layer, Operator, Shape, Source, Stage};
