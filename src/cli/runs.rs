//! Options of the commands that read measured runs: `coexec calibrate`, `validate`, `plot` and
//! `report`.

use std::path::PathBuf;

use clap::Args;

use coexec_sim::Library;

use super::picture;
use super::planning::{LIMITS, date, within};
use crate::{Figure, PicturePath, RunFormat};

/// Measured runs of one device.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Measured runs: a file or folder in one of the formats of --format
    #[arg(long = "runs", value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Format of the runs (default: coexec for a file or a folder with runs.csv, ai-hub for a folder
    /// with measurements.csv, else mobile-ml-benchmark)
    #[arg(long, value_enum)]
    pub(crate) format: Option<RunFormat>,
    /// Device to read from a data set of several: a column name of mobile-ml-benchmark, such as pixel4
    /// in `pixel4|gpu|float`, or a chip of ai-hub, such as 8gen3
    #[arg(long, value_name = "NAME")]
    pub(crate) device_column: Option<String>,
    /// CPU kernels that the runs were made with (default: ruy for public data sets, else xnnpack; coexec if
    /// the profile has only coexec's tables)
    #[arg(long, value_enum)]
    pub(crate) library: Option<Library>,
}

/// `coexec calibrate`.
#[derive(Debug, Args)]
pub(crate) struct Calibrate {
    /// Profile to start from: a bundled name, an alias, or a file. Its counts and rules are kept; its
    /// fitted values are the prior
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) base: String,
    #[command(flatten)]
    pub(crate) runs: Runs,
    /// Profile to write; with --suggest, a scenario of the suggested launches for `coexec run`
    #[arg(long, value_name = "FILE.toml", required_unless_present = "suggest")]
    pub(crate) out: Option<PathBuf>,
    /// Instead of fitting, suggest the N most informative GPU launches to measure next, and networks to
    /// measure with them, given the runs of --runs if any
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=300))]
    #[arg(conflicts_with_all = ["points", "rows", "networks", "learning_curve"])]
    pub(crate) suggest: Option<u32>,
    /// Date to write into the profile
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    pub(crate) date: Option<String>,
    /// Seed of the cross-validation folds and of random draws
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Prior of the kernel parameters: base (the base profile's values), hardware (from the GPU's
    /// clock, arithmetic rate and bandwidth), or names of profiles, whose fitted values are used
    #[arg(long, value_name = "base|hardware|NAME[,NAME...]", default_value = "base")]
    pub(crate) prior: String,
    /// Fit the equations only, without a learned residual
    #[arg(long)]
    pub(crate) no_residual: bool,
    /// Write each run's measured time and its prediction by a fit that held out its network
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) points: Option<PathBuf>,
    /// Fit the GPU to N of its layer runs, drawn at random
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: Option<u32>,
    /// Fit to the runs of N networks, drawn at random
    #[arg(long, value_name = "N", conflicts_with = "rows", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) networks: Option<u32>,
    /// Write the error on held-out networks against the number of measured runs
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
    /// Runs that the profile was fitted to, in the same format; shapes that do not occur in them are
    /// reported separately, with a FLOPs-linear model as a baseline
    #[arg(long, value_name = "PATH")]
    pub(crate) seen: Option<PathBuf>,
    /// Report only groups whose name starts with this, such as cpu, gpu/conv2d or gpu/conv2d/unseen
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) group: String,
    /// Exit with status 2 if the MAPE of a group exceeds this
    #[arg(long, value_name = "PERCENT", value_parser = within(LIMITS))]
    pub(crate) limit: Option<f64>,
    /// Number of worst predictions to list
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) worst: usize,
    /// Write a picture of predicted against measured time (.svg or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) plot: Option<PicturePath>,
    /// Write each run's measured and predicted time, for `coexec plot`
    #[arg(long, value_name = "FILE.csv")]
    pub(crate) points: Option<PathBuf>,
}

/// `coexec plot`.
#[derive(Debug, Args)]
pub(crate) struct Plot {
    /// Figure to draw; each needs the kind of FILE named
    #[arg(value_enum)]
    pub(crate) kind: Figure,
    /// Points written by `validate` or `calibrate` with --points, or a learning curve written by
    /// `calibrate` with --learning-curve
    pub(crate) file: PathBuf,
    /// Picture to write (.svg or .png)
    #[arg(long, value_name = "FIGURE", value_parser = picture())]
    pub(crate) out: PicturePath,
    /// Draw only points of groups whose name starts with this, such as cpu, gpu/conv2d or
    /// gpu/conv2d/unseen
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) group: String,
    /// Title of the picture
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
}

/// `coexec report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Folder of the mobile-ml-benchmark data set, or a file NAME.csv of coexec's own runs of the
    /// profile NAME, with runs of cut operators in NAME-cuts.csv next to it; several are separated by
    /// commas
    #[arg(long, value_name = "FOLDER|RUNS.csv", required = true, value_delimiter = ',')]
    pub(crate) runs: Vec<PathBuf>,
    /// Folder for the page, accuracy.md, and its pictures; created if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Profiles to report on (default: every bundled profile with runs)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Prior of the kernel parameters, as for `calibrate`
    #[arg(long, value_name = "base|hardware|NAME[,NAME...]", default_value = "hardware")]
    pub(crate) prior: String,
    /// Seed of the cross-validation folds
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Number of worst predictions to list per device
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) worst: usize,
}
