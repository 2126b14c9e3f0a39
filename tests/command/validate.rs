//! What `validate` provides in addition to the error figures: limits, the worst
//! predictions, points and pictures.

use std::fs;

use coexec_fit::validate::point::of_csv;
use coexec_sim::input::Text;

use super::calibrate::{CALIBRATE, table, write_runs};
use super::pictures::{decoded, parsed};
use crate::{coexec, coexec_in, words};

const VALIDATE: &str = "validate --profile pixel4 --runs runs --device-column phone";

#[test]
fn a_group_above_the_limit_ends_with_status_2_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let check = |limit: &str| coexec_in(folder.path(), words(VALIDATE).chain(["--limit", limit]));
    let short = check("5");
    assert_eq!(short.status, 2, "{}", short.stderr);
    assert!(short.stdout.contains("gpu/conv2d/all"), "the table is shown all the same: {}", short.stdout);
    assert!(short.stderr.contains("the MAPE is above 5 %"), "{}", short.stderr);
    assert!(short.stderr.contains("gpu/fully_connected/all ("), "{}", short.stderr);
    let kept = check("1000");
    assert_eq!((kept.status, kept.stderr.contains("above")), (0, false));
    let one = coexec_in(folder.path(), words(VALIDATE).chain(["--limit", "5", "--group", "gpu/fully"]));
    assert_eq!(one.status, 2);
    assert!(!one.stderr.contains("conv2d") && !one.stdout.contains("conv2d"), "{}", one.stdout);
}

#[test]
fn the_worst_predictions_are_listed_with_layer_and_kernel() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let json = |worst: &str| {
        coexec_in(folder.path(), words(VALIDATE).chain(["--worst", worst, "--json"])).json()["worst"].clone()
    };
    let worst = json("3");
    let errors: Vec<f64> = worst
        .as_array()
        .unwrap()
        .iter()
        .map(|point| {
            (point["predicted_us"].as_f64().unwrap() / point["measured_us"].as_f64().unwrap() - 1.0).abs()
        })
        .collect();
    assert_eq!(errors.len(), 3);
    assert!(errors.is_sorted_by(|a, b| a >= b), "{errors:?}");
    assert_eq!(json("0").as_array().unwrap().len(), 0);
    let text = coexec_in(folder.path(), words(VALIDATE)).stdout;
    let (_, listed) = text.split_once("worst predictions").unwrap();
    assert_eq!(listed.lines().filter(|line| line.contains("network")).count(), 6, "{listed}");
    assert!(listed.contains(worst[0]["kernel"].as_str().unwrap()), "{listed}");
}

#[test]
fn nothing_is_written_over_what_is_read_and_no_limit_is_no_number() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/device-profiles/pixel4.toml");
    fs::copy(profile, folder.path().join("mine.toml")).unwrap();
    let given = VALIDATE.replace("--profile pixel4", "--profile mine.toml");
    assert_ne!(given, VALIDATE);
    coexec_in(folder.path(), words(&format!("{given} --points mine.toml")))
        .assert_refused(&["mine.toml", "it is what this command reads"]);
    let refused = coexec_in(folder.path(), words(&format!("{VALIDATE} --limit nan")));
    assert_ne!(refused.status, 0);
    assert!(refused.stderr.contains("expected a number from 0"), "{}", refused.stderr);
}

#[test]
fn points_and_their_picture_are_written_together() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let line = format!("{VALIDATE} --points points.csv --plot points.svg --quiet");
    let outcome = coexec_in(folder.path(), words(&line));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let points = of_csv(&Text::read(&folder.path().join("points.csv")).unwrap()).unwrap();
    assert_eq!(points.len(), 150);
    assert!(points.iter().all(|point| point.kernel.is_some() && point.predicted_us > 0.0));
    let text = parsed(&fs::read_to_string(folder.path().join("points.svg")).unwrap());
    for word in ["Pixel 4", "gpu/conv2d", "gpu/mean"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    coexec_in(folder.path(), words(&format!("{VALIDATE} --plot points.png")));
    decoded(&fs::read(folder.path().join("points.png")).unwrap());
}

