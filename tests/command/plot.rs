//! Figures from the files that `validate` and `calibrate` wrote.

use std::fs;
use std::path::Path;

use super::calibrate::write_runs;
use super::pictures::{decoded, parsed};
use crate::{Outcome, coexec_in, words};

/// A folder with the points of a validation.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let line = "validate --profile pixel4 --runs runs --device-column phone --points points.csv --quiet";
    assert_eq!(coexec_in(folder.path(), words(line)).status, 0);
    folder
}

fn plot(folder: &Path, line: &str) -> Outcome {
    coexec_in(folder, words(&format!("plot {line}")))
}

fn text(folder: &Path, line: &str) -> String {
    let outcome = plot(folder, &format!("{line} --out figure.svg"));
    assert_eq!(outcome.status, 0, "{line}: {}", outcome.stderr);
    parsed(&fs::read_to_string(folder.join("figure.svg")).unwrap())
}

#[test]
fn points_make_every_figure_of_points() {
    let folder = folder();
    for (kind, word) in [("scatter", "predicted"), ("error-cdf", "10 %")] {
        let text = text(folder.path(), &format!("{kind} points.csv"));
        assert!(text.contains(word), "{kind}: {text}");
    }
    assert!(plot(folder.path(), "scatter points.csv --out figure.png").stdout.contains("wrote figure.png"));
    decoded(&fs::read(folder.path().join("figure.png")).unwrap());
}

#[test]
fn a_figure_has_the_title_and_the_groups_that_were_asked_for() {
    let folder = folder();
    let text = text(folder.path(), "scatter points.csv --group gpu/mean --title Means");
    assert!(text.contains("Means") && text.contains("gpu/mean") && !text.contains("conv2d"), "{text}");
}

#[test]
fn a_learning_curve_is_drawn_by_its_series() {
    let folder = tempfile::tempdir().unwrap();
    let curve = "series,rows,draw,mape_percent\nphysics,10,0,15.5\nphysics,100,0,8\nFLOPs-linear,10,0,60\n";
    fs::write(folder.path().join("curve.csv"), curve).unwrap();
    let text = text(folder.path(), "learning-curve curve.csv");
    assert!(text.contains("physics") && text.contains("FLOPs-linear"), "{text}");
}

#[test]
fn an_invalid_points_file_is_refused_and_nothing_is_drawn() {
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("empty.csv"), "").unwrap();
    fs::write(folder.join("other.csv"), "a,b\n1,2\n").unwrap();
    let points = fs::read_to_string(folder.join("points.csv")).unwrap();
    fs::write(folder.join("header.csv"), points.lines().next().unwrap()).unwrap();
    for (line, expected) in [
        ("scatter missing.csv --out figure.svg", "cannot read missing.csv"),
        ("scatter empty.csv --out figure.svg", "empty.csv contains no points"),
        ("scatter header.csv --out figure.svg", "contains no points"),
        ("scatter other.csv --out figure.svg", "missing field"),
        ("learning-curve points.csv --out figure.svg", "unknown field `group`"),
        ("scatter points.csv --out missing/figure.svg", "no folder missing"),
        ("scatter points.csv --group cpu --out figure.svg", "--group is \"cpu\""),
        ("learning-curve points.csv --group gpu --out figure.svg", "--group does not apply"),
    ] {
        let refused = plot(folder, line);
        refused.assert_refused(&[expected]);
        assert!(!refused.stderr.contains("CSV"), "{}", refused.stderr);
        assert!(!folder.join("figure.svg").exists(), "{line}");
    }
    plot(folder, "scatter points.csv --out figure.pdf").assert_misused(&[".svg or .png"]);
    assert_eq!(plot(folder, "pie points.csv --out figure.svg").status, 1);
}
