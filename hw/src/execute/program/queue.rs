//! What a run puts into the device's queue, and when.
//!
//! Responsible for: filling the queue as far as the host may be ahead, kernels that
//! announce themselves, copies. Not for: the host's side (`super`), or the order
//! (`super::super::schedule`).

use std::rc::Rc;

use coexec_sim::units::Picos;

use super::Program;
use crate::cpu::Element;
use crate::execute::ExecuteError;
use crate::execute::schedule::Queued;
use crate::opencl::OpenClError;
use crate::opencl::events::{Event, stamps};

/// How far a run has come.
#[derive(Default)]
pub(super) struct Progress {
    queued: usize,
    /// What the host has done of its schedule.
    pub(super) hosted: usize,
    pub(super) signalled: u32,
    /// Whether other runs go on meanwhile: what one waits for must not hold them up.
    pub(super) is_one_of_several: bool,
    /// Whether the latest kernel announces itself, for an announcement yet to come.
    is_announced: bool,
    /// First and latest kernel.
    first: Option<Rc<Event>>,
    latest: Option<Rc<Event>>,
    /// Latest command that an announcement may follow.
    last: Option<Rc<Event>>,
}

impl Progress {
    /// Of a run beside which others go on.
    pub(super) fn of_several() -> Self {
        Self { is_one_of_several: true, ..Self::default() }
    }

    /// From the first kernel's start to the latest one's end, where there are any. An event
    /// behind a flag that was seen may not tell yet.
    pub(super) fn kernels(&self) -> Option<Result<Picos, OpenClError>> {
        let (first, latest) = (self.first.as_ref()?, self.latest.as_ref()?);
        let span = || {
            let ([_, started, _], [.., ended]) = (stamps(first)?, stamps(latest)?);
            Ok(Picos::from_nanos(ended.saturating_sub(started) as f64))
        };
        Some(span())
    }
}

impl<T: Element> Program<T> {
    /// Fills the device's queue as far as the host may be ahead.
    pub(super) fn queue(&mut self, progress: &mut Progress) -> Result<(), ExecuteError> {
        let Some(link) = &self.link else { return Ok(()) };
        // What the host has yet to copy cannot be queued before it is computed, and mapping
        // waits for all that is queued.
        let waits_for_nothing = self.schedule.copies() || self.maps() || progress.is_one_of_several;
        let ahead = progress.signalled + if waits_for_nothing { 0 } else { link.ahead() };
        let before = progress.queued;
        while let Some(&item) = self.schedule.queue.get(progress.queued) {
            if matches!(item, Queued::Await(signal) if signal > ahead) {
                break;
            }
            progress.queued += 1;
            match item {
                Queued::Await(signal) => self.hold(signal, progress)?,
                Queued::Launch(stage) => self.launch_part(stage, progress)?,
                Queued::Upload(tensor) => self.upload(tensor)?,
                Queued::Fetch(stage) => progress.last = self.fetch(stage)?,
                Queued::Announce(announcement) => self.announce(announcement, ahead, progress)?,
            }
        }
        match &self.link {
            Some(link) if progress.queued > before => link.flush(),
            _ => Ok(()),
        }
    }

    fn hold(&mut self, signal: u32, progress: &Progress) -> Result<(), ExecuteError> {
        match &mut self.link {
            // What is queued after the signal need not wait for it.
            Some(link) if signal > progress.signalled => link.hold(signal),
            _ => Ok(()),
        }
    }

    fn announce(
        &mut self,
        announcement: u32,
        ahead: u32,
        progress: &mut Progress,
    ) -> Result<(), ExecuteError> {
        let next = self.schedule.queue.get(progress.queued);
        let awaited = match next {
            Some(&Queued::Await(signal)) if signal <= ahead => {
                progress.queued += 1;
                Some(signal).filter(|&signal| signal > progress.signalled)
            }
            _ => None,
        };
        let Some(link) = &mut self.link else { return Ok(()) };
        let is_made = std::mem::take(&mut progress.is_announced);
        link.announce((announcement, is_made), awaited, progress.last.clone())
    }

    fn launch_part(&mut self, stage: usize, progress: &mut Progress) -> Result<(), ExecuteError> {
        let Some(gpu) = &self.operations[stage].gpu else { return Ok(()) };
        let number = match (self.schedule.queue.get(progress.queued), &self.link) {
            (Some(&Queued::Announce(announcement)), Some(link)) if gpu.prepared.announces() => {
                link.number_of(announcement)
            }
            _ => None,
        };
        progress.is_announced = number.is_some();
        for (_, event) in gpu.prepared.enqueue_announcing(number.unwrap_or(0))? {
            let event = Rc::new(event);
            progress.first.get_or_insert_with(|| Rc::clone(&event));
            progress.latest = Some(Rc::clone(&event));
            progress.last = Some(event);
        }
        Ok(())
    }

    /// Queues a copy of what the host computed of a tensor, or of all of an input.
    fn upload(&mut self, tensor: usize) -> Result<(), ExecuteError> {
        let place = &self.places[tensor];
        let of_host = self.operations.get(tensor).and_then(|operation| operation.cpu.as_ref());
        let is_cut = self.operations.get(tensor).is_some_and(|operation| operation.gpu.is_some());
        let share = of_host.filter(|_| is_cut).map(|cpu| cpu.portion.share.clone());
        let part = share.or_else(|| place.whole());
        if let (Some(device), Some(host), Some(part)) = (place.device(), place.host_ptr(), part) {
            // SAFETY: the host's tensor lives as long as the program; its part was computed
            // before the host's signal, behind which this is queued, and is not computed
            // again in this run.
            unsafe { device.enqueue_write_part(&part, host) }?;
        }
        Ok(())
    }

    /// Queues a copy of what the device computed of a tensor.
    fn fetch(&mut self, stage: usize) -> Result<Option<Rc<Event>>, ExecuteError> {
        let (place, operation) = (&self.places[stage], &self.operations[stage]);
        let of_device = operation.gpu.as_ref().filter(|_| operation.cpu.is_some());
        let part = of_device.map(|gpu| gpu.portion.share.clone()).or_else(|| place.whole());
        let (Some(device), Some(host), Some(part)) = (place.device(), place.host_ptr(), part) else {
            return Ok(None);
        };
        // SAFETY: the host's tensor lives as long as the program, and the host reads this
        // part only after it has waited for the announcement behind the copy.
        let event = unsafe { device.enqueue_read_part(&part, host) }?;
        Ok(Some(Rc::new(event)))
    }
}
