//! The tables of `data/socs`: what is publicly known of cores, GPUs and systems-on-chip.
//!
//! Responsible for: their rows, and finding one by a name as people write it. Not for: what follows from a row.
//! Invariant: a cell that says `?` is not known, one that ends so is known but uncertain.

use std::sync::LazyLock;

use coexec_sim::device::{Core, GpuFamily, InstructionSet};
use coexec_sim::input::nearest;
use coexec_sim::{InputError, Text};
use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

/// The systems-on-chip there are facts of.
pub static SYSTEMS: LazyLock<Vec<System>> =
    LazyLock::new(|| table(include_str!("../../../data/socs/socs.csv")));
static CORES: LazyLock<Vec<CoreFacts>> =
    LazyLock::new(|| table(include_str!("../../../data/socs/cores.csv")));
static PARTS: LazyLock<Vec<PartNumber>> =
    LazyLock::new(|| table(include_str!("../../../data/socs/parts.csv")));
static GPUS: LazyLock<Vec<GpuFacts>> = LazyLock::new(|| table(include_str!("../../../data/socs/gpus.csv")));
static NPUS: LazyLock<Vec<NpuFacts>> = LazyLock::new(|| table(include_str!("../../../data/socs/npus.csv")));

fn table<T: DeserializeOwned>(content: &str) -> Vec<T> {
    let text = Text { name: "data/socs".to_owned(), content: content.to_owned() };
    crate::csv_rows::read(&text, "", |_| None).expect("a test reads the tables, which are bundled")
}

/// A system-on-chip.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct System {
    /// Its name: `Snapdragon 8 Gen 2`.
    pub soc: String,
    /// Some phones that have it, separated by commas.
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
    /// The system-on-chip of that name, or of the phone of that name, in whatever case, with or without blanks.
    ///
    /// # Errors
    /// There is none.
    pub fn find(name: &str) -> Result<&'static Self, InputError> {
        let words = |name: &str| name.to_lowercase().split([' ', '-']).map(str::to_owned).collect::<Vec<_>>();
        let wanted = words(name).concat();
        // A phone's maker may be left out.
        let is_phone = |phone: &str| {
            let words = words(phone.trim());
            (0..words.len()).any(|left_out| words[left_out..].concat() == wanted)
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
    /// The core that it is by another name.
    base_core: String,
    /// The core before, which kernel libraries do not tell it from.
    kernels_like: String,
    vendor: String,
    f32_fma_per_cycle: String,
    pub(super) f16_arithmetic: String,
    pub(super) dot_product: String,
    pub(super) i8mm: String,
    pub(super) isa_source: String,
}

/// The number under which cores tell what they are.
#[derive(Debug, Deserialize)]
struct PartNumber {
    implementer: String,
    /// Empty where all parts of the implementer are alike.
    part: String,
    core: Core,
}

/// The core of an implementer and part number in the main identification register.
pub fn core_numbered((implementer, part): (u32, u32)) -> Core {
    let is = |cell: &str, number: u32| u32::from_str_radix(cell, 16) == Ok(number);
    let is_known = |known: &&PartNumber| {
        is(&known.implementer, implementer) && (known.part.is_empty() || is(&known.part, part))
    };
    PARTS.iter().find(is_known).map_or(Core::Other, |known| known.core)
}

impl CoreFacts {
    /// The core of that name; Arm's without `cortex-` too.
    pub(super) fn find(name: &str) -> Result<&'static Self, InputError> {
        let name = name.to_lowercase();
        let arm = format!("cortex-{name}");
        let found = CORES.iter().find(|core| core.name == name || core.name == arm);
        let found =
            found.ok_or_else(|| unknown("core", &name, CORES.iter().map(|core| core.name.as_str())))?;
        if found.isa_source.is_empty() { Self::find(&found.base_core) } else { Ok(found) }
    }

    /// Multiply-accumulates of integers a cycle, as a multiple of those in 32 bits that is the same for all cores with
    /// the int8 matrix product; the dot product alone does half as many, and 16-bit products a quarter.
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

    /// Whether its arithmetic rate was not verified.
    pub(super) fn is_uncertain(&self) -> bool {
        self.f32_fma_per_cycle.contains('?')
    }

    pub(super) fn has(&self, answer: &str) -> bool {
        answer.starts_with("yes") && !self.isa_source.is_empty()
    }

    /// Its vector instructions, where they are not those of its architecture's first level.
    pub(super) fn instruction_set(&self) -> Option<InstructionSet> {
        match self.name.as_str() {
            "x86-64" => Some(InstructionSet::Avx2),
            "x86-64-v4" => Some(InstructionSet::Avx512),
            _ => None,
        }
    }

    /// Its micro-architecture, as kernel libraries tell them apart.
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
    /// Multiply-accumulates in 16 bits for one in 32.
    f16_ratio: String,
}

impl GpuFacts {
    /// The GPU of that name, and how many cores the name says it has: `mali-g720mc12`.
    pub(super) fn find(name: &str) -> Result<(&'static Self, Option<u32>), InputError> {
        let name = name.to_lowercase();
        let cores = ["mc", "mp"].into_iter().find_map(|letters| {
            let (model, count) = name.rsplit_once(letters)?;
            let count = count.parse().ok().filter(|&count: &u32| count > 0)?;
            Some((model.trim_end_matches('-').to_owned(), count))
        });
        let (model, units) = cores.map_or((name.clone(), None), |(model, count)| (model, Some(count)));
        // Arm calls a Mali with ray tracing Immortalis.
        let plain = model.replace("immortalis", "mali");
        let found = GPUS.iter().find(|gpu| gpu.gpu == model || gpu.gpu == plain);
        let found = found.ok_or_else(|| unknown("GPU", &name, GPUS.iter().map(|gpu| gpu.gpu.as_str())))?;
        Ok((found, units))
    }

    pub(super) fn family(&self) -> Option<GpuFamily> {
        parsed(self.coexec_family.trim_end_matches('?'))
    }

    /// Compute units, where the model alone says how many.
    pub(super) fn units(&self) -> Option<u32> {
        number(&self.compute_units).map(|units| units as u32)
    }

    /// Multiply-accumulates in 16 bits a cycle.
    pub(super) fn multiply_accumulates_per_cycle(&self, compute_units: u32) -> Option<f64> {
        let by_unit = || Some(number(&self.f32_fma_per_cycle_per_unit)? * f64::from(compute_units));
        Some(number(&self.f32_fma_per_cycle_total).or_else(by_unit)? * number(&self.f16_ratio)?)
    }

    /// Whether anything that times are scaled by was not verified.
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
    /// Peaks, in 10^12 operations a second, of which two are a multiply-accumulate.
    pub(super) f16_tflops: String,
    pub(super) int8_tops: String,
    pub(super) rate_source: String,
    /// Memory that tensors stay in between operators.
    pub(super) on_chip_mib: String,
    pub(super) on_chip_source: String,
    /// From handing over a graph to its end, beside its work.
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

/// The number that a cell begins with.
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
