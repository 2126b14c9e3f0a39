//! What reads measured runs: `coexec calibrate`, `validate`, `plot` and `report`.

use std::path::PathBuf;

use clap::Args;

use coexec_sim::Library;

use super::picture;
use super::planning::{date, limit};
use crate::{Figure, PicturePath, RunFormat};

/// Measured runs of one device.
#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Measured runs: a folder, or a CSV file of coexec's own
    #[arg(long = "runs", value_name = "PATH")]
    pub(crate) path: Option<PathBuf>,
    /// Format of the runs: coexec's own of a file, or of a folder with a runs.csv, unless
    /// given; of a folder with a measurements.csv ai-hub; else mobile-ml-benchmark
    #[arg(long, value_enum)]
    pub(crate) format: Option<RunFormat>,
    /// Device whose columns of mobile-ml-benchmark are read: pixel4 for
    /// `pixel4|gpu|float`; chip whose rows of ai-hub are: 8gen3
    #[arg(long, value_name = "NAME")]
    pub(crate) device_column: Option<String>,
    /// CPU kernels that ran: TFLite's own on ruy, unless the profile has tables of coexec's
    /// and no others; XNNPACK in runs of other frameworks' tools
    #[arg(long, value_enum)]
    pub(crate) library: Option<Library>,
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
    /// Profile to write; with --suggest a scenario of the launches, for `coexec run`
    #[arg(long, value_name = "FILE.toml", required_unless_present = "suggest")]
    pub(crate) out: Option<PathBuf>,
    /// Fit nothing, and name this many launches to measure next, with the networks that go with them: those that tell most,
    /// of the runs that there are already if some are given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=300))]
    #[arg(conflicts_with_all = ["points", "rows", "networks", "learning_curve"])]
    pub(crate) suggest: Option<u32>,
    /// Date to write into the profile
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
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
    #[arg(long, value_name = "PERCENT", value_parser = limit)]
    pub(crate) limit: Option<f64>,
    /// Worst predictions to list
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) worst: usize,
    /// Write a picture of predicted against measured time (.svg or .png)
    #[arg(long, value_name = "FILE", value_parser = picture())]
    pub(crate) plot: Option<PicturePath>,
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
    /// Points that `validate` or `calibrate` wrote with --points, or a learning curve that
    /// `calibrate` wrote with --learning-curve, as the figure needs
    pub(crate) file: PathBuf,
    /// Picture to write (.svg or .png)
    #[arg(long, value_name = "FIGURE", value_parser = picture())]
    pub(crate) out: PicturePath,
    /// Only points of groups whose name begins so: gpu/conv2d, gpu/conv2d/unseen, cpu
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) group: String,
    /// Title of the picture
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
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
