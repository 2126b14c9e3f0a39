use super::Strategy as S;
use super::*;
use crate::device::{ProcessorKind, Profile};
use crate::kernel::Library;
use crate::simulate::Footprint;
use crate::units::Bytes;
use crate::workload::{Turn, WeightFormat, language_model};

const FAST: Mechanism = Mechanism::SleepThenPoll;

/// Times of a prompt and its answer under `mechanism`, with the plan made for fast synchronisation.
fn answer(model: &str, [prompt, generated]: [u32; 2], strategy: S, mechanism: Mechanism) -> Generation {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let turn = Turn { prompt_tokens: prompt, generated_tokens: generated };
    let task = LanguageTask::single(language_model(model).unwrap(), WeightFormat::W4a16, turn);
    let plan = plan_language(Conversation::new(&device, Library::Xnnpack, &task), strategy, FAST).unwrap();
    let plan = GenerationPlan { synchronisation: mechanism, ..plan };
    generate(Conversation::new(&device, Library::Xnnpack, &task), &plan).unwrap()
}

fn prefill(model: &str, prompt: u32, strategy: S, mechanism: Mechanism) -> f64 {
    answer(model, [prompt, 0], strategy, mechanism).turns[0].prefill.tokens_per_second
}

fn decode(model: &str, strategy: S, mechanism: Mechanism) -> f64 {
    let generation = answer(model, [256, 32], strategy, mechanism);
    generation.turns[0].decode.as_ref().unwrap().tokens_per_second
}

#[track_caller]
fn within(found: f64, published: f64, percent: f64) {
    let deviation = 100.0 * (found / published - 1.0);
    assert!(deviation.abs() <= percent, "{found} is {deviation:+.1} % off {published}");
}

#[test]
fn prefill_rates_are_heteroinfers_with_and_without_fast_synchronisation() {
    within(prefill("llama3-8b", 256, S::HeteroTensor, FAST), 236.92, 7.0);
    within(prefill("llama3-8b", 256, S::HeteroTensor, Mechanism::BlockingFinish), 196.44, 7.0);
    within(prefill("llama3-8b", 1024, S::HeteroTensor, FAST), 247.9, 7.0);
    within(prefill("internlm2-1.8b", 256, S::HeteroTensor, FAST), 1092.0, 7.0);
}

#[test]
fn decode_rates_are_heteroinfers_with_one_constant_fitted() {
    for (model, published) in [("llama3-8b", 14.01), ("llama3.2-3b", 29.9), ("internlm2-1.8b", 51.12)] {
        within(decode(model, S::HeteroTensor, FAST), published, 5.0);
    }
}

#[test]
fn sharing_products_beats_assigning_them_as_published() {
    let ratio = decode("llama3-8b", S::HeteroTensor, FAST) / decode("llama3-8b", S::HeteroLayer, FAST);
    within(ratio, 1.22, 15.0);
    let rates = |strategy| [64, 256, 1024].map(|prompt| prefill("llama3-8b", prompt, strategy, FAST));
    let (shared, assigned) = (rates(S::HeteroTensor), rates(S::HeteroLayer));
    let gains = shared.iter().zip(assigned).map(|(shared, assigned)| shared / assigned);
    within(gains.sum::<f64>() / 3.0, 1.302, 15.0);
}

#[test]
fn other_ways_to_run_525_tokens_are_slower_as_published() {
    let best = prefill("llama3-8b", 525, S::HeteroTensor, FAST);
    for (strategy, published) in [(S::NpuOnline, 2.24), (S::NpuPadding, 2.21), (S::NpuPipe, 1.35)] {
        within(best / prefill("llama3-8b", 525, strategy, FAST), published, 15.0);
    }
}

#[test]
fn no_other_strategy_beats_the_solver() {
    for prompt in [32, 135, 256, 300, 525] {
        let best = prefill("internlm2-1.8b", prompt, S::HeteroTensor, FAST);
        // Strategies of whole steps on one processor are outside the solver's candidates.
        for strategy in S::of_language_models()
            .filter(|strategy| !strategy.rules().language.unwrap().steps.compute_whole_steps())
        {
            let rate = prefill("internlm2-1.8b", prompt, strategy, FAST);
            assert!(rate <= 1.001 * best, "{prompt} tokens: {} {rate} over {best}", strategy.name());
        }
    }
}

