//! Work of a compiled operator: the rule for its time, and the counts in that rule.

use serde::Serialize;

use super::kernel_of;
use crate::kernel::{Result, Unsupported};
use crate::workload::{
    Class, Conv2d, DataType, Dimension, Elementwise, Function, Generic, GenericKind, Interpolation, Layer,
    Movement, Pool, PoolKind, Product, Reduction, Reshape, Shape,
};

/// Tile of the matrix unit, to which every extent of a product is padded (fitted on `data/aihub`;
/// equal to `HeteroInfer`'s array size).
const TILE: u64 = 32;

/// Height and width of the matrix unit's tile over an image, 32 pixels.
const IMAGE_TILE: [u64; 2] = [8, 4];

/// An image with at most this many channels is stored with this many.
const SMALL_IMAGE_CHANNELS: u64 = 4;

/// Maximum window, in elements, of average pooling in floating point that the model covers, other than of
/// the whole image: `PSPNet`, with windows of 100 to 3,600 elements, takes 20 times as long in 16-bit floats as in 8-bit integers
/// (`data/aihub`).
const MAX_AVERAGE_WINDOW: u64 = 64;

/// Channels of an RGB image.
const RGB_CHANNELS: u32 = 3;

/// Class of an operator on the NPU, which decides its unit and rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Kernel {
    /// Activations times trained weights: convolutions and linear layers.
    Product,
    /// 3-D convolution, over a volume.
    Volume,
    /// A product of two activations.
    BatchedProduct,
    /// A window per channel: depthwise convolutions, pooling.
    Window,
    /// Additions, multiplications, clamps, comparisons; reductions over pixels.
    Elementwise,
    /// Functions of more than a few instructions, such as sigmoid.
    Nonlinear,
    /// Softmax.
    Softmax,
    /// Normalisation by statistics over the channels, such as layer norm.
    Normalisation,
    /// Batch norm that is not folded into a product.
    BatchNorm,
    /// Normalisation of an input image by mean and standard deviation, before the first layer.
    ImageNormalisation,
    /// Interpolation.
    Resize,
    /// Sum, maximum or arg-max over the channels.
    ChannelReduction,
    /// Data movement: transpose, concatenation, slice and the like.
    Movement,
    /// Gather at indices that the network computes.
    Gather,
    /// No work: fused, or a reinterpretation of the same layout.
    #[default]
    Free,
}

impl Kernel {
    /// Whether a following clamp fuses at no cost.
    pub(super) fn applies_bounds(self) -> bool {
        !matches!(
            self,
            Self::Window
                | Self::Nonlinear
                | Self::Softmax
                | Self::Normalisation
                | Self::Resize
                | Self::ChannelReduction
                | Self::Gather
        )
    }

    /// Whether it may run head by head in attention.
    pub(super) fn runs_by_head(self) -> bool {
        matches!(self, Self::BatchedProduct | Self::Softmax | Self::Elementwise | Self::Nonlinear)
    }
}

/// Counts that decide an operator's time. Elements are stored elements, including padding.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct Work {
    pub(super) kernel: Kernel,
    /// Multiply-accumulates, padded to whole tiles.
    pub(super) multiply_accumulates: f64,
    /// Weight elements.
    pub(super) weights: f64,
    /// Elements of all inputs.
    pub(super) read: f64,
    pub(super) written: f64,
    /// Window taps over all outputs.
    pub(super) taps: f64,
    /// Matrices of a batched product.
    pub(super) matrices: f64,
    /// Groups of a grouped convolution.
    pub(super) groups: f64,
    /// Attention heads or windows that run in sequence.
    pub(super) slices: f64,
    /// Pixels of the output.
    pub(super) pixels: f64,
    /// Images of the output.
    pub(super) images: f64,
    /// Pixels of images that enter or leave the graph here.
    pub(super) image_pixels: f64,
    /// How far a product with weights is from a whole tile of rows: 1 for one row, 0 from a tile on.
    pub(super) missing_rows: f64,
    /// Whether the output is one matrix of tokens, not an image or one matrix per head.
    pub(super) tokens: bool,
    /// Whether every moved tensor has whole tiles of channels.
    pub(super) aligned: bool,
    /// Whether the window is dilated.
    pub(super) dilated: bool,
}

/// Whether a tensor is an RGB image, which only inputs and outputs of networks are.
fn is_rgb_image(shape: Shape) -> bool {
    shape.channels == RGB_CHANNELS && shape.height > 1 && shape.width > 1
}

/// Whether the layer of `elementwise` normalises an image by mean and deviation: with two functions of two
/// operands. One alone scales or shifts it.
fn normalises(layer: &Layer, elementwise: &Elementwise) -> bool {
    let next = layer.linked.functions().first();
    let are_binary = elementwise.function.is_binary() && next.is_some_and(|next| next.is_binary());
    are_binary && is_rgb_image(elementwise.input)
}

