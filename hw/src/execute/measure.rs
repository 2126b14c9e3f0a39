//! Measuring variants of a workload side by side: until warm, in random order, each
//! repetition kept, each result verified.

use std::time::{Duration, Instant};

use coexec_sim::Picos;
use coexec_sim::kernel::gpu::Launch;
use coexec_sim::statistics::median;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::check::Verified;
use super::{Control, Home, Machine, Program, Result, Taken, Task};
use crate::cpu::{Element, SPIN, spin_until};
use crate::sync::Mechanism;

/// Runs of the window that decides whether a variant is warm.
const WARM_WINDOW: usize = 5;
/// It is warm when the medians of two windows in a row differ by less: the width of the
/// interval that 30 repetitions of a quiet machine give.
const WARM_TOLERANCE: f64 = 0.02;
/// Most runs of a warm-up; a machine that has not settled by then does not.
const MOST_WARM_UP: usize = 40;
/// Repetitions of a variant before another has its turn.
const VISIT: usize = 2;
/// What a warm-up may take once both windows are full.
const WARM_UP_LIMIT: Duration = Duration::from_secs(2);

/// How variants are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Repetitions of each variant.
    pub repetitions: u32,
    /// Seed of their order.
    pub seed: u64,
    /// When no further repetition may start.
    pub deadline: Option<Instant>,
}

/// What was measured of a variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Every repetition, in the order they were made, in microseconds.
    pub times_us: Vec<f64>,
    /// The same by the host's clock, from its call until it knew of the end: what variants
    /// on different processors are compared by.
    pub wall_us: Vec<f64>,
    /// From the first kernel's start to the last one's end, of the repetitions whose events
    /// tell.
    pub kernels_us: Vec<f64>,
    /// Runs before the first repetition.
    pub warm_up: usize,
    /// Whether the warm-up ended because times had settled.
    pub is_warm: bool,
    /// Elements of the results that were compared with the reference.
    pub verified_elements: usize,
    /// How host and device learned of each other and shared memory, where both took part.
    pub sharing: Option<(Mechanism, Home)>,
    /// The GPU's launch, of a single operator.
    pub launch: Option<Launch>,
}

/// A variant that is being measured.
struct Subject<T: Element> {
    program: Program<T>,
    verified: Verified,
    warm_up: Vec<f64>,
    measured: Measured,
}

impl<T: Element> Subject<T> {
    fn new(machine: &mut Machine, task: &Task<'_>) -> Result<Self> {
        let mut program = Program::new(machine, task)?;
        machine.pin_caller_to(program.team());
        let verified = program.verify(machine)?;
        let (sharing, launch) = (program.sharing, program.launch());
        let measured = Measured { sharing, launch, ..Measured::default() };
        Ok(Self { program, verified, warm_up: Vec::new(), measured })
    }

    /// `timed` runs in a row, then compared with what was verified. Before them one that
    /// does not count: threads sleep, and caches hold what ran in between.
    fn visit(&mut self, machine: &mut Machine, timed: usize) -> Result<Vec<Taken>> {
        machine.pin_caller_to(self.program.team());
        let program = &mut self.program;
        program.spoil_results()?;
        program.run(machine)?;
        let taken = (0..timed).map(|_| program.run(machine)).collect::<Result<_, _>>()?;
        program.compare(&self.verified)?;
        Ok(taken)
    }

    fn warm_up(&mut self, machine: &mut Machine, control: &Control) -> Result<()> {
        let started = Instant::now();
        while self.warm_up.len() < MOST_WARM_UP {
            control.check()?;
            let taken = self.visit(machine, 1)?;
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

    fn finish(mut self, machine: &mut Machine) -> Result<Measured> {
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

/// Measures `tasks` in random order, a few repetitions of one at a time, so that what disturbs the
/// machine for a while disturbs all of them. One that cannot run here is an error of its
/// own; a wrong result or a lost device ends all.
///
/// # Errors
/// A result that is wrong, a device that does not answer, or that it was cancelled.
pub(super) fn measure<T: Element>(
    machine: &mut Machine,
    tasks: &[Task<'_>],
    settings: Settings,
    control: &Control,
) -> Result<Vec<Result<Measured>>> {
    let mut subjects: Vec<Result<Subject<T>>> = Vec::with_capacity(tasks.len());
    for task in tasks {
        control.check()?;
        subjects.push(match Subject::new(machine, task) {
            Ok(subject) => Ok(subject),
            Err(error) if error.is_of_variant() => Err(error),
            Err(error) => return Err(error),
        });
    }
    for subject in subjects.iter_mut().flatten() {
        subject.warm_up(machine, control)?;
    }
    repeat(machine, &mut subjects, settings, control)?;
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
    control: &Control,
) -> Result<()> {
    let mut stream = ChaCha8Rng::seed_from_u64(settings.seed);
    let mut order: Vec<usize> = (0..subjects.len()).filter(|&index| subjects[index].is_ok()).collect();
    let mut last_team = None;
    let repetitions = settings.repetitions as usize;
    for first in (0..repetitions).step_by(VISIT) {
        order.shuffle(&mut stream);
        for &index in &order {
            control.check()?;
            let Ok(subject) = &mut subjects[index] else { continue };
            let team = subject.program.team();
            if last_team.is_some() && last_team != team {
                // Until the other's threads have gone to sleep; awake, so that this core keeps its clock.
                spin_until(SPIN + SPIN / 4, || false);
            }
            last_team = team;
            let taken = subject.visit(machine, VISIT.min(repetitions - first))?;
            let Measured { times_us, wall_us, kernels_us, .. } = &mut subject.measured;
            times_us.extend(taken.iter().map(|run| run.counted.as_micros()));
            wall_us.extend(taken.iter().map(|run| run.wall.as_micros()));
            kernels_us.extend(taken.iter().filter_map(|run| run.kernels).map(Picos::as_micros));
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
