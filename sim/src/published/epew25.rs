//! EPEW'25: the runs behind its published numbers.
//!
//! Co-execution hands the same tensors to both processors, in memory that both see, and
//! the GPU computes in 16 bits: so does the CPU here. In 32 bits it could not have done
//! what the paper's Table 3 says it did: of `ResNet`-18 on the Pixel 5, the CPU computes 1.6
//! GFLOP in 18.2 ms, 90 GFLOP/s, where its two fast cores and a slow one have 88 at most.

mod ablation;
mod networks;
mod operators;
mod setting;
mod split;

use super::{Comparison, Inputs, ReproduceError};
use crate::device::profile::Profile;
use crate::explore::{Objective, Options, Strategy};
use crate::kernel::cpu::CoreSet;
use crate::plan::synchronisation::Mechanism;
use crate::workload::DataType;

/// Number format of both processors.
const DATA_TYPE: DataType = DataType::F16;

/// Grid of the paper's search, in output channels (section 5.3).
const STEP: u32 = 8;

/// Most CPU threads of the paper's runs.
const MOST_THREADS: u32 = 3;

/// A phone of the paper.
#[derive(Clone, Copy, Debug)]
struct Phone {
    /// In ids of facts.
    key: &'static str,
    /// Name of its profile.
    profile: &'static str,
    /// Name a reader knows.
    title: &'static str,
}

const PHONES: [Phone; 4] = [
    Phone { key: "pixel4", profile: "pixel4", title: "Pixel 4" },
    Phone { key: "pixel5", profile: "pixel5", title: "Pixel 5" },
    Phone { key: MOTO, profile: "moto-edge-plus-2022", title: "Moto 2022" },
    Phone { key: "oneplus11", profile: "oneplus11", title: "OnePlus 11" },
];

/// The phone of Table 4, in ids of facts.
const MOTO: &str = "moto";

/// Sets ours beside the published numbers.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result<(), ReproduceError> {
    let measured = operators::measure(inputs)?;
    operators::compare(comparison, &measured);
    networks::compare(comparison, inputs)?;
    ablation::compare(comparison, &measured);
    split::compare(comparison, inputs)?;
    setting::compare(comparison, inputs)?;
    Ok(())
}

/// What the paper's search may use: a core set and the GPU.
fn options(cores: CoreSet, synchronisation: Mechanism) -> Options {
    Options {
        strategy: Strategy::ChannelSplit,
        objective: Objective::Latency,
        synchronisation,
        core_sets: vec![cores],
        step: STEP,
    }
}

/// The paper's core sets: the fastest one, two and three cores.
fn core_sets(profile: &Profile) -> impl Iterator<Item = CoreSet> {
    (1..=MOST_THREADS).filter_map(|threads| CoreSet::fastest(&profile.cpu, threads))
}

/// What choosing by predictors costs: the time of the better choice over that of the one
/// made, where the errors of two predicted times are normal and independent of each other.
///
/// The larger of two such errors is `sqrt(s1^2 + s2^2) / sqrt(2 pi)` on average, and a mean
/// absolute error is `s sqrt(2 / pi)`: hence half of the root of the sum of their squares.
fn choosing_loss(gpu_mape_percent: f64, cpu_mape_percent: f64) -> f64 {
    1.0 / (1.0 + 0.5 * gpu_mape_percent.hypot(cpu_mape_percent) / 100.0)
}

/// The loss on a phone with so many threads, by the errors that the paper's Table 1 gives.
fn published_loss(comparison: &Comparison, phone: &str, set: &str, threads: usize) -> f64 {
    let error = |processor: &str| comparison.number(&format!("mape/{phone}/{set}/{processor}"));
    choosing_loss(error("gpu"), error(&format!("cpu-{threads}")))
}
