//! The command as a person or a script uses it: arguments in; exit status,
//! standard output, standard error and files out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

mod command {
    mod advice;
    mod ai_hub;
    mod applications;
    mod bad_arguments;
    mod bad_files;
    mod bad_plans;
    mod calibrate;
    mod calibrate_cpu;
    mod calibrate_options;
    mod compare;
    mod delegates;
    mod explore;
    mod formats;
    mod growth;
    mod import;
    mod language;
    mod library;
    mod litert;
    mod machines;
    mod memories;
    mod own_runs;
    mod pictures;
    mod pipelines;
    mod plans;
    mod plot;
    mod probe;
    mod profile;
    mod repeatable;
    mod replay;
    mod report;
    mod reproduce;
    mod run;
    mod run_chains;
    mod run_hazards;
    mod run_plans;
    mod schemas;
    #[cfg(unix)]
    mod streams;
    mod sums;
    mod validate;
}

/// Some of the bundled devices.
const DEVICES: [&str; 3] = ["oneplus11", "pixel4", "snapdragon-8gen3"];

/// Folder for the command's application data, inside the test's folder.
const DATA_HOME: &str = "kept";

/// Exit status and output of a run of the command.
struct Outcome {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Outcome {
    /// The one JSON document on standard output.
    fn json(&self) -> Value {
        assert_eq!(self.status, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).expect("standard output is one JSON document and nothing else")
    }

    /// Asserts that the command-line parser refused the arguments with a message that contains each of
    /// `words`.
    fn assert_misused(&self, words: &[&str]) {
        let stderr = &self.stderr;
        assert_eq!((self.status, self.stdout.as_str()), (1, ""), "{stderr}");
        assert!(stderr.starts_with("error: "), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
        }
    }

    /// Asserts that the command refused its input: status 1, nothing on standard
    /// output, and one error with a remedy, which contains each of `words`.
    fn assert_refused(&self, words: &[&str]) {
        let stderr = &self.stderr;
        assert_eq!(self.status, 1, "{stderr}");
        assert_eq!(self.stdout, "", "{stderr}");
        let errors = stderr.lines().filter(|line| line.starts_with("  x ") || line.starts_with("  × "));
        assert_eq!(errors.count(), 1, "{stderr}");
        assert!(stderr.contains("help: "), "no remedy: {stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        for word in words {
            assert!(stderr.contains(word), "{word:?} is not in: {stderr}");
        }
    }
}

fn coexec_in<I: IntoIterator<Item = S>, S: AsRef<std::ffi::OsStr>>(folder: &Path, arguments: I) -> Outcome {
    let output = Command::new(assert_cmd::cargo::cargo_bin!("coexec"))
        .args(arguments)
        .current_dir(folder)
        .env("XDG_DATA_HOME", folder.join(DATA_HOME))
        .output()
        .expect("the command was built with this test");
    let text = |bytes| String::from_utf8(bytes).expect("the command writes UTF-8");
    Outcome {
        status: output.status.code().expect("no signal ended the command"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

fn coexec<'a, I: IntoIterator<Item = &'a str>>(arguments: I) -> Outcome {
    coexec_in(Path::new("."), arguments)
}

/// The arguments of a line without quotes.
fn words(line: &str) -> std::str::SplitWhitespace<'_> {
    line.split_whitespace()
}

/// Predicted latency of a JSON document of `simulate` or `explore`.
fn latency_ps(document: &Value) -> u64 {
    document["prediction"]["latency_ps"].as_u64().expect("a prediction has a latency")
}
