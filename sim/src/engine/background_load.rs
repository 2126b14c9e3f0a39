//! Periodic background load on one processor: a renderer beside the program.
//!
//! Responsible for: frames that come periodically, their batches in the processor's
//! queue, and whose turn it is there. Not for: the program's own order, which stays
//! that of the queue. Invariant: without a [`Background`] nothing here is reached.
//!
//! A processor's queue is first come, first served. The program hands a command over
//! as soon as what it waits for elsewhere has finished, up to `queue_depth` commands
//! ahead of the one that runs; a frame hands its batches over one by one, each when
//! the one before has ended. Nothing that runs is interrupted. So a program that only
//! uses this processor puts that many commands before each batch, and one that waits
//! for another processor in between puts one.

use std::mem::take;

use super::fluid::{Traffic, later};
use super::{ClientId, Event, ProcessorId, Run, TaskId, TraceSink};
use crate::units::{Bytes, Picos};

/// The flow of a batch, which is no task of the program.
pub(super) const BATCH: TaskId = TaskId(u32::MAX);
/// The flow of the traffic that goes on all the time.
pub(super) const STEADY: TaskId = TaskId(u32::MAX - 1);

/// Deepest queue that is modelled.
pub const MAX_QUEUE_DEPTH: usize = 64;

/// A periodic load beside the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Background {
    /// Where its batches run.
    pub processor: ProcessorId,
    /// From one frame to the next, and the time a frame may take.
    pub period: Picos,
    /// Parts of a frame that are handed over one after another, at least one.
    pub batches: u32,
    /// What one batch takes alone.
    pub duration: Picos,
    /// What one batch moves.
    pub bytes: Bytes,
    /// Commands of the program in the processor's queue, at least one and at most
    /// [`MAX_QUEUE_DEPTH`].
    pub queue_depth: usize,
    /// Whose traffic goes on all the time, and what it moves in one period.
    pub steady: Option<(ClientId, Bytes)>,
}

/// What became of the frames of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Frames that ended during the run.
    pub completed: u32,
    /// Frames that ended later than a period after their start, and one that is that
    /// late at the end of the run.
    pub late: u32,
    /// The longest a frame took, one that has not ended included.
    pub worst: Picos,
}

/// Who has the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Occupant {
    #[default]
    Nobody,
    Program,
    Background,
}

/// Where the frames and the queue are.
#[derive(Clone, Debug, Default)]
pub(super) struct FrameQueue {
    occupant: Occupant,
    /// The program's next command, once it could start, and when it was handed over.
    head: Option<(TaskId, Picos)>,
    /// When the next batch was handed over, unless none waits.
    batch: Option<Picos>,
    batches_left: u32,
    frame_start: Picos,
    frame_runs: bool,
    pub(super) frames: Frames,
    /// When each task had everything it waits for outside the queue.
    handed_over: Vec<Picos>,
    /// When the program's latest commands ended, by their number modulo the depth.
    ends: Vec<Picos>,
    /// Commands of the program that have ended.
    ended: usize,
    /// Tasks of the program that have not finished.
    pub(super) left: usize,
    /// Whether the processor may change hands, once everything at this time has been
    /// handled.
    pub(super) turn_is_due: bool,
}

impl FrameQueue {
    pub(super) fn reset(&mut self, tasks: usize) {
        let (mut handed_over, mut ends) = (take(&mut self.handed_over), take(&mut self.ends));
        handed_over.clear();
        handed_over.resize(tasks, Picos::ZERO);
        ends.resize(MAX_QUEUE_DEPTH, Picos::ZERO);
        *self = Self { handed_over, ends, left: tasks, ..Self::default() };
    }

    /// Counts a frame that took `length`, or has taken it so far.
    fn count(&mut self, length: Picos, period: Picos) {
        self.frames.worst = self.frames.worst.max(length);
        self.frames.late += u32::from(length > period);
    }

    /// The run ends; a frame still on its way may be late by now. Returns its start.
    pub(super) fn close(&mut self, now: Picos, period: Picos) -> Option<Picos> {
        if !self.frame_runs {
            return None;
        }
        self.count(now.saturating_sub(self.frame_start), period);
        Some(self.frame_start)
    }
}

