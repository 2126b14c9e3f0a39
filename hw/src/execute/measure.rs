//! Measuring variants of a workload in turn: after a warm-up, in random order, with every
//! repetition kept and every result verified.

use std::time::{Duration, Instant};

use coexec_sim::kernel::gpu::Launch;
use coexec_sim::statistics::median;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::check::Verified;
use super::{Home, Machine, Program, Result, RunTimes, Task};
use crate::cpu::{Element, SPIN, spin_until};
use crate::sync::Mechanism;

/// Runs in a window of the warm-up test.
const WARM_WINDOW: usize = 5;
/// A variant is warm when the medians of two consecutive windows differ by less than this fraction:
/// the width of the confidence interval of 30 repetitions on a quiet machine.
const WARM_TOLERANCE: f64 = 0.02;
/// Most runs of a warm-up; a machine that has not settled by then never does.
const MAX_WARM_UP_RUNS: usize = 40;
/// Consecutive repetitions of a variant before it is another's turn.
const REPETITIONS_PER_TURN: usize = 2;
/// Time limit of a warm-up, once both windows are full.
const WARM_UP_LIMIT: Duration = Duration::from_secs(2);

/// How variants are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Repetitions of each variant.
    pub repetitions: u32,
    /// Seed of the order of repetitions.
    pub seed: u64,
    /// After this time no further repetition is started.
    pub deadline: Option<Instant>,
}

/// The measurement of a variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredVariant {
    /// Every repetition, in order, in microseconds.
    pub times_us: Vec<f64>,
    /// The same on the host's clock, from its call until it learned of the end. It makes variants
    /// on different processors comparable.
    pub wall_us: Vec<f64>,
    /// Of all repetitions, the operators that cores computed: the index of the stage, and its time.
    pub on_cores_us: Vec<(usize, f64)>,
    /// Runs before the first repetition.
    pub warm_up: usize,
    /// Whether the warm-up ended because the times had settled.
    pub is_warm: bool,
    /// Number of result elements compared with the reference.
    pub verified_elements: usize,
    /// Mechanism and shared memory, if host and device both took part.
    pub sharing: Option<(Mechanism, Home)>,
    /// The GPU's launch, if the variant is a single operator.
    pub launch: Option<Launch>,
}

/// A variant under measurement.
struct Subject<T: Element> {
    program: Program<T>,
    verified: Verified,
    warm_up: Vec<f64>,
    measured: MeasuredVariant,
}

impl<T: Element> Subject<T> {
    fn new(machine: &mut Machine, task: &Task<'_>) -> Result<Self> {
        let mut program = Program::new(machine, task)?;
        machine.pin_caller_to(program.team());
        let verified = program.verify(machine)?;
        let (sharing, launch) = (program.sharing, program.launch());
        let measured = MeasuredVariant { sharing, launch, ..MeasuredVariant::default() };
        Ok(Self { program, verified, warm_up: Vec::new(), measured })
    }

    /// Performs `timed` consecutive runs. An untimed run precedes them, because threads may be asleep and caches hold
    /// other data; the results of this one, which finds no older ones, and of the last are compared with the
    /// verified ones.
    fn take_turn(&mut self, machine: &mut Machine, timed: usize) -> Result<Vec<RunTimes>> {
        machine.pin_caller_to(self.program.team());
        let program = &mut self.program;
        program.poison()?;
        program.run(machine)?;
        program.compare(&self.verified)?;
        let taken = (0..timed).map(|_| program.run(machine)).collect::<Result<_, _>>()?;
        program.compare(&self.verified)?;
        Ok(taken)
    }

    fn warm_up(&mut self, machine: &mut Machine) -> Result<()> {
        let started = Instant::now();
        while self.warm_up.len() < MAX_WARM_UP_RUNS {
            machine.control.check()?;
            let taken = self.take_turn(machine, 1)?;
            self.warm_up.extend(taken.iter().map(|run| run.counted.as_micros()));
            if is_warm(&self.warm_up) {
                self.measured.is_warm = true;
                return Ok(());
            }
            if self.warm_up.len() >= 2 * WARM_WINDOW && started.elapsed() > WARM_UP_LIMIT {
                return Ok(());
            }
        }
        Ok(())
    }