/// The extents other than 1, which alone determine the order of elements.
fn without_ones(shape: Shape) -> impl Iterator<Item = u32> {
    <[u32; 4]>::from(shape).into_iter().filter(|&extent| extent != 1)
}

fn padded(extent: u64, tile: u64) -> u64 {
    extent.next_multiple_of(tile)
}

/// Stored elements of a tensor, with padded channels.
pub(super) fn stored(shape: Shape) -> f64 {
    let channels = u64::from(shape.channels);
    let channels =
        if channels > SMALL_IMAGE_CHANNELS { padded(channels, TILE) } else { SMALL_IMAGE_CHANNELS };
    shape.pixels() as f64 * channels as f64
}

/// Stored elements of all inputs of a layer's operator.
pub(super) fn stored_inputs(layer: &Layer) -> f64 {
    (0..).map_while(|index| layer.operator.input(index)).map(stored).sum()
}

impl Work {
    /// The work of `layer`'s operator; `from_network` if it reads an input of the network.
    pub(super) fn of(layer: &Layer, from_network: bool) -> Result<Self> {
        let operator = &layer.operator;
        let [weights, _] = operator.weights();
        let base = Self::moving(Kernel::Elementwise, stored_inputs(layer), operator.output());
        let mut work = match operator.class() {
            Class::Product(product) => base.product(product),
            Class::Convolution(conv) => base.convolution(conv),
            Class::Depthwise(conv) => {
                Self { kernel: Kernel::Window, taps: conv.window.taps() as f64 * base.written, ..base }
            }
            Class::Pool(pool) => base.pool(pool, layer)?,
            Class::Reduction(Reduction::Pixels { .. }) => base,
            Class::Reduction(Reduction::Exponentials) => Self { kernel: Kernel::Softmax, ..base },
            Class::Reduction(Reduction::Normalisation(_)) => Self { kernel: Kernel::Normalisation, ..base },
            Class::Elementwise(elementwise) if from_network && normalises(layer, &elementwise) => {
                Self { kernel: Kernel::ImageNormalisation, ..base }
            }
            Class::Elementwise(elementwise) => Self { kernel: kernel_of(&elementwise), ..base },
            Class::Movement(movement) => base.movement(movement, operator.output()),
            Class::Gather(_) => Self { kernel: Kernel::Movement, read: base.written, ..base },
            Class::Generic(generic) => {
                base.generic(generic).map_err(|reason| Unsupported::new("NPU", operator, reason))?
            }
            Class::Recurrent(_) => {
                let reason = "compilers leave recurrent layers to other processors; place it on the GPU or the \
                              CPU";
                return Err(Unsupported::new("NPU", operator, reason));
            }
        };
        let has_trained = !matches!(operator.class(), Class::Gather(_));
        work.weights = if has_trained { weights as f64 } else { 0.0 };
        Ok(work)
    }

    /// The work of a linked function on an `output` that the kernel `after` wrote.
    pub(super) fn of_function(function: Function, output: Shape, read: f64, after: Kernel) -> Self {
        let other = function.is_binary().then_some(output);
        let mut kernel = kernel_of(&Elementwise { function, input: output, other });
        if kernel == Kernel::Elementwise && function.is_bound() && after.applies_bounds() {
            kernel = Kernel::Free;
        }
        Self::moving(kernel, read, output)
    }

    /// Counts an image that enters or leaves the graph.
    pub(super) fn count_image(&mut self, shape: Shape) {
        if is_rgb_image(shape) {
            self.image_pixels += shape.pixels() as f64;
        }
    }

    fn moving(kernel: Kernel, read: f64, output: Shape) -> Self {
        Self {
            kernel,
            read,
            written: stored(output),
            slices: if output.height == 1 { f64::from(output.batch) } else { 1.0 },
            pixels: output.pixels() as f64,
            images: f64::from(output.batch),
            tokens: output.batch == 1 && (output.height == 1 || output.width == 1),
            ..Self::default()
        }
    }

    fn product(self, product: Product) -> Self {
        let Product { images: _, batch, rows, inner, outputs, trained } = product;
        let [rows, inner, outputs] = [rows, inner, outputs].map(|extent| padded(extent.into(), TILE) as f64);
        let multiply_accumulates = rows * inner * outputs * f64::from(batch);
        if trained {
            let missing = TILE.saturating_sub(product.rows.into()) as f64;
            let missing_rows = missing / (TILE - 1) as f64;
            return Self { kernel: Kernel::Product, multiply_accumulates, missing_rows, slices: 1.0, ..self };
        }
        let matrices = f64::from(batch);
        Self { kernel: Kernel::BatchedProduct, multiply_accumulates, matrices, slices: matrices, ..self }
    }

