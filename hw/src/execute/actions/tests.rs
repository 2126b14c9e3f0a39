use std::collections::BTreeSet;
use std::sync::LazyLock;

use coexec_sim::schedule::{Memory, Schedule, schedule};
use coexec_sim::workload::{DataType, GraphBuilder, Shape, Stage, Window, fuse};
use coexec_sim::{Axis, CoreSet, Mechanism, Placement, Plan, Profile};
use proptest::prelude::*;

use super::*;
use crate::execute::Home;
use crate::execute::program::setting;

/// Rows and channels of every result.
const ROWS: u32 = 16;
const CHANNELS: u32 = 8;

/// Stages that each read two earlier results, by index, or the input.
fn stages(picks: &[[usize; 2]]) -> Vec<Stage> {
    let mut net = GraphBuilder::new("a test", DataType::F32);
    let mut results = vec![net.input(Shape::image(ROWS, 16, CHANNELS))];
    for [first, second] in picks {
        let [first, second] = [first, second].map(|pick| results[pick % results.len()]);
        let read = if first == second { first } else { net.concat(&[first, second]) };
        results.push(net.conv(read, CHANNELS, Window::same(3)));
    }
    fuse(&net.build().unwrap())
}

/// Stages that each read the preceding one.
fn line(count: usize) -> Vec<Stage> {
    stages(&(0..count).map(|stage| [stage; 2]).collect::<Vec<_>>())
}

const CPU: usize = 0;
const GPU: usize = 1;
const BOTH: usize = 2;

/// The placement of a stage, by number; cut along the height.
fn placement(by: usize) -> Placement {
    let cores = CoreSet::fastest(&profile().cpu, 1).unwrap();
    match by {
        CPU => Placement::cpu(cores),
        GPU => Placement::GPU,
        _ => Placement::cpu_and_gpu(Axis::Height, cores, [7, ROWS - 7]),
    }
}

fn profile() -> &'static Profile {
    static PROFILE: LazyLock<Profile> = LazyLock::new(|| Profile::load("pixel4").unwrap());
    &PROFILE
}

fn scheduled(stages: &[Stage], by: &[usize], chains: &[Option<u32>], memory: Home) -> Schedule {
    let placements = by.iter().map(|&by| placement(by)).collect();
    let plan = Plan::new(Mechanism::SvmPolling, placements).chained(chains.to_vec());
    schedule(stages, &plan, &setting(Some(memory), profile())).unwrap()
}

/// Whether a command computes or moves data; with `maps`, synchronisations are work, too.
fn is_work(command: &Command, maps: bool) -> bool {
    match command.what {
        What::Compute { .. } | What::Move { .. } => true,
        What::Join { .. } | What::ReadBack => maps,
        What::HandOver { .. } => maps && Side::of(command) == Side::Host,
        What::Submit => false,
    }
}

/// The actions of device and host in words.
fn written(schedule: &Schedule) -> [Vec<String>; 2] {
    let actions = Actions::new(&schedule.commands, |command| is_work(command, false));
    let word = |step: &Action| match *step {
        Action::Await(number) => format!("await {number}"),
        Action::Notify(number) => format!("notify {number}"),
        Action::Run(id) => {
            let command = &schedule.commands[id.index()];
            match command.what {
                What::Move { to: Memory::Gpu, .. } => format!("send for {}", command.stage),
                What::Move { to: Memory::Host, .. } => format!("fetch {}", command.stage),
                _ => format!("compute {}", command.stage),
            }
        }
    };
    [&actions.device, &actions.host].map(|steps| steps.iter().map(word).collect())
}

fn in_line(by: &[usize], memory: Home) -> [Vec<String>; 2] {
    written(&scheduled(&line(by.len()), by, &[], memory))
}

const SHARED: Home = Home::Shared;

#[test]
fn a_single_processor_synchronises_only_at_the_end() {
    let [device, host] = in_line(&[CPU, CPU], SHARED);
    assert!(device.is_empty());
    assert_eq!(host, ["compute 0", "compute 1"]);
    let [device, host] = in_line(&[GPU, GPU], SHARED);
    assert_eq!(device, ["compute 0", "compute 1", "notify 1"]);
    assert_eq!(host, ["await 1"]);
}

#[test]
fn after_a_join_the_device_waits_only_for_the_host_s_part() {
    let [device, host] = in_line(&[BOTH, GPU], SHARED);
    assert_eq!(device, ["compute 0", "notify 1", "await 1", "compute 1", "notify 2"]);
    // The host announces its own part before it waits for the device's.
    assert_eq!(host, ["compute 0", "notify 1", "await 1", "await 2"]);
}

#[test]
fn hand_overs_happen_only_where_the_placement_changes() {
    let [device, host] = in_line(&[CPU, CPU, GPU, GPU, CPU], SHARED);
    assert_eq!(device, ["await 1", "compute 2", "compute 3", "notify 1"]);
    assert_eq!(host, ["compute 0", "compute 1", "notify 1", "await 1", "compute 4"]);
}

#[test]
fn without_shared_memory_each_side_is_sent_what_the_other_computed() {
    let [device, _] = in_line(&[CPU, GPU, CPU], Home::Device);
    assert_eq!(device, ["await 1", "send for 1", "compute 1", "fetch 2", "notify 1"]);
    let [device, _] = in_line(&[GPU], Home::Device);
    assert_eq!(device, ["send for 0", "compute 0", "fetch 0", "notify 1"]);
}

