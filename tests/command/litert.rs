//! Results of LiteRT's tools are read, validated and fitted to.

use std::fs;
use std::path::Path;

use coexec_sim::Profile;

use crate::{coexec_in, words};

/// Output of `litert-benchmark` (ai-edge-litert 2.3.0) for the test network, with the given times and
/// threads.
fn result(threads: u32, median_ms: f64) -> String {
    format!(
        r#"{{"model": "/data/tiny.tflite", "model_size_mb": 0.02, "accelerators": ["CPU"], "signature": "<placeholder signature>",
        "fully_accelerated": true, "num_threads": {threads}, "latency": {{"init_ms": 1.1, "warmup_first_ms": 0.2, "warmup_avg_ms": 0.1,
        "num_warmup_runs": 5, "avg_ms": {median_ms}, "min_ms": 0.01, "max_ms": 0.1, "median_ms": {median_ms}, "std_ms": 0.01,
        "p5_ms": 0.01, "p95_ms": 0.09, "num_runs": 100}}, "throughput_mb_s": 100.0}}"#
    )
}

/// Output of `benchmark_model`, shortened.
fn text(gpu: u32, micros: f64) -> String {
    format!(
        "STARTING!\nLog parameter values verbosely: [0]\nMin num runs: [50]\nNum threads: [2]\nGraph: [/data/local/tmp/tiny.tflite]\n\
         #threads used for CPU inference: [2]\nUse gpu: [{gpu}]\nLoaded model /data/local/tmp/tiny.tflite\n\
         Initialized session in 0.855ms.\ncount=50 first=900 curr=33 min=32 max=900 avg={micros} std=45\n\n\
         Inference timings in us: Init: 855, First inference: 900, Warmup (avg): 48.1, Inference (avg): {micros}\n"
    )
}

fn folder_with(files: &[(&str, String)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("import/tests/inputs/tiny.tflite");
    fs::copy(model, folder.path().join("tiny.tflite")).unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

#[test]
fn times_of_whole_networks_move_the_rates_of_xnnpack() {
    let folder = folder_with(&[("one.json", result(1, 0.5)), ("two.json", result(2, 0.3))]);
    let validate = |profile: &str| {
        let line = format!("validate --profile {profile} --runs . --format litert-benchmark --json");
        let document = coexec_in(folder.path(), words(&line)).json();
        let groups = document["groups"].as_array().unwrap().clone();
        let names: Vec<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"cpu/1large/float") && names.contains(&"cpu/1large1med/float"), "{names:?}");
        groups.iter().find(|group| group["name"] == "cpu/1large/float").unwrap()["mape_percent"]
            .as_f64()
            .unwrap()
    };
    let before = validate("pixel4");
    let line = "calibrate --base pixel4 --runs . --format litert-benchmark --out fitted.toml --json";
    let document = coexec_in(folder.path(), words(line)).json();
    assert_eq!(document["cpu_tables"][0]["library"], "xnnpack");
    assert!(validate("fitted.toml") < 0.3 * before, "{before}");
    let fitted = Profile::load(folder.path().join("fitted.toml").to_str().unwrap()).unwrap().cpu;
    let base = Profile::load("pixel4").unwrap().cpu;
    assert_ne!(fitted.clusters[0].xnnpack_f32, base.clusters[0].xnnpack_f32);
    assert_eq!(fitted.clusters[0].ruy_f32, base.clusters[0].ruy_f32);
}

