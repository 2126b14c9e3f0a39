//! Which kernel the delegate runs an operator with.
//!
//! On all 4,603 rows of the mobile-ml-benchmark GPU table these rules name the
//! kernel that TFLite 2.15 reported, on every one of the six phones, but for ten
//! pairs on the two iPhones: Metal fuses a 3x3 depthwise convolution of 8 or 16
//! channels with the 1x1 convolution behind it into one kernel, which no single
//! operator here describes.

use std::fmt;

use serde::Serialize;

use super::Extent;
use crate::device::gpu::{Gpu, GpuFamily};
use crate::workload::{Conv2d, DepthwiseConv2d, Padding, Pool, PoolKind, slices};

/// A kernel of the TFLite GPU delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// Matrix-vector product; four threads share a dot product.
    FullyConnected,
    /// Winograd F(4x4, 3x3); reported under its middle kernel's name.
    Winograd,
    /// Convolution with weights in constant memory.
    ConvConstants,
    /// Generic convolution, also matrix products of more than one row.
    ConvGeneric,
    /// Generic convolution of channel groups.
    GroupedConv,
    /// Product of two activations, run as a generic convolution whose weights
    /// differ from row to row.
    MatMul,
    /// 3x3 depthwise convolution, 2x2 pixels a thread.
    Depthwise3x3,
    /// 3x3 depthwise convolution of vertical stride 2, 1x2 pixels a thread.
    DepthwiseStrideH2,
    /// Depthwise convolution of any window, one pixel a thread.
    DepthwiseGeneric,
    /// Mean over pixels.
    Mean,
    /// Windowed pooling.
    Pool,
    /// Concatenation along channels.
    Concat,
    /// Element-wise function.
    Elementwise,
    /// Softmax over channels.
    Softmax,
    /// Normalisation by the statistics of each pixel's channels.
    Norm,
    /// Look-up of rows of a table.
    Gather,
    /// Range of channels.
    Slice,
    /// Reshape or transpose.
    Reshape,
}

impl fmt::Display for Kernel {
    /// The name the delegate's profiler reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FullyConnected => "fully_connected",
            Self::Winograd => "convolution_winograd_4x4_6x6",
            Self::ConvConstants | Self::ConvGeneric => "convolution_2d",
            Self::GroupedConv => "convolution_2d_grouped",
            Self::MatMul => "mat_mul_as_convolution",
            Self::Depthwise3x3 | Self::DepthwiseStrideH2 | Self::DepthwiseGeneric => "depthwise_convolution",
            Self::Mean => "mean",
            Self::Pool => "pooling_2d",
            Self::Concat => "concat",
            Self::Elementwise => "elementwise",
            Self::Softmax => "softmax",
            Self::Norm => "mean_stddev_normalization",
            Self::Gather => "gather",
            Self::Slice => "slice",
            Self::Reshape => "reshape",
        })
    }
}

/// The kernel of a two-dimensional convolution, in the order the delegate tries
/// them.
pub(super) fn conv2d(conv: &Conv2d, gpu: &Gpu) -> Kernel {
    if is_matrix_vector(conv) {
        Kernel::FullyConnected
    } else if suits_winograd(conv, gpu.family) {
        Kernel::Winograd
    } else if conv.groups > 1 {
        Kernel::GroupedConv
    } else if fits_constant_memory(conv, gpu.family) {
        Kernel::ConvConstants
    } else {
        Kernel::ConvGeneric
    }
}

/// A 1x1 convolution of one pixel, which a graph rewrite turns into a fully
/// connected layer.
fn is_matrix_vector(conv: &Conv2d) -> bool {
    let input = conv.input;
    conv.is_pointwise() && conv.groups == 1 && (input.batch, input.height, input.width) == (1, 1, 1)
}

/// Whether the delegate expects F(4x4, 3x3) to pay off: a dense, undilated 3x3
/// window of stride 1, enough slices on both sides and enough 4x4 tiles.
fn suits_winograd(conv: &Conv2d, family: GpuFamily) -> bool {
    if conv.kernel != [3, 3] || conv.stride != [1, 1] || conv.dilation != [1, 1] || conv.groups != 1 {
        return false;
    }
    let (least_source, least_output, least_tiles) = winograd_thresholds(family);
    slices(conv.input.channels) >= least_source
        && slices(conv.output_channels) >= least_output
        && winograd_tiles(conv) >= least_tiles
}

