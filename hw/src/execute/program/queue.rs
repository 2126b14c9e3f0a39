//! Filling the device's queue during a run, and runs that advance step by step while others do.
//!
//! Responsible for: filling the queue as far ahead as the mechanism allows, by the host or by a thread
//! of its own; self-announcing kernels, copies; advancing without waiting. Not for: the host's side
//! (`super`), the order (`super::super::actions`), or which run advances next (`super::super::stream`).
//! Invariant: if several runs are in flight, the device's queue holds no command that waits for the host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use coexec_sim::schedule::{CommandId, Memory, Schedule, Tensor, What};
use coexec_sim::{Picos, Region};

use crate::cpu::{Element, ThreadPool};
use crate::execute::{Action, Home, Machine, Program, Result, Side};
use crate::lock::lock;
use crate::opencl::events::Event;
use crate::opencl::{OpenClError, between, duration_to_picos, flush, stamps};
use crate::sync::Link;

/// Checks of the host's signals between which the dispatcher yields its core.
const CHECKS_PER_YIELD: u32 = 256;

/// Progress of a run.
#[derive(Default)]
pub(in crate::execute) struct Progress {
    pub(in crate::execute) host: HostProgress,
    pub(in crate::execute) device: DeviceProgress,
}

/// Progress of the host's side of a run.
#[derive(Default)]
pub(in crate::execute) struct HostProgress {
    /// Number of its actions that are done.
    pub(super) done: usize,
    /// Its commands so far, with the start and the end of each.
    pub(in crate::execute) commands: Vec<(CommandId, [Instant; 2])>,
}

/// Progress of filling the device's queue.
#[derive(Default)]
pub(in crate::execute) struct DeviceProgress {
    /// Number of the device's actions that are enqueued.
    queued: usize,
    /// Whether other runs are in flight, which this run's waits must not block.
    pub(super) is_one_of_several: bool,
    /// Whether the latest kernel announces itself, for the announcement that follows.
    is_announced: bool,
    /// The commands so far, with the first and the last event of each.
    pub(in crate::execute) commands: Vec<(CommandId, [Arc<Event>; 2])>,
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

/// Releases the device, and ends the other side's waits, unless this side has done its work.
struct Abandoning<'a>(&'a Link);

