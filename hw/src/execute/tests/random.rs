//! Execution equals simulation: random graphs under random plans.
//!
//! Each case runs a plan on the device and checks, by device events and host time stamps, that
//! exactly the schedule's commands were run, in its order and each after its dependencies, and that
//! every result is right. Seeds differ in each run; `COEXEC_RANDOM_SEED`, or that of the other
//! property tests, repeats one. `COEXEC_RANDOM_PLANS` sets the number of cases.

pub(super) mod draw;

use std::collections::HashSet;
use std::time::{SystemTime, UNIX_EPOCH};

use coexec_sim::schedule::{Command, CommandId, Schedule, What, schedule};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::cpu::ThreadPool;
use crate::execute::actions::Side;
use crate::execute::machine::Dispatcher;
use crate::execute::program::{Progress, setting, stages_before};
use crate::opencl::OpenClError;
use crate::opencl::events::{finish, stamps};
use draw::{Case, drawn};

/// Cases by default.
const CASES: u64 = 60;
/// Kernel launches from which the offset between the clocks of host and device is derived.
const COMPARISONS: usize = 8;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().expect("a number in the variable"))
}

#[test]
fn what_is_executed_is_what_was_simulated() {
    let Some((_lock, mut machine)) = machine() else { return };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
    let seed = number("COEXEC_RANDOM_SEED").or_else(|| number("PROPTEST_RNG_SEED"));
    let first = seed.unwrap_or_else(now);
    let cases = number("COEXEC_RANDOM_PLANS").unwrap_or(CASES);
    eprintln!("{cases} plans from COEXEC_RANDOM_SEED={first} on");
    let (mut commands, mut left_out) = (0, 0);
    for seed in (0..cases).map(|case| first.wrapping_add(case)) {
        // For every other plan, a thread of its own fills the queue.
        let threads = seed.is_multiple_of(2).then(|| ThreadPool::new(2).unwrap());
        machine.dispatchers = threads.into_iter().map(|threads| Dispatcher { core: None, threads }).collect();
        let case = drawn(&mut ChaCha8Rng::seed_from_u64(seed), &machine);
        let context = format!("COEXEC_RANDOM_PLANS=1 COEXEC_RANDOM_SEED={seed}: {case}");
        match executed_as_simulated(&mut machine, &case, &context) {
            Some(done) => commands += done,
            None => left_out += 1,
        }
    }
    eprintln!("{commands} commands were executed as they were simulated; {left_out} plans have no kernels");
    assert!(cases < CASES || 4 * left_out <= cases, "{left_out} of {cases} plans have no kernels");
}

/// Runs a case and returns the number of commands run; `None` if an operator has no kernel under
/// the dispatch rules, or one whose work-groups are too large for this device.
fn executed_as_simulated(machine: &mut Machine, case: &Case, context: &str) -> Option<usize> {
    let Case { stages, plan, profile, sharing } = case;
    assume(machine, plan.synchronisation, sharing.mechanism, sharing.memory);
    let task = task((stages, profile), plan);
    let mut program = match Program::<f32>::new(machine, &task) {
        Ok(program) => program,
        Err(ExecuteError::OpenCl(OpenClError::Unsupported { .. } | OpenClError::WorkGroup { .. })) => {
            return None;
        }
        Err(error) => panic!("{error}: {context}"),
    };
    let verified = program.verify(machine).unwrap_or_else(|error| panic!("{error}: {context}"));
    let uses_gpu = program.operations.iter().any(|operation| operation.gpu().next().is_some());
    let memory = uses_gpu.then_some(sharing.memory);
    let simulated = schedule(stages, plan, &setting(memory, profile)).unwrap();
    let clocks = Clocks::compare(machine, &program);
    program.poison().unwrap();
    let started = Instant::now();
    let progress = program.run_commands(machine).unwrap_or_else(|error| panic!("{error}: {context}"));
    program.compare(&verified).unwrap_or_else(|error| panic!("{error}: {context}"));
    if let Some(runtime) = machine.runtime() {
        finish(runtime).unwrap();
    }
    let is_work = |command: &Command| is_work(&simulated, command, (case, &program));
    let expected: Vec<CommandId> =
        ids(&simulated).filter(|&id| is_work(&simulated.commands[id.index()])).collect();
    let of_side = |side| {
        let commands = &simulated.commands;
        let is_its = |id: &CommandId| Side::of(&commands[id.index()]) == side;
        expected.iter().copied().filter(is_its).collect::<Vec<_>>()
    };
    let on_host: Vec<CommandId> = progress.host.commands.iter().map(|(id, _)| *id).collect();
    let on_device: Vec<CommandId> = progress.device.commands.iter().map(|(id, _)| *id).collect();
    assert_eq!(on_host, of_side(Side::Host), "{context}");
    assert_eq!(on_device, of_side(Side::Device), "{context}");
    let times = times(&simulated, &progress, (started, clocks));
    for &id in &expected {
        for earlier in comes_after(&simulated, id, &is_work) {
            let is_same = same_side(&simulated, earlier, id);
            // A kernel that sets a flag does so before its event completes.
            let is_on_device = Side::of(&simulated.commands[earlier.index()]) == Side::Device;
            let is_told = is_on_device && !is_same && sharing.uses_flags();
            let ended = times[earlier.index()][usize::from(!is_told)].expect("it was done");
            let began = times[id.index()][0].expect("it was done");
            let slack = if is_same { 0 } else { clocks.map_or(0, Clocks::slack) };
            assert!(ended <= began + slack, "{earlier:?} until {ended}, {id:?} from {began} ns: {context}");
        }
    }
    Some(expected.len())
}

