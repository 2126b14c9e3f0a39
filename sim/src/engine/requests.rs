//! Requests of several applications that come over time.
//!
//! Responsible for: when a request of an application begins, whose command a processor takes
//! next, and the record of both. Not for: what a request runs (the program has the tasks of
//! each application once), or when requests come (the caller draws that). Invariants: a run of
//! one program reaches nothing of this; no request of an application overtakes an earlier one;
//! a processor never idles while a command for it waits; nothing that runs is interrupted.
//!
//! An application computes one request after the other, as an interpreter does that is called
//! again and again, and hands its commands to a queue of its own on each processor, in the
//! program's order. A processor takes, of the commands at the heads of its queues, the one
//! handed over first; of equals that of the application added first. A command is handed over
//! once what it waits for outside the queue has finished, and `queue_depth` commands ahead of
//! the one that runs at most. So an application that only uses this processor puts that many
//! commands before others', and one that waits for another processor in between puts one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Event, MAX_PROCESSORS, ProcessorId, Progress, Run, Task, TaskId, TraceSink};
use crate::units::Picos;

/// Deepest queue that is modelled.
pub const MAX_QUEUE_DEPTH: usize = 64;

/// What happens to requests that come while an earlier one of their application is computed: the strategies of
/// Android's `CameraX` `ImageAnalysis`, and a queue without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backpressure {
    /// They wait in order of arrival.
    #[default]
    Queue,
    /// The latest waits, others are dropped.
    KeepOnlyLatest,
    /// Nothing waits, as with an image queue of one: the next comes the time between both after the last, and not
    /// before that has ended. A renderer that falls behind does so.
    BlockProducer,
}

/// When requests of one application come, and how they are served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestStream {
    /// Times of arrival, earliest first; none comes after the last.
    pub arrivals: Vec<Picos>,
    /// What happens to those that find the application at work.
    pub backpressure: Backpressure,
    /// Commands of the application in each processor's queue, from one to
    /// [`MAX_QUEUE_DEPTH`].
    pub queue_depth: usize,
}

/// A request that was computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whose, in the order in which the program has them.
    pub application: usize,
    /// When it came.
    pub arrival: Picos,
    /// When the application began with it.
    pub start: Picos,
    /// When its last task finished.
    pub finish: Picos,
}

/// What one application puts into one processor's queue.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The next command, once it could start, and when it was handed over.
    head: Option<(Picos, TaskId)>,
    /// Commands that have ended.
    ended: usize,
    /// When the latest of them ended, by their number modulo the depth.
    ends: [Picos; MAX_QUEUE_DEPTH],
}

/// Where an application is.
#[derive(Clone, Copy, Debug, Default)]
struct Service {
    /// The arrival that is looked at next.
    next: usize,
    /// Of the request that is computed, or that is awaited.
    arrival: Picos,
    start: Picos,
    /// Its tasks that have not finished.
    left: usize,
}

/// Who waits for which processor, and for which request.
#[derive(Clone, Debug, Default)]
pub(super) struct Arbiter {
    /// One for each processor and application.
    queues: Vec<Queue>,
    services: Vec<Service>,
    /// When each task had everything that it waits for outside its queue.
    handed_over: Vec<Picos>,
    /// Processors that compute, one bit each.
    taken: u32,
    /// Processors that may change hands, once everything at this time has been handled.
    pub(super) due: u32,
    pub(super) busy: [Picos; MAX_PROCESSORS],
    pub(super) requests: Vec<Request>,
}

const _: () = assert!(MAX_PROCESSORS <= u32::BITS as usize, "each processor has a bit");

