//! The candidate plans of one application.
//!
//! Responsible for: the plan that it would be given alone, and plans restricted to some of the
//! processors. Not for: which of them is best together with other applications (`applications`).

use rayon::prelude::*;
use serde::Serialize;

use super::{Application, Job};
use crate::device::{ProcessorKind, Profile};
use crate::explore::language::{advise_sure, explore_language, plan_language, sort_answers};
use crate::explore::{Effort, Explorer, Objective, SearchOptions, Strategy};
use crate::kernel::Library;
use crate::plan::{Mechanism, Plan};
use crate::simulate::{
    ApplicationSimulator, Conversation, Footprint, GenerationPlan, Measure, PricedRequest, Result, Simulator,
    price_answer,
};
use crate::units::Picos;
use crate::workload::{LanguageTask, Stage};

/// Origin of a plan that the user gave.
const GIVEN: &str = "plan given";

/// One run of a model of operators.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelJob {
    /// Its stages.
    pub stages: Vec<Stage>,
    /// CPU kernels.
    pub library: Library,
    /// What a latency covers.
    pub measure: Measure,
    /// How it is planned alone.
    pub options: SearchOptions,
    /// A given plan; `None` to search for one.
    pub plan: Option<Plan>,
}

/// All prompts and answers of a language task.
#[derive(Clone, Debug, PartialEq)]
pub struct LanguageJob {
    /// The model, its prompts and answers.
    pub task: LanguageTask,
    /// CPU kernels.
    pub library: Library,
    /// How it is planned alone; `None` for the strategy that is advised for it.
    pub strategy: Option<Strategy>,
    /// Synchronisation mechanism.
    pub synchronisation: Mechanism,
    /// A given plan; `None` to search for one.
    pub plan: Option<Plan>,
}

/// A candidate plan of an application.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// How it was found, for display.
    pub origin: String,
    /// The plan as in a plan file; `None` for a renderer, and for plans that the format cannot express.
    #[serde(skip)]
    pub plan: Option<Plan>,
    #[serde(skip)]
    pub(super) request: PricedRequest,
    /// Whether each processor computes, in the order of [`ProcessorKind::ALL`].
    #[serde(skip)]
    pub(super) uses: [bool; ProcessorKind::ALL.len()],
    /// Memory that it holds; unknown, and zero, of a renderer.
    pub memory: Footprint,
    /// Latency of a single request with no other application.
    #[serde(rename = "latency_alone_ps")]
    pub latency: Picos,
}

impl Candidate {
    fn new(
        device: &Profile,
        (origin, memory): (&str, Footprint),
        plan: Option<Plan>,
        request: PricedRequest,
    ) -> Result<Self> {
        let latency = ApplicationSimulator::new(device).latency(&request)?;
        let uses = ProcessorKind::ALL.map(|processor| request.uses(processor));
        Ok(Self { origin: origin.to_owned(), plan, request, uses, memory, latency })
    }
}

impl Application {
    /// The plan that it would be given alone.
    pub(super) fn standalone_plan(&self, device: &Profile) -> Result<Candidate> {
        match &self.job {
            Job::Model(model) => {
                let Some(plan) = &model.plan else {
                    let plan = model.search(device, &model.options)?;
                    return model.candidate(device, model.options.strategy.name(), plan);
                };
                model.candidate(device, GIVEN, plan.clone())
            }
            Job::Language(model) => match &model.plan {
                Some(plan) => model.candidate(device, GIVEN, &GenerationPlan::of_flat(&model.task, plan)),
                None => model.search(device),
            },
            Job::Frames(frames) => {
                let request = frames.request(device, self.arrivals.period())?;
                Candidate::new(device, ("frames", Footprint::default()), None, request)
            }
        }
    }

    /// Its candidates: first the plan for it alone and, unless its plan is given, plans that leave
    /// processors to others: the best on each subset of them, or of a language model every strategy's.
    pub(super) fn candidates(&self, device: &Profile) -> Result<Vec<Candidate>> {
        let mut candidates = vec![self.standalone_plan(device)?];
        let others: Vec<Candidate> = match &self.job {
            Job::Model(model) if model.plan.is_none() => {
                let subsets = subsets();
                subsets.par_iter().filter_map(|used| model.restricted(device, used).ok()).collect()
            }
            Job::Language(model) if model.plan.is_none() => model.by_all(device),
            Job::Model(_) | Job::Language(_) | Job::Frames(_) => Vec::new(),
        };
        for other in others {
            if candidates.iter().all(|known| known.plan != other.plan) {
                candidates.push(other);
            }
        }
        Ok(candidates)
    }
}

