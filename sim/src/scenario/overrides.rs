//! What a caller says instead of the scenario file.

use std::num::NonZeroU32;
use std::str::FromStr;

use crate::device::Profile;
use crate::explore::{Effort, Objective, Strategy};
use crate::kernel::Library;
use crate::plan::Mechanism;

/// Most CPU threads that a search may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// So many, and fewer.
    AtMost(NonZeroU32),
    /// As many as the device can run, and fewer.
    All,
}

impl FromStr for Threads {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "all" {
            return Ok(Self::All);
        }
        text.parse().map(Self::AtMost).map_err(|_| "expected a count from 1 on, or all")
    }
}

/// What a caller says instead of the scenario file.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Overrides {
    /// Device profile: a bundled name, an alias, or a file
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE"))]
    pub device: Option<String>,
    /// A device that is in no file; goes before its name
    #[cfg_attr(feature = "clap", arg(skip))]
    pub profile: Option<Box<Profile>>,
    /// Images (or sequences of tokens) at once
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..)))]
    pub batch: Option<u32>,
    /// Most CPU threads a search may use
    #[cfg_attr(feature = "clap", arg(long, value_name = "N|all"))]
    pub threads: Option<Threads>,
    /// CPU kernels whose times are predicted: XNNPACK's, unless the profile has tables of
    /// coexec's own and no others. On real hardware coexec's own run whichever is named
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub library: Option<Library>,
    /// Synchronisation between processors
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub synchronisation: Option<Mechanism>,
    /// How to find a plan
    #[cfg_attr(feature = "clap", arg(skip))]
    pub strategy: Option<Strategy>,
    /// What the search minimises
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub objective: Option<Objective>,
    /// Grid of output channels; cuts along the height have one of their own
    #[cfg_attr(feature = "clap", arg(long, value_name = "CHANNELS"))]
    pub step: Option<u32>,
    /// What `optimal` may do for its plan and its bound
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub effort: Option<Effort>,
}
