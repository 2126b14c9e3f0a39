//! WHEN: runs a program of tasks on processors that share one memory.
//!
//! Responsible for: the order of events, and how phases slow each other down.
//! Not for: the uncontended duration of a phase (`kernel`), or which task runs
//! where (`plan`). Contention exists nowhere else.
//! Invariants: a run is a pure function of program and capacity; while phases do
//! not slow each other, each takes exactly its duration, to the picosecond; a run
//! allocates nothing once its buffers have grown to size.
//!
//! A task starts when all its predecessors have finished, among them the previous
//! task on its processor, and runs its phases in order. At any simulated time, all
//! events are handled first, then shared processors are granted to applications,
//! then the memory is reshared. The order of simultaneous events therefore does not
//! affect the result.

use crate::units::{Bytes, BytesPerSecond, Picos};

pub mod calendar;
pub mod capacity;
pub mod fluid;
pub mod program;
mod requests;
pub mod trace;

use calendar::Calendar;
use fluid::{SharedMemory, Traffic};
use program::Task;
use requests::Arbiter;

pub use capacity::{Capacity, ClientId, Interference, MAX_CLIENTS};
pub use program::{MAX_PROCESSORS, ProcessorId, Program, TaskId, Work};
pub use requests::{Backpressure, MAX_QUEUE_DEPTH, Request, RequestStream};
pub use trace::{NoTrace, Recorder, TraceSink};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// All predecessors of the task have finished.
    TaskStart(TaskId),
    /// A phase without traffic ends.
    PhaseEnd(TaskId),
    /// The flow that ends first ends.
    FlowEnd,
    /// The next request of an idle application arrives.
    Arrival(u32),
}

/// Progress of a task.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Number of predecessors that have not finished.
    waits_for: u32,
    /// Index of the current phase in the program's list.
    phase: u32,
    phase_start: Picos,
    start: Picos,
    finish: Picos,
}

impl Progress {
    fn before(task: &Task) -> Self {
        Self {
            waits_for: task.predecessors,
            phase: task.first_phase,
            phase_start: Picos::ZERO,
            start: Picos::ZERO,
            finish: Picos::ZERO,
        }
    }
}

/// Runs programs one after the other, reusing its buffers.
#[derive(Clone, Debug, Default)]
pub struct Engine {
    calendar: Calendar<Event>,
    memory: SharedMemory,
    tasks: Vec<Progress>,
    events: u64,
    arbiter: Arbiter,
}

impl Engine {
    /// Runs `program` on processors that share a memory of `capacity`, reports
    /// to `sink`, and returns the time at which the last task finishes.
    ///
    /// Times saturate at [`Picos::MAX`] (213 days): a run that would outlast it
    /// ends there, with its last tasks unfinished.
    pub fn run<S: TraceSink>(&mut self, program: &Program, capacity: &Capacity, sink: &mut S) -> Picos {
        self.reset(program);
        for (task, progress) in (0..).map(TaskId).zip(&self.tasks) {
            if progress.waits_for == 0 {
                self.calendar.push(Picos::ZERO, Event::TaskStart(task));
            }
        }
        Run { engine: self, program, capacity, sink, streams: &[] }.execute();
        self.calendar.now()
    }

    /// Serves the requests of a program's applications until none is left, and returns the time at which the
    /// last one finishes. `streams` has one entry per application, in the program's order.
    /// [`Self::requests`] returns the record of each request.
    ///
    /// # Panics
    /// If there are more streams than the program has applications.
    pub fn serve<S: TraceSink>(
        &mut self,
        program: &Program,
        streams: &[RequestStream],
        capacity: &Capacity,
        sink: &mut S,
    ) -> Picos {
        self.reset(program);
        self.arbiter.reset(streams.len(), program.tasks.len());
        let mut run = Run { engine: self, program, capacity, sink, streams };
        for application in 0..streams.len() {
            assert!(!program.tasks_of(application).is_empty(), "a request has at least one task");
            run.await_request(application);
        }
        run.execute();
        self.calendar.now()
    }

    /// The requests of the last run of [`Self::serve`], in the order in which they finished.
    pub fn requests(&self) -> &[Request] {
        &self.arbiter.requests
    }

    /// How long a processor was busy in the last run of [`Self::serve`].
    ///
    /// # Panics
    /// If the processor's number is [`MAX_PROCESSORS`] or more.
    pub fn busy(&self, processor: ProcessorId) -> Picos {
        self.arbiter.busy[usize::from(processor.0)]
    }

