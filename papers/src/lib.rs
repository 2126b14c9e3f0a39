//! What the papers published, beside what coexec says of the same thing.
//!
//! Responsible for: every published number with its place, group, limit and note (`facts/`),
//! the runs that each paper's numbers need (one file a paper), and the rows that set ours
//! beside theirs. Not for: printing or drawing, or for fitting anything.
//! Invariants: every fact of a paper is in exactly one row of its report. A fact that set a
//! value (`[[used_fact]]` of a profile, `sets` of a fact), a number of ours that holds a
//! published one, and one that stands in another row are never counted as predicted. Every
//! group has a limit or says why it has none.

#![forbid(unsafe_code)]

mod codl;
mod comparison;
mod edgesys24;
mod epew25;
mod fact;
mod heteroinfer;
mod report;
mod unified_splitting;

use std::path::PathBuf;

use serde::Serialize;
use thiserror::Error;

pub use comparison::Comparison;
pub use fact::{Fact, FactGroup, Published};
pub use report::{Group, Limit, Measure, Ours, Report, Role, Row, Summary};

use coexec_sim::workload::{Graph, Operator, Stage, fuse, network, operator_set};
use coexec_sim::{CoreSet, InputError, Profile, SimulateError};

/// A paper whose numbers are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::VariantArray, strum::IntoStaticStr)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "verbatim"))]
pub enum Paper {
    /// EPEW'25: fine-grained CPU-GPU co-execution.
    #[serde(rename = "EPEW25")]
    #[strum(serialize = "EPEW25")]
    #[cfg_attr(feature = "clap", value(name = "EPEW25"))]
    Epew25,
    /// CoDL, MobiSys'22: hybrid dimensions and chains.
    #[serde(rename = "CoDL")]
    #[strum(serialize = "CoDL")]
    #[cfg_attr(feature = "clap", value(name = "CoDL"))]
    Codl,
    /// Layer-wise splitting with a pipelined queue.
    UnifiedSplitting,
    /// EdgeSys'24: the benchmark of inference latency on phones.
    EdgeSys24,
    /// SOSP'25: GPU-NPU execution of language models.
    HeteroInfer,
}

impl Paper {
    /// All papers.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name used in files and on the command line.
    pub fn name(self) -> &'static str {
        self.into()
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
            Self::Codl | Self::UnifiedSplitting | Self::EdgeSys24 | Self::HeteroInfer => &[],
        }
    }

    /// Its published numbers, in the order of the file.
    pub fn facts(self) -> impl Iterator<Item = &'static Fact> {
        fact::of(self).group.iter().flat_map(|group| &group.fact)
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
    /// There is none.
    pub fn profile(&self, name: &str) -> Result<&Profile> {
        let found = self.profiles.iter().find(|profile| profile.name == name);
        bundled(found, || format!("there is no device profile {name} among those given"))
    }
}

/// What is compared, or why not.
pub type Result<T = (), E = ReproduceError> = std::result::Result<T, E>;

/// Why a paper's numbers cannot be compared.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// Files of this program do not agree with each other.
    #[error("{0}")]
    Bundled(String),
    /// A file cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A run cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

/// What the bundled files hold as they agree with each other, or that they do not.
fn bundled<T>(found: Option<T>, problem: impl FnOnce() -> String) -> Result<T> {
    found.ok_or_else(|| ReproduceError::Bundled(problem()))
}

/// A bundled network.
fn graph(name: &str) -> Result<Graph> {
    bundled(network(name), || format!("there is no bundled network named {name}"))
}

/// Its stages.
fn stages(name: &str) -> Result<Vec<Stage>> {
    Ok(fuse(&graph(name)?))
}

/// A bundled set of operators.
fn operators(name: &str) -> Result<Vec<(String, Operator)>> {
    bundled(operator_set(name), || format!("there is no bundled set of operators named {name}"))
}

/// The fastest cores of a device.
fn fastest(device: &Profile, threads: u32) -> Result<CoreSet> {
    let name = &device.name;
    let cores = CoreSet::fastest(&device.cpu, threads);
    bundled(cores, || format!("{name} has no {threads} CPU cores for the paper's runs"))
}

/// The least and the greatest value.
fn range(values: impl IntoIterator<Item = f64>) -> [f64; 2] {
    let ends = [f64::INFINITY, f64::NEG_INFINITY];
    values.into_iter().fold(ends, |[least, most], value| [least.min(value), most.max(value)])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Every published number of `paper` beside ours.
///
/// # Errors
/// A profile is missing, a file cannot be read, or a run cannot be simulated.
pub fn reproduce(paper: Paper, inputs: &Inputs) -> Result<Report> {
    let mut comparison = Comparison::new(paper, inputs);
    match paper {
        Paper::Epew25 => epew25::compare(&mut comparison, inputs)?,
        Paper::Codl => codl::compare(&mut comparison, inputs)?,
        Paper::UnifiedSplitting => unified_splitting::compare(&mut comparison, inputs)?,
        Paper::EdgeSys24 => edgesys24::compare(&mut comparison, inputs)?,
        Paper::HeteroInfer => heteroinfer::compare(&mut comparison, inputs)?,
    }
    comparison.finish()
}

#[cfg(test)]
mod tests;
