//! Why a command failed, shown with file, line, key and remedy.

mod execution;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use coexec_hw::execute::ExecuteError;
use coexec_hw::opencl::OpenClError;
use coexec_hw::probe::ProbeError;
use coexec_papers::ReproduceError;
use coexec_plots::PlotError;
use coexec_sim::SimulateError;
use coexec_sim::input::{InputError, Place, Text};
use coexec_sim::schedule::ScheduleError;
use miette::{GraphicalReportHandler, LabeledSpan, MietteDiagnostic, NamedSource};
use thiserror::Error;

use crate::output;

/// Exit status of an invalid input.
const WRONG_INPUT: u8 = 1;
/// Exit status of a check that missed its limit.
const LIMIT_MISSED: u8 = 2;
/// Exit status of a measurement that could not be made soundly.
const UNSOUND: u8 = 3;
/// Exit status of absent hardware.
const ABSENT: u8 = 4;

/// What else someone may have meant to read.
const MODELS: &str =
    "(models are read from files that end in .onnx or .tflite: export others to one of these)";

/// Prints the command-line parser's message (help, version or error) and returns its exit status.
pub(crate) fn usage(message: &clap::Error) -> ExitCode {
    // If printing fails, there is no other channel to report that on.
    let _ = message.print();
    if message.use_stderr() { ExitCode::from(WRONG_INPUT) } else { ExitCode::SUCCESS }
}

/// Result of a step of a command.
pub(crate) type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// A profile, scenario or plan is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A scenario cannot be simulated on the device.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// A picture cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// A file cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    Write {
        /// Path.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// An execution on this machine failed or was unsound.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// The machine cannot be probed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// A problem that the command itself detected.
    #[error("{problem}")]
    Found {
        /// Exit status.
        status: u8,
        /// The problem.
        problem: String,
        /// The remedy.
        help: String,
    },
}

impl From<ReproduceError> for Failure {
    fn from(error: ReproduceError) -> Self {
        match error {
            ReproduceError::Input(error) => Self::Input(error),
            ReproduceError::Simulate(error) => Self::Simulate(error),
            ReproduceError::Bundled(problem) => {
                Self::usage(problem, "bundled files do not agree with each other: please report it")
            }
        }
    }
}

impl Failure {
    /// The failure for inconsistent options or inputs.
    pub(crate) fn usage(problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Found { status: WRONG_INPUT, problem: problem.into(), help: help.into() }
    }

    /// Refuses the first of `options` that was given; `what` states what such options are for.
    pub(crate) fn refuse_given(options: &[(&str, bool)], what: &str, help: &str) -> Result<(), Self> {
        match options.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Self::usage(format!("{option} is {what}"), help)),
            None => Ok(()),
        }
    }

    /// The failure of a check that missed its limit.
    pub(crate) fn limit_missed(problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Found { status: LIMIT_MISSED, problem: problem.into(), help: help.into() }
    }

    /// The failure to write a file or folder.
    pub(crate) fn write(path: &Path, reason: impl Display) -> Self {
        Self::Write { path: path.to_owned(), reason: reason.to_string() }
    }

    /// The failure of an unsound measurement.
    pub(crate) fn unsound(problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Found { status: UNSOUND, problem: problem.into(), help: help.into() }
    }

    /// Prints the failure on standard error and returns its exit status.
    pub(crate) fn report(self) -> ExitCode {
        let mut text = String::new();
        if GraphicalReportHandler::new().render_report(&mut text, self.shown().as_ref()).is_err() {
            text = self.to_string();
        }
        output::report(&text);
        let (status, _) = self.verdict();
        if status == UNSOUND || matches!(self, Self::Execute(_) | Self::Probe(_)) {
            // A device may have been abandoned while computing; a normal exit would wait for it.
            coexec_hw::exit_immediately(status);
        }
        ExitCode::from(status)
    }

    /// The failure with the excerpt of the text it points into, unless its lines are too long to read.
    fn shown(&self) -> miette::Report {
        let diagnostic = MietteDiagnostic::new(output::shown(&self.to_string()).into_owned())
            .with_help(output::shown(&self.verdict().1).into_owned());
        let Self::Input(error) = self else { return diagnostic.into() };
        let Some((text, place)) = error.place().filter(|(text, place)| is_readable(text, place)) else {
            return diagnostic.into();
        };
        let label = LabeledSpan::new(Some("here".to_owned()), place.span.start, place.span.len());
        miette::Report::new(diagnostic.with_label(label))
            .with_source_code(NamedSource::new(output::shown(&text.name), without_controls(&text.content)))
    }

    /// Exit status and remedy.
    fn verdict(&self) -> (u8, String) {
        let (status, remedy) = match self {
            Self::Input(error @ (InputError::TooLarge { .. } | InputError::NotText { .. })) => {
                return (WRONG_INPUT, format!("{} {MODELS}", error.help()));
            }
            Self::Input(error) => return (WRONG_INPUT, error.help()),
            Self::Found { status, help, .. } => return (*status, help.clone()),
            Self::Simulate(error) => (WRONG_INPUT, of_simulation(error)),
            Self::Plot(PlotError::NoPoints { .. } | PlotError::BadPoint { .. }) => {
                (WRONG_INPUT, "give a file with points of that kind (`coexec validate --points`)")
            }
            Self::Plot(_) => (WRONG_INPUT, "leave the picture out, or draw a smaller scenario"),
            Self::Write { .. } => (WRONG_INPUT, "check that the folder exists and can be written to"),
            Self::Execute(error) => execution::verdict(error),
            Self::Probe(error) => of_probe(error),
        };
        (status, remedy.to_owned())
    }
}

