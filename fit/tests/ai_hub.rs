//! The bundled measurements of Qualcomm AI Hub: which are used, and that each has its network.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use coexec_fit::measure::ai_hub::OnUnit;
use coexec_fit::measure::{Inference, Runs, ai_hub};

/// Chip, format, number of networks and sum of their times in milliseconds, counted without coexec.
const COUNTED: [(&str, &str, usize, f64); 10] = [
    ("8elite", "float", 4, 28.555),
    ("8elite", "w8a8", 3, 4.308),
    ("8gen1", "float", 45, 3224.34),
    ("8gen1", "w8a8", 23, 305.199),
    ("8gen2", "float", 45, 1416.803),
    ("8gen2", "w8a8", 23, 186.581),
    ("8gen2", "w8a16", 16, 241.306),
    ("8gen3", "float", 45, 1015.206),
    ("8gen3", "w8a8", 23, 134.726),
    ("8gen3", "w8a16", 16, 171.273),
];

fn measured(chip: &str) -> Runs<OnUnit> {
    ai_hub::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/aihub"), chip).unwrap()
}

/// Inferences of each group.
fn groups(runs: &[Inference]) -> BTreeMap<String, Vec<&Inference>> {
    let mut groups: BTreeMap<String, Vec<&Inference>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.what.group().to_string()).or_default().push(run);
    }
    groups
}

#[test]
fn each_model_counts_once_on_a_unit_in_a_format() {
    for (chip, format, count, total_ms) in COUNTED {
        let runs = measured(chip).runs;
        let group = &groups(&runs)[&format!("npu/end_to_end/{format}")];
        let networks: HashSet<&str> = group.iter().map(|run| run.network.as_str()).collect();
        let total_us: f64 = group.iter().map(|run| run.measured_us).sum();
        assert_eq!((group.len(), networks.len()), (count, count), "{chip} {format}");
        assert!((total_us / 1e3 - total_ms).abs() < 1e-6, "{chip} {format}: {total_us} us");
    }
}

#[test]
fn every_row_of_a_chip_is_used_or_says_why_and_a_network_is_imported_once() {
    let table = measured("8gen3");
    let lines: HashSet<u64> =
        table.runs.iter().map(|run| run.line).chain(table.left_out.iter().map(|row| row.line)).collect();
    assert_eq!(lines.len(), table.runs.len() + table.left_out.len());
    assert_eq!(lines.len(), 644);
    let no_graph = table.left_out.iter().filter(|row| row.reason.contains("no graph")).count();
    assert_eq!(no_graph, 385);
    let resnets =
        |run: &&Inference| run.network == "resnet50" && run.what.group().to_string().ends_with("float");
    let resnets: Vec<&Inference> = table.runs.iter().filter(resnets).collect();
    let networks: HashSet<_> = resnets.iter().map(|run| Arc::as_ptr(&run.what.network)).collect();
    assert!(resnets.len() > 1 && networks.len() == 1);
}
