//! Time of a launch: occupancy rounds, each the soft maximum of latency and
//! throughput, then bytes and fixed costs.
//!
//! Work-groups fill the slots that registers leave on the compute units; a round
//! lasts until its groups are done. In a round, a loop iteration takes at least
//! its latency, and at least the cost of one wave's iteration times the waves
//! that share a compute unit. Form and parameters: white-box model fitted on the
//! mobile-ml-benchmark data set.

use super::{Dispatch, Launch, Limit};
use crate::device::Gpu;
use crate::device::gpu::CommonParameters;
use crate::kernel::{Execution, Phase, PhaseKind, Phases, largest};
use crate::units::{Bytes, Picos};

/// What a kernel's launch costs, in microseconds; the terms of its equation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Those that every kernel table has.
    pub(super) common: CommonParameters,
    /// Latency of a loop iteration (L).
    pub(super) latency_us: f64,
    /// Cost of one wave's iteration on its compute unit (c).
    pub(super) throughput_us: f64,
    /// What linked functions add to the loop: 1 for nothing.
    pub(super) loop_factor: f64,
    /// Waves a compute unit keeps resident; `None` for no limit.
    pub(super) resident_waves: Option<f64>,
    /// Weight of the last round's rounding up; 0 for none.
    pub(super) tail_rounding: f64,
    /// Transforms before and after the main kernel.
    pub(super) transform_us: f64,
    /// Traffic the loop does not hide.
    pub(super) traffic_us: f64,
    /// Prologues and epilogues of waves and groups.
    pub(super) epilogue_us: f64,
    /// Bytes of inputs, output and weights.
    pub(super) bytes: u64,
}

impl Cost {
    /// The part of the cost that is alike for every kernel table: a loop of no latency and no work, and
    /// `bytes`, of which `moved` (with second operands, as the table weighs them) take time.
    pub(super) fn new(common: CommonParameters, bytes: u64, moved: f64) -> Self {
        let traffic_us = common.traffic_us_per_byte * moved;
        Self { common, loop_factor: 1.0, traffic_us, bytes, ..Self::default() }
    }
}

/// How work-groups fill the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Occupancy {
    slots: Option<u32>,
    full_rounds: u32,
    /// Waves on each compute unit in a full round.
    full_waves: f64,
    last_round_groups: u32,
    /// Waves on the fullest compute unit in the last round.
    last_waves: f64,
}

impl Occupancy {
    fn new(dispatch: &Dispatch, resident_waves: Option<f64>, gpu: &Gpu) -> Self {
        let (groups, waves_per_group) = (dispatch.groups, dispatch.waves(gpu));
        let Some(resident_waves) = resident_waves else {
            let last_waves = dispatch.waves_per_unit(groups, gpu);
            return Self { last_round_groups: groups, last_waves, ..Self::default() };
        };
        // Groups a compute unit holds. A fraction counts where a group is one
        // wave, because slots are then shared out over the whole GPU.
        let waves = f64::from(waves_per_group);
        let held = if waves_per_group > 1 { (resident_waves / waves).floor() } else { resident_waves };
        let held = held.max(1.0);
        // The addend keeps a fitted fraction such as 49 / 6 from losing a slot to
        // binary rounding.
        let slots = (held * f64::from(gpu.compute_units) + 1e-6).floor() as u32;
        let last_round_groups = groups % slots;
        Self {
            slots: Some(slots),
            full_rounds: groups / slots,
            full_waves: held * waves,
            last_round_groups,
            last_waves: dispatch.waves_per_unit(last_round_groups, gpu),
        }
    }
}

/// Waves that are missing to a power of two up to eight, to a multiple of four
/// above: Apple's scheduler runs an uneven last round as if part of them ran.
fn missing_waves(waves: f64) -> f64 {
    if waves <= 0.0 {
        0.0
    } else if waves <= 8.0 {
        f64::from((waves.max(2.0) as u32).next_power_of_two()) - waves
    } else {
        (waves / 4.0).ceil() * 4.0 - waves
    }
}

