//! Hand-overs in one direction: what the device is done with, and what the host is.
//!
//! Both sides count: a number that was announced or signalled stands for all before it,
//! so neither side has to look at each.

use std::sync::atomic::Ordering;

use super::{Event, Signals, Word, enqueue, set};
use crate::opencl::error::OpenClError;

impl Signals {
    /// Queues a kernel that tells the host of number `announced` of the device and then
    /// keeps the queue until the host has signalled `awaited`. Numbers count from 1.
    pub(crate) fn enqueue_hand_over(
        &mut self,
        announced: Option<u32>,
        awaited: Option<u32>,
    ) -> Result<Event, OpenClError> {
        self.set_words(&self.hand_over, 0)?;
        set(&self.hand_over, 1, &announced.unwrap_or(0))?;
        set(&self.hand_over, 2, &awaited.unwrap_or(0))?;
        set(&self.hand_over, 3, &self.spins)?;
        enqueue(&self.runtime, &self.hand_over, 1, 1, &[])
    }

    /// Whether the device has announced `number`.
    pub(crate) fn device_announced(&self, number: u32) -> bool {
        self.memory.word(Word::Device).load(Ordering::SeqCst) >= number
    }

    /// Tells the device of number `number` of the host.
    pub(crate) fn signal(&self, number: u32) {
        self.memory.word(Word::Host).store(number, Ordering::SeqCst);
    }
}
