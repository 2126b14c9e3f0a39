//! Plans of several applications that run on one phone at the same time.
//!
//! Responsible for: the candidate plans of each application, and the choice among them that is best for
//! all together. Not for: simulating a choice (`simulate::applications`). Invariant: the choice never
//! costs more than the plans that each application would have alone; it does not depend on the number
//! of threads.
//!
//! The search is a coordinate descent: one application after another takes the candidate with which all
//! together cost least, the others' plans fixed, until none changes its plan. It starts from the plan
//! of each application alone, and again from choices which the descent does not find: the best way to reserve
//! one processor for one application, since no application gains from leaving a processor while others stay
//! there; and the candidates of least memory, since all together may fit only if several of them change.

mod candidates;

pub use candidates::{Candidate, LanguageJob, ModelJob};

use rayon::prelude::*;
use serde::Serialize;

use crate::device::{ProcessorKind, Profile};
use crate::engine::{Backpressure, RequestStream};
use crate::simulate::{ApplicationSimulator, Arrivals, Footprint, Frames, Load, Result, Served};
use crate::timeline::Timeline;
use crate::units::Picos;

/// Most commands that a search simulates, over all choices: about ten seconds of computing.
pub const MAX_SEARCHED_COMMANDS: u64 = 30_000_000;

/// Several applications on one phone.
#[derive(Clone, Debug, PartialEq)]
pub struct Applications {
    /// The applications.
    pub applications: Vec<Application>,
    /// Time during which requests arrive.
    pub duration: Picos,
    /// Seed of random arrivals.
    pub seed: u64,
}

/// One application.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Its name.
    pub name: String,
    /// The work of each request.
    pub job: Job,
    /// When requests arrive.
    pub arrivals: Arrivals,
    /// What happens to requests that arrive while the application is busy.
    pub backpressure: Backpressure,
    /// Its commands in flight in each processor's queue, at most.
    pub queue_depth: u32,
    /// The latency that a request may have.
    pub deadline: Option<Picos>,
}

/// The work of one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Job {
    /// One run of a model.
    Model(ModelJob),
    /// All prompts and answers of a language task.
    Language(LanguageJob),
    /// A frame of a renderer.
    Frames(Frames),
}

/// The cost of a choice of plans, compared field by field.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
pub struct Cost {
    /// Whether all plans together exceed the device's memory; false where the size of that is unknown.
    pub exceeds_memory: bool,
    /// Requests that miss their deadlines, in percent, summed over applications.
    pub deadline_miss_percent: f64,
    /// The largest ratio of p99 latency to deadline; 1 if all applications keep theirs.
    pub worst_p99_over_deadline: f64,
    /// Mean latency over that of a single request under the plan for the application alone; averaged
    /// over applications.
    pub mean_slowdown: f64,
}

/// The plans of all applications, and the outcome of their requests.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// Each application's plan.
    pub plans: Vec<Candidate>,
    /// The cost of these plans.
    pub cost: Cost,
    /// The outcome of the requests.
    pub served: Served,
}

/// The result of a search for several applications.
#[derive(Clone, Debug, Serialize)]
pub struct JointPlans {
    /// The plans found.
    #[serde(flatten)]
    pub found: Choice,
    /// The plan of each application as if it were alone.
    pub as_if_alone: Choice,
    /// Choices that were simulated.
    pub considered: usize,
    /// Whether the search ended by itself, within [`MAX_SEARCHED_COMMANDS`] commands.
    pub is_complete: bool,
}

/// Finds the plans of `applications` that are best for all together.
///
/// # Errors
/// An application cannot be planned on `device`, or it has too many requests.
pub fn explore_applications(device: &Profile, applications: &Applications) -> Result<JointPlans> {
    Search::new(device, applications, |application| application.candidates(device))?.run()
}

/// Simulates `applications` under their own plans, or those that they would be given alone.
///
/// # Errors
/// As [`explore_applications`].
pub fn simulate_applications(device: &Profile, applications: &Applications) -> Result<Choice> {
    let alone = |application: &Application| Ok(vec![application.standalone_plan(device)?]);
    let mut search = Search::new(device, applications, alone)?;
    let plans = vec![0; search.candidates.len()];
    search.choice(&plans)
}

