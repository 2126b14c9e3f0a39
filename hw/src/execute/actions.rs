//! The actions of host and device: a schedule's commands, with the synchronisation between the
//! sides.
//!
//! Responsible for: the actions of each side, in the order of the schedule's commands. Not for:
//! that order (`coexec_sim::schedule`), or how one side learns of the other (`crate::sync::link`).
//! Invariants: each side runs its commands in the schedule's order, each after its dependencies; a
//! wait is for an earlier command, so there is no deadlock; nothing is awaited that the in-order
//! queue implies; the host has waited for everything on the device when a run ends.

use coexec_sim::Processor;
use coexec_sim::schedule::{Command, CommandId, What};

/// One of the two sides that synchronise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Host,
    Device,
}

/// An action of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Waits for a notification of the other side; numbers start at 1.
    Await(u32),
    /// Runs a command.
    Run(CommandId),
    /// Notifies the other side; numbers start at 1.
    Notify(u32),
}

/// The actions of each side, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Actions {
    pub(super) host: Vec<Action>,
    pub(super) device: Vec<Action>,
}

/// The actions of one side under construction. Commands are counted per side.
#[derive(Clone, Debug, Default)]
struct SideActions {
    /// Its actions; `Await` holds the number of the other side's commands that must have ended.
    steps: Vec<Action>,
    /// Number of its commands so far.
    done: u32,
    /// Number of the other side's commands that it has waited for.
    known: u32,
}

impl Side {
    /// The side that runs a command. Reading back results is the host's.
    pub(super) fn of(command: &Command) -> Self {
        match (command.by, command.what) {
            (_, What::ReadBack) | (Processor::Cpu(_), _) => Self::Host,
            (Processor::Gpu | Processor::Npu(_), _) => Self::Device,
        }
    }
}

impl Actions {
    /// The actions for `commands`. Those that are not work only order the commands around them:
    /// what depends on one of them depends on all that precede it.
    pub(super) fn new(commands: &[Command], is_work: impl Fn(&Command) -> bool) -> Self {
        let mut sides = [SideActions::default(), SideActions::default()];
        // For each command, how many commands of either side have ended when it has.
        let mut ended = vec![[0; 2]; commands.len()];
        for (index, command) in commands.iter().enumerate() {
            let (own, other) = match Side::of(command) {
                Side::Host => (0, 1),
                Side::Device => (1, 0),
            };
            let needed = command.after.iter().map(|before| ended[before.index()][other]).max();
            sides[own].wait_for(needed.unwrap_or(0));
            if is_work(command) {
                sides[own].steps.push(Action::Run(CommandId(index as u32)));
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

    /// Number of notifications by the device, and by the host.
    pub(super) fn notifications(&self) -> [u32; 2] {
        [&self.device, &self.host]
            .map(|steps| steps.iter().filter(|step| matches!(step, Action::Notify(_))).count() as u32)
    }
}

impl SideActions {
    fn wait_for(&mut self, count: u32) {
        if count > self.known {
            self.steps.push(Action::Await(count));
            self.known = count;
        }
    }

    /// For each wait, the number of the other side's commands that must have ended.
    fn waits(&self) -> Vec<u32> {
        let waited = |step: &Action| if let Action::Await(count) = step { Some(*count) } else { None };
        self.steps.iter().filter_map(waited).collect()
    }

    /// The final actions, with a notification after each command that the other side waits for.
    fn steps(&self, awaited: &[u32]) -> Vec<Action> {
        let (mut steps, mut done, mut waits) = (Vec::new(), 0, 0);
        for &step in &self.steps {
            if let Action::Run(_) = step {
                done += 1;
                steps.push(step);
                if let Ok(position) = awaited.binary_search(&done) {
                    steps.push(Action::Notify(position as u32 + 1));
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
