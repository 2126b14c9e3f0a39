//! The same command prints the same bytes, with any number of jobs.

use crate::{coexec, words};

/// Runs `line` with one job and with four, and asserts that the outputs are equal.
fn stdout(line: &str) -> String {
    let one = coexec(words(&format!("{line} --json --jobs 1")));
    let four = coexec(words(&format!("{line} --json --jobs 4")));
    assert_eq!(one.status, 0, "{}", one.stderr);
    assert_eq!(one.stdout, four.stdout, "{line}");
    one.stdout
}

fn samples(line: &str) -> serde_json::Value {
    let document: serde_json::Value = serde_json::from_str(&stdout(line)).unwrap();
    document["samples"].clone()
}

#[test]
fn an_operator_set_does_not_depend_on_the_number_of_jobs() {
    stdout("explore codl-conv");
}

#[test]
fn a_comparison_of_strategies_does_not_depend_on_the_number_of_jobs() {
    stdout("compare vit-b32-mlp,codl-posenet --devices pixel4,oneplus11 --step 32");
}

#[test]
fn samples_depend_on_their_seed_and_on_no_number_of_jobs() {
    let seven = samples("simulate vit-b32-mlp --samples 50 --seed 7");
    let eight = samples("simulate vit-b32-mlp --samples 50 --seed 8");
    assert_eq!(seven["count"], 50);
    assert_ne!(seven["percentiles_ps"], eight["percentiles_ps"]);
    assert_eq!(seven, samples("simulate vit-b32-mlp --samples 50 --seed 7"));
}

#[test]
fn a_further_sample_leaves_the_first_ones_as_they_were() {
    // With up to five samples, the 5th and the 99th percentile are the least and the
    // greatest sample, and the mean reveals the value that the last sample added.
    let of = |count: u32| samples(&format!("simulate vit-b32-fc1 --samples {count} --seed 3"));
    let extremes = |count| {
        let samples = of(count);
        let percentile = |index: usize| samples["percentiles_ps"][index][1].as_u64().unwrap();
        let sum = samples["mean_ps"].as_f64().unwrap() * f64::from(count);
        (percentile(0), percentile(5), sum)
    };
    let mut before = extremes(1);
    assert_eq!(before.0, before.1);
    for count in 2..=5 {
        let after = extremes(count);
        let added = after.2 - before.2;
        let rounding = f64::from(2 * count);
        assert_eq!(after.0.min(before.0), after.0);
        assert_eq!(after.1.max(before.1), after.1);
        for (old, new) in [(before.0, after.0), (before.1, after.1)] {
            assert!(old == new || (new as f64 - added).abs() <= rounding, "{count}: {before:?} {after:?}");
        }
        before = after;
    }
}
