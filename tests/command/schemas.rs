//! The JSON Schemas in the repository are those of the file formats.

use std::fs;
use std::path::Path;

use crate::coexec;

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
