//! Kernels and commands that only move bytes, or do nothing at all: what a probe times.
//!
//! Responsible for: their memory, launches and times. Not for: how often they run, or
//! what their times mean (`crate::probe`). Invariant: whatever waits has a limit.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::units::{Bytes, Picos};
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{
    Buffer, CL_FLOAT, CL_MAP_READ, CL_MAP_WRITE, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE, ClMem, Image,
};
use opencl3::types::CL_BLOCKING;

use super::error::{Naming, OpenClError};
use super::events::{flush, poll};
use super::runtime::Runtime;
use super::source::Source;
use super::timing::{Timing, of_duration, wait};

/// Numbers of a texel.
const TEXEL: usize = 4;
/// Bytes of a texel of 32-bit numbers.
const TEXEL_BYTES: usize = TEXEL * size_of::<f32>();
/// Most threads of a streaming kernel's work-group: whole waves on every GPU, and few
/// groups to start where a core runs one after the other.
const STREAM_GROUP: usize = 256;

/// A kernel on one grid, its arguments set.
pub(crate) struct Launched {
    runtime: Arc<Runtime>,
    kernel: Kernel,
    name: &'static str,
    global: [usize; 2],
    local: [usize; 2],
    memory: Vec<Buffer<f32>>,
    _image: Option<Image>,
    bytes: Bytes,
}

/// A buffer that host and device take turns with, and the host's own copy.
pub(crate) struct Exchange {
    runtime: Arc<Runtime>,
    pinned: Buffer<f32>,
    numbers: Vec<f32>,
}

fn source(runtime: &Runtime) -> Source {
    let mut source = Source::new("traffic", include_str!("kernels/traffic.cl"));
    if runtime.device().images.is_some() {
        source.option("IMAGE");
    }
    source
}

fn set<V: Copy>(kernel: &Kernel, index: u32, value: &V) -> Result<(), OpenClError> {
    // SAFETY: plain data, whose size the driver checks; memory objects live as long as
    // the kernel, as one struct owns both.
    unsafe { kernel.set_arg(index, value) }.naming("clSetKernelArg")
}

impl Launched {
    fn new(
        runtime: &Arc<Runtime>,
        name: &'static str,
        [global, local]: [[usize; 2]; 2],
        memory: Vec<Buffer<f32>>,
        bytes: usize,
    ) -> Result<Self, OpenClError> {
        Ok(Self {
            runtime: Arc::clone(runtime),
            kernel: runtime.kernel(&source(runtime), name)?,
            name,
            global,
            local,
            memory,
            _image: None,
            bytes: Bytes(bytes as u64),
        })
    }

    /// A kernel that reads the texels of `bytes` (rounded to a power of two) in order
    /// and writes as many, with no work on them. It moves twice the bytes.
    pub(crate) fn stream(runtime: &Arc<Runtime>, bytes: usize) -> Result<Self, OpenClError> {
        let group = group_size(runtime);
        let count = (bytes / TEXEL_BYTES).next_power_of_two().max(group);
        let memory = vec![zeros(runtime, count)?, zeros(runtime, count)?];
        let grid = [[count, 1], [group, 1]];
        let stream = Self::new(runtime, "stream", grid, memory, 2 * count * TEXEL_BYTES)?;
        set(&stream.kernel, 0, &stream.memory[0].get())?;
        set(&stream.kernel, 1, &stream.memory[1].get())?;
        set(&stream.kernel, 2, &1_u32)?;
        set(&stream.kernel, 3, &(count as u32))?;
        set(&stream.kernel, 4, &0_u32)?;
        Ok(stream)
    }

    /// Makes a stream read every `stride`th texel, and then those between.
    pub(crate) fn set_stride(&mut self, stride: u32) -> Result<(), OpenClError> {
        set(&self.kernel, 2, &stride)
    }

    /// Makes a stream do so many multiply-adds on each texel.
    pub(crate) fn set_work(&mut self, work: u32) -> Result<(), OpenClError> {
        set(&self.kernel, 4, &work)
    }

    /// A kernel of `groups` groups of `threads` that only computes, for `steps`.
    pub(crate) fn spin(
        runtime: &Arc<Runtime>,
        groups: usize,
        threads: usize,
        steps: u32,
    ) -> Result<Self, OpenClError> {
        let memory = vec![runtime.buffer(groups * threads)?];
        let spin = Self::new(runtime, "spin", [[groups * threads, 1], [threads, 1]], memory, 0)?;
        set(&spin.kernel, 0, &spin.memory[0].get())?;
        set(&spin.kernel, 1, &steps)?;
        Ok(spin)
    }

