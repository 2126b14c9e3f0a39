//! Profiles from a device's specification: cores, GPU, NPU and memory by name, or by system-on-chip.
//!
//! Responsible for: looking names up in the tables of `data/socs`, and a profile of that hardware. Not
//! for: the times of its kernels, which are another device's until [`crate::transfer`] predicts them.
//! Invariant: the profile's sources mark every value that a table marks as uncertain.

mod known;
mod memory;
mod npu;

use std::ops::RangeInclusive;

use coexec_sim::device::{Cluster, ClusterName, Cpu, GpuFamily, LanguageRates, MAX_CLUSTERS, Memory};
use coexec_sim::kernel::cpu::MAX_THREADS;
use coexec_sim::{Basis, Gpu, InputError, ProcessorKind, Profile, Quantity};

use known::{CoreFacts, GpuFacts, NpuFacts};
pub use known::{SYSTEMS, System, core_numbered};
use memory::Interface;

use crate::calibrate::with_quantities;

/// 32-bit multiply-accumulates per cycle of a core of the Snapdragon 8 Elite.
const ELITE_MULTIPLY_ACCUMULATES_PER_CYCLE: f64 = 16.0;

/// The description of a part of a device, with its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Description; uncertain values in it end with a question mark.
    pub text: String,
    /// Source of the description.
    pub source: String,
}

impl Part {
    /// A part as the user gave it.
    pub fn given(text: &str) -> Self {
        Self { text: text.to_owned(), source: "as given".to_owned() }
    }

    /// The part and its source, as the source of a profile's value.
    fn cited(&self) -> String {
        let certainty = if self.text.contains('?') { "; nobody verified what ends in ?" } else { "" };
        format!("{} ({}{certainty})", self.text, self.source)
    }
}

/// A device as a data sheet describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Specification {
    /// System-on-chip: `Snapdragon 8 Gen 2`.
    pub soc: String,
    /// Clusters of cores, fastest first: `1xX4@3.4,5xA720@3.15,2xA520@2.27`, clocks in GHz.
    pub cpu: Part,
    /// GPU and its clock in MHz: `adreno-750@903`. The name of a Mali is followed by its number of
    /// cores: `mali-g720mc12@1300`. `none` to model no GPU.
    pub gpu: Option<Part>,
    /// NPU: `ane-m4`; `none` to model no NPU.
    pub npu: Option<Part>,
    /// Type, clock in MHz and width in bits of the memory: `lpddr5x-4800x64`.
    pub memory: Part,
}

impl Specification {
    /// The specification of a system-on-chip in the tables, or of that of a phone.
    ///
    /// # Errors
    /// The tables lack that name.
    pub fn of(name: &str) -> Result<Self, InputError> {
        let system = System::find(name)?;
        let part = |text: String, source: &str| Part { text, source: source.to_owned() };
        let certainty = if system.gpu_clock_mhz.contains('?') { "?" } else { "" };
        let gpu = known::number(&system.gpu_clock_mhz).map(|mhz| {
            part(format!("{}@{mhz}{certainty}", system.gpu.trim_end_matches('?')), &system.gpu_source)
        });
        let npu = NpuFacts::find(&system.npu).ok().map(|npu| part(npu.npu.clone(), &system.npu_source));
        Ok(Self {
            soc: system.soc.clone(),
            cpu: part(system.cpu.clone(), &system.cpu_source),
            gpu,
            npu,
            memory: part(system.memory.clone(), &system.memory_source),
        })
    }

    /// The profile of that hardware, called `name`; everything else is that of `like`.
    ///
    /// # Errors
    /// A part is malformed, or the tables lack a core, GPU or NPU of its name.
    pub fn profile(&self, name: &str, like: &Profile) -> Result<Profile, InputError> {
        let interface = Interface::parse(&self.memory.text)?;
        let modelled = |part: &Option<Part>| part.clone().filter(|part| part.text != "none");
        let npu = modelled(&self.npu).map(|part| npu::npu(&part.text, interface)).transpose()?;
        Ok(Profile {
            name: name.to_owned(),
            title: format!("{}, from its specification", self.soc),
            soc: self.soc.clone(),
            aliases: Vec::new(),
            memory: interface.memory(&self.memory.cited()),
            cpu: self.cpu(like)?,
            gpu: match (modelled(&self.gpu), &like.gpu) {
                (Some(part), Some(like)) => Some(gpu(&part, like)?),
                (None, _) | (_, None) => None,
            },
            npu,
            power: None,
            used_fact: Vec::new(),
            calibration: None,
            ..like.clone()
        })
    }

