//! Windows over volumes, and general transposed convolutions.
//!
//! A convolution over a volume becomes one over images: the depth slices under the window are first
//! copied side by side as channels. A transposed convolution whose output extents are not the input's
//! times the stride becomes a product per input pixel, whose results are scattered and summed.

use super::window::{groups_of, side_pads};
use super::{Conversion, Converter, Value, unsound};
use crate::model::{
    Convolution, ImageOrder, Pads, SourceNode, TransposedConvolution, Windowed, as_extent, elements,
};
use crate::view::{View, wide};
use coexec_sim::workload::{Conv2d, GenericKind, MAX_DIMENSION, Padding, Shape, Source, Window};

/// A window along one axis: kernel, stride, dilation, padding, number of positions.
#[derive(Clone, Copy)]
pub(super) struct Side {
    kernel: u32,
    stride: u32,
    dilation: u32,
    pads: [u32; 2],
    positions: u32,
}

impl Side {
    /// Along an axis that the file does not have.
    pub(super) const NONE: Self = Self { kernel: 1, stride: 1, dilation: 1, pads: [0; 2], positions: 1 };

    /// The window over an image, from its sides along rows and columns.
    pub(super) fn window([rows, columns]: [Self; 2]) -> Window {
        let [[top, bottom], [left, right]] = [rows.pads, columns.pads];
        Window {
            kernel: [rows.kernel, columns.kernel],
            stride: [rows.stride, columns.stride],
            dilation: [rows.dilation, columns.dilation],
            padding: Padding { top, bottom, left, right },
        }
    }
}

/// A window along each of the axes with `extents`.
pub(super) fn sides(window: &Windowed, kernel: &[u32], extents: &[u32]) -> Conversion<Vec<Side>> {
    let count = extents.len();
    let at = |numbers: &[u32], side: usize| match numbers {
        [] => Ok(1),
        numbers if numbers.len() == count => Ok(numbers[side]),
        _ => unsound("a window of another number of axes than its input"),
    };
    let mut sides = Vec::with_capacity(count);
    for (side, &extent) in extents.iter().enumerate() {
        let (mut kernel, stride, dilation) =
            (at(kernel, side)?, at(&window.stride, side)?, at(&window.dilation, side)?);
        if [kernel, stride, dilation].iter().any(|&number| number == 0 || number > MAX_DIMENSION) {
            return unsound("a window, stride or dilation is 0 or too large");
        }
        let pads = side_pads(window, (side, count), extent, [kernel, stride, dilation])?;
        let padded = u64::from(extent) + u64::from(pads[0]) + u64::from(pads[1]);
        let mut reach = u64::from(dilation) * u64::from(kernel - 1) + 1;
        if window.ceil && dilation == 1 && padded < reach && reach < padded + u64::from(stride) {
            // With rounding up, one partial window starts inside the input; clamp it.
            (kernel, reach) = (as_extent(padded), padded);
        }
        let Some(free) = padded.checked_sub(reach) else { return unsound("a window larger than its input") };
        let positions = as_extent(free / u64::from(stride) + 1);
        sides.push(Side { kernel, stride, dilation, pads, positions });
    }
    Ok(sides)
}

