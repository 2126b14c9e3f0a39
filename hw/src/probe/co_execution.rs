//! Co-execution: work shared between both processors, measured in turn with each processor alone;
//! and the choice of single layers to cut.
//!
//! Responsible for: running the candidates, as far as time allows; which layers are cut. Not for:
//! which networks are shared (`sequences`), nor what the times mean (for cuts,
//! `coexec_fit::validate::cut`). Invariant: all ways of a candidate are timed on the host's clock,
//! in turn.

use coexec_fit::measure::runs::{ExecutedOn, Measurement};
use coexec_sim::explore::{SearchOptions, Strategy, split_search};
use coexec_sim::workload::{CHANNELS_PER_SLICE, Layer, Stage};
use coexec_sim::{Axis, CoreSet, Library, Placement, Plan, Profile, Simulator};

use super::{Bench, FINGERPRINT, ProbeError, RUN_LIMIT, Result, layers};
use crate::execute::{Machine, MeasuredVariant, Settings, side_by_side};
use crate::statistics::repetitions;

/// Layers that are cut, quick and full.
const LAYERS: [usize; 2] = [5, 16];
/// Repetitions of each way to compute a layer, quick and full.
const REPETITIONS: [u32; 2] = [10, 30];
/// A cut is tried if its predicted latency is at most this multiple of the better processor's.
/// Slower cuts are never chosen.
const MAX_LATENCY_RATIO: f64 = 1.2;
/// Most multiply-accumulates of a layer.
const MAX_MACS: u64 = 500_000_000;
/// Fraction of the probe's time reserved for cuts, which follow the fits.
pub(super) const CUTS_PART: f64 = 0.1;

/// A workload, and a plan that may share it between both processors.
pub(super) struct Planned {
    pub(super) name: String,
    pub(super) stages: Vec<Stage>,
    pub(super) plan: Plan,
    /// The cores of the plan, or those that it could use.
    pub(super) cores: CoreSet,
}

/// Measurements of the plan, of the GPU alone and of the cores alone.
pub(super) type Ways = [MeasuredVariant; 3];

impl Planned {
    /// The plan that places everything by `placement`.
    pub(super) fn on_one_processor(&self, placement: Placement) -> Plan {
        Plan::new(self.plan.synchronisation, vec![placement; self.plan.placements.len()])
    }

    /// Measures the plan, the GPU alone and the cores alone; `None` if the hardware cannot run one
    /// of them.
    fn run(&self, machine: &mut Machine, profile: &Profile, settings: Settings) -> Result<Option<Ways>> {
        let alone =
            [Placement::GPU, Placement::cpu(self.cores)].map(|placement| self.on_one_processor(placement));
        let plans = [&[self.plan.clone()][..], &alone].concat();
        let measured = side_by_side(machine, (&self.stages, profile), &plans, (settings, RUN_LIMIT));
        match measured.and_then(|measured| measured.into_iter().collect::<Result<Vec<MeasuredVariant>, _>>())
        {
            Ok(measured) => Ok(measured.try_into().ok()),
            Err(error) if error.is_of_variant() => Ok(None),
            Err(error) => Err(ProbeError::Layer(format!("{}: {error}", self.name))),
        }
    }
}

/// Measures the first `wanted` of the `candidates` that are worth measuring, within the reserved
/// fraction of the probe's time: the plan, the GPU alone and the cores alone, each with
/// `repetitions`.
pub(super) fn measure(
    (bench, machine, profile): (&Bench<'_>, &mut Machine, &Profile),
    (what, time_part): (&str, f64),
    (wanted, repetitions): (usize, u32),
    mut candidates: impl Iterator<Item = Result<Option<Planned>>>,
) -> Result<Vec<(Planned, Ways)>> {
    let budget = bench.reserved(time_part);
    let settings = Settings { repetitions, seed: bench.options.seed, deadline: None };
    let mut timed = Vec::new();
    while timed.len() < wanted && !budget.is_over() {
        let Some(candidate) = candidates.next() else { break };
        let Some(shared) = candidate? else { continue };
        budget.report(&format!("{what}: {} of {wanted}", timed.len()));
        if let Some(measured) = shared.run(machine, profile, settings)? {
            timed.push((shared, measured));
        }
    }
    Ok(timed)
}

/// Measurements of the cut layers: the cut, the GPU alone and the cores alone.
pub(super) fn cuts(bench: &Bench<'_>, machine: &mut Machine, profile: &Profile) -> Result<Vec<Measurement>> {
    let full = usize::from(!bench.options.quick);
    let options = SearchOptions { strategy: Strategy::ChannelSplit, ..SearchOptions::on(profile) };
    machine.prepare(&options.core_sets, &profile.cpu)?;
    // Another seed: layers that no fit has seen.
    let layers = layers::sweep(bench.options.quick, bench.options.seed.wrapping_add(1), MAX_MACS);
    let cut = |(name, layer): (String, Layer)| Ok(promising(profile, &options, &name, &layer));
    let (kept, extent) = (("cut layers", CUTS_PART), (LAYERS[full], REPETITIONS[full]));
    let timed = measure((bench, machine, profile), kept, extent, layers.into_iter().map(cut))?;
    let ways = timed.iter().flat_map(|(shared, measured)| {
        let placements = [shared.plan.placements[0], Placement::GPU, Placement::cpu(shared.cores)];
        placements
            .into_iter()
            .zip(measured)
            .map(|(by, measured)| measurement(&shared.stages[0], by, measured))
    });
    Ok(ways.collect())
}

/// A layer with its best cut, if that is worth trying.
fn promising(profile: &Profile, options: &SearchOptions, name: &str, layer: &Layer) -> Option<Planned> {
    let simulator = Simulator::new(profile, Library::default_for(&profile.cpu)).timed_by_host();
    let stage = Stage::single(name.to_owned(), layer.clone());
    let search = split_search(&simulator, &stage, options).ok()?;
    let alone = [search.gpu_only, search.cpu_only].into_iter().flatten().map(|one| one.latency).min()?;
    let split = search.split.filter(|split| split.latency.0 as f64 <= MAX_LATENCY_RATIO * alone.0 as f64)?;
    let (_, [cpu, gpu]) = split.placement.cpu_and_gpu_extents()?;
    let (all, whole) = (cpu + gpu, cpu.next_multiple_of(CHANNELS_PER_SLICE));
    let cores = split.placement.cores().filter(|_| whole < all)?;
    let placement = Placement::cpu_and_gpu(Axis::Channels, cores, [whole, all - whole]);
    let plan = Plan::new(options.synchronisation, vec![placement]);
    Some(Planned { name: name.to_owned(), stages: vec![stage], plan, cores })
}

fn measurement(stage: &Stage, placement: Placement, measured: &MeasuredVariant) -> Measurement {
    let processor = ExecutedOn::of(placement).expect("a layer is whole, or cut between CPU and GPU");
    let run = format!("{processor} {}, by the host", stage.name);
    Measurement {
        operator: Some((stage.name.clone(), stage.layer.clone())),
        synchronisation: measured.sharing.map(|(mechanism, _)| mechanism.modelled()),
        fingerprint: Some(FINGERPRINT.to_owned()),
        repetitions: repetitions(&measured.wall_us),
        ..Measurement::new(run, "cut layers", stage.layer.data_type, processor)
    }
}
