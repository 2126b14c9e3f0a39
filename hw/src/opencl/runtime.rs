//! A device ready to compute: its context, its queues, and the programs built for it.
//!
//! Invariants: a program is built once per set of options; commands are in flight on one queue only; a
//! device that missed a time limit is never waited for again, not even when the runtime is dropped.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use coexec_sim::workload::{DataType, Layout};
use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, CommandQueue};
use opencl3::context::Context;
use opencl3::error_codes::CL_BUILD_PROGRAM_FAILURE;
use opencl3::event::Event;
use opencl3::kernel::Kernel;
use opencl3::memory::{
    Buffer, CL_FLOAT, CL_HALF_FLOAT, CL_MEM_OBJECT_IMAGE2D, CL_MEM_READ_WRITE, CL_RGBA, Image, cl_image_desc,
    cl_image_format,
};
use opencl3::program::Program;
use opencl3::types::{CL_BLOCKING, cl_device_id};

use super::{CHANNELS, Description, Device, Naming, OpenClError, Result, Source};
use crate::cpu::Element;
use crate::lock::lock;

/// A device with a context, its in-order queues, and its built programs.
pub struct Runtime {
    device: Device,
    context: ManuallyDrop<Context>,
    /// The queue whose commands have no time stamps, and the one whose commands have.
    queues: ManuallyDrop<[CommandQueue; 2]>,
    /// Whether commands have time stamps.
    stamps: AtomicBool,
    programs: Mutex<HashMap<Source, Arc<Program>>>,
    lost: AtomicBool,
}

// SAFETY: OpenCL objects may be used by several threads at once, except kernels while their
// arguments are set, and the runtime holds no kernels; programs are only read.
unsafe impl Sync for Runtime {}
// SAFETY: as above; no object is bound to the thread that created it.
unsafe impl Send for Runtime {}

impl Runtime {
    /// Creates a context and queues for `device`.
    ///
    /// # Errors
    /// Where the driver cannot create them.
    pub fn new(device: Device) -> Result<Arc<Self>> {
        let context = Context::from_device(&device.id).naming("clCreateContext")?;
        // The call of OpenCL 1.x, which later drivers keep: older ones have no other.
        #[allow(deprecated, reason = "works on every version")]
        // SAFETY: context and device are valid and belong together.
        let queue = |properties| unsafe { CommandQueue::create(&context, device.id.id(), properties) };
        let queues = [queue(0), queue(CL_QUEUE_PROFILING_ENABLE)];
        let [without, with] = queues.map(|queue| queue.naming("clCreateCommandQueue"));
        let queues = ManuallyDrop::new([without?, with?]);
        Ok(Arc::new(Self {
            device,
            context: ManuallyDrop::new(context),
            queues,
            stamps: AtomicBool::new(true),
            programs: Mutex::default(),
            lost: AtomicBool::new(false),
        }))
    }

    /// Another context and queue for the same device.
    pub(crate) fn another(&self) -> Result<Arc<Self>> {
        Self::new(self.device.clone())
    }

    /// The device's properties as its driver reports them.
    pub fn device(&self) -> &Description {
        self.device.description()
    }

    /// The layout of activations for kernels that prefer `wanted`: sliced buffers where the device
    /// has no images.
    pub(crate) fn layout(&self, wanted: Layout) -> Layout {
        if wanted == Layout::Image && self.device().images.is_none() { Layout::SlicedBuffer } else { wanted }
    }

