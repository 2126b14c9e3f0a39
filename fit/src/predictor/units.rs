//! The number of basic units that a kernel runs: `CoDL`'s equation 3 and Table 1.
//!
//! `ceil(output / (block * cores)) * ceil(block / unit)`: a block is the work that one core
//! gets at a time (a GPU's work-group, a CPU library's block), a unit the work that it runs at
//! once (a wave, a micro-kernel's tile). The inference runtime decides both; the simulator's
//! dispatch rules reproduce its choice.

use arrayvec::ArrayVec;

use coexec_sim::kernel::cpu::{self, CoreSet, Library};
use coexec_sim::kernel::{Unsupported, gpu};
use coexec_sim::workload::{Class, DataType, Layer, Operator};
use coexec_sim::{Cpu, Gpu};

/// Largest number of kernels that one operator runs in sequence: Winograd's two transforms
/// and its product.
pub const MAX_STEPS: usize = 3;

/// Elements per lane of Winograd's transforms: one slice of channels.
const SLICE: u64 = 4;
/// Elements of a CPU's basic unit for a kernel without a tile: a 128-bit vector.
const VECTOR: u64 = 4;

/// A kernel of either processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KernelName {
    /// On the GPU.
    Gpu(gpu::Kernel),
    /// On CPU cores.
    Cpu(cpu::Kernel),
}

/// A kernel implementation with a basic unit of its own. Each window is one, as frameworks
/// have kernels for particular windows (MACE: 1x1 and 3x3), and so is each tile per thread,
/// as TFLite's GPU delegate compiles a kernel for each.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Implementation {
    /// The kernel.
    pub kernel: KernelName,
    /// Number format.
    pub data_type: DataType,
    /// Window height and width; none for an operator without a window, or for all windows.
    pub window: Option<[u32; 2]>,
    /// Tile of a GPU thread: columns, rows, slices; none on a CPU, or for all tiles.
    pub tile: Option<[u32; 3]>,
    /// Cores, on a CPU.
    pub cores: Option<CoreSet>,
}

impl Implementation {
    /// The same kernel for all windows and tiles.
    #[must_use]
    pub fn of_any_shape(&self) -> Self {
        Self { window: None, tile: None, ..self.clone() }
    }
}

/// A layer on a processor, as the predictor's input.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The kernel.
    pub implementation: Implementation,
    /// Basic units that a core runs in sequence, for each step of the kernel.
    pub units: ArrayVec<f64, MAX_STEPS>,
    /// H, W, IC and OC: height and width (times batch) of the output, input and output channels.
    pub features: [f64; 4],
}

impl Job {
    /// `layer` on `gpu`.
    ///
    /// # Errors
    /// The profile has no kernel for it.
    pub fn on_gpu(layer: &Layer, gpu: &Gpu) -> Result<Self, Unsupported> {
        let launch = gpu::execute(layer, gpu)?.detail;
        let cores = u64::from(gpu.compute_units.max(1));
        let product = u64::from(launch.groups).div_ceil(cores) * u64::from(launch.waves_per_group);
        let mut units = ArrayVec::new();
        if let (gpu::Kernel::Winograd, Operator::Conv2d(conv)) = (launch.kernel, &layer.operator) {
            let output = layer.operator.output();
            let [written, read] = [gpu::WINOGRAD_TILE, gpu::WINOGRAD_SIDE].map(u64::from);
            let tiles = u64::from(output.width.div_ceil(gpu::WINOGRAD_TILE))
                * u64::from(output.height.div_ceil(gpu::WINOGRAD_TILE))
                * u64::from(output.batch);
            let at_once = cores * u64::from(gpu.simd_width.max(1)) * SLICE;
            let transform =
                |channels: u32, side: u64| (u64::from(channels) * tiles * side * side).div_ceil(at_once);
            units.push(transform(conv.input.channels, read) as f64);
            units.push(product as f64);
            units.push(transform(conv.output_channels, written) as f64);
        } else {
            units.push(product as f64);
        }
        Ok(Self::new(layer, KernelName::Gpu(launch.kernel), (Some(launch.tile), None), units))
    }