#[test]
fn a_chain_meets_once_at_its_end_and_what_follows_waits_for_the_join() {
    let by = [BOTH, BOTH, GPU];
    let chains = [Some(4), Some(4), None];
    let [device, host] = written(&scheduled(&line(3), &by, &chains, SHARED));
    assert_eq!(device, ["compute 0", "compute 1", "notify 1", "await 1", "compute 2", "notify 2"]);
    assert_eq!(host, ["compute 0", "compute 1", "notify 1", "await 1", "await 2"]);
}

/// Executes both sides step by step, tracking what each has waited for.
struct Walk<'a> {
    schedule: &'a Schedule,
    maps: bool,
    /// The host's and the device's.
    sides: [Walked<'a>; 2],
}

/// A side's actions, the number performed, its commands so far, their number at each notification,
/// and the number of the other side's commands that it has waited for.
type Walked<'a> = (&'a [Action], usize, Vec<CommandId>, Vec<usize>, usize);

impl<'a> Walk<'a> {
    fn new(schedule: &'a Schedule, actions: &'a Actions, maps: bool) -> Self {
        let side = |steps| (steps, 0, Vec::new(), Vec::new(), 0);
        Self { schedule, maps, sides: [side(actions.host.as_slice()), side(actions.device.as_slice())] }
    }

    /// Commands that must have ended before `id` starts. Those that are no work are replaced by
    /// their own dependencies.
    fn before(&self, id: CommandId) -> BTreeSet<CommandId> {
        let commands = &self.schedule.commands;
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![id]);
        while let Some(id) = waiting.pop() {
            let side = Side::of(&commands[id.index()]);
            let in_queue = (0..id.0).rev().map(CommandId).find(|id| Side::of(&commands[id.index()]) == side);
            for before in commands[id.index()].after.iter().copied().chain(in_queue) {
                if seen.insert(before) && !is_work(&commands[before.index()], self.maps) {
                    waiting.push(before);
                }
            }
        }
        seen.retain(|id| is_work(&commands[id.index()], self.maps));
        seen
    }

    fn check(&self, own: usize, id: CommandId) {
        for before in self.before(id) {
            let side = Side::of(&self.schedule.commands[before.index()]) as usize;
            let done = &self.sides[side].2;
            let known = if side == own { done.len() } else { self.sides[own].4 };
            assert!(
                done[..known].contains(&before),
                "{id:?} does not know of {before:?}: {:?}",
                self.schedule
            );
        }
    }

    /// Performs the next action of a side, if it is not blocked.
    fn step(&mut self, own: usize) -> bool {
        let Some(&step) = self.sides[own].0.get(self.sides[own].1) else { return false };
        match step {
            Action::Await(number) => {
                let Some(&replied) = self.sides[1 - own].3.get(number as usize - 1) else { return false };
                self.sides[own].4 = replied;
            }
            Action::Run(id) => {
                self.check(own, id);
                self.sides[own].2.push(id);
            }
            Action::Notify(number) => {
                let done = self.sides[own].2.len();
                self.sides[own].3.push(done);
                assert_eq!(self.sides[own].3.len(), number as usize);
            }
        }
        self.sides[own].1 += 1;
        true
    }

    /// Performs all actions; each of `turns` selects whether the device goes first.
    fn finish(mut self, turns: impl Iterator<Item = bool>) {
        for device_first in turns {
            let order = if device_first { [1, 0] } else { [0, 1] };
            if !order.into_iter().any(|side| self.step(side)) {
                break;
            }
        }
        for (side, (steps, taken, done, ..)) in self.sides.iter().enumerate() {
            assert_eq!(*taken, steps.len(), "side {side} waits forever: {:?}", self.schedule);
            let all = (0..self.schedule.commands.len() as u32).map(CommandId).filter(|id| {
                let command = &self.schedule.commands[id.index()];
                Side::of(command) as usize == side && is_work(command, self.maps)
            });
            assert!(all.eq(done.iter().copied()), "other commands, or another order: {:?}", self.schedule);
        }
        assert_eq!(self.sides[0].4, self.sides[1].2.len(), "the host is notified of everything");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn both_sides_come_to_an_end_and_know_what_they_come_after(
        by in prop::collection::vec(0..3_usize, 24),
        picks in prop::collection::vec(prop::array::uniform2(0..1_000_usize), 1..10),
        chains in prop::collection::vec(0..3_u32, 24),
        memory in prop::sample::select(vec![Home::Shared, Home::Mapped, Home::Device]),
        maps: bool,
        eager in 0..3_usize,
        turns in prop::collection::vec(any::<bool>(), 1_000),
    ) {
        let stages = stages(&picks);
        let by = &by[..stages.len()];
        let chain = |(&by, &chain): (&usize, &u32)| Some(chain).filter(|&chain| by == BOTH && chain < 2);
        let chains: Vec<_> = by.iter().zip(&chains).map(chain).collect();
        let schedule = scheduled(&stages, by, &chains, memory);
        let maps = maps && memory == Home::Mapped;
        let actions = Actions::new(&schedule.commands, |command| is_work(command, maps));
        let turns = turns.into_iter().map(|turn| match eager {
            0 => true,
            1 => false,
            _ => turn,
        });
        Walk::new(&schedule, &actions, maps).finish(turns);
    }
}
