//! Requests of several applications that arrive over time.
//!
//! Responsible for: when a request of an application starts, which application's command a
//! processor takes next, and the record of both. Not for: what a request runs (the program holds
//! the tasks of each application once), or when requests arrive (the caller draws the times).
//! Invariants: [`Engine::run`](super::Engine::run) executes none of this; no request overtakes an
//! earlier one of its application; a running command is never preempted, and tasks that keep their
//! processor are one command with the next; otherwise a processor never idles while a command for it waits.
//!
//! An application computes one request at a time, like an interpreter that is invoked repeatedly.
//! It has its own queue on each processor, to which it submits its commands in the program's
//! order. Of the commands at the heads of its queues, a processor takes the one submitted first;
//! ties go to the application added first. A command is submitted once its predecessors outside
//! the queue have finished and fewer than `queue_depth` commands of its application are in the
//! queue, the running one included. An application that uses only this processor can thus put
//! `queue_depth` commands ahead of the others'; one that waits for another processor in between puts one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Event, MAX_PROCESSORS, ProcessorId, Progress, Run, Task, TaskId, TraceSink};
use crate::units::Picos;

/// Maximum depth of a modelled queue.
pub const MAX_QUEUE_DEPTH: usize = 64;

/// What happens to requests that arrive while an earlier one of their application is computed: the strategies
/// of Android's `CameraX` `ImageAnalysis`, and an unbounded queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backpressure {
    /// They wait in order of arrival.
    #[default]
    Queue,
    /// The latest waits, the others are dropped.
    KeepOnlyLatest,
    /// Nothing waits: the producer blocks, as with an image queue of one. The next request comes one interval
    /// after the last one, but not before the last one has finished. A renderer that falls behind does this.
    BlockProducer,
}

/// When the requests of one application arrive, and how they are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestStream {
    /// Arrival times, ascending; no request comes after the last.
    pub arrivals: Vec<Picos>,
    /// What happens to requests that arrive while the application is busy.
    pub backpressure: Backpressure,
    /// Maximum number of the application's commands in one processor's queue, from one to
    /// [`MAX_QUEUE_DEPTH`].
    pub queue_depth: usize,
}

/// A completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Index of the application, in the program's order.
    pub application: usize,
    /// When it arrived.
    pub arrival: Picos,
    /// When the application started it.
    pub start: Picos,
    /// When its last task finished.
    pub finish: Picos,
}

/// The commands of one application on one processor.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The next command and the time at which it was submitted; `None` while the command is not ready.
    head: Option<(Picos, TaskId)>,
    /// Whether the processor is kept for the next task: the latter part of a command that it has begun.
    keeps_processor: bool,
    /// Number of commands that have ended.
    ended: usize,
    /// Ring buffer of the latest end times, indexed by command number modulo the depth.
    ends: [Picos; MAX_QUEUE_DEPTH],
}

/// State of an application.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    /// Index of the next arrival to consider.
    next: usize,
    /// Arrival of the current request: the one in progress, or the one awaited.
    arrival: Picos,
    /// Start of the current request.
    start: Picos,
    /// Number of the current request's tasks that have not finished.
    left: usize,
}

/// Grants processors to applications and tracks their requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Arbiter {
    /// One per application and processor.
    queues: Vec<Queue>,
    services: Vec<Service>,
    /// When the last predecessor of each task outside its queue finished.
    handed_over: Vec<Picos>,
    /// Busy processors, one bit each.
    taken: u32,
    /// Processors to grant once all events at the current time have been handled, one bit each.
    pub(super) due: u32,
    pub(super) busy: [Picos; MAX_PROCESSORS],
    pub(super) requests: Vec<Request>,
}

const _: () = assert!(MAX_PROCESSORS <= u32::BITS as usize, "each processor has a bit");

impl Arbiter {
    pub(super) fn reset(&mut self, applications: usize, tasks: usize) {
        let idle =
            Queue { head: None, keeps_processor: false, ended: 0, ends: [Picos::ZERO; MAX_QUEUE_DEPTH] };
        self.queues.clear();
        self.queues.resize(applications * MAX_PROCESSORS, idle);
        self.services.clear();
        self.services.resize(applications, Service::default());
        self.handed_over.clear();
        self.handed_over.resize(tasks, Picos::ZERO);
        (self.taken, self.due, self.busy) = (0, 0, [Picos::ZERO; MAX_PROCESSORS]);
        self.requests.clear();
    }
}

/// The shared processor that a task occupies; `None` for delays and for tasks that run on the host.
fn shared_processor(task: &Task) -> Option<ProcessorId> {
    task.processor.filter(|_| !task.is_host_side)
}

/// Index of the queue of a task that occupies `processor`.
fn queue_of(task: &Task, processor: ProcessorId) -> usize {
    usize::from(task.application) * MAX_PROCESSORS + usize::from(processor.0)
}

fn bit(processor: ProcessorId) -> u32 {
    1 << processor.0
}