#[test]
fn the_gpu_takes_two_fifths_of_ffn_down_and_three_quarters_of_a_token() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let task = LanguageTask::single(
        language_model("llama3-8b").unwrap(),
        WeightFormat::W4a16,
        Turn { prompt_tokens: 256, generated_tokens: 1 },
    );
    let plan =
        plan_language(Conversation::new(&device, Library::Xnnpack, &task), S::HeteroTensor, FAST).unwrap();
    let stages = task.stages(task.prefill(0)).layer;
    let fraction = |steps: &[Placement], name: &str| {
        let index = stages.iter().position(|stage| stage.name == name).unwrap();
        assert!(steps[index].is_cut(), "{name} is shared");
        steps[index].fraction(ProcessorKind::Gpu)
    };
    // HeteroInfer, Table 3: 2:3 in prefill, 3:1 in decode.
    within(fraction(&plan.prefill[0].layer, "down"), 0.4, 10.0);
    within(fraction(&plan.decode.layer, "gate-up"), 0.75, 5.0);
}

#[test]
fn a_second_turn_attends_to_the_first_and_reuses_its_online_graphs() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let turn = Turn { prompt_tokens: 64, generated_tokens: 16 };
    let model = language_model("internlm2-1.8b").unwrap();
    let task = LanguageTask { model, weights: WeightFormat::W4a16, turns: vec![turn, turn] };
    let answer =
        explore_language(Conversation::new(&device, Library::Xnnpack, &task), S::NpuOnline, FAST).unwrap();
    let [first, second] = &answer.generation.turns[..] else { panic!("two turns") };
    assert!(first.preparation.0 > 0 && second.preparation.0 == 0);
    assert_eq!(second.context_before, 80);
    assert!(second.prefill.latency + first.preparation > first.prefill.latency);
    assert!(second.time_per_token > first.time_per_token);
}

#[test]
fn a_prompt_read_by_the_npu_is_answered_by_the_faster_of_cpu_and_gpu_with_the_weights_twice() {
    let device = Profile::load("snapdragon-8elite").unwrap();
    let turn = Turn { prompt_tokens: 256, generated_tokens: 8 };
    let model = language_model("llama3.2-3b").unwrap();
    let task = LanguageTask { model, weights: WeightFormat::W4a16, turns: vec![turn, turn] };
    let answer = |strategy| {
        explore_language(Conversation::new(&device, Library::Xnnpack, &task), strategy, FAST).unwrap()
    };
    let [both, npu, cpu, gpu] = [S::NpuPrefill, S::NpuGraphs, S::CpuOnly, S::GpuOnly].map(answer);
    let phases = |answer: &LanguageAnswer, turn: usize| {
        let report = &answer.generation.turns[turn];
        [report.prefill.latency, report.decode.as_ref().unwrap().latency]
    };
    // The KV cache changes its layout each time another processor continues with it.
    let rearranged = |tokens: u32| {
        let bytes = 2.0 * task.model.cache_bytes(tokens) as f64;
        Picos::from_nanos(1e9 * bytes / device.memory.capacity(1).0)
    };
    assert_eq!(phases(&both, 0)[0], phases(&npu, 0)[0]);
    let faster = phases(&cpu, 0)[1].min(phases(&gpu, 0)[1]);
    assert_eq!(phases(&both, 0)[1], faster + rearranged(256));
    assert_eq!(phases(&both, 1)[0], phases(&npu, 1)[0] + rearranged(8));
    let copies = |answer: &LanguageAnswer| Footprint::of_language(&task, &answer.plan).extra_weights_bytes;
    assert_eq!(copies(&both), Footprint::of_language(&task, &both.plan).weights_bytes);
    assert_eq!([&npu, &cpu, &gpu].map(copies), [Bytes::ZERO; 3]);
    assert_eq!(GenerationPlan::of_flat(&task, &both.plan.flat().unwrap()), both.plan);
}

