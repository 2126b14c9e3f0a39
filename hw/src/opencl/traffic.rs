//! Kernels and commands for micro-benchmarks: they move bytes, or do nothing. Copies between the
//! host and a device with memory of its own are enqueued as in a run: around a kernel, with an
//! event to wait for at the end.
//!
//! Responsible for: their memory, launches and times. Not for: how often they run, or what their
//! times mean (`crate::probe`). Invariant: every wait has a limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::{Bytes, Picos};
use opencl3::event::Event;
use opencl3::memory::{Buffer, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE};

use super::step::{Argument, LaunchGrid, Step};
use super::{
    Home, HostVisibleMemory, Queued, Result, Runtime, Signals, Source, Tensor, Timing, duration_to_picos,
    finish, flush, map, poll, stamping, unmap,
};
use coexec_sim::plan::{Region, Span};
use coexec_sim::schedule::Memory;
use coexec_sim::workload::{Layout, Shape};

/// Channels of a texel.
const TEXEL: usize = 4;
/// Bytes of a texel of four `f32`.
const TEXEL_BYTES: usize = TEXEL * size_of::<f32>();
/// Largest work-group of a streaming kernel: whole waves on every GPU, and few groups to start
/// where a core runs one after the other.
const STREAM_GROUP: usize = 256;

/// Time limit of a launch or a copy.
const LIMIT: Duration = Duration::from_secs(30);
/// A kernel with its arguments set.
pub(crate) struct BoundKernel {
    runtime: Arc<Runtime>,
    step: Step<f32>,
    bytes: Bytes,
}

/// A buffer that the host maps and unmaps.
pub(crate) struct MappedBuffer {
    runtime: Arc<Runtime>,
    pinned: Buffer<f32>,
    count: usize,
}

impl BoundKernel {
    /// A kernel that reads the texels of `bytes` (rounded up to a power of two) in order and writes
    /// as many, without arithmetic. It moves twice the bytes.
    pub(crate) fn stream(runtime: &Arc<Runtime>, bytes: usize) -> Result<Self> {
        let group = group_size(runtime);
        let count = (bytes / TEXEL_BYTES).next_power_of_two().max(group);
        let source = Source::new("traffic", include_str!("kernels/traffic.cl"));
        // Pages that were never written may all map to one physical page.
        let zeros = vec![0.0; count * TEXEL];
        let [from, to] = [runtime.buffer_of(&zeros)?, runtime.buffer_of(&zeros)?].map(Arc::new);
        let arguments = vec![Argument::Buffer(from), Argument::Buffer(to), Argument::numbers([0])];
        let step = Step::new(runtime, (source, None), "stream", in_groups(count, group), arguments)?;
        let bytes = Bytes((2 * count * TEXEL_BYTES) as u64);
        Ok(Self { runtime: Arc::clone(runtime), step, bytes })
    }

    /// Makes a streaming kernel perform `work` multiply-adds per texel.
    pub(crate) fn set_work(&mut self, work: u32) -> Result<()> {
        self.step.kernel.set(2, &[work])
    }

    /// A compute-only kernel of `groups` groups of `threads` threads, each with `steps` dependent
    /// multiply-adds.
    pub(crate) fn spin(runtime: &Arc<Runtime>, groups: usize, threads: usize, steps: u32) -> Result<Self> {
        Self::announcing(runtime, [groups, threads], steps, None)
    }

    /// As [`Self::spin`]; announces its end through `signals`, if any.
    pub(crate) fn announcing(
        runtime: &Arc<Runtime>,
        [groups, threads]: [usize; 2],
        steps: u32,
        signals: Option<&Signals>,
    ) -> Result<Self> {
        let source = Source::new("busy", include_str!("kernels/busy.cl"));
        let all = groups * threads;
        let arguments = vec![Argument::Buffer(Arc::new(runtime.buffer(all)?)), Argument::numbers([steps])];
        let step = Step::new(runtime, (source, signals), "busy", in_groups(all, threads), arguments)?;
        Ok(Self { runtime: Arc::clone(runtime), step, bytes: Bytes::ZERO })
    }

    /// Bytes that one launch moves.
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// Enqueues one launch.
    pub(crate) fn enqueue(&self) -> Result<Event> {
        self.step.kernel.enqueue(&self.runtime)
    }