impl ModelJob {
    /// The best plan found on the processors `used` of `device`.
    fn restricted(&self, device: &Profile, used: &[ProcessorKind]) -> Result<Candidate> {
        let mut part = device.clone();
        part.gpu = part.gpu.filter(|_| used.contains(&ProcessorKind::Gpu));
        part.npu = part.npu.filter(|_| used.contains(&ProcessorKind::Npu));
        let mut options = self.options.clone();
        // A quick search may lose a percent of latency, less than the cost of sharing a processor.
        (options.strategy, options.effort) = (Strategy::Optimal, Effort::Quick);
        if !used.contains(&ProcessorKind::Cpu) {
            options.core_sets.clear();
        }
        let plan = self.search(&part, &options)?;
        let names: Vec<&str> = used.iter().map(|processor| processor.label()).collect();
        self.candidate(device, &format!("optimal on {}", names.join(" and ")), plan)
    }

    fn search(&self, device: &Profile, options: &SearchOptions) -> Result<Plan> {
        let mut simulator = Simulator::new(device, self.library).measuring(self.measure);
        Ok(Explorer::new(&mut simulator, &self.stages, options).find(options.strategy)?.plan)
    }

    fn candidate(&self, device: &Profile, origin: &str, plan: Plan) -> Result<Candidate> {
        let mut simulator = Simulator::new(device, self.library).measuring(self.measure);
        let request = PricedRequest::new(&simulator, &self.stages, &plan)?;
        let memory = simulator.run(&self.stages, &plan)?.memory;
        Candidate::new(device, (origin, memory), Some(plan), request)
    }
}

impl LanguageJob {
    fn on<'a>(&'a self, device: &'a Profile) -> Conversation<'a> {
        Conversation::new(device, self.library, &self.task)
    }

    /// The plan of its strategy or, without one, the plan that is advised for it alone.
    fn search(&self, device: &Profile) -> Result<Candidate> {
        if let Some(strategy) = self.strategy {
            return self.by(device, strategy);
        }
        let answer = |strategy| explore_language(self.on(device), strategy, self.synchronisation).ok();
        let mut answers: Vec<_> = Strategy::of_applications().filter_map(answer).collect();
        // Strategies that share most are listed last, and of equals they should come first.
        answers.reverse();
        sort_answers(&mut answers, device, Objective::Latency);
        advise_sure(self.on(device), &mut answers)?;
        match answers.first() {
            Some(advised) => self.candidate(device, advised.strategy.name(), &advised.plan),
            None => self.by(device, Strategy::HeteroTensor),
        }
    }

    /// The plan of every strategy that the device has the processors and kernels for.
    fn by_all(&self, device: &Profile) -> Vec<Candidate> {
        Strategy::of_applications().filter_map(|strategy| self.by(device, strategy).ok()).collect()
    }

    fn by(&self, device: &Profile, strategy: Strategy) -> Result<Candidate> {
        let plan = plan_language(self.on(device), strategy, self.synchronisation)?;
        self.candidate(device, strategy.name(), &plan)
    }

    fn candidate(&self, device: &Profile, origin: &str, plan: &GenerationPlan) -> Result<Candidate> {
        let request = price_answer(self.on(device), plan)?;
        let memory = Footprint::of_language(&self.task, plan);
        Candidate::new(device, (origin, memory), plan.flat(), request)
    }
}

/// Every non-empty subset of the processors, the smallest first.
fn subsets() -> Vec<Vec<ProcessorKind>> {
    let count = 1_usize << ProcessorKind::ALL.len();
    let used = |bits: usize| {
        ProcessorKind::ALL.into_iter().filter(move |processor| bits & (1 << *processor as usize) != 0)
    };
    let mut subsets: Vec<Vec<ProcessorKind>> = (1..count).map(|bits| used(bits).collect()).collect();
    subsets.sort_by_key(Vec::len);
    subsets
}