impl Arbiter {
    pub(super) fn reset(&mut self, applications: usize, tasks: usize) {
        let idle = Queue { head: None, ended: 0, ends: [Picos::ZERO; MAX_QUEUE_DEPTH] };
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

/// The processor whose turns a task takes, if any: the host does some beside it.
fn shared_processor(task: &Task) -> Option<ProcessorId> {
    task.processor.filter(|_| !task.is_host_side)
}

/// Where the queue of a task that takes turns on `processor` is.
fn queue_of(task: &Task, processor: ProcessorId) -> usize {
    usize::from(task.application) * MAX_PROCESSORS + usize::from(processor.0)
}

fn bit(processor: ProcessorId) -> u32 {
    1 << processor.0
}

// What is never inlined keeps the loop of runs without requests as short as it is without this module.
impl<S: TraceSink> Run<'_, S> {
    /// Whether requests come over time, rather than that the program runs once.
    pub(super) fn has_requests(&self) -> bool {
        !self.streams.is_empty()
    }

    /// A task could start: it takes its turn where it shares a processor.
    #[inline(never)]
    pub(super) fn queue_command(&mut self, task: TaskId) {
        let specification = &self.program.tasks[task.index()];
        let Some(processor) = shared_processor(specification) else { return self.begin_task(task) };
        let depth = self.depth(specification);
        let arbiter = &mut self.engine.arbiter;
        let queue = &mut arbiter.queues[queue_of(specification, processor)];
        let room = if queue.ended < depth { Picos::ZERO } else { queue.ends[queue.ended % depth] };
        queue.head = Some((arbiter.handed_over[task.index()].max(room), task));
        arbiter.due |= bit(processor);
    }

    fn depth(&self, task: &Task) -> usize {
        self.streams[usize::from(task.application)].queue_depth.clamp(1, MAX_QUEUE_DEPTH)
    }

    /// Gives one of the processors that may change hands to whoever came first.
    #[inline(never)]
    pub(super) fn take_turn(&mut self) {
        let arbiter = &mut self.engine.arbiter;
        let processor = ProcessorId(arbiter.due.trailing_zeros() as u8);
        arbiter.due &= !bit(processor);
        if arbiter.taken & bit(processor) != 0 {
            return;
        }
        let queues = arbiter.queues.iter_mut().skip(usize::from(processor.0)).step_by(MAX_PROCESSORS);
        // The first of equals is that of the application added first.
        let waiting = queues.filter(|queue| queue.head.is_some());
        let first = waiting.min_by_key(|queue| queue.head.map(|(handed_over, _)| handed_over));
        if let Some((_, task)) = first.and_then(|queue| queue.head.take()) {
            arbiter.taken |= bit(processor);
            self.begin_task(task);
        }
    }

    /// A task has finished: it gives its processor free, lets others be handed over, and may be
    /// the last of its request.
    #[inline(never)]
    pub(super) fn leave_queue(&mut self, task: TaskId) {
        let now = self.engine.calendar.now();
        let specification = &self.program.tasks[task.index()];
        let depth = self.depth(specification);
        let Arbiter { queues, services, handed_over, .. } = &mut self.engine.arbiter;
        let shared = shared_processor(specification);
        for successor in self.program.successors(task) {
            // What follows in the same queue may be there long before.
            if shared.is_none() || self.program.tasks[successor.index()].processor != shared {
                handed_over[successor.index()] = now;
            }
        }
        let service = &mut services[usize::from(specification.application)];
        service.left -= 1;
        let is_last = service.left == 0;
        if let Some(processor) = shared {
            let queue = &mut queues[queue_of(specification, processor)];
            queue.ends[queue.ended % depth] = now;
            queue.ended += 1;
            let arbiter = &mut self.engine.arbiter;
            arbiter.taken &= !bit(processor);
            arbiter.due |= bit(processor);
            arbiter.busy[usize::from(processor.0)] += now - self.engine.tasks[task.index()].start;
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

    /// Begins the application's next request, or waits for it.
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
                let asked = (service.arrival + due.saturating_sub(arrivals[last])).max(now);
                if arrivals.last().is_some_and(|&end| asked > end) {
                    return;
                }
                asked
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

    /// Begins with the request that was awaited: all its tasks anew.
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