    /// Enqueues one launch that announces `number` at its end, if it announces at all.
    pub(crate) fn enqueue_announcing(&mut self, number: u32) -> Result<Event> {
        self.step.kernel.announce(number)?;
        self.enqueue()
    }

    /// Launches once and waits for the end.
    pub(crate) fn run(&self) -> Result<Timing> {
        self.run_times(1)
    }

    /// Launches once and polls the event until the end, as a run does.
    pub(crate) fn run_polled(&self) -> Result<Timing> {
        self.queued(1)?.poll(LIMIT)
    }

    /// Launches `count` times back to back, and waits for the last.
    pub(crate) fn run_times(&self, count: u32) -> Result<Timing> {
        self.queued(count)?.wait(LIMIT)
    }

    fn queued(&self, count: u32) -> Result<Queued> {
        Queued::new(&self.runtime, self.step.kernel.name, || (0..count).map(|_| self.enqueue()).collect())
    }
}

/// Threads of a work-group, a power of two.
fn group_size(runtime: &Runtime) -> usize {
    let most = runtime.device().max_work_group_size.clamp(1, STREAM_GROUP);
    1 << most.ilog2()
}

/// A row of `threads` threads in groups of `group`.
fn in_groups(threads: usize, group: usize) -> LaunchGrid {
    let [threads, work_group] = [threads, group].map(|count| [count as u32, 1, 1]);
    LaunchGrid { threads, work_group }
}

impl MappedBuffer {
    /// A buffer of `bytes`.
    pub(crate) fn new(runtime: &Arc<Runtime>, bytes: usize) -> Result<Self> {
        let count = (bytes / size_of::<f32>()).max(1);
        let mut pinned = runtime.buffer_with(count, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR)?;
        runtime.fill(&mut pinned, &vec![0.0; count])?;
        Ok(Self { runtime: Arc::clone(runtime), pinned, count })
    }

    /// Bytes that one mapping makes visible.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes((self.count * size_of::<f32>()) as u64)
    }

    /// Maps the buffer for the host and unmaps it again; returns the time of each until it is done,
    /// on the host's clock.
    pub(crate) fn map_and_unmap(&self) -> Result<[Picos; 2]> {
        let started = Instant::now();
        let mapped = map(&self.runtime, &self.pinned, self.count)?;
        let map = started.elapsed();
        let started = Instant::now();
        unmap(&self.runtime, &self.pinned, mapped)?;
        finish(&self.runtime)?;
        Ok([duration_to_picos(map), duration_to_picos(started.elapsed())])
    }
}

/// A tensor in the memory of both host and device, and an empty kernel between the copies.
pub(crate) struct DeviceCopies {
    runtime: Arc<Runtime>,
    tensor: Tensor<f32>,
    host: HostVisibleMemory<f32>,
    empty_kernel: BoundKernel,
}

impl DeviceCopies {
    /// A tensor of `pixels` pixels of `channels` channels.
    pub(crate) fn new(runtime: &Arc<Runtime>, pixels: u32, channels: u32) -> Result<Self> {
        let shape = Shape::image(pixels, 1, channels);
        let count = shape.elements() as usize;
        let mut tensor = Tensor::new(runtime, shape, Layout::Buffer, Home::Device)?;
        tensor.write(&vec![0.0; count])?;
        let mut host = HostVisibleMemory::mapped(runtime, count)?;
        host.write(&vec![0.0; count]);
        let empty_kernel = BoundKernel::spin(runtime, 1, 1, 1)?;
        Ok(Self { runtime: Arc::clone(runtime), tensor, host, empty_kernel })
    }

