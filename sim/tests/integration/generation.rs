//! A language task against one engine run of all its operators.

use coexec_sim::device::Profile;
use coexec_sim::explore::{Strategy, plan_language};
use coexec_sim::kernel::Library;
use coexec_sim::plan::{Mechanism, Placement, Plan};
use coexec_sim::simulate::{Conversation, Simulator, generate, generation_timeline};
use coexec_sim::units::Picos;
use coexec_sim::workload::{
    GraphContexts, LanguageModel, LanguageTask, Read, Stage, TokenStep, Turn, WeightFormat,
};

fn task() -> LanguageTask {
    let model = LanguageModel {
        name: "small".to_owned(),
        layers: 3,
        features: 512,
        heads: 8,
        key_value_heads: 2,
        head_features: 64,
        feed_forward_features: 1536,
        vocabulary: 32000,
        tied_embedding: true,
        attention_bias: false,
        max_context: None,
        graph_contexts: GraphContexts::One,
    };
    let turn = Turn { prompt_tokens: 96, generated_tokens: 5 };
    LanguageTask::single(model, WeightFormat::W4a16, turn)
}

/// All layers of a step, one after another, as one workload.
fn unrolled(task: &LanguageTask, step: TokenStep, plan: [&[Placement]; 3]) -> (Vec<Stage>, Vec<Placement>) {
    let stages = task.stages(step);
    let (mut all, mut placements): (Vec<Stage>, Vec<Placement>) = (Vec::new(), Vec::new());
    let counts = [1, task.model.layers, 1];
    for ((part, placed), count) in stages.parts().into_iter().zip(plan).zip(counts) {
        for _ in 0..count {
            let offset = all.len();
            all.extend(part.iter().map(|stage| {
                let mut stage = stage.renumbered(|input| Some(input + offset));
                if stage.reads.len() < stage.input_count && stage.name == "attention-norm"
                    || stage.name == "last-norm"
                {
                    stage.reads.push(Read { position: 0, input: offset - 1 });
                }
                stage
            }));
            placements.extend_from_slice(placed);
        }
    }
    (all, placements)
}

#[test]
fn one_layer_counted_often_is_all_layers_run_at_once() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let task = task();
    for strategy in [Strategy::GpuOnly, Strategy::HeteroLayer, Strategy::HeteroTensor] {
        let mechanism = Mechanism::SleepThenPoll;
        let plan =
            plan_language(Conversation::new(&device, Library::Xnnpack, &task), strategy, mechanism).unwrap();
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        let mut total = Picos::ZERO;
        let mut run = |step, parts: [&[Placement]; 3]| {
            let (stages, placements) = unrolled(&task, step, parts);
            total += simulator.latency(&stages, &Plan::new(mechanism, placements)).unwrap();
        };
        run(task.prefill(0), plan.prefill[0].parts());
        let first = task.first_decode(0);
        for token in 0..5 {
            run(TokenStep { context: first.context + token, ..first }, plan.decode.parts());
        }
        let generation = generate(Conversation::new(&device, Library::Xnnpack, &task), &plan).unwrap();
        // Rounding decides on which picosecond flows that share the memory end.
        let difference = generation.latency.0.abs_diff(total.0);
        assert!(difference <= 64, "{}: {difference} ps", strategy.name());
    }
}

#[test]
fn the_timeline_ends_when_the_answer_does() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let task = task();
    let strategy = Strategy::HeteroTensor;
    let plan = plan_language(
        Conversation::new(&device, Library::Xnnpack, &task),
        strategy,
        Mechanism::SleepThenPoll,
    )
    .unwrap();
    let generation = generate(Conversation::new(&device, Library::Xnnpack, &task), &plan).unwrap();
    let timeline = generation_timeline(Conversation::new(&device, Library::Xnnpack, &task), &plan).unwrap();
    assert_eq!(timeline.end, generation.latency);
    for track in &timeline.tracks {
        assert!(track.slices.is_sorted_by_key(|slice| slice.start), "{}", track.name);
        assert!(track.slices.iter().all(|slice| slice.end <= timeline.end), "{}", track.name);
    }
}
