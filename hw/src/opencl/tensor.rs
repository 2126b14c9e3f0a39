//! Tensors in the device's memory, and their conversion to and from the host's layout (dense,
//! channels innermost).

mod part;

use std::sync::Arc;

use coexec_sim::workload::{Layout, Shape, slices};
use opencl3::memory::{Buffer, ClMem, Image};
use opencl3::types::CL_BLOCKING;

use super::{CHANNELS, Handle, HostVisibleMemory, Naming, OpenClError, Result, Runtime};
use crate::cpu::Element;
use crate::operands::OperandError;

/// The extent of a tensor of `shape` as passed to kernels: width, height, slices, images, channels. The images of
/// a batch are interleaved column by column in the width.
pub(super) fn extent(shape: Shape) -> [u32; 5] {
    let Shape { batch, height, width, channels } = shape;
    [width * batch, height, slices(channels), batch, channels]
}

/// The memory of a tensor, and how the host accesses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// Any device memory. The host has a copy of its own.
    #[default]
    Device,
    /// A host buffer that stays mapped. Where host and device share memory, both may access it
    /// while a kernel runs. The standard does not guarantee that.
    Mapped,
    /// Fine-grained shared virtual memory, which both may access while a kernel runs.
    Shared,
}

impl Home {
    /// Name in messages and fingerprints.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "fine-grained shared virtual memory",
            Self::Mapped => "buffers that stay mapped",
            Self::Device => "copies",
        }
    }
}

/// A tensor of `f32` or `f16` in the device's memory.
pub struct Tensor<T> {
    runtime: Arc<Runtime>,
    shape: Shape,
    layout: Layout,
    memory: Memory<T>,
}

enum Memory<T> {
    Buffer(Buffer<T>),
    Image(Image),
    Visible(HostVisibleMemory<T>),
}

// SAFETY: memory objects are bound to no thread and may be used by several at once; the host writes
// them only under `&mut self`.
unsafe impl<T: Send> Send for Tensor<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Tensor<T> {}

impl<T: Element> Tensor<T> {
    /// A tensor of `shape` with undefined contents. [`Layout::Buffer`] keeps the order of the host,
    /// so that both sides can write parts of it.
    ///
    /// # Errors
    /// Where the device lacks memory, images of that size, shared memory, or `T`.
    pub fn new(runtime: &Arc<Runtime>, shape: Shape, layout: Layout, home: Home) -> Result<Self> {
        let elements = elements(shape, layout);
        let memory = match (layout, home) {
            (Layout::Image, Home::Device) => {
                let [_, [width, height, _]] = whole_image(shape);
                Memory::Image(runtime.image::<T>(width, height)?)
            }
            (Layout::Image, _) => {
                return Err(OpenClError::Unsupported {
                    operator: format!("a tensor of {shape} in an image"),
                    reason: "an image cannot be shared with the host".to_owned(),
                });
            }
            (_, Home::Device) => Memory::Buffer(runtime.buffer(elements)?),
            (_, Home::Shared) => Memory::Visible(HostVisibleMemory::shared(runtime, elements)?),
            (_, Home::Mapped) => Memory::Visible(HostVisibleMemory::mapped(runtime, elements)?),
        };
        Ok(Self { runtime: Arc::clone(runtime), shape, layout, memory })
    }

    /// Whether the device has images that hold a tensor of `shape`.
    pub(crate) fn fits_image(runtime: &Runtime, shape: Shape) -> bool {
        let [_, [width, height, _]] = whole_image(shape);
        runtime.device().images.is_some_and(|[widest, highest]| width <= widest && height <= highest)
    }

    /// The device's runtime.
    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The layout.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The first element, if the host can address the tensor directly: in shared or mapped memory.
    pub fn shared_ptr(&self) -> Option<*mut T> {
        match &self.memory {
            Memory::Visible(memory) => Some(memory.as_ptr()),
            Memory::Buffer(_) | Memory::Image(_) => None,
        }
    }

    /// Elements in memory, padding included.
    fn elements(&self) -> usize {
        elements(self.shape, self.layout)
    }

    /// The tensor as a kernel argument.
    pub(super) fn handle(&self) -> Handle {
        match &self.memory {
            Memory::Buffer(buffer) => Handle::Object(buffer.get()),
            Memory::Image(image) => Handle::Object(image.get()),
            Memory::Visible(memory) => memory.handle(),
        }
    }

    /// Writes `numbers`, in the host's order, to the tensor; blocks.
    ///
    /// # Errors
    /// Where their count is wrong, or the device fails.
    pub fn write(&mut self, numbers: &[T]) -> Result<()> {
        let expected = self.shape.elements() as usize;
        if numbers.len() != expected {
            return Err(OperandError::count(numbers.len(), expected, "elements in a tensor").into());
        }
        let arranged = arrange(self.shape, self.layout, numbers);
        let runtime = Arc::clone(&self.runtime);
        match &mut self.memory {
            Memory::Buffer(buffer) => runtime.fill(buffer, &arranged),
            Memory::Visible(memory) => {
                memory.write(&arranged);
                Ok(())
            }
            Memory::Image(image) => {
                let [origin, region] = whole_image(self.shape);
                // SAFETY: the copy is blocking, so `arranged` outlives it; it holds all texels of
                // the image.
                let event = unsafe {
                    runtime.queue().enqueue_write_image(
                        image,
                        CL_BLOCKING,
                        origin.as_ptr(),
                        region.as_ptr(),
                        0,
                        0,
                        arranged.as_ptr().cast_mut().cast(),
                        &[],
                    )
                };
                event.naming("clEnqueueWriteImage").map(drop)
            }
        }
    }

