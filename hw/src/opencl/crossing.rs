//! Copies between the host and a device with memory of its own, as a run makes them: in
//! the device's queue, around a kernel, until an event says that all is done.
//!
//! Responsible for: their memory and what each round takes. Not for: what that means
//! (`crate::probe`). Invariant: whatever waits has a limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coexec_sim::Picos;
use coexec_sim::plan::{Region, Span};
use coexec_sim::schedule::Memory;
use coexec_sim::workload::{Layout, Shape};

use super::error::Result;
use super::events::{flush, poll};
use super::runtime::Runtime;
use super::tensor::{Home, Tensor};
use super::timing::of_duration;
use super::traffic::BoundKernel;
use super::visible::HostVisibleMemory;

/// A tensor that host and device both hold, and a kernel that does nothing.
pub(crate) struct Crossing {
    runtime: Arc<Runtime>,
    tensor: Tensor<f32>,
    host: HostVisibleMemory<f32>,
    nothing: BoundKernel,
}

impl Crossing {
    /// A tensor of so many pixels and channels.
    pub(crate) fn new(runtime: &Arc<Runtime>, pixels: u32, channels: u32) -> Result<Self> {
        let shape = Shape::image(pixels, 1, channels);
        let count = shape.elements() as usize;
        let mut tensor = Tensor::new(runtime, shape, Layout::Buffer, Home::Device)?;
        tensor.write(&vec![0.0; count])?;
        let mut host = HostVisibleMemory::mapped(runtime, count)?;
        host.write(&vec![0.0; count]);
        let nothing = BoundKernel::spin(runtime, 1, 1, 1)?;
        Ok(Self { runtime: Arc::clone(runtime), tensor, host, nothing })
    }

    /// One round, in which the first `channels` of each pixel are copied, to the device before
    /// the kernel and to the host behind it, as far as they go `to` either: what it took by the
    /// host's clock until the host knew of the end, and until all was in the queue.
    pub(crate) fn round(&mut self, to: &[Memory], channels: u32, limit: Duration) -> Result<[Picos; 2]> {
        let shape = self.tensor.shape();
        let part = Region { channels: Span::new(0, channels.min(shape.channels)), ..Region::of(shape) };
        let first = self.host.as_ptr();
        let started = Instant::now();
        if to.contains(&Memory::Gpu) {
            // SAFETY: the host's memory holds as many elements as the tensor, lives as long,
            // and nobody writes it until this returns, which waits for the copy; where that
            // fails, the runtime is given up and no memory is released.
            unsafe { self.tensor.enqueue_copy(part, first, Memory::Gpu) }?;
        }
        let mut last = self.nothing.enqueue()?;
        if to.contains(&Memory::Host) {
            // SAFETY: as above; nobody reads it either.
            last = unsafe { self.tensor.enqueue_copy(part, first, Memory::Host) }?;
        }
        flush(&self.runtime)?;
        let queued = started.elapsed();
        poll(&self.runtime, &last, "a copy", limit)?;
        Ok([started.elapsed(), queued].map(of_duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_there_comes_back() {
        let Some(device) = crate::tests::device() else { return };
        let runtime = Runtime::new(device).unwrap();
        let limit = Duration::from_secs(30);
        let mut crossing = Crossing::new(&runtime, 3, 4).unwrap();
        let numbers: Vec<f32> = (0..12_u8).map(f32::from).collect();
        crossing.host.write(&numbers);
        let [known, queued] = crossing.round(&[Memory::Gpu], 2, limit).unwrap();
        assert!(queued > Picos::ZERO && known >= queued);
        assert_eq!(
            crossing.tensor.read().unwrap(),
            [0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0, 9.0, 0.0, 0.0]
        );
        crossing.host.write(&[7.0; 12]);
        crossing.round(&[Memory::Host], 4, limit).unwrap();
        let mut back = vec![0.0; 12];
        crossing.host.read(&mut back);
        assert_eq!(back, vec![0.0, 1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 8.0, 9.0, 0.0, 0.0]);
    }
}
