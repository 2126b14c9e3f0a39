//! What a run puts into the device's queue, and when; and a run that goes on step by step, while
//! others do.
//!
//! Responsible for: filling the queue as far as the host may be ahead, kernels that
//! announce themselves, copies; going on without waiting. Not for: the host's side (`super`), the order
//! (`super::super::meetings`), or who goes on next (`super::super::stream`). Invariant: the
//! device's queue holds nothing of one of several runs that waits for the host.

use std::rc::Rc;
use std::time::Instant;

use coexec_sim::schedule::{CommandId, Memory, Schedule, Tensor, What};
use coexec_sim::{Picos, Region};

use crate::cpu::Element;
use crate::execute::{Action, Home, Machine, Program, Result, Side};
use crate::opencl::events::Event;
use crate::opencl::{OpenClError, between, stamps};

/// How far a run has come.
#[derive(Default)]
pub(in crate::execute) struct Progress {
    queued: usize,
    /// What the host has done of its steps.
    pub(super) hosted: usize,
    pub(super) signalled: u32,
    /// Whether other runs go on meanwhile: what one waits for must not hold them up.
    pub(super) is_one_of_several: bool,
    /// Whether the latest kernel announces itself, for an announcement yet to come.
    is_announced: bool,
    /// The device's commands so far: the first and the last event of each.
    pub(in crate::execute) on_device: Vec<(CommandId, [Rc<Event>; 2])>,
    /// The host's commands so far: the start and the end of each.
    pub(in crate::execute) on_host: Vec<(CommandId, [Instant; 2])>,
}

/// What became of a run that was to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::execute) enum Going {
    /// It did something.
    On,
    /// It waits for the device.
    Waiting,
    /// It has ended.
    Ended,
}

impl Progress {
    /// From the first kernel's start to the latest one's end, where there are any. An event
    /// behind a flag that was seen may not tell yet.
    pub(super) fn kernels(&self, schedule: &Schedule) -> Option<Result<Picos, OpenClError>> {
        let computes = |id: CommandId| matches!(schedule.commands[id.index()].what, What::Compute { .. });
        let mut kernels = self.on_device.iter().filter(|(id, _)| computes(*id)).map(|(_, events)| events);
        let first = kernels.next()?;
        let latest = kernels.next_back().unwrap_or(first);
        let span = || {
            let (started, ended) = (stamps(&first[0])?.started, stamps(&latest[1])?.ended);
            Ok(between(started, ended))
        };
        Some(span())
    }
}

impl<T: Element> Program<T> {
    /// Begins a run.
    pub(in crate::execute) fn begin(&mut self) -> Result<Progress> {
        let mut progress = Progress { is_one_of_several: true, ..Progress::default() };
        self.queue(&mut progress)?;
        Ok(progress)
    }

    /// Takes the next step of a run; of one of several, if it need not wait for it.
    pub(in crate::execute) fn go_on(
        &mut self,
        machine: &mut Machine,
        progress: &mut Progress,
    ) -> Result<Going> {
        let next = self.meetings.host.get(progress.hosted).filter(|_| progress.is_one_of_several);
        if let (Some(&Action::Await(announcement)), Some(link)) = (next, &self.link)
            && !link.has_announced(announcement)?
        {
            return Ok(Going::Waiting);
        }
        if self.step(machine, progress)? {
            return Ok(Going::On);
        }
        if let Some(link) = &mut self.link {
            link.end()?;
        }
        Ok(Going::Ended)
    }

    /// Lets go of the device after a run that went wrong, or too long.
    pub(in crate::execute) fn abandon(&mut self) {
        if let Some(link) = &mut self.link {
            link.abandon();
        }
    }

