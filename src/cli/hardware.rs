//! What runs on this machine: `coexec run` and `coexec probe`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use coexec_hw::execute::DeviceChoice;
use coexec_sim::units::SECONDS_PER_DAY;

use super::planning::{date, limit};
use crate::ScenarioOptions;

/// The device that stands for the GPU.
#[derive(Debug, Args)]
pub(crate) struct OpenClDevice {
    /// OpenCL device that stands for the GPU, by numbers or parts of names; the first GPU,
    /// or else the first device, unless given
    #[arg(long, value_name = "PLATFORM:DEVICE", default_value = "", hide_default_value = true)]
    pub(crate) opencl: String,
    /// Compute units of the OpenCL device that stand for the GPU; of a device made of this
    /// machine's cores half unless given, the others stand for the CPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpu_cores: Option<u32>,
}

impl OpenClDevice {
    /// What is used of it here, with or without the `gpu`.
    pub(crate) fn choice(&self, gpu: bool) -> DeviceChoice {
        DeviceChoice { gpu, opencl: self.opencl.clone(), compute_units: self.gpu_cores }
    }
}

/// `coexec run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) place: ScenarioOptions,
    /// Plan to run instead of searching for one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "objective", "step"])]
    pub(crate) plan: Option<PathBuf>,
    /// Measured runs to write, one row a repetition; the conditions go into a table beside
    #[arg(long, value_name = "RUNS.csv")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) device: OpenClDevice,
    /// Core sets that compute operators alone, besides the plan's; all that a search may
    /// use unless given
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub(crate) cores: Vec<String>,
    /// Also cut each single operator at so many places, evenly spaced: what the best cut
    /// would be
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) splits: u32,
    /// Repetitions of each variant
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=100_000))]
    pub(crate) repetitions: u32,
    /// Start nothing new after this many seconds; operators are taken in random order
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) time_limit: Option<Duration>,
    /// Give the device up when a single run takes longer than this many seconds
    #[arg(long = "run-limit", value_name = "S", default_value = "10", value_parser = seconds)]
    pub(crate) longest: Duration,
    /// Call times meaningless whose median's 95 % interval is wider than plus or minus this
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0, value_parser = limit)]
    pub(crate) max_spread: f64,
    /// Seed of operands, order and intervals
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// A time in seconds, above 0 and of at most a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let is_within_a_day = |seconds: &f64| *seconds > 0.0 && *seconds <= SECONDS_PER_DAY as f64;
    let seconds = text.parse().ok().filter(is_within_a_day).map(Duration::from_secs_f64);
    seconds.ok_or_else(|| "expected seconds above 0, at most a day".to_owned())
}

/// `coexec probe`.
#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// Profile to write; `coexec run` takes it from now on unless a --device is named
    #[arg(long, value_name = "PROFILE.toml")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) device: OpenClDevice,
    /// Fewer layers and repetitions: under two minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Name of the profile; that of the file unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Seconds the measurements may take in all: 1,080, or 90 where they are quick,
    /// unless given
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=SECONDS_PER_DAY))]
    pub(crate) time_limit: Option<u64>,
    /// Date to write into the profile; today (UTC) unless given
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub(crate) date: Option<String>,
    /// End with status 3 where layers kept out of a fit are predicted with a greater mean
    /// error than this, or where one layer's times spread more; the profile is written
    #[arg(long, value_name = "PERCENT", default_value_t = 60.0, value_parser = limit)]
    pub(crate) max_error: f64,
    /// Seed of the layers that are drawn and of the cross-validation's folds
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Write each layer beside its prediction by a fit that had not seen it
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) points: Option<PathBuf>,
    /// Write the timed layers with all repetitions, for `calibrate` and `validate`
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) runs: Option<PathBuf>,
}
