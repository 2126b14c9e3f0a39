//! Convolutions and pools.

use super::reduce::over_pixels;
use super::volume::{Side, sides};
use super::{Conversion, Converter, Value, unknown, unsound};
use crate::model::{
    Convolution, Pads, Reduction, SourceNode, TransposedConvolution, Windowed, as_extent, elements,
};
use crate::view::{View, wide};
use coexec_sim::workload::{
    Conv2d, DepthwiseConv2d, GenericKind, MAX_DIMENSION, Operator, Padding, Pool, PoolKind, Reshape, Shape,
    Source, Window,
};

/// The operand of a deformable convolution with the offsets of its window; others have none.
const OFFSETS: usize = 3;

/// An image that a window slides over.
pub(super) struct Image {
    pub(super) source: Source,
    pub(super) shape: Shape,
    /// Its padding that is not materialised.
    pub(super) zeros: Padding,
    /// Whether the file has a row of pixels without a height.
    pub(super) flat: bool,
}

impl Converter<'_> {
    pub(super) fn convolution(&mut self, node: &SourceNode, convolution: &Convolution) -> Conversion<View> {
        let &Convolution { ref window, groups, is_depthwise } = convolution;
        let weights = self.weight_extents(node, 1)?;
        if weights.len() == 5 && !is_depthwise {
            return self.volume_convolution(node, convolution, &weights);
        }
        let extents = self.image_extents(&weights);
        let (output, depth, kernel) = match extents[..] {
            [channels, ref kernel @ .., output] if is_depthwise && kernel.len() == 2 => {
                (output, channels, kernel)
            }
            [output, ref kernel @ .., depth] if matches!(kernel.len(), 1 | 2) => (output, depth, kernel),
            _ => return unknown("a convolution that is over neither images nor rows"),
        };
        let mut image = self.image(node)?;
        let groups = groups_of(groups, depth, image.shape.channels)?;
        let mut window = fit(window, kernel, &image)?;
        if node.operand(OFFSETS).is_some() {
            image = self.deformed(node, &image, Conv2d::new(image.shape, output, window))?;
            window = Window::valid(1);
        }
        let input = image.shape;
        let bias = self.has_bias(node, output);
        let operator = if groups > 1 && groups == input.channels && output % groups == 0 {
            DepthwiseConv2d::new(input, window).multiplier(output / groups).bias(bias).into()
        } else {
            Conv2d::new(input, output, window).groups(groups).bias(bias).into()
        };
        self.operator_view(operator, &image)
    }

    /// The pixels under each position of the window of a deformable convolution, side by side as channels: gathered at
    /// the offsets, each from four neighbours.
    fn deformed(&mut self, node: &SourceNode, image: &Image, conv: Conv2d) -> Conversion<Image> {
        if let Err(error) = Operator::from(conv).check() {
            return unsound(error.to_string());
        }
        self.approximate("a gather of the pixels under its window, and a convolution of these");
        let mut read = vec![image.source];
        for operand in (OFFSETS..node.reads.len()).filter(|&operand| node.operand(operand).is_some()) {
            read.push(self.view(node, operand)?.source);
        }
        let channels = u64::from(image.shape.channels).saturating_mul(conv.window.taps());
        let shape = Shape { channels: as_extent(channels), ..conv.output() };
        let source = self.emit_generic(".pixels", (GenericKind::Gather, 4), &read, shape)?;
        Ok(Image { source, shape, zeros: Padding::NONE, flat: image.flat })
    }

    /// A transposed convolution as the convolution that computes, for each input pixel, a block of output
    /// pixels of the stride's size; a reshape then moves the elements into place. Where the stride does not
    /// divide the kernel, some pixels of the block have fewer taps; the convolution then has fewer channels,
    /// with the same number of multiply-adds.
    pub(super) fn transposed_convolution(
        &mut self,
        node: &SourceNode,
        transposed: &TransposedConvolution,
    ) -> Conversion<View> {
        let extents = self.weight_extents(node, 1)?;
        let Some((output, kernel)) = self.by_blocks(node, transposed, &extents) else {
            return self.scattered_convolution(node, transposed, &extents);
        };
        let image = self.image(node)?;
        let stride = match transposed.window.stride[..] {
            [] => [1; 2],
            [vertical, horizontal] => [vertical, horizontal],
            _ => return unsound("a window of another number of axes than its input"),
        };
        let input = image.shape;
        if stride.contains(&0) {
            return unsound("a stride is 0");
        }
        let taps = kernel[0].saturating_mul(kernel[1]);
        let kernel = [kernel[0].div_ceil(stride[0]), kernel[1].div_ceil(stride[1])];
        let around = |kernel: u32| [(kernel.saturating_sub(1)) / 2, kernel.saturating_sub(1).div_ceil(2)];
        let ([top, bottom], [left, right]) = (around(kernel[0]), around(kernel[1]));
        let bias = self.has_bias(node, output);
        // The number of channels that gives the same multiply-adds as the kernel.
        let block = output.saturating_mul(taps) / kernel[0].saturating_mul(kernel[1]).max(1);
        let window = Window::of(kernel).padding(Padding { top, bottom, left, right });
        let pixels = stride[0].saturating_mul(stride[1]);
        let is_whole = block == output.saturating_mul(pixels);
        let conv = Conv2d::new(input, block, window).bias(bias).phases(if is_whole { pixels } else { 1 });
        let mut source = self.emit("", conv, &[image.source])?;
        let shape = Shape {
            height: input.height.saturating_mul(stride[0]),
            width: input.width.saturating_mul(stride[1]),
            channels: output,
            ..input
        };
        if !is_whole {
            self.approximate("a convolution of as many multiply-adds, with its results scattered");
            source = self.emit_generic(".to_pixels", (GenericKind::Movement, 1), &[source], shape)?;
        } else if stride != [1, 1] {
            let moved = Reshape { input: self.shape(source), output: shape };
            source = self.emit(".to_pixels", moved, &[source])?;
        }
        Ok(self.image_view(source, image.flat))
    }

    pub(super) fn pool(&mut self, node: &SourceNode, kind: PoolKind, window: &Windowed) -> Conversion<View> {
        let image = self.image(node)?;
        let window = fit(window, &window.kernel, &image)?;
        if window.dilation != [1, 1] {
            return unknown("a pooling window with dilation");
        }
        if window == Window::valid(1) {
            // An adaptive pool at the extents that the network was made for.
            let pool = self.image_view(image.source, image.flat);
            self.write_like_first(node, &pool)?;
            return Ok(pool);
        }
        let pool = self.operator_view(Pool { kind, input: image.shape, window }.into(), &image)?;
        self.write_like_first(node, &pool)?;
        Ok(pool)
    }

    pub(super) fn global_pool(&mut self, node: &SourceNode, kind: PoolKind) -> Conversion<View> {
        let view = self.unpadded_view(node, 0)?;
        let reduction = match kind {
            PoolKind::Average => Reduction::Mean,
            PoolKind::Max => Reduction::Max,
        };
        if view.extents.len() == 5 {
            let order = self.image_order(5);
            return self.reduced_over(&view, &order[1..4], reduction, true);
        }
        let image = self.image(node)?;
        if image.zeros != Padding::NONE {
            return unknown("padding around an image that is pooled as a whole");
        }
        self.operator_view(over_pixels(reduction, image.shape), &image)
    }

    /// Operand 0 as images, with its padding not materialised.
    fn image(&mut self, node: &SourceNode) -> Conversion<Image> {
        let view = self.unpadded_view(node, 0)?;
        let (batch, height, width, channels) = match self.image_extents(&view.extents)[..] {
            [batch, height, width, channels] => (batch, height, width, channels),
            [batch, width, channels] => (batch, 1, width, channels),
            _ => return unknown(format!("a window over a tensor of {} axes", view.extents.len())),
        };
        let shape = Shape { batch, height, width, channels };
        let rank = view.extents.len();
        let source = self.arranged(&view, &wide(&view.extents, self.image_order(rank)), shape)?;
        Ok(Image { source, shape, zeros: view.padding, flat: rank == 3 })
    }

    /// Applies an operator to `image`.
    fn operator_view(&mut self, operator: Operator, image: &Image) -> Conversion<View> {
        let source = self.emit("", operator, &[image.source])?;
        Ok(self.image_view(source, image.flat))
    }

    /// A view of an image with the file's axes: without a height if it is `flat`.
    pub(super) fn image_view(&self, source: Source, flat: bool) -> View {
        let Shape { batch, height, width, channels } = self.shape(source);
        if flat {
            self.volume(source, &[batch, width, channels])
        } else {
            self.volume(source, &[batch, height, width, channels])
        }
    }

    /// Whether a convolution has a bias, of at most `most` values. A computed bias is treated as a stored one,
    /// and its producer is kept.
    pub(super) fn has_bias(&mut self, node: &SourceNode, most: u32) -> bool {
        let (extents, computed) = match self.value(node, 2) {
            Some(Value::Constant(constant)) => (&constant.extents, None),
            Some(Value::View(view)) => (&view.extents, Some(view.source)),
            None => return false,
        };
        let is_bias = elements(extents) <= u64::from(most);
        self.out.wanted.extend(computed.filter(|_| is_bias));
        is_bias
    }

    /// Extents of weights. Computed weights are treated as stored ones, and their producer is kept.
    pub(super) fn weight_extents(&mut self, node: &SourceNode, operand: usize) -> Conversion<Vec<u32>> {
        let view = match self.read(node, operand)? {
            Value::Constant(constant) if constant.elements() == 0 => return unsound("its weights are empty"),
            Value::Constant(constant) => return Ok(constant.extents.clone()),
            Value::View(view) => view.clone(),
        };
        self.out.wanted.push(view.source);
        self.approximate("the same operator with stored weights");
        Ok(view.extents)
    }
}

