//! Which operators of a plan the NPU's compiler takes as one graph, and what each takes there.
//!
//! Responsible for: finding the graphs, and asking the kernel model for each. Not for: rates
//! (`kernel::npu::compiled`), or when a graph starts: each of its operators waits for what it
//! reads. Invariant: what a graph reads from outside was computed before its first operator, so
//! that it can run from there without a stop.

use super::{Detail, SimulateError, within_a_day};
use crate::device::profile::Profile;
use crate::kernel::Phases;
use crate::kernel::npu::compiled::{Graph, Member, Producer};
use crate::plan::{GraphCover, Placement, Plan, Processor};
use crate::units::BytesPerSecond;
use crate::workload::Stage;

/// How the NPU runs each of `stages` that `plan` gives it whole; nothing for the others, and for
/// all where the profile says nothing of compiled graphs.
///
/// # Errors
/// The compiler leaves an operator to other processors, nothing is known of the number format,
/// or an operator takes more than a day.
pub(super) fn compiled(
    stages: &[Stage],
    plan: &Plan,
    device: &Profile,
) -> Result<Vec<Option<(Phases, Detail)>>, SimulateError> {
    let mut priced = vec![None; stages.len()];
    let Some(parameters) = device.npu.as_ref().and_then(|npu| npu.compiled.as_ref()) else {
        return Ok(priced);
    };
    let peak = BytesPerSecond::from_gigabytes(device.memory.peak_bandwidth_gbps.value);
    for graph in graphs(stages, &plan.placements) {
        let executions = Graph::new(&members(stages, &graph))?.execute(parameters)?;
        for (&stage, execution) in graph.iter().zip(executions) {
            let mut phases = execution.phases;
            phases.limit_rate(peak);
            within_a_day(&stages[stage].name, phases.duration())?;
            priced[stage] = Some((phases, Detail::NpuGraph(execution.detail)));
        }
    }
    Ok(priced)
}

/// The stages of each graph, in order.
fn graphs(stages: &[Stage], placements: &[Placement]) -> Vec<Vec<usize>> {
    let mut graphs: Vec<Vec<usize>> = Vec::new();
    // The graph of each stage so far.
    let mut graph_of: Vec<Option<usize>> = Vec::with_capacity(stages.len());
    for (index, (stage, placement)) in stages.iter().zip(placements).enumerate() {
        if placement.only() != Some(Processor::Npu(GraphCover::default())) {
            graph_of.push(None);
            continue;
        }
        let running = graphs.len().checked_sub(1);
        let joins = running.is_some_and(|running| {
            let first = graphs[running][0];
            let is_ready = |&input: &usize| input < first || graph_of[input] == Some(running);
            let format = stages[first].layer.data_type;
            stage.inputs.iter().all(is_ready) && stage.layer.data_type == format
        });
        if !joins {
            graphs.push(Vec::new());
        }
        let graph = graphs.len() - 1;
        graphs[graph].push(index);
        graph_of.push(Some(graph));
    }
    graphs
}

/// The stages of a graph as the kernel model sees them.
fn members<'a>(stages: &'a [Stage], graph: &[usize]) -> Vec<Member<'a>> {
    let producer = |&input: &usize| match graph.binary_search(&input) {
        Ok(position) => Producer::Member(position),
        Err(_) => Producer::Outside(input),
    };
    let member = |&stage: &usize| {
        let Stage { layer, inputs, input_count, .. } = &stages[stage];
        Member { layer, inputs: inputs.iter().map(producer).collect(), input_count: *input_count }
    };
    graph.iter().map(member).collect()
}

impl Graph {
    /// The graph of all of `stages`.
    ///
    /// # Errors
    /// Where a compiler takes an operator to another processor.
    pub fn of_stages(stages: &[Stage]) -> Result<Self, crate::kernel::Unsupported> {
        let all: Vec<usize> = (0..stages.len()).collect();
        Self::new(&members(stages, &all))
    }
}
