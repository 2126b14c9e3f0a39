//! The tables of `data/socs`: published facts of cores, GPUs, NPUs and systems-on-chip.
//!
//! Responsible for: their rows, and finding a row by a name as users write it. Not for: profiles (the
//! parent module). Invariant: a cell of `?` is unknown; one that ends in `?` is known but uncertain.

use std::sync::LazyLock;

use crate::csv_rows::bundled;
use coexec_sim::InputError;
use coexec_sim::device::{Core, GpuFamily, InstructionSet};
use coexec_sim::input::nearest;
use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

/// The known systems-on-chip.
pub static SYSTEMS: LazyLock<Vec<System>> =
    LazyLock::new(|| bundled(include_str!("../../../data/socs/socs.csv")));
static CORES: LazyLock<Vec<CoreFacts>> =
    LazyLock::new(|| bundled(include_str!("../../../data/socs/cores.csv")));
static PARTS: LazyLock<Vec<PartNumber>> =
    LazyLock::new(|| bundled(include_str!("../../../data/socs/parts.csv")));
static GPUS: LazyLock<Vec<GpuFacts>> = LazyLock::new(|| bundled(include_str!("../../../data/socs/gpus.csv")));
static NPUS: LazyLock<Vec<NpuFacts>> = LazyLock::new(|| bundled(include_str!("../../../data/socs/npus.csv")));
/// Types of memory, so that misspelt ones are rejected, each with the fastest clock on the market, in
/// MHz, so that data rates in place of clocks are rejected.
pub(super) static MEMORIES: LazyLock<Vec<(String, f64)>> =
    LazyLock::new(|| bundled(include_str!("../../../data/socs/memories.csv")));

/// A system-on-chip.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct System {
    /// Its name: `Snapdragon 8 Gen 2`.
    pub soc: String,
    /// Some phones with it, separated by commas.
    pub phones: String,
    pub(super) cpu: String,
    pub(super) cpu_source: String,
    pub(super) gpu: String,
    pub(super) gpu_clock_mhz: String,
    pub(super) gpu_source: String,
    pub(super) memory: String,
    pub(super) memory_source: String,
    pub(super) npu: String,
    pub(super) npu_source: String,
}

impl System {
    /// The system-on-chip of that name, or of the phone of that name. Case, blanks and hyphens do not
    /// matter.
    ///
    /// # Errors
    /// The tables lack that name.
    pub fn find(name: &str) -> Result<&'static Self, InputError> {
        let words = |name: &str| name.to_lowercase().split([' ', '-']).map(str::to_owned).collect::<Vec<_>>();
        let wanted = words(name).concat();
        // The maker's name at the start of a phone's name is optional.
        let is_phone = |phone: &str| {
            let words = words(phone.trim());
            (0..words.len()).any(|omitted| words[omitted..].concat() == wanted)
        };
        let is =
            |system: &&Self| words(&system.soc).concat() == wanted || system.phones.split(',').any(is_phone);
        SYSTEMS.iter().find(is).ok_or_else(|| {
            let names =
                |system: &'static Self| std::iter::once(&*system.soc).chain(system.phones.split(", "));
            let known: Vec<String> = SYSTEMS.iter().flat_map(names).map(str::to_owned).collect();
            let near = nearest(&words(name).join(" "), &known).map(|near| format!("did you mean {near:?}? "));
            InputError::Unfit {
                option: "--soc",
                found: name.to_owned(),
                message: "there is no such system-on-chip or phone".to_owned(),
                help: format!(
                    "{}`coexec profile new` lists those that are known; else give --cpu, --gpu and --memory",
                    near.unwrap_or_default()
                ),
            }
        })
    }
}

/// A core type.
#[derive(Debug, Deserialize)]
pub(super) struct CoreFacts {
    #[serde(rename = "core")]
    pub(super) name: String,
    /// The core of which this is another name.
    base_core: String,
    /// The earlier core from which kernel libraries do not distinguish it.
    kernels_like: String,
    vendor: String,
    f32_fma_per_cycle: String,
    pub(super) f16_arithmetic: String,
    pub(super) dot_product: String,
    pub(super) i8mm: String,
    pub(super) isa_source: String,
}

/// A core's entry in the main identification register (MIDR).
#[derive(Debug, Deserialize)]
struct PartNumber {
    implementer: String,
    /// Empty where it applies to all parts of the implementer.
    part: String,
    core: Core,
}

/// The core with this implementer and part number in the main identification register (MIDR).
pub fn core_numbered((implementer, part): (u32, u32)) -> Core {
    let is = |cell: &str, number: u32| u32::from_str_radix(cell, 16) == Ok(number);
    let is_known = |known: &&PartNumber| {
        is(&known.implementer, implementer) && (known.part.is_empty() || is(&known.part, part))
    };
    PARTS.iter().find(is_known).map_or(Core::Other, |known| known.core)
}

