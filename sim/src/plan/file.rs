//! A plan as it is written: the file, and how it becomes a [`Plan`].
//!
//! Responsible for: the written form, and for saying which entry of a file does not
//! fit the workload or the device. Not for: what a placement means.

mod accelerators;

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::accelerators::GraphCover;
use super::cut::{Axis, check_chains};
use super::placement::{Placement, Plan};
use super::synchronisation::Mechanism;
use crate::device::check::{Checker, Violation};
use crate::device::profile::Profile;
use crate::input::{InputError, Text};
use crate::kernel::cpu::CoreSet;
use crate::workload::Stage;

/// Most batches in flight: a simulated stream holds the tasks of all of them.
pub(crate) const MAX_PIPELINE_DEPTH: u32 = 64;

/// A plan as it is written: `coexec explore` writes one, `simulate` and `run`
/// read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanFile {
    /// Scenario the plan was made for.
    pub scenario: String,
    /// Device profile the plan was made for.
    pub device: String,
    /// Synchronisation mechanism.
    pub synchronisation: Mechanism,
    /// Batches in flight at once, at most, where batches follow each other; the scenario's
    /// `[pipeline]` says what the host does for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_depth: Option<u32>,
    /// One entry an operator, in the workload's order.
    pub operator: Vec<PlannedOperator>,
}

/// The placement of one operator, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedOperator {
    /// The operator's name in the workload.
    pub name: String,
    /// How the operator is cut.
    pub partition: Partition,
    /// Who computes which part.
    pub shares: Vec<Share>,
    /// The chain it belongs to: between operators of one chain the processors exchange
    /// nothing. Along the height each then computes, beyond its share, the rows that its
    /// later operators in the chain read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<u32>,
}

/// How an operator is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Partition {
    /// Not at all: one share.
    None,
    /// Along its output channels: one share a processor.
    OutputChannels,
    /// Along its output's height, or a linear layer's rows: one share a processor.
    Height,
    /// Between NPU and GPU, along output channels, rows, or both: a share of the NPU and, unless
    /// it computes everything in its graphs, one of the GPU.
    Accelerators,
}

/// A processor, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessorName {
    /// A set of CPU cores.
    Cpu,
    /// The GPU.
    Gpu,
    /// The NPU.
    Npu,
}

/// One processor's part of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The processor.
    pub processor: ProcessorName,
    /// Its cores, for a CPU: `1large2med`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<String>,
    /// Output channels it computes, where the operator is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Rows of the output it computes, where the operator is cut along its height.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
    /// How static graphs cover the NPU's rows, where GPU and NPU share the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<GraphCover>,
}

impl PlanFile {
    /// Writes a plan down.
    pub fn new(scenario: &str, device: &Profile, stages: &[Stage], plan: &Plan) -> Self {
        let operator = stages
            .iter()
            .zip(&plan.placements)
            .enumerate()
            .map(|(index, (stage, placement))| {
                PlannedOperator::new(&stage.name, *placement, plan.chain(index))
            })
            .collect();
        Self {
            scenario: scenario.to_owned(),
            device: device.name.clone(),
            synchronisation: plan.synchronisation,
            pipeline_depth: None,
            operator,
        }
    }

    /// The same with so many batches in flight, if batches follow each other at all.
    #[must_use]
    pub fn streaming(self, pipeline_depth: Option<u32>) -> Self {
        Self { pipeline_depth, ..self }
    }