#[test]
fn the_x86_rates_are_those_fitted_to_single_operators() {
    let folder = tempfile::tempdir().unwrap();
    let line = "profile new --soc server --cpu 2xx86-64-v4@3.7 --gpu none --npu none --memory ddr5-2400x128 --out x86.toml --json";
    coexec_in(folder.path(), words(line)).json();
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("device-profiles/runs/zen4-litert.csv");
    let line = format!(
        "calibrate --base x86.toml --library xnnpack --runs {} --out fitted.toml --json",
        runs.display()
    );
    coexec_in(folder.path(), words(&line)).json();
    let load = |name: &str| Profile::load(folder.path().join(name).to_str().unwrap()).unwrap();
    let (base, fitted) = (load("x86.toml"), load("fitted.toml"));
    let rates = |profile: &Profile| {
        let table = profile.cpu.clusters[0].xnnpack_f32.clone().unwrap();
        let often = [
            &table.multiply_accumulate_ns,
            &table.depthwise_tap_ns,
            &table.element_wise_ns,
            &table.pool_tap_ns,
        ];
        [often.map(|rate| rate.value).to_vec(), vec![table.call_ns.unwrap().value]].concat()
    };
    for (bundled, again) in rates(&base).into_iter().zip(rates(&fitted)) {
        assert!((again / bundled - 1.0).abs() < 0.02, "{bundled} {again}");
    }
    let errors = fitted.calibration.unwrap().error;
    for name in ["cpu/1large/float", "cpu/2large/float"] {
        let group = errors.iter().find(|group| group.name.to_string() == name).unwrap();
        assert!(group.n == 388 && group.mape_percent < 14.0, "{group:?}");
    }
}

#[test]
fn a_time_on_the_gpu_moves_a_profile_from_a_specification() {
    let folder = folder_with(&[("gpu.txt", text(1, 4_000.0)), ("cpu.log", text(0, 300.0))]);
    coexec_in(folder.path(), words("profile new --soc pixel-5 --out mine.toml --json")).json();
    let error = |profile: &str| {
        let line = format!("validate --profile {profile} --runs . --format benchmark-model --json");
        let document = coexec_in(folder.path(), words(&line)).json();
        let groups = document["groups"].as_array().unwrap().clone();
        let group = groups.iter().find(|group| group["name"] == "gpu/end_to_end/all").unwrap().clone();
        group["mape_percent"].as_f64().unwrap()
    };
    let before = error("mine.toml");
    let line = "calibrate --base mine.toml --runs . --format benchmark-model --out better.toml";
    coexec_in(folder.path(), words(line));
    assert!(error("better.toml") < 0.2 * before, "{before}");
    let better = fs::read_to_string(folder.path().join("better.toml")).unwrap();
    assert!(better.contains("gpu/conv2d/unseen"), "what it states of single kernels is kept");
}

#[test]
fn inferences_alone_give_a_measured_gpu_errors_on_held_out_networks() {
    let folder = folder_with(&[]);
    let tiny = folder.path().join("tiny.tflite");
    for number in 1..=12 {
        let name = format!("net{number}");
        fs::copy(&tiny, folder.path().join(format!("{name}.tflite"))).unwrap();
        let time =
            text(1, 9_000.0 + 40.0 * f64::from(number)).replace("tiny.tflite", &format!("{name}.tflite"));
        fs::write(folder.path().join(format!("{name}.txt")), time).unwrap();
    }
    let line = "calibrate --base pixel4 --runs . --format benchmark-model --out fitted.toml --json";
    let document = coexec_in(folder.path(), words(line)).json();
    let group = &document["groups"][0];
    assert_eq!((&group["name"], &group["n"]), (&"gpu/end_to_end/all".into(), &12.into()), "{document}");
    let fitted = Profile::load(folder.path().join("fitted.toml").to_str().unwrap()).unwrap();
    let spread = fitted.calibration.unwrap().gpu_inference.unwrap();
    assert_eq!(spread.networks, 12);
    assert!(spread.low_factor < 1.0 && spread.high_factor < 1.1, "{spread:?}");
}

#[test]
fn results_that_cannot_be_used_are_named_with_why() {
    let folder = folder_with(&[
        ("good.json", result(1, 0.5)),
        ("other.json", result(1, 0.5).replace("tiny.tflite", "absent.tflite")),
        ("bad.json", "{}".to_owned()),
        ("many.json", result(64, 0.5)),
    ]);
    let line = "validate --profile pixel4 --runs . --format litert-benchmark";
    let outcome = coexec_in(folder.path(), words(line));
    for expected in
        ["absent.tflite is not in the folder", "is not a result of litert-benchmark", "has no 64 cores"]
    {
        assert!(outcome.stderr.contains(expected), "{expected}: {}", outcome.stderr);
    }
    let empty = folder_with(&[]);
    let outcome =
        coexec_in(empty.path(), words("validate --profile pixel4 --runs . --format benchmark-model"));
    outcome.assert_refused(&["next to NAME.tflite"]);
}

