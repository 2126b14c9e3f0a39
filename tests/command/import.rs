//! `coexec import`: model files as scenarios.

use std::fs;

use crate::{coexec_in, latency_ps, words};

/// A network that TensorFlow converted (`import/tests/inputs/README.md`).
const TINY: &[u8] = include_bytes!("../../import/tests/inputs/tiny.tflite");

/// An ONNX model with one node: field 7 (the graph) has a node of that kind, which reads
/// the input `x` of 1x4 elements and writes the output `y`.
fn onnx(kind: &str) -> Vec<u8> {
    let field = |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    let node = [field(1, b"x"), field(2, b"y"), field(3, b"only"), field(4, kind.as_bytes())].concat();
    let extents = [field(1, &[8, 1]), field(1, &[8, 4])].concat();
    let float = [&[8, 1][..], &field(2, &extents)].concat();
    let input = [field(1, b"x"), field(2, &field(1, &float))].concat();
    let graph = [field(1, &node), field(11, &input), field(12, &field(1, b"y"))].concat();
    [&[8, 8][..], &field(7, &graph)].concat()
}

fn folder_with(name: &str, content: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), content).unwrap();
    folder
}

#[test]
fn an_imported_model_is_explored_as_the_model_itself_is() {
    let folder = folder_with("tiny.tflite", TINY);
    let explored = |name: &str| {
        let outcome = coexec_in(folder.path(), words(&format!("explore {name} --device pixel4 --json")));
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        latency_ps(&outcome.json())
    };
    let outcome = coexec_in(folder.path(), words("import tiny.tflite --out tiny.toml --json"));
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    let document = outcome.json();
    assert!(document["operators"].as_u64() > Some(10) && document["multiply_adds"].as_u64() > Some(10_000));
    assert_eq!(document["skipped"].as_array().map(Vec::len), Some(0));
    assert_eq!(explored("tiny.toml"), explored("tiny.tflite"));
}

#[test]
fn an_operator_without_counterpart_is_an_error_unless_it_is_skipped() {
    let folder = folder_with("model.onnx", &onnx("Scan"));
    let outcome = coexec_in(folder.path(), words("import model.onnx --out model.toml"));
    outcome.assert_refused(&["model.onnx", "only (Scan) has no counterpart", "--skip-unknown"]);
    assert!(!folder.path().join("model.toml").exists());
    let outcome = coexec_in(folder.path(), words("import model.onnx --out model.toml --skip-unknown"));
    outcome.assert_refused(&["0 of 1 nodes", "left out: Scan", "--least-covered"]);
    let all = "--skip-unknown --least-covered 0";
    let outcome = coexec_in(folder.path(), words(&format!("explore model.onnx {all}")));
    assert!(
        outcome.stdout.starts_with("model (0 of 1 nodes, an unknown part"),
        "{} {}",
        outcome.stdout,
        outcome.stderr
    );
    let line = format!("import model.onnx --out model.toml {all} --json");
    let outcome = coexec_in(folder.path(), words(&line));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("only (Scan) is left out"), "{}", outcome.stderr);
    assert_eq!(outcome.json()["skipped"][0]["kind"], "Scan");
    let text = fs::read_to_string(folder.path().join("model.toml")).unwrap();
    assert!(text.starts_with("# only (Scan)"), "{text}");
}

#[test]
fn invalid_models_and_unknown_dimensions_are_refused() {
    let folder = folder_with("bad.onnx", b"title = \"a scenario\"");
    coexec_in(folder.path(), words("import bad.onnx --out a.toml"))
        .assert_refused(&["not a valid ONNX model"]);
    coexec_in(folder.path(), words("explore bad.onnx"))
        .assert_refused(&["bad.onnx", "not a valid ONNX model"]);
    coexec_in(folder.path(), words("import gone.tflite --out a.toml")).assert_refused(&["gone.tflite"]);
    fs::write(folder.path().join("model.onnx"), onnx("Relu")).unwrap();
    let line = "import model.onnx --out a.toml --dim batch=4";
    coexec_in(folder.path(), words(line)).assert_refused(&["no dimension named \"batch\""]);
    let outcome = coexec_in(folder.path(), words("import model.onnx --out a.toml --dim batch=-1"));
    assert!(outcome.status == 1 && outcome.stderr.contains("NAME=N"), "{}", outcome.stderr);
    coexec_in(folder.path(), words("import model.onnx --out a.json")).assert_refused(&["ends in .toml"]);
    let twice = format!("{line} --dim batch=2");
    coexec_in(folder.path(), words(&twice)).assert_refused(&["batch=4 and batch=2"]);
    for how in ["--dim batch=4", "--skip-unknown"] {
        let line = format!("explore resnet18 --device pixel4 {how}");
        coexec_in(folder.path(), words(&line)).assert_refused(&["resnet18", "apply to model files only"]);
    }
    let language = coexec_in(folder.path(), words("explore llama3.2-1b --dim x=3"));
    language.assert_refused(&["apply to model files only"]);
    assert!(!language.stderr.contains("--batch"), "which a language model does not have");
    fs::rename(folder.path().join("model.onnx"), folder.path().join("model.pb")).unwrap();
    coexec_in(folder.path(), words("import model.pb --out a.toml")).assert_refused(&[".onnx or .tflite"]);
    assert!(!folder.path().join("a.toml").exists());
}
