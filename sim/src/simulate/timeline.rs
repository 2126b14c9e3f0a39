//! Timeline of a run: one track per CPU core, for the GPU's queue, its compute units and
//! the NPU, and counters of the memory bandwidth.

pub(super) mod bandwidth;
mod folds;

use super::{Detail, Lowered, PricedCommand, Result, Simulator};
use crate::device::{ProcessorKind, Profile};
use crate::engine::Recorder;
use crate::kernel::cpu::Schedule;
use crate::kernel::{CoreSet, Phase, PhaseKind};
use crate::plan::Plan;
use crate::schedule::{Memory, What};
use crate::timeline::{Activity, Stretch, Timeline, Track, TrackKind};
use crate::units::Picos;
use crate::workload::Stage;

/// Maximum number of equal steps of one phase with a slice each. More would be thinner
/// than a pixel and get one slice that states their number.
const MAX_STEPS_SHOWN: u32 = 64;

/// The timeline of `stages` under `plan`.
///
/// # Errors
/// As [`Simulator::run`].
pub fn timeline(simulator: &mut Simulator<'_>, stages: &[Stage], plan: &Plan) -> Result<Timeline> {
    let lowered = Lowered::new(stages, plan, simulator)?;
    let keeps_flows = lowered.tasks.len() <= MAX_TASKS_WITH_FLOWS;
    let mut recorder = Recorder { keeps_flows, ..Recorder::default() };
    let end = simulator.execute(&lowered, &[], &mut recorder)?;
    let mut drawing = Drawing::new(simulator.device);
    let mut spans: Vec<Vec<(Picos, Picos)>> = vec![Vec::new(); lowered.tasks.len()];
    for &(task, start, end) in &recorder.phases {
        // Phases are recorded by end, so those of one task come in order.
        spans[task.0 as usize].push((start, end));
    }
    for (task, spans) in lowered.tasks.iter().zip(&spans) {
        drawing.task(&stages[task.stage].name, task, spans);
    }
    let counters = bandwidth::counters(&recorder, &lowered.tasks);
    Ok(Timeline { tracks: drawing.finish(), counters, end })
}

/// Maximum number of tasks in a run for which the bandwidth of each processor is shown.
/// With more, the steps would be thinner than a pixel.
const MAX_TASKS_WITH_FLOWS: usize = 10_000;

pub(super) struct Drawing<'a> {
    device: &'a Profile,
    /// One track per core of the device, in the profile's order.
    cores: Vec<Track>,
    queue: Track,
    units: Track,
    npu: Track,
    /// When the CPU's main core and the GPU became free.
    cpu_free: Picos,
    gpu_free: Picos,
    /// Whether gaps are drawn as waits: a single application uses the processors.
    shows_waits: bool,
}

impl<'a> Drawing<'a> {
    /// A drawing of several applications: gaps are not drawn, as no single application causes them.
    pub(super) fn without_waits(device: &'a Profile) -> Self {
        Self { shows_waits: false, ..Self::new(device) }
    }

    fn new(device: &'a Profile) -> Self {
        let track = |name: String, kind| Track { name, kind, slices: Vec::new() };
        let cores = device
            .cpu
            .clusters
            .iter()
            .flat_map(|cluster| {
                (0..cluster.cores).map(move |core| format!("{} {core}", cluster.name.as_str()))
            })
            .map(|name| track(format!("CPU {name}"), TrackKind::Core))
            .collect();
        let units = device.gpu.as_ref().map_or(0, |gpu| gpu.compute_units);
        Self {
            device,
            cores,
            queue: track("GPU queue".to_owned(), TrackKind::GpuQueue),
            units: track(format!("GPU units (x{units})"), TrackKind::ComputeUnits),
            npu: track("NPU".to_owned(), TrackKind::Npu),
            cpu_free: Picos::ZERO,
            gpu_free: Picos::ZERO,
            shows_waits: true,
        }
    }

    pub(super) fn finish(self) -> Vec<Track> {
        let mut tracks = self.cores;
        tracks.extend([self.queue, self.units, self.npu]);
        tracks.retain(|track| !track.slices.is_empty());
        tracks
    }

