//! The README shows what the command prints.

use crate::{Outcome, coexec, words};

const README: &str = include_str!("../../README.md");

fn printed(line: &str) -> String {
    let Outcome { status, stdout, stderr } = coexec(words(line));
    assert_eq!(status, 0, "{stderr}");
    stdout
}

#[test]
fn the_first_result_is_what_the_readme_shows() {
    let shown = README.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let printed = printed("explore vit-b32-mlp --device oneplus11");
    assert_eq!(shown.map(str::trim_end), Some(printed.trim_end()), "paste the new output into README.md");
}

/// The cells of a table row.
fn cells(row: &str) -> Vec<&str> {
    row.split('|').map(str::trim).collect()
}

#[test]
fn every_time_of_ours_in_the_accuracy_section_is_printed_by_a_command_it_names() {
    let section = README.split("## Is the number right?").nth(1).and_then(|rest| rest.split("\n##").next());
    let section = section.expect("the README has an accuracy section");
    let outputs: String = section
        .lines()
        .filter_map(|line| line.strip_prefix("coexec "))
        .filter_map(|line| line.split('#').next())
        .map(printed)
        .collect();
    let mut header = Vec::new();
    let mut times = 0;
    for row in section.lines().filter(|line| line.starts_with('|')) {
        let row = cells(row);
        if row.contains(&"coexec") {
            header = row;
            continue;
        }
        let ours = header.iter().zip(&row).filter(|(column, _)| **column == "coexec");
        for (_, time) in ours.filter(|(_, cell)| cell.ends_with(" us") || cell.ends_with(" ms")) {
            assert!(outputs.contains(*time), "{time} of {row:?} is not printed");
            times += 1;
        }
    }
    assert_eq!(times, 6 + 16, "times of ours in the two tables");
}
