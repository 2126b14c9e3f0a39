//! The GPU of a device profile: its dispatch family, its width, how many waves
//! it keeps resident, and one parameter table per kernel family.
//!
//! Responsible for: the schema and the range checks. Not for: the dispatch rules
//! and the latency equations (`kernel::gpu`), whose terms the parameters name.
//! Invariant: counts decide the dispatch and are exact; the microsecond values
//! are fitted and only ever used together, as one set per table.

mod convolution;
pub mod family;
mod host;
mod language;
mod link;
mod parameters;
mod remaining;
mod residual;
mod spread;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Checker, Quantity};
use crate::workload::Layout;

pub use convolution::{ConvConstantsKernel, ConvGenericKernel, DepthwiseKernel, WinogradKernel};
pub use family::GpuFamily;
pub use host::HostPath;
pub use language::{LanguageKernels, StandAlone};
pub use link::{Direction, Link, LinkTransfer, OwnMemory};
pub(crate) use parameters::CommonParameters;
pub use parameters::{KernelTable, Parameters};
pub use remaining::{ConcatKernel, ElementwiseKernel, FullyConnectedKernel, MeanKernel, PoolKernel};
pub use residual::similarity;
pub use residual::{Correction, Feature, Features, LOG_FACTOR_RANGE, Points, Residual, ResidualTable};
pub use spread::{InferenceSpread, TableSpread};

/// A GPU as the TFLite GPU delegate sees it, with its fitted parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Marketing name: `Adreno 640`.
    pub name: String,
    /// Where the counts of this table come from.
    pub source: String,
    /// Which dispatch rules apply.
    pub family: GpuFamily,
    /// Compute units as the delegate counts them: shader processors (Adreno),
    /// cores (Mali, Apple), clusters (`PowerVR`), multiprocessors (NVIDIA).
    pub compute_units: u32,
    /// Threads of one wave in the occupancy accounting. On Adreno 640 this is 64
    /// although the tile rule counts 128-lane waves (fit on the public GPU table).
    pub simd_width: u32,
    /// Most threads the driver allows in one work-group of a compiled kernel.
    pub max_work_group_size: u32,
    /// Clock under load, in 10^6 cycles per second. Only the prior of a fit needs it.
    pub clock_mhz: Option<Quantity>,
    /// Multiply-accumulates in 16-bit floating point that the whole GPU completes in
    /// a cycle. Only the prior of a fit needs it.
    pub multiply_accumulates_per_cycle: Option<Quantity>,
    /// How a linear layer of several rows reaches the delegate.
    #[serde(default)]
    pub linear_lowering: LinearLowering,
    /// Waves a compute unit keeps resident, by tile size; a kernel that no entry
    /// matches has no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub residency: Vec<Residency>,
    /// Generic convolution; also matrix products of more than one row.
    pub conv_generic: ConvGenericKernel,
    /// Grouped convolution; `conv_generic` stands in where it is missing.
    pub grouped_conv: Option<ConvGenericKernel>,
    /// Winograd F(4x4, 3x3) convolution.
    pub winograd: Option<WinogradKernel>,
    /// Convolution with its weights in constant memory (Adreno, NVIDIA).
    pub conv_constants: Option<ConvConstantsKernel>,
    /// Matrix-vector product.
    pub fully_connected: FullyConnectedKernel,
    /// Depthwise convolution, all three kernels.
    pub depthwise: DepthwiseKernel,
    /// Windowed pooling.
    pub pool: PoolKernel,
    /// Mean over the pixels of each channel.
    pub mean: MeanKernel,
    /// Concatenation along channels.
    pub concat: ConcatKernel,
    /// Element-wise functions, softmax, normalisations, look-ups and copies.
    pub elementwise: ElementwiseKernel,
    /// What was learned of the launches that these tables miss.
    pub residual: Option<Residual>,
    /// What a whole inference takes beside its launches, where it is known.
    pub host: Option<HostPath>,
    /// Memory of its own, where it does not share that of the other processors.
    pub memory: Option<OwnMemory>,
    /// Kernels for models whose weights alone are integers; the delegate's stand in
    /// where they are missing.
    pub language: Option<LanguageKernels>,
}

/// How a linear layer of several rows reaches the delegate, which decides the
/// tile of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinearLowering {
    /// As the generic convolution with its tile folded into a row, (2,2,2) into
    /// (4,1,2), as products of activations are: so coexec's own kernels run it.
    #[default]
    FullyConnected,
    /// As a 1x1 convolution of a one-pixel-high image: the tile is not folded.
    /// What the delegate makes of activations with three dimensions (LiteRT
    /// sources), and what the latencies of EPEW'25, section 3, fit better.
    Convolution,
}

