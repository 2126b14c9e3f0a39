//! The papers' published numbers, compared with coexec's.
//!
//! Responsible for: every published number with its place, group, limit and note (`facts/`),
//! the runs that each paper's numbers need (one file per paper), and the rows that compare
//! ours with theirs. Not for: printing, drawing or fitting.
//! Invariants: every fact of a paper is in exactly one row of its report. Never counted as
//! predicted are a fact that set a value (`[[used_fact]]` of a profile, `sets` of a fact), a
//! number of ours that contains a published one, and one that repeats another row's. Every
//! group has a limit or states why it has none.

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

    /// The paper's title for readers.
    pub fn title(self) -> &'static str {
        match self {
            Self::Epew25 => "EPEW'25: fine-grained CPU-GPU co-execution",
            Self::Codl => "CoDL (MobiSys'22): CPU-GPU co-execution with hybrid dimensions and chains",
            Self::UnifiedSplitting => "Unified Splitting: layer-wise CPU-GPU pipelines on a Jetson AGX Orin",
            Self::EdgeSys24 => "EdgeSys'24: a benchmark of inference latency on phones",
            Self::HeteroInfer => "HeteroInfer (SOSP'25): GPU-NPU execution of language models",
        }
    }

    /// The bundled operator sets that some of the paper's numbers are means over.
    pub fn operator_sets(self) -> &'static [&'static str] {
        match self {
            Self::Epew25 => &["epew-linear-sample", "epew-conv"],
            Self::Codl | Self::UnifiedSplitting | Self::EdgeSys24 | Self::HeteroInfer => &[],
        }
    }

    /// The paper's published numbers, in the order of the file.
    pub fn facts(self) -> impl Iterator<Item = &'static Fact> {
        fact::of(self).group.iter().flat_map(|group| &group.fact)
    }
}

/// Inputs of the comparisons.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// Device profiles: the bundled ones.
    pub profiles: Vec<Profile>,
    /// Folder of the mobile-ml-benchmark data set, from which `EdgeSys`'24 is recomputed.
    pub benchmark: Option<PathBuf>,
    /// Only every `every`th operator of a set is run; 1 for all. Means over fewer are close to
    /// those over all, which tests use.
    pub every: usize,
    /// Network that replaces all of `CoDL`'s, for tests that check which rows exist but not
    /// their numbers.
    pub(crate) placeholder: Option<&'static str>,
}

impl Inputs {
    /// All bundled profiles, every operator, no measured data.
    ///
    /// # Errors
    /// A bundled profile is invalid; a test ensures that none is.
    pub fn bundled() -> Result<Self, InputError> {
        Ok(Self { profiles: Profile::bundled()?, benchmark: None, every: 1, placeholder: None })
    }

    /// The profile called `name`.
    ///
    /// # Errors
    /// There is no such profile.
    pub fn profile(&self, name: &str) -> Result<&Profile> {
        let found = self.profiles.iter().find(|profile| profile.name == name);
        bundled(found, || format!("there is no device profile {name} among those given"))
    }
}

/// Result of a comparison.
pub type Result<T = (), E = ReproduceError> = std::result::Result<T, E>;

/// Why a paper's numbers cannot be compared.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// Bundled files contradict each other.
    #[error("{0}")]
    Bundled(String),
    /// A file cannot be used.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A run cannot be simulated.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

/// The value found in bundled files, or the error that they contradict each other.
fn bundled<T>(found: Option<T>, problem: impl FnOnce() -> String) -> Result<T> {
    found.ok_or_else(|| ReproduceError::Bundled(problem()))
}

/// The graph of a bundled network.
fn graph(name: &str) -> Result<Graph> {
    bundled(network(name), || format!("there is no bundled network named {name}"))
}

/// The stages of a bundled network.
fn stages(name: &str) -> Result<Vec<Stage>> {
    Ok(fuse(&graph(name)?))
}

/// A bundled set of operators.
fn operators(name: &str) -> Result<Vec<(String, Operator)>> {
    bundled(operator_set(name), || format!("there is no bundled set of operators named {name}"))
}

/// The `threads` fastest cores of a device.
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

/// Compares every published number of `paper` with ours.
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
