//! How far a long computation is, on standard error.

use std::io::{IsTerminal, Write};

use crate::Common;

/// Tells of steps: on a terminal in one line that is written over, elsewhere in a
/// line each.
pub(crate) enum Progress {
    Nowhere,
    Lines,
    OneLine,
}

/// Goes back to the start of a terminal's line and empties it (ECMA-48: CR, EL).
const EMPTY_LINE: &str = "\r\x1b[K";

impl Progress {
    pub(crate) fn new(common: &Common) -> Self {
        match (common.quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Nowhere,
            (false, true) => Self::OneLine,
            (false, false) => Self::Lines,
        }
    }

    /// Tells of one step.
    pub(crate) fn tell(&self, step: &str) {
        let mut stderr = std::io::stderr().lock();
        // Progress that cannot be shown is no reason to stop.
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