fn inputs() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fit/tests/inputs")
}

#[test]
fn a_profile_of_onnx_runtime_is_compared_whole_and_node_by_node() {
    let folder = tempfile::tempdir().unwrap();
    let graph = "squeezenet1_1.onnx";
    let graphs = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/aihub/graphs");
    fs::copy(graphs.join(graph), folder.path().join(graph)).unwrap();
    let profile = "squeezenet1_1_2026-11-24_15-24-53_852.json";
    fs::copy(inputs().join(profile), folder.path().join(profile)).unwrap();
    let line = "validate --profile pixel4 --runs . --format onnx-runtime --json --worst 100";
    let document = coexec_in(folder.path(), words(line)).json();
    assert_eq!(document["groups"][0]["name"], "cpu/1large/float");
    assert_eq!(document["groups"][0]["n"], 39);
    assert_eq!(document["unusable"].as_array().unwrap().len(), 2);
    let line = "calibrate --base pixel4 --runs . --format onnx-runtime --out fitted.toml --json";
    let document = coexec_in(folder.path(), words(line)).json();
    assert_eq!(
        (&document["cpu_tables"][0]["library"], &document["cpu_tables"][0]["runs"]),
        (&"xnnpack".into(), &39.into())
    );
}

#[test]
fn rates_of_llama_bench_are_compared_and_not_fitted_to() {
    let validate =
        "validate --profile snapdragon-8elite --runs llama-bench-8elite.md --format llama-bench --json";
    let document = coexec_in(&inputs(), words(validate)).json();
    let groups = document["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert!(
        names.contains(&"npu/llama_cpp/q4_0/first_token") && names.contains(&"npu/llama_cpp/q4_0/next_token")
    );
    let fit = validate.replace("validate --profile", "calibrate --out /dev/null --base");
    coexec_in(&inputs(), words(&fit)).assert_refused(&["coexec validate"]);
}

#[test]
fn times_on_several_clusters_alone_move_the_tables_of_both() {
    let folder = folder_with(&[("four.json", result(4, 0.4)), ("again.json", result(4, 0.5))]);
    let group = |profile: &str| {
        let line = format!("validate --profile {profile} --runs . --format litert-benchmark --json");
        let document = coexec_in(folder.path(), words(&line)).json();
        let group = document["groups"][0].clone();
        assert_eq!(group["name"], "cpu/1large3med/float");
        group["mape_percent"].as_f64().unwrap()
    };
    let line = "calibrate --base pixel4 --runs . --format litert-benchmark --out fitted.toml --json";
    let document = coexec_in(folder.path(), words(line)).json();
    let tables = document["cpu_tables"].as_array().unwrap();
    let clusters: Vec<&str> = tables.iter().map(|table| table["cluster"].as_str().unwrap()).collect();
    assert_eq!(clusters, ["large", "med"]);
    assert_eq!(tables[0]["parameters"][0]["key"], "times_factor");
    let (before, after) = (group("pixel4"), group("fitted.toml"));
    assert!(after < 15.0 && after < 0.3 * before, "{before} {after}");

    let [base, fitted] = ["pixel4", folder.path().join("fitted.toml").to_str().unwrap()]
        .map(|name| Profile::load(name).unwrap());
    assert_eq!(fitted.cpu.clusters[2], base.cpu.clusters[2]);
    let names = |profile: &Profile| -> Vec<String> {
        profile.calibration.as_ref().unwrap().error.iter().map(|group| group.name.to_string()).collect()
    };
    // One network tells no error on held-out networks, and refutes those that the base states.
    assert_eq!(document["groups"].as_array().unwrap().len(), 0, "{document}");
    let of_gpu: Vec<String> = names(&base).into_iter().filter(|name| !name.starts_with("cpu/")).collect();
    assert_eq!(names(&fitted), of_gpu);
    assert_eq!(
        fitted.calibration.unwrap().gpu_table,
        base.calibration.unwrap().gpu_table,
        "the intervals of the GPU are kept"
    );
}

