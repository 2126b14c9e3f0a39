//! The delegate's kernel selection.
//!
//! On all 4,603 rows of the mobile-ml-benchmark GPU table, on all six phones, these
//! rules name the kernel that TFLite 2.15 reported, except for ten pairs on the two
//! iPhones: Metal fuses a 3x3 depthwise convolution of 8 or 16 channels with the 1x1
//! convolution after it into one kernel, which no single operator here describes.

use std::fmt;

use serde::Serialize;

use super::{WINOGRAD_TILE, extent};
use crate::device::{Extent, Family, KernelTable};
use crate::workload::{Conv2d, DepthwiseConv2d, Shape, Window, slices};

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
    /// Generic convolution; also matrix products of more than one row.
    ConvGeneric,
    /// Grouped convolution on the generic kernel.
    GroupedConv,
    /// Product of two activations, run as a generic convolution with per-row weights.
    MatMul,
    /// 3x3 depthwise convolution, 2x2 pixels per thread.
    Depthwise3x3,
    /// 3x3 depthwise convolution of vertical stride 2, 1x2 pixels per thread.
    DepthwiseStrideH2,
    /// Depthwise convolution of any window, one pixel per thread.
    DepthwiseGeneric,
    /// Mean over pixels.
    Mean,
    /// Windowed pooling.
    Pool,
    /// Concatenation along channels.
    Concat,
    /// Concatenation along another dimension.
    ConcatXy,
    /// Element-wise function.
    Elementwise,
    /// Softmax over channels, one thread per pixel.
    Softmax,
    /// Softmax over channels of few pixels, shared by work-groups.
    Softmax1x1,
    /// Normalisation by the statistics of each pixel's channels.
    Norm,
    /// Look-up of table rows.
    Gather,
    /// Slice along a dimension.
    Slice,
    /// Permutation of dimensions.
    Transpose,
    /// Zero padding.
    Padding,
    /// Resized image.
    Resize,
    /// Same elements in another shape.
    Reshape,
    /// Operator without a specific kernel.
    Generic,
}

impl Kernel {
    /// TFLite's name of the kernel, and the profile table with its parameters.
    fn name_and_table(self) -> (&'static str, KernelTable) {
        use KernelTable as Table;
        match self {
            Self::FullyConnected => ("fully_connected", Table::FullyConnected),
            Self::Winograd => ("convolution_winograd_4x4_6x6", Table::Winograd),
            Self::ConvConstants => ("convolution_2d", Table::ConvConstants),
            Self::ConvGeneric => ("convolution_2d", Table::ConvGeneric),
            Self::GroupedConv => ("convolution_2d_grouped", Table::GroupedConv),
            Self::MatMul => ("mat_mul_as_convolution", Table::ConvGeneric),
            Self::Depthwise3x3 | Self::DepthwiseStrideH2 | Self::DepthwiseGeneric => {
                ("depthwise_convolution", Table::Depthwise)
            }
            Self::Mean => ("mean", Table::Mean),
            Self::Pool => ("pooling_2d", Table::Pool),
            Self::Concat => ("concat", Table::Concat),
            Self::ConcatXy => ("concat", Table::Elementwise),
            Self::Elementwise => ("elementwise", Table::Elementwise),
            Self::Softmax => ("softmax", Table::Elementwise),
            Self::Softmax1x1 => ("softmax1x1", Table::Elementwise),
            Self::Norm => ("mean_stddev_normalization", Table::Elementwise),
            Self::Gather => ("gather", Table::Elementwise),
            Self::Slice => ("slice", Table::Elementwise),
            Self::Transpose => ("transpose", Table::Elementwise),
            Self::Padding => ("padding", Table::Elementwise),
            Self::Resize => ("resize", Table::Elementwise),
            Self::Reshape => ("reshape", Table::Elementwise),
            Self::Generic => ("generic", Table::Elementwise),
        }
    }

    /// The profile table with the kernel's parameters.
    pub fn table(self) -> KernelTable {
        self.name_and_table().1
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name_and_table().0)
    }
}

/// A 1x1 convolution of one pixel, which a graph rewrite turns into a fully
/// connected layer.
pub(super) fn is_matrix_vector(conv: &Conv2d) -> bool {
    let input = conv.input;
    conv.window.is_pointwise() && (input.batch, input.height, input.width) == (1, 1, 1)
}