/// Replaces control characters by harmless ones of the same length in bytes, so that spans stay valid.
fn without_controls(content: &str) -> String {
    let visible = |character: char| match (output::is_control(character), character.len_utf8()) {
        (true, 1) if character != '\t' => '?',
        (true, 2) => '\u{bf}',
        (true, 3) => char::REPLACEMENT_CHARACTER,
        _ => character,
    };
    content.chars().map(visible).collect()
}

/// The remedy for a plan that cannot be simulated.
fn of_simulation(error: &SimulateError) -> &'static str {
    match error {
        SimulateError::Absent { .. } => {
            "choose a device that has it (`coexec devices`), or another strategy or plan"
        }
        SimulateError::Unsupported(_) => {
            "place this operator on another processor; where not even --strategy optimal finds one, choose another device \
             (`coexec devices`) or number format (data_type in a scenario), or add the table to the profile"
        }
        SimulateError::GpuMemoryFull { .. } => {
            "place more operators on the CPU, or use a smaller number format"
        }
        SimulateError::TooManyCommands { .. } => "write a shorter duration_s, or fewer requests a second",
        SimulateError::TooLong { .. } => {
            "check the dimensions of the operators, the tokens or requests asked for, and the rates of the profile"
        }
        SimulateError::NoTokenGraphs { .. } | SimulateError::SessionFull { .. } => {
            "choose another --strategy, or a device that has it (`coexec devices`)"
        }
        SimulateError::NoGraph { .. } => {
            "cut the rows into pieces of the profile's graph_sizes, or into fewer pieces"
        }
        SimulateError::Schedule(ScheduleError::Placement(_)) => {
            "give each processor parts that do not overlap and together cover the output"
        }
        SimulateError::Schedule(ScheduleError::Chain(_)) => "take the operator out of its chain",
        SimulateError::Schedule(ScheduleError::PlanLength { .. } | ScheduleError::Order { .. }) => {
            "make a plan for this workload"
        }
        SimulateError::Schedule(ScheduleError::NoCores) => "give the profile's CPU a cluster of cores",
        SimulateError::OtherWorkload { .. } => "choose another --strategy",
        SimulateError::GridTooFine { .. } => "choose a larger --step",
        SimulateError::NothingToUse => "allow at least one thread, or use a device with a GPU",
    }
}

/// Exit status and remedy for a machine that cannot be probed.
fn of_probe(error: &ProbeError) -> (u8, &'static str) {
    match error {
        ProbeError::OpenCl(
            OpenClError::NoLibrary { .. } | OpenClError::NoPlatform | OpenClError::NotFound { .. },
        ) => (ABSENT, "install an OpenCL driver, or name a device that is there with --opencl"),
        ProbeError::OpenCl(OpenClError::Ambiguous { .. } | OpenClError::SubDevice { .. }) => {
            (WRONG_INPUT, "name one device by its indices (--opencl 0:0), and give fewer --gpu-cores")
        }
        ProbeError::TooLittleTime { .. } => (UNSOUND, "allow more time (--time-limit)"),
        ProbeError::OpenCl(_)
        | ProbeError::Pool(_)
        | ProbeError::NoMechanism { .. }
        | ProbeError::Noisy { .. }
        | ProbeError::Execute(_)
        | ProbeError::Layer(_)
        | ProbeError::Prior(_)
        | ProbeError::Profile(_) => (UNSOUND, "stop other programs on this machine, and try again"),
    }
}

/// Longest line, in bytes, that is shown with a failure; longer ones do not help a reader.
const MAX_LINE_BYTES: usize = 400;

/// Whether the lines around `place` are short enough to be shown.
fn is_readable(text: &Text, place: &Place) -> bool {
    let shown = text.content.lines().skip(place.line.saturating_sub(2)).take(3);
    place.span.len() <= MAX_LINE_BYTES && shown.into_iter().all(|line| line.len() <= MAX_LINE_BYTES)
}

#[cfg(test)]
mod tests {
    use coexec_hw::opencl::OpenClError;

    use super::*;

    #[test]
    fn unsound_probes_absent_hardware_and_wrong_input_have_different_statuses() {
        let status = |error: ProbeError| Failure::Probe(error).verdict().0;
        assert_eq!(status(ProbeError::Noisy { percent: 80.0, most: 50.0 }), UNSOUND);
        assert_eq!(status(ProbeError::TooLittleTime { what: "layers" }), UNSOUND);
        let lost = OpenClError::TimedOut { what: "a kernel", limit_ms: 10 };
        assert_eq!(status(lost.into()), UNSOUND);
        assert_eq!(status(OpenClError::NoPlatform.into()), ABSENT);
        let matching = "0:0 a, 0:1 a".to_owned();
        let several = OpenClError::Ambiguous { what: "device", wanted: "a".to_owned(), matching };
        assert_eq!(status(several.into()), WRONG_INPUT);
    }
}
