//! What to expect of a GPU's kernels before any run: from its clock, arithmetic
//! rate and memory bandwidth, or from what other phones' kernels were found to need.
//!
//! Responsible for: the centre of the prior of each parameter. Not for: how far a
//! fit may leave it, nor the fit. Invariants: a centre never depends on a run's time,
//! and tables that no run belongs to stay as the base has them.

use std::collections::HashSet;
use std::fmt;

use thiserror::Error;

use crate::device::gpu::{Gpu, GpuFamily, KernelTable};
use crate::device::memory::Memory;
use crate::device::quantity::Quantity;
use crate::kernel::gpu::execute;
use crate::measure::GpuRun;

/// A phone as its profile has it.
#[derive(Clone, Copy, Debug)]
pub struct Phone<'a> {
    /// Its GPU.
    pub gpu: &'a Gpu,
    /// Its memory, whose peak bandwidth bounds the GPU's traffic.
    pub memory: &'a Memory,
}

/// Where the centre of a fit's prior comes from.
#[derive(Clone, Debug, Default)]
pub enum Prior<'a> {
    /// The base's values.
    #[default]
    Base,
    /// The phone's clock, arithmetic rate and memory bandwidth.
    Hardware,
    /// The fitted values of other phones, each parameter scaled as the hardware
    /// prior changes from them to this phone: their geometric mean.
    Profiles(Vec<Phone<'a>>),
}

/// A hardware constant the prior needs is not in a profile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the profile of the {gpu} has no {key} under [gpu], which the prior of its fit is made from")]
pub struct MissingConstant {
    /// Name of the GPU.
    pub gpu: String,
    /// Key that is missing.
    pub key: &'static str,
}

impl Prior<'_> {
    /// `base` with the prior's centre in each table that a run belongs to; what a fit
    /// takes as its base. A table of the other phones that the runs need and the base
    /// does not have is added.
    ///
    /// # Errors
    /// A profile lacks a hardware constant the prior is made from.
    pub fn centre(&self, base: Phone<'_>, runs: &[GpuRun]) -> Result<Gpu, MissingConstant> {
        let mut gpu = base.gpu.clone();
        let others: &[Phone<'_>] = match self {
            Self::Base => return Ok(gpu),
            Self::Hardware => &[],
            Self::Profiles(others) => others,
        };
        let hardware = Hardware::of(base)?;
        let others = others
            .iter()
            .map(|&other| Ok((other.gpu.clone(), Hardware::of(other)?)))
            .collect::<Result<Vec<(Gpu, Hardware)>, MissingConstant>>()?;
        lend_tables(&mut gpu, &others);
        let used: HashSet<KernelTable> = runs
            .iter()
            .filter_map(|run| execute(&run.layer, &gpu).ok())
            .map(|execution| execution.detail.kernel.table())
            .collect();
        return_tables(&mut gpu, base.gpu, &used);
        for table in KernelTable::ALL.into_iter().filter(|table| used.contains(table)) {
            // A base that was fitted has these; one that was not must lead to the same fit.
            gpu.switch_on_optional(table);
            set_centre(&mut gpu, table, &hardware, &others);
        }
        Ok(gpu)
    }
}

/// Adds the tables that the GPU does not have and another phone does.
fn lend_tables(gpu: &mut Gpu, others: &[(Gpu, Hardware)]) {
    for (other, _) in others {
        gpu.grouped_conv = gpu.grouped_conv.take().or_else(|| other.grouped_conv.clone());
        gpu.winograd = gpu.winograd.take().or_else(|| other.winograd.clone());
        gpu.conv_constants = gpu.conv_constants.take().or_else(|| other.conv_constants.clone());
    }
}

/// Takes back the added tables that no run belongs to.
fn return_tables(gpu: &mut Gpu, base: &Gpu, used: &HashSet<KernelTable>) {
    if !used.contains(&KernelTable::GroupedConv) {
        gpu.grouped_conv.clone_from(&base.grouped_conv);
    }
    if !used.contains(&KernelTable::Winograd) {
        gpu.winograd.clone_from(&base.winograd);
    }
    if !used.contains(&KernelTable::ConvConstants) {
        gpu.conv_constants.clone_from(&base.conv_constants);
    }
}