/// Whether the delegate has only its generic kernel: grouped convolutions, and transposed ones, whose own
/// kernels are not modelled.
pub(super) fn needs_generic(conv: &Conv2d) -> bool {
    conv.groups > 1 || conv.phases > 1
}

/// Whether the delegate selects Winograd F(4x4, 3x3): an undilated 3x3 window of stride 1, with enough
/// input slices, output slices and 4x4 tiles of one image, whatever the batch.
pub(super) fn suits_winograd(conv: &Conv2d, rules: &Family) -> bool {
    let Window { kernel, stride, dilation, .. } = conv.window;
    let least = &rules.winograd;
    let is_plain = kernel == [3, 3] && stride == [1, 1] && dilation == [1, 1];
    is_plain
        && slices(conv.input.channels) >= least.source_slices
        && slices(conv.output_channels) >= least.output_slices
        && winograd_tiles(conv) >= least.tiles
}

/// Winograd's tiles of one image of the output.
pub(super) fn winograd_tiles(conv: &Conv2d) -> u32 {
    let output = conv.output();
    output.width.div_ceil(WINOGRAD_TILE).saturating_mul(output.height.div_ceil(WINOGRAD_TILE))
}

/// Maximum output slices of a convolution with constant weights: a thread accumulates all of
/// them, one four-channel register each.
const MAX_CONSTANT_SLICES: u32 = 8;

/// Whether the padded weights fit the constant memory that the delegate allots on this family, and the
/// output its registers.
pub(super) fn fits_constant_memory(conv: &Conv2d, rules: &Family) -> bool {
    let (source, output) = (u64::from(conv.input.channels), u64::from(conv.output_channels));
    let (source_slices, output_slices) = (source.div_ceil(4), output.div_ceil(4));
    let padded = if in_dot_form(conv) { output * source_slices } else { source * output_slices } * 4;
    padded * conv.window.taps() * size_of::<u16>() as u64 <= rules.constant_bytes
        && slices(conv.output_channels) <= MAX_CONSTANT_SLICES
}

/// Whether the kernel with constant weights computes each output channel as dot products over
/// input slices, rather than each output slice as multiply-adds of its weight vectors. The
/// delegate does where the output channels are not whole slices and fewer constants result.
pub(super) fn in_dot_form(conv: &Conv2d) -> bool {
    let (source, output) = (u64::from(conv.input.channels), u64::from(conv.output_channels));
    output % 4 != 0 && (source % 4 == 0 || output * source.div_ceil(4) < source * output.div_ceil(4))
}

/// Whether a depthwise convolution runs on the 3x3 kernel: multiplier 1, stride 1, padded by one pixel.
pub(super) fn suits_depthwise_3x3(conv: &DepthwiseConv2d, rules: &Family) -> bool {
    rules.has_depthwise_3x3 && conv.multiplier == 1 && conv.window == Window::same(3)
}

/// Whether a depthwise convolution runs on the 3x3 kernel of vertical stride 2.
pub(super) fn suits_depthwise_stride_h2(conv: &DepthwiseConv2d, rules: &Family) -> bool {
    let Window { kernel, stride, dilation, .. } = conv.window;
    let is_3x3 = conv.multiplier == 1 && kernel == [3, 3];
    rules.has_depthwise_stride_h2 && is_3x3 && stride[0] == 2 && dilation[0] == 1
}

/// Maximum pixels for which the delegate selects `softmax1x1`.
const MAX_SOFTMAX_1X1_PIXELS: u32 = 256;

/// Whether softmax runs on `softmax1x1`, where a work-group shares a pixel: few pixels in an image,
/// and no more than channels.
pub(super) fn softmax_uses_group(output: Shape) -> bool {
    extent(Shape { batch: 1, ..output }).pixels() <= u64::from(MAX_SOFTMAX_1X1_PIXELS.min(output.channels))
}

/// Whether the threads of a work-group share a pixel's channels in a normalisation.
pub(super) fn norm_uses_group(input: Extent, rules: &Family) -> bool {
    !(rules.norm_skips_group_for_few_slices && input.slices <= 32 && input.pixels() >= 128)
}
