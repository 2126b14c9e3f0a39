//! What the engine's times mean: use of processors, critical path, energy.

use serde::Serialize;

use super::Simulator;
use super::lower::{Detail, Lowered, Processor, Role, Task};
use crate::device::power::Power;
use crate::engine::TaskId;
use crate::kernel::{cpu, npu};
use crate::plan::Plan;
use crate::plan::synchronisation;
use crate::units::{Bytes, BytesPerSecond, Joules, Picos, Watts};
use crate::workload::Stage;

/// A simulated run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// From the start of the first task to the end of the last.
    #[serde(rename = "latency_ps")]
    pub latency: Picos,
    /// Once, before the first run: making the NPU's static graphs for the longest
    /// input, where the plan uses an NPU.
    #[serde(rename = "preparation_ps")]
    pub preparation: Option<Picos>,
    /// Bytes moved to and from memory.
    pub bytes: Bytes,
    /// Their mean rate.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy of the run, where the profile knows power.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
    /// Each processor that did something.
    pub processors: Vec<ProcessorUse>,
    /// The operators, in order.
    pub stages: Vec<StageReport>,
    /// What the latency consists of: tasks each of which started when the one
    /// before it ended.
    pub critical_path: Vec<Step>,
    /// Engine events.
    pub events: u64,
}

/// What one processor did during a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessorUse {
    /// The processor.
    pub processor: Processor,
    /// Time spent computing (launches included).
    #[serde(rename = "busy_ps")]
    pub busy: Picos,
    /// Time spent waiting for another processor before and between its own tasks
    /// and, for the GPU, for the last join.
    #[serde(rename = "wait_ps")]
    pub wait: Picos,
    /// Time spent on hand-overs and joins and, once an inference, between the caller
    /// and the GPU.
    #[serde(rename = "overhead_ps")]
    pub overhead: Picos,
    /// Part of the wait the CPU spends polling, at active power.
    #[serde(rename = "polling_ps")]
    pub polling: Picos,
    /// Bytes it moved.
    pub bytes: Bytes,
    /// Mean rate of those bytes while it was busy.
    #[serde(rename = "bandwidth_bytes_per_second")]
    pub bandwidth: BytesPerSecond,
    /// Energy it used.
    #[serde(rename = "energy_joules")]
    pub energy: Option<Joules>,
}

/// How one operator ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageReport {
    /// The operator's name.
    pub name: String,
    /// The operator with its dimensions.
    pub operator: String,
    /// When the first of its tasks started.
    #[serde(rename = "start_ps")]
    pub start: Picos,
    /// When its result was complete.
    #[serde(rename = "finish_ps")]
    pub finish: Picos,
    /// What each processor computed of it.
    pub parts: Vec<PartReport>,
}

/// One processor's part of an operator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartReport {
    /// The processor.
    pub processor: Processor,
    /// Output channels it computed, where the operator was cut.
    pub channels: Option<u32>,
    /// When it started.
    #[serde(rename = "start_ps")]
    pub start: Picos,
    /// When it finished.
    #[serde(rename = "finish_ps")]
    pub finish: Picos,
    /// How long it then waited for the other part.
    #[serde(rename = "wait_ps")]
    pub wait: Picos,
    /// Why it took that long.
    pub detail: Detail,
}

/// What a step of the critical path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepKind {
    /// A processor computes.
    Compute,
    /// A result is handed to another processor.
    HandOver,
    /// The parts of an operator are brought together.
    Join,
    /// The GPU gets to the first launch of an inference.
    Submit,
    /// The GPU's result gets to the caller.
    ReadBack,
}

/// One task of the critical path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The operator.
    pub stage: String,
    /// The processor.
    pub processor: Processor,
    /// What it did.
    pub kind: StepKind,
    /// When it started.
    #[serde(rename = "start_ps")]
    pub start: Picos,
    /// When it ended.
    #[serde(rename = "finish_ps")]
    pub finish: Picos,
}

/// How long `thread` works during an operator that took `length` instead of its
/// `nominal` time.
fn working_time(schedule: &cpu::Schedule, thread: u32, length: Picos, nominal: Picos) -> Picos {
    if thread == 0 || nominal == Picos::ZERO {
        return length;
    }
    let busy = schedule.busy.get(thread as usize).copied().unwrap_or(Picos::ZERO);
    busy.scale(length.0 as f64 / nominal.0 as f64).min(length)
}

