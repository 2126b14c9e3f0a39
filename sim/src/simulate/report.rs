//! Turns the engine's times into a prediction: utilisation, critical path, energy.

use super::energy::{idle_cores, of_threads};
use super::footprint::footprint;
use super::price::own_memory;
use super::{
    Composition, CriticalStep, Detail, Lowered, OtherEnergy, PartReport, Prediction, PricedCommand,
    ProcessorUse, Simulator, StageReport,
};
use crate::device::{Power, ProcessorKind};
use crate::engine::TaskId;
use crate::kernel::{cpu, npu};
use crate::plan::{Plan, synchronisation};
use crate::schedule::{Memory, What};
use crate::units::{Bytes, BytesPerSecond, Joules, Picos, Watts};
use crate::workload::Stage;

/// Busy time of `thread` during an operator that took `length` instead of its `nominal`
/// time; thread 0 is busy throughout.
pub(super) fn working_time(schedule: &cpu::Schedule, thread: u32, length: Picos, nominal: Picos) -> Picos {
    if thread == 0 || nominal == Picos::ZERO {
        return length;
    }
    let busy = schedule.busy.get(thread as usize).copied().unwrap_or(Picos::ZERO);
    busy.scale(length.0 as f64 / nominal.0 as f64).min(length)
}

/// The prediction of the run that the engine of `simulator` has just finished.
pub(super) fn report(
    simulator: &Simulator<'_>,
    stages: &[Stage],
    plan: &Plan,
    lowered: &Lowered,
    latency: Picos,
) -> Prediction {
    let reader = Reader { simulator, tasks: &lowered.tasks, plan, latency };
    let path = reader.critical_tasks();
    let bytes: Bytes = lowered.tasks.iter().map(|task| task.phases.bytes()).sum();
    let (processors, idle): (Vec<_>, Vec<_>) = ProcessorKind::ALL
        .into_iter()
        .map(|processor| reader.processor(processor))
        .partition(|usage| reader.of(usage.processor).next().is_some());
    let used = |uses: &[ProcessorUse]| uses.iter().filter_map(|usage| usage.energy).sum();
    let other_energy = simulator.device.power.as_ref().map(|power| OtherEnergy {
        memory: power.memory_energy(bytes),
        idle_processors: used(&idle),
        base: power.base().during(latency),
    });
    let energy = other_energy.map(|OtherEnergy { memory, idle_processors, base }| {
        used(&processors) + memory + idle_processors + base
    });
    let memory = footprint(simulator.device, stages, plan, lowered);
    Prediction {
        latency,
        preparation: reader.preparation(stages),
        composition: reader.composition(&path),
        bytes,
        bandwidth: BytesPerSecond::mean(bytes, latency),
        energy,
        other_energy,
        memory,
        peak_memory: memory.peak(),
        fits_memory: memory.fits(simulator.device),
        processors,
        stages: reader.stages(stages, &path),
        critical_path: reader.steps(stages, &path),
        events: simulator.engine.events(),
    }
}