/// Least source slices, output slices and 4x4 tiles of a Winograd convolution.
fn winograd_thresholds(family: GpuFamily) -> (u32, u32, u32) {
    match family {
        GpuFamily::Adreno6xx => (32, 32, 128),
        family if family.is_adreno() => (32, 32, 64),
        GpuFamily::Amd => (16, 8, 32),
        _ => (16, 16, 32),
    }
}

/// 4x4 tiles of the output. The delegate counts one image's, whatever the batch.
fn winograd_tiles(conv: &Conv2d) -> u32 {
    let output = conv.output();
    output.width.div_ceil(4).saturating_mul(output.height.div_ceil(4))
}

/// Most output slices of a convolution with constant weights: each keeps one
/// register of four channels.
const MOST_CONSTANT_SLICES: u32 = 8;

/// Whether the weights fit the constant memory that the delegate dares to use.
///
/// `LiteRT` also tries this kernel on GPUs it does not recognise; the generic
/// family leaves it out, as its members (CPUs under `PoCL`) have no such memory.
fn fits_constant_memory(conv: &Conv2d, family: GpuFamily) -> bool {
    let most_bytes = match family {
        GpuFamily::Adreno3xx | GpuFamily::Adreno4xx | GpuFamily::Adreno5xx => 2560,
        GpuFamily::Adreno6xx | GpuFamily::Adreno7xx => 3584,
        GpuFamily::Nvidia => 1024,
        _ => return false,
    };
    let (source, output) = (u64::from(conv.input.channels), u64::from(conv.output_channels));
    let (source_slices, output_slices) = (source.div_ceil(4), output.div_ceil(4));
    let padded = if in_dot_form(conv) { output * source_slices } else { source * output_slices } * 4;
    let weights = padded * u64::from(conv.kernel[0]) * u64::from(conv.kernel[1]);
    weights * size_of::<u16>() as u64 <= most_bytes && slices(conv.output_channels) <= MOST_CONSTANT_SLICES
}

/// Whether the kernel with constant weights computes every output channel by dot
/// products, rather than every slice by multiples of its weights: where that needs
/// fewer constants.
pub(super) fn in_dot_form(conv: &Conv2d) -> bool {
    let (source, output) = (u64::from(conv.input.channels), u64::from(conv.output_channels));
    output % 4 != 0 && (source % 4 == 0 || output * source.div_ceil(4) < source * output.div_ceil(4))
}

/// The kernel of a depthwise convolution.
pub(super) fn depthwise(conv: &DepthwiseConv2d, family: GpuFamily) -> Kernel {
    let plain_3x3 = conv.multiplier == 1 && conv.kernel == [3, 3];
    let has_3x3 = match family {
        GpuFamily::MaliMidgard | GpuFamily::MaliValhall2 => false,
        // The other Malis have it for 16-bit activations in textures, which is
        // how the delegate stores them there.
        _ => true,
    };
    if has_3x3
        && plain_3x3
        && conv.stride == [1, 1]
        && conv.dilation == [1, 1]
        && conv.padding == Padding::symmetric(1, 1)
    {
        Kernel::Depthwise3x3
    } else if family.is_apple() && plain_3x3 && conv.stride[0] == 2 && conv.dilation[0] == 1 {
        Kernel::DepthwiseStrideH2
    } else {
        Kernel::DepthwiseGeneric
    }
}

/// An average over the whole image, which the converter turns into a mean.
pub(super) fn is_global_average(pool: &Pool) -> bool {
    pool.kind == PoolKind::Average
        && pool.kernel == [pool.input.height, pool.input.width]
        && pool.padding == Padding::NONE
}

/// Passes over a pixel's channels that softmax takes: two where exponents are
/// tracked on the fly, else maximum, sum and quotient.
pub(super) fn softmax_passes(family: GpuFamily) -> u32 {
    match family {
        GpuFamily::Adreno6xx | GpuFamily::Adreno7xx | GpuFamily::AppleA9 | GpuFamily::AppleBionic => 2,
        _ => 3,
    }
}

/// Whether a normalisation shares a pixel's channels among the threads of a
/// group; Adreno lets one thread do few slices of many pixels.
pub(super) fn norm_uses_group(input: Extent, family: GpuFamily) -> bool {
    let pixels = u64::from(input.width) * u64::from(input.height);
    !(family.is_adreno() && input.slices <= 32 && pixels >= 128)
}
