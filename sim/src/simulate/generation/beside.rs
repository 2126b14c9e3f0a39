//! A language model beside a background load.
//!
//! Responsible for: whole steps, all layers one after another, with frames between. Not
//! for: rates without company (`generation`), whose shortcut of one layer for all of
//! them has no place here: each layer meets the frames at another time.

use serde::Serialize;

use super::written::append;
use super::{GenerationPlan, Graphs, StepPlan};
use crate::device::profile::Profile;
use crate::kernel::cpu::Library;
use crate::plan::{Placement, Plan};
use crate::simulate::{BackgroundReport, BackgroundWork, SimulateError, Simulator};
use crate::workload::{LanguageTask, Stage, StepStages};

/// Tokens generated beside the background, at most: dozens of frames.
const MOST_TOKENS: u32 = 16;

/// What became of a language task and of the work beside it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GenerationBeside {
    /// While the first prompt is read.
    pub prefill: BackgroundReport,
    /// While the first tokens of its answer are generated.
    pub decode: Option<BackgroundReport>,
}

/// What `task` and `work` do to each other on `device` under `plan`: the first prompt, and
/// the first tokens of its answer.
///
/// # Errors
/// The plan is for another task, or the device lacks a processor or kernel it uses.
///
/// # Panics
/// Never: what runs beside work reports on it.
pub fn generate_beside(
    device: &Profile,
    library: Library,
    task: &LanguageTask,
    plan: &GenerationPlan,
    work: &BackgroundWork,
) -> Result<GenerationBeside, SimulateError> {
    let variant = plan.device(device);
    let mut simulator = Simulator::new(&variant, library).inside().beside(Some(work));
    let mut run = |chain: TokenSequence, graphs: Graphs| {
        simulator.take_steps(graphs.are_of_steps());
        let whole = Plan::new(plan.synchronisation, chain.placements);
        let background = simulator.run(&chain.stages, &whole)?.background;
        Ok::<_, SimulateError>(background.expect("the simulator runs plans beside the work"))
    };
    let prefill = plan.prefill_plan(task, 0)?;
    let mut prompt = TokenSequence::default();
    let graphs = plan.graphs_of(prefill);
    let (step, times) = graphs.prefill_steps(task, 0);
    for _ in 0..times {
        prompt.step(&graphs.stages(task, step), prefill, task.model.layers);
    }
    let prefill = run(prompt, graphs)?;
    let mut answer = TokenSequence::default();
    let graphs = plan.graphs_of(&plan.decode);
    let tokens = task.turns.first().map_or(0, |turn| turn.generated_tokens);
    for token in 0..tokens.min(MOST_TOKENS) {
        let step = graphs.decode_step(task, 0, token);
        answer.step(&graphs.stages(task, step), &plan.decode, task.model.layers);
    }
    let decode = if answer.stages.is_empty() { None } else { Some(run(answer, graphs)?) };
    Ok(GenerationBeside { prefill, decode })
}

/// Stages one after another, each part reading the result of the one before.
#[derive(Default)]
struct TokenSequence {
    stages: Vec<Stage>,
    placements: Vec<Placement>,
}

impl TokenSequence {
    fn step(&mut self, stages: &StepStages, plan: &StepPlan, layers: u32) {
        let counts = [1, layers, 1];
        for ((stages, placements), count) in stages.parts().into_iter().zip(plan.parts()).zip(counts) {
            for _ in 0..count {
                self.part(stages, placements);
            }
        }
    }

    fn part(&mut self, stages: &[Stage], placements: &[Placement]) {
        let offset = append(&mut self.stages, stages);
        if let Some(first) = self.stages.get_mut(offset) {
            first.inputs.extend(offset.checked_sub(1));
        }
        self.placements.extend_from_slice(placements);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::quantity::Quantity;
    use crate::explore::Strategy;
    use crate::explore::language::plan_language;
    use crate::plan::synchronisation::Mechanism;
    use crate::workload::{Turn, WeightFormat, language_model};

    /// The game of the bundled scenario.
    fn game() -> BackgroundWork {
        BackgroundWork {
            title: "game".to_owned(),
            source: "test".to_owned(),
            frames_per_second: Quantity::plain(60.0),
            gpu_us: Quantity::plain(2600.0),
            batches: 7,
            gpu_bytes: Quantity::plain(2e7),
            cpu_gbps: Quantity::plain(6.0),
            queue_depth: None,
        }
    }

    /// Frames a second and the loss of speed, in prefill and decode.
    fn beside(strategy: Strategy) -> [(f64, f64); 2] {
        let device = Profile::load("snapdragon-8gen3").unwrap();
        let model = language_model("llama3-8b").unwrap();
        let turn = Turn { prompt_tokens: 256, generated_tokens: 8 };
        let task = LanguageTask::single(model, WeightFormat::W4a16, turn);
        let library = Library::default_for(&device.cpu);
        let plan = plan_language(&device, library, &task, strategy, Mechanism::SleepThenPoll).unwrap();
        let found = generate_beside(&device, library, &task, &plan, &game()).unwrap();
        [found.prefill, found.decode.unwrap()]
            .map(|report| (report.achieved_frames_per_second.unwrap(), report.slowdown_percent))
    }

    #[test]
    fn a_prompt_read_by_the_gpu_alone_stops_the_game_and_an_answer_slows_it() {
        // HeteroInfer, section 5.7: no frame a second while reading, 46 while answering.
        let [(reading, _), (answering, _)] = beside(Strategy::GpuOnly);
        assert!(reading < 2.0, "{reading}");
        assert!((42.0..52.0).contains(&answering), "{answering}");
    }

    #[test]
    fn with_products_on_the_npu_the_game_keeps_its_frames() {
        // HeteroInfer, section 5.7: 0.5 % slower.
        let [(frames, slowdown), _] = beside(Strategy::HeteroLayer);
        assert!((frames - 60.0).abs() < 1e-9, "{frames}");
        assert!((0.2..0.8).contains(&slowdown), "{slowdown}");
    }

    #[test]
    fn a_shared_answer_loses_a_sixth_of_its_speed_and_the_game_no_frame() {
        // HeteroInfer, section 5.7: 17.7 %.
        let [_, (frames, slowdown)] = beside(Strategy::HeteroTensor);
        assert!((frames - 60.0).abs() < 1e-9, "{frames}");
        assert!((15.0..20.0).contains(&slowdown), "{slowdown}");
    }
}
