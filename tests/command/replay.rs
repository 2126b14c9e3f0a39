//! `simulate` replays a plan that `explore` wrote, to the picosecond.

use crate::{DEVICES, coexec_in, latency_ps, words};

#[test]
fn a_written_plan_is_replayed_to_the_picosecond() {
    let folder = tempfile::tempdir().unwrap();
    for scenario in ["vit-b32-fc1", "vit-b32-mlp", "resnet18"] {
        for device in DEVICES {
            for mechanism in ["blocking-finish", "event-wait", "svm-polling", "sleep-then-poll"] {
                let place = format!("{scenario} --device {device} --synchronisation {mechanism} --json");
                let explored = coexec_in(folder.path(), words(&format!("explore {place} --out plan.toml")));
                let line = format!("simulate {scenario} --device {device} --plan plan.toml --json");
                let replayed = coexec_in(folder.path(), words(&line));
                let (explored, replayed) = (explored.json(), replayed.json());
                assert_eq!(latency_ps(&explored), latency_ps(&replayed), "{place}");
                assert_eq!(explored["prediction"], replayed["prediction"], "{place}");
            }
        }
    }
}

#[test]
fn a_plan_for_the_npu_is_replayed_too() {
    let folder = tempfile::tempdir().unwrap();
    let explored = coexec_in(folder.path(), words("explore llama3-8b-ffn-down --json --out plan.toml"));
    let replayed = coexec_in(folder.path(), words("simulate llama3-8b-ffn-down --plan plan.toml --json"));
    assert_eq!(explored.json()["prediction"], replayed.json()["prediction"]);
}

#[test]
fn without_a_plan_simulate_finds_the_one_explore_finds() {
    let folder = tempfile::tempdir().unwrap();
    let explored = coexec_in(folder.path(), words("explore resnet18 --json"));
    let simulated = coexec_in(folder.path(), words("simulate resnet18 --json"));
    assert_eq!(explored.json()["prediction"], simulated.json()["prediction"]);
}

#[test]
fn a_plan_made_for_another_device_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let line = "explore vit-b32-fc1 --strategy gpu-only --out plan.toml";
    assert_eq!(coexec_in(folder.path(), words(line)).status, 0);
    let line = "simulate vit-b32-fc1 --device pixel4 --plan plan.toml --json";
    let document = coexec_in(folder.path(), words(line)).json();
    assert_eq!(document["device"], "pixel4");
    assert_eq!(document["plan_origin"], "plan plan.toml, which was made for oneplus11");
}