/// Reads the finished engine of `simulator`.
pub(super) fn report(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    plan: &Plan,
    lowered: &Lowered,
    latency: Picos,
) -> Prediction {
    let reader = Reader { simulator, tasks: &lowered.tasks, plan, latency };
    let bytes: Bytes = lowered.tasks.iter().map(|task| task.phases.bytes()).sum();
    let mut processors = Processor::ALL.map(|processor| reader.processor(processor)).to_vec();
    let energy = simulator.device.power.as_ref().map(|power| {
        // A processor that does nothing idles all the while.
        let used: Joules = processors.iter().filter_map(|processor| processor.energy).sum();
        used + power.base().during(latency) + power.memory_energy(bytes)
    });
    processors.retain(|usage| reader.of(usage.processor).next().is_some());
    Prediction {
        latency,
        preparation: reader.preparation(stages),
        bytes,
        bandwidth: BytesPerSecond::mean(bytes, latency),
        energy,
        processors,
        stages: reader.stages(stages),
        critical_path: reader.critical_path(stages),
        events: simulator.engine.events(),
    }
}

struct Reader<'a> {
    simulator: &'a Simulator<'a>,
    tasks: &'a [Task],
    plan: &'a Plan,
    latency: Picos,
}

impl Reader<'_> {
    fn start(&self, index: usize) -> Picos {
        self.simulator.engine.start(TaskId(index as u32))
    }

    fn finish(&self, index: usize) -> Picos {
        self.simulator.engine.finish(TaskId(index as u32))
    }

    fn of(&self, processor: Processor) -> impl Iterator<Item = (usize, &Task)> {
        self.tasks.iter().enumerate().filter(move |(_, task)| task.processor == processor)
    }

    fn preparation(&self, stages: &[Stage]) -> Option<Picos> {
        let npu = self.simulator.device.npu.as_ref()?;
        let rows = self.of(Processor::Npu).map(|(_, task)| stages[task.stage].layer.operator.output().width);
        rows.max().map(|rows| npu::graph_preparation(npu, rows))
    }

    fn processor(&self, processor: Processor) -> ProcessorUse {
        let mut usage = ProcessorUse {
            processor,
            busy: Picos::ZERO,
            wait: Picos::ZERO,
            overhead: Picos::ZERO,
            polling: Picos::ZERO,
            bytes: Bytes::ZERO,
            bandwidth: BytesPerSecond(0.0),
            energy: None,
        };
        let mut free = Picos::ZERO;
        for (index, task) in self.of(processor) {
            let gap = self.start(index).saturating_sub(free);
            usage.wait += gap;
            if processor == Processor::Cpu {
                usage.polling += self.polling(gap);
            }
            free = self.finish(index);
            let length = free - self.start(index);
            match task.role {
                Role::Compute => usage.busy += length,
                Role::HandOver | Role::Join | Role::Submit | Role::ReadBack => usage.overhead += length,
            }
            usage.bytes += task.phases.bytes();
        }
        usage.wait += self.trailing_wait(processor, free);
        usage.bandwidth = BytesPerSecond::mean(usage.bytes, usage.busy);
        usage.energy = self.energy(&usage);
        usage
    }

    /// How much of a wait the CPU spins.
    fn polling(&self, wait: Picos) -> Picos {
        let mechanism = self.plan.synchronisation;
        synchronisation::join(&self.simulator.device.sync, mechanism, wait, Bytes::ZERO, false).polling
    }

    /// The GPU polls until the last join ends, also where nothing follows it.
    fn trailing_wait(&self, processor: Processor, free: Picos) -> Picos {
        let joins = self.tasks.iter().enumerate().filter(|(_, task)| task.role == Role::Join);
        match (processor, joins.map(|(index, _)| self.finish(index)).max()) {
            (Processor::Gpu, Some(joined)) => joined.saturating_sub(free),
            _ => Picos::ZERO,
        }
    }

    fn energy(&self, usage: &ProcessorUse) -> Option<Joules> {
        let power = self.simulator.device.power.as_ref()?;
        let accelerator = match usage.processor {
            Processor::Cpu => return Some(self.cpu_energy(power)),
            Processor::Gpu => power.gpu.as_ref()?,
            Processor::Npu => power.npu.as_ref()?,
        };
        let spins = self.plan.synchronisation.accelerator_spins();
        let waiting = if spins { accelerator.polling() } else { accelerator.idle() };
        let host = self.host_path(usage.processor);
        let working = usage.busy + usage.overhead.saturating_sub(host);
        let idle = self.latency.saturating_sub(working).saturating_sub(usage.wait);
        let used = accelerator.active().during(working) + waiting.during(usage.wait);
        Some(used + accelerator.idle().during(idle))
    }

    /// How long the GPU's queue is with the host, which leaves the GPU idle.
    fn host_path(&self, processor: Processor) -> Picos {
        self.of(processor)
            .filter(|(_, task)| matches!(task.role, Role::Submit | Role::ReadBack))
            .map(|(index, _)| self.finish(index) - self.start(index))
            .sum()
    }

    /// Every core idles unless it takes part in an operator. The main core works
    /// as long as the operator takes, synchronises and polls; a worker thread works
    /// its share and spins for the rest, as the thread pools of ruy and XNNPACK do.
    fn cpu_energy(&self, power: &Power) -> Joules {
        let clusters = &self.simulator.device.cpu.clusters;
        let idle: f64 =
            clusters.iter().zip(&power.cluster).map(|(c, core)| f64::from(c.cores) * core.idle().0).sum();
        let mut energy = Watts(idle).during(self.latency);
        let mut free = Picos::ZERO;
        for (index, task) in self.of(Processor::Cpu) {
            let Some(cores) = task.cores else { continue };
            let length = self.finish(index) - self.start(index);
            let mut polling = self.polling(self.start(index).saturating_sub(free));
            match &task.detail {
                Some(Detail::Cpu { schedule, .. }) => {
                    let nominal = task.phases.duration();
                    for thread in 0..schedule.threads.max(1) {
                        let core = cores.cluster(thread).and_then(|cluster| power.cluster.get(cluster));
                        let Some(core) = core else { continue };
                        let working = working_time(schedule, thread, length, nominal);
                        let spinning = length.saturating_sub(working);
                        energy += Watts(core.active().0 - core.idle().0).during(working)
                            + Watts(core.polling().0 - core.idle().0).during(spinning);
                    }
                }
                _ => polling += length,
            }
            if let Some(main) = cores.cluster(0).and_then(|cluster| power.cluster.get(cluster)) {
                energy += Watts(main.polling().0 - main.idle().0).during(polling);
            }
            free = self.finish(index);
        }
        energy
    }

    fn stages(&self, stages: &[Stage]) -> Vec<StageReport> {
        let mut reports: Vec<StageReport> = stages
            .iter()
            .map(|stage| StageReport {
                name: stage.name.clone(),
                operator: stage.layer.operator.to_string(),
                start: Picos::MAX,
                finish: Picos::ZERO,
                parts: Vec::new(),
            })
            .collect();
        for (index, task) in self.tasks.iter().enumerate() {
            if matches!(task.role, Role::Submit | Role::ReadBack) {
                // The inference's, not the operator's.
                continue;
            }
            let report = &mut reports[task.stage];
            report.start = report.start.min(self.start(index));
            report.finish = report.finish.max(self.finish(index));
            match (task.role, task.detail) {
                (Role::Compute, Some(detail)) => report.parts.push(PartReport {
                    processor: task.processor,
                    channels: task.channels,
                    start: self.start(index),
                    finish: self.finish(index),
                    wait: Picos::ZERO,
                    detail,
                }),
                (Role::Join, _) => {
                    for part in &mut report.parts {
                        part.wait = self.start(index).saturating_sub(part.finish);
                    }
                }
                _ => {}
            }
        }
        reports
    }

    /// For each task, the one before it on its processor.
    fn before_on_processor(&self) -> Vec<Option<usize>> {
        let mut latest = [None; Processor::ALL.len()];
        let tasks = self.tasks.iter().enumerate();
        tasks.map(|(index, task)| latest[task.processor as usize].replace(index)).collect()
    }

    /// From the last task back: what a task waited for is the predecessor, or
    /// the task before it on its processor, that ended when it started.
    fn critical_path(&self, stages: &[Stage]) -> Vec<Step> {
        let mut path = Vec::new();
        let before = self.before_on_processor();
        let mut current = (0..self.tasks.len()).max_by_key(|&index| (self.finish(index), index));
        while let Some(index) = current {
            let task = &self.tasks[index];
            path.push(Step {
                stage: stages[task.stage].name.clone(),
                processor: task.processor,
                kind: match task.role {
                    Role::Compute => StepKind::Compute,
                    Role::HandOver => StepKind::HandOver,
                    Role::Join => StepKind::Join,
                    Role::Submit => StepKind::Submit,
                    Role::ReadBack => StepKind::ReadBack,
                },
                start: self.start(index),
                finish: self.finish(index),
            });
            let start = self.start(index);
            current = task
                .predecessors
                .iter()
                .map(|predecessor| predecessor.0 as usize)
                .chain(before[index])
                .find(|&candidate| start > Picos::ZERO && self.finish(candidate) == start);
        }
        path.reverse();
        path
    }
}
