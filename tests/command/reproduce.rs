//! `coexec reproduce`: published numbers compared with ours.

use std::fs;

use crate::{coexec, coexec_in, words};

/// Only a few operators of the sets, which is enough for the tests.
const QUICK: &str = "reproduce EPEW25 --every 500 --quiet";

#[test]
fn each_published_number_of_a_paper_is_in_the_document_once_with_its_role() {
    let document = coexec(words(QUICK).chain(["--json"])).json();
    let groups = document["papers"][0]["groups"].as_array().unwrap();
    let rows: Vec<_> = groups.iter().flat_map(|group| group["rows"].as_array().unwrap()).collect();
    assert_eq!(rows.len(), 224);
    let with_role = |role: &str| rows.iter().filter(|row| row["role"] == role).count();
    // Rows that use Table 1's errors, and the abstract's two cells of Table 2, are not counted.
    assert_eq!(with_role("not-counted"), 44 + 2);
    let others = with_role("fitted") + with_role("not-counted") + with_role("not-reproduced");
    assert_eq!(with_role("predicted") + others, rows.len());
    assert!(rows.iter().all(|row| row["role"] == "not-reproduced" || !row["ours"].is_null()));
}

#[test]
fn a_figure_is_written_for_each_table_and_the_folder_made() {
    let folder = tempfile::tempdir().unwrap();
    let outcome = coexec_in(folder.path(), words(QUICK).chain(["--plots", "figures"]));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for name in ["speedup-linear", "speedup-conv", "networks", "synchronisation-linear"] {
        let figure = fs::read_to_string(folder.path().join(format!("figures/epew25-{name}.svg"))).unwrap();
        assert!(figure.contains("<svg"), "{name}");
    }
}

#[test]
fn a_missed_limit_is_a_status_of_its_own_and_names_the_groups() {
    let outcome = coexec(words("reproduce UnifiedSplitting --quiet --check"));
    assert_eq!(outcome.status, 2);
    assert!(outcome.stderr.contains("throughput gains"), "{}", outcome.stderr);
}

#[test]
fn means_over_few_operators_are_marked_and_have_no_limit() {
    let outcome = coexec(words(QUICK));
    let counted = "over every 500th operator: 5 of 2039 of epew-linear-sample, 5 of 2060 of epew-conv";
    assert!(outcome.stdout.contains(counted), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("not judged") && !outcome.stdout.contains("missed"));
    assert_eq!(coexec(words(QUICK).chain(["--check"])).status, 1);
    coexec(words("reproduce CoDL --every 500")).assert_refused(&["--every", "sets"]);
}

#[test]
fn a_paper_is_found_in_any_case_and_an_unknown_one_refused() {
    assert_eq!(coexec(words("reproduce unifiedsplitting --quiet")).status, 0);
    let outcome = coexec(words("reproduce EPEW26"));
    assert_eq!(outcome.status, 1);
    assert!(outcome.stderr.contains("EPEW25"), "{}", outcome.stderr);
}
