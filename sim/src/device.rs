//! WHERE it runs: the device profile.
//!
//! Responsible for: the profile's schema, its validation, the provenance of
//! every value and the bundled profiles. Not for: formulas; parameters are
//! named after terms of the kernel models that read them.
//! Invariant: every value has its unit in its key and a source, its own or its
//! table's; a profile that breaks a rule is rejected with the path of the key.

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

pub use basis::Basis;
pub use calibration::{AnswerPart, ErrorGroup};
pub use check::{Checker, Limits};
pub use cpu::{
    Cluster, ClusterName, Core, Cpu, InstructionSet, LanguageRates, MAX_CLUSTERS, MixedClusters, RuyRates,
    XnnpackRates,
};
pub(crate) use gpu::family::SLICE_BYTES;
pub use gpu::family::{ConvGrid, ConvMapping, Extent, Family, Linearisation, Tile, TileTask};
pub use gpu::{
    Direction, Feature, Features, Gpu, GpuFamily, HostPath, KernelTable, LanguageKernels, LinearLowering,
    LinkTransfer, OwnMemory, ResidentKernel,
};
pub use memory::{Interference, Memory};
pub use npu::compiled::CompiledGraphs;
pub use npu::{Npu, Order, SystolicArrays};
pub use power::{Power, ProcessorPower};
pub use processor::ProcessorKind;
pub use profile::{Jitter, Profile};
pub use quantity::Quantity;
pub use sync::Sync;
