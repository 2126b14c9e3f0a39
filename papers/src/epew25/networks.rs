//! Table 3: whole networks with the GPU and three CPU threads.

use super::{DATA_TYPE, MAX_THREADS, PHONES, fastest, options};
use crate::{Comparison, Inputs, Result, graph};
use coexec_sim::explore::{SearchOptions, Strategy, explore};
use coexec_sim::units::MICROS_PER_MILLI;
use coexec_sim::workload::{Operator, Stage, fuse};
use coexec_sim::{Library, Simulator};

/// The paper's networks: the name in ids of facts, and the bundled network.
const NETWORKS: [(&str, &str); 4] = [
    ("vgg16", "vgg16"),
    ("resnet18", "resnet18"),
    ("resnet34", "resnet34"),
    ("inception-v3", "inception-v3-square"),
];

/// Compares ours with Table 3.
pub(super) fn compare(comparison: &mut Comparison, inputs: &Inputs) -> Result {
    for (phone, profile) in PHONES {
        let device = inputs.profile(profile)?;
        let shared = options(fastest(device, MAX_THREADS)?);
        let gpu = SearchOptions { strategy: Strategy::GpuOnly, ..shared.clone() };
        let mut simulator = Simulator::new(device, Library::Xnnpack);
        for (key, name) in NETWORKS {
            let stages = fuse(&graph(name)?.with_data_type(DATA_TYPE));
            let answer = explore(&mut simulator, &stages, &shared)?;
            let gpu_only = explore(&mut simulator, &stages, &gpu)?.prediction.latency;
            let alone = stages.iter().zip(&answer.searches).filter_map(|(stage, search)| {
                let placed = if is_cut_by_the_paper(stage) { Some(search.best) } else { search.gpu_only };
                placed.map(|candidate| candidate.latency.as_micros() / MICROS_PER_MILLI)
            });
            let operators: f64 = alone.sum();
            let [gpu_only, together] =
                [gpu_only, answer.prediction.latency].map(|time| time.as_micros() / MICROS_PER_MILLI);
            for (quantity, ours) in [
                ("network-speedup", gpu_only / together),
                ("operators-speedup", gpu_only / operators),
                ("gpu-ms", gpu_only),
                ("operators-ms", operators),
                ("network-ms", together),
            ] {
                comparison.row(format!("network/{phone}/{key}/{quantity}"), ours);
            }
        }
    }
    Ok(())
}

/// Whether the paper considers cutting an operator: it leaves all but linear and convolution layers on
/// the GPU.
fn is_cut_by_the_paper(stage: &Stage) -> bool {
    matches!(stage.layer.operator, Operator::Linear(_) | Operator::Conv2d(_))
}