impl<S: TraceSink> Run<'_, S> {
    /// Starts the frames and the steady traffic.
    pub(super) fn begin_beside(&mut self) {
        if self.background.is_some() {
            self.start_frame();
            self.start_steady();
        }
    }

    /// Whether `task` runs on the processor that is shared with the background.
    pub(super) fn is_shared(&self, task: TaskId) -> bool {
        let task = &self.program.tasks[task.index()];
        self.background.is_some_and(|background| task.processor == Some(background.processor))
            && !task.is_host_side
    }

    /// A command of the program could start; it takes its turn.
    pub(super) fn queue_command(&mut self, task: TaskId) {
        let Some(background) = self.background else { return };
        let queue = &mut self.engine.frame_queue;
        let depth = background.queue_depth.clamp(1, MAX_QUEUE_DEPTH);
        let room = queue.ended.checked_sub(depth).map_or(Picos::ZERO, |_| queue.ends[queue.ended % depth]);
        let handed_over = queue.handed_over[task.index()].max(room);
        queue.head = Some((task, handed_over));
        self.engine.frame_queue.turn_is_due = true;
    }

    /// A task of the program has finished: it gives the queue free, or lets others be
    /// handed over to it.
    pub(super) fn leave_queue(&mut self, task: TaskId) {
        self.engine.frame_queue.left -= 1;
        if self.is_shared(task) {
            self.end_command();
            return;
        }
        let now = self.engine.calendar.now();
        for successor in self.program.successors(task) {
            self.engine.frame_queue.handed_over[successor.index()] = now;
        }
    }

    /// A command of the program has ended.
    fn end_command(&mut self) {
        let Some(background) = self.background else { return };
        let now = self.engine.calendar.now();
        let queue = &mut self.engine.frame_queue;
        let depth = background.queue_depth.clamp(1, MAX_QUEUE_DEPTH);
        queue.ends[queue.ended % depth] = now;
        queue.ended += 1;
        queue.occupant = Occupant::Nobody;
        self.engine.frame_queue.turn_is_due = true;
    }

    /// Gives the processor to whoever came first.
    pub(super) fn take_turn(&mut self) {
        let queue = &mut self.engine.frame_queue;
        if queue.occupant != Occupant::Nobody {
            return;
        }
        match (queue.head, queue.batch) {
            (Some((task, handed_over)), batch) if batch.is_none_or(|batch| handed_over <= batch) => {
                queue.occupant = Occupant::Program;
                queue.head = None;
                self.begin_task(task);
            }
            (_, Some(_)) => {
                queue.occupant = Occupant::Background;
                queue.batch = None;
                self.begin_batch();
            }
            (Some(_) | None, None) => {}
        }
    }

    fn begin_batch(&mut self) {
        let Some(&Background { processor, duration, bytes, .. }) = self.background else { return };
        let now = self.engine.calendar.now();
        if bytes == Bytes::ZERO {
            self.engine.calendar.push(later(now, duration), Event::BatchEnd);
        } else {
            let client = ClientId(processor.0);
            let traffic = Traffic { task: BATCH, client, streams: 1, duration, bytes };
            self.engine.memory.start(now, &traffic, self.capacity);
        }
    }

    /// A batch has ended, and with the last one its frame.
    pub(super) fn end_batch(&mut self) {
        let Some(background) = self.background else { return };
        let now = self.engine.calendar.now();
        let queue = &mut self.engine.frame_queue;
        queue.occupant = Occupant::Nobody;
        queue.batches_left -= 1;
        if queue.batches_left > 0 {
            queue.batch = Some(now);
        } else {
            queue.frame_runs = false;
            queue.frames.completed += 1;
            let start = queue.frame_start;
            queue.count(now - start, background.period);
            self.sink.background(start, now);
            // A renderer that falls behind starts its next frame at once.
            let next = later(start, background.period).max(now);
            self.engine.calendar.push(next, Event::Frame);
        }
        self.engine.frame_queue.turn_is_due = true;
    }

    pub(super) fn start_frame(&mut self) {
        let Some(background) = self.background else { return };
        let now = self.engine.calendar.now();
        let queue = &mut self.engine.frame_queue;
        queue.batches_left = background.batches;
        queue.batch = Some(now);
        queue.frame_start = now;
        queue.frame_runs = true;
        self.engine.frame_queue.turn_is_due = true;
    }

    /// Moves the next period's steady traffic.
    pub(super) fn start_steady(&mut self) {
        let Some(&Background { period, steady: Some((client, bytes)), .. }) = self.background else { return };
        if bytes > Bytes::ZERO {
            let now = self.engine.calendar.now();
            let traffic = Traffic { task: STEADY, client, streams: 1, duration: period, bytes };
            self.engine.memory.start(now, &traffic, self.capacity);
        }
    }
}
