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
fn every_number_of_ours_in_the_accuracy_section_is_printed_by_the_command_it_names() {
    let section = README.split("## Is the number right?").nth(1).and_then(|rest| rest.split("\n##").next());
    let section = section.expect("the README has an accuracy section");
    // None of these numbers depends on how many operators of the sets are run.
    let output = printed("reproduce EPEW25 --every 500 --quiet");
    let mut header = Vec::new();
    let mut numbers = 0;
    for row in section.lines().filter(|line| line.starts_with('|')) {
        let row = cells(row);
        if !row.iter().any(|cell| cell.contains(char::is_numeric)) {
            // The header, or the line below it.
            header = if row.contains(&"---") { header } else { row };
            continue;
        }
        let [published, ours, deviation] = ["published", "coexec", "deviation"].map(|wanted| {
            header.iter().zip(&row).find(|(column, _)| **column == wanted).map(|(_, cell)| *cell)
        });
        let (Some(published), Some(ours), Some(deviation)) = (published, ours, deviation) else { continue };
        let is_row = |line: &str| [published, ours, deviation].iter().all(|cell| line.contains(*cell));
        assert!(output.lines().any(is_row), "{row:?} is not printed");
        numbers += 1;
    }
    assert_eq!(numbers, 10, "rows of published numbers beside ours");
}
