//! The pictures and traces that commands write.

use std::fs;
use std::io::Cursor;
use std::path::Path;

use coexec_plots::perfetto::{TraceSummary, check};

use crate::{coexec_in, latency_ps, words};

fn run(folder: &Path, line: &str) -> serde_json::Value {
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

/// Asserts that every element of an SVG is closed, and gives its text back.
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
fn all_strategies_stand_in_one_figure_and_their_shares_in_another() {
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
    run(folder.path(), "explore vit-b32-fc1 --timeline explored.svg");
    run(folder.path(), "simulate vit-b32-fc1 --plot simulated.svg");
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

fn trace(line: &str) -> (TraceSummary, u64) {
    let folder = tempfile::tempdir().unwrap();
    let document = run(folder.path(), &format!("{line} --trace run.perfetto-trace"));
    let bytes = fs::read(folder.path().join("run.perfetto-trace")).unwrap();
    (check(&bytes).unwrap(), latency_ps(&document))
}

#[test]
fn a_trace_lasts_as_long_as_the_prediction() {
    for line in ["explore vit-b32-fc1", "simulate resnet18 --device pixel4", "simulate llama3-8b-ffn-down"] {
        let (summary, latency) = trace(line);
        assert!((summary.span_ns * 1_000).abs_diff(latency) <= 1_000, "{line}");
        let last = summary.tracks.iter().flat_map(|track| &track.slices).map(|slice| slice.end_ns).max();
        assert!(last.unwrap().abs_diff(summary.span_ns) <= 1, "{line}: something lasts to the end");
        let busy = summary.counters.iter().any(|counter| counter.samples.iter().any(|&(_, rate)| rate > 0.0));
        assert!(busy, "{line}: memory moves bytes");
    }
}

#[test]
fn a_trace_has_a_track_for_each_core_the_gpu_queue_and_its_units() {
    let (summary, _) = trace("explore vit-b32-fc1");
    let tracks: Vec<(&str, &str)> =
        summary.tracks.iter().map(|track| (track.group.as_str(), track.name.as_str())).collect();
    for track in [
        ("CPU", "CPU large 0"),
        ("CPU", "CPU med 0"),
        ("CPU", "CPU med 1"),
        ("GPU", "GPU queue"),
        ("GPU", "GPU units (x6)"),
    ] {
        assert!(tracks.contains(&track), "{track:?} in {tracks:?}");
    }
    assert_eq!(summary.counters[0].name, "memory bandwidth");
    assert_eq!(summary.counters[0].unit, "GB/s");
}

#[test]
fn a_single_processor_leaves_the_others_no_track() {
    let (summary, _) = trace("simulate vit-b32-fc1 --strategy gpu-only");
    assert!(summary.tracks.iter().all(|track| track.group != "CPU"));
    let (summary, _) = trace("simulate llama3-8b-ffn-down");
    assert!(summary.tracks.iter().any(|track| track.group == "NPU"));
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
fn behind_a_link_the_file_is_replaced_and_the_link_stays() {
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
