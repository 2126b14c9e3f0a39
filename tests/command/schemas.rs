//! The JSON Schemas in the repository match the file formats.

use std::fs;
use std::path::Path;

use jsonschema::Validator;
use serde_json::Value;

use crate::{coexec, coexec_in, words};

const SCHEMAS: [(&str, &str); 3] = [
    ("profile", "device-profiles/schema.json"),
    ("scenario", "scenarios/schema.json"),
    ("plan", "scenarios/plan.schema.json"),
];

#[test]
fn the_schemas_in_the_repository_are_those_of_the_formats() {
    for (format, path) in SCHEMAS {
        let printed = coexec(["schema", format]).stdout;
        let kept = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap_or_default();
        assert!(printed == kept, "{path} is out of date; run: cargo run -- schema {format} > {path}");
    }
}

fn validator(format: &str) -> Validator {
    let schema: Value = serde_json::from_str(&coexec(["schema", format]).stdout).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

/// A TOML text as a JSON value, for validation against a schema.
fn value(text: &str) -> Value {
    let table: toml::Table = text.parse().unwrap();
    serde_json::to_value(table).unwrap()
}

/// The format of a file of `folder`; none for a schema.
fn format_of(folder: &str, name: &str) -> Option<&'static str> {
    let parts: Vec<&str> = name.split('.').collect();
    match (folder, parts.as_slice()) {
        ("device-profiles", [_, "toml"]) => Some("profile"),
        (_, [_, "plan", "toml"]) => Some("plan"),
        (_, [_, "toml"]) => Some("scenario"),
        _ => None,
    }
}

#[test]
fn bundled_files_follow_the_schemas() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["device-profiles", "scenarios"] {
        let mut files = 0;
        for entry in fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            let Some(format) = format_of(folder, &name) else { continue };
            let validator = validator(format);
            let document = value(&fs::read_to_string(&path).unwrap());
            let errors: Vec<String> = validator
                .iter_errors(&document)
                .map(|error| format!("{} {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");
            let mut misspelt = document;
            misspelt["titel"] = Value::from("x");
            assert!(!validator.is_valid(&misspelt), "an unknown key");
            files += 1;
        }
        assert!(files >= 3, "{folder}");
    }
}

#[test]
fn a_written_plan_follows_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let validator = validator("plan");
    for scenario in ["vit-b32-mlp", "llama3-8b-ffn-down"] {
        let outcome = coexec_in(folder.path(), words(&format!("explore {scenario} --out plan.toml")));
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let document = value(&fs::read_to_string(folder.path().join("plan.toml")).unwrap());
        assert!(validator.is_valid(&document), "{:?}", validator.validate(&document));
    }
}

#[test]
fn the_schemas_refuse_what_the_command_refuses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let profile = fs::read_to_string(root.join("device-profiles/pixel4.toml")).unwrap();
    let validator = validator("profile");
    for (from, to) in [
        ("clock_mhz = 2840.0", "clock_ghz = 2.84"),
        ("clock_mhz = 2840.0", "clock_mhz = \"2840\""),
        ("cores = 1", "cores = -1"),
        ("family = \"adreno-6xx\"", "family = \"adreno-9xx\""),
    ] {
        assert!(!validator.is_valid(&value(&profile.replacen(from, to, 1))), "{to}");
    }
}