impl Drop for Abandoning<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Progress {
    /// Time from the first kernel's start to the latest one's end; `None` without kernels. An error
    /// where commands have no time stamps.
    pub(super) fn kernels(&self, schedule: &Schedule) -> Option<Result<Picos, OpenClError>> {
        let computes = |id: CommandId| matches!(schedule.commands[id.index()].what, What::Compute { .. });
        let mut kernels =
            self.device.commands.iter().filter(|(id, _)| computes(*id)).map(|(_, events)| events);
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
        let computed = self.host.commands.iter().filter_map(|&(id, [started, ended])| {
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
        let mut progress = Progress::default();
        progress.device.is_one_of_several = true;
        self.queue(&mut progress.device)?;
        Ok(progress)
    }

    /// Performs the next action of a run. If several runs are in flight, only if it need not wait.
    pub(in crate::execute) fn advance(
        &mut self,
        machine: &mut Machine,
        progress: &mut Progress,
    ) -> Result<Advance> {
        if let (Some(&Action::Await(announcement)), Some(link)) =
            (self.actions.host.get(progress.host.done), &self.link)
            && !link.has_announced(announcement)?
        {
            return Ok(Advance::Blocked);
        }
        if self.step(machine, &mut progress.host, Some(&mut progress.device))? {
            return Ok(Advance::Stepped);
        }
        self.end()?;
        Ok(Advance::Finished)
    }

    /// Performs all actions of a run: the device's on the thread of `dispatcher`, where there is one, so that
    /// the host's part need not wait until the queue is filled.
    pub(super) fn perform(
        &self,
        machine: &mut Machine,
        dispatcher: Option<&mut ThreadPool>,
        Progress { host, device }: &mut Progress,
    ) -> Result<()> {
        let (Some(dispatcher), Some(link)) = (dispatcher, &self.link) else {
            self.queue(device)?;
            while self.step(machine, host, Some(device))? {}
            return Ok(());
        };
        let (host, device) = (Mutex::new((machine, host)), Mutex::new(device));
        let (failure, has_ended) = (Mutex::new(None), AtomicBool::new(false));
        dispatcher.broadcast(2, &|thread| {
            let unless_done = Abandoning(link);
            let done = if thread == 0 {
                let (machine, host) = &mut *lock(&host);
                let done = self.run_host(link, machine, host);
                has_ended.store(true, Ordering::Release);
                done
            } else {
                self.dispatch(link, &mut lock(&device), &has_ended)
            };
            match done {
                Ok(()) => std::mem::forget(unless_done),
                Err(error) => drop(lock(&failure).get_or_insert(error)),
            }
        });
        lock(&failure).take().map_or(Ok(()), Err)
    }

    /// Performs the host's actions until the dispatcher fails.
    fn run_host(&self, link: &Link, machine: &mut Machine, host: &mut HostProgress) -> Result<()> {
        while !link.has_failed() && self.step(machine, host, None)? {}
        Ok(())
    }

    /// Fills the device's queue until the host has ended or fails. Its core is its own, and a thread that slept
    /// would start the next run late.
    fn dispatch(&self, link: &Link, device: &mut DeviceProgress, has_ended: &AtomicBool) -> Result<()> {
        let is_over = || has_ended.load(Ordering::Acquire) || link.has_failed();
        loop {
            let signalled = link.signalled();
            self.queue(device)?;
            let mut checks = 0;
            while link.signalled() == signalled {
                if is_over() {
                    return Ok(());
                }
                checks += 1;
                if checks % CHECKS_PER_YIELD == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        }
    }

    /// Finishes a successful run.
    pub(super) fn end(&mut self) -> Result<()> {
        self.link.as_mut().map_or(Ok(()), |link| Ok(link.end()?))
    }

    /// Releases the device after a run that failed or timed out.
    pub(in crate::execute) fn abandon(&self) {
        if let Some(link) = &self.link {
            link.abandon();
        }
    }

    /// Fills the device's queue as far ahead as the mechanism allows.
    pub(super) fn queue(&self, progress: &mut DeviceProgress) -> Result<()> {
        let Some(link) = &self.link else { return Ok(()) };
        // The host's results can be copied only after they are computed, and mapping waits for
        // everything enqueued.
        let copies = self.sharing.is_some_and(|(_, memory)| memory == Home::Device);
        let waits_for_nothing = progress.is_one_of_several || self.maps() || copies;
        let ahead = link.signalled() + if waits_for_nothing { 0 } else { link.ahead() };
        let before = progress.queued;
        while let Some(&step) = self.actions.device.get(progress.queued) {
            if matches!(step, Action::Await(signal) if signal > ahead) {
                break;
            }
            progress.queued += 1;
            match step {
                Action::Await(signal) => drop(link.hold(signal)?),
                Action::Run(id) => self.on_device(link, id, progress)?,
                Action::Notify(announcement) => self.announce(link, announcement, ahead, progress)?,
            }
        }
        if progress.queued > before { Ok(flush(&link.runtime)?) } else { Ok(()) }
    }

    fn announce(
        &self,
        link: &Link,
        announcement: u32,
        ahead: u32,
        progress: &mut DeviceProgress,
    ) -> Result<()> {
        let next = self.actions.device.get(progress.queued);
        let awaited = match next {
            Some(&Action::Await(signal)) if signal <= ahead => {
                progress.queued += 1;
                // Commands enqueued after the signal need not wait for it.
                Some(signal).filter(|&signal| signal > link.signalled())
            }
            _ => None,
        };
        let is_made = std::mem::take(&mut progress.is_announced);
        let last = progress.commands.last().map(|(_, [_, last])| Arc::clone(last));
        Ok(link.announce((announcement, is_made), awaited, last).map(drop)?)
    }

    /// Enqueues a command of the device.
    fn on_device(&self, link: &Link, id: CommandId, progress: &mut DeviceProgress) -> Result<()> {
        let command = &self.schedule.commands[id.index()];
        let mut events: Vec<Event> = Vec::new();
        progress.is_announced = false;
        match command.what {
            What::Compute { part, .. } => {
                let Some(gpu) = &self.operations[command.stage].parts[part].gpu else { return Ok(()) };
                let number = match self.actions.device.get(progress.queued) {
                    Some(&Action::Notify(announcement)) if gpu.prepared.announces() => {
                        link.flag_value(announcement)
                    }
                    _ => None,
                };
                progress.is_announced = number.is_some();
                for event in self.arrangements.enqueue_before(id.index()) {
                    events.push(event?);
                }
                let kernels = gpu.prepared.enqueue_announcing(number.unwrap_or(0))?;
                events.extend(kernels);
            }
            What::Move { tensor: Tensor::Result(result), region, to, .. } => {
                events.extend(self.copy(result, region, to)?);
            }
            What::Move { tensor: Tensor::Inputs(reader), region, to, .. } => {
                for &input in &self.tensors.given[reader] {
                    events.extend(self.copy(input, region, to)?);
                }
            }
            // These only order the commands around them, or are the host's.
            What::Submit | What::HandOver { .. } | What::Join { .. } | What::ReadBack => {}
        }
        let mut events = events.into_iter().map(Arc::new);
        if let Some(first) = events.next() {
            let last = events.next_back().unwrap_or_else(|| Arc::clone(&first));
            progress.commands.push((id, [first, last]));
        }
        Ok(())
    }

    /// Enqueues a copy of a region of a tensor between the memories of device and host.
    fn copy(&self, tensor: usize, region: Region, to: Memory) -> Result<Option<Event>> {
        let (own, on_host) = (&self.places.own[tensor], self.places.of(None, tensor, Side::Host));
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
