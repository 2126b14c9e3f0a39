//! What the papers published, beside what coexec says of the same thing.
//!
//! Responsible for: every published number with its place ([`Fact`]), the runs that each
//! paper's numbers need (one file a paper), and the rows that set ours beside theirs. Not
//! for: printing or drawing, or for fitting anything.
//! Invariants: every fact of a paper is in exactly one row of its report. A fact that set a
//! value of a bundled profile (`[[used_fact]]`) is never counted as predicted.

mod codl;
mod comparison;
mod edgesys24;
mod epew25;
mod fact;
mod figure;
mod heteroinfer;
mod report;
mod unified_splitting;

use std::path::PathBuf;

use serde::Serialize;
use thiserror::Error;

pub use comparison::Comparison;
pub use fact::{Fact, Published};
pub use figure::{
    BarSeries, Bars, Choice, Choices, Curves, Drawing, HeatMap, Line, Picture, ShareMap, ShareRow,
};
pub use report::{Group, Limit, Measure, Ours, Report, Role, Row, Summary};

use crate::device::profile::Profile;
use crate::input::InputError;
use crate::simulate::SimulateError;

/// A paper whose numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Paper {
    /// Fine-grained CPU-GPU co-execution.
    #[serde(rename = "EPEW25")]
    Epew25,
    /// `CoDL`: hybrid dimensions and chains.
    #[serde(rename = "CoDL")]
    Codl,
    /// Layer-wise splitting with a pipelined queue.
    UnifiedSplitting,
    /// The benchmark of inference latency on phones.
    EdgeSys24,
    /// GPU-NPU execution of language models.
    HeteroInfer,
}

impl Paper {
    /// All papers.
    pub const ALL: [Self; 5] =
        [Self::Epew25, Self::Codl, Self::UnifiedSplitting, Self::EdgeSys24, Self::HeteroInfer];

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epew25 => "EPEW25",
            Self::Codl => "CoDL",
            Self::UnifiedSplitting => "UnifiedSplitting",
            Self::EdgeSys24 => "EdgeSys24",
            Self::HeteroInfer => "HeteroInfer",
        }
    }

    /// What a reader calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Epew25 => "EPEW'25: fine-grained CPU-GPU co-execution",
            Self::Codl => "CoDL (MobiSys'22): CPU-GPU co-execution with hybrid dimensions and chains",
            Self::UnifiedSplitting => "Unified Splitting: layer-wise CPU-GPU pipelines on a Jetson AGX Orin",
            Self::EdgeSys24 => "EdgeSys'24: a benchmark of inference latency on phones",
            Self::HeteroInfer => "HeteroInfer (SOSP'25): GPU-NPU execution of language models",
        }
    }

    /// The operator sets that some of its numbers are means over, by their names here.
    pub fn operator_sets(self) -> &'static [&'static str] {
        match self {
            Self::Epew25 => &["epew-linear-sample", "epew-conv"],
            _ => &[],
        }
    }

    /// Its published numbers, in the order of the file.
    pub fn facts(self) -> &'static [Fact] {
        fact::of(self)
    }
}

/// What the comparisons may use.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Device profiles: the bundled ones.
    pub profiles: Vec<Profile>,
    /// Folder of the mobile-ml-benchmark data set, from which `EdgeSys`'24 is recomputed.
    pub benchmark: Option<PathBuf>,
    /// Every so many operators of a set are run: 1 for all. Means over fewer are near those
    /// over all, which tests use.
    pub every: usize,
    /// Network that stands for all of `CoDL`'s: for tests of which rows there are, not of
    /// what they say.
    pub(crate) stand_in: Option<&'static str>,
}

impl Inputs {
    /// All bundled profiles, every operator, no measured data.
    ///
    /// # Errors
    /// What is wrong with a bundled profile; a test holds that nothing is.
    pub fn bundled() -> Result<Self, InputError> {
        Ok(Self { profiles: Profile::bundled()?, benchmark: None, every: 1, stand_in: None })
    }

    /// The profile called `name`.
    ///
    /// # Errors
    /// [`ReproduceError::NoProfile`] where there is none.
    pub fn profile(&self, name: &str) -> Result<&Profile, ReproduceError> {
        let found = self.profiles.iter().find(|profile| profile.name == name);
        found.ok_or_else(|| ReproduceError::NoProfile { name: name.to_owned() })
    }
}

/// Why a paper's numbers cannot be compared.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// No profile of that name was given.
    #[error("there is no device profile {name} among those given")]
    NoProfile {
        /// The name.
        name: String,
    },
    /// A file cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A run cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

/// Every published number of `paper` beside ours.
///
/// # Errors
/// A profile is missing, a file cannot be read, or a run cannot be simulated.
pub fn reproduce(paper: Paper, inputs: &Inputs) -> Result<Report, ReproduceError> {
    let mut comparison = Comparison::new(paper, inputs);
    match paper {
        Paper::Epew25 => epew25::compare(&mut comparison, inputs)?,
        Paper::Codl => codl::compare(&mut comparison, inputs)?,
        Paper::UnifiedSplitting => unified_splitting::compare(&mut comparison, inputs)?,
        Paper::EdgeSys24 => edgesys24::compare(&mut comparison, inputs)?,
        Paper::HeteroInfer => heteroinfer::compare(&mut comparison, inputs)?,
    }
    Ok(comparison.finish())
}

#[cfg(test)]
mod tests;
