//! What a calibration expects before any run.

use coexec_fit::calibrate::gpu::prior::{Phone, Prior};
use coexec_fit::measure::GpuRun;
use coexec_sim::device::memory::Memory;
use coexec_sim::device::npu::compiled::CompiledGraphs;
use coexec_sim::{Cpu, Gpu, InputError, Profile};

use crate::{Failure, Result};

/// A prior as the command line names it.
pub(crate) struct Chosen {
    /// As typed.
    pub(crate) name: String,
    prior: Prior,
}

/// The profile of that name; where there is none, a prior may have been meant.
fn profile(name: &str) -> Result<Profile, InputError> {
    Profile::load(name).map_err(|error| match error {
        InputError::Unknown { what, name, known, or_file } => {
            let priors = ["base", "hardware"].map(str::to_owned);
            InputError::Unknown { what, name, known: priors.into_iter().chain(known).collect(), or_file }
        }
        error => error,
    })
}

impl Chosen {
    /// `base`, `hardware`, or names of profiles with commas between.
    pub(crate) fn of(name: &str) -> Result<Self> {
        let prior = match name {
            "base" => Prior::Base,
            "hardware" => Prior::Hardware,
            names if names.split(',').any(|name| ["base", "hardware"].contains(&name)) => {
                return Err(Failure::usage(
                    format!("--prior {names}: base and hardware are each a prior by itself"),
                    "give one of them alone, or names of profiles with commas between",
                ));
            }
            names => Prior::Profiles(names.split(',').map(profile).collect::<Result<_, _>>()?),
        };
        Ok(Self { name: name.to_owned(), prior })
    }

    /// Whether it is what the base has.
    pub(crate) fn is_base(&self) -> bool {
        matches!(self.prior, Prior::Base)
    }

    /// The prior in a word or two, for a legend.
    pub(crate) fn label(&self) -> &str {
        match &self.prior {
            Prior::Profiles(profiles) if profiles.len() > 1 => "other devices",
            _ => &self.name,
        }
    }

    /// `gpu` with the values that the prior expects of the kernels of `runs`.
    pub(crate) fn centre(&self, gpu: &Gpu, memory: &Memory, runs: &[GpuRun]) -> Result<Gpu> {
        self.prior.centre(Phone { gpu, memory }, runs).map_err(|missing| {
            Failure::usage(missing.to_string(), "add the key to the profile, or fit with --prior base")
        })
    }

    /// The rates of an NPU's compiled graphs to start from, where not from what is expected of any:
    /// `base`'s, or those of the first profile that has some.
    pub(crate) fn compiled(&self, base: &Profile) -> Option<CompiledGraphs> {
        let of = |profile: &Profile| profile.npu.as_ref()?.compiled.clone();
        match &self.prior {
            Prior::Base => of(base),
            Prior::Hardware => None,
            Prior::Profiles(profiles) => profiles.iter().find_map(of),
        }
    }

    /// The CPUs that say what to expect of a core type.
    pub(crate) fn cpus(&self) -> Vec<Cpu> {
        match &self.prior {
            Prior::Base | Prior::Hardware => Vec::new(),
            Prior::Profiles(profiles) => profiles.iter().map(|profile| profile.cpu.clone()).collect(),
        }
    }
}
