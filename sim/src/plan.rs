//! WHO does what: how the processors share the work of a graph.
//!
//! Responsible for: how operators are cut, placed and chained, and how processors
//! synchronise. Not for: the time of a part on its processor (`kernel`), or contention
//! between parts. Invariant: nothing here depends on the state of a simulation; a plan
//! is data.

mod chain;
mod file;
mod graph_cover;
mod placement;
mod processor;
mod region;
pub mod synchronisation;

pub use crate::device::ProcessorKind;
pub use chain::{ChainError, Regions, check_chains, computed, owned};
pub(crate) use chain::{follows, is_chainable, widen_by_last};
pub(crate) use file::MAX_PIPELINE_DEPTH;
pub use file::{Partition, PlanFile, PlannedOperator, Share};
pub use graph_cover::{GraphCover, GraphRows, MAX_GRAPHS};
pub use placement::{MAX_PARTS, Part, Placement, PlacementError, Plan};
pub use processor::Processor;
pub use region::{Axis, Region, Span};
pub use synchronisation::Mechanism;
