//! Copies of parts of a tensor in plain layout, for devices that share no memory with
//! the host.

use opencl3::event::Event;
use opencl3::memory::ClMem;
use opencl3::types::CL_NON_BLOCKING;

use super::super::error::{Naming, OpenClError};
use super::{Memory, Tensor};
use crate::cpu::Element;
use crate::operands::{Part, lines};

/// A part of a dense tensor as bytes of a box: within a pixel, over the pixels of an
/// image, over the images of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes {
    origin: [usize; 3],
    region: [usize; 3],
    row_pitch: usize,
    slice_pitch: usize,
}

impl Bytes {
    /// Offset and size of a box that lies in one piece, which drivers copy faster.
    fn piece(&self) -> Option<(usize, usize)> {
        let [width, rows, slices] = self.region;
        let has_whole_rows = rows == 1 || width == self.row_pitch;
        let has_whole_slices = slices == 1 || rows * width == self.slice_pitch;
        let offset = self.origin[0] + self.origin[1] * self.row_pitch;
        (has_whole_rows && has_whole_slices).then_some((offset, width * rows * slices))
    }
}

impl<T: Element> Tensor<T> {
    /// Queues a copy of `part` to its place in the host's tensor that starts at `host`.
    ///
    /// # Safety
    /// `host` is valid for as many elements as the tensor has, and nobody accesses the
    /// part there, until the copy has ended.
    pub(crate) unsafe fn enqueue_read_part(&self, part: &Part, host: *mut T) -> Result<Event, OpenClError> {
        let Memory::Buffer(buffer) = &self.memory else { return Err(self.not_copied()) };
        let bytes = self.bytes(part);
        if let Some((offset, size)) = bytes.piece() {
            // SAFETY: the piece lies within buffer and host tensor, which outlive the copy.
            let event = unsafe {
                cl3::command_queue::enqueue_read_buffer(
                    self.runtime.queue().get(),
                    ClMem::get(buffer),
                    CL_NON_BLOCKING,
                    offset,
                    size,
                    host.cast::<u8>().add(offset).cast(),
                    0,
                    std::ptr::null(),
                )
            };
            return event.naming("clEnqueueReadBuffer").map(Event::new);
        }
        let Bytes { origin, region, row_pitch, slice_pitch } = bytes;
        // SAFETY: the box lies within buffer and host tensor, which outlive the copy.
        let event = unsafe {
            self.runtime.queue().enqueue_read_buffer_rect(
                buffer,
                CL_NON_BLOCKING,
                origin.as_ptr(),
                origin.as_ptr(),
                region.as_ptr(),
                row_pitch,
                slice_pitch,
                row_pitch,
                slice_pitch,
                host.cast(),
                &[],
            )
        };
        event.naming("clEnqueueReadBufferRect")
    }

    /// Queues a copy of `part` from its place in the host's tensor that starts at `host`.
    ///
    /// # Safety
    /// `host` is valid for as many elements as the tensor has, and nobody writes the
    /// part there, until the copy has ended.
    pub(crate) unsafe fn enqueue_write_part(&self, part: &Part, host: *mut T) -> Result<Event, OpenClError> {
        let Memory::Buffer(buffer) = &self.memory else { return Err(self.not_copied()) };
        let bytes = self.bytes(part);
        if let Some((offset, size)) = bytes.piece() {
            // SAFETY: as below.
            let event = unsafe {
                cl3::command_queue::enqueue_write_buffer(
                    self.runtime.queue().get(),
                    ClMem::get(buffer),
                    CL_NON_BLOCKING,
                    offset,
                    size,
                    host.cast::<u8>().add(offset).cast(),
                    0,
                    std::ptr::null(),
                )
            };
            return event.naming("clEnqueueWriteBuffer").map(Event::new);
        }
        let Bytes { origin, region, row_pitch, slice_pitch } = bytes;
        // SAFETY: the box lies within buffer and host tensor, which outlive the copy; all
        // that the call changes is the buffer's content on the device, in queue order.
        let event = unsafe {
            cl3::command_queue::enqueue_write_buffer_rect(
                self.runtime.queue().get(),
                ClMem::get(buffer),
                CL_NON_BLOCKING,
                origin.as_ptr(),
                origin.as_ptr(),
                region.as_ptr(),
                row_pitch,
                slice_pitch,
                row_pitch,
                slice_pitch,
                host.cast(),
                0,
                std::ptr::null(),
            )
        };
        event.naming("clEnqueueWriteBufferRect").map(Event::new)
    }

