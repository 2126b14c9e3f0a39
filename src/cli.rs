//! The command line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use coexec_sim::scenario::Overrides;

use crate::failure::Failure;

mod compare;
mod names;

pub(crate) use compare::Compare;
pub(crate) use names::{
    Figure, LibraryName, MechanismName, ObjectiveName, PaperName, RunFormat, SchemaName, StrategyName,
};

/// Predicts how long neural-network operators take when split over the CPU
/// cores, GPU and NPU of a phone, and finds the best split.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print one JSON document on standard output and nothing else there
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no messages on standard error but errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Threads for independent simulations, one a processor unless given; the result
    /// is the same for any number
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the device profiles and scenarios, or show one profile with its sources
    Devices(Devices),
    /// Predict a scenario under a plan: latency, use of each processor, energy, timeline
    Simulate(Simulate),
    /// Find who should compute what: the best CPU/GPU split, and why
    Explore(Explore),
    /// Set strategies side by side on many models and devices: who gains how much, and where
    Compare(Compare),
    /// Make a scenario of a model, ONNX or TensorFlow Lite
    Import(Import),
    /// Measure a scenario under a plan on this machine, beside each processor alone
    Run(Run),
    /// Measure this machine and write its device profile
    Probe(Probe),
    /// Fit a profile's GPU and CPU to measured runs
    Calibrate(Calibrate),
    /// Compare a profile's predictions with measured runs
    Validate(Validate),
    /// Draw a figure from points or a learning curve that another command wrote
    Plot(Plot),
    /// Write the accuracy page: cross-validated errors of phones on a data set
    Report(Report),
    /// Set what the papers published beside ours, number by number
    Reproduce(Reproduce),
    /// Print the JSON Schema of a file format
    Schema(Schema),
}

/// `coexec devices`.
#[derive(Debug, Args)]
pub(crate) struct Devices {
    /// Profile to show: a bundled name, an alias, or a file
    pub(crate) name: Option<String>,
}

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

/// `coexec import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Model to read; its weights are not
    #[arg(value_name = "MODEL.onnx|MODEL.tflite")]
    pub(crate) model: PathBuf,
    /// Scenario to write
    #[arg(long, value_name = "SCENARIO.toml")]
    pub(crate) out: PathBuf,
    /// An extent that the model leaves open, such as its batch or a sequence's length; 1
    /// unless given
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    pub(crate) dimensions: Vec<(String, u32)>,
    /// Put the closest operator in the place of one that has no counterpart, and list it
    #[arg(long)]
    pub(crate) skip_unknown: bool,
}

/// The name of a dimension, and its extent.
fn dimension(text: &str) -> Result<(String, u32), String> {
    let extent =
        text.rsplit_once('=').and_then(|(name, extent)| Some((name.to_owned(), extent.parse().ok()?)));
    match extent {
        Some((name, extent)) if extent > 0 => Ok((name, extent)),
        _ => Err("expected NAME=N, N a whole number of at least 1".to_owned()),
    }
}

/// `coexec run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) place: Where,
    /// Plan to run instead of searching for one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["strategy", "objective", "step"]
    )]
    pub(crate) plan: Option<PathBuf>,
    /// Measured runs to write, one row a repetition; the conditions go into a table beside
    #[arg(long, value_name = "RUNS.csv")]
    pub(crate) out: PathBuf,
    /// OpenCL device that stands for the GPU, by numbers or parts of names
    #[arg(long, value_name = "PLATFORM:DEVICE", default_value = "", hide_default_value = true)]
    pub(crate) opencl: String,
    /// Compute units of the OpenCL device that stand for the GPU; of a device made of this
    /// machine's cores half unless given, the others stand for the CPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpu_cores: Option<u32>,
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
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    pub(crate) max_spread: f64,
    /// Seed of operands, order and intervals
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// A time in seconds, above 0 and of at most a day.
fn seconds(text: &str) -> Result<Duration, String> {
    const DAY: f64 = 24.0 * 3_600.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= DAY => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("expected seconds above 0, at most a day".to_owned()),
    }
}

/// `coexec probe`.
#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// Profile to write
    #[arg(long, value_name = "PROFILE.toml")]
    pub(crate) out: PathBuf,
    /// OpenCL device, by numbers or parts of names; the first GPU, or else the first
    /// device, unless given
    #[arg(long, value_name = "PLATFORM:DEVICE", default_value = "", hide_default_value = true)]
    pub(crate) opencl: String,
    /// Compute units of the OpenCL device that stand for the GPU; of a device made of this
    /// machine's cores half unless given, the others stand for the CPU
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub(crate) gpu_cores: Option<u32>,
    /// Fewer layers and repetitions: under two minutes
    #[arg(long)]
    pub(crate) quick: bool,
    /// Name of the profile; that of the file unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Seconds the measurements may take in all: 1,080, or 90 where they are quick,
    /// unless given
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) time_limit: Option<u64>,
    /// Date to write into the profile; today (UTC) unless given
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) date: Option<String>,
    /// End with status 3 where layers kept out of a fit are predicted with a greater mean
    /// error than this, or where one layer's times spread more; the profile is written
    #[arg(long, value_name = "PERCENT", default_value_t = 60.0)]
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