    /// Fills the device's queue as far as the host may be ahead.
    pub(super) fn queue(&mut self, progress: &mut Progress) -> Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        // What the host has yet to copy cannot be queued before it is computed, and mapping
        // waits for all that is queued.
        let copies = self.sharing.is_some_and(|(_, memory)| memory == Home::Device);
        let waits_for_nothing = progress.is_one_of_several || self.maps() || copies;
        let ahead = progress.signalled + if waits_for_nothing { 0 } else { link.ahead() };
        let before = progress.queued;
        while let Some(&step) = self.meetings.device.get(progress.queued) {
            if matches!(step, Action::Await(signal) if signal > ahead) {
                break;
            }
            progress.queued += 1;
            match step {
                Action::Await(signal) => self.hold(signal, progress)?,
                Action::Do(id) => self.on_device(id, progress)?,
                Action::Tell(announcement) => self.announce(announcement, ahead, progress)?,
            }
        }
        match &self.link {
            Some(link) if progress.queued > before => Ok(link.flush()?),
            _ => Ok(()),
        }
    }

    fn hold(&mut self, signal: u32, progress: &Progress) -> Result<()> {
        match &mut self.link {
            // What is queued after the signal need not wait for it.
            Some(link) if signal > progress.signalled => Ok(link.hold(signal).map(drop)?),
            _ => Ok(()),
        }
    }

    fn announce(&mut self, announcement: u32, ahead: u32, progress: &mut Progress) -> Result<()> {
        let next = self.meetings.device.get(progress.queued);
        let awaited = match next {
            Some(&Action::Await(signal)) if signal <= ahead => {
                progress.queued += 1;
                Some(signal).filter(|&signal| signal > progress.signalled)
            }
            _ => None,
        };
        let Some(link) = &mut self.link else { return Ok(()) };
        let is_made = std::mem::take(&mut progress.is_announced);
        let last = progress.on_device.last().map(|(_, [_, last])| Rc::clone(last));
        Ok(link.announce((announcement, is_made), awaited, last).map(drop)?)
    }

    /// Queues a command of the device's.
    fn on_device(&mut self, id: CommandId, progress: &mut Progress) -> Result<()> {
        let command = &self.schedule.commands[id.index()];
        let mut events: Vec<Event> = Vec::new();
        progress.is_announced = false;
        match command.what {
            What::Compute { part, .. } => {
                let Some(gpu) = &self.operations[command.stage].parts[part].gpu else { return Ok(()) };
                let number = match (self.meetings.device.get(progress.queued), &self.link) {
                    (Some(&Action::Tell(announcement)), Some(link)) if gpu.prepared.announces() => {
                        link.flag_value(announcement)
                    }
                    _ => None,
                };
                progress.is_announced = number.is_some();
                let kernels = gpu.prepared.enqueue_announcing(number.unwrap_or(0))?;
                events.extend(kernels);
            }
            What::Move { tensor: Tensor::Result(result), region, to, .. } => {
                events.extend(self.copy(result, region, to)?);
            }
            What::Move { tensor: Tensor::Inputs(reader), region, to, .. } => {
                let inputs =
                    self.operations[reader].reads.iter().filter(|&&read| read >= self.operations.len());
                for &input in inputs {
                    events.extend(self.copy(input, region, to)?);
                }
            }
            // They only order what is around them, or are the host's.
            What::Submit | What::HandOver { .. } | What::Join { .. } | What::ReadBack => {}
        }
        let mut events = events.into_iter().map(Rc::new);
        if let Some(first) = events.next() {
            let last = events.next_back().unwrap_or_else(|| Rc::clone(&first));
            progress.on_device.push((id, [first, last]));
        }
        Ok(())
    }

    /// Queues a copy of a region of a tensor between the memories of device and host.
    fn copy(&self, tensor: usize, region: Region, to: Memory) -> Result<Option<Event>> {
        let (own, on_host) = (&self.places[tensor], self.place(None, tensor, Side::Host));
        let (Some(device), Some(host)) = (own.device(), on_host.host_ptr()) else { return Ok(None) };
        // A tensor that is copied as a whole may have another extent than its operator's.
        let whole =
            self.operations.get(tensor).map(|operation| Region::of(operation.layer.operator.output()));
        let is_whole = whole.is_none_or(|whole| region.common(whole) == whole);
        let part = if is_whole { Region::of(device.shape()) } else { region };
        // SAFETY: the host's tensor lives as long as the program. What goes to the device
        // was computed before the host's signal, behind which this is queued, and is not
        // computed again in this run; what comes from it the host reads only after it has
        // waited for the announcement behind the copy.
        Ok(Some(unsafe { device.enqueue_copy(part, host.cast(), to) }?))
    }
}
