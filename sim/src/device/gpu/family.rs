//! GPU families: the TFLite GPU delegate's dispatch rules that depend on the GPU's architecture.
//!
//! Responsible for: everything in which families differ, one file per vendor. Not for: rules common to
//! all GPUs (`kernel::gpu`), or the constants of one device.
//! Invariant: no other code matches on the family; it reads a rule. The rules are read from the
//! delegate's sources (`LiteRT`) unless stated otherwise.

mod adreno;
mod amd;
mod apple;
mod generic;
mod mali;
mod nvidia;
mod powervr;
mod tile;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantArray;

use generic::UNRECOGNISED;
pub(crate) use tile::SLICE_BYTES;
pub use tile::{Extent, Tile, TileTask};

use crate::workload::Layout;

/// A family of GPUs with the same dispatch rules in the TFLite GPU delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema, VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum GpuFamily {
    /// Qualcomm Adreno 3xx.
    #[serde(rename = "adreno-3xx")]
    Adreno3xx,
    /// Qualcomm Adreno 4xx.
    #[serde(rename = "adreno-4xx")]
    Adreno4xx,
    /// Qualcomm Adreno 5xx.
    #[serde(rename = "adreno-5xx")]
    Adreno5xx,
    /// Qualcomm Adreno 6xx.
    #[serde(rename = "adreno-6xx")]
    Adreno6xx,
    /// Qualcomm Adreno 7xx.
    #[serde(rename = "adreno-7xx")]
    Adreno7xx,
    /// Arm Mali-T6xx, T7xx and T8xx.
    MaliMidgard,
    /// Arm Mali-G31, G51 and G71.
    #[serde(rename = "mali-bifrost-1")]
    MaliBifrost1,
    /// Arm Mali-G52 and G72.
    #[serde(rename = "mali-bifrost-2")]
    MaliBifrost2,
    /// Arm Mali-G76.
    #[serde(rename = "mali-bifrost-3")]
    MaliBifrost3,
    /// Arm Mali-G57 and G77.
    #[serde(rename = "mali-valhall-1")]
    MaliValhall1,
    /// Arm Mali-G68, G78 and later.
    #[serde(rename = "mali-valhall-2")]
    MaliValhall2,
    /// Imagination `PowerVR` Rogue.
    #[serde(rename = "powervr")]
    PowerVr,
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
    /// Apple A9 and A10.
    AppleA9,
    /// Apple A11 ("Bionic") and later.
    AppleBionic,
    /// Any other `OpenCL` device, such as a CPU under `PoCL`.
    Generic,
}

impl GpuFamily {
    /// The rules of the family.
    pub fn rules(self) -> &'static Family {
        match self {
            Self::Adreno3xx => &adreno::ADRENO_3XX,
            Self::Adreno4xx => &adreno::ADRENO_4XX,
            Self::Adreno5xx => &adreno::ADRENO_5XX,
            Self::Adreno6xx => &adreno::ADRENO_6XX,
            Self::Adreno7xx => &adreno::ADRENO_7XX,
            Self::MaliMidgard => &mali::MIDGARD,
            Self::MaliBifrost1 => &mali::BIFROST_1,
            Self::MaliBifrost2 => &mali::BIFROST_2,
            Self::MaliBifrost3 => &mali::BIFROST_3,
            Self::MaliValhall1 => &mali::VALHALL_1,
            Self::MaliValhall2 => &mali::VALHALL_2,
            Self::PowerVr => &powervr::POWERVR,
            Self::Nvidia => &nvidia::NVIDIA,
            Self::Amd => &amd::AMD,
            Self::AppleA9 => &apple::A9,
            Self::AppleBionic => &apple::BIONIC,
            Self::Generic => &generic::GENERIC,
        }
    }

    /// The family of a GPU by its driver's description (name, vendor, version): the first family that
    /// recognises it, else [`Self::Generic`].
    pub fn recognise(description: &str) -> Self {
        let description = description.to_lowercase();
        let known = Self::VARIANTS.iter().find(|family| (family.rules().recognises)(&description));
        known.copied().unwrap_or(Self::Generic)
    }
}

