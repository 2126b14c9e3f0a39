//! How a run of operators takes place that the NPU's compiler took as one graph.
//!
//! Responsible for: which unit computes an operator, at which rate, what stays in on-chip memory
//! between operators, what is fetched from DRAM meanwhile. Not for: which operators of a plan
//! make a graph (`simulate`), or products handed over one by one (`kernel::npu`).
//! Invariant: the phases' durations add up to what the graph takes alone; bytes are those that
//! cross the memory interface, and no tensor crosses it that fits on chip.
//!
//! The equations and their errors on measured models are in the book; the constants and their
//! fits in the device profile. Ground: Qualcomm's published times of whole models on four
//! Snapdragons (`data/aihub`).

mod on_chip;
mod operators;
mod rates;
mod work;

#[cfg(test)]
mod tests;

use serde::Serialize;

use self::rates::{Cost, Rates};
use crate::device::CompiledGraphs;
use crate::kernel::{Execution, Phase, PhaseKind, Result, largest};
use crate::units::{Bytes, Picos};
use crate::workload::{DataType, Layer};
use operators::{Operators, kernel_of};

pub use self::work::Kernel;

/// One layer of a graph and where its inputs come from.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Who computed what it reads, results that lie outside the graph included: those of the
    /// operator in its order, then those of linked functions.
    pub inputs: Vec<Producer>,
    /// Tensors it reads, those that nobody computes included.
    pub input_count: usize,
}

/// Who computed a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Producer {
    /// A member of the graph, by its position.
    Member(usize),
    /// Somebody before the graph, by any number of one's own.
    Outside(usize),
}

/// What decides how long a layer of a graph takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// The unit that computes it.
    #[strum(to_string = "the unit")]
    Compute,
    /// Weights and spilled tensors on their way.
    #[strum(to_string = "memory traffic")]
    Traffic,
    /// Costs of the graph and of each operator.
    #[strum(to_string = "fixed costs")]
    Fixed,
}

/// How a layer takes place in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The rule of its operator; linked functions have rules of their own.
    pub kernel: Kernel,
    /// What decides its time.
    pub limit: Limit,
    /// Operators it is to the compiler.
    pub operators: u32,
    /// What the units take.
    #[serde(rename = "compute_ps")]
    pub compute: Picos,
    /// Bytes of weights.
    pub weights: Bytes,
    /// Bytes of tensors that did not fit on chip, on their way out or back in.
    pub spilled: Bytes,
}

/// A graph as the compiler sees it: independent of the rates, so that a fit counts once.
#[derive(Clone, Debug)]
pub struct Graph {
    operators: Operators,
    /// Bytes that do not fit on chip, of each operator.
    spills: Vec<f64>,
    /// Number format of each member.
    formats: Vec<DataType>,
}

impl Graph {
    /// The graph of `members` on an NPU with so much on-chip memory.
    ///
    /// # Errors
    /// Where a compiler takes a member's operator to another processor, or nothing is known of it.
    pub fn new(members: &[Member<'_>], on_chip_bytes: f64) -> Result<Self> {
        let formats: Vec<DataType> = members.iter().map(|member| member.layer.data_type).collect();
        let operators = Operators::of(members)?;
        let spills = on_chip::spills(&operators, &formats, on_chip_bytes);
        Ok(Self { operators, spills, formats })
    }

    /// What the whole graph takes alone, in microseconds.
    ///
    /// # Errors
    /// Where nothing is known of a number format in it.
    pub fn micros(&self, compiled: &CompiledGraphs) -> Result<f64> {
        let costs = self.costs(compiled, &self.spills)?;
        Ok(compiled.graph_us.value + costs.iter().map(Cost::micros).sum::<f64>())
    }

    /// How each member takes place, in order; the first one's phases start with the graph's
    /// dispatch.
    ///
    /// # Errors
    /// As [`Self::micros`].
    pub fn execute(&self, compiled: &CompiledGraphs) -> Result<Vec<Execution<Step>>> {
        let costs = self.costs(compiled, &self.spills)?;
        let mut counts = vec![0_u32; self.formats.len()];
        let mut kernels = vec![Kernel::Free; self.formats.len()];
        for operator in &self.operators.all {
            let count = &mut counts[operator.member];
            if *count == 0 {
                kernels[operator.member] = operator.work.kernel;
            }
            *count += 1;
        }
        let step = |(member, cost): (usize, &Cost)| {
            let graph_us = if member == 0 { compiled.graph_us.value } else { 0.0 };
            execution(cost, graph_us, kernels[member], counts[member])
        };
        Ok(costs.iter().enumerate().map(step).collect())
    }

    /// What each member takes at least, in microseconds, in whatever graph it is: nothing is spilled, and no
    /// graph begins with it.
    ///
    /// # Errors
    /// As [`Self::micros`].
    pub(crate) fn least_micros(&self, compiled: &CompiledGraphs) -> Result<Vec<f64>> {
        let costs = self.costs(compiled, &vec![0.0; self.spills.len()])?;
        Ok(costs.iter().map(Cost::micros).collect())
    }

    fn costs(&self, compiled: &CompiledGraphs, spills: &[f64]) -> Result<Vec<Cost>> {
        let rates = self.formats.iter().map(|&format| Rates::of(compiled, format));
        let rates = rates.collect::<Result<Vec<Rates<'_>>>>()?;
        let mut costs = vec![Cost::default(); self.formats.len()];
        for (operator, &spilled) in self.operators.all.iter().zip(spills) {
            costs[operator.member] += rates[operator.member].cost(&operator.work, spilled);
        }
        Ok(costs)
    }
}

fn execution(cost: &Cost, graph_us: f64, kernel: Kernel, operators: u32) -> Execution<Step> {
    let fixed_us = graph_us + cost.fixed_us;
    let [weights, spilled] = [cost.weight_bytes, cost.spilled_bytes].map(|bytes| Bytes(bytes.round() as u64));
    let parts =
        [(PhaseKind::Launch, fixed_us, Bytes::ZERO), (PhaseKind::OnChip, cost.working_us, weights + spilled)];
    let phase = |(kind, micros, bytes)| Phase {
        steps: operators.max(1),
        ..Phase::new(kind, Picos::from_micros(micros), bytes)
    };
    let phases = parts.into_iter().map(phase).collect();
    let limit = largest(&[
        (Limit::Compute, cost.compute_us),
        (Limit::Traffic, cost.traffic_us),
        (Limit::Fixed, fixed_us),
    ]);
    let compute = Picos::from_micros(cost.compute_us);
    Execution { phases, detail: Step { kernel, limit, operators, compute, weights, spilled } }
}
