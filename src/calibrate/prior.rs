//! What a calibration expects before any run.

use coexec_fit::calibrate::gpu::prior::{Phone, Prior};
use coexec_fit::measure::GpuRun;
use coexec_sim::device::cpu::Cpu;
use coexec_sim::device::gpu::Gpu;
use coexec_sim::device::memory::Memory;
use coexec_sim::device::profile::Profile;
use coexec_sim::input::InputError;

use crate::failure::Failure;

/// A prior as the command line names it.
pub(crate) struct Chosen {
    /// As typed.
    pub(crate) name: String,
    kind: Kind,
}

enum Kind {
    Base,
    Hardware,
    Profiles(Vec<Profile>),
}

/// The profile of that name; where there is none, a prior may have been meant.
fn profile(name: &str) -> Result<Profile, InputError> {
    Profile::load(name).map_err(|error| match error {
        InputError::Unknown { what, name, known } => {
            let priors = ["base", "hardware"].map(str::to_owned);
            InputError::Unknown { what, name, known: priors.into_iter().chain(known).collect() }
        }
        error => error,
    })
}

impl Chosen {
    /// `base`, `hardware`, or names of profiles with commas between.
    pub(crate) fn of(name: &str) -> Result<Self, Failure> {
        let kind = match name {
            "base" => Kind::Base,
            "hardware" => Kind::Hardware,
            names => Kind::Profiles(names.split(',').map(profile).collect::<Result<_, _>>()?),
        };
        Ok(Self { name: name.to_owned(), kind })
    }

    /// The prior in a word or two, for a legend.
    pub(crate) fn label(&self) -> &str {
        match &self.kind {
            Kind::Profiles(profiles) if profiles.len() > 1 => "other devices",
            _ => &self.name,
        }
    }

    /// `gpu` with the values that the prior expects of the kernels of `runs`.
    pub(crate) fn centre(&self, gpu: &Gpu, memory: &Memory, runs: &[GpuRun]) -> Result<Gpu, Failure> {
        let prior = match &self.kind {
            Kind::Base => Prior::Base,
            Kind::Hardware => Prior::Hardware,
            Kind::Profiles(profiles) => {
                let phones = profiles.iter().filter_map(|profile| {
                    profile.gpu.as_ref().map(|gpu| Phone { gpu, memory: &profile.memory })
                });
                Prior::Profiles(phones.collect())
            }
        };
        prior.centre(Phone { gpu, memory }, runs).map_err(|missing| {
            Failure::usage(missing.to_string(), "add the key to the profile, or fit with --prior base")
        })
    }

    /// The CPUs that say what to expect of a core type.
    pub(crate) fn cpus(&self) -> Vec<Cpu> {
        match &self.kind {
            Kind::Base | Kind::Hardware => Vec::new(),
            Kind::Profiles(profiles) => profiles.iter().map(|profile| profile.cpu.clone()).collect(),
        }
    }
}
