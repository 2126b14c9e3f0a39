//! Partitions of delegates, as printed by the command.

use std::fs;

use crate::{coexec_in, latency_ps, words};

/// A normalisation that TFLite's GPU delegate does not support, after two convolutions and before one.
const NETWORK: &str = "\
title = \"a normalisation between convolutions\"
device = \"pixel4\"
[[operator]]
name = \"first\"
conv2d = { input = [56, 56, 64], output_channels = 64, kernel = [1, 1] }
[[operator]]
name = \"second\"
conv2d = { input = [56, 56, 64], output_channels = 64, kernel = [1, 1] }
[[operator]]
name = \"norm\"
local_response_norm = 5
[[operator]]
name = \"third\"
conv2d = { input = [56, 56, 64], output_channels = 64, kernel = [1, 1] }
";

#[test]
fn a_delegate_s_partitions_are_printed_and_its_written_plan_takes_as_long() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("net.toml"), NETWORK).unwrap();
    let line = "explore net.toml --strategy delegate-gpu";
    let text = coexec_in(folder.path(), words(line)).stdout;
    for part in ["GPU delegate: 2 of 4 operators in 1 of 3 partitions", "local response normalisation"] {
        assert!(text.contains(part), "{text}");
    }
    let explored = coexec_in(folder.path(), words(&format!("{line} --out plan.toml --json"))).json();
    assert_eq!(explored["partitioning"]["left_out"][1]["reason"], "not in the largest partition");
    assert!(fs::read_to_string(folder.path().join("plan.toml")).unwrap().contains("in_turn = true"));
    let again = coexec_in(folder.path(), words("simulate net.toml --plan plan.toml --json")).json();
    assert_eq!(latency_ps(&again), latency_ps(&explored));
}