struct Reader<'a> {
    simulator: &'a Simulator<'a>,
    tasks: &'a [PricedCommand],
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

    fn of(&self, processor: ProcessorKind) -> impl Iterator<Item = (usize, &PricedCommand)> {
        self.tasks.iter().enumerate().filter(move |(_, task)| task.processor() == processor)
    }

    fn preparation(&self, stages: &[Stage]) -> Option<Picos> {
        let npu = self.simulator.device.systolic()?;
        // Graphs of whole networks are compiled ahead of time, with the network.
        let made =
            self.of(ProcessorKind::Npu).filter(|(_, task)| matches!(task.detail, Some(Detail::Npu(_))));
        let rows = made.map(|(_, task)| stages[task.stage].layer.operator.output().width);
        rows.max().map(|rows| npu::graph_preparation(npu, rows))
    }

    fn processor(&self, processor: ProcessorKind) -> ProcessorUse {
        let mut usage = ProcessorUse {
            processor,
            busy: Picos::ZERO,
            wait: Picos::ZERO,
            overhead: Picos::ZERO,
            polling: Picos::ZERO,
            transfers: None,
            bytes: Bytes::ZERO,
            bandwidth: BytesPerSecond(0.0),
            energy: None,
        };
        let mut free = Picos::ZERO;
        for (index, task) in self.of(processor) {
            let gap = self.start(index).saturating_sub(free);
            usage.wait += gap;
            if processor == ProcessorKind::Cpu {
                usage.polling += self.polling(gap);
            }
            free = self.finish(index);
            let length = free - self.start(index);
            match task.what {
                What::Compute { .. } => usage.busy += length,
                What::HandOver { .. } | What::Join { .. } | What::Submit | What::ReadBack => {
                    usage.overhead += length;
                }
                What::Move { .. } => {
                    usage.overhead += length;
                    let transfers = usage.transfers.get_or_insert_default();
                    transfers.time += length;
                    transfers.bytes += task.phases.bytes();
                    continue;
                }
            }
            usage.bytes += task.phases.bytes();
        }
        usage.wait += self.trailing_wait(processor, free);
        usage.bandwidth = BytesPerSecond::mean(usage.bytes, usage.busy);
        usage.energy = self.energy(&usage);
        usage
    }

    /// The part of a wait that the CPU spends polling.
    fn polling(&self, wait: Picos) -> Picos {
        synchronisation::polling(&self.simulator.device.sync, self.plan.synchronisation, wait)
    }

    /// The GPU's wait after its last task: it polls until the last join ends. Zero for other processors.
    fn trailing_wait(&self, processor: ProcessorKind, free: Picos) -> Picos {
        let joins = self.tasks.iter().enumerate().filter(|(_, task)| matches!(task.what, What::Join { .. }));
        let joined =
            joins.map(|(index, _)| self.finish(index)).max().filter(|_| processor == ProcessorKind::Gpu);
        joined.map_or(Picos::ZERO, |joined| joined.saturating_sub(free))
    }

    fn energy(&self, usage: &ProcessorUse) -> Option<Joules> {
        let power = self.simulator.device.power.as_ref()?;
        let accelerator = match usage.processor {
            ProcessorKind::Cpu => return Some(self.cpu_energy(power)),
            ProcessorKind::Gpu => power.gpu.as_ref()?,
            ProcessorKind::Npu => power.npu.as_ref()?,
        };
        let spins = self.plan.synchronisation.accelerator_spins();
        let waiting = if spins { accelerator.polling() } else { accelerator.idle() };
        let host = self.off_processor(usage.processor);
        let working = usage.busy + usage.overhead.saturating_sub(host);
        let idle = self.latency.saturating_sub(working).saturating_sub(usage.wait);
        let used = accelerator.active().during(working) + waiting.during(usage.wait);
        Some(used + accelerator.idle().during(idle) + self.link_energy(usage))
    }

    /// Energy of copies over the link of a GPU with its own memory.
    fn link_energy(&self, usage: &ProcessorUse) -> Joules {
        let crossed = usage.transfers.map(|transfers| transfers.bytes);
        own_memory(self.simulator.device)
            .zip(crossed)
            .map_or(Joules(0.0), |(memory, bytes)| memory.link.energy(bytes))
    }

    /// Time that the GPU's queue spends on the host's work or on the link, while the GPU idles.
    fn off_processor(&self, processor: ProcessorKind) -> Picos {
        self.of(processor)
            .filter(|(_, task)| matches!(task.what, What::Submit | What::ReadBack | What::Move { .. }))
            .map(|(index, _)| self.finish(index) - self.start(index))
            .sum()
    }

    /// Energy of the CPU: idle power of every core, plus the energy of cores that take part
    /// in an operator. The main core also synchronises and polls.
    fn cpu_energy(&self, power: &Power) -> Joules {
        let mut energy = Watts(idle_cores(self.simulator.device, power)).during(self.latency);
        let mut free = Picos::ZERO;
        for (index, task) in self.of(ProcessorKind::Cpu) {
            let Some(cores) = task.by.cores() else { continue };
            let length = self.finish(index) - self.start(index);
            let mut polling = self.polling(self.start(index).saturating_sub(free));
            if let Some(Detail::Cpu { schedule, .. }) = &task.detail {
                let threads = of_threads(power, (&cores, schedule), length, task.phases.duration());
                energy = threads.fold(energy, |sum, joules| sum + joules);
            } else {
                polling += length;
            }
            if let Some(main) = cores.cluster(0).and_then(|cluster| power.cluster.get(cluster)) {
                energy += Watts(main.polling().0 - main.idle().0).during(polling);
            }
            free = self.finish(index);
        }
        energy
    }

    /// When the GPU's part of each of `count` stages has been copied to the host; zero without copies.
    fn gpu_parts_on_host(&self, count: usize) -> Vec<Picos> {
        let mut copied = vec![Picos::ZERO; count];
        for (index, task) in self.of(ProcessorKind::Gpu) {
            if matches!(task.what, What::Move { to: Memory::Host, .. }) {
                copied[task.stage] = copied[task.stage].max(self.finish(index));
            }
        }
        copied
    }

    fn stages(&self, stages: &[Stage], path: &[usize]) -> Vec<StageReport> {
        let mut reports: Vec<StageReport> = stages
            .iter()
            .map(|stage| StageReport {
                name: stage.name.clone(),
                operator: stage.layer.operator.to_string(),
                start: Picos::MAX,
                finish: Picos::ZERO,
                critical: Picos::ZERO,
                parts: Vec::new(),
            })
            .collect();
        let gpu_parts_on_host = self.gpu_parts_on_host(stages.len());
        for (index, task) in self.tasks.iter().enumerate() {
            if matches!(task.what, What::Submit | What::ReadBack) {
                // These belong to the inference, not to the operator.
                continue;
            }
            let report = &mut reports[task.stage];
            report.start = report.start.min(self.start(index));
            report.finish = report.finish.max(self.finish(index));
            match (task.what, task.detail) {
                (What::Compute { .. }, Some(detail)) => report.parts.push(PartReport {
                    processor: task.processor(),
                    channels: task.share.channels,
                    rows: task.share.rows,
                    start: self.start(index),
                    finish: self.finish(index),
                    wait: Picos::ZERO,
                    detail,
                }),
                (What::Join { .. }, _) => {
                    for part in &mut report.parts {
                        let copied = match part.processor {
                            ProcessorKind::Gpu => gpu_parts_on_host[task.stage],
                            ProcessorKind::Cpu | ProcessorKind::Npu => Picos::ZERO,
                        };
                        part.wait = self.start(index).saturating_sub(part.finish.max(copied));
                    }
                }
                (What::Compute { .. }, None)
                | (What::HandOver { .. } | What::Move { .. } | What::Submit | What::ReadBack, _) => {}
            }
        }
        for &index in path {
            let task = &self.tasks[index];
            if matches!(task.what, What::Compute { .. }) {
                reports[task.stage].critical += self.length(index);
            }
        }
        reports
    }

    /// For each task, the previous one on its processor.
    fn before_on_processor(&self) -> Vec<Option<usize>> {
        let mut latest = [None; ProcessorKind::ALL.len()];
        let tasks = self.tasks.iter().enumerate();
        tasks.map(|(index, task)| latest[task.processor() as usize].replace(index)).collect()
    }

    fn length(&self, index: usize) -> Picos {
        self.finish(index) - self.start(index)
    }

    /// Breakdown of the latency over the tasks of the critical path.
    fn composition(&self, path: &[usize]) -> Composition {
        let mut sums = Composition::default();
        for &index in path {
            let sum = match self.tasks[index].what {
                What::Compute { .. } => &mut sums.computing,
                What::HandOver { .. } => &mut sums.hand_overs,
                What::Join { .. } => &mut sums.joins,
                What::ReadBack | What::Move { to: Memory::Host, .. } => &mut sums.copies_out,
                What::Submit | What::Move { to: Memory::Gpu, .. } => &mut sums.copies_in,
            };
            *sum += self.length(index);
        }
        sums
    }

    /// The critical path, found backwards from the task that ends last. Each task waited
    /// for the one that ended last among its predecessors and the previous task on its
    /// processor.
    fn critical_tasks(&self) -> Vec<usize> {
        let mut path = Vec::new();
        let before = self.before_on_processor();
        let mut current = (0..self.tasks.len()).max_by_key(|&index| (self.finish(index), index));
        while let Some(index) = current {
            path.push(index);
            if self.start(index) == Picos::ZERO {
                break;
            }
            let predecessors =
                self.tasks[index].predecessors.iter().map(|predecessor| predecessor.0 as usize);
            let candidates = predecessors.chain(before[index]);
            let latest = candidates.clone().map(|candidate| self.finish(candidate)).max();
            current = candidates.into_iter().find(|&candidate| Some(self.finish(candidate)) == latest);
        }
        path.reverse();
        path
    }

    /// The tasks of a path as steps of the prediction.
    fn steps(&self, stages: &[Stage], path: &[usize]) -> Vec<CriticalStep> {
        let step = |&index: &usize| {
            let task = &self.tasks[index];
            CriticalStep {
                stage: stages[task.stage].name.clone(),
                processor: task.processor(),
                kind: task.what.into(),
                start: self.start(index),
                finish: self.finish(index),
            }
        };
        path.iter().map(step).collect()
    }
}
