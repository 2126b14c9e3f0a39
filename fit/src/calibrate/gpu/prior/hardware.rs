//! What the constants of a GPU make to expect of its kernels, before any was timed.

use std::fmt;

use super::{MissingConstant, Phone};
use coexec_sim::device::gpu::family::Family;
use coexec_sim::{KernelTable, Quantity};

/// What the constants of a phone make to expect of its kernels.
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

// The figures below are the hardware prior of the GPU model (reference implementation
// fitted on the mobile-ml-benchmark data set), the same for all phones.

/// Latency of each term of a loop iteration, in cycles.
const LATENCY_CYCLES: f64 = 75.0;
/// Multiply-accumulates of one lane for a texel of its tile: four channels from four.
const TEXEL_PRODUCTS: f64 = 16.0;
/// Time of a texel relative to that of its products at the peak rate.
const TEXEL_OVER_PEAK: f64 = 1.3;
/// Time of a distinct pixel read, relative to the products of a texel.
const PIXEL_READ: f64 = 0.01;
/// Time of a distinct weight read, relative to the products of a texel.
const WEIGHT_READ: f64 = 0.03;
/// Prologue and epilogue of a wave that writes a tile, relative to the products of a texel.
const WAVE: f64 = 1.5;
/// Time per byte relative to that at the peak bandwidth: half, as caches serve much.
const TRAFFIC: f64 = 0.5;
/// Sharpness of the soft maximum.
const SHARPNESS: f64 = 1.5;
/// Relative rise of a loop by a window, a linked function or an average, and the
/// power of the unroll.
const SMALL_FACTOR: f64 = 0.06;
/// Relative rise of a loop's pixels that a window's neighbours or a tile's second row
/// read again.
const REUSE: f64 = 0.3;
/// Part by which the last round's waves count as rounded up.
const TAIL_ROUNDING: f64 = 0.5;
/// Relative rise of a latency by dot products whose terms wait for one another.
const DOT_FACTOR: f64 = 0.3;
/// Traffic of a second operand relative to the output's.
const OPERAND_TRAFFIC: f64 = 1.0;
/// What alignment and linked functions do to a concatenation.
const CONCAT_FACTOR: f64 = 0.6;
/// Products of a 3x3 window over the 2x2 pixels of a slice, in those of a texel.
const TILE_PRODUCTS: f64 = 9.0;
/// Waking a core more, in microseconds.
const UNIT_US: f64 = 1.0;
/// Start of a work-group, in microseconds.
const GROUP_US: f64 = 0.02;
/// Constants of means and matrix-vector products that hardware says nothing of, in
/// microseconds.
const SMALL_US: f64 = 0.3;
/// Bytes up to which a cache serves overlapping windows.
const CACHE_BYTES: f64 = 1e6;
/// The same of the last-level cache of a GPU that keeps whole layers there.
const LAST_LEVEL_BYTES: f64 = 1e7;
/// Relative rise of a latency where data come from memory rather than from that cache.
const SPILL_FACTOR: f64 = 0.5;
/// Power of a GPU's arithmetic rate by which its launches take less time than another's
/// (few-runs study, section 2: of 0, 0.3, 0.5, 0.8 and 1 phones prefer the last two).
const LAUNCH_POWER: f64 = 0.8;
/// Bytes a microsecond in 1 GB/s.
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

    /// Time a compute unit takes for the products of one texel of one wave, at the
    /// peak rate, in microseconds.
    pub(super) fn texel_us(&self) -> f64 {
        self.simd_width * TEXEL_PRODUCTS * self.compute_units / self.rate_per_us()
    }

    /// Multiply-accumulates that the whole GPU completes in a microsecond.
    fn rate_per_us(&self) -> f64 {
        self.multiply_accumulates_per_cycle * self.clock_mhz
    }

    /// What a parameter changes in proportion to from one phone to another; none where nothing is known of its kind.
    pub(super) fn scale(&self, table: KernelTable, key: &str) -> Option<f64> {
        if key == "launch_us" {
            return Some(self.rate_per_us().powf(-LAUNCH_POWER));
        }
        self.expected(table, key)
    }

    /// What to expect of a parameter; none where nothing is known of its kind.
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
            // A wave is a thread, one of many that a core runs one after another.
            "wave_us" | "reduction_step_us" if in_turn => WAVE * self.texel_us(),
            // Beside the waves of many other groups it takes no longer than a read.
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
            // A core runs one thread after another: no wave waits while others run.
            _ if key.starts_with("latency_") && key.ends_with("us") && in_turn => self.texel_us(),
            _ if key.starts_with("latency_") && key.ends_with("us") => LATENCY_CYCLES / self.clock_mhz,
            _ if key.starts_with("throughput_") && key.ends_with("us") => self.texel_us(),
            _ => return None,
        })
    }
}
