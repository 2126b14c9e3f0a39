//! Language models: a whole answer without and with its timeline, and the planner.

#![allow(missing_docs, clippy::unwrap_used, reason = "the name of a benchmark documents it")]

use std::hint::black_box;

use coexec_sim::device::Profile;
use coexec_sim::explore::{Strategy, plan_language};
use coexec_sim::kernel::Library;
use coexec_sim::plan::Mechanism;
use coexec_sim::simulate::{Conversation, generate, generation_timeline};
use coexec_sim::workload::{LanguageTask, Turn, WeightFormat, language_model};
use criterion::{Criterion, criterion_group, criterion_main};

const STRATEGY: Strategy = Strategy::HeteroTensor;
const MECHANISM: Mechanism = Mechanism::SleepThenPoll;

fn task(prompt_tokens: u32, generated_tokens: u32) -> LanguageTask {
    let model = language_model("llama3-8b").unwrap();
    LanguageTask::single(model, WeightFormat::W4a16, Turn { prompt_tokens, generated_tokens })
}

/// Llama-3-8B with a prompt of 1024 tokens and 256 generated: should take under 5 ms without a
/// timeline, under 50 ms with one.
fn answer(criterion: &mut Criterion) {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let task = task(1024, 256);
    let plan =
        plan_language(Conversation::new(&device, Library::Xnnpack, &task), STRATEGY, MECHANISM).unwrap();
    criterion.bench_function("generate/llama3-8b/1024+256", |bencher| {
        bencher.iter(|| {
            generate(Conversation::new(&device, Library::Xnnpack, black_box(&task)), &plan).unwrap()
        });
    });
    criterion.bench_function("generation_timeline/llama3-8b/1024+256", |bencher| {
        bencher.iter(|| {
            generation_timeline(Conversation::new(&device, Library::Xnnpack, black_box(&task)), &plan)
                .unwrap()
        });
    });
}

/// Plans for every static prompt length of one model, with one generated token: should take under a
/// second (`HeteroInfer`'s profiler takes 20 minutes).
fn solver(criterion: &mut Criterion) {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let lengths = device.systolic().unwrap().graph_sizes.clone();
    criterion.bench_function("plan_language/llama3-8b/all-standard-lengths", |bencher| {
        bencher.iter(|| {
            for &tokens in &lengths {
                let task = task(tokens, 1);
                plan_language(
                    Conversation::new(&device, Library::Xnnpack, black_box(&task)),
                    STRATEGY,
                    MECHANISM,
                )
                .unwrap();
            }
        });
    });
}

criterion_group!(benches, answer, solver);
criterion_main!(benches);
