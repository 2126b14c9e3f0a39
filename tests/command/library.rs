//! The library returns the same number as the command.

use coexec_sim::explore::{Explorer, RandomSearch};
use coexec_sim::{Scenario, Strategy};

use crate::{coexec, latency_ps, words};

#[test]
fn a_scenario_explored_through_the_library_takes_what_the_command_says() {
    for (name, device) in
        [("mobilenet-v2", "pixel4"), ("vit-b32-fc1", "oneplus11"), ("resnet18", "galaxy-s10")]
    {
        let scenario = Scenario::on(name, device).unwrap();
        let answer = scenario.explore().unwrap();
        let line = format!("explore {name} --device {device} --nominal --json");
        assert_eq!(answer.prediction.latency.0, latency_ps(&coexec(words(&line)).json()), "{line}");
    }
}

#[test]
fn random_plans_are_the_same_by_either_way_and_no_better_than_optimal() {
    let mut scenario = Scenario::on("vit-b32-mlp", "oneplus11").unwrap();
    scenario.options.strategy = Strategy::Random;
    let drawn = scenario.explore().unwrap().prediction.latency;
    let line = "explore vit-b32-mlp --device oneplus11 --json --strategy";
    assert_eq!(drawn.0, latency_ps(&coexec(words(&format!("{line} random"))).json()));
    let mut simulator = scenario.simulator();
    let mut explorer = Explorer::new(&mut simulator, scenario.stages(), &scenario.options);
    let more = explorer.random(RandomSearch { plans: 3_000, seed: 0 }).unwrap().prediction.latency;
    assert!(more <= drawn);
    assert!(latency_ps(&coexec(words(&format!("{line} optimal"))).json()) <= more.0);
}
