//! Plan files, and how a file becomes a [`Plan`].
//!
//! Responsible for: the format, and errors that name the entry that does not fit the
//! workload or the device. Not for: the meaning of a placement.

mod operator;

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Axis, GraphCover, Mechanism, Part, Placement, Plan, check_chains};
use crate::device::{Checker, ProcessorKind, Profile};
use crate::input::{Result, Text, Violation};
use crate::workload::Stage;

/// Most batches in flight: a simulated stream stores the tasks of all of them.
pub(crate) const MAX_PIPELINE_DEPTH: u32 = 64;

/// A plan file: `coexec explore` writes one, `simulate` and `run` read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Scenario the plan was made for.
    pub scenario: String,
    /// Device profile the plan was made for.
    pub device: String,
    /// Synchronisation mechanism.
    pub synchronisation: Mechanism,
    /// Batches in flight at once, at most, in a stream of batches; the scenario's `[pipeline]`
    /// describes the host's work for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_depth: Option<u32>,
    /// Whether processors take turns in the order of the operators, like an interpreter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_turn: bool,
    /// One entry per operator, in the order in which they are queued: the workload's order, or any
    /// other in which each operator follows its inputs.
    pub operator: Vec<PlannedOperator>,
}

/// The placement of one operator in a plan file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedOperator {
    /// The operator's name in the workload.
    pub name: String,
    /// How the operator is cut.
    pub partition: Partition,
    /// The parts and their processors.
    pub shares: Vec<Share>,
    /// The number of its chain: between operators of one chain the processors exchange
    /// nothing. Along the height, each processor also computes the rows beyond its share that
    /// its later operators in the chain read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<u32>,
}

/// How an operator is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[derive(strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Partition {
    /// Not at all: one share.
    None,
    /// Along its output channels: two to four shares, from the first channel on.
    OutputChannels,
    /// Along its output's height, or a linear layer's rows: two to four shares, from the
    /// first row on.
    Height,
    /// Along both: shares with rows and channels. Shares of the first rows come first, side
    /// by side until they have all channels, then those of the next rows.
    RowsAndChannels,
    /// The form of older files for products that NPU and GPU share: a share of the NPU, from
    /// the first row and channel on, and one of the GPU with the remaining channels and rows.
    Accelerators,
}

/// One processor's part of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The processor.
    pub processor: ProcessorKind,
    /// The core set of a CPU share: `1large2med`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
    /// Output channels that it computes, if the operator is cut along them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Output rows that it computes, if the operator is cut along its height.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// How static graphs cover the NPU's rows; padded by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<GraphCover>,
}

impl PlanFile {
    /// The file of a plan.
    pub fn new(scenario: &str, device: &Profile, stages: &[Stage], plan: &Plan) -> Self {
        let planned = |stage: usize| {
            PlannedOperator::new(&stages[stage].name, plan.placements[stage], plan.chain(stage))
        };
        let operator = plan.in_order().map(planned).collect();
        Self {
            scenario: scenario.to_owned(),
            device: device.name.clone(),
            synchronisation: plan.synchronisation,
            pipeline_depth: None,
            in_turn: plan.in_turn,
            operator,
        }
    }

    /// The same file with a number of batches in flight; `None` without a stream of batches.
    #[must_use]
    pub fn streaming(self, pipeline_depth: Option<u32>) -> Self {
        Self { pipeline_depth, ..self }
    }