    /// Whether a hardware constant that scales the times of a processor is unverified; always true for
    /// an NPU.
    pub fn is_unverified(&self, on: ProcessorKind) -> bool {
        let is_uncertain = |part: &Part| part.text.contains('?');
        let fastest = self.cpu.text.split(['x', '@']).nth(1).and_then(|core| CoreFacts::find(core).ok());
        let of_gpu = |part: &Part| {
            let name = part.text.split('@').next().unwrap_or_default();
            is_uncertain(part) || GpuFacts::find(name).is_ok_and(|(facts, _)| facts.is_uncertain())
        };
        is_uncertain(&self.memory)
            || match on {
                ProcessorKind::Cpu => is_uncertain(&self.cpu) || fastest.is_some_and(CoreFacts::is_uncertain),
                ProcessorKind::Gpu => self.gpu.as_ref().is_some_and(of_gpu),
                ProcessorKind::Npu => true,
            }
    }

    /// Rates of a language-model engine: those fitted on a Snapdragon 8 Elite, scaled by the arithmetic
    /// rate of the eight fastest cores and the memory's peak bandwidth. None where the arithmetic rate
    /// of a core is unknown.
    fn language(&self) -> Option<LanguageRates> {
        let fitted = Profile::load("snapdragon-8elite").ok()?;
        let (mut left, mut rate) = (MAX_THREADS as u32, 0.0);
        for text in self.cpu.text.split(',') {
            let (cores, facts, ghz) = cores_of(text).ok()?;
            let busy = cores.min(left);
            left -= busy;
            rate += f64::from(busy) * ghz * facts.integer_rate()?;
        }
        let of_cluster = |cluster: &Cluster| f64::from(cluster.cores) * (cluster.clock_mhz.value / 1e3);
        let elite_ghz: f64 = fitted.cpu.clusters.iter().map(of_cluster).sum();
        let arithmetic = rate / (ELITE_MULTIPLY_ACCUMULATES_PER_CYCLE * elite_ghz);
        let peak = |memory: &Memory| memory.peak_bandwidth_gbps.value;
        let bandwidth = peak(&Interface::parse(&self.memory.text).ok()?.memory("")) / peak(&fitted.memory);
        let scaled = with_quantities(&fitted.cpu.language?, |key, Quantity { value, .. }| {
            let factor = if key == "bandwidth_gbps" { bandwidth } else { arithmetic };
            let is_cost = key == "operator_us";
            Quantity::plain(if is_cost { value } else { (value * factor * 100.0).round() / 100.0 })
        });
        Some(LanguageRates {
            source: format!(
                "derived, not measured: the snapdragon-8elite profile's fitted rates, arithmetic x {arithmetic:.3} \
                 (multiply-accumulates of the cores), bandwidth x {bandwidth:.3} (peaks of the memories)"
            ),
            basis: Basis::Scaled,
            ..scaled
        })
    }

    fn cpu(&self, like: &Profile) -> Result<Cpu, InputError> {
        let texts: Vec<&str> = self.cpu.text.split(',').collect();
        let refused = |expected| refused("--cpu", &self.cpu.text, expected);
        if texts.len() > MAX_CLUSTERS {
            return Err(refused("1 to 4 clusters, separated by commas"));
        }
        let named = texts.iter().zip(ClusterName::fastest_first(texts.len()));
        let clusters: Vec<Cluster> =
            named.map(|(text, name)| cluster(text, name)).collect::<Result<_, _>>()?;
        if !clusters.is_sorted_by(|one, next| one.clock_mhz.value >= next.clock_mhz.value) {
            return Err(refused("clusters in the order of their clocks, fastest first"));
        }
        let mixed_cluster_factor = like.cpu.mixed_cluster_factor.clone();
        let source = format!("{}; clocks and cores: {}", self.soc, self.cpu.cited());
        let language = self.language();
        Ok(Cpu {
            source,
            mixed_cluster_factor,
            mixed_ruy_f32: None,
            mixed_ruy_i8: None,
            language,
            cold_caches: None,
            clusters,
        })
    }
}

/// Expected form of a cluster, for errors.
const CLUSTER: &str =
    "clusters as 5xA720@3.15: number of cores (1 to 256), core type, and clock in GHz (0.1 to 10)";

/// Count, type and clock in GHz of text like `5xA720@3.15`.
fn cores_of(text: &str) -> Result<(u32, &'static CoreFacts, f64), InputError> {
    let parts = text.trim().split_once('x').and_then(|(count, rest)| Some((count, rest.split_once('@')?)));
    let whole = |count: &str| count.parse().ok().filter(|count| (1..=256).contains(count));
    let numbers =
        parts.and_then(|(count, (core, ghz))| Some((whole(count)?, core, number_in(ghz, 0.1..=10.0)?)));
    let (cores, core, ghz): (u32, &str, f64) = numbers.ok_or_else(|| refused("--cpu", text, CLUSTER))?;
    Ok((cores, CoreFacts::find(core)?, ghz))
}

