//! Profiles of devices that nobody measured: `coexec profile`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `coexec profile`.
#[derive(Debug, Args)]
pub(crate) struct Profile {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

/// What to do about profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Make the profile of a device from its specification and what measured devices predict
    New(NewProfile),
    /// How far such profiles are off: each measured device left out of the others in turn
    Error(ProfileError),
}

/// `coexec profile new`.
#[derive(Debug, Args)]
pub(crate) struct NewProfile {
    /// System-on-chip, or a phone that has it; lists those that are known where nothing is given
    #[arg(long, value_name = "NAME")]
    pub(crate) soc: Option<String>,
    /// Clusters of cores, fastest first: how many of which type at what clock, in GHz
    #[arg(long, value_name = "1xX4@3.4,5xA720@3.15,2xA520@2.27")]
    pub(crate) cpu: Option<String>,
    /// GPU and its clock in MHz; a Mali with its number of cores, as mali-g720mc12@1300; or none
    #[arg(long, value_name = "adreno-750@903")]
    pub(crate) gpu: Option<String>,
    /// Type of memory, its clock in MHz (half of the data rate in MT/s) and its bits
    #[arg(long, value_name = "lpddr5x-4800x64")]
    pub(crate) memory: Option<String>,
    /// NPU, as data/socs/npus.csv names it; or none
    #[arg(long, value_name = "ane-m4")]
    pub(crate) npu: Option<String>,
    /// Measured devices to leave out of those whose predictions are averaged
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) without: Vec<String>,
    /// Profile to write; it is called as the file is
    #[arg(long, value_name = "PROFILE.toml", default_value = "my-phone.toml")]
    pub(crate) out: PathBuf,
}

/// `coexec profile error`.
#[derive(Debug, Args)]
pub(crate) struct ProfileError {
    /// Folder of the mobile-ml-benchmark data set
    #[arg(long, value_name = "FOLDER")]
    pub(crate) runs: PathBuf,
    /// Fit each profile to whole inferences of so many of its networks, drawn at random, and predict the others
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000))]
    pub(crate) networks: u32,
    /// Draws of networks, of whose errors the means are printed
    #[arg(long, value_name = "N", default_value_t = 1, requires = "networks",
        value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub(crate) draws: u64,
    /// Seed of the first draw; the others have those behind it
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1 << 32))]
    pub(crate) seed: u64,
    /// Write the errors by group, all devices together: what new profiles state
    #[arg(long, value_name = "FILE.toml", conflicts_with = "networks")]
    pub(crate) out: Option<PathBuf>,
}
