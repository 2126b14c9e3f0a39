//! A profile of ONNX Runtime (`SessionOptions.enable_profiling`, `onnxruntime_perf_test -p`): events of
//! whole inferences and of nodes, under the names that its optimiser gives merged nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{OfNode, ToolResult};
use crate::measure::grouped;
use coexec_sim::statistics::median;

/// Execution providers on CPU cores.
const ON_CPU: [&str; 2] = ["CPUExecutionProvider", "XnnpackExecutionProvider"];
/// Suffix of the names of node events.
const KERNEL: &str = "_kernel_time";
/// Substrings of operator names that mark products and convolutions, alone or merged with others.
const PRODUCTS: [&str; 3] = ["Conv", "Gemm", "MatMul"];
/// Suffix of the name of a product that was merged with the addition of a bias.
const WITH_BIAS: &str = "/MatMulAddFusion";
/// Suffix of the name of a node in the blocked channel layout of the CPU kernels.
const BLOCKED: &str = "_nchwc";
/// Separator of a node's name and the number of its result, from PyTorch's exporter.
const RESULT: &str = "_output_";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    name: String,
    /// In microseconds.
    dur: f64,
    args: Arguments,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    provider: Option<String>,
    op_name: String,
    /// Number format and extents of each result.
    output_type_shape: Vec<BTreeMap<String, Vec<u64>>>,
    /// Statistics of the thread pool; an empty string where there was one thread.
    thread_scheduling_stats: serde_json::Value,
}

/// The median times of the inference and of its nodes, without the first inference, which is the
/// warm-up.
pub(super) fn of_profile(content: &str) -> Result<ToolResult, String> {
    let events: Vec<Event> = serde_json::from_str(content).map_err(|error| {
        format!("is not a profile of ONNX Runtime, or its session did not finish it: {error}")
    })?;
    let runs: Vec<f64> =
        events.iter().filter(|event| event.name == "model_run").map(|event| event.dur).collect();
    let micros = steady(&runs).ok_or("has no event model_run")?;
    let nodes = || events.iter().filter_map(|event| Some((event.name.strip_suffix(KERNEL)?, event)));
    let providers: BTreeSet<&str> = nodes().filter_map(|(_, event)| event.args.provider.as_deref()).collect();
    if let Some(other) = providers.iter().find(|provider| !ON_CPU.contains(provider)) {
        return Err(format!("a part ran on {other}, which is not predicted: measure on CPU cores alone"));
    }
    let helpers = nodes().filter_map(|(_, event)| event.args.thread_scheduling_stats.get("sub_threads"));
    let helpers = helpers.filter_map(|threads| threads.as_object()).map(serde_json::Map::len).max();
    // Nodes with another count are in a loop, or did not run in each inference.
    let each_time = grouped(nodes()).into_iter().filter(|(_, events)| events.len() == runs.len());
    let operators = each_time.filter_map(|(name, events)| {
        let Arguments { op_name, output_type_shape, .. } = &events.first()?.args;
        // Blocked channels are padded to whole blocks, so their extents differ from the model's.
        let extents = output_type_shape.first().filter(|_| !name.ends_with(BLOCKED));
        let extents = extents.and_then(|shape| shape.values().next());
        let times: Vec<f64> = events.iter().map(|event| event.dur).collect();
        Some(OfNode {
            node: node(name).to_owned(),
            elements: extents.map(|extents| extents.iter().fold(1, |all: u64, &one| all.saturating_mul(one))),
            multiplies: PRODUCTS.iter().any(|product| op_name.contains(product)),
            micros: steady(&times)?,
        })
    });
    Ok(ToolResult {
        threads: 1 + u32::try_from(helpers.unwrap_or(0)).unwrap_or(0),
        micros,
        operators: operators.collect(),
        ..ToolResult::default()
    })
}

/// The median without the first of several times; none for no times.
fn steady(times: &[f64]) -> Option<f64> {
    median(&times[usize::from(times.len() > 1)..])
}

/// The name in the model of an event's node.
fn node(name: &str) -> &str {
    let name = name.strip_prefix("fused ").unwrap_or(name);
    let name = name.strip_suffix(WITH_BIAS).unwrap_or(name);
    let Some(tensor) = name.strip_suffix(BLOCKED) else { return name };
    tensor.rsplit_once(RESULT).map_or(tensor, |(node, _)| node)
}
