//! For any text of a profile, a scenario or a plan, the library returns an error or a
//! finite prediction; it never panics.

use std::ops::Range;

use coexec_sim::device::Profile;
use coexec_sim::explore::{Effort, Objective, SearchOptions, Strategy as Search, explore};
use coexec_sim::input::Text;
use coexec_sim::kernel::{CoreSet, Library};
use coexec_sim::plan::{Mechanism, Plan, PlanFile};
use coexec_sim::scenario::{Overrides, Scenario, Workload};
use coexec_sim::simulate::{Prediction, Simulator, planned_stages, sample, timeline};
use coexec_sim::units::Picos;
use coexec_sim::workload::Stage;
use proptest::prelude::*;
use proptest::sample::Index;

const PROFILES: [&str; 3] = [
    include_str!("../../../device-profiles/oneplus11.toml"),
    include_str!("../../../device-profiles/pixel4.toml"),
    include_str!("../../../device-profiles/snapdragon-8gen3.toml"),
];

/// Every kind of operator once, small.
const EVERY_OPERATOR: &str = include_str!("../inputs/every_operator.toml");

const SCENARIOS: [&str; 4] = [
    include_str!("../../../scenarios/vit-b32-fc1.toml"),
    include_str!("../../../scenarios/conv3x3-64x64x128.toml"),
    include_str!("../../../scenarios/llama3-8b-ffn-down.toml"),
    EVERY_OPERATOR,
];

/// Numbers at and beyond the limits of any key.
const EXTREMES: [&str; 20] = [
    "0",
    "-1",
    "1",
    "2",
    "3",
    "7",
    "0.5",
    "65535",
    "16777216",
    "4294967295",
    "4294967296",
    "18446744073709551615",
    "9223372036854775807",
    "1e-300",
    "1e-9",
    "1e9",
    "1e308",
    "-1e308",
    "nan",
    "inf",
];

/// One corruption of a text.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(Index, u8),
    DeleteLine(Index),
    RepeatLine(Index),
    SwapLines(Index, Index),
    Number(Index, &'static str),
    Truncate(Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let index = any::<Index>;
    prop_oneof![
        2 => (index(), any::<u8>()).prop_map(|(at, bits)| Mutation::Flip(at, bits)),
        1 => index().prop_map(Mutation::DeleteLine),
        1 => index().prop_map(Mutation::RepeatLine),
        1 => (index(), index()).prop_map(|(one, other)| Mutation::SwapLines(one, other)),
        12 => (index(), proptest::sample::select(&EXTREMES[..]))
            .prop_map(|(at, number)| Mutation::Number(at, number)),
        1 => index().prop_map(Mutation::Truncate),
    ]
}

/// Byte ranges of the numbers after a `=`, a `[` or a `,`.
fn numbers(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let starts = bytes[at].is_ascii_digit() && at > 0 && matches!(bytes[at - 1], b' ' | b'[');
        let end = (at..bytes.len())
            .find(|&end| !matches!(bytes[end], b'0'..=b'9' | b'.' | b'e' | b'-' | b'_'))
            .unwrap_or(bytes.len());
        if starts {
            found.push(at..end);
        }
        at = end.max(at + 1);
    }
    found
}

fn mutated(text: &str, mutations: &[Mutation]) -> String {
    let mut text = text.to_owned();
    for mutation in mutations {
        if text.is_empty() {
            break;
        }
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        match mutation {
            Mutation::Flip(at, bits) => {
                let mut bytes = text.into_bytes();
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
                text = String::from_utf8_lossy(&bytes).into_owned();
                continue;
            }
            Mutation::Truncate(at) => {
                let at = text.floor_char_boundary(at.index(text.len()));
                text.truncate(at);
                continue;
            }
            Mutation::Number(at, number) => {
                let numbers = numbers(&text);
                if !numbers.is_empty() {
                    text.replace_range(numbers[at.index(numbers.len())].clone(), number);
                }
                continue;
            }
            Mutation::DeleteLine(at) => {
                lines.remove(at.index(lines.len()));
            }
            Mutation::RepeatLine(at) => {
                let at = at.index(lines.len());
                lines.insert(at, lines[at].clone());
            }
            Mutation::SwapLines(one, other) => {
                let (one, other) = (one.index(lines.len()), other.index(lines.len()));
                lines.swap(one, other);
            }
        }
        text = lines.join("\n");
    }
    text
}

fn named(content: &str) -> Text {
    Text { name: "mutated.toml".to_owned(), content: content.to_owned() }
}

fn stages(scenario: Scenario) -> Vec<Stage> {
    match scenario.workload {
        Workload::Model(stages) | Workload::Set(stages) => stages,
        Workload::Language(task) => planned_stages(&task),
        Workload::Applications(_) => Vec::new(),
    }
}

fn every_operator() -> Vec<Stage> {
    let text = named(EVERY_OPERATOR);
    stages(Scenario::parse("every-operator", &text, &Overrides::default()).unwrap())
}

/// A coarse search, so that a case takes milliseconds.
fn options(device: &Profile, strategy: Search) -> SearchOptions {
    SearchOptions {
        strategy,
        objective: Objective::Latency,
        synchronisation: Mechanism::SvmPolling,
        core_sets: (1..=3).filter_map(|threads| CoreSet::fastest(&device.cpu, threads)).collect(),
        step: 64,
        effort: Effort::default(),
    }
}

