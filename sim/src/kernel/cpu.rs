//! How one operator runs on a set of CPU cores.
//!
//! Responsible for: which kernel a library selects, how it divides the work over threads,
//! and how long that takes on cores of one or several clusters. Not for: contention with
//! other processors, or rates: every time constant comes from the profile's rate tables.
//! Invariant: nothing here allocates; a search calls it once per candidate.

pub mod coexec;
mod core_set;
mod language;
mod makespan;
pub mod ruy;
mod tally;
mod team;
mod tflite;
pub(super) mod traffic;
mod xnnpack;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantArray};

use super::{Execution, Phase, PhaseKind, Result, Unsupported};
use crate::device::Cpu;
use crate::units::{Bytes, NANOS_PER_MICRO, Picos};
use crate::workload::{Class, DataType, Elementwise, Function, Layer};

pub use core_set::{CoreSet, CoreSetError, Group};
use makespan::{Makespan, self_scheduled, self_scheduled_blocks, static_rows};
use tally::Tally;
use team::{Member, Team, contention};

/// Maximum threads of a core set: the cores of current phones.
pub const MAX_THREADS: usize = 8;

/// A library of CPU kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[derive(Serialize, Deserialize, JsonSchema, Display, VariantArray)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Library {
    /// TFLite's own kernels, with ruy for the matrix products.
    Ruy,
    /// XNNPACK, through `TFLite`'s delegate or `PyTorch` Mobile.
    Xnnpack,
    /// coexec's own kernels, the ones that run on real hardware, whichever library is modelled.
    Coexec,
}

impl Library {
    /// All libraries.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Default library of a simulation: coexec's own if the CPU has no other rate tables, else
    /// XNNPACK.
    pub fn default_for(cpu: &Cpu) -> Self {
        if cpu.has_only_coexec() { Self::Coexec } else { Self::Xnnpack }
    }

    /// Library of the public data sets' runs: coexec's own if the CPU has no other rate tables, else
    /// TFLite's own kernels.
    pub fn of_runs(cpu: &Cpu) -> Self {
        if cpu.has_only_coexec() { Self::Coexec } else { Self::Ruy }
    }
}

/// The implementation a library selects for an operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Product of two matrices.
    #[strum(to_string = "GEMM")]
    Gemm,
    /// Product of a matrix and a vector: one pass over the weights.
    #[strum(to_string = "GEMV")]
    Gemv,
    /// Input windows copied into a matrix, then a product of two matrices.
    #[strum(to_string = "im2col + GEMM")]
    Im2colGemm,
    /// Product of matrices whose left rows are read through an indirection buffer.
    #[strum(to_string = "indirect GEMM")]
    IndirectGemm,
    /// Convolution of each channel with its own window.
    #[strum(to_string = "depthwise kernel")]
    Depthwise,
    /// The unoptimised loop nest, on one thread.
    #[strum(to_string = "reference loop")]
    ReferenceLoop,
    /// A loop over elements: functions, means, softmax, norms.
    #[strum(to_string = "element-wise loop")]
    Elementwise,
    /// Windowed pooling.
    #[strum(to_string = "pooling loop")]
    Pool,
    /// Elements copied unchanged.
    #[strum(to_string = "copy")]
    Copy,
    /// Nothing runs: a batch norm folded into its neighbour, or an empty share.
    #[default]
    #[strum(to_string = "nothing to do")]
    Nothing,
}

/// The largest contribution to a layer's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Limit {
    /// Work of the main thread alone.
    #[strum(to_string = "work of the main thread")]
    Serial,
    /// Arithmetic in parallel work.
    #[strum(to_string = "arithmetic")]
    Compute,
    /// Packing of operands.
    Packing,
    /// Weights or tensors that miss the caches.
    Memory,
    /// Waking threads and waiting for them.
    ForkJoin,
}

/// How a layer is scheduled on a core set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// Library that runs it; `None` for a language-model engine.
    pub library: Option<Library>,
    /// Kernel of the operator; linked functions that do not fuse run after it.
    pub kernel: Kernel,
    /// Threads that share the operator's parallel work.
    pub threads: u32,
    /// Micro-kernel tile: output channels by pixels for ruy (whose left operand
    /// is the weights), pixels by output channels for XNNPACK and coexec; zeros if
    /// the kernel has none.
    pub tile: [u32; 2],
    /// Pieces distributed to the threads: ruy's blocks, XNNPACK's tiles, rows of a
    /// depthwise convolution; 1 for undivided work.
    pub blocks: u32,
    /// Busy time of each thread in parallel phases; the difference to the phases' duration
    /// is the thread's idle tail.
    #[serde(rename = "busy_ps")]
    pub busy: [Picos; MAX_THREADS],
    /// Time of the main thread's serial work, including operator dispatch.
    #[serde(rename = "serial_ps")]
    pub serial: Picos,
    /// The largest contribution to the time.
    pub limit: Limit,
}