    /// Checks the plan against a workload and a device.
    ///
    /// # Errors
    /// The first entry that does not fit, with its place in `text`.
    pub fn resolve(&self, text: &Text, stages: &[Stage], device: &Profile) -> Result<Plan, InputError> {
        self.check_depth(text)?;
        let mut placements = Vec::with_capacity(stages.len());
        for (index, stage) in stages.iter().enumerate() {
            let at = format!("operator[{index}]");
            let Some(planned) = self.operator.get(index) else {
                return Err(text.reject(Violation {
                    key: format!("operator[{}]", self.operator.len().saturating_sub(1)),
                    found: format!("the last of {} operators", self.operator.len()),
                    expected: format!("{} operators; {:?} is missing", stages.len(), stage.name),
                }));
            };
            let placement = planned.resolve(stage, device).map_err(|violation| {
                text.reject(Violation { key: format!("{at}.{}", violation.key), ..violation })
            })?;
            placements.push(placement);
        }
        if let Some(extra) = self.operator.get(stages.len()) {
            return Err(text.reject(Violation {
                key: format!("operator[{}].name", stages.len()),
                found: format!("{:?}", extra.name),
                expected: format!("no more than the workload's {} operators", stages.len()),
            }));
        }
        let chains = self.operator.iter().map(|planned| planned.chain).collect();
        let plan = Plan::new(self.synchronisation, placements).chained(chains);
        check_chains(stages, &plan).map_err(|error| {
            text.reject(Violation {
                key: format!("operator[{}].chain", error.stage),
                found: error.chain.to_string(),
                expected: format!("another chain, or none: {}", error.reason),
            })
        })?;
        Ok(plan)
    }

    fn check_depth(&self, text: &Text) -> Result<(), InputError> {
        let mut checker = Checker::default();
        if let Some(depth) = self.pipeline_depth {
            checker.count("pipeline_depth", depth, MAX_PIPELINE_DEPTH);
        }
        checker.finish().into_iter().next().map_or(Ok(()), |violation| Err(text.reject(violation)))
    }
}

impl PlannedOperator {
    fn new(name: &str, placement: Placement, chain: Option<u32>) -> Self {
        let share = |processor, cores: Option<CoreSet>, channels| Share {
            processor,
            cores: cores.map(|cores| cores.to_string()),
            channels,
            rows: None,
            graphs: None,
        };
        let (partition, shares) = match placement {
            Placement::Cpu(cores) => (Partition::None, vec![share(ProcessorName::Cpu, Some(cores), None)]),
            Placement::Gpu => (Partition::None, vec![share(ProcessorName::Gpu, None, None)]),
            Placement::Npu => (Partition::None, vec![share(ProcessorName::Npu, None, None)]),
            Placement::Accelerators(split) => (Partition::Accelerators, accelerators::shares(&split)),
            Placement::Split { cores, cpu_channels, gpu_channels } => (
                Partition::OutputChannels,
                vec![
                    share(ProcessorName::Cpu, Some(cores), Some(cpu_channels)),
                    share(ProcessorName::Gpu, None, Some(gpu_channels)),
                ],
            ),
            Placement::HeightSplit { cores, cpu_rows, gpu_rows } => (
                Partition::Height,
                vec![
                    Share { rows: Some(cpu_rows), ..share(ProcessorName::Cpu, Some(cores), None) },
                    Share { rows: Some(gpu_rows), ..share(ProcessorName::Gpu, None, None) },
                ],
            ),
        };
        Self { name: name.to_owned(), partition, shares, chain }
    }
}

impl PlannedOperator {
    /// The placement this entry stands for, or what is wrong with it; the
    /// violation's key is relative to the entry.
    fn resolve(&self, stage: &Stage, device: &Profile) -> Result<Placement, Violation> {
        if self.name != stage.name {
            return Err(violation(
                "name",
                format!("{:?}", self.name),
                format!("{:?}, the workload's next operator", stage.name),
            ));
        }
        match self.partition {
            Partition::None => self.resolve_whole(device),
            Partition::Accelerators => self.resolve_accelerators(stage, device).map(Placement::Accelerators),
            Partition::OutputChannels => {
                let whole = Axis::Channels.extent(&stage.layer.operator);
                let ([cpu_channels, gpu_channels], cores) = self.resolve_cut(stage, device, whole)?;
                Ok(Placement::Split { cores, cpu_channels, gpu_channels })
            }
            Partition::Height => {
                let whole = Axis::Height.extent(&stage.layer.operator);
                let ([cpu_rows, gpu_rows], cores) = self.resolve_cut(stage, device, whole)?;
                Ok(Placement::HeightSplit { cores, cpu_rows, gpu_rows })
            }
        }
    }

