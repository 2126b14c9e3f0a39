//! Copies between the host and a device with memory of its own, as a run makes them: in
//! the device's queue, around a kernel, until an event says that all is done.
//!
//! Responsible for: their memory and what each round takes. Not for: what that means
//! (`crate::probe`). Invariant: whatever waits has a limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::units::Picos;
use coexec_sim::workload::{Layout, Shape};

use super::error::OpenClError;
use super::events::{flush, poll};
use super::mapped::MappedMemory;
use super::runtime::Runtime;
use super::tensor::{Home, Tensor};
use super::timing::of_duration;
use super::traffic::Launched;
use crate::operands::Part;

/// A tensor that host and device both hold, and a kernel that does nothing.
pub(crate) struct Crossing {
    runtime: Arc<Runtime>,
    tensor: Tensor<f32>,
    host: MappedMemory<f32>,
    nothing: Launched,
}

/// What is copied around the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// To the device, before it.
    pub(crate) there: bool,
    /// To the host, behind it.
    pub(crate) back: bool,
}

/// What one round took by the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Until all was in the queue.
    pub(crate) queued: Picos,
    /// Until the host knew of the end.
    pub(crate) known: Picos,
}

impl Crossing {
    /// A tensor of so many pixels and channels.
    pub(crate) fn new(runtime: &Arc<Runtime>, pixels: u32, channels: u32) -> Result<Self, OpenClError> {
        let shape = Shape::image(pixels, 1, channels);
        let count = shape.elements() as usize;
        let mut tensor = Tensor::new(runtime, shape, Layout::Buffer, Home::Device)?;
        tensor.write(&vec![0.0; count])?;
        let mut host = MappedMemory::new(runtime, count)?;
        host.write(&vec![0.0; count]);
        let nothing = Launched::spin(runtime, 1, 1, 1)?;
        Ok(Self { runtime: Arc::clone(runtime), tensor, host, nothing })
    }

    /// One round, in which the first `channels` of each pixel are copied.
    pub(crate) fn round(&mut self, way: Way, channels: u32, limit: Duration) -> Result<Round, OpenClError> {
        let shape = self.tensor.shape();
        let part = Part { channels: 0..channels.min(shape.channels), lines: 0..shape.height };
        let first = self.host.as_ptr();
        let started = Instant::now();
        if way.there {
            // SAFETY: the host's memory holds as many elements as the tensor, lives as long,
            // and nobody writes it until this returns, which waits for the copy; where that
            // fails, the runtime is given up and no memory is released.
            unsafe { self.tensor.enqueue_write_part(&part, first) }?;
        }
        let mut last = self.nothing.enqueue()?;
        if way.back {
            // SAFETY: as above; nobody reads it either.
            last = unsafe { self.tensor.enqueue_read_part(&part, first) }?;
        }
        flush(&self.runtime)?;
        let queued = started.elapsed();
        poll(&self.runtime, &last, "a copy", limit)?;
        Ok(Round { queued: of_duration(queued), known: of_duration(started.elapsed()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opencl::Device;

    #[test]
    fn what_goes_there_comes_back() {
        let Ok(device) = Device::select("") else {
            let required = std::env::var("COEXEC_REQUIRE_OPENCL").is_ok_and(|value| value == "1");
            assert!(!required, "there is no OpenCL device");
            eprintln!("skipped: there is no OpenCL device");
            return;
        };
        let runtime = Runtime::new(device).unwrap();
        let limit = Duration::from_secs(30);
        let mut crossing = Crossing::new(&runtime, 3, 4).unwrap();
        let numbers: Vec<f32> = (0..12_u8).map(f32::from).collect();
        crossing.host.write(&numbers);
        let round = crossing.round(Way { there: true, back: false }, 2, limit).unwrap();
        assert!(round.queued > Picos::ZERO && round.known >= round.queued);
        assert_eq!(
            crossing.tensor.read().unwrap(),
            [0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0, 9.0, 0.0, 0.0]
        );
        crossing.host.write(&[7.0; 12]);
        crossing.round(Way { there: false, back: true }, 4, limit).unwrap();
        let mut back = vec![0.0; 12];
        crossing.host.read(&mut back);
        assert_eq!(back, vec![0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0, 9.0, 0.0, 0.0]);
    }
}
