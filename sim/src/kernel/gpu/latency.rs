//! Time of a launch: occupancy rounds, each the soft maximum of latency and
//! throughput, plus memory traffic and fixed costs.
//!
//! Register pressure decides how many work-groups are resident on a compute unit; a round lasts until
//! its resident groups are done. In a round, a loop iteration takes at least its latency, and at least
//! the throughput cost of one wave's iteration times the waves that share a compute unit. Form and
//! parameters: white-box model fitted on the mobile-ml-benchmark data set.

use super::{Dispatch, Launch, Limit, Modelled};
use crate::device::Gpu;
use crate::device::gpu::CommonParameters;
use crate::kernel::{Execution, Phase, PhaseKind, Phases, largest};
use crate::units::{Bytes, Picos};

/// Terms of the time of a launch, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    /// Parameters common to all kernel tables.
    pub(super) common: CommonParameters,
    /// Latency of a loop iteration (L).
    pub(super) latency_us: f64,
    /// Cost of one wave's iteration on its compute unit (c).
    pub(super) throughput_us: f64,
    /// Factor of linked functions on the loop; 1 without any.
    pub(super) loop_factor: f64,
    /// Waves a compute unit keeps resident; `None` for no limit.
    pub(super) resident_waves: Option<f64>,
    /// Fraction of [`waves_to_round_up`] that the last round pays for; 0 for none.
    pub(super) tail_rounding: f64,
    /// Separate launches before and after the main kernel, such as Winograd's transforms.
    pub(super) transform_us: f64,
    /// Memory traffic that the loop does not hide.
    pub(super) traffic_us: f64,
    /// Prologues and epilogues of waves and groups.
    pub(super) epilogue_us: f64,
    /// Bytes of inputs, output and weights, those of separate launches included.
    pub(super) bytes: u64,
    /// Launches in the delegate's queue.
    pub(super) launches: u32,
}

impl Cost {
    /// The terms common to all kernel tables: an empty loop, and traffic. `bytes` is what the launch
    /// reports; `moved` is what it pays for, with second operands weighted as the table states.
    pub(super) fn new(common: CommonParameters, bytes: u64, moved: f64) -> Self {
        let traffic_us = common.traffic_us_per_byte * moved;
        Self { common, loop_factor: 1.0, traffic_us, bytes, launches: 1, ..Self::default() }
    }

    /// Adds `times` launches before or after the main kernel.
    pub(super) fn add_launches(&mut self, launch: &Modelled, times: u32, gpu: &Gpu) {
        let alone = execution(&launch.dispatch, &launch.cost, 0, gpu).phases.duration();
        self.transform_us += f64::from(times) * alone.as_micros();
        self.bytes += u64::from(times) * launch.cost.bytes;
        self.launches += times * launch.cost.launches;
    }
}

/// How work-groups fill the GPU, round by round.
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
        // Resident groups per compute unit. With one wave per group a fractional residency is kept:
        // it is fitted on the slots of the whole GPU.
        let waves = f64::from(waves_per_group);
        let held = if waves_per_group > 1 { (resident_waves / waves).floor() } else { resident_waves };
        let held = held.max(1.0);
        // The addend keeps a fitted fraction such as 49 / 6 from losing a slot to
        // floating-point rounding.
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

/// Waves by which a last round is rounded up: to a power of two up to eight waves, to a multiple
/// of four above. Apple's scheduler runs an uneven last round as if some of them were present.
fn waves_to_round_up(waves: f64) -> f64 {
    if waves <= 0.0 {
        0.0
    } else if waves <= 8.0 {
        f64::from((waves.max(2.0) as u32).next_power_of_two()) - waves
    } else {
        (waves / 4.0).ceil() * 4.0 - waves
    }
}

/// `(a^(1+p) + b^(1+p))^(1/(1+p))`: approaches the larger of the two as the sharpness `p`
/// grows; their sum at `p = 0`.
fn soft_maximum(a: f64, b: f64, sharpness: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low <= 0.0 {
        return high;
    }
    let power = 1.0 + sharpness;
    high * (1.0 + (low / high).powf(power)).powf(power.recip())
}

/// The largest contribution to a launch. `rounds` holds, for the full rounds and for the last one, the
/// waves on a compute unit and the time in microseconds.
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

/// The phases of a launch. `second_operands` is the bytes read by linked additions, which
/// `cost.bytes` does not include.
pub(super) fn execution(
    dispatch: &Dispatch,
    cost: &Cost,
    second_operands: u64,
    gpu: &Gpu,
) -> Execution<Launch> {
    let waves_per_group = dispatch.waves(gpu);
    let occupancy = Occupancy::new(dispatch, cost.resident_waves, gpu);
    let last_waves = occupancy.last_waves + cost.tail_rounding * waves_to_round_up(occupancy.last_waves);
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
        launches: cost.launches,
        residual_factor: None,
    };
    Execution { phases, detail }
}