/// The rules of one family. Defaults are the delegate's for a GPU that it does not recognise.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule that a family has or has not")]
pub struct Family {
    /// Whether a driver's description, in lower case, is that of a GPU of the family.
    pub(super) recognises: fn(description: &str) -> bool,
    /// Designer of the family's GPUs; empty if unknown.
    pub maker: &'static str,
    /// Threads of one wave (warp, wavefront) for occupancy, on GPUs without a fit.
    pub wave_threads: u32,
    /// Storage layout of activations in the delegate.
    pub layout: Layout,
    /// Tile of one thread of a generic convolution, and its source unroll: the source slices read per
    /// loop iteration.
    pub tile: fn(&TileTask) -> (Tile, u32),
    /// Linearisation and fixed work-group of a generic convolution.
    pub map_convolution: fn(&ConvGrid) -> ConvMapping,
    /// Maximum slices (z) of a convolution's work-group.
    pub convolution_group_slices: u32,
    /// Work-group of every other kernel, given its grid; `None` for the generic rule.
    pub work_group: Option<fn(grid: [u32; 3]) -> [u32; 3]>,
    /// Maximum threads of a generic work-group, if below what the driver allows.
    pub max_group_threads: Option<u32>,
    /// Output slices of a work-group of the matrix-vector kernel.
    pub fully_connected_slices: u32,
    /// Most blocks of weights of one wave in the convolutions that the family's tables were fitted to. More of them
    /// are not taken to prolong its latency: what they cost is not measured.
    pub waited_weight_blocks: f64,
    /// Minimum size of a Winograd convolution.
    pub winograd: WinogradThresholds,
    /// Maximum bytes of weights in constant memory; 0 if the family has no `conv_constants` kernel.
    pub constant_bytes: u64,
    /// Whether the family has the 3x3 depthwise kernel of stride 1.
    pub has_depthwise_3x3: bool,
    /// Whether the family has the 3x3 depthwise kernel of vertical stride 2.
    pub has_depthwise_stride_h2: bool,
    /// Minimum and maximum threads of a work-group that reduces together; below the minimum, each
    /// thread reduces by itself.
    pub reduction_threads: [u32; 2],
    /// Passes of softmax over a pixel's channels: two if maximum and sum are accumulated online, else
    /// three (maximum, sum, quotient).
    pub softmax_passes: u32,
    /// Initial work-group width of `softmax1x1`, halved for few slices.
    pub softmax_threads: u32,
    /// Preferred threads of a normalisation's work-group; `None` for the device's maximum.
    pub norm_threads: Option<u32>,
    /// Whether one thread normalises a whole pixel if there are few slices and many pixels.
    pub norm_skips_group_for_few_slices: bool,
    /// Whether a compute unit is a CPU core: it runs the threads of a group one after another, so waves
    /// do not hide each other's latency, and it has to be woken.
    pub runs_threads_in_turn: bool,
    /// Whether the last-level cache holds most layers completely.
    pub has_last_level_cache: bool,
    /// Whether the waves of other groups hide the start of a wave.
    pub hides_wave_start: bool,
    /// Prior of the launch overhead of an unmeasured GPU, in microseconds.
    pub expected_launch_us: f64,
}

/// Minimum source slices, output slices and 4x4 tiles of a Winograd convolution.
#[derive(Clone, Copy, Debug)]
pub struct WinogradThresholds {
    /// Input slices.
    pub source_slices: u32,
    /// Output slices.
    pub output_slices: u32,
    /// 4x4 tiles of the output.
    pub tiles: u32,
}

/// Threads of a linear work-group of fixed size.
pub(crate) const LINEAR_GROUP: u32 = 32;