// `inline(never)` keeps the event loop of runs without requests as short as it would be without this module.
impl<S: TraceSink> Run<'_, S> {
    /// Whether requests arrive over time; otherwise the program runs once.
    pub(super) fn has_requests(&self) -> bool {
        !self.streams.is_empty()
    }

    /// Handles a task that is ready: it queues for its shared processor, or starts at once where it has none.
    #[inline(never)]
    pub(super) fn queue_command(&mut self, task: TaskId) {
        let specification = &self.program.tasks[task.index()];
        let Some(processor) = shared_processor(specification) else { return self.begin_task(task) };
        let depth = self.depth(specification);
        let arbiter = &mut self.engine.arbiter;
        let queue = &mut arbiter.queues[queue_of(specification, processor)];
        if queue.keeps_processor {
            return self.begin_task(task);
        }
        let room = if queue.ended < depth { Picos::ZERO } else { queue.ends[queue.ended % depth] };
        queue.head = Some((arbiter.handed_over[task.index()].max(room), task));
        arbiter.due |= bit(processor);
    }

    fn depth(&self, task: &Task) -> usize {
        self.streams[usize::from(task.application)].queue_depth.clamp(1, MAX_QUEUE_DEPTH)
    }

    /// Grants one of the due processors to the command that was submitted first.
    #[inline(never)]
    pub(super) fn take_turn(&mut self) {
        let arbiter = &mut self.engine.arbiter;
        let processor = ProcessorId(arbiter.due.trailing_zeros() as u8);
        arbiter.due &= !bit(processor);
        if arbiter.taken & bit(processor) != 0 {
            return;
        }
        let queues = arbiter.queues.iter_mut().skip(usize::from(processor.0)).step_by(MAX_PROCESSORS);
        // `min_by_key` returns the first of equals: that of the application added first.
        let waiting = queues.filter(|queue| queue.head.is_some());
        let first = waiting.min_by_key(|queue| queue.head.map(|(handed_over, _)| handed_over));
        if let Some((_, task)) = first.and_then(|queue| queue.head.take()) {
            arbiter.taken |= bit(processor);
            self.begin_task(task);
        }
    }

    /// Handles the end of a task: records when its successors in other queues can be submitted, releases its
    /// processor, and ends the request after its last task.
    #[inline(never)]
    pub(super) fn leave_queue(&mut self, task: TaskId) {
        let now = self.engine.calendar.now();
        let specification = &self.program.tasks[task.index()];
        let depth = self.depth(specification);
        let Arbiter { queues, services, handed_over, taken, due, busy, .. } = &mut self.engine.arbiter;
        let shared = shared_processor(specification);
        for successor in self.program.successors(task) {
            // A successor in the same queue may have been submitted long before.
            if shared.is_none() || self.program.tasks[successor.index()].processor != shared {
                handed_over[successor.index()] = now;
            }
        }
        let service = &mut services[usize::from(specification.application)];
        service.left -= 1;
        let is_last = service.left == 0;
        if let Some(processor) = shared {
            let queue = &mut queues[queue_of(specification, processor)];
            queue.keeps_processor = specification.keeps_processor;
            if !queue.keeps_processor {
                queue.ends[queue.ended % depth] = now;
                queue.ended += 1;
                *taken &= !bit(processor);
                *due |= bit(processor);
            }
            busy[usize::from(processor.0)] += now - self.engine.tasks[task.index()].start;
        }
        if is_last {
            self.end_request(usize::from(specification.application));
        }
    }

    fn end_request(&mut self, application: usize) {
        let finish = self.engine.calendar.now();
        let Service { arrival, start, .. } = self.engine.arbiter.services[application];
        self.engine.arbiter.requests.push(Request { application, arrival, start, finish });
        self.await_request(application);
    }

    /// Starts the application's next request, or schedules its arrival.
    pub(super) fn await_request(&mut self, application: usize) {
        let now = self.engine.calendar.now();
        let RequestStream { arrivals, backpressure, .. } = &self.streams[application];
        let service = &mut self.engine.arbiter.services[application];
        let Some(&due) = arrivals.get(service.next) else { return };
        service.arrival = match (backpressure, service.next.checked_sub(1)) {
            (Backpressure::Queue, _) | (Backpressure::BlockProducer, None) => due,
            (Backpressure::KeepOnlyLatest, _) => {
                while arrivals.get(service.next + 1).is_some_and(|&later| later <= now) {
                    service.next += 1;
                }
                arrivals[service.next]
            }
            (Backpressure::BlockProducer, Some(last)) => {
                let produced = (service.arrival + due.saturating_sub(arrivals[last])).max(now);
                if arrivals.last().is_some_and(|&end| produced > end) {
                    return;
                }
                produced
            }
        };
        service.next += 1;
        if service.arrival > now {
            let arrival = service.arrival;
            self.engine.calendar.push(arrival, Event::Arrival(application as u32));
        } else {
            self.begin_request(application);
        }
    }

    /// Starts the awaited request: resets all its tasks.
    pub(super) fn begin_request(&mut self, application: usize) {
        let now = self.engine.calendar.now();
        let tasks = self.program.tasks_of(application);
        let service = &mut self.engine.arbiter.services[application];
        (service.start, service.left) = (now, tasks.len());
        for index in tasks {
            let progress = Progress::before(&self.program.tasks[index]);
            if progress.waits_for == 0 {
                self.engine.calendar.push(now, Event::TaskStart(TaskId(index as u32)));
            }
            self.engine.tasks[index] = progress;
            self.engine.arbiter.handed_over[index] = now;
        }
    }
}
