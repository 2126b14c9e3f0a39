//! The variants of a scenario to measure, with their predictions.

use std::collections::HashSet;

use coexec_fit::measure::runs::ExecutedOn;
use coexec_fit::validate::gpu::predict;
use coexec_hw::execute::{Clock, Variant};
use coexec_sim::explore::{self, SearchOptions, Strategy};
use coexec_sim::kernel::cpu::{CoreSet, execute};
use coexec_sim::workload::{Layer, Stage};
use coexec_sim::{
    Axis, Measure, Picos, Placement, Plan, Processor, ProcessorKind, Scenario, Simulator, Workload,
};

use crate::output::distinct;
use crate::{Result, applications, simulate};

/// A variant and its prediction, before it is measured.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) variant: Variant,
    /// Where the variant runs, as written in a file of runs.
    pub(super) ran: ExecutedOn,
    /// The operator, if the variant is a single one.
    pub(super) operator: Option<(String, Layer)>,
    /// Whether this is the scenario's plan.
    pub(super) is_plan: bool,
    pub(super) predicted_us: Option<f64>,
}

impl Candidate {
    /// Name of what runs: the operator, or `network`.
    pub(super) fn operator_or(&self, network: &str) -> String {
        self.operator.as_ref().map_or(network, |(name, _)| name).to_owned()
    }
}

/// The processors that variants may use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Processors {
    pub(super) cpu: bool,
    pub(super) gpu: bool,
}

/// Makes the variants of a scenario.
pub(super) struct VariantMaker<'a> {
    pub(super) scenario: &'a Scenario,
    /// Core sets on which operators are timed alone.
    pub(super) cores: Vec<CoreSet>,
    pub(super) processors: Processors,
    /// Number of evenly spaced cuts of each single operator.
    pub(super) splits: u32,
    /// Name of the plan's file.
    pub(super) plan_name: String,
    /// Whether the profile has times; otherwise nothing is searched for or predicted.
    pub(super) predicts: bool,
}

impl Processors {
    /// The processors that the plan of a file uses, or that a search may use.
    pub(super) fn of(scenario: &Scenario, plan: Option<&Plan>) -> Self {
        let strategy = scenario.options.strategy;
        let uses_gpu = |placement: &Placement| placement.uses(ProcessorKind::Gpu);
        let (cpu, gpu) = match plan {
            Some(plan) => (true, plan.placements.iter().any(uses_gpu)),
            None => (strategy != Strategy::GpuOnly, strategy != Strategy::CpuOnly),
        };
        Self { cpu, gpu: gpu && scenario.device.gpu.is_some() }
    }
}

