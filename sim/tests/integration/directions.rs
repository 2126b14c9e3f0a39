//! Dependencies point in one direction: between the crates, and between the modules of this one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of `sim/src`: each may use itself and those above it.
const MODULES: [&str; 14] = [
    "units",
    "statistics",
    "timeline",
    "input",
    "workload",
    "device",
    "kernel",
    "plan",
    "schedule",
    "engine",
    "simulate",
    "explore",
    "scenario",
    "lib",
];

/// Every crate with its folder and the crates of the project that it may depend on.
const CRATES: [(&str, &str, &[&str]); 7] = [
    ("coexec-sim", "sim", &[]),
    ("coexec-import", "import", &["coexec-sim"]),
    ("coexec-fit", "fit", &["coexec-sim", "coexec-import"]),
    ("coexec-plots", "plots", &["coexec-sim", "coexec-fit"]),
    ("coexec-hw", "hw", &["coexec-sim", "coexec-fit"]),
    ("coexec-papers", "papers", &["coexec-sim", "coexec-fit", "coexec-plots"]),
    (
        "coexec",
        "",
        &["coexec-sim", "coexec-import", "coexec-fit", "coexec-plots", "coexec-hw", "coexec-papers"],
    ),
];

/// The only crate that may have `unsafe`: it calls `OpenCL` and vector instructions.
const MAY_BE_UNSAFE: &str = "coexec-hw";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file below `folder`.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The code of a file without comments and without the tests at its end.
fn production(source: &str) -> String {
    let tests = source.find("#[cfg(test)]\nmod ").unwrap_or(source.len());
    let lines = source[..tests].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules that code names after `crate::`, in braces or not.
fn referenced_modules(code: &str) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let first_word = |text: &str| -> String {
        let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
        text[..end].to_owned()
    };
    for (start, prefix) in code.match_indices("crate::") {
        // `$crate::` in a macro names the same modules; `my_crate::` would be another crate.
        if code[..start].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
            continue;
        }
        let path = &code[start + prefix.len()..];
        let Some(group) = path.strip_prefix('{') else {
            named.insert(first_word(path));
            continue;
        };
        let mut depth = 0;
        let mut is_first = true;
        for (place, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_first = true,
                letter if is_first && !letter.is_whitespace() => {
                    named.insert(first_word(&group[place..]));
                    is_first = false;
                }
                _ => {}
            }
        }
    }
    named
}

#[test]
fn every_module_uses_only_modules_above_it() {
    let source = project().join("sim/src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let place = |module: &str| MODULES.iter().position(|known| *known == module);
    let mut uses = 0;
    for file in files.iter().filter(|file| file.file_name().is_some_and(|name| name != "tests.rs")) {
        let relative = file.strip_prefix(&source).unwrap();
        let module = relative.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let own = place(module).unwrap_or_else(|| panic!("{module} is missing in the order of modules"));
        for used in referenced_modules(&production(&fs::read_to_string(file).unwrap())) {
            let Some(other) = place(&used) else { continue };
            uses += 1;
            assert!(other <= own, "{}: {module} uses {used}, which is below it", relative.display());
        }
    }
    // If almost nothing is found, the search is broken.
    assert!(uses > 200, "only {uses} uses between modules were found");
}

#[test]
fn modules_are_found_in_paths_and_in_braces() {
    let code =
        "use crate::{units::Picos, plan::{Plan, shares}};\nlet x = crate::device::cpu();\nmy_crate::engine";
    let found: Vec<String> = referenced_modules(code).into_iter().collect();
    assert_eq!(found, ["device", "plan", "units"]);
}

#[test]
fn crates_depend_on_each_other_in_one_direction() {
    for (name, folder, may_use) in CRATES {
        let manifest = fs::read_to_string(project().join(folder).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some(name));
        for table in ["dependencies", "build-dependencies", "dev-dependencies"] {
            let named =
                manifest.get(table).and_then(toml::Value::as_table).into_iter().flat_map(|t| t.keys());
            for other in named.filter(|other| other.starts_with("coexec")) {
                assert!(may_use.contains(&other.as_str()), "{name} depends on {other}");
            }
        }
    }
    let workspace: toml::Table = fs::read_to_string(project().join("Cargo.toml")).unwrap().parse().unwrap();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    for member in members.iter().filter_map(toml::Value::as_str) {
        assert!(
            CRATES.iter().any(|(_, folder, _)| *folder == member),
            "{member} is missing in the list of crates"
        );
    }
}

#[test]
fn every_crate_but_one_forbids_unsafe_code() {
    for (name, folder, _) in CRATES {
        let root =
            project().join(folder).join("src").join(if folder.is_empty() { "main.rs" } else { "lib.rs" });
        let forbids = fs::read_to_string(&root).unwrap().contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, name != MAY_BE_UNSAFE, "{}", root.display());
    }
}
