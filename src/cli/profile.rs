//! Options of `coexec profile`: profiles of unmeasured devices.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `coexec profile`.
#[derive(Debug, Args)]
pub(crate) struct Profile {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

/// Subcommand of `coexec profile`.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Build the profile of a device from its specification and from measured devices
    New(NewProfile),
    /// Report the errors of such profiles, with each measured device held out in turn
    Error(ProfileError),
}

/// `coexec profile new`.
#[derive(Debug, Args)]
pub(crate) struct NewProfile {
    /// System-on-chip, or a phone that has it; without any option the known ones are listed and, on a terminal, asked for
    #[arg(long, value_name = "NAME")]
    pub(crate) soc: Option<String>,
    /// Clusters of cores, fastest first: count, core type and clock in GHz
    #[arg(long, value_name = "1xX4@3.4,5xA720@3.15,2xA520@2.27")]
    pub(crate) cpu: Option<String>,
    /// GPU and its clock in MHz, a Mali with its core count, such as mali-g720mc12@1300; or `none`
    #[arg(long, value_name = "adreno-750@903")]
    pub(crate) gpu: Option<String>,
    /// Memory type, clock in MHz (half of the data rate in MT/s) and bus width in bits
    #[arg(long, value_name = "lpddr5x-4800x64")]
    pub(crate) memory: Option<String>,
    /// NPU, by its name in data/socs/npus.csv; or `none`
    #[arg(long, value_name = "ane-m4")]
    pub(crate) npu: Option<String>,
    /// Measured devices to exclude from the average that kernel times are taken from
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// Profile to write; the file's name becomes the profile's
    #[arg(long, value_name = "PROFILE.toml", default_value = "my-phone.toml")]
    pub(crate) out: PathBuf,
}

/// `coexec profile error`.
#[derive(Debug, Args)]
pub(crate) struct ProfileError {
    /// Folder of the mobile-ml-benchmark data set
    #[arg(long, value_name = "FOLDER")]
    pub(crate) runs: PathBuf,
    /// Fit each profile to whole inferences of N of its networks, drawn at random, and predict the
    /// others
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub(crate) networks: u32,
    /// Number of random draws of networks to average the errors over
    #[arg(long, value_name = "N", default_value_t = 1, requires = "networks",
        value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) draws: u64,
    /// Seed of the first draw; each later draw uses the next seed
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 32))]
    pub(crate) seed: u64,
    /// Write the errors by group over all devices, as new profiles state them
    #[arg(long, value_name = "FILE.toml", conflicts_with = "networks")]
    pub(crate) out: Option<PathBuf>,
}