/// `(a^(1+p) + b^(1+p))^(1/(1+p))`: the larger of the two for a large sharpness
/// `p`, their sum for none.
fn soft_maximum(a: f64, b: f64, sharpness: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low <= 0.0 {
        return high;
    }
    let power = 1.0 + sharpness;
    high * (1.0 + (low / high).powf(power)).powf(power.recip())
}

/// What takes the largest part of a launch that starts in `launch_us` and whose full and last rounds have
/// so many waves on a compute unit and take so long.
fn limit(cost: &Cost, launch_us: f64, rounds: [(f64, f64); 2]) -> Limit {
    let bound = |by_latency: bool| -> f64 {
        let waits = |waves: f64| cost.latency_us >= waves * cost.throughput_us;
        rounds.iter().filter(|&&(waves, _)| waits(waves) == by_latency).map(|(_, micros)| micros).sum()
    };
    largest(&[
        (Limit::Launch, launch_us),
        (Limit::Latency, bound(true)),
        (Limit::Throughput, bound(false) + cost.epilogue_us),
        (Limit::Traffic, cost.traffic_us + cost.transform_us),
    ])
}

/// The phases of a launch. `second_operands` are the bytes that linked sums read
/// besides the cost's own.
pub(super) fn execution(
    dispatch: &Dispatch,
    cost: &Cost,
    second_operands: u64,
    gpu: &Gpu,
) -> Execution<Launch> {
    let waves_per_group = dispatch.waves(gpu);
    let occupancy = Occupancy::new(dispatch, cost.resident_waves, gpu);
    let last_waves = occupancy.last_waves + cost.tail_rounding * missing_waves(occupancy.last_waves);
    let trips = f64::from(dispatch.iterations) * cost.loop_factor;
    let CommonParameters { launch_us, unit_us, roofline_sharpness, .. } = cost.common;
    let round_us =
        |waves: f64| trips * soft_maximum(cost.latency_us, waves * cost.throughput_us, roofline_sharpness);
    let full_us = match occupancy.full_rounds {
        0 => 0.0,
        rounds => f64::from(rounds) * round_us(occupancy.full_waves),
    };
    let last_us = if occupancy.last_round_groups == 0 { 0.0 } else { round_us(last_waves) };

    let mut phases = Phases::default();
    let mut push = |kind, micros, steps| {
        phases.push(Phase { kind, duration: Picos::from_micros(micros), bytes: Bytes::ZERO, steps });
    };
    let further_units = dispatch.groups.clamp(1, gpu.compute_units) - 1;
    let launch_us = launch_us + unit_us * f64::from(further_units);
    push(PhaseKind::Launch, launch_us, 1);
    push(PhaseKind::Transform, cost.transform_us, 1);
    push(PhaseKind::FullRounds, full_us, occupancy.full_rounds);
    push(PhaseKind::LastRound, last_us, 1);
    push(PhaseKind::Epilogue, cost.epilogue_us, 1);
    push(PhaseKind::MemoryTraffic, cost.traffic_us, 1);
    phases.spread(Bytes(cost.bytes + second_operands), |kind| kind != PhaseKind::Launch);

    let rounds = [(occupancy.full_waves, full_us), (last_waves, last_us)];
    let detail = Launch {
        kernel: dispatch.kernel,
        tile: [dispatch.tile.x, dispatch.tile.y, dispatch.tile.slices],
        grid: dispatch.grid,
        work_group: dispatch.work_group,
        linearisation: dispatch.linearisation,
        groups: dispatch.groups,
        threads_per_group: dispatch.threads(),
        waves_per_group,
        iterations: dispatch.iterations,
        full_rounds: occupancy.full_rounds,
        last_round_groups: occupancy.last_round_groups,
        slots: occupancy.slots,
        limit: limit(cost, launch_us, rounds),
        residual_factor: None,
    };
    Execution { phases, detail }
}
