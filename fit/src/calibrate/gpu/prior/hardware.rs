//! Expected kernel parameters of a GPU before any run, from its hardware constants.

use std::fmt;

use super::{MissingConstant, Phone};
use coexec_sim::device::gpu::family::Family;
use coexec_sim::{KernelTable, Quantity};

/// Hardware constants of a phone's GPU that its expected kernel parameters derive from.
#[derive(Clone, Debug)]
pub(super) struct Hardware {
    clock_mhz: f64,
    multiply_accumulates_per_cycle: f64,
    bandwidth_gbps: f64,
    compute_units: f64,
    simd_width: f64,
    rules: &'static Family,
}

impl fmt::Display for Hardware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { clock_mhz, multiply_accumulates_per_cycle, bandwidth_gbps, .. } = self;
        write!(
            f,
            "a clock of {clock_mhz} MHz, {multiply_accumulates_per_cycle} multiply-accumulates a cycle and {bandwidth_gbps} GB/s"
        )
    }
}

// The constants below are the hardware prior of the GPU model (reference implementation
// fitted on the mobile-ml-benchmark data set). They are the same for all phones.

/// Latency of each term of a loop iteration, in cycles.
const LATENCY_CYCLES: f64 = 75.0;
/// Multiply-accumulates per lane and texel of its tile: four output channels from four input channels.
const TEXEL_PRODUCTS: f64 = 16.0;
/// Time of a texel relative to its multiply-accumulates at the peak rate.
const TEXEL_OVER_PEAK: f64 = 1.3;
/// Time of a distinct pixel read, relative to the multiply-accumulates of a texel.
const PIXEL_READ: f64 = 0.01;
/// Time of a distinct weight read, relative to the multiply-accumulates of a texel.
const WEIGHT_READ: f64 = 0.03;
/// Prologue and epilogue of a wave that writes a tile, relative to the multiply-accumulates of a texel.
const WAVE: f64 = 1.5;
/// Time per byte relative to the peak bandwidth's: half, as caches serve much of the traffic.
const TRAFFIC: f64 = 0.5;
/// Sharpness of the soft maximum.
const SHARPNESS: f64 = 1.5;
/// Relative increase of a loop's time by a window, a linked function or an average, and the
/// exponent of the unroll.
const SMALL_FACTOR: f64 = 0.06;
/// Reuse of a tile's pixels by neighbouring taps of a window, and by a tile's second row; the
/// latency of the pixels is divided by one plus the reuse.
const REUSE: f64 = 0.3;
/// Fraction to which the waves of the last round count as rounded up.
const TAIL_ROUNDING: f64 = 0.5;
/// Relative increase of a latency by dot products, whose terms depend on one another.
const DOT_FACTOR: f64 = 0.3;
/// Traffic of a second operand relative to the output's.
const OPERAND_TRAFFIC: f64 = 1.0;
/// Effect of misalignment and of linked functions on a concatenation.
const CONCAT_FACTOR: f64 = 0.6;
/// Multiply-accumulates of a 3x3 window over the 2x2 pixels of a slice, relative to a texel's.
const TILE_PRODUCTS: f64 = 9.0;
/// Waking one more core, in microseconds.
const UNIT_US: f64 = 1.0;
/// Start of a work-group, in microseconds.
const GROUP_US: f64 = 0.02;
/// Constants of means and matrix-vector products that no hardware constant informs, in
/// microseconds.
const SMALL_US: f64 = 0.3;
/// Working set of overlapping windows up to which a cache serves them, in bytes.
const CACHE_BYTES: f64 = 1e6;
/// The same for the last-level cache of a GPU that keeps whole layers there.
const LAST_LEVEL_BYTES: f64 = 1e7;
/// Relative increase of a latency where data come from memory rather than from that cache.
const SPILL_FACTOR: f64 = 0.5;
/// Exponent of the arithmetic rate with which the launch overhead falls from one GPU to another
/// (six-phone study: of 0, 0.3, 0.5, 0.8 and 1 the phones prefer the last two).
const LAUNCH_POWER: f64 = 0.8;
/// Bytes per microsecond at 1 GB/s.
const BYTES_PER_MICRO: f64 = 1e3;

