//! `coexec compare`.

use clap::Args;
use coexec_sim::explore::{Effort, Objective, Strategy};
use coexec_sim::scenario::Threads;
use coexec_sim::{Library, Mechanism, Overrides};

use super::{ModelOptions, OneOrAll, one_or_all, picture};
use crate::output::PicturePath;

/// `coexec compare`.
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Bundled networks or scenarios, or files, separated by commas; all stands for every
    /// bundled network
    #[arg(default_value = "all", value_delimiter = ',')]
    pub(crate) scenarios: Vec<String>,
    #[command(flatten)]
    pub(crate) how: ModelOptions,
    /// Device profiles: bundled names, aliases or files, separated by commas; unified stands
    /// for every bundled one whose CPU and GPU share one memory, but for those from their specification
    /// alone, all for every one with a GPU
    #[arg(long, value_name = "NAME|FILE,...", default_value = "unified", value_delimiter = ',')]
    pub(crate) devices: Vec<String>,
    /// Strategies to show beside `optimal` and the baseline, separated by commas
    #[arg(long, value_name = "NAME,...", value_parser = one_or_all::<Strategy>(), default_value = "all", value_delimiter = ',')]
    pub(crate) strategies: Vec<OneOrAll<Strategy>>,
    /// Strategy over which gains are told, row by row
    #[arg(long, value_name = "NAME", value_enum, default_value = "codl")]
    pub(crate) baseline: Strategy,
    /// What plans minimise
    #[arg(long, value_enum)]
    pub(crate) objective: Option<Objective>,
    /// Synchronisation between processors
    #[arg(long, value_enum)]
    pub(crate) synchronisation: Option<Mechanism>,
    /// CPU kernels whose times are predicted; XNNPACK's unless the profile has no others than coexec's own
    #[arg(long, value_enum)]
    pub(crate) library: Option<Library>,
    /// Most CPU threads a plan may use
    #[arg(long, value_name = "N|all")]
    pub(crate) threads: Option<Threads>,
    /// Grid of output channels; cuts along the height have one of their own
    #[arg(long, value_name = "CHANNELS")]
    pub(crate) step: Option<u32>,
    /// What `optimal` may do for its plan and its bound
    #[arg(long, value_enum)]
    pub(crate) effort: Option<Effort>,
    /// Write a picture of what `optimal` gains over the baseline, models by devices (.svg
    /// or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) plot: Option<PicturePath>,
    /// End with status 2 where the mean gain of `optimal` over the baseline is below --limit
    #[arg(long)]
    pub(crate) check: bool,
    /// Least mean gain over the baseline for --check, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, requires = "check")]
    pub(crate) limit: f64,
}

impl Compare {
    /// What is said instead of each scenario's file.
    pub(crate) fn overrides(&self, device: &str) -> Overrides {
        Overrides {
            device: Some(device.to_owned()),
            threads: self.threads,
            library: self.library,
            synchronisation: self.synchronisation,
            objective: self.objective,
            step: self.step,
            effort: self.effort,
            ..Overrides::default()
        }
    }
}