impl Choice {
    /// The memory that all plans hold together.
    pub fn memory(&self) -> Footprint {
        self.plans.iter().map(|plan| plan.memory).sum()
    }

    /// The timeline of all applications up to `until`.
    ///
    /// # Errors
    /// As [`explore_applications`].
    pub fn timeline(&self, device: &Profile, applications: &Applications, until: Picos) -> Result<Timeline> {
        let streams = applications.streams();
        let plans: Vec<&Candidate> = self.plans.iter().collect();
        let loads = loads(applications, &streams, &plans);
        ApplicationSimulator::new(device).timeline(&loads, until)
    }
}

impl Applications {
    fn streams(&self) -> Vec<RequestStream> {
        let stream = |(index, application): (u64, &Application)| RequestStream {
            arrivals: application.arrivals.times(self.duration, self.seed, index),
            backpressure: application.backpressure,
            queue_depth: application.queue_depth as usize,
        };
        (0..).zip(&self.applications).map(stream).collect()
    }
}

fn loads<'a>(
    applications: &'a Applications,
    streams: &[RequestStream],
    plans: &[&'a Candidate],
) -> Vec<Load<'a>> {
    let load = |((application, stream), plan): ((&'a Application, &RequestStream), &&'a Candidate)| Load {
        name: &application.name,
        request: &plan.request,
        stream: stream.clone(),
        deadline: application.deadline,
    };
    applications.applications.iter().zip(streams).zip(plans).map(load).collect()
}

/// The candidates of each application, and the simulator that prices choices.
struct Search<'a> {
    applications: &'a Applications,
    device: &'a Profile,
    streams: Vec<RequestStream>,
    /// Each application's candidates; the first is the plan that it would be given alone.
    candidates: Vec<Vec<Candidate>>,
    simulator: ApplicationSimulator<'a>,
    /// Choices that were simulated.
    considered: usize,
    /// Commands left of the budget.
    left: u64,
    /// Whether no choice exceeded the budget.
    is_complete: bool,
}

impl<'a> Search<'a> {
    fn new(
        device: &'a Profile,
        applications: &'a Applications,
        candidates: impl Fn(&Application) -> Result<Vec<Candidate>> + Send + Sync,
    ) -> Result<Self> {
        Ok(Self {
            applications,
            device,
            streams: applications.streams(),
            candidates: applications.applications.par_iter().map(candidates).collect::<Result<_, _>>()?,
            simulator: ApplicationSimulator::new(device),
            considered: 0,
            left: MAX_SEARCHED_COMMANDS,
            is_complete: true,
        })
    }

    fn run(mut self) -> Result<JointPlans> {
        let alone = vec![0; self.candidates.len()];
        let mut starts = Vec::from_iter(self.cost(&alone)?.map(|cost| (cost, alone.clone())));
        let mut reserved = None;
        for chosen in self.reservations() {
            keep_cheaper(&mut reserved, self.cost(&chosen)?.map(|cost| (cost, chosen)));
        }
        starts.extend(reserved);
        if starts.iter().all(|(cost, _)| cost.exceeds_memory) {
            let smallest = self.smallest();
            starts.extend(self.cost(&smallest)?.map(|cost| (cost, smallest)));
        }
        let mut best = None;
        for start in starts {
            keep_cheaper(&mut best, Some(self.descend(start)?));
        }
        let plans = best.map_or_else(|| alone.clone(), |(_, plans)| plans);
        let found = self.choice(&plans)?;
        let as_if_alone = if plans == alone { found.clone() } else { self.choice(&alone)? };
        Ok(JointPlans { found, as_if_alone, considered: self.considered, is_complete: self.is_complete })
    }

    /// Simulated cost of a choice; `None` if it exceeds the budget. The first choice is always
    /// simulated.
    fn cost(&mut self, chosen: &[usize]) -> Result<Option<Cost>> {
        let loads = loads(self.applications, &self.streams, &plans(&self.candidates, chosen));
        let commands = loads.iter().map(Load::commands).sum();
        if self.considered > 0 && commands > self.left {
            self.is_complete = false;
            return Ok(None);
        }
        self.left = self.left.saturating_sub(commands);
        self.considered += 1;
        let served = self.simulator.serve(&loads, self.applications.duration)?;
        Ok(Some(self.cost_of(chosen, &served)))
    }

