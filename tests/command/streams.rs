//! Output destinations: full and closed streams, overwriting files, permissions, control characters.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::{coexec_in, words};

/// Exit status of the command, with standard streams set up by `set`.
fn status(line: &str, set: impl FnOnce(&mut Command)) -> Option<i32> {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("coexec"));
    command.args(words(line)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    set(&mut command);
    command.status().unwrap().code()
}

#[test]
fn an_answer_that_cannot_be_delivered_is_a_failure() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for line in ["-q --json explore vit-b32-fc1", "devices"] {
        assert_eq!(status(line, |command| _ = command.stdout(full())), Some(1), "{line}");
    }
}

#[test]
fn notes_that_cannot_be_written_change_no_status() {
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    for (line, wanted) in [("simulate nosuch", 1), ("explore vit-b32-fc1 --strategy all", 0)] {
        assert_eq!(status(line, |command| _ = command.stderr(full())), Some(wanted), "{line}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert_eq!(status(line, |command| _ = command.stderr(writer)), Some(wanted), "{line}, closed");
    }
}

#[test]
fn no_output_goes_over_another_or_over_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let line = "explore vit-b32-fc1 --out ./a.svg --plot a.svg";
    coexec_in(folder.path(), words(line))
        .assert_refused(&["two outputs of this command", "a name of its own"]);
    assert!(!folder.path().join("a.svg").exists());
    let model = include_bytes!("../../import/tests/inputs/tiny.tflite");
    fs::write(folder.path().join("a.tflite"), model).unwrap();
    let line = "import a.tflite --out ./a.tflite";
    coexec_in(folder.path(), words(line))
        .assert_refused(&["it is what this command reads", "choose another name for the output"]);
    for line in [
        "explore a.tflite --device pixel4 --out a.tflite",
        "simulate a.tflite --device pixel4 --trace ./a.tflite",
    ] {
        coexec_in(folder.path(), words(line)).assert_refused(&["it is what this command reads"]);
    }
    let line = "calibrate --base pixel4 --runs . --format benchmark-model --out a.tflite";
    coexec_in(folder.path(), words(line)).assert_refused(&["it is what this command reads"]);
    assert_eq!(fs::read(folder.path().join("a.tflite")).unwrap(), model);
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode_and_a_link_its_target() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("plan.toml"), folder.path().join("link.toml"));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("plan.toml", &link).unwrap();
    assert_eq!(coexec_in(folder.path(), words("-q explore vit-b32-fc1 --out link.toml")).status, 0);
    assert!(fs::read_to_string(&file).unwrap().starts_with("scenario = "));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn names_in_files_cannot_control_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let write = |device: &str| {
        let text = format!(
            "title = \"\\u001b[31mred\\u0007\\u202e\"\nnetwork = \"vit-b32-mlp\"\ndevice = \"{device}\"\n"
        );
        fs::write(folder.path().join("scenario.toml"), text).unwrap();
        coexec_in(folder.path(), words("simulate scenario.toml"))
    };
    let outcome = write("pixel4");
    assert!(outcome.stdout.starts_with("\\u{1b}[31mred\\u{7}\\u{202e}\n"), "{:?}", &outcome.stdout[..60]);
    let outcome = write("\\u001b[2J");
    outcome.assert_refused(&["\\u{1b}[2J"]);
    assert!(!outcome.stdout.contains('\u{1b}') && !outcome.stderr.contains('\u{1b}'), "{:?}", outcome.stderr);
}

#[test]
fn a_scenario_does_not_show_the_lines_of_files_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let (secret, scenario) = (folder.path().join("secret"), folder.path().join("scenario.toml"));
    fs::write(&secret, "password hunter2\n").unwrap();
    fs::write(&scenario, format!("title = \"t\"\nnetwork = \"vit-b32-mlp\"\ndevice = {secret:?}\n")).unwrap();
    let outcome = coexec_in(folder.path(), words("simulate scenario.toml"));
    outcome.assert_refused(&["secret:1:"]);
    assert!(!outcome.stderr.contains("hunter2"), "{}", outcome.stderr);
}

#[test]
fn a_json_document_says_what_turns_letters_round_in_escapes_of_json_and_no_zero_below_zero() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\u{202e}b\u{9b}c\u{7f}.toml";
    let line = "simulate vit-b32-mlp --device pixel4 --strategy gpu-only --json";
    assert_eq!(
        coexec_in(folder.path(), words(&format!("explore vit-b32-mlp --device pixel4 --out {name}"))).status,
        0
    );
    let outcome =
        coexec_in(folder.path(), words(&format!("{line} --plan {name}").replace("--strategy gpu-only ", "")));
    assert!(outcome.stdout.contains("a\\u202eb\\u009bc\\u007f.toml"), "{}", outcome.stdout);
    let origin = outcome.json()["plan_origin"].as_str().unwrap().to_owned();
    assert!(origin.contains(name), "{origin:?}");
    let outcome = coexec_in(folder.path(), words(line));
    assert!(!outcome.stdout.contains("-0.0,"), "{}", outcome.stdout);
}