    /// Draws one task; `spans` are the start and end of each of its phases.
    pub(super) fn task(&mut self, stage: &str, task: &PricedCommand, spans: &[(Picos, Picos)]) {
        let (Some(&(start, _)), Some(&(_, end))) = (spans.first(), spans.last()) else { return };
        let label = match task.what {
            What::Compute { .. } => match (task.share.channels, task.share.rows) {
                (Some(channels), None) => format!("{stage} [{channels}]"),
                (None, Some(rows)) => format!("{stage} [{rows} rows]"),
                (Some(channels), Some(rows)) => format!("{stage} [{channels} of {rows} rows]"),
                (None, None) => stage.to_owned(),
            },
            What::HandOver { .. } => "hand-over".to_owned(),
            What::Move { to: Memory::Gpu, .. } => "to GPU".to_owned(),
            What::Move { to: Memory::Host, .. } => "to host".to_owned(),
            What::Join { .. } => "join".to_owned(),
            What::Submit => "host: submit".to_owned(),
            What::ReadBack => "host: read back".to_owned(),
        };
        match task.detail {
            Some(Detail::Cpu { cores, schedule }) => self.cpu(&label, &cores, &schedule, task, spans),
            Some(Detail::Gpu(_) | Detail::GpuLanguage(_)) => self.gpu(&label, task, spans),
            Some(Detail::Npu(_) | Detail::NpuLanguage(_) | Detail::NpuGraph(_)) => {
                self.npu.slices.push(slice(label, Activity::Compute, start, end));
                folds::draw(&mut self.npu.slices, task.phases.as_slice(), spans);
            }
            // A renderer's frame, which has no kernel model.
            None if task.computes() => self.gpu(&label, task, spans),
            None => self.synchronise(&label, task, start, end),
        }
    }

    /// The core of each thread: the first cores of each cluster.
    fn core_indices(&self, cores: &CoreSet) -> Vec<usize> {
        let mut indices = Vec::new();
        for group in cores.groups() {
            let first: u32 = self.device.cpu.clusters.iter().take(group.cluster).map(|c| c.cores).sum();
            indices.extend((first..first + group.threads).map(|core| core as usize));
        }
        indices
    }

    fn cpu(
        &mut self,
        label: &str,
        cores: &CoreSet,
        schedule: &Schedule,
        task: &PricedCommand,
        spans: &[(Picos, Picos)],
    ) {
        let indices = self.core_indices(cores);
        let Some(&main) = indices.first() else { return };
        self.cpu_wait(main, spans[0].0);
        for (phase, &(start, end)) in task.phases.as_slice().iter().zip(spans) {
            if phase.kind == PhaseKind::Parallel {
                for (thread, &core) in indices.iter().enumerate() {
                    let busy = contended(schedule.busy[thread], phase, start, end);
                    if busy > Picos::ZERO {
                        let stop = (start + busy).min(end);
                        self.push_core(core, slice(label, Activity::Compute, start, stop));
                    }
                }
            } else if phase.kind == PhaseKind::ForkJoin {
                let (name, activity) = shown(phase.kind);
                for &core in &indices {
                    self.push_core(core, slice(name, activity, start, end));
                }
            } else {
                self.push_core(main, slice(label, Activity::Compute, start, end));
            }
            self.cpu_free = end;
        }
    }

    fn push_core(&mut self, core: usize, stretch: Stretch) {
        if let Some(track) = self.cores.get_mut(core) {
            track.slices.push(stretch);
        }
    }

    /// Draws the main core's wait from when it became free to `until`.
    fn cpu_wait(&mut self, main: usize, until: Picos) {
        if self.shows_waits && until > self.cpu_free {
            self.push_core(main, slice("wait", Activity::Wait, self.cpu_free, until));
        }
        self.cpu_free = self.cpu_free.max(until);
    }

    fn gpu(&mut self, label: &str, task: &PricedCommand, spans: &[(Picos, Picos)]) {
        let (start, end) = (spans[0].0, spans[spans.len() - 1].1);
        self.gpu_wait(start);
        self.queue.slices.push(slice(label, Activity::Compute, start, end));
        for (phase, &(start, end)) in task.phases.as_slice().iter().zip(spans) {
            let (name, activity) = shown(phase.kind);
            self.queue.slices.push(slice(name, activity, start, end));
            if matches!(phase.kind, PhaseKind::FullRounds | PhaseKind::LastRound) {
                rounds(&mut self.units.slices, name, phase, start, end);
            } else if !matches!(phase.kind, PhaseKind::QueueGap | PhaseKind::Launch) {
                self.units.slices.push(slice(name, activity, start, end));
            }
        }
        self.gpu_free = end;
    }