    pub(crate) fn device_id(&self) -> cl_device_id {
        self.device.id.id()
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// The queue in use.
    pub(crate) fn queue(&self) -> &CommandQueue {
        &self.queues[usize::from(self.stamps.load(Ordering::Relaxed))]
    }

    /// Sets whether commands enqueued from now on have time stamps.
    fn stamp(&self, stamps: bool) -> Result<()> {
        let is_other = self.stamps.load(Ordering::Relaxed) != stamps;
        let finished = if is_other && !self.is_lost() { self.queue().finish() } else { Ok(()) };
        self.stamps.store(stamps, Ordering::Relaxed);
        finished.naming("clFinish")
    }

    /// Marks the device as lost: nothing waits for it again.
    pub(crate) fn give_up(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Whether the device missed a time limit.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Creates the kernel `entry` of a program, which is built on first use.
    pub(crate) fn kernel(&self, source: &Source, entry: &'static str) -> Result<Kernel> {
        let program = self.program(source)?;
        Kernel::create(&program, entry).naming("clCreateKernel")
    }

    fn program(&self, source: &Source) -> Result<Arc<Program>> {
        let mut programs = lock(&self.programs);
        if let Some(program) = programs.get(source) {
            return Ok(Arc::clone(program));
        }
        let program = Arc::new(self.build(source)?);
        programs.insert(source.clone(), Arc::clone(&program));
        Ok(program)
    }

    fn build(&self, source: &Source) -> Result<Program> {
        let device = self.device_id();
        let mut program =
            Program::create_from_source(&self.context, &source.text()).naming("clCreateProgramWithSource")?;
        match program.build(&[device], &source.options) {
            Ok(()) => Ok(program),
            Err(code) if code.0 == CL_BUILD_PROGRAM_FAILURE => Err(OpenClError::Build {
                kernel: source.name,
                options: source.options.clone(),
                log: program.get_build_log(device).unwrap_or_default().trim().to_owned(),
            }),
            Err(code) => Err(code).naming("clBuildProgram"),
        }
    }

    /// A buffer initialised with `content`.
    pub(crate) fn buffer_of<T: Copy>(&self, content: &[T]) -> Result<Buffer<T>> {
        let mut buffer = self.buffer(content.len())?;
        self.fill(&mut buffer, content)?;
        Ok(buffer)
    }

    /// An uninitialised buffer of `count` elements.
    pub(crate) fn buffer<T>(&self, count: usize) -> Result<Buffer<T>> {
        self.buffer_with(count, CL_MEM_READ_WRITE)
    }

    /// An uninitialised buffer of `count` elements with the given memory flags.
    pub(crate) fn buffer_with<T>(&self, count: usize, flags: u64) -> Result<Buffer<T>> {
        let bytes = count.saturating_mul(size_of::<T>());
        if bytes as u64 > self.device().max_allocation_bytes {
            return Err(OpenClError::OutOfMemory { call: "clCreateBuffer", bytes });
        }
        // SAFETY: the context is valid, and no host memory is passed.
        let buffer = unsafe { Buffer::create(&self.context, flags, count.max(1), std::ptr::null_mut()) };
        buffer.allocating("clCreateBuffer", bytes)
    }

    /// An uninitialised image of four-channel texels.
    pub(crate) fn image<T: Element>(&self, width: usize, height: usize) -> Result<Image> {
        let refused = |most: String| OpenClError::Image { width, height, most };
        let [widest, highest] =
            self.device().images.ok_or_else(|| refused("none: the device has no images".to_owned()))?;
        if width > widest || height > highest {
            return Err(refused(format!("{widest}x{highest}")));
        }
        let channel = if T::DATA_TYPE == DataType::F16 { CL_HALF_FLOAT } else { CL_FLOAT };
        let format = cl_image_format { image_channel_order: CL_RGBA, image_channel_data_type: channel };
        let description = cl_image_desc {
            image_type: CL_MEM_OBJECT_IMAGE2D,
            image_width: width,
            image_height: height,
            image_depth: 1,
            image_array_size: 1,
            image_row_pitch: 0,
            image_slice_pitch: 0,
            num_mip_levels: 0,
            num_samples: 0,
            buffer: std::ptr::null_mut(),
        };
        // SAFETY: the context is valid, and no host memory is passed.
        let image = unsafe {
            Image::create(
                &self.context,
                CL_MEM_READ_WRITE,
                &raw const format,
                &raw const description,
                std::ptr::null_mut(),
            )
        };
        image.allocating("clCreateImage", width * height * CHANNELS * size_of::<T>())
    }

    /// Copies `content` to the start of `buffer`; blocks.
    pub(crate) fn fill<T: Copy>(&self, buffer: &mut Buffer<T>, content: &[T]) -> Result<()> {
        if content.is_empty() {
            return Ok(());
        }
        // SAFETY: the copy is blocking, so `content` outlives it; the driver checks that it fits
        // into the buffer.
        let event = unsafe { self.queue().enqueue_write_buffer(buffer, CL_BLOCKING, 0, content, &[]) };
        event.allocating("clEnqueueWriteBuffer", size_of_val(content)).map(|_: Event| ())
    }

    /// Copies the start of `buffer` to `content`; blocks.
    pub(crate) fn fetch<T: Copy>(&self, buffer: &Buffer<T>, content: &mut [T]) -> Result<()> {
        if content.is_empty() {
            return Ok(());
        }
        // SAFETY: the copy is blocking, so `content` outlives it; the driver checks that the buffer
        // is large enough; every bit pattern is a valid number.
        let event = unsafe { self.queue().enqueue_read_buffer(buffer, CL_BLOCKING, 0, content, &[]) };
        event.naming("clEnqueueReadBuffer").map(|_: Event| ())
    }
}

/// Does `work`, whose commands on `runtime` have time stamps only if `stamps`. NVIDIA's driver takes
/// twice as long to enqueue a launch with them, 20 instead of 10 us, which frameworks do not spend.
///
/// # Errors
/// Where `work` fails, or the device.
pub(crate) fn stamping<R, E: From<OpenClError>>(
    runtime: Option<&Runtime>,
    stamps: bool,
    work: impl FnOnce() -> Result<R, E>,
) -> Result<R, E> {
    let Some(runtime) = runtime else { return work() };
    runtime.stamp(stamps)?;
    let done = work();
    let after = runtime.stamp(true);
    let done = done?;
    after?;
    Ok(done)
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.is_lost() {
            // Releasing the queue could wait for the hung kernel.
            return;
        }
        // SAFETY: both are dropped only here, and not used afterwards.
        unsafe {
            ManuallyDrop::drop(&mut self.queues);
            ManuallyDrop::drop(&mut self.context);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_does_not_compile_is_shown_with_the_compiler_s_words() {
        let Some((_lock, device)) = crate::tests::device() else { return };
        let runtime = Runtime::new(device).unwrap();
        let error = runtime
            .kernel(&Source::new("broken", "__kernel void broken(int undeclared) { missing(); }"), "broken");
        let Err(OpenClError::Build { kernel, log, .. }) = error else { panic!("it was built") };
        assert_eq!(kernel, "broken");
        assert!(log.contains("missing"), "{log}");
        assert!(runtime.kernel(&Source::new("empty", "__kernel void one() {}"), "two").is_err());
    }
}