#[test]
fn options_of_validate_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let refused = |options: &str, expected: &[&str]| {
        let line = format!("{VALIDATE} {options}");
        coexec_in(folder.path(), words(&line)).assert_refused(expected);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the runs are there");
    };
    let line = format!("{VALIDATE} --plot points.pdf");
    coexec_in(folder.path(), words(&line)).assert_misused(&["points.pdf", ".svg or .png"]);
    refused("--group gpu/conv3d", &["--group is \"gpu/conv3d\"", "gpu/conv2d/all"]);
    refused("--points missing/points.csv", &["no folder missing"]);
    refused("--plot points.svg --points missing/points.csv", &["no folder missing"]);
}

#[test]
fn a_row_that_a_table_has_twice_is_refused_with_line_and_network() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let path = folder.path().join("runs/tflite_cnn_ops_gpu.csv");
    let table = fs::read_to_string(&path).unwrap();
    let second = table.lines().nth(1).unwrap();
    fs::write(&path, format!("{table}{second}\n")).unwrap();
    let line = table.lines().count() + 1;
    let expected = [&*format!("tflite_cnn_ops_gpu.csv:{line}:"), "row of network0", "line 2", "there twice"];
    coexec_in(folder.path(), words(VALIDATE)).assert_refused(&expected);
}

#[test]
fn runs_in_another_unit_or_of_another_device_are_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    fs::create_dir(&runs).unwrap();
    // Microseconds would be hundreds and more.
    fs::write(runs.join("tflite_cnn_ops_gpu.csv"), table(|index| 0.01 + 0.001 * index as f64)).unwrap();
    for line in [VALIDATE, &*format!("{CALIBRATE} --no-residual")] {
        let outcome = coexec_in(folder.path(), words(line));
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        for expected in [
            "runs on the GPU take 1/",
            "are they in microseconds",
            "the runs are of phone: is it the same device?",
        ] {
            assert!(outcome.stderr.contains(expected), "{line}: {}", outcome.stderr);
        }
    }
}

#[test]
fn only_tables_that_were_fitted_to_the_runs_are_warned_of() {
    let line = "validate --profile pixel4 --runs data/mobile-ml-benchmark --device-column pixel4 --group cpu";
    for (library, is_fitted) in [("ruy", true), ("xnnpack", false)] {
        let outcome = coexec(words(&format!("{line} --library {library} --json")));
        assert_eq!(outcome.json()["set_the_profile"], is_fitted, "{library}");
        assert_eq!(outcome.stderr.contains("was fitted to these runs"), is_fitted, "{}", outcome.stderr);
    }
}

#[test]
fn rows_that_are_not_used_are_named_once_each() {
    let line = "validate --profile pixel4 --runs data/mobile-ml-benchmark --device-column s10 --group cpu";
    let stderr = coexec(words(line)).stderr;
    let of_first = stderr.lines().filter(|line| line.starts_with("not predicted: line 2: "));
    assert_eq!(of_first.count(), 1, "the same for both number formats: {stderr}");
    assert!(stderr.contains("expected 1 core of cluster large"), "{stderr}");
    let stderr = coexec(words("validate --profile h200 --runs device-profiles/runs/h200.csv")).stderr;
    assert!(stderr.contains("there is no group of errors for element-wise\n"), "{stderr}");
}

#[test]
fn tables_with_semicolons_are_told_to_have_commas() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let path = folder.path().join("runs/tflite_cnn_ops_gpu.csv");
    fs::write(&path, fs::read_to_string(&path).unwrap().replace(',', ";")).unwrap();
    fs::write(folder.path().join("own.csv"), "run;network\na;b\n").unwrap();
    for line in [VALIDATE, "validate --profile pixel4 --runs own.csv"] {
        coexec_in(folder.path(), words(line)).assert_refused(&["separate the columns by commas"]);
    }
    fs::write(folder.path().join("own.csv"), "# measured today\nrun,network\n").unwrap();
    let line = "validate --profile pixel4 --runs own.csv";
    coexec_in(folder.path(), words(line)).assert_refused(&["remove the comments"]);
}

#[test]
fn runs_whose_format_is_not_recognised_are_refused_for_that() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("net.tflite"), "").unwrap();
    fs::write(folder.path().join("runs.txt"), "").unwrap();
    for column in ["", " --device-column pixel4"] {
        let line = format!("validate --profile pixel4 --runs .{column}");
        coexec_in(folder.path(), words(&line)).assert_refused(&["a format is recognised", "benchmark-model"]);
    }
    coexec_in(folder.path(), words("validate --profile pixel4 --runs runs.txt --device-column pixel4"))
        .assert_refused(&["--device-column is for runs of several devices", "another --format"]);
}
