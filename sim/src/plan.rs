//! WHO does what: how the processors share the work of a graph.
//!
//! Responsible for: what is cut, where it is placed, what is chained and how the parts
//! come together again. Not for: how long a part takes on its processor (`kernel`), or
//! what happens when several run at once. Invariant: nothing here depends on the
//! state of a simulation; a plan is data.

pub mod accelerators;
mod cut;
mod file;
mod placement;
mod shares;
pub mod synchronisation;

pub use accelerators::{AcceleratorSplit, GraphCover};
pub use cut::{Axis, ChainError, Cut, check_chains, cuts};
pub(crate) use cut::{lines_read, widen};
pub(crate) use file::MAX_PIPELINE_DEPTH;
pub use file::{Partition, PlanFile, PlannedOperator, ProcessorName, Share};
pub use placement::{Placement, Plan, ShareOf};
pub use shares::{OperatorShares, shares};
