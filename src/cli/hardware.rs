//! Options of the commands that measure this machine: `coexec run` and `coexec probe`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use coexec_hw::execute::DeviceChoice;
use coexec_sim::units::SECONDS_PER_DAY;

use super::planning::{LIMITS, date, within};
use crate::ScenarioOptions;

/// The `OpenCL` device used as the GPU.
#[derive(Debug, Args)]
pub(crate) struct OpenClDevice {
    /// OpenCL device to use as the GPU, each half an index or a part of the name
    /// (default: for `run`, the one that its profile was probed on; else the first GPU, else the first
    /// device)
    #[arg(long, value_name = "PLATFORM:DEVICE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) opencl: Option<String>,
    /// Compute units of the OpenCL device to use as the GPU (default: all, or half if the device
    /// consists of this machine's cores); remaining cores of this machine are the CPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpu_cores: Option<u32>,
}

impl OpenClDevice {
    /// The devices to execute on, with or without the `gpu`.
    pub(crate) fn choice(&self, gpu: bool) -> DeviceChoice {
        DeviceChoice { gpu, opencl: self.opencl.clone().unwrap_or_default(), compute_units: self.gpu_cores }
    }
}

/// `coexec run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) place: ScenarioOptions,
    /// Plan file to run instead of searching for a plan
    #[arg(long, value_name = "FILE", conflicts_with_all = ["strategy", "objective", "step"])]
    pub(crate) plan: Option<PathBuf>,
    /// File for the measured runs, one row per repetition; the conditions go to
    /// RUNS.fingerprints.toml and a network's plan to RUNS.plan.toml, next to it
    #[arg(long, value_name = "RUNS.csv", value_parser = ending("csv"))]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) device: OpenClDevice,
    /// CPU core sets to time operators on alone, in addition to the plan's, such as 1large2med
    /// (default: all that a search may use)
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    pub(crate) cores: Vec<String>,
    /// For scenarios of single operators: also time N evenly spaced cuts of each, to find its best cut
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) splits: u32,
    /// Repetitions of each variant
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(5..=100_000))]
    pub(crate) repetitions: u32,
    /// Stop starting new measurements after this many seconds (default: no limit); operators are
    /// measured in random order
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) time_limit: Option<Duration>,
    /// Abandon the device if a single run takes longer than this many seconds
    #[arg(long = "run-limit", value_name = "S", default_value = "10", value_parser = seconds)]
    pub(crate) longest: Duration,
    /// Widest 95 % confidence interval of a median, as plus or minus a percentage; times above it count
    /// as meaningless. Fewer than six repetitions have no interval
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0, value_parser = within(LIMITS))]
    pub(crate) max_spread: f64,
    /// Seed of the operands and of the measurement order
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// Parses the path of a file to write, whose name has to end in that extension.
fn ending(extension: &'static str) -> impl Fn(&str) -> Result<PathBuf, String> + Clone {
    move |text| {
        let path =
            Some(PathBuf::from(text)).filter(|path| path.extension().is_some_and(|it| it == extension));
        path.ok_or_else(|| format!("expected a file that ends in .{extension}"))
    }
}

/// Parses a time in seconds, above 0 and at most a day.
fn seconds(text: &str) -> Result<Duration, String> {
    let is_within_a_day = |seconds: &f64| *seconds > 0.0 && *seconds <= SECONDS_PER_DAY as f64;
    let seconds = text.parse().ok().filter(is_within_a_day).map(Duration::from_secs_f64);
    seconds.ok_or_else(|| "expected seconds above 0, at most a day".to_owned())
}

/// `coexec probe`.
#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// Profile to write; unless the probe ends with status 3, `coexec run` uses it from now on if no --device
    /// is given
    #[arg(long, value_name = "PROFILE.toml", value_parser = ending("toml"))]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) device: OpenClDevice,
    /// Measure fewer layers and repetitions, in under two minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Name of the profile (default: the file's name)
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Time budget of all measurements, in seconds (default: 1080; 90 with --quick)
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=SECONDS_PER_DAY))]
    pub(crate) time_limit: Option<u64>,
    /// Date to write into the profile (default: today, UTC)
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub(crate) date: Option<String>,
    /// Exit with status 3 if the mean error on held-out layers, or the spread of one layer's times,
    /// exceeds this percentage; the profile is written all the same
    #[arg(long, value_name = "PERCENT", default_value_t = 60.0, value_parser = within(LIMITS))]
    pub(crate) max_error: f64,
    /// Seed of the drawn layers and of the cross-validation folds
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Write each layer's measured time and its prediction by a fit that held it out
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) points: Option<PathBuf>,
    /// Write all repetitions of the timed layers, for `calibrate` and `validate`
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) runs: Option<PathBuf>,
}