    /// From `start`, one application after another takes its best plan, until none improves the cost.
    fn descend(&mut self, start: (Cost, Vec<usize>)) -> Result<(Cost, Vec<usize>)> {
        let (mut least, mut chosen) = start;
        loop {
            let before = chosen.clone();
            for application in 0..chosen.len() {
                for candidate in 0..self.candidates[application].len() {
                    let mut other = chosen.clone();
                    other[application] = candidate;
                    if other == chosen {
                        continue;
                    }
                    if let Some(cost) = self.cost(&other)?.filter(|cost| *cost < least) {
                        (least, chosen) = (cost, other);
                    }
                }
            }
            if chosen == before {
                return Ok((least, chosen));
            }
        }
    }

    /// Every way to reserve one processor for one application: the owner uses only that processor and
    /// the others only the rest, each by its fastest fitting candidate alone.
    fn reservations(&self) -> Vec<Vec<usize>> {
        let reserve = |processor: ProcessorKind, owner: usize| -> Option<Vec<usize>> {
            let plan = |(index, candidates): (usize, &Vec<Candidate>)| {
                let only = ProcessorKind::ALL.map(|other| other == processor);
                let fits = |candidate: &usize| {
                    let uses = candidates[*candidate].uses;
                    if index == owner { uses == only } else { !uses[processor as usize] }
                };
                let fitting = (0..candidates.len()).filter(fits);
                fitting.min_by_key(|&candidate| candidates[candidate].latency)
            };
            self.candidates.iter().enumerate().map(plan).collect()
        };
        let of_processor =
            |processor| (0..self.candidates.len()).filter_map(move |owner| reserve(processor, owner));
        ProcessorKind::ALL.into_iter().flat_map(of_processor).collect()
    }

    /// Each application's candidate of the least memory, of equals the fastest alone.
    fn smallest(&self) -> Vec<usize> {
        let of_one = |candidates: &Vec<Candidate>| {
            let size = |&index: &usize| (candidates[index].memory.peak(), candidates[index].latency);
            (0..candidates.len()).min_by_key(size).unwrap_or_default()
        };
        self.candidates.iter().map(of_one).collect()
    }

    fn choice(&mut self, chosen: &[usize]) -> Result<Choice> {
        let plans = plans(&self.candidates, chosen);
        let loads = loads(self.applications, &self.streams, &plans);
        let served = self.simulator.run(&loads, self.applications.duration)?;
        let cost = self.cost_of(chosen, &served);
        Ok(Choice { cost, served, plans: plans.into_iter().cloned().collect() })
    }

    fn cost_of(&self, chosen: &[usize], served: &Served) -> Cost {
        let memory: Footprint = plans(&self.candidates, chosen).into_iter().map(|plan| plan.memory).sum();
        let reports = || served.applications.iter();
        let over_deadline = reports().filter_map(|report| {
            let (deadline, latency) = (report.deadline?, report.latency?);
            Some(latency.p99.0 as f64 / deadline.0.max(1) as f64)
        });
        let slowdowns = reports().zip(&self.candidates).filter_map(|(report, candidates)| {
            Some(report.latency?.mean.0 as f64 / candidates[0].latency.0.max(1) as f64)
        });
        let slowdowns: Vec<f64> = slowdowns.collect();
        Cost {
            exceeds_memory: memory.fits(self.device) == Some(false),
            deadline_miss_percent: reports().filter_map(|report| report.deadline_miss_percent).sum(),
            worst_p99_over_deadline: over_deadline.fold(1.0, f64::max),
            mean_slowdown: slowdowns.iter().sum::<f64>() / slowdowns.len().max(1) as f64,
        }
    }
}

/// Replaces `best` by `other` if that costs less.
fn keep_cheaper(best: &mut Option<(Cost, Vec<usize>)>, other: Option<(Cost, Vec<usize>)>) {
    if other.as_ref().is_some_and(|(cost, _)| best.as_ref().is_none_or(|(least, _)| cost < least)) {
        *best = other;
    }
}

fn plans<'a>(candidates: &'a [Vec<Candidate>], chosen: &[usize]) -> Vec<&'a Candidate> {
    candidates.iter().zip(chosen).map(|(of_one, &candidate)| &of_one[candidate]).collect()
}

#[cfg(test)]
mod tests;