/// Which kernels a [`Residency`] entry speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResidentKernel {
    /// Convolution, 1x1, stride 1, unpadded: the compiler drops the window loop and
    /// with it registers.
    Trivial,
    /// Convolution with any other window.
    Other,
    /// Convolution with any window.
    Any,
    /// Depthwise convolution. A group of many waves may leave no room for a second
    /// one and the unit partly empty: on Adreno 640, a 784-thread group (28x28
    /// pixels in 2x2 tiles) fills 13 of 16.
    Depthwise,
}

/// How many waves of a kernel a compute unit keeps resident: what
/// the registers of one thread's tile leave room for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Residency {
    /// Texels of one thread's output tile: columns x rows x slices.
    pub tile_size: u32,
    /// Which kernels.
    pub kernel: ResidentKernel,
    /// Resident waves per compute unit. A fraction is kept where one wave is one
    /// work-group, as on Apple: 49 groups on 6 cores are 8.17.
    pub waves: Quantity,
}

impl Gpu {
    /// Where the delegate stores activations on this GPU.
    pub fn layout(&self) -> Layout {
        self.family.rules().layout
    }

    /// The same GPU predicted by its equations alone.
    #[must_use]
    pub fn without_residual(&self) -> Self {
        Self { residual: None, ..self.clone() }
    }

    /// Waves of a `kernel` of `tile_size` texels that a compute unit keeps resident; `None` for no limit.
    pub fn resident_waves(&self, tile_size: u32, kernel: ResidentKernel) -> Option<f64> {
        let matches = |entry: &&Residency| {
            let is_any = entry.kernel == ResidentKernel::Any && kernel != ResidentKernel::Depthwise;
            entry.tile_size == tile_size && (is_any || entry.kernel == kernel)
        };
        self.residency.iter().find(matches).map(|entry| entry.waves.value)
    }

    /// Notes every value that cannot be.
    pub(crate) fn check(&self, checker: &mut Checker) {
        checker.values(&self.without_residual());
        checker.optional("residual", self.residual.as_ref(), Residual::check);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pixel4() -> Gpu {
        crate::input::from_toml(include_str!("../../tests/golden/gpu_pixel4.toml")).unwrap()
    }

    #[test]
    fn a_profile_survives_writing_and_reading() {
        let gpu = pixel4();
        let text = toml::to_string(&gpu).unwrap();
        assert_eq!(crate::input::from_toml::<Gpu>(&text).unwrap(), gpu);
    }

    #[test]
    fn a_window_leaves_fewer_waves_resident_than_a_trivial_kernel() {
        let gpu = pixel4();
        assert_eq!(gpu.resident_waves(8, ResidentKernel::Trivial), Some(16.0));
        assert_eq!(gpu.resident_waves(8, ResidentKernel::Other), Some(12.0));
        assert_eq!(gpu.resident_waves(4, ResidentKernel::Trivial), None);
    }

    #[test]
    fn depthwise_kernels_have_a_residency_of_their_own() {
        let mut gpu = pixel4();
        assert_eq!(gpu.resident_waves(8, ResidentKernel::Depthwise), None);
        let waves = Quantity::plain(16.0);
        gpu.residency.push(Residency { tile_size: 4, kernel: ResidentKernel::Depthwise, waves });
        assert_eq!(
            (
                gpu.resident_waves(4, ResidentKernel::Depthwise),
                gpu.resident_waves(4, ResidentKernel::Trivial)
            ),
            (Some(16.0), None)
        );
    }

    #[test]
    fn values_out_of_range_are_named_with_their_table() {
        let mut gpu = pixel4();
        gpu.compute_units = 0;
        gpu.conv_generic.launch_us = Quantity::plain(-1.0);
        gpu.residency[0].waves = Quantity::plain(0.0);
        let mut checker = Checker::default();
        checker.table("gpu", |checker| gpu.check(checker));
        let keys: Vec<String> = checker.violations.into_iter().map(|violation| violation.key).collect();
        assert_eq!(keys, ["gpu.compute_units", "gpu.conv_generic.launch_us", "gpu.residency[0].waves"]);
    }

    #[test]
    fn the_parameters_of_the_six_phones_are_in_range() {
        let phones = [
            include_str!("../../tests/golden/gpu_pixel4.toml"),
            include_str!("../../tests/golden/gpu_s10.toml"),
            include_str!("../../tests/golden/gpu_mi8se.toml"),
            include_str!("../../tests/golden/gpu_a03s.toml"),
            include_str!("../../tests/golden/gpu_iphone7.toml"),
            include_str!("../../tests/golden/gpu_iphonexs.toml"),
        ];
        for text in phones {
            let mut checker = Checker::default();
            crate::input::from_toml::<Gpu>(text).unwrap().check(&mut checker);
            assert_eq!(checker.violations, []);
        }
    }

    #[test]
    fn an_unknown_family_or_key_is_rejected() {
        let text = include_str!("../../tests/golden/gpu_pixel4.toml");
        assert!(crate::input::from_toml::<Gpu>(&text.replace("adreno-6xx", "adreno-9xx")).is_err());
        assert!(crate::input::from_toml::<Gpu>(&text.replace("compute_units", "cores")).is_err());
    }
}
