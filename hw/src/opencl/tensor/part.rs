//! Copies of parts of a tensor in plain layout, for devices that do not share the host's memory.

use cl3::command_queue::{
    enqueue_read_buffer, enqueue_read_buffer_rect, enqueue_write_buffer, enqueue_write_buffer_rect,
};
use coexec_sim::{Region, schedule};
use opencl3::event::Event;
use opencl3::memory::ClMem;
use opencl3::types::CL_NON_BLOCKING;

use super::Memory;
use crate::cpu::Element;
use crate::opencl::{CHANNELS, Naming, OpenClError, Result, Tensor};
use crate::operands::{Stretches, indices};

/// A part of a dense tensor as a box of bytes: within a pixel, over the pixels of an image, over
/// the images of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes {
    origin: [usize; 3],
    region: [usize; 3],
    row_pitch: usize,
    slice_pitch: usize,
}

impl Bytes {
    /// Offset and size of a contiguous box, which drivers copy faster.
    fn piece(&self) -> Option<(usize, usize)> {
        let [width, rows, slices] = self.region;
        let has_whole_rows = rows == 1 || width == self.row_pitch;
        let has_whole_slices = slices == 1 || rows * width == self.slice_pitch;
        let offset = self.origin[0] + self.origin[1] * self.row_pitch;
        (has_whole_rows && has_whole_slices).then_some((offset, width * rows * slices))
    }
}

impl<T: Element> Tensor<T> {
    /// Enqueues a copy of `part` between this tensor and the host's tensor at `host`.
    ///
    /// # Safety
    /// Until the copy has ended, `host` is valid for as many elements as the tensor has, and nothing
    /// writes the part there, nor reads it if it is copied to the host.
    pub(crate) unsafe fn enqueue_copy(
        &self,
        part: Region,
        host: *mut T,
        to: schedule::Memory,
    ) -> Result<Event> {
        let Memory::Buffer(buffer) = &self.memory else { return Err(self.not_copied()) };
        let (queue, buffer) = (self.runtime.queue().get(), ClMem::get(buffer));
        let bytes = self.bytes(part);
        // A macro, because the calls of the two directions differ in a pointer type.
        macro_rules! queued {
            ($copy:ident, $($place:expr),*) => {
                // SAFETY: contiguous range and box are within buffer and host tensor, which outlive
                // the copy; on the device only the buffer's contents change, in queue order.
                unsafe { $copy(queue, buffer, CL_NON_BLOCKING, $($place,)* 0, std::ptr::null()) }
            };
        }
        let event = if let Some((offset, size)) = bytes.piece() {
            let host = host.cast::<u8>().wrapping_add(offset).cast();
            match to {
                schedule::Memory::Host => queued!(enqueue_read_buffer, offset, size, host),
                schedule::Memory::Gpu => queued!(enqueue_write_buffer, offset, size, host),
            }
        } else {
            let Bytes { origin, region, row_pitch, slice_pitch } = bytes;
            let [origin, region] = [&origin, &region].map(|extents| extents.as_ptr());
            macro_rules! of_box {
                ($copy:ident) => {
                    queued!(
                        $copy,
                        origin,
                        origin,
                        region,
                        row_pitch,
                        slice_pitch,
                        row_pitch,
                        slice_pitch,
                        host.cast()
                    )
                };
            }
            match to {
                schedule::Memory::Host => of_box!(enqueue_read_buffer_rect),
                schedule::Memory::Gpu => of_box!(enqueue_write_buffer_rect),
            }
        };
        let call = match to {
            schedule::Memory::Host => "clEnqueueReadBuffer",
            schedule::Memory::Gpu => "clEnqueueWriteBuffer",
        };
        event.naming(call).map(Event::new)
    }

    /// Enqueues a fill of the tensor's device memory with `value`.
    pub(crate) fn fill(&self, value: T) -> Result<()> {
        let queue = self.runtime.queue().get();
        let texel = [value; CHANNELS];
        let filled = match &self.memory {
            Memory::Buffer(buffer) => {
                let size = size_of::<T>();
                // SAFETY: pattern and size fit the buffer, which holds that many elements; the
                // driver copies the pattern.
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
                let [origin, region] = super::whole_image(self.shape);
                let colour = texel.map(Element::to_f32);
                // SAFETY: the region is the whole image; a fill colour is four `f32` for every
                // floating-point format.
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
            Memory::Visible(_) => return Err(self.not_copied()),
        };
        filled.map(|event| drop(Event::new(event)))
    }

    /// Maps and unmaps the tensor if it stays mapped; otherwise does nothing.
    pub(crate) fn map_and_unmap(&self) -> Result<()> {
        match &self.memory {
            Memory::Visible(memory) => memory.map_and_unmap(),
            Memory::Buffer(_) | Memory::Image(_) => Ok(()),
        }
    }

    fn not_copied(&self) -> OpenClError {
        OpenClError::Unsupported {
            operator: format!("a copy of a part of a tensor of {}", self.shape),
            reason: "it is not in a buffer of the device".to_owned(),
        }
    }

    fn bytes(&self, part: Region) -> Bytes {
        let shape = self.shape;
        let (channels, pixels) = (indices(part.channels), Stretches::new(shape, part.rows));
        let row_pitch = shape.channels as usize * size_of::<T>();
        Bytes {
            origin: [channels.start * size_of::<T>(), pixels.first, 0],
            region: [channels.len() * size_of::<T>(), pixels.length, pixels.count],
            row_pitch,
            // A single stretch may extend over the images of a batch.
            slice_pitch: pixels.step.max(pixels.length) * row_pitch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_rows_are_contiguous() {
        let part = |origin, region| Bytes { origin, region, row_pitch: 64, slice_pitch: 640 };
        assert_eq!(part([0, 0, 0], [64, 10, 1]).piece(), Some((0, 640)));
        assert_eq!(part([0, 4, 0], [64, 6, 1]).piece(), Some((256, 384)), "a part of the height");
        assert_eq!(part([0, 0, 0], [64, 10, 3]).piece(), Some((0, 1920)), "a batch");
        assert_eq!(part([0, 4, 0], [64, 6, 3]).piece(), None, "a part of the height of each image");
        assert_eq!(part([16, 0, 0], [48, 10, 1]).piece(), None, "a part of the channels");
        assert_eq!(part([16, 0, 0], [48, 1, 1]).piece(), Some((16, 48)), "of a single pixel");
    }
}
