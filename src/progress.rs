//! Progress of a long computation, on standard error.

use std::io::{IsTerminal, Write};

use crate::Common;

/// Where progress is reported: on a terminal in one line that is overwritten, elsewhere in one line per
/// step.
pub(crate) enum Progress {
    Nowhere,
    Lines,
    OneLine,
}

/// Returns to the start of the terminal's line and erases it (ECMA-48: CR, EL).
const EMPTY_LINE: &str = "\r\x1b[K";

impl Progress {
    pub(crate) fn new(common: &Common) -> Self {
        match (common.quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Nowhere,
            (false, true) => Self::OneLine,
            (false, false) => Self::Lines,
        }
    }

    /// Reports one step.
    pub(crate) fn report(&self, step: &str) {
        let mut stderr = std::io::stderr().lock();
        // A failure to report progress must not stop the computation.
        let _ = match self {
            Self::Nowhere => Ok(()),
            Self::Lines => writeln!(stderr, "{step}"),
            Self::OneLine => write!(stderr, "{EMPTY_LINE}{step}").and_then(|()| stderr.flush()),
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if matches!(self, Self::OneLine) {
            let _ = write!(std::io::stderr(), "{EMPTY_LINE}");
        }
    }
}
