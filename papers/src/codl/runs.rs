//! The phones, models and systems of `CoDL`, and their simulated runs.

use std::collections::HashMap;

use coexec_sim::explore::{CodlParts, Effort, Explorer, Objective, SearchOptions, Strategy, WholeOperators};
use coexec_sim::{
    Axis, CoreSet, KernelTable, Library, Mechanism, Picos, Plan, Prediction, Profile, Simulator, Stage,
};

use coexec_sim::workload::Read;

use super::{THREADS, stages};
use crate::{Inputs, Result};

/// `CoDL`'s models: our network, and its name in the ids of facts.
pub(super) const MODELS: [(&str, &str); 5] = [
    ("codl-retinaface", "retinaface"),
    ("codl-yolov2", "yolov2"),
    ("codl-vgg16", "vgg-16"),
    ("codl-posenet", "posenet"),
    ("codl-fast-style-transfer", "fast-style-transfer"),
];
/// `CoDL`'s phones: our profile, and the system-on-chip in the ids of facts; Snapdragons first.
pub(super) const PHONES: [(&str, &str); 4] = [
    ("xiaomi9", "snapdragon-855"),
    ("redmi-k30-pro", "snapdragon-865"),
    ("xiaomi11-pro", "snapdragon-888"),
    ("honor-v30-pro", "kirin-990"),
];
/// Number of phones with an Adreno GPU, which computes on images.
pub(super) const SNAPDRAGONS: usize = 3;

/// Step of muLayer's cuts, in channels: one slice.
const STEP: u32 = 4;

/// A system of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum System {
    /// MACE on the CPU alone.
    Cpu,
    /// MACE on the GPU alone, with the data type it prefers.
    Gpu,
    /// `CoDL`, with every operator cut that can be, as its Figure 17 implies.
    Codl,
    /// The plan that `CoDL` makes for images, computed on buffers.
    ImagePlanOnBuffers,
    /// muLayer-like: cuts in proportion to throughput, on buffers.
    MuLayer,
    /// `CoDL` without chains, cut along both dimensions.
    Unchained,
    /// `CoDL` without chains, cut along the height only.
    ByHeight,
    /// `CoDL` without chains, cut along output channels only.
    ByChannels,
    /// `CoDL` without chains where sharing data is free: the paper's theoretical bound.
    Bound,
}

/// A simulated run and its plan.
#[derive(Clone, Debug)]
pub(super) struct PlannedRun {
    pub(super) plan: Plan,
    pub(super) prediction: Prediction,
}

impl PlannedRun {
    pub(super) fn millis(&self) -> f64 {
        self.prediction.latency.as_seconds() * 1e3
    }

    pub(super) fn joules(&self) -> f64 {
        self.prediction.energy.map_or(f64::NAN, |energy| energy.0)
    }

    pub(super) fn watts(&self) -> f64 {
        self.joules() / self.prediction.latency.as_seconds()
    }

    /// Time of sharing data: hand-overs, maps, transforms and joins.
    pub(super) fn sharing_millis(&self) -> f64 {
        let overhead: Picos =
            self.prediction.processors.iter().fold(Picos::ZERO, |sum, one| sum + one.overhead);
        overhead.as_seconds() * 1e3
    }
}

/// Runs of systems on phones, each simulated once.
pub(super) struct Runs {
    phones: Vec<Profile>,
    /// Ratio of GPU kernels' times on buffers to those on images, on Snapdragons.
    buffer_slowdown: f64,
    models: Vec<Vec<Stage>>,
    done: HashMap<(usize, usize, System), PlannedRun>,
}

impl Runs {
    /// Prepares the phones and models; on Snapdragons, GPU kernels take `buffer_slowdown` times as long
    /// on buffers as on images.
    pub(super) fn new(inputs: &Inputs, buffer_slowdown: f64) -> Result<Self> {
        let phones = PHONES.iter().map(|(name, _)| Ok(inputs.profile(name)?.clone()));
        let models =
            MODELS.iter().map(|(name, _)| Ok(in_sequence(stages(inputs.placeholder.unwrap_or(name))?)));
        Ok(Self {
            phones: phones.collect::<Result<_>>()?,
            buffer_slowdown,
            models: models.collect::<Result<_>>()?,
            done: HashMap::new(),
        })
    }

    /// The profile of a phone, as its runs use it.
    pub(super) fn profile(&self, phone: usize) -> &Profile {
        &self.phones[phone]
    }

    /// The operators of a model.
    pub(super) fn stages(&self, model: usize) -> &[Stage] {
        &self.models[model]
    }

