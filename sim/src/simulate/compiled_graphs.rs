//! The compiled graphs of a plan on the NPU, and the time of each operator in them.
//!
//! Responsible for: partitioning the NPU's operators into graphs, and evaluating the kernel model
//! on each. Not for: rates (`kernel::npu::compiled`). Invariants: a graph starts when its first operator can, since
//! the NPU has everything else that it reads; no other processor reads its results before its end.

use super::{Detail, Result, SimulateError, within_a_day};
use crate::device::{CompiledGraphs, ProcessorKind, Profile, Quantity};
use crate::kernel::npu::compiled::{Cost, Graph, Kernel, Member, MostAhead, Producer, most_ahead};
use crate::kernel::{Phases, Unsupported};
use crate::plan::{Mechanism, Placement, Plan};
use crate::units::{Bytes, Picos};
use crate::workload::{Layer, Operator, Read, Stage};

/// How the NPU runs each stage in a compiled graph; `None` for stages outside such graphs.
pub(super) type Compiled = Vec<Option<InCompiledGraph>>;

/// How the NPU runs a stage in a compiled graph.
#[derive(Clone, Debug)]
pub(super) struct InCompiledGraph {
    pub(super) phases: Phases,
    pub(super) detail: Detail,
    /// Whether the NPU's next stage belongs to the same graph.
    pub(super) goes_on: bool,
    /// The last stage of its graph, at whose end other processors have the results.
    pub(super) last: usize,
}

/// How the NPU runs each of `stages` that `plan` places whole on it; `None` for the others, and for
/// all stages whose format no compiler supports.
///
/// # Errors
/// The compiler does not support an operator, the profile has no rates for its number format, or an
/// operator takes more than a day.
pub(super) fn compiled(stages: &[Stage], plan: &Plan, device: &Profile) -> Result<Compiled> {
    let Some(npu) = &device.npu else { return Ok(vec![None; stages.len()]) };
    in_graphs_of(stages, plan, |layer| npu.compiler(layer.data_type))
}

/// The same for a step of a language model, whose graphs have their own bandwidth.
///
/// # Errors
/// The profile has no bandwidth for such graphs; otherwise as [`compiled`].
pub(super) fn of_token_steps(stages: &[Stage], plan: &Plan, device: &Profile) -> Result<Compiled> {
    let compiled = device.npu.as_ref().and_then(|npu| npu.compiled.as_ref());
    let bandwidth = compiled.and_then(|compiled| compiled.token_bandwidth_gbps.clone());
    let (Some(compiled), Some(one_row_bandwidth_gbps)) = (compiled, bandwidth) else {
        return Err(SimulateError::NoTokenGraphs { device: device.name.clone() });
    };
    let bandwidth_gbps = compiled.prompt_bandwidth_gbps.as_ref().unwrap_or(&compiled.bandwidth_gbps).clone();
    let parameters = CompiledGraphs { bandwidth_gbps, one_row_bandwidth_gbps, ..compiled.clone() };
    in_graphs_of(stages, plan, |_| Some(&parameters))
}

fn in_graphs_of<'p>(
    stages: &[Stage],
    plan: &Plan,
    compiler: impl Fn(&Layer) -> Option<&'p CompiledGraphs>,
) -> Result<Compiled> {
    let mut priced = vec![None; stages.len()];
    let positions = plan.positions();
    let mut next_on_npu = vec![None; stages.len()];
    let mut last = None;
    for stage in plan.in_order().filter(|&stage| plan.placements[stage].uses(ProcessorKind::Npu)) {
        if let Some(last) = last.replace(stage) {
            next_on_npu[last] = Some(stage);
        }
    }
    let is_compiled = |layer: &Layer| compiler(layer).is_some();
    for graph in graphs(stages, plan, is_compiled) {
        let Some(parameters) = compiler(&stages[graph[0]].layer) else { continue };
        let members = members(stages, &graph, &positions);
        let executions = Graph::new(&members, parameters.on_chip_bytes.value)?.execute(parameters)?;
        let following = graph.iter().skip(1).map(Some).chain([None]);
        let last = graph[graph.len() - 1];
        for ((&stage, next), execution) in graph.iter().zip(following).zip(executions) {
            within_a_day(&stages[stage].name, execution.phases.duration())?;
            let (phases, detail) = execution.detailed(Detail::NpuGraph);
            let goes_on = next.is_some_and(|next| next_on_npu[stage] == Some(*next));
            priced[stage] = Some(InCompiledGraph { phases, detail, goes_on, last });
        }
    }
    Ok(priced)
}