    /// Checks the plan against a workload and a device.
    ///
    /// # Errors
    /// The first entry that does not fit, with its place in `text`.
    pub fn resolve(&self, text: &Text, stages: &[Stage], device: &Profile) -> Result<Plan> {
        let mut checker = Checker::default();
        if let Some(depth) = self.pipeline_depth {
            checker.count("pipeline_depth", depth, MAX_PIPELINE_DEPTH);
        }
        checker.refuse(text)?;
        let mut placements = Vec::with_capacity(stages.len());
        let mut order = Order::new(stages);
        for (index, stage) in stages.iter().enumerate() {
            let at = format!("operator[{index}]");
            let Some(planned) = self.operator.get(index) else {
                let written = self.operator.len();
                let at = format!("operator[{}]", written.saturating_sub(1));
                let expected = format!("{} operators; {:?} is missing", stages.len(), stage.name);
                let found = format!("the last of {written} operators");
                return Err(text.reject(Violation::new(at, found, expected)));
            };
            let placed = order.next(&planned.name).and_then(|stage| planned.resolve(stage, device));
            placements.push(placed.map_err(|violation| text.reject(violation.inside(&at)))?);
        }
        if let Some(extra) = self.operator.get(stages.len()) {
            let at = format!("operator[{}].name", stages.len());
            let expected = format!("no more than the workload's {} operators", stages.len());
            return Err(text.reject(Violation::new(at, format!("{:?}", extra.name), expected)));
        }
        let chains = self.operator.iter().map(|planned| planned.chain).collect();
        let plan =
            Plan { in_turn: self.in_turn, ..Plan::new(self.synchronisation, placements).chained(chains) };
        let plan = if order.is_the_workloads() { plan } else { plan.running_in(&order.so_far) };
        check_chains(stages, &plan).map_err(|error| {
            let at = format!("operator[{}].chain", plan.positions()[error.stage]);
            let expected = format!("another chain, or none: {}", error.reason);
            text.reject(Violation::new(at, error.chain, expected))
        })?;
        Ok(plan)
    }
}

/// The stages of a plan's entries, so far.
struct Order<'s> {
    stages: &'s [Stage],
    by_name: HashMap<&'s str, usize>,
    so_far: Vec<usize>,
    is_planned: Vec<bool>,
}

impl<'s> Order<'s> {
    fn new(stages: &'s [Stage]) -> Self {
        let by_name = stages.iter().enumerate().map(|(stage, of)| (&*of.name, stage)).collect();
        Self { stages, by_name, so_far: Vec::new(), is_planned: vec![false; stages.len()] }
    }

    fn is_the_workloads(&self) -> bool {
        self.so_far.iter().enumerate().all(|(position, &stage)| position == stage)
    }

    /// The stage of the next entry, by its name. Operators of a language model may share a name: then
    /// the workload's next stage is preferred.
    fn next(&mut self, name: &str) -> std::result::Result<&'s Stage, Violation> {
        let wrong = |expected| Violation::new("name", format!("{name:?}"), expected);
        let in_turn = self.so_far.len();
        let named = Some(in_turn).filter(|&stage| self.stages[stage].name == name);
        let Some(stage) = named.or_else(|| self.by_name.get(name).copied()) else {
            return Err(wrong(format!("{:?}, the workload's next operator", self.stages[in_turn].name)));
        };
        if std::mem::replace(&mut self.is_planned[stage], true) {
            return Err(wrong("each operator once".to_owned()));
        }
        if let Some(input) = self.stages[stage].inputs().find(|&input| !self.is_planned[input]) {
            return Err(wrong(format!("{:?} before it, which it reads", self.stages[input].name)));
        }
        self.so_far.push(stage);
        Ok(&self.stages[stage])
    }
}

impl PlannedOperator {
    fn new(name: &str, placement: Placement, chain: Option<u32>) -> Self {
        let (partition, [by_rows, by_channels]) = match (placement.is_cut(), placement.axis()) {
            (false, _) => (Partition::None, [false, false]),
            (true, Some(Axis::Channels)) => (Partition::OutputChannels, [false, true]),
            (true, Some(Axis::Height)) => (Partition::Height, [true, false]),
            (true, None) => (Partition::RowsAndChannels, [true, true]),
        };
        let share = |Part { by, region }: Part| Share {
            processor: by.kind(),
            cores: by.cores().map(|cores| cores.to_string()),
            channels: by_channels.then(|| region.channels.length()),
            rows: by_rows.then(|| region.rows.length()),
            graphs: Some(by.graphs()).filter(|graphs| *graphs != GraphCover::default()),
        };
        Self { name: name.to_owned(), partition, shares: placement.parts().map(share).collect(), chain }
    }
}
