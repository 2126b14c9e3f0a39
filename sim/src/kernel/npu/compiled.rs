//! Execution of a sequence of operators that the NPU's compiler compiled as one graph.
//!
//! Responsible for: the unit and rate of each operator, which tensors stay in on-chip memory
//! between operators, and what is fetched from DRAM meanwhile. Not for: which operators of a plan
//! form a graph (`simulate`), or products dispatched one by one (`kernel::npu`).
//! Invariant: the phase durations add up to the contention-free time of the graph; the bytes of a phase are
//! those that cross the memory interface during it, weights fetched for later operators included, and no
//! tensor that fits on chip crosses it.
//!
//! The equations and their errors on measured models are in the book; the constants and their
//! fits in the device profile. Based on: Qualcomm's published times of whole models on four
//! Snapdragons (`data/aihub`).

mod ahead;
mod on_chip;
mod operators;
mod rates;
mod work;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use self::ahead::{MostAhead, most_ahead};
pub(crate) use self::rates::Cost;
use self::rates::{Rates, Spill};
use crate::device::CompiledGraphs;
use crate::kernel::{Execution, Phase, PhaseKind, Phases, Result, largest};
use crate::units::{Bytes, Picos};
use crate::workload::{DataType, Layer};
use operators::{Operators, kernel_of};

pub use self::work::Kernel;

/// One layer of a graph, with the producers of its inputs.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Producers of the tensors that it reads, inside the graph or outside, each after the tensor's position among
    /// all that it reads: those of the operator in its order, then those of linked functions. Inputs of the network
    /// have no producer.
    pub reads: Vec<(usize, Producer)>,
    /// Tensors that it reads, including inputs of the network.
    pub input_count: usize,
}

/// Producer of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Producer {
    /// A member of the graph, by position.
    Member(usize),
    /// An operator outside the graph, by an identifier that the caller chooses.
    Outside(usize),
}

/// What bounds a layer of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Compute on its unit.
    #[strum(to_string = "the unit")]
    Compute,
    /// Traffic of weights and spilled tensors.
    #[strum(to_string = "memory traffic")]
    Traffic,
    /// Fixed costs of the graph and of each operator.
    #[strum(to_string = "fixed costs")]
    Fixed,
}

/// Execution of a layer in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Rule of the layer's operator; linked functions have their own rules.
    pub kernel: Kernel,
    /// What bounds the time.
    pub limit: Limit,
    /// Compiled operators of the layer: its own and those of linked functions.
    pub operators: u32,
    /// Compute time on the units.
    #[serde(rename = "compute_ps")]
    pub compute: Picos,
    /// Weight bytes.
    pub weights: Bytes,
    /// Bytes of spilled tensors, written to DRAM or read back.
    pub spilled: Bytes,
}

/// A compiled graph. Independent of the rates, so that a fit builds it only once.
#[derive(Clone, Debug)]
pub struct Graph {
    operators: Operators,
    /// Traffic of each operator other than weights.
    spills: Vec<Spill>,
    /// Number format of each member.
    formats: Vec<DataType>,
}

impl Graph {
    /// The graph of `members` on an NPU with `on_chip_bytes` of on-chip memory.
    ///
    /// # Errors
    /// If compilers leave a member's operator to another processor, or its time is unknown.
    pub fn new(members: &[Member<'_>], on_chip_bytes: f64) -> Result<Self> {
        let formats: Vec<DataType> = members.iter().map(|member| member.layer.data_type).collect();
        let operators = Operators::of(members)?;
        let spills = on_chip::spills(&operators, &formats, on_chip_bytes);
        Ok(Self { operators, spills, formats })
    }

    /// Contention-free time of the whole graph, in microseconds.
    ///
    /// # Errors
    /// If the profile has no rates for the number format of a member.
    pub fn micros(&self, compiled: &CompiledGraphs) -> Result<f64> {
        let costs = self.costs(compiled, &self.spills)?;
        Ok(compiled.graph_us.value + costs.iter().map(Cost::micros).sum::<f64>())
    }

    /// The execution of each member, in order; the first member's phases include the graph's dispatch.
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
        let step = |(member, (cost, moved)): (usize, (&Cost, Bytes))| {
            let graph_us = if member == 0 { compiled.graph_us.value } else { 0.0 };
            let fixed_us = graph_us + cost.fixed_us;
            // No weights are fetched before the graph is dispatched.
            execution(cost, moved, [graph_us, fixed_us], kernels[member], counts[member])
        };
        Ok(costs.iter().zip(moved(&costs)).enumerate().map(step).collect())
    }