impl Hardware {
    pub(super) fn of(phone: Phone<'_>) -> Result<Self, MissingConstant> {
        let Phone { gpu, memory } = phone;
        let constant = |key, quantity: &Option<Quantity>| {
            let missing = || MissingConstant { gpu: gpu.name.clone(), key };
            Ok(quantity.as_ref().ok_or_else(missing)?.value)
        };
        let products = &gpu.multiply_accumulates_per_cycle;
        let shared = &memory.peak_bandwidth_gbps;
        let bandwidth = gpu.memory.as_ref().map_or(shared, |own| &own.bandwidth_gbps);
        Ok(Self {
            clock_mhz: constant("clock_mhz", &gpu.clock_mhz)?,
            multiply_accumulates_per_cycle: constant("multiply_accumulates_per_cycle", products)?,
            bandwidth_gbps: bandwidth.value,
            compute_units: f64::from(gpu.compute_units),
            simd_width: f64::from(gpu.simd_width),
            rules: gpu.family.rules(),
        })
    }

    /// Time of one compute unit for the multiply-accumulates of one texel of one wave at the
    /// peak rate, in microseconds.
    pub(super) fn texel_us(&self) -> f64 {
        self.simd_width * TEXEL_PRODUCTS * self.compute_units / self.rate_per_us()
    }

    /// Multiply-accumulates that the whole GPU completes per microsecond.
    fn rate_per_us(&self) -> f64 {
        self.multiply_accumulates_per_cycle * self.clock_mhz
    }

    /// Scale of a parameter: its ratio between two phones is the ratio of their scales. None for a key
    /// that the hardware does not inform.
    pub(super) fn scale(&self, table: KernelTable, key: &str) -> Option<f64> {
        if key == "launch_us" {
            return Some(self.rate_per_us().powf(-LAUNCH_POWER));
        }
        self.expected(table, key)
    }

    /// Expected value of a parameter; none for a key that the hardware does not inform.
    pub(super) fn expected(&self, table: KernelTable, key: &str) -> Option<f64> {
        let writes_tiles = matches!(
            table,
            KernelTable::ConvGeneric | KernelTable::GroupedConv | KernelTable::Winograd | KernelTable::Pool
        );
        let in_turn = self.rules.runs_threads_in_turn;
        Some(match key {
            "launch_us" => self.rules.expected_launch_us,
            "roofline_sharpness" => SHARPNESS,
            "throughput_texel_us" => TEXEL_OVER_PEAK * self.texel_us(),
            "throughput_pixel_read_us" => PIXEL_READ * self.texel_us(),
            "throughput_weight_read_us" => WEIGHT_READ * self.texel_us(),
            "wave_us" if writes_tiles => WAVE * self.texel_us(),
            // A wave is one thread, and a core runs its threads one after another.
            "wave_us" | "reduction_step_us" if in_turn => WAVE * self.texel_us(),
            // Hidden by the waves of many other groups, it takes no longer than a read.
            "wave_us" | "reduction_step_us" if self.rules.hides_wave_start => LATENCY_CYCLES / self.clock_mhz,
            "throughput_3x3_us" | "throughput_stride_h2_us" if in_turn => TILE_PRODUCTS * self.texel_us(),
            "unit_us" => UNIT_US,
            "group_us" => GROUP_US,
            "wave_us" | "reduction_step_us" | "linked_us" | "linear_us" | "lone_read_us" => SMALL_US,
            "cache_bytes" if table == KernelTable::Depthwise => CACHE_BYTES,
            "cache_bytes" => LAST_LEVEL_BYTES,
            "spill_latency_factor" => SPILL_FACTOR,
            "tail_rounding_factor" => TAIL_ROUNDING,
            "window_reuse_factor" | "row_reuse_factor" => REUSE,
            "dot_latency_factor" => DOT_FACTOR,
            "addition_traffic_factor" | "linked_traffic_factor" => OPERAND_TRAFFIC,
            "misaligned_latency_factor" | "linked_factor" => CONCAT_FACTOR,
            "window_latency_factor"
            | "window_throughput_factor"
            | "addition_factor"
            | "activation_factor"
            | "average_factor"
            | "unroll_exponent" => SMALL_FACTOR,
            _ if key.ends_with("_us_per_byte") => TRAFFIC / (self.bandwidth_gbps * BYTES_PER_MICRO),
            // A core runs one thread after another, so no wave waits while others run.
            _ if key.starts_with("latency_") && key.ends_with("us") && in_turn => self.texel_us(),
            _ if key.starts_with("latency_") && key.ends_with("us") => LATENCY_CYCLES / self.clock_mhz,
            _ if key.starts_with("throughput_") && key.ends_with("us") => self.texel_us(),
            _ => return None,
        })
    }
}