    /// When a task of the last run started.
    ///
    /// # Panics
    /// If the task is not part of that run's program.
    pub fn start(&self, task: TaskId) -> Picos {
        self.tasks[task.index()].start
    }

    /// When a task of the last run finished.
    ///
    /// # Panics
    /// If the task is not part of that run's program.
    pub fn finish(&self, task: TaskId) -> Picos {
        self.tasks[task.index()].finish
    }

    /// Number of events in the last run.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn reset(&mut self, program: &Program) {
        self.calendar.clear();
        self.memory.reset();
        self.events = 0;
        self.tasks.clear();
        self.tasks.extend(program.tasks.iter().map(Progress::before));
    }
}

/// One run in progress.
struct Run<'a, S> {
    engine: &'a mut Engine,
    program: &'a Program,
    capacity: &'a Capacity,
    sink: &'a mut S,
    /// One per application; empty where the program runs once.
    streams: &'a [RequestStream],
}

impl<S: TraceSink> Run<'_, S> {
    fn execute(&mut self) {
        loop {
            let Engine { calendar, memory, arbiter, .. } = &mut *self.engine;
            if calendar.next_time() != Some(calendar.now()) {
                if arbiter.due != 0 {
                    // A command that starts now may also end now.
                    self.take_turn();
                    continue;
                }
                if memory.changed {
                    self.share_memory();
                }
            }
            let Some(event) = self.engine.calendar.pop() else { break };
            self.engine.events += 1;
            match event {
                Event::TaskStart(task) if self.has_requests() => self.queue_command(task),
                Event::TaskStart(task) => self.begin_task(task),
                Event::PhaseEnd(task) => self.end_phase(task),
                Event::FlowEnd => self.end_flows(),
                Event::Arrival(application) => self.begin_request(application as usize),
            }
        }
    }

    fn begin_task(&mut self, task: TaskId) {
        self.engine.tasks[task.index()].start = self.engine.calendar.now();
        self.proceed(task);
    }

    /// Starts the task's next phase, or finishes the task.
    fn proceed(&mut self, task: TaskId) {
        let Engine { calendar, memory, tasks, .. } = &mut *self.engine;
        let specification = &self.program.tasks[task.index()];
        let progress = &mut tasks[task.index()];
        if progress.phase == specification.end_phase {
            self.finish_task(task);
            return;
        }
        let now = calendar.now();
        progress.phase_start = now;
        let Work { duration, bytes } = self.program.phases[progress.phase as usize];
        if bytes == Bytes::ZERO {
            calendar.push(now.saturating_add(duration), Event::PhaseEnd(task));
        } else {
            let Task { client, streams, .. } = *specification;
            let traffic = Traffic { task, client, streams, duration, bytes };
            memory.start(now, &traffic, self.capacity);
        }
    }

    fn end_phase(&mut self, task: TaskId) {
        let now = self.engine.calendar.now();
        let progress = &mut self.engine.tasks[task.index()];
        self.sink.phase(task, progress.phase_start, now);
        progress.phase += 1;
        self.proceed(task);
    }

    fn finish_task(&mut self, task: TaskId) {
        let Engine { calendar, tasks, .. } = &mut *self.engine;
        let now = calendar.now();
        tasks[task.index()].finish = now;
        for successor in self.program.successors(task) {
            let waits_for = &mut tasks[successor.index()].waits_for;
            *waits_for -= 1;
            if *waits_for == 0 {
                calendar.push(now, Event::TaskStart(successor));
            }
        }
        if self.has_requests() {
            // After the successors' start events, so that the next command queues before the grant.
            self.leave_queue(task);
        }
    }

    /// Ends every flow that is due, not only the one whose end was scheduled.
    fn end_flows(&mut self) {
        while let Some(task) = self.engine.memory.take_ended(self.engine.calendar.now()) {
            self.end_phase(task);
        }
    }

    /// Reshares the memory among the active flows and schedules the earliest end.
    fn share_memory(&mut self) {
        let Engine { calendar, memory, .. } = &mut *self.engine;
        let now = calendar.now();
        let date = memory.settle(now, self.capacity);
        self.sink.memory(now, BytesPerSecond(memory.rates().fold(0.0, |total, (_, rate)| total + rate.0)));
        for (task, rate) in memory.rates() {
            self.sink.flow(now, task, rate);
        }
        calendar.move_to(date, Event::FlowEnd);
    }
}
