//! `calibrate` and `validate` on runs in coexec's own format.

use std::fs;
use std::path::Path;

use coexec_fit::measure::runs::{
    ExecutedOn, Fingerprint, Measurement, Repetition, fingerprints_to_toml, parse, to_csv,
};
use coexec_fit::validate::gpu::predict;
use coexec_sim::Axis;
use coexec_sim::device::cpu::CoreSetSpread;
use coexec_sim::device::profile::Profile;
use coexec_sim::kernel::cpu::{CoreSet, Library, execute};
use coexec_sim::workload::{DataType, Layer, Linear, Operator};

use crate::{coexec, coexec_in, words};

/// Conditions of the runs.
const FINGERPRINT: &str = "bench";

/// A linear layer of that many output features, measured at `times`.
fn measurement(features: u32, processor: ExecutedOn, time: f64) -> Measurement {
    let linear = Linear { rows: 64, input_features: 256, output_features: features, bias: true };
    // A disturbed first run, and two within 2 % of each other.
    let repetitions = [(3.0, true), (0.99, false), (1.01, false)];
    let repetition = |(number, &(factor, outlier)): (usize, &(f64, bool))| Repetition {
        number: number as u32,
        measured_us: time * factor,
        outlier,
    };
    Measurement {
        run: format!("{processor} {features}"),
        network: format!("network{}", features % 5),
        operator: Some(("fc".to_owned(), Layer::new(Operator::Linear(linear), DataType::F32))),
        data_type: DataType::F32,
        processor,
        synchronisation: None,
        kernel: None,
        dispatch: None,
        fingerprint: Some(FINGERPRINT.to_owned()),
        repetitions: repetitions.iter().enumerate().map(repetition).collect(),
        line: 0,
    }
}

/// Runs of a phone with the Pixel 4's CPU and a slower fully connected kernel.
fn measurements() -> Vec<Measurement> {
    let profile = Profile::load("pixel4").unwrap();
    let mut gpu = profile.gpu.clone().unwrap();
    gpu.conv_generic.launch_us.value *= 1.8;
    gpu.conv_generic.latency_us.value *= 1.5;
    let cores = CoreSet::parse("1med", &profile.cpu).unwrap();
    let mut measurements = Vec::new();
    for features in (32..1600).step_by(29) {
        let mut run = measurement(features, ExecutedOn::Gpu, 1.0);
        let layer = run.operator.as_ref().unwrap().1.clone();
        let on_gpu = predict(&layer, &gpu).unwrap();
        let on_cpu = execute(&layer, &profile.cpu, &cores, Library::Ruy).unwrap();
        run = measurement(features, ExecutedOn::Gpu, on_gpu);
        measurements.push(run);
        let time = on_cpu.phases.duration().as_micros();
        measurements.push(measurement(features, ExecutedOn::Cpu("1med".to_owned()), time));
    }
    measurements
}

fn write_runs(folder: &Path, measurements: &[Measurement]) {
    let fingerprint = Fingerprint {
        id: FINGERPRINT.to_owned(),
        device: "a test bench".to_owned(),
        tool_version: "0.1.0".to_owned(),
        ..Fingerprint::default()
    };
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("runs.csv"), to_csv(measurements).unwrap()).unwrap();
    fs::write(folder.join("runs.fingerprints.toml"), fingerprints_to_toml(&[fingerprint]).unwrap()).unwrap();
}

const VALIDATE: &str = "validate --profile pixel4 --format coexec --library ruy --json --runs";