#[test]
fn an_invalid_time_is_named_with_its_file_and_line() {
    let mean = |micros: &str| {
        text(0, 1.0)
            .replace("avg=1 ", &format!("avg={micros} "))
            .replace("(avg): 1\n", &format!("(avg): {micros}\n"))
    };
    for micros in ["0", "-5", "1e300", "1e10"] {
        let folder = folder_with(&[("good.txt", text(0, 300.0)), ("bad.txt", mean(micros))]);
        let line = "validate --profile pixel4 --runs . --format benchmark-model --json";
        let document = coexec_in(folder.path(), words(line)).json();
        let unusable = &document["unusable"][0];
        let reason = unusable["reason"].as_str().unwrap();
        assert!(reason.contains("bad.txt: the time is ") && reason.contains("from 0.001 to 1e9"), "{reason}");
        assert_eq!(unusable["line"], 12, "{micros}");
        fs::remove_file(folder.path().join("good.txt")).unwrap();
        coexec_in(folder.path(), words(line)).assert_refused(&["line 12", "bad.txt", "the time is"]);
    }
    let folder = tempfile::tempdir().unwrap();
    let ncnn = "num_threads = 1\n resnet18 min = 1 max = 2 avg = NaN\n resnet50 min = 1 max = 2 avg = inf\n";
    fs::write(folder.path().join("bench.txt"), ncnn).unwrap();
    let line = "validate --profile pixel4 --runs bench.txt --format ncnn";
    coexec_in(folder.path(), words(line)).assert_refused(&["line 2", "the time is NaN us"]);
    let rates = fs::read_to_string(inputs().join("llama-bench-8elite.md")).unwrap();
    let rates: Vec<String> = rates
        .lines()
        .map(|line| {
            let Some((row, rate)) =
                line.trim_end_matches([' ', '|']).rsplit_once('|').filter(|(_, rate)| rate.contains('±'))
            else {
                return line.to_owned();
            };
            assert!(!rate.is_empty());
            format!("{row}| 0.00 ± 0.00 |")
        })
        .collect();
    fs::write(folder.path().join("rates.md"), rates.join("\n")).unwrap();
    let line = "validate --profile snapdragon-8elite --runs rates.md --format llama-bench";
    coexec_in(folder.path(), words(line)).assert_refused(&["at 0.0 tokens a second the time is inf us"]);
}

#[test]
fn inferences_that_contradict_measured_kernels_move_them_and_what_is_written_is_read() {
    for factor in [1.0 / 3.0, 3.0] {
        let folder = tempfile::tempdir().unwrap();
        let mut ncnn = "num_threads = 1\npowersave = 0\ngpu_device = 0\n".to_owned();
        for network in ["mobilenet-v2", "resnet18", "resnet34", "resnet50", "vgg16"] {
            let line = format!("simulate {network} --device pixel4 --strategy gpu-only --json");
            let millis =
                factor * crate::latency_ps(&coexec_in(folder.path(), words(&line)).json()) as f64 / 1e9;
            ncnn += &format!("{network} min = {millis} max = {millis} avg = {millis}\n")
                .replace("mobilenet-", "mobilenet_");
        }
        fs::write(folder.path().join("bench.txt"), ncnn).unwrap();
        let line = "calibrate --base pixel4 --runs bench.txt --format ncnn --out fitted.toml";
        let outcome = coexec_in(folder.path(), words(line));
        assert!(outcome.stderr.contains("clocks and caches explain"), "{}", outcome.stderr);
        let line = "validate --profile fitted.toml --runs bench.txt --format ncnn --json";
        let groups = coexec_in(folder.path(), words(line)).json()["groups"].clone();
        assert!(groups[0]["mape_percent"].as_f64().unwrap() < 5.0, "{groups}");
        let fitted = Profile::load(folder.path().join("fitted.toml").to_str().unwrap()).unwrap();
        let calibration = fitted.calibration.unwrap();
        assert!(calibration.gpu_table.is_empty() && calibration.error.iter().any(|group| group.n == 82));
        assert!(!calibration.error.iter().any(|group| group.name == "gpu/conv2d/unseen".into()));
    }
}
