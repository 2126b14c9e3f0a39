//! Unmeasured times are reported as not known, never as unprofitable.

use std::fs;

use serde_json::Value;

use crate::{coexec, coexec_in, words};

/// Data types of scenarios.
const FORMATS: [&str; 7] = ["f32", "f16", "i8", "i8-dynamic", "i4-dynamic", "w8a16", "w4a16"];

/// Devices without XNNPACK rates in 8 bits, as their host has no Arm cores.
const WITHOUT_ARM: [&str; 3] = ["h200", "tpu-v4", "xeon-pocl"];

fn devices() -> Vec<Value> {
    coexec(["devices", "--json"]).json()["devices"].as_array().unwrap().clone()
}

#[test]
fn every_device_says_of_every_format_and_processor_what_its_times_rest_on() {
    let is_word = |basis: &Value| {
        ["measured", "transferred", "scaled", "assumed", "not-known"].iter().any(|word| basis == word)
    };
    for device in devices() {
        let formats = device["formats"].as_array().unwrap();
        let stored: Vec<&str> = formats.iter().filter_map(|format| format["weights"].as_str()).collect();
        let all = ["f32", "f16 weights", "f16", "int8 static", "int8 dynamic", "int4 dynamic"];
        assert_eq!(stored, [&all[..], &["int8 weights", "int4 weights"]].concat());
        for format in formats {
            let cpu = format["cpu"].as_array().unwrap();
            assert!(!cpu.is_empty() && cpu.iter().all(|library| is_word(&library[1])), "{device}");
            assert!(is_word(&format["gpu"]) && is_word(&format["npu"]), "{device}");
        }
        let name = device["name"].as_str().unwrap();
        // Phones have XNNPACK rates in 32 bits, and 8-bit rates derived from them.
        for (format, is_known) in formats.iter().zip([true, true, false, true, true, true, false, false]) {
            let xnnpack = format["cpu"].as_array().unwrap().iter().find(|library| library[0] == "xnnpack");
            let is_open = xnnpack.is_none_or(|xnnpack| xnnpack[1] == "not-known");
            assert!(!is_known || !is_open || WITHOUT_ARM.contains(&name), "{name} {format}");
        }
        let shown = coexec(["devices", name]).stdout;
        assert!(shown.starts_with("# What times of products rest on:\n# format"), "{name}");
        assert!(shown.contains("# int4 weights"), "{name}");
    }
}

#[test]
fn integer_weights_run_on_all_cores_where_fewer_are_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"t\"\ndata_type = \"w4a16\"\n[[operator]]\nname = \"fc\"\n\
                linear = { rows = 1, input_features = 512, output_features = 512 }\n";
    fs::write(folder.path().join("fc.toml"), text).unwrap();
    let simulate = "simulate fc.toml --device snapdragon-8elite --strategy cpu-only";
    coexec_in(folder.path(), words(simulate)).assert_refused(&["for all cores together"]);
    assert_eq!(coexec_in(folder.path(), words(&format!("{simulate} --threads all"))).status, 0);
    let known = coexec_in(folder.path(), words("explore fc.toml --device snapdragon-8elite"));
    assert!(known.stdout.contains("remedy: --threads all"), "{}", known.stdout);
}

#[test]
fn plans_on_unknown_processors_are_not_judged() {
    let folder = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let text = format!("title = \"t\"\nnetwork = \"vit-b32-mlp\"\ndata_type = \"{format}\"\n");
        fs::write(folder.path().join(format!("{format}.toml")), text).unwrap();
    }
    let (mut open, mut closed) = (0, 0);
    for device in devices() {
        let name = device["name"].as_str().unwrap();
        for format in FORMATS {
            let line = format!("explore {format}.toml --device {name} --step 64 --strategy channel-split");
            let (table, json) = (
                coexec_in(folder.path(), words(&line)),
                coexec_in(folder.path(), words(&(line + " --json"))),
            );
            if table.status != 0 {
                // No processor has a time: the command refuses with the reason instead of a table.
                table.assert_refused(&[]);
                continue;
            }
            let document = json.json();
            let known = document["known"].as_array().unwrap();
            for entry in known {
                let processor = entry["processor"].as_str().unwrap();
                let label = processor.to_uppercase();
                let is_open = entry.get("missing").is_some();
                // Columns are only as wide as their cells.
                let squeezed = table.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
                let is_named = table.stdout.contains(&format!("{label}: times not known for"));
                let row = squeezed.contains(&format!("{processor}-only not known"));
                assert_eq!([is_named, row], [is_open; 2], "{name} {format}: {}", table.stdout);
                assert_eq!(is_open, entry["basis"] == "not-known", "{name} {format}");
                if is_open {
                    open += 1;
                    assert!(entry["missing"]["remedy"].as_str().unwrap().len() > 10);
                } else {
                    closed += 1;
                }
            }
            let used = document["prediction"]["processors"].as_array().unwrap();
            let is_known = |used: &Value| {
                known
                    .iter()
                    .any(|known| known["processor"] == used["processor"] && known["basis"] != "not-known")
            };
            assert!(used.iter().all(is_known), "{name} {format}");
        }
    }
    assert!(open > 20 && closed > 60, "{open} {closed}");
}

#[test]
fn comparisons_leave_out_what_is_not_known_and_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"t\"\nnetwork = \"vit-b32-mlp\"\ndata_type = \"f16\"\n";
    fs::write(folder.path().join("f16.toml"), text).unwrap();
    let line = "compare f16.toml vit-b32-mlp --devices pixel4 --step 64 --baseline gpu-only";
    let table = coexec_in(folder.path(), words(&format!("{line} --library ruy"))).stdout;
    assert!(table.contains("CPU not known") && table.contains("--library xnnpack"), "{table}");
    let document = coexec_in(folder.path(), words(&format!("{line} --library ruy --json"))).json();
    assert_eq!(document["gains"][0]["rows"], 1, "the f16 row has no gain");
    assert_eq!(document["rows"][0]["known"][0]["basis"], "not-known");
    // With a library that has rates the gain is known.
    let line = format!("{line} --library xnnpack --json");
    assert_eq!(coexec_in(folder.path(), words(&line)).json()["gains"][0]["rows"], 2);
}

#[test]
fn what_is_simulated_says_which_processors_could_not_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"t\"\nnetwork = \"vit-b32-mlp\"\ndata_type = \"f16\"\n";
    fs::write(folder.path().join("f16.toml"), text).unwrap();
    let line = "simulate f16.toml --device galaxy-s10";
    let outcome = coexec_in(folder.path(), words(line));
    assert!(outcome.stdout.contains("CPU: times not known for 2 of 2 operators"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("cpu.cluster.xnnpack_f16"), "{}", outcome.stdout);
    let document = coexec_in(folder.path(), words(&format!("{line} --json"))).json();
    assert_eq!(document["known"][0]["basis"], "not-known");
    assert_eq!(document["known"][1]["basis"], "measured");
}
