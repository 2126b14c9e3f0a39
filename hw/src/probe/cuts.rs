//! Layers that are cut, beside both processors alone.
//!
//! Responsible for: which layers are cut, and timing each. Not for: what that says of predictions
//! (`coexec_fit::validate::cut`). Invariant: every way of a layer is timed by the host's clock, in turn with the
//! others.

use coexec_fit::measure::runs::{ExecutedOn, Measurement};
use coexec_sim::explore::{SearchOptions, Strategy, split_search};
use coexec_sim::workload::{CHANNELS_PER_SLICE, Layer, Stage};
use coexec_sim::{Axis, Library, Placement, Plan, Profile, Simulator};

use super::{Bench, FINGERPRINT, ProbeError, RUN_LIMIT, Result, layers};
use crate::execute::{ExecuteError, Machine, Measured, Settings, side_by_side};
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
    let quick = bench.options.quick;
    let budget = bench.kept(TIME_PART);
    let options = SearchOptions { strategy: Strategy::ChannelSplit, ..SearchOptions::on(profile) };
    machine
        .prepare(&options.core_sets, &profile.cpu)
        .map_err(|error| ProbeError::Layer(error.to_string()))?;
    let wanted = LAYERS[usize::from(!quick)];
    let mut runs = Vec::new();
    let mut cut_layers = 0;
    // Layers that no fit has seen.
    for (name, layer) in layers::sweep(quick, bench.options.seed.wrapping_add(1), MOST_MACS) {
        if cut_layers == wanted || budget.is_over() {
            break;
        }
        let Some(placement) = promising(profile, &options, &name, &layer) else { continue };
        budget.report(&format!("cut layers: {cut_layers} of {wanted}"));
        let stage = Stage::single(name, layer);
        let settings = Settings {
            repetitions: REPETITIONS[usize::from(!quick)],
            seed: bench.options.seed,
            deadline: None,
        };
        match timed(machine, profile, (&stage, placement), (&options, settings)) {
            Ok(of_layer) => {
                runs.extend(of_layer);
                cut_layers += 1;
            }
            Err(error) if error.is_of_variant() => {}
            Err(error) => return Err(ProbeError::Layer(error.to_string())),
        }
    }
    Ok(runs)
}

/// The best cut of a layer, where it may be worth it.
fn promising(profile: &Profile, options: &SearchOptions, name: &str, layer: &Layer) -> Option<Placement> {
    let simulator = Simulator::new(profile, Library::default_for(&profile.cpu)).from_the_call();
    let stage = Stage::single(name.to_owned(), layer.clone());
    let search = split_search(&simulator, &stage, options).ok()?;
    let alone = [search.gpu_only, search.cpu_only].into_iter().flatten().map(|one| one.latency).min()?;
    let split = search.split.filter(|split| split.latency.0 as f64 <= WORTH_TRYING * alone.0 as f64)?;
    let (_, [cpu, gpu]) = split.placement.cpu_and_gpu_extents()?;
    let (all, whole) = (cpu + gpu, cpu.next_multiple_of(CHANNELS_PER_SLICE));
    (whole < all)
        .then(|| split.placement.cores())
        .flatten()
        .map(|cores| Placement::cpu_and_gpu(Axis::Channels, cores, [whole, all - whole]))
}

/// The cut of a layer, and both processors alone.
fn timed(
    machine: &mut Machine,
    profile: &Profile,
    (stage, placement): (&Stage, Placement),
    (options, settings): (&SearchOptions, Settings),
) -> Result<Vec<Measurement>, ExecuteError> {
    let alone = [Some(Placement::GPU), placement.cores().map(Placement::cpu)];
    let placements: Vec<Placement> = [placement].into_iter().chain(alone.into_iter().flatten()).collect();
    let plan = |&placement: &Placement| Plan::new(options.synchronisation, vec![placement]);
    let plans: Vec<Plan> = placements.iter().map(plan).collect();
    let work = (std::slice::from_ref(stage), profile);
    let measured = side_by_side(machine, work, &plans, (settings, RUN_LIMIT))?;
    let ways = placements.into_iter().zip(measured);
    ways.map(|(placement, measured)| Ok(measurement(stage, placement, &measured?))).collect()
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
