//! Memories beyond max-min fair sharing: interference, and a GPU with its own memory.

use std::path::Path;

use serde_json::Value;

use crate::{coexec_in, latency_ps, words};

/// Interference entries that slow the CPU and the GPU while both move bytes.
const INTERFERENCE: &str = "
[[memory.interference]]
client = \"cpu\"
source = \"made up\"
onset_gbps = 0.0
saturation_gbps = 20.0
alone_gbps = 50.0
crowded_gbps = 10.0
crowded_slowdown_factor = 1.4

[[memory.interference]]
client = \"gpu\"
source = \"made up\"
onset_gbps = 0.0
saturation_gbps = 20.0
alone_gbps = 50.0
crowded_gbps = 10.0
crowded_slowdown_factor = 1.4
";

/// A GPU memory behind a link of 16 GB/s in either direction.
const OWN_MEMORY: &str = "
[gpu.memory]
source = \"made up\"
bandwidth_gbps = 67.0
capacity_gb = 8.0

[gpu.memory.link]
source = \"made up\"
latency_us = 10.0
to_gpu_gbps = 16.0
to_host_gbps = 16.0
";

/// Writes the profile of the `OnePlus` 11 with `addition`.
fn write_device(folder: &Path, addition: &str) {
    let profile = include_str!("../../device-profiles/oneplus11.toml");
    std::fs::write(folder.join("device.toml"), format!("{profile}\n{addition}")).unwrap();
}

fn simulate(folder: &Path, line: &str) -> Value {
    coexec_in(folder, words(&format!("simulate vit-b32-fc1 --device {line} --json"))).json()
}

#[test]
fn interference_is_printed_next_to_plain_sharing() {
    let folder = tempfile::tempdir().unwrap();
    write_device(folder.path(), INTERFERENCE);
    let plan = coexec_in(
        folder.path(),
        words("explore vit-b32-fc1 --strategy channel-split --out plan.toml --quiet"),
    );
    assert_eq!(plan.status, 0, "{}", plan.stderr);
    let plain = simulate(folder.path(), "oneplus11 --plan plan.toml");
    assert!(plain.get("plain_sharing_latency_ps").is_none());
    let disturbed = simulate(folder.path(), "device.toml --plan plan.toml");
    assert_eq!(disturbed["plain_sharing_latency_ps"].as_u64(), Some(latency_ps(&plain)));
    assert!(latency_ps(&disturbed) > latency_ps(&plain));
    let text = coexec_in(folder.path(), words("simulate vit-b32-fc1 --device device.toml --plan plan.toml"));
    assert!(text.stdout.contains("memory shared by max-min alone: latency "), "{}", text.stdout);
}

#[test]
fn transfers_over_the_link_of_a_gpu_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    write_device(folder.path(), OWN_MEMORY);
    let document = simulate(folder.path(), "device.toml --strategy gpu-only");
    let gpu = &document["prediction"]["processors"][0];
    assert_eq!(gpu["processor"], "gpu");
    // 50 tokens of 768 features are copied to the GPU, 50 of 3072 back.
    assert_eq!(gpu["transfers"]["bytes"].as_u64(), Some(50 * (768 + 3072) * 4));
    let text =
        coexec_in(folder.path(), words("simulate vit-b32-fc1 --device device.toml --strategy gpu-only"));
    assert!(text.stdout.contains("critical path: transfer "), "{}", text.stdout);
}

#[test]
fn a_model_that_does_not_fit_the_gpu_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_device(folder.path(), &OWN_MEMORY.replace("capacity_gb = 8.0", "capacity_gb = 0.001"));
    let line = "simulate vit-b32-fc1 --device device.toml --strategy gpu-only";
    coexec_in(folder.path(), words(line)).assert_refused(&["own memory", "1.00 MB"]);
}
