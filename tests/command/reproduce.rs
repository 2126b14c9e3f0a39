//! `coexec reproduce`: published numbers beside ours.

use std::fs;

use crate::{coexec, coexec_in, words};

/// Few operators of the sets, which the tests need no more of.
const QUICK: &str = "reproduce EPEW25 --every 500 --quiet";

#[test]
fn each_published_number_of_a_paper_is_in_the_document_once_with_its_role() {
    let document = coexec(words(QUICK).chain(["--json"])).json();
    let groups = document["papers"][0]["groups"].as_array().unwrap();
    let rows: Vec<_> = groups.iter().flat_map(|group| group["rows"].as_array().unwrap()).collect();
    assert_eq!(rows.len(), 224);
    let with_role = |role: &str| rows.iter().filter(|row| row["role"] == role).count();
    assert_eq!(with_role("predicted") + with_role("fitted") + with_role("not-reproduced"), rows.len());
    assert!(with_role("predicted") > 10 * with_role("fitted"));
    assert!(rows.iter().all(|row| row["role"] == "not-reproduced" || !row["ours"].is_null()));
}

#[test]
fn a_figure_is_written_for_each_table_and_the_folder_made() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = coexec_in(folder.path(), words(QUICK).chain(["--plots", "figures"]));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for name in ["speedup-linear", "speedup-conv", "networks", "synchronisation-linear", "crossover"] {
        let figure = fs::read_to_string(folder.path().join(format!("figures/epew25-{name}.svg"))).unwrap();
        assert!(figure.contains("<svg"), "{name}");
    }
}

#[test]
fn a_missed_limit_is_a_status_of_its_own_and_names_the_groups() {
    let outcome = coexec(words(QUICK).chain(["--check"]));
    assert_eq!(outcome.status, 2);
    assert!(outcome.stderr.contains("Table 3: GPU alone"), "{}", outcome.stderr);
}

#[test]
fn a_paper_is_found_in_any_case_and_an_unknown_one_refused() {
    assert_eq!(coexec(words("reproduce unifiedsplitting --every 500 --quiet")).status, 0);
    let outcome = coexec(words("reproduce EPEW26"));
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr.contains("EPEW25"), "{}", outcome.stderr);
}