fn ids(schedule: &Schedule) -> impl Iterator<Item = CommandId> {
    (0..schedule.commands.len() as u32).map(CommandId)
}

fn same_side(schedule: &Schedule, one: CommandId, other: CommandId) -> bool {
    Side::of(&schedule.commands[one.index()]) == Side::of(&schedule.commands[other.index()])
}

/// Whether a command does anything: synchronisations in shared memory only order other commands,
/// unless results are mapped, or were computed by both sides.
fn is_work(schedule: &Schedule, command: &Command, (case, program): (&Case, &Program<f32>)) -> bool {
    let uses_gpu = program.operations.iter().any(|operation| operation.gpu().next().is_some());
    let maps = uses_gpu && case.sharing.maps();
    match command.what {
        What::Compute { .. } | What::Move { .. } => true,
        What::Join { .. } => {
            let overlaps = |stage: &usize| {
                program.operations[*stage].parts.iter().any(|part| part.computed != part.owned)
            };
            maps || stages_before(schedule, command).iter().any(overlaps)
        }
        What::HandOver { .. } => maps && Side::of(command) == Side::Host,
        What::ReadBack => maps,
        What::Submit => false,
    }
}

/// The commands that must have ended before `id` starts: its dependencies and the preceding command
/// of its queue. Commands that are no work are replaced by their own dependencies.
fn comes_after(schedule: &Schedule, id: CommandId, is_work: &impl Fn(&Command) -> bool) -> Vec<CommandId> {
    let (mut seen, mut waiting) = (HashSet::new(), vec![id]);
    while let Some(id) = waiting.pop() {
        let in_queue = (0..id.0).rev().map(CommandId).find(|&earlier| same_side(schedule, earlier, id));
        for before in schedule.commands[id.index()].after.iter().copied().chain(in_queue) {
            if seen.insert(before) && !is_work(&schedule.commands[before.index()]) {
                waiting.push(before);
            }
        }
    }
    seen.into_iter().filter(|id| is_work(&schedule.commands[id.index()])).collect()
}

/// Bounds of the device's clock minus the host's, in nanoseconds since a base instant of the host.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    since: Instant,
    ahead: [i128; 2],
}

impl Clocks {
    /// From kernel launches: the device stamps each when it is enqueued, between two readings of
    /// the host's clock.
    fn compare(machine: &Machine, program: &Program<f32>) -> Option<Self> {
        let kernel = program.operations.iter().find_map(|operation| operation.gpu().next())?;
        let since = Instant::now();
        let mut ahead = [i128::MIN, i128::MAX];
        for _ in 0..COMPARISONS {
            let before = since.elapsed().as_nanos().cast_signed();
            let events = kernel.prepared.enqueue_announcing(0).unwrap();
            let after = since.elapsed().as_nanos().cast_signed();
            finish(machine.runtime()?).unwrap();
            for event in &events {
                let queued = i128::from(stamps(event).unwrap().queued);
                ahead = [ahead[0].max(queued - after), ahead[1].min(queued - before)];
            }
        }
        assert!(ahead[0] <= ahead[1], "the clocks drift: {ahead:?}");
        Some(Self { since, ahead })
    }

    /// Width of the bounds.
    fn slack(self) -> i128 {
        self.ahead[1] - self.ahead[0]
    }
}

/// Start and end of each command, in nanoseconds of the host's clock.
fn times(
    schedule: &Schedule,
    progress: &Progress,
    (started, clocks): (Instant, Option<Clocks>),
) -> Vec<[Option<i128>; 2]> {
    let mut times = vec![[None; 2]; schedule.commands.len()];
    let since = clocks.map_or(started, |clocks| clocks.since);
    for (id, stretch) in &progress.host.commands {
        times[id.index()] = stretch.map(|time| Some(time.duration_since(since).as_nanos().cast_signed()));
    }
    for (id, [first, last]) in &progress.device.commands {
        let ahead = clocks.expect("the device has kernels").ahead[0];
        let (first, last) = (stamps(first).unwrap().started, stamps(last).unwrap().ended);
        times[id.index()] = [first, last].map(|time| Some(i128::from(time) - ahead));
    }
    times
}