    /// A kernel that brings a tensor of `pixels` times `slices` texels from the GPU's
    /// layout (an image where `image` says so) into the CPU's.
    ///
    /// # Errors
    /// Where the device has no such image, besides the usual.
    pub(crate) fn transform(
        runtime: &Arc<Runtime>,
        pixels: u32,
        slices: u32,
        image: bool,
    ) -> Result<Self, OpenClError> {
        let count = pixels as usize * slices as usize;
        let grid = [[pixels as usize, slices as usize], [1, 1]];
        let bytes = count * TEXEL_BYTES;
        let mut transform = if image {
            let from = runtime.image(pixels as usize, slices as usize, CL_FLOAT)?;
            let memory = vec![zeros(runtime, count)?];
            let transform = Self::new(runtime, "image_to_pixels", grid, memory, bytes)?;
            set(&transform.kernel, 0, &from.get())?;
            set(&transform.kernel, 1, &transform.memory[0].get())?;
            Self { _image: Some(from), ..transform }
        } else {
            let memory = vec![zeros(runtime, count)?, zeros(runtime, count)?];
            let transform = Self::new(runtime, "to_pixels", grid, memory, bytes)?;
            set(&transform.kernel, 0, &transform.memory[0].get())?;
            set(&transform.kernel, 1, &transform.memory[1].get())?;
            transform
        };
        set(&transform.kernel, 2, &pixels)?;
        set(&transform.kernel, 3, &slices)?;
        transform.local[0] = largest_divisor(pixels as usize, group_size(runtime));
        Ok(transform)
    }

    /// What one launch moves.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Puts one launch in the queue.
    pub(crate) fn enqueue(&self) -> Result<Event, OpenClError> {
        // SAFETY: all arguments are set, to memory that this struct owns; the kernels
        // stay within it for these grids.
        let event = unsafe {
            self.runtime.queue().enqueue_nd_range_kernel(
                self.kernel.get(),
                2,
                std::ptr::null(),
                self.global.as_ptr(),
                self.local.as_ptr(),
                &[],
            )
        };
        event.naming("clEnqueueNDRangeKernel")
    }

    /// Launches it once and waits for its end, at most for `limit`.
    pub(crate) fn run(&self, limit: Duration) -> Result<Timing, OpenClError> {
        self.run_times(1, limit)
    }

    /// Launches it once and asks until it has ended, as a run does, at most for `limit`.
    pub(crate) fn run_polled(&self, limit: Duration) -> Result<Timing, OpenClError> {
        let started = Instant::now();
        let events = [(self.name, self.enqueue()?)];
        flush(&self.runtime)?;
        poll(&self.runtime, &events[0].1, self.name, limit)?;
        Timing::of(&events, started.elapsed())
    }

    /// Launches it `count` times, one behind the other, and waits for the last.
    pub(crate) fn run_times(&self, count: u32, limit: Duration) -> Result<Timing, OpenClError> {
        let started = Instant::now();
        let mut events = Vec::with_capacity(count as usize);
        for _ in 0..count {
            events.push((self.name, self.enqueue()?));
        }
        if let Some((name, last)) = events.last() {
            wait(&self.runtime, last, name, limit)?;
        }
        Timing::of(&events, started.elapsed())
    }
}

/// Threads of a work-group, a power of two.
fn group_size(runtime: &Runtime) -> usize {
    let most = runtime.device().max_work_group_size.clamp(1, STREAM_GROUP);
    1 << most.ilog2()
}

/// The largest divisor of `count` up to `most`.
fn largest_divisor(count: usize, most: usize) -> usize {
    (1..=most.min(count.max(1))).rev().find(|&divisor| count.is_multiple_of(divisor)).unwrap_or(1)
}

/// A buffer of `count` texels of zeros: pages that were never written may all be one.
fn zeros(runtime: &Runtime, count: usize) -> Result<Buffer<f32>, OpenClError> {
    runtime.buffer_of(&vec![0.0; count * TEXEL])
}

impl Exchange {
    /// A buffer of `bytes`.
    pub(crate) fn new(runtime: &Arc<Runtime>, bytes: usize) -> Result<Self, OpenClError> {
        let count = (bytes / size_of::<f32>()).max(1);
        let mut pinned = runtime.buffer_with(count, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR)?;
        let numbers = vec![0.0; count];
        runtime.fill(&mut pinned, &numbers)?;
        Ok(Self { runtime: Arc::clone(runtime), pinned, numbers })
    }

