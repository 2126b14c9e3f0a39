//! One layer alone on one processor: dispatches to the kernel models.

use serde::{Serialize, Serializer};

use super::price::own_memory;
use super::{Measure, Result, SimulateError, compiled_graphs, within_a_day};
use crate::device::{ProcessorKind, Profile};
use crate::engine::ProcessorId;
use crate::kernel::language::LanguageLaunch;
use crate::kernel::{CoreSet, Library, Phases, Unsupported, cpu, gpu, npu};
use crate::plan::Processor;
use crate::units::BytesPerSecond;
use crate::workload::Layer;

impl ProcessorKind {
    pub(crate) fn id(self) -> ProcessorId {
        ProcessorId(self as u8)
    }
}

/// Why a compute task takes as long as it does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detail {
    /// A CPU schedule on a core set.
    Cpu {
        /// The cores.
        #[serde(serialize_with = "as_text")]
        cores: CoreSet,
        /// How the cores share the work.
        schedule: cpu::Schedule,
    },
    /// A GPU launch.
    Gpu(gpu::Launch),
    /// A GPU launch of a language-model engine.
    GpuLanguage(LanguageLaunch),
    /// An NPU's schedule of a single product.
    Npu(npu::Schedule),
    /// A kernel of a language-model engine on an NPU.
    NpuLanguage(LanguageLaunch),
    /// An operator of a graph compiled for an NPU.
    NpuGraph(npu::compiled::Step),
}

impl Detail {
    /// Number of equal streams of the traffic: the CPU's active threads, otherwise one.
    pub(crate) fn streams(&self) -> u32 {
        if let Self::Cpu { schedule, .. } = self { schedule.threads.max(1) } else { 1 }
    }

    /// Whether a CPU that sleeps for a predicted wait can dispatch this before its input is there, as `HeteroInfer`'s
    /// engine does with single products. How long a compiled graph takes to start is known of whole inferences alone,
    /// and what its operators cost beside their work is no dispatch.
    pub(crate) fn is_dispatched_early(&self) -> bool {
        match self {
            Self::Npu(_) => true,
            Self::Cpu { .. }
            | Self::Gpu(_)
            | Self::GpuLanguage(_)
            | Self::NpuLanguage(_)
            | Self::NpuGraph(_) => false,
        }
    }

    /// Launches in a GPU's queue.
    pub(super) fn launches(&self) -> u32 {
        if let Self::Gpu(launch) = self { launch.launches } else { 1 }
    }

    /// Names memory traffic as what limits the task.
    fn is_limited_by_traffic(&mut self) {
        match self {
            Self::Cpu { schedule, .. } => schedule.limit = cpu::Limit::Memory,
            Self::Gpu(launch) => launch.limit = gpu::Limit::Traffic,
            Self::Npu(schedule) => schedule.limit = npu::Limit::Traffic,
            Self::GpuLanguage(_) | Self::NpuLanguage(_) | Self::NpuGraph(_) => {}
        }
    }
}

fn as_text<S: Serializer>(cores: &CoreSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cores)
}

/// How one processor runs a layer alone.
///
/// # Errors
/// The device has no such processor, the processor has no kernel for the layer, or the layer takes more than
/// a day.
pub fn execute(layer: &Layer, device: &Profile, library: Library, by: Processor) -> Result<(Phases, Detail)> {
    measured(layer, (device, library), by, Measure::Operators)
}