/// A cluster from text like `5xA720@3.15`.
fn cluster(text: &str, name: ClusterName) -> Result<Cluster, InputError> {
    let (cores, facts, ghz) = cores_of(text)?;
    Ok(Cluster {
        name,
        core: facts.core(),
        cores,
        clock_mhz: Quantity::plain((ghz * 1e3).round()),
        dot_product: facts.has(&facts.dot_product),
        f16_arithmetic: facts.has(&facts.f16_arithmetic),
        int8_matrix_product: facts.has(&facts.i8mm),
        instruction_set: facts.instruction_set(),
        l1_cache_bytes: None,
        l2_cache_bytes: None,
        ruy_f32: None,
        ruy_i8: None,
        xnnpack_f32: None,
        xnnpack_f16: None,
        xnnpack_i8: None,
        coexec_f32: None,
        source: format!("{}: {}", facts.name, facts.isa_source),
    })
}

/// A GPU from text like `adreno-750@903`.
fn gpu(part: &Part, like: &Gpu) -> Result<Gpu, InputError> {
    let text = part.text.as_str();
    let expected = "a GPU as adreno-750@903: its name and its clock in MHz, from 10 to 10000";
    let parts = text.split_once('@').and_then(|(name, clock)| Some((name, number_in(clock, 10.0..=1e4)?)));
    let (name, clock_mhz) = parts.ok_or_else(|| refused("--gpu", text, expected))?;
    let (facts, units) = GpuFacts::find(name)?;
    let missing = |what: &str| refused("--gpu", text, &format!("a GPU with a known {what}, or none"));
    let family: GpuFamily = facts.family().ok_or_else(|| missing("family"))?;
    let rate =
        |units: u32| facts.multiply_accumulates_per_cycle(units).ok_or_else(|| missing("arithmetic rate"));
    // Without a rate, a number of cores does not help.
    rate(1)?;
    let many_sizes =
        || refused("--gpu", text, &format!("a GPU with its number of cores, as {name}mc7@{clock_mhz}"));
    let compute_units = units.or(facts.units()).ok_or_else(many_sizes)?;
    let source = |source: &str| format!("{name}: {source}");
    let certainty = if facts.is_uncertain() { " (a value nobody verified)" } else { "" };
    Ok(Gpu {
        name: name.to_owned(),
        source: source(&facts.family_source),
        family,
        compute_units,
        simd_width: family.rules().wave_threads,
        clock_mhz: Some(Quantity::of(clock_mhz, part.cited())),
        multiply_accumulates_per_cycle: Some(Quantity::of(
            rate(compute_units)?,
            source(&format!("{}{certainty}", facts.fma_source)),
        )),
        residency: Vec::new(),
        residual: None,
        memory: None,
        language: None,
        ..like.clone()
    })
}

/// The number in a text that may end in question marks; none outside of `range`.
fn number_in(text: &str, range: RangeInclusive<f64>) -> Option<f64> {
    text.trim().trim_end_matches('?').parse().ok().filter(|value| range.contains(value))
}