#[test]
fn own_runs_are_validated_by_the_median_of_what_is_no_outlier() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(&folder.path().join("bench"), &measurements());
    let outcome = coexec_in(folder.path(), words(VALIDATE).chain(["bench"]));
    assert!(outcome.stderr.contains("110 runs of a test bench"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("110 repetitions that are marked as outliers"), "{}", outcome.stderr);
    let document = outcome.json();
    let group = |name: &str| {
        let groups = document["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == name).cloned().unwrap_or_default()
    };
    let cpu = group("cpu/1med/float");
    assert_eq!(cpu["n"], 55, "{document}");
    assert!(cpu["mape_percent"].as_f64().unwrap() < 0.1, "{cpu}");
    assert!(cpu["repeat_noise_percent"].as_f64().unwrap() > 1.0, "{cpu}");
    assert!(group("gpu/fully_connected/all")["mape_percent"].as_f64().unwrap() > 2.0, "{document}");
    // The file itself works as well as its folder.
    let file = coexec_in(folder.path(), words(VALIDATE).chain(["bench/runs.csv"])).json();
    assert_eq!(file, document);
}

#[test]
fn a_whole_network_is_validated_on_the_processor_it_ran_on() {
    let folder = tempfile::tempdir().unwrap();
    let whole = |network: &str, processor| Measurement {
        run: format!("{network} on {processor}"),
        network: network.to_owned(),
        operator: None,
        ..measurement(32, processor, 40_000.0)
    };
    let cores = || ExecutedOn::Cpu("1large".to_owned());
    let runs = [
        whole("mobilenet-v2", cores()),
        whole("mobilenet-v2", ExecutedOn::Gpu),
        whole("mine", ExecutedOn::Gpu),
    ];
    write_runs(&folder.path().join("bench"), &runs);
    let document = coexec_in(folder.path(), words(VALIDATE).chain(["bench"])).json();
    let groups: Vec<&str> =
        document["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(groups.len(), 2, "{groups:?}");
    assert!(groups.contains(&"cpu/1large/float") && groups.contains(&"gpu/end_to_end/all"), "{groups:?}");
    let reason = document["unusable"][0]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the operators of mine are not known") && reason.contains("mine.toml"),
        "{reason}"
    );
}

#[test]
fn a_model_next_to_the_runs_gives_the_operators_of_the_network_that_ran() {
    let folder = tempfile::tempdir().unwrap();
    let whole = Measurement {
        run: "whole".to_owned(),
        network: "mine".to_owned(),
        operator: None,
        ..measurement(32, ExecutedOn::Gpu, 4_000.0)
    };
    write_runs(folder.path(), &[whole]);
    let validated = || coexec_in(folder.path(), words(VALIDATE).chain(["."]));
    validated().assert_refused(&["mine.tflite", "coexec import"]);
    let model = include_bytes!("../../import/tests/inputs/tiny.tflite");
    fs::write(folder.path().join("mine.tflite"), model).unwrap();
    assert_eq!(validated().json()["unusable"].as_array().unwrap().len(), 0);
}

#[test]
fn validate_says_what_times_by_the_host_s_clock_cover() {
    let folder = tempfile::tempdir().unwrap();
    let split = ExecutedOn::Split { axis: Axis::Channels, cores: "1large".to_owned(), cpu: 8, gpu: 24 };
    for (processor, is_said) in [(split, true), (ExecutedOn::Gpu, false)] {
        write_runs(folder.path(), &[measurement(32, processor, 100.0)]);
        let stdout = coexec_in(folder.path(), words("validate --profile pixel4 --runs runs.csv")).stdout;
        assert_eq!(stdout.contains("from the host's call until it sees the end"), is_said, "{stdout}");
    }
}

#[test]
fn own_runs_calibrate_both_processors() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(&folder.path().join("bench"), &measurements());
    let line =
        "calibrate --base pixel4 --format coexec --library xnnpack --runs bench --out bench.toml --json";
    let report = coexec_in(folder.path(), words(line)).json();
    assert_eq!(report["cpu_tables"][0]["runs"], 55, "{report}");
    let source = Profile::load(folder.path().join("bench.toml").to_str().unwrap()).unwrap();
    assert!(source.calibration.unwrap().source.contains("110 runs of a test bench"));
    let line = VALIDATE.replace("pixel4", "bench.toml");
    let document = coexec_in(folder.path(), words(&line).chain(["bench"])).json();
    for group in document["groups"].as_array().unwrap() {
        assert!(group["mape_percent"].as_f64().unwrap() < 1.5, "{group}");
    }
}

#[test]
fn runs_of_coexec_s_own_cpu_kernels_are_not_taken_for_those_of_a_framework() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(&folder.path().join("bench"), &measurements());
    let calibrate = |more: &str| {
        let line = format!("calibrate --base pixel4 --runs bench --out own.toml --json {more}");
        coexec_in(folder.path(), words(&line))
    };
    let outcome = calibrate("");
    assert!(outcome.stderr.contains("not used: 55 runs on the CPU"), "{}", outcome.stderr);
    assert_eq!(outcome.json()["cpu_tables"].as_array().unwrap().len(), 0);
    let tables = calibrate("--library coexec").json()["cpu_tables"].clone();
    assert_eq!(tables[0]["library"], "coexec");
    let on_cpu: Vec<Measurement> =
        measurements().into_iter().filter(|run| matches!(run.processor, ExecutedOn::Cpu(_))).collect();
    write_runs(&folder.path().join("bench"), &on_cpu);
    calibrate("").assert_refused(&["55 runs on the CPU", "--library coexec"]);
}