/// Time of a stage as an operator of a compiled graph.
#[derive(Clone, Debug)]
pub(crate) struct InGraph {
    /// In a graph with all supported neighbours, without the overhead of the graph itself.
    pub(crate) phases: Phases,
    /// Its own traffic, of which earlier stages may move a part.
    pub(crate) bytes: Bytes,
    pub(crate) detail: Detail,
    /// In any graph, in those that compute all its inputs, and in those that begin with it (rows), and in those that
    /// read its result (second column).
    pub(crate) least: [[LeastInGraph; 2]; 3],
    /// How far the traffic of its graph can be ahead at its end.
    pub(crate) most_ahead: MostAhead,
}

/// Lower bounds of what a stage takes in a compiled graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeastInGraph {
    pub(crate) time: Picos,
    /// Time of its traffic, of which at most its predecessor's `most_ahead` overlaps earlier stages.
    pub(crate) traffic: Picos,
    pub(crate) bytes: Bytes,
}

/// Times of stages in compiled graphs.
#[derive(Clone, Debug)]
pub(crate) struct InGraphs {
    /// Overhead of submitting one graph.
    pub(crate) entry: Picos,
    /// Each stage in a graph; `None` where the NPU has no kernel for it or no compiler supports its format.
    pub(crate) stages: Vec<Option<InGraph>>,
}

/// More than the errors from rounding the phases of a stage and its bytes, by which bounds on them are relaxed.
pub(super) const ROUNDING: Picos = Picos(2);
const ROUNDED_BYTES: u64 = 1;

impl LeastInGraph {
    fn of(cost: &Cost) -> Self {
        let [time, traffic] = [cost.micros(), cost.traffic_us].map(Picos::from_micros);
        Self {
            time: time.saturating_sub(ROUNDING),
            traffic: traffic.saturating_sub(ROUNDING),
            bytes: Bytes(cost.moved_bytes().0.saturating_sub(ROUNDED_BYTES)),
        }
    }
}

