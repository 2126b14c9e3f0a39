//! Layers that are cut, beside both processors alone.
//!
//! Responsible for: which layers are cut. Not for: what that says of predictions (`coexec_fit::validate::cut`).

use coexec_fit::measure::runs::{ExecutedOn, Measurement};
use coexec_sim::explore::{SearchOptions, Strategy, split_search};
use coexec_sim::workload::{CHANNELS_PER_SLICE, Layer, Stage};
use coexec_sim::{Axis, Library, Placement, Plan, Profile, Simulator};

use super::beside::Shared;
use super::{Bench, FINGERPRINT, ProbeError, Result, beside, layers};
use crate::execute::{Machine, Measured};
use crate::statistics::repetitions;

/// Layers that are cut, quickly and in full.
const LAYERS: [usize; 2] = [5, 16];
/// Repetitions of each way to compute a layer.
const REPETITIONS: [u32; 2] = [10, 30];
/// Times as long as the better processor alone up to which a cut is predicted to take: others are never chosen.
const WORTH_TRYING: f64 = 1.2;
/// Most multiply-accumulates of a layer.
const MOST_MACS: u64 = 500_000_000;
/// Part of the probe's time that is kept for cuts, which wait for the fits.
pub(super) const TIME_PART: f64 = 0.1;

/// The ways of each layer that is cut.
pub(super) fn measure(
    bench: &Bench<'_>,
    machine: &mut Machine,
    profile: &Profile,
) -> Result<Vec<Measurement>> {
    let full = usize::from(!bench.options.quick);
    let options = SearchOptions { strategy: Strategy::ChannelSplit, ..SearchOptions::on(profile) };
    machine
        .prepare(&options.core_sets, &profile.cpu)
        .map_err(|error| ProbeError::Layer(error.to_string()))?;
    // Layers that no fit has seen.
    let layers = layers::sweep(bench.options.quick, bench.options.seed.wrapping_add(1), MOST_MACS);
    let cut = |(name, layer): (String, Layer)| Ok(promising(profile, &options, &name, &layer));
    let (kept, extent) = (("cut layers", TIME_PART), (LAYERS[full], REPETITIONS[full]));
    let timed = beside::measure((bench, machine, profile), kept, extent, layers.into_iter().map(cut))?;
    let ways = timed.iter().flat_map(|(shared, measured)| {
        let placements = [shared.plan.placements[0], Placement::GPU, Placement::cpu(shared.cores)];
        placements
            .into_iter()
            .zip(measured)
            .map(|(by, measured)| measurement(&shared.stages[0], by, measured))
    });
    Ok(ways.collect())
}

/// The best cut of a layer, where it may be worth it.
fn promising(profile: &Profile, options: &SearchOptions, name: &str, layer: &Layer) -> Option<Shared> {
    let simulator = Simulator::new(profile, Library::default_for(&profile.cpu)).from_the_call();
    let stage = Stage::single(name.to_owned(), layer.clone());
    let search = split_search(&simulator, &stage, options).ok()?;
    let alone = [search.gpu_only, search.cpu_only].into_iter().flatten().map(|one| one.latency).min()?;
    let split = search.split.filter(|split| split.latency.0 as f64 <= WORTH_TRYING * alone.0 as f64)?;
    let (_, [cpu, gpu]) = split.placement.cpu_and_gpu_extents()?;
    let (all, whole) = (cpu + gpu, cpu.next_multiple_of(CHANNELS_PER_SLICE));
    let cores = split.placement.cores().filter(|_| whole < all)?;
    let placement = Placement::cpu_and_gpu(Axis::Channels, cores, [whole, all - whole]);
    let plan = Plan::new(options.synchronisation, vec![placement]);
    Some(Shared { name: name.to_owned(), stages: vec![stage], plan, cores })
}

fn measurement(stage: &Stage, placement: Placement, measured: &Measured) -> Measurement {
    let processor = ExecutedOn::of(placement).expect("a layer is whole, or cut between CPU and GPU");
    Measurement {
        run: format!("{processor} {}, by the host", stage.name),
        network: "cut layers".to_owned(),
        data_type: stage.layer.data_type,
        operator: Some((stage.name.clone(), stage.layer.clone())),
        processor,
        synchronisation: measured.sharing.map(|(mechanism, _)| mechanism.modelled()),
        kernel: None,
        dispatch: None,
        fingerprint: Some(FINGERPRINT.to_owned()),
        repetitions: repetitions(&measured.wall_us),
        line: 0,
    }
}