    /// The tensor's numbers in the host's order.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn read(&self) -> Result<Vec<T>> {
        let mut arranged = vec![T::default(); self.elements()];
        match &self.memory {
            Memory::Buffer(buffer) => self.runtime.fetch(buffer, &mut arranged)?,
            Memory::Visible(memory) => memory.read(&mut arranged),
            Memory::Image(image) => {
                let [origin, region] = whole_image(self.shape);
                // SAFETY: the copy is blocking, so `arranged` outlives it; it holds as many texels
                // as the image.
                let event = unsafe {
                    self.runtime.queue().enqueue_read_image(
                        image,
                        CL_BLOCKING,
                        origin.as_ptr(),
                        region.as_ptr(),
                        0,
                        0,
                        arranged.as_mut_ptr().cast(),
                        &[],
                    )
                };
                event.naming("clEnqueueReadImage").map(drop)?;
            }
        }
        Ok(restore(self.shape, self.layout, &arranged))
    }
}

fn elements(shape: Shape, layout: Layout) -> usize {
    match layout {
        Layout::Buffer => shape.elements() as usize,
        Layout::Image | Layout::SlicedBuffer => whole_image(shape)[1].iter().product::<usize>() * CHANNELS,
    }
}

/// Origin and region of the whole image of a tensor.
fn whole_image(shape: Shape) -> [[usize; 3]; 2] {
    let [width, height, slices, ..] = extent(shape).map(|side| side as usize);
    [[0; 3], [width, height * slices, 1]]
}

/// Element index of a channel in an image or a sliced buffer.
fn index(shape: Shape, layout: Layout, [image, y, x, channel]: [usize; 4]) -> usize {
    let [width, height, slices, batch, _] = extent(shape).map(|side| side as usize);
    let (column, slice) = (x * batch + image, channel / CHANNELS);
    let row = if layout == Layout::Image { y * slices + slice } else { slice * height + y };
    (row * width + column) * CHANNELS + channel % CHANNELS
}

/// The index in `layout` of each element in the host's order.
fn places(shape: Shape, layout: Layout) -> impl Iterator<Item = usize> {
    let [batch, height, width, channels] =
        [shape.batch, shape.height, shape.width, shape.channels].map(|side| side as usize);
    (0..batch * height * width).flat_map(move |pixel| {
        let (image, y, x) = (pixel / (height * width), pixel / width % height, pixel % width);
        (0..channels).map(move |channel| index(shape, layout, [image, y, x, channel]))
    })
}

/// Converts from the host's order to `layout`; the padding of the last slice is zero.
fn arrange<T: Element>(shape: Shape, layout: Layout, numbers: &[T]) -> Vec<T> {
    if layout == Layout::Buffer {
        return numbers.to_vec();
    }
    let mut arranged = vec![T::default(); elements(shape, layout)];
    for (place, &number) in places(shape, layout).zip(numbers) {
        arranged[place] = number;
    }
    arranged
}

/// The inverse of `arrange`.
fn restore<T: Element>(shape: Shape, layout: Layout, arranged: &[T]) -> Vec<T> {
    if layout == Layout::Buffer {
        return arranged.to_vec();
    }
    places(shape, layout).map(|place| arranged[place]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_keeps_every_number() {
        for shape in [Shape::image(3, 5, 7), Shape { batch: 3, height: 2, width: 4, channels: 6 }] {
            let numbers: Vec<f32> = (0..shape.elements()).map(|n| n as f32 + 1.0).collect();
            for layout in [Layout::Buffer, Layout::Image, Layout::SlicedBuffer] {
                let arranged = arrange(shape, layout, &numbers);
                assert_eq!(restore(shape, layout, &arranged), numbers, "{layout:?}");
                let filled = arranged.iter().filter(|&&number| number > 0.0).count();
                assert_eq!(filled, numbers.len(), "padding is zero");
            }
        }
    }

    #[test]
    fn an_image_s_row_holds_one_slice_of_a_row_and_a_buffer_holds_slice_by_slice() {
        let shape = Shape::image(2, 3, 8);
        // The pixel in row 1, column 2: texels of its two slices.
        let texel = |layout, channel| index(shape, layout, [0, 1, 2, channel]) / CHANNELS;
        assert_eq!([0, 4].map(|channel| texel(Layout::Image, channel)), [8, 11]);
        assert_eq!([0, 4].map(|channel| texel(Layout::SlicedBuffer, channel)), [5, 11]);
    }

    #[test]
    fn the_images_of_a_batch_are_adjacent_along_the_width() {
        let shape = Shape { batch: 2, height: 1, width: 3, channels: 4 };
        assert_eq!(extent(shape)[0], 6);
        assert_eq!(index(shape, Layout::Image, [1, 0, 2, 0]) / CHANNELS, 5);
    }
}