/// Times of `stages` in compiled graphs; `takes` marks those that the NPU has a kernel for. `None`
/// where the profile has no compiled graphs.
///
/// # Errors
/// As [`compiled`].
pub(super) fn in_graphs(stages: &[Stage], device: &Profile, takes: &[bool]) -> Result<Option<InGraphs>> {
    let Some(npu) = &device.npu else { return Ok(None) };
    let Some(compiled) = &npu.compiled else { return Ok(None) };
    let placement = |&takes: &bool| if takes { Placement::NPU } else { Placement::GPU };
    let plan = Plan::new(Mechanism::SvmPolling, takes.iter().map(placement).collect());
    let positions = plan.positions();
    let mut inside = vec![None; stages.len()];
    let without_graph =
        CompiledGraphs { graph_us: Quantity { value: 0.0, ..compiled.graph_us.clone() }, ..compiled.clone() };
    let is_compiled = |layer: &Layer| npu.compiler(layer.data_type).is_some();
    let members_of = graphs(stages, &plan, is_compiled);
    let with_members = |members_of: &Vec<usize>| {
        let members = members(stages, members_of, &positions);
        Ok((Graph::new(&members, compiled.on_chip_bytes.value)?, members))
    };
    let graphs = members_of.iter().map(with_members).collect::<Result<Vec<(Graph, Vec<Member<'_>>)>>>()?;
    let most_ahead = most_ahead(&graphs, compiled)?;
    for (((graph, members), members_of), most_ahead) in graphs.iter().zip(&members_of).zip(most_ahead) {
        let executions = graph.execute(&without_graph)?;
        let least = graph.least_costs(members, compiled)?;
        for (member, (&stage, execution)) in members_of.iter().zip(executions).enumerate() {
            let bytes = execution.detail.weights + execution.detail.spilled;
            let (phases, detail) = execution.detailed(Detail::NpuGraph);
            let least = least.each_ref().map(|row| row.each_ref().map(|of| LeastInGraph::of(&of[member])));
            let MostAhead { with, in_graphs_with, in_any } = most_ahead[member];
            let [in_graphs_with, in_any] = [in_graphs_with, in_any].map(|ahead| ahead + ROUNDING);
            let most_ahead = MostAhead { with: members_of[with], in_graphs_with, in_any };
            inside[stage] = Some(InGraph { phases, bytes, detail, least, most_ahead });
        }
    }
    without_free_operators(stages, &mut inside);
    Ok(Some(InGraphs { entry: Picos::from_micros(compiled.graph_us.value), stages: inside }))
}

/// Removes the spills of tensors that pass through operators without work, which need not be in the same graph as
/// their writers and readers. With convolutions over volumes, which operators these are depends on the graph.
fn without_free_operators(stages: &[Stage], inside: &mut [Option<InGraph>]) {
    let is_volume =
        |stage: &Stage| matches!(&stage.layer.operator, Operator::Conv2d(conv) if conv.slices.is_some());
    if stages.iter().any(is_volume) {
        inside.iter_mut().flatten().for_each(|stage| stage.least = [[stage.least[0][0]; 2]; 3]);
        return;
    }
    let is_free = |stage: &Option<InGraph>| {
        let detail = stage.as_ref().map(|stage| &stage.detail);
        matches!(detail, Some(Detail::NpuGraph(step)) if step.kernel == Kernel::Free)
    };
    let free: Vec<bool> = inside.iter().map(is_free).collect();
    for (reader, stage) in stages.iter().enumerate() {
        for input in stage.inputs() {
            if let Some(InGraph { least, .. }) = inside[reader].as_mut().filter(|_| free[input]) {
                least[1] = least[0];
            }
            if let Some(InGraph { least, .. }) = inside[input].as_mut().filter(|_| free[reader]) {
                for [unread, read] in least {
                    *read = *unread;
                }
            }
        }
    }
}

/// How the NPU runs a layer in a graph of its own.
pub(super) fn alone(layer: &Layer, parameters: &CompiledGraphs) -> Result<(Phases, Detail), Unsupported> {
    let operands = layer.operator.inputs().len();
    let member =
        Member { layer, reads: Vec::new(), input_count: operands + layer.linked.of_two_operands() as usize };
    let graph = Graph::new(&[member], parameters.on_chip_bytes.value)?;
    Ok(graph.execute(parameters)?.swap_remove(0).detailed(Detail::NpuGraph))
}

/// The stages of each compiled graph, in the order in which the plan submits them to the NPU. A graph waits for its
/// inputs before it starts, and hands its results out at its end. So it ends before a stage that another processor
/// computes from its results, before a stage to which another processor hands an input over, and before the first that
/// reads a joined result. Where processors take turns, every earlier result is there when a graph starts, which ends at
/// the next turn.
fn graphs(stages: &[Stage], plan: &Plan, is_compiled: impl Fn(&Layer) -> bool) -> Vec<Vec<usize>> {
    let mut graphs: Vec<Vec<usize>> = Vec::new();
    // Number of graphs until each stage's, and whether the NPU has each stage's result.
    let mut graph_of = vec![0; stages.len()];
    let mut is_on_npu = vec![false; stages.len()];
    let mut has_ended = true;
    for index in plan.in_order() {
        let (stage, placement) = (&stages[index], &plan.placements[index]);
        if !placement.uses(ProcessorKind::Npu) {
            let is_inside = |input: usize| graph_of[input] > 0 && graph_of[input] == graphs.len();
            has_ended |= plan.in_turn || stage.inputs().any(is_inside);
            continue;
        }
        has_ended |= !plan.in_turn && stage.inputs().any(|input| !is_on_npu[input]);
        // For a joined result, which others computed too, the NPU waits when it first reads it.
        let own = (!placement.is_cut()).then_some(index);
        stage.inputs().chain(own).for_each(|result| is_on_npu[result] = true);
        if placement.is_cut() || !is_compiled(&stage.layer) {
            has_ended = true;
        } else if let Some(running) = graphs.last_mut().filter(|_| !has_ended) {
            running.push(index);
            graph_of[index] = graphs.len();
        } else {
            graphs.push(vec![index]);
            graph_of[index] = graphs.len();
            has_ended = false;
        }
    }
    graphs
}

/// The stages of a graph as members for the kernel model.
fn members<'a>(stages: &'a [Stage], graph: &[usize], positions: &[usize]) -> Vec<Member<'a>> {
    let position = |&stage: &usize| positions[stage];
    let read = |&Read { position: at, input }: &Read| {
        let member = graph.binary_search_by_key(&position(&input), position);
        (at, member.map_or(Producer::Outside(input), Producer::Member))
    };
    let member = |&stage: &usize| {
        let Stage { layer, reads, input_count, .. } = &stages[stage];
        Member { layer, reads: reads.iter().map(read).collect(), input_count: *input_count }
    };
    graph.iter().map(member).collect()
}

impl Graph {
    /// One graph of all `stages`, on an NPU with `on_chip_bytes` of on-chip memory.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_stages(stages: &[Stage], on_chip_bytes: f64) -> Result<Self, Unsupported> {
        let all: Vec<usize> = (0..stages.len()).collect();
        Self::new(&members(stages, &all, &all), on_chip_bytes)
    }
}
