//! Every number of a bundled profile has a source.

use std::path::Path;

use coexec_sim::device::Profile;
use toml::{Table, Value};

/// The profiles in the folder from which the bundled ones are compiled.
fn tables() -> Vec<(String, Table)> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../device-profiles"));
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut tables: Vec<(String, Table)> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(&path).unwrap().parse().unwrap())
        })
        .collect();
    tables.sort_by(|one, other| one.0.cmp(&other.0));
    tables
}

/// Paths of numbers without a source of their own or of an enclosing table.
fn without_source(path: &str, value: &Value, is_sourced: bool, found: &mut Vec<String>) {
    match value {
        Value::Table(table) => {
            let says =
                |key: &str| table.get(key).and_then(Value::as_str).is_some_and(|s| !s.trim().is_empty());
            // A published number names its paper.
            let is_sourced = is_sourced || says("source") || says("paper");
            for (key, inner) in table {
                without_source(&format!("{path}.{key}"), inner, is_sourced, found);
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                without_source(&format!("{path}[{index}]"), inner, is_sourced, found);
            }
        }
        Value::Integer(_) | Value::Float(_) if !is_sourced => found.push(path.to_owned()),
        _ => {}
    }
}

#[test]
fn every_number_has_a_source() {
    for (name, table) in tables() {
        let mut found = Vec::new();
        without_source(&name, &Value::Table(table), false, &mut found);
        assert_eq!(found, [""; 0]);
    }
}

/// Paths of tables of rates without a `basis`.
fn without_basis(path: &str, value: &Value, found: &mut Vec<String>) {
    const RATES: [&str; 4] = ["multiply_accumulate_ns", "launch_us", "array_dimension", "rate_factor"];
    match value {
        Value::Table(table) => {
            let basis = table.get("basis").and_then(Value::as_str);
            if RATES.iter().any(|key| table.contains_key(*key)) && basis.is_none() {
                found.push(path.to_owned());
            }
            for (key, inner) in table {
                without_basis(&format!("{path}.{key}"), inner, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| without_basis(path, item, found)),
        Value::Integer(_) | Value::Float(_) | Value::String(_) | Value::Boolean(_) | Value::Datetime(_) => {}
    }
}

#[test]
fn every_table_that_prices_depend_on_has_a_basis() {
    for (name, table) in tables() {
        let mut found = Vec::new();
        for part in ["cpu", "gpu", "npu"] {
            table.get(part).into_iter().for_each(|part| without_basis(&name, part, &mut found));
        }
        assert_eq!(found, [""; 0]);
    }
}

/// Whether the dotted `key` exists; an array is searched through its entries.
fn exists(value: &Value, key: &str) -> bool {
    let (first, rest) = key.split_once('.').map_or((key, None), |(first, rest)| (first, Some(rest)));
    match (value, value.get(first), rest) {
        (Value::Array(items), _, _) => items.iter().any(|item| exists(item, key)),
        (_, Some(inner), Some(rest)) => exists(inner, rest),
        (_, inner, _) => inner.is_some(),
    }
}

#[test]
fn published_values_set_existing_keys() {
    for (name, table) in tables() {
        let facts = table.get("used_fact").and_then(Value::as_array).cloned().unwrap_or_default();
        let profile = Value::Table(table);
        for fact in facts {
            let sets = fact["sets"].as_array().unwrap();
            assert!(!sets.is_empty(), "{name}: {fact:?}");
            for key in sets.iter().filter_map(Value::as_str) {
                assert!(exists(&profile, key), "{name}: {key} does not exist");
            }
        }
    }
}

#[test]
fn every_profile_is_bundled_and_loads_by_its_name_and_its_aliases() {
    let files: Vec<String> = tables().into_iter().map(|(name, _)| name).collect();
    let mut bundled: Vec<String> =
        Profile::bundled().unwrap().into_iter().map(|profile| profile.name).collect();
    bundled.sort_unstable();
    assert_eq!(bundled, files);
    for name in files {
        let profile = Profile::load(&name).unwrap();
        assert_eq!(profile.name, name);
        for alias in &profile.aliases {
            assert_eq!(Profile::load(alias).unwrap(), profile);
        }
    }
}

#[test]
fn names_and_aliases_of_devices_are_unique() {
    let profiles = Profile::bundled().unwrap();
    let mut names: Vec<&str> = profiles
        .iter()
        .flat_map(|profile| profile.aliases.iter().chain([&profile.name]).map(String::as_str))
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