/// The grid of a convolution before linearisation.
#[derive(Clone, Copy, Debug)]
pub struct ConvGrid {
    /// Threads along columns, rows and slices, for the shape and the tile of the tile rule, before
    /// folding.
    pub threads: [u32; 3],
    /// Whether the tile is folded into a row afterwards.
    pub folded: bool,
    /// Whether each row has its own weights; then rows cannot be flattened where a work-group shares
    /// weights through local memory.
    pub row_weights: bool,
}

/// Which axes of a grid are flattened into one; only the generic convolution flattens any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linearisation {
    /// Three axes: columns, rows, slices.
    #[default]
    None,
    /// Columns and rows flattened, slices separate (`linear_spatial`).
    Spatial,
    /// All axes flattened (`linear_all`).
    All,
}

impl Linearisation {
    /// The grid to launch for `threads` (columns, rows, slices).
    pub fn grid(self, [columns, rows, slices]: [u32; 3]) -> [u32; 3] {
        match self {
            Self::None => [columns, rows, slices],
            Self::Spatial => [columns.saturating_mul(rows), slices, 1],
            Self::All => [columns.saturating_mul(rows).saturating_mul(slices), 1, 1],
        }
    }
}

/// Launch geometry of a generic convolution.
#[derive(Clone, Copy, Debug)]
pub struct ConvMapping {
    /// Which axes of the grid are flattened.
    pub linearisation: Linearisation,
    /// Work-group of a fixed size; `None` if it depends on the grid.
    pub fixed_group: Option<[u32; 3]>,
}

/// Linear groups over pixels, for families whose work-groups share weights through local memory.
fn linear_groups(grid: &ConvGrid) -> ConvMapping {
    let linearisation = if grid.row_weights { Linearisation::None } else { Linearisation::Spatial };
    ConvMapping { linearisation, fixed_group: Some([LINEAR_GROUP, 1, 1]) }
}

/// The first number directly after `word`, or after a trademark sign: `adreno(tm) 640`.
fn number_after(text: &str, word: &str) -> Option<u32> {
    const MAX_BETWEEN: usize = " (tm) ".len();
    text.match_indices(word).find_map(|(at, _)| {
        let after = &text[at + word.len()..];
        let start =
            after.find(|letter: char| letter.is_ascii_digit()).filter(|&start| start <= MAX_BETWEEN)?;
        let digits = &after[start..];
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_description_identifies_the_family() {
        for (words, family) in [
            ("QUALCOMM Adreno(TM) QUALCOMM OpenCL 2.0 Adreno(TM) 640", GpuFamily::Adreno6xx),
            ("QUALCOMM Adreno(TM) 740 QUALCOMM OpenCL 3.0", GpuFamily::Adreno7xx),
            ("QUALCOMM Adreno(TM) 330 QUALCOMM OpenCL 1.1", GpuFamily::Adreno3xx),
            ("Mali-G76 r0p0 ARM OpenCL 2.0 v1.r16p0", GpuFamily::MaliBifrost3),
            ("Mali-G78 ARM OpenCL 2.1", GpuFamily::MaliValhall2),
            ("Mali-T860 ARM OpenCL 1.2", GpuFamily::MaliMidgard),
            ("PowerVR Rogue GE8320 Imagination Technologies OpenCL 1.2", GpuFamily::PowerVr),
            ("NVIDIA H200 NVIDIA Corporation OpenCL 3.0 CUDA", GpuFamily::Nvidia),
            ("AMD Radeon Pro 5300M AMD OpenCL 1.2 (Apple)", GpuFamily::Amd),
            ("Apple M1 Apple OpenCL 1.2", GpuFamily::AppleBionic),
            ("llvmpipe Mesa OpenCL 1.1", GpuFamily::Generic),
        ] {
            assert_eq!(GpuFamily::recognise(words), family, "{words}");
        }
    }
}