/// Writes the prior's centre into a table. A parameter that is 0 is switched off and
/// stays so; one that neither hardware nor another phone speaks of keeps its value.
fn set_centre(gpu: &mut Gpu, table: KernelTable, hardware: &Hardware, others: &[(Gpu, Hardware)]) {
    let mut others: Vec<(Gpu, &Hardware)> =
        others.iter().map(|(gpu, hardware)| (gpu.clone(), hardware)).collect();
    let Some(parameters) = gpu.parameters_mut(table) else { return };
    *parameters.source = match others.len() {
        0 => format!("prior from {hardware}"),
        count => format!("prior from {count} other phones' values, scaled to {hardware}"),
    };
    for (key, quantity) in parameters.quantities {
        if quantity.value <= 0.0 {
            continue;
        }
        let own = hardware.expected(table, key);
        let ratios: Vec<f64> = others
            .iter_mut()
            .filter_map(|(other, hardware)| {
                let value = value_of(other, table, key)?;
                let expected = own.and_then(|_| hardware.expected(table, key)).unwrap_or(1.0);
                Some((value / expected).ln())
            })
            .collect();
        let scale = match ratios.len() {
            0 => 1.0,
            count => (ratios.iter().sum::<f64>() / count as f64).exp(),
        };
        let unscaled = if ratios.is_empty() { quantity.value } else { 1.0 };
        *quantity = Quantity::plain(own.unwrap_or(unscaled) * scale);
    }
}

/// A parameter of another phone; none where it does not have it, or has it switched off.
fn value_of(gpu: &mut Gpu, table: KernelTable, key: &str) -> Option<f64> {
    let parameters = gpu.parameters_mut(table)?.quantities;
    let (_, quantity) = parameters.into_iter().find(|(other, _)| *other == key)?;
    Some(quantity.value).filter(|&value| value > 0.0)
}

/// What the constants of a phone make to expect of its kernels.
#[derive(Clone, Debug)]
struct Hardware {
    clock_mhz: f64,
    multiply_accumulates_per_cycle: f64,
    bandwidth_gbps: f64,
    compute_units: f64,
    simd_width: f64,
    launch_us: f64,
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

/// Launch of a kernel.
const LAUNCH_US: f64 = 6.0;
/// The same where the driver is slow to start one: `PowerVR`.
const SLOW_LAUNCH_US: f64 = 45.0;
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
/// Bytes a microsecond in 1 GB/s.
const BYTES_PER_MICRO: f64 = 1e3;

impl Hardware {
    fn of(phone: Phone<'_>) -> Result<Self, MissingConstant> {
        let Phone { gpu, memory } = phone;
        let constant = |key, quantity: &Option<Quantity>| {
            let missing = || MissingConstant { gpu: gpu.name.clone(), key };
            Ok(quantity.as_ref().ok_or_else(missing)?.value)
        };
        Ok(Self {
            clock_mhz: constant("clock_mhz", &gpu.clock_mhz)?,
            multiply_accumulates_per_cycle: constant(
                "multiply_accumulates_per_cycle",
                &gpu.multiply_accumulates_per_cycle,
            )?,
            bandwidth_gbps: gpu
                .memory
                .as_ref()
                .map_or(memory.peak_bandwidth_gbps.value, |own| own.bandwidth_gbps.value),
            compute_units: f64::from(gpu.compute_units),
            simd_width: f64::from(gpu.simd_width),
            launch_us: if gpu.family == GpuFamily::PowerVr { SLOW_LAUNCH_US } else { LAUNCH_US },
        })
    }

    /// Time a compute unit takes for the products of one texel of one wave, at the
    /// peak rate, in microseconds.
    fn texel_us(&self) -> f64 {
        let rate_per_us = self.multiply_accumulates_per_cycle * self.clock_mhz / self.compute_units;
        self.simd_width * TEXEL_PRODUCTS / rate_per_us
    }