/// The number of groups of a convolution with weights of `depth` channels, inferred where the file does not state it.
pub(super) fn groups_of(stated: Option<u32>, depth: u32, channels: u32) -> Conversion<u32> {
    let groups = stated.unwrap_or(channels / depth.max(1));
    if u64::from(depth) * u64::from(groups) != u64::from(channels) {
        return unsound(format!("weights of {depth} channels in {groups} groups on {channels} channels"));
    }
    Ok(groups)
}

/// The window over an image; `kernel` has the extents along the axes that the file has.
fn fit(window: &Windowed, kernel: &[u32], image: &Image) -> Conversion<Window> {
    let &Image { shape: Shape { height, width, .. }, zeros, flat, .. } = image;
    // With padding, `Converter::pad` has checked each extent.
    let extents = [height + zeros.top + zeros.bottom, width + zeros.left + zeros.right];
    let (rows, columns) = match sides(window, kernel, &extents[usize::from(flat)..])?[..] {
        [columns] => (Side::NONE, columns),
        [rows, columns] => (rows, columns),
        _ => return unsound("a window of another number of axes than its input"),
    };
    let window = Side::window([rows, columns]);
    Ok(Window { padding: window.padding + zeros, ..window })
}

/// Padding before and after an axis of `extent` pixels, the axis number `place` of `sides`.
pub(super) fn side_pads(
    window: &Windowed,
    (place, sides): (usize, usize),
    extent: u32,
    [kernel, stride, dilation]: [u32; 3],
) -> Conversion<[u32; 2]> {
    let reach = u64::from(dilation) * u64::from(kernel - 1) + 1;
    let extent = u64::from(extent);
    let mut pads = match &window.pads {
        Pads::Explicit(pads) if pads.is_empty() => [0, 0],
        Pads::Explicit(pads) if pads.len() == 2 * sides => [pads[place], pads[place + sides]],
        Pads::Explicit(_) => return unsound("padding for another number of axes than its input has"),
        same => {
            let output = extent.div_ceil(u64::from(stride));
            let covered = output.saturating_sub(1) * u64::from(stride) + reach;
            let missing = as_extent(covered.saturating_sub(extent));
            let (small, large) = (missing / 2, missing.div_ceil(2));
            match same {
                Pads::Causal => [as_extent(reach) - 1, 0],
                Pads::SameLower => [large, small],
                Pads::Same | Pads::Explicit(_) => [small, large],
            }
        }
    };
    if pads.iter().any(|&pad| pad > MAX_DIMENSION) {
        return unsound("too much padding");
    }
    if window.ceil {
        let padded = extent + u64::from(pads[0]) + u64::from(pads[1]);
        let over = padded.saturating_sub(reach) % u64::from(stride);
        let start = padded.saturating_sub(reach) - over + u64::from(stride);
        // A window that would start beyond the image does not count.
        if over > 0 && start < extent + u64::from(pads[0]) {
            pads[1] += stride - over as u32;
        }
    }
    Ok(pads)
}
