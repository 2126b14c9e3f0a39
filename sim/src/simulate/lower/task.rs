//! What one task of the engine program stands for.

use super::{Detail, Processor};
use crate::device::gpu::Direction;
use crate::engine::{ClientId, Program, TaskId, Work};
use crate::kernel::Phases;
use crate::kernel::cpu::CoreSet;
use crate::plan::ShareOf;

/// What a task does for its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Computes the stage, or this processor's channels of it.
    Compute,
    /// Makes another processor's result visible to this one.
    HandOver,
    /// Copies between the GPU's own memory and the host's.
    Transfer(Direction),
    /// Brings the parts of a cut stage together.
    Join,
    /// Gets the GPU's queue to its first launch; once an inference.
    Submit,
    /// Gets the GPU's result to the caller; once an inference.
    ReadBack,
}

/// One task of the engine program and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) stage: usize,
    pub(crate) processor: Processor,
    pub(crate) role: Role,
    /// Its part of the stage, where that is cut.
    pub(crate) share: Option<ShareOf>,
    pub(crate) phases: Phases,
    /// The core set, for a task of the CPU.
    pub(crate) cores: Option<CoreSet>,
    /// Whom others disturb when they disturb it, where not its processor.
    pub(crate) client: Option<ClientId>,
    pub(crate) detail: Option<Detail>,
    pub(crate) predecessors: Vec<TaskId>,
}

impl Task {
    /// Adds the task to a program, with `phases` for its own.
    pub(super) fn add(&self, phases: &Phases, program: &mut Program) -> TaskId {
        let phases = phases.as_slice().iter();
        let work = phases.map(|phase| Work { duration: phase.duration, bytes: phase.bytes });
        let id = program.task(self.processor.id(), self.streams(), work);
        if let Some(client) = self.client {
            program.moves_as(id, client);
        }
        if self.role != Role::Compute {
            program.on_host(id);
        }
        id
    }

    /// Identical flows its traffic consists of: the threads that take part.
    fn streams(&self) -> u32 {
        match &self.detail {
            Some(Detail::Cpu { schedule, .. }) => schedule.threads.max(1),
            _ => 1,
        }
    }
}
