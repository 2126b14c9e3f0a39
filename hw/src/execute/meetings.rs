//! Where host and device meet: from the edges of a schedule to what each side waits for and
//! tells.
//!
//! Responsible for: the steps of each side, in the order of the schedule's commands. Not
//! for: that order (`coexec_sim::schedule`), or how one side learns of the other
//! (`crate::sync::link`). Invariants: each side does its commands in the schedule's order, none
//! before what the schedule says it comes after; a wait is for an earlier command, so that
//! no side waits for what waits for it; nothing is waited for that an in-order queue knows
//! already; the host knows of everything the device did when a run ends.

use coexec_sim::Processor;
use coexec_sim::schedule::{Command, CommandId, What};

/// One of the two that meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Host,
    Device,
}

/// What one side does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It waits until the other side has told that; numbers count from 1.
    Await(u32),
    /// It does a command.
    Do(CommandId),
    /// It tells the other side how far it is.
    Tell(u32),
}

/// What each side does, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meetings {
    pub(super) host: Vec<Action>,
    pub(super) device: Vec<Action>,
}

/// One side while its steps are found. Commands are counted as that side does them.
#[derive(Clone, Debug, Default)]
struct Found {
    /// What it does; it awaits so many commands of the other side.
    steps: Vec<Action>,
    /// Its commands so far.
    done: u32,
    /// How many of the other side's commands it has waited for.
    known: u32,
}

impl Side {
    /// Who does a command: what brings results to the caller is the host's.
    pub(super) fn of(command: &Command) -> Self {
        match (command.by, command.what) {
            (_, What::ReadBack) | (Processor::Cpu(_), _) => Self::Host,
            (Processor::Gpu | Processor::Npu(_), _) => Self::Device,
        }
    }
}

impl Meetings {
    /// Of `commands`, of which `is_work` says that there is something to do. The others
    /// only order those around them: who comes after one comes after all before it.
    pub(super) fn new(commands: &[Command], is_work: impl Fn(&Command) -> bool) -> Self {
        let mut sides = [Found::default(), Found::default()];
        // How many commands of either side have ended when one has.
        let mut ended = vec![[0; 2]; commands.len()];
        for (index, command) in commands.iter().enumerate() {
            let (own, other) = match Side::of(command) {
                Side::Host => (0, 1),
                Side::Device => (1, 0),
            };
            let needed = command.after.iter().map(|before| ended[before.index()][other]).max();
            sides[own].wait_for(needed.unwrap_or(0));
            if is_work(command) {
                sides[own].steps.push(Action::Do(CommandId(index as u32)));
                sides[own].done += 1;
            } else {
                ended[index][other] = sides[own].known;
            }
            ended[index][own] = sides[own].done;
        }
        let all = sides[1].done;
        sides[0].wait_for(all);
        let [host, device] = &sides;
        Self { host: host.steps(&device.waits()), device: device.steps(&host.waits()) }
    }

    /// How many times each side tells the other: the device, the host.
    pub(super) fn tells(&self) -> [u32; 2] {
        [&self.device, &self.host]
            .map(|steps| steps.iter().filter(|step| matches!(step, Action::Tell(_))).count() as u32)
    }
}

impl Found {
    fn wait_for(&mut self, count: u32) {
        if count > self.known {
            self.steps.push(Action::Await(count));
            self.known = count;
        }
    }

    /// How many of the other side's commands each wait is for, in order.
    fn waits(&self) -> Vec<u32> {
        let waited = |step: &Action| if let Action::Await(count) = step { Some(*count) } else { None };
        self.steps.iter().filter_map(waited).collect()
    }

    /// The steps, where the other side waits for so many commands of this one.
    fn steps(&self, awaited: &[u32]) -> Vec<Action> {
        let (mut steps, mut done, mut waits) = (Vec::new(), 0, 0);
        for &step in &self.steps {
            if let Action::Do(_) = step {
                done += 1;
                steps.push(step);
                if let Ok(position) = awaited.binary_search(&done) {
                    steps.push(Action::Tell(position as u32 + 1));
                }
            } else {
                waits += 1;
                steps.push(Action::Await(waits));
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests;