    /// One round over the first `channels` channels of each pixel. They are copied to the device
    /// before the kernel if `to` contains the GPU's memory, and to the host after it if `to`
    /// contains the host's. Returns the time on the host's clock until the host learned of the end,
    /// and until everything was enqueued.
    pub(crate) fn round(&mut self, to: &[Memory], channels: u32) -> Result<[Picos; 2]> {
        let shape = self.tensor.shape();
        let part = Region { channels: Span::new(0, channels.min(shape.channels)), ..Region::of(shape) };
        let first = self.host.as_ptr();
        // As in a run.
        stamping(Some(&self.runtime), false, || {
            let started = Instant::now();
            if to.contains(&Memory::Gpu) {
                // SAFETY: the host's memory holds as many elements as the tensor. Only these copies
                // access it, and it is unmapped after them, even if this function fails; the memory of a
                // lost device is never released.
                unsafe { self.tensor.enqueue_copy(part, first, Memory::Gpu) }?;
            }
            let mut last = self.empty_kernel.enqueue()?;
            if to.contains(&Memory::Host) {
                // SAFETY: as above; nothing else reads it before this function has succeeded.
                last = unsafe { self.tensor.enqueue_copy(part, first, Memory::Host) }?;
            }
            flush(&self.runtime)?;
            let queued = started.elapsed();
            poll(&self.runtime, &last, "a copy", LIMIT)?;
            Ok([started.elapsed(), queued].map(duration_to_picos))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::DeviceLock;

    /// A runtime on the test device, if there is one.
    fn runtime() -> Option<(DeviceLock, Arc<Runtime>)> {
        crate::tests::device().map(|(lock, device)| (lock, Runtime::new(device).unwrap()))
    }

    fn buffer(launched: &mut BoundKernel, argument: usize) -> &mut Buffer<f32> {
        let Argument::Buffer(buffer) = &mut launched.step.arguments[argument] else {
            panic!("it is a buffer")
        };
        Arc::get_mut(buffer).unwrap()
    }

    /// Sets each texel of the first buffer to its index, runs, and reads the second buffer.
    fn moved(runtime: &Arc<Runtime>, launched: &mut BoundKernel, texels: usize) -> Vec<usize> {
        let numbers: Vec<f32> = (0..texels * TEXEL).map(|number| (number / TEXEL) as f32).collect();
        runtime.fill(buffer(launched, 0), &numbers).unwrap();
        launched.run().unwrap();
        let mut result = vec![0.0_f32; texels * TEXEL];
        runtime.fetch(buffer(launched, 1), &mut result).unwrap();
        result.iter().step_by(TEXEL).map(|&number| number as usize).collect()
    }

    #[test]
    fn a_stream_reads_every_texel_once() {
        let Some((_lock, runtime)) = runtime() else { return };
        let mut stream = BoundKernel::stream(&runtime, 1 << 16).unwrap();
        let texels = (1 << 16) / TEXEL_BYTES;
        assert_eq!(stream.bytes(), Bytes(2 << 16));
        assert!(moved(&runtime, &mut stream, texels).into_iter().eq(0..texels));
    }

    #[test]
    fn mapping_takes_time_in_both_directions() {
        let Some((_lock, runtime)) = runtime() else { return };
        let buffer = MappedBuffer::new(&runtime, 1 << 20).unwrap();
        assert_eq!(buffer.bytes(), Bytes(1 << 20));
        let times = buffer.map_and_unmap().unwrap();
        assert!(times.iter().all(|&time| time > Picos::ZERO), "{times:?}");
    }

    #[test]
    fn consecutive_launches_are_timed_individually() {
        let Some((_lock, runtime)) = runtime() else { return };
        let timing = BoundKernel::spin(&runtime, 2, 8, 10).unwrap().run_times(5).unwrap();
        assert_eq!(timing.kernels.len(), 5);
        assert!(timing.wall >= timing.device || timing.device == Picos::ZERO);
    }

    #[test]
    fn copied_numbers_read_back() {
        let Some((_lock, runtime)) = runtime() else { return };
        let mut copies = DeviceCopies::new(&runtime, 3, 4).unwrap();
        let numbers: Vec<f32> = (0..12_u8).map(f32::from).collect();
        copies.host.write(&numbers);
        let [known, queued] = copies.round(&[Memory::Gpu], 2).unwrap();
        assert!(queued > Picos::ZERO && known >= queued);
        assert_eq!(
            copies.tensor.read().unwrap(),
            [0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0, 9.0, 0.0, 0.0]
        );
        copies.host.write(&[7.0; 12]);
        copies.round(&[Memory::Host], 4).unwrap();
        let mut back = vec![0.0; 12];
        copies.host.read(&mut back);
        assert_eq!(back, vec![0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0, 9.0, 0.0, 0.0]);
    }
}