#[test]
fn a_prompt_read_by_the_npu_does_not_wait_longer_for_its_first_token_if_the_answer_is_longer() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let first_token = |strategy, generated_tokens| {
        let turn = Turn { prompt_tokens: 100, generated_tokens };
        let task = LanguageTask::single(language_model("llama3.2-1b").unwrap(), WeightFormat::W4a16, turn);
        let conversation = Conversation::new(&device, Library::Xnnpack, &task);
        let LanguageAnswer { plan, generation, .. } = explore_language(conversation, strategy, FAST).unwrap();
        assert_eq!(GenerationPlan::of_flat(&task, &plan.flat().unwrap()), plan);
        generation.turns[0].prefill.latency
    };
    assert_eq!(first_token(S::NpuPrefill, 256), first_token(S::NpuPrefill, 2048));
    // Graphs that generate the answer, too, are compiled for its context.
    assert!(first_token(S::NpuGraphs, 256) < first_token(S::NpuGraphs, 2048));
}

#[test]
fn the_fastest_answer_that_fits_the_memory_is_advised() {
    let device = Profile::load("oneplus11").unwrap();
    let turn = Turn { prompt_tokens: 256, generated_tokens: 256 };
    let advised = |model| {
        let task = LanguageTask::single(language_model(model).unwrap(), WeightFormat::F16, turn);
        let conversation = Conversation::new(&device, Library::Xnnpack, &task);
        let answers = S::engines().filter_map(|strategy| explore_language(conversation, strategy, FAST).ok());
        let mut answers: Vec<LanguageAnswer> = answers.collect();
        sort_answers(&mut answers, &device, Objective::Latency);
        advise_sure(conversation, &mut answers).unwrap();
        answers
            .iter()
            .map(|answer| (answer.strategy, answer.memory.fits(&device).unwrap()))
            .collect::<Vec<_>>()
    };
    // A phone of 16 GB: the weights of Llama-2-7B fit once, those of Llama-3-8B not even that.
    let answers = advised("llama2-7b");
    assert_eq!((answers[0], answers.last()), ((S::GpuOnly, true), Some(&(S::NpuPrefill, false))));
    let answers = advised("llama3-8b");
    assert!(answers.iter().all(|(_, fits)| !fits));
    assert_ne!(answers[0].0, S::CpuOnly, "the fast ones still come first");
}

#[test]
fn graphs_allocate_the_keys_and_values_of_their_whole_context() {
    let device = Profile::load("oneplus11").unwrap();
    let turn = Turn { prompt_tokens: 2100, generated_tokens: 32 };
    let task = LanguageTask::single(language_model("llama2-7b").unwrap(), WeightFormat::W4a16, turn);
    let results = |strategy| {
        let answer = explore_language(Conversation::new(&device, Library::Xnnpack, &task), strategy, FAST);
        answer.unwrap().memory.activations_bytes
    };
    assert_eq!(results(S::NpuGraphs), Bytes(task.model.cache_bytes(4096)));
    assert_eq!(results(S::GpuOnly), Bytes(task.model.cache_bytes(2132)));
}

#[test]
fn wider_weights_generate_more_slowly() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let rate = |weights| {
        let turn = Turn { prompt_tokens: 32, generated_tokens: 4 };
        let task = LanguageTask::single(language_model("internlm2-1.8b").unwrap(), weights, turn);
        let answer =
            explore_language(Conversation::new(&device, Library::Xnnpack, &task), S::GpuOnly, FAST).unwrap();
        answer.generation.turns[0].decode.as_ref().unwrap().tokens_per_second
    };
    let rates = [WeightFormat::W4a16, WeightFormat::Int8, WeightFormat::F16].map(rate);
    assert!(rates.is_sorted_by(|a, b| a > b), "{rates:?}");
}

#[test]
fn an_npu_takes_products_in_its_static_graphs_whatever_format_the_weights_have() {
    let device = Profile::load("snapdragon-8elite").unwrap();
    for weights in [WeightFormat::W4a16, WeightFormat::Int8, WeightFormat::F16] {
        let turn = Turn { prompt_tokens: 17, generated_tokens: 0 };
        let task = LanguageTask::single(language_model("internlm2-1.8b").unwrap(), weights, turn);
        let conversation = Conversation::new(&device, Library::Xnnpack, &task);
        let takes = |strategy| {
            explore_language(conversation, strategy, FAST).unwrap().generation.turns[0].prefill.latency
        };
        let [chunked, padded] = [S::NpuChunked, S::NpuPadding].map(takes);
        assert!(chunked > padded.times(2), "{weights:?}: {chunked:?}, {padded:?}");
    }
}
