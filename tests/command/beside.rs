//! Background load beside a scenario.

use std::fs;

use crate::{coexec_in, words};

const GAME: &str = "
[background]
title = \"a game\"
source = \"test\"
frames_per_second = 60
gpu_us = 3000
batches = 8
gpu_bytes = 2e7
cpu_gbps = 5.0
";

fn scenario(device: &str, background: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let content = format!(
        "title = \"VGG-16\"\nnetwork = \"vgg16\"\ndevice = \"{device}\"\nstrategy = \"gpu-only\"\n{background}"
    );
    fs::write(folder.path().join("game.toml"), content).unwrap();
    folder
}

#[test]
fn a_scenario_tells_what_a_game_and_a_network_do_to_each_other() {
    let folder = scenario("snapdragon-8gen3", GAME);
    let outcome = coexec_in(folder.path(), words("simulate game.toml"));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("beside it, a game:"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("% of its speed are lost"), "{}", outcome.stdout);
    let outcome = coexec_in(folder.path(), words("simulate game.toml --json"));
    let document = outcome.json();
    let (prediction, beside) = (&document["prediction"], &document["prediction"]["background"]);
    assert_eq!(beside["late_frames"].as_u64(), Some(1), "the GPU is never free for a frame: {beside}");
    assert!(beside["slowdown_percent"].as_f64().unwrap() > 0.0, "{beside}");
    assert!(
        prediction["latency_ps"].as_u64().unwrap() > beside["latency_alone_ps"].as_u64().unwrap(),
        "{beside}"
    );
}

#[test]
fn a_language_model_beside_a_game_tells_of_prompt_and_answer() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = coexec_in(folder.path(), words("simulate llama3-8b-beside-game --json"));
    let document = outcome.json();
    for phase in ["prefill", "decode"] {
        let report = &document["beside"][phase];
        assert!(report["achieved_frames_per_second"].as_f64().unwrap() > 0.0, "{report}");
        assert!(report["slowdown_percent"].as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn an_impossible_game_is_refused_by_its_key() {
    for (device, background, key) in [
        ("snapdragon-8gen3", GAME.replace("batches = 8", "batches = 0"), "background.batches"),
        ("snapdragon-8gen3", GAME.replace("= 60", "= 0"), "background.frames_per_second"),
        (
            "snapdragon-8gen3",
            GAME.replace("batches = 8", "batches = 8\nqueue_depth = 65"),
            "background.queue_depth",
        ),
        ("apple-m1", GAME.to_owned(), "background.gpu_us"),
    ] {
        let folder = scenario(device, &background);
        let outcome = coexec_in(folder.path(), words("simulate game.toml"));
        outcome.assert_refused(&[key]);
    }
}
