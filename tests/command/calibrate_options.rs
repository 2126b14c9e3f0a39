//! Options of `calibrate`: the prior, the number of runs, additional files; and what
//! an interrupted fit leaves behind.

use std::fs;

use coexec_fit::validate::point::of_csv;
use coexec_sim::device::profile::Profile;
use coexec_sim::input::Text;

use super::calibrate::{CALIBRATE, write_runs};
use crate::{coexec_in, words};

fn calibration(profile: &std::path::Path) -> coexec_sim::device::calibration::Calibration {
    Profile::load(profile.to_str().unwrap()).unwrap().calibration.unwrap()
}

#[test]
fn a_prior_from_hardware_or_other_phones_fits_and_is_named_in_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    for prior in ["hardware", "mi8se,galaxy-s10"] {
        let outcome = coexec_in(folder.path(), words(CALIBRATE).chain(["--prior", prior]));
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let source = calibration(&folder.path().join("phone.toml")).source;
        assert!(source.contains(&format!("prior {prior}")), "{source}");
    }
    coexec_in(folder.path(), words(CALIBRATE).chain(["--prior", "pixle4"]))
        .assert_refused(&["no device profile named \"pixle4\"", "did you mean \"pixel4\"?"]);
    coexec_in(folder.path(), words(CALIBRATE).chain(["--prior", "hardwar"]))
        .assert_refused(&["did you mean \"hardware\"?", "base, hardware, "]);
    coexec_in(folder.path(), words(CALIBRATE).chain(["--prior", "base,hardware"]))
        .assert_refused(&["--prior base,hardware", "alone"]);
    // The OnePlus 11's profile does not state its GPU's operations per cycle.
    let line = CALIBRATE.replace("pixel4", "oneplus11");
    coexec_in(folder.path(), words(&line).chain(["--prior", "hardware"]))
        .assert_refused(&["under [gpu]", "--prior base"]);
}

#[test]
fn a_fit_uses_as_many_runs_or_networks_as_requested() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let source = |options: &[&str]| {
        let arguments = words(CALIBRATE).chain(["--quiet"]).chain(options.iter().copied());
        let outcome = coexec_in(folder.path(), arguments);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        calibration(&folder.path().join("phone.toml")).source
    };
    let drawn = source(&["--rows", "30"]);
    assert!(drawn.contains("30 runs of phone, 30 of the GPU drawn with seed 0"), "{drawn}");
    let drawn = source(&["--networks", "2", "--seed", "7"]);
    assert!(drawn.contains("100 runs of phone, of 2 networks drawn with seed 7"), "{drawn}");
    assert!(source(&["--rows", "9999"]).contains("150 runs of phone"));
    let more = coexec_in(folder.path(), words(CALIBRATE).chain(["--networks", "9999"])).stderr;
    assert!(more.contains("--networks is 9999, and the runs have only 3"), "{more}");
    for options in [["--rows", "0"], ["--networks", "-1"]] {
        assert_eq!(coexec_in(folder.path(), words(CALIBRATE).chain(options)).status, 1);
    }
    let both = words(CALIBRATE).chain(["--rows", "3", "--networks", "2"]);
    assert_eq!(coexec_in(folder.path(), both).status, 1);
}

#[test]
fn points_of_a_calibration_are_of_networks_it_had_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let outcome = coexec_in(folder.path(), words(CALIBRATE).chain(["--points", "points.csv"]));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let points = of_csv(&Text::read(&folder.path().join("points.csv")).unwrap()).unwrap();
    assert_eq!(points.len(), 146, "without four runs of a kernel that only one network has");
    assert!(outcome.stderr.contains("too few networks have runs of gpu."), "{}", outcome.stderr);
    let missing = words(CALIBRATE).chain(["--points", "missing/points.csv"]);
    fs::write(folder.path().join("phone.toml"), "old").unwrap();
    coexec_in(folder.path(), missing).assert_refused(&["no folder missing"]);
    assert_eq!(fs::read_to_string(folder.path().join("phone.toml")).unwrap(), "old");
}

