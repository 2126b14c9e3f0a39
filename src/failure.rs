//! Why a command failed, shown with file, line, key and remedy.

mod execution;

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use coexec_hw::execute::ExecuteError;
use coexec_hw::probe::ProbeError;
use coexec_plots::PlotError;
use coexec_sim::input::{InputError, Place, Text};
use coexec_sim::published::ReproduceError;
use coexec_sim::simulate::SimulateError;
use miette::{Diagnostic, GraphicalReportHandler, LabeledSpan, NamedSource, SourceCode};
use thiserror::Error;

/// Exit status of a wrong input.
const WRONG_INPUT: u8 = 1;
/// Exit status of a check that fell short of its limit.
const FELL_SHORT: u8 = 2;
/// Exit status of a measurement that could not be made soundly.
const UNSOUND: u8 = 3;
/// Exit status of hardware that is not there.
const ABSENT: u8 = 4;

/// Prints what the parser of the command line says: help, the version, or what is
/// wrong; the exit status it stands for.
pub(crate) fn usage(message: &clap::Error) -> ExitCode {
    // Nobody is left to be told that the message cannot be printed.
    let _ = message.print();
    if message.use_stderr() { ExitCode::from(WRONG_INPUT) } else { ExitCode::SUCCESS }
}

/// Why a command failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// A profile, scenario or plan is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A scenario and a device do not fit.
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
        /// What the system says.
        reason: String,
    },
    /// Errors are above the limit that was given.
    #[error("the MAPE is above {limit} % in {groups}")]
    FellShort {
        /// The limit, in percent.
        limit: f64,
        /// The groups, with their errors.
        groups: String,
    },
    /// Predicted numbers are farther off from published ones than their limits.
    #[error("farther off than the limit: {groups}")]
    NotReproduced {
        /// The groups.
        groups: String,
    },
    /// A strategy is not as good as it has to be beside others.
    #[error("{problem}")]
    Beaten {
        /// Where, and by how much.
        problem: String,
    },
    /// Something does not run on this machine, or not soundly.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// Times say nothing.
    #[error("{problem}")]
    Meaningless {
        /// Which, and why.
        problem: String,
    },
    /// A profile was made that predicts too little.
    #[error("{} was written, but its predictions are not to be trusted: {doubts}", out.display())]
    Doubtful {
        /// The profile.
        out: PathBuf,
        /// Why.
        doubts: String,
    },
    /// The machine cannot be probed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// An option does not fit the others.
    #[error("{problem}")]
    Usage {
        /// What does not fit.
        problem: String,
        /// What to do.
        help: String,
    },
}

impl From<ReproduceError> for Failure {
    fn from(error: ReproduceError) -> Self {
        match error {
            ReproduceError::Input(error) => Self::Input(error),
            ReproduceError::Simulate(error) => Self::Simulate(error),
            ReproduceError::NoProfile { .. } => Self::Usage {
                problem: error.to_string(),
                help: "see the profiles there are (`coexec devices`)".to_owned(),
            },
        }
    }
}

impl Failure {
    /// Prints the failure on standard error; the exit status it stands for.
    pub(crate) fn report(self) -> ExitCode {
        let mut text = String::new();
        let shown = Shown::new(self);
        if GraphicalReportHandler::new().render_report(&mut text, &shown).is_err() {
            text = shown.failure.to_string();
        }
        eprintln!("{}", text.trim_end());
        let status = shown.failure.status();
        if matches!(shown.failure, Failure::Execute(_) | Failure::Probe(_) | Failure::Doubtful { .. }) {
            // A device may have been given up while it was computing.
            coexec_hw::leave(status);
        }
        ExitCode::from(status)
    }