/// Runs `layer` on `cores` of `cpu` with the kernels of `library`.
///
/// Phases: `Serial` (dispatch and main-thread work), `Parallel` (until the last
/// thread is done) and, with more than one thread, `ForkJoin`.
///
/// # Errors
/// If the library has no kernel for the layer's data type, a cluster lacks
/// the rate table, or `cores` belongs to another CPU.
pub fn execute(layer: &Layer, cpu: &Cpu, cores: &CoreSet, library: Library) -> Result<Execution<Schedule>> {
    if layer.operator.output().elements() == 0 {
        return Ok(Tally::new(Kernel::Nothing).finish(Some(library), 0));
    }
    if let Some(rates) = cpu.language.as_ref().filter(|_| layer.is_of_language_engine()) {
        return Ok(language::execute(layer, cpu, rates, cores)?.finish(None, traffic::bytes(layer, None)));
    }
    let tally = match library {
        Library::Ruy => tflite::execute(layer, cpu, cores)?,
        Library::Xnnpack => xnnpack::execute(layer, cpu, cores)?,
        Library::Coexec => coexec::execute(layer, cpu, cores)?,
    };
    Ok(tally.finish(Some(library), traffic::bytes(layer, Some(library))))
}

/// How `library` runs `layer` on `cores` inside a network, where other operators have displaced its
/// data from the caches: [`execute`], and for coexec's own kernels a phase of memory traffic.
///
/// # Errors
/// As [`execute`].
pub fn execute_in_network(
    layer: &Layer,
    cpu: &Cpu,
    cores: &CoreSet,
    library: Library,
) -> Result<Execution<Schedule>> {
    let mut execution = execute(layer, cpu, cores, library)?;
    let Execution { phases, detail } = &mut execution;
    let is_work = detail.kernel != Kernel::Nothing && detail.library == Some(Library::Coexec);
    if let Some(caches) = cpu.cold_caches.as_ref().filter(|_| is_work) {
        let alone = phases.duration();
        let extra = caches.extra(traffic::weights_and_tensors(layer, library), detail.threads);
        let bytes = phases.bytes();
        phases.push(Phase::new(PhaseKind::MemoryTraffic, extra, Bytes::ZERO));
        phases.spread(bytes, |kind| kind != PhaseKind::ForkJoin);
        if phases.duration() > alone.times(2) {
            detail.limit = Limit::Memory;
        }
    }
    Ok(execution)
}

/// The linked functions in order, each with whether it fuses at no cost into what
/// precedes it: a `relu` or `relu6` after an operator that applies bounds, or after a
/// function of two tensors.
pub fn linked_functions(layer: &Layer) -> impl Iterator<Item = (Function, bool)> {
    let mut fuses = layer.operator.applies_bounds();
    layer.linked.functions().iter().map(move |&function| {
        let is_fused = fuses && function.is_bound();
        fuses = function.is_binary();
        (function, is_fused)
    })
}

/// The linked functions that run as separate passes over the output.
pub fn separate_passes(layer: &Layer) -> impl Iterator<Item = Elementwise> {
    let all = layer.linked.operators(layer.operator.output()).zip(linked_functions(layer));
    all.filter(|(_, (_, is_fused))| !is_fused).map(|(pass, _)| pass)
}

/// Passes over the input of a dynamically quantised product: minimum and maximum of each row, then
/// quantisation to 8 bits.
const QUANTISING_PASSES: f64 = 2.0;

/// Number format in which the operator of `layer` is computed, and the input elements to
/// quantise before it. The latter is `None` except for operators with weights in
/// dynamically quantised models.
fn arithmetic(layer: &Layer) -> (DataType, Option<u64>) {
    if !layer.data_type.is_dynamic() {
        return (layer.data_type, None);
    }
    let class = layer.operator.class();
    let quantised = if let Some(product) = layer.operator.product_with_weights() {
        Some(u64::from(product.batch) * u64::from(product.rows) * u64::from(product.inner))
    } else if let Class::Convolution(conv) = class {
        Some(conv.input.elements())
    } else if let Class::Recurrent(recurrent) = class {
        let step = recurrent.product();
        Some(u64::from(recurrent.steps) * u64::from(step.rows) * u64::from(step.input_features))
    } else {
        None
    };
    (if quantised.is_some() { DataType::I8 } else { DataType::F32 }, quantised)
}

/// Key of a cluster's rate table for products of `library` in `format`; `None` if not modelled.
pub fn rate_table(library: Library, format: DataType) -> Option<&'static str> {
    match (library, format) {
        (Library::Ruy, DataType::F32) => Some("ruy_f32"),
        (Library::Ruy, DataType::I8 | DataType::I8Dynamic | DataType::I4Dynamic) => Some("ruy_i8"),
        (Library::Xnnpack, DataType::F32) => Some("xnnpack_f32"),
        (Library::Xnnpack, DataType::F16) => Some("xnnpack_f16"),
        (Library::Xnnpack, DataType::I8 | DataType::I8Dynamic | DataType::I4Dynamic) => Some("xnnpack_i8"),
        (Library::Coexec, DataType::F32) => Some("coexec_f32"),
        (Library::Ruy, DataType::F16)
        | (Library::Coexec, DataType::F16 | DataType::I8 | DataType::I8Dynamic | DataType::I4Dynamic)
        | (_, DataType::W4A16 | DataType::W8A16) => None,
    }
}

fn unsupported(layer: &Layer, reason: String) -> Unsupported {
    Unsupported::new("CPU", &layer.operator, reason)
}

#[cfg(test)]
mod tests;