#[test]
fn rows_on_a_gpu_that_the_profile_lacks_are_named_and_those_on_its_cores_used() {
    let folder = tempfile::tempdir().unwrap();
    let mut cores = Profile::load("pixel4").unwrap();
    (cores.name, cores.gpu, cores.calibration) = ("cores".to_owned(), None, None);
    fs::write(folder.path().join("cores.toml"), cores.to_toml().unwrap()).unwrap();
    let validate = VALIDATE.replace("pixel4", "cores.toml");
    let calibrate = "calibrate --base cores.toml --library xnnpack --json --out fitted.toml --runs";
    let runs = measurements();
    write_runs(&folder.path().join("bench"), &runs);
    for (line, tables) in [(validate.as_str(), "groups"), (calibrate, "cpu_tables")] {
        let outcome = coexec_in(folder.path(), words(line).chain(["bench"]));
        assert!(outcome.stderr.contains(": the profile cores has no [gpu] table"), "{}", outcome.stderr);
        let document = outcome.json();
        assert_eq!(document["unusable"].as_array().unwrap().len(), 55, "{document}");
        assert_eq!(document[tables].as_array().unwrap().len(), 1, "{document}");
    }
    let on_gpu = runs.into_iter().filter(|run| run.processor == ExecutedOn::Gpu);
    write_runs(&folder.path().join("bench"), &on_gpu.collect::<Vec<_>>());
    let refused = coexec_in(folder.path(), words(&validate).chain(["bench"]));
    refused.assert_refused(&["bench holds no usable run", "the profile cores has no [gpu] table"]);
}

#[test]
fn a_fit_to_few_runs_states_errors_and_intervals_of_these_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let runs =
        [(301, 1.3), (602, 0.7), (903, 1.3), (1204, 0.7)].into_iter().flat_map(|(features, factor)| {
            let time = factor * f64::from(features);
            let on_cpu = ExecutedOn::Cpu("1large".to_owned());
            [measurement(features, ExecutedOn::Gpu, time), measurement(features, on_cpu, 3.0 * time)]
        });
    write_runs(&folder.path().join("bench"), &runs.collect::<Vec<_>>());
    let line = "calibrate --base pixel4 --library xnnpack --runs bench --out few.toml --json";
    let report = coexec_in(folder.path(), words(line)).json();
    let line = "explore mobilenet-v2 --device few.toml --threads 1 --json";
    let errors = coexec_in(folder.path(), words(line)).json()["trust"]["errors"]["common_percent"].clone();
    for (processor, group) in ["cpu/1large/float", "gpu/fully_connected/unseen"].into_iter().enumerate() {
        let found = report["groups"].as_array().unwrap().iter().find(|found| found["name"] == group).unwrap();
        let [stated, found] =
            [&errors[processor], &found["mape_percent"]].map(|error| error.as_f64().unwrap());
        assert!(found > 15.0 && stated > found - 1e-9, "{group}: {stated} {found}");
    }
    let spreads = |profile: &str| {
        Profile::load(profile).unwrap().calibration.map_or(Vec::new(), |fit| fit.cpu_core_set)
    };
    let is_of_integers = |spread: &CoreSetSpread| spread.data_type == DataType::I8;
    let mut of_base = spreads("pixel4");
    of_base.retain(is_of_integers);
    assert_eq!(spreads(folder.path().join("few.toml").to_str().unwrap()), of_base, "too few runs in f32");
}

#[test]
fn a_base_that_was_fitted_to_the_same_runs_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(&folder.path().join("bench"), &measurements()[..8]);
    for (base, is_warned_of) in [("pixel4", false), ("once.toml", true)] {
        let line = format!("calibrate --base {base} --runs bench --out once.toml --no-residual");
        let stderr = coexec_in(folder.path(), words(&line)).stderr;
        assert_eq!(stderr.contains("already fitted to these runs"), is_warned_of, "{stderr}");
    }
    for draw in ["--networks 2", "--rows 4"] {
        let line = format!("calibrate --base once.toml --runs bench --out twice.toml {draw}");
        coexec_in(folder.path(), words(&line))
            .assert_refused(&["already fitted to all these runs", "--prior"]);
        coexec_in(folder.path(), words(&line).chain(["--prior", "hardware", "--json"])).json();
    }
}

