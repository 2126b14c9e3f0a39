//! Inputs whose cost was once quadratic: time and memory grow linearly with their size.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Instant;

use crate::{coexec, coexec_in, words};

/// The shortest time of three runs.
fn seconds(folder: &Path, line: &str) -> f64 {
    let run = || {
        let start = Instant::now();
        assert_eq!(coexec_in(folder, words(line)).status, 0, "{line}");
        start.elapsed().as_secs_f64()
    };
    (0..3).map(|_| run()).fold(f64::INFINITY, f64::min)
}

/// Asserts that ten times the input takes at most `MAX_GROWTH` times as long. Quadratic growth took at least
/// 60 times as long; linear growth takes less than ten times as long, as starting the command takes
/// constant time.
fn assert_grows(line: &str, write: impl Fn(&Path, usize), size: usize) {
    const MAX_GROWTH: f64 = 30.0;
    let times = [size, 10 * size].map(|size| {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), size);
        seconds(folder.path(), line)
    });
    assert!(times[1] <= MAX_GROWTH * times[0], "{line}: {times:?} s");
}

#[test]
fn validation_grows_with_the_rows() {
    let write = |folder: &Path, rows: usize| {
        let mut text =
            "run,network,operator,inputs,linked,data_type,processor,synchronisation,kernel,dispatch,\
                        repetition,measured_us,outlier,fingerprint\n"
                .to_owned();
        for row in 0..rows {
            let linear = format!("rows = {}, input_features = 64, output_features = 64", 1 + row % 64);
            let operator = format!("{{ name = \"\"x\"\", linear = {{ {linear} }} }}");
            writeln!(text, "r{row},n{row},\"{operator}\",,,f32,1large,,,,0,100,false,here").unwrap();
        }
        fs::write(folder.join("runs.csv"), text).unwrap();
        let here = "[[fingerprint]]\nid = \"here\"\ndevice = \"x\"\ntool_version = \"0\"\ndriver = \"d\"\n\
                    affinity = \"a\"\ndate = \"2026-11-21\"\n";
        fs::write(folder.join("runs.fingerprints.toml"), here).unwrap();
    };
    assert_grows("-q validate --profile pixel4 --runs runs.csv", write, 4_000);
}

#[test]
fn the_search_grows_with_the_operators() {
    let write = |folder: &Path, operators: usize| {
        let mut text = "title = \"t\"\n".to_owned();
        for operator in 0..operators {
            let linear = "linear = { rows = 8, input_features = 64, output_features = 64 }";
            write!(text, "[[operator]]\nname = \"o{operator}\"\n{linear}\n").unwrap();
        }
        fs::write(folder.join("chain.toml"), text).unwrap();
    };
    assert_grows("-q explore chain.toml --strategy optimal --json", write, 200);
}

fn conversation(folder: &Path, turns: usize, tokens: u32) {
    let turn = format!("[[language_model.turn]]\nprompt_tokens = 1\ngenerated_tokens = {tokens}\n");
    let text = format!(
        "title = \"t\"\ndevice = \"snapdragon-8gen3\"\n[language_model]\nmodel = \"internlm2-1.8b\"\n{}",
        turn.repeat(turns)
    );
    fs::write(folder.join("talk.toml"), text).unwrap();
}

#[test]
fn a_conversation_grows_with_its_turns() {
    assert_grows("-q simulate talk.toml --json", |folder, turns| conversation(folder, turns, 20), 60);
}

#[test]
fn a_conversation_of_more_than_a_day_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    conversation(folder.path(), 1_000, 10_000);
    coexec_in(folder.path(), words("-q simulate talk.toml")).assert_refused(&["takes more than a day"]);
}

#[test]
fn an_impossibly_large_array_is_refused_by_its_key_and_limit() {
    let folder = tempfile::tempdir().unwrap();
    let profile = coexec(["devices", "snapdragon-8gen3"]).stdout;
    let large = profile.replace("array_dimension = 32", "array_dimension = 1048576");
    assert_ne!(profile, large);
    fs::write(folder.path().join("large.toml"), large).unwrap();
    coexec_in(folder.path(), words("simulate vit-b32-fc1 --device large.toml")).assert_refused(&[
        "array_dimension",
        "1048576",
        "from 1 to 4096",
    ]);
}
