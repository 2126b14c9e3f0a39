//! What each processor's stream loses beside the other's, at several demands of both.
//!
//! Responsible for: the measurements; the curves are fitted by `calibrate::interference`.
//! Invariant: a time beside traffic is compared with one taken alone just before, in
//! several rounds: what else the machine does changes from second to second.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use coexec_fit::calibrate::interference::CoRun;
use coexec_sim::statistics::median;

use super::{BYTES_PER_MICRO_OF_GBPS, Result, Stream, TimeBudget};

/// Parts of its greatest demand at which a client is measured, and at which the others
/// stream beside it.
const QUICK: [&[f64]; 2] = [&[1.0, 0.6, 0.35, 0.15], &[0.2, 0.45, 0.7, 1.0]];
const FULL: [&[f64]; 2] = [&[1.0, 0.75, 0.5, 0.35, 0.2, 0.1], &[0.1, 0.2, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0]];
/// Rounds, quick and full, and passes of each kind in a round.
const ROUNDS: [usize; 2] = [2, 10];
const PASSES: usize = 2;
/// Until traffic that was started is under way.
const RAMP: Duration = Duration::from_millis(20);

/// Co-runs of both processors, and the most they moved together.
pub(super) struct CoRuns {
    pub(super) runs: Vec<CoRun>,
    pub(super) together_gbps: f64,
    rounds: usize,
}

/// A processor's stream, by the name of its client in a profile.
pub(super) struct Client {
    pub(super) name: &'static str,
    pub(super) stream: Stream,
}

/// Demands of a client: work on each number, and what it moves alone.
struct Demands {
    /// At which it is measured.
    own: Vec<u32>,
    /// At which it streams beside the other.
    levels: Vec<(u32, f64)>,
}

impl Demands {
    fn of(stream: &mut Stream, [own, levels]: [&[f64]; 2], passes: usize) -> Result<Self> {
        let own = stream.works(own)?;
        let works = stream.works(levels)?;
        let levels = works.into_iter().map(|work| Ok((work, rate(stream, work, passes)?)));
        Ok(Self { own, levels: levels.collect::<Result<_>>()? })
    }
}

/// Measures each of two clients beside the other, level by level: where time runs out,
/// both have been measured at as many.
pub(super) fn measure(clients: &mut [Client; 2], quick: bool, budget: &TimeBudget<'_>) -> Result<CoRuns> {
    let parts = if quick { QUICK } else { FULL };
    let rounds = ROUNDS[usize::from(!quick)];
    let passes = rounds * PASSES;
    let [first, second] = &mut *clients;
    let mut demands =
        [Demands::of(&mut first.stream, parts, passes)?, Demands::of(&mut second.stream, parts, passes)?];
    let mut co_runs = CoRuns { runs: Vec::new(), together_gbps: 0.0, rounds };
    for level in 0..parts[1].len() {
        for _ in 0..2 {
            if budget.is_over() {
                return Ok(co_runs);
            }
            let ([client, others], [own, beside_it]) = (&mut *clients, &demands);
            let at = beside_it.levels[level];
            beside([client, others], &own.own, (level, at), &mut co_runs)?;
            budget.report(&format!("{} beside {} at {:.1} GB/s", client.name, others.name, at.1));
            // Then the other one.
            clients.reverse();
            demands.reverse();
        }
    }
    Ok(co_runs)
}

/// Measures `client` beside `others` at one level of their traffic.
fn beside(
    [client, others]: [&mut Client; 2],
    works: &[u32],
    (level, (others_work, others_gbps)): (usize, (u32, f64)),
    co_runs: &mut CoRuns,
) -> Result<()> {
    for &work in works {
        let bytes = client.stream.bytes();
        let rounds: Vec<Round> = (0..co_runs.rounds)
            .map(|_| round([&mut *client, &mut *others], [work, others_work]))
            .collect::<Result<_, _>>()?;
        let middle_of = |value: fn(&Round) -> f64| middle(&rounds.iter().map(value).collect::<Vec<_>>());
        let gbps = |time_us: f64| bytes / time_us / BYTES_PER_MICRO_OF_GBPS;
        let together_gbps = gbps(middle_of(|round| round.together_us)) + middle_of(|round| round.flow_gbps);
        co_runs.together_gbps = co_runs.together_gbps.max(together_gbps);
        co_runs.runs.push(CoRun {
            client: client.name.to_owned(),
            own_gbps: gbps(middle_of(|round| round.alone_us)),
            streams: client.stream.streams(),
            others: others.name.to_owned(),
            others_gbps,
            others_streams: others.stream.streams(),
            level: level as u32 + 1,
            slowdown: middle_of(|round| round.together_us / round.alone_us),
        });
    }
    Ok(())
}

/// Gigabytes a second that a stream moves alone.
fn rate(stream: &mut Stream, work: u32, passes: usize) -> Result<f64> {
    let times = stream.passes(work, passes)?;
    Ok(stream.bytes() / middle(&times) / BYTES_PER_MICRO_OF_GBPS)
}

/// A client's time of a pass alone and beside the others, in microseconds, and what the
/// others moved meanwhile.
struct Round {
    alone_us: f64,
    together_us: f64,
    flow_gbps: f64,
}

fn round([client, others]: [&mut Client; 2], [work, others_work]: [u32; 2]) -> Result<Round> {
    let alone_us = middle(&client.stream.passes(work, PASSES)?);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| others.stream.flow(others_work, &stop));
        thread::sleep(RAMP);
        let times = client.stream.passes(work, PASSES);
        stop.store(true, Ordering::Relaxed);
        let flow = traffic.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(Round { alone_us, together_us: middle(&times?), flow_gbps: flow? })
    })
}

fn middle(times: &[f64]) -> f64 {
    median(times).unwrap_or(0.0)
}