    /// What one turn moves.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(size_of_val(self.numbers.as_slice()) as u64)
    }

    /// Maps the buffer for the host and unmaps it again: the time of each, by the
    /// host's clock until it is done.
    pub(crate) fn map_and_unmap(&mut self) -> Result<[Picos; 2], OpenClError> {
        let queue = self.runtime.queue();
        let mut mapped = std::ptr::null_mut();
        let started = Instant::now();
        // SAFETY: the call is blocking and fits the buffer.
        let event = unsafe {
            queue.enqueue_map_buffer(
                &self.pinned,
                CL_BLOCKING,
                CL_MAP_READ | CL_MAP_WRITE,
                0,
                size_of_val(self.numbers.as_slice()),
                &mut mapped,
                &[],
            )
        };
        event.naming("clEnqueueMapBuffer").map(drop)?;
        let map = started.elapsed();
        let bytes = size_of_val(self.numbers.as_slice());
        let mapped =
            NonNull::new(mapped).ok_or(OpenClError::OutOfMemory { call: "clEnqueueMapBuffer", bytes })?;
        let started = Instant::now();
        // SAFETY: it is mapped there, and not accessed afterwards.
        let event = unsafe { queue.enqueue_unmap_mem_object(self.pinned.get(), mapped.as_ptr(), &[]) };
        event.naming("clEnqueueUnmapMemObject").map(drop)?;
        queue.finish().naming("clFinish")?;
        Ok([of_duration(map), of_duration(started.elapsed())])
    }

    /// Copies from the host's memory into the device's and back: the time of each.
    pub(crate) fn copy(&mut self) -> Result<[Picos; 2], OpenClError> {
        let started = Instant::now();
        self.runtime.fill(&mut self.pinned, &self.numbers)?;
        let to_device = started.elapsed();
        let started = Instant::now();
        self.runtime.fetch(&self.pinned, &mut self.numbers)?;
        Ok([of_duration(to_device), of_duration(started.elapsed())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::Device;

    const LIMIT: Duration = Duration::from_secs(30);

    /// A device, where there is one.
    fn runtime() -> Option<Arc<Runtime>> {
        let Ok(device) = Device::select("") else {
            let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
            assert!(!required, "there is no OpenCL device");
            eprintln!("skipped: there is no OpenCL device");
            return None;
        };
        Some(Runtime::new(device).unwrap())
    }

    /// Fills the first buffer with the numbers of its texels, runs, and reads the second.
    fn moved(runtime: &Arc<Runtime>, launched: &mut Launched, texels: usize) -> Vec<usize> {
        let numbers: Vec<f32> = (0..texels * TEXEL).map(|number| (number / TEXEL) as f32).collect();
        runtime.fill(&mut launched.memory[0], &numbers).unwrap();
        launched.run(LIMIT).unwrap();
        let mut result = vec![0.0_f32; texels * TEXEL];
        runtime.fetch(&launched.memory[1], &mut result).unwrap();
        result.iter().step_by(TEXEL).map(|&number| number as usize).collect()
    }

    #[test]
    fn a_stream_of_any_stride_reads_every_texel_once() {
        let Some(runtime) = runtime() else { return };
        let mut stream = Launched::stream(&runtime, 1 << 16).unwrap();
        let texels = (1 << 16) / TEXEL_BYTES;
        assert_eq!(stream.bytes(), Bytes(2 << 16));
        for stride in [1, 2, 16] {
            stream.set_stride(stride).unwrap();
            let mut read = moved(&runtime, &mut stream, texels);
            assert_eq!(read[1], stride as usize);
            read.sort_unstable();
            assert!(read.into_iter().eq(0..texels), "a stride of {stride}");
        }
    }

    #[test]
    fn a_transform_brings_the_channels_of_a_pixel_together() {
        let Some(runtime) = runtime() else { return };
        let mut transform = Launched::transform(&runtime, 10, 3, false).unwrap();
        let moved = moved(&runtime, &mut transform, 30);
        assert_eq!(moved[..6], [0, 10, 20, 1, 11, 21]);
    }

    #[test]
    fn what_is_exchanged_takes_time_in_both_directions() {
        let Some(runtime) = runtime() else { return };
        let mut exchange = Exchange::new(&runtime, 1 << 20).unwrap();
        assert_eq!(exchange.bytes(), Bytes(1 << 20));
        let times = [exchange.map_and_unmap().unwrap(), exchange.copy().unwrap()].concat();
        assert!(times.iter().all(|&time| time > Picos::ZERO), "{times:?}");
    }

    #[test]
    fn launches_behind_one_another_are_timed_one_by_one() {
        let Some(runtime) = runtime() else { return };
        let timing = Launched::spin(&runtime, 2, 8, 10).unwrap().run_times(5, LIMIT).unwrap();
        assert_eq!(timing.kernels.len(), 5);
        assert!(timing.wall >= timing.device || timing.device == Picos::ZERO);
    }

    #[test]
    fn work_groups_cover_a_grid_exactly() {
        assert_eq!([1, 7, 64, 96, 130].map(|count| largest_divisor(count, 64)), [1, 7, 64, 48, 26]);
    }
}