    /// The run of `system` on a phone and a model.
    pub(super) fn of(&mut self, phone: usize, model: usize, system: System) -> Result<PlannedRun> {
        let key = (phone, model, system);
        if let Some(run) = self.done.get(&key) {
            return Ok(run.clone());
        }
        let is_copied = system == System::ImagePlanOnBuffers;
        let copied = is_copied.then(|| self.of(phone, model, System::Codl)).transpose()?;
        let mut profile = self.phones[phone].clone();
        if phone < SNAPDRAGONS && matches!(system, System::MuLayer | System::ImagePlanOnBuffers) {
            move_to_buffers(&mut profile, self.buffer_slowdown);
        }
        if system == System::Bound {
            make_sharing_free(&mut profile);
        }
        let run = run(&profile, &self.models[model], system, copied.map(|run| run.plan))?;
        self.done.insert(key, run.clone());
        Ok(run)
    }

    /// Speedups of `system` over another on a phone, one per model.
    pub(super) fn speedups(&mut self, phone: usize, system: System, over: System) -> Result<Vec<f64>> {
        (0..MODELS.len())
            .map(|model| Ok(self.of(phone, model, over)?.millis() / self.of(phone, model, system)?.millis()))
            .collect()
    }
}

/// The search options of all systems.
pub(super) fn options(profile: &Profile, strategy: Strategy) -> SearchOptions {
    SearchOptions {
        strategy,
        objective: Objective::Latency,
        synchronisation: Mechanism::EventWait,
        core_sets: (1..=THREADS).filter_map(|threads| CoreSet::fastest(&profile.cpu, threads)).collect(),
        step: STEP,
        effort: Effort::default(),
    }
}

/// Runs `system` with its own plan, or with one `copied` from another.
fn run(profile: &Profile, stages: &[Stage], system: System, copied: Option<Plan>) -> Result<PlannedRun> {
    let mut simulator = Simulator::new(profile, Library::Xnnpack);
    if let Some(plan) = copied {
        return Ok(PlannedRun { prediction: simulator.run(stages, &plan)?, plan });
    }
    let options = options(profile, Strategy::Codl);
    let mut explorer = Explorer::new(&mut simulator, stages, &options);
    let both: &'static [Axis] = &[Axis::Height, Axis::Channels];
    let cut = |axes, chains| CodlParts { axes, whole: WholeOperators::OnlyIfUnsplittable, chains };
    let found = match system {
        System::Cpu => explorer.find(Strategy::CpuOnly),
        System::Gpu => explorer.find(Strategy::GpuOnly),
        System::MuLayer => explorer.find(Strategy::FlopsProportional),
        System::Codl | System::ImagePlanOnBuffers => explorer.codl(cut(both, true)),
        System::Unchained => explorer.codl(cut(both, false)),
        System::ByHeight => explorer.codl(cut(&both[..1], false)),
        System::ByChannels => explorer.codl(cut(&both[1..], false)),
        System::Bound => explorer.codl(CodlParts { whole: WholeOperators::Allowed, ..cut(both, false) }),
    }?;
    Ok(PlannedRun { plan: found.plan, prediction: found.prediction })
}

/// `CoDL`'s speedup over the faster processor on `MobileNetV2`, with operators left whole
/// where that is predicted to be faster.
pub(super) fn light_model_speedup(profile: &Profile) -> Result<f64> {
    let stages = stages("mobilenet-v2")?;
    let (mut simulator, options) =
        (Simulator::new(profile, Library::Xnnpack), options(profile, Strategy::Codl));
    let mut explorer = Explorer::new(&mut simulator, &stages, &options);
    let mut seconds = |strategy| explorer.find(strategy).map(|found| found.prediction.latency.as_seconds());
    let alone = seconds(Strategy::CpuOnly)?.min(seconds(Strategy::GpuOnly)?);
    Ok(alone / seconds(Strategy::Codl)?)
}

/// Forces operators to run one after the other, as the paper times them: one that reads only an
/// input of the network waits for the operator before it too.
fn in_sequence(mut stages: Vec<Stage>) -> Vec<Stage> {
    for (index, stage) in stages.iter_mut().enumerate().skip(1) {
        if stage.reads.is_empty() {
            stage.reads.push(Read { position: 0, input: index - 1 });
        }
    }
    stages
}

/// Moves the phone's GPU kernels to buffers: everything but the launch takes `buffer_slowdown` times as
/// long, and no data is transformed.
fn move_to_buffers(profile: &mut Profile, buffer_slowdown: f64) {
    if let Some(gpu) = &mut profile.gpu {
        for &table in KernelTable::ALL {
            let Some(parameters) = gpu.parameters_mut(table) else { continue };
            for (key, quantity) in parameters.quantities {
                if key != "launch_us" && (key.ends_with("_us") || key.ends_with("_us_per_byte")) {
                    quantity.value *= buffer_slowdown;
                }
            }
        }
    }
    profile.sync.transform.fixed_us.value = 0.0;
    profile.sync.transform.per_byte_ns.value = 0.0;
}

/// Makes sharing data free on the phone.
fn make_sharing_free(profile: &mut Profile) {
    let sync = &mut profile.sync;
    for cost in [&mut sync.map, &mut sync.unmap, &mut sync.transform] {
        cost.fixed_us.value = 0.0;
        cost.per_byte_ns.value = 0.0;
    }
    sync.event_wait.notification_us.value = 0.0;
}