    /// What to expect of a parameter; none where nothing is known of its kind.
    fn expected(&self, table: KernelTable, key: &str) -> Option<f64> {
        let writes_tiles = matches!(
            table,
            KernelTable::ConvGeneric | KernelTable::GroupedConv | KernelTable::Winograd | KernelTable::Pool
        );
        Some(match key {
            "launch_us" => self.launch_us,
            "roofline_sharpness" => SHARPNESS,
            "throughput_texel_us" => TEXEL_OVER_PEAK * self.texel_us(),
            "throughput_pixel_read_us" => PIXEL_READ * self.texel_us(),
            "throughput_weight_read_us" => WEIGHT_READ * self.texel_us(),
            "wave_us" if writes_tiles => WAVE * self.texel_us(),
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
            _ if key.starts_with("latency_") && key.ends_with("us") => LATENCY_CYCLES / self.clock_mhz,
            _ if key.starts_with("throughput_") && key.ends_with("us") => self.texel_us(),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::profile::Profile;
    use crate::measure::Family;
    use crate::workload::{Conv2d, DataType, Layer, Operator, Padding, Shape};

    fn profile(name: &str) -> (Gpu, Memory) {
        let profile = Profile::load(name).unwrap();
        (profile.gpu.unwrap(), profile.memory)
    }

    fn phone(profile: &(Gpu, Memory)) -> Phone<'_> {
        Phone { gpu: &profile.0, memory: &profile.1 }
    }

    /// A convolution of many channels, with a window and without.
    fn runs() -> Vec<GpuRun> {
        let run = |window: u32| {
            let conv = Conv2d {
                input: Shape::image(14, 14, 96),
                output_channels: 96,
                kernel: [window; 2],
                stride: [1; 2],
                dilation: [1; 2],
                padding: Padding::symmetric(window / 2, window / 2),
                groups: 1,
                bias: true,
            };
            GpuRun {
                network: "net".to_owned(),
                family: Family::Conv2d,
                layer: Layer::new(Operator::Conv2d(conv), DataType::F32),
                kernel: String::new(),
                measured_us: 1.0,
                line: 1,
            }
        };
        vec![run(1), run(3)]
    }

    #[test]
    fn a_texel_costs_what_the_arithmetic_peak_says() {
        // Adreno 640: 64 lanes of 16 products on 768 of 1536 multipliers at 585 MHz.
        let hardware = Hardware::of(phone(&profile("pixel4"))).unwrap();
        assert!((hardware.texel_us() - 64.0 * 16.0 / (768.0 * 585.0)).abs() < 1e-12);
        let bytes = hardware.expected(KernelTable::ConvGeneric, "traffic_us_per_byte").unwrap();
        assert!((bytes - 0.5 / 34_100.0).abs() < 1e-15);
    }

    #[test]
    fn every_parameter_of_every_table_has_an_expectation() {
        for device in ["pixel4", "galaxy-s10", "mi8se", "galaxy-a03s", "iphone7", "iphone-xs"] {
            let mut profile = profile(device);
            let hardware = Hardware::of(phone(&profile)).unwrap();
            for table in KernelTable::ALL {
                let Some(parameters) = profile.0.parameters_mut(table) else { continue };
                for (key, _) in parameters.quantities {
                    let expected = hardware.expected(table, key);
                    assert!(expected.is_some_and(|value| value > 0.0), "{device} {table:?} {key}");
                }
            }
        }
    }

    #[test]
    fn the_hardware_prior_forgets_what_was_fitted_and_keeps_what_no_run_speaks_of() {
        let base = profile("pixel4");
        let mut other = base.clone();
        other.0.conv_generic.throughput_texel_us.value *= 7.0;
        let centre = |base: &(Gpu, Memory)| Prior::Hardware.centre(phone(base), &runs()).unwrap();
        assert_eq!(centre(&base).conv_generic, centre(&other).conv_generic);
        assert_ne!(centre(&base).conv_generic, base.0.conv_generic);
        assert_eq!(centre(&base).mean, base.0.mean);
        assert_eq!(centre(&base).residency, base.0.residency);
    }

    #[test]
    fn a_phone_alone_among_the_others_lends_its_values_unchanged_to_its_twin() {
        let pixel4 = profile("pixel4");
        let centre = Prior::Profiles(vec![phone(&pixel4)]).centre(phone(&pixel4), &runs()).unwrap();
        let (mut expected, mut found) = (pixel4.0.conv_generic.clone(), centre.conv_generic);
        for ((key, expected), (_, found)) in
            expected.parameters_mut().quantities.into_iter().zip(found.parameters_mut().quantities)
        {
            assert!((found.value / expected.value - 1.0).abs() < 1e-12, "{key}");
        }
    }

    #[test]
    fn twice_the_clock_halves_what_another_phone_lends_in_time_and_leaves_factors() {
        let slow = profile("pixel4");
        let mut fast = slow.clone();
        fast.0.clock_mhz.as_mut().unwrap().value *= 2.0;
        let centre = Prior::Profiles(vec![phone(&slow)]).centre(phone(&fast), &runs()).unwrap();
        let half = slow.0.conv_generic.throughput_texel_us.value / 2.0;
        assert!((centre.conv_generic.throughput_texel_us.value / half - 1.0).abs() < 1e-12);
        let factor = slow.0.conv_generic.window_latency_factor.value;
        assert!((centre.conv_generic.window_latency_factor.value / factor - 1.0).abs() < 1e-12);
    }

    #[test]
    fn another_phone_lends_a_table_only_where_the_runs_need_it() {
        let donor = profile("galaxy-s10");
        let mut base = donor.clone();
        base.0.winograd = None;
        let lent = |runs: &[GpuRun]| {
            Prior::Profiles(vec![phone(&donor)]).centre(phone(&base), runs).unwrap().winograd
        };
        assert!(lent(&runs()).is_none());
        let mut wide = runs();
        if let Operator::Conv2d(conv) = &mut wide[1].layer.operator {
            conv.input = Shape::image(56, 56, 256);
            conv.output_channels = 256;
        }
        assert!(lent(&wide).is_some());
    }

    #[test]
    fn a_profile_without_a_clock_is_named() {
        let mut base = profile("pixel4");
        base.0.clock_mhz = None;
        let error = Prior::Hardware.centre(phone(&base), &runs()).unwrap_err();
        assert_eq!((error.key, error.gpu.as_str()), ("clock_mhz", "Adreno 640"));
        assert!(Prior::Base.centre(phone(&base), &runs()).is_ok());
    }
}