    fn finish(mut self, machine: &mut Machine) -> Result<MeasuredVariant> {
        let again = self.program.verify(machine)?;
        self.measured.warm_up = self.warm_up.len();
        self.measured.verified_elements = self.verified.elements + again.elements;
        Ok(self.measured)
    }
}

/// Whether the medians of the last two windows agree.
fn is_warm(times: &[f64]) -> bool {
    let Some(first) = times.len().checked_sub(2 * WARM_WINDOW) else { return false };
    let (before, after) = times[first..].split_at(WARM_WINDOW);
    median(before)
        .zip(median(after))
        .is_some_and(|(before, after)| (after - before).abs() <= WARM_TOLERANCE * before)
}

/// Measures `tasks` in random order, a few repetitions at a time, so that a temporary disturbance
/// affects all of them. A task that cannot run here yields an error of its own; a wrong result or a
/// lost device ends the measurement.
///
/// # Errors
/// Where a result is wrong, the device does not answer, or the measurement was cancelled.
pub(super) fn measure<T: Element>(
    machine: &mut Machine,
    tasks: &[Task<'_>],
    settings: Settings,
) -> Result<Vec<Result<MeasuredVariant>>> {
    let mut subjects: Vec<Result<Subject<T>>> = Vec::with_capacity(tasks.len());
    for task in tasks {
        machine.control.check()?;
        subjects.push(match Subject::new(machine, task) {
            Ok(subject) => Ok(subject),
            Err(error) if error.is_of_variant() => Err(error),
            Err(error) => return Err(error),
        });
    }
    for subject in subjects.iter_mut().flatten() {
        subject.warm_up(machine)?;
    }
    repeat(machine, &mut subjects, settings)?;
    subjects
        .into_iter()
        .map(|subject| match subject {
            Ok(subject) => subject.finish(machine).map(Ok),
            Err(reason) => Ok(Err(reason)),
        })
        .collect()
}

fn repeat<T: Element>(
    machine: &mut Machine,
    subjects: &mut [Result<Subject<T>>],
    settings: Settings,
) -> Result<()> {
    let mut stream = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut order: Vec<usize> = (0..subjects.len()).filter(|&index| subjects[index].is_ok()).collect();
    let mut last_team = None;
    let repetitions = settings.repetitions as usize;
    for first in (0..repetitions).step_by(REPETITIONS_PER_TURN) {
        order.shuffle(&mut stream);
        for &index in &order {
            machine.control.check()?;
            let Ok(subject) = &mut subjects[index] else { continue };
            let team = subject.program.team();
            if last_team.is_some() && last_team != team {
                // Waits until the other team's threads are asleep; spinning keeps this core's clock
                // up.
                spin_until(SPIN + SPIN / 4, || false);
            }
            last_team = team;
            let taken = subject.take_turn(machine, REPETITIONS_PER_TURN.min(repetitions - first))?;
            let MeasuredVariant { times_us, wall_us, on_cores_us, .. } = &mut subject.measured;
            times_us.extend(taken.iter().map(|run| run.counted.as_micros()));
            wall_us.extend(taken.iter().map(|run| run.wall.as_micros()));
            let on_cores = taken.iter().flat_map(|run| &run.on_cores);
            on_cores_us.extend(on_cores.map(|&(stage, time)| (stage, time.as_micros())));
        }
        if settings.deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_warm_when_two_windows_agree() {
        let falling: Vec<f64> = (0..12).map(|n| 200.0 - 10.0 * f64::from(n)).collect();
        assert!(!is_warm(&falling));
        let settled: Vec<f64> = falling.into_iter().chain([100.0; 10]).collect();
        assert!(is_warm(&settled));
        assert!(!is_warm(&[100.0; 9]), "one window is not enough");
    }
}