impl Converter<'_> {
    /// Extents after pooling over all spatial axes.
    pub(super) fn pooled(&self, from: &[u32], window: &Windowed) -> Conversion<Vec<u32>> {
        let order = self.image_order(from.len());
        let Some(inner) = order.get(1..from.len().max(2) - 1) else {
            return unsound("a window over a scalar");
        };
        let spatial: Vec<u32> = inner.iter().map(|&axis| from[axis]).collect();
        let mut extents = from.to_vec();
        for (&axis, side) in inner.iter().zip(sides(window, &window.kernel, &spatial)?) {
            extents[axis] = side.positions;
        }
        Ok(extents)
    }

    /// A convolution of volumes, with weights of five axes.
    pub(super) fn volume_convolution(
        &mut self,
        node: &SourceNode,
        convolution: &Convolution,
        weights: &[u32],
    ) -> Conversion<View> {
        // ONNX: outputs, inputs, window. TFLite: window, inputs, outputs.
        let ((ImageOrder::ChannelsFirst, &[output, depth, ref kernel @ ..])
        | (ImageOrder::ChannelsLast, &[ref kernel @ .., depth, output])) = (self.model.order, weights)
        else {
            return unsound("weights of too few axes");
        };
        let view = self.view(node, 0)?;
        let [batch, deep, height, width, channels] = self.image_extents(&view.extents)[..] else {
            return unsound("weights for volumes on an input that is not a volume");
        };
        let groups = groups_of(convolution.groups, depth, channels)?;
        let [along, rows, columns] = sides(&convolution.window, kernel, &[deep, height, width])?[..] else {
            return unsound("a window of another number of axes than its input");
        };
        let order = wide(&view.extents, self.image_order(5));
        let (images, slices) = (batch.saturating_mul(along.positions), channels.saturating_mul(along.kernel));
        let taken = Shape { batch: images, height, width, channels: slices };
        let source = if along.kernel == 1 && along.positions == deep {
            self.arranged(&view, &order, taken)?
        } else {
            self.emit_generic(".slices", (GenericKind::Movement, 1), &[view.source], taken)?
        };
        let bias = self.has_bias(node, output);
        let conv = Conv2d::new(taken, output, Side::window([rows, columns]));
        let conv = Conv2d { groups, bias, slices: Some(along.kernel), ..conv };
        let source = self.emit("", conv, &[source])?;
        let memory = [batch, along.positions, rows.positions, columns.positions, output];
        Ok(self.volume(source, &memory))
    }

    /// A view of images or volumes with the given extents in memory, channels last.
    pub(super) fn volume(&self, source: Source, memory: &[u32]) -> View {
        let order = self.image_order(memory.len());
        let mut extents = vec![1; memory.len()];
        for (&axis, &extent) in order.iter().zip(memory) {
            extents[axis] = extent;
        }
        self.view_as(source, extents, order)
    }

    /// Output channels and kernel of a transposed convolution whose output extents are the input's
    /// times the stride, and whose multiply-adds some number of channels has; `None` for others.
    pub(super) fn by_blocks(
        &self,
        node: &SourceNode,
        transposed: &TransposedConvolution,
        weights: &[u32],
    ) -> Option<(u32, [u32; 2])> {
        let TransposedConvolution { window, groups, output_pads } = transposed;
        let (output, kernel) = match (self.model.order, weights) {
            (ImageOrder::ChannelsFirst, &[_, output, height, width])
            | (ImageOrder::ChannelsLast, &[output, height, width, _]) => (output, [height, width]),
            _ => return None,
        };
        // The padding of operand 0 may not be materialised yet.
        let is_padded =
            self.value(node, 0).and_then(Value::view).is_some_and(|view| view.padding != Padding::NONE);
        let is_whole = |side: usize| {
            let [kernel, stride] = [i64::from(kernel[side]), at(&window.stride, side, 1)];
            match &window.pads {
                Pads::Same | Pads::SameLower | Pads::Causal => at(output_pads, side, 0) == 0,
                Pads::Explicit(pads) => {
                    kernel + at(output_pads, side, 0) == stride + at(pads, side, 0) + at(pads, side + 2, 0)
                }
            }
        };
        let stride = |side: usize| as_extent(at(&window.stride, side, 1)).max(1);
        let block = [0, 1].map(|side| kernel[side].div_ceil(stride(side)));
        let is_exact = elements(&[output, kernel[0], kernel[1]]).is_multiple_of(elements(&block));
        let plain = is_exact && *groups == 1 && window.dilation.iter().all(|&dilation| dilation == 1);
        (plain && !is_padded && is_whole(0) && is_whole(1)).then_some((output, kernel))
    }

    /// Any other transposed convolution: each input pixel times all weights, then the sums at each
    /// output pixel.
    pub(super) fn scattered_convolution(
        &mut self,
        node: &SourceNode,
        transposed: &TransposedConvolution,
        weights: &[u32],
    ) -> Conversion<View> {
        let ((ImageOrder::ChannelsFirst, &[_, output, ref kernel @ ..])
        | (ImageOrder::ChannelsLast, &[output, ref kernel @ .., _])) = (self.model.order, weights)
        else {
            return unsound("weights of too few axes");
        };
        let output = output.saturating_mul(transposed.groups);
        let view = self.view(node, 0)?;
        let memory = self.image_extents(&view.extents);
        let ([batch, spatial @ .., channels], true) = (&memory[..], memory.len() == weights.len()) else {
            return unsound("weights of another number of axes than its input");
        };
        let mut written = vec![*batch];
        for (side, &extent) in spatial.iter().enumerate() {
            written.push(spread(transposed, [kernel[side], extent], (side, spatial.len()))?);
        }
        written.push(output);
        let stated = node.result(0);
        let stated = stated.and_then(|tensor| self.model.tensors[tensor].static_extents());
        if let Some(stated) = stated.filter(|stated| stated.len() == written.len()) {
            written = self.image_extents(&stated);
        }
        Self::check_extents(&written)?;
        let [outer @ .., last] = spatial else { return unsound("a window over a scalar") };
        let count = |axes: &[u32]| as_extent(elements(axes));
        let shape = Shape { batch: *batch, height: count(outer), width: *last, channels: *channels };
        let order = wide(&view.extents, self.image_order(memory.len()));
        let source = self.arranged(&view, &order, shape)?;
        let taps = as_extent(elements(kernel).saturating_mul(u64::from(output)));
        let bias = self.has_bias(node, output);
        let product = Conv2d::new(shape, taps, Window::valid(1)).groups(transposed.groups).bias(bias);
        let source = self.emit("", product, &[source])?;
        let [_, outer @ .., last, _] = &written[..] else { return unsound("a window over a scalar") };
        let target = Shape { batch: *batch, height: count(outer), width: *last, channels: output };
        let source = self.emit_generic(".sums", (GenericKind::Reduction, 1), &[source], target)?;
        Ok(self.volume(source, &written))
    }
}

/// The number at an index of a list, or `usual` beyond its end.
fn at(numbers: &[u32], place: usize, usual: u32) -> i64 {
    i64::from(numbers.get(place).copied().unwrap_or(usual))
}

/// Extent along one axis after a transposed convolution.
fn spread(
    TransposedConvolution { window, output_pads, .. }: &TransposedConvolution,
    [kernel, extent]: [u32; 2],
    (side, sides): (usize, usize),
) -> Conversion<u32> {
    let (stride, dilation) = (at(&window.stride, side, 1), at(&window.dilation, side, 1));
    if stride == 0 || stride > i64::from(MAX_DIMENSION) || dilation > i64::from(MAX_DIMENSION) {
        return unsound("a stride or dilation is 0 or too large");
    }
    let added = at(output_pads, side, 0);
    let extent = i64::from(extent);
    let written = match &window.pads {
        Pads::Same | Pads::SameLower | Pads::Causal => extent * stride + added,
        Pads::Explicit(pads) => {
            let reach = dilation * (i64::from(kernel) - 1) + 1;
            (extent - 1) * stride + reach + added - at(pads, side, 0) - at(pads, side + sides, 0)
        }
    };
    match u32::try_from(written) {
        Ok(written) if (1..=MAX_DIMENSION).contains(&written) => Ok(written),
        _ => unsound("a transposed convolution writes nothing, or too much"),
    }
}
