use super::*;
use crate::explore::{Effort, SearchOptions, Strategy};
use crate::kernel::Library;
use crate::plan::Mechanism;
use crate::simulate::Measure;
use crate::units::Bytes;
use crate::workload::{LanguageTask, Turn, WeightFormat, fuse, language_model, network};

const SECOND: Picos = Picos(1_000_000_000_000);

fn application(name: &str, device: &Profile, arrivals: Arrivals, deadline_ms: Option<f64>) -> Application {
    let model = ModelJob {
        stages: fuse(&network(name).unwrap()),
        library: Library::default_for(&device.cpu),
        measure: Measure::Inference,
        options: SearchOptions {
            strategy: Strategy::Optimal,
            effort: Effort::Quick,
            ..SearchOptions::on(device)
        },
        plan: None,
    };
    Application {
        name: name.to_owned(),
        job: Job::Model(model),
        arrivals,
        backpressure: Backpressure::Queue,
        queue_depth: 15,
        deadline: deadline_ms.map(|ms| Picos::from_micros(1e3 * ms)),
    }
}

fn every(period_ms: f64) -> Arrivals {
    Arrivals { period_ms: Some(period_ms), ..Arrivals::default() }
}

fn of(applications: Vec<Application>, seed: u64) -> Applications {
    Applications { applications, duration: Picos(SECOND.0 / 2), seed }
}

#[test]
fn joint_plans_are_never_worse_than_separate_ones() {
    for (device, rates) in [("snapdragon-8gen3", &[(1, 400.0)][..]), ("pixel4", &[(1, 20.0), (2, 100.0)])] {
        let device = Profile::load(device).unwrap();
        for &(seed, rate) in rates {
            let random = Arrivals { rate_per_second: Some(rate), ..Arrivals::default() };
            let applications = of(
                vec![
                    application("mobilenet-v2", &device, random, Some(10.0)),
                    application("vit-b32-mlp", &device, every(4.0), (seed > 1).then_some(4.0)),
                ],
                seed,
            );
            let together = explore_applications(&device, &applications).unwrap();
            assert!(together.found.cost <= together.as_if_alone.cost, "{:?}", together.found.cost);
            assert!(together.considered > 1);
            let again = simulate_applications(&device, &applications).unwrap();
            assert_eq!(
                again.served, together.as_if_alone.served,
                "what is simulated has the plans made alone"
            );
        }
    }
}

#[test]
fn models_that_one_processor_cannot_serve_get_separate_processors() {
    // Alone, both are fastest on the NPU, which MobileNetV2 by itself keeps busy.
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let applications = of(
        vec![
            application("mobilenet-v2", &device, every(0.42), Some(0.84)),
            application("vit-b32-mlp", &device, every(0.95), Some(1.9)),
        ],
        0,
    );
    let JointPlans { found, as_if_alone, .. } = explore_applications(&device, &applications).unwrap();
    assert!(as_if_alone.cost.deadline_miss_percent > 10.0, "{:?}", as_if_alone.cost);
    assert!(found.cost.deadline_miss_percent < 1.0, "{:?}", found.cost);
}

/// A language model of eight bits that is asked once, by `strategy` if it is alone.
fn assistant(name: &str, device: &Profile, strategy: Option<Strategy>) -> Application {
    let turn = Turn { prompt_tokens: 256, generated_tokens: 8 };
    let model = LanguageJob {
        task: LanguageTask::single(language_model(name).unwrap(), WeightFormat::Int8, turn),
        library: Library::default_for(&device.cpu),
        strategy,
        synchronisation: Mechanism::SvmPolling,
        plan: None,
    };
    Application { job: Job::Language(model), ..application("vit-b32-mlp", device, every(60_000.0), None) }
}

#[test]
fn models_that_fit_the_memory_together_are_given_plans_with_which_they_do() {
    let device = Profile::load("oneplus11").unwrap();
    let both = ["llama2-7b", "llama3-8b"];
    let twice = both.map(|name| assistant(name, &device, Some(Strategy::NpuPrefill)));
    let JointPlans { found, as_if_alone, .. } =
        explore_applications(&device, &of(twice.to_vec(), 0)).unwrap();
    assert!(as_if_alone.cost.exceeds_memory && as_if_alone.memory().fits(&device) == Some(false));
    assert!(!found.cost.exceeds_memory, "{}", found.memory().peak());
    assert!(found.plans.iter().all(|plan| plan.memory.extra() == Bytes::ZERO), "neither model fits twice");
}

#[test]
fn a_language_model_alone_has_the_plan_that_is_advised_for_it() {
    // The NPU alone is almost as fast as with another processor, with half of the weights.
    let device = Profile::load("oneplus11").unwrap();
    let alone = of(vec![assistant("llama3-8b", &device, None)], 0);
    let plans = simulate_applications(&device, &alone).unwrap().plans;
    assert_eq!(plans[0].origin, "npu-graphs");
}

#[test]
fn a_given_plan_is_kept() {
    let device = Profile::load("pixel4").unwrap();
    let mut given = application("mobilenet-v2", &device, every(5.0), None);
    let Job::Model(model) = &mut given.job else { unreachable!("it is a model") };
    let placements = vec![crate::Placement::GPU; model.stages.len()];
    let plan = crate::Plan::new(model.options.synchronisation, placements);
    model.plan = Some(plan.clone());
    let other = application("vit-b32-mlp", &device, every(5.0), None);
    let together = explore_applications(&device, &of(vec![given, other], 0)).unwrap();
    assert_eq!(together.found.plans[0].plan, Some(plan));
}

#[test]
fn a_search_ends_where_further_choices_have_too_many_commands() {
    let device = Profile::load("snapdragon-8gen3").unwrap();
    let both = ["mobilenet-v2", "vit-b32-mlp"].map(|name| application(name, &device, every(5.0), Some(5.0)));
    let applications = of(both.to_vec(), 0);
    let search = || Search::new(&device, &applications, |one| one.candidates(&device)).unwrap();
    let whole = search().run().unwrap();
    assert!(whole.is_complete && whole.considered > 3);
    let ended = Search { left: 0, ..search() }.run().unwrap();
    assert_eq!((ended.is_complete, ended.considered), (false, 1));
    assert_eq!(ended.found.served, whole.as_if_alone.served);
}