/// How one processor runs a layer alone, or with [`Measure::Inference`] as an operator of a network. The host's
/// part of a GPU's launches is not included.
pub(super) fn measured(
    layer: &Layer,
    (device, library): (&Profile, Library),
    by: Processor,
    measure: Measure,
) -> Result<(Phases, Detail)> {
    let (mut phases, mut detail) = match by {
        Processor::Cpu(cores) => {
            let execution = match measure {
                Measure::Operators => cpu::execute(layer, &device.cpu, &cores, library)?,
                Measure::Inference => cpu::execute_in_network(layer, &device.cpu, &cores, library)?,
            };
            execution.detailed(|schedule| Detail::Cpu { cores, schedule })
        }
        Processor::Gpu => {
            let gpu = device.gpu.as_ref().ok_or_else(|| SimulateError::absent("GPU", device))?;
            match gpu.language.as_ref().filter(|_| layer.is_of_language_engine()) {
                Some(kernels) => gpu::language::execute(layer, kernels).detailed(Detail::GpuLanguage),
                None => gpu::execute(layer, gpu)?.detailed(Detail::Gpu),
            }
        }
        Processor::Npu(_) => {
            let npu = device.npu.as_ref().ok_or_else(|| SimulateError::absent("NPU", device))?;
            match npu.compiler(layer.data_type) {
                Some(compiler) => compiled_graphs::alone(layer, compiler)?,
                None => product(layer, device)?,
            }
        }
    };
    // The model of compiled graphs limits their traffic itself.
    if !matches!(detail, Detail::NpuGraph(_)) {
        let stretched = phases.limit_rate(peak_bandwidth(device, by));
        if stretched.times(2) > phases.duration() {
            detail.is_limited_by_traffic();
        }
    }
    within_a_day(&layer.operator, phases.duration())?;
    Ok((phases, detail))
}

/// How an NPU runs a layer by itself, as one static graph.
///
/// # Errors
/// The operator is not a matrix product, or the profile has no `[npu.systolic]` table.
pub(super) fn product(layer: &Layer, device: &Profile) -> Result<(Phases, Detail), Unsupported> {
    const NO_ARRAYS: &str = "the profile has no [npu.systolic] table, so single products cannot be predicted";
    let npu = device.systolic().ok_or_else(|| Unsupported::new("NPU", &layer.operator, NO_ARRAYS))?;
    Ok(npu::execute(layer, npu)?.detailed(Detail::Npu))
}

/// How an NPU runs a layer by a kernel of a language-model engine.
///
/// # Errors
/// The engine has no kernel for the layer, or the profile has no `[npu.language]` table.
pub(super) fn language_kernel(layer: &Layer, device: &Profile) -> Result<(Phases, Detail), Unsupported> {
    const NO_KERNELS: &str =
        "the profile has no [npu.language] table, so kernels of a language-model engine cannot be predicted";
    let rates = device.npu.as_ref().and_then(|npu| npu.language.as_ref());
    let rates = rates.filter(|_| layer.is_of_language_engine());
    let rates = rates.ok_or_else(|| Unsupported::new("NPU", &layer.operator, NO_KERNELS))?;
    Ok(npu::language::execute(layer, rates).detailed(Detail::NpuLanguage))
}

/// Peak bandwidth of the memory that `by` uses: the only limit on the traffic of a
/// processor alone. The streaming rate of one client, `concurrent_bandwidth_gbps[0]`, is
/// no limit: of the 3256 convolutions and products measured on a Pixel 4
/// (mobile-ml-benchmark), 39 exceed its 27.3 GB/s, all with tensors of at most a few megabytes.
fn peak_bandwidth(device: &Profile, by: Processor) -> BytesPerSecond {
    let own = own_memory(device).filter(|_| by == Processor::Gpu);
    let gbps = own.map_or(&device.memory.peak_bandwidth_gbps, |memory| &memory.bandwidth_gbps);
    BytesPerSecond::from_gigabytes(gbps.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Quantity;
    use crate::workload::{Conv2d, DataType, Shape, Window};

    #[test]
    fn what_the_bandwidth_of_the_memory_stretches_is_limited_by_traffic() {
        let limits = |gigabytes_per_second| {
            let mut device = Profile::load("pixel4").unwrap();
            device.memory.peak_bandwidth_gbps = Quantity::plain(gigabytes_per_second);
            let conv = Conv2d::new(Shape::image(56, 56, 64), 64, Window::valid(1));
            let layer = Layer::new(conv.into(), DataType::F32);
            let cores = Processor::Cpu(CoreSet::fastest(&device.cpu, 1).unwrap());
            [Processor::Gpu, cores].map(|by| execute(&layer, &device, Library::Xnnpack, by).unwrap().1)
        };
        let is_traffic = |detail: &Detail| match detail {
            Detail::Cpu { schedule, .. } => schedule.limit == cpu::Limit::Memory,
            Detail::Gpu(launch) => launch.limit == gpu::Limit::Traffic,
            other => panic!("{other:?}"),
        };
        assert_eq!([34.1, 0.1].map(|rate| limits(rate).each_ref().map(is_traffic)), [[false; 2], [true; 2]]);
    }
}