/// Measured runs of one device.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Measured runs: a folder, or a CSV file of coexec's own
    #[arg(long = "runs", value_name = "PATH")]
    pub(crate) path: PathBuf,
    /// Format of the runs: coexec's own of a file, or of a folder with a runs.csv, unless
    /// given; else mobile-ml-benchmark
    #[arg(long, value_enum)]
    pub(crate) format: Option<RunFormat>,
    /// Device whose columns of mobile-ml-benchmark are read: pixel4 for
    /// `pixel4|gpu|float`
    #[arg(long, value_name = "NAME")]
    pub(crate) device_column: Option<String>,
    /// CPU kernels that ran: TFLite's own on ruy, unless the profile has tables of coexec's
    /// and no others
    #[arg(long, value_enum)]
    pub(crate) library: Option<LibraryName>,
}

/// `coexec calibrate`.
#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Profile to start from, a bundled name, an alias, or a file: its counts and
    /// rules are kept, its fitted values are the prior
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) base: String,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Profile to write
    #[arg(long, value_name = "PROFILE.toml")]
    pub(crate) out: PathBuf,
    /// Date to write into the profile
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub(crate) date: Option<String>,
    /// Seed of the cross-validation's folds, and of what is drawn at random
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// What to expect of the kernels before any run: base (its values), hardware (its
    /// clock, arithmetic rate and bandwidth), or the fitted values of other profiles
    #[arg(long, value_name = "base|hardware|NAME[,NAME...]", default_value = "base")]
    pub(crate) prior: String,
    /// Fit the equations alone, without learning what they leave
    #[arg(long)]
    pub(crate) no_residual: bool,
    /// Write each run beside its prediction by a fit that had not seen its network
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) points: Option<PathBuf>,
    /// Fit the GPU to this many of its runs, drawn at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: Option<u32>,
    /// Fit to the runs of this many networks, drawn at random
    #[arg(long, value_name = "N", conflicts_with = "rows", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) networks: Option<u32>,
    /// Write the error on networks kept out against the number of measured runs
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["rows", "networks"])]
    pub(crate) learning_curve: Option<PathBuf>,
}

/// `coexec validate`.
#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Device profile: a bundled name, an alias, or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Runs that the profile was fitted on, in the same format: shapes that do not
    /// occur there get figures of their own, and a FLOPs-linear model to compare with
    #[arg(long, value_name = "PATH")]
    pub(crate) seen: Option<PathBuf>,
    /// Only groups whose name begins so: gpu/conv2d, gpu/conv2d/unseen, cpu
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) group: String,
    /// End with status 2 where the MAPE of a group is above this
    #[arg(long, value_name = "PERCENT")]
    pub(crate) limit: Option<f64>,
    /// Worst predictions to list
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) worst: usize,
    /// Write a picture of predicted against measured time (.svg or .png)
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Write each run beside its prediction, for `coexec plot`
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) points: Option<PathBuf>,
}

/// `coexec plot`.
#[derive(Debug, Args)]
pub(crate) struct Plot {
    /// The figure; each says what FILE it is of
    #[arg(value_enum)]
    pub(crate) kind: Figure,
    /// Points that `validate` or `calibrate` wrote with --points, a learning curve that
    /// `calibrate` wrote with --learning-curve, or a device profile (a bundled name, an
    /// alias, or a file), as the figure needs
    pub(crate) file: PathBuf,
    /// Picture to write (.svg or .png)
    #[arg(long, value_name = "FIGURE")]
    pub(crate) out: PathBuf,
    /// Only points of groups whose name begins so: gpu/conv2d, gpu/conv2d/unseen, cpu
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) group: String,
    /// Title of the picture
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Kernel of a staircase; with the tile size, the one of most points unless given
    #[arg(long, value_name = "NAME")]
    pub(crate) kernel: Option<String>,
    /// Texels of a thread's tile in a staircase
    #[arg(long, value_name = "N")]
    pub(crate) tile_size: Option<u32>,
}

/// `coexec report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Folder of the mobile-ml-benchmark data set, or a file NAME.csv of coexec's own runs on
    /// the profile NAME, with operators that were also cut in NAME-cuts.csv beside it;
    /// several, if separated by commas
    #[arg(long, value_name = "FOLDER|RUNS.csv", required = true, value_delimiter = ',')]
    pub(crate) runs: Vec<PathBuf>,
    /// Folder for the page, accuracy.md, and its pictures; made where there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Profiles to report on; all that there are runs of unless given
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// What to expect of the kernels before any run, as for `calibrate`
    #[arg(long, value_name = "base|hardware|NAME[,NAME...]", default_value = "hardware")]
    pub(crate) prior: String,
    /// Seed of the cross-validation's folds
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Worst predictions to list a phone
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) worst: usize,
}

/// `coexec reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Paper, or all of them
    #[arg(value_enum, ignore_case = true, default_value = "all")]
    pub(crate) paper: PaperName,
    /// Folder for the papers' figures, drawn from our numbers; made where there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Folder of the mobile-ml-benchmark data set, from which EdgeSys24 is recomputed
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// Run only every Nth operator of the sets that EPEW'25's means are over, for a quick
    /// look: its limits are not judged then
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) every: u32,
    /// End with status 2 where predicted numbers are farther off than their limits, and say
    /// which. Some are known to be: the groups that the summary calls missed
    #[arg(long, conflicts_with = "every")]
    pub(crate) check: bool,
}

/// `coexec schema`.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// The file format
    #[arg(value_enum, value_name = "profile|scenario|plan|runs")]
    pub(crate) format: SchemaName,
}