    /// `layer` on `cores` of `cpu`, with the kernels of `library`.
    ///
    /// # Errors
    /// The profile has no kernel for it.
    pub fn on_cpu(layer: &Layer, cpu: &Cpu, cores: &CoreSet, library: Library) -> Result<Self, Unsupported> {
        let schedule = cpu::execute(layer, cpu, cores, library)?.detail;
        let threads = u64::from(schedule.threads.max(1));
        let blocks = u64::from(schedule.blocks.max(1));
        let rounds = blocks.div_ceil(threads);
        let tile = u64::from(schedule.tile[0]) * u64::from(schedule.tile[1]);
        let unit = if tile == 0 { VECTOR } else { tile };
        let mut units = ArrayVec::new();
        let output = layer.operator.output();
        if is_product(schedule.kernel) {
            let multiplied = layer.operator.macs();
            let packed = multiplied / u64::from(output.channels.max(1));
            units.push(packed.div_ceil(threads * VECTOR) as f64);
            units.push((rounds * multiplied.div_ceil(blocks).div_ceil(unit)) as f64);
        } else {
            units.push((rounds * output.elements().div_ceil(blocks).div_ceil(unit)) as f64);
        }
        Ok(Self::new(layer, KernelName::Cpu(schedule.kernel), (None, Some(*cores)), units))
    }

    /// The job of `layer` with that kernel, and the tile of a GPU thread or the CPU's cores.
    fn new(
        layer: &Layer,
        kernel: KernelName,
        (tile, cores): (Option<[u32; 3]>, Option<CoreSet>),
        units: ArrayVec<f64, MAX_STEPS>,
    ) -> Self {
        let output = layer.operator.output();
        let operator = &layer.operator;
        let window = operator.window().map(|window| window.kernel);
        let input_channels = if let Class::Convolution(conv) = operator.class() {
            conv.group_channels()
        } else {
            operator.input_shapes().next().map_or(0, |shape| shape.channels)
        };
        Self {
            implementation: Implementation { kernel, data_type: layer.data_type, window, tile, cores },
            units,
            features: [
                f64::from(output.height),
                f64::from(output.width) * f64::from(output.batch),
                f64::from(input_channels),
                f64::from(output.channels),
            ],
        }
    }
}

/// Whether the kernel is `CoDL`'s GEMM: packing, then a matrix product.
fn is_product(kernel: cpu::Kernel) -> bool {
    matches!(
        kernel,
        cpu::Kernel::Gemm | cpu::Kernel::Gemv | cpu::Kernel::Im2colGemm | cpu::Kernel::IndirectGemm
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use coexec_sim::device::profile::Profile;
    use coexec_sim::workload::Linear;

    fn linear(output_features: u32) -> Layer {
        let linear = Linear { rows: 64, input_features: 256, output_features, bias: false };
        Layer::new(Operator::Linear(linear), DataType::F32)
    }

    #[test]
    fn a_product_on_cores_is_packed_first() {
        let profile = Profile::load("pixel4").unwrap();
        let cores = CoreSet::fastest(&profile.cpu, 2).unwrap();
        let job = Job::on_cpu(&linear(128), &profile.cpu, &cores, Library::Ruy).unwrap();
        assert_eq!(job.units.len(), 2);
        // 64 x 256 elements, two threads of four lanes.
        assert!((job.units[0] - 2048.0).abs() < f64::EPSILON, "{job:?}");
        assert_eq!(job.features.map(|feature| feature as u32)[2..], [256, 128]);
    }

    #[test]
    fn units_grow_in_steps_as_work_groups_fill_compute_units() {
        let profile = Profile::load("pixel4").unwrap();
        let gpu = profile.gpu.as_ref().unwrap();
        let units = |features| Job::on_gpu(&linear(features), gpu).unwrap().units[0];
        assert!((units(1024) - units(1023)).abs() < f64::EPSILON);
        assert!(units(2048) > units(1024));
    }
}
