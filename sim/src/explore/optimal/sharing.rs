//! The move that shares a stage between the NPU and the CPU, the GPU or both.
//!
//! Responsible for: when the parts end and are joined. Not for: which shares end together (`shares`).
//! Invariant: relaxed, the NPU is busy no longer than in any shares of the given range.

use super::{At, CPU, Cutting, GPU, Members, Model, Move, Mover, NPU, Place, Sharing, Step};
use crate::device::ProcessorKind;
use crate::plan::{Placement, Processor};
use crate::schedule::Holders;

impl Mover<'_, '_, '_> {
    /// The NPU and others each compute a part of a stage, which is then joined.
    pub(super) fn shared(
        &mut self,
        step: &mut Step,
        stage: usize,
        (cutting, members, of_npu): (Cutting, Members, [u32; 2]),
    ) -> Option<(Place, Move)> {
        let model = self.model;
        let shares = model.shares(stage, cutting.axis)?;
        for by in ProcessorKind::ALL.into_iter().filter(|&by| members[by as usize]) {
            self.read(step, (by, stage), model.stages[stage].inputs(), |_, _| false);
        }
        let starts = [step.now.queues[CPU], step.gpu_start(), step.now.queues[NPU]];
        let is_alone = self.is_relaxed() && model.is_alone[stage];
        let sharing = Sharing { is_alone, ..shares.sharing(members, starts, of_npu) };
        let starts = sharing.starts;
        let shared = shares.balanced(&sharing)?;
        let (end, counts) = match &mut self.contention {
            None => {
                // The GPU's next kernel waits for the join, the NPU's does not.
                step.now.queues[NPU] = shares.ends(members, [0, 0, of_npu[0]], starts)[NPU];
                step.now.joules += shares.least_joules(members);
                (shares.contended(&sharing, shared), shared.counts)
            }
            Some(contention) => {
                let even = shares.in_units(shared.counts, cutting.axis)?;
                let contended = contention.best_shares(model, stage, (cutting, members), even);
                let tried = [even, contended].map(|counts| {
                    let ends = shares.ends(members, counts, starts);
                    let last = ends.into_iter().max().unwrap_or_default();
                    (last + contention.of_shares(model, stage, (cutting, members), counts), ends, counts)
                });
                let (end, ends, counts) = tried.into_iter().min_by_key(|tried| tried.0)?;
                for by in [GPU, NPU].into_iter().filter(|&by| members[by]) {
                    step.now.queues[by] = ends[by];
                }
                step.now.joules += shares.joules(counts);
                (end, counts)
            }
        };
        // The NPU's part is a graph of its own.
        step.now.graph = 0;
        let end = end + model.transfer_delays(stage, self.is_relaxed()).join;
        (step.now.queues[CPU], step.now.join) = (step.now.queues[CPU].max(end), end);
        self.join_all(step, end);
        let holders = Holders::joined(model.own_memory).with(ProcessorKind::Npu);
        let place = Place { at: At::With(holders), ..self.joined_place([0; 2], end) };
        Some((place, Move::Shared { cutting, counts }))
    }
}

/// The placement of shares: the CPU's part first, the GPU's last.
pub(super) fn shared_placement(model: &Model<'_>, cutting: Cutting, counts: [u32; 3]) -> Placement {
    // Without a core set the CPU's share is zero, so any processor will do.
    let cores = model.core_sets.get(cutting.cores as usize);
    let cores = cores.map_or(Processor::NPU, |&cores| Processor::Cpu(cores));
    let [cpu, gpu, npu] = counts;
    Placement::cut(cutting.axis, [(cores, cpu), (Processor::NPU, npu), (Processor::Gpu, gpu)])
}
