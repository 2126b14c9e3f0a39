//! The pictures and traces that commands write.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use serde_json::Value;

use crate::{coexec_in, latency_ps, words};

fn run(folder: &Path, line: &str) -> Value {
    coexec_in(folder, words(&format!("{line} --json"))).json()
}

/// Width and height of a PNG that decodes in full.
pub(crate) fn decoded(bytes: &[u8]) -> (u32, u32) {
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    let mut reader = png::Decoder::new(Cursor::new(bytes)).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut pixels).unwrap();
    assert!(pixels.iter().any(|&byte| byte != pixels[0]), "something is drawn");
    (frame.width, frame.height)
}

/// Asserts that every element of an SVG is closed, and returns its text.
pub(crate) fn parsed(svg: &str) -> String {
    let mut open = Vec::new();
    let mut text = String::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        text.push_str(&rest[..at]);
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with(['?', '!']) || tag.ends_with('/') {
            continue;
        }
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name.trim())),
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
    }
    assert!(open.is_empty(), "{open:?} never close");
    text
}

#[test]
fn a_curve_shows_both_processors_and_their_cooperation() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "explore vit-b32-fc1 --plot curve.svg");
    let svg = fs::read_to_string(folder.path().join("curve.svg")).unwrap();
    let text = parsed(&svg);
    for word in ["OnePlus 11", "GPU", "CPU", "together", "output channels", "3072"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}

#[test]
fn all_strategies_are_in_one_figure_and_their_shares_in_another() {
    let folder = tempfile::tempdir().unwrap();
    let line = "explore resnet18 --device pixel4 --step 32 --strategy all --plot all.svg --shares shares.svg";
    run(folder.path(), line);
    let text = |name: &str| parsed(&fs::read_to_string(folder.path().join(name)).unwrap());
    for word in ["Pareto front", "codl", "optimal", "latency, ms", "energy, mJ"] {
        assert!(text("all.svg").contains(word), "{word}: {}", text("all.svg"));
    }
    for word in ["codl", "optimal", "chain", "operator"] {
        assert!(text("shares.svg").contains(word), "{word}: {}", text("shares.svg"));
    }
}

#[test]
fn a_timeline_names_the_cores_and_the_gpu() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "explore vit-b32-fc1 --strategy channel-split --timeline explored.svg");
    run(folder.path(), "simulate vit-b32-fc1 --strategy channel-split --plot simulated.svg");
    let explored = fs::read_to_string(folder.path().join("explored.svg")).unwrap();
    let text = parsed(&explored);
    for word in ["OnePlus 11", "CPU large 0", "CPU med 1", "GPU queue", "memory bandwidth"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert_eq!(explored, fs::read_to_string(folder.path().join("simulated.svg")).unwrap());
}

#[test]
fn pictures_are_png_where_the_name_says_so() {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), "explore vit-b32-fc1 --plot curve.PNG --timeline timeline.png");
    for name in ["curve.PNG", "timeline.png"] {
        let (width, height) = decoded(&fs::read(folder.path().join(name)).unwrap());
        assert!(width >= 800 && height >= 200, "{name}: {width}x{height}");
    }
}

/// The events of the trace of a run, and its latency.
fn trace(line: &str) -> (Vec<Value>, u64) {
    let folder = tempfile::tempdir().unwrap();
    let document = run(folder.path(), &format!("{line} --trace run.json"));
    let trace: Value = serde_json::from_slice(&fs::read(folder.path().join("run.json")).unwrap()).unwrap();
    (trace["traceEvents"].as_array().unwrap().clone(), latency_ps(&document))
}

/// Names of groups and of their tracks.
fn tracks(events: &[Value]) -> Vec<(String, String)> {
    let named = |what: &'static str| events.iter().filter(move |event| event["name"] == what);
    let name = |event: &Value| event["args"]["name"].as_str().unwrap().to_owned();
    let group = |track: &Value| {
        let group = named("process_name").find(|group| group["pid"] == track["pid"]);
        name(group.expect("every track stands in a group"))
    };
    named("thread_name").map(|track| (group(track), name(track))).collect()
}

#[test]
fn a_trace_lasts_as_long_as_the_prediction() {
    for line in ["explore vit-b32-fc1", "simulate resnet18 --device pixel4", "simulate llama3-8b-ffn-down"] {
        let (events, latency) = trace(line);
        let slices = || events.iter().filter(|event| event["ph"] == "X");
        let end = |slice: &Value| {
            ((slice["ts"].as_f64().unwrap() + slice["dur"].as_f64().unwrap()) * 1e3).round() as u64
        };
        let whole = end(slices().find(|slice| slice["name"] == "run").unwrap());
        assert!((whole * 1_000).abs_diff(latency) <= 1_000, "{line}");
        let last = slices().filter(|slice| slice["name"] != "run").map(end).max();
        assert!(last.unwrap().abs_diff(whole) <= 1, "{line}: something lasts to the end");
        let rates = events.iter().filter(|event| event["ph"] == "C");
        let mut rates = rates.map(|event| event["args"]["GB/s"].as_f64().unwrap());
        assert!(rates.any(|rate| rate > 0.0), "{line}: memory moves bytes");
    }
}

#[test]
fn a_trace_has_a_track_for_each_core_the_gpu_queue_and_its_units() {
    let (events, _) = trace("explore vit-b32-fc1 --strategy channel-split");
    let tracks = tracks(&events);
    for (group, track) in [
        ("CPU", "CPU large 0"),
        ("CPU", "CPU med 0"),
        ("CPU", "CPU med 1"),
        ("GPU", "GPU queue"),
        ("GPU", "GPU units (x6)"),
    ] {
        assert!(tracks.contains(&(group.to_owned(), track.to_owned())), "{track:?} in {tracks:?}");
    }
    assert!(events.iter().any(|event| event["ph"] == "C" && event["name"] == "memory bandwidth"));
}

#[test]
fn a_single_processor_leaves_the_others_no_track() {
    let (events, _) = trace("simulate vit-b32-fc1 --strategy gpu-only");
    assert!(tracks(&events).iter().all(|(group, _)| group != "CPU"));
    let (events, _) = trace("simulate llama3-8b-ffn-down");
    assert!(tracks(&events).iter().any(|(group, _)| group == "NPU"));
}

#[cfg(unix)]
#[test]
fn a_written_file_may_be_read_as_any_other_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("other"), "").unwrap();
    run(folder.path(), "explore vit-b32-fc1 --out plan.toml");
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode();
    assert_eq!(mode("plan.toml"), mode("other"));
}

#[cfg(unix)]
#[test]
fn writing_through_a_link_replaces_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("plan.toml"), folder.path().join("link.toml"));
    fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    run(folder.path(), "explore vit-b32-fc1 --out link.toml");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&file).unwrap().starts_with("scenario"));
}

#[test]
fn a_curve_over_channels_is_not_drawn_of_a_cut_along_the_height() {
    let folder = tempfile::tempdir().unwrap();
    let line = "explore vit-b32-fc1 --strategy height-split --plot curve.svg";
    coexec_in(folder.path(), words(line)).assert_refused(&["cuts fc1 along its height", "channel-split"]);
    assert!(!folder.path().join("curve.svg").exists());
}