fn refused(option: &'static str, found: &str, expected: &str) -> InputError {
    InputError::Option { option, found: found.to_owned(), expected: expected.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::{donors, transfer};

    #[test]
    fn every_known_system_makes_a_profile_or_says_what_is_not_known() {
        let like = Profile::load("pixel4").unwrap();
        let mut unknown = Vec::new();
        for system in SYSTEMS.iter() {
            match Specification::of(&system.soc).unwrap().profile("made", &like) {
                Ok(profile) if profile.gpu.is_some() => {}
                Ok(_) => unknown.push(system.soc.as_str()),
                Err(error) => {
                    assert!(error.to_string().contains("--gpu"), "{}: {error}", system.soc);
                    unknown.push(&system.soc);
                }
            }
        }
        let expected = [
            "Snapdragon 6 Gen 1",
            "Snapdragon 7 Gen 1",
            "Snapdragon 7s Gen 2",
            "Snapdragon 7 Gen 3",
            "Snapdragon 7s Gen 3",
            "Snapdragon 7+ Gen 3",
            "Snapdragon 8 Gen 5",
            "Dimensity 9500",
            "Exynos 2500",
            "Apple A19",
        ];
        assert_eq!(unknown, expected);
    }

    #[test]
    fn no_compute_unit_is_as_wide_as_a_whole_gpu() {
        let like = Profile::load("pixel4").unwrap();
        let made =
            SYSTEMS.iter().map(|system| Specification::of(&system.soc).unwrap().profile("made", &like));
        for gpu in made.filter_map(|profile| profile.ok()?.gpu) {
            let rate = gpu.multiply_accumulates_per_cycle.unwrap().value;
            assert!(rate / f64::from(gpu.compute_units) <= 1024.0, "{}: {rate}", gpu.name);
        }
    }

    #[test]
    fn a_measured_phone_is_found_by_its_system_with_the_hardware_that_its_profile_has() {
        for (name, measured) in
            [("Snapdragon 855", "pixel4"), ("Helio P35", "galaxy-a03s"), ("iPhone XS", "iphone-xs")]
        {
            let measured = Profile::load(measured).unwrap();
            let made = Specification::of(name).unwrap().profile("made", &measured).unwrap();
            let clusters = |profile: &Profile| -> Vec<_> {
                profile
                    .cpu
                    .clusters
                    .iter()
                    .map(|cluster| (cluster.core, cluster.cores, cluster.dot_product))
                    .collect()
            };
            assert_eq!(clusters(&made)[0], clusters(&measured)[0], "{name}");
            let (made, measured) = (made.gpu.unwrap(), measured.gpu.unwrap());
            assert_eq!(
                (made.family, made.compute_units),
                (measured.family, measured.compute_units),
                "{name}"
            );
            let rate = |gpu: &Gpu| gpu.multiply_accumulates_per_cycle.as_ref().unwrap().value;
            assert!((rate(&made) / rate(&measured) - 1.0).abs() < 1e-9, "{name}");
        }
    }

    #[test]
    fn an_invalid_specification_is_named_with_the_expected_form() {
        let like = Profile::load("pixel4").unwrap();
        let good = Specification {
            soc: "mine".to_owned(),
            cpu: Part::given("1xX4@3.4,5xA720@3.15,2xA520@2.27"),
            gpu: Some(Part::given("adreno-750@903")),
            npu: None,
            memory: Part::given("lpddr5x-4800x64"),
        };
        let profile = good.profile("mine", &like).unwrap();
        assert!((profile.memory.peak_bandwidth_gbps.value - 76.8).abs() < 1e-9);
        let problem =
            |specification: Specification| specification.profile("mine", &like).unwrap_err().to_string();
        let cpu = |text: &str| problem(Specification { cpu: Part::given(text), ..good.clone() });
        assert!(cpu("5xA720").contains("--cpu is 5xA720, expected clusters as 5xA720@3.15"));
        assert!(cpu("1xX99@3").contains("no core named \"x99\""));
        assert!(cpu("1xX4@3,1xX4@3,1xX4@3,1xX4@3,1xX4@3").contains("1 to 4 clusters"));
        let gpu = |text: &str| problem(Specification { gpu: Some(Part::given(text)), ..good.clone() });
        assert!(gpu("adreno-750").contains("its name and its clock in MHz"));
        assert!(gpu("mali-g76@700").contains("mali-g76mc7@700"));
        let memory = |text: &str| {
            let given = Specification { memory: Part::given(text), ..good.clone() };
            given.profile("mine", &like).unwrap_err()
        };
        for text in ["lpddr5", "lpddr5xx-4800x64"] {
            assert!(memory(text).to_string().contains(&format!("--memory is {text}")));
        }
        // A data rate in place of the clock.
        for (rate, clock) in [
            ("lpddr5x-8533x64", "lpddr5x-4266x64"),
            ("lpddr4x-4266x64", "lpddr4x-2133x64"),
            ("LPDDR5T-9600x64", "lpddr5t-4800x64"),
            ("ddr5-4800x128", "ddr5-2400x128"),
        ] {
            assert!(memory(rate).help().ends_with(clock), "{}", memory(rate).help());
            Specification { memory: Part::given(clock), ..good.clone() }.profile("mine", &like).unwrap();
        }
    }

    #[test]
    fn a_transferred_profile_reads_back_with_its_basis() {
        let donors = donors();
        let sheet = Specification::of("Dimensity 9300").unwrap().profile("made", &donors[0]).unwrap();
        let made = transfer(&sheet, &donors).unwrap();
        let text = coexec_sim::Text { name: "made.toml".to_owned(), content: made.to_toml().unwrap() };
        let read = Profile::parse(&text).unwrap();
        assert_eq!(read, made);
        assert_eq!(read.gpu.unwrap().conv_generic.basis, coexec_sim::Basis::Transferred);
    }
}