fn assert_finite(prediction: &Prediction) {
    assert!(prediction.latency < Picos::MAX, "the run ends");
    assert!(prediction.bandwidth.0.is_finite() && prediction.bandwidth.0 >= 0.0);
    assert!(prediction.energy.is_none_or(|energy| energy.0.is_finite() && energy.0 >= 0.0));
    for usage in &prediction.processors {
        assert!(usage.busy <= prediction.latency, "{usage:?}");
        assert!(usage.energy.is_none_or(|energy| energy.0.is_finite()));
    }
    for stage in &prediction.stages {
        assert!(stage.start <= stage.finish && stage.finish <= prediction.latency);
    }
}

/// Runs everything that a command would run; errors are fine, panics are not.
fn exercise(device: &Profile, stages: &[Stage]) {
    let runs = [
        (Library::Xnnpack, Search::ChannelSplit, Objective::Latency),
        (Library::Ruy, Search::ChannelSplit, Objective::Edp),
        (Library::Xnnpack, Search::CpuOnly, Objective::Latency),
        (Library::Xnnpack, Search::GpuOnly, Objective::Latency),
        (Library::Xnnpack, Search::NpuOnly, Objective::Latency),
    ];
    for (library, strategy, objective) in runs {
        let mut simulator = Simulator::new(device, library);
        let options = SearchOptions { objective, ..options(device, strategy) };
        let Ok(answer) = explore(&mut simulator, stages, &options) else { continue };
        assert_finite(&answer.prediction);
        follow(&mut simulator, stages, &answer.plan);
    }
}

/// Simulates a plan with each mechanism, as `simulate` does.
fn follow(simulator: &mut Simulator<'_>, stages: &[Stage], plan: &Plan) {
    for &synchronisation in Mechanism::ALL {
        let plan = Plan { synchronisation, ..plan.clone() };
        if let Ok(prediction) = simulator.run(stages, &plan) {
            assert_finite(&prediction);
        }
        if let Ok(timeline) = timeline(simulator, stages, &plan) {
            assert!(timeline.end < Picos::MAX);
        }
        if let Ok(samples) = sample(simulator, stages, &plan, 2, 7) {
            assert!(samples.mean < Picos::MAX);
        }
    }
}

fn cases() -> ProptestConfig {
    ProptestConfig {
        cases: 200,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_damaged_profile_is_refused_or_predicts_finite_times(
        which in 0..PROFILES.len(),
        mutations in proptest::collection::vec(mutation(), 1..4),
    ) {
        let text = named(&mutated(PROFILES[which], &mutations));
        match Profile::parse(&text) {
            Ok(device) => exercise(&device, &every_operator()),
            Err(error) => prop_assert!(!error.help().is_empty(), "{}", error),
        }
    }

    #[test]
    fn a_damaged_scenario_is_refused_or_predicts_finite_times(
        which in 0..SCENARIOS.len(),
        mutations in proptest::collection::vec(mutation(), 1..4),
    ) {
        let text = named(&mutated(SCENARIOS[which], &mutations));
        match Scenario::parse("mutated", &text, &Overrides { step: Some(1 << 20), ..Overrides::default() }) {
            Ok(scenario) => exercise(&scenario.device.clone(), &stages(scenario)),
            Err(error) => prop_assert!(!error.help().is_empty(), "{}", error),
        }
    }

    #[test]
    fn a_damaged_plan_is_refused_or_predicts_finite_times(
        which in 0..PROFILES.len(),
        mutations in proptest::collection::vec(mutation(), 1..4),
    ) {
        let device = Profile::parse(&named(PROFILES[which])).unwrap();
        let stages = every_operator();
        let mut simulator = Simulator::new(&device, Library::Xnnpack);
        let answer = explore(&mut simulator, &stages, &options(&device, Search::ChannelSplit)).unwrap();
        let written = toml::to_string(&PlanFile::new("every-operator", &device, &stages, &answer.plan)).unwrap();
        let text = named(&mutated(&written, &mutations));
        match text.parse::<PlanFile>().and_then(|file| file.resolve(&text, &stages, &device)) {
            Ok(plan) => follow(&mut simulator, &stages, &plan),
            Err(error) => prop_assert!(!error.help().is_empty(), "{}", error),
        }
    }
}

#[test]
fn every_operator_runs_on_every_bundled_device() {
    for profile in PROFILES {
        exercise(&Profile::parse(&named(profile)).unwrap(), &every_operator());
    }
}

#[test]
fn a_window_of_more_positions_than_32_bits_count_is_no_panic() {
    let device = Profile::parse(&named(PROFILES[0])).unwrap();
    for kind in [
        "conv2d = { input = [131072, 131072, 1], output_channels = 1, kernel = [131072, 131072] }",
        "depthwise_conv2d = { input = [131072, 131072, 1], kernel = [131072, 131072] }",
    ] {
        let text = named(&format!("title = \"huge\"\n[[operator]]\nname = \"window\"\n{kind}\n"));
        exercise(&device, &stages(Scenario::parse("huge", &text, &Overrides::default()).unwrap()));
    }
}