impl VariantMaker<'_> {
    /// Groups of variants: the workload as a whole, then each operator alone; for a set of operators,
    /// one group each. `plan` is that of a file, if any.
    pub(super) fn groups(&self, plan: Option<&Plan>) -> Result<Vec<Vec<Candidate>>> {
        let scenario = self.scenario;
        match &scenario.workload {
            Workload::Language(_) => Err(simulate::missing_kernels(&scenario.name)),
            Workload::Applications(_) => Err(applications::only_simulated(&scenario.name)),
            Workload::Set(operators) => operators
                .iter()
                .map(|operator| self.workload_group(std::slice::from_ref(operator), None, Measure::Operators))
                .collect(),
            Workload::Model(stages) => {
                let mut groups = vec![self.workload_group(stages, plan, scenario.measure)?];
                let placements = groups[0]
                    .first()
                    .map_or(Vec::new(), |candidate| candidate.variant.plan.placements.clone());
                if stages.len() > 1 {
                    groups.extend(self.operators(stages, &placements));
                }
                Ok(groups)
            }
        }
    }

    /// The plan, and each processor alone; for a single operator, also cuts and every core set.
    fn workload_group(
        &self,
        stages: &[Stage],
        plan: Option<&Plan>,
        measure: Measure,
    ) -> Result<Vec<Candidate>> {
        let scenario = self.scenario;
        let mut simulator = Simulator::new(&scenario.device, scenario.library);
        // For a single operator, the plan is chosen by the time that the host's clock will measure.
        simulator = match (measure, stages) {
            (Measure::Operators, [_]) => simulator.timed_by_host(),
            _ => simulator.measuring(measure),
        };
        let plan = match plan {
            Some(plan) => Some(plan.clone()),
            None if !self.predicts => None,
            None => {
                let pipeline = scenario.pipeline.as_ref();
                Some(explore::explore_stream(&mut simulator, stages, &scenario.options, pipeline)?.plan)
            }
        };
        let mut plans = Vec::from_iter(plan.clone());
        if self.processors.gpu {
            plans.push(self.uniform_plan(stages, Placement::GPU));
        }
        if let [stage] = stages {
            plans.extend(self.cuts(stage).map(|cut| self.uniform_plan(stages, cut)));
        }
        if self.processors.cpu && (stages.len() == 1 || !self.predicts) {
            plans.extend(self.cores.iter().map(|&cores| self.uniform_plan(stages, Placement::cpu(cores))));
        } else if self.processors.cpu {
            let options = SearchOptions {
                strategy: Strategy::CpuOnly,
                core_sets: self.cores.clone(),
                ..scenario.options.clone()
            };
            // Without a CPU kernel for every operator there is no such plan.
            plans.extend(explore::explore(&mut simulator, stages, &options).ok().map(|answer| answer.plan));
        }
        let mut group = self.group(&mut simulator, stages, plans, measure);
        for candidate in &mut group {
            candidate.is_plan = plan.as_ref() == Some(&candidate.variant.plan);
        }
        Ok(group)
    }

    /// The variants that run these plans, without duplicates.
    fn group(
        &self,
        simulator: &mut Simulator<'_>,
        stages: &[Stage],
        plans: Vec<Plan>,
        measure: Measure,
    ) -> Vec<Candidate> {
        let operator = match stages {
            [stage] => Some((stage.name.clone(), stage.layer.clone())),
            _ => None,
        };
        let candidate = |plan: Plan| {
            let predicted_us = self.predicts.then(|| self.predicted(simulator, stages, &plan)).flatten();
            let on_gpu = plan.placements.iter().all(|placement| *placement == Placement::GPU);
            let is_timed_by_events = on_gpu && measure == Measure::Operators;
            let clock = if is_timed_by_events { Clock::Device } else { Clock::Host };
            let ran = self.ran(&plan.placements);
            let variant = Variant { stages: stages.to_vec(), plan, clock };
            Candidate { variant, ran, operator: operator.clone(), is_plan: false, predicted_us }
        };
        let mut group: Vec<Candidate> = distinct(plans).into_iter().map(candidate).collect();
        let by_host = group.iter().find_map(|candidate| self.timed_by_host(candidate, simulator));
        group.extend(by_host);
        group
    }

    /// One group for each distinct operator: on each processor alone, and cut as in the plan.
    fn operators(&self, stages: &[Stage], placements: &[Placement]) -> Vec<Vec<Candidate>> {
        let scenario = self.scenario;
        let mut simulator = Simulator::new(&scenario.device, scenario.library).timed_by_host();
        let mut seen = HashSet::new();
        let mut groups = Vec::new();
        for (stage, placement) in stages.iter().zip(placements) {
            let is_cut = placement.is_cut();
            if !seen.insert((stage.layer.clone(), is_cut.then(|| format!("{placement:?}")))) {
                continue;
            }
            let alone = [stage.isolated()];
            let cut = is_cut.then_some(*placement);
            let gpu = self.processors.gpu.then_some(Placement::GPU);
            let cpu = self.cores.iter().filter(|_| self.processors.cpu).map(|&cores| Placement::cpu(cores));
            let placements = cut.into_iter().chain(gpu).chain(cpu);
            let plans = placements.map(|placement| self.uniform_plan(&alone, placement)).collect();
            groups.push(self.group(&mut simulator, &alone, plans, Measure::Operators));
        }
        groups
    }

    /// Evenly spaced cuts of an operator between the GPU and each core set, along the axes that the
    /// strategy cuts, at multiples of the axis's unit (whole slices of channels).
    fn cuts(&self, stage: &Stage) -> impl Iterator<Item = Placement> {
        let operator = &stage.layer.operator;
        let strategy = self.scenario.options.strategy;
        let both = self.processors.cpu && self.processors.gpu;
        let by_channels = both && strategy != Strategy::HeightSplit;
        let by_height = both && matches!(strategy, Strategy::HeightSplit | Strategy::AnySplit);
        let channels = operator.splittable_channels().filter(|_| by_channels);
        let rows = operator.splittable_rows().filter(|_| by_height);
        let axes = [(Axis::Channels, channels), (Axis::Height, rows)];
        axes.into_iter().flat_map(move |(axis, all)| {
            let all = all.unwrap_or(0);
            self.evenly_spaced(all, axis.unit()).flat_map(move |first| {
                let extents = [first, all - first];
                self.cores.iter().map(move |&cores| Placement::cpu_and_gpu(axis, cores, extents))
            })
        })
    }

    /// Evenly spaced multiples of `unit` between 0 and `all`, both excluded.
    fn evenly_spaced(&self, all: u32, unit: u32) -> impl Iterator<Item = u32> {
        let count = self.splits;
        (1..=count)
            .map(move |cut| (u64::from(all / unit) * u64::from(cut) / u64::from(count + 1)) as u32 * unit)
            .filter(move |&place| place > 0 && place < all)
    }

    fn uniform_plan(&self, stages: &[Stage], placement: Placement) -> Plan {
        Plan::new(self.scenario.options.synchronisation, vec![placement; stages.len()])
    }

    /// The predicted time in microseconds: for a single operator on one processor that of its kernel,
    /// as in calibration; otherwise the simulated latency.
    fn predicted(&self, simulator: &mut Simulator<'_>, stages: &[Stage], plan: &Plan) -> Option<f64> {
        let device = &self.scenario.device;
        match (stages, plan.placements.first().and_then(Placement::only)) {
            ([stage], Some(Processor::Gpu)) => predict(&stage.layer, device.gpu.as_ref()?).ok(),
            ([stage], Some(Processor::Cpu(cores))) => {
                let executed = execute(&stage.layer, &device.cpu, &cores, self.scenario.library).ok()?;
                Some(executed.phases.duration().as_micros())
            }
            _ => simulator.latency(stages, plan).ok().map(Picos::as_micros),
        }
    }

    fn ran(&self, placements: &[Placement]) -> ExecutedOn {
        let all_alike = placements.first().filter(|first| placements.iter().all(|other| other == *first));
        let is_told = |ran: &ExecutedOn| placements.len() == 1 || !matches!(ran, ExecutedOn::Split { .. });
        let ran = all_alike.and_then(|placement| ExecutedOn::of(*placement)).filter(is_told);
        ran.unwrap_or_else(|| ExecutedOn::Plan(self.plan_name.clone()))
    }

    /// The same operator on the GPU alone, timed by the host's clock with its copies included: the
    /// baseline of cuts. None if the candidate is anything else, or already timed by the host.
    fn timed_by_host(&self, candidate: &Candidate, simulator: &mut Simulator<'_>) -> Option<Candidate> {
        let is_alone = candidate.operator.is_some() && candidate.ran == ExecutedOn::Gpu;
        if !is_alone || candidate.variant.clock == Clock::Host {
            return None;
        }
        let Variant { stages, plan, .. } = &candidate.variant;
        let predicted = || simulator.latency(stages, plan).ok().map(Picos::as_micros);
        let predicted_us = self.predicts.then(predicted).flatten();
        let variant = Variant { clock: Clock::Host, ..candidate.variant.clone() };
        Some(Candidate { variant, predicted_us, ..candidate.clone() })
    }
}