    fn convolution(self, conv: &Conv2d) -> Self {
        let output = conv.output();
        let groups = u64::from(conv.groups);
        // Kernel slices along the volume's depth count as further taps.
        let slices = u64::from(conv.slices.unwrap_or(1)).max(1);
        let (inner, outer) =
            (u64::from(conv.group_channels()) / slices, u64::from(conv.output_channels) / groups);
        let taps = conv.window.taps() * slices;
        // Narrow groups share a tile, as diagonal blocks.
        let packed = if groups > 1 { (TILE / inner.max(outer).max(1)).max(1) } else { 1 };
        let depth = if groups == 1 && inner <= SMALL_IMAGE_CHANNELS {
            padded(taps * SMALL_IMAGE_CHANNELS, TILE)
        } else {
            taps * padded(inner * packed, TILE)
        };
        let [batch, height, width] = [output.batch, output.height, output.width].map(u64::from);
        let is_row = height == 1 || width == 1;
        let (kernel, pixels) = if conv.slices.is_some() {
            (Kernel::Volume, batch * height * width)
        } else if is_row && taps == 1 {
            // Without a window, the rows of all images are one matrix.
            (Kernel::Product, padded(batch * height * width, TILE))
        } else if is_row {
            (Kernel::Product, batch * padded(height * width, TILE))
        } else {
            (Kernel::Product, batch * padded(height, IMAGE_TILE[0]) * padded(width, IMAGE_TILE[1]))
        };
        let columns = (padded(outer * packed, TILE) * groups.div_ceil(packed)) as f64;
        Self {
            kernel,
            multiply_accumulates: pixels as f64 * depth as f64 * columns,
            groups: if groups > 1 { groups as f64 } else { 0.0 },
            dilated: conv.window.dilation != [1, 1],
            ..self
        }
    }

    fn pool(self, pool: &Pool, layer: &Layer) -> Result<Self> {
        let taps = pool.window.taps();
        let is_in_floats = matches!(layer.data_type, DataType::F32 | DataType::F16);
        if pool.kind == PoolKind::Average && is_in_floats && taps > MAX_AVERAGE_WINDOW {
            // An average over the whole image is computed as a mean of its pixels.
            if pool.output().pixels() == u64::from(pool.output().batch) {
                return Ok(self);
            }
            let reason = format!(
                "average pooling in floating point over windows of more than {MAX_AVERAGE_WINDOW} elements takes \
                 up to 20 times as long as any rate explains; place it on the GPU or the CPU"
            );
            return Err(Unsupported::new("NPU", &layer.operator, reason));
        }
        Ok(Self { kernel: Kernel::Window, taps: taps as f64 * self.written, ..self })
    }

    fn movement(self, movement: Movement<'_>, output: Shape) -> Self {
        let whole_tiles = |channels: u32| u64::from(channels).is_multiple_of(TILE);
        match movement {
            Movement::Joined(concat) => {
                let along_channels = concat.dimension == Dimension::Channels;
                let aligned_parts = !along_channels || concat.extents.iter().copied().all(whole_tiles);
                let aligned = aligned_parts && whole_tiles(output.channels);
                Self { kernel: Kernel::Movement, aligned, ..self }
            }
            Movement::Range(slice) => {
                let aligned =
                    slice.step == 1 && whole_tiles(slice.input.channels) && whole_tiles(output.channels);
                Self { kernel: Kernel::Movement, read: self.written, aligned, ..self }
            }
            Movement::Resized(resize) => match resize.interpolation {
                Interpolation::Nearest => Self { kernel: Kernel::Movement, ..self },
                Interpolation::Bilinear => Self { kernel: Kernel::Resize, ..self },
            },
            // The channels of each pixel stay together, so the stored layout does not change.
            Movement::Rearranged(&Reshape { input, .. })
                if input.channels == output.channels || without_ones(input).eq(without_ones(output)) =>
            {
                Self { kernel: Kernel::Free, ..self }
            }
            Movement::Transposed(_) | Movement::Padded(_) | Movement::Rearranged(_) => {
                Self { kernel: Kernel::Movement, ..self }
            }
        }
    }

    fn generic(self, generic: &Generic) -> Result<Self, &'static str> {
        let kernel = match generic.kind {
            GenericKind::Transform => {
                return Err("compilers have no Fourier transform; export it as a convolution");
            }
            GenericKind::Reduction
                if generic.inputs.iter().any(|input| input.channels != generic.output.channels) =>
            {
                Kernel::ChannelReduction
            }
            GenericKind::Elementwise | GenericKind::Reduction => Kernel::Elementwise,
            GenericKind::Movement => Kernel::Movement,
            GenericKind::Gather => Kernel::Gather,
            GenericKind::Search => Kernel::ChannelReduction,
        };
        let read = if kernel == Kernel::Movement { self.written.min(self.read) } else { self.read };
        Ok(Self { kernel, read, ..self })
    }
}