#[test]
fn rows_of_own_runs_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let bench = folder.path().join("bench");
    write_runs(&bench, &measurements()[..8]);
    let runs = fs::read_to_string(bench.join("runs.csv")).unwrap();
    let bad = runs.lines().last().unwrap().replace(",false,", ",perhaps,");
    fs::write(bench.join("runs.csv"), format!("{runs}{bad}\n")).unwrap();
    let outcome = coexec_in(folder.path(), words(VALIDATE).chain(["bench"]));
    let line = runs.lines().count() + 1;
    assert!(outcome.stderr.contains(&format!("not used: line {line}: outlier")), "{}", outcome.stderr);
    assert_eq!(outcome.json()["unusable"][0]["line"], line);
}

#[test]
fn runs_that_cannot_be_predicted_or_fitted_to_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut runs = measurements();
    runs.truncate(4);
    for run in &mut runs {
        run.operator = None;
    }
    write_runs(&folder.path().join("bench"), &runs);
    let why = ["bench holds no usable run", "the operators of network2 are not known"];
    coexec_in(folder.path(), words(VALIDATE).chain(["bench", "--limit", "1"])).assert_refused(&why);
    coexec_in(folder.path(), words("calibrate --base pixel4 --library xnnpack --runs bench --out x.toml"))
        .assert_refused(&why);
    assert!(!folder.path().join("x.toml").exists());
}

#[test]
fn own_runs_that_are_none_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |path: &str, expected: &[&str]| {
        coexec_in(folder, words(VALIDATE).chain([path])).assert_refused(expected);
    };
    refused("missing.csv", &["cannot read missing.csv"]);
    fs::write(folder.join("a.csv"), "run,network\n").unwrap();
    refused("a.csv", &["there is no column \"data_type\"", "measured_us"]);
    write_runs(&folder.join("bench"), &[]);
    refused("bench", &["bench holds no usable run", "give a file that has rows"]);
    fs::write(folder.join("bench/runs.fingerprints.toml"), "[[fingerprint]]\nid = 3\n").unwrap();
    refused("bench", &["runs.fingerprints.toml:2:6", "expected a string"]);
    fs::create_dir(folder.join("empty")).unwrap();
    let line = "validate --profile pixel4 --runs empty";
    coexec_in(folder, words(line)).assert_refused(&["empty has none of the files", "--format"]);
}

#[test]
fn a_written_row_follows_the_schema_of_runs() {
    let schema: serde_json::Value = serde_json::from_str(&coexec(["schema", "runs"]).stdout).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let content = to_csv(&measurements()[..1]).unwrap();
    let header = content.lines().next().unwrap().to_owned();
    let row = serde_json::json!({
        "run": "a", "network": "n", "data_type": "f32", "processor": "gpu", "repetition": 0,
        "measured_us": 1.5, "outlier": false, "operator": null
    });
    assert!(validator.is_valid(&row), "{:?}", validator.validate(&row));
    for column in header.split(',') {
        assert!(schema["properties"][column]["description"].is_string(), "{column}: {schema}");
    }
    let text = coexec_sim::input::Text { name: "runs.csv".to_owned(), content };
    assert_eq!(parse(&text, Vec::new()).unwrap().left_out.len(), 3, "no fingerprints are there");
    // What the schema does not require, a file may lack.
    let required: Vec<&str> =
        schema["required"].as_array().unwrap().iter().map(|column| column.as_str().unwrap()).collect();
    let cells: Vec<String> =
        required.iter().map(|column| row[column].to_string().trim_matches('"').to_owned()).collect();
    let content = format!("{}\n{}\n", required.join(","), cells.join(","));
    let text = coexec_sim::input::Text { name: "runs.csv".to_owned(), content };
    let table = parse(&text, Vec::new()).unwrap();
    assert_eq!((table.measurements.len(), table.left_out.len()), (1, 0));
}

#[test]
fn own_runs_are_reported_with_what_they_were_measured_on() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(&folder.path().join("bench"), &measurements());
    for (file, name) in [("runs.csv", "pixel4.csv"), ("runs.fingerprints.toml", "pixel4.fingerprints.toml")] {
        fs::rename(folder.path().join("bench").join(file), folder.path().join(name)).unwrap();
    }
    let line = "report --runs pixel4.csv --out page --quiet";
    let outcome = coexec_in(folder.path(), words(line));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let page = fs::read_to_string(folder.path().join("page/accuracy.md")).unwrap();
    for words in
        ["--runs pixel4.csv", "Measured on a test bench; coexec 0.1.0.", "| gpu/fully_connected/all | 55 |"]
    {
        assert!(page.contains(words), "{words:?} is not in {page}");
    }
    fs::copy(folder.path().join("pixel4.csv"), folder.path().join("mi9.csv")).unwrap();
    coexec_in(folder.path(), words("report --runs mi9.csv --out page"))
        .assert_refused(&["no device profile named \"mi9\""]);
}
