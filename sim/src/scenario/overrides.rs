//! Values of a caller that override those of a scenario file.

use std::num::NonZeroU32;
use std::str::FromStr;

use crate::device::Profile;
use crate::explore::{Effort, Objective, Strategy};
use crate::kernel::Library;
use crate::plan::Mechanism;

/// Maximum number of CPU threads that a search may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// At most this many.
    AtMost(NonZeroU32),
    /// At most as many as the device can run.
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

/// Values of a caller that override those of a scenario file.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Overrides {
    /// Device profile: a bundled name, an alias, or a file (default: the scenario's; else oneplus11, and
    /// snapdragon-8gen3 for a bundled language model)
    #[cfg_attr(feature = "clap", arg(long, value_name = "NAME|FILE"))]
    pub device: Option<String>,
    /// A device that is not in a file; takes precedence over `device`
    #[cfg_attr(feature = "clap", arg(skip))]
    pub profile: Option<Box<Profile>>,
    /// The device unless `device` or the scenario names one: that of a plan
    #[cfg_attr(feature = "clap", arg(skip))]
    pub usual_device: Option<String>,
    /// Batch size: images or token sequences per inference
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..)))]
    pub batch: Option<u32>,
    /// Maximum number of CPU threads a search may use
    #[cfg_attr(feature = "clap", arg(long, value_name = "N|all"))]
    pub threads: Option<Threads>,
    /// CPU kernels to predict: XNNPACK's, unless the profile only has tables of coexec's own.
    /// On real hardware, coexec's own kernels always run
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
    /// Step of the grid of output channels; cuts along the height have a grid of their own
    #[cfg_attr(feature = "clap", arg(long, value_name = "CHANNELS"))]
    pub step: Option<u32>,
    /// Search effort of `optimal` for its plan and its bound
    #[cfg_attr(feature = "clap", arg(long, value_enum))]
    pub effort: Option<Effort>,
}