    fn status(&self) -> u8 {
        match self {
            Self::FellShort { .. } | Self::NotReproduced { .. } | Self::Beaten { .. } => FELL_SHORT,
            Self::Meaningless { .. } | Self::Doubtful { .. } => UNSOUND,
            Self::Execute(error) => execution::status(error),
            Self::Probe(error) if error.is_absent() => ABSENT,
            Self::Probe(error) if !error.is_wrong_input() => UNSOUND,
            _ => WRONG_INPUT,
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Input(error) => error.help(),
            Self::Simulate(SimulateError::Absent { .. }) => {
                "choose a device that has it (`coexec devices`), or another strategy or plan".to_owned()
            }
            Self::Simulate(SimulateError::Unsupported(_)) => {
                "place this operator on another processor, or add the table to the profile".to_owned()
            }
            Self::Simulate(SimulateError::GpuMemoryFull { .. }) => {
                "place more operators on the CPU, or use a smaller number format".to_owned()
            }
            Self::Simulate(SimulateError::TooLong { .. }) => {
                "check the dimensions of the operators and the rates of the profile".to_owned()
            }
            Self::Simulate(SimulateError::NoGraph { .. }) => {
                "cut the rows in pieces of the profile's graph_sizes, or make fewer of them".to_owned()
            }
            Self::Simulate(SimulateError::Chain(_)) => "take the operator out of its chain".to_owned(),
            Self::Simulate(SimulateError::PlanLength { .. }) => "make a plan for this workload".to_owned(),
            Self::Simulate(SimulateError::GridTooFine { .. }) => "choose a larger --step".to_owned(),
            Self::Simulate(SimulateError::NothingToUse) => {
                "allow at least one thread, or use a device with a GPU".to_owned()
            }
            Self::Plot(PlotError::UnknownFormat { .. }) => {
                "write to a file ending in .svg or .png".to_owned()
            }
            Self::Plot(PlotError::NoPoints { .. } | PlotError::BadPoint { .. }) => {
                "give a file with points of that kind (`coexec validate --points`)".to_owned()
            }
            Self::Plot(_) => "leave the picture out, or draw a smaller scenario".to_owned(),
            Self::Write { .. } => "check that the folder exists and can be written to".to_owned(),
            Self::FellShort { .. } => {
                "calibrate the profile on runs of this device, or raise --limit".to_owned()
            }
            Self::NotReproduced { .. } => {
                "see which numbers are off (`coexec reproduce`), and what their rows say".to_owned()
            }
            Self::Beaten { .. } => "see the rows (`coexec compare`), or lower --limit".to_owned(),
            Self::Execute(error) => execution::remedy(error).to_owned(),
            Self::Meaningless { .. } => {
                "let the machine do nothing else, keep its clocks fixed, or ask for more --repetitions"
                    .to_owned()
            }
            Self::Doubtful { .. } => {
                "end what else runs on this machine and probe again, without --quick; or allow it with a higher \
                 --max-error"
                    .to_owned()
            }
            Self::Probe(error) => remedy_of_probe(error).to_owned(),
            Self::Usage { help, .. } => help.clone(),
        }
    }
}

fn remedy_of_probe(error: &ProbeError) -> &'static str {
    match error {
        error if error.is_absent() => {
            "install an OpenCL driver, or name a device that is there with --opencl"
        }
        error if error.is_wrong_input() => {
            "name one device by its numbers (--opencl 0:0), and fewer --gpu-cores"
        }
        ProbeError::TooLittleTime { .. } => "allow more time (--time-limit)",
        _ => "end what else runs on this machine, and try again",
    }
}

/// Longest line that is shown with a failure; a longer one is no help to a reader.
const LONGEST_LINE: usize = 400;

/// Whether the lines around `place` are short enough to be shown.
fn is_readable(text: &Text, place: &Place) -> bool {
    let shown = text.content.lines().skip(place.line.saturating_sub(2)).take(3);
    place.span.len() <= LONGEST_LINE && shown.into_iter().all(|line| line.len() <= LONGEST_LINE)
}

/// A failure with the text it points into.
#[derive(Debug)]
struct Shown {
    failure: Failure,
    source: Option<NamedSource<String>>,
}

impl Shown {
    fn new(failure: Failure) -> Self {
        let source = match &failure {
            Failure::Input(error) => error
                .place()
                .filter(|(text, place)| is_readable(text, place))
                .map(|(text, _)| NamedSource::new(text.name.clone(), text.content.clone())),
            _ => None,
        };
        Self { failure, source }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for Shown {}

impl Diagnostic for Shown {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.failure.remedy()))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_ref().map(|source| source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let Failure::Input(error) = &self.failure else { return None };
        self.source.as_ref()?;
        let (_, place) = error.place()?;
        let label = LabeledSpan::new(Some("here".to_owned()), place.span.start, place.span.len());
        Some(Box::new(std::iter::once(label)))
    }
}

#[cfg(test)]
mod tests {
    use coexec_hw::opencl::OpenClError;

    use super::*;

    #[test]
    fn a_probe_that_cannot_be_sound_is_told_from_hardware_that_is_absent_and_from_wrong_input() {
        let status = |error: ProbeError| Failure::Probe(error).status();
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