    /// Queues that every element of the device's memory becomes `value`.
    pub(crate) fn fill(&self, value: T) -> Result<(), OpenClError> {
        let queue = self.runtime.queue().get();
        let texel = [value; super::CHANNELS];
        let filled = match &self.memory {
            Memory::Buffer(buffer) => {
                let size = size_of::<T>();
                // SAFETY: pattern and size fit the buffer, which holds that many elements;
                // the driver copies the pattern.
                unsafe {
                    cl3::command_queue::enqueue_fill_buffer(
                        queue,
                        ClMem::get(buffer),
                        texel.as_ptr().cast(),
                        size,
                        0,
                        self.elements() * size,
                        0,
                        std::ptr::null(),
                    )
                }
                .naming("clEnqueueFillBuffer")
            }
            Memory::Image(image) => {
                let [origin, region] = super::whole_image(self.extent());
                let colour = texel.map(Element::to_f32);
                // SAFETY: the region is the whole image; a colour is four f32 whatever the
                // image's floating-point format.
                unsafe {
                    cl3::command_queue::enqueue_fill_image(
                        queue,
                        ClMem::get(image),
                        colour.as_ptr().cast(),
                        origin.as_ptr(),
                        region.as_ptr(),
                        0,
                        std::ptr::null(),
                    )
                }
                .naming("clEnqueueFillImage")
            }
            Memory::Shared(_) | Memory::Mapped(_) => return Err(self.not_copied()),
        };
        filled.map(|event| drop(Event::new(event)))
    }

    /// Maps and unmaps the tensor where it stays mapped; nothing elsewhere.
    pub(crate) fn map_and_unmap(&self) -> Result<(), OpenClError> {
        match &self.memory {
            Memory::Mapped(memory) => memory.map_and_unmap(),
            Memory::Buffer(_) | Memory::Image(_) | Memory::Shared(_) => Ok(()),
        }
    }

    fn not_copied(&self) -> OpenClError {
        OpenClError::Unsupported {
            operator: format!("a copy of a part of a tensor of {}", self.shape),
            reason: "it is not in a buffer of the device".to_owned(),
        }
    }

    fn bytes(&self, part: &Part) -> Bytes {
        let shape = self.shape;
        let [batch, channels] = [shape.batch, shape.channels].map(|extent| extent as usize);
        let image = (shape.height * shape.width) as usize;
        let line = image / lines(shape).max(1) as usize;
        let of = |range: &std::ops::Range<u32>| (range.start as usize, range.len());
        let ((channel, width), (first_line, count)) = (of(&part.channels), of(&part.lines));
        let row_pitch = channels * size_of::<T>();
        Bytes {
            origin: [channel * size_of::<T>(), first_line * line, 0],
            region: [width * size_of::<T>(), count * line, batch],
            row_pitch,
            slice_pitch: image * row_pitch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_rows_lie_in_one_piece_and_parts_of_rows_do_not() {
        let part = |origin, region| Bytes { origin, region, row_pitch: 64, slice_pitch: 640 };
        assert_eq!(part([0, 0, 0], [64, 10, 1]).piece(), Some((0, 640)));
        assert_eq!(part([0, 4, 0], [64, 6, 1]).piece(), Some((256, 384)), "a part of the height");
        assert_eq!(part([0, 0, 0], [64, 10, 3]).piece(), Some((0, 1920)), "a batch");
        assert_eq!(part([0, 4, 0], [64, 6, 3]).piece(), None, "a part of the height of each image");
        assert_eq!(part([16, 0, 0], [48, 10, 1]).piece(), None, "a part of the channels");
        assert_eq!(part([16, 0, 0], [48, 1, 1]).piece(), Some((16, 48)), "of a single pixel");
    }
}