    /// Lower bounds on the cost of each member in any graph: without the graph's dispatch, and with as much traffic
    /// ahead as there can be. The first row holds in any graph, the second in those that compute all of the
    /// member's inputs, the third in those that begin with it; and the second column in those that read its result.
    /// `members` are those of this graph.
    ///
    /// # Errors
    /// As [`Self::micros`].
    pub(crate) fn least_costs(
        &self,
        members: &[Member<'_>],
        compiled: &CompiledGraphs,
    ) -> Result<[[Vec<Cost>; 2]; 3]> {
        let on_chip_bytes = compiled.on_chip_bytes.value;
        let [read, written] = on_chip::least_spills(&self.operators, &self.formats, on_chip_bytes);
        let mut begun = Vec::with_capacity(read.len());
        for member in members {
            let outside = |&(position, producer): &(usize, Producer)| match producer {
                Producer::Member(member) => (position, Producer::Outside(2 * member)),
                Producer::Outside(outside) => (position, Producer::Outside(2 * outside + 1)),
            };
            let alone = Member { reads: member.reads.iter().map(outside).collect(), ..*member };
            begun.extend(Self::new(&[alone], on_chip_bytes)?.spills.iter().map(|spill| spill.bytes));
        }
        let of_case = |read: &[f64], is_kept: f64| -> Result<Vec<Cost>> {
            let both = read.iter().zip(&written);
            let bytes = both.map(|(read, written)| read + is_kept * written);
            let spills: Vec<Spill> = bytes.map(|bytes| Spill { bytes, ..Spill::default() }).collect();
            let mut costs = self.own_costs(compiled, &spills)?;
            for cost in &mut costs {
                cost.run_far_ahead(compiled.fetched_ahead_bytes.value);
            }
            Ok(self.of_members(&costs))
        };
        let of_row = |read: &[f64]| Ok([of_case(read, 0.0)?, of_case(read, 1.0)?]);
        Ok([of_row(&vec![0.0; read.len()])?, of_row(&read)?, of_row(&begun)?])
    }

    /// The costs of each member's weights alone.
    fn weights(&self, compiled: &CompiledGraphs) -> Result<Vec<Cost>> {
        let own = self.own_costs(compiled, &vec![Spill::default(); self.spills.len()])?;
        Ok(self.of_members(&own))
    }

    /// The costs of each member, with what is fetched ahead.
    fn costs(&self, compiled: &CompiledGraphs, spills: &[Spill]) -> Result<Vec<Cost>> {
        let mut costs = self.own_costs(compiled, spills)?;
        ahead::run_ahead(&mut costs, compiled.fetched_ahead_bytes.value);
        Ok(self.of_members(&costs))
    }

    /// The cost of each operator, none of its traffic done ahead.
    fn own_costs(&self, compiled: &CompiledGraphs, spills: &[Spill]) -> Result<Vec<Cost>> {
        let rates = self.formats.iter().map(|&format| Rates::of(compiled, format));
        let rates = rates.collect::<Result<Vec<Rates<'_>>>>()?;
        let both = self.operators.all.iter().zip(spills);
        Ok(both.map(|(operator, &spill)| rates[operator.member].cost(&operator.work, spill)).collect())
    }

    /// The costs of each member's operators together.
    fn of_members(&self, costs: &[Cost]) -> Vec<Cost> {
        let mut sums = vec![Cost::default(); self.formats.len()];
        for (operator, &cost) in self.operators.all.iter().zip(costs) {
            let sum = &mut sums[operator.member];
            *sum += cost;
            sum.ahead_us = cost.ahead_us;
        }
        sums
    }
}

/// Bytes that the memory moves while each member runs: the traffic of all members in order, at the end of each as far
/// ahead as there is time and place for it.
fn moved(costs: &[Cost]) -> impl Iterator<Item = Bytes> {
    let of = |cost: &Cost| cost.moved_bytes().0 as f64;
    let mut later = costs.iter().peekable();
    // Traffic of the members so far, what of all traffic can be done by the end of this one, and that before `later`.
    let (mut own_us, mut possible_us, mut done_us) = (0.0, 0.0_f64, 0.0);
    let (mut done_bytes, mut moved_bytes) = (0.0, 0.0);
    costs.iter().map(move |cost| {
        own_us += cost.traffic_us;
        possible_us = possible_us.max(own_us + cost.ahead_us);
        while let Some(done) = later.next_if(|next| done_us + next.traffic_us <= possible_us) {
            done_us += done.traffic_us;
            done_bytes += of(done);
        }
        let begun = later.peek().map_or(0.0, |next| of(next) * (possible_us - done_us) / next.traffic_us);
        let bytes = (done_bytes + begun).round();
        Bytes((bytes - std::mem::replace(&mut moved_bytes, bytes)) as u64)
    })
}

/// The execution of a member whose traffic starts after `idle_us`, and its operators after `fixed_us`.
fn execution(
    cost: &Cost,
    moved: Bytes,
    [idle_us, fixed_us]: [f64; 2],
    kernel: Kernel,
    operators: u32,
) -> Execution<Step> {
    let [idle, fixed, working] = [idle_us, fixed_us, cost.working_us].map(Picos::from_micros);
    let phase = |kind, duration| Phase { steps: operators.max(1), ..Phase::new(kind, duration, Bytes::ZERO) };
    let moving = [phase(PhaseKind::Launch, fixed.saturating_sub(idle)), phase(PhaseKind::OnChip, working)];
    let mut moving = Phases::from_iter(moving);
    moving.spread(moved, |_| true);
    let phases = [phase(PhaseKind::Launch, idle)].iter().chain(moving.as_slice()).copied().collect();
    let [weights, spilled] = cost.bytes();
    // Traffic that was done ahead does not limit.
    let awaited_us = if cost.working_us > cost.compute_us { cost.traffic_us } else { 0.0 };
    let limit =
        largest(&[(Limit::Compute, cost.compute_us), (Limit::Traffic, awaited_us), (Limit::Fixed, fixed_us)]);
    let compute = Picos::from_micros(cost.compute_us);
    Execution { phases, detail: Step { kernel, limit, operators, compute, weights, spilled } }
}
