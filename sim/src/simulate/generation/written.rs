//! The plan of a language task as plan files store it: the operators of each turn's prompt and
//! of one generated token, with one layer each.

use super::{GenerationPlan, Graphs, StepPlan};
use crate::plan::{Placement, Plan};
use crate::workload::{LanguageTask, Stage, StepStages};

/// The operators whose placements a plan of `task` holds, in the plan's order. Their names
/// contain the phase: `prefill.q`, `decode.q`, and from the second turn on `turn-2.prefill.q`.
pub fn planned_stages(task: &LanguageTask) -> Vec<Stage> {
    let mut all = Vec::new();
    for turn in 0..task.turns.len() {
        let prefix = if turn == 0 { "prefill".to_owned() } else { format!("turn-{}.prefill", turn + 1) };
        extend(&mut all, &prefix, &task.stages(task.prefill(turn)));
    }
    extend(&mut all, "decode", &task.stages(task.first_decode(0)));
    all
}

/// Appends the stages of a step. The inputs of a stage refer to others of its part.
fn extend(all: &mut Vec<Stage>, prefix: &str, step: &StepStages) {
    for part in step.parts() {
        let offset = all.len();
        all.extend(part.iter().map(|stage| Stage {
            name: format!("{prefix}.{}", stage.name),
            ..stage.renumbered(|input| Some(input + offset))
        }));
    }
}

impl GenerationPlan {
    /// The placements of [`planned_stages`]. `None` where graphs are built online, the NPU runs kernels without
    /// graphs, or the stationary operand is not the profile's: a plan file cannot express these.
    pub fn flat(&self) -> Option<Plan> {
        if [Graphs::MadeOnline, Graphs::Kernels].contains(&self.graphs) || self.order.is_some() {
            return None;
        }
        let steps = self.prefill.iter().chain([&self.decode]);
        let placements = steps.flat_map(StepPlan::parts).flatten().copied().collect();
        Some(Plan::new(self.synchronisation, placements))
    }

    /// The plan with the placements of [`planned_stages`]. Steps whose operators all run on the NPU, including
    /// those between products, are compiled.
    pub fn of_flat(task: &LanguageTask, plan: &Plan) -> Self {
        let mut left = plan.placements.iter().copied();
        let mut step = |stages: &StepStages| {
            let [first, layer, last] =
                stages.parts().map(|part| left.by_ref().take(part.len()).collect::<Vec<Placement>>());
            StepPlan { first, layer, last }
        };
        let prefill: Vec<StepPlan> =
            (0..task.turns.len()).map(|turn| step(&task.stages(task.prefill(turn)))).collect();
        let decode = step(&task.stages(task.first_decode(0)));
        let is_compiled = prefill.iter().chain([&decode]).any(StepPlan::is_npu_alone);
        let graphs =
            if is_compiled { Graphs::compiled(task, decode.is_npu_alone()) } else { Graphs::Standard };
        Self { synchronisation: plan.synchronisation, prefill, decode, graphs, order: None }
    }
}
