//! A run of a program that goes on step by step, while others do.
//!
//! Responsible for: going on without waiting. Not for: who goes on next
//! (`super::super::stream`). Invariant: the device's queue holds nothing of such a run that
//! waits for the host.

use crate::cpu::Element;
use crate::execute::program::queue::Progress;
use crate::execute::{Action, Machine, Program, Result};

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

impl<T: Element> Program<T> {
    /// Begins a run.
    pub(in crate::execute) fn begin(&mut self) -> Result<Progress> {
        let mut progress = Progress::default();
        progress.is_one_of_several = true;
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
}
