//! The GPU of a device profile: its dispatch family, its width, its occupancy
//! limits, and one parameter table per kernel family.
//!
//! Responsible for: the schema and the range checks. Not for: the dispatch rules
//! and the latency equations (`kernel::gpu`), after whose terms the parameters are named.
//! Invariant: counts decide the dispatch and are exact; the microsecond values
//! are fitted and only meaningful together, as one set per table.

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
    /// Threads of one wave for occupancy. On Adreno 640 this is 64, although the tile rule
    /// counts 128-lane waves (fit on the public GPU table).
    pub simd_width: u32,
    /// Maximum threads that the driver allows in one work-group of a compiled kernel.
    pub max_work_group_size: u32,
    /// Clock under load, in MHz. Used only for the prior of a fit.
    pub clock_mhz: Option<Quantity>,
    /// Multiply-accumulates in 16-bit floating point per cycle of the whole GPU. Used only for
    /// the prior of a fit.
    pub multiply_accumulates_per_cycle: Option<Quantity>,
    /// How a linear layer of several rows reaches the delegate.
    #[serde(default)]
    pub linear_lowering: LinearLowering,
    /// Waves resident on a compute unit, by tile size; a kernel that matches no entry has no
    /// limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub residency: Vec<Residency>,
    /// Generic convolution; also matrix products of more than one row.
    pub conv_generic: ConvGenericKernel,
    /// Grouped convolution; defaults to `conv_generic`.
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
    /// Correction of the kernel tables, learned from their residuals.
    pub residual: Option<Residual>,
    /// Host-side costs of a whole inference, in addition to its launches; `None` if unmeasured.
    pub host: Option<HostPath>,
    /// Dedicated memory; `None` for a GPU in the unified memory of all processors.
    pub memory: Option<OwnMemory>,
    /// Kernels for models with integer weights and 16-bit activations; defaults to the
    /// delegate's kernels.
    pub language: Option<LanguageKernels>,
}

/// How a linear layer of several rows reaches the delegate, which decides the
/// tile of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinearLowering {
    /// As the generic convolution with its tile folded into a row, (2,2,2) into (4,1,2), like
    /// products of activations. coexec's own kernels do the same.
    #[default]
    FullyConnected,
    /// As a 1x1 convolution of a one-pixel-high image: the tile is not folded.
    /// The delegate does this for three-dimensional activations (LiteRT sources), and it
    /// fits the latencies of EPEW'25, section 3, better.
    Convolution,
}

/// Kernels to which a [`Residency`] entry applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ResidentKernel {
    /// Convolution, 1x1, stride 1, unpadded: without the window loop it needs fewer registers.
    Trivial,
    /// Convolution with any other window.
    Other,
    /// Convolution with any window.
    Any,
    /// Depthwise convolution. A large group may leave too little room for a second one, and
    /// the unit partly empty: on Adreno 640, a 784-thread group (28x28 pixels in 2x2 tiles)
    /// fills 13 of 16 waves.
    Depthwise,
}

/// Occupancy limit: how many waves of a kernel are resident on a compute unit, given the
/// registers that one thread's tile needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Residency {
    /// Texels of one thread's output tile: columns x rows x slices.
    pub tile_size: u32,
    /// Kernels to which the limit applies.
    pub kernel: ResidentKernel,
    /// Resident waves per compute unit. May be fractional if a work-group is one wave, as on
    /// Apple: 49 groups on 6 cores are 8.17.
    pub waves: Quantity,
}

impl Gpu {
    /// Storage layout of activations in the delegate.
    pub fn layout(&self) -> Layout {
        self.family.rules().layout
    }

    /// The same GPU without its residual model, predicted by the white-box equations alone.
    #[must_use]
    pub fn without_residual(&self) -> Self {
        Self { residual: None, ..self.clone() }
    }

    /// Waves per compute unit that a `kernel` with tiles of `tile_size` texels keeps
    /// resident; `None` for no limit.
    pub fn resident_waves(&self, tile_size: u32, kernel: ResidentKernel) -> Option<f64> {
        let matches = |entry: &&Residency| {
            let is_any = entry.kernel == ResidentKernel::Any && kernel != ResidentKernel::Depthwise;
            entry.tile_size == tile_size && (is_any || entry.kernel == kernel)
        };
        self.residency.iter().find(matches).map(|entry| entry.waves.value)
    }

    /// Records every invalid value.
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
    fn depthwise_kernels_have_their_own_residency() {
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