    fn gpu_wait(&mut self, until: Picos) {
        if self.shows_waits && until > self.gpu_free {
            self.queue.slices.push(slice("wait", Activity::Wait, self.gpu_free, until));
        }
        self.gpu_free = self.gpu_free.max(until);
    }

    fn synchronise(&mut self, label: &str, task: &PricedCommand, start: Picos, end: Picos) {
        match task.processor() {
            ProcessorKind::Cpu => {
                let main = task.by.cores().and_then(|cores| self.core_indices(&cores).first().copied());
                if let Some(main) = main {
                    self.cpu_wait(main, start);
                    self.push_core(main, slice(label, Activity::Synchronise, start, end));
                }
                self.cpu_free = end;
                if matches!(task.what, What::Join { .. }) {
                    // The GPU's queue polls until the join ends.
                    self.gpu_wait(end);
                }
            }
            ProcessorKind::Gpu => {
                self.gpu_wait(start);
                let is_copied = matches!(task.what, What::Move { .. });
                let activity = if is_copied { Activity::Transfer } else { Activity::Synchronise };
                self.queue.slices.push(slice(label, activity, start, end));
                self.gpu_free = end;
            }
            ProcessorKind::Npu => self.npu.slices.push(slice(label, Activity::Synchronise, start, end)),
        }
    }
}

/// Name and activity of a phase's slice.
fn shown(kind: PhaseKind) -> (&'static str, Activity) {
    match kind {
        PhaseKind::QueueGap => ("gap", Activity::Wait),
        PhaseKind::Launch => ("launch", Activity::Launch),
        PhaseKind::ForkJoin => ("fork-join", Activity::Launch),
        PhaseKind::Transform => ("transform", Activity::Transform),
        PhaseKind::FullRounds => ("round", Activity::Compute),
        PhaseKind::LastRound => ("last round", Activity::Compute),
        PhaseKind::MemoryTraffic => ("memory traffic", Activity::Compute),
        PhaseKind::Epilogue => ("epilogue", Activity::Compute),
        PhaseKind::StationaryLoad => ("load", Activity::Launch),
        PhaseKind::Stream => ("stream", Activity::Compute),
        PhaseKind::OnChip => ("units", Activity::Compute),
        PhaseKind::Drain => ("drain", Activity::Launch),
        PhaseKind::Serial | PhaseKind::Parallel => ("operator", Activity::Compute),
        PhaseKind::Synchronise => ("synchronise", Activity::Synchronise),
        PhaseKind::Transfer => ("transfer", Activity::Transfer),
    }
}

/// A thread's busy time, scaled by how much contention stretched the phase.
fn contended(busy: Picos, phase: &Phase, start: Picos, end: Picos) -> Picos {
    let length = end - start;
    if length == phase.duration || phase.duration == Picos::ZERO {
        return busy;
    }
    busy.scale(length.0 as f64 / phase.duration.0 as f64)
}

/// One slice per occupancy round, or one for all where there are more than [`MAX_STEPS_SHOWN`].
fn rounds(slices: &mut Vec<Stretch>, name: &str, phase: &Phase, start: Picos, end: Picos) {
    if phase.steps <= 1 || phase.steps > MAX_STEPS_SHOWN {
        let name = if phase.steps > 1 { format!("{} rounds", phase.steps) } else { name.to_owned() };
        slices.push(slice(name, Activity::Compute, start, end));
        return;
    }
    let (steps, length) = (u64::from(phase.steps), (end - start).0);
    let edge = |step: u64| start + Picos((u128::from(length) * u128::from(step) / u128::from(steps)) as u64);
    let round = |step| slice(format!("round {}", step + 1), Activity::Compute, edge(step), edge(step + 1));
    slices.extend((0..steps).map(round));
}

pub(super) fn slice(name: impl Into<String>, activity: Activity, start: Picos, end: Picos) -> Stretch {
    Stretch { name: name.into(), activity, start, end }
}
