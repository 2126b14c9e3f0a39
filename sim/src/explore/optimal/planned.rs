//! The plan of a sequence of decisions.

use std::collections::HashMap;

use super::{Cutting, Model, Move, shared_placement};
use crate::plan::{Axis, Mechanism, Placement, Plan};
use crate::workload::Stage;

/// The plan of `decisions`, which cover all stages in order.
pub(super) fn plan(model: &Model<'_>, decisions: &[(usize, Move)], mechanism: Mechanism) -> Plan {
    let count = model.stages.len();
    let mut placements: Vec<Placement> = Vec::with_capacity(count);
    let mut chains: Vec<Option<u32>> = Vec::with_capacity(count);
    // Open parts along one axis and on one core set belong to one chain until a stage outside reads
    // them.
    let mut open: HashMap<Cutting, u32> = HashMap::new();
    for &(position, decided) in decisions {
        let end = if let Move::Chain { end, .. } = decided { end } else { position + 1 };
        let continued = if let Move::Chain { continues_chain: true, cutting, .. } = decided {
            open.get(&cutting).copied()
        } else {
            None
        };
        let is_read = |chain: u32| {
            let inputs = model.stages[position..end].iter().flat_map(Stage::inputs);
            inputs.filter(|&input| input < position).any(|input| chains[input] == Some(chain))
        };
        open.retain(|_, chain| Some(*chain) == continued || !is_read(*chain));
        match decided {
            Move::Cpu(set) => placements.push(Placement::cpu(model.core_sets[set])),
            Move::Gpu => placements.push(Placement::GPU),
            Move::Npu => placements.push(Placement::NPU),
            Move::Cut { cutting, cut } => placements.extend(placed(model, position, cutting, cut)),
            Move::Shared { cutting, counts } => placements.push(shared_placement(model, cutting, counts)),
            Move::Chain { cutting, cut, stays_open, continues_chain, .. } => {
                let is_read_later = stays_open && model.live[end].contains(&(end - 1));
                let known = open.get(&cutting).copied().filter(|_| continues_chain || is_read_later);
                let chain = known.unwrap_or(position as u32);
                let lines = model.widened(end, cutting.axis, cut, position);
                for stage in position..end {
                    let [first, second] = lines[end - 1 - stage];
                    let is_nominal = cutting.axis == Axis::Channels || stage + 1 == end;
                    let cut = if is_nominal { first } else { second.min(first) };
                    placements.extend(placed(model, stage, cutting, cut));
                }
                chains.resize(end, Some(chain));
                if is_read_later {
                    open.insert(cutting, chain);
                } else if continues_chain {
                    open.remove(&cutting);
                }
            }
        }
        chains.resize(placements.len(), None);
    }
    Plan::new(mechanism, placements).chained(chains)
}

/// A stage cut between CPU and GPU, with at least one line or channel each.
fn placed(model: &Model<'_>, stage: usize, cutting: Cutting, cut: u32) -> Option<Placement> {
    let all = model.cuts(stage, cutting.axis)?.all;
    let cut = cut.clamp(1, all - 1);
    let cores = model.core_sets[cutting.cores as usize];
    Some(Placement::cpu_and_gpu(cutting.axis, cores, [cut, all - cut]))
}
