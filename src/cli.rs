//! The command line.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use coexec_import::{ImportOptions, LEAST_COVERED_PERCENT};
use coexec_papers::Paper;
use coexec_sim::InputError;

mod hardware;
mod names;
mod planning;
mod profile;
mod runs;

use crate::output;
pub(crate) use hardware::{Probe, Run};
pub(crate) use names::{Figure, OneOrAll, RunFormat, SchemaName};
use names::{one_or_all, picture};
pub(crate) use planning::{Compare, Explore, ScenarioOptions, Simulate};
pub(crate) use profile::{NewProfile, Profile, ProfileCommand, ProfileError};
pub(crate) use runs::{Calibrate, Plot, Report, Runs, Validate};

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

impl Arguments {
    /// Those of this process. A negative number behind an option is its value, which the option itself refuses
    /// where it has to be none.
    pub(crate) fn of_process() -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut with_negative_numbers(Self::command()).try_get_matches()?)
    }
}

fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let of_option = |arg: clap::Arg| {
        let takes_a_value = arg.get_long().is_some() && arg.get_action().takes_values();
        arg.allow_negative_numbers(takes_a_value)
    };
    command.mut_args(of_option).mut_subcommands(with_negative_numbers)
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

impl Common {
    /// Says on standard error what is no error.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            output::note(&text.to_string());
        }
    }
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
    /// Make the profile of a device that nobody measured, from its specification
    Profile(Profile),
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

/// `coexec import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Model to read; its weights are not
    #[arg(value_name = "MODEL.onnx|MODEL.tflite")]
    pub(crate) model: PathBuf,
    /// Scenario to write
    #[arg(long, value_name = "SCENARIO.toml")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) how: ModelOptions,
}

/// How a model of another tool is imported.
#[derive(Debug, Args)]
pub(crate) struct ModelOptions {
    /// An extent that a model file leaves open, such as its batch or a sequence's length, or the number in an input
    /// of one element
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    dimensions: Vec<(String, u32)>,
    /// Which function of a .tflite file that offers several, such as a language model's prompt and its next token
    #[arg(long, value_name = "NAME")]
    signature: Option<String>,
    /// Put the closest operator in the place of one of a model file that has no counterpart
    #[arg(long)]
    skip_unknown: bool,
    /// With --skip-unknown: how much of a model must have a counterpart, in percent of its nodes,
    /// of what they read and write and of their multiply-adds
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = LEAST_COVERED_PERCENT,
        requires = "skip_unknown",
        value_parser = clap::value_parser!(u32).range(..=100)
    )]
    least_covered: u32,
}

impl ModelOptions {
    /// These options for another command that reads the same model.
    fn as_typed(&self) -> String {
        let dimensions = self.dimensions.iter();
        let dimensions =
            dimensions.map(|(name, extent)| format!(" --dim {}", quoted(&format!("{name}={extent}"))));
        let skipping = format!(" --skip-unknown --least-covered {}", self.least_covered);
        let signature = self.signature.iter().map(|name| format!(" --signature {}", quoted(name)));
        dimensions.chain(signature).chain(self.skip_unknown.then_some(skipping)).collect()
    }

    pub(crate) fn import(&self) -> Result<ImportOptions, InputError> {
        let mut options = ImportOptions {
            signature: self.signature.clone(),
            skip_unknown: self.skip_unknown,
            least_covered_percent: self.least_covered,
            ..ImportOptions::default()
        };
        for (name, extent) in &self.dimensions {
            if let Some(other) = options.dimensions.insert(name.clone(), *extent) {
                return Err(InputError::Option {
                    option: "--dim",
                    found: format!("{name}={other} and {name}={extent}"),
                    expected: "one extent of each dimension".to_owned(),
                });
            }
        }
        Ok(options)
    }
}

/// An argument as a shell takes it for one.
fn quoted(argument: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(is_plain) {
        return Cow::Borrowed(argument);
    }
    Cow::Owned(format!("'{}'", argument.replace('\'', r"'\''")))
}

/// The name of a dimension, and its extent.
fn dimension(text: &str) -> Result<(String, u32), String> {
    let extent =
        text.rsplit_once('=').and_then(|(name, extent)| Some((name.to_owned(), extent.parse().ok()?)));
    let extent = extent.filter(|(_, extent)| *extent > 0);
    extent.ok_or_else(|| "expected NAME=N, N a whole number of at least 1".to_owned())
}

/// `coexec reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Paper, or all of them
    #[arg(value_parser = one_or_all::<Paper>(), ignore_case = true, default_value = "all")]
    pub(crate) paper: OneOrAll<Paper>,
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
