//! The command line.

use std::borrow::Cow;
use std::fmt::Display;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use coexec_import::{ImportOptions, MIN_COVERED_PERCENT};
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
    /// Parses this process's arguments. A negative number after an option is parsed as its value, so
    /// that the option's own range check reports it.
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

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print the result as one JSON document, and nothing else, on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print only errors on standard error
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Threads for independent simulations (default: one per processor); results do not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
}

impl Common {
    /// Prints a message that is not an error on standard error, unless `--quiet`.
    pub(crate) fn note(&self, text: impl Display) {
        if !self.quiet {
            output::note(&text.to_string());
        }
    }
}

/// The command to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List device profiles and scenarios, or show one profile with its sources
    Devices(Devices),
    /// Predict a scenario under one plan: latency, processor use, energy, timeline
    Simulate(Simulate),
    /// Find the best plan: which processor computes what, and why
    Explore(Explore),
    /// Compare strategies across many models and devices
    Compare(Compare),
    /// Convert an ONNX or TensorFlow Lite model to a scenario file
    Import(Import),
    /// Measure a scenario on this machine, under a plan and on each processor alone
    Run(Run),
    /// Measure this machine and write its device profile
    Probe(Probe),
    /// Build the profile of an unmeasured device from its specification
    Profile(Profile),
    /// Fit a profile to measured runs
    Calibrate(Calibrate),
    /// Compare a profile's predictions with measured runs
    Validate(Validate),
    /// Draw a figure from the points or learning curve written by another command
    Plot(Plot),
    /// Write the accuracy page: cross-validated prediction errors per device
    Report(Report),
    /// Compare published numbers of five papers with coexec's predictions
    Reproduce(Reproduce),
    /// Print the JSON Schema of a file format
    Schema(Schema),
}

/// `coexec devices`.
#[derive(Debug, Args)]
pub(crate) struct Devices {
    /// Profile to show: a bundled name, an alias, or a file (default: list all)
    pub(crate) name: Option<String>,
}

/// `coexec import`.
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// Model to convert; its weights are not read
    #[arg(value_name = "MODEL.onnx|MODEL.tflite")]
    pub(crate) model: PathBuf,
    /// Scenario file to write
    #[arg(long, value_name = "SCENARIO.toml")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) how: ModelOptions,
}

/// How a model file (ONNX, TFLite) is imported.
#[derive(Debug, Args)]
pub(crate) struct ModelOptions {
    /// Set a dimension that the model file leaves open, such as the batch or the sequence length (0 for
    /// a past that is empty), or the value of a one-element input; repeatable
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dimension)]
    dimensions: Vec<(String, u32)>,
    /// Signature to import from a .tflite file that has several, such as prefill and decode of a
    /// language model
    #[arg(long, value_name = "NAME")]
    signature: Option<String>,
    /// Replace operators that coexec does not support by the closest one it has
    #[arg(long)]
    skip_unknown: bool,
    /// With --skip-unknown: least percentage of the model that must be supported, counted in nodes, in
    /// elements read and written, and in multiply-adds
    #[arg(
        long,
        value_name = "PERCENT",
        default_value_t = MIN_COVERED_PERCENT,
        requires = "skip_unknown",
        value_parser = clap::value_parser!(u32).range(..=100)
    )]
    least_covered: u32,
}

impl ModelOptions {
    /// These options as typed, for another command that reads the same model.
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

/// Quotes an argument for a shell, if it needs quoting.
fn quoted(argument: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:=@_".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(is_plain) {
        return Cow::Borrowed(argument);
    }
    Cow::Owned(format!("'{}'", argument.replace('\'', r"'\''")))
}

/// Parses `NAME=N`: the name of a dimension and its extent.
fn dimension(text: &str) -> Result<(String, u32), String> {
    let extent =
        text.rsplit_once('=').and_then(|(name, extent)| Some((name.to_owned(), extent.parse().ok()?)));
    extent.ok_or_else(|| "expected NAME=N, N a whole number".to_owned())
}

/// `coexec reproduce`.
#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// Paper whose numbers are compared
    #[arg(value_parser = one_or_all::<Paper>(), ignore_case = true, default_value = "all")]
    pub(crate) paper: OneOrAll<Paper>,
    /// Folder for the papers' figures redrawn from coexec's numbers; created if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Folder of the mobile-ml-benchmark data set, to recompute EdgeSys24 from
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,
    /// For a quick look, run only every Nth operator of EPEW'25's operator sets; its limits are then
    /// not judged
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) every: u32,
    /// Exit with status 2 and list the groups whose predictions miss their limits. Some are known to:
    /// those marked `missed` in the summary
    #[arg(long, conflicts_with = "every")]
    pub(crate) check: bool,
}

/// `coexec schema`.
#[derive(Debug, Args)]
pub(crate) struct Schema {
    /// File format
    #[arg(value_enum, value_name = "profile|scenario|plan|runs")]
    pub(crate) format: SchemaName,
}
