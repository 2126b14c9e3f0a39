//! WHEN: runs a program of tasks over processors that share one memory.
//!
//! Responsible for: the order of events, and phases that slow each other down.
//! Not for: what a phase takes alone (`kernel`), or which task runs where
//! (`plan`). Contention exists nowhere else.
//! Invariants: a run is a pure function of program and capacity; while phases do
//! not slow each other, each takes its duration to the picosecond; a run
//! allocates nothing once the buffers have reached their size.
//!
//! A task starts when all it waits for has finished, its processor's previous
//! task included, and goes through its phases. What happens at one time is
//! handled in full before a processor that applications share changes hands, and
//! that before the memory is shared anew, so the order of events at one time decides
//! nothing.

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
    /// All the task waited for has finished.
    TaskStart(TaskId),
    /// A phase without traffic is over.
    PhaseEnd(TaskId),
    /// The flow that ends first has ended.
    FlowEnd,
    /// The request that an application waits for comes.
    Arrival(u32),
}

/// Where a task is.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Predecessors that have not finished.
    waits_for: u32,
    /// The phase it is in, in the program's list.
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

/// Runs programs one after the other, in buffers it keeps.
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
    /// to `sink`, and returns when the last task finishes.
    ///
    /// A run that would outlast [`Picos::MAX`] (213 days) ends there, its last
    /// tasks unfinished.
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

    /// Runs the requests of a program's applications, `streams` in their order, until all that come have been
    /// computed; returns when the last one has. [`Self::requests`] says what became of each.
    ///
    /// # Panics
    /// For more streams than the program has applications.
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

    /// How long a processor computed in the last run of [`Self::serve`].
    ///
    /// # Panics
    /// For a processor from [`MAX_PROCESSORS`] on.
    pub fn busy(&self, processor: ProcessorId) -> Picos {
        self.arbiter.busy[usize::from(processor.0)]
    }

    /// When a task of the last run started.
    ///
    /// # Panics
    /// For a task that is not of that run's program.
    pub fn start(&self, task: TaskId) -> Picos {
        self.tasks[task.index()].start
    }

    /// When a task of the last run finished.
    ///
    /// # Panics
    /// For a task that is not of that run's program.
    pub fn finish(&self, task: TaskId) -> Picos {
        self.tasks[task.index()].finish
    }

    /// Number of events of the last run.
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
    /// Of each application; none where the program runs once.
    streams: &'a [RequestStream],
}

impl<S: TraceSink> Run<'_, S> {
    fn execute(&mut self) {
        loop {
            let Engine { calendar, memory, arbiter, .. } = &mut *self.engine;
            if calendar.next_time() != Some(calendar.now()) {
                if arbiter.due != 0 {
                    // What begins may end at this very time.
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

    /// Begins the phase the task has come to, or finishes the task.
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
            // Behind the starts, so that the next command is there when it is its turn.
            self.leave_queue(task);
        }
    }

    /// Ends every flow that is due, not only the one that was dated.
    fn end_flows(&mut self) {
        while let Some(task) = self.engine.memory.take_ended(self.engine.calendar.now()) {
            self.end_phase(task);
        }
    }

    /// Shares the memory among the flows there are, and dates the end of the next.
    fn share_memory(&mut self) {
        let Engine { calendar, memory, .. } = &mut *self.engine;
        let now = calendar.now();
        let date = memory.settle(now, self.capacity);
        self.sink.memory(now, BytesPerSecond(memory.rates().map(|(_, rate)| rate.0).sum()));
        for (task, rate) in memory.rates() {
            self.sink.flow(now, task, rate);
        }
        calendar.move_to(date, Event::FlowEnd);
    }
}