    fn resolve_whole(&self, device: &Profile) -> Result<Placement, Violation> {
        let [share] = self.shares.as_slice() else {
            return Err(violation(
                "shares",
                format!("{} shares", self.shares.len()),
                "one share, since partition is \"none\"",
            ));
        };
        for (key, found) in [("channels", share.channels), ("rows", share.rows)] {
            if let Some(found) = found {
                return Err(violation(
                    format!("shares[0].{key}"),
                    found,
                    format!("no {key}, since partition is \"none\""),
                ));
            }
        }
        match share.processor {
            ProcessorName::Cpu => Ok(Placement::Cpu(share.core_set("shares[0]", device)?)),
            ProcessorName::Gpu => {
                device.gpu.as_ref().map(|_| Placement::Gpu).ok_or_else(|| absent(0, "gpu", device))
            }
            ProcessorName::Npu => {
                device.npu.as_ref().map(|_| Placement::Npu).ok_or_else(|| absent(0, "npu", device))
            }
        }
    }

    /// The parts of CPU and GPU of an operator that has `whole` of what it is cut along.
    fn resolve_cut(
        &self,
        stage: &Stage,
        device: &Profile,
        whole: Option<u32>,
    ) -> Result<([u32; 2], CoreSet), Violation> {
        let by_height = self.partition == Partition::Height;
        let (written, along, unit, other) = if by_height {
            ("\"height\"", "its height", "row", "channels")
        } else {
            ("\"output-channels\"", "output channels", "channel", "rows")
        };
        let of = |share: &Share| if by_height { share.rows } else { share.channels };
        let beside = |share: &Share| if by_height { share.channels } else { share.rows };
        let Some(whole) = whole else {
            return Err(violation(
                "partition",
                written,
                format!("\"none\": this {} cannot be cut along {along}", stage.layer.operator.name()),
            ));
        };
        let [cpu, gpu] = self.shares.as_slice() else {
            return Err(violation(
                "shares",
                format!("{} shares", self.shares.len()),
                "two shares, of \"cpu\" and \"gpu\" in this order",
            ));
        };
        if (cpu.processor, gpu.processor) != (ProcessorName::Cpu, ProcessorName::Gpu) {
            return Err(violation(
                "shares",
                "another pair of processors",
                "\"cpu\" and \"gpu\" in this order",
            ));
        }
        if device.gpu.is_none() {
            return Err(absent(1, "gpu", device));
        }
        let part = |index: usize, share: &Share| {
            if let Some(found) = beside(share) {
                return Err(violation(
                    format!("shares[{index}].{other}"),
                    found,
                    format!("no {other}, since partition is {written}"),
                ));
            }
            of(share).filter(|&count| count > 0).ok_or_else(|| {
                violation(
                    format!("shares[{index}].{unit}s"),
                    of(share).map_or("absent".to_owned(), |count| count.to_string()),
                    format!("at least 1 {unit}"),
                )
            })
        };
        let parts = [part(0, cpu)?, part(1, gpu)?];
        if u64::from(parts[0]) + u64::from(parts[1]) != u64::from(whole) {
            return Err(violation(
                "shares",
                format!("{} + {} {unit}s", parts[0], parts[1]),
                format!("shares that add up to the {whole} output {unit}s of {:?}", stage.name),
            ));
        }
        Ok((parts, cpu.core_set("shares[0]", device)?))
    }
}

impl Share {
    fn core_set(&self, at: &str, device: &Profile) -> Result<CoreSet, Violation> {
        let Some(cores) = &self.cores else {
            return Err(violation(
                format!("{at}.cores"),
                "absent",
                "the CPU cores to use, such as \"1large2med\"",
            ));
        };
        CoreSet::parse(cores, &device.cpu)
            .map_err(|error| violation(format!("{at}.cores"), format!("{cores:?}"), error.expected))
    }
}

fn violation(key: impl Into<String>, found: impl Display, expected: impl Into<String>) -> Violation {
    Violation { key: key.into(), found: format!("{found}"), expected: expected.into() }
}

fn absent(share: usize, processor: &str, device: &Profile) -> Violation {
    violation(
        format!("shares[{share}].processor"),
        format!("{processor:?}"),
        format!("a processor that {} has; its profile has no [{processor}] table", device.name),
    )
}
