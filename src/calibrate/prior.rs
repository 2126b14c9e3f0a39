//! The prior of a calibration.

use coexec_fit::calibrate::gpu::prior::{Phone, Prior};
use coexec_fit::measure::GpuRun;
use coexec_sim::device::memory::Memory;
use coexec_sim::device::npu::compiled::CompiledGraphs;
use coexec_sim::{Cpu, Gpu, InputError, Profile};

use crate::{Failure, Result};

/// Names of the priors that are no profiles.
const BASE: &str = "base";
pub(crate) const HARDWARE: &str = "hardware";

/// A prior and its name on the command line.
pub(crate) struct Chosen {
    /// As typed.
    pub(crate) name: String,
    prior: Prior,
}

/// Loads the profile of that name; the error for an unknown name also suggests the names of priors.
fn profile(name: &str) -> Result<Profile, InputError> {
    Profile::load(name).map_err(|error| match error {
        InputError::Unknown { what, name, known, or_file } => {
            let priors = [BASE, HARDWARE].map(str::to_owned);
            InputError::Unknown { what, name, known: priors.into_iter().chain(known).collect(), or_file }
        }
        error => error,
    })
}

impl Chosen {
    /// Parses `base`, `hardware`, or comma-separated names of profiles.
    pub(crate) fn of(name: &str) -> Result<Self> {
        let prior = match name {
            BASE => Prior::Base,
            HARDWARE => Prior::Hardware,
            names if names.split(',').any(|name| [BASE, HARDWARE].contains(&name)) => {
                return Err(Failure::usage(
                    format!("--prior {names}: base and hardware cannot be combined with other priors"),
                    "give one of them alone, or comma-separated names of profiles",
                ));
            }
            names => Prior::Profiles(names.split(',').map(profile).collect::<Result<_, _>>()?),
        };
        Ok(Self { name: name.to_owned(), prior })
    }

    /// Whether the prior is the base profile's values.
    pub(crate) fn is_base(&self) -> bool {
        matches!(self.prior, Prior::Base)
    }

    /// A short name of the prior for a legend.
    pub(crate) fn label(&self) -> &str {
        match &self.prior {
            Prior::Profiles(profiles) if profiles.len() > 1 => "other devices",
            _ => &self.name,
        }
    }

    /// `gpu` with the prior's values for the kernels of `runs`.
    pub(crate) fn centre(&self, gpu: &Gpu, memory: &Memory, runs: &[GpuRun]) -> Result<Gpu> {
        self.prior.centre(Phone { gpu, memory }, runs).map_err(|missing| {
            Failure::usage(missing.to_string(), "add the key to the profile, or fit with --prior base")
        })
    }

    /// The NPU's compiled-graph rates to start from: those of the first named profile that has any, else
    /// `base`'s; none for a generic start.
    pub(crate) fn compiled(&self, base: &Profile) -> Option<CompiledGraphs> {
        let of = |profile: &Profile| profile.npu.as_ref()?.compiled.clone();
        match &self.prior {
            Prior::Base => of(base),
            Prior::Hardware => None,
            Prior::Profiles(profiles) => profiles.iter().find_map(of).or_else(|| of(base)),
        }
    }

    /// The CPUs that the prior of each core type is taken from.
    pub(crate) fn cpus(&self) -> Vec<Cpu> {
        match &self.prior {
            Prior::Base | Prior::Hardware => Vec::new(),
            Prior::Profiles(profiles) => profiles.iter().map(|profile| profile.cpu.clone()).collect(),
        }
    }
}