impl CoreFacts {
    /// The core of that name; Arm's `cortex-` prefix is optional.
    pub(super) fn find(name: &str) -> Result<&'static Self, InputError> {
        let name = name.to_lowercase();
        let arm = format!("cortex-{name}");
        let found = CORES.iter().find(|core| core.name == name || core.name == arm);
        let found =
            found.ok_or_else(|| unknown("core", &name, CORES.iter().map(|core| core.name.as_str())))?;
        if found.isa_source.is_empty() { Self::find(&found.base_core) } else { Ok(found) }
    }

    /// Integer multiply-accumulates per cycle, in units in which a core with the int8 matrix product
    /// has its rate in 32-bit floats. The dot product alone does half as many, and 16-bit products a
    /// quarter.
    pub(super) fn integer_rate(&self) -> Option<f64> {
        let share = if self.has(&self.i8mm) {
            1.0
        } else if self.has(&self.dot_product) {
            0.5
        } else {
            0.25
        };
        Some(share * number(&self.f32_fma_per_cycle)?)
    }

    /// Whether its arithmetic rate is unverified.
    pub(super) fn is_uncertain(&self) -> bool {
        self.f32_fma_per_cycle.contains('?')
    }

    pub(super) fn has(&self, answer: &str) -> bool {
        answer.starts_with("yes") && !self.isa_source.is_empty()
    }

    /// Its vector instructions, for x86-64 levels; none for other cores.
    pub(super) fn instruction_set(&self) -> Option<InstructionSet> {
        match self.name.as_str() {
            "x86-64" => Some(InstructionSet::Avx2),
            "x86-64-v4" => Some(InstructionSet::Avx512),
            _ => None,
        }
    }

    /// Its micro-architecture, as kernel libraries distinguish them.
    pub(super) fn core(&self) -> Core {
        let family = self.name.split('-').next().unwrap_or_default();
        let named = [self.kernels_like.as_str(), &self.name, family].into_iter().find_map(parsed);
        let of_apple = (self.vendor == "Apple").then_some(Core::Apple);
        of_apple.or(named).unwrap_or(Core::Other)
    }
}

/// A GPU.
#[derive(Debug, Deserialize)]
pub(super) struct GpuFacts {
    gpu: String,
    coexec_family: String,
    pub(super) family_source: String,
    compute_units: String,
    f32_fma_per_cycle_per_unit: String,
    f32_fma_per_cycle_total: String,
    pub(super) fma_source: String,
    /// Multiply-accumulates per cycle in 16-bit floats over those in 32-bit floats.
    f16_ratio: String,
}

impl GpuFacts {
    /// The GPU of that name, and the number of cores if the name has one: `mali-g720mc12`.
    pub(super) fn find(name: &str) -> Result<(&'static Self, Option<u32>), InputError> {
        let name = name.to_lowercase();
        let cores = ["mc", "mp"].into_iter().find_map(|letters| {
            let (model, count) = name.rsplit_once(letters)?;
            let count = count.parse().ok().filter(|&count: &u32| count > 0)?;
            Some((model.trim_end_matches('-').to_owned(), count))
        });
        let (model, units) = cores.map_or((name.clone(), None), |(model, count)| (model, Some(count)));
        // Immortalis is Arm's name for a Mali with ray tracing.
        let plain = model.replace("immortalis", "mali");
        let found = GPUS.iter().find(|gpu| gpu.gpu == model || gpu.gpu == plain);
        let found = found.ok_or_else(|| unknown("GPU", &name, GPUS.iter().map(|gpu| gpu.gpu.as_str())))?;
        Ok((found, units))
    }

    pub(super) fn family(&self) -> Option<GpuFamily> {
        parsed(self.coexec_family.trim_end_matches('?'))
    }

    /// Compute units, where the model determines their number.
    pub(super) fn units(&self) -> Option<u32> {
        number(&self.compute_units).map(|units| units as u32)
    }

    /// Multiply-accumulates per cycle of the whole GPU in 16-bit floats.
    pub(super) fn multiply_accumulates_per_cycle(&self, compute_units: u32) -> Option<f64> {
        let by_unit = || Some(number(&self.f32_fma_per_cycle_per_unit)? * f64::from(compute_units));
        Some(number(&self.f32_fma_per_cycle_total).or_else(by_unit)? * number(&self.f16_ratio)?)
    }

    /// Whether a hardware constant that scales times is unverified.
    pub(super) fn is_uncertain(&self) -> bool {
        let cells = [
            &self.coexec_family,
            &self.f32_fma_per_cycle_total,
            &self.f16_ratio,
            &self.f32_fma_per_cycle_per_unit,
        ];
        cells.iter().any(|cell| cell.contains('?'))
    }
}

/// An NPU.
#[derive(Debug, Deserialize)]
pub(super) struct NpuFacts {
    pub(super) npu: String,
    pub(super) vendor: String,
    /// Peak rates, in 10^12 operations per second; a multiply-accumulate is two operations.
    pub(super) f16_tflops: String,
    pub(super) int8_tops: String,
    pub(super) rate_source: String,
    /// On-chip memory, in which tensors stay between operators.
    pub(super) on_chip_mib: String,
    pub(super) on_chip_source: String,
    /// Fixed time of a graph from its submission to its end, in addition to its work.
    pub(super) graph_us: String,
    pub(super) graph_source: String,
    pub(super) bandwidth_gbps: String,
    pub(super) bandwidth_source: String,
}

impl NpuFacts {
    /// The NPU of that name.
    pub(super) fn find(name: &str) -> Result<&'static Self, InputError> {
        let found = NPUS.iter().find(|npu| npu.npu.eq_ignore_ascii_case(name));
        found.ok_or_else(|| unknown("NPU", name, NPUS.iter().map(|npu| npu.npu.as_str())))
    }
}

/// The number at the start of a cell; none where it starts otherwise.
pub(super) fn number(cell: &str) -> Option<f64> {
    let digits = cell.find(|character: char| !character.is_ascii_digit() && character != '.');
    cell[..digits.unwrap_or(cell.len())].parse().ok()
}

/// The variant of that name.
fn parsed<T: DeserializeOwned>(name: &str) -> Option<T> {
    T::deserialize(StrDeserializer::<Error>::new(name)).ok()
}

fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> InputError {
    let known = known.map(str::to_owned).collect();
    InputError::Unknown { what, name: name.to_owned(), known, or_file: false }
}
