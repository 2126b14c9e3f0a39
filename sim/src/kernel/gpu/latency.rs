//! Time of a launch: occupancy rounds, each the soft maximum of latency and
//! throughput, then bytes and fixed costs.
//!
//! Work-groups fill the slots that registers leave on the compute units; a round
//! lasts until its groups are done. In a round, a loop iteration takes at least
//! its latency, and at least the cost of one wave's iteration times the waves
//! that share a compute unit. Form and parameters: white-box model fitted on the
//! mobile-ml-benchmark data set.

use super::work_group::Dispatch;
use super::{Launch, Limit};
use crate::device::gpu::Gpu;
use crate::kernel::{Execution, Phase, PhaseKind, Phases};
use crate::units::{Bytes, Picos};

/// What a kernel's launch costs, in microseconds; the terms of its equation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Starting the kernel (t0).
    pub(super) launch_us: f64,
    /// Start of each compute unit beyond the first that gets a group.
    pub(super) unit_us: f64,
    /// Latency of a loop iteration (L).
    pub(super) latency_us: f64,
    /// Cost of one wave's iteration on its compute unit (c).
    pub(super) throughput_us: f64,
    /// Sharpness of their soft maximum (p).
    pub(super) sharpness: f64,
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

/// How work-groups fill the GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
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
            return Self {
                slots: None,
                full_rounds: 0,
                full_waves: 0.0,
                last_round_groups: groups,
                last_waves,
            };
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
    let round_us =
        |waves: f64| trips * soft_maximum(cost.latency_us, waves * cost.throughput_us, cost.sharpness);
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
    let launch_us = cost.launch_us + cost.unit_us * f64::from(further_units);
    push(PhaseKind::Launch, launch_us, 1);
    push(PhaseKind::Transform, cost.transform_us, 1);
    push(PhaseKind::FullRounds, full_us, occupancy.full_rounds);
    push(PhaseKind::LastRound, last_us, 1);
    push(PhaseKind::Epilogue, cost.epilogue_us, 1);
    push(PhaseKind::MemoryTraffic, cost.traffic_us, 1);
    phases.spread(Bytes(cost.bytes + second_operands), |kind| kind != PhaseKind::Launch);

    let bound = |waves: f64, micros: f64| {
        if cost.latency_us >= waves * cost.throughput_us { (micros, 0.0) } else { (0.0, micros) }
    };
    let (full_latency, full_throughput) = bound(occupancy.full_waves, full_us);
    let (last_latency, last_throughput) = bound(last_waves, last_us);
    let limit = largest([
        (Limit::Launch, launch_us),
        (Limit::Latency, full_latency + last_latency),
        (Limit::Throughput, full_throughput + last_throughput + cost.epilogue_us),
        (Limit::Traffic, cost.traffic_us + cost.transform_us),
    ]);
    let detail = Launch {
        kernel: dispatch.kernel,
        tile: [dispatch.tile.x, dispatch.tile.y, dispatch.tile.slices],
        grid: dispatch.grid,
        work_group: dispatch.work_group,
        groups: dispatch.groups,
        threads_per_group: dispatch.threads(),
        waves_per_group,
        iterations: dispatch.iterations,
        full_rounds: occupancy.full_rounds,
        last_round_groups: occupancy.last_round_groups,
        slots: occupancy.slots,
        limit,
        residual_factor: None,
    };
    Execution { phases, detail }
}

/// The limit with the largest part of the time; the first of equals.
fn largest(parts: [(Limit, f64); 4]) -> Limit {
    let mut most = parts[0];
    for part in &parts[1..] {
        if part.1 > most.1 {
            most = *part;
        }
    }
    most.0
}
