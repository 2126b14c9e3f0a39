//! Plan files of earlier versions still load, with unchanged latencies.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{coexec_in, words};

/// Plans that `explore --out` wrote, and their latencies in `latencies.csv`.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans");

/// Latency of an inference or of an answer and, for a stream, the period between batches.
fn picos(plan: &str) -> Vec<u64> {
    let file: toml::Table = fs::read_to_string(Path::new(FOLDER).join(plan)).unwrap().parse().unwrap();
    let [scenario, device] = ["scenario", "device"].map(|key| file[key].as_str().unwrap());
    let line = format!("simulate {scenario} --device {device} --plan {plan} --json");
    let document = coexec_in(Path::new(FOLDER), words(&line)).json();
    let pointers = ["/prediction/latency_ps", "/generation/latency_ps", "/stream/period_ps"];
    pointers.iter().filter_map(|pointer| document.pointer(pointer)?.as_u64()).collect()
}

#[test]
fn plan_files_of_earlier_versions_take_as_long_as_they_did() {
    let names = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let plans = names.filter(|name| name.ends_with(".plan.toml"));
    let found: BTreeMap<String, Vec<u64>> = plans.map(|plan| (plan.clone(), picos(&plan))).collect();
    let path = Path::new(FOLDER).join("latencies.csv");
    let known: BTreeMap<String, Vec<u64>> = fs::read_to_string(path)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once(','))
        .map(|(plan, picos)| (plan.to_owned(), picos.split(',').map(|one| one.parse().unwrap()).collect()))
        .collect();
    assert_eq!(found, known);
}
