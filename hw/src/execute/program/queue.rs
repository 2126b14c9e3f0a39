//! Filling the device's queue during a run, and runs that advance step by step while others do.
//!
//! Responsible for: filling the queue as far ahead as the mechanism allows, self-announcing
//! kernels, copies; advancing without waiting. Not for: the host's side (`super`), the order
//! (`super::super::actions`), or which run advances next (`super::super::stream`). Invariant: if
//! several runs are in flight, the device's queue holds no command that waits for the host.

use std::rc::Rc;
use std::time::Instant;

use coexec_sim::schedule::{CommandId, Memory, Schedule, Tensor, What};
use coexec_sim::{Picos, Region};

use crate::cpu::Element;
use crate::execute::{Action, Home, Machine, Program, Result, Side};
use crate::opencl::events::Event;
use crate::opencl::{OpenClError, between, duration_to_picos, flush, stamps};

/// Progress of a run.
#[derive(Default)]
pub(in crate::execute) struct Progress {
    queued: usize,
    /// Number of the host's actions that are done.
    pub(super) hosted: usize,
    pub(super) signalled: u32,
    /// Whether other runs are in flight, which this run's waits must not block.
    pub(super) is_one_of_several: bool,
    /// Whether the latest kernel announces itself, for the announcement that follows.
    is_announced: bool,
    /// The device's commands so far, with the first and the last event of each.
    pub(in crate::execute) on_device: Vec<(CommandId, [Rc<Event>; 2])>,
    /// The host's commands so far, with the start and the end of each.
    pub(in crate::execute) on_host: Vec<(CommandId, [Instant; 2])>,
}

/// The outcome of an attempt to advance a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::execute) enum Advance {
    /// It performed an action.
    Stepped,
    /// It waits for the device.
    Blocked,
    /// It has ended.
    Finished,
}

impl Progress {
    /// Time from the first kernel's start to the latest one's end; `None` without kernels. An error
    /// where commands have no time stamps.
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

    /// The operators that the host computed, and their times.
    pub(super) fn on_cores(&self, schedule: &Schedule) -> Vec<(usize, Picos)> {
        let computed = self.on_host.iter().filter_map(|&(id, [started, ended])| {
            let command = &schedule.commands[id.index()];
            matches!(command.what, What::Compute { .. })
                .then(|| (command.stage, duration_to_picos(ended - started)))
        });
        computed.collect()
    }
}

impl<T: Element> Program<T> {
    /// Starts one of several runs.
    pub(in crate::execute) fn begin(&mut self) -> Result<Progress> {
        let mut progress = Progress { is_one_of_several: true, ..Progress::default() };
        self.queue(&mut progress)?;
        Ok(progress)
    }

    /// Performs the next action of a run. If several runs are in flight, only if it need not wait.
    pub(in crate::execute) fn advance(
        &mut self,
        machine: &mut Machine,
        progress: &mut Progress,
    ) -> Result<Advance> {
        let next = self.actions.host.get(progress.hosted).filter(|_| progress.is_one_of_several);
        if let (Some(&Action::Await(announcement)), Some(link)) = (next, &self.link)
            && !link.has_announced(announcement)?
        {
            return Ok(Advance::Blocked);
        }
        if self.step(machine, progress)? {
            return Ok(Advance::Stepped);
        }
        if let Some(link) = &mut self.link {
            link.end()?;
        }
        Ok(Advance::Finished)
    }

    /// Releases the device after a run that failed or timed out.
    pub(in crate::execute) fn abandon(&mut self) {
        if let Some(link) = &mut self.link {
            link.abandon();
        }
    }

    /// Fills the device's queue as far ahead as the mechanism allows.
    pub(super) fn queue(&mut self, progress: &mut Progress) -> Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        // The host's results can be copied only after they are computed, and mapping waits for
        // everything enqueued.
        let copies = self.sharing.is_some_and(|(_, memory)| memory == Home::Device);
        let waits_for_nothing = progress.is_one_of_several || self.maps() || copies;
        let ahead = progress.signalled + if waits_for_nothing { 0 } else { link.ahead() };
        let before = progress.queued;
        while let Some(&step) = self.actions.device.get(progress.queued) {
            if matches!(step, Action::Await(signal) if signal > ahead) {
                break;
            }
            progress.queued += 1;
            match step {
                Action::Await(signal) => self.hold(signal, progress)?,
                Action::Run(id) => self.on_device(id, progress)?,
                Action::Notify(announcement) => self.announce(announcement, ahead, progress)?,
            }
        }
        match &self.link {
            Some(link) if progress.queued > before => Ok(flush(&link.runtime)?),
            _ => Ok(()),
        }
    }

    fn hold(&mut self, signal: u32, progress: &Progress) -> Result<()> {
        match &mut self.link {
            // Commands enqueued after the signal need not wait for it.
            Some(link) if signal > progress.signalled => Ok(link.hold(signal).map(drop)?),
            _ => Ok(()),
        }
    }

    fn announce(&mut self, announcement: u32, ahead: u32, progress: &mut Progress) -> Result<()> {
        let next = self.actions.device.get(progress.queued);
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

    /// Enqueues a command of the device.
    fn on_device(&mut self, id: CommandId, progress: &mut Progress) -> Result<()> {
        let command = &self.schedule.commands[id.index()];
        let mut events: Vec<Event> = Vec::new();
        progress.is_announced = false;
        match command.what {
            What::Compute { part, .. } => {
                let Some(gpu) = &self.operations[command.stage].parts[part].gpu else { return Ok(()) };
                let number = match (self.actions.device.get(progress.queued), &self.link) {
                    (Some(&Action::Notify(announcement)), Some(link)) if gpu.prepared.announces() => {
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
            // These only order the commands around them, or are the host's.
            What::Submit | What::HandOver { .. } | What::Join { .. } | What::ReadBack => {}
        }
        let mut events = events.into_iter().map(Rc::new);
        if let Some(first) = events.next() {
            let last = events.next_back().unwrap_or_else(|| Rc::clone(&first));
            progress.on_device.push((id, [first, last]));
        }
        Ok(())
    }

    /// Enqueues a copy of a region of a tensor between the memories of device and host.
    fn copy(&self, tensor: usize, region: Region, to: Memory) -> Result<Option<Event>> {
        let (own, on_host) = (&self.places[tensor], self.place(None, tensor, Side::Host));
        let (Some(device), Some(host)) = (own.device(), on_host.host_ptr()) else { return Ok(None) };
        // A tensor that is copied whole may have another shape than its operator's output.
        let whole =
            self.operations.get(tensor).map(|operation| Region::of(operation.layer.operator.output()));
        let is_whole = whole.is_none_or(|whole| region.common(whole) == whole);
        let part = if is_whole { Region::of(device.shape()) } else { region };
        // SAFETY: the host's tensor is pinned, so that even after a failed run it is released after
        // the copy, by an unmapping in the queue's order. Data for the device was computed before
        // the host's signal, after which the copy is enqueued, and is not computed again in this
        // run. Data from the device is read by the host only after it has waited for the
        // announcement that follows the copy.
        Ok(Some(unsafe { device.enqueue_copy(part, host.cast(), to) }?))
    }
}
