//! Which tensor each operator reads: a result of an earlier one, or an input of the
//! workload.

use coexec_sim::workload::{Layer, Shape, Stage};

/// Where an operator reads one of its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The result of that stage.
    Stage(usize),
    /// Numbers of its own.
    Input,
}

/// Extents of the tensors that `layer` reads: its operator's, then one of the output's
/// extent for each linked function of two tensors.
pub(super) fn read_shapes(layer: &Layer) -> Vec<Shape> {
    let linked = layer.linked.functions().iter().filter(|function| function.is_binary());
    layer.operator.inputs().into_iter().chain(linked.map(|_| layer.operator.output())).collect()
}

/// What `stage` reads, in order. A stage lists the stages it reads in order and leaves
/// the workload's inputs out; each is matched with the first tensor it fits.
pub(super) fn reads(stage: &Stage, stages: &[Stage]) -> Vec<Read> {
    let shapes = read_shapes(&stage.layer);
    let own = stage.layer.operator.inputs().len();
    let mut waiting = stage.inputs.iter().copied().peekable();
    shapes
        .iter()
        .enumerate()
        .map(|(position, shape)| {
            let broadcast = position >= own;
            let fits = |producer: &usize| {
                let result = stages[*producer].layer.operator.output();
                result.elements() == shape.elements()
                    || (broadcast && result.elements() == u64::from(shape.channels))
            };
            waiting.next_if(fits).map_or(Read::Input, Read::Stage)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use coexec_sim::workload::{NETWORKS, fuse};

    use super::*;

    #[test]
    fn every_stage_of_a_network_finds_all_it_reads() {
        for (name, _, network) in NETWORKS {
            let stages = fuse(&network());
            for stage in &stages {
                let found: Vec<usize> = reads(stage, &stages)
                    .into_iter()
                    .filter_map(|read| if let Read::Stage(index) = read { Some(index) } else { None })
                    .collect();
                assert_eq!(found, stage.inputs, "{name}: {}", stage.name);
            }
        }
    }

    #[test]
    fn what_no_stage_computes_is_an_input() {
        let stages = fuse(&coexec_sim::workload::network("mobilenet-v2").unwrap());
        assert_eq!(reads(&stages[0], &stages), [Read::Input]);
    }
}
