//! What is planned and simulated: `coexec simulate` and `coexec explore`.

use std::path::{Path, PathBuf};

use clap::Args;
use coexec_sim::scenario::Overrides;

use super::{LibraryName, MechanismName, ObjectiveName, StrategyName};
use crate::failure::Failure;

/// What `simulate`, `explore` and `run` share.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// A bundled scenario or network (see `coexec devices`), or a file, also .onnx and .tflite
    pub(crate) scenario: String,
    /// Device profile: a bundled name, an alias, or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) device: Option<String>,
    /// Images (or sequences of tokens) at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch: Option<u32>,
    /// Most CPU threads a search may use
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) threads: Option<u32>,
    /// CPU kernels whose times are predicted: XNNPACK's, unless the profile has tables of
    /// coexec's own and no others. On real hardware coexec's own run whichever is named
    #[arg(long, value_enum)]
    pub(crate) library: Option<LibraryName>,
    /// Synchronisation between processors
    #[arg(long, value_enum)]
    pub(crate) synchronisation: Option<MechanismName>,
    /// How to find the plan
    #[arg(long, value_enum)]
    pub(crate) strategy: Option<StrategyName>,
    /// What the search minimises
    #[arg(long, value_enum)]
    pub(crate) objective: Option<ObjectiveName>,
    /// Grid of output channels; cuts along the height have one of their own
    #[arg(long, value_name = "CHANNELS")]
    pub(crate) step: Option<u32>,
}

impl Where {
    /// Refuses what a plan in a file says itself.
    pub(crate) fn refuse_beside(&self, plan: Option<&Path>) -> Result<(), Failure> {
        match plan {
            Some(plan) if self.synchronisation.is_some() => Err(Failure::Usage {
                problem: "--synchronisation cannot be used with --plan, which says it".to_owned(),
                help: format!("edit `synchronisation` in {}", plan.display()),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            device: self.device.clone(),
            batch: self.batch,
            threads: self.threads,
            library: self.library.map(Into::into),
            synchronisation: self.synchronisation.map(Into::into),
            strategy: self.strategy.and_then(StrategyName::planned),
            language_strategy: self.strategy.and_then(StrategyName::of_language),
            objective: self.objective.map(Into::into),
            step: self.step,
        }
    }
}

/// `coexec simulate`.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Plan to simulate instead of searching for one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["threads", "strategy", "objective", "step"]
    )]
    pub(crate) plan: Option<PathBuf>,
    /// Write a Perfetto trace of the run
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a picture of the timeline (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Repeat the run so many times with the profile's jitter
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) samples: Option<u32>,
    /// Seed of the jitter
    #[arg(long, value_name = "S", default_value_t = 0, requires = "samples")]
    pub(crate) seed: u64,
}

/// `coexec explore`.
#[derive(Debug, Args)]
pub(crate) struct Explore {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Write the plan found, for `simulate --plan`
    #[arg(long, value_name = "PLAN.toml")]
    pub(crate) out: Option<PathBuf>,
    /// Write a Perfetto trace of the run
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a picture of latency against output channels or, with `--strategy all`, of the
    /// strategies' latency and energy (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Write a picture of the timeline (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,
    /// Write a picture of who computes how much of each operator, chains outlined: of the
    /// plan found or, with `--strategy all`, of every strategy's (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub(crate) shares: Option<PathBuf>,
    /// Operator the latency picture of --plot shows; the first that is cut unless given
    #[arg(long, value_name = "NAME", requires = "plot")]
    pub(crate) operator: Option<String>,
}