#[test]
fn a_learning_curve_needs_networks_to_hold_out() {
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    let line = words(CALIBRATE).chain(["--learning-curve", "curve.csv"]);
    coexec_in(folder.path(), line).assert_refused(&["holds out 20 networks"]);
    // Each row is its own network, so that there are enough networks.
    let path = folder.path().join("runs/tflite_cnn_ops_gpu.csv");
    let table = fs::read_to_string(&path).unwrap();
    let renamed = table.lines().enumerate().map(|(index, line)| match line.split_once(',') {
        Some((_, rest)) if index > 0 => format!("net{index},{rest}\n"),
        _ => format!("{line}\n"),
    });
    fs::write(&path, renamed.collect::<String>()).unwrap();
    let line = words(CALIBRATE).chain(["--learning-curve", "curve.csv", "--prior", "hardware"]);
    let outcome = coexec_in(folder.path(), line);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let curve = fs::read_to_string(folder.path().join("curve.csv")).unwrap();
    assert!(curve.contains("\"physics, prior hardware\",10,0,"), "{curve}");
    assert!(curve.contains("FLOPs-linear,"), "{curve}");
    let outcome = coexec_in(folder.path(), words("plot learning-curve curve.csv --out curve.svg"));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
}

/// Nothing is written before the fit is done, and then each file is written under a
/// temporary name and renamed; so an interrupted fit leaves no file.
#[cfg(unix)]
#[test]
fn an_interrupted_calibration_leaves_the_old_profile_and_no_other_file() {
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    /// Number of the signal that terminates a process. SIGINT would be ignored if tests run in
    /// the background of a shell.
    const SIGTERM: i32 = 15;
    let folder = tempfile::tempdir().unwrap();
    write_runs(folder.path());
    fs::write(folder.path().join("phone.toml"), "old").unwrap();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("coexec"))
        .args(words(CALIBRATE).chain(["--jobs", "1"]))
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first progress message: the fit has several steps left.
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("GPU: ") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the fit tells of its steps");
    }
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(SIGTERM), "{status}");
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    assert_eq!(fs::read_to_string(folder.path().join("phone.toml")).unwrap(), "old");
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["phone.toml", "runs"]);
}

#[test]
fn what_to_measure_next_is_named_and_written_as_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    coexec_in(folder.path(), words("profile new --soc pixel-5 --out mine.toml --json")).json();
    let line = "calibrate --base mine.toml --suggest 20 --out next.toml --json";
    let document = coexec_in(folder.path(), words(line)).json();
    let suggested = document["suggested"].as_array().unwrap();
    let on_gpu = suggested.iter().filter(|one| one["on"] == "gpu").count();
    assert_eq!((suggested.len(), on_gpu), (22, 20));
    let errors: Vec<f64> =
        suggested[..20].iter().map(|one| one["error_then_percent"].as_f64().unwrap()).collect();
    assert!(errors.windows(2).all(|pair| pair[1] < pair[0]), "{errors:?}");
    let line = "simulate next.toml --device mine.toml --strategy gpu-only --json";
    let simulated = coexec_in(folder.path(), words(line)).json();
    assert!(simulated.is_object());
    coexec_in(folder.path(), words("calibrate --base mine.toml --out x.toml")).assert_refused(&["--runs"]);
}

#[test]
fn no_parameter_is_fitted_to_plans() {
    let folder = tempfile::tempdir().unwrap();
    let measured = std::path::Path::new("device-profiles/runs/h200-plans");
    for file in ["profile.toml", "runs.fingerprints.toml", "codl-yolov2.plan.toml"] {
        fs::copy(measured.join(file), folder.path().join(file)).unwrap();
    }
    let runs = fs::read_to_string(measured.join("runs.csv")).unwrap();
    let is_kept = |line: &&str| line.starts_with("run,") || line.starts_with("codl-yolov2 on plan:");
    let kept: Vec<&str> = runs.lines().filter(is_kept).collect();
    fs::write(folder.path().join("runs.csv"), kept.join("\n")).unwrap();
    coexec_in(folder.path(), words("calibrate --base profile.toml --runs runs.csv --out x.toml"))
        .assert_refused(&["plans alone", "coexec validate"]);
}
