//! GPU families: the rules by which the TFLite GPU delegate dispatches kernels on GPUs of one design.
//!
//! Responsible for: one file a vendor, which says everything in which a family differs from others. Not
//! for: what the delegate does alike on all (`kernel::gpu`), or the constants of one device.
//! Invariant: no other code asks which family a GPU is of; it asks for a rule. The rules are read from
//! the delegate's sources (`LiteRT`) unless they say otherwise.

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

/// A family of GPUs that the TFLite GPU delegate dispatches alike.
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

    /// The family of a GPU whose driver says `words` (name, vendor, version): the first that knows them,
    /// [`Self::Generic`] where none does.
    pub fn recognise(words: &str) -> Self {
        let words = words.to_lowercase();
        let known = Self::VARIANTS.iter().find(|family| (family.rules().recognises)(&words));
        known.copied().unwrap_or(Self::Generic)
    }
}

/// The rules of one family. What a family does not say is what the delegate does on a GPU that it does
/// not recognise: the values of the generic family.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a rule that a family has or has not")]
pub struct Family {
    /// Whether a GPU is of the family by what its driver says of it, in lower case.
    pub(super) recognises: fn(words: &str) -> bool,
    /// Who designs GPUs of the family; empty where nobody is known.
    pub maker: &'static str,
    /// Threads of one wave (warp, wavefront) in the occupancy accounting of a GPU that was not fitted.
    pub wave_threads: u32,
    /// Where the delegate stores activations.
    pub layout: Layout,
    /// What one thread of a generic convolution computes, and its source unroll: the source slices it
    /// reads in one loop iteration.
    pub tile: fn(&TileTask) -> (Tile, u32),
    /// How the grid of a generic convolution is laid out.
    pub map_convolution: fn(&ConvGrid) -> ConvMapping,
    /// Most slices of a convolution's work-group that share pixels.
    pub convolution_group_slices: u32,
    /// The work-group of every other kernel for a grid, where the family has a rule of its own.
    pub work_group: Option<fn(grid: [u32; 3]) -> [u32; 3]>,
    /// Most threads of such a group, where that is below what the driver allows.
    pub most_group_threads: Option<u32>,
    /// Output slices of a work-group of the matrix-vector kernel.
    pub fully_connected_slices: u32,
    /// From when on a convolution is a Winograd one.
    pub winograd: WinogradThresholds,
    /// Bytes of constant memory that weights may take; 0 where the family has no such kernel.
    pub constant_bytes: u64,
    /// Whether it has the 3x3 depthwise kernel of stride 1.
    pub has_depthwise_3x3: bool,
    /// Whether it has the 3x3 depthwise kernel of vertical stride 2.
    pub has_depthwise_stride_h2: bool,
    /// Fewest and most threads of a group that sums an image; below the fewest, one thread does.
    pub reduction_threads: [u32; 2],
    /// Passes over a pixel's channels that softmax takes: two where exponents are tracked on the fly,
    /// else maximum, sum and quotient.
    pub softmax_passes: u32,
    /// Most threads that share the softmax of one pixel where there are few pixels.
    pub softmax_threads: u32,
    /// Threads of a normalising group that the delegate wishes for; none for as many as there may be.
    pub norm_threads: Option<u32>,
    /// Whether one thread normalises a pixel of few slices alone where there are many pixels.
    pub norms_few_slices_alone: bool,
    /// Whether a compute unit is a core that runs the threads of a group one after another, so that no
    /// wave waits while others run, and that has to be woken.
    pub runs_threads_in_turn: bool,
    /// Whether a last-level cache keeps most layers whole.
    pub has_last_level_cache: bool,
    /// Whether starting a wave hides behind the waves of many other groups.
    pub hides_wave_start: bool,
    /// What to expect of starting a kernel before anything was measured, in microseconds.
    pub expected_launch_us: f64,
}

/// Least source slices, output slices and 4x4 tiles of a Winograd convolution.
#[derive(Clone, Copy, Debug)]
pub struct WinogradThresholds {
    /// Slices the convolution reads.
    pub source_slices: u32,
    /// Slices it writes.
    pub output_slices: u32,
    /// 4x4 tiles of its output.
    pub tiles: u32,
}

/// Threads of a group with a fixed, linear size.
pub(crate) const LINEAR_GROUP: u32 = 32;

/// The grid of a convolution, before it is laid out.
#[derive(Clone, Copy, Debug)]
pub struct ConvGrid {
    /// Threads along columns, rows and slices of what the tile rule saw, each with the tile it chose.
    pub threads: [u32; 3],
    /// Whether the tile is laid along the width afterwards.
    pub folded: bool,
    /// Whether each row has weights of its own, which forbids joining rows where weights are shared
    /// through local memory.
    pub row_weights: bool,
}

/// Which axes of a grid are joined; only the kernels around the convolution join any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linearisation {
    /// Three axes: columns, rows, slices.
    #[default]
    None,
    /// Columns and rows joined, slices apart (`linear_spatial`).
    Spatial,
    /// All axes joined (`linear_all`).
    All,
}

impl Linearisation {
    /// The launched grid of `threads` (columns, rows, slices).
    pub fn grid(self, [columns, rows, slices]: [u32; 3]) -> [u32; 3] {
        match self {
            Self::None => [columns, rows, slices],
            Self::Spatial => [columns.saturating_mul(rows), slices, 1],
            Self::All => [columns.saturating_mul(rows).saturating_mul(slices), 1, 1],
        }
    }
}

/// How a convolution is launched.
#[derive(Clone, Copy, Debug)]
pub struct ConvMapping {
    /// Which axes of the grid are joined.
    pub linearisation: Linearisation,
    /// A group size that does not depend on the grid.
    pub fixed_group: Option<[u32; 3]>,
}

/// Groups of a fixed size over pixels: families that share weights through local memory.
fn linear_groups(grid: &ConvGrid) -> ConvMapping {
    let linearisation = if grid.row_weights { Linearisation::None } else { Linearisation::Spatial };
    ConvMapping { linearisation, fixed_group: Some([LINEAR_GROUP, 1, 1]) }
}

/// The first number that follows `word` at once, or behind a trademark.
fn number_behind(text: &str, word: &str) -> Option<u32> {
    const MAX_BETWEEN: usize = " (tm) ".len();
    text.match_indices(word).find_map(|(at, _)| {
        let behind = &text[at + word.len()..];
        let start =
            behind.find(|letter: char| letter.is_ascii_digit()).filter(|&start| start <= MAX_BETWEEN)?;
        let digits = &behind[start..];
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_s_words_name_the_family() {
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
