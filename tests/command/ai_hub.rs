//! Whole networks on the processors of a chip: `--format ai-hub` with the bundled measurements.

use std::path::Path;

use coexec_sim::Profile;
use serde_json::Value;

use crate::{Outcome, coexec_in, words};

fn in_project(line: &str) -> Outcome {
    coexec_in(Path::new(env!("CARGO_MANIFEST_DIR")), words(line))
}

const VALIDATE: &str = "validate --profile snapdragon-8gen3 --runs data/aihub --device-column 8gen3";

#[test]
fn validate_prints_rank_and_roofline_for_each_unit_and_format() {
    let document = in_project(&format!("{VALIDATE} --format ai-hub --json")).json();
    let groups = document["groups"].as_array().unwrap();
    let of = |name: &str| groups.iter().find(|group| group["name"] == name).unwrap();
    // All GPU measurements are in floating point.
    assert_eq!(of("gpu/end_to_end/float")["n"], 2);
    let unpredicted = document["unpredicted"].as_array().unwrap().len();
    let predicted: u64 = groups.iter().map(|group| group["n"].as_u64().unwrap()).sum();
    assert_eq!(predicted as usize + unpredicted, 235);
    for group in groups.iter().filter(|group| group["n"].as_u64().unwrap() > 5) {
        for figure in
            ["mape_percent", "flops_linear_mape_percent", "roofline_mape_percent", "rank_correlation"]
        {
            assert!(group[figure].as_f64().is_some_and(f64::is_finite), "{figure} of {group}");
        }
    }
    let unusable = document["unusable"].as_array().unwrap();
    let without_graph = |row: &&Value| row["reason"].as_str().unwrap().contains("no graph");
    assert_eq!(unusable.iter().filter(without_graph).count(), 385);
}

#[test]
fn a_chip_that_a_profile_was_fitted_to_hardly_moves_when_it_is_fitted_again() {
    let folder = tempfile::tempdir().unwrap();
    let fitted = |base: &str, file: &str| -> (Profile, f64) {
        let out = folder.path().join(file);
        let line = "--runs data/aihub --device-column 8elite --json --out";
        let document = in_project(&format!("calibrate --base {base} {line} {}", out.display())).json();
        let speeds = document["npu"].as_array().unwrap().iter();
        let moved = speeds.map(|speed| speed["value"].as_f64().unwrap().ln().abs()).fold(0.0, f64::max);
        (Profile::load(out.to_str().unwrap()).unwrap(), moved)
    };
    let (profile, moved) = fitted("snapdragon-8gen3", "new.toml");
    assert!(moved > 0.1, "{moved}");
    assert_eq!((profile.name.as_str(), profile.aliases.len()), ("new", 0));
    assert_eq!(profile.npu.unwrap().compiled.unwrap().measured_on.as_deref(), Some("8elite"));
    let (_, moved) = fitted(folder.path().join("new.toml").to_str().unwrap(), "again.toml");
    assert!(moved < 0.05, "{moved}");
}

#[test]
fn the_format_is_seen_in_the_folder_and_what_is_left_out_is_counted_by_reason() {
    let seen = in_project(VALIDATE);
    assert_eq!(seen.status, 0, "{}", seen.stderr);
    assert!(seen.stdout.contains("roofline") && seen.stdout.contains("rank"), "{}", seen.stdout);
    assert!(seen.stderr.contains("235 inferences on 8gen3"), "{}", seen.stderr);
    assert!(seen.stderr.contains("385 rows: there is no graph of the model"), "{}", seen.stderr);
    assert!(!seen.stderr.contains("is it the same device"), "{}", seen.stderr);
    let other = in_project(&VALIDATE.replace("snapdragon-8gen3", "pixel4"));
    assert!(other.stderr.contains("is it the same device"), "{}", other.stderr);
}

#[test]
fn a_chip_that_is_not_there_and_a_table_that_is_none_are_refused() {
    let other = VALIDATE.replace("column 8gen3", "column 9gen9");
    in_project(&other).assert_refused(&["--device-column", "9gen9", "8elite, 8gen1, 8gen2, 8gen3"]);
    let none = VALIDATE.replace(" --device-column 8gen3", "");
    in_project(&none).assert_refused(&["--device-column", "8gen3 for ai-hub"]);
    let folder = tempfile::tempdir().unwrap();
    let line = "validate --profile snapdragon-8gen3 --runs . --format ai-hub --device-column 8gen3";
    coexec_in(folder.path(), words(line)).assert_refused(&["measurements.csv"]);
    std::fs::write(folder.path().join("measurements.csv"), "model,graph\nm,g\n").unwrap();
    coexec_in(folder.path(), words(line)).assert_refused(&["missing field", "data/aihub"]);
    let header = "family,graph,chip,device,runtime,precision,time_us,unit,tool_versions,date,origin,input_checked,job_id";
    let row = "cnn,g,8gen3,phone,qnn_dlc,float,10,npu,,,head,head spec,j";
    std::fs::write(folder.path().join("measurements.csv"), format!("{header}\n{row}\n")).unwrap();
    coexec_in(folder.path(), words(line)).assert_refused(&["the graph g is not imported", "g.onnx"]);
}

#[test]
fn what_calibrate_cannot_fit_to_and_formats_without_models_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let graph = "data/aihub/graphs/quicksrnetlarge.onnx";
    std::fs::create_dir(folder.path().join("graphs")).unwrap();
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join(graph),
        folder.path().join("graphs/quicksrnetlarge.onnx"),
    )
    .unwrap();
    let calibrated_on = |unit: &str, options: &str| {
        let table = format!(
            "family,graph,chip,device,runtime,precision,time_us,unit,tool_versions,date,origin,input_checked,job_id\n\
             cnn,,new,phone,tflite,float,9000,gpu,,,head,head spec,i\n\
             cnn,quicksrnetlarge,new,phone,tflite,float,9000,{unit},,,head,head spec,j\n"
        );
        std::fs::write(folder.path().join("measurements.csv"), table).unwrap();
        let line = "calibrate --base snapdragon-8gen3 --runs . --device-column new --out new.toml";
        coexec_in(folder.path(), words(&format!("{line} {options}")))
    };
    calibrated_on("gpu", "")
        .assert_refused(&["no usable run that a value can be fitted to", "coexec validate"]);
    calibrated_on("npu", "--rows 1").assert_refused(&["--rows", "--networks"]);
    let few = calibrated_on("npu", "").stderr;
    assert!(few.contains("(1 in float, 0 in w8a8, 0 in w8a16; "), "{few}");
}

#[test]
fn language_models_are_grouped_by_unit_runtime_and_format_and_fit_no_profile() {
    let line = "validate --profile 8gen3 --runs data/aihub --format ai-hub-llm --device-column 8gen3";
    let document = in_project(&format!("{line} --json")).json();
    let names: Vec<&str> =
        document["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("npu/qnn_context_binary/w4a16/")), "{names:?}");
    in_project(&line.replace("column 8gen3", "column 9gen9")).assert_refused(&["9gen9", "8elite, 8gen3"]);
    let calibrate = line.replace("validate --profile", "calibrate --out no.toml --base");
    in_project(&calibrate).assert_refused(&["language models", "coexec validate"]);
}
